// Package sidecar answers: what does this command do inside the pods of a study? Watch runs in a container alongside others and keeps
// writing what these use, as lines of JSON; anyone who reads them later, from the container's log, gets what a container has used between
// two times. Expire runs in a pod of its own and deletes the study's namespace once its owner is gone.
//
// Watch asks for no right of the cluster and for no capability, but for the pod's process namespace. A container's group is seen through
// the mounts of one of its processes, /proc/PID/root, which the kernel shows to a process that runs as the same user and has no fewer
// capabilities: Become does that where it starts as root. What may not be seen is reported with the reason. The throttling of levels above
// a container, such as the pod's own limit, is not visible from in there.
package sidecar

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// A Line is what was seen at one time.
type Line struct {
	At         time.Time        `json:"at"`
	Host       procs.HostMoment `json:"host"`                // the node's CPUs
	CPUModel   string           `json:"cpu_model,omitempty"` // theirs, in the first line; "": it is not known
	Containers []Container      `json:"containers"`
}

// A Container is what is known of one.
type Container struct {
	ID       string          `json:"id"`
	Counters cgroup.Counters `json:"counters"`
	CPUs     float64         `json:"limit_cpus"`        // 0: none, or not known
	Peak     int64           `json:"peak_memory_bytes"` // 0: not known
	Procs    int             `json:"gomaxprocs"`        // of its Go program with the lowest pid; 0: not known
	Ran      time.Duration   `json:"ran_ns"`            // of the threads that it has now; 0: not known
	Waited   time.Duration   `json:"waited_ns"`         // that these waited for a CPU
	Refused  string          `json:"refused,omitempty"` // why nothing of this is known
}

// idLength is that of a container's ID in hexadecimal digits.
const idLength = 64

// ContainerID finds the ID of a container in the text of /proc/PID/cgroup: the last one, as containers may run in containers. What
// is in no container, or in the reader's own where that has a namespace for cgroups, has none.
//
//	0::/../cri-containerd-3f…9c.scope
//	4:cpu,cpuacct:/kubepods/burstable/pod0d…11/3f…9c
func ContainerID(text string) string {
	id := ""
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) < 3 {
			continue
		}
		if found := lastID(fields[2]); found != "" {
			id = found
		}
	}
	return id
}

func lastID(path string) string {
	digits := 0
	for i := len(path) - 1; i >= -1; i-- {
		if i >= 0 && strings.IndexByte("0123456789abcdef", path[i]) >= 0 {
			digits++
			continue
		}
		if digits == idLength {
			return path[i+1 : i+1+idLength]
		}
		digits = 0
	}
	return ""
}

// Read reads lines. What is none is passed over, as a log also has what its container wrote when it failed; so is a line that was
// cut off.
func Read(r io.Reader) (lines []Line, err error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var l Line
		if json.Unmarshal(s.Bytes(), &l) == nil && !l.At.IsZero() {
			lines = append(lines, l)
		}
	}
	slices.SortStableFunc(lines, func(a, b Line) int { return a.At.Compare(b.At) })
	return lines, s.Err()
}

// A Seen is what a container did between two times.
type Seen struct {
	Begin, End Line // the lines that it is from
	Counters   cgroup.Counters
	Last       Container // as it was in the end
	Between    time.Duration
	Waits      float64 // seconds that its threads waited for a CPU, for each second that they had one; 0: not known
}

// ErrUnseen is the error of times of which too little was seen.
type ErrUnseen struct {
	Why    string
	Passes bool // it may be seen the next time: the meter stood still, or came too late
}

func (e *ErrUnseen) Error() string { return e.Why }

// gap is by how much the lines may miss the times that are asked for: more would make another time of it.
const gap = time.Second

// fewest is how many lines there must be within two times, so that what they miss of it doesn't count. Where there are fewer, the
// lines before and after are taken in: beyond a window as short as that little happens.
const fewest = 6

// Between says what a container did from the first line that is not before begin to the last that is not after end. The times are
// those of the node's clock, which is also that of a load that was sent from the same node.
func Between(lines []Line, id string, begin, end time.Time) (Seen, error) {
	var s Seen
	var of []int // lines that have the container
	refused := ""
	for i, l := range lines {
		switch c := l.of(id); {
		case c == nil:
		case c.Refused != "":
			if !l.At.Before(begin) && !l.At.After(end) {
				refused = cmp.Or(refused, c.Refused)
			}
		default:
			of = append(of, i)
		}
	}
	first := slices.IndexFunc(of, func(i int) bool { return !lines[i].At.Before(begin) })
	last := len(of) - 1
	for last >= 0 && lines[of[last]].At.After(end) {
		last--
	}
	short := first >= 0 && last-first+1 < fewest
	if short {
		first, last = max(0, first-1), min(len(of)-1, last+1)
	}
	if first < 0 || last <= first {
		if refused != "" {
			return s, &ErrUnseen{refused, false}
		}
		return s, &ErrUnseen{fmt.Sprintf("%d lines of the meter, and none about this container during the load", len(lines)), true}
	}
	s.Begin, s.End = lines[of[first]], lines[of[last]]
	if s.Begin.At.Sub(begin).Abs() > gap || end.Sub(s.End.At).Abs() > gap {
		saw, of := s.End.At.Sub(s.Begin.At).Round(time.Millisecond), end.Sub(begin).Round(time.Millisecond)
		return s, &ErrUnseen{fmt.Sprintf("the meter stood still: it saw %s of %s", saw, of), true}
	}
	s.Last = *s.End.of(id)
	was := s.Begin.of(id)
	s.Counters, s.Between = s.Last.Counters.Since(was.Counters), s.End.At.Sub(s.Begin.At)
	if ran, waited := s.Last.Ran-was.Ran, s.Last.Waited-was.Waited; was.Ran > 0 && ran > 0 && waited > 0 { // else threads have ended
		s.Waits = waited.Seconds() / ran.Seconds()
	}
	if short {
		s.Between = end.Sub(begin)
	}
	return s, nil
}

// Used is how much CPU time some containers used meanwhile, as far as is known.
func (s Seen) Used(ids []string) (sum time.Duration) {
	for _, id := range ids {
		if before, after := s.Begin.of(id), s.End.of(id); before != nil && after != nil {
			sum += after.used(*before)
		}
	}
	return sum
}

// used is how much CPU time a container used since: what its group counts, or its threads where that may not be seen, as another user's.
func (c Container) used(before Container) time.Duration {
	if c.Counters.CPUKnown && before.Counters.CPUKnown {
		return c.Counters.Since(before.Counters).CPU
	}
	return max(0, c.Ran-before.Ran)
}

// of is a container; nil: none has this ID.
func (l Line) of(id string) *Container {
	i := slices.IndexFunc(l.Containers, func(c Container) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &l.Containers[i]
}
