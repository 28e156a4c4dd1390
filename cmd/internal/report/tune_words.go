package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/sample"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
	"github.com/unthrottle/unthrottle/cmd/internal/tune"
)

// tuneWords make the sentences on what a search has found.
type tuneWords struct {
	search.TuneVerdict
	tail   string  // name of the percentile that stands in search.P99
	unit   string  // of work: request, run, operation
	perRun float64 // seconds that a run takes, about
	spent  float64 // seconds that all runs so far took
}

// text is the verdict in plain words.
func (w tuneWords) text() string {
	text := w.claim()
	if w.Done && w.Kind == search.Undecided && w.MoreRuns > 0 {
		text += " " + w.more()
	}
	return text
}

func (w tuneWords) claim() string {
	looked := fmt.Sprintf("%s GOMAXPROCS=%s looked better", w.keep(), w.Leader)
	switch w.Reason {
	case search.NotDone, search.NothingYet:
		return w.interrupted()
	case search.Alone:
		return fmt.Sprintf("GOMAXPROCS=%s is the only candidate: there is nothing to compare it with.", w.Current)
	case search.Leads:
		return w.leads() + w.broke()
	case search.Equal:
		return w.equal() + w.broke()
	case search.Alike:
		text := fmt.Sprintf("%s in the search, but fresh pairs show no difference worth having. %s. %s", looked, w.effects(), w.pairs())
		if w.Better > w.Margin {
			text += fmt.Sprintf(" With this noise it could still be up to %s better.", bound(w.Better))
		}
		return text
	case search.Refuted:
		return fmt.Sprintf("%s, but fresh pairs refute it. %s. %s", looked, w.effects(), w.pairs())
	case search.LosesSLO:
		return fmt.Sprintf("%s, but held the SLO in %d of %d fresh runs, the current setting in %d.", looked, w.Held[1], w.Pairs, w.Held[0])
	case search.LeaderFails:
		return fmt.Sprintf("%s, but the program failed with it in the confirmation: %s", looked, w.Failure)
	case search.Better:
		return w.change()
	case search.TailUnknown:
		return fmt.Sprintf("%s, but the generator was too late for its %s to be known. As root it has real-time priority; %s %s", w.cheaper(), w.tail, byCPU, w.pairs())
	case search.TailWorse:
		return fmt.Sprintf("%s. Its %s looks worse, and how much worse is not known. More pairs would tell; %s %s", w.cheaper(), w.tail, byCPU, w.pairs())
	case search.NoneHolds:
		easier := "A lower rate, or a higher limit,"
		if w.batch() {
			easier = "A higher limit"
		}
		return fmt.Sprintf("Undecided: no setting holds the SLO%s, in %d blocks. %s would tell more.", w.atRate(" "), w.Blocks, easier)
	case search.Fails:
		return fmt.Sprintf("Undecided: the program failed with its current setting, GOMAXPROCS=%s, and there is nothing to compare the others with: %s", w.Current, w.Failure)
	case search.Invalid:
		return w.invalid()
	case search.NoRoom:
		return w.noRoom()
	default:
		return w.notShown()
	}
}

const byCPU = "--objective cpu decides by CPU time alone."

func (w tuneWords) cheaper() string {
	return fmt.Sprintf("Undecided: with GOMAXPROCS=%s %s", w.Leader, w.effects())
}

func (w tuneWords) interrupted() string {
	text := fmt.Sprintf("Interrupted after %s. ", quantity.Plural(w.Runs, "run"))
	switch {
	case w.Reason == search.NothingYet:
		return text + "Nothing is known yet."
	case w.Planned > 0:
		return text + fmt.Sprintf("Best so far is GOMAXPROCS=%s, unconfirmed: %d of %d pairs are done.", w.Leader, w.Complete, w.Planned)
	}
	return text + fmt.Sprintf("Best so far is GOMAXPROCS=%s, unconfirmed.", w.Leader)
}

