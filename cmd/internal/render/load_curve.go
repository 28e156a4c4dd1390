package render

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// Drawings of load for a terminal, and what they have in common with those of the page.

// nines is a percentile's place on an axis on which 90, 99 and 99.9 % are equally far from each other. 0 % is at 0.
func nines(percentile float64) float64 {
	return -math.Log10(1 - max(0, min(percentile, 100-1e-9))/100)
}

// A curveAxes is the field that curves of percentiles are drawn in.
type curveAxes struct {
	begin, end float64 // of the axis of percentiles, in nines
	y          axis
}

// newCurveAxes makes room for two curves and for the limits that the response is held to.
func newCurveAxes(d *report.Load, begin, end float64) curveAxes {
	c := curveAxes{begin: begin, end: end}
	b := newBounds()
	for _, l := range []report.Latencies{d.Response, d.Service} {
		for _, p := range l.Curve {
			if at := nines(p.Percentile); at >= begin && at <= end {
				b.add(p.Seconds)
			}
		}
	}
	for _, m := range c.marks(d) {
		b.add(m.seconds)
	}
	c.y = b.axis("sec")
	return c
}

// A curveMark is a limit of the SLO: the response's curve has to pass below it.
type curveMark struct{ percent, seconds float64 }

// marks are those limits that are within the axis; the maximum's is at its end.
func (c curveAxes) marks(d *report.Load) (marks []curveMark) {
	for _, o := range objectives(d) {
		if at := nines(o.Percentile); o.Percentile == 100 || at >= c.begin && at <= c.end {
			marks = append(marks, curveMark{o.Percentile, o.Seconds})
		}
	}
	return marks
}

// across is how far along the axis a percentile is, from 0 to 1.
func (c curveAxes) across(percentile float64) float64 {
	return max(0, min((nines(percentile)-c.begin)/(c.end-c.begin), 1))
}

// at is a curve's height at a place of the axis, in percent of the drawing; ok is false where the curve has not begun.
func (c curveAxes) at(curve []report.CurvePoint, x float64) (y float64, ok bool) {
	for i, p := range curve {
		right, height := nines(p.Percentile), c.y.share(p.Seconds)
		if right < x {
			continue
		}
		if i == 0 {
			return height, right <= x || curve[0].Percentile > 0
		}
		left, before := nines(curve[i-1].Percentile), c.y.share(curve[i-1].Seconds)
		if right <= left {
			return height, true
		}
		return before + (height-before)*(x-left)/(right-left), true
	}
	return 0, false
}

// The ticks of the axis of percentiles.
var curveTicks = []float64{0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999}

// carried is how many nines a count carries: beyond that are fewer than ten requests.
func carried(count int64) float64 { return math.Log10(float64(max(count, 1)) / loadtest.BeyondLeast) }

// curveHeight is how many lines a curve in a terminal has.
const curveHeight = 10

// Columns of a drawing in a terminal: of the labels on its left, and at most. Wider is not clearer.
const (
	curveLabels = 10
	widthMost   = 120
)

// curve draws the percentiles of response and service, from the median on. There is nothing to be drawn of few requests.
func (t *loadText) curve(d *report.Load) {
	if !d.Response.Tell(90) {
		return
	}
	c := newCurveAxes(d, nines(50), carried(d.Response.Count))
	width := max(min(t.width, widthMost)-curveLabels-4, 16)
	field := newCharField(width, curveHeight)
	response, service := make([]int, width), make([]int, width)
	for i := range width {
		x := c.begin + (c.end-c.begin)*float64(i)/float64(width-1)
		response[i], service[i] = -1, -1
		y, ok := c.at(d.Response.Curve, x)
		if ok {
			response[i] = field.row(y)
		}
		if below, alsoOK := c.at(d.Service.Curve, x); alsoOK && !(ok && y-below < 50/float64(curveHeight-1)) { // else they are one line
			service[i] = field.row(below)
		}
	}
	field.line(service, dotted)
	field.line(response, solid)
	legend := fmt.Sprintf("%s response  %s service", t.style.bold("──"), t.style.dim("··"))
	marks := c.marks(d)
	for _, m := range marks {
		field.set(c.column(m.percent, width), field.row(c.y.share(m.seconds)), '▼', solid.paint)
	}
	if len(marks) > 0 {
		legend += "  " + t.style.bold("▼") + " SLO"
	}
	if c.y.log {
		legend += t.style.dim("  (logarithmic)")
	}
	t.WriteString("\n  " + strings.Repeat(" ", curveLabels) + legend + "\n")
	ticks := map[int]string{}
	values, step := c.y.values()
	for _, v := range values {
		if row := field.row(c.y.share(v)); ticks[row] == "" {
			ticks[row] = c.y.text(v, step)
		}
	}
	for row := range curveHeight {
		edge := "│"
		if ticks[row] != "" {
			edge = "┤"
		}
		t.WriteString(strings.TrimRight("  "+padLeft(ticks[row], curveLabels-2)+" "+t.style.dim(edge)+field.text(row, t.style), " ") + "\n")
	}
	t.percentileAxis(c, width)
}

// column is the column of a percentile.
func (c curveAxes) column(percentile float64, width int) int {
	return int(math.Round(c.across(percentile) * float64(width-1)))
}

