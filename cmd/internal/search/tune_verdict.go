package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/sample"
)

// What a TuneVerdict may advise; Undecided is the third.
const (
	Change Verdict = "change"
	Keep   Verdict = "keep"
)

// reckless is how many times higher a p99 that looks worse may be for CPU time to decide. Where the noise is as usual, the
// interval ends well below.
const reckless = 4

// mostUseful are the pairs beyond which nobody will wait for an answer.
const mostUseful = 500

// A Reason is why a TuneVerdict is what it is. With the verdict's Kind and its figures it is all that there is to tell.
type Reason string

// The reasons. Unless it says otherwise one goes with Undecided.
const (
	NotDone     Reason = "not done"     // the search was interrupted
	NothingYet  Reason = "nothing yet"  // it was, in the first block
	Alone       Reason = "alone"        // keep: there is one candidate
	Leads       Reason = "leads"        // keep: nothing did better in the exploration
	Equal       Reason = "equal"        // keep: some settings are within Within of each other; without Pairs by the exploration
	Alike       Reason = "alike"        // keep: by the pairs, the leader and the current setting are typically within the margin
	Refuted     Reason = "refuted"      // keep: by the pairs the leader is worse
	LosesSLO    Reason = "loses SLO"    // keep: by the pairs the leader breaks the SLO more often
	LeaderFails Reason = "leader fails" // keep: the program failed with the leader, in the confirmation
	Better      Reason = "better"       // change: by the pairs the leader is better
	NotShown    Reason = "not shown"    // the pairs show nothing
	TailUnknown Reason = "tail unknown" // the leader takes less CPU time, but too little is known of its p99
	TailWorse   Reason = "tail worse"   // the leader takes less CPU time, but its p99 looks worse, and may be much so
	NoneHolds   Reason = "none holds"   // no setting holds the SLO
	Fails       Reason = "fails"        // the program failed with its current setting
	Invalid     Reason = "invalid"      // too many runs were not valid
	NoRoom      Reason = "no room"      // the budget has none for a confirmation
)

// An Effect is what a metric does from the current setting to the leader, by the confirmation's pairs alone.
type Effect struct {
	Metric   Metric
	Decides  bool    // it is in the family of tests that may make the claim
	From     float64 // medians
	To       float64
	Ratio    float64 // to ÷ from, of a typical pair; 0: there is none
	Lo       float64 // its 95 % interval; both 0: too few pairs
	Hi       float64
	P        float64
	Adjusted float64 // P after Holm, over those that decide or over the rest
	Verdict  sample.Verdict
	Pairs    int // in which it is known

	more int // pairs that a confirmation would need to settle it; 0: it is settled, or none would
}

// A Lever is one of the two by itself, of a program whose other one is advised, or both.
type Lever struct {
	Candidate
	Metric Metric
	Ratio  float64 // to the current setting, by the exploration
}

// A TuneVerdict is what is known of the best setting. It has no words: who shows it makes them of this.
type TuneVerdict struct {
	Kind    Verdict // change, keep or undecided
	Reason  Reason
	Procs   int    // to run with: the leader's for change, the current one's otherwise
	GOGC    int    // 0: as the program has it
	Failure string // of the program, where that is the reason

	Current  Candidate
	Leader   Candidate // best so far, whatever that is worth; it may be the current one
	Others   int       // settings that were to be compared with the current one
	Chain    []Metric  // that decide, the first one first
	Basis    Metric    // what decided
	Effects  []Effect  // of the confirmation
	Held     [2]int    // pairs in which the current setting and the leader held the SLO
	Pairs    int       // of the confirmation, that the effects rest on
	Complete int       // pairs so far
	Planned  int       // that it was to have
	Levers   []Lever   // after change: each alone, where it is better than the current setting

	Near    []Candidate // settings, the advised one among them, that seem to be within the margin
	Within  float64     // the 95 % intervals of their ratios are within 1/(1+Within) and 1+Within
	Better  float64     // after keep: another setting could still be better by this share
	Rival   Candidate   // which one, by the exploration
	Broke   int         // after keep, by the exploration: runs in which the current setting broke the SLO
	BrokeOf int         // of so many

	MorePairs int // undecided: a fresh confirmation of so many pairs should settle it
	MoreRuns  int // and it takes about so many more runs; 0: none would help
	Blocks    int // of the exploration
	Runs      int
	Invalid   int
	Done      bool // false: the search was interrupted

	GoDefault int // what was asked for, as in TuneConfig
	Margin    float64
	MaxRuns   int
}

