package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
)

// This file says which candidate leads, which are out of the race, and whether a setting is a change for the better.

// level shares a level among the candidates.
func (t *Tune) level(of float64) float64 { return of / float64(max(1, len(t.arms)-1)) }

// pairs counts the blocks in which a candidate and the current setting ran.
func (t *Tune) pairs(a *arm) int { return common(a, t.arm(t.current())) }

// compared counts the blocks by which two settings are compared, as contrast does it.
func (t *Tune) compared(a, b *arm) int {
	n := common(a, b)
	if n < 2 && t.config.Abreast > 0 {
		n = max(n, min(t.pairs(a), t.pairs(b)))
	}
	return n
}

// gain reports whether a candidate is better than the current setting in one metric and not worse in any other. The SLO and errors come
// first: a candidate that holds the SLO less often, or fails more requests, is not a gain whatever it saves, and one that holds it where
// the current setting does not is one whatever it costs.
func (t *Tune) gain(a *arm, level, safe float64) bool { return len(t.gains(a, level, safe)) > 0 }

// gains are the metrics in which it is so.
func (t *Tune) gains(a *arm, level, safe float64) (all []Metric) {
	current := t.arm(t.current())
	if t.unreliable(a, current) || t.blind() {
		return nil
	}
	if gained, lost := t.discordant(a, current); signTest(gained, lost)/2 <= level && gained > lost {
		return []Metric{SLO}
	}
	chain := t.chain()
	for _, m := range chain {
		if t.shownBetter(m, a, current, level) && !slices.ContainsFunc(chain, func(other Metric) bool {
			return other != m && !t.notWorse(other, a, current, safe)
		}) {
			all = append(all, m)
		}
	}
	return all
}

// shownBetter reports whether a is better than b at a one-sided level, and by more than the margin by the estimate.
func (t *Tune) shownBetter(m Metric, a, b *arm, level float64) bool {
	c := t.contrast(m, a, b)
	worth := t.worth(m)
	if m == CPU && mostlyShared(a, b) {
		worth *= 2
	}
	return c.above(level) < 0 && c.mean < -worth
}

// mostlyShared reports whether others used the CPUs in most of the pairs of two settings. A difference in CPU per request keeps its sign
// then, and may be off by more than the margin.
func mostlyShared(a, b *arm) bool {
	shared, of := 0, 0
	for o, other := range both(a, b) {
		of++
		if o.Shared || other.Shared {
			shared++
		}
	}
	return 2*shared > of
}

// shownWorse reports whether a is worse than b at a one-sided level: by a relevant amount, or at all if by the estimate it is worse by more
// than is allowed.
func (t *Tune) shownWorse(m Metric, a, b *arm, level float64) bool {
	c := t.contrast(m, a, b)
	return c.below(level) > t.worth(m) || c.below(level) > 0 && c.mean > t.allowed(m)
}

// notWorse reports whether a is shown to be worse than b by no more than is allowed. For the tail, the p99 of whole windows must not
// contradict it.
func (t *Tune) notWorse(m Metric, a, b *arm, level float64) bool {
	return t.contrast(m, a, b).above(level) < t.allowed(m) && (m != P99 || !t.contradicted(a, b))
}

// contradicted reports whether the p99 of whole windows is worse where the tail, which is that of a typical second, is not.
func (t *Tune) contradicted(a, b *arm) bool {
	c := t.contrast(Pooled, a, b)
	return c.mean > t.allowed(P99) && c.below(safely) > 0
}

// canBeBetter reports whether a may still turn out to be better than b by a relevant amount: as it breaks the SLO less often, or in
// any metric that decides.
func (t *Tune) canBeBetter(a, b *arm) bool {
	chain := t.chain()
	return len(chain) == 0 || t.breaksMore(b, a) || slices.ContainsFunc(chain, func(m Metric) bool { return t.mayBeBetter(m, a, b) })
}

