package report

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/sample"
)

// Bench is the document of the verb bench.
type Bench struct {
	Header
	Verdicts    []string        `json:"verdicts"` // a sentence for each group
	Plan        lab.Plan        `json:"plan"`
	Environment lab.Environment `json:"environment"`
	Blocks      int             `json:"blocks"` // that are complete
	Seconds     float64         `json:"seconds"`
	Finished    bool            `json:"finished"`
	Metrics     []lab.Metric    `json:"metrics"` // that any run has, the figures first
	Groups      []BenchGroup    `json:"groups"`
	Runs        []lab.Run       `json:"runs"`
	Warnings    []string        `json:"warnings"`
	Resume      string          `json:"resume,omitempty"` // the command that goes on
}

// BenchGroup holds settings that differ in one factor, Plan.Compare, and are compared with the first of them.
type BenchGroup struct {
	Name     string        `json:"name"`
	Common   lab.Setting   `json:"common"`
	Figure   lab.Metric    `json:"figure"`
	Verdict  string        `json:"text"`   // begins with the name
	Advice   string        `json:"advice"` // the verdict as a sentence of its own, without the name
	Claim    lab.ClaimKind `json:"claim"`
	Best     *int          `json:"best"` // the row that the verdict is about; null: none
	Settings []BenchRow    `json:"settings"`
}

// BenchRow is one setting.
type BenchRow struct {
	Setting    int                     `json:"setting"` // number in Plan.Settings
	Name       string                  `json:"name"`    // the compared factor's value: "2", or "default (2)"
	GOMAXPROCS int                     `json:"gomaxprocs,omitempty"`
	Runs       int                     `json:"run_count"`
	Failed     int                     `json:"failed,omitempty"`
	Metrics    map[string]BenchSummary `json:"metrics"`
	Versus     *BenchComparison        `json:"versus_base"` // by the figure; null for the base
}

// BenchSummary is what the runs of a setting say of one metric.
type BenchSummary struct {
	N          int     `json:"n"`
	Median     float64 `json:"median"`
	Low        float64 `json:"low"` // interval of the median; both 0 if confidence is
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence_level"`
	Mean       float64 `json:"mean"`
	Min        float64 `json:"min"`
	Max        float64 `json:"max"`
	Outliers   []int   `json:"outliers,omitempty"` // indexes among the setting's runs; none is left out
}

func newSummary(s sample.Summary) BenchSummary {
	return BenchSummary{s.N, s.Median, s.Low, s.High, s.Confidence, s.Mean, s.Min, s.Max, s.Outliers}
}

// BenchComparison is a setting's figure beside the base's, from pairs of runs of the same block.
type BenchComparison struct {
	Pairs      int            `json:"pairs"`
	Ratio      float64        `json:"ratio"` // 0: there is none
	Low        float64        `json:"low"`   // 95 % interval; both 0 if confidence is
	High       float64        `json:"high"`
	Confidence float64        `json:"confidence_level"`
	P          float64        `json:"p"`
	Adjusted   float64        `json:"p_adjusted"` // by Holm's rule over the family
	Family     int            `json:"family"`
	Verdict    sample.Verdict `json:"verdict"`
	Missing    int            `json:"missing_pairs,omitempty"`
	More       int            `json:"more_blocks,omitempty"` // that would settle it, about
	Text       string         `json:"text"`                  // the verdict in words
	Change     string         `json:"change"`                // the ratio in words, which Text begins with
}

// Better reports whether the setting is better than the base, for sure.
func (c *BenchComparison) Better() bool { return c.Verdict == sample.VerdictBetter }

// Worse reports whether it is worse, for sure.
func (c *BenchComparison) Worse() bool { return c.Verdict == sample.VerdictWorse }

// Interval says which ratios are likely; "": not known.
func (c *BenchComparison) Interval() string {
	if c.Ratio == 0 || c.Confidence == 0 {
		return ""
	}
	return quantity.Changes(c.Low, c.High)
}

// Word says in a word or two what was found.
func (c *BenchComparison) Word() string {
	switch c.Verdict {
	case sample.VerdictSame:
		return "no worthwhile difference"
	case sample.VerdictTooFew:
		return quantity.Plural(c.Missing, "more block") + " needed"
	}
	return string(c.Verdict)
}