// leading is the best setting so far.
func (t *Tune) leading() Candidate {
	if t.phase == Explore && t.block > 1 || t.ending == endBudget && len(t.plan) == 0 {
		return t.lead()
	}
	return t.leader
}

// Verdict says what is known by now. Before the end it never advises a change: the pairs of the confirmation count only
// when they are complete.
func (t *Tune) Verdict() TuneVerdict {
	v := TuneVerdict{
		Kind: Undecided, Procs: t.config.Current, Current: t.current(), Leader: t.leading(), Others: len(t.arms) - 1, Chain: t.chain(),
		Complete: len(t.pairs), Planned: len(t.plan), Runs: len(t.seen), Done: t.phase == Done,
		GoDefault: t.config.GoDefault, Margin: t.config.Margin, MaxRuns: t.config.MaxRuns,
	}
	for _, o := range t.seen {
		if o.Failed == "" && !t.usable(o) {
			v.Invalid++
		}
		if o.Run.Phase == Explore {
			v.Blocks = o.Run.Block
		}
	}
	if t.phase == Done && len(t.plan) > 0 {
		t.measure(&v)
	}
	switch {
	case t.phase != Done:
		t.interrupted(&v)
	case t.ending == endAlone:
		v.Kind, v.Reason = Keep, Alone
	case t.ending == endExplored:
		t.explored(&v)
	case t.ending == endSLO:
		v.Reason = NoneHolds
	case t.ending == endCurrent:
		v.Reason, v.Failure = Fails, t.failure
	case t.ending == endLeader:
		v.Kind, v.Reason, v.Failure = Keep, LeaderFails, t.failure
	case len(v.Effects) > 0 && v.Pairs >= fewestPairs(len(t.family)):
		t.confirmed(&v)
	case t.ending == endGenerator:
		v.Reason = Invalid
	default:
		t.outOfBudget(&v)
	}
	return v
}

func (t *Tune) interrupted(v *TuneVerdict) {
	v.MoreRuns, _ = t.Left()
	if v.Reason = NotDone; t.phase == Explore && t.block <= 1 {
		v.Reason = NothingYet
	}
}

func (t *Tune) outOfBudget(v *TuneVerdict) {
	n := usualPairs
	if t.config.Pairs > 0 {
		n = t.config.Pairs
	} else if len(t.family) > 0 {
		n = t.pairsWanted()
	}
	v.Reason = NoRoom
	v.MorePairs = n
	v.MoreRuns = 2 * n
	if v.Blocks < firstLook {
		v.MoreRuns += firstLook * len(t.alive())
	}
}

