package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

// tuneWords make the sentences on what a search has found: a headline, its figures, why, and what to type.
type tuneWords struct {
	search.TuneVerdict
	plan    tune.Plan
	load    tune.Load
	tail    string            // name of the percentile that is in search.P99
	unit    string            // of work: request, run, operation
	perRun  float64           // seconds that a run takes, about
	spent   float64           // seconds that all runs so far took
	budget  float64           // seconds; 0: none
	late    bool              // it is used up
	failed  bool              // an error ended it
	standIn int               // GOMAXPROCS with which the load was found, as the program failed with its own; 0: with its own
	killed  []search.Standing // that are out for lack of memory, where the current setting is not
	beside  float64           // CPUs that others used in the runs that are disturbed; 0: none
	again   int               // attempts that were lost so
	cpus    int               // of the machine
	limit   string            // GOMEMLIMIT that is set together with a GOGC; "": none
	peaks   [2]float64        // bytes: the memory of the current setting at its peak, and of the leader; 0: not known
	memory  int64             // limit of it, in bytes; 0: none
	alive   [2]int64          // bytes: of the heap, and how much may be alive so that the leader's GOGC has its room; 0: not known
}

// headline is what to do, and why or with which figures, as long as there is room for them.
func (w tuneWords) headline() string {
	text, more := w.decision()
	if w.NoneOK {
		text = firstFitting(w.noneOK()+" "+text, text)
	}
	return fitting(text, more) + "."
}

// noneOK is said if no setting is OK, below the headline if there is no room in it.
func (w tuneWords) noneOK() string {
	if w.plan.SLO == "" {
		return "With each setting " + failsMore + "."
	}
	return "No setting held the SLO."
}

// failsMore is what an unreliable setting does, if no SLO is given.
var failsMore = "more than " + quantity.Share(search.Tolerated) + " of the requests failed"

// decision is what to do, in few words, and what may come after it.
func (w tuneWords) decision() (what string, more []string) {
	keep, undecided := "Keep "+w.plan.Setting(w.Current), "Undecided"
	if dies := w.dies(); dies != "" && w.Stands {
		return environment(w.Procs, w.GOGC, w.limit, w.own().Procs, w.plan.Varied(w.Vary), w.plan.Varied(0)).set(), []string{dies}
	} else if dies != "" && w.Reason != search.Fails {
		return undecided, []string{dies}
	}
	switch w.Reason {
	case search.Better:
		return w.environment().set(), w.gains()
	case search.MayWorsen:
		return undecided, w.notSettled()
	case search.Disturbed:
		return undecided, w.disturbed()
	case search.TooNoisy:
		return undecided, w.drowned()
	case search.Worsens:
		if w.WorseIn == search.SLO {
			return keep + "; " + w.environment().and() + " is less reliable", nil
		}
		return keep + "; " + w.environment().and() + " is a trade", w.givesAndTakes()
	case search.NoneBetter:
		return keep, []string{"no other setting is likely to be better"}
	case search.Leads:
		return keep, []string{w.mayBeBetter()}
	case search.Alone:
		return keep, []string{"there is nothing to compare it with"}
	case search.Fails:
		return undecided, []string{"the program failed with its current setting"}
	case search.Invalid:
		return undecided, []string{"too many runs of the current setting say nothing"}
	case search.NothingYet, search.NotDone:
		if w.late && w.Leader != w.Current {
			return undecided, w.soFar()
		}
		if w.lost() {
			return undecided, w.disturbed()[:1]
		}
		if w.late {
			return undecided, []string{"the budget of " + quantity.Lasting(w.budget) + " is used up"}
		}
		if w.failed {
			return undecided, []string{"it ended after " + quantity.Plural(w.Runs, "run")}
		}
		return undecided, []string{"interrupted after " + quantity.Plural(w.Runs, "run")}
	case search.TailUnknown:
		return undecided, []string{"the " + w.tail + " of requests is not known"}
	default:
		return undecided, []string{"that " + w.plan.Setting(w.Leader) + " is better is not shown"}
	}
}