// Word says in a word or two what is claimed.
func (g *BenchGroup) Word() string {
	switch g.Claim {
	case lab.TooFew:
		return "too few blocks"
	case lab.Alone:
		return "nothing to compare"
	}
	return string(g.Claim)
}

// Unfinished says how far an interrupted bench has come; "": it is finished.
func (b *Bench) Unfinished() string {
	if b.Finished {
		return ""
	}
	return fmt.Sprintf("Not finished: %d of %s are complete.", b.Blocks, quantity.Plural(b.Plan.Blocks, "block"))
}

// CommonMetrics are those that every run may have.
var CommonMetrics = []lab.Metric{
	lab.WallTime.Metric("wall time of the whole process"),
	lab.CPUTime.Metric("CPU time of the whole process and its children"),
	lab.ThrottledShare.Metric("periods in which the limit was used up"),
	lab.Standstill.Metric("longest standstill seen"),
	lab.PeakMemory.Metric("memory at its peak"),
	lab.GCShare.Metric("share of the CPU time that garbage collection used"),
	lab.WaitP50.Metric("time that a goroutine waited to run, median"),
	lab.WaitP99.Metric("time that a goroutine waited to run, 99th percentile"),
}

// NewBench makes the document of a study.
func NewBench(s *lab.Study) *Bench {
	a := lab.Analyse(s)
	b := &Bench{
		Header: Header{Version: Version, Verb: "bench", MadeBy: s.MadeBy, Time: s.Time},
		Plan:   s.Plan, Environment: s.Environment, Runs: s.Runs, Blocks: completeBlocks(s),
		Finished: s.Plan.Blocks == 0 || completeBlocks(s) >= s.Plan.Blocks,
		Metrics:  usedMetrics(s), Verdicts: []string{}, Warnings: []string{},
	}
	if b.Runs == nil {
		b.Runs = []lab.Run{}
	}
	if n := len(s.Runs); n > 0 {
		last := s.Runs[n-1]
		b.Seconds = math.Round(last.Start.Sub(s.Runs[0].Start).Seconds() + last.Seconds) // runs only
	}
	for _, g := range a.Groups {
		group := newBenchGroup(s.Plan, g)
		b.Verdicts = append(b.Verdicts, group.Verdict)
		b.Groups = append(b.Groups, group)
	}
	b.warn(s, a)
	return b
}

func completeBlocks(s *lab.Study) (n int) {
	count := map[int]int{}
	for _, r := range s.Runs {
		if count[r.Block]++; count[r.Block] == len(s.Plan.Settings) {
			n++
		}
	}
	return n
}

// usedMetrics lists the metrics that occur, the figures first, then the others in a fixed order.
func usedMetrics(s *lab.Study) []lab.Metric {
	occurs := map[string]bool{}
	for _, r := range s.Runs {
		for unit := range r.Metrics {
			occurs[unit] = true
		}
	}
	metrics := []lab.Metric{}
	add := func(m lab.Metric) {
		if occurs[m.Unit] {
			metrics = append(metrics, m)
			delete(occurs, m.Unit)
		}
	}
	for _, setting := range s.Plan.Settings {
		add(s.Plan.Figures[setting.Workload])
	}
	for _, m := range s.Plan.Metrics {
		add(m)
	}
	for _, m := range CommonMetrics {
		add(m)
	}
	var rest []string
	for unit := range occurs {
		rest = append(rest, unit)
	}
	sort.Strings(rest)
	for _, unit := range rest {
		metrics = append(metrics, lab.Metric{Unit: unit})
	}
	return metrics
}

func newBenchGroup(p lab.Plan, g lab.Group) BenchGroup {
	out := BenchGroup{Name: groupName(p, g), Common: g.Common, Figure: g.Figure, Claim: g.Claim.Kind}
	for _, row := range g.Rows {
		r := BenchRow{
			Setting: row.Setting, Name: rowName(p, row), GOMAXPROCS: row.GOMAXPROCS, Runs: row.Runs, Failed: row.Failed,
			Metrics: map[string]BenchSummary{},
		}
		for unit, s := range row.Summaries {
			r.Metrics[unit] = newSummary(s)
		}
		if c := row.Comparison; c != nil {
			r.Versus = &BenchComparison{
				c.Pairs, c.Ratio, c.Low, c.High, c.Confidence, c.P, c.Adjusted, c.Family, c.Verdict, c.Missing, row.More,
				comparisonText(*c), ratioText(*c),
			}
		}
		out.Settings = append(out.Settings, r)
	}
	if g.Claim.Kind == lab.Set || g.Claim.Kind == lab.Undecided {
		best := g.Claim.Row
		out.Best = &best
	}
	advice := advice(p, g, out)
	out.Verdict, out.Advice = out.Name+": "+advice, advice
	if g.Claim.Kind != lab.Failed { // there it begins with a setting's name
		out.Advice = capital(advice)
	}
	return out
}