// measure compares the pairs.
func (t *Tune) measure(v *TuneVerdict) {
	v.Pairs = len(t.pairs)
	for _, p := range t.pairs {
		if !t.broken(p.current) {
			v.Held[0]++
		}
		if !t.broken(p.leader) {
			v.Held[1]++
		}
	}
	if v.Pairs == 0 {
		return
	}
	var decide, rest []*sample.Comparison
	byMetric := map[Metric]*sample.Comparison{}
	for _, m := range deciding {
		from, to := t.pairsOf(m)
		decides := slices.Contains(t.family, m)
		if !decides && (len(from) == 0 || slices.Max(append(from, to...)) == 0) {
			continue // it isn't known at all
		}
		c := sample.Compare(from, to)
		if m == Throughput {
			c.Better = sample.Higher
		}
		byMetric[m] = &c
		v.Effects = append(v.Effects, Effect{Metric: m, Decides: decides, Pairs: len(from)})
		if decides {
			decide = append(decide, &c)
		} else {
			rest = append(rest, &c)
		}
	}
	if t.slo {
		c := t.compareSLO()
		byMetric[SLO] = &c
		v.Effects = append(v.Effects, Effect{Metric: SLO, Decides: true})
		decide = append(decide, &c)
	}
	sample.Decide(decide, t.config.Margin)
	sample.Decide(rest, t.config.Margin)
	for i := range v.Effects {
		e := &v.Effects[i]
		c := byMetric[e.Metric]
		e.Ratio, e.Lo, e.Hi, e.P, e.Adjusted, e.Verdict = c.Ratio, c.Low, c.High, c.P, c.Adjusted, c.Verdict
		if e.Metric == SLO {
			e.Ratio, e.Lo, e.Hi = 0, 0, 0
			e.From, e.To = float64(v.Held[0])/float64(v.Pairs), float64(v.Held[1])/float64(v.Pairs)
			continue
		}
		from, to := t.pairsOf(e.Metric)
		e.From, e.To = median(from), median(to)
		if more := sample.More(*c, t.config.Margin); more > 0 {
			e.more = c.Pairs + more
		}
	}
	if from, to := t.values(Throttled); slices.Max(append(from, to...)) > 0 {
		v.Effects = append(v.Effects, Effect{Metric: Throttled, From: median(from), To: median(to), P: 1, Adjusted: 1})
	}
}

// pairsOf are a metric's values, of the pairs that say something of it. A p99 is left out where the generator was late; any other
// metric must be known of all.
func (t *Tune) pairsOf(m Metric) (current, leader []float64) {
	current, leader = t.values(m)
	if m != P99 {
		return current, leader
	}
	kept := 0
	for i := range current {
		if current[i] > 0 && leader[i] > 0 {
			current[kept], leader[kept] = current[i], leader[i]
			kept++
		}
	}
	return current[:kept], leader[:kept]
}

// blind: CPU time would decide alone, because too little is known of the p99 that comes before it. Who has not declared CPU the
// objective must not be told to trade an unknown latency for it.
func (t *Tune) blind(v *TuneVerdict) bool {
	e := v.Effect(P99)
	return t.config.Objective == Auto && !t.config.Batch && (e == nil || e.Pairs < fewestPairs(1))
}

// values are a metric's, of the pairs.
func (t *Tune) values(m Metric) (current, leader []float64) {
	for _, p := range t.pairs {
		current, leader = append(current, p.current.value(m)), append(leader, p.leader.value(m))
	}
	return slices.Clip(current), slices.Clip(leader)
}

// compareSLO is the sign test on the pairs of which one run held the SLO and the other did not. As a Comparison it can
// stand in a family with the others: a ratio beyond any margin stands for one way or the other.
func (t *Tune) compareSLO() sample.Comparison {
	gained, lost := t.discordant()
	c := sample.Comparison{Better: sample.Higher, Pairs: len(t.pairs), Ratio: 1, Low: 0.25, High: 4, P: signTest(gained, lost)}
	switch {
	case gained > lost:
		c.Ratio = 4
	case gained < lost:
		c.Ratio = 0.25
	}
	return c
}

// discordant counts the pairs in which only the leader held the SLO, and those in which only the current setting did.
func (t *Tune) discordant() (gained, lost int) {
	for _, p := range t.pairs {
		switch c, l := t.broken(p.current), t.broken(p.leader); {
		case c && !l:
			gained++
		case l && !c:
			lost++
		}
	}
	return gained, lost
}

// signTest is the exact two-sided p of so many heads and tails.
func signTest(heads, tails int) float64 {
	n, high := heads+tails, max(heads, tails)
	tail, term := 0.0, math.Pow(0.5, float64(n)) // the probability of n heads, then n-1, …
	for k := n; k >= high; k-- {
		tail += term
		term *= float64(k) / float64(n-k+1)
	}
	return min(1, 2*tail)
}

