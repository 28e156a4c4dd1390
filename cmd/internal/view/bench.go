package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// Bench shows what settings cost: a table for each group of settings, and what is claimed of it, which on a terminal comes
// last, where it is seen.
func Bench(d *report.Bench) *sheet.Sheet {
	s := &sheet.Sheet{
		Verb: "bench", Subject: benchSubject(d), ClaimsLast: true, Warnings: d.Warnings,
		Resume: d.Resume, Command: report.ShellWords(d.Plan.Command), Document: d,
	}
	if text := d.Unfinished(); text != "" {
		s.Warnings = append([]string{text}, d.Warnings...)
	}
	for i := range d.Groups {
		g, anchor := &d.Groups[i], "group-"+strconv.Itoa(i+1)
		s.Claims = append(s.Claims, sheet.Claim{Word: g.Word(), Tone: claimTone(g.Claim), Whole: true, Text: g.Advice, Alone: g.Verdict, Of: g.Name, Anchor: anchor})
		s.Add(sheet.Section{Title: g.Name, Anchor: anchor, About: benchFigure(g.Figure), Blocks: []sheet.Block{
			sheet.Detail{Block: benchDots(d, g, i == 0)}, benchTable(d, g), benchActivity(d, g),
		}})
	}
	detail := func(title string, block sheet.Block) {
		s.Add(sheet.Section{Title: title, Detail: true, Blocks: []sheet.Block{block}})
	}
	detail("Runs that failed", benchRuns(d, func(r lab.Run) string { return r.Error }))
	detail("Runs while the host did something else", benchRuns(d, func(r lab.Run) string { return strings.Join(r.Marks, ", ") }))
	detail("Environment", benchEnvironment(d))
	detail("Plan", benchPlan(d))
	detail("With benchstat", sheet.Commands{{About: "Its comparisons are not paired and so see less:", Lines: []string{
		"unthrottle report --format bench -o bench.txt bench.json",
		"benchstat -col " + benchstatColumn(d.Plan.Compare) + " -ignore /block bench.txt",
	}}})
	return s
}

func benchSubject(d *report.Bench) string {
	text := fmt.Sprintf("%s, %s, %s of runs",
		quantity.Plural(len(d.Plan.Settings), "setting"), quantity.Plural(d.Blocks, "block"), quantity.Lasting(d.Seconds))
	if len(d.Groups) == 1 {
		return d.Groups[0].Name + ": " + text
	}
	return text
}

func claimTone(k lab.ClaimKind) sheet.Tone {
	switch k {
	case lab.Set, lab.Keep:
		return sheet.Good
	case lab.Failed:
		return sheet.Bad
	}
	return sheet.Unsure
}

// benchFigure says what settings are compared by.
func benchFigure(m lab.Metric) string {
	text := m.Unit
	if m.About != "" {
		text = m.About + " (" + m.Unit + ")"
	}
	if m.Better != "" {
		text += ", " + m.Better + " is better"
	}
	return text
}

