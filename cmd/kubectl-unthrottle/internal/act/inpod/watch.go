package inpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/heartbeat"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
)

// A watching is a container's program, as its agent explains it repeatedly. What is counted between two explanations is the
// kernel's own count, so nothing is missed between them. Single freezes are not seen: that takes a heartbeat in its cgroup.
type watching struct {
	explain func(context.Context) (*report.Explain, error)
	say     func(string)
	length  time.Duration
	every   time.Duration // between the starts of two explanations; each takes a second
	silence time.Duration // after which an agent that does not answer, or has no time, is given up

	began      time.Time
	now        *report.Explain
	at         time.Time // when now came
	sum        cgroup.Counters
	local      time.Duration
	localKnown bool
	used       time.Duration // CPU time of the container's own group
	usedFor    time.Duration // of wall, for which that is known
	wall       time.Duration
	counted    time.Duration // of it, for which counts could be compared
	ended      string
	stopped    bool
	changed    bool // the limit, or who sets it
}

// errRunning is of counts that can't be.
var errRunning = errors.New("its agent tells of counts that can't be")

// run watches until it is time to end, or something ends it. An error means that nothing was seen.
func (w *watching) run(ctx context.Context) error {
	first, err := w.explain(ctx)
	if err != nil {
		return err
	}
	w.began, w.at, w.now = time.Now(), time.Now(), first
	asked := w.began
	for w.wall < w.length {
		select {
		case <-ctx.Done():
		case <-time.After(w.every - time.Since(asked)):
		}
		asked = time.Now()
		next, err := w.explain(ctx)
		switch {
		case ctx.Err() != nil && w.wall == 0:
			return ctx.Err()
		case ctx.Err() != nil:
			w.stopped = true
			return nil
		case apierrors.IsNotFound(err) && w.wall == 0:
			return err
		case apierrors.IsNotFound(err):
			w.ended = "its agent does not know its program any more: it has ended, or could not be looked at"
			return nil
		case err == nil && next.Throttling.Own.Dir != w.now.Throttling.Own.Dir: // a process number that is another container's now
			if w.ended = "its program has ended"; w.wall == 0 {
				return errors.New(w.ended)
			}
			return nil
		case err == nil:
			if err := w.add(next, time.Now()); err != nil {
				return err
			}
		case time.Since(w.at) < w.silence:
		case w.wall == 0:
			return err
		default:
			w.ended = "its agent does not answer any more"
			return nil
		}
	}
	return nil
}

// add counts what has come since the last explanation. When a limit's owner changes it the counts go on; those of another group start again.
func (w *watching) add(next *report.Explain, at time.Time) error {
	was, wall := w.now, at.Sub(w.at)
	w.now, w.at, w.wall = next, at, w.wall+wall
	if next.Subject.PID != was.Subject.PID {
		return errRunning
	}
	w.changed = w.changed || next.Limit.From != was.Limit.From || of(next.Limit.CPUs) != of(was.Limit.CPUs) || next.Limit.State != was.Limit.State
	a, b := was.Throttling, next.Throttling
	if a.Own.CPU != nil && b.Own.CPU != nil && a.Own.Dir == b.Own.Dir {
		more := *b.Own.CPU - *a.Own.CPU
		if !w.possible(more, wall) {
			return errRunning
		}
		w.used, w.usedFor = w.used+duration(more), w.usedFor+wall
	}
	if was.Limit.State == none && next.Limit.State == none {
		w.counted += wall // regardless of what is counted: nothing throttles it
	}
	if !a.Owner.Known || !b.Owner.Known || a.Owner.Dir != b.Owner.Dir {
		return nil
	}
	if a.LocalSeconds != nil && b.LocalSeconds != nil {
		more := *b.LocalSeconds - *a.LocalSeconds
		if !w.possible(more, wall) {
			return errRunning
		}
		w.local, w.localKnown = w.local+duration(more), true
	}
	periods, throttled, held := b.Owner.Periods-a.Owner.Periods, b.Owner.ThrottledPeriods-a.Owner.ThrottledPeriods, b.Owner.ThrottledSeconds-a.Owner.ThrottledSeconds
	if periods < 0 || throttled < 0 || throttled > periods+1 || float64(periods) > 1000*(wall.Seconds()+slack) || !w.possible(held, wall) {
		return errRunning
	}
	if was.Limit.State != none || next.Limit.State != none {
		w.counted += wall
	}
	w.sum.Known, w.sum.Dir = true, b.Owner.Dir
	w.sum.Periods, w.sum.Throttled, w.sum.ThrottledTime = w.sum.Periods+periods, w.sum.Throttled+throttled, w.sum.ThrottledTime+duration(held)
	w.say(fmt.Sprintf("second %.0f: ", w.wall.Seconds()) + inSecond(periods, throttled, held))
	return nil
}

