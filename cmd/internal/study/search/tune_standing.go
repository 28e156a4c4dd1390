package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
)

// A Standing is how a candidate compares with the current setting, by all runs so far. While the search runs it claims nothing.
type Standing struct {
	Candidate
	Current bool     // it is the current setting
	Runs    int      // that were valid, and undisturbed
	Broken  int      // of these, those that broke the SLO
	Pairs   int      // blocks in which the current setting ran too
	Effects []Effect // of the metrics that are known; of the current setting the medians alone
	Front   bool     // no other setting beats it in all metrics that decide, as far as can be seen
	Dropped *Drop    // nil: it is in the race
}

// Standings ranks the candidates: the leader first, then those in the race by the rules that have found the leader, then
// those that were dropped, the last of them first.
func (t *Tune) Standings() []Standing {
	leader := t.leading()
	ranked := []*arm{leader}
	left := slices.DeleteFunc(t.alive(), func(a *arm) bool { return a == leader })
	for len(left) > 0 {
		next := t.best(left)
		if next == nil { // none of them has run
			slices.SortFunc(left, func(a, b *arm) int { return t.simpler(a.Candidate, b.Candidate) })
			ranked = append(ranked, left...)
			break
		}
		ranked = append(ranked, next)
		left = slices.DeleteFunc(left, func(a *arm) bool { return a == next })
	}
	var dropped []*arm
	for _, a := range t.arms {
		if a.dropped != nil && a != leader {
			dropped = append(dropped, a)
		}
	}
	slices.SortFunc(dropped, func(a, b *arm) int { return cmp.Compare(b.nth, a.nth) })

	var standings []Standing
	for _, a := range append(ranked, dropped...) {
		s := Standing{Candidate: a.Candidate, Current: a.Candidate == t.current(), Pairs: t.pairs(a), Front: t.inFront(a), Dropped: a.dropped}
		s.Broken, s.Runs = t.brokenRuns(a)
		s.Effects = t.effects(a)
		standings = append(standings, s)
	}
	return standings
}

func (t *Tune) effects(a *arm) (effects []Effect) {
	for _, m := range []Metric{P99, Pooled, Time, CPU, Throughput} {
		if a.Candidate != t.current() {
			if e, ok := t.effect(m, a); ok {
				effects = append(effects, e)
			}
		} else if values := a.values(m); len(values) > 0 {
			effects = append(effects, Effect{Metric: m, From: median(values), To: median(values), Ratio: 1, Pairs: len(values), P: 1})
		}
	}
	// No throttling at all is a figure as well, where another candidate has some.
	throttles := func(a *arm) bool { return len(a.values(Throttled)) > 0 }
	if e, ok := t.throttling(a); ok && slices.ContainsFunc(t.arms, throttles) {
		effects = append(effects, e)
	}
	return effects
}

// values are those of a metric that are known.
func (a *arm) values(m Metric) []float64 {
	var values []float64
	for _, o := range a.runs {
		if v := o.value(m); v > 0 {
			values = append(values, v)
		}
	}
	return values
}

// inFront reports whether no other setting is better in every metric that decides. Costs are relative to the current
// setting, which is in every block.
func (t *Tune) inFront(a *arm) bool {
	if len(t.chain()) == 0 || len(a.runs) == 0 || a.failed {
		return false
	}
	return !slices.ContainsFunc(t.arms, func(b *arm) bool { return b != a && !b.failed && sample.Beats(t.costs(b), t.costs(a)) })
}

// costs are those in the metrics that decide; NaN is one that is not known.
func (t *Tune) costs(a *arm) (costs []float64) {
	for _, m := range t.chain() {
		c, known := t.costToCurrent(m, a)
		if !known {
			c = math.NaN()
		}
		costs = append(costs, c)
	}
	return costs
}

// A Noise is by how much runs of one setting differ within a block: the standard deviation of a metric's logarithm, and its
// 95 % interval.
type Noise struct{ SD, Low, High float64 }

// Noise is that of the metrics that decide, where it is known.
func (t *Tune) Noise() map[Metric]Noise {
	noise := map[Metric]Noise{}
	for _, m := range t.chain() {
		if s := t.spread(m); s.freedom >= 3 && s.sd > 0 {
			n := float64(s.freedom)
			// The quantiles of χ² by Wilson and Hilferty, which are off by a tenth with three degrees of freedom, and useless with one.
			chi := func(z float64) float64 { return n * math.Pow(1-2/(9*n)+z*math.Sqrt(2/(9*n)), 3) }
			noise[m] = Noise{s.sd, s.sd * math.Sqrt(n/chi(1.96)), s.sd * math.Sqrt(n/chi(-1.96))}
		}
	}
	return noise
}
