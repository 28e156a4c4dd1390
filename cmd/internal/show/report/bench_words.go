package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

// benchWords make the sentences on a group: what to do in a dozen words, and below that what it rests on.
type benchWords struct {
	plan lab.Plan
	*BenchGroup
	claim lab.Claim
}

// advice is what to do, in a sentence that may follow the group's name.
func (w benchWords) advice() string {
	base := w.name(w.Settings[0])
	switch {
	case w.Claim == lab.Failed:
		return base + " gave no figures: see the runs' errors."
	case w.Claim == lab.Alone:
		return "there is only one setting, and nothing to compare it with."
	case w.Claim == lab.TooFew:
		return "too few blocks to tell: " + quantity.Plural(w.missing(), "more block") + " would do."
	case w.plan.Compare == lab.ByBuild:
		return w.builds()
	case w.plan.Compare != lab.ByProcs: // a limit or a Go version is chosen for other reasons as well
		return w.beside()
	case w.Claim == lab.Set:
		return w.set() + ": " + w.gives() + "."
	case w.Claim == lab.Trade:
		return w.givesAndTakes() + "."
	case w.Claim == lab.Undecided:
		return fmt.Sprintf("keep %s for now: %s is unproven.", base, w.name(w.best()))
	}
	return "keep " + base + "."
}

// also says what the advice rests on, with the statistics.
func (w benchWords) also() []string {
	if slices.Contains([]lab.ClaimKind{lab.Failed, lab.Alone, lab.TooFew}, w.Claim) {
		return nil
	}
	if w.plan.Compare == lab.ByBuild {
		return w.alsoBuilds()
	}
	base, statistics := w.name(w.Settings[0]), fmt.Sprintf("; 95 %% intervals, %s.", w.pairs())
	if w.Cost == nil && (w.claim.Row > 0 && w.plan.Compare == lab.ByProcs || len(w.Settings) == 2) {
		statistics = fmt.Sprintf("; 95 %% interval, %s.", w.pairs())
	}
	switch {
	case w.plan.Compare != lab.ByProcs:
		return []string{capital(w.each("; ", w.measured)) + statistics}
	case w.Claim == lab.Keep && w.Cost == nil:
		return []string{capital(w.others()) + statistics}
	case w.Claim == lab.Keep:
		return []string{"Compared with it, " + w.each("; ", w.measured) + statistics}
	case w.Claim == lab.Trade:
		return []string{w.title(w.trade()) + statistics, fmt.Sprintf("Keep %s unless that is worth it to you.", base)}
	}
	best := w.best()
	text := fmt.Sprintf("%s compared with %s%s", w.title(w.changes(best)), base, statistics)
	if more := w.more(best); w.Claim == lab.Undecided && more > 0 {
		text += " About " + quantity.Plural(more, "more block") + " would settle it."
	}
	return []string{text}
}

// best is the setting that is talked about.
func (w benchWords) best() BenchRow { return w.Settings[w.claim.Row] }

// pairs are those of the setting that is talked about, or of all.
func (w benchWords) pairs() string {
	n := 0
	for i, s := range w.Settings {
		if s.Versus != nil && (i == w.claim.Row || w.claim.Row == 0) {
			n = max(n, s.Versus.Pairs)
		}
	}
	return quantity.Plural(n, "pair")
}

// more is about how many more blocks would settle what is known of a setting.
func (w benchWords) more(r BenchRow) int {
	if r.CostVersus != nil {
		return max(r.Versus.More, r.CostVersus.More)
	}
	return r.Versus.More
}

func (w benchWords) set() string {
	if best := w.best(); w.plan.Settings[best.Setting].Procs != 0 {
		return "set " + w.name(best)
	}
	return "leave GOMAXPROCS alone"
}