func (t *Tune) mayBeBetter(m Metric, a, b *arm) bool {
	c := t.contrast(m, a, b)
	return c.freedom < fewestFreedom || c.below(hopeless) < -t.worth(m)
}

// drowned is the metric in which runs of one setting differ so much that no verdict is in sight, and by how much; "": none. Then not even a
// factor of two, or what a setting seems to do if that is more, could be shown by all runs that there is time for, nor by as many as a
// search usually has: a budget that is short is another matter.
func (t *Tune) drowned() (Metric, Noise) {
	const twice = math.Ln2
	if !t.raceOf(firstClaim) || t.blind() {
		return "", Noise{}
	}
	pairs := t.config.MaxBlocks - int(t.rounds)
	if t.room > 0 {
		pairs = min(pairs, t.room/2)
	}
	pairs = max(pairs, usualBlocks)
	noises := t.Noise()
	for _, m := range t.chain() {
		n, known := noises[m]
		if !known {
			continue
		}
		drowns := func(a *arm) bool {
			c := t.contrast(m, a, t.arm(t.current()))
			deviates := n.Low * math.Sqrt(2/float64(max(1, c.pairs+pairs)))
			return sample.StudentQuantile(trading, c.freedom+pairs)*deviates > max(twice, math.Abs(c.mean))
		}
		if !slices.ContainsFunc(t.alive(), func(a *arm) bool { return a.Candidate != t.current() && !drowns(a) }) {
			return m, n
		}
	}
	return "", Noise{}
}

// unreliable reports whether a breaks the SLO more often than b, or fails more requests.
func (t *Tune) unreliable(a, b *arm) bool { return t.breaksMore(a, b) || t.failsMore(a, b) }

// failsMore reports whether a fails more requests than b, beyond what chance explains.
func (t *Tune) failsMore(a, b *arm) bool {
	const tells = 0.0005 // of the requests
	var more []float64
	for o, other := range both(a, b) {
		more = append(more, o.ErrorShare-other.ErrorShare)
	}
	return sample.ShownAbove(more, tells, safely)
}

// breaksMore reports whether a breaks the SLO more often than b: in one block of ten that is chance.
func (t *Tune) breaksMore(a, b *arm) bool {
	gained, lost := t.discordant(a, b)
	return lost-gained > common(a, b)/10
}

// discordant counts the blocks in which only a held the SLO, and those in which only b did. Beside something else that says nothing.
func (t *Tune) discordant(a, b *arm) (gained, lost int) {
	for o, other := range both(a, b) {
		switch broke, otherBroke := t.broken(o), t.broken(other); {
		case o.Disturbed || other.Disturbed:
		case otherBroke && !broke:
			gained++
		case broke && !otherBroke:
			lost++
		}
	}
	return gained, lost
}

// signTest is the exact two-sided p of that many heads and tails.
func signTest(heads, tails int) float64 {
	n, high := heads+tails, max(heads, tails)
	tail, term := 0.0, math.Pow(0.5, float64(n)) // the probability of n heads, then n-1, …
	for k := n; k >= high; k-- {
		tail += term
		term *= float64(k) / float64(n-k+1)
	}
	return min(1, 2*tail)
}

// trade reports whether a candidate is better than the current setting in one metric, and shown to be worse in another: something to
// choose, not to advise. Worse is SLO where it breaks that more often, or fails more requests.
func (t *Tune) trade(a *arm) (better, worse Metric, ok bool) {
	current, chain := t.arm(t.current()), t.chain()
	if a.failed || t.pairs(a) < firstClaim || a.dropped != nil && a.dropped.Reason == BreaksSLO {
		return "", "", false
	}
	if t.gain(a, t.level(claim), unharmed) {
		return "", "", false
	}
	for _, m := range slices.Backward(chain) {
		if !t.shownBetter(m, a, current, trading) {
			continue
		}
		for _, other := range chain {
			if other != m && t.shownWorse(other, a, current, trading) {
				return m, other, true
			}
		}
		if t.unreliable(a, current) {
			return m, SLO, true
		}
		return "", "", false // what it gains is not shown well enough, or what it costs
	}
	return "", "", false
}

