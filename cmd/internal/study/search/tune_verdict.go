package search

import (
	"math"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
)

// What a TuneVerdict may advise; Undecided is the fourth.
const (
	Change Verdict = "change" // the leader is better in one metric, and not worse in the others
	Keep   Verdict = "keep"
	Trade  Verdict = "trade" // keep, or take the leader: it is better in one metric and worse in another
)

// A Reason is why a TuneVerdict is what it is. With the verdict's Kind and its figures it says all that there is to say.
type Reason string

// The reasons. Unless it says otherwise one goes with Undecided.
const (
	NotDone     Reason = "not done"     // there was no time for more runs, or it was interrupted
	NothingYet  Reason = "nothing yet"  // so it was, in the first block
	Alone       Reason = "alone"        // keep: there is one candidate
	NoneBetter  Reason = "none better"  // keep: no other setting is better by a relevant amount
	Leads       Reason = "leads"        // keep: none is shown to be better; Rival may be, by Better at most
	Better      Reason = "better"       // change
	Worsens     Reason = "worsens"      // trade: it is shown to be worse in WorseIn
	MayWorsen   Reason = "may worsen"   // the leader is better in Basis, and whether it is worse in WorseIn is not settled
	Disturbed   Reason = "disturbed"    // something else ran during too many runs: the tail or the time of a setting is not known
	TooNoisy    Reason = "too noisy"    // runs of one setting differ so much in Drowned that no verdict was in sight
	NotShown    Reason = "not shown"    // the leader looks better, but the evidence is not sufficient
	TailUnknown Reason = "tail unknown" // the leader takes less CPU time, and nothing is known of its tail
	Fails       Reason = "fails"        // the program failed with its current setting
	Invalid     Reason = "invalid"      // the current setting has too few valid runs
)

// A Says is what is shown of a metric of a candidate, relative to the current setting.
type Says string

// What may be shown.
const (
	IsBetter Says = "better"
	NotWorse Says = "not worse" // by no more than its margin
	IsWorse  Says = "worse"
	Open     Says = "open"
)

// An Effect is what a metric does from the current setting to another, by all blocks in which both ran.
type Effect struct {
	Metric Metric
	Says   Says    // of the metrics that decide; "" of the others
	From   float64 // geometric means, of these blocks: their ratio is Ratio
	To     float64
	Ratio  float64 // to ÷ from, of a typical block; 0: none
	Lo     float64 // its 95 % interval, with the noise of all settings; both 0: too few blocks
	Hi     float64
	Pairs  int // blocks in which it is known

	RankLo float64 // the interval of the signed-rank test, which takes no noise to be normal; both 0: too few blocks
	RankHi float64
	P      float64 // of that test, two-sided; 1: none
}

// A TuneVerdict is what is known of the best setting. It has no words: whatever shows it makes them from this.
type TuneVerdict struct {
	Kind    Verdict
	Reason  Reason
	Procs   int    // to run with: the leader's for change, the current one's otherwise
	GOGC    int    // 0: as the program has it
	Vary    int    // see Candidate
	Failure string // of the program, where that is the reason

	Current   Candidate  // that the others are compared with
	Fallen    []Fallen   // settings in whose place it is, the program's own first; none: it is the program's own
	Stands    bool       // where there are some: the program runs with Current, in as many runs as a claim takes
	Leader    Candidate  // what is advised, or the trade, or the best so far; it may be the current one
	Others    int        // settings that were to be compared with the current one
	Chain     []Metric   // that decide, the tail first
	Basis     Metric     // that the leader is better in
	WorseIn   Metric     // and worse, or perhaps
	Effects   []Effect   // from the current setting to the leader; empty if that is the current one
	Pairs     int        // blocks that they rest on
	Fresh     int        // of these, those that guard a change
	Agreed    int        // and of them, those in which the leader was better; others that were lost are not hidden
	Disturbed int        // runs of all settings in which something else ran
	Held      [2]int     // undisturbed pairs in which the current setting and the leader held the SLO
	HeldOf    int        // undisturbed pairs
	Errors    [2]float64 // and mean shares of requests that failed; of the current setting in all its runs where there are no pairs
	Levers    []Lever    // after change: each lever alone, where it is better than the current setting

	Drowned Metric // of TooNoisy
	Noise   Noise  // in it

	Contradicted bool // the tail speaks for the leader, the p99 of whole windows against it

	Rival   Candidate // that could still be better, most of all; no Procs: none
	RivalIn Metric    // in this metric
	Better  float64   // by this share at most
	More    int       // runs that would tell; 0: none are missing, or no reasonable number would

	Broke   int  // runs in which the current setting broke the SLO
	BrokeOf int  // out of this many
	NoneOK  bool // no run of any setting held it
	Blocks  int  // of the race
	Runs    int
	Invalid int
	Done    bool // false: there was no time for more runs, or it was interrupted

	GoDefault  int // what was asked for, as in TuneConfig
	Margin     float64
	TailMargin float64
}

