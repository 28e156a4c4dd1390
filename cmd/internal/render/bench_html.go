package render

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sample"
)

//go:embed bench.html
var benchHTML string

// BenchHTML writes the document of bench as a page: one file, which loads nothing, runs no script, and holds the
// document itself.
//
// The drawings are made so that their text keeps its size on a phone: places along an axis are shares of the width, in
// percent, and only heights are in pixels. So nothing needs to be scaled, and no script needs to know the width.
func BenchHTML(w io.Writer, b *report.Bench) error {
	document, err := json.Marshal(b) // escapes <, > and &, so that no text ends the element it is in
	if err != nil {
		return fmt.Errorf("writing the document into its page: %w", err)
	}
	page, err := parsePage("bench.html", benchHTML)
	if err != nil {
		return err
	}
	return page.Execute(w, newBenchPage(printableBench(b), document))
}

// benchPage is what the template shows.
type benchPage struct {
	Style          template.CSS
	Title, Summary string
	Verdicts       []htmlVerdict
	Small          bool // there are too many verdicts for large letters
	Unfinished     string
	Resume         string
	Warnings       []string
	Groups         []htmlGroup
	Lists          []htmlList
	Facts          [2]htmlFacts
	Command        string
	Commands       []htmlCommand
	Document       template.JS
}

type htmlVerdict struct {
	Anchor, Group, Text string
	Class, Claim        string
}

type htmlFacts struct {
	Title string
	Facts []htmlFact
}

type htmlFact struct {
	Name  string
	Texts []string
}

type htmlList struct {
	Title string
	Texts []string
}

type htmlCommand struct{ Text, Lines string }

type htmlGroup struct {
	Anchor, Name string
	Figure       string
	Better       string
	Head         []htmlCell
	Rows         [][]htmlCell
	Chart        *htmlChart
	Activity     *htmlActivity
}

// An htmlCell is a cell of a table.
type htmlCell struct{ Text, Class string }

// runsListed is how many errors the page lists; the document in it has them all.
const runsListed = 20

func newBenchPage(b *report.Bench, document []byte) benchPage {
	p := benchPage{
		Style: pageStyle(), Title: "unthrottle bench", Warnings: b.Warnings, Command: report.ShellWords(b.Plan.Command),
		Small: len(b.Groups) > 2, Document: template.JS(document), Facts: [2]htmlFacts{environmentFacts(b), planFacts(b)},
	}
	p.Summary = fmt.Sprintf("%s, %s, %s of runs", plural(int64(len(b.Plan.Settings)), "setting"), plural(int64(b.Blocks), "block"), minutes(b.Duration()))
	if len(b.Groups) == 1 {
		p.Title += ": " + b.Groups[0].Name
	}
	if !b.Finished {
		p.Unfinished = fmt.Sprintf("Not finished: %d of %s are complete.", b.Blocks, plural(int64(b.Plan.Blocks), "block"))
		p.Resume = printable(b.Resume)
	}
	for i := range b.Groups {
		anchor := "group-" + strconv.Itoa(i+1)
		p.Verdicts = append(p.Verdicts, newHTMLVerdict(&b.Groups[i], anchor))
		p.Groups = append(p.Groups, newHTMLGroup(b, &b.Groups[i], anchor))
	}
	if len(p.Groups) > 0 && p.Groups[0].Chart != nil {
		p.Groups[0].Chart.First = true
	}
	p.Lists = []htmlList{
		{"Runs that failed", runList(b, func(r lab.Run) string { return r.Error })},
		{"Runs while the host did something else", runList(b, func(r lab.Run) string { return strings.Join(r.Marks, ", ") })},
	}
	p.Commands = []htmlCommand{
		documentCommand("bench"),
		{"For benchstat, whose comparisons are not paired and so see less:", benchstatCommands(b.Plan.Compare)},
	}
	return p
}

