package chart

import (
	"math"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// Columns of rows and strips: of the names at most, as a part of the width, and of the drawing at least.
const (
	namesPart = 3
	plotLeast = 20
)

// rowsText draws a line for each row: the interval with its middle, or the marks, and the axis below.
func rowsText(c *sheet.Rows, width int) *canvas {
	d := &canvas{width: width}
	labels := make([]sheet.Label, len(c.Rows))
	beside := 0
	for i, s := range c.Rows {
		labels[i] = s.Label
		beside = max(beside, utf8.RuneCountInString(besideText(s)))
	}
	wide := names(append(labels, sheet.Label{Name: c.Factor}), width/namesPart)
	left := margin + wide + 2
	plot := width - left - beside - 2
	if beside == 0 {
		plot = width - left
	}
	if plot < plotLeast {
		plot, beside = width-left, 0
	}
	if plot < 2 {
		return nil
	}
	if c.Factor != "" || c.Side != "" && beside > 0 {
		d.write(margin, 0, cut(c.Factor, wide), sheet.Soft)
		if beside > 0 {
			d.end(width, 0, c.Side, sheet.Soft)
		}
	}
	x := rowsAxis(c)
	for _, s := range c.Rows {
		y := d.height()
		d.name(y, s.Label, wide)
		d.background(c, x, y, left, plot)
		d.series(s, x, y, left, plot)
		if beside > 0 {
			d.end(width, y, besideText(s), sheet.Plain)
		}
	}
	d.below(x, left, plot)
	return d
}

// besideText is what stands at the right of a row.
func besideText(s sheet.Series) string {
	if s.MiddleText != "" {
		return s.MiddleText
	}
	return s.ShareText
}

// background is what goes through all rows: what is shaded, and lines.
func (c *canvas) background(rows *sheet.Rows, x axis, y, left, plot int) {
	c.set(left, y, ' ', sheet.Plain)
	if b := rows.Band; b != nil && !math.IsNaN(b.From+b.To) {
		for at := column(x.share(min(b.From, b.To)), plot); at <= column(x.share(max(b.From, b.To)), plot); at++ {
			c.set(left+at, y, '░', sheet.Soft)
		}
	}
	for _, r := range rows.Rules {
		if !math.IsNaN(r.At) {
			c.set(left+column(x.share(r.At), plot), y, '│', sheet.Soft)
		}
	}
}

// marksOf are the characters of shapes, filled and open.
var marksOf = map[sheet.Shape][2]rune{sheet.Dot: {'●', '○'}, sheet.Diamond: {'◆', '◇'}, sheet.Triangle: {'▲', '△'}}

// series draws a row.
func (c *canvas) series(s sheet.Series, x axis, y, left, plot int) {
	for _, m := range s.Marks {
		if !math.IsNaN(m.At) {
			c.set(left+column(x.share(m.At), plot), y, '∙', sheet.Plain)
		}
	}
	if low, high, ok := interval(s); ok {
		from, to := left+column(x.share(low), plot), left+column(x.share(high), plot)
		for at := from + 1; at < to; at++ {
			c.set(at, y, '─', sheet.Plain)
		}
		if from < to {
			c.set(from, y, '├', sheet.Plain)
			c.set(to, y, '┤', sheet.Plain)
		}
	}
	if s.Middle != nil && !math.IsNaN(*s.Middle) {
		c.set(left+column(x.share(*s.Middle), plot), y, '●', sheet.Strong)
	}
	if s.Empty != "" {
		c.write(left+1, y, cut(s.Empty, plot-1), sheet.Soft)
	}
}

// Columns of strips: of what stands behind them at most, as a part of the width.
const endsPart = 3

// stripsText draws a line for each strip: bars, or when it ran.
func stripsText(c *sheet.Strips, width int) *canvas {
	var rows []sheet.Strip
	var labels []sheet.Label
	ends := 0
	for _, s := range c.Rows {
		if !s.Page && len(s.Lanes) > 0 {
			rows, labels = append(rows, s), append(labels, s.Label)
			ends = max(ends, utf8.RuneCountInString(endText(s)))
		}
	}
	wide := names(labels, width/namesPart)
	left := margin + wide + 2
	ends = min(ends, width/endsPart)
	plot := width - left - ends - 2
	if ends == 0 {
		plot = width - left
	}
	if len(rows) == 0 || plot < plotLeast/2 {
		return nil
	}
	d := &canvas{width: width}
	x := stripsAxis(c)
	x, text := focus(x, c, rows, plot)
	if text != "" {
		d.say(margin, text, sheet.Soft)
	}
	for _, s := range rows {
		y := d.height()
		d.name(y, s.Label, wide)
		d.lane(s, x, y, left, plot)
		d.write(left+plot+2, y, cut(endText(s), ends), sheet.Soft)
	}
	if text == "" {
		d.below(x, left, plot)
	}
	return d
}

// endText is what stands behind a strip.
func endText(s sheet.Strip) string {
	if s.End != "" && scaled(s) && stripAxis(s).logarithmic() {
		return s.End + ", log"
	}
	return s.End
}
