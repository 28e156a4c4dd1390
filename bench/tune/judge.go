//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A setting is what a program is run with.
type setting struct{ procs, gogc int } // GOGC 0: as the program has it

func (s setting) String() string {
	if s.gogc == 0 {
		return fmt.Sprint(s.procs)
	}
	return fmt.Sprintf("%d, GOGC=%d", s.procs, s.gogc)
}

// A metric is what settings are compared by.
type metric string

const (
	tail metric = "tail" // of a server: p99 of typical seconds, or a lower percentile, from when requests were ready to be sent
	wall metric = "time" // of a job
	cpu  metric = "cpu"  // a good request, or a run
)

// What a verdict is compared with.
const (
	near     = 1.10 // what is advised costs at most this many times as much as the best
	inferior = 1.25 // the tail, or the time of a job, is worse from this many times that of the current setting on
)

// worst is by how much a metric may rise with a setting that is not worse.
func worst(m metric) float64 {
	if m == cpu {
		return near
	}
	return inferior
}

// A sweep has the runs of each setting, by block.
type sweep map[setting][]run

// A run is one of a sweep.
type run struct {
	cost   map[metric]float64 // seconds
	failed float64            // share of its requests
}

// settings are those of a sweep in order, and the metrics that all runs have.
func (s sweep) settings() (all []setting) {
	for c := range s {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b setting) int {
		if a.gogc != b.gogc {
			return a.gogc - b.gogc
		}
		return a.procs - b.procs
	})
	return all
}

func (s sweep) metrics() []metric {
	for _, runs := range s {
		if _, job := runs[0].cost[wall]; job {
			return []metric{wall, cpu}
		}
	}
	return []metric{tail, cpu}
}

func (s sweep) median(m metric, c setting) float64 {
	values := make([]float64, 0, len(s[c]))
	for _, r := range s[c] {
		values = append(values, r.cost[m])
	}
	return median(values)
}

func (s sweep) failed(c setting) float64 {
	sum := 0.0
	for _, r := range s[c] {
		sum += r.failed
	}
	return sum / float64(len(s[c]))
}

// A ratio is the median of the blocks' ratios, with its interval.
type ratio struct{ median, low, high float64 }

// ratio is what a costs, relative to b.
func (s sweep) ratio(m metric, a, b setting) ratio {
	if a == b {
		return ratio{1, 1, 1}
	}
	var ratios []float64
	for block := range s[a] {
		ratios = append(ratios, s[a][block].cost[m]/s[b][block].cost[m])
	}
	r := ratio{median(ratios), 0, math.Inf(+1)}
	if k := outside(len(ratios)); k >= 0 {
		slices.Sort(ratios)
		r.low, r.high = ratios[k], ratios[len(ratios)-1-k]
	}
	return r
}