// A Lever is one of the two alone, of a program whose other one is advised, or both.
type Lever struct {
	Candidate
	Metric Metric
	Ratio  float64 // to the current setting
}

const (
	looking    = 0.1 // the level, one-sided, at which a leader looks better
	mostUseful = 150 // pairs beyond which no one will wait for an answer
)

// Verdict says what is known by now. A change is advised only after its guard.
func (t *Tune) Verdict() TuneVerdict {
	current := t.arm(t.current())
	v := TuneVerdict{
		Kind: Undecided, Procs: t.current().Procs, Current: t.current(), Leader: t.current(), Others: len(t.arms) - 1 - len(t.fallen), Chain: t.chain(), Fallen: slices.Clone(t.fallen), Stands: len(t.fallen) > 0 && t.ending != endCurrent && t.stands(),
		Blocks: t.raced, Runs: len(t.seen), Done: t.phase == Done,
		GoDefault: t.config.GoDefault, Margin: t.config.Margin, TailMargin: t.config.TailMargin,
	}
	for _, o := range t.seen {
		switch {
		case o.Failed == "" && !t.usable(o):
			v.Invalid++
		case o.Disturbed:
			v.Disturbed++
		}
	}
	if !v.Done && len(t.order) > 0 && t.phase == Race {
		v.Blocks-- // it is not complete
	}
	v.Broke, v.BrokeOf = t.brokenRuns(current)
	for _, o := range current.runs {
		v.Errors[0] += o.ErrorShare / float64(len(current.runs))
	}
	v.NoneOK = v.BrokeOf > 0 && !slices.ContainsFunc(t.arms, func(a *arm) bool {
		broken, of := t.brokenRuns(a)
		return broken < of
	})
	switch {
	case t.ending == endAlone:
		v.Kind, v.Reason = Keep, Alone
	case t.ending == endCurrent:
		v.Reason, v.Failure = Fails, t.fallen[0].Failure
	case t.ending == endGenerator:
		v.Reason = Invalid
	case t.ending == endNoise:
		t.drowns(&v)
	case t.block <= 1 && !v.Done:
		v.Reason = NothingYet
	case t.ending == endChange || !v.Done && t.proven():
		t.changes(&v)
	default:
		t.stays(&v)
	}
	return v
}

// changes advises the leader.
func (t *Tune) changes(v *TuneVerdict) {
	v.Kind, v.Reason, v.Basis = Change, Better, t.basis
	v.Procs, v.GOGC, v.Vary = t.leader.Procs, t.leader.GOGC, t.leader.Vary
	v.Agreed, v.Fresh = t.agreed(t.basis)
	t.measure(v, t.arm(t.leader))
	v.Levers = t.levers(v)
}

// drowns says in which metric nothing can be shown, and what is known all the same.
func (t *Tune) drowns(v *TuneVerdict) {
	v.Reason = TooNoisy
	v.Drowned, v.Noise = t.drowned()
	if a, basis, worse := t.unsettled(); a != nil {
		v.Basis, v.WorseIn = basis, worse
		t.measure(v, a)
		v.More = t.toSettle(worse, a)
	}
}