// inSecond is what was counted meanwhile.
func inSecond(periods, throttled int64, held float64) string {
	switch {
	case periods == 0:
		return "no period was counted"
	case throttled == 0:
		return "throttled in none of " + quantity.Plural(periods, "period")
	}
	return fmt.Sprintf("throttled in %s of %s, %s summed over CPUs", quantity.Count(throttled), quantity.Plural(periods, "period"), quantity.Seconds(held))
}

var none = cgroup.None.String()

// slack is how much earlier than its answer arrives an agent may have read, in seconds.
const slack = 2 * float64(within) / float64(time.Second)

// possible reports whether that many seconds can have been counted, summed over CPUs.
func (w *watching) possible(seconds float64, wall time.Duration) bool {
	const mostCPUs = 1 << 16
	cpus := w.now.Affinity.CPUs
	if cpus == 0 {
		cpus = mostCPUs
	}
	return seconds >= 0 && seconds <= (wall.Seconds()+slack)*float64(cpus)
}

func of(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// document is what was seen. muted are the rules that the pod mutes.
func (w *watching) document(muted []string) *report.Watch {
	l := limits(w.now)
	wall := w.wall
	if w.counted > 0 { // a share is of the time that is known
		wall = w.counted
	}
	e := heartbeat.Evidence{Wall: wall, Limit: l.State, Affinity: l.Affinity}
	e.Owner, e.Local, e.LocalKnown = w.sum, w.local, w.localKnown
	if w.usedFor == wall {
		e.Own.CPUKnown, e.Own.CPU, e.Used = true, w.used, w.used
	}
	facts := report.WatchFacts{
		Began: w.began, PID: w.now.Subject.PID, Name: w.now.Subject.Name, Planned: w.length, Stopped: w.stopped, Ended: w.ended,
		Limit: l, Evidence: e, Warnings: w.now.Warnings,
	}
	if len(l.Levels) > 0 {
		facts.Group = l.Levels[0].Dir
	}
	if w.changed {
		facts.Warnings = append(facts.Warnings, "the limit was changed meanwhile")
	}
	if left := w.wall - wall; left > 0 {
		facts.Warnings = append(facts.Warnings, fmt.Sprintf("what was counted is of %s; of %s more it is not known", quantity.Lasting(wall.Seconds()), quantity.Lasting(left.Seconds())))
	}
	d := report.NewWatch(facts)
	d.Header, d.Elapsed = verb.NewHeader("watch"), w.wall.Seconds()
	d.Findings = slices.DeleteFunc(d.Findings, func(f finding.Finding) bool {
		return pods.Mutes(muted, f.Rule)
	})
	return &d
}

// limits are those of an explanation.
func limits(d *report.Explain) cgroup.Limits {
	l := cgroup.Limits{From: d.Limit.From, Path: d.Limit.Path, Affinity: d.Affinity.CPUs}
	for _, state := range []cgroup.State{cgroup.Limited, cgroup.None, cgroup.Hidden} {
		if d.Limit.State == state.String() {
			l.State = state
		}
	}
	l.CPUs = of(d.Limit.CPUs)
	const most = 1e6 // seconds
	for _, v := range d.Limit.Levels {
		level := cgroup.Level{Dir: v.Dir}
		if v.Quota > 0 && v.Quota < most && v.Period > 0 && v.Period < most {
			level.Quota = cgroup.Quota{QuotaMicros: duration(v.Quota).Microseconds(), PeriodMicros: duration(v.Period).Microseconds()}
		}
		l.Levels = append(l.Levels, level)
	}
	return l
}

// watch is the document of a watch by an agent.
func (w *watching) watch(ctx context.Context, muted []string) (*Done, error) {
	if err := w.run(ctx); err != nil {
		return nil, err
	}
	data, err := json.Marshal(w.document(muted))
	return &Done{Document: data}, err
}
