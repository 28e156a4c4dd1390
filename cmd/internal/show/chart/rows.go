package chart

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// linesMost is up to how many threads are drawn: more of them are a grey mass, and a large file.
const linesMost = 200

// rowsMany is from how many rows on the axis is repeated below them.
const rowsMany = 7

// newRows draws rows on one axis.
func newRows(c *sheet.Rows) *drawing {
	d, x, phone := &drawing{Class: "plot", Factor: c.Factor, Side: c.Side}, rowsAxis(c), float64(phoneRows)
	if d.Side != "" {
		d.Class, phone = "plot sided", phoneSided
	}
	runs := 0
	for _, s := range c.Rows {
		runs = max(runs, len(s.Marks))
	}
	// Enough to distinguish marks, but not so much that the rows don't fit on a sheet of paper.
	d.Tall = max(60, min(24+4*max(runs, 12), 110, 900/len(c.Rows)))
	tall := 100 / float64(len(c.Rows))
	for i, s := range c.Rows {
		if b := s.Band; b != nil {
			from, to := x.share(min(b.From, b.To)), x.share(max(b.From, b.To))
			d.rect("band", "", from, tall*float64(i), to-from, tall)
		}
	}
	d.ticks(x, phone, "grid", true, len(c.Rows) >= rowsMany)
	for _, r := range c.Rules {
		d.up("at "+Class(r.Color), r.Text, x.share(r.At))
	}
	for _, s := range c.Rows {
		r := d.row(s.Label, len(c.Rows))
		if s.Share != nil {
			r.Share, r.Wide = glued(s.ShareText), percent(100*within(*s.Share, 0))
		}
		d.across("rule", r.top)
		d.middle(s, *r, x, runs == 0)
		if s.Empty != "" {
			d.write(label{class: "none", text: s.Empty, x: 50, y: r.down(0.5), dy: 4, anchor: "middle"})
		}
	}
	notes := x.notes("The axis")
	if d.marks(c, x, runs) > linesMost {
		notes = append(notes, "There are too many runs for lines that join them.")
	}
	d.figure = newFigure(c.Figure, notes...)
	return d
}

// rowsAxis is the axis of all that is in the rows.
func rowsAxis(c *sheet.Rows) axis {
	var values []float64
	for _, s := range c.Rows {
		for _, v := range []*float64{s.Middle, s.Low, s.High} {
			if v != nil {
				values = append(values, *v)
			}
		}
		if s.Band != nil {
			values = append(values, s.Band.From, s.Band.To)
		}
		for _, m := range s.Marks {
			values = append(values, m.At)
		}
	}
	for _, r := range c.Rules {
		values = append(values, r.At)
	}
	return newAxis(c.X, values)
}

// middle draws the middle of a row and its interval: behind its marks or, without any, as a dot on a line.
func (d *drawing) middle(s sheet.Series, r row, x axis, alone bool) {
	if s.Middle == nil || math.IsNaN(*s.Middle) {
		return
	}
	at := x.share(*s.Middle)
	low, high, known := interval(s, x)
	value := label{class: "value", text: s.MiddleText, more: s.RangeText, x: at, y: r.down(0), anchor: anchor(at)}
	if alone {
		y := r.down(0.6)
		if value.y, value.dy = y, -14; known {
			d.line("ends "+r.Class, "", low, y, high, y)
		}
		d.mark(r.Class, "", sheet.Dot, false, at, y, 5)
	} else {
		if known {
			d.rect("interval "+r.Class, "", low, r.down(0), high-low, r.down(1)-r.down(0))
		}
		d.line("median "+r.Class, "", at, r.down(0), at, r.down(1))
	}
	switch { // a range is long
	case value.more != "" && at < 30:
		value.anchor = "start"
	case value.more != "" && at > 70:
		value.anchor = "end"
	}
	if value.text != "" {
		d.write(value)
	}
}

// interval is where the interval of a row is, in percent.
func interval(s sheet.Series, x axis) (low, high float64, ok bool) {
	if s.Low == nil || s.High == nil || math.IsNaN(*s.Low+*s.High) {
		return 0, 0, false
	}
	return x.share(min(*s.Low, *s.High)), x.share(max(*s.Low, *s.High)), true
}

// A placed is a mark in its place.
type placed struct {
	sheet.Mark
	class string
	x, y  float64
}

// marks draws the marks, those of a thread in a group with the line that joins them, and counts the threads.
func (d *drawing) marks(c *sheet.Rows, x axis, runs int) int {
	threads := map[int][]placed{}
	for i, s := range c.Rows {
		for _, m := range s.Marks {
			if m.Thread = max(m.Thread, 0); !c.Joined {
				m.Thread = 0
			}
			if !math.IsNaN(m.At) {
				tenth := func(v float64) float64 { return math.Round(10*v) / 10 } // there are many: each digit counts
				at, y := tenth(x.share(m.At)), tenth(d.Rows[i].down(0.05+0.9*within(m.Place, 0.5)))
				threads[m.Thread] = append(threads[m.Thread], placed{m, d.Rows[i].Class, at, y})
			}
		}
	}
	radius := 4.
	if runs > 20 {
		radius = 3
	}
	for _, thread := range slices.Sorted(maps.Keys(threads)) {
		var points []string
		for _, m := range threads[thread] {
			points = append(points, point(m.x, m.y))
		}
		d.svg.WriteString("\n<g class=\"thread\">")
		if thread > 0 && len(points) > 1 && len(threads) <= linesMost {
			d.joined("joined", points)
		}
		for _, m := range threads[thread] {
			d.mark(m.class, m.Title, m.Shape, m.Open, m.x, m.y, radius)
		}
		d.svg.WriteString("</g>")
	}
	return len(threads)
}

// rowsText draws a line for each row, the interval with its middle, and the axis below. Marks are for pages.
func rowsText(c *sheet.Rows, width int) *canvas {
	var labels []sheet.Label
	var ends []string
	for _, s := range c.Rows {
		labels, ends = append(labels, s.Label), append(ends, s.MiddleText)
	}
	d := newCanvas(labels, ends, width)
	if d == nil {
		return nil
	}
	x := rowsAxis(c)
	for i, s := range c.Rows {
		y := d.row(s.Label, ends[i])
		if b := s.Band; b != nil {
			from, to := d.column(x.share(min(b.From, b.To))), d.column(x.share(max(b.From, b.To)))
			d.write(from, y, strings.Repeat("░", to-from+1), sheet.Soft)
		}
		for _, r := range c.Rules {
			d.set(d.column(x.share(r.At)), y, '│', sheet.Soft)
		}
		if low, high, ok := interval(s, x); ok {
			from, to := d.column(low), d.column(high)
			if from < to {
				d.write(from, y, "├"+strings.Repeat("─", to-from-1)+"┤", sheet.Plain)
			}
		}
		if s.Middle != nil && !math.IsNaN(*s.Middle) {
			d.set(d.column(x.share(*s.Middle)), y, '●', sheet.Strong)
		}
	}
	d.below(x)
	return d
}
