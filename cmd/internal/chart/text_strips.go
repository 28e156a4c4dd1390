package chart

import (
	"fmt"
	"math"

	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// sparks are bars from low to high; nothing is a dot of its own.
var sparks = []rune("▁▂▃▄▅▆▇█")

const none = '·'

// eachColumns is how many columns a marked piece of time has at least, such as a period: in fewer it can't be seen.
const eachColumns = 20

// focus is the part of the time that is drawn: the middle of it where things run and stand still, and all of it
// otherwise. The text says so.
func focus(x axis, c *sheet.Strips, rows []sheet.Strip, plot int) (axis, string) {
	end := math.Inf(-1)
	for _, s := range rows {
		if s.Lanes[0].Kind != sheet.Ran {
			return x, ""
		}
		end = max(end, min(seen(s.Lanes[0]), x.high))
	}
	column := (x.high - x.low) / float64(plot)
	where := ""
	if fine := c.Each / eachColumns; fine > 0 && fine < column {
		column, where = fine, ", from the middle"
		middle := (x.low + max(end, x.low)) / 2
		x.low = max(x.low, middle-column*float64(plot)/2)
		x.high = x.low + column*float64(plot)
	}
	return x, fmt.Sprintf("running (█) and standing still (%c), %s a column%s", none, quantity.Seconds(column), where)
}

// lane draws the first lane of a strip.
func (c *canvas) lane(s sheet.Strip, x axis, y, left, plot int) {
	l := s.Lanes[0]
	if l.Kind == sheet.Ran {
		c.ran(l, x, y, left, plot)
		return
	}
	scale := axis{scale: sheet.Linear, high: 1}
	if l.Kind != sheet.Shaded {
		scale = stripAxis(s)
	}
	for i, v := range highest(l, x, plot) {
		switch {
		case v < 0:
		case v == 0:
			c.set(left+i, y, none, sheet.Plain)
		default:
			c.set(left+i, y, sparks[min(int(scale.share(v)/100*float64(len(sparks))), len(sparks)-1)], sheet.Plain)
		}
	}
}

// highest is the highest value of the steps in each column; below zero: there is none.
func highest(l sheet.Lane, x axis, plot int) []float64 {
	values := make([]float64, plot)
	for i := range values {
		values[i] = -1
	}
	for _, s := range l.Steps {
		if !drawable(s) {
			continue
		}
		from, to := slot(x, s.From, plot), slot(x, s.To, plot)
		first := max(0, min(int(from+1e-6), plot-1))
		for i := first; i < plot && (i == first || float64(i) < to-1e-6); i++ {
			values[i] = max(values[i], s.Value)
		}
	}
	return values
}

// slot is how many columns from the left a time is.
func slot(x axis, at float64, plot int) float64 { return x.share(at) / 100 * float64(plot) }

// ran draws the columns in which it ran for half of the time and more.
func (c *canvas) ran(l sheet.Lane, x axis, y, left, plot int) {
	parts := make([]float64, plot)
	for _, s := range l.Steps {
		if !(s.To > s.From) {
			continue
		}
		from, to := slot(x, s.From, plot), slot(x, s.To, plot)
		for i := int(from); i < plot && float64(i) < to; i++ {
			parts[i] += min(to, float64(i+1)) - max(from, float64(i))
		}
	}
	end := slot(x, seen(l), plot)
	for i, part := range parts {
		switch {
		case float64(i) >= end:
		case part >= 0.5:
			c.set(left+i, y, '█', sheet.Plain)
		default:
			c.set(left+i, y, none, sheet.Plain)
		}
	}
}