// lost reports whether the budget went to runs that others disturbed.
func (w tuneWords) lost() bool {
	lost := w.Disturbed + w.again
	return w.late && lost > 0 && 2*lost >= w.Runs+w.again
}

// own is the setting that the program has. It is not the one that others are compared with where the program does not run with it.
func (w tuneWords) own() search.Candidate {
	if len(w.Fallen) > 0 {
		return w.Fallen[0].Candidate
	}
	return w.Current
}

// dies says that the program does not run with its own setting, in few words; "": it does.
func (w tuneWords) dies() string {
	switch {
	case len(w.Fallen) == 0:
		return ""
	case w.batch():
		return "the program fails with the current " + w.plan.Short(w.own())
	}
	return "the current " + w.plan.Short(w.own()) + " does not survive this load"
}

// fallen says the same in full; "": it runs with its own setting, or with none.
func (w tuneWords) fallen() string {
	if len(w.Fallen) == 0 || w.Reason == search.Fails {
		return ""
	}
	var parts []string
	for i, f := range w.Fallen {
		does := "does not survive this load"
		if w.batch() {
			does = "fails"
		}
		text := fmt.Sprintf("the current setting, %s, %s: %s", w.plan.Setting(f.Candidate), does, f.Failure)
		if i > 0 {
			text = fmt.Sprintf("nor does %s: %s", w.plan.Setting(f.Candidate), f.Failure)
		}
		parts = append(parts, text)
	}
	return capital(strings.Join(parts, "; ")) + "."
}

// inPlace says what the others are compared with if that is not the current setting; "": it is, or there are no others.
func (w tuneWords) inPlace() string {
	switch {
	case len(w.Fallen) == 0 || w.Reason == search.Fails:
		return ""
	case w.Others == 0:
		return w.plan.Setting(w.Current) + " does."
	}
	return "Of those that do, " + w.plan.Setting(w.Current) + " is what the others are compared with."
}

// failedEarly says that the program failed with its own setting before the runs, if these have not shown what to do; "": it did not.
func (w tuneWords) failedEarly() string {
	if w.standIn == 0 || len(w.Fallen) > 0 || w.Kind != search.Undecided {
		return ""
	}
	return "With " + w.plan.Setting(w.Current) + ", its current setting, the program failed while its load was being found."
}

// kind is what to do. What the program runs with is a change from what it does not run with, regardless of what else is open.
func (w tuneWords) kind() string {
	if w.Stands {
		return string(search.Change)
	}
	return string(w.Kind)
}

// base is what the others are compared with, in a sentence.
func (w tuneWords) base() string {
	if len(w.Fallen) > 0 {
		return w.plan.Setting(w.Current)
	}
	return "the current setting"
}

// environment is what the leader needs.
func (w tuneWords) environment() variables {
	return environment(w.Leader.Procs, w.Leader.GOGC, w.limit, w.own().Procs, w.plan.Varied(w.Leader.Vary), w.plan.Varied(0))
}

// gains are what a change does, in few words, what it is advised for first.
func (w tuneWords) gains() (parts []string) {
	worse := slices.ContainsFunc(w.Effects, func(e search.Effect) bool { return e.Says == search.IsWorse }) // and there must be room for it
	switch {
	case w.Basis != search.SLO:
	case w.plan.SLO == "" && worse:
		parts = append(parts, "fewer requests fail")
	case w.plan.SLO == "":
		parts = append(parts, fmt.Sprintf("%s of requests fail, not %s", quantity.Share(w.Errors[1]), quantity.Share(w.Errors[0])))
	case worse:
		parts = append(parts, "the SLO held")
	default:
		parts = append(parts, fmt.Sprintf("the SLO held in %d of %s", w.Held[1], quantity.Plural(w.HeldOf, "run")))
	}
	for i, m := range append([]search.Metric{w.Basis}, w.Chain...) {
		switch e := w.Effect(m); {
		case e == nil, i > 0 && m == w.Basis:
		case e.Says == search.NotWorse && !w.worsened(*e):
			parts = append(parts, w.brief(m)+" "+noWorse(*e))
		default:
			parts = append(parts, w.brief(m)+" "+quantity.Change(e.Ratio))
		}
	}
	return parts
}