// outside is how many of n values may be left out on each side, so that the others still hold the true median in at least 90 % of cases;
// for eight it is one: 93 %. With fewer than five values there is no such interval, and it is -1.
func outside(n int) int {
	sum, k := 0.0, 0
	for term := math.Pow(0.5, float64(n)); ; k++ {
		if sum += term; 2*sum > 0.1 {
			return k - 1
		}
		term *= float64(n-k) / float64(k+1)
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// An answer says whether something holds, the worse the higher.
type answer int

const (
	holds   answer = iota
	unclear        // the median says no, and the interval has room for yes
	fails
)

// most says whether a ratio is at most that. It fails only where the sweep shows that there is a difference at all.
func (r ratio) most(bound float64) answer {
	switch {
	case r.median <= bound:
		return holds
	case r.low > 1:
		return fails
	}
	return unclear
}

// A verdict is what tune says.
type verdict struct {
	kind    string // change, keep, trade, undecided
	current setting
	advised setting  // of a trade what it offers
	named   []metric // in which it says that this is better
}

// A judgement is what a sweep says of a verdict.
type judgement struct {
	answer answer
	wrong  bool   // a change with which the tail, the time of a job or errors are worse than the current setting's
	why    string // what does not hold, or what the advice does in the sweep
}

// judge compares a verdict with a sweep.
func judge(v verdict, s sweep) judgement {
	for _, c := range []setting{v.current, v.advised} {
		if len(s[c]) == 0 {
			return judgement{fails, false, fmt.Sprintf("%v was not swept", c)}
		}
	}
	switch v.kind {
	case "change":
		return s.change(v)
	case "trade":
		return s.trade(v)
	case "keep":
		return s.keep(v.current)
	}
	return judgement{fails, false, "no verdict; in the sweep " + s.keep(v.current).why}
}

// change: what is advised is better in a metric that is named, near the best in it, and not worse in the others.
func (s sweep) change(v verdict) judgement {
	j := s.bestNamed(v, func(m metric, other setting) answer { return s.notWorse(other, v.current, m) })
	for _, m := range s.metrics() {
		r := s.ratio(m, v.advised, v.current)
		a := r.most(worst(m))
		j.wrong = j.wrong || m != cpu && a == fails
		if a != holds {
			j.add(a, fmt.Sprintf("%s %s", m, r))
		}
	}
	if was, is := s.failed(v.current), s.failed(v.advised); is > was*inferior+0.001 {
		j.wrong = true
		j.add(fails, fmt.Sprintf("errors %.1f → %.1f %%", 100*was, 100*is))
	}
	if j.why == "" {
		j.why = s.effects(v.advised, v.current)
	}
	return j
}

// trade: what is offered is better in a metric that is named, and near the best in it. And it is a trade: no setting is
// shown to be better in one metric and not worse in the others.
func (s sweep) trade(v verdict) judgement {
	j := s.bestNamed(v, func(metric, setting) answer { return holds })
	if k := s.keep(v.current); k.answer == fails {
		j.add(fails, k.why)
	}
	if j.why == "" {
		j.why = s.effects(v.advised, v.current)
	}
	return j
}

// keep: no other setting that is not worse in one metric is better in another.
func (s sweep) keep(current setting) (j judgement) {
	for _, m := range s.metrics() {
		a, best := s.beaten(m, current, func(other setting) answer { return s.notWorse(other, current, m) })
		if a != holds {
			j.add(a, fmt.Sprintf("%v has %s %s", best, m, s.ratio(m, best, current)))
		}
	}
	if j.why == "" {
		j.why = fmt.Sprintf("none is better by %.0f %%", 100*(near-1))
	}
	return j
}

// bestNamed is about the metric that speaks most for what is advised, of those that are named. One of these is enough: where one setting
// has the best tail and another the least CPU time, both are right.
func (s sweep) bestNamed(v verdict, eligible func(metric, setting) answer) judgement {
	best := judgement{answer: fails, why: "it names no metric"}
	for i, m := range v.named {
		var j judgement
		if r := s.ratio(m, v.advised, v.current); r.most(1) != holds {
			j.add(r.most(1), fmt.Sprintf("no better: %s %s", m, r))
		}
		a, other := s.beaten(m, v.advised, func(other setting) answer { return eligible(m, other) })
		if a != holds {
			j.add(a, fmt.Sprintf("%v has %s %s", other, m, s.ratio(m, other, v.advised)))
		}
		if i == 0 || j.answer < best.answer {
			best = j
		}
	}
	return best
}

// beaten says whether a setting is near the best of the eligible ones, and if not, which is better. Where it is unclear
// whether the other is eligible, so is this.
func (s sweep) beaten(m metric, c setting, eligible func(other setting) answer) (worstAnswer answer, by setting) {
	most := 0.0
	for _, other := range s.settings() {
		r := s.ratio(m, c, other)
		a := r.most(near)
		switch {
		case other == c || eligible(other) == fails:
			continue
		case eligible(other) == unclear:
			a = min(a, unclear)
		}
		if a > worstAnswer || a == worstAnswer && a != holds && r.median > most {
			worstAnswer, by, most = a, other, r.median
		}
	}
	return worstAnswer, by
}

// notWorse says whether a setting is not worse than the current one in all metrics but one. It is unclear where the medians
// say so and the intervals do not, and fails where the medians do not.
func (s sweep) notWorse(c, current setting, but metric) answer {
	a := holds
	for _, m := range s.metrics() {
		switch r := s.ratio(m, c, current); {
		case m == but:
		case r.median > worst(m):
			return fails
		case r.high > worst(m):
			a = unclear
		}
	}
	return a
}

func (j *judgement) add(a answer, why string) {
	j.answer = max(j.answer, a)
	if j.why != "" {
		why = j.why + "; " + why
	}
	j.why = why
}

// effects are what a setting does in the sweep.
func (s sweep) effects(c, current setting) string {
	var parts []string
	for _, m := range s.metrics() {
		parts = append(parts, fmt.Sprintf("%s %s", m, s.ratio(m, c, current)))
	}
	return strings.Join(parts, ", ")
}

// String writes −12 % (−14 to −9), or ×2.4 (1.2 to 5.1).
func (r ratio) String() string {
	if r.median >= 2 {
		if math.IsInf(r.high, 1) {
			return fmt.Sprintf("×%.1f", r.median)
		}
		return fmt.Sprintf("×%.1f (%.1f to %.1f)", r.median, r.low, r.high)
	}
	percent := func(v float64) string { return strings.Replace(fmt.Sprintf("%+.0f", 100*(v-1)), "-", "−", 1) }
	if math.IsInf(r.high, 1) {
		return percent(r.median) + " %"
	}
	return fmt.Sprintf("%s %% (%s to %s)", percent(r.median), percent(r.low), percent(r.high))
}
