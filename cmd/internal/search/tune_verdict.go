package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

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

// An Effect is what a metric does from the current setting to the leader, by the confirmation's pairs alone.
type Effect struct {
	Metric   Metric         `json:"metric"`
	Decides  bool           `json:"decides,omitempty"` // it is in the family of tests that may make the claim
	From     float64        `json:"from"`              // medians
	To       float64        `json:"to"`
	Ratio    float64        `json:"ratio"` // to ÷ from, of a typical pair; 0: there is none
	Lo       float64        `json:"low"`   // its 95 % interval; both 0: too few pairs
	Hi       float64        `json:"high"`
	P        float64        `json:"p"`
	Adjusted float64        `json:"adjusted"` // P after Holm, over those that decide or over the rest
	Verdict  sample.Verdict `json:"verdict,omitempty"`
	Pairs    int            `json:"pairs"` // in which it is known

	more int // pairs that a confirmation would need to settle it; 0: it is settled, or none would
}

// A Dropped is a candidate that the exploration took out.
type Dropped struct {
	Candidate
	Blocks int    `json:"blocks"` // after so many
	Why    string `json:"why"`
}

// A TuneVerdict is what is known of the best setting.
type TuneVerdict struct {
	Kind  Verdict `json:"kind"`       // change, keep or undecided
	Procs int     `json:"gomaxprocs"` // to run with: the leader's for change, the current one's otherwise
	GOGC  int     `json:"gogc,omitempty"`
	Text  string  `json:"text"`

	Current   Candidate   `json:"current"`
	Leader    Candidate   `json:"leader"`               // best so far, whatever that is worth; it may be the current one
	Basis     Metric      `json:"basis,omitempty"`      // what decided
	Effects   []Effect    `json:"effects,omitempty"`    // of the confirmation
	Held      [2]int      `json:"held"`                 // pairs in which the current setting and the leader held the SLO
	Pairs     int         `json:"pairs"`                // of the confirmation
	Near      []Candidate `json:"near,omitempty"`       // settings, the advised one among them, that seem to be within the margin
	Within    float64     `json:"within,omitempty"`     // the 95 % intervals of their ratios are within 1/(1+Within) and 1+Within
	Better    float64     `json:"better,omitempty"`     // after keep: another setting could still be better by this share
	MorePairs int         `json:"more_pairs,omitempty"` // undecided: a fresh confirmation of so many pairs should settle it
	MoreRuns  int         `json:"more_runs,omitempty"`  // and it takes about so many more runs; 0: none would help
	Dropped   []Dropped   `json:"dropped,omitempty"`
	Blocks    int         `json:"blocks"` // of the exploration
	Runs      int         `json:"runs"`
	Invalid   int         `json:"invalid,omitempty"`
	Done      bool        `json:"done"` // false: the search was interrupted
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
		Kind: Undecided, Procs: t.config.Current, Current: t.current(), Leader: t.leading(),
		Runs: len(t.seen), Done: t.phase == Done,
	}
	for _, o := range t.seen {
		if o.Failed == "" && !t.usable(o) {
			v.Invalid++
		}
		if o.Run.Phase == Explore {
			v.Blocks = o.Run.Block
		}
	}
	for _, a := range t.arms {
		if a.dropped != "" {
			v.Dropped = append(v.Dropped, Dropped{a.Candidate, a.after, a.dropped})
		}
	}
	if t.phase == Done && len(t.plan) > 0 {
		t.measure(&v)
	}
	switch {
	case t.phase != Done:
		t.interrupted(&v)
	case t.ending == endAlone:
		v.Kind = Keep
		v.Text = fmt.Sprintf("GOMAXPROCS=%s is the only candidate: there is nothing to compare it with.", v.Current)
	case t.ending == endExplored:
		t.explored(&v)
	case t.ending == endSLO:
		easier := "A lower rate, or a higher limit,"
		if t.config.Unit != usualUnit {
			easier = "A higher limit"
		}
		v.Text = fmt.Sprintf("Undecided: no setting holds the SLO%s, in %d blocks. %s would tell more.", t.atRate(" "), v.Blocks, easier)
	case t.ending == endCurrent:
		v.Text = fmt.Sprintf("Undecided: the program failed with its current setting, GOMAXPROCS=%s, and there is nothing to compare the others with: %s", v.Current, t.failure)
	case t.ending == endLeader:
		v.Kind = Keep
		v.Text = fmt.Sprintf("%s GOMAXPROCS=%s looked better, but the program failed with it in the confirmation: %s", t.keepText(), v.Leader, t.failure)
	case len(v.Effects) > 0 && v.Pairs >= fewestPairs(len(t.family)):
		t.confirmed(&v)
	case t.ending == endGenerator:
		why := ", as the generator could not keep up or a figure was missing"
		if t.config.Unit != usualUnit {
			why = ", or a figure was missing"
		}
		v.Text = "Undecided: too many runs were not valid" + why + "."
		if v.Leader != v.Current {
			v.Text += fmt.Sprintf(" Best so far is GOMAXPROCS=%s, unconfirmed.", v.Leader)
		}
	default:
		t.outOfBudget(&v)
	}
	return v
}