// gives says what the best setting gives.
func (w benchWords) gives() string {
	best := w.best()
	if w.Cost == nil {
		return change(best.Versus.Ratio) + " " + cmp.Or(w.Figure.About, w.Figure.Unit)
	}
	gain, other, name := best.Versus, best.CostVersus, []string{MetricName(w.Figure), MetricName(*w.Cost)}
	if w.claim.Gain == lab.InCost {
		gain, other = other, gain
		slices.Reverse(name)
	}
	text := name[0] + " " + gain.Change + ", " + name[1]
	if other.Better() {
		return text + " " + other.Change
	}
	return text + " not worse"
}

// trade says what it gives and takes, as tune does.
func (w benchWords) trade() string {
	best := w.best()
	gain, loss := w.moved(best, w.claim.Gain), w.claim.Loss
	if loss == lab.InErrors {
		base := w.Settings[0]
		return fmt.Sprintf("%s, but %s of its requests failed, with %s %s", gain.text(), failed(best), w.name(base), failed(base))
	}
	return gain.text() + ", " + w.moved(best, loss).loss(w.claim.Shown)
}

// givesAndTakes says it in few words.
func (w benchWords) givesAndTakes() string {
	best, loss := w.best(), w.claim.Loss
	gain := w.moved(best, w.claim.Gain).brief()
	var takes string
	switch {
	case loss == lab.InErrors:
		takes = "but " + failed(best) + " fail"
	case w.claim.Shown:
		takes = w.moved(best, loss).brief()
	default:
		takes = w.moved(best, loss).name + " perhaps worse"
	}
	text := w.name(best) + " is a trade: " + gain + ", " + takes
	short := strings.ReplaceAll(text, cpuPerRequest, "CPU")
	return firstFitting(text, short, strings.Replace(short, w.name(best), "the default", 1))
}

// beside says how the others compare with the base: their figures, else which of them is better and which is worse, else how many are.
func (w benchWords) beside() string {
	of := map[string][]string{}
	var words []string // in the order of the settings
	for _, s := range w.Settings[1:] {
		if s.Versus == nil {
			continue
		}
		word := w.word(s)
		if of[word] == nil {
			words = append(words, word)
		}
		of[word] = append(of[word], w.short(s))
	}
	var named, counted []string
	for _, word := range words {
		named = append(named, quantity.List(of[word])+" "+word)
		are := " are "
		if len(of[word]) == 1 {
			are = " is "
		}
		counted = append(counted, quantity.Count(len(of[word]))+are+word)
	}
	base := "beside " + w.short(w.Settings[0])
	return firstFitting(
		base+", "+w.each("; ", w.found),
		base+": "+strings.Join(named, ", "),
		fitting(base, counted),
	) + "."
}

// short is the name of a setting among others of its kind.
func (w benchWords) short(s BenchRow) string { return strings.TrimPrefix(w.name(s), "a limit of ") }

// word says how a setting compares with the base.
func (w benchWords) word(r BenchRow) string {
	word := r.Versus.brief()
	if r.CostVersus == nil {
		return word
	}
	cost := r.CostVersus.brief()
	switch {
	case word == cost || cost == alike:
		return word
	case word == alike:
		return cost
	case word == unsure || cost == unsure:
		return unsure
	}
	return "mixed"
}

// The words for how a setting compares with the base where it is neither better nor worse.
const (
	alike  = "alike"
	unsure = "unsure"
)

// brief is what is said of a comparison, in a word.
func (c *BenchComparison) brief() string {
	switch {
	case c == nil:
		return unsure
	case c.Better(), c.Worse():
		return string(c.Verdict)
	case c.Verdict == sample.VerdictSame:
		return alike
	}
	return unsure
}

// cpuPerRequest is the longest name of a metric.
const cpuPerRequest = "CPU per request"

// failed is the share of a setting's requests that failed.
func failed(r BenchRow) string { return quantity.Share(r.Metrics[string(lab.ErrorShare)].Mean / 100) }