// noWorse is how much worse a metric can be that is shown to be hardly any worse.
func noWorse(e search.Effect) string {
	least, most := quantity.Change(e.Lo), quantity.Change(e.Hi)
	switch {
	case e.Hi <= 0:
		return "no worse"
	case e.Metric != search.Throughput && strings.HasPrefix(most, "+"):
		return "at most " + most
	case e.Metric == search.Throughput && strings.HasPrefix(least, "−"):
		return "at least " + least
	case e.Metric == search.Throughput:
		return "no lower"
	}
	return "no higher"
}

// givesAndTakes is what a trade does, in few words.
func (w tuneWords) givesAndTakes() (parts []string) {
	gain, loss := w.Effect(w.Basis), w.Effect(w.WorseIn)
	if gain == nil || loss == nil {
		return nil
	}
	return append(parts, w.brief(w.Basis)+" "+quantity.Change(gain.Ratio), w.brief(w.WorseIn)+" "+quantity.Change(loss.Ratio))
}

// notSettled is what is known of a leader, and what is not, in few words.
func (w tuneWords) notSettled() (parts []string) {
	known, open := "with "+w.environment().and(), w.brief(w.WorseIn)+" not settled"
	if gain := w.Effect(w.Basis); gain != nil {
		known += " " + w.brief(w.Basis) + " " + quantity.Change(gain.Ratio) + ","
	}
	if loss := w.Effect(w.WorseIn); loss != nil && loss.Hi > 0 && !w.Contradicted {
		if text := known + " " + w.brief(w.WorseIn) + " " + quantity.Changes(loss.Lo, loss.Hi); fits("Undecided: " + text) {
			return []string{text}
		}
	}
	return []string{known + " " + open}
}

// soFar is what looks best when there is no time for more.
func (w tuneWords) soFar() []string {
	var parts []string
	for _, m := range w.Chain {
		if e := w.Effect(m); e != nil {
			parts = append(parts, w.brief(m)+" "+quantity.Change(e.Ratio))
		}
	}
	text := w.environment().and() + " " + strings.Join(parts, ", ") + " so far"
	if fits("Undecided: with " + text) {
		text = "with " + text
	}
	return []string{text}
}

// disturbed says in how many runs something else ran, and what is known all the same.
func (w tuneWords) disturbed() (parts []string) {
	who := "the hypervisor took CPU time"
	if w.beside > 0 {
		who = fmt.Sprintf("others used %s of %s", quantity.Number(math.Round(10*w.beside)/10), quantity.Plural(w.cpus, "CPU"))
	}
	unit := "run"
	if w.again > 0 { // those that were lost are not runs of the table
		unit = "attempt"
	}
	parts = []string{fmt.Sprintf("%s in %d of %s", who, w.Disturbed+w.again, quantity.Plural(w.Runs+w.again, unit))}
	if cpu := w.Effect(search.CPU); cpu != nil && cpu.Says == search.IsBetter {
		parts = append(parts, "CPU with "+w.plan.Short(w.Leader)+" "+quantity.Change(cpu.Ratio))
	}
	return parts
}

// drowned says by how much runs of one setting differ, and what is known all the same.
func (w tuneWords) drowned() (parts []string) {
	parts = []string{fmt.Sprintf("%s differs by ±%s from run to run", w.brief(w.Drowned), quantity.WholeShare(math.Expm1(w.Noise.SD)))}
	if gain := w.Effect(w.Basis); gain != nil {
		parts = append(parts, w.brief(w.Basis)+" with "+w.plan.Short(w.Leader)+" "+quantity.Change(gain.Ratio))
	}
	return parts
}

// unitOfWork is what another generator's load does.
const unitOfWork = "unit of work"

// brief is the name of a metric, without what it is of.
func (w tuneWords) brief(m search.Metric) string {
	switch m {
	case search.CPU:
		return "CPU"
	case search.Time:
		return "time"
	}
	return w.name(m)
}

