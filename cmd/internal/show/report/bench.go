package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
)

// Bench is the document of the verb bench.
type Bench struct {
	Header
	Verdicts    []string        `json:"verdicts"` // a sentence for each group; of builds the sum of them comes first
	Plan        lab.Plan        `json:"plan"`
	Environment lab.Environment `json:"environment"`
	Blocks      int             `json:"blocks"` // that are complete
	Seconds     float64         `json:"seconds"`
	Finished    bool            `json:"finished"`
	Metrics     []lab.Metric    `json:"metrics"` // that any run has, the figures and costs first
	Groups      []BenchGroup    `json:"groups"`
	Runs        []lab.Run       `json:"runs"`
	Warnings    []string        `json:"warnings"`
	Resume      string          `json:"resume,omitempty"` // the command that continues it
}

// BenchGroup holds settings that differ in one factor, Plan.Compare, and are compared with the first of them.
type BenchGroup struct {
	Name     string        `json:"name"`
	Common   lab.Setting   `json:"common"`
	Figure   lab.Metric    `json:"figure"`
	Cost     *lab.Metric   `json:"cost,omitempty"` // that they are compared by as well
	Verdict  string        `json:"text"`           // begins with the name
	Advice   string        `json:"advice"`         // the verdict as a sentence of its own, without the name
	Also     []string      `json:"also,omitempty"` // what it rests on
	Claim    lab.ClaimKind `json:"claim"`
	Best     *int          `json:"best"` // the row that the verdict is about; null: none
	Settings []BenchRow    `json:"settings"`
}

// BenchRow is one setting.
type BenchRow struct {
	lab.Row
	Versus      *BenchComparison `json:"versus_base"`                 // by the figure; null for the base
	CostVersus  *BenchComparison `json:"cost_versus_base,omitempty"`  // by the cost
	WholeVersus *BenchComparison `json:"whole_versus_base,omitempty"` // by the p99 of whole windows, of a ReadyTail
}

// BenchSummary is what the runs of a setting say of one metric.
type BenchSummary = sample.Summary

// BenchComparison is a setting's figure compared with the base's, from pairs of runs of the same block.
type BenchComparison struct {
	sample.Comparison
	More   int           `json:"more_blocks,omitempty"` // that would settle it, about
	Beside lab.ClaimKind `json:"beside,omitempty"`      // what may be said of a build; "": builds are not compared
	Text   string        `json:"text"`                  // the verdict in words
	Change string        `json:"change"`                // the ratio in words, which Text begins with
}

// Better reports whether the setting is better than the base, for sure.
func (c *BenchComparison) Better() bool { return c.Verdict == sample.VerdictBetter }

// Worse reports whether it is worse, for sure.
func (c *BenchComparison) Worse() bool { return c.Verdict == sample.VerdictWorse }

// Interval is the interval of the ratio; "": none.
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

// CommonMetrics are metrics that any run may have; what Go's runtime reports comes last.
var CommonMetrics = commonMetrics()

func commonMetrics() []lab.Metric {
	var all, runtime []lab.Metric
	for _, m := range lab.Measures {
		switch {
		case m.Bench == "":
		case m.Kind == lab.Runtime:
			runtime = append(runtime, m.Metric(m.Bench))
		default:
			all = append(all, m.Metric(m.Bench))
		}
	}
	return append(all, runtime...)
}