// moved is what a setting does to the figure or to the cost.
func (w benchWords) moved(r BenchRow, side lab.Side) moved {
	c, metric, shown := r.Versus, w.Figure, w.Figure.Unit
	if side == lab.InCost {
		c, metric, shown = r.CostVersus, *w.Cost, w.Cost.Unit
	} else if shown == string(lab.ReadyTail) { // users know that of whole windows
		shown = string(lab.P99)
	}
	m := moved{name: MetricName(metric), ratio: c.Ratio, lo: c.Low, hi: c.High}
	from, to := w.Settings[0].Metrics[shown], r.Metrics[shown]
	if from.N > 0 && to.N > 0 && fit(quantity.Significant(from.Median, 3), quantity.Significant(to.Median, 3), c.Ratio) {
		unit := quantity.UnitOf(shown)
		m.values = unit.Text(from.Median) + " → " + unit.Text(to.Median)
	}
	return m
}

// changes are those of all that a setting is compared by, with their intervals.
func (w benchWords) changes(r BenchRow) string {
	if w.Cost == nil {
		return w.moved(r, lab.InFigure).text()
	}
	figure := w.moved(r, lab.InFigure).text()
	if whole := r.WholeVersus; whole != nil && r.Versus.Better() && whole.Low > 1 {
		figure += ", but " + whole.Change + " in whole windows"
	}
	return figure + ", " + w.moved(r, lab.InCost).text()
}

// title begins a sentence. A percentile stays unchanged.
func (w benchWords) title(text string) string {
	if w.Cost != nil {
		return text
	}
	return capital(text)
}

// measured reports a setting's changes. A single one needs no name.
func (w benchWords) measured(r BenchRow) string {
	if w.Cost == nil {
		m := w.moved(r, lab.InFigure)
		m.name = r.Name + ":"
		return m.text()
	}
	return r.Name + ": " + w.changes(r)
}

// found reports them in few words, with what may be said of each.
func (w benchWords) found(r BenchRow) string {
	if r.CostVersus == nil {
		return fmt.Sprintf("%s: %s (%s)", w.short(r), r.Versus.Change, r.Versus.Word())
	}
	return fmt.Sprintf("%s: %s %s (%s), %s %s (%s)", w.short(r),
		MetricName(w.Figure), r.Versus.Change, r.Versus.Word(), MetricName(*w.Cost), r.CostVersus.Change, r.CostVersus.Word())
}

// noOthers replaces a list of other settings if none of them has figures.
const noOthers = "nothing else gave figures"

// each reports all settings but the base.
func (w benchWords) each(by string, tell func(BenchRow) string) string {
	var parts []string
	for _, s := range w.Settings[1:] {
		if s.Versus != nil {
			parts = append(parts, tell(s))
		}
	}
	return cmp.Or(strings.Join(parts, by), noOthers)
}

// others says how the other settings compare, if the base is the one to keep.
func (w benchWords) others() string {
	var same, worse, parts []string
	for _, s := range w.Settings[1:] {
		switch {
		case s.Versus == nil:
		case s.Versus.Worse():
			worse = append(worse, fmt.Sprintf("%s (%s)", s.Name, joined(s.Versus.Change, s.Versus.Interval())))
		default:
			same = append(same, s.Name)
		}
	}
	if len(same) > 0 {
		parts = append(parts, "with "+quantity.List(same)+" there is no worthwhile difference")
	}
	if len(worse) > 0 {
		parts = append(parts, "worse with "+quantity.List(worse))
	}
	return cmp.Or(strings.Join(parts, ", "), noOthers)
}

// missing is how many more blocks it takes to compare all settings.
func (w benchWords) missing() (n int) {
	for _, s := range w.Settings {
		for _, c := range []*BenchComparison{s.Versus, s.CostVersus} {
			if c != nil {
				n = max(n, c.Missing)
			}
		}
	}
	return n
}

// name names a setting in a sentence.
func (w benchWords) name(s BenchRow) string {
	p := w.plan
	switch p.Compare {
	case lab.ByProcs:
		if p.Settings[s.Setting].Procs == 0 {
			if s.GOMAXPROCS > 0 {
				return fmt.Sprintf("the default GOMAXPROCS (%d)", s.GOMAXPROCS)
			}
			return "the default GOMAXPROCS"
		}
		return "GOMAXPROCS=" + s.Name
	case lab.ByCPUs:
		if s.Name == "none" {
			return "no limit"
		}
		return "a limit of " + quantity.CPUs(p.Settings[s.Setting].CPUs)
	case lab.ByBuild:
		return buildName(s.Name)
	}
	return s.Name
}

