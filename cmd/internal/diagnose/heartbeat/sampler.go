package heartbeat

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// A Sample is what the kernel has counted up to some moment.
type Sample struct {
	At         time.Time
	Throttling cgroup.Throttling

	// How long the group's threads ran, and how long they could have run and waited, counting those seen in two readings. The heartbeat's
	// and our own are left out.
	Run, Waited  time.Duration
	ThreadsKnown bool
	Threads      int // at the last reading
	Unread       int // threads beyond the most that are read

	Group, System procs.Pressure // of the group (cgroup v2 only), and of the whole system

	Busy, Steal time.Duration // CPU time of the host, summed over CPUs; what a hypervisor took
	CPUs        int           // of the host; 0: not known
}

// threadsMost is how many threads are read: a reading takes some 5 µs each, and is done once a second.
const threadsMost = 512

// A Sampler reads what the kernel counts of a group.
type Sampler struct {
	root   string
	pid    int
	limit  cgroup.Limits
	except []int

	threads     map[string]procs.Schedstat // the last reading of each, by "PID/TID"
	run, waited time.Duration
}

// NewSampler makes a sampler of the group that process pid, 0 being this one, is in, except for some processes. Files are
// read below root, "" being "/".
func NewSampler(root string, pid int, limit cgroup.Limits, except ...int) *Sampler {
	return &Sampler{root: root, pid: pid, limit: limit, except: except}
}

// Sample takes the next sample.
func (s *Sampler) Sample() Sample {
	out := Sample{At: time.Now(), Throttling: cgroup.ReadThrottling(cgroup.Source{Root: s.root, PID: s.pid}, s.limit)}
	t := foreign.Open(s.root)
	defer t.Close()
	s.readThreads(t, &out)
	if len(s.limit.Levels) > 0 && s.limit.Version == cgroup.V2 {
		out.Group = procs.ReadGroupPressure(t, s.limit.Levels[0].Dir)
	}
	out.System = procs.ReadPressure(s.root)
	if host, ok := procs.ReadHostTimes(s.root); ok {
		out.Busy, out.Steal, out.CPUs = host.Busy, host.Steal, host.CPUs
	}
	return out
}

// readThreads adds what the group's threads ran and waited since the last reading. A new thread adds nothing yet,
// one that has ended nothing more.
func (s *Sampler) readThreads(t *foreign.Tree, out *Sample) {
	now := map[string]procs.Schedstat{}
	for _, pid := range s.processes(t) {
		dir := procs.Dir("", pid) + "/task"
		tasks, err := t.Names(dir, foreign.Threads)
		if err != nil {
			continue // it has ended, or belongs to another user
		}
		for _, task := range tasks {
			if len(now) == threadsMost {
				out.Unread++
				continue
			}
			data, err := t.ReadRecord(dir+"/"+task+"/schedstat", foreign.Record)
			if err != nil {
				continue
			}
			st, ok := procs.ParseSchedstat(string(data))
			if !ok {
				continue
			}
			name := strconv.Itoa(pid) + "/" + task
			if before, ok := s.threads[name]; ok && st.Run >= before.Run && st.Waited >= before.Waited {
				s.run += st.Run - before.Run
				s.waited += st.Waited - before.Waited
			}
			now[name] = st
		}
	}
	s.threads = now
	out.Run, out.Waited, out.Threads, out.ThreadsKnown = s.run, s.waited, len(now), len(now) > 0
}

// processes are those of the group, or the process alone if they can't be read.
func (s *Sampler) processes(t *foreign.Tree) (pids []int) {
	if len(s.limit.Levels) > 0 {
		text, _ := t.ReadGroup(s.limit.Levels[0].Dir+"/cgroup.procs", foreign.Members)
		for _, word := range strings.Fields(string(text)) {
			// 0 is a process outside of our PID namespace.
			if pid, err := strconv.Atoi(word); err == nil && pid > 0 && !slices.Contains(s.except, pid) {
				pids = append(pids, pid)
			}
		}
	}
	if len(pids) == 0 && s.pid > 0 {
		pids = []int{s.pid}
	}
	return pids
}
