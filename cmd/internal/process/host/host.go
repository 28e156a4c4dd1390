// Package host answers: which Go programs run on this system, what limits them, and how do they fare? In goes the root of the system's
// files and how long to look; out come facts about each process: how it was built and started, its limit, its current GOMAXPROCS, and what
// it did while it was looked at: the CPU time it got, how many of its Ps wanted CPU, how often and how long its group was throttled.
//
// The processes need no preparation and do not notice. What this user may not read is left out, and counted. The
// package judges nothing.
package host

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/golive"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// A Process is a running Go program.
type Process struct {
	procs.Process // its Program is nil for a Go library in a program of another language

	System     choice.System     // its limit, as it is and as the process can see it
	Prediction choice.Prediction // its GOMAXPROCS, by how it was built and started

	Started time.Time // zero: not known
	Version string    // of Go, "" when it can't be found out

	Live    int   // its GOMAXPROCS, from its memory; 0: it can't be read
	LiveErr error // why

	// Custom means that GOMAXPROCS was set by its environment or a call, so that it no longer follows the limit. It is
	// known since Go 1.25; before that, nothing follows.
	Custom, CustomKnown bool

	Collector *golive.Collector // nil: not known

	Usage Usage
}

// Procs is the GOMAXPROCS that the process has, 0 if that is not known.
func (p *Process) Procs() int {
	if p.Live > 0 {
		return p.Live
	}
	return p.Prediction.Procs
}

// FromCall is the source of a GOMAXPROCS that the program set itself.
const FromCall choice.Source = "call"

// Source is where its GOMAXPROCS comes from. What was found in its memory counts for more than what was expected.
func (p *Process) Source() choice.Source {
	expected := p.Prediction.Source
	byRuntime := expected == choice.FromLimit || expected == choice.FromCPUs
	switch {
	case p.Live == 0:
		return expected
	case p.CustomKnown && p.Custom && byRuntime, p.Prediction.Procs != p.Live && !(p.CustomKnown && !p.Custom):
		return FromCall
	}
	return expected
}

// Usage is what a process did while it was looked at. The zero value: it wasn't.
type Usage struct {
	Wall time.Duration
	CPU  time.Duration

	cgroup.Throttling                   // of its groups meanwhile
	Total             cgroup.Throttling // of its groups since they were made, at the end

	// Stall is how long all threads of the process's group that wanted to run had to wait. From cpu.pressure.
	Stall      time.Duration
	StallKnown bool

	// From samples of its scheduler.
	Samples     int
	Running     float64 // Ps that run something, on average; their threads may be waiting for a CPU
	Parallel    float64 // Ps that run something while any does
	Spinning    float64 // threads that look for work, on average
	Frozen      float64 // share of the time in which something was running and got no CPU at all
	FrozenKnown bool    // false: the samples were too far apart to tell

	Delay      time.Duration // how long its threads were ready to run and did not, all together, in DelayWall
	DelayWall  time.Duration // 0: not known
	DelayCPU   time.Duration // CPU time in DelayWall
	Collected  float64       // garbage collections a second
	Switched   float64       // goroutines that began to run, a second
	GCKnown    bool
	AnonMemory int64 // bytes of memory that belong to no file, which hold its heap; 0: not known

	// Collecting is the share of the time of Ps that did something which was in collections; nil: no collection ended meanwhile, or it is
	// not known.
	Collecting *float64
}

// A System is the host as a whole while it was looked at.
type System struct {
	CPUs  int
	Wall  time.Duration
	Busy  float64 // CPUs that did something, on average
	Steal float64 // CPUs that the machine's own host took
	Known bool
}

// A Result is what was found.
type Result struct {
	System    System
	Processes []Process
	Looked    int // processes of any kind that were looked at
	Refused   int // those that this user may not look into: some may be Go programs
	Odd       int // those whose file is not one that Go's linker makes, so that it was not looked into
	Stuck     int // those that the kernel gave no answer about: a file system has stopped answering, perhaps
}

