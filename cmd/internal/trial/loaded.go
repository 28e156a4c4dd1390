package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
)

// An Opened is a server that was started: a *Session.
type Opened interface {
	Load(ctx context.Context, s Shot) (Window, error)
	Close() lab.Run
}

// stoodStill is the share of requests from which on a run says that the machine stood still: a quiet machine has some pauses, too.
const stoodStill = 0.01

// ErrEnded is the error of a server that has died; what Close tells of it is better.
var ErrEnded = errors.New("the server ended while it was looked at")

// Once starts a server, sends it one shot, and ends it. A server that fails is a run with an error, and without a window.
func Once(ctx context.Context, clock func() time.Time, open func() (Opened, error), s Shot) (run lab.Run, w Window, err error) {
	begin := clock()
	session, err := open()
	if why, failed := Failed(err); failed {
		seconds := clock().Sub(begin).Seconds()
		return lab.Run{Start: begin.UTC().Round(time.Millisecond), Seconds: seconds, Error: why, Metrics: map[string]float64{}}, w, nil
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
	Shot Shot // its seed is that of the lab
}

// Run does one run. A load that was not the one that was asked for is a mark on it: it deletes nothing.
func (l *Loaded) Run(ctx context.Context, s lab.Setting, block int) (lab.Run, error) {
	shot := l.Shot
	shot.Seed += uint64(block)
	run, w, err := Once(ctx, time.Now, func() (Opened, error) {
		x, err := l.Open(ctx, s, false)
		if err != nil {
			return nil, err // not a nil *Session, which would be no nil
		}
		return x, nil
	}, shot)
	if w.Procs > 0 {
		run.GOMAXPROCS = w.Procs
	}
	if run.Error == "" && w.Metrics != nil && !w.Valid {
		run.Marks = append(run.Marks, lab.MarkLoad+": "+strings.Join(w.Notes, "; "))
	}
	return run, err
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

// EqualWork lets benchmarks do the runs of a lab that compares their builds: each does as many operations as fitted into the window of
// its first run, in all builds, so that its CPU time is that of the same work. What a process uses before its first operation, and in
// it, is not in that: another process beside it does no more than one.
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
	if e.Of.Times == nil {
		e.Of.Times = map[string]int64{}
	}
	if e.Of.Times[s.Workload] == 0 {
		e.Of.Times[s.Workload] = run.Ops
	}
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
type Alike struct{ *Runner }

// Run does one run.
func (a Alike) Run(ctx context.Context, s lab.Setting, _ int) (lab.Run, error) {
	return a.Runner.Run(ctx, s)
}