func (w tuneWords) leads() string {
	others := "no other setting"
	if w.Others > 1 {
		others = fmt.Sprintf("none of the %d other settings", w.Others)
	}
	basis := w.name(w.Basis)
	if len(w.Chain) > 1 {
		basis = w.name(w.Chain[0]) + " and " + basis
	}
	text := fmt.Sprintf("%s By %s %s did better in %s.", w.keep(), basis, others, quantity.Plural(w.Blocks, "block"))
	if w.Rival != (search.Candidate{}) && w.Better > w.Margin {
		text += fmt.Sprintf(" With this noise %s could still be up to %s better.", w.Rival, bound(w.Better))
	}
	return text
}

func (w tuneWords) equal() string {
	keep := fmt.Sprintf("keep GOMAXPROCS=%d", w.Current.Procs)
	if w.Current.Procs == w.GoDefault {
		keep = "keep the default"
	}
	near := fmt.Sprintf("%s are within %s of each other", settings(w.Near), bound(w.Within))
	if w.Pairs == 0 {
		return fmt.Sprintf("%s (%s in %s): %s.", near, w.name(w.Basis), quantity.Plural(w.Blocks, "block"), keep)
	}
	return fmt.Sprintf("%s: %s. %s. %s", near, keep, w.effects(), w.pairs())
}

// broke says that the setting which is kept does not do what it has to do.
func (w tuneWords) broke() string {
	if w.Broke <= w.BrokeOf/2 {
		return ""
	}
	return fmt.Sprintf(" It broke the SLO in %d of %d runs%s.", w.Broke, w.BrokeOf, w.atRate(", "))
}

func (w tuneWords) invalid() string {
	why := ", as the generator could not keep up or a figure was missing"
	if w.batch() {
		why = ", or a figure was missing"
	}
	text := "Undecided: too many runs were not valid" + why + "."
	if w.Leader != w.Current {
		text += fmt.Sprintf(" Best so far is GOMAXPROCS=%s, unconfirmed.", w.Leader)
	}
	return text
}

func (w tuneWords) noRoom() string {
	text := fmt.Sprintf("Undecided: the budget of %s has no room for a confirmation.", quantity.Plural(w.MaxRuns, "run"))
	if w.Leader != w.Current {
		text += fmt.Sprintf(" Best so far is GOMAXPROCS=%s.", w.Leader)
	}
	return text + fmt.Sprintf(" About %s more would settle it.", quantity.Plural(w.MoreRuns, "run"))
}

func (w tuneWords) notShown() string {
	text := fmt.Sprintf("Undecided: GOMAXPROCS=%s was the best of the search, but fresh pairs don't show that it is better than %s. %s. %s",
		w.Leader, w.Current, w.effects(), w.pairs())
	if w.MorePairs == 0 {
		return text + fmt.Sprintf(" With this noise no reasonable number of runs would settle %s.", bound(w.Margin))
	}
	return text + fmt.Sprintf(" About %s more (a fresh confirmation of %d pairs) would settle %s.", quantity.Plural(w.MoreRuns, "run"), w.MorePairs, bound(w.Margin))
}

// moreSeconds is how long it would take to settle it; 0: it is settled, or nothing would.
func (w tuneWords) moreSeconds() float64 {
	if w.Kind != search.Undecided {
		return 0
	}
	return float64(w.MoreRuns) * w.perRun
}

// more says how long it would take, and what to ask for.
func (w tuneWords) more() string {
	text := fmt.Sprintf("That is about %s more", inMinutes(w.moreSeconds()))
	if w.MorePairs > 0 && w.Pairs > 0 {
		return text + fmt.Sprintf(": --pairs %d.", w.MorePairs)
	}
	return text + fmt.Sprintf(": --budget %s.", budget(w.spent+w.moreSeconds()))
}

func inMinutes(seconds float64) string {
	if minutes := int(math.Ceil(seconds / 60)); minutes > 1 {
		return strconv.Itoa(minutes) + " minutes"
	}
	return "a minute"
}

func budget(seconds float64) string {
	return strconv.Itoa(int(math.Ceil(seconds/60))) + "m"
}