func (t *Tune) interrupted(v *TuneVerdict) {
	v.MoreRuns, _ = t.Left()
	v.Text = fmt.Sprintf("Interrupted after %s. ", count(v.Runs, "run"))
	switch {
	case t.phase == Confirm:
		v.Text += fmt.Sprintf("Best so far is GOMAXPROCS=%s, unconfirmed: %d of %d pairs are done.", v.Leader, len(t.pairs), len(t.plan))
	case t.block <= 1:
		v.Text += "Nothing is known yet."
	default:
		v.Text += fmt.Sprintf("Best so far is GOMAXPROCS=%s, unconfirmed.", v.Leader)
	}
}

func (t *Tune) outOfBudget(v *TuneVerdict) {
	n := usualPairs
	if t.config.Pairs > 0 {
		n = t.config.Pairs
	} else if len(t.family) > 0 {
		n = t.pairsWanted()
	}
	v.MorePairs = n
	v.MoreRuns = 2 * n
	if v.Blocks < firstLook {
		v.MoreRuns += firstLook * len(t.alive())
	}
	v.Text = fmt.Sprintf("Undecided: the budget of %s has no room for a confirmation.", count(t.config.MaxRuns, "run"))
	if v.Leader != v.Current {
		v.Text += fmt.Sprintf(" Best so far is GOMAXPROCS=%s.", v.Leader)
	}
	v.Text += fmt.Sprintf(" About %s more would settle it.", count(v.MoreRuns, "run"))
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
		byMetric[sloHeld] = &c
		v.Effects = append(v.Effects, Effect{Metric: sloHeld, Decides: true})
		decide = append(decide, &c)
	}
	sample.Decide(decide, t.config.Margin)
	sample.Decide(rest, t.config.Margin)
	for i := range v.Effects {
		e := &v.Effects[i]
		c := byMetric[e.Metric]
		e.Ratio, e.Lo, e.Hi, e.P, e.Adjusted, e.Verdict = c.Ratio, c.Low, c.High, c.P, c.Adjusted, c.Verdict
		if e.Metric == sloHeld {
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
	e := v.effect(P99)
	return t.config.Objective == Auto && t.config.Unit == usualUnit && (e == nil || e.Pairs < fewestPairs(1))
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
		if e := v.effect(m); e != nil {
			return e.Verdict
		}
		return sample.VerdictUndecided
	}
	if lost-gained >= 3 { // one time in eight by chance; but it can only keep what is
		v.Kind, v.Basis = Keep, sloHeld
		v.Text = fmt.Sprintf("%s GOMAXPROCS=%s looked better, but held the SLO in %d of %d fresh runs, the current setting in %d.",
			t.keepText(), v.Leader, v.Held[1], v.Pairs, v.Held[0])
		return
	}
	order := t.chain()
	if t.slo {
		order = append([]Metric{sloHeld}, order...)
	}
	for _, m := range order {
		switch verdict(m) {
		case sample.VerdictBetter:
			if m == CPU && t.blind(v) {
				v.Basis = m
				v.Text = fmt.Sprintf("Undecided: with GOMAXPROCS=%s %s, but the generator was too late for its %s to be known. As root it has real-time priority; --objective cpu decides by CPU time alone. %s",
					v.Leader, t.effectsText(v), t.config.Tail, v.pairsText())
				return
			}
			if e := v.effect(P99); m == CPU && t.config.Objective == Auto && e != nil && e.Ratio > 1+t.config.Margin && e.Hi > reckless {
				v.Basis = m
				v.Text = fmt.Sprintf("Undecided: with GOMAXPROCS=%s %s. Its %s looks worse, and how much worse is not known. More pairs would tell; --objective cpu decides by CPU time alone. %s",
					v.Leader, t.effectsText(v), t.config.Tail, v.pairsText())
				v.MorePairs = 2 * v.Pairs
				v.MoreRuns = 2 * v.MorePairs
				return
			}
			v.Kind, v.Procs, v.GOGC, v.Basis = Change, v.Leader.Procs, v.Leader.GOGC, m
			v.Text = t.changeText(v)
			return
		case sample.VerdictWorse:
			v.Kind, v.Basis = Keep, m
			v.Text = fmt.Sprintf("%s GOMAXPROCS=%s looked better, but fresh pairs refute it. %s. %s", t.keepText(), v.Leader, t.effectsText(v), v.pairsText())
			return
		}
	}
	v.Basis = t.last()
	// p99 is seldom known to the margin. That it is open keeps nothing open, unless it is what the leader led by.
	if e := v.effect(v.Basis); t.equal(e) && t.basis == v.Basis && !t.slo {
		v.Kind = Keep
		v.Near, v.Within = []Candidate{v.Current, v.Leader}, within(e.Lo, e.Hi)
		slices.SortFunc(v.Near, listed)
		v.Text = fmt.Sprintf("%s are within %s of each other: %s. %s. %s", list(v.Near), share(v.Within), t.keepWhat(), t.effectsText(v), v.pairsText())
		return
	}
	if t.alike(v) {
		v.Kind, v.Procs, v.GOGC = Keep, t.config.Current, 0
		v.Text = fmt.Sprintf("%s GOMAXPROCS=%s looked better in the search, but fresh pairs show no difference worth having. %s. %s", t.keepText(), v.Leader, t.effectsText(v), v.pairsText())
		if v.Better > t.config.Margin {
			v.Text += fmt.Sprintf(" With this noise it could still be up to %s better.", share(v.Better))
		}
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
		e := v.effect(m)
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
	for _, e := range v.Effects {
		if e.Decides && e.more > 0 && (v.MorePairs == 0 || e.more < v.MorePairs) {
			v.MorePairs, v.Basis = e.more, e.Metric
		}
	}
	v.Text = fmt.Sprintf("Undecided: GOMAXPROCS=%s was the best of the search, but fresh pairs don't show that it is better than %s. %s. %s",
		v.Leader, v.Current, t.effectsText(v), v.pairsText())
	if v.MorePairs == 0 || v.MorePairs > mostUseful {
		v.MorePairs = 0
		v.Text += fmt.Sprintf(" With this noise no reasonable number of runs would settle %s.", share(t.config.Margin))
		return
	}
	v.MoreRuns = 2 * v.MorePairs
	v.Text += fmt.Sprintf(" About %s more (a fresh confirmation of %d pairs) would settle %s.", count(v.MoreRuns, "run"), v.MorePairs, share(t.config.Margin))
}

// explored: nothing led the current setting. Nothing is claimed of it but how far that carries.
func (t *Tune) explored(v *TuneVerdict) {
	v.Kind, v.Basis = Keep, t.last()
	current := t.arm(v.Current)
	near := []*arm{current}
	v.Better = -1 // not known
	var rival Candidate
	for _, a := range t.alive() {
		if a == current || len(a.runs) == 0 {
			continue
		}
		lo, hi, typical := t.interval(a, current)
		if lo == 0 {
			continue
		}
		if better := max(0, 1-lo); better > v.Better {
			v.Better, rival = better, a.Candidate
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
	defer func() {
		if broken, of := t.brokenRuns(current); broken > of/2 {
			v.Text += fmt.Sprintf(" It broke the SLO in %d of %d runs%s.", broken, of, t.atRate(", "))
		}
	}()
	blocks := fmt.Sprintf("in %s", count(v.Blocks, "block"))
	if len(v.Near) > 1 && v.Within > 0 && v.Within <= 0.25 {
		v.Text = fmt.Sprintf("%s are within %s of each other (%s): %s.", list(v.Near), share(v.Within), t.name(v.Basis)+" "+blocks, t.keepWhat())
		return
	}
	others := "no other setting"
	if n := len(t.arms) - 1; n > 1 {
		others = fmt.Sprintf("none of the %d other settings", n)
	}
	v.Text = fmt.Sprintf("%s By %s %s did better %s.", t.keepText(), t.basisText(v.Basis), others, blocks)
	if rival != (Candidate{}) && v.Better > t.config.Margin {
		v.Text += fmt.Sprintf(" With this noise %s could still be up to %s better.", rival, share(v.Better))
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

func (v *TuneVerdict) effect(m Metric) *Effect {
	for i := range v.Effects {
		if v.Effects[i].Metric == m {
			return &v.Effects[i]
		}
	}
	return nil
}

// keepText is the sentence that keeps things as they are.
func (t *Tune) keepText() string { return fmt.Sprintf("Keep GOMAXPROCS=%d.", t.config.Current) }

func (t *Tune) keepWhat() string {
	if t.config.Current == t.config.GoDefault {
		return "keep the default"
	}
	return fmt.Sprintf("keep GOMAXPROCS=%d", t.config.Current)
}

// changeText is such as: Set GOMAXPROCS=2. p99 fell from 97 ms to 41 ms (−58 %, 95 % interval −61 to −52 %), CPU a request
// −31 % (−33 to −29 %), throttled periods 78 % → 2 %. 10 fresh interleaved pairs, p=0.002.
func (t *Tune) changeText(v *TuneVerdict) string {
	text := fmt.Sprintf("%s. %s. %s", t.setText(v.Leader), t.effectsText(v), v.pairsText())
	switch missed := v.Pairs - v.Held[1]; {
	case missed > v.Pairs/2:
		text += fmt.Sprintf(" It is better, but not well: it broke the SLO in %d of them%s.", missed, t.atRate(", "))
	case v.Leader.Procs != t.config.GoDefault || v.Leader.Procs == t.config.Current:
	case v.Leader.GOGC == 0:
		text += " That is Go's default, so it is enough not to set another."
	default:
		text += fmt.Sprintf(" GOMAXPROCS=%d is Go's default, so it is enough not to set another.", v.Leader.Procs)
	}
	return text + t.aloneText(v)
}

// setText is what is to be done.
func (t *Tune) setText(c Candidate) string {
	switch {
	case c.GOGC == 0:
		return fmt.Sprintf("Set GOMAXPROCS=%d", c.Procs)
	case c.Procs == t.config.Current:
		return fmt.Sprintf("Set GOGC=%d and leave GOMAXPROCS at %d", c.GOGC, c.Procs)
	}
	return fmt.Sprintf("Set GOMAXPROCS=%d and GOGC=%d", c.Procs, c.GOGC)
}

// aloneText tells how the other lever stood in the exploration, or each of the two where both are advised, if it was
// better than the current setting: it may be the easier one to set.
func (t *Tune) aloneText(v *TuneVerdict) string {
	m := v.Basis
	if m == sloHeld {
		m = t.last()
	}
	var parts []string
	for _, a := range t.others(v.Leader, m) {
		what := fmt.Sprintf("GOMAXPROCS=%d", a.Procs)
		if a.GOGC != 0 {
			what = fmt.Sprintf("GOGC=%d", a.GOGC)
		}
		typical, _ := t.costToCurrent(m, a)
		figure := percent(math.Exp(cost(m, typical)))
		if len(parts) == 0 {
			parts = append(parts, fmt.Sprintf(" %s alone gave %s %s in the exploration", what, t.name(m), figure))
		} else {
			parts = append(parts, fmt.Sprintf("%s alone %s", what, figure))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + "."
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

// effectsText tells the effects, the one that decided first.
func (t *Tune) effectsText(v *TuneVerdict) string {
	effects := slices.Clone(v.Effects)
	slices.SortStableFunc(effects, func(a, b Effect) int { return cmp.Compare(t.rank(v, a), t.rank(v, b)) })
	var parts []string
	for _, e := range effects {
		if text := t.effectText(e, len(parts) == 0, v.Pairs); text != "" {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return "there is no figure to compare"
	}
	if text := parts[0]; !strings.HasPrefix(text, t.config.Tail) { // which is a name
		parts[0] = strings.ToUpper(text[:1]) + text[1:]
	}
	return strings.Join(parts, ", ")
}

func (t *Tune) rank(v *TuneVerdict, e Effect) int {
	switch {
	case e.Metric == v.Basis:
		return 0
	case e.Metric == Throttled:
		return 3
	case e.Decides:
		return 1
	}
	return 2
}

func (t *Tune) effectText(e Effect, first bool, pairs int) string {
	switch {
	case e.Metric == sloHeld:
		return fmt.Sprintf("it held the SLO in %.0f of %d runs, the current setting in %.0f", e.To*float64(pairs), pairs, e.From*float64(pairs))
	case e.Metric == Throttled:
		return fmt.Sprintf("throttled periods %.0f %% → %.0f %%", 100*e.From, 100*e.To)
	case e.Ratio == 0 && e.Decides:
		return t.name(e.Metric) + " unknown in some runs"
	case e.Ratio == 0:
		return ""
	case e.Metric == Throughput && !e.Decides && e.Verdict == sample.VerdictSame:
		return "" // at a set rate it always is
	}
	interval := "no interval"
	if e.Hi > 0 {
		interval = number(e.Lo) + " to " + percent(e.Hi)
	}
	if !first {
		return fmt.Sprintf("%s %s (%s)", t.name(e.Metric), percent(e.Ratio), interval)
	}
	verb := "fell"
	switch {
	case e.Verdict != sample.VerdictBetter && e.Verdict != sample.VerdictWorse || e.To < e.From != (e.Ratio < 1):
		verb = "went"
	case e.Ratio > 1:
		verb = "rose"
	}
	if e.Hi > 0 {
		interval = "95 % interval " + interval
	}
	return fmt.Sprintf("%s %s from %s to %s (%s, %s)", t.name(e.Metric), verb, e.Metric.value(e.From), e.Metric.value(e.To), percent(e.Ratio), interval)
}

func (v *TuneVerdict) pairsText() string {
	text := fmt.Sprintf("%d fresh interleaved pairs", v.Pairs)
	if e := v.effect(v.Basis); e != nil && e.Adjusted < 1 {
		text += ", p" + probability(e.Adjusted)
	}
	return text + "."
}

func probability(p float64) string {
	if p < 0.001 {
		return "<0.001"
	}
	return "=" + strconv.FormatFloat(p, 'g', 1, 64)
}

func (t *Tune) basisText(m Metric) string {
	if len(t.chain()) > 1 {
		return t.name(t.chain()[0]) + " and " + t.name(m)
	}
	return t.name(m)
}

// name is that of a metric in the texts.
func (t *Tune) name(m Metric) string {
	switch m {
	case P99:
		return t.config.Tail
	case CPU:
		if strings.ContainsRune("aeiou", rune(t.config.Unit[0])) {
			return "CPU an " + t.config.Unit
		}
		return "CPU a " + t.config.Unit
	case Time:
		return "time"
	case Auto:
		return "every figure"
	default:
		return string(m)
	}
}

// atRate writes at this rate after a separator, where there is one: nobody sets that of a batch job or a benchmark.
func (t *Tune) atRate(separator string) string {
	if t.config.Unit != usualUnit {
		return ""
	}
	return separator + "at this rate"
}

// value writes a metric's value with its unit.
func (m Metric) value(v float64) string {
	if m == Throughput {
		return digits(v) + "/s"
	}
	for _, u := range []struct {
		in   float64
		name string
	}{{1, " s"}, {1e-3, " ms"}, {1e-6, " µs"}} {
		if v >= u.in {
			return digits(v/u.in) + u.name
		}
	}
	return digits(v/1e-9) + " ns"
}

// digits writes two digits at least, and all before the point.
func digits(v float64) string {
	if v < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// number is the change that a ratio is, in per cent, without the sign of these.
func number(ratio float64) string {
	change := 100 * (ratio - 1)
	text := strconv.FormatFloat(math.Abs(change), 'f', 0, 64)
	if math.Abs(change) < 0.95 {
		text = strconv.FormatFloat(math.Abs(change), 'f', 1, 64)
	}
	switch {
	case text == "0.0":
		return "0"
	case change < 0:
		return "−" + text
	}
	return "+" + text
}

func percent(ratio float64) string { return number(ratio) + " %" }

// share writes a share, or a bound: rounded up, so that it isn't said to be tighter than it is.
func share(s float64) string {
	return strconv.FormatFloat(max(0, math.Ceil(100*s-1e-9)), 'f', 0, 64) + " %"
}

// within is the smallest x such that both ratios are within 1/(1+x) and 1+x.
func within(low, high float64) float64 {
	if low <= 0 || high <= 0 {
		return 0
	}
	return math.Exp(max(math.Abs(math.Log(low)), math.Abs(math.Log(high)))) - 1
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// list writes 2, 3 and 4.
func list(settings []Candidate) string {
	var words []string
	for _, c := range settings {
		words = append(words, c.String())
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// listed is the order in which settings are listed: those with a GOGC last.
func listed(a, b Candidate) int {
	return cmp.Or(cmp.Compare(min(a.GOGC, 1), min(b.GOGC, 1)), cmp.Compare(a.Procs, b.Procs), cmp.Compare(a.GOGC, b.GOGC))
}

func median(values []float64) float64 { return sample.Summarise(values).Median }
