package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
)

// WorkingTree is the build of what lies in the working tree.
const WorkingTree = "working tree"

// ShortName is what a metric is called where builds are compared.
func ShortName(m lab.Metric) string {
	switch lab.Measure(m.Unit).Kind() {
	case lab.Duration:
		return "time"
	case lab.CPU:
		return "CPU"
	}
	return MetricName(m)
}

// metrics are what two builds are compared by: each with a short name.
func (w benchWords) metrics(r BenchRow) (names []string, comparisons []*BenchComparison) {
	of := func(m lab.Metric, c *BenchComparison) {
		if c == nil {
			return
		}
		names, comparisons = append(names, ShortName(m)), append(comparisons, c)
	}
	of(w.Figure, r.Versus)
	if w.Cost != nil {
		of(*w.Cost, r.CostVersus)
	}
	return names, comparisons
}

// build says how a build compares with the base, by what says most.
func (w benchWords) build(r BenchRow) string {
	names, comparisons := w.metrics(r)
	base := w.name(w.Settings[0])
	found := map[lab.ClaimKind]string{} // what is said of the first metric that is so
	for i, c := range comparisons {
		if found[c.Beside] == "" {
			found[c.Beside] = beside[c.leaning()].words(names[i], base, c.beside())
		}
	}
	switch {
	case len(names) == 0:
		return w.name(r) + " gave no figures"
	case found[lab.Worse] == "" && w.failing(r):
		return fmt.Sprintf("more requests fail than with %s: %s, not %s", base, failed(r), failed(w.Settings[0]))
	}
	for _, kind := range []lab.ClaimKind{lab.Worse, lab.Undecided, lab.Better} {
		if found[kind] != "" {
			return found[kind]
		}
	}
	return found[lab.NoWorse]
}

// A besideWords are how to say how a build compares with the base: in a time, in CPU time, and in anything else. %[1]s is the metric, %[2]s
// the base, %[3]s the change.
type besideWords struct{ time, cpu, other string }

var beside = map[lab.ClaimKind]besideWords{
	lab.Worse:        {"slower than %[2]s: %[1]s %[3]s", "takes more CPU than %[2]s: %[3]s", "worse than %[2]s: %[1]s %[3]s"},
	lab.Better:       {"faster than %[2]s: %[1]s %[3]s", "takes less CPU than %[2]s: %[3]s", "better than %[2]s: %[1]s %[3]s"},
	lab.NoWorse:      {"no slower than %[2]s: %[1]s %[3]s", "takes no more CPU than %[2]s: %[3]s", "no worse than %[2]s: %[1]s %[3]s"},
	"perhaps worse":  {"perhaps slower than %[2]s: %[1]s %[3]s", "perhaps takes more CPU than %[2]s: %[3]s", "perhaps worse than %[2]s: %[1]s %[3]s"},
	"perhaps better": {"perhaps faster than %[2]s: %[1]s %[3]s", "perhaps takes less CPU than %[2]s: %[3]s", "perhaps better than %[2]s: %[1]s %[3]s"},
	lab.Undecided:    {"can't tell: %[1]s %[3]s beside %[2]s", "can't tell: %[1]s %[3]s beside %[2]s", "can't tell: %[1]s %[3]s beside %[2]s"},
}

// leaning is what may be said, or of what is undecided where its own interval points: among many comparisons, or after many looks, that
// shows nothing yet.
func (c *BenchComparison) leaning() lab.ClaimKind {
	if c.Beside != lab.Undecided || c.Confidence == 0 {
		return c.Beside
	}
	lower := c.Comparison.Better == sample.Lower
	switch {
	case c.Low > 1 && lower, c.High < 1 && !lower:
		return "perhaps worse"
	case c.High < 1 && lower, c.Low > 1 && !lower:
		return "perhaps better"
	}
	return c.Beside
}

func (b besideWords) words(metric, base, change string) string {
	format := b.other
	switch metric {
	case "time", "p50", "p90", "p99", "p99.9":
		format = b.time
	case "CPU":
		format = b.cpu
	}
	return fmt.Sprintf(format, metric, base, change)
}

// builds says it of all.
func (w benchWords) builds() string {
	if len(w.Settings) == 2 {
		return w.build(w.Settings[1]) + "."
	}
	return w.beside()
}

