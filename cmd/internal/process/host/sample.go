package host

import (
	"cmp"
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/golive"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// A watch is a process that is being looked at.
type watch struct {
	p    *Process
	live *golive.Process // nil: its memory can't be read
	root string
	gone bool

	start  time.Time
	last   glance // the survey's last one; zero: there was none
	before reading
	delay  queue // a little later, when it is known whether the process does anything

	// The last sample, and sums over time since the first one.
	at                time.Time
	cpu               time.Duration
	running, spinning int
	ran, spun, seen   float64 // seconds, of all Ps
	awake             float64 // seconds in which some P ran
	frozen            time.Duration
	freezing          bool
}

// A reading holds the counters of a process.
type reading struct {
	at time.Time
	glance
	throttling cgroup.Throttling
	pressure   procs.Pressure
}

// A glance is the state of a process's scheduler and collector when it had used that much CPU time. One is kept for each process: it is
// small.
type glance struct {
	cpu        time.Duration
	sched      scheduler
	schedKnown bool
	collector  *golive.Collector // nil: not known
}

// A scheduler is what is of use here of a golive.Sched.
type scheduler struct {
	procs, running, spinning int
	custom, customKnown      bool
	collections              uint32
	collectionsKnown         bool
	switched                 uint64 // goroutines that began to run
}

func newScheduler(s *golive.Sched) scheduler {
	return scheduler{
		procs: s.Procs, running: s.Running, spinning: s.Spinning, custom: s.Custom, customKnown: s.CustomKnown,
		collections: s.Collections, collectionsKnown: s.CollectionsKnown, switched: 8 * s.Waits, // one in eight is counted
	}
}

// A queue is how long the threads of a process have waited for a CPU by some time.
type queue struct {
	at     time.Time
	cpu    time.Duration
	waited time.Duration
	known  bool
}

const (
	often    = 10 * time.Millisecond // between samples, and a tenth of a short period; with many processes they are farther apart
	soonest  = 2 * time.Millisecond  // between samples
	ownShare = 0.025                 // of a CPU, for samples
	tooFar   = 13 * time.Millisecond // between samples, to see a freeze; and a seventh of the period
	active   = 0.01                  // of a CPU: what uses less is not asked for its threads' delays
)

// An observation watches processes. Those about which the kernel no longer says anything are left behind.
type observation struct {
	root    string
	watched []*watch
	left    map[int]*foreign.Left
}

// observe watches the processes, and the system they are on, for a time. It may use that share of a CPU; 0: ownShare.
func (o *observation) observe(ctx context.Context, lasting time.Duration, share float64) (System, error) {
	system := System{CPUs: runtime.NumCPU()}
	if lasting <= 0 {
		return system, nil
	}
	before := readSystem(o.root)
	if err := o.sampleAll(ctx, lasting, cmp.Or(share, ownShare)); err != nil {
		return system, err
	}
	if found := before.until(readSystem(o.root)); found.CPUs > 0 {
		system = found
	}
	return system, nil
}

// sampleAll looks at the processes as often as it may, for a share of a CPU.
func (o *observation) sampleAll(ctx context.Context, lasting time.Duration, share float64) error {
	if err := o.all(ctx, (*watch).begin); err != nil {
		return err
	}
	every := often
	for _, w := range o.watched {
		if period := w.period(); period > 0 {
			every = max(soonest, min(every, period/10))
		}
	}
	start, before := time.Now(), OwnTime()
	settled := false
	for {
		round := time.Now()
		if !settled && round.Sub(start) >= lasting/4 {
			settled = true
			if err := o.all(ctx, (*watch).readDelay); err != nil {
				return err
			}
		}
		if err := o.all(ctx, (*watch).sample); err != nil {
			return err
		}
		if time.Since(start) >= lasting {
			break
		}
		next := start.Add(time.Duration(float64(OwnTime()-before) / share))
		if earliest := round.Add(every); next.Before(earliest) {
			next = earliest
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(time.Until(next), lasting-time.Since(start))):
		}
	}
	return o.all(ctx, (*watch).end)
}

