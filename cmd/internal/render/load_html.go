package render

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

//go:embed load.html
var loadHTML string

// LoadHTML writes the document of load as a page in the manner of BenchHTML: one file, which loads nothing, runs no
// script, and holds the document itself.
func LoadHTML(w io.Writer, d *report.Load) error {
	document, err := json.Marshal(d) // escapes <, > and &, so that no text ends the element it is in
	if err != nil {
		return fmt.Errorf("writing the document into its page: %w", err)
	}
	page, err := parsePage("load.html", loadHTML)
	if err != nil {
		return err
	}
	return page.Execute(w, newLoadPage(printableLoad(d), document))
}

// loadPage is what the template shows.
type loadPage struct {
	Style, Drawings template.CSS
	Title, Summary  string
	Targets         []string // where there are several
	Invalid         []string
	InvalidText     string
	Verdict         loadVerdictText
	Headline        string
	Remarks         []string
	Curve           *loadCurve
	Tries           *loadTries
	Strip           *loadStrip
	Head            []htmlCell
	Rows            [][]htmlCell
	Windows         htmlRows
	Legend          []htmlFact
	Notes           []string
	Facts           []htmlFacts
	Command         string
	Commands        []htmlCommand
	Document        template.JS
}

type htmlRows struct {
	Head []htmlCell
	Rows [][]htmlCell
}

// causesListed is how many causes of errors the page lists: all that a load tells apart.
const causesListed = 60

func newLoadPage(d *report.Load, document []byte) loadPage {
	p := loadPage{
		Style: pageStyle(), Drawings: drawingsStyle(), Title: "unthrottle load: " + targetName(d), Summary: tight(loadTitle(d)), Verdict: loadVerdict(d),
		Remarks: append(loadRemarks(d), d.Warnings...), Command: report.ShellWords(d.Command), Document: template.JS(document),
	}
	if len(d.Targets) > 1 {
		p.Targets = targetTexts(d.Targets)
	}
	if !d.Valid {
		p.Invalid, p.InvalidText, p.Title = d.Invalid, invalidText(d), "INVALID "+p.Title
	}
	if p.Verdict.Text == "" {
		p.Verdict.Claim, p.Verdict.Text = "no SLO was given", upperFirst(loadHeadline(d))
	} else if d.Search == nil && d.Valid && d.Response.Count > 0 {
		p.Headline = upperFirst(loadHeadline(d)) + "."
	}
	if d.Search != nil {
		p.Verdict.Text = upperFirst(p.Verdict.Text)
	}
	p.Verdict.Text = tight(p.Verdict.Text)
	if d.Search != nil && len(d.Search.Windows) > 0 {
		p.Tries = newLoadTries(d)
		p.Windows.Head, p.Windows.Rows = windowTable(d.Search.Windows)
	}
	if d.Response.Count > 0 {
		p.Curve = newLoadCurve(d)
		p.Head, p.Rows = latencyTable(d)
		p.Legend, p.Notes = latencyLegend(d), latencyNotes(d)
	}
	p.Strip = newLoadStrip(d)
	p.Facts = []htmlFacts{
		{"Answers", answerFacts(d, causesListed)}, {"Server", serverFacts(d)}, {"Generator", generatorFacts(d)}, askedFacts(d),
	}
	p.Commands = []htmlCommand{documentCommand("load")}
	return p
}

// loadHeadline is the result in a line.
func loadHeadline(d *report.Load) string {
	if d.Response.Count == 0 {
		return "no request was answered"
	}
	text := fmt.Sprintf("half of the responses within %s, %s", latency(d.Response.P50), tail(d.Response))
	if d.Failed > 0 {
		return text + ", " + thousands(d.Failed) + " of " + requests(d.Requests) + " failed"
	}
	return text + ", none of " + requests(d.Requests) + " failed"
}

// askedFacts say what was asked of the generator.
func askedFacts(d *report.Load) htmlFacts {
	f := htmlFacts{Title: "What was asked"}
	f.add("target", targetTexts(d.Targets)...)
	f.add("load", loadAsked(d))
	if d.SLO != nil {
		f.add("SLO", sloText(d.SLO.Text))
	}
	switch {
	case d.Loop == "closed":
		f.add("connections", thousands(int64(d.MaxConns)))
	case d.MaxConns > 0:
		f.add("connections", thousands(int64(d.MaxConns))+" at most")
	}
	if d.Timeout > 0 {
		f.add("timeout", lasting(d.Timeout))
	}
	if d.Loop != "closed" {
		f.add("seed", strconv.FormatUint(d.Seed, 10))
	}
	f.add("engine", d.Engine)
	f.add("began", d.Began)
	f.add("took", lasting(d.Elapsed))
	f.add("made by", d.MadeBy)
	return f
}