// percentileAxis writes the axis below a curve.
func (t *loadText) percentileAxis(c curveAxes, width int) {
	edge := []rune(strings.Repeat("─", width))
	names := []rune(strings.Repeat(" ", width+8))
	free := 0
	for _, p := range curveTicks {
		if nines(p) < c.begin || nines(p) > c.end {
			continue
		}
		x := c.column(p, width)
		edge[x] = '┴'
		name := []rune("p" + number(p))
		if from := max(0, x-len(name)/2); from >= free {
			copy(names[from:], name)
			free = from + len(name) + 1
		}
	}
	indent := strings.Repeat(" ", 2+curveLabels-1)
	t.WriteString(indent + t.style.dim("└"+string(edge)) + "\n")
	t.WriteString(indent + " " + strings.TrimRight(string(names), " ") + "\n")
}

// A charField is a drawing made of characters. Row 0 is at the top.
type charField struct {
	width, height int
	cells         [][]charCell
}

// A charCell is a character, and the code that it is painted with; 0: empty.
type charCell struct {
	char  rune
	paint string
}

func newCharField(width, height int) *charField {
	f := &charField{width: width, height: height, cells: make([][]charCell, height)}
	for i := range f.cells {
		f.cells[i] = make([]charCell, width)
	}
	return f
}

// row is the row of a height in percent.
func (f *charField) row(share float64) int {
	return f.height - 1 - int(math.Round(max(0, min(share, 100))/100*float64(f.height-1)))
}

func (f *charField) set(x, y int, char rune, paint string) {
	if x >= 0 && x < f.width && y >= 0 && y < f.height {
		f.cells[y][x] = charCell{char, paint}
	}
}

// A pen says what a line is drawn with: along, upwards, and the corners where it turns up and to the right again.
type pen struct {
	along, up, turnUp, turnRight rune
	paint                        string
}

var (
	solid  = pen{'─', '│', '╯', '╭', "1"}
	dotted = pen{'·', ':', '·', '·', "2"}
)

// line draws a line that goes to the right and upwards, a row for each column; -1: it is not there.
func (f *charField) line(rows []int, p pen) {
	for x, row := range rows {
		if row < 0 {
			continue
		}
		before := row
		if x > 0 && rows[x-1] >= 0 {
			before = rows[x-1]
		}
		if before <= row {
			f.set(x, row, p.along, p.paint)
			continue
		}
		f.set(x, before, p.turnUp, p.paint)
		for y := before - 1; y > row; y-- {
			f.set(x, y, p.up, p.paint)
		}
		f.set(x, row, p.turnRight, p.paint)
	}
}

// text is a row, painted in as few pieces as there are.
func (f *charField) text(row int, style Style) string {
	var b, piece strings.Builder
	paint := ""
	flush := func() {
		if paint == "" {
			b.WriteString(piece.String())
		} else {
			b.WriteString(style.paint(paint, piece.String()))
		}
		piece.Reset()
	}
	for _, c := range f.cells[row] {
		if c.char == 0 {
			c.char = ' '
		}
		if c.paint != paint {
			flush()
			paint = c.paint
		}
		piece.WriteRune(c.char)
	}
	flush()
	return strings.TrimRight(b.String(), " ")
}

// overTime draws how it went, a row for each thing, all on the same axis.
func (t *loadText) overTime(d *report.Load) {
	if len(d.Axis) < 3 {
		return
	}
	const names, ends = 12, 18 // columns of the names, and of what the highest is
	s := newStrip(d.Axis, max(min(t.width, widthMost)-names-ends-2, 20))
	row := func(name string, values []float64, y axis, end string) {
		t.WriteString("  " + t.style.bold(pad(name, names)) + sparkline(values, y) + "  " + t.style.dim(end) + "\n")
	}
	shares := func(name string, values []float64) {
		if highest := slices.Max(values); highest >= 0 {
			row(name, values, axis{high: highest}, "max "+percent(highest))
		}
	}
	t.WriteByte('\n')
	if y, b := p99Axis(d.Axis); b.high > 0 {
		end := "max " + latency(b.high)
		if y.log {
			end += ", log"
		}
		row("p99", s.p99, y, end)
	}
	shares("throttled", s.throttled)
	if d.Failed > 0 {
		shares("failed", s.failed)
	}
	last := d.Axis[len(d.Axis)-1]
	end := lasting(last.At + last.Length)
	t.WriteString("  " + strings.Repeat(" ", names) + t.style.dim("0 s"+padLeft(end, len(s.p99)-3)) + "\n")
}

// A stripData has a value for each column. Negative: there is none.
type stripData struct{ p99, throttled, failed []float64 }

// newStrip fits steps into columns: a column has the worst p99 of its steps, and the shares that they have together.
func newStrip(axis []report.LoadStep, width int) (s stripData) {
	columns := min(width, 4*len(axis))
	for c := range columns {
		from := c * len(axis) / columns
		w := report.Worst(axis[from:max(from+1, (c+1)*len(axis)/columns)])
		s.p99, s.throttled, s.failed = append(s.p99, w.P99), append(s.throttled, w.Throttled), append(s.failed, w.Failed)
	}
	return s
}

// sparkline draws values as bars; zero is a dot, and what is not known is left out.
func sparkline(values []float64, y axis) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range values {
		switch {
		case v < 0:
			b.WriteByte(' ')
		case v == 0:
			b.WriteRune('·')
		default:
			b.WriteRune(levels[min(int(y.share(v)/100*float64(len(levels))), len(levels)-1)])
		}
	}
	return b.String()
}

// p99Axis is the axis of the p99 over time: from zero, or logarithmic as newAxis decides.
func p99Axis(steps []report.LoadStep) (axis, bounds) {
	b := newBounds()
	for _, s := range steps {
		b.add(s.P99)
	}
	if a := b.axis("sec"); a.log {
		return a, b
	}
	return axis{unit: "sec", high: b.high}, b
}