// failing reports whether a group's claim is about a setting that fails more requests.
func (w benchWords) failing(r BenchRow) bool {
	return w.Claim == lab.Worse && r.Setting == w.best().Setting && r.Metrics[string(lab.ErrorShare)].Mean > w.Settings[0].Metrics[string(lab.ErrorShare)].Mean
}

// beside is a change to the extent that it is known: all of its interval, or the worst that it can be.
func (c *BenchComparison) beside() string {
	switch {
	case c.Ratio == 0:
		return "without a ratio"
	case c.Confidence == 0:
		return c.Change
	case c.Beside != lab.NoWorse:
	case c.Comparison.Better == sample.Higher && c.Low < 1:
		return "at least " + quantity.Change(c.Low)
	case c.Comparison.Better == sample.Lower && c.High > 1:
		return "at most " + quantity.Change(c.High)
	}
	return quantity.Changes(c.Low, c.High)
}

// alsoBuilds says what the answer on builds rests on.
func (w benchWords) alsoBuilds() []string {
	intervals := "95 % intervals, " + w.pairs()
	switch w.Claim {
	case lab.NoWorse:
		return []string{w.changed() + intervals + ". Up to " + w.allowed() + " as no slower."}
	case lab.Undecided:
	default:
		return []string{w.changed() + intervals + "."}
	}
	best := w.best()
	_, comparisons := w.metrics(best)
	spread := 0.0
	for _, c := range comparisons {
		if c.Beside == lab.Undecided {
			spread = max(spread, c.Spread)
		}
	}
	const normal = 1.96 // standard deviations, in which 95 % are
	text := w.changed() + intervals + "; the two runs of a pair differ by ±" + quantity.RoughShare(math.Expm1(normal*spread)) + " here."
	if more := w.more(best); more > 0 && more < sample.Many {
		text += " About " + quantity.Plural(more, "more block") + " would settle it."
	}
	return []string{text}
}

// changed are the changes of all that two builds are compared by.
func (w benchWords) changed() string {
	if len(w.Settings) != 2 {
		return ""
	}
	names, comparisons := w.metrics(w.Settings[1])
	var found []string
	for i, c := range comparisons {
		found = append(found, names[i]+" "+c.beside())
	}
	text := strings.Join(found, ", ")
	if names[0] == "time" { // a percentile has no capital
		text = capital(text)
	}
	return text + "; "
}

// allowed are the differences that don't count.
func (w benchWords) allowed() string {
	text := quantity.Share(w.plan.Margin)
	if w.plan.Tail > 0 && w.plan.Tail != w.plan.Margin && lab.Measure(w.Figure.Unit).Kind() == lab.ResponseTime {
		return quantity.Share(w.plan.Tail) + " more " + MetricName(w.Figure) + " and " + text + " more CPU count"
	}
	return text + " more counts"
}

// Changed is the answer for many benchmarks at once, and the worst claim about any; "": each speaks for itself.
func (b *Bench) Changed() (text string, worst lab.ClaimKind) {
	if b.Plan.Compare != lab.ByBuild || len(b.Groups) < 2 {
		return "", ""
	}
	of := map[lab.ClaimKind]int{}
	for _, g := range b.Groups {
		if g.Claim == lab.TooFew {
			g.Claim = lab.Undecided
		}
		of[g.Claim]++
	}
	var parts []string
	for _, kind := range []lab.ClaimKind{lab.Worse, lab.Failed, lab.Undecided, lab.Better, lab.NoWorse} {
		if n := of[kind]; n > 0 {
			worst = cmp.Or(worst, kind)
			parts = append(parts, quantity.Count(n)+" "+string(kind))
		}
	}
	return quantity.Plural(len(b.Groups), "benchmark") + ": " + strings.Join(parts, ", ") + ".", worst
}

// Identical says which programs are the same in all builds, and were not run; "": none.
func (b *Bench) Identical() string {
	n := len(b.Plan.Same)
	if n == 0 {
		return ""
	}
	what, builds := quantity.Plural(n, "package"), "all builds"
	if n == 1 {
		what = b.Plan.Same[0]
	}
	if len(b.Plan.Builds) == 2 {
		builds = "both builds"
	}
	if len(b.Groups) == 0 {
		return fmt.Sprintf("No difference: %s of %s are identical, byte for byte.", builds, what)
	}
	return fmt.Sprintf("Not run, as %s are identical: %s.", builds, what)
}

// buildName names a build in a sentence.
func buildName(name string) string {
	if name == WorkingTree {
		return "the " + name
	}
	return name
}
