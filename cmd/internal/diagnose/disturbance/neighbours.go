package disturbance

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

const (
	slice = 20 * time.Millisecond
	// noisy is how many CPUs others may use in a slice that counts. Kernel threads and what is installed anywhere use less.
	noisy = 0.2
	// atOnce is how long a reading may take, and how far the counters of the server and of ours may go meanwhile.
	atOnce = 500 * time.Microsecond
	// listEvery is after how many readings the groups of v2 are listed again. What a new one uses before that is not seen.
	listEvery = 50
	// familyEvery is after how many readings to look for what was started besides.
	familyEvery = 10
	// shortest is how long a slice is at least. Where a reading came late the next may follow at once, and the counters, which are not
	// read at the same moment, differ by more than was used in between.
	shortest = slice / 2
	// pointEvery is how far the points of the sum are apart at least: a load may last for days.
	pointEvery = 200 * time.Millisecond
)

// A reading is what had been used at a time.
type reading struct {
	at          time.Duration
	whole       map[string]time.Duration // of the whole machine, by groups none of which is in another
	server, own time.Duration
}

// others is what others used between two readings. It may be a little below zero: the counters are not read at the same moment.
func (now reading) others(before reading) time.Duration {
	used := -since(now.server, before.server) - since(now.own, before.own)
	for group, n := range now.whole {
		if b, known := before.whole[group]; known { // what one that has gone or come has used is not known
			used += since(n, b)
		}
	}
	return used
}

// since is how far a counter went. One that has gone back began again.
func since(now, before time.Duration) time.Duration {
	if now < before {
		return now
	}
	return now - before
}

// Neighbours knows when other programs used the machine's CPUs since it was started, besides a server in a group of its own and the
// processes that measure it: slices of time in which others used more than a fifth of a CPU.
//
// Others' CPU time is that of the whole machine less that of the server's group less our own, in nanoseconds, every 20 ms. What the
// measuring program has started besides, such as another server with its load, counts as our own. A reading that comes late makes a slice
// longer, and its rate is still right. A thread with priority over all others, such as the one that finds pauses, doesn't see this: it has
// priority over the neighbours too. Linux only, and the server needs a limited group in which we are not.
//
// What the server itself keeps busy elsewhere, such as its database, is a neighbour here.
type Neighbours struct {
	Record

	last reading // without a whole: there was none yet

	mu     sync.Mutex
	now    point
	points []point

	stop chan struct{}
	done chan struct{}
}

// A point is a time and what others had used by then.
type point struct{ at, others time.Duration }

// StartNeighbours begins to look. The server is a process; ours are those that measure it, besides this one, and the one that started it,
// with all that it has started, if that is the same program. There is an error where it can't be known what others use.
func StartNeighbours(server int, ours ...int) (*Neighbours, error) {
	r, err := open("", server)
	if err != nil {
		return nil, err
	}
	if !r.outside {
		r.ours = append(r.ours, ours...)
	}
	r.parent = parent()
	return watchNeighbours(r)
}

// watchNeighbours begins to look at what r reads.
func watchNeighbours(r *reader) (*Neighbours, error) {
	w := &Neighbours{Record: Record{Zero: time.Now()}, stop: make(chan struct{}), done: make(chan struct{})}
	now, err := r.read(w.Zero)
	switch {
	case err == nil:
		w.add(now)
	case !errors.Is(err, errSlow):
		r.close()
		return nil, err
	}
	go func() {
		defer close(w.done)
		defer r.close()
		defer w.End()
		tick := time.NewTicker(slice)
		defer tick.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-tick.C:
				if now, err := r.read(w.Zero); err == nil { // else the slice gets longer
					w.add(now)
				}
			}
		}
	}()
	return w, nil
}

// add ends a slice, and the first one begins one.
func (w *Neighbours) add(now reading) {
	if w.last.whole == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.last, w.now = now, point{at: now.at}
		w.points = []point{w.now}
		return
	}
	lasted := now.at - w.last.at
	if lasted < shortest {
		return // the next has its time too
	}
	used := now.others(w.last)
	w.mu.Lock()
	w.now.at = now.at
	w.now.others += used
	if now.at-w.points[len(w.points)-1].at >= pointEvery {
		w.points = append(w.points, w.now)
	}
	w.mu.Unlock()
	if used.Seconds() > noisy*lasted.Seconds() {
		w.Add(now.at, Span{From: w.last.at, To: now.at})
	} else {
		w.Add(now.at)
	}
	w.last = now
}

// CPUs is how many CPUs others used on average, between the points nearest to two times; 0 where that is not known.
func (w *Neighbours) CPUs(from, to time.Time) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.points) == 0 {
		return 0
	}
	a, b := w.nearest(from.Sub(w.Zero)), w.nearest(to.Sub(w.Zero))
	if b.at <= a.at {
		return 0
	}
	return max(0, (b.others-a.others).Seconds()/(b.at-a.at).Seconds())
}

func (w *Neighbours) nearest(at time.Duration) point {
	best := w.points[0]
	for _, p := range w.points {
		if (p.at - at).Abs() < (best.at - at).Abs() {
			best = p
		}
	}
	return best
}

// Stop ends it. What it knows stays known.
func (w *Neighbours) Stop() {
	close(w.stop)
	<-w.done
}

// A reader takes readings.
type reader struct {
	source cgroup.Source // the server
	limits cgroup.Limits
	tree   *foreign.Tree

	groups []string // whose sum is the whole machine
	reads  int

	ours    []int        // processes whose CPU time is not others', 0 being this one
	outside bool         // they are not in the groups
	parent  int          // whose descendants are ours, too; 0: none are
	family  []*kin       // they
	seen    map[int]bool // processes that were looked at for it
	used    map[int]time.Duration
	above   []string // groups that we are in
	clock   func(pid int) (time.Duration, error)
}