// rowName is what tells a setting from the others of its group.
func rowName(p lab.Plan, row lab.Row) string {
	s := p.Settings[row.Setting]
	name := s.Value(p.Compare)
	if p.Compare == lab.ByProcs && s.Procs == 0 && row.GOMAXPROCS > 0 {
		name = fmt.Sprintf("default (%d)", row.GOMAXPROCS)
	}
	if name == "" {
		name = "this"
	}
	return name
}

// groupName says what the settings of a group have in common.
func groupName(p lab.Plan, g lab.Group) string {
	var parts []string
	if g.Common.Workload != "" {
		parts = append(parts, g.Common.Workload)
	}
	if g.Common.Go != "" {
		parts = append(parts, g.Common.Go)
	}
	if p.Compare != lab.ByCPUs {
		if g.Common.CPUs == 0 {
			parts = append(parts, "no limit")
		} else {
			parts = append(parts, "limit "+quantity.CPUs(g.Common.CPUs))
		}
	}
	if p.Compare != lab.ByProcs && g.Common.Procs != 0 {
		parts = append(parts, "GOMAXPROCS "+strconv.Itoa(g.Common.Procs))
	}
	return strings.Join(parts, ", ")
}

// change says what a ratio means: "12 % less", "31 % more", "2.4 times the".
func change(ratio float64) string {
	switch {
	case ratio >= 2:
		return strconv.FormatFloat(ratio, 'f', 1, 64) + " times the"
	case ratio >= 1:
		return points(ratio-1) + " % more"
	}
	return points(1-ratio) + " % less"
}

