package report

import (
	"math"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/heartbeat"
	"github.com/unthrottle/unthrottle/cmd/internal/host"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/rule"
)

// What watch, trace and profile have in common: each knows a part of what the rules ask of a program, and the first two look
// for the rhythm of its standstills.

// causeWord is the answer in a word. still is what it did not do where nothing was found.
func causeWord(cause, still string) string {
	switch freeze.Cause(cause) {
	case freeze.Throttled, freeze.Contended, freeze.Unsure:
		return cause
	case freeze.None:
		return "not " + still
	}
	return string(freeze.Unsure)
}

// frozenText says for how much of the time nothing ran.
func frozenText(share float64) string { return "frozen for " + quantity.Share(share) + " of the time" }

// usualPeriod is what time is folded at where no quota is known.
const usualPeriod = 0.1

// A Folding is how time is cut so that what has the rhythm of a quota stands in a column. All is in seconds.
type Folding struct {
	Period, Phase float64
	Refill        bool // a period begins when the quota is refilled
}

// folding cuts time at the period of the quota, or at the usual one.
func folding(period *float64, cause string, r WatchRhythm) Folding {
	f := Folding{Period: usualPeriod}
	if period != nil && *period >= 1e-4 {
		f.Period = *period
	}
	if cause == string(freeze.Throttled) && r.Period > 0 && math.Abs(r.Period-f.Period) < 1e-6 {
		f.Phase, f.Refill = max(0, r.Phase), true
	}
	return f
}

// ofRules are the facts that the rules ask of a group in which a heartbeat was.
func (f *WatchFacts) ofRules(v heartbeat.Verdict) *rule.Facts {
	e := &f.Evidence
	r := &rule.Facts{Limits: f.Limit, Wall: e.Wall, Counted: e.Throttling, Still: still(v.Cause, v.Throttled, v.Contended), Why: v.Why}
	r.Limits.State = e.Limit
	if v.Cause == freeze.Throttled {
		r.Frozen = &rule.Frozen{Share: v.Throttled, Exact: v.Throttled >= heartbeatSees}
	}
	wall := e.Wall.Seconds()
	if wall <= 0 {
		return r
	}
	if e.ThreadsKnown || e.Own.CPUKnown {
		cpu := e.Used.Seconds() / wall
		r.CPU = &cpu
	}
	if e.ThreadsKnown {
		r.Queue = &rule.Queue{Ran: e.Run.Seconds() / wall, Waited: e.Waited.Seconds() / wall}
	}
	if e.CPUs > 0 {
		others := e.Others()
		r.Host = rule.Host{
			System: host.System{CPUs: e.CPUs, Wall: e.Wall, Busy: e.Busy.Seconds() / wall, Steal: e.Steal.Seconds() / wall, Known: true},
			Others: &others,
		}
	}
	return r
}

// heartbeatSees is a share of the time below which a heartbeat misses some of the freezes that the kernel counts.
const heartbeatSees = 0.01

// ofRules are the facts that the rules ask of a program whose trace was read, beside what is in the document already.
func (f *TraceFacts) ofRules(d *Trace) *rule.Facts {
	t := f.Trace
	r := &rule.Facts{Wall: t.Wall, Still: still(t.Cause, t.Throttled, t.Contended), Why: []string{t.Why}, Running: positive(t.Busy)}
	if f.Limits != nil {
		r.Limits = *f.Limits
	}
	if d.Procs != nil {
		r.Procs = *d.Procs
	}
	if !t.Sure && t.Doubt != t.Why {
		r.Doubt = t.Doubt
	}
	if t.Cause == freeze.Throttled {
		r.Frozen = &rule.Frozen{Share: t.Throttled, Exact: true}
	}
	if s := t.Samples; s != nil && t.Wall > 0 {
		cpu := s.CPU.Seconds() / t.Wall.Seconds()
		r.CPU = &cpu
	}
	if k := d.Kernel; k != nil {
		r.Counted.Owner = cgroup.Counters{Known: true, Periods: k.Periods, Throttled: k.ThrottledPeriods}
	}
	return r
}

// ofRules are the facts that the rules ask of a program whose profile was read. A profile shows no standstill: only the
// kernel's count beside it tells of throttling.
func (f *ProfileFacts) ofRules(d *Profile) *rule.Facts {
	r := &rule.Facts{Wall: f.Profile.Duration, CPU: d.CPUs}
	switch {
	case f.LimitGiven > 0:
		r.Limits = cgroup.Limits{State: cgroup.Limited, CPUs: f.LimitGiven, From: d.Limit.From}
	case f.Limits != nil:
		r.Limits = *f.Limits
	}
	if d.Procs != nil {
		r.Procs = *d.Procs
	}
	if d.Demand != nil {
		r.Running = d.Demand.Wanted
	}
	if p := d.Process; p != nil && p.CPUs != nil && d.CPUs != nil && *d.CPUs >= profileSees**p.CPUs {
		r.CPU = p.CPUs
	}
	if p := d.Process; p != nil && p.Periods != nil && p.ThrottledPeriods != nil {
		r.Counted.Owner = cgroup.Counters{Known: true, Periods: *p.Periods, Throttled: *p.ThrottledPeriods}
	}
	return r
}

// profileSees is the least share of its program's CPU time that a profile has samples for: if its group used more than that,
// others did.
const profileSees = 0.8

// still is what standstills come from, for the rules.
func still(cause freeze.Cause, throttled, contended float64) freeze.Verdict {
	return freeze.Verdict{Cause: cause, Throttled: throttled, Contended: contended}
}