// Heights of drawings, in pixels.
const (
	loadCurveHeight = 340
	loadTriesHeight = 280
	loadRow         = 84
	loadRowMargin   = 14
	labelHeight     = 16 // the least distance of two labels
)

// A loadCurve is the drawing of the percentiles of response and service.
type loadCurve struct {
	Label    string
	Height   int
	Across   []htmlTick
	Up       []upTick
	Few      string // where fewer than ten requests begin; "": nowhere
	FewWidth string
	Lines    []loadLine
	Dots     []loadDot
	Marks    []loadMark
	Log      bool
}

type loadLine struct {
	Name, Class string
	Points      string // across in percent, down in pixels
	LabelY      float64
}

type loadDot struct {
	X, Y   string
	Class  string
	Shape  string // id of the shape; "": a circle
	Title  string
	Text   string // beside it
	Anchor string
	Wide   bool
}

// A loadMark is a limit of the SLO.
type loadMark struct {
	X, Y, Text, Anchor string
}

func newLoadCurve(d *report.Load) *loadCurve {
	end := max(1, math.Log10(float64(d.Response.Count)))
	axes := newCurveAxes(d, 0, end)
	c := &loadCurve{Height: loadCurveHeight, Log: axes.y.log}
	for _, p := range curveTicks {
		if nines(p) <= end {
			text := "p" + number(p)
			if p == 0 {
				text = "0"
			}
			c.Across = append(c.Across, newTick(100*axes.across(p), text, p == 0 || p == 50 || nines(p) > carried(d.Response.Count)))
		}
	}
	c.Up = upTicks(axes.y, loadCurveHeight)
	if few := 100 * max(0, carried(d.Response.Count)) / end; few < 100 {
		c.Few, c.FewWidth = inPercent(few), inPercent(100-few)
	}
	c.line(axes, "service", "other", d.Service)
	c.line(axes, "response", "base", d.Response)
	c.spread()
	c.dots(axes, d)
	for _, m := range axes.marks(d) {
		x := 100 * axes.across(m.percent)
		tick := newTick(x, "", false)
		name := "p" + number(m.percent)
		if m.percent == 100 {
			name = "max"
		}
		c.Marks = append(c.Marks, loadMark{
			X: tick.At, Y: pixels(down(axes.y.share(m.seconds), loadCurveHeight)), Anchor: tick.Anchor, Text: name + " ≤ " + seconds(m.seconds),
		})
	}
	c.Label = "Percentiles of response and service. " + curveWords(d)
	return c
}

// curveWords are the curve for those who don't see it.
func curveWords(d *report.Load) string {
	var parts []string
	for _, r := range latencyRows {
		if text := latencyCell(d.Response, r); text != "–" && r.name != "mean" {
			parts = append(parts, fmt.Sprintf("%s: %s and %s", r.name, text, latencyCell(d.Service, r)))
		}
	}
	return strings.Join(parts, "; ")
}

// line adds a curve.
func (c *loadCurve) line(axes curveAxes, name, class string, l report.Latencies) {
	if len(l.Curve) == 0 {
		return
	}
	var points []string
	y := 0.0
	for _, p := range l.Curve {
		y = down(axes.y.share(p.Seconds), loadCurveHeight)
		points = append(points, fmt.Sprintf("%s,%s", strings.TrimSuffix(inPercent(100*axes.across(p.Percentile)), "%"), pixels(y)))
	}
	c.Lines = append(c.Lines, loadLine{Name: name, Class: class, Points: strings.Join(points, " "), LabelY: y + 4})
}

// spread keeps the names at the ends of the lines apart.
func (c *loadCurve) spread() {
	if len(c.Lines) < 2 {
		return
	}
	upper, lower := &c.Lines[1], &c.Lines[0]
	if upper.LabelY > lower.LabelY {
		upper, lower = lower, upper
	}
	if gap := labelHeight - (lower.LabelY - upper.LabelY); gap > 0 {
		upper.LabelY -= gap / 2
		lower.LabelY += gap / 2
	}
}

// dots marks the percentiles of the table on both lines, and writes those of the response beside them.
func (c *loadCurve) dots(axes curveAxes, d *report.Load) {
	for _, r := range latencyRows {
		if r.percent == 0 || r.name == "p75" || r.name == "p95" {
			continue
		}
		if text := latencyCell(d.Service, r); text != "–" {
			c.Dots = append(c.Dots, axes.dot(r, d.Service, "other open", "service "+r.name+": "+text))
		}
		if text := latencyCell(d.Response, r); text != "–" {
			dot := axes.dot(r, d.Response, "base", "response "+r.name+": "+text)
			dot.Text, dot.Anchor, dot.Wide = text, "end", r.percent <= 90
			c.Dots = append(c.Dots, dot)
		}
	}
}

