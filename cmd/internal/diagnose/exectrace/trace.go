// Package exectrace answers: did this Go program stand still although it could have run, for how long, and why? In goes an execution trace
// (Go 1.22 or later, also a flight recorder's snapshot); out come facts: the freezes with the goroutines that were in them, their rhythm,
// and whether a CPU quota or other programs made them.
//
// A freeze is a silence, a stretch without an event on any thread, while something could run. A program that computes makes no events
// either, up to some 20 ms: see analysis for how the two are distinguished. It does not see the kernel: what is not in the trace, such as a
// request that had arrived but was not yet noticed, isn't in any number here.
package exectrace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
)

// Options are for Read. The zero value is good.
type Options struct {
	Quotas     freeze.Quotas // that may hold it up, those that are known
	SampleRate int           // Hz of the CPU profiler, 100 if 0

	Kernel freeze.Kernel // of the program's group, in the time of the trace
	Limit  float64       // CPUs that the program may use, where nothing is counted; 0: not known, or no limit
	Unseen bool          // no visible quota has throttled it: there isn't one, or it has counted nothing
}

// A Trace is what the execution trace of a program says about it. All times are since its first event.
type Trace struct {
	Go       string // the format of the trace, such as 1.26: Go 1.27 writes this one too
	Start    time.Time
	Wall     time.Duration
	Bytes    int64
	Events   int64
	Procs    []Setting // GOMAXPROCS: the first changes of it, and the last
	Changes  int       `json:",omitempty"` // of GOMAXPROCS that are not in the list
	Warnings []string

	Cause     freeze.Cause
	Why       string
	Sure      bool // false: a low confidence, for the reason in Doubt
	Doubt     string
	Frozen    float64 // the share of wall time that the program was frozen: Throttled + Contended
	Throttled float64 // the share by a quota; it contains Hidden
	Hidden    float64 // the share in which there was nothing to do as far as known, before a refill
	Contended float64 // the share by other programs
	Neighbour bool    // at the rhythm of a quota, which is another group's
	CPUs      float64 // that the program got in frozen periods: the quota, if it is throttled
	CPUsBy    string  // "samples" or "procs", the better and the worse way to know
	Busy      float64 // Ps that were busy on the mean, outside freezes
	Idle      float64 // the share in silences with nothing to do as far as known: a late wake-up is in there
	Rhythm    freeze.Rhythm
	Threshold time.Duration // a freeze is at least so long

	Freezes []Freeze // in the order of time
	Left    int      // freezes that are not in the list, the shortest
	Longest []Moment // the ten longest, with the goroutines that were there

	Silence  Silence
	Samples  *Samples
	Heard    *Heard `json:",omitempty"`
	Handlers *Handlers
	GC       GC
}

// A Setting is a GOMAXPROCS from a time on.
type Setting struct {
	At    time.Duration
	Procs int
}

// A Freeze is a stretch in which the program stood still.
type Freeze struct {
	Start  time.Duration
	End    time.Duration
	Refill bool // it ended at the phase of the period
	Idle   bool // hidden: there was nothing to do as far as known
}

// Length is how long it took.
func (f Freeze) Length() time.Duration { return f.End - f.Start }

// A Moment is a freeze and the goroutines that were there.
type Moment struct {
	Freeze
	Running  []Goroutine // at most 8
	Runnable []Goroutine // the 8 that waited longest
	Waiting  int         // all that were runnable
	Procs    int         // Ps that were busy
	Serving  bool        // one of the goroutines served a network request
	GC       bool        // the collector was marking
}

// A Goroutine is one of a moment.
type Goroutine struct {
	ID       int64
	Function string        // where it was seen last, not of the runtime
	Started  string        // what it was started with, if that was seen
	Label    string        // that the runtime gave it
	For      time.Duration // it was running or runnable, at the end of the freeze
	Serves   bool          // network requests
}

// A Silence is how dense the events are.
type Silence struct {
	EventsPerSecond float64
	P99             time.Duration // between two events while something could run, without freezes that a refill ended; Floor may be less
	Ordinary        time.Duration // the mean time since the last event, outside freezes, while something could run
	Sparse          bool          // so few events that a freeze and computing look alike
	Floor           time.Duration // silences shorter than this were not looked at
}

// Samples are what the CPU profiler wrote into the trace.
type Samples struct {
	Count   int64
	CPU     time.Duration // that they stand for
	Running time.Duration // Σ of the time in which goroutines were running, while samples were taken
	Starved float64       // 1 − CPU ÷ Running: the share in which a running goroutine had no CPU
}

// Handlers are the goroutines that serve network requests, from when the network woke them until they waited for it
// again. What a request waited in the kernel is not in it: so these are lower bounds.
type Handlers struct {
	What   string // "net/http" or "network": then all goroutines that waited for the network
	Count  int64
	Frozen int64 // of them, that had a freeze in them
	Lost   int   // that were too many to keep
	Took   Latency
	Added  Latency // by freezes
	Rest   Latency // as long as they would have taken without freezes
}

// A Latency is a few numbers of many times.
type Latency struct {
	P50 time.Duration
	P99 time.Duration
	Max time.Duration
}

// GC is the collector.
type GC struct {
	Cycles  int
	Marking float64 // the share of wall time in which it was marking
	Frozen  float64 // the share of frozen time in which it was marking
}

// Read reads a trace to its end. What is damaged or cut off is left out, with a warning; without any event that can be
// read there is an error. It holds a few generations (seconds) of the trace at a time, and what it keeps of all of them is bounded.
// It ends soon after ctx does.
func Read(ctx context.Context, r io.Reader, o Options) (*Trace, error) {
	s, err := newSplitter(r)
	if err != nil {
		return nil, err
	}
	n := newNames()
	p := newProgram(n)
	var warnings []string
	decodeAll(ctx, s.generation, n, func(events []event) {
		for _, e := range events {
			p.take(e)
		}
	}, func(err error) {
		if p.generation(); err == nil {
			return
		}
		p.lose()
		if len(warnings) < 10 {
			warnings = append(warnings, lossWarning(err, p))
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p.events == 0 {
		if len(warnings) > 0 {
			return nil, errors.New("reading the execution trace: " + warnings[0])
		}
		return nil, errors.New("reading the execution trace: no events")
	}
	if n.full {
		warnings = append(warnings, fmt.Sprintf("it has more than %d names or %d MiB of them: functions and phases that came later have none here", mostNames, mostNameBytes>>20))
	}
	t := &Trace{Go: fmt.Sprintf("1.%d", s.version), Bytes: s.read, Warnings: warnings}
	analyse(t, p, o)
	return t, nil
}

func lossWarning(err error, p *program) string {
	var left *leftOut
	at := time.Duration(max(0, p.last-max(p.first, 0))).Round(time.Millisecond)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Sprintf("the trace is cut off: what came after %v could not be read", at)
	case errors.As(err, &left):
		return fmt.Sprintf("after %v a second of the trace is left out: %v", at, err)
	}
	return fmt.Sprintf("after %v a part of the trace could not be read: %v", at, err)
}