// details are the figures that the headline rests on; "" without any.
func (w tuneWords) details() string {
	text := w.claim()
	if w.NoneOK && !strings.HasPrefix(w.headline(), w.noneOK()) {
		text = w.noneOK() + " " + text
	}
	if !w.NoneOK && w.Kind != search.Change && w.Broke > w.BrokeOf/2 {
		broke := w.plan.Setting(w.Current) + " broke the SLO"
		if w.plan.SLO == "" {
			broke = "with " + w.plan.Setting(w.Current) + " " + failsMore
		}
		if text == "" {
			broke = capital(broke)
		}
		text = sentence(text, fmt.Sprintf("%s in %d of %d runs%s.", broke, w.Broke, w.BrokeOf, w.atRate(", ")))
	}
	return strings.TrimSpace(text)
}

// sentence makes one of parts that end with a full stop; "" without any.
func sentence(parts ...string) string {
	said := slices.DeleteFunc(parts, func(text string) bool { return text == "" })
	for i := range said[:max(0, len(said)-1)] {
		said[i] = strings.TrimSuffix(said[i], ".")
	}
	return strings.Join(said, "; ")
}

func (w tuneWords) claim() string {
	switch w.Reason {
	case search.Better:
		return w.effects()
	case search.Worsens:
		return fmt.Sprintf("With %s: %s", w.environment().and(), w.trade())
	case search.MayWorsen, search.Disturbed, search.TooNoisy:
		if w.Leader == w.Current {
			return ""
		}
		return fmt.Sprintf("With %s: %s", w.environment().and(), w.effects())
	case search.NoneBetter, search.Leads:
		if w.Others == 0 {
			return ""
		}
		if w.Reason == search.Leads {
			return fmt.Sprintf("%s is shown to be better by a relevant amount (%s).", w.noOther(), w.counts())
		}
		return fmt.Sprintf("%s is likely to be better by a relevant amount (%s).", w.noOther(), w.counts())
	case search.Fails:
		return fmt.Sprintf("With %s: %s. There is nothing to compare the others with.", w.plan.Setting(w.Current), w.Failure)
	case search.Invalid:
		return fmt.Sprintf("%s of %s are not valid.", quantity.Count(w.Invalid), quantity.Plural(w.Runs, "run"))
	case search.NothingYet:
		if w.lost() {
			return "The budget of " + quantity.Lasting(w.budget) + " is used up."
		}
		return ""
	case search.Alone:
		return ""
	default:
		return w.looks()
	}
}

// outOfMemory says which settings take more memory than there is, where the current one does not; "": none, or it does too.
func (w tuneWords) outOfMemory() string {
	var names []string
	for _, k := range w.killed {
		names = append(names, w.plan.Setting(k.Candidate))
	}
	if len(names) == 0 {
		return ""
	}
	are := "is out: it was"
	if len(names) > 1 {
		are = "are out: they were"
	}
	return fmt.Sprintf("%s %s killed where %s was not (%s).", quantity.List(names), are, w.plan.Setting(w.Current), w.killed[0].Dropped.Failure)
}

// looks says what looks better, without claiming it.
func (w tuneWords) looks() string {
	after := "After " + quantity.Plural(w.Runs, "run") + " "
	if w.Leader == w.Current {
		text := fmt.Sprintf("no setting looks better than %s so far.", w.plan.Setting(w.Current))
		if w.late {
			return after + text
		}
		return capital(text)
	}
	text := fmt.Sprintf("%s looks best, but the evidence is not sufficient: %s", w.plan.Setting(w.Leader), w.effects())
	if w.late {
		return after + fmt.Sprintf("the budget of %s is used up; ", quantity.Lasting(w.budget)) + text
	}
	return text
}

// noOther is the subject of what is not better.
func (w tuneWords) noOther() string {
	if w.Others > 1 {
		return fmt.Sprintf("None of the %d other settings", w.Others)
	}
	return "No other setting"
}

