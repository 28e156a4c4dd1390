package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// linesMost is up to how many threads are drawn: more of them are a grey mass, and a large file.
const linesMost = 200

// newRows draws rows on one axis.
func newRows(c *sheet.Rows) *drawing {
	d, x := &drawing{Class: "plot", Side: c.Side}, rowsAxis(c)
	places := countPlaces(c)
	alone := places == 0 // there are no marks, only middles
	rows, tall := make([]row, len(c.Rows)), rowTall(len(c.Rows), places)
	for i, s := range c.Rows {
		rows[i] = newRow(s.Label)
		tall = max(tall, rows[i].tall)
		if s.Share != nil {
			rows[i].Share, rows[i].Wide = glued(s.ShareText), inPercent(100*within(*s.Share, 0))
		}
	}
	for i := range rows {
		rows[i].tall = tall
	}
	phone := float64(phoneRows)
	if d.Side != "" {
		d.Class, phone = "plot sided", phoneSided
	}
	d.layout, d.Height = newLayout(c.Factor, rows)
	if b := c.Band; b != nil {
		from, to := x.share(min(b.From, b.To)), x.share(max(b.From, b.To))
		d.rect("band", from, axisHeight, to-from, float64(d.end-axisHeight))
	}
	d.top("grid", across(x, phone))
	for _, r := range c.Rules {
		if !math.IsNaN(r.At) {
			d.line("at "+Class(r.Color), x.share(r.At), axisHeight, x.share(r.At), float64(d.end)).Title = r.Text
		}
	}
	for i, s := range c.Rows {
		d.across("rule", rows[i].start)
		d.middle(s, rows[i], x, alone)
	}
	threads := d.marks(c, x, places)
	for i, s := range c.Rows {
		if s.Empty != "" {
			d.text("none", s.Empty, 50, rows[i].middle()+4, "middle")
		}
	}
	var notes []string
	if !alone || slices.ContainsFunc(c.Rows, func(s sheet.Series) bool { return s.Middle != nil }) {
		notes = axisNotes(x)
	}
	if threads > linesMost {
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
		for _, m := range s.Marks {
			values = append(values, m.At)
		}
	}
	if c.Band != nil {
		values = append(values, c.Band.From, c.Band.To)
	}
	for _, r := range c.Rules {
		values = append(values, r.At)
	}
	return newAxis(c.X, values)
}

// countPlaces is how many marks are below each other in a row.
func countPlaces(c *sheet.Rows) int {
	places := map[int]bool{}
	for _, s := range c.Rows {
		for _, m := range s.Marks {
			places[int(1000*within(m.Place, 0.5))] = true
		}
	}
	return len(places)
}

// rowTall is how high rows are: enough to tell marks from each other, and not so much that they don't fit on a sheet of
// paper.
func rowTall(rows, places int) float64 {
	switch {
	case rows > 12:
		return 60
	case rows > 8:
		return 72
	}
	return float64(max(72, min(2*rowMargin+4*(places+1), 110)))
}

// middle draws the middle of a row and its interval: behind its marks or, where there are none, as a dot on a line.
func (d *drawing) middle(s sheet.Series, r row, x axis, alone bool) {
	if s.Middle == nil || math.IsNaN(*s.Middle) {
		return
	}
	at := x.share(*s.Middle)
	low, high, known := interval(s)
	top, text := r.start+rowMargin/2, r.start+rowMargin/2+2
	if from := x.share(low); alone {
		if text = r.middle() - 8; known {
			d.line("ends "+r.Class, from, r.middle()+8, x.share(high), r.middle()+8)
		}
		d.mark(r.Class, sheet.Dot, false, at, r.middle()+8, 5, "")
	} else {
		if known {
			d.rect("interval "+r.Class, from, top, x.share(high)-from, r.tall-rowMargin)
		}
		d.line("median "+r.Class, at, top, at, r.end()-rowMargin/2)
	}
	if s.MiddleText == "" {
		return
	}
	value := d.text("value", s.MiddleText, at, text, anchor(at))
	value.More = glued(s.RangeText)
	switch { // a range is long
	case value.More != "" && at < 30:
		value.Anchor = "start"
	case value.More != "" && at > 70:
		value.Anchor = "end"
	}
}

func interval(s sheet.Series) (low, high float64, ok bool) {
	if s.Low == nil || s.High == nil {
		return 0, 0, false
	}
	low, high = min(*s.Low, *s.High), max(*s.Low, *s.High)
	return low, high, !math.IsNaN(low + high)
}

// marks draws the marks in groups: those of a thread with the line that joins them, and of those without one each row's. It
// counts the threads.
func (d *drawing) marks(c *sheet.Rows, x axis, places int) (threads int) {
	groups, points := map[int]*drawing{}, map[int][]string{}
	var order []int
	radius := 4.0
	if places > 20 {
		radius = 3
	}
	for i, s := range c.Rows {
		for _, m := range s.Marks {
			if math.IsNaN(m.At) {
				continue
			}
			thread := m.Thread
			if !c.Joined || thread <= 0 {
				thread = -1 - i
			}
			if groups[thread] == nil {
				groups[thread] = &drawing{}
				order = append(order, thread)
			}
			at, r := x.share(m.At), d.Rows[i]
			y := r.start + rowMargin + (r.tall-2*rowMargin)*within(m.Place, 0.5)
			groups[thread].mark(r.Class, m.Shape, m.Open, at, y, radius, m.Title)
			points[thread] = append(points[thread], coordinate(at, 100)+" "+pixels(y))
		}
	}
	slices.Sort(order)
	first, _ := slices.BinarySearch(order, 1)
	threads = len(order) - first
	for _, thread := range order {
		g := &drawing{}
		if thread > 0 && len(points[thread]) > 1 && threads <= linesMost {
			g.stretched("joined", "M"+strings.Join(points[thread], "L"), 0, float64(d.Height), fmt.Sprintf("100 %d", d.Height))
		}
		d.add(&shape{Kind: "group", Class: "thread", Shapes: append(g.Shapes, groups[thread].Shapes...)})
	}
	return threads
}