// confirmed decides by the pairs: the SLO first, then the metrics in their order.
func (t *Tune) confirmed(v *TuneVerdict) {
	gained, lost := t.discordant()
	verdict := func(m Metric) sample.Verdict {
		if e := v.Effect(m); e != nil {
			return e.Verdict
		}
		return sample.VerdictUndecided
	}
	if lost-gained >= 3 { // one time in eight by chance; but it can only keep what is
		v.Kind, v.Reason, v.Basis = Keep, LosesSLO, SLO
		return
	}
	order := t.chain()
	if t.slo {
		order = append([]Metric{SLO}, order...)
	}
	for _, m := range order {
		switch verdict(m) {
		case sample.VerdictBetter:
			if m == CPU && t.blind(v) {
				v.Reason, v.Basis = TailUnknown, m
				return
			}
			if e := v.Effect(P99); m == CPU && t.config.Objective == Auto && e != nil && e.Ratio > 1+t.config.Margin && e.Hi > reckless {
				v.Reason, v.Basis = TailWorse, m
				v.MorePairs = 2 * v.Pairs
				v.MoreRuns = 2 * v.MorePairs
				return
			}
			v.Kind, v.Reason, v.Procs, v.GOGC, v.Basis = Change, Better, v.Leader.Procs, v.Leader.GOGC, m
			v.Levers = t.levers(v)
			return
		case sample.VerdictWorse:
			v.Kind, v.Reason, v.Basis = Keep, Refuted, m
			return
		}
	}
	v.Basis = t.last()
	// p99 is seldom known to the margin. That it is open keeps nothing open, unless it is what the leader led by.
	if e := v.Effect(v.Basis); t.equal(e) && t.basis == v.Basis && !t.slo {
		v.Kind, v.Reason = Keep, Equal
		v.Near, v.Within = []Candidate{v.Current, v.Leader}, within(e.Lo, e.Hi)
		slices.SortFunc(v.Near, listed)
		return
	}
	if t.alike(v) {
		v.Kind, v.Reason = Keep, Alike
		return
	}
	t.undecided(v)
}

// alike: by every metric that decides, the leader and the current setting are typically within the margin. How far apart they could
// still be is told; to keep what is claims nothing.
func (t *Tune) alike(v *TuneVerdict) bool {
	if t.slo {
		return false
	}
	v.Better = 0
	for _, m := range t.chain() {
		e := v.Effect(m)
		if e == nil || e.Ratio == 0 || e.Hi == 0 || within(e.Ratio, e.Ratio) > t.config.Margin {
			return false
		}
		best := e.Lo
		if m == Throughput {
			best = 1 / e.Hi
		}
		v.Better = max(v.Better, 1-best)
	}
	return true
}

// equal: so near that it is not worth going on. That is a little wider than sample.VerdictSame, whose intervals may end at
// twice the margin as well, but only when they don't have 1 in them: for keeping what is, it makes no difference.
func (t *Tune) equal(e *Effect) bool {
	if e == nil || e.Hi == 0 {
		return false
	}
	margin := t.config.Margin
	return e.Verdict == sample.VerdictSame || within(e.Ratio, e.Ratio) <= margin && within(e.Lo, e.Hi) <= 2*margin
}

func (t *Tune) undecided(v *TuneVerdict) {
	v.Reason = NotShown
	for _, e := range v.Effects {
		if e.Decides && e.more > 0 && (v.MorePairs == 0 || e.more < v.MorePairs) {
			v.MorePairs, v.Basis = e.more, e.Metric
		}
	}
	if v.MorePairs > mostUseful {
		v.MorePairs = 0
	}
	v.MoreRuns = 2 * v.MorePairs
}

// explored: nothing led the current setting. Nothing is claimed of it but how far that carries.
func (t *Tune) explored(v *TuneVerdict) {
	v.Kind, v.Reason, v.Basis = Keep, Leads, t.last()
	current := t.arm(v.Current)
	v.Broke, v.BrokeOf = t.brokenRuns(current)
	near := []*arm{current}
	v.Better = -1 // not known
	for _, a := range t.alive() {
		if a == current || len(a.runs) == 0 {
			continue
		}
		lo, hi, typical := t.interval(a, current)
		if lo == 0 {
			continue
		}
		if better := max(0, 1-lo); better > v.Better {
			v.Better, v.Rival = better, a.Candidate
		}
		if within(typical, typical) <= t.config.Margin && hi > 0 {
			near = append(near, a)
		}
	}
	v.Better = max(0, v.Better)
	if len(near) > 1 {
		for i, a := range near {
			v.Near = append(v.Near, a.Candidate)
			for _, b := range near[:i] {
				lo, hi, _ := t.interval(a, b)
				v.Within = max(v.Within, within(lo, hi))
			}
		}
		slices.SortFunc(v.Near, listed)
	}
	const telling = 0.25 // beyond it, to say how near they are says nothing
	if len(v.Near) > 1 && v.Within > 0 && v.Within <= telling {
		v.Reason = Equal
	}
}