// stays says why the current setting is kept, or why nothing can be said.
func (t *Tune) stays(v *TuneVerdict) {
	current := t.arm(v.Current)
	lead := t.leading()
	guarded := !v.Done && t.phase == Confirm // what else is known is not the answer as long as there may be a change
	if a, basis, worse := t.bestTrade(); a != nil && !t.blind() && !guarded {
		v.Kind, v.Reason, v.Basis, v.WorseIn = Trade, Worsens, basis, worse
		t.measure(v, a)
		return
	}
	if a, basis, worse := t.unsettled(); a != nil && !t.blind() && !guarded && (v.Done || t.raceOf(firstClaim+1)) {
		v.Reason, v.Basis, v.WorseIn = MayWorsen, basis, worse
		if t.unknown() {
			v.Reason = Disturbed
		}
		t.measure(v, a)
		v.More = t.toSettle(worse, a)
		return
	}
	t.rival(v)
	looks := false
	for _, m := range t.chain() {
		if lead != current && t.shownBetter(m, lead, current, looking) {
			looks, v.Basis = true, m
		}
	}
	if looks {
		v.More = t.toShow(v.Basis, lead)
	}
	switch {
	case looks && t.blind():
		v.Reason = TailUnknown
	case t.unknown():
		v.Reason = Disturbed
	case !v.Done && (looks || !t.raceOf(firstClaim+1)):
		v.Reason = NotDone
	case looks:
		v.Reason = NotShown
	case v.Rival.Procs != 0:
		v.Kind, v.Reason = Keep, Leads
		return
	default:
		v.Kind, v.Reason = Keep, NoneBetter
		return
	}
	t.measure(v, lead)
}

// bestTrade is the best of the candidates that are better than the current setting in one metric and worse in another, with the two.
func (t *Tune) bestTrade() (*arm, Metric, Metric) { return t.pick(t.trade) }

// unsettled is the best of those that are better in one metric while it is open whether they are worse in another.
func (t *Tune) unsettled() (*arm, Metric, Metric) {
	current, chain := t.arm(t.current()), t.chain()
	return t.pick(func(a *arm) (better, worse Metric, ok bool) {
		if a == current || a.failed || t.pairs(a) < firstClaim || t.unreliable(a, current) {
			return "", "", false
		}
		for _, m := range slices.Backward(chain) {
			open := slices.IndexFunc(chain, func(other Metric) bool { return other != m && !t.notWorse(other, a, current, unharmed) })
			if open >= 0 && t.shownBetter(m, a, current, trading) {
				return m, chain[open], true
			}
		}
		return "", "", false
	})
}

// pick is the candidate of a kind that saves most CPU, or else the one with the lowest tail. The kind says in which metric a candidate is
// better and in which it is not.
func (t *Tune) pick(kind func(*arm) (better, worse Metric, ok bool)) (best *arm, basis, worse Metric) {
	for _, m := range slices.Backward(t.chain()) {
		lowest := 0.0
		for _, a := range t.arms {
			in, costs, ok := kind(a)
			if c := t.contrast(m, a, t.arm(t.current())); ok && in == m && c.mean < lowest {
				best, basis, worse, lowest = a, m, costs, c.mean
			}
		}
		if best != nil {
			break
		}
	}
	return best, basis, worse
}

// toSettle is how many runs would tell whether a setting is worse, or that it isn't; 0: no reasonable number would.
func (t *Tune) toSettle(m Metric, a *arm) int {
	const power = 0.84 // the quantile of 80 %
	c := t.contrast(m, a, t.arm(t.current()))
	level, far := unharmed, t.allowed(m)-max(0, c.mean)
	if far < 0 { // it looks worse
		level, far = trading, c.mean
	}
	if !c.known() || far == 0 {
		return 0
	}
	if missing := c.missing(level, power, far); missing <= mostUseful {
		return 2 * max(1, missing)
	}
	return 0
}

// toShow is how many runs would tell whether a setting that looks better in a metric is a change for the better; 0: no reasonable number
// would. Its guard is in them.
func (t *Tune) toShow(basis Metric, a *arm) int {
	current := t.arm(t.current())
	far := t.contrast(basis, a, current)
	missing := far.missing(t.level(claim), 0, -far.mean)
	for _, m := range t.chain() {
		if m == basis || t.notWorse(m, a, current, unharmed) {
			continue
		}
		runs := t.toSettle(m, a)
		if runs == 0 {
			return 0
		}
		missing = max(missing, runs/2)
	}
	if missing > mostUseful {
		return 0
	}
	return 2 * max(guardPairs, missing)
}

