package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// An Opened is a server that was started: a *Session.
type Opened interface {
	Load(ctx context.Context, s Shot) (Window, error)
	Close() lab.Run
}

// stoodStill is the share of requests from which on a run says that the machine stood still: a quiet machine has some pauses, too.
const stoodStill = 0.01

// ErrEnded is the error of a server that has died; what Close says about it is better.
var ErrEnded = errors.New("the server ended while it was looked at")

// Once starts a server, sends it one shot, and ends it. A server that fails is a run with an error, and without a window.
func Once(ctx context.Context, clock func() time.Time, open func() (Opened, error), s Shot) (run lab.Run, w Window, err error) {
	begin := clock()
	session, err := open()
	if why, failed := Failed(err); failed {
		seconds := clock().Sub(begin).Seconds()
		return lab.Run{Start: begin.UTC().Round(time.Millisecond), Seconds: seconds, Error: why, Why: inShort(err), Killed: Killed(err), Metrics: map[string]float64{}}, w, nil
	}
	if err != nil {
		return run, w, err
	}
	w, err = session.Load(ctx, s)
	run = session.Close()
	if told := new(loadError); errors.As(err, &told) {
		if err = nil; run.Error == "" {
			run.Error = told.why
		}
	}
	if err == nil && w.Metrics == nil && run.Error == "" {
		run.Error = ErrEnded.Error()
	}
	if err != nil || run.Error != "" {
		return run, w, err
	}
	maps.Copy(run.Metrics, w.Metrics)
	run.Ops = w.Requests
	run.Kept, run.Sliced = w.Kept, w.Sliced
	if w.Sliced || w.Others > 0 { // of the window alone, and seen more exactly
		run.Others = w.Others
	}
	if w.Stood >= stoodStill {
		run.Marks = append(run.Marks, fmt.Sprintf("%s: %.0f %% of the requests are not in its latencies", lab.MarkStood, 100*w.Stood))
	}
	return run, w, nil
}

// Loaded does the runs of a lab of a server: each is a fresh one, under the same load. All runs of a block have the same
// arrivals.
type Loaded struct {
	*Served
	Shot  Shot      // its seed is that of the lab
	Sides []*Served // in networks of their own, where several can run at the same time
	Safe  bool      // to run them so, regardless of what is seen

	sending float64 // CPUs that the generator used in the last run that was alone
	harm    string  // what keeps another one from running alongside the server, as far as it was seen then
}

// Run does one run. A load that was not the one that was asked for is a mark on it: it deletes nothing.
func (l *Loaded) Run(ctx context.Context, s lab.Setting, block int) (lab.Run, error) {
	harm := ""
	run, w, err := l.on(ctx, l.Served, s, block, func(x *Session) { harm = x.Bound() })
	if w.Metrics != nil {
		switch {
		case l.Safe:
			harm = ""
		case harm == "" && !w.Sliced && w.Others > 0:
			harm = lab.BesideOthers
		case harm == "" && !w.Sliced:
			harm = "what others use can't be seen"
		}
		l.sending, l.harm = w.Sending, harm
	}
	return run, err
}

// Beside says what another run alongside one would take.
func (l *Loaded) Beside() (cpus float64, harm string) { return l.sending, l.harm }

// Several does a run of each of some settings at the same time. They change sides with each block.
func (l *Loaded) Several(ctx context.Context, settings []lab.Setting, block int) ([]lab.Run, error) {
	return together(settings, func(i int) (lab.Run, error) {
		run, _, err := l.on(ctx, l.Sides[(i+block)%len(l.Sides)], settings[i], block, func(*Session) {})
		return run, err
	})
}

// A looked is a session that is looked at when its load is over.
type looked struct {
	*Session
	at func(*Session)
}

// Load sends one shot.
func (x looked) Load(ctx context.Context, s Shot) (Window, error) {
	w, err := x.Session.Load(ctx, s)
	x.at(x.Session)
	return w, err
}