func (c curveAxes) dot(r latencyRow, l report.Latencies, class, title string) loadDot {
	return loadDot{
		X: inPercent(100 * c.across(r.percent)), Y: pixels(down(c.y.share(r.of(l)), loadCurveHeight)), Class: class, Title: title,
	}
}

// loadTries is the drawing of the windows of a search: a dot for each, p99 over rate.
type loadTries struct {
	Label  string
	Height int
	Across []htmlTick
	Up     []upTick
	Dots   []loadDot
	Limit  *loadMark // the p99 that is asked
	Log    bool
}

func newLoadTries(d *report.Load) *loadTries {
	windows := d.Search.Windows
	c := &loadTries{Height: loadTriesHeight, Label: "p99 of the windows by rate. " + d.Search.Text}
	rates, times := newBounds(), newBounds()
	for _, w := range windows {
		rates.add(w.Rate)
		times.add(w.P99)
	}
	limit := 0.0
	for _, o := range objectives(d) {
		if o.Percentile == 99 {
			limit = o.Seconds
			times.add(limit)
		}
	}
	x, y := rates.axis("/s"), times.axis("sec")
	c.Across, c.Up, c.Log = x.ticks(), upTicks(y, loadTriesHeight), x.log || y.log
	if limit > 0 {
		c.Limit = &loadMark{Y: pixels(down(y.share(limit), loadTriesHeight)), Text: "p99 ≤ " + seconds(limit)}
	}
	for _, w := range windows {
		dot := loadDot{X: x.at(w.Rate), Y: pixels(down(y.share(w.P99), loadTriesHeight))}
		word := "held"
		switch {
		case !w.Valid:
			word, dot.Shape, dot.Class = "invalid", "far", "open"
		case !w.Held:
			word, dot.Shape, dot.Class = "missed", "marked", "open failed"
		default:
			dot.Class = "base"
		}
		dot.Title = fmt.Sprintf("%s, %s: p99 %s, %s", w.Phase, perSecond(w.Rate), latency(w.P99), word)
		c.Dots = append(c.Dots, dot)
	}
	return c
}

// A loadStrip is what happened over time: rows above each other on one axis.
type loadStrip struct {
	Label  string
	Height int
	Across []htmlTick
	Rows   []loadStripRow

	// What occurs, and so is to be explained.
	Times, Hatched bool
}

type loadStripRow struct {
	Name, About, Class string
	GridRow, Start     int
	Top, Bottom, Tall  int
	Path               string // filled: 0 to 10000 across, and 1000 up
	Line               string // and a line, likewise
	Limit, LimitText   string // y of the SLO's limit
	Bars               []loadBar
}

// A loadBar is hatched: a stroke as thick as the bar is high, of many dashes.
type loadBar struct {
	From, To, Y, Tall string
	Title             string
}

// newLoadStrip draws the time axis; nil if there is not enough of it.
func newLoadStrip(d *report.Load) *loadStrip {
	if len(d.Axis) < 3 {
		return nil
	}
	last := d.Axis[len(d.Axis)-1]
	time := timeAxis{end: last.At + last.Length, covered: last.At + last.Length}
	if time.end <= 0 {
		return nil
	}
	switch {
	case d.Stopped && d.Elapsed > last.At:
		time.covered = min(time.covered, d.Elapsed)
	case d.Planned > last.At:
		time.covered = min(time.covered, d.Planned)
	}
	s := &loadStrip{Across: axis{unit: "sec", high: time.end}.ticks()}
	s.rate(d, time)
	s.p99(d, time)
	s.throttled(d, time)
	s.failed(d, time)
	s.Height = axisHeight + len(s.Rows)*loadRow
	s.Label = "Over time:"
	for _, r := range s.Rows {
		s.Label += " " + r.Name + " " + r.About + ";"
	}
	return s
}

// A timeAxis goes to the end of the last step; of that a part only is covered where the load ended within it.
type timeAxis struct{ end, covered float64 }

// across is a time's place from 0 to 10000.
func (t timeAxis) across(at float64) int { return int(math.Round(1e4 * max(0, min(at/t.end, 1)))) }

// length is how much of a step the load lasted.
func (t timeAxis) length(s report.LoadStep) float64 { return min(s.Length, t.covered-s.At) }