// all does something for each that is watched. One that is left behind is no longer watched, and is closed when it comes back.
func (o *observation) all(ctx context.Context, do func(*watch, *foreign.Tree)) error {
	watched := o.watched
	return foreign.Each(ctx, len(watched), patience, foreign.Steps{
		Walk: func(next func() (int, bool)) {
			tree := foreign.Open(o.root)
			defer tree.Close()
			for i, ok := next(); ok; i, ok = next() {
				do(watched[i], tree)
			}
		},
		Left: func(i int, l *foreign.Left) {
			put(&o.left, watched[i].p.PID, l)
			o.watched = slices.DeleteFunc(slices.Clone(o.watched), func(w *watch) bool { return w == watched[i] })
		},
		Late: func(i int) { watched[i].live.Close() },
	})
}

// OwnTime is the CPU time that this process has used.
func OwnTime() time.Duration {
	used, _ := cpuTime("", os.Getpid())
	return used
}

// read reads the counters. The memory of a process that has used no CPU since an earlier reading is what it was then.
func (w *watch) read(t *foreign.Tree, earlier *glance) reading {
	r := reading{at: time.Now()}
	var ok bool
	if r.cpu, ok = cpuTime(w.root, w.p.PID); !ok {
		w.gone = true
		return r
	}
	r.throttling = throttling(w.root, w.p)
	if l := w.p.System.Limits; l.Version == cgroup.V2 && len(l.Levels) > 0 {
		r.pressure = procs.ReadGroupPressure(t, l.Levels[0].Dir)
	}
	switch {
	case earlier.schedKnown && r.cpu == earlier.cpu && isHere(w.root): // elsewhere the time is in hundredths of a second
		r.glance = *earlier
	case w.live != nil:
		sched, err := w.live.Sched()
		r.sched, r.schedKnown = newScheduler(&sched), err == nil
		r.collector = collector(w.live)
		w.gone = errors.Is(err, golive.ErrExited)
	}
	return r
}

func (w *watch) begin(t *foreign.Tree) {
	w.before = w.read(t, &w.last)
	w.start = w.before.at
	w.at, w.cpu = w.before.at, w.before.cpu
	w.running, w.spinning = w.before.sched.running, w.before.sched.spinning
	if !w.gone && w.live != nil && !w.before.schedKnown {
		if err := w.p.look(w.live); err != nil {
			w.p.Live, w.p.LiveErr = 0, err
		}
	}
	w.take(w.before.glance)
}

// take takes GOMAXPROCS from a glance: it may have changed.
func (w *watch) take(g glance) {
	if g.schedKnown {
		w.p.Live, w.p.LiveErr, w.p.Custom, w.p.CustomKnown = g.sched.procs, nil, g.sched.custom, g.sched.customKnown
		w.p.uncalled()
	}
}

// sample looks at the scheduler. A process that had nothing running and used no CPU since has nothing running now: a P
// is taken by a thread that runs.
func (w *watch) sample(*foreign.Tree) {
	if w.gone || w.live == nil || !w.before.schedKnown {
		return
	}
	now := time.Now()
	cpu, ok := cpuTime(w.root, w.p.PID)
	if !ok {
		w.gone = true
		return
	}
	running, spinning := 0, 0
	if w.running > 0 || cpu != w.cpu {
		s, err := w.live.TrySched()
		if errors.Is(err, golive.ErrExited) {
			w.gone = true
		}
		if err != nil {
			return // the world was being changed: the next sample covers this time as well
		}
		running, spinning = s.Running, s.Spinning
	}
	w.add(now, cpu, running, spinning)
}