var (
	errNoGroup = errors.New("the server has no limited group of its own")
	errInside  = errors.New("who measures is in the server's group")
	errSlow    = errors.New("reading CPU times: not at once")
)

// open finds the groups below root, "" being this system.
func open(root string, server int) (*reader, error) {
	r := &reader{source: cgroup.Source{Root: root, PID: server}, used: map[int]time.Duration{}, seen: map[int]bool{}, clock: cpuTime, ours: []int{0}}
	r.limits = cgroup.Read(r.source)
	top := r.limits.Mount.Point
	if r.limits.State != cgroup.Limited || r.limits.From == top {
		return nil, errNoGroup
	}
	own := cgroup.Read(cgroup.Source{Root: root})
	for _, level := range own.Levels {
		r.above = append(r.above, level.Dir)
		if level.Dir == r.limits.From {
			return nil, errInside
		}
	}
	switch r.limits.Version {
	case cgroup.V1:
		r.groups = []string{top} // it counts what is below it as well, in nanoseconds
	case cgroup.V2: // the root's own is counted in ticks, and what is not in a group below it is not seen
		if len(own.Levels) < 2 {
			r.ours, r.outside = nil, true
		}
	}
	r.tree = foreign.Open(root)
	return r, nil
}

func (r *reader) close() { r.tree.Close() }

// read takes a reading.
func (r *reader) read(zero time.Time) (now reading, err error) {
	if r.limits.Version == cgroup.V2 && r.reads%listEvery == 0 {
		if err := r.list(); err != nil {
			return now, err
		}
	}
	if r.parent != 0 && r.reads%familyEvery == 0 {
		r.look()
	}
	r.reads++
	began := time.Now()
	if now.server, now.own, err = r.known(); err != nil {
		return now, err
	}
	now.whole = map[string]time.Duration{}
	for _, group := range r.groups {
		if c := cgroup.ReadCounters(r.source, r.limits, group); c.CPUKnown {
			now.whole[group] = c.CPU
		}
	}
	if len(now.whole) == 0 {
		return now, errors.New("reading CPU times: no group counts them")
	}
	// What runs is counted by the kernel's ticks of 4 or 10 ms: one that comes in between is in the whole, and was not in these.
	server, own, err := r.known()
	if err != nil {
		return now, err
	}
	if time.Since(began) > atOnce || server-now.server+own-now.own > atOnce {
		return now, errSlow
	}
	now.at = began.Sub(zero)
	return now, nil
}

// known is what the processes that aren't neighbours have used.
func (r *reader) known() (server, own time.Duration, err error) {
	for _, pid := range r.ours {
		if used, err := r.clock(pid); err == nil { // one that has ended uses nothing more
			r.used[pid] = used
		}
		own += r.used[pid]
	}
	for _, k := range r.family {
		own += r.since(k)
	}
	c := cgroup.ReadCounters(r.source, r.limits, r.limits.From)
	if !c.CPUKnown {
		return 0, 0, fmt.Errorf("reading the CPU time of %s: %w", r.limits.From, errNoGroup)
	}
	return c.CPU, own, nil
}

// kin is what was started besides the server and us: a process, or a limited group that one is in.
type kin struct {
	pid        int
	group      string
	base, used time.Duration // when it was found, and now
}

// since is what one of the family has used since it was found.
func (r *reader) since(k *kin) time.Duration {
	if k.group != "" {
		if c := cgroup.ReadCounters(r.source, r.limits, k.group); c.CPUKnown {
			k.used = c.CPU
		}
	} else if used, err := r.clock(k.pid); err == nil {
		k.used = used
	}
	return k.used - k.base
}

// look finds what was started besides.
func (r *reader) look() {
	self := os.Getpid()
	for _, pid := range procs.Descendants(r.source.Root, r.parent) {
		if r.seen[pid] || pid == self || slices.Contains(r.ours, pid) {
			continue
		}
		r.seen[pid] = true
		k := &kin{pid: pid}
		if l := cgroup.Read(cgroup.Source{Root: r.source.Root, PID: pid}); l.State == cgroup.Limited && !slices.Contains(r.above, l.From) {
			k.group = l.From
		}
		if k.group == "" && r.outside {
			continue
		}
		same := func(other *kin) bool { return k.group != "" && other.group == k.group }
		if k.group == r.limits.From || slices.ContainsFunc(r.family, same) {
			continue
		}
		r.since(k)
		k.base = k.used
		r.family = append(r.family, k)
	}
}

// list finds the groups just below the root of v2.
func (r *reader) list() error {
	top := r.limits.Mount.Point
	names, err := r.tree.Names(top, foreign.Files)
	if err != nil {
		return fmt.Errorf("listing groups: %w", err)
	}
	r.groups = r.groups[:0]
	for _, name := range names {
		if dir := path.Join(top, name); cgroup.ReadCounters(r.source, r.limits, dir).CPUKnown {
			r.groups = append(r.groups, dir)
		}
	}
	return nil
}

// parent is the process that started this one, if it is the same program; 0: it is another.
func parent() int {
	pid := os.Getppid()
	own, err := foreign.Link("", "/proc/self/exe")
	if err != nil {
		return 0
	}
	if theirs, err := foreign.Link("", "/proc/"+strconv.Itoa(pid)+"/exe"); err != nil || theirs != own {
		return 0
	}
	return pid
}