// on does a run of a server.
func (l *Loaded) on(ctx context.Context, served *Served, s lab.Setting, block int, at func(*Session)) (lab.Run, Window, error) {
	shot := l.Shot
	shot.Seed += uint64(block)
	run, w, err := Once(ctx, time.Now, func() (Opened, error) {
		x, err := served.Open(ctx, s, false)
		if err != nil {
			return nil, err // not a nil *Session, which would not be nil
		}
		return looked{x, at}, nil
	}, shot)
	if w.Procs > 0 {
		run.GOMAXPROCS = w.Procs
	}
	if run.Error == "" && w.Metrics != nil && !w.Valid {
		run.Marks = append(run.Marks, lab.MarkLoad+": "+strings.Join(w.Notes, "; "))
	}
	return run, w, err
}

// Subject is a server as the only workload of a lab. The figure is the tail, the cost CPU time.
func (l *Loaded) Subject(name string, figure lab.Metric) Subject {
	return Subject{
		Workloads: []string{name}, Figures: map[string]lab.Metric{name: figure},
		Costs: map[string]lab.Metric{name: lab.CPUPerRequest.Metric("CPU per request")},
		Metrics: []lab.Metric{
			lab.P99.Metric("99th percentile of the response times, from when requests were ready to be sent"),
			lab.P999.Metric("99.9th percentile"), lab.P90.Metric("90th percentile"), lab.P50.Metric("median"),
			lab.RequestRate.Metric("requests a second that did not fail"), lab.ErrorShare.Metric("requests that failed"),
		},
	}
}

// EqualWork lets benchmarks do the runs of a lab that compares their builds: each does as many operations as fitted into the window of its
// first run, in all builds, so that its CPU time is that of the same work. What a process uses before its first operation, and in it, is
// subtracted: another process does just one operation to measure that.
type EqualWork struct {
	*Runner
	Once *Runner
	Of   *GoBench
}

// Run does one run.
func (e EqualWork) Run(ctx context.Context, s lab.Setting, _ int) (lab.Run, error) {
	run, err := e.Runner.Run(ctx, s)
	if err != nil || run.Error != "" || run.Ops == 0 {
		return run, err
	}
	e.Of.fix(s.Workload, run.Ops)
	used, ops := lab.CPUTime.In(run.Metrics), run.Ops
	if ops > 1 {
		once, err := e.Once.Run(ctx, s)
		if err != nil || once.Error != "" {
			return once, err
		}
		used, ops = used-lab.CPUTime.In(once.Metrics), ops-1
	}
	if used > 0 {
		lab.CPUPerOp.Set(run.Metrics, used/float64(ops))
	}
	return run, nil
}

// Alike lets what does the same in every block do the runs of a lab.
type Alike struct {
	Runner interface {
		Run(ctx context.Context, s lab.Setting) (lab.Run, error)
	}
}

// Run does one run.
func (a Alike) Run(ctx context.Context, s lab.Setting, _ int) (lab.Run, error) {
	return a.Runner.Run(ctx, s)
}

// Together lets programs that run to their end do so alongside others. What is counted on the host meanwhile is counted for all of them.
type Together struct{ lab.Runner }

// Beside says what another run alongside one would take: nothing but itself, and no harm is seen.
func (Together) Beside() (cpus float64, harm string) { return 0, "" }

// Several does a run of each of some settings at the same time.
func (t Together) Several(ctx context.Context, settings []lab.Setting, block int) ([]lab.Run, error) {
	before := procs.HostNow()
	runs, err := together(settings, func(i int) (lab.Run, error) { return t.Run(ctx, settings[i], block) })
	after, used := procs.HostNow(), -own // which Disturb adds
	for _, r := range runs {
		used += own + time.Duration(lab.CPUTime.In(r.Metrics)*float64(time.Second))
	}
	for i := range runs {
		runs[i].Marks = slices.DeleteFunc(runs[i].Marks, func(m string) bool {
			return strings.HasPrefix(m, lab.MarkOthers) || strings.HasPrefix(m, lab.MarkSteal)
		})
		Disturb(&runs[i], before, after, used)
	}
	return runs, err
}

// together does a run of each of some settings at the same time.
func together(settings []lab.Setting, run func(i int) (lab.Run, error)) ([]lab.Run, error) {
	runs, errs := make([]lab.Run, len(settings)), make([]error, len(settings))
	var all sync.WaitGroup
	for i := range settings {
		all.Go(func() { runs[i], errs[i] = run(i) })
	}
	all.Wait()
	return runs, errors.Join(errs...)
}