// add adds a sample to the sums. A slot between two samples in which Ps ran and no CPU time passed was frozen. A freeze begins and ends
// somewhere within the slots next to it: half of each belongs to it, on average.
func (w *watch) add(now time.Time, cpu time.Duration, running, spinning int) {
	slot := now.Sub(w.at)
	if slot <= 0 {
		return
	}
	w.ran += float64(w.running+running) / 2 * slot.Seconds()
	w.spun += float64(w.spinning+spinning) / 2 * slot.Seconds()
	w.seen += slot.Seconds()
	if w.running > 0 && running > 0 {
		w.awake += slot.Seconds()
	} else if w.running+running > 0 {
		w.awake += slot.Seconds() / 2
	}
	still := w.running > 0 && running > 0 && cpu-w.cpu < slot/50
	if still {
		w.frozen += slot
	}
	if still != w.freezing {
		w.frozen += slot / 2 // of the slot before, which is about as long, or of this one
	}
	w.freezing = still
	w.at, w.cpu, w.running, w.spinning = now, cpu, running, spinning
	w.p.Usage.Samples++
}

// readDelay begins to count how long the threads of a process wait, if it does anything.
func (w *watch) readDelay(*foreign.Tree) {
	if w.gone {
		return
	}
	now := time.Now()
	cpu, ok := cpuTime(w.root, w.p.PID)
	if ok && (w.running > 0 || float64(cpu-w.before.cpu) >= active*float64(now.Sub(w.start))) {
		threads, ok := procs.ReadSchedstat(w.root, w.p.PID)
		w.delay = queue{at: now, cpu: cpu, waited: threads.Waited, known: ok}
	}
}

// end turns the sums into facts.
func (w *watch) end(t *foreign.Tree) {
	if w.gone {
		return
	}
	after := w.read(t, &w.before.glance)
	w.last = after.glance
	if w.gone {
		return
	}
	u := &w.p.Usage
	u.Wall, u.CPU = after.at.Sub(w.before.at), after.cpu-w.before.cpu
	w.p.System.Limits = w.p.System.Limits.Observed(w.before.throttling, after.throttling)
	u.Throttling, u.Total = after.throttling.Since(w.before.throttling), after.throttling
	if u.StallKnown = w.before.pressure.FullKnown && after.pressure.FullKnown; u.StallKnown {
		u.Stall = after.pressure.Full - w.before.pressure.Full
	}
	if w.seen > 0 {
		u.Running, u.Spinning = w.ran/w.seen, w.spun/w.seen
		if w.awake > 0 {
			u.Parallel = w.ran / w.awake
		}
		u.Frozen = w.frozen.Seconds() / w.seen
		every := time.Duration(w.seen / float64(u.Samples) * float64(time.Second))
		u.FrozenKnown = every <= tooFar && (w.period() == 0 || every <= w.period()/7)
	}
	if w.before.schedKnown && after.schedKnown && after.sched.collectionsKnown {
		u.GCKnown = true
		u.Collected = float64(after.sched.collections-w.before.sched.collections) / u.Wall.Seconds()
		u.Switched = float64(after.sched.switched-w.before.sched.switched) / u.Wall.Seconds()
		u.AnonMemory = anonMemory(w.root, w.p.PID)
	}
	w.p.Collector = after.collector
	if b, a := w.before.collector, after.collector; b != nil && a != nil && b.Known && a.Known && a.Busy > b.Busy && a.In >= b.In {
		u.Collecting = new(min(1, float64(a.In-b.In)/float64(a.Busy-b.Busy)))
	}
	if w.delay.known {
		now, ok := procs.ReadSchedstat(w.root, w.p.PID)
		if wait := now.Waited - w.delay.waited; ok && wait >= 0 { // it goes down when many threads end
			u.Delay, u.DelayWall, u.DelayCPU = wait, time.Since(w.delay.at), after.cpu-w.delay.cpu
		}
	}
	w.take(after.glance)
}

// period is that of the limit, 0 if none is known.
func (w *watch) period() time.Duration {
	owner, _ := w.p.System.Limits.Owner()
	return owner.Quota.Period()
}
