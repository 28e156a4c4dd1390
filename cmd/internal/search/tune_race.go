package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/sample"
)

// This file ranks the candidates of the exploration. None of it is a claim: it is a filter, and may be loose.

// chain are the metrics that decide, the first one first: the declared one alone, or those of Auto that are known.
func (t *Tune) chain() []Metric {
	if t.config.Objective != Auto {
		return []Metric{t.config.Objective}
	}
	known := func(m Metric) bool {
		return slices.ContainsFunc(t.seen, func(o TuneObservation) bool { return o.Valid && o.value(m) > 0 })
	}
	var chain []Metric
	for _, m := range []Metric{P99, Time, Throughput} {
		if known(m) {
			chain = append(chain, m)
			break
		}
	}
	// At a set rate all settings have the same throughput as long as they keep up, so it decides only where there is
	// nothing else.
	if known(CPU) {
		if len(chain) > 0 && chain[0] == Throughput {
			return []Metric{CPU}
		}
		chain = append(chain, CPU)
	}
	return chain
}

// last is the metric that decides where none before it does.
func (t *Tune) last() Metric {
	chain := t.chain()
	if len(chain) == 0 {
		return t.config.Objective
	}
	return chain[len(chain)-1]
}

// logCosts are the log-ratios a ÷ b of the blocks in which both have a value, such that above 0 a is worse.
func logCosts(m Metric, a, b *arm) []float64 {
	var costs []float64
	for block, left := 1, len(a.runs); left > 0; block++ {
		o, ok := a.runs[block]
		if !ok {
			continue
		}
		left--
		if x, y := o.value(m), b.runs[block].value(m); x > 0 && y > 0 {
			costs = append(costs, cost(m, math.Log(x)-math.Log(y)))
		}
	}
	return costs
}

// cost turns a log-ratio such that above 0 is worse.
func cost(m Metric, logRatio float64) float64 {
	if m == Throughput {
		return -logRatio
	}
	return logRatio
}

// estimate is the typical log-ratio.
func estimate(costs []float64) (typical float64, ok bool) {
	if len(costs) == 0 {
		return 0, false
	}
	ones, others := make([]float64, len(costs)), make([]float64, len(costs))
	for i, c := range costs {
		ones[i], others[i] = 1, math.Exp(c)
	}
	ratio := sample.Compare(ones, others).Ratio
	return math.Log(ratio), ratio > 0
}

// Quantiles of Student's distribution with 2 degrees of freedom and more, at a one-sided 95 % and 99 %. The last does for
// all above it, and is on the safe side.
var (
	student95 = []float64{2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782}
	student99 = []float64{6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764, 2.718, 2.681}
)

// pilotWorth is how many degrees of freedom the pilot's noise counts for beside that of the blocks themselves. It makes
// much of the difference where these are three, whose own standard deviation is hardly known.
const pilotWorth = 4

// atLeast is a one-sided lower bound of the mean of log-ratios. It takes them to be normal: with the three to six of them
// that there are, no test that doesn't can say anything at 95 %. With heavy tails it drops too little.
func (t *Tune) atLeast(m Metric, costs []float64, student []float64) float64 {
	n := len(costs)
	if n < firstLook {
		return math.Inf(-1)
	}
	mean, sd := moments(costs)
	freedom := n - 1
	if pilot := t.config.Noise[m]; pilot > 0 {
		own, weight := float64(freedom), float64(pilotWorth)
		sd = math.Sqrt((own*sd*sd + weight*2*pilot*pilot) / (own + weight))
		freedom += pilotWorth
	}
	return mean - student[min(freedom-2, len(student)-1)]*sd/math.Sqrt(float64(n))
}

// moments are the mean and the standard deviation of a sample.
func moments(values []float64) (mean, sd float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		sd += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(sd / float64(max(1, len(values)-1)))
}

// brokenRuns counts the runs of an arm that broke the SLO.
func (t *Tune) brokenRuns(a *arm) (broken, of int) {
	for _, o := range a.runs {
		if t.broken(o) {
			broken++
		}
	}
	return broken, len(a.runs)
}

// allBroken: no run of a candidate that is in the race has held the SLO.
func (t *Tune) allBroken() bool {
	for _, a := range t.alive() {
		if broken, of := t.brokenRuns(a); broken < of {
			return false
		}
	}
	return true
}

// lead is the best of the candidates that are in the race, as far as can be told.
func (t *Tune) lead() Candidate {
	if a := t.best(t.alive()); a != nil {
		return a.Candidate
	}
	return t.current()
}