// keep is the sentence that keeps things as they are.
func (w tuneWords) keep() string { return fmt.Sprintf("Keep GOMAXPROCS=%d.", w.Current.Procs) }

// change is such as: Set GOMAXPROCS=2. p99 fell from 97 ms to 41 ms (−58 %, 95 % interval −61 to −52 %), CPU a request
// −31 % (−33 to −29 %), throttled periods 78 % → 2 %. 10 fresh interleaved pairs, p=0.002.
func (w tuneWords) change() string {
	text := fmt.Sprintf("%s. %s. %s", w.set(), w.effects(), w.pairs())
	switch missed := w.Pairs - w.Held[1]; {
	case missed > w.Pairs/2:
		text += fmt.Sprintf(" It is better, but not well: it broke the SLO in %d of them%s.", missed, w.atRate(", "))
	case w.Leader.Procs != w.GoDefault || w.Leader.Procs == w.Current.Procs:
	case w.Leader.GOGC == 0:
		text += " That is Go's default, so it is enough not to set another."
	default:
		text += fmt.Sprintf(" GOMAXPROCS=%d is Go's default, so it is enough not to set another.", w.Leader.Procs)
	}
	return text + w.levers()
}

// set is what is to be done.
func (w tuneWords) set() string {
	c := w.Leader
	switch {
	case c.GOGC == 0:
		return fmt.Sprintf("Set GOMAXPROCS=%d", c.Procs)
	case c.Procs == w.Current.Procs:
		return fmt.Sprintf("Set GOGC=%d and leave GOMAXPROCS at %d", c.GOGC, c.Procs)
	}
	return fmt.Sprintf("Set GOMAXPROCS=%d and GOGC=%d", c.Procs, c.GOGC)
}