// counts says from which difference on a setting is better.
func (w tuneWords) counts() string {
	var parts []string
	for _, m := range slices.Backward(w.Chain) {
		margin := w.Margin
		if m == search.P99 {
			margin = w.TailMargin
		}
		parts = append(parts, fmt.Sprintf("%s by %s", w.name(m), quantity.Share(margin)))
	}
	return strings.Join(parts, ", ")
}

// mayBeBetter says how much better another setting could still be.
func (w tuneWords) mayBeBetter() string {
	better := "lower"
	if w.RivalIn == search.Throughput {
		better = "higher"
	}
	return fmt.Sprintf("with %s %s could still be %s %s", w.plan.Short(w.Rival), w.brief(w.RivalIn), bound(w.Better), better)
}

// effects says what the leader does to each metric, the one that it is better in first.
func (w tuneWords) effects() string {
	var parts []string
	add := func(m search.Metric) {
		if e := w.Effect(m); e != nil {
			parts = append(parts, w.effect(*e, len(parts) == 0))
		}
	}
	reliability := w.reliability()
	if w.Basis == search.SLO && len(reliability) > 0 {
		reliability[0] = capital(reliability[0])
		parts, reliability = reliability, nil
	}
	add(w.Basis)
	for _, m := range w.Chain {
		if m != w.Basis {
			add(m)
		}
	}
	parts = append(parts, reliability...)
	if e := w.Effect(search.Throttled); e != nil && math.Abs(e.From-e.To) > 0.01 {
		parts = append(parts, fmt.Sprintf("throttled periods %s → %s", quantity.WholeShare(e.From), quantity.WholeShare(e.To)))
	}
	return joined(append(parts, w.peak())...) + "."
}

// peak is what a setting costs in memory, and how long a GOGC is worth that under a limit; "" where it is not known, or where that is
// little and nothing that it is bought with.
func (w tuneWords) peak() string {
	const tenth, little = 0.1, 4 << 20
	was, is := w.peaks[0], w.peaks[1]
	buys := w.Leader.GOGC != 0 || w.plan.Floor && w.Leader.Vary != 0
	if was == 0 || is == 0 || !buys && math.Abs(is-was) < max(little, tenth*was) {
		return ""
	}
	text := fmt.Sprintf("memory at its peak %s → %s", quantity.Bytes(int64(was)), quantity.Bytes(int64(is)))
	if w.memory > 0 {
		text += " of " + quantity.Bytes(w.memory)
	}
	if alive, most := w.alive[0], w.alive[1]; w.Leader.GOGC != 0 && alive > 0 && most > alive {
		text += fmt.Sprintf(", with room for GOGC=%d while less than %s is alive (it was %s)", w.Leader.GOGC, quantity.Bytes(most), quantity.Bytes(alive))
	}
	return text
}

// worsened reports whether the leader is worse in a metric, though by no more than is allowed.
func (w tuneWords) worsened(e search.Effect) bool {
	within := e.Says == search.NotWorse || e.Says == search.IsWorse && w.Kind == search.Change && w.Basis != search.SLO
	return within && (e.Metric != search.Throughput && e.Lo > 1 || e.Metric == search.Throughput && e.Hi > 0 && e.Hi < 1)
}

// effect reports one of them, in full if it is the first.
func (w tuneWords) effect(e search.Effect, first bool) string {
	name, interval := w.name(e.Metric), ""
	if first {
		name = w.title(e.Metric)
	}
	if e.Hi > 0 {
		interval = quantity.Changes(e.Lo, e.Hi)
	}
	from, to, fit := w.fromTo(e)
	switch {
	case w.worsened(e):
		return fmt.Sprintf("%s %s, within the %s that are allowed", name, withInterval(quantity.Change(e.Ratio), interval), quantity.WholeShare(w.Allowed(e.Metric)))
	case e.Says == search.NotWorse && e.Metric == search.P99:
		return fmt.Sprintf("%s is not worse (%s)", name, joined(quantity.Change(e.Ratio), interval))
	case e.Says != search.IsBetter && e.Says != search.IsWorse, !fit:
		return fmt.Sprintf("%s %s", name, withInterval(quantity.Change(e.Ratio), interval))
	case first && interval != "":
		return fmt.Sprintf("%s %s from %s to %s (%s, 95 %% interval %s)", name, verb(e), from, to, quantity.Change(e.Ratio), interval)
	}
	return fmt.Sprintf("%s from %s to %s (%s)", name, from, to, joined(quantity.Change(e.Ratio), interval))
}

