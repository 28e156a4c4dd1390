// Package guard answers: what was the program doing while its CPU limit froze it? It looks at the kernel's count of throttled
// periods once a second. From the first throttled period on it keeps a flight recorder running, and when freezes become
// frequent it saves what the recorder holds: an execution trace of the freezes.
//
//	g, err := guard.Start(guard.Options{Dir: "/var/tmp"})
//	if err != nil {
//		log.Print(err) // the program runs on as it did
//	}
//	defer g.Stop()
//
// In go [Options]; out come snapshots, as files or handed to a function, at most one every ten minutes. "unthrottle trace FILE" and "go
// tool trace FILE" read them. A snapshot also says what the kernel has counted meanwhile, so that "unthrottle trace" can be sure of it.
//
// The package needs Go 1.25, which brought the flight recorder: with an older one it compiles, and [Start] returns
// [ErrOldGo]. It prints nothing, starts no goroutine before Start, and changes no setting of the runtime. It does not
// analyse the snapshot, and it sees only throttling: a busy host, which takes CPU time without any limit, is not in the
// kernel's count.
package guard

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

// Reasons why Start may fail that a caller may want to tell apart.
var (
	// ErrOldGo means that the program was built with Go 1.24 or older, which has no flight recorder.
	ErrOldGo = errors.New("the flight recorder needs Go 1.25 or later")
	// ErrNothingToWatch means that throttled periods can't be counted here, now or later: no cgroup is visible, or the
	// system is not Linux.
	ErrNothingToWatch = errors.New("no throttling can be seen here")
	// ErrRecorderInUse means that another flight recorder is running, and Go allows only one. Options.Recorder takes it.
	ErrRecorderInUse = errors.New("another flight recorder is running: give it to Options.Recorder")
)

// Options configure Start. The zero value is usable: it writes to the directory for temporary files.
type Options struct {
	// Dir is where snapshots are written; it is made if need be. "" means os.TempDir. Files are named after the program:
	// throttled-PROGRAM-TIME-PID.trace, and only their owner may read them, since a trace can hold what a program logs.
	Dir string
	// MaxFiles is how many of a program's snapshots may be in Dir: the oldest are removed. 0 means 5.
	MaxFiles int

	// Save, if it is set, gets the snapshots in place of Dir. It should call WriteTo at once, since the recorder goes on. ctx ends when
	// Stop is called. No look is taken while it runs, and it must not call Stop.
	Save func(ctx context.Context, s Storm, snapshot io.WriterTo) error

	// OnSave, if it is set, is called for each snapshot that is written or handed over, OnError for each that could not be, and for a
	// recorder that could not be started later on. Both run in the guard's goroutine.
	OnSave  func(Snapshot)
	OnError func(error)

	Poll     time.Duration // between two looks; 0 means a second
	MinShare float64       // a storm begins where at least this share of the periods is throttled; 0 means 0.5
	Every    time.Duration // at most one snapshot in this time; 0 means ten minutes

	// MinAge and MaxBytes say how much the recorder keeps, in time and in memory; 0 means the larger of 5 s and three polls, and 16 MiB.
	// The smaller of the two counts.
	MinAge   time.Duration
	MaxBytes uint64

	// Recorder, if it is set, is used in place of a recorder of the guard's own: a *trace.FlightRecorder that its owner
	// has started. The guard neither starts nor stops it.
	Recorder Recorder
}

// A Recorder is what the guard needs of a *trace.FlightRecorder.
type Recorder interface {
	Enabled() bool
	io.WriterTo
}

// A Storm is a time in which many periods were throttled.
type Storm struct {
	From, To  time.Time // the two looks between which it began
	Periods   int64     // that passed between them
	Throttled int64     // how many of these hit the limit; 0 for a hidden limit, whose periods are not counted
	Share     float64   // throttled periods ÷ periods; of a hidden limit at most the share of the time
	CPUs      float64   // the limit; 0: hidden
	Group     string    // directory of the group that has the limit, or of the process's own if the limit is hidden
}

// A Snapshot describes one that was saved.
type Snapshot struct {
	Storm Storm
	Path  string // "" where Options.Save took it
	Bytes int64
}