// change says what a ratio means: "12 % less", "31 % more", "2.4 times the".
func change(ratio float64) string {
	switch {
	case ratio >= 2:
		return strconv.FormatFloat(ratio, 'f', 1, 64) + " times the"
	case ratio >= 1:
		return quantity.RoughShare(ratio-1) + " more"
	}
	return quantity.RoughShare(1-ratio) + " less"
}

// MetricName is what a metric is called in a sentence.
func MetricName(m lab.Metric) string {
	if p := lab.Measure(m.Unit); p.Kind() == lab.ResponseTime {
		return p.Name()
	}
	return cmp.Or(m.About, m.Unit)
}

// Take is what to type to run with a setting; "" for the base, or if it isn't set by the environment.
func (b *Bench) Take(g *BenchGroup, s BenchRow) string {
	procs := b.Plan.Settings[s.Setting].Procs
	if b.Plan.Compare != lab.ByProcs || procs == 0 || s.Setting == g.Settings[0].Setting {
		return ""
	}
	return environment(procs, 0, "", 0, nil, nil).String()
}

// Front are a group's settings that no other beats in both, the cheapest first.
func (g *BenchGroup) Front() (front []BenchRow) {
	for _, s := range g.Settings {
		if s.Front {
			front = append(front, s)
		}
	}
	cost := func(r BenchRow) float64 {
		if g.Cost == nil {
			return 0
		}
		return r.Metrics[g.Cost.Unit].Median
	}
	slices.SortStableFunc(front, func(a, b BenchRow) int { return cmp.Compare(cost(a), cost(b)) })
	return front
}

// ByCost is the group as if its cost were its figure; nil: it has none.
func (g *BenchGroup) ByCost() *BenchGroup {
	if g.Cost == nil {
		return nil
	}
	by := *g
	by.Figure, by.Settings = *g.Cost, slices.Clone(g.Settings)
	for i := range by.Settings {
		by.Settings[i].Versus = by.Settings[i].CostVersus
	}
	return &by
}

// TailNote says what a tail is; "" if settings are not compared by one.
func (g *BenchGroup) TailNote() string {
	if g.Figure.Unit != string(lab.ReadyTail) {
		return ""
	}
	return "Changes of p99 compare the tail of typical seconds, the geometric mean of their p99s, counted from when requests were " +
		"ready to be sent; p99 itself is of whole windows. Intervals are 95 % ones."
}

// RateText is the rate of a server's load, which may change in each window.
func RateText(l *lab.Served) string {
	if l.From > 0 {
		return quantity.PerSecond(l.From) + " to " + quantity.PerSecond(quantity.EndRate(l.Rate, l.From))
	}
	return quantity.PerSecond(l.Rate)
}

// LoadText says how much of the limit a server's load uses with the first setting; "" without a load.
func (b *Bench) LoadText(g *BenchGroup) string {
	l := b.Plan.Served
	if l == nil || l.Foreign() || len(g.Settings) == 0 {
		return ""
	}
	text := "at " + RateText(l)
	if share := b.used(g); share > 0 {
		text += fmt.Sprintf(", where %s uses %s of its limit", benchWords{plan: b.Plan}.name(g.Settings[0]), quantity.WholeShare(share))
	}
	return text
}

// used is the share of its limit's CPU that the first setting uses under a load; 0: not known.
func (b *Bench) used(g *BenchGroup) float64 {
	base := g.Settings[0]
	cpus := b.Plan.Settings[base.Setting].CPUs
	cost, rate := base.Metrics[string(lab.CPUPerRequest)], base.Metrics[string(lab.RequestRate)]
	if cpus <= 0 || cost.N == 0 {
		return 0
	}
	return cost.Median / 1e9 * rate.Median / cpus
}