// steps is the outline of values of the steps as an SVG path; negative: there is none.
func (t timeAxis) steps(steps []report.LoadStep, y axis, value func(report.LoadStep) float64) string {
	var b strings.Builder
	for _, s := range steps {
		if v := value(s); v >= 0 {
			fmt.Fprintf(&b, "M%d 1000V%.0fH%dV1000z", t.across(s.At), down(y.share(v), 1000), t.across(s.At+s.Length))
		}
	}
	return b.String()
}

// add adds a row and gives it its place.
func (s *loadStrip) add(r loadStripRow) {
	start := axisHeight + len(s.Rows)*loadRow
	r.GridRow, r.Start, r.Top, r.Bottom, r.Tall = len(s.Rows)+2, start, start+loadRowMargin, start+loadRow, loadRow-loadRowMargin
	s.Rows = append(s.Rows, r)
}

// rate adds how many requests were due a second.
func (s *loadStrip) rate(d *report.Load, t timeAxis) {
	rate := func(step report.LoadStep) float64 {
		if length := t.length(step); length > step.Length/10 { // less tells nothing
			return float64(step.Sent) / length
		}
		return -1
	}
	b := newBounds()
	for _, step := range d.Axis {
		b.add(rate(step))
	}
	if b.high == 0 {
		return
	}
	about, lowest := perSecond(math.Round(b.high)), perSecond(math.Round(b.low))
	if lowest != about {
		about = lowest + " to " + about
	}
	s.add(loadStripRow{Name: "rate", About: about, Class: "other", Path: t.steps(d.Axis, axis{high: b.high}, rate)})
}

// p99 adds the p99 of the response, filled, and that of the service as a line.
func (s *loadStrip) p99(d *report.Load, t timeAxis) {
	p99 := func(step report.LoadStep) float64 {
		if step.P99 > 0 {
			return step.P99
		}
		return -1
	}
	y, b := p99Axis(d.Axis)
	if b.high <= 0 {
		return
	}
	r := loadStripRow{Name: "p99", About: "max " + latency(b.high), Class: "base", Path: t.steps(d.Axis, y, p99)}
	if y.log {
		r.About = latency(b.low) + " to " + latency(b.high) + ", logarithmic"
	}
	var points []string
	for _, step := range d.Axis {
		if step.ServiceP99 > 0 {
			y := down(y.share(step.ServiceP99), 1000)
			points = append(points, fmt.Sprintf("%d,%.0f %d,%.0f", t.across(step.At), y, t.across(step.At+step.Length), y))
		}
	}
	r.Line, s.Times = strings.Join(points, " "), true
	for _, o := range objectives(d) {
		if limit := o.Seconds; o.Percentile == 99 && limit > y.low && limit < y.high {
			r.Limit, r.LimitText = inPercent(100-y.share(limit)), "≤ "+seconds(limit)
		}
	}
	s.add(r)
}

// throttled adds the share of the server's periods that were throttled.
func (s *loadStrip) throttled(d *report.Load, t timeAxis) {
	known, highest := false, 0.0
	var bars []loadBar
	for _, step := range d.Axis {
		if step.Periods == nil || step.Throttled == nil || *step.Periods <= 0 {
			continue
		}
		known = true
		share := min(float64(*step.Throttled)/float64(*step.Periods), 1)
		highest = max(highest, share)
		if share <= 0 {
			continue
		}
		tall := share * (loadRow - loadRowMargin)
		top := float64(axisHeight + (len(s.Rows)+1)*loadRow)
		bars = append(bars, loadBar{
			From: inPercent(float64(t.across(step.At)) / 100), To: inPercent(float64(t.across(step.At+step.Length)) / 100),
			Y: pixels(top - tall/2), Tall: pixels(tall),
			Title: fmt.Sprintf("at %s: %d of %s throttled", lasting(step.At), *step.Throttled, plural(*step.Periods, "period")),
		})
	}
	if !known {
		return
	}
	about := "in no period"
	if highest > 0 {
		s.Hatched = true
		about = "max " + percent(highest) + " of the periods"
	}
	s.add(loadStripRow{Name: "throttled", About: tight(about), Class: "other", Bars: bars})
}

// failed adds the share of requests that failed, if any did.
func (s *loadStrip) failed(d *report.Load, t timeAxis) {
	if d.Failed == 0 {
		return
	}
	share := func(step report.LoadStep) float64 {
		if step.Sent == 0 {
			return -1
		}
		return min(float64(step.Failed)/float64(step.Sent), 1)
	}
	highest := 0.0
	for _, step := range d.Axis {
		highest = max(highest, share(step))
	}
	if highest == 0 {
		return
	}
	s.add(loadStripRow{Name: "failed", About: tight("max " + percent(highest)), Class: "bad", Path: t.steps(d.Axis, axis{high: highest}, share)})
}