// prune takes candidates out of the race: those that break the SLO in every block in which the leader or the current
// setting held it, those that can't be better by a relevant amount, and those that are a trade. The current setting stays, because
// every comparison is with it.
func (t *Tune) prune() {
	lead, current := t.leading(), t.arm(t.current())
	for _, a := range t.alive() {
		if a == current {
			continue
		}
		if why := t.behind(a, lead, current); why != nil {
			t.dropArm(a, why)
		}
	}
}

// behind says why a candidate is out; nil if it isn't.
func (t *Tune) behind(a, lead, current *arm) *Drop {
	against := []*arm{current}
	if lead != current && lead != a {
		against = append(against, lead)
	}
	for _, b := range against {
		if t.alwaysBreaks(a, b) {
			return &Drop{Reason: BreaksSLO, Blocks: common(a, b), Against: b.Candidate}
		}
		if t.compared(a, b) >= t.config.Patience && !t.canBeBetter(a, b) {
			return t.worst(Worse, a, b)
		}
	}
	switch {
	case !t.settledTrade(a):
		return nil
	case t.failsMore(a, current) || slices.ContainsFunc(t.chain(), func(m Metric) bool { return t.shownBetter(m, a, current, trading) }):
		return t.worst(IsTrade, a, current)
	}
	return t.worst(Worse, a, current)
}

// What a setting may take of the memory and of the CPU time, whatever it saves: memory runs out in bursts, and in an hour with more load.
const (
	Fullest  = 0.8 // of the memory limit, at the peak
	fuller   = 1.1 // times the current setting's peak: a program that fills the page cache is always near the limit
	collects = 0.1 // of the CPU time, beyond what the collector takes with the current setting
)

// cramped says why a setting that the program runs with leaves it too little memory; nil: as far as is known, it doesn't.
func (t *Tune) cramped(a *arm) *Drop {
	current := t.arm(t.current())
	if a == current {
		return nil
	}
	quiet := func(a *arm, of func(TuneObservation) float64) (values []float64) {
		for _, o := range a.runs {
			if v := of(o); v > 0 && !o.Disturbed {
				values = append(values, v)
			}
		}
		return values
	}
	peak := func(o TuneObservation) float64 { return o.Memory }
	if own, other := quiet(a, peak), quiet(current, peak); len(own) > 0 && len(other) > 0 {
		if most := slices.Max(own); most > Fullest && most > fuller*slices.Max(other) {
			return &Drop{Reason: TooFull, Blocks: len(own), Against: current.Candidate, Ratio: most}
		}
	}
	share := func(o TuneObservation) float64 { return o.Collecting }
	if own, other := quiet(a, share), quiet(current, share); len(own) >= firstLook && len(other) >= firstLook {
		if more := median(own) - median(other); more > collects {
			return &Drop{Reason: Collects, Blocks: len(own), Against: current.Candidate, Ratio: more}
		}
	}
	return nil
}

// settledTrade reports whether a is shown to be worse than the current setting in one metric, or to fail more requests, and
// whether it is better in another is known.
func (t *Tune) settledTrade(a *arm) bool {
	current, chain := t.arm(t.current()), t.chain()
	worse := func(m Metric) bool { return t.shownWorse(m, a, current, unlikely) }
	if t.pairs(a) < firstClaim || t.breaksMore(current, a) || !t.failsMore(a, current) && !slices.ContainsFunc(chain, worse) {
		return false
	}
	return !slices.ContainsFunc(chain, func(m Metric) bool {
		return !worse(m) && t.mayBeBetter(m, a, current) && !t.shownBetter(m, a, current, trading)
	})
}