// NewBench makes the document of a study.
func NewBench(s *lab.Study) *Bench {
	a := lab.Analyse(s)
	blocks := completeBlocks(s)
	b := &Bench{
		Header: Header{Version: Version, Verb: "bench", MadeBy: s.MadeBy, Time: s.Time},
		Plan:   s.Plan, Environment: s.Environment, Runs: append([]lab.Run{}, s.Runs...), Blocks: blocks,
		Finished: s.Plan.Blocks == 0 || blocks >= s.Plan.Blocks || len(s.Plan.Settings) == 0,
		Metrics:  usedMetrics(s), Groups: []BenchGroup{}, Verdicts: []string{}, Warnings: []string{},
	}
	if n := len(s.Runs); n > 0 {
		last := s.Runs[n-1]
		b.Seconds = math.Round(last.Start.Sub(s.Runs[0].Start).Seconds() + last.Seconds) // runs only
	}
	for _, g := range a.Groups {
		b.Groups = append(b.Groups, newBenchGroup(s.Plan, g))
	}
	changed, _ := b.Changed()
	b.Verdicts = append(b.Verdicts, notEmpty(changed)...)
	b.Verdicts = append(b.Verdicts, notEmpty(b.Identical())...)
	for _, g := range b.Groups {
		b.Verdicts = append(b.Verdicts, g.Verdict)
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
	if s.Plan.Looks > 0 { // what is decided is left out of the later ones
		return len(count)
	}
	return n
}

// usedMetrics lists the metrics that the runs have: the figures and costs first, then the others in a fixed order.
func usedMetrics(s *lab.Study) []lab.Metric {
	occurs := map[string]bool{}
	for _, r := range s.Runs {
		for unit := range r.Metrics {
			occurs[unit] = true
		}
	}
	var all []lab.Metric
	for _, setting := range s.Plan.Settings {
		all = append(all, s.Plan.Figures[setting.Workload])
		if cost, ok := s.Plan.Costs[setting.Workload]; ok {
			all = append(all, cost)
		}
	}
	return inOrder(slices.Concat(all, s.Plan.Metrics, CommonMetrics), occurs)
}

// inOrder lists the metrics that occur: first those that are described, in that order.
func inOrder(described []lab.Metric, occurs map[string]bool) []lab.Metric {
	for _, unit := range slices.Sorted(maps.Keys(occurs)) {
		described = append(described, lab.Metric{Unit: unit})
	}
	metrics := []lab.Metric{}
	for _, m := range described {
		if occurs[m.Unit] {
			metrics = append(metrics, m)
			delete(occurs, m.Unit)
		}
	}
	return metrics
}

func newBenchGroup(p lab.Plan, g lab.Group) BenchGroup {
	out := BenchGroup{Name: groupName(p, g), Common: g.Common, Figure: g.Figure, Cost: g.Cost, Claim: g.Claim.Kind}
	for _, row := range g.Rows {
		out.Settings = append(out.Settings, BenchRow{
			Row: row, Versus: newBenchComparison(row.Comparison),
			CostVersus: newBenchComparison(row.Cost), WholeVersus: newBenchComparison(row.Whole),
		})
		if added := &out.Settings[len(out.Settings)-1]; p.Compare == lab.ByBuild {
			added.Versus.judge(row.Comparison)
			added.CostVersus.judge(row.Cost)
		}
	}
	about := []lab.ClaimKind{lab.Set, lab.Trade, lab.Undecided, lab.Worse, lab.Better, lab.NoWorse}
	out.Best = known(slices.Contains(about, g.Claim.Kind), g.Claim.Row)
	w := benchWords{p, &out, g.Claim}
	advice := w.advice()
	out.Verdict, out.Advice, out.Also = out.Name+": "+advice, advice, w.also()
	if g.Claim.Kind != lab.Failed { // there it begins with a setting's name
		out.Advice = capital(advice)
	}
	return out
}

func newBenchComparison(of *sample.Comparison) *BenchComparison {
	if of == nil {
		return nil
	}
	c, more := *of, sample.More(*of)
	if c.Ratio == 0 {
		return &BenchComparison{c, more, "", "no ratio", "no ratio"}
	}
	v := &BenchComparison{Comparison: c, More: more, Change: quantity.Change(c.Ratio)}
	v.Text = v.Change
	if c.Confidence > 0 {
		v.Text += fmt.Sprintf(" (%s to %s)", quantity.Change(c.Low), quantity.Change(c.High))
	}
	v.Text += ", " + v.Word()
	if c.Verdict == sample.VerdictTooFew {
		v.Text += " for a statement"
	}
	return v
}

// judge says what may be said of a build.
func (c *BenchComparison) judge(of *sample.Comparison) {
	if c != nil {
		c.Beside = lab.Beside(of)
	}
}

// groupName says what the settings of a group have in common.
func groupName(p lab.Plan, g lab.Group) string {
	parts := []string{g.Common.Workload, g.Common.Build, g.Common.Go}
	switch {
	case p.Compare == lab.ByCPUs:
	case p.Compare == lab.ByBuild && !slices.ContainsFunc(p.Settings, func(s lab.Setting) bool { return s.CPUs > 0 }):
	case g.Common.CPUs == 0:
		parts = append(parts, "no limit")
	default:
		parts = append(parts, "limit "+quantity.CPUs(g.Common.CPUs))
	}
	if g.Common.Procs != 0 { // it is 0 where GOMAXPROCS is compared
		parts = append(parts, "GOMAXPROCS "+strconv.Itoa(g.Common.Procs))
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}

// capital makes the first letter of a sentence a capital.
func capital(sentence string) string {
	for i, r := range sentence {
		return string(unicode.ToUpper(r)) + sentence[i+utf8.RuneLen(r):]
	}
	return sentence
}