// interval is the 95 % interval and the estimate of the cost of a relative to b, by the exploration. With fewer than six
// blocks there is none that doesn't take the noise to be normal, so it is 0.
func (t *Tune) interval(a, b *arm) (lo, hi, typical float64) {
	costs := logCosts(t.last(), a, b)
	ones, ratios := make([]float64, len(costs)), make([]float64, len(costs))
	for i, c := range costs {
		ones[i], ratios[i] = 1, math.Exp(c)
	}
	c := sample.Compare(ones, ratios)
	if c.Confidence == 0 {
		return 0, 0, c.Ratio
	}
	return c.Low, c.High, c.Ratio
}

// Effect is that of a metric; nil: there is none.
func (v *TuneVerdict) Effect(m Metric) *Effect {
	for i := range v.Effects {
		if v.Effects[i].Metric == m {
			return &v.Effects[i]
		}
	}
	return nil
}

// levers are how the other lever stood in the exploration, or each of the two where both are advised, if it was better
// than the current setting: it may be the easier one to set.
func (t *Tune) levers(v *TuneVerdict) (alone []Lever) {
	m := v.Basis
	if m == SLO {
		m = t.last()
	}
	for _, a := range t.others(v.Leader, m) {
		typical, _ := t.costToCurrent(m, a)
		alone = append(alone, Lever{Candidate: a.Candidate, Metric: m, Ratio: math.Exp(cost(m, typical))})
	}
	return alone
}

// others are, beside an advised GOMAXPROCS, the best GOGC by itself, and the other way round; of a combination both of
// which it is made. Only those that work, and were better than the current setting beyond the margin.
func (t *Tune) others(advised Candidate, m Metric) []*arm {
	procs := func(a *arm) bool {
		return a.GOGC == 0 && (a.Procs == advised.Procs || advised.Procs == t.config.Current)
	}
	lever := func(a *arm) bool {
		return a.GOGC != 0 && a.Procs == t.config.Current && (a.GOGC == advised.GOGC || advised.GOGC == 0)
	}
	var others []*arm
	for _, is := range []func(*arm) bool{procs, lever} {
		var kind []*arm
		for _, a := range t.arms {
			c, _ := t.costToCurrent(m, a)
			if is(a) && a.Candidate != advised && t.sound(a) && t.better(a) && c < -math.Log1p(t.config.Margin) {
				kind = append(kind, a)
			}
		}
		if first, _ := t.cheapest(m, kind); first != nil {
			others = append(others, first)
		}
	}
	return others
}

// sound: the program runs with it, and breaks the SLO about as seldom as with the leader. One that was dropped may be.
func (t *Tune) sound(a *arm) bool {
	return !a.failed && a.void < mostVoid && len(t.holding([]*arm{t.arm(t.leader), a})) == 2
}

// within is the smallest x such that both ratios are within 1/(1+x) and 1+x.
func within(low, high float64) float64 {
	if low <= 0 || high <= 0 {
		return 0
	}
	return math.Exp(max(math.Abs(math.Log(low)), math.Abs(math.Log(high)))) - 1
}

// listed is the order in which settings are listed: those with a GOGC last.
func listed(a, b Candidate) int {
	return cmp.Or(cmp.Compare(min(a.GOGC, 1), min(b.GOGC, 1)), cmp.Compare(a.Procs, b.Procs), cmp.Compare(a.GOGC, b.GOGC))
}

func median(values []float64) float64 { return sample.Summarise(values).Median }