// Options say what to look at.
type Options struct {
	Root string        // below which /proc and /sys are; "" is "/"
	PIDs []int         // only these; none: all but the calling process
	For  time.Duration // 0: no samples
	// Share is how much of a CPU samples may take; 0: 0.025. The less it is, the fewer they are.
	Share float64

	// Adjust may correct the limits of a process before it is looked at, by what the caller knows; nil: there is nothing to correct.
	Adjust func(*Process)
	// Names are patterns, as procs.Named has them, for the name of a process or of its program; none: all are wanted.
	Names []string
}

// names reports whether a process is wanted.
func (o *Options) names(p procs.Process) bool {
	return len(o.Names) == 0 || slices.ContainsFunc(o.Names, func(pattern string) bool { return procs.Named(pattern, p) })
}

// A Survey looks at a host repeatedly, and remembers the processes that it saw last, and their files.
type Survey struct {
	programs procs.Programs
	files    golive.Files
	known    map[int]*known
	others   map[int]*other
	stuck    map[int]*foreign.Left // processes that had to be left behind
}

// patience is how long the kernel may take to answer for one process. What it has not answered by then may still be seen in a
// later look.
const patience = 2 * time.Second

// Read looks at the processes. An error means that there is nothing to report at all; what can't be read of one process is in its facts. A
// process that ends meanwhile is left out.
func (s *Survey) Read(ctx context.Context, o Options) (Result, error) {
	var r Result
	pids := o.PIDs
	if len(pids) == 0 {
		var err error
		if pids, err = procs.List(o.Root); err != nil {
			return r, err
		}
	}
	watched, err := s.open(ctx, o, pids, &r)
	seen := &observation{root: o.Root, watched: watched}
	defer func() {
		for _, w := range seen.watched {
			if k := s.known[w.p.PID]; k == nil || k.live != w.live {
				w.live.Close()
			}
		}
	}()
	if err != nil {
		return r, err
	}
	if len(o.PIDs) == 0 {
		s.forget(pids)
	}
	r.System, err = seen.observe(ctx, o.For, o.Share)
	for pid, l := range seen.left {
		s.leave(pid, l)
	}
	r.Stuck += len(seen.left)
	if err != nil {
		return r, err
	}
	r.Processes = make([]Process, 0, len(seen.watched))
	for _, w := range seen.watched {
		if k := s.known[w.p.PID]; k != nil {
			k.last = w.last
		}
		if !w.gone {
			r.Processes = append(r.Processes, *w.p)
		}
	}
	return r, nil
}

// isHere reports whether a root is this system's.
func isHere(root string) bool { return strings.Trim(root, "/") == "" }

// Read reads a process below root, 0 being the calling one: it reads the limit and predicts GOMAXPROCS. The process need not be a Go
// program, and is not looked at. The warnings are about this project's settings in its environment, and about what can't be read of
// ourselves.
func Read(root string, pid int) (p Process, warnings []error, err error) {
	type found struct {
		Process
		warnings []error
	}
	f, err := foreign.Of(pid, func() (f found, err error) {
		f.Process.Process, err = new(procs.Programs).Read(root, pid)
		switch {
		case err == nil:
		case pid != 0:
			return f, hint.With(err, "pgrep NAME finds a process's pid")
		case isHere(root): // there is no /proc to see, but we know ourselves
			f.Process.Process = procs.Self()
			if runtime.GOOS == "linux" {
				f.warnings = []error{err}
			}
		}
		f.warnings = append(f.warnings, f.readLimit(root, pid)...)
		return f, nil
	})
	return f.Process, f.warnings, err
}

func (p *Process) readLimit(root string, pid int) []error {
	policy, warnings := unthrottle.ParsePolicy(func(name string) string { return p.Env[name] })
	p.System = choice.ReadSystem(root, pid, policy)
	p.Prediction = p.System.Predict(p.Process)
	return warnings
}