// best is the best of some candidates: those that break the SLO more often than the best fall out first, then those whose
// p99 is worse beyond the margin with confidence (99 %, as the best is often the best of many by chance), then those with
// more CPU a request. Of those that are equal in all of this it is the simplest. Nil: none of them has run.
func (t *Tune) best(of []*arm) *arm {
	left := t.holding(of)
	chain := t.chain()
	for i, m := range chain {
		first, cheapest := t.cheapest(m, left)
		if first == nil {
			continue
		}
		if i < len(chain)-1 { // nobody can be worse with confidence than one that has hardly run
			if other, _ := t.cheapest(m, seasoned(left)); other != nil {
				first = other
			}
		}
		var kept []*arm
		for _, a := range left {
			if i < len(chain)-1 {
				student := student99
				if a.Candidate == t.current() {
					student = student95 // where this errs the confirmation puts it right
				}
				if t.atLeast(m, logCosts(m, a, first), student) <= math.Log1p(t.config.Margin) {
					kept = append(kept, a)
				}
				continue
			}
			// Half of the margin, as two that are apart by that in these few blocks may well be apart by all of it.
			if c, ok := t.costToCurrent(m, a); ok && c-cheapest <= math.Log1p(t.config.Margin)/2 {
				kept = append(kept, a)
			}
		}
		left = kept
	}
	if len(left) == 0 {
		return nil
	}
	return slices.MinFunc(left, func(a, b *arm) int { return t.simpler(a.Candidate, b.Candidate) })
}

// simpler orders settings that are equal otherwise: those that leave GOGC alone come first, then the current GOMAXPROCS,
// then Go's default, then the smaller numbers.
func (t *Tune) simpler(a, b Candidate) int {
	rank := func(c Candidate) int {
		switch c.Procs {
		case t.config.Current:
			return 0
		case t.config.GoDefault:
			return 1
		}
		return 2
	}
	return cmp.Or(
		cmp.Compare(min(a.GOGC, 1), min(b.GOGC, 1)),
		cmp.Compare(rank(a), rank(b)),
		cmp.Compare(a.Procs, b.Procs),
		cmp.Compare(a.GOGC, b.GOGC),
	)
}

// better: by the metric that decides last the estimate is better than the current setting's, beyond the margin. A metric
// before it counts where it differs with confidence, as in best.
func (t *Tune) better(a *arm) bool {
	chain, current, margin := t.chain(), t.arm(t.current()), math.Log1p(t.config.Margin)
	for i, m := range chain {
		if i == len(chain)-1 {
			c, ok := t.costToCurrent(m, a)
			return ok && c < -margin
		}
		if t.atLeast(m, logCosts(m, a, current), student99) > margin {
			return false
		}
		if t.atLeast(m, logCosts(m, current, a), student95) > margin {
			return true
		}
	}
	return false
}

// holding are those of some candidates that break the SLO about as seldom as the best.
func (t *Tune) holding(of []*arm) []*arm {
	share := func(a *arm) float64 {
		broken, of := t.brokenRuns(a)
		return float64(broken) / float64(max(1, of))
	}
	least := 1.0
	for _, a := range of {
		if len(a.runs) > 0 {
			least = min(least, share(a))
		}
	}
	var holding []*arm
	for _, a := range of {
		if len(a.runs) > 0 && share(a) <= least+slack {
			holding = append(holding, a)
		}
	}
	return holding
}

// seasoned are the candidates that have run often enough to be compared with.
func seasoned(of []*arm) (enough []*arm) {
	for _, a := range of {
		if len(a.runs) >= firstLook {
			enough = append(enough, a)
		}
	}
	return enough
}

// cheapest is the candidate with the lowest cost, and that cost. Costs are those relative to the current setting, which
// is in every block: what blocks differ in cancels out, also for a candidate that joined late.
func (t *Tune) cheapest(m Metric, of []*arm) (first *arm, lowest float64) {
	for _, a := range of {
		if c, ok := t.costToCurrent(m, a); ok && (first == nil || c < lowest) {
			first, lowest = a, c
		}
	}
	return first, lowest
}

func (t *Tune) costToCurrent(m Metric, a *arm) (float64, bool) {
	return estimate(logCosts(m, a, t.arm(t.current())))
}

// drop takes candidates out of the race: those that break the SLO in every run while the leader holds it, and those that
// are worse than the leader at a one-sided 95 %. It is loose on purpose, as all it may cost is a good candidate; the
// claim comes later. The current setting stays, because every comparison is with it.
func (t *Tune) drop(lead Candidate) {
	leader := t.arm(lead)
	for _, a := range t.alive() {
		if a == leader || a.Candidate == t.current() {
			continue
		}
		if why := t.behind(a, leader); why != nil {
			t.dropArm(a, why)
		}
	}
}