// worst is a drop that says in which metric a is furthest behind, relative to what is a relevant amount in it.
func (t *Tune) worst(reason DropReason, a, b *arm) *Drop {
	d := &Drop{Reason: reason, Blocks: t.compared(a, b), Against: b.Candidate}
	most := math.Inf(-1)
	for _, m := range t.chain() {
		if c := t.contrast(m, a, b); c.pairs > 0 && c.mean/t.worth(m) > most {
			most = c.mean / t.worth(m)
			d.Metric, d.Ratio = m, math.Exp(cost(m, c.mean))
		}
	}
	if reason == IsTrade && most <= 0 { // it fails more requests
		d.Metric, d.Ratio = SLO, 0
	}
	return d
}

// alwaysBreaks reports whether a broke the SLO in all of the blocks in which b held it.
func (t *Tune) alwaysBreaks(a, b *arm) bool {
	held := 0
	for o, other := range both(a, b) {
		if !o.Disturbed && !other.Disturbed && !t.broken(other) {
			held++
			if !t.broken(o) {
				return false
			}
		}
	}
	return held >= firstClaim
}

// leading is the best of the candidates in the race: of those that are a gain, if there are any, and otherwise of all.
func (t *Tune) leading() *arm {
	if t.ending == endChange {
		return t.arm(t.leader)
	}
	var gains []*arm
	current := t.arm(t.current())
	for _, a := range t.alive() {
		if a != current && t.pairs(a) >= firstLook {
			if t.gain(a, t.level(trigger), safely) {
				gains = append(gains, a)
			}
		}
	}
	if len(gains) == 0 {
		gains = t.alive()
	}
	return cmp.Or(t.best(gains), current)
}

// best is the best of some candidates: those that break the SLO more often than the best fall out first, then those whose tail is shown to
// be worse, then those with more CPU per request. Among those that are equal in all of this it is the simplest. Nil: none of them has run.
func (t *Tune) best(of []*arm) *arm {
	left := t.holding(of)
	chain := t.chain()
	for i, m := range chain {
		first, cheapest := t.cheapest(m, left)
		if first == nil {
			continue
		}
		left = slices.DeleteFunc(left, func(a *arm) bool {
			if i < len(chain)-1 {
				return t.contrast(m, a, first).pairs >= 2 && t.shownWorse(m, a, first, trading)
			}
			// Half of the margin, as two that are apart by that in these few blocks may well be apart by all of it.
			c, ok := t.costToCurrent(m, a)
			return !ok || c-cheapest > math.Log1p(t.config.Margin)/2
		})
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
		case t.current().Procs:
			return 0
		case t.config.GoDefault:
			return 1
		}
		return 2
	}
	return cmp.Or(
		cmp.Compare(min(a.GOGC, 1)+min(a.Vary, 1), min(b.GOGC, 1)+min(b.Vary, 1)),
		cmp.Compare(rank(a), rank(b)),
		cmp.Compare(a.Procs, b.Procs),
		cmp.Compare(a.GOGC, b.GOGC),
		cmp.Compare(a.Vary, b.Vary),
	)
}

// better reports whether a seems better than the current setting: in the last metric by the estimate, beyond the margin, and in none before
// it shown to be worse.
func (t *Tune) better(a *arm) bool {
	current, chain := t.arm(t.current()), t.chain()
	for i, m := range chain {
		if i == len(chain)-1 {
			c, ok := t.costToCurrent(m, a)
			return ok && c < -math.Log1p(t.config.Margin)
		}
		if t.shownWorse(m, a, current, trading) {
			return false
		}
	}
	return false
}

// unrivalled reports whether no other candidate in the race may turn out to be better than this one by a relevant amount. Two that are much
// alike would go on for ever: after some blocks one of them is as good as the other.
func (t *Tune) unrivalled(lead *arm) bool {
	return t.raceOf(mostRivalry) || !slices.ContainsFunc(t.alive(), func(a *arm) bool {
		return a != lead && a.Candidate != t.current() && t.canBeBetter(a, lead)
	})
}