// fromTo are the figures before and after, and whether as they are written they give the change that is written next to them.
func (w tuneWords) fromTo(e search.Effect) (from, to string, fits bool) {
	from, to = w.value(e.Metric, e.From), w.value(e.Metric, e.To)
	written := func(v float64) float64 {
		if e.Metric == search.Throughput && v >= 1000 {
			return math.Round(v)
		}
		return quantity.Significant(v, 3)
	}
	return from, to, fit(written(e.From), written(e.To), e.Ratio)
}

func (w tuneWords) value(m search.Metric, v float64) string {
	if m == search.Throughput {
		return quantity.PerSecond(v)
	}
	return quantity.Brief(v)
}

// withInterval is such as: +2 % (−1 to +5 %).
func withInterval(text, interval string) string {
	if interval == "" {
		return text
	}
	return text + " (" + interval + ")"
}

func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), ", ")
}

// verb is what a figure did.
func verb(e search.Effect) string {
	if e.Ratio > 1 {
		return "rose"
	}
	return "fell"
}

// trade says what a trade gives, and what it takes.
func (w tuneWords) trade() string {
	gain, loss := w.Effect(w.Basis), w.Effect(w.WorseIn)
	text := w.name(w.Basis)
	if gain != nil {
		text = w.moved(*gain).text()
	}
	reliability := w.reliability()
	switch {
	case loss == nil && len(reliability) > 0:
		return text + ", but " + strings.Join(reliability, ", ") + "."
	case loss == nil:
		return text + ", but " + w.name(w.WorseIn) + " is not known."
	}
	text += ", " + w.moved(*loss).loss(true)
	return joined(append(append([]string{text}, reliability...), w.peak())...) + "."
}

// moved is an effect in the words that bench has as well.
func (w tuneWords) moved(e search.Effect) moved {
	m := moved{name: w.name(e.Metric), ratio: e.Ratio, lo: e.Lo, hi: e.Hi}
	if from, to, fit := w.fromTo(e); fit {
		m.values = from + " → " + to
	}
	return m
}

// reliability reports on the SLO and on errors where any run missed it, or any request failed.
func (w tuneWords) reliability() (parts []string) {
	if w.Pairs == 0 {
		return nil
	}
	if w.plan.SLO != "" && (w.Held[0] < w.HeldOf || w.Held[1] < w.HeldOf) {
		parts = append(parts, fmt.Sprintf("it held the SLO in %d of %d runs, %s in %d", w.Held[1], w.HeldOf, w.base(), w.Held[0]))
	}
	if w.Errors[0] > 0 || w.Errors[1] > 0 {
		parts = append(parts, fmt.Sprintf("%s of its requests failed, with %s %s", quantity.Share(w.Errors[1]), w.base(), quantity.Share(w.Errors[0])))
	}
	return parts
}

// next says what to type, or what would decide it; "" if nothing.
func (w tuneWords) next() string {
	switch w.Reason {
	case search.Disturbed:
		return "Run it again while the machine is quiet; --objective cpu decides by CPU time alone."
	case search.TooNoisy:
		return w.steadier()
	case search.Worsens:
		if w.WorseIn == search.SLO { // no objective takes what is less reliable
			return fmt.Sprintf("No --objective advises it; to take it all the same: %s.", w.environment().and())
		}
		return fmt.Sprintf("To take the trade: --objective %s.", w.Basis)
	case search.Better:
		text := ""
		switch {
		case w.Leader.Procs != w.GoDefault || w.Leader.Procs == w.own().Procs:
		case w.Leader.GOGC == 0:
			text = "That is Go's default, so it is enough not to set another."
		default:
			text = fmt.Sprintf("GOMAXPROCS=%d is Go's default, so it is enough not to set another.", w.Leader.Procs)
		}
		return sentence(text, w.levers())
	case search.TailUnknown:
		return "--objective cpu decides by CPU time alone."
	}
	return w.moreRuns()
}

