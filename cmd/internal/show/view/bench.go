package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// Bench shows what settings cost: what is claimed of each group of settings, and then a table of each.
func Bench(d *report.Bench) *sheet.Sheet {
	s := &sheet.Sheet{
		Verb: "bench", Subject: benchSubject(d), Warnings: d.Warnings,
		Resume: d.Resume, Command: report.ShellWords(d.Plan.Command), Document: d,
	}
	if text := d.Unfinished(); text != "" {
		s.Warnings = append([]string{text}, d.Warnings...)
	}
	builds := d.Plan.Compare == lab.ByBuild
	all := benchChanges(d)
	s.Add(quiet("All benchmarks", all))
	for i := range d.Groups {
		g, anchor := &d.Groups[i], "group-"+strconv.Itoa(i+1)
		s.Claims = append(s.Claims, sheet.Claim{
			Word: g.Word(), Tone: cmp.Or(tones[string(g.Claim)], sheet.Unsure), Whole: true,
			Text: g.Advice, Alone: when(len(d.Groups) > 1, g.Verdict), More: g.Also, Of: g.Name, Anchor: anchor,
		})
		blocks := []sheet.Block{
			sheet.Detail{Block: benchDots(d, g, i == 0)}, sheet.Detail{Block: benchCosts(d, g)}, benchTable(d, g), benchActivity(d, g),
		}
		s.Add(sheet.Section{
			Title: joined(", ", g.Name, d.LoadText(g)), Anchor: anchor, About: benchFigure(g.Figure), Blocks: blocks,
			Detail: all != nil, // a terminal has all of them in one table
		})
		if builds {
			continue
		}
		s.Add(sheet.Section{Title: frontTitle + when(len(d.Groups) > 1, ": "+g.Name), Blocks: []sheet.Block{benchFront(d, g)}})
	}
	if builds {
		s.Claims = benchChanged(d, s.Claims)
	}
	s.Add(detail("Runs that failed", benchRuns(d, func(r lab.Run) string { return r.Error })))
	marks := func(of func(lab.Run) []string) sheet.Listed {
		return benchRuns(d, func(r lab.Run) string { return strings.Join(of(r), ", ") })
	}
	s.Add(folded("Runs under another load than was asked for", marks(report.LoadMarks)))
	s.Add(folded("Runs while the host did something else", marks(report.HostMarks)))
	s.Add(detail("Environment", benchEnvironment(d)))
	s.Add(detail("Plan", benchPlan(d)))
	s.Add(detail("With benchstat", sheet.Commands{{About: "Its comparisons are not paired and so see less:", Lines: []string{
		"unthrottle report --format bench -o bench.txt bench.json",
		"benchstat -col " + cmp.Or(factors[d.Plan.Compare].column, ".fullname") + " -ignore /block bench.txt",
	}}}))
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

// benchFigure says what settings are compared by.
func benchFigure(m lab.Metric) string {
	text := m.Unit
	if m.About != "" {
		text = m.About + " (" + m.Unit + ")"
	}
	return text + around(", ", m.Better, " is better")
}

// factors are what settings may differ in: the title of each, and the column where benchstat has it, see report.BenchGo.
var factors = map[lab.Factor]struct{ title, column string }{
	lab.ByBuild: {"build", "/build"}, lab.ByProcs: {"GOMAXPROCS", "/gomaxprocs"}, lab.ByCPUs: {"limit", "/limit"}, lab.ByGo: {"Go", "/go"}, lab.ByWorkload: {"", ".name"},
}

func factorName(f lab.Factor) string { return cmp.Or(factors[f].title, string(f)) }

// benchTable has a row for each setting of a group.
func benchTable(d *report.Bench, g *report.BenchGroup) *sheet.Table {
	if len(g.Settings) == 0 {
		return nil
	}
	t := &sheet.Table{}
	for range g.Settings {
		t.Rows = append(t.Rows, sheet.Row{})
	}
	add := func(c sheet.Column, cell func(s report.BenchRow) sheet.Cell) {
		t.Columns = append(t.Columns, c)
		for i, s := range g.Settings {
			t.Rows[i].Cells = append(t.Rows[i].Cells, cell(s))
		}
	}
	text := func(c sheet.Column, of func(s report.BenchRow) string) {
		add(c, func(s report.BenchRow) sheet.Cell { return sheet.Cell{Text: of(s)} })
	}
	median := func(c sheet.Column, of string) {
		text(c, func(s report.BenchRow) string {
			m, ok := s.Metrics[of]
			return when(ok, quantity.UnitOf(of).Text(m.Median))
		})
	}
	unit := quantity.UnitOf(g.Figure.Unit)
	figure := func(c sheet.Column, of func(m report.BenchSummary) string) {
		text(c, func(s report.BenchRow) string {
			m, ok := s.Metrics[g.Figure.Unit]
			return when(ok, of(m))
		})
	}

	text(sheet.Column{Title: factorName(d.Plan.Compare), Left: true}, func(s report.BenchRow) string { return s.Name })
	title, base := "median", g.Settings[0].Name
	if g.Cost != nil {
		title = cmp.Or(when(g.TailNote() != "", "tail"), report.ShortName(g.Figure))
	}
	text(sheet.Column{Title: title}, func(s report.BenchRow) string {
		m, ok := s.Metrics[g.Figure.Unit]
		return cmp.Or(when(ok, unit.Text(m.Median)), "no figures")
	})
	figure(sheet.Column{Title: "95 % interval", Rank: 4}, func(m report.BenchSummary) string {
		return when(m.Confidence > 0, unit.Text(m.Low)+" … "+unit.Text(m.High))
	})
	versus := func(of func(s report.BenchRow) *report.BenchComparison, columns ...sheet.Column) {
		for i, c := range columns {
			add(c, func(s report.BenchRow) sheet.Cell { return benchVersus(of(s), i) })
		}
	}
	byFigure := func(s report.BenchRow) *report.BenchComparison { return s.Versus }
	if g.Cost == nil {
		versus(byFigure, sheet.Column{Title: "vs. " + base, Short: "vs.", Left: true},
			sheet.Column{Title: "95 % interval", Left: true, Rank: 1}, sheet.Column{Left: true})
	} else {
		change := report.ShortName(g.Figure) + " change"
		if d.Plan.Served != nil && g.Figure.Unit != string(lab.P99) {
			median(sheet.Column{Title: "p99", Rank: 1}, string(lab.P99))
		}
		versus(byFigure, sheet.Column{Title: change}, sheet.Column{Title: "interval", With: change, Rank: 2})
		median(sheet.Column{Title: g.Cost.About, Short: "CPU"}, g.Cost.Unit)
		versus(func(s report.BenchRow) *report.BenchComparison { return s.CostVersus },
			sheet.Column{Title: "CPU change"}, sheet.Column{Title: "interval", With: "CPU change", Rank: 3})
	}
	for _, m := range lab.Measures {
		if of := string(m.Measure); m.BenchRank > 0 && of != g.Figure.Unit {
			median(sheet.Column{Title: m.Title, Rank: m.BenchRank}, of)
		}
	}
	figure(sheet.Column{Title: "mean", Detail: true}, func(m report.BenchSummary) string { return unit.Text(m.Mean) })
	figure(sheet.Column{Title: "min", Detail: true}, func(m report.BenchSummary) string { return unit.Text(m.Min) })
	figure(sheet.Column{Title: "max", Detail: true}, func(m report.BenchSummary) string { return unit.Text(m.Max) })
	text(sheet.Column{Title: "runs", Detail: true}, func(s report.BenchRow) string {
		return strconv.Itoa(s.Runs) + when(s.Failed > 0, fmt.Sprintf(", %d failed", s.Failed))
	})
	if note := g.TailNote(); note != "" {
		t.Notes = []sheet.Note{{Text: note}}
	}
	return t
}

// benchVersus is one of the cells that compare a setting with the base: the change, its interval, and what follows.
func benchVersus(c *report.BenchComparison, part int) sheet.Cell {
	if c == nil || c.Ratio == 0 && part > 0 {
		return sheet.Cell{}
	}
	return sheet.Cell{Text: []string{c.Change, c.Interval(), c.Word()}[part], Tone: tones[string(c.Verdict)]}
}

// benchFront are the settings to choose from, with what each costs and gives compared with the base.
func benchFront(d *report.Bench, g *report.BenchGroup) *sheet.Table {
	var rows []frontRow
	for _, s := range g.Front() {
		row := frontRow{Row: sheet.Row{Cells: []sheet.Cell{{Text: s.Name}}}, take: d.Take(g, s)}
		row.Best = g.Best != nil && *g.Best < len(g.Settings) && g.Settings[*g.Best].Setting == s.Setting
		for _, c := range []*report.BenchComparison{s.CostVersus, s.Versus} {
			row.changes = append(row.changes, benchVersus(c, 0), benchVersus(c, 1))
		}
		rows = append(rows, row)
	}
	return frontTable(factorName(d.Plan.Compare), report.MetricName(g.Figure), rows)
}

// runsListed is how many errors a page lists; the document in it has them all.
const runsListed = 20

// benchRuns lists the runs that say has a text for.
func benchRuns(d *report.Bench, say func(r lab.Run) string) (texts sheet.Listed) {
	for _, r := range d.Runs {
		if text := say(r); text != "" {
			texts = append(texts, fmt.Sprintf("block %d, %s: %s", r.Block, benchSetting(d, r.Setting), text))
		}
	}
	if more := len(texts) - runsListed; more > 0 {
		texts = append(texts[:runsListed], fmt.Sprintf("and %d more", more))
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
	facts.Add("memory", when(e.Memory > 0, quantity.Bytes(e.Memory)))
	facts.Add("Go", e.Go)
	facts.Add("made by", d.MadeBy)
	return facts
}

func benchPlan(d *report.Bench) (facts sheet.Facts) {
	p := d.Plan
	blocks := strconv.Itoa(d.Blocks) + when(p.Blocks > 0, " of "+strconv.Itoa(p.Blocks))
	facts.Add("blocks", blocks+" complete; each runs every setting once, in random order")
	facts.Add("at once", benchAtOnce(d))
	facts.Add("budget", when(p.Budget > 0, quantity.Lasting(time.Duration(p.Budget).Seconds())))
	facts.Add("seed", strconv.FormatUint(p.Seed, 10))
	switch l := p.Served; {
	case l == nil:
	case l.By != "":
		facts.Add("load", joined(", ", l.By, l.Units))
	case l.Units != "":
		facts.Add("load", "what comes by itself, as "+l.Units+" counts it, windows of "+quantity.Lasting(time.Duration(l.Window).Seconds()))
	default:
		window, warm := time.Duration(l.Window).Seconds(), time.Duration(l.WarmUp).Seconds()
		arrive := "Poisson arrivals"
		if l.Times != "" {
			arrive = "recorded arrivals of " + l.Times
		}
		facts.Add("load", joined(", ", report.RateText(l)+when(l.From > 0, " in each window"), arrive, bursts(l.Burst))+", windows of "+quantity.Lasting(window)+
			when(warm > 0, " after "+quantity.Lasting(warm)+" of warm-up"), l.URL)
	}
	tail := when(p.Tail > 0, ", of response times "+quantity.Share(p.Tail))
	facts.Add("margin", quantity.Share(p.Margin)+tail+"; smaller differences are ignored")
	facts.Add("compared by", factorName(p.Compare))
	var builds []string
	for _, b := range p.Builds {
		builds = append(builds, joined(", ", b.Name, b.Go, around("commit ", b.Commit, ""), strings.Join(b.Flags, " ")))
	}
	facts.Add("builds", builds...)
	names := make([]string, len(p.Settings))
	for i := range p.Settings {
		names[i] = benchSetting(d, i)
	}
	facts.Add("settings", names...)
	facts.Add("made at", d.Time)
	facts.Add("runs took", quantity.Lasting(d.Seconds))
	return facts
}

// benchAtOnce says how much was made at the same time, and why not more.
func benchAtOnce(d *report.Bench) string {
	runs, why, groups := d.AtOnce()
	text := when(runs > 0, quantity.Plural(int64(runs), "run")+": those of a block that are compared with each other ran at the same time")
	switch {
	case why == "":
	case groups > 1:
		why = fmt.Sprintf("%s of %s in turn, the first as %s", quantity.Count(groups), quantity.Plural(len(d.Groups), "comparison"), why)
	case runs > 0:
		why = "then in turn, as " + why
	default:
		why = "nothing, as " + why
	}
	return joined("; ", text, why)
}

// BenchClassic shows the old style's table: a line for each workload and GOMAXPROCS, a column for each Go version, and in
// each cell the mean, and minimum and maximum as ratios to it.
func BenchClassic(d *report.Bench) *sheet.Sheet {
	s := &sheet.Sheet{Verb: "bench", Subject: benchSubject(d), Document: d}
	for _, limit := range factorValues(d, lab.ByCPUs) {
		title := cmp.Or(when(limit == "none", "no limit"), "limit "+limit)
		s.Add(quiet(title, classicTable(d, limit, title)))
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
			texts := []string{classicName(work, procs)}
			for _, version := range goes {
				texts = append(texts, classicCell(d, work, version, limit, procs))
			}
			t.Add(texts...)
		}
	}
	return t
}

// classicName is Chain for one P and Chain-2 for two, as Go benchmarks have it.
func classicName(work, procs string) string {
	first := min(1, len(work))
	return strings.ToUpper(work[:first]) + work[first:] + when(procs != "1", "-"+procs)
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
			unit := quantity.UnitOf(g.Figure.Unit)
			return fmt.Sprintf("%s%s × (%.2f, %.2f)", unit.Text(m.Mean), when(unit == quantity.Rate, "/s"), m.Min/m.Mean, m.Max/m.Mean)
		}
	}
	return ""
}