// benchstatCommands is how the runs are compared by benchstat, see BenchGo.
func benchstatCommands(f lab.Factor) string {
	column := map[lab.Factor]string{lab.ByProcs: "/gomaxprocs", lab.ByCPUs: "/limit", lab.ByGo: "/go", lab.ByWorkload: ".name"}[f]
	if column == "" {
		column = ".fullname"
	}
	return "unthrottle report --format bench -o bench.txt bench.json\nbenchstat -col " + column + " -ignore /block bench.txt"
}

func newHTMLVerdict(g *report.BenchGroup, anchor string) htmlVerdict {
	v := htmlVerdict{Anchor: anchor, Group: g.Name, Text: tight(printable(g.Advice))}
	v.Class, v.Claim = "unsure", printable(string(g.Claim))
	switch g.Claim {
	case lab.Set, lab.Keep:
		v.Class = "sure"
	case lab.TooFew:
		v.Claim = "too few blocks"
	case lab.Alone:
		v.Claim = "nothing to compare"
	case lab.Failed:
		v.Class = "failed"
	}
	return v
}

// tight keeps percent signs on the line of their numbers.
func tight(text string) string { return strings.ReplaceAll(text, " %", "\u00a0%") }

func upperFirst(text string) string {
	for i, r := range text {
		return string(unicode.ToUpper(r)) + text[i+len(string(r)):]
	}
	return text
}

func newHTMLGroup(b *report.Bench, g *report.BenchGroup, anchor string) htmlGroup {
	out := htmlGroup{Anchor: anchor, Name: g.Name, Figure: printable(figureText(g.Figure))}
	if g.Figure.Better != "" {
		out.Better = printable(g.Figure.Better) + " is better"
	}
	if len(g.Settings) == 0 {
		return out
	}
	out.Head, out.Rows = htmlTable(b, g)
	out.Chart = newHTMLChart(b, g)
	out.Activity = newHTMLActivity(b, g)
	return out
}

// htmlTable is the table of benchGroup, and mean, minimum and maximum.
func htmlTable(b *report.Bench, g *report.BenchGroup) (head []htmlCell, rows [][]htmlCell) {
	left := func(text string) htmlCell { return htmlCell{printable(text), "left"} }
	right := func(text string) htmlCell { return htmlCell{printable(text), ""} }
	shown := besides(b, g)
	head = []htmlCell{
		left(factorTitle(b.Plan.Compare)), right("median"), right("95 % interval"), left("vs. " + g.Settings[0].Name),
	}
	for _, m := range shown {
		head = append(head, right(benchTitle(m)))
	}
	head = append(head, right("mean"), right("min"), right("max"), right("runs"))
	for _, s := range g.Settings {
		m, ok := s.Metrics[g.Figure.Unit]
		value := func(v float64) htmlCell {
			if !ok {
				return htmlCell{}
			}
			return right(metric(g.Figure.Unit, v))
		}
		vs := htmlCell{tight(printable(versus(s.Versus))), "left versus" + verdictClass(s.Versus)}
		row := []htmlCell{left(s.Name), value(m.Median), right(interval(g.Figure.Unit, m)), vs}
		if !ok {
			row[1] = right("no figures")
		}
		for _, other := range shown {
			text := ""
			if m, ok := s.Metrics[other.Unit]; ok {
				text = metric(other.Unit, m.Median)
			}
			row = append(row, right(text))
		}
		runs := strconv.Itoa(s.Runs)
		if s.Failed > 0 {
			runs += fmt.Sprintf(", %d failed", s.Failed)
		}
		row = append(row, value(m.Mean), value(m.Min), value(m.Max), right(runs))
		rows = append(rows, row)
	}
	if len(g.Settings) == 1 { // there is nothing that it is compared with
		head, rows[0] = slices.Delete(head, 3, 4), slices.Delete(rows[0], 3, 4)
	}
	return head, rows
}