// factorName is the title of what settings differ in.
func factorName(f lab.Factor) string {
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

// besides are the metrics that are shown beside the figure: those that explain it. The ranks say which goes first where
// there is little room.
var besides = []struct {
	measure lab.Measure
	title   string
	rank    int
}{
	{lab.CPUTime, "CPU time", 2},
	{lab.ThrottledShare, "throttled", 3},
	{lab.GCShare, "GC", 5},
	{lab.WaitP99, "wait p99", 6},
	{lab.PeakMemory, "memory", 7},
}

// benchTable has a row for each setting of a group.
func benchTable(d *report.Bench, g *report.BenchGroup) *sheet.Table {
	if len(g.Settings) == 0 {
		return nil
	}
	t := &sheet.Table{Columns: []sheet.Column{
		{Title: factorName(d.Plan.Compare), Left: true},
		{Title: "median"},
		{Title: "95 % interval", Rank: 4},
		{Title: "vs. " + g.Settings[0].Name, Short: "vs.", Left: true},
		{Title: "95 % interval", Left: true, Rank: 1},
		{Left: true},
	}}
	for _, b := range besides {
		t.Columns = append(t.Columns, sheet.Column{Title: b.title, Rank: b.rank})
	}
	for _, title := range []string{"mean", "min", "max", "runs"} {
		t.Columns = append(t.Columns, sheet.Column{Title: title, Detail: true})
	}
	unit := quantity.UnitOf(g.Figure.Unit)
	for _, s := range g.Settings {
		row := sheet.Row{Cells: []sheet.Cell{{Text: s.Name}, {Text: "no figures"}, {}}}
		m, ok := s.Metrics[g.Figure.Unit]
		if ok {
			row.Cells[1].Text = unit.Text(m.Median)
		}
		if m.Confidence > 0 {
			row.Cells[2].Text = unit.Text(m.Low) + " … " + unit.Text(m.High)
		}
		row.Cells = append(row.Cells, benchVersus(s.Versus)...)
		for _, b := range besides {
			cell := sheet.Cell{}
			if m, ok := s.Metrics[string(b.measure)]; ok && string(b.measure) != g.Figure.Unit {
				cell.Text = quantity.UnitOf(string(b.measure)).Text(m.Median)
			}
			row.Cells = append(row.Cells, cell)
		}
		for _, v := range []float64{m.Mean, m.Min, m.Max} {
			cell := sheet.Cell{}
			if ok {
				cell.Text = unit.Text(v)
			}
			row.Cells = append(row.Cells, cell)
		}
		runs := strconv.Itoa(s.Runs)
		if s.Failed > 0 {
			runs += fmt.Sprintf(", %d failed", s.Failed)
		}
		row.Cells = append(row.Cells, sheet.Cell{Text: runs})
		t.Rows = append(t.Rows, row)
	}
	return t
}

// benchVersus is a setting beside the base: the change, its interval, and what follows.
func benchVersus(c *report.BenchComparison) []sheet.Cell {
	cells := make([]sheet.Cell, 3)
	if c == nil {
		return cells
	}
	tone := comparedTone(c)
	cells[0] = sheet.Cell{Text: c.Change, Tone: tone}
	if c.Ratio != 0 {
		cells[1] = sheet.Cell{Text: c.Interval(), Tone: tone}
		cells[2] = sheet.Cell{Text: c.Word(), Tone: tone}
	}
	return cells
}

func comparedTone(c *report.BenchComparison) sheet.Tone {
	switch {
	case c.Better():
		return sheet.Good
	case c.Worse():
		return sheet.Bad
	}
	return sheet.Plain
}

// runsListed is how many errors a page lists; the document in it has them all.
const runsListed = 20

// benchRuns lists the runs of which something is to be said.
func benchRuns(d *report.Bench, say func(r lab.Run) string) (texts sheet.Listed) {
	more := 0
	for _, r := range d.Runs {
		text := say(r)
		switch {
		case text == "":
		case len(texts) == runsListed:
			more++
		default:
			texts = append(texts, fmt.Sprintf("block %d, %s: %s", r.Block, benchSetting(d, r.Setting), text))
		}
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return texts
}

func benchSetting(d *report.Bench, i int) string {
	if i < 0 || i >= len(d.Plan.Settings) {
		return "unknown setting"
	}
	return d.Plan.Name(d.Plan.Settings[i])
}

func benchEnvironment(d *report.Bench) (facts sheet.Facts) {
	e := d.Environment
	facts.Add("limit", append([]string{e.LimitKind}, e.Notes...)...)
	facts.Add("system", e.OS+"/"+e.Arch)
	facts.Add("kernel", e.Kernel)
	facts.Add("CPU", e.CPU, quantity.CPUs(float64(e.CPUs))+" may be used")
	if e.Memory > 0 {
		facts.Add("memory", quantity.Bytes(e.Memory))
	}
	facts.Add("Go", e.Go)
	facts.Add("made by", d.MadeBy)
	return facts
}

func benchPlan(d *report.Bench) (facts sheet.Facts) {
	p := d.Plan
	blocks := fmt.Sprintf("%d complete", d.Blocks)
	if p.Blocks > 0 {
		blocks = fmt.Sprintf("%d of %d complete", d.Blocks, p.Blocks)
	}
	facts.Add("blocks", blocks+"; each runs every setting once, in random order")
	if p.Budget > 0 {
		facts.Add("budget", quantity.Lasting(time.Duration(p.Budget).Seconds()))
	}
	facts.Add("seed", strconv.FormatUint(p.Seed, 10))
	facts.Add("margin", quantity.Share(p.Margin)+"; a smaller difference is not worth while")
	facts.Add("compared by", factorName(p.Compare))
	names := make([]string, len(p.Settings))
	for i := range p.Settings {
		names[i] = benchSetting(d, i)
	}
	facts.Add("settings", names...)
	facts.Add("made at", d.Time)
	facts.Add("runs took", quantity.Lasting(d.Seconds))
	return facts
}

// benchstatColumn is what benchstat has the settings of a group in, see report.BenchGo.
func benchstatColumn(f lab.Factor) string {
	switch f {
	case lab.ByProcs:
		return "/gomaxprocs"
	case lab.ByCPUs:
		return "/limit"
	case lab.ByGo:
		return "/go"
	case lab.ByWorkload:
		return ".name"
	}
	return ".fullname"
}

// BenchClassic shows the old style's table: a line for each workload and GOMAXPROCS, a column for each Go version, and in
// each cell the mean, and minimum and maximum as ratios to it.
func BenchClassic(d *report.Bench) *sheet.Sheet {
	s := &sheet.Sheet{Verb: "bench", Subject: benchSubject(d), Document: d}
	for _, limit := range factorValues(d, lab.ByCPUs) {
		title := "limit " + limit
		if limit == "none" {
			title = "no limit"
		}
		s.Add(sheet.Section{Title: title, Quiet: true, Blocks: []sheet.Block{classicTable(d, limit, title)}})
	}
	return s
}

// factorValues lists what the plan's settings have of a factor, each once.
func factorValues(d *report.Bench, f lab.Factor) (values []string) {
	for _, s := range d.Plan.Settings {
		if v := s.Value(f); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values
}

func classicTable(d *report.Bench, limit, title string) *sheet.Table {
	t := &sheet.Table{Columns: []sheet.Column{{Title: title, Left: true}}}
	goes := factorValues(d, lab.ByGo)
	for _, version := range goes {
		if version == "" && len(goes) == 1 {
			version = d.Environment.Go
		}
		t.Columns = append(t.Columns, sheet.Column{Title: version, Left: true})
	}
	for _, work := range factorValues(d, lab.ByWorkload) {
		for _, procs := range factorValues(d, lab.ByProcs) {
			row := sheet.Row{Cells: []sheet.Cell{{Text: classicName(work, procs)}}}
			for _, version := range goes {
				row.Cells = append(row.Cells, sheet.Cell{Text: classicCell(d, work, version, limit, procs)})
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// classicName is Chain for one P and Chain-2 for two, as Go benchmarks have it.
func classicName(work, procs string) string {
	first := min(1, len(work))
	name := strings.ToUpper(work[:first]) + work[first:]
	if procs == "1" {
		return name
	}
	return name + "-" + procs
}

func classicCell(d *report.Bench, work, version, limit, procs string) string {
	for _, g := range d.Groups {
		for _, row := range g.Settings {
			s := d.Plan.Settings[row.Setting]
			if s.Workload != work || s.Go != version || s.Value(lab.ByCPUs) != limit || s.Value(lab.ByProcs) != procs {
				continue
			}
			m, ok := row.Metrics[g.Figure.Unit]
			if !ok || m.Mean == 0 {
				return dash
			}
			return fmt.Sprintf("%s × (%.2f, %.2f)", classicMean(g.Figure.Unit, m.Mean), m.Min/m.Mean, m.Max/m.Mean)
		}
	}
	return ""
}

func classicMean(metric string, mean float64) string {
	unit := quantity.UnitOf(metric)
	if unit == quantity.Rate {
		return unit.Text(mean) + "/s"
	}
	return unit.Text(mean)
}