// LoadMarks are a run's marks which say that its load was not the one that was asked for.
func LoadMarks(r lab.Run) []string {
	return slices.DeleteFunc(slices.Clone(r.Marks), func(mark string) bool { return !strings.HasPrefix(mark, lab.MarkLoad) })
}

// HostMarks are the others: what the host did at the same time.
func HostMarks(r lab.Run) []string {
	return slices.DeleteFunc(slices.Clone(r.Marks), func(mark string) bool { return strings.HasPrefix(mark, lab.MarkLoad) })
}

// warn adds what the reader should know.
func (b *Bench) warn(s *lab.Study, a lab.Analysis) {
	add := func(format string, args ...any) { b.Warnings = append(b.Warnings, fmt.Sprintf(format, args...)) }
	if s.Environment.LimitKind == "emulated" {
		text := "the limit is emulated, not the kernel's own: the program is stopped and continued by signals"
		if notes := s.Environment.Notes; len(notes) > 0 {
			text += " (" + strings.Join(notes, "; ") + ")"
		}
		if s.Plan.Compare == lab.ByProcs && len(s.Plan.Settings) > 1 {
			text += "; differences below " + quantity.Share(s.Plan.Margin) + " can't be told from the emulation's own"
		}
		add("%s", text)
	}
	b.Warnings = append(b.Warnings, notEmpty(s.Longer(a))...)
	first, marked, otherLoad := "", 0, 0
	for _, r := range s.Runs {
		first = cmp.Or(first, r.Error)
		if len(LoadMarks(r)) > 0 {
			otherLoad++
		}
		if len(HostMarks(r)) > 0 {
			marked++
		}
	}
	if a.Missed > 0 {
		add("%d of %d runs failed and have no figures; the first: %s", a.Missed, len(s.Runs), first)
	}
	if marked > 0 {
		add("other work disturbed %d of %d runs (marked; kept in the statistics)", marked, len(s.Runs))
	}
	if otherLoad > 0 {
		add("in %d of %d runs the load was not as requested: see their marks. They are kept", otherLoad, len(s.Runs))
	}
	for i := range b.Groups {
		g := &b.Groups[i]
		for _, text := range b.doubts(g, a.Groups[i]) {
			add("%s, %s", g.Name, text)
		}
		for _, row := range g.Settings {
			if m, ok := row.Metrics[g.Figure.Unit]; ok && len(m.Outliers) > 0 {
				add("%s, %s: %s among %d runs; all are kept",
					g.Name, benchWords{plan: b.Plan}.name(row), quantity.Plural(len(m.Outliers), "outlier"), m.N)
			}
		}
	}
}

// doubts are what the reader should know of a group's load, and of its tails.
func (b *Bench) doubts(g *BenchGroup, rows lab.Group) (texts []string) {
	w := benchWords{plan: b.Plan}
	add := func(format string, args ...any) { texts = append(texts, fmt.Sprintf(format, args...)) }
	if l := b.Plan.Served; l != nil && !l.Foreign() {
		const queueing = 0.85
		rate, window := quantity.PerSecond(l.Rate), time.Duration(l.Window)
		if share := b.used(g); share > queueing {
			add("at %s: %s uses %s of its limit, so latencies are mostly those of a queue, and differ much from run to run",
				rate, w.name(g.Settings[0]), quantity.WholeShare(share))
		}
		if _, tail := tune.Window(l.Rate, window); tail != "p99" {
			add("at %s: a window of %s has too few requests for a p99; settings are compared by %s, and --for takes longer windows",
				rate, quantity.Duration(window), MetricName(g.Figure))
		}
	}
	for i, s := range g.Settings {
		if m := s.Metrics[string(lab.ErrorShare)]; m.N > 0 && m.Mean > 0 {
			add("%s: %s of the requests failed; they count as slower than all others, and as no work", w.name(s), failed(s))
		}
		if rows.Rows[i].Disagree(b.Plan.Margin) {
			add("%s: p99 %s by typical seconds, but %s by whole windows, in which rare, long delays count more",
				w.name(s), s.Versus.Change, s.WholeVersus.Change)
		}
	}
	return texts
}