// Look looks at one process, which [Read] has read, for a time; at 0 only at its memory. What is seen goes into p. If p isn't a Go program,
// has ended, or may not be looked into, ok is false and p unchanged.
func Look(ctx context.Context, root string, p *Process, lasting time.Duration) (system System, ok bool, err error) {
	seen := *p
	live, err := attach(root, &seen, new(golive.Files))
	if err != nil {
		return System{}, false, nil
	}
	w := &watch{p: &seen, live: live, root: root}
	o := &observation{root: root, watched: []*watch{w}}
	system, err = o.observe(ctx, lasting, 0)
	if len(o.left) > 0 { // what is behind closes it
		return system, false, cmp.Or(err, foreign.ErrStuck)
	}
	live.Close()
	if err != nil || w.gone {
		return system, false, err
	}
	*p = seen
	return system, true, nil
}

// look reads the current GOMAXPROCS. Where the scheduler's state can be read, it is there.
func (p *Process) look(live *golive.Process) error {
	p.Custom, p.CustomKnown = false, false
	if sched, err := live.Sched(); err == nil {
		p.Live, p.Custom, p.CustomKnown = sched.Procs, sched.Custom, sched.CustomKnown
	} else {
		v, err := live.GOMAXPROCS()
		if err != nil {
			return err
		}
		p.Live = v.Procs
	}
	p.Collector = collector(live)
	p.uncalled()
	return nil
}

// uncalled corrects what was expected where a library was to set GOMAXPROCS, and the runtime knows of no call: it may be linked and not
// used.
func (p *Process) uncalled() {
	expected := p.Prediction
	byLibrary := expected.Source == choice.FromAutomaxprocs || expected.Source == choice.FromUnthrottle && expected.Procs != p.Live
	if p.CustomKnown && !p.Custom && byLibrary {
		p.Prediction = p.System.Uncalled(p.Process)
	}
}

// collector reads what a process's collector uses; nil: it can't be read.
func collector(live *golive.Process) *golive.Collector {
	c, err := live.Collector()
	if err != nil {
		return nil
	}
	return &c
}

func (s System) until(later System) System {
	wall := later.Wall - s.Wall
	if !s.Known || !later.Known || wall <= 0 {
		return System{CPUs: later.CPUs}
	}
	later.Busy = max(0, later.Busy-s.Busy) / wall.Seconds()
	later.Steal = max(0, later.Steal-s.Steal) / wall.Seconds()
	later.Wall = wall
	return later
}

// throttling reads the counters of the groups that a process is in.
func throttling(root string, p *Process) cgroup.Throttling {
	return cgroup.ReadThrottling(cgroup.Source{Root: root, PID: p.PID}, p.System.Limits)
}

// FrozenShare is the share of the time in which the limit made the process's group stand still. Where the kernel's
// cpu.pressure says it, or samples of the process were taken, it is exact. Else it is the least it can be: the kernel's
// throttled time is a sum over CPUs, and all of them may have been throttled together, or one after the other.
//
// Samples that are close together say where between these two it was; where they saw hardly a freeze, the group's throttled time is
// that of other processes in it. With samples that are farther apart, a process that has its group to itself has as many CPUs
// throttled together as Ps run together, which is too few where Ps are in system calls.
func (u Usage) FrozenShare(cpus int) (share float64, exact bool) {
	if u.Wall <= 0 || u.Owner.Throttled == 0 && u.Held() == 0 {
		return 0, true
	}
	wall := u.Wall.Seconds()
	if u.StallKnown {
		return min(u.Stall.Seconds()/wall, 1), true
	}
	held := u.Held().Seconds() / wall
	least := 0.0
	if cpus > 0 {
		least = min(held/float64(cpus), 1)
	}
	switch {
	case u.Samples == 0 || u.Parallel == 0:
		return least, false
	case !u.FrozenKnown && (u.alone() || u.Parallel >= float64(cpus)):
		return max(least, min(held/max(1, u.Parallel), 1)), true
	case !u.FrozenKnown:
		return least, false
	case u.Frozen < least/2:
		return u.Frozen, true
	}
	return max(least, min(u.Frozen, held, 1)), true
}

// alone reports whether hardly another process of the group with the limit used a CPU.
func (u Usage) alone() bool { return u.Owner.CPUKnown && float64(u.CPU) >= 0.9*float64(u.Owner.CPU) }
