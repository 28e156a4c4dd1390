package render

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sample"
)

// BenchText writes the document of bench for people: a table for each group of settings, the verdicts last, where they
// are seen.
func BenchText(w io.Writer, b *report.Bench, style Style) error {
	b = printableBench(b)
	var t strings.Builder
	for i := range b.Groups {
		benchGroup(&t, b, &b.Groups[i], style)
	}
	warnings(&t, b.Warnings, style)
	if len(b.Warnings) > 0 {
		t.WriteByte('\n')
	}
	for _, v := range b.Verdicts {
		t.WriteString(style.bold("→ ") + style.wrap(v, 2) + "\n")
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// printableBench returns a copy of b whose texts are printable.
func printableBench(b *report.Bench) *report.Bench {
	c := *b
	c.Warnings, c.Verdicts, c.Groups = slices.Clone(b.Warnings), slices.Clone(b.Verdicts), slices.Clone(b.Groups)
	for _, texts := range [][]string{c.Warnings, c.Verdicts} {
		for i := range texts {
			texts[i] = printable(texts[i])
		}
	}
	for i := range c.Groups {
		c.Groups[i].Name = printable(c.Groups[i].Name)
	}
	return &c
}

// benchGroup writes the table of one group.
func benchGroup(t *strings.Builder, b *report.Bench, g *report.BenchGroup, style Style) {
	better := ""
	if g.Figure.Better != "" {
		better = ", " + g.Figure.Better + " is better"
	}
	fmt.Fprintf(t, "%s  %s\n", style.bold(g.Name), style.dim(figureText(g.Figure)+better))
	rows := [][]string{{string(factorTitle(b.Plan.Compare)), "median", "95 % interval", "vs. " + g.Settings[0].Name}}
	shown := besides(b, g)
	for _, m := range shown {
		rows[0] = append(rows[0], benchTitle(m))
	}
	for _, s := range g.Settings {
		m, ok := s.Metrics[g.Figure.Unit]
		row := []string{s.Name, "no figures", "", ""}
		if ok {
			row = []string{s.Name, metric(g.Figure.Unit, m.Median), interval(g.Figure.Unit, m), versus(s.Versus)}
		}
		for _, other := range shown {
			text := ""
			if m, ok := s.Metrics[other.Unit]; ok {
				text = metric(other.Unit, m.Median)
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	writeTable(t, rows, style, func(i, j int, text string) string {
		switch {
		case i == 0:
			return style.dim(text)
		case j == 3:
			return style.verdict(text, g.Settings[i-1].Versus)
		}
		return text
	})
	activity(t, b, g, style)
	t.WriteByte('\n')
}

// verdict paints what a comparison found.
func (s Style) verdict(text string, c *report.BenchComparison) string {
	switch {
	case c != nil && c.Verdict == sample.VerdictBetter:
		return s.good(text)
	case c != nil && c.Verdict == sample.VerdictWorse:
		return s.bad(text)
	}
	return text
}

// writeTable writes rows in columns: the first and those of words to the left, numbers to the right.
func writeTable(t *strings.Builder, rows [][]string, style Style, paint func(i, j int, text string) string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for j, text := range row {
			width[j] = max(width[j], visible(text))
		}
	}
	for i, row := range rows {
		line := "  "
		for j, text := range row {
			if width[j] == 0 {
				continue
			}
			cell := padLeft(text, width[j])
			if j == 0 || j == 3 {
				cell = pad(text, width[j])
			}
			if j > 0 {
				line += "  "
			}
			line += paint(i, j, cell)
		}
		t.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// besides are the metrics that are shown beside the figure: those that explain it, as far as they occur in the group.
func besides(b *report.Bench, g *report.BenchGroup) (shown []lab.Metric) {
	for _, measure := range []lab.Measure{lab.CPUTime, lab.ThrottledShare, lab.GCShare, lab.WaitP99, lab.PeakMemory} {
		unit := string(measure)
		for _, m := range b.Metrics {
			if m.Unit != unit || unit == g.Figure.Unit {
				continue
			}
			if slices.ContainsFunc(g.Settings, func(s report.BenchRow) bool { _, ok := s.Metrics[unit]; return ok }) {
				shown = append(shown, m)
			}
		}
	}
	return shown
}

// benchTitle is a metric's name at the head of a column.
func benchTitle(m lab.Metric) string {
	switch lab.Measure(m.Unit) {
	case lab.CPUTime:
		return "CPU time"
	case lab.WallTime:
		return "wall time"
	case lab.ThrottledShare:
		return "throttled"
	case lab.GCShare:
		return "GC"
	case lab.WaitP99:
		return "wait p99"
	case lab.PeakMemory:
		return "memory"
	}
	return m.Unit
}

func factorTitle(f lab.Factor) string {
	switch f {
	case lab.ByProcs:
		return "GOMAXPROCS"
	case lab.ByCPUs:
		return "limit"
	case lab.ByGo:
		return "Go"
	}
	return string(f)
}

func figureText(m lab.Metric) string {
	if m.About == "" {
		return m.Unit
	}
	return m.About + " (" + m.Unit + ")"
}

func versus(c *report.BenchComparison) string {
	if c == nil {
		return ""
	}
	return c.Text
}

func interval(unit string, s report.BenchSummary) string {
	if s.Confidence == 0 {
		return ""
	}
	return metric(unit, s.Low) + " … " + metric(unit, s.High)
}

// metric prints a value in the unit that is best to read: 27100 ns/op is 27.1 µs.
func metric(unit string, v float64) string {
	switch {
	case strings.HasPrefix(unit, "ns/") || strings.HasSuffix(unit, "-ns") || unit == "ns":
		return digits(v/1e9, "s")
	case strings.HasPrefix(unit, "sec/") || strings.HasSuffix(unit, "-sec") || unit == "sec" || strings.HasPrefix(unit, "cpu-s"):
		return digits(v, "s")
	case strings.HasSuffix(unit, "-ms"):
		return digits(v/1e3, "s")
	case strings.HasSuffix(unit, "-bytes"):
		return bytes(int64(v))
	case strings.HasSuffix(unit, "-%"):
		return three(v) + " %"
	case strings.HasSuffix(unit, "/s"):
		return digits(v, "")
	}
	return three(v)
}

// digits prints three or four digits of a value with the prefix that suits its size.
func digits(v float64, unit string) string {
	if v == 0 {
		return strings.TrimSpace("0 " + unit)
	}
	prefixes := []string{"n", "µ", "m", "", "k", "M", "G", "T"}
	i := 3
	for a := math.Abs(v); a >= 999.5 && i < len(prefixes)-1 && (unit == "" || i < 3); a = math.Abs(v) {
		v /= 1000
		i++
	}
	for math.Abs(v) < 0.9995 && i > 0 && unit != "" {
		v *= 1000
		i--
	}
	return strings.TrimSpace(three(v) + " " + prefixes[i] + unit)
}

// three prints three digits at least, and no more after the point than that takes.
func three(v float64) string {
	a := math.Abs(v)
	switch {
	case v == 0:
		return "0"
	case a >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// The picture of when a program ran: a column is 5 ms.
const (
	pictureStep  = 5000 // µs
	pictureWidth = 80
)

// activity draws when each setting's last run ran and stood still, where a program writes that down.
func activity(t *strings.Builder, b *report.Bench, g *report.BenchGroup, style Style) {
	drawn := false
	for _, s := range g.Settings {
		for _, r := range slices.Backward(b.Runs) {
			if r.Setting != s.Setting || len(r.Activity) == 0 {
				continue
			}
			if !drawn {
				fmt.Fprintf(t, "\n  %s\n", style.dim(fmt.Sprintf("running (█) and standing still (·), %d ms a column, from the middle of a run", pictureStep/1000)))
				drawn = true
			}
			fmt.Fprintf(t, "  %s  %s\n", pad(s.Name, 11), strip(r.Activity))
			break
		}
	}
}

// strip draws the middle of an activity.
func strip(activity [][2]int64) string {
	end := activity[len(activity)-1][1]
	from := max(0, (end-pictureStep*pictureWidth)/2)
	var b strings.Builder
	for col := range int64(pictureWidth) {
		start := from + col*pictureStep
		if start >= end {
			break
		}
		var ran int64
		for _, a := range activity {
			ran += max(0, min(a[1], start+pictureStep)-max(a[0], start))
		}
		if ran*2 >= pictureStep {
			b.WriteRune('█')
		} else {
			b.WriteRune('·')
		}
	}
	return b.String()
}
