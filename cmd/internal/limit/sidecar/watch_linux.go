package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/golive"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// Interval is how often a line is written by default: the CPU time between two lines is what a window's may be wrong by.
const Interval = 100 * time.Millisecond

// askEvery is how many lines apart GOMAXPROCS is read, which takes more than a counter.
const askEvery = 10

// A watcher looks at the containers other than its own.
type watcher struct {
	own  string             // ID of its own container; "": it does not see it
	pids map[string][]int   // by ID: a container's processes, first that through which it is seen
	live map[int]*liveProcs // by pid
	left int                // threads whose times may be read for this line
	n    int
}

// liveProcs is a Go program's GOMAXPROCS as it was read last.
type liveProcs struct {
	process *golive.Process
	procs   int
	tries   int
}

// mostTries is how often a program is looked at that does not seem to be Go's: at first it is the runtime's, which then becomes it.
const mostTries = 10

func (l *liveProcs) end() {
	if l.process != nil {
		l.process.Close()
	}
}

// Watch writes a line at every interval until ctx is done.
func Watch(ctx context.Context, w io.Writer, interval time.Duration) error {
	text, err := foreign.ReadRecord("", "/proc/self/cgroup", foreign.Group)
	if err != nil {
		return fmt.Errorf("reading its own cgroup: %w", err)
	}
	x := &watcher{own: ContainerID(string(text)), live: map[int]*liveProcs{}}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	out := json.NewEncoder(w)
	for {
		if err := out.Encode(x.look()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (x *watcher) look() Line {
	x.n++
	l := Line{Containers: []Container{}}
	if x.n == 1 {
		l.CPUModel = procs.CPUModel()
	}
	ids := x.find()
	l.Host = procs.HostNow()
	l.At = time.Now()
	x.left = mostThreads
	for _, id := range ids {
		l.Containers = append(l.Containers, x.container(id))
	}
	return l
}

// find lists the other containers, and notes a process of each: the one with the lowest pid, from which the others descend. PID 1 is the
// pod's own, which does nothing.
func (x *watcher) find() (ids []string) {
	found := map[string][]int{}
	pids, _ := procs.List("")
	for _, pid := range pids {
		if pid == 1 || pid == os.Getpid() {
			continue
		}
		text, err := foreign.ReadRecord("", procs.Dir("", pid)+"/cgroup", foreign.Group)
		if err != nil {
			continue
		}
		id := ContainerID(string(text))
		if id == "" || id == x.own {
			continue
		}
		found[id] = append(found[id], pid)
	}
	for id := range found {
		slices.Sort(found[id])
		ids = append(ids, id)
	}
	for pid := range x.live {
		if !slices.ContainsFunc(ids, func(id string) bool { return found[id][0] == pid }) {
			x.live[pid].end()
			delete(x.live, pid)
		}
	}
	slices.Sort(ids)
	x.pids = found
	return ids
}

func (x *watcher) container(id string) Container {
	pid := x.pids[id][0]
	c := Container{ID: id}
	c.Ran, c.Waited = x.threads(x.pids[id])
	t := foreign.Open("")
	defer t.Close()
	if _, err := t.Stat(fmt.Sprintf("/proc/%d/root/.", pid)); err != nil {
		c.Refused = refusal(pid, err)
		return c
	}
	source := cgroup.Source{PID: pid, Inside: true}
	limits := cgroup.Read(source)
	c.Counters, c.CPUs = cgroup.ReadThrottling(source, limits).Owner, limits.CPUs
	c.Peak = peak(t, pid)
	c.Procs = x.procs(pid)
	return c
}

// mostThreads is how many threads' times are read, one by one, with each line. More would take the CPU time that is being measured: a pod
// may see all processes of its node.
const mostThreads = 200

// threads is how long those of some processes ran, and waited for a CPU; 0: there are too many.
func (x *watcher) threads(pids []int) (ran, waited time.Duration) {
	for _, pid := range pids {
		names, err := foreign.Names("", procs.Dir("", pid)+"/task", x.left)
		if err != nil {
			return 0, 0
		}
		x.left -= len(names)
		s, _ := procs.ReadSchedstat("", pid)
		ran, waited = ran+s.Run, waited+s.Waited
	}
	return ran, waited
}

// refusal says why a container may not be looked at, and what to do.
func refusal(pid int, err error) string {
	if !errors.Is(err, fs.ErrPermission) {
		return err.Error()
	}
	uid, gid, known := owner(pid)
	if !known {
		return "its processes may not be looked at"
	}
	return fmt.Sprintf("it runs as user %d of group %d, and what looks at it as user %d of group %d: securityContext.runAsUser and runAsGroup in the pod's spec make them the same",
		uid, gid, os.Geteuid(), os.Getegid())
}

// peak is the most memory that a container had; 0: that is not counted. A container's own files are where every runtime mounts them.
func peak(t *foreign.Tree, pid int) int64 {
	for _, name := range []string{"memory.peak", "memory/memory.max_usage_in_bytes"} {
		text, err := t.ReadGroup(fmt.Sprintf("/proc/%d/root/sys/fs/cgroup/%s", pid, name), foreign.Group)
		if err != nil {
			continue
		}
		n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		return max(n, 0)
	}
	return 0
}

// procs reads GOMAXPROCS now and then. A program that isn't a Go program, or may not be looked into, has none.
func (x *watcher) procs(pid int) int {
	l := x.live[pid]
	switch {
	case l == nil:
		l = &liveProcs{}
		x.live[pid] = l
	case x.n%askEvery != 0:
		return l.procs
	}
	if l.process == nil && l.tries < mostTries {
		l.tries++
		l.process, _ = golive.Open("", pid)
	}
	if l.process == nil {
		return 0
	}
	if v, err := l.process.GOMAXPROCS(); err == nil {
		l.procs = v.Procs
	}
	return l.procs
}

// owner is the user and the group that a process runs as: the second of the four numbers of its lines in /proc/PID/status.
//
//	Uid:	1000	1000	1000	1000
func owner(pid int) (uid, gid int, ok bool) {
	text, err := foreign.ReadRecord("", fmt.Sprintf("/proc/%d/status", pid), foreign.Record)
	if err != nil {
		return 0, 0, false
	}
	return parseOwner(string(text))
}

// Become makes us the user and the group of the other containers, if they all run as the same, and we are root and allowed to. It waits for
// the first of them. It can't be undone, which is intended: root isn't needed for anything.
func Become(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return nil
	}
	text, err := foreign.ReadRecord("", "/proc/self/cgroup", foreign.Group)
	if err != nil {
		return err
	}
	x := &watcher{own: ContainerID(string(text)), live: map[int]*liveProcs{}}
	for len(x.find()) == 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(Interval):
		}
	}
	first, uid, gid := true, 0, 0
	for _, pids := range x.pids {
		u, g, ok := owner(pids[0])
		if !ok || !first && (u != uid || g != gid) {
			return nil
		}
		first, uid, gid = false, u, g
	}
	if uid == 0 {
		return nil
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("giving up its groups: %w", err)
	}
	if err := syscall.Setgid(gid); err != nil {
		return fmt.Errorf("becoming group %d: %w", gid, err)
	}
	if err := syscall.Setuid(uid); err != nil {
		return fmt.Errorf("becoming user %d: %w", uid, err)
	}
	return nil
}