// missing is how many more pairs it takes for the bound at a level, with some power added, to be that far from the mean.
func (c contrast) missing(level, power, far float64) int {
	sd := c.error * math.Sqrt(float64(c.pairs))
	wanted := math.Ceil(math.Pow(sd*(sample.StudentQuantile(level, max(c.freedom, 8))+power)/far, 2))
	return int(min(wanted, 1e6)) - c.pairs
}

// unknown reports whether the tail, or the time, of a setting is not known because its runs were disturbed.
func (t *Tune) unknown() bool {
	current := t.arm(t.current())
	return slices.ContainsFunc(t.chain(), func(m Metric) bool {
		return slices.ContainsFunc(t.arms, func(a *arm) bool {
			return a != current && !a.failed && a.void < mostVoid && t.pairs(a) >= firstLook && t.contrast(m, a, current).pairs < firstLook &&
				slices.ContainsFunc(a.runs, func(o TuneObservation) bool { return o.measured(m) > 0 })
		})
	})
}

// rival is the candidate that could still be better than the current setting, most of all by relevant amounts; one that was dropped, too.
func (t *Tune) rival(v *TuneVerdict) {
	current, most := t.arm(v.Current), 1.0
	for _, a := range t.arms {
		worse := func(m Metric) bool { return t.shownWorse(m, a, current, trading) }
		out := a.dropped != nil && (a.dropped.Reason == BreaksSLO || a.dropped.Reason == ProgramFails)
		if a == current || out || t.unreliable(a, current) || slices.ContainsFunc(v.Chain, worse) {
			continue
		}
		for _, m := range v.Chain {
			c := t.contrast(m, a, current)
			if !c.known() {
				continue
			}
			if low := c.below(interval); -low/t.worth(m) > most {
				most = -low / t.worth(m)
				v.Rival, v.RivalIn, v.Better = a.Candidate, m, 1-math.Exp(low)
				v.More = t.more(c, t.worth(m))
			}
		}
	}
}

// more is how many runs would tell whether a setting is better by a relevant amount: as many as make the interval's half as wide
// as the way from the estimate to the nearer of the two that tell.
func (t *Tune) more(c contrast, worth float64) int {
	far := max(math.Abs(c.mean), math.Abs(c.mean+worth))
	if missing := c.missing(interval, 0, far); missing > 0 && missing <= mostUseful {
		return 2 * missing
	}
	return 0
}

// measure says what the leader does to each metric.
func (t *Tune) measure(v *TuneVerdict, a *arm) {
	current := t.arm(v.Current)
	v.Leader = a.Candidate
	if a == current {
		return
	}
	v.Pairs, v.Errors = common(a, current), [2]float64{}
	v.Contradicted = slices.Contains(v.Chain, P99) && t.contrast(P99, a, current).above(safely) < t.allowed(P99) && t.contradicted(a, current)
	for o, c := range both(a, current) {
		quiet := !c.Disturbed && !o.Disturbed
		if quiet {
			v.HeldOf++
		}
		for i, o := range []TuneObservation{c, o} {
			if quiet && !t.broken(o) {
				v.Held[i]++
			}
			v.Errors[i] += o.ErrorShare / float64(v.Pairs)
		}
	}
	for _, m := range []Metric{P99, Pooled, Time, CPU, Throughput} {
		if e, ok := t.effect(m, a); ok {
			v.Effects = append(v.Effects, e)
		}
	}
	if e, ok := t.throttling(a); ok && max(e.From, e.To) > 0 {
		v.Effects = append(v.Effects, e)
	}
}

// throttling is a candidate's throttled share compared with the current setting's; false: it is not known.
func (t *Tune) throttling(a *arm) (Effect, bool) {
	current := t.arm(t.current())
	from, to := paired(Throttled, a, current)
	if a == current {
		for _, o := range a.runs {
			from = append(from, o.Throttled)
		}
		to = from
	}
	if len(to) == 0 {
		return Effect{}, false
	}
	return Effect{Metric: Throttled, From: median(from), To: median(to), Pairs: len(to), P: 1}, true
}

