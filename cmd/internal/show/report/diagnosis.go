package report

import (
	"math"
	"slices"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/heartbeat"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
)

// What watch, trace and profile have in common: each knows some of the facts that the rules ask for, and the first two look for
// the rhythm of standstills.

// Freeze is a time in which nothing ran.
type Freeze struct {
	Start  float64 `json:"start_seconds"` // since the beginning
	End    float64 `json:"end_seconds"`
	Refill bool    `json:"at_refill"` // it ended as the quota was refilled
}

// NewFreezes are freezes whose rhythm is not known yet.
func NewFreezes(gaps []freeze.Gap) []Freeze {
	freezes := make([]Freeze, len(gaps))
	for i, g := range gaps {
		freezes[i] = Freeze{Start: g.Start.Seconds(), End: g.End.Seconds()}
	}
	return freezes
}

// causeWord is the answer in a word. If nothing was found, it is "not" and the word given, or "hardly" where a finding names a quota.
func causeWord(cause, still string, found []finding.Finding) string {
	switch freeze.Cause(cause) {
	case freeze.Throttled, freeze.Contended, freeze.Unsure:
		return cause
	case freeze.None:
		if quotaNamed(found) {
			return "hardly " + still
		}
		return "not " + still
	}
	return string(freeze.Unsure)
}

// quotaNamed reports whether a finding names a quota, which it does from a hundredth of the periods on.
func quotaNamed(found []finding.Finding) bool {
	return slices.ContainsFunc(found, func(f finding.Finding) bool { return f.Rule == "throttled" })
}

// frozenText says how much of the time nothing ran.
func frozenText(share float64) string { return "frozen " + quantity.Share(share) + " of the time" }

// usualPeriod, in seconds, is used if no quota is known.
const usualPeriod = 0.1

// A Folding is how time is cut into rows so that freezes by a quota line up. All is in seconds.
type Folding struct {
	Period, Phase float64
	Refill        bool    // a period begins when the quota is refilled
	Second        float64 // when, after that, a second quota is refilled; 0: none
}

// folding cuts time by the period of the quota, or by the usual one.
func folding(period *float64, cause string, r WatchRhythm) Folding {
	f := Folding{Period: usualPeriod}
	if period != nil && *period >= 1e-4 {
		f.Period = *period
	}
	if cause == string(freeze.Throttled) && r.Period > 0 && math.Abs(r.Period-f.Period) < 1e-6 {
		f.Phase, f.Refill, f.Second = max(0, r.Phase), true, max(0, r.Offset)
	}
	return f
}

// ofRules are the facts that the rules ask for, of a group that was watched by a heartbeat.
func (f *WatchFacts) ofRules(v heartbeat.Verdict) *rule.Facts {
	e := &f.Evidence
	r := &rule.Facts{
		Limits: f.Limit, Wall: e.Wall, Counted: e.Throttling, Why: v.Why,
		Still:  freeze.Verdict{Cause: v.Cause, Throttled: v.Throttled, Contended: v.Contended},
		Frozen: known(v.Cause == freeze.Throttled, rule.Frozen{Share: v.Throttled, Exact: v.Throttled >= heartbeatSees}),
	}
	r.Limits.State = e.Limit
	if f.Seen == nil { // no standstill was seen: a quota is known by its counts, and by these alone
		if r.Still, r.Frozen = (freeze.Verdict{}), nil; v.Cause == freeze.Contended {
			r.Still.Cause = v.Cause
		}
		if k := newWatchKernel(e, f.Limit.Affinity); k != nil && v.Cause == freeze.Throttled {
			r.Frozen = &rule.Frozen{Share: k.AtLeast, Exact: k.AtLeast == k.AtMost}
		}
	}
	wall := e.Wall.Seconds()
	if wall <= 0 {
		return r
	}
	r.CPU = known(e.ThreadsKnown || e.Own.CPUKnown, e.Used.Seconds()/wall)
	r.Queue = known(e.ThreadsKnown, rule.Queue{Ran: e.Run.Seconds() / wall, Waited: e.Waited.Seconds() / wall})
	if e.CPUs > 0 {
		system := host.System{CPUs: e.CPUs, Wall: e.Wall, Busy: e.Busy.Seconds() / wall, Steal: e.Steal.Seconds() / wall, Known: true}
		r.Host = rule.Host{System: system, Others: new(e.Others())}
	}
	return r
}

// heartbeatSees is the share of the time below which a heartbeat misses some of the freezes that the kernel counts.
const heartbeatSees = 0.01

// ofRules are the facts that the rules ask for, of a traced program. The document has some of them already.
func (f *TraceFacts) ofRules(d *Trace) *rule.Facts {
	t := f.Trace
	r := &rule.Facts{
		Source: f.Set, OutOfSight: f.OutOfSight, Wall: t.Wall, Why: []string{t.Why}, Running: positive(t.Busy),
		Still:  freeze.Verdict{Cause: t.Cause, Throttled: t.Throttled, Contended: t.Contended},
		Frozen: known(t.Cause == freeze.Throttled, rule.Frozen{Share: t.Throttled, Exact: true}),
	}
	if f.Limits != nil {
		r.Limits = *f.Limits
	}
	if d.Procs != nil {
		r.Procs = *d.Procs
	}
	if !t.Sure && t.Doubt != t.Why {
		r.Doubt = t.Doubt
	}
	r.CPU = f.cpus()
	if k := d.Kernel; k != nil {
		r.Counted.Owner = cgroup.Counters{Known: true, Periods: k.Periods, Throttled: k.ThrottledPeriods}
	}
	return r
}

// cpus are those that a traced program used: by its CPU samples, or by the kernel's count where they can't be right. A server
// that stands still a lot takes samples for as long as it was asked to, and traces for longer.
func (f *TraceFacts) cpus() *float64 {
	t := f.Trace
	if t.Samples == nil || t.Wall <= 0 {
		return nil
	}
	sampled := t.Samples.CPU.Seconds() / t.Wall.Seconds()
	if t.Cause != freeze.Throttled || f.agrees(sampled) {
		return &sampled
	}
	if n := len(f.Readings); n > 1 {
		first, last := f.Readings[0], f.Readings[n-1]
		c, wall := last.Since(first.Counters), last.At.Sub(first.At)
		return known(c.CPUKnown && wall > 0, c.CPU.Seconds()/wall.Seconds())
	}
	return nil
}

// ofRules are the facts that the rules ask for, of a profiled program. A profile shows no standstills: only the kernel's count
// shows throttling.
func (f *ProfileFacts) ofRules(d *Profile) *rule.Facts {
	r := &rule.Facts{Source: f.Set, OutOfSight: f.OutOfSight, Wall: f.Profile.Duration, CPU: d.CPUs}
	r.Counted.Owner, _ = f.counted()
	r.Limits, _ = f.limits()
	if d.Procs != nil {
		r.Procs = *d.Procs
	}
	if p := d.Process; p != nil && p.CPUs != nil && d.CPUs != nil && *d.CPUs >= profileSees**p.CPUs {
		r.CPU = p.CPUs
	}
	if m := d.Demand; m != nil && m.Wanted != nil && r.CPU != nil { // its own count of CPUs is of another stretch of time
		r.Running = new(m.Ratio * *r.CPU)
	}
	return r
}

// profileSees is the share of a program's CPU time that a profile has samples for, at least: if the group used more than that,
// other programs in it did.
const profileSees = 0.8