// steadier is what would help where runs differ too much.
func (w tuneWords) steadier() string {
	var ways []string
	if w.load.Rate > 0 && w.plan.Times == "" {
		ways = append(ways, fmt.Sprintf("a lower --rate than %s", short(w.load.Rate)))
	}
	switch {
	case w.unit == unitOfWork:
		ways = append(ways, "a load that lasts longer")
	case w.load.Window > 0:
		ways = append(ways, fmt.Sprintf("a longer --for than %s", quantity.Lasting(w.load.Window.Seconds())))
	}
	var help, alone string
	if len(ways) > 0 {
		help = capital(quantity.Either(ways)) + " may make it steadier."
	}
	if w.Drowned != search.CPU {
		alone = "--objective cpu decides by CPU time alone."
	}
	return sentence(help, alone, w.moreRuns())
}

// moreRuns is how many more runs would decide it, and how to ask for them; "" if that is not known.
func (w tuneWords) moreRuns() string {
	if w.More == 0 {
		return ""
	}
	return fmt.Sprintf("About %s more would tell, in %s: %s.", quantity.Plural(w.More, "run"), quantity.Lasting(w.moreSeconds()), w.ask())
}

// moreSeconds is how long it would take to know; 0: nothing is missing, or nothing would decide it.
func (w tuneWords) moreSeconds() float64 { return math.Ceil(float64(w.More) * w.perRun) }

// ask is what to type for more runs.
func (w tuneWords) ask() string {
	if w.budget > 0 && !w.Done {
		return fmt.Sprintf("--budget %ds", int(math.Ceil(w.spent+w.moreSeconds())))
	}
	return fmt.Sprintf("--blocks %d", w.Blocks+(w.More+1)/2)
}