// effect is that of a metric from the current setting to a; false: it is not known.
func (t *Tune) effect(m Metric, a *arm) (Effect, bool) {
	current := t.arm(t.current())
	from, to := paired(m, a, current)
	if len(from) == 0 {
		return Effect{}, false
	}
	e := Effect{Metric: m, From: typical(from), To: typical(to), Pairs: len(from)}
	c := t.contrast(m, a, current)
	e.Ratio = math.Exp(cost(m, c.mean))
	if c.known() {
		lo, hi := math.Exp(cost(m, c.below(interval))), math.Exp(cost(m, c.above(interval)))
		e.Lo, e.Hi = min(lo, hi), max(lo, hi)
	}
	r := sample.Compare(from, to)
	e.RankLo, e.RankHi, e.P = r.Low, r.High, r.P
	if slices.Contains(t.chain(), m) {
		e.Says = t.says(m, a)
	}
	return e, true
}

// says is what is shown of a metric of a candidate.
func (t *Tune) says(m Metric, a *arm) Says {
	current := t.arm(t.current())
	switch {
	case t.shownBetter(m, a, current, trading):
		return IsBetter
	case t.shownWorse(m, a, current, trading):
		return IsWorse
	case t.notWorse(m, a, current, safely):
		return NotWorse
	}
	return Open
}

// paired are a metric's values in the blocks in which both have one, those of the current setting first. Throttling has one
// in all.
func paired(m Metric, a, current *arm) (from, to []float64) {
	for o, c := range both(a, current) {
		if x, y := c.value(m), o.value(m); m == Throttled || x > 0 && y > 0 {
			from, to = append(from, x), append(to, y)
		}
	}
	return from, to
}

// levers are, for an advised GOMAXPROCS, the best GOGC alone, and the other way round; for a combination, both of its parts. Only those
// that work, and are better than the current setting beyond the margin: one may be easier to set.
func (t *Tune) levers(v *TuneVerdict) (alone []Lever) {
	m := v.Basis
	if m == SLO {
		m = t.last()
	}
	advised := v.Leader
	procs := func(a *arm) bool {
		return a.GOGC == 0 && a.Vary == 0 && (a.Procs == advised.Procs || advised.Procs == t.current().Procs)
	}
	lever := func(a *arm) bool {
		return a.GOGC != 0 && a.Vary == 0 && a.Procs == t.current().Procs && (a.GOGC == advised.GOGC || advised.GOGC == 0)
	}
	varied := func(a *arm) bool {
		return a.Vary != 0 && a.GOGC == 0 && a.Procs == t.current().Procs && (a.Vary == advised.Vary || advised.Vary == 0)
	}
	for _, is := range []func(*arm) bool{procs, lever, varied} {
		var kind []*arm
		for _, a := range t.arms {
			if is(a) && a.Candidate != advised && t.sound(a) && t.better(a) {
				kind = append(kind, a)
			}
		}
		if first, c := t.cheapest(m, kind); first != nil && c < -math.Log1p(t.config.Margin) {
			alone = append(alone, Lever{Candidate: first.Candidate, Metric: m, Ratio: math.Exp(cost(m, c))})
		}
	}
	return alone
}

// sound reports whether the program runs with it, and breaks the SLO about as rarely as with the leader. It may have been dropped.
func (t *Tune) sound(a *arm) bool {
	return !a.failed && a.void < mostVoid && len(t.holding([]*arm{t.arm(t.leader), a})) == 2
}

// Effect is that of a metric; nil: none.
func (v *TuneVerdict) Effect(m Metric) *Effect {
	for i := range v.Effects {
		if v.Effects[i].Metric == m {
			return &v.Effects[i]
		}
	}
	return nil
}

// typical is the geometric mean. It is computed from ratios to the first value, so that equal values stay exact.
func typical(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += math.Log(v / values[0])
	}
	return values[0] * math.Exp(sum/float64(len(values)))
}

func median(values []float64) float64 { return sample.Summarise(values).Median }
