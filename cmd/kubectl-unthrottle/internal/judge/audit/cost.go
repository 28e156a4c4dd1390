package audit

import (
	"math"
	"slices"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A Cost is what was measured of a workload.
type Cost struct {
	Programs int      `json:"programs"`  // Go programs that agents saw
	CPU      *float64 `json:"cpus_used"` // by them, together; null: not measured

	// Save is what threads used that looked for work and would not be there with the right number of Ps.
	Save Range `json:"cpus_to_save"`

	Frozen           *float64 `json:"frozen_share"`                // of the time, on average over the pods that were looked at
	FrozenPods       float64  `json:"frozen_pods"`                 // the time of that many pods
	Throttled        *float64 `json:"throttled_periods_share"`     // of the container that has the most
	PodThrottled     *float64 `json:"pod_throttled_periods_share"` // of the pods' own groups
	ThrottledSeconds *float64 `json:"throttled_seconds_per_second"`
}

// A Range is a number of CPUs that is not known exactly.
type Range struct {
	Low         float64 `json:"low"`
	High        float64 `json:"high"`         // never more than was measured
	Measured    int     `json:"measured"`     // programs with too many Ps whose threads were looked at
	NotMeasured int     `json:"not_measured"` // those with too many Ps for which it is unknown
}

func (r Range) plus(o Range) Range {
	return Range{r.Low + o.Low, r.High + o.High, r.Measured + o.Measured, r.NotMeasured + o.NotMeasured}
}

// excess are the rules about Ps that should not be there.
var excess = []string{"too-many-ps", "limit-not-seen", "stale", "not-following"}

// pay adds what a program costs.
func (r *row) pay(at *pod, p Program) {
	r.cost.Programs++
	r.cost.CPU = sum(r.cost.CPU, p.CPU)
	r.cost.Throttled = most(r.cost.Throttled, p.Throttled)
	if p.Level == "pod" {
		r.cost.PodThrottled = most(r.cost.PodThrottled, p.Throttled)
	}
	r.cost.Save = r.cost.Save.plus(saved(p))
	r.stands(at, p.Frozen)
}

// stands adds the share of the time in which a pod stood still: that of the program which did so the most.
func (r *row) stands(at *pod, share *float64) {
	if share == nil || !(*share >= 0 && *share <= 1) {
		return
	}
	at.frozen, at.known = max(at.frozen, *share), true
}

// saved is what a program with too many Ps would use less with the right number. At most half of n Ps have a thread that looks
// for work. Of the threads that did, those beyond half of the right number would be gone; at best all are. A thread that looks
// for work may wait for a CPU as any other, so it counts for as much as the program's Ps got on average, at least, and never
// for more than the program used.
func saved(p Program) Range {
	if p.Expected < 1 || p.Procs <= p.Expected ||
		!slices.ContainsFunc(p.Findings, func(f finding.Finding) bool { return slices.Contains(excess, f.Rule) }) {
		return Range{}
	}
	if p.CPU == nil || p.Spinning == nil || !sane(*p.CPU) || !sane(*p.Spinning) {
		return Range{NotMeasured: 1}
	}
	cpu, spinning := *p.CPU, *p.Spinning
	high := min(spinning, cpu)
	low := 0.0
	if running := max(value(p.Running), spinning, cpu); running > 0 {
		low = max(0, spinning-float64(p.Expected)/2) * cpu / running
	}
	return Range{Low: min(low, high), High: high, Measured: 1}
}

// sane reports whether a number can be one of CPUs.
func sane(v float64) bool { return v >= 0 && v <= 1<<20 }

// counted are what the rules say about what Prometheus counted. They need a limit: without one there is nothing to be above.
func counted(c *container, h History) []finding.Finding {
	if !c.isGo() {
		return nil
	}
	limit, memory := c.limitOf(h), c.memoryOf(h)
	if limit <= 0 {
		if memory == nil {
			return nil
		}
		return rule.Check(&rule.Facts{Memory: memory})
	}
	f := &rule.Facts{Procs: h.Procs, CPU: h.CPU, Memory: memory, Lasting: true}
	f.Limits = cgroup.Limits{State: cgroup.Limited, CPUs: limit, Affinity: manyCPUs}
	if h.GoVersion != "" {
		f.Minor = (&procs.Program{GoVersion: h.GoVersion}).Minor()
	}
	if c.spec != nil && forecast.SettingOf(c.in, c.spec, binary.Binary{}).Valid() {
		f.Source = choice.FromEnvironment
	}
	if h.throttled() != nil {
		f.Counted.Owner = cgroup.Counters{Known: true, Periods: h.Periods, Throttled: h.ThrottledPeriods}
	}
	if h.Frozen != nil {
		f.Frozen = &rule.Frozen{Share: *h.Frozen, Exact: true}
	}
	if h.Stalled != nil {
		f.Pressure = &rule.Pressure{All: *h.Stalled, Some: max(*h.Stalled, value(h.Waiting))}
	}
	f.Stale = c.leftBehind(h, limit)
	return rule.Check(f)
}

// leftBehind is what is known about a resize: the limit was another one, to which the program's GOMAXPROCS suits, and neither the process
// nor its number changed with it. What the spec says is not in force before the kubelet has made it so.
func (c *container) leftBehind(h History, limit float64) *rule.Stale {
	if h.Limit <= 0 || h.Moved || h.Procs == 0 || h.InForce > 0 && math.Abs(h.InForce-limit) > 0.01*limit {
		return nil
	}
	for _, before := range h.Before {
		if before == limit || !rule.Suits(h.Procs, cgroup.Limits{State: cgroup.Limited, CPUs: before, Affinity: manyCPUs}) {
			continue
		}
		written := false
		if c.spec != nil {
			v, ok := c.spec.Var("GOMAXPROCS")
			written = ok && v.Form == workload.Literal
		}
		return &rule.Stale{
			Then: before, Now: limit, Written: written,
			Why: "its limit was " + quantity.UsedCPUs(before) + " earlier, and neither the process nor its GOMAXPROCS changed since, by their metrics",
		}
	}
	return nil
}

// memoryOf is what is known about a program's memory; nil: not enough.
func (c *container) memoryOf(h History) *rule.Memory {
	limit := h.MemoryLimit
	if limit <= 0 && c.spec != nil && c.spec.Memory.State == workload.Known && c.spec.Memory.Value < 1<<60 {
		limit = int64(c.spec.Memory.Value)
	}
	if limit <= 0 || h.GOMEMLIMIT <= 0 {
		return nil
	}
	m := &rule.Memory{Limit: cgroup.Memory{State: cgroup.Limited, Bytes: limit}, Reckoned: true}
	m.Percent, m.Collector.Limit = 100, h.GOMEMLIMIT
	if h.GOGC != nil {
		m.Percent = *h.GOGC
	}
	if h.GOGC != nil && *h.GOGC >= 0 && h.GOMEMLIMIT == math.MaxInt64 && h.Goal > 0 { // else GOMEMLIMIT may have lowered the goal
		m.Goal = uint64(h.Goal)
		m.Live = uint64(float64(h.Goal) / (1 + float64(m.Percent)/100))
	}
	return m
}

// limitOf is the limit that Prometheus has, or else the objects; 0: none is known.
func (c *container) limitOf(h History) float64 {
	limit := h.Limit
	if limit <= 0 && c.spec != nil {
		limit = forecast.LimitOf(c.in, c.spec).CPUs
	}
	if !(limit > 0) || math.IsInf(limit, 0) {
		return 0
	}
	return limit
}

// manyCPUs stands for those of a node: which it is, Prometheus does not say here.
const manyCPUs = 1 << 16

// costs is what all of a row comes to.
func (r *row) costs() Cost {
	c := r.cost
	known, total := 0, 0.0
	for _, p := range r.pods {
		if p.known {
			known++
			total += p.frozen
		}
	}
	if known > 0 {
		c.Frozen, c.FrozenPods = new(total/float64(known)), total
	}
	for _, x := range r.containers {
		if x.share > 0 {
			c.Throttled = most(c.Throttled, &x.share)
		}
	}
	return c
}