// withDefaults fills in what was left open.
func (o Options) withDefaults() Options {
	if o.Poll <= 0 {
		o.Poll = time.Second
	}
	if o.MinShare <= 0 {
		o.MinShare = 0.5
	}
	if o.Every <= 0 {
		o.Every = 10 * time.Minute
	}
	if o.MaxFiles <= 0 {
		o.MaxFiles = 5
	}
	if o.MinAge <= 0 {
		o.MinAge = max(5*time.Second, 3*o.Poll)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 16 << 20
	}
	return o
}

// A look is what the kernel has counted at one moment.
type look struct {
	at        time.Time
	limited   bool    // there is a limit and it is counted
	cpus      float64 // 0: the limit is hidden
	period    time.Duration
	counts    cgroup.Counters // of the group with the limit; of the process's own if it is hidden, and then no periods are counted
	time      time.Duration   // throttled, summed over CPUs; of hidden limits only
	timeKnown bool
}

// take looks at this process. The error says why nothing can be seen.
func take(at time.Time) (look, error) {
	l := cgroup.Self()
	t := cgroup.ReadThrottling(cgroup.Source{}, *l)
	k := look{at: at}
	switch {
	case len(l.Levels) == 0:
		return k, noLevels(l)
	case l.State == cgroup.Limited && t.Owner.Known:
		owner, _ := l.Owner()
		k.limited, k.cpus, k.period, k.counts = true, l.CPUs, owner.Quota.Period(), t.Owner
	case t.LocalKnown:
		// No visible level sets a limit. If one that can't be seen throttles this group, that shows here.
		k.limited, k.counts = l.State == cgroup.Hidden, t.Own
		k.time, k.timeKnown = t.Local, true
	}
	return k, nil
}

// noLevels says why there is no group whose periods could be counted.
func noLevels(l *cgroup.Limits) error {
	if l.State == cgroup.None {
		return errors.New("no cgroup hierarchy has the CPU controller, so there can be no limit")
	}
	return l.Reason
}

// calmLooks is how many looks must be calm before a storm is over, so that one that comes and goes is one storm.
const calmLooks = 3

// A detector finds where storms begin.
type detector struct {
	minShare float64
	last     look
	seen     bool // last is set
	calm     int  // looks since the last stormy one
	storming bool
}

// see takes the next look, and reports a storm if one has begun since the one before. A storm is over after some looks with less than half
// of the share that it takes to begin.
func (d *detector) see(k look) (s Storm, begins bool) {
	before, seen := d.last, d.seen
	d.last, d.seen = k, true
	if !seen {
		return s, false
	}
	s, ok := between(before, k)
	switch {
	case !ok || s.Share < d.minShare/2:
		if d.calm++; d.calm >= calmLooks {
			d.storming = false
		}
		return s, false
	case d.storming:
		d.calm = 0
		return s, false
	case s.Share < d.minShare:
		return s, false
	}
	d.storming, d.calm = true, 0
	return s, true
}

// between says what happened between two looks. It returns false where they can't be compared: the counts are of two
// groups, or began again.
func between(a, b look) (s Storm, ok bool) {
	span := b.at.Sub(a.at)
	s = Storm{From: a.at, To: b.at, CPUs: b.cpus, Group: b.counts.Dir}
	if span <= 0 || a.counts.Dir != b.counts.Dir || (a.cpus == 0) != (b.cpus == 0) {
		return s, false
	}
	if b.cpus == 0 {
		if !a.timeKnown || !b.timeKnown || b.time < a.time {
			return s, false
		}
		s.Share = min(1, float64(b.time-a.time)/float64(span))
		return s, true
	}
	counted := b.counts.Since(a.counts)
	if !counted.Known {
		return s, false
	}
	s.Periods, s.Throttled = counted.Periods, counted.Throttled
	// The kernel counts no periods while the group is idle. These count too: one throttled period in a second without
	// any other is not a storm.
	if b.period > 0 {
		s.Periods = max(s.Periods, int64(span/b.period))
	}
	if s.Periods > 0 {
		s.Share = min(1, float64(s.Throttled)/float64(s.Periods))
	}
	return s, true
}