func (w tuneWords) levers() string {
	var parts []string
	for i, l := range w.Levers {
		what := fmt.Sprintf("GOMAXPROCS=%d", l.Procs)
		if l.GOGC != 0 {
			what = fmt.Sprintf("GOGC=%d", l.GOGC)
		}
		if i == 0 {
			parts = append(parts, fmt.Sprintf(" %s alone gave %s %s in the exploration", what, w.name(l.Metric), changed(l.Ratio)))
		} else {
			parts = append(parts, fmt.Sprintf("%s alone %s", what, changed(l.Ratio)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + "."
}

// effects tells the effects, the one that decided first.
func (w tuneWords) effects() string {
	effects := slices.Clone(w.Effects)
	slices.SortStableFunc(effects, func(a, b search.Effect) int { return cmp.Compare(w.rank(a), w.rank(b)) })
	var parts []string
	for _, e := range effects {
		if text := w.effect(e, len(parts) == 0); text != "" {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return "there is no figure to compare"
	}
	return strings.Join(parts, ", ")
}

func (w tuneWords) rank(e search.Effect) int {
	switch {
	case e.Metric == w.Basis:
		return 0
	case e.Metric == search.Throttled:
		return 3
	case e.Decides:
		return 1
	}
	return 2
}

// effect tells one of them, in full if it is the first.
func (w tuneWords) effect(e search.Effect, first bool) string {
	name := w.name(e.Metric)
	if first {
		name = w.title(e.Metric)
	}
	switch {
	case e.Metric == search.SLO:
		it := "it"
		if first {
			it = "It"
		}
		return fmt.Sprintf("%s held the SLO in %.0f of %d runs, the current setting in %.0f", it, e.To*float64(w.Pairs), w.Pairs, e.From*float64(w.Pairs))
	case e.Metric == search.Throttled:
		return fmt.Sprintf("%s periods %.0f %% → %.0f %%", name, 100*e.From, 100*e.To)
	case e.Ratio == 0 && e.Decides:
		return name + " unknown in some runs"
	case e.Ratio == 0:
		return ""
	case e.Metric == search.Throughput && !e.Decides && e.Verdict == sample.VerdictSame:
		return "" // at a set rate it always is
	}
	interval := "no interval"
	if e.Hi > 0 {
		interval = changeNumber(e.Lo) + " to " + changed(e.Hi)
	}
	if !first {
		return fmt.Sprintf("%s %s (%s)", name, changed(e.Ratio), interval)
	}
	if e.Hi > 0 {
		interval = "95 % interval " + interval
	}
	return fmt.Sprintf("%s %s from %s to %s (%s, %s)", name, verb(e), metricValue(e.Metric, e.From), metricValue(e.Metric, e.To), changed(e.Ratio), interval)
}

// verb is what a figure did. Where nothing is shown of it, or the medians went the other way than the pairs, it just went.
func verb(e search.Effect) string {
	switch {
	case e.Verdict != sample.VerdictBetter && e.Verdict != sample.VerdictWorse || e.To < e.From != (e.Ratio < 1):
		return "went"
	case e.Ratio > 1:
		return "rose"
	}
	return "fell"
}

// pairs says what the figures rest on.
func (w tuneWords) pairs() string {
	text := fmt.Sprintf("%d fresh interleaved pairs", w.Pairs)
	if e := w.Effect(w.Basis); e != nil && e.Adjusted < 1 {
		text += ", p" + probability(e.Adjusted)
	}
	return text + "."
}

// dropped says why the exploration took a candidate out; "" if it didn't.
func (w tuneWords) dropped(d *search.Drop) string {
	switch {
	case d == nil:
		return ""
	case d.Reason == search.BreaksSLO:
		return fmt.Sprintf("broke the SLO in all of %d blocks in which %s held it", d.Blocks, d.Against)
	case d.Reason == search.ProgramFails:
		return "the program failed: " + d.Failure
	case d.Reason == search.NoValidRun:
		return fmt.Sprintf("no valid run in %d blocks", d.Blocks)
	}
	return fmt.Sprintf("%s %s against %s in %d blocks", w.name(d.Metric), changed(d.Ratio), d.Against, d.Blocks)
}

// name is that of a metric within a sentence.
func (w tuneWords) name(m search.Metric) string {
	switch m {
	case search.P99:
		return w.tail
	case search.CPU:
		if strings.ContainsRune("aeiou", rune(w.unit[0])) {
			return "CPU an " + w.unit
		}
		return "CPU a " + w.unit
	case search.Auto:
		return "every figure"
	default:
		return string(m)
	}
}

// title is its name at the beginning of one.
func (w tuneWords) title(m search.Metric) string {
	name := w.name(m)
	if m == search.P99 { // p99 stays as it is
		return name
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

func (w tuneWords) batch() bool { return w.unit != "request" }

// atRate writes at this rate after a separator, where there is one: nobody sets that of a batch job or a benchmark.
func (w tuneWords) atRate(separator string) string {
	if w.batch() {
		return ""
	}
	return separator + "at this rate"
}

// byLoad says what is best at the other loads, and from which on another setting is.
func byLoad(loads []TuneLoad) (sentences []string) {
	sorted := slices.Clone(loads)
	slices.SortStableFunc(sorted, func(a, b TuneLoad) int { return cmp.Compare(a.Rate, b.Rate) })
	for _, l := range sorted {
		if !l.Main {
			sentences = append(sentences, fmt.Sprintf("At %s (%s/s): %s", quantity.WholeShare(l.Share), short(l.Rate), l.Text))
		}
	}
	for i, l := range sorted {
		if i > 0 && (l.Procs != sorted[i-1].Procs || l.GOGC != sorted[i-1].GOGC) {
			sentences = append(sentences, fmt.Sprintf("From %s of the capacity on it is %s, below %s.", quantity.WholeShare(l.Share), settingName(l.Procs, l.GOGC), settingName(sorted[i-1].Procs, sorted[i-1].GOGC)))
		}
	}
	return sentences
}

func settingName(procs, gogc int) string {
	return "GOMAXPROCS=" + search.Candidate{Procs: procs, GOGC: gogc}.String()
}

// whyGC says how much of a difference in CPU goes with garbage collection.
func whyGC(s *tune.Study, v search.TuneVerdict) (sentences []string) {
	p := s.Pilot
	if p.GC == nil {
		return nil
	}
	const trap = "a small heap that is collected so often costs more the more Ps there are, because the sweeper spins (docs/heap-floor.md)"
	gc := map[search.Candidate]*tune.GC{{Procs: p.Procs}: p.GC}
	for _, r := range s.Runs {
		if r.Load == 0 && r.GC != nil && (gc[r.Search.Candidate()] == nil || r.Search.Phase == tune.Explain) {
			gc[r.Search.Candidate()] = r.GC
		}
	}
	current, leader := gc[v.Current], gc[v.Leader]
	tell := func(g *tune.GC, c search.Candidate) string {
		return fmt.Sprintf("%.0f collections a second of a heap of %d MB, and %.0f %% of the CPU time, with GOMAXPROCS=%v", g.PerSecond, max(1, g.Live>>20), 100*g.CPUShare, c)
	}
	const worthTelling = 5 // collections a second
	switch {
	case current != nil && leader != nil && v.Leader != v.Current && max(current.PerSecond, leader.PerSecond) >= worthTelling:
		sentences = append(sentences, fmt.Sprintf("Garbage collection: %s; %s.", tell(current, v.Current), tell(leader, v.Leader)))
	case current != nil && len(p.Levers) > 0:
		sentences = append(sentences, fmt.Sprintf("Garbage collection: %s.", tell(current, v.Current)))
	}
	if len(p.Levers) > 0 && len(sentences) > 0 {
		sentences = append(sentences, strings.ToUpper(trap[:1])+trap[1:]+"; so GOGC="+strconv.Itoa(p.Levers[0])+" was tried as well.")
	}
	return sentences
}

// metricValue writes a metric's value with its unit.
func metricValue(m search.Metric, v float64) string {
	if m == search.Throughput {
		return twoDigits(v) + "/s"
	}
	for _, u := range []struct {
		in   float64
		name string
	}{{1, " s"}, {1e-3, " ms"}, {1e-6, " µs"}} {
		if v >= u.in {
			return twoDigits(v/u.in) + u.name
		}
	}
	return twoDigits(v/1e-9) + " ns"
}

// twoDigits writes two digits at least, and all before the point.
func twoDigits(v float64) string {
	if v < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// changeNumber is the change that a ratio is, in per cent, without the sign of these.
func changeNumber(ratio float64) string {
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

func changed(ratio float64) string { return changeNumber(ratio) + " %" }

// bound writes a share as a bound: rounded up, so that it isn't said to be tighter than it is.
func bound(share float64) string {
	return strconv.FormatFloat(max(0, math.Ceil(100*share-1e-9)), 'f', 0, 64) + " %"
}

func probability(p float64) string {
	if p < 0.001 {
		return "<0.001"
	}
	return "=" + strconv.FormatFloat(p, 'g', 1, 64)
}

// settings writes 2, 3 and 4.
func settings(of []search.Candidate) string {
	var words []string
	for _, c := range of {
		words = append(words, c.String())
	}
	return quantity.List(words)
}

// RatesNote says what the rates are in the table of limits.
func (d *Tune) RatesNote() string {
	const note = "The rates are the highest at which each GOMAXPROCS holds the SLO; → marks the better one"
	for _, l := range d.Limits {
		if slices.ContainsFunc(l.Settings, func(s TuneLimitRates) bool { return s.Default }) {
			return note + ", * what Go chooses by itself."
		}
	}
	return note + "."
}

// HeldNote says which windows were held, and that these columns beside are of them too.
func (d *Tune) HeldNote(columns ...string) string {
	at := "your rate"
	if n := d.Verdict.Load; n >= 0 && n < len(d.Loads) && d.Loads[n].Rate > 0 {
		at += " of " + quantity.PerSecond(d.Loads[n].Rate)
	}
	text := fmt.Sprintf("Held: windows at %s in which the better one held it", at)
	switch len(columns) {
	case 0:
		return text + "."
	case 1:
		return text + "; " + columns[0] + " is of these."
	}
	return text + "; " + quantity.List(columns) + " are of these."
}