// levers say what each of two levers does alone; "" if there is nothing to report.
func (w tuneWords) levers() string {
	var parts []string
	for i, l := range w.Levers {
		what := environment(l.Procs, l.GOGC, "", w.own().Procs, w.plan.Varied(l.Vary), w.plan.Varied(0)).and()
		if i == 0 {
			parts = append(parts, fmt.Sprintf("%s alone: %s %s", what, w.name(l.Metric), quantity.Change(l.Ratio)))
		} else {
			parts = append(parts, fmt.Sprintf("%s alone: %s", what, quantity.Change(l.Ratio)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + "."
}

// dropped says why a candidate was dropped; "" if it didn't.
func (w tuneWords) dropped(d *search.Drop) string {
	switch {
	case d == nil:
		return ""
	case d.Reason == search.BreaksSLO && w.plan.SLO == "":
		return fmt.Sprintf("%s in all blocks, and fewer with %s", failsMore, w.plan.Short(d.Against))
	case d.Reason == search.BreaksSLO:
		return fmt.Sprintf("broke the SLO in all blocks in which %s held it", w.plan.Short(d.Against))
	case d.Reason == search.ProgramFails:
		return "the program failed: " + d.Failure
	case d.Reason == search.NoValidRun:
		return fmt.Sprintf("no valid run in %d blocks", d.Blocks)
	case d.Reason == search.TooFull:
		return fmt.Sprintf("too near to the memory limit: %s of it at the peak", quantity.WholeShare(d.Ratio))
	case d.Reason == search.Collects:
		return fmt.Sprintf("collections take %s more of the CPU time than with %s", strings.TrimPrefix(quantity.Points(d.Ratio), "+"), w.plan.Short(d.Against))
	case d.Reason == search.IsTrade:
		if d.Metric == search.SLO {
			return "a trade: it fails more requests"
		}
		return fmt.Sprintf("a trade: %s %s in %d blocks", w.name(d.Metric), quantity.Change(d.Ratio), d.Blocks)
	}
	return fmt.Sprintf("no longer likely to be better than %s by a relevant amount: %s %s in %d blocks", w.plan.Short(d.Against), w.name(d.Metric), quantity.Change(d.Ratio), d.Blocks)
}

// name is that of a metric within a sentence.
func (w tuneWords) name(m search.Metric) string {
	switch m {
	case search.P99, search.Pooled:
		return w.tail
	case search.CPU:
		return "CPU per " + w.unit
	case search.Auto:
		return "every figure"
	case search.SLO:
		if w.plan.SLO == "" {
			return "reliability"
		}
		return "the SLO"
	case search.Time:
		if w.unit == unitOfWork {
			return "time per " + w.unit
		}
		return string(m)
	default:
		return string(m)
	}
}

// title is its name at the beginning of a sentence.
func (w tuneWords) title(m search.Metric) string {
	if m == search.P99 { // p99 stays unchanged
		return w.tail
	}
	return capital(w.name(m))
}

func (w tuneWords) batch() bool { return w.unit != "request" }

// atRate writes at this rate after a separator, where there is one: a batch job or a benchmark has no rate that could be set.
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
		if i > 0 && l.key() != sorted[i-1].key() {
			sentences = append(sentences, fmt.Sprintf("From %s of the limit on it is %s, below %s.", quantity.WholeShare(l.Share), l.key().and(), sorted[i-1].key().and()))
		}
	}
	return sentences
}

// whyGC says how much of a difference in CPU goes with garbage collection.
func whyGC(s *tune.Study, v search.TuneVerdict) (sentences []string) {
	p := s.Pilot
	if p.GC == nil {
		return nil
	}
	const trap = "a small heap that is collected so often costs more the more Ps there are, because the sweeper spins (unthrottle help heap-floor)"
	current, leader := collected(s, 0, v.Current), collected(s, 0, v.Leader)
	tell := func(g *tune.GC, c search.Candidate) string {
		share := ""
		if g.CPUShare > 0 {
			share = ", and " + quantity.Share(g.CPUShare) + " of the CPU time,"
		}
		return fmt.Sprintf("%s a second of a heap of %d MB%s with %s", quantity.Plural(int(math.Round(g.PerSecond)), "collection"), max(1, g.Live>>20), share, s.Plan.Setting(c))
	}
	const worthTelling = 5 // collections a second
	switch {
	case current != nil && leader != nil && v.Leader != v.Current && max(current.PerSecond, leader.PerSecond) >= worthTelling:
		sentences = append(sentences, fmt.Sprintf("Garbage collection: %s; %s.", tell(current, v.Current), tell(leader, v.Leader)))
	case current != nil && len(p.Levers) > 0:
		sentences = append(sentences, fmt.Sprintf("Garbage collection: %s.", tell(current, v.Current)))
	}
	if len(p.Levers) > 0 && len(s.Plan.GOGC) == 0 && len(sentences) > 0 { // else the user wanted it
		tried := "should be tried as well"
		if slices.ContainsFunc(s.Runs, func(r tune.Run) bool { return r.Search.GOGC != 0 }) {
			tried = "was tried as well"
		}
		sentences = append(sentences, fmt.Sprintf("%s; so GOGC=%d %s.", capital(trap), p.Levers[0], tried))
	}
	return sentences
}

// contradiction is said where the percentile speaks for the leader, and that of whole windows against it; "" if it doesn't.
func (w tuneWords) contradiction() string {
	if !w.Contradicted {
		return ""
	}
	return fmt.Sprintf("The %s of whole windows speaks against %s (%s): it has rare, long delays that typical seconds don't have.",
		w.tail, w.environment().and(), quantity.Change(w.Effect(search.Pooled).Ratio))
}

// bound writes a share as a bound: rounded up, so that it isn't said to be tighter than it is.
func bound(share float64) string {
	return strconv.FormatFloat(max(0, math.Ceil(100*share-1e-9)), 'f', 0, 64) + " %"
}
