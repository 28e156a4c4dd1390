package chart

import (
	"fmt"
	"math"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// Heights of strips at least, in pixels, and up to how many marks are drawn that a sheet asks for, such as one a period.
const (
	stripTall = 84 // of those with an axis of their own
	ranTall   = 56
	laneTall  = 12
	marksMost = 200
)

// newStrips draws rows over time.
func newStrips(c *sheet.Strips) *drawing {
	d, x := &drawing{Class: "plot", Factor: c.Factor, Tall: ranTall}, stripsAxis(c)
	lanes := 0
	for _, s := range c.Rows {
		if lanes = max(lanes, count(s, sheet.Shaded)); scaled(s) {
			d.Tall = stripTall
		}
	}
	d.Tall = max(d.Tall, laneTall*(lanes+2))
	d.ticks(x, phoneRows, "grid", true, len(c.Rows) >= rowsMany)
	var notes []string
	for _, s := range c.Rows {
		r, y := d.row(s.Label, len(c.Rows)), stripAxis(s)
		d.across("rule", r.top)
		d.strip(s, *r, x, y, lanes)
		if y.log && scaled(s) {
			notes = append(notes, y.notes("The axis of "+s.Name)...)
		}
	}
	d.across("rule", 100)
	if n := (x.high - x.low) / c.Each; n >= 1 && n <= marksMost {
		for k := math.Ceil(x.low / c.Each); k*c.Each <= x.high*(1+1e-9); k++ {
			d.up("period", "", x.share(k*c.Each))
		}
	}
	d.figure = newFigure(c.Figure, notes...)
	d.Shades = lanes > 0
	return d
}

// stripsAxis is the axis of all steps.
func stripsAxis(c *sheet.Strips) axis {
	var ends []float64
	for _, s := range c.Rows {
		for _, l := range s.Lanes {
			for _, step := range l.Steps {
				ends = append(ends, step.From, step.To)
			}
		}
	}
	return newAxis(c.X, ends)
}

// stripAxis is the axis of a strip's own values: what is filled begins at zero.
func stripAxis(s sheet.Strip) axis {
	var values []float64
	for _, l := range s.Lanes {
		for _, step := range l.Steps {
			if step.Value > 0 {
				values = append(values, step.Value)
			}
		}
	}
	y := newAxis(s.Y, values)
	if !y.log {
		y.low = 0
	}
	return y
}

// count is how many lanes of a kind a strip has.
func count(s sheet.Strip, kind sheet.LaneKind) (n int) {
	for _, l := range s.Lanes {
		if l.Kind == kind {
			n++
		}
	}
	return n
}

// scaled reports whether anything in a strip is drawn by its value.
func scaled(s sheet.Strip) bool { return len(s.Lanes) > count(s, sheet.Shaded)+count(s, sheet.Ran) }

// strip draws what is in a row.
func (d *drawing) strip(s sheet.Strip, r row, x, y axis, lanes int) {
	top, ground := r.down(0), r.top+r.tall
	lane := (r.down(1) - top) / float64(max(lanes, 1))
	next := top + lane*float64(lanes-count(s, sheet.Shaded))/2
	for _, l := range s.Lanes {
		switch l.Kind {
		case sheet.Shaded:
			d.svg.WriteString("\n<g>" + titled(l.Title))
			d.rect("track", "", 0, next, x.share(seen(l)), lane*5/6)
			d.steps(l, "shade", x, axis{high: 1}, next, lane*5/6)
			d.svg.WriteString("</g>")
			next += lane
		case sheet.Ran:
			d.rect("track", l.Title, 0, top, x.share(seen(l)), r.down(1)-top)
			d.steps(l, "ran", x, y, top, r.down(1)-top)
		case sheet.Drawn:
			d.steps(l, "drawn", x, y, top, ground-top)
		default:
			d.steps(l, "filled "+r.Class, x, y, top, ground-top)
		}
	}
	if s.Rule != nil && s.Rule.At > y.low && s.Rule.At < y.high {
		at, class := top+(ground-top)*(1-y.share(s.Rule.At)/100), Class(s.Rule.Color)
		d.across("at "+class, at)
		d.write(label{class: "named " + class, text: s.Rule.Text, y: at, dx: 4, dy: -5, anchor: "start"})
	}
}

// steps draws the steps of a lane, each as its kind is.
func (d *drawing) steps(l sheet.Lane, class string, x, y axis, top, tall float64) {
	for _, s := range l.Steps {
		from, to, share := x.share(s.From), x.share(s.To), y.share(s.Value)/100
		high := top + tall*(1-share)
		switch {
		case !drawable(s) || from >= to || s.Value == 0 && l.Kind != sheet.Ran:
		case l.Kind == sheet.Drawn:
			d.line(class, s.Title, from, high, to, high)
		case l.Kind == sheet.Ran:
			d.rect(class, s.Title, from, top, to-from, tall)
		case l.Kind == sheet.Shaded:
			d.rect(fmt.Sprintf("%s t%d", class, max(level(share), 1)), s.Title, from, top, to-from, tall)
		default:
			d.rect(class, s.Title, from, high, to-from, tall*share)
		}
	}
}

// drawable reports whether a step can be drawn: what is below zero is not known.
func drawable(s sheet.Step) bool { return s.To > s.From && s.Value >= 0 }

// seen is when the last step of a lane ends.
func seen(l sheet.Lane) (end float64) {
	for _, s := range l.Steps {
		end = max(end, s.To)
	}
	return end
}

// stripsText draws a line for each strip: bars, or when it ran. Lanes behind the first are for pages.
func stripsText(c *sheet.Strips, width int) *canvas {
	var labels []sheet.Label
	var ends []string
	rows := slices.DeleteFunc(slices.Clone(c.Rows), func(s sheet.Strip) bool { return s.Page || len(s.Lanes) == 0 })
	for _, s := range rows {
		labels = append(labels, s.Label)
		if s.End != "" && scaled(s) && stripAxis(s).log {
			s.End += ", log"
		}
		ends = append(ends, s.End)
	}
	d := newCanvas(labels, ends, width)
	if d == nil || len(rows) == 0 {
		return nil
	}
	x := stripsAxis(c)
	if rows[0].Lanes[0].Kind == sheet.Ran {
		d.say(margin, fmt.Sprintf("running (%c) and standing still (%c), %s a column", full, none, quantity.Seconds((x.high-x.low)/float64(d.wide))))
	}
	for i, s := range rows {
		y := d.row(s.Label, ends[i])
		for at, v := range columns(s, x, d.wide) {
			if v >= 0 {
				d.set(d.left+at, y, bars[level(v)], sheet.Plain)
			}
		}
	}
	d.below(x)
	return d
}

// columns are the highest values of the first lane in n columns, as shares of 1, or how much of them it ran; below zero: nothing is known.
func columns(s sheet.Strip, x axis, n int) []float64 {
	l, out := s.Lanes[0], slices.Repeat([]float64{-1}, n)
	y := stripAxis(s)
	each := 100 / float64(n)
	for _, step := range l.Steps {
		from, to := x.share(step.From)/each, x.share(step.To)/each
		first := min(int(from+1e-6), n-1)
		for i := first; drawable(step) && i < n && (i == first || float64(i) < to-1e-6); i++ {
			switch {
			case l.Kind == sheet.Ran:
				out[i] = max(out[i], 0) + min(to, float64(i+1)) - max(from, float64(i))
			case step.Value == 0:
				out[i] = max(out[i], 0)
			default:
				out[i] = max(out[i], y.share(step.Value)/100, 1./levels)
			}
		}
	}
	if l.Kind == sheet.Ran {
		for i := range int(x.share(seen(l)) / each) {
			out[i] = max(out[i], 0)
		}
	}
	return out
}