// held reports whether the leader is still a gain with the pairs of the guard, and was better in these alone, in one metric. Where one of
// them disagrees, it takes twice as many, and half of the level.
func (t *Tune) held(safe float64) bool {
	a, level := t.arm(t.leader), t.level(claim)
	for _, basis := range t.gains(a, level, safe) {
		agreed, of := t.agreed(basis)
		more := of >= 2*guardPairs && of-agreed <= mayDisagree(of) && slices.Contains(t.gains(a, level/2, safe/2), basis)
		if of >= guardPairs && agreed == of || more {
			t.basis = basis
			return true
		}
	}
	return false
}

// cautious is the level at which the leader must be shown not to be worse, at this look: each costs a part of it, the later ones more.
func (t *Tune) cautious() float64 {
	pairs := float64(t.pairs(t.arm(t.leader)))
	most := pairs + float64(t.room)/2
	if t.room == 0 {
		most = max(pairs, usualBlocks)
	}
	return unharmed * math.Pow(pairs/most, 3)
}

// mayHold reports whether more pairs may still show that the leader is a gain: what is missing is evidence.
func (t *Tune) mayHold() bool {
	if !t.affords(2) || t.room == 0 && t.guarded >= t.config.MaxBlocks {
		return false
	}
	return slices.ContainsFunc(t.gains(t.arm(t.leader), t.level(trigger), perhaps), func(basis Metric) bool {
		agreed, of := t.agreed(basis)
		return of-agreed <= mayDisagree(of)
	})
}

// mayDisagree is how many of some fresh pairs may disagree.
func mayDisagree(of int) int { return max(1, of/4) }

// agreed counts the leader's fresh pairs, and those of them in which it was better: the pairs of all its guards, or the latest where there
// was no time for any.
func (t *Tune) agreed(basis Metric) (agreed, of int) {
	a, current := t.arm(t.leader), t.arm(t.current())
	fresh := 0
	for o := range both(a, current) {
		if o.Run.Phase == Confirm {
			fresh++
		}
	}
	before := common(a, current) - guardPairs
	for o, c := range both(a, current) {
		before--
		if fresh >= guardPairs && o.Run.Phase != Confirm || fresh < guardPairs && before >= 0 {
			continue
		}
		x, y := o.value(basis), c.value(basis)
		switch {
		case basis == SLO:
			of++
			if !t.broken(o) || t.broken(c) {
				agreed++
			}
		case x > 0 && y > 0:
			of++
			if cost(basis, math.Log(x)-math.Log(y)) < 0 {
				agreed++
			}
		}
	}
	return agreed, of
}

// open is the candidate that a decision waits for: it is better than the current setting in a metric, and that it is not worse in the
// others is neither shown nor refuted. Nil: none, or too little was seen.
func (t *Tune) open() *arm {
	if !t.raceOf(firstClaim + 1) {
		return nil
	}
	current, chain := t.arm(t.current()), t.chain()
	var open []*arm
	for _, a := range t.alive() {
		better := func(m Metric) bool { return t.shownBetter(m, a, current, t.level(trigger)) }
		if a == current || t.unreliable(a, current) || !slices.ContainsFunc(chain, better) {
			continue
		}
		if !t.gain(a, t.level(trigger), safely) {
			open = append(open, a)
		}
	}
	return t.best(open)
}

// holding are those of some candidates that break the SLO about as rarely as the best.
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

// brokenRuns counts the undisturbed runs of an arm, and those of them that broke the SLO.
func (t *Tune) brokenRuns(a *arm) (broken, of int) {
	for _, o := range a.runs {
		if o.Disturbed {
			continue
		}
		if of++; t.broken(o) {
			broken++
		}
	}
	return broken, of
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
	c := t.contrast(m, a, t.arm(t.current()))
	return c.mean, c.pairs > 0
}