// behind says why a candidate is out, nil if it isn't.
func (t *Tune) behind(a, leader *arm) *Drop {
	common, leaderHeld, bothHeld := 0, 0, 0
	for block, o := range a.runs {
		l, ok := leader.runs[block]
		if !ok {
			continue
		}
		common++
		if !t.broken(l) {
			leaderHeld++
			if !t.broken(o) {
				bothHeld++
			}
		}
	}
	if common >= firstLook && leaderHeld >= 2 && bothHeld == 0 {
		return &Drop{Reason: BreaksSLO, Blocks: leaderHeld, Against: leader.Candidate}
	}
	chain := t.chain()
	for i, m := range chain {
		costs := logCosts(m, a, leader)
		typical, ok := estimate(costs)
		if !ok {
			continue
		}
		bound, student := 0.0, student95
		if i < len(chain)-1 {
			bound, student = math.Log1p(t.config.Margin), student99
		}
		if t.atLeast(m, costs, student) > bound {
			return &Drop{Reason: Worse, Blocks: len(costs), Against: leader.Candidate, Metric: m, Ratio: math.Exp(cost(m, typical))}
		}
		if i < len(chain)-1 && typical < -bound {
			return nil // its p99 may yet turn out to be better with confidence, and that would come first
		}
	}
	return nil
}

// declare fixes what the confirmation decides by: what the leader leads by, and the family of tests that may make the
// claim.
func (t *Tune) declare() {
	current, leader := t.arm(t.current()), t.arm(t.leader)
	broken, of := t.brokenRuns(current)
	leaders, ofLeader := t.brokenRuns(leader)
	t.slo = float64(broken)/float64(max(1, of))-float64(leaders)/float64(max(1, ofLeader)) > 0.6 // two runs of three
	t.family = t.familyOf(t.slo)
	t.basis = t.last()
	if chain := t.chain(); len(chain) > 1 && t.atLeast(chain[0], logCosts(chain[0], current, leader), student95) > math.Log1p(t.config.Margin) {
		t.basis = chain[0]
	}
}

// familyOf are the tests that may make the claim. They share the 5 %, by Holm, so it must be known before which they are.
func (t *Tune) familyOf(slo bool) []Metric {
	family := slices.Clone(t.chain())
	if slo {
		family = append(family, SLO)
	}
	return family
}

// fewestPairs are those without which a family of tests can't show anything: 2/2ⁿ is the smallest p of n pairs, and
// Holm multiplies it by the family's size.
func fewestPairs(family int) int {
	n := 6
	for float64(max(1, family))*2/math.Pow(2, float64(n)) > 0.05 {
		n++
	}
	return n
}

// noise is the standard deviation of a metric's logarithm: the pilot's, or else that of the runs so far.
func (t *Tune) noise(m Metric) float64 {
	if sd := t.config.Noise[m]; sd > 0 {
		return sd
	}
	var all []float64
	for _, a := range t.alive() {
		costs := logCosts(m, a, t.arm(t.current()))
		if a.Candidate == t.current() || len(costs) < firstLook {
			continue
		}
		_, sd := moments(costs)
		all = append(all, sd/math.Sqrt2)
	}
	if len(all) == 0 {
		return 0
	}
	return median(all)
}

// pairsWanted is the number of pairs that shows half the lead which the exploration saw, nine times in ten; or
// twice the margin if that is more. The leader was picked because it looked good, so its lead is less than it looked.
func (t *Tune) pairsWanted() int {
	fewest := fewestPairs(len(t.family))
	if t.config.Pairs > 0 {
		return max(t.config.Pairs, fewest)
	}
	sd := t.noise(t.basis) * math.Sqrt2
	if t.slo || sd == 0 {
		return max(usualPairs, fewest)
	}
	typical, _ := t.costToCurrent(t.basis, t.arm(t.leader))
	effect := max(2*math.Log1p(t.config.Margin), math.Abs(typical)/2)
	z := 1.96 + 1.28
	if len(t.family) > 1 {
		z = 2.24 + 1.28
	}
	// Four more than by the formula, which takes the test's distribution to be normal: with few pairs it has few steps.
	n := math.Ceil(z*z*sd*sd/(effect*effect)*math.Pi/3) + 4
	return int(min(max(n, float64(fewest)), mostPairs))
}
