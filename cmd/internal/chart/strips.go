package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// Heights of strips, in pixels.
const (
	stripTall = 84 // of one with an axis of its own
	ranTall   = 56
	laneTall  = 12
	marksMost = 200
)

// Paths of strips are in units of their own.
const (
	pathWide = 10000
	pathTall = 1000
)

// newStrips draws rows over time.
func newStrips(c *sheet.Strips) *drawing {
	d, x := &drawing{Class: "plot"}, stripsAxis(c)
	rows := make([]row, len(c.Rows))
	for i, s := range c.Rows {
		rows[i] = newRow(s.Label)
		rows[i].tall = max(rows[i].tall, stripNeeds(s))
	}
	d.layout, d.Height = newLayout(c.Factor, rows)
	marks, marked := each(c, x)
	if !marked {
		d.top("grid", across(x, phoneRows))
	}
	var notes []string
	for i, s := range c.Rows {
		y := stripAxis(s)
		d.across("rule", rows[i].start)
		d.strip(s, rows[i], x, y)
		if y.logarithmic() && scaled(s) {
			notes = append(notes, "The axis of "+s.Name+" is logarithmic.")
		}
	}
	d.across("rule", float64(d.end))
	d.top("period", marks)
	d.figure = newFigure(c.Figure, notes...)
	if slices.ContainsFunc(c.Rows, func(s sheet.Strip) bool { return shaded(s) > 0 }) {
		d.Shades = scale
	}
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
		if l.Kind == sheet.Shaded || l.Kind == sheet.Ran {
			continue
		}
		for _, step := range l.Steps {
			if step.Value > 0 {
				values = append(values, step.Value)
			}
		}
	}
	if s.Y.Scale == sheet.Fitting {
		s.Y.Scale = sheet.FromZero
	}
	return newAxis(s.Y, values)
}

// scaled reports whether anything in a strip is drawn by its value.
func scaled(s sheet.Strip) bool {
	for _, l := range s.Lanes {
		if l.Kind != sheet.Shaded && l.Kind != sheet.Ran {
			return true
		}
	}
	return false
}

// shaded is how many lanes of a strip are below each other.
func shaded(s sheet.Strip) (n int) {
	for _, l := range s.Lanes {
		if l.Kind == sheet.Shaded {
			n++
		}
	}
	return n
}

// stripNeeds is how high a strip must be for what is in it.
func stripNeeds(s sheet.Strip) float64 {
	switch {
	case scaled(s):
		return stripTall
	case shaded(s) > 0:
		return float64(laneTall*shaded(s) + 2*rowMargin)
	}
	return ranTall
}

// each are the marks that a sheet asks for, such as one a period.
func each(c *sheet.Strips, x axis) (marks []place, ok bool) {
	if n := (x.high - x.low) / c.Each; !(n >= 1 && n <= marksMost) {
		return nil, false
	}
	var ticks []tick
	for k := math.Ceil(x.low / c.Each); k*c.Each <= x.high*(1+1e-9) && len(ticks) <= marksMost; k++ {
		ticks = append(ticks, tick{x.share(k * c.Each), x.text(k*c.Each, 0)})
	}
	return screens(ticks, true, phoneRows), true
}

// strip draws what is in a row.
func (d *drawing) strip(s sheet.Strip, r row, x, y axis) {
	top, tall := r.start+rowMargin, r.tall-rowMargin
	if !scaled(s) {
		tall -= rowMargin
	}
	next := r.middle() - float64(laneTall*shaded(s))/2 + 1
	for _, l := range s.Lanes {
		path := func(class string, form func(from, to, down int) string) {
			if p := outline(l, x, y, form); p != "" {
				d.stretched(class+" "+r.Class, p, top, tall, fmt.Sprintf("%d %d", pathWide, pathTall)).Title = glued(l.Title)
			}
		}
		switch l.Kind {
		case sheet.Shaded:
			d.shades(l, x, next)
			next += laneTall
		case sheet.Ran:
			d.rect("track", 0, top, x.share(seen(l)), tall)
			path("ran", func(from, to, _ int) string { return fmt.Sprintf("M%d 0H%dV%dH%dz", from, to, pathTall, from) })
		case sheet.Drawn:
			path("drawn", func(from, to, down int) string { return fmt.Sprintf("M%d %dH%d", from, down, to) })
		case sheet.Hatched:
			d.bars(l, x, y, r)
		default:
			path("filled", func(from, to, down int) string { return fmt.Sprintf("M%d %dV%dH%dV%[2]dz", from, pathTall, down, to) })
		}
	}
	if s.Rule != nil && s.Rule.At > y.low && s.Rule.At < y.high {
		d.rule(*s.Rule, top+down(y.share(s.Rule.At), tall))
	}
}

// drawable reports whether a step can be drawn: what is below zero is not known.
func drawable(s sheet.Step) bool { return s.To > s.From && s.Value >= 0 }

// seen is when the last step of a lane ends.
func seen(l sheet.Lane) (end float64) {
	for _, s := range l.Steps {
		if s.To > end {
			end = s.To
		}
	}
	return end
}

// outline writes each step in the form of a path.
func outline(l sheet.Lane, x, y axis, form func(from, to, down int) string) string {
	var b strings.Builder
	across := func(at float64) int { return int(math.Round(x.share(at) / 100 * pathWide)) }
	for _, s := range l.Steps {
		if from, to := across(s.From), across(s.To); from < to && (drawable(s) || l.Kind == sheet.Ran) {
			b.WriteString(form(from, to, int(math.Round(down(y.share(s.Value), pathTall)))))
		}
	}
	return b.String()
}

// bars draws strokes as thick as bars are high, of many dashes.
func (d *drawing) bars(l sheet.Lane, x, y axis, r row) {
	for _, s := range l.Steps {
		if share := y.share(s.Value); drawable(s) && share > 0 {
			tall := (r.tall - rowMargin) * share / 100
			bar := d.line("hatched", x.share(s.From), r.end()-tall/2, x.share(s.To), r.end()-tall/2)
			bar.Stroke, bar.Title = pixels(tall), glued(s.Title)
		}
	}
}

// shades draws a lane whose steps are the darker the higher they are.
func (d *drawing) shades(l sheet.Lane, x axis, y float64) {
	g := &drawing{}
	g.rect("track", 0, y, x.share(seen(l)), laneTall-2)
	for _, s := range l.Steps {
		if share := within(s.Value, 0); drawable(s) && share > 0 {
			step := g.rect("shade", x.share(s.From), y, x.share(s.To)-x.share(s.From), laneTall-2)
			step.Opacity, step.Title = coordinate(share, 100), glued(s.Title)
		}
	}
	d.add(&shape{Kind: "group", Title: glued(l.Title), Shapes: g.Shapes})
}