// points writes a share in percent: a digit after the point below ten, none above.
func points(share float64) string {
	v := 100 * share
	if v < 9.95 {
		v = math.Round(v*10) / 10
	} else {
		v = math.Round(v)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func ratioText(c sample.Comparison) string {
	if c.Ratio == 0 {
		return "no ratio"
	}
	return quantity.Change(c.Ratio)
}

// comparisonText says what a comparison found.
func comparisonText(c sample.Comparison) string {
	text := ratioText(c)
	if c.Ratio == 0 {
		return text
	}
	if c.Confidence > 0 {
		text += fmt.Sprintf(" (%s to %s)", quantity.Change(c.Low), quantity.Change(c.High))
	}
	switch c.Verdict {
	case sample.VerdictSame:
		return text + ", no worthwhile difference"
	case sample.VerdictTooFew:
		return text + ", " + quantity.Plural(c.Missing, "more block") + " needed for a statement"
	}
	return text + ", " + string(c.Verdict)
}

// advice is the sentence that a group ends in: what to do. It may follow the group's name.
func advice(p lab.Plan, g lab.Group, out BenchGroup) string {
	base := settingWords(p, out.Settings[0])
	switch g.Claim.Kind {
	case lab.Failed:
		return base + " gave no figures: see the runs' errors."
	case lab.Alone:
		return "one setting only, there is nothing to compare it with."
	case lab.TooFew:
		return "too few blocks to tell: " + quantity.Plural(mostMissing(g), "more block") + " would do."
	}
	if p.Compare != lab.ByProcs { // a limit or a Go version is chosen for other reasons as well
		return "compared with " + base + ", " + comparisons(out) + "."
	}
	switch g.Claim.Kind {
	case lab.Set:
		best := out.Settings[g.Claim.Row]
		than := "than with "
		if best.Versus.Ratio >= 2 {
			than = "of "
		}
		return fmt.Sprintf("%s. That gives %s %s %s%s (95 %% interval %s to %s, %d pairs).", doWords(p, best),
			change(best.Versus.Ratio), aboutFigure(g.Figure), than, base, quantity.Change(best.Versus.Low), quantity.Change(best.Versus.High), best.Versus.Pairs)
	case lab.Undecided:
		best := out.Settings[g.Claim.Row]
		text := fmt.Sprintf("keep %s for now. What %s gives is not sure yet: %s to %s.", base, settingWords(p, best),
			quantity.Change(best.Versus.Low), quantity.Change(best.Versus.High))
		if best.Versus.More > 0 {
			text += " About " + quantity.Plural(best.Versus.More, "more block") + " would settle it."
		}
		return text
	}
	return "keep " + base + ": " + others(out) + "."
}

// comparisons lists what was found of each setting beside the base.
func comparisons(g BenchGroup) string {
	var parts []string
	for _, s := range g.Settings[1:] {
		if s.Versus != nil {
			parts = append(parts, s.Name+": "+s.Versus.Text)
		}
	}
	if len(parts) == 0 {
		return "nothing else gave figures"
	}
	return strings.Join(parts, "; ")
}

// others says what the other settings are when the base is to be kept.
func others(g BenchGroup) string {
	var same, worse []string
	for _, s := range g.Settings[1:] {
		switch {
		case s.Versus == nil:
		case s.Versus.Verdict == sample.VerdictWorse:
			worse = append(worse, fmt.Sprintf("%s (%s)", s.Name, quantity.Change(s.Versus.Ratio)))
		default:
			same = append(same, s.Name)
		}
	}
	var parts []string
	if len(same) > 0 {
		parts = append(parts, "with "+quantity.List(same)+" there is no worthwhile difference")
	}
	if len(worse) > 0 {
		parts = append(parts, "worse with "+quantity.List(worse))
	}
	if len(parts) == 0 {
		return "nothing else gave figures"
	}
	return strings.Join(parts, ", ")
}

// capital begins a sentence that may also follow something.
func capital(sentence string) string {
	for i, r := range sentence {
		return string(unicode.ToUpper(r)) + sentence[i+utf8.RuneLen(r):]
	}
	return sentence
}

// settingWords names a setting in a sentence.
func settingWords(p lab.Plan, s BenchRow) string {
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
	}
	return s.Name
}

// doWords says what to do to have a setting.
func doWords(p lab.Plan, s BenchRow) string {
	if p.Settings[s.Setting].Procs == 0 {
		return "leave GOMAXPROCS alone"
	}
	return "set " + settingWords(p, s)
}

func aboutFigure(m lab.Metric) string {
	if m.About == "" {
		return m.Unit
	}
	return m.About
}

func mostMissing(g lab.Group) (n int) {
	for _, row := range g.Rows {
		if row.Comparison != nil {
			n = max(n, row.Comparison.Missing)
		}
	}
	return n
}

// warn gathers what the reader should know.
func (b *Bench) warn(s *lab.Study, a lab.Analysis) {
	add := func(format string, args ...any) { b.Warnings = append(b.Warnings, fmt.Sprintf(format, args...)) }
	if s.Environment.LimitKind == "emulated" {
		text := "the limit is emulated, not the kernel's own: the program is stopped and continued by signals"
		if notes := s.Environment.Notes; len(notes) > 0 {
			text += " (" + strings.Join(notes, "; ") + ")"
		}
		add("%s", text)
	}
	if a.Missed > 0 {
		add("%d of %d runs failed and have no figures; the first: %s", a.Missed, len(s.Runs), firstError(s))
	}
	if n := marked(s); n > 0 {
		add("%d of %d runs had a host that did something else: see their marks. They are kept", n, len(s.Runs))
	}
	for _, g := range b.Groups {
		for _, row := range g.Settings {
			if m, ok := row.Metrics[g.Figure.Unit]; ok && len(m.Outliers) > 0 {
				add("%s, %s: far from the others are %s of %d; all are kept", g.Name, settingWords(b.Plan, row), quantity.Plural(len(m.Outliers), "run"), m.N)
			}
		}
	}
}

func firstError(s *lab.Study) string {
	for _, r := range s.Runs {
		if r.Error != "" {
			return r.Error
		}
	}
	return ""
}

func marked(s *lab.Study) (n int) {
	for _, r := range s.Runs {
		if len(r.Marks) > 0 {
			n++
		}
	}
	return n
}