func verdictClass(c *report.BenchComparison) string {
	if c == nil {
		return ""
	}
	switch c.Verdict {
	case sample.VerdictBetter:
		return " better"
	case sample.VerdictWorse:
		return " worse"
	}
	return ""
}

// runList lists the runs of which something is to be said.
func runList(b *report.Bench, say func(r lab.Run) string) (texts []string) {
	more := 0
	for _, r := range b.Runs {
		text := say(r)
		switch {
		case text == "":
		case len(texts) == runsListed:
			more++
		default:
			texts = append(texts, fmt.Sprintf("block %d, %s: %s", r.Block, settingName(b, r.Setting), printable(text)))
		}
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return texts
}

func settingName(b *report.Bench, i int) string {
	if i < 0 || i >= len(b.Plan.Settings) {
		return "unknown setting"
	}
	return printable(b.Plan.Name(b.Plan.Settings[i]))
}

func environmentFacts(b *report.Bench) htmlFacts {
	e := b.Environment
	f := htmlFacts{Title: "Environment"}
	f.add("limit", append([]string{e.LimitKind}, e.Notes...)...)
	f.add("system", e.OS+"/"+e.Arch)
	f.add("kernel", e.Kernel)
	f.add("CPU", e.CPU, cpus(float64(e.CPUs))+" may be used")
	if e.Memory > 0 {
		f.add("memory", bytes(e.Memory))
	}
	f.add("Go", e.Go)
	f.add("made by", b.MadeBy)
	return f
}

func planFacts(b *report.Bench) htmlFacts {
	p := b.Plan
	f := htmlFacts{Title: "Plan"}
	blocks := fmt.Sprintf("%d complete", b.Blocks)
	if p.Blocks > 0 {
		blocks = fmt.Sprintf("%d of %d complete", b.Blocks, p.Blocks)
	}
	f.add("blocks", blocks+"; each runs every setting once, in random order")
	if p.Budget > 0 {
		f.add("budget", minutes(time.Duration(p.Budget)))
	}
	f.add("seed", strconv.FormatUint(p.Seed, 10))
	f.add("margin", percent(p.Margin)+"; a smaller difference is not worth while")
	f.add("compared by", factorTitle(p.Compare))
	names := make([]string, len(p.Settings))
	for i := range p.Settings {
		names[i] = settingName(b, i)
	}
	f.add("settings", names...)
	f.add("made at", b.Time)
	f.add("runs took", minutes(b.Duration()))
	return f
}

// minutes prints a time that people wait for.
func minutes(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d < 100*time.Second:
		return seconds(d.Seconds())
	case d < 100*time.Minute:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
}

// add adds a fact unless nothing is known of it.
func (f *htmlFacts) add(name string, texts ...string) {
	fact := htmlFact{Name: name}
	for _, text := range texts {
		if text != "" {
			fact.Texts = append(fact.Texts, printable(text))
		}
	}
	if len(fact.Texts) > 0 {
		f.Facts = append(f.Facts, fact)
	}
}

// An htmlChart is the drawing of a group's runs: a row for each setting, a dot for each run. Beside it are the shares of
// throttled periods.
type htmlChart struct {
	Label                    string // for those who don't see it
	Factor                   string
	Height                   int
	RowHeight                int
	Radius                   int  // of a dot
	Bottom                   bool // the axis is repeated below the rows
	RowsEnd, BottomText      int
	Tall                     int // height of a row's interval
	Ticks                    []htmlTick
	Rows                     []htmlRow
	Blocks                   []htmlBlock
	BaseAt                   string // where the base's median is
	BaseName                 string
	Notes                    []string
	Throttled, ThrottledNote string // heading of the bars, "": there are none; and what they are

	// What occurs, and so is to be explained.
	Several, Lines, Intervals, Outliers, Marked bool
	First                                       bool // the first chart explains them all
}

type htmlRow struct {
	Name, Median  string
	Verdict       string
	VerdictClass  string
	Class         string // base or other
	Tag           string
	Failed        string
	GridRow       int
	Start         int // of the row
	Top, Bottom   int // of its interval
	Text          int
	At            string
	From, Width   string // of the interval
	None          string
	Share, ShareW string
}

type htmlBlock struct {
	Name string
	Line string // points: across in percent, down in pixels
	Dots []htmlDot
}

type htmlDot struct {
	X, Y  string
	Class string // base, open
	Shape string // id of the shape; "": a circle
	Text  string
}

// Heights in the drawing, in pixels. The template has axisHeight too.
const (
	axisHeight = 26
	rowHeight  = 72
	rowMargin  = 10 // above and below a row's dots
)

// linesMost is up to how many blocks lines are drawn: more of them are a grey mass, and a large file.
const linesMost = 200

func newHTMLChart(b *report.Bench, g *report.BenchGroup) *htmlChart {
	points := figurePoints(b, g)
	c := &htmlChart{Factor: printable(factorTitle(b.Plan.Compare)), BaseName: printable(g.Settings[0].Name), RowHeight: rowHeight}
	blocks := blockNumbers(points)
	switch n := len(blocks); { // not so much that it doesn't fit on a sheet of paper
	case len(g.Settings) > 12:
		c.RowHeight -= 12
	case len(g.Settings) <= 8 && n > 12:
		c.RowHeight += min(n-12, 48) * 2 / 3
	}
	if slices.ContainsFunc(g.Settings, func(s report.BenchRow) bool { return s.Failed > 0 && s.Runs > 0 }) {
		c.RowHeight += 16
	}
	low, high := 0.0, 0.0
	for i, p := range points {
		if i == 0 {
			low, high = p.value, p.value
		}
		low, high = min(low, p.value), max(high, p.value)
	}
	x := newAxis(g.Figure.Unit, low, high)
	if len(points) > 0 {
		c.Ticks = x.ticks()
		c.Notes = x.notes()
	}
	c.Tall = c.RowHeight - rowMargin
	c.rows(b, g, x)
	c.Several = len(blocks) > 1
	c.Radius = 4
	if len(blocks) > 20 {
		c.Radius = 3
	}
	c.Lines = len(g.Settings) > 1 && len(blocks) <= linesMost
	if len(blocks) > linesMost {
		c.Notes = append(c.Notes, "There are too many blocks for lines that join their runs.")
	}
	c.dots(points, blocks, x)
	c.Bottom = len(c.Rows) > 6
	c.RowsEnd = axisHeight + len(c.Rows)*c.RowHeight
	c.Height, c.BottomText = c.RowsEnd, c.RowsEnd+18
	if c.Bottom {
		c.Height += axisHeight
	}
	c.Label = chartLabel(c, g)
	return c
}

func chartLabel(c *htmlChart, g *report.BenchGroup) string {
	text := fmt.Sprintf("%s by %s, a dot for each run. Medians:", printable(figureText(g.Figure)), c.Factor)
	for i, r := range c.Rows {
		if i > 0 {
			text += ","
		}
		text += " " + r.Name + ": " + r.Median
	}
	return text + ". " + printable(g.Verdict)
}

// A point is a run that has a figure.
type point struct {
	block, row int
	value      float64
	outlier    bool
	marks      []string
}

// figurePoints lists the runs of a group that have a figure, in the order of the document.
func figurePoints(b *report.Bench, g *report.BenchGroup) (points []point) {
	for i, s := range g.Settings {
		outliers := s.Metrics[g.Figure.Unit].Outliers
		n := 0 // number among the setting's runs that have the figure, which is what outliers are told by
		for _, r := range b.Runs {
			v, ok := r.Metrics[g.Figure.Unit]
			if r.Setting != s.Setting || r.Error != "" || !ok {
				continue
			}
			points = append(points, point{r.Block, i, v, slices.Contains(outliers, n), r.Marks})
			n++
		}
	}
	return points
}

func blockNumbers(points []point) (blocks []int) {
	for _, p := range points {
		blocks = append(blocks, p.block)
	}
	slices.Sort(blocks)
	return slices.Compact(blocks)
}

// rows makes what is said of each setting: its label, median and interval, and the bar beside it.
func (c *htmlChart) rows(b *report.Bench, g *report.BenchGroup, x axis) {
	unit := string(lab.ThrottledShare)
	hasShare := func(s report.BenchRow) bool { _, ok := s.Metrics[unit]; return ok }
	if unit != g.Figure.Unit && slices.ContainsFunc(g.Settings, hasShare) {
		c.Throttled = benchTitle(lab.Metric{Unit: unit})
		for _, m := range b.Metrics {
			if m.Unit == unit {
				c.ThrottledNote = printable(m.About)
			}
		}
	}
	for i, s := range g.Settings {
		start := axisHeight + i*c.RowHeight
		r := htmlRow{
			Name: printable(s.Name), Class: "other", GridRow: i + 2, Start: start, Top: start + rowMargin/2,
			Bottom: start + rowMargin/2 + c.Tall, Text: start + c.RowHeight/2 + 4, Median: "no figures",
		}
		if i == 0 && len(g.Settings) > 1 {
			r.Class, r.Verdict = "base", "the base"
		}
		if g.Best != nil && *g.Best == i && g.Claim == lab.Set {
			r.Tag = "best"
		}
		if s.Versus != nil {
			r.Verdict, r.VerdictClass = tight(printable(s.Versus.Change))+", "+printable(string(s.Versus.Verdict)), verdictClass(s.Versus)
		}
		if m, ok := s.Metrics[g.Figure.Unit]; ok && m.N > 0 {
			r.Median, r.At = metric(g.Figure.Unit, m.Median), x.at(m.Median)
			if m.Confidence > 0 {
				r.From, r.Width = x.at(m.Low), inPercent(x.share(m.High)-x.share(m.Low))
				c.Intervals = true
			}
			if i == 0 && len(g.Settings) > 1 {
				c.BaseAt = r.At
			}
			if s.Failed > 0 {
				r.Failed = fmt.Sprintf("%d of %d failed", s.Failed, s.Failed+s.Runs)
			}
		} else {
			r.None = "no figures"
			if s.Failed > 0 {
				r.None = plural(int64(s.Failed), "run") + " failed"
			}
		}
		if m, ok := s.Metrics[unit]; ok && c.Throttled != "" {
			r.Share, r.ShareW = metric(unit, m.Median), inPercent(max(0, min(100, m.Median)))
		}
		c.Rows = append(c.Rows, r)
	}
}

// dots makes the dots, and the lines between those of a block. Within a row the first block is on top.
func (c *htmlChart) dots(points []point, blocks []int, x axis) {
	for k, number := range blocks {
		block := htmlBlock{Name: "block " + strconv.Itoa(number)}
		offset := float64(c.RowHeight) / 2
		if n := len(blocks); n > 1 {
			offset = rowMargin + float64(c.RowHeight-2*rowMargin)*float64(k)/float64(n-1)
		}
		var line []string
		for _, p := range points {
			if p.block != number {
				continue
			}
			dot := htmlDot{
				X: x.at(p.value), Y: pixels(float64(c.Rows[p.row].Start) + offset), Text: block.Name + ": " + metric(x.unit, p.value),
			}
			if c.Rows[p.row].Class == "base" {
				dot.Class = "base"
			}
			c.shape(&dot, p)
			line = append(line, strings.TrimSuffix(dot.X, "%")+","+dot.Y)
			block.Dots = append(block.Dots, dot)
		}
		if c.Lines && len(line) > 1 {
			block.Line = strings.Join(line, " ")
		}
		c.Blocks = append(c.Blocks, block)
	}
}

// shape gives runs another shape that something is to be said of.
func (c *htmlChart) shape(dot *htmlDot, p point) {
	if p.outlier {
		dot.Shape = "far"
		dot.Class = strings.TrimSpace(dot.Class + " open")
		dot.Text += ", far from the others"
		c.Outliers = true
	}
	if len(p.marks) > 0 {
		dot.Shape = "marked"
		dot.Text += ", " + printable(strings.Join(p.marks, ", "))
		c.Marked = true
	}
}

// An htmlActivity shows when programs ran and stood still.
type htmlActivity struct {
	Label  string
	Height int
	Width  int64 // of the window, in µs
	Ticks  []htmlTick
	Strips []htmlStrip
}

type htmlStrip struct {
	Name, About         string
	Text                string
	GridRow, Start, Top int
	Length              string // of what was seen
	Path                string // in µs across, 1 high
}

// Activity: a window of at most a second, for in more the single periods can't be seen on a phone.
const (
	windowMost  = 1_000_000 // µs
	markEach    = 100_000   // µs: the usual period
	stripHeight = 56
	stripMargin = 12
)

// newHTMLActivity draws the last run of each setting that has an activity; nil if none has.
func newHTMLActivity(b *report.Bench, g *report.BenchGroup) *htmlActivity {
	a := &htmlActivity{}
	var runs []*lab.Run
	for _, s := range g.Settings {
		var last *lab.Run
		for i := range b.Runs {
			if r := &b.Runs[i]; r.Setting == s.Setting && len(r.Activity) > 0 {
				last = r
			}
		}
		if last != nil {
			a.Width = max(a.Width, activityEnd(last))
		}
		runs = append(runs, last)
	}
	a.Width = min(a.Width, windowMost)
	if a.Width <= 0 {
		return nil
	}
	for i, s := range g.Settings {
		if runs[i] != nil {
			a.add(s, runs[i])
		}
	}
	a.Label = "When the last run of each setting ran and stood still"
	for _, s := range a.Strips {
		if s.About != "" {
			a.Label += "; " + s.Name + ": " + s.About
		}
	}
	a.Height = axisHeight + len(a.Strips)*stripHeight
	for at := int64(0); at <= a.Width; at += markEach {
		text := ""
		if a.Width < 4*markEach || at/markEach%2 == 0 {
			text = millis(at)
		}
		a.Ticks = append(a.Ticks, newTick(100*float64(at)/float64(a.Width), text, a.Width > 4*markEach && at/markEach%10 != 0))
	}
	return a
}

func activityEnd(r *lab.Run) int64 { return r.Activity[len(r.Activity)-1][1] }

// add adds the middle of a run.
func (a *htmlActivity) add(s report.BenchRow, r *lab.Run) {
	end := activityEnd(r)
	from := max(0, (end-a.Width)/2/markEach*markEach)
	start := axisHeight + len(a.Strips)*stripHeight
	strip := htmlStrip{Name: printable(s.Name), GridRow: len(a.Strips) + 2, Start: start, Top: start + stripMargin}
	strip.Length = inPercent(100 * float64(max(0, min(end-from, a.Width))) / float64(a.Width))
	var path strings.Builder
	for _, ran := range r.Activity {
		if left, right := max(ran[0]-from, 0), min(ran[1]-from, a.Width); left < right {
			fmt.Fprintf(&path, "M%d 0H%dV1H%dz", left, right, left)
		}
	}
	strip.Path = path.String()
	strip.Text = fmt.Sprintf("%s: block %d, from %s of the run", strip.Name, r.Block, millis(from))
	on, off := s.Metrics["on-ms"], s.Metrics["off-ms"]
	if on.N > 0 && off.N > 0 {
		strip.About = fmt.Sprintf("%s on, %s off", metric("on-ms", on.Median), metric("off-ms", off.Median))
	}
	a.Strips = append(a.Strips, strip)
}
