package chart

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// Sizes of a field in a terminal: its lines, the columns of the names at its left, and how many lines and points can be told
// from each other without colours.
const (
	fieldLines  = 10
	fieldLeft   = 10
	curvesMost  = 2
	strokesMost = 3
	pointsMost  = 200
)

// A charField is the part of a canvas that is between the axes of a field.
type charField struct {
	*canvas
	x, y        axis
	left, top   int
	wide, lines int
}

func (f charField) column(v float64) int { return f.left + column(f.x.share(v), f.wide) }

func (f charField) row(v float64) int { return f.top + f.lines - 1 - column(f.y.share(v), f.lines) }

// fieldText draws curves of percentiles as far as they aren't chance, from the median on, and other fields if they are
// simple.
func fieldText(c *sheet.Field, width int) *canvas {
	f := charField{canvas: &canvas{width: width}, left: margin + fieldLeft, lines: fieldLines}
	curves := c.X.Scale == sheet.Percentiles
	if curves {
		c = upper(c)
	}
	if c == nil || !curves && !simple(c) {
		return nil
	}
	f.x, f.y = fieldAxes(c)
	ends := 0
	for _, l := range c.Lines {
		if !curves {
			ends = max(ends, utf8.RuneCountInString(l.Name)+1)
		}
	}
	f.wide = width - f.left - 2 - min(ends, fieldLeft)
	if f.wide < 16 {
		return nil
	}
	f.head(c, curves)
	f.top = f.height()
	f.edge()
	f.guides(c)
	for i, l := range slices.Backward(c.Lines) {
		f.curve(c, i, l, curves)
	}
	if !curves {
		f.points(c.Lines)
	}
	for _, l := range c.Limits {
		if f.x.on(l.X) || l.X >= 100 && curves {
			f.set(f.column(l.X), f.row(l.Y), '▼', sheet.Strong)
		}
	}
	f.below(f.x, f.left, f.wide)
	f.set(f.left-1, f.height()-2, '└', sheet.Soft)
	if c.X.Title != "" {
		f.end(f.left+f.wide, f.height(), c.X.Title+" →", sheet.Soft)
	}
	return f.canvas
}

// upper is the upper part of curves of percentiles; nil if there is nothing of it.
func upper(c *sheet.Field) *sheet.Field {
	x, _ := fieldAxes(c)
	out := *c
	out.X.Low, out.X.High = max(50, x.low), x.high
	if c.Chance != nil && *c.Chance < out.X.High {
		out.X.High = *c.Chance
	}
	if !(out.X.High >= 90) || out.X.High <= out.X.Low {
		return nil
	}
	out.Lines = slices.Clone(c.Lines[:min(len(c.Lines), curvesMost)])
	for i, l := range out.Lines { // the axis of times is that of what is drawn
		out.Lines[i].Points = slices.DeleteFunc(slices.Clone(l.Points), func(p sheet.Point) bool {
			return !(p.X >= out.X.Low && p.X <= out.X.High)
		})
		if before, ok := at(l.Points, out.X.Low); ok && len(out.Lines[i].Points) > 0 {
			out.Lines[i].Points = slices.Insert(out.Lines[i].Points, 0, sheet.Point{X: out.X.Low, Y: before})
		}
		if after, ok := at(l.Points, out.X.High); ok {
			out.Lines[i].Points = append(out.Lines[i].Points, sheet.Point{X: out.X.High, Y: after})
		}
	}
	out.Limits = slices.DeleteFunc(slices.Clone(c.Limits), func(l sheet.Limit) bool { return !(l.X >= out.X.Low && l.X <= out.X.High || l.X >= 100) })
	return &out
}

// at is the value of a line of percentiles between its points.
func at(points []sheet.Point, x float64) (float64, bool) {
	for i, p := range points {
		switch {
		case p.X < x:
			continue
		case i == 0 || nines(p.X) <= nines(points[i-1].X):
			return p.Y, p.X == x
		}
		left, right := nines(points[i-1].X), nines(p.X)
		return points[i-1].Y + (p.Y-points[i-1].Y)*(nines(x)-left)/(right-left), true
	}
	return 0, false
}

// simple reports whether a field can be read without colours.
func simple(c *sheet.Field) bool {
	strokes, points := 0, 0
	for _, l := range c.Lines {
		if l.Stroke != sheet.NoStroke {
			strokes++
		}
		points += len(l.Points)
	}
	return strokes <= strokesMost && points <= pointsMost
}

// head says what is up, and what lines are.
func (f charField) head(c *sheet.Field, curves bool) {
	var parts []legend
	if c.Y.Title != "" {
		parts = append(parts, legend{"", c.Y.Title + " ↑", sheet.Soft})
	}
	if curves {
		for i, l := range c.Lines {
			p := penOf(i, l)
			parts = append(parts, legend{strings.Repeat(string(p.along), 2), l.Name, p.tone})
		}
		for _, l := range c.Limits {
			parts = append(parts, legend{"▼", l.Text, sheet.Strong})
		}
	}
	if f.y.logarithmic() {
		parts = append(parts, legend{"", "(logarithmic)", sheet.Soft})
	}
	x, y := f.left, 0
	for _, p := range parts {
		n := utf8.RuneCountInString(p.mark) + 1 + utf8.RuneCountInString(p.text)
		if x > f.left && x+n > f.width {
			x, y = f.left, y+1
		}
		tone := sheet.Plain
		if p.mark == "" {
			tone = p.tone
		} else {
			f.write(x, y, p.mark, p.tone)
			x += utf8.RuneCountInString(p.mark) + 1
		}
		f.write(x, y, p.text, tone)
		x += utf8.RuneCountInString(p.text) + 2
	}
}

// A legend explains a mark.
type legend struct {
	mark, text string
	tone       sheet.Tone
}

// edge draws the axis that goes up.
func (f charField) edge() {
	for row := range f.lines {
		f.set(f.left-1, f.top+row, '│', sheet.Soft)
	}
	ticks, _ := f.y.ticks()
	taken := map[int]bool{}
	for _, t := range ticks {
		y := f.top + f.lines - 1 - column(t.at, f.lines)
		if !taken[y] {
			taken[y] = true
			f.set(f.left-1, y, '┤', sheet.Soft)
			f.end(f.left-2, y, cut(t.text, fieldLeft-1), sheet.Plain)
		}
	}
}

// guides draws lines across and up, with what they are.
func (f charField) guides(c *sheet.Field) {
	for _, r := range c.Posts {
		for row := range f.lines {
			f.set(f.column(r.At), f.top+row, '┆', sheet.Soft)
		}
	}
	for _, r := range c.Rules {
		for x := range f.wide {
			f.set(f.left+x, f.row(r.At), '╌', sheet.Soft)
		}
		f.write(f.left+1, f.row(r.At), r.Text+" ", sheet.Soft)
	}
}

// A pen says what a line is drawn with: along, upwards, and the corners where it turns.
type pen struct {
	along, up                    rune
	endUp, beginUp, endDn, begDn rune
	tone                         sheet.Tone
}

var (
	solidPen  = pen{'─', '│', '╯', '╭', '╮', '╰', sheet.Strong}
	dottedPen = pen{'·', ':', '·', '·', '·', '·', sheet.Soft}
)

// penOf is what the i-th line is drawn with.
func penOf(i int, l sheet.Line) pen {
	if i > 0 || l.Stroke == sheet.Dotted || l.Faint {
		return dottedPen
	}
	return solidPen
}

// curve draws a line; of two that are on one row only the first is seen.
func (f charField) curve(c *sheet.Field, i int, l sheet.Line, curves bool) {
	if len(l.Points) == 0 {
		return
	}
	if l.Stroke != sheet.NoStroke {
		p := penOf(i, l)
		if !curves && l.Stroke == sheet.Solid {
			p = solidPen
			p.tone = sheet.Plain
		}
		rows := f.rows(l)
		if curves && i > 0 {
			for x, first := range f.rows(c.Lines[0]) {
				if rows[x] == first {
					rows[x] = -1
				}
			}
		}
		f.line(rows, p)
	}
	last := l.Points[len(l.Points)-1]
	if !curves && l.Name != "" && !math.IsNaN(last.X+last.Y) {
		if at, y := f.column(last.X)+2, f.row(last.Y); f.free(at, min(at+1, f.width), y) {
			f.write(at, y, l.Name, sheet.Strong)
		}
	}
}

// rows is the row of a line in each column; -1: it is not there.
func (f charField) rows(l sheet.Line) []int {
	rows := make([]int, f.wide)
	for i := range rows {
		rows[i] = -1
	}
	known := slices.DeleteFunc(slices.Clone(l.Points), func(p sheet.Point) bool { return math.IsNaN(p.X + p.Y) })
	for i, p := range known {
		to, high := f.column(p.X)-f.left, f.y.share(p.Y)
		from, low := to, high
		if i > 0 {
			from, low = f.column(known[i-1].X)-f.left, f.y.share(known[i-1].Y)
		}
		for x := min(from, to); x <= max(from, to); x++ {
			share := high
			if from != to {
				share = low + (high-low)*float64(x-from)/float64(to-from)
			}
			rows[x] = f.top + f.lines - 1 - column(share, f.lines)
		}
	}
	return rows
}

// line draws a line that goes to the right, a row for each column.
func (f charField) line(rows []int, p pen) {
	for x, row := range rows {
		if row < 0 {
			continue
		}
		before := row
		if x > 0 && rows[x-1] >= 0 {
			before = rows[x-1]
		}
		at := f.left + x
		switch {
		case before > row:
			f.set(at, before, p.endUp, p.tone)
			f.set(at, row, p.beginUp, p.tone)
		case before < row:
			f.set(at, before, p.endDn, p.tone)
			f.set(at, row, p.begDn, p.tone)
		default:
			f.set(at, row, p.along, p.tone)
		}
		for y := min(before, row) + 1; y < max(before, row); y++ {
			f.set(at, y, p.up, p.tone)
		}
	}
}

// points draws the points of all lines: first those that matter, then their names where these have room, and what is in the
// background where nothing else is.
func (f charField) points(lines []sheet.Line) {
	each := func(do func(p sheet.Point, x, y int)) {
		for _, l := range lines {
			for _, p := range l.Points {
				if p.Show != sheet.Hidden && !math.IsNaN(p.X+p.Y) {
					do(p, f.column(p.X), f.row(p.Y))
				}
			}
		}
	}
	each(func(p sheet.Point, x, y int) {
		if r := marksOf[p.Shape]; p.Show != sheet.Background && p.Open {
			f.set(x, y, r[1], sheet.Plain)
		} else if p.Show != sheet.Background {
			f.set(x, y, r[0], sheet.Plain)
		}
	})
	each(func(p sheet.Point, x, y int) {
		n := utf8.RuneCountInString(p.Name)
		switch {
		case n == 0 || p.Show == sheet.Background:
		case f.free(x+1, x+n+2, y):
			f.write(x+2, y, p.Name, sheet.Strong)
		case x-n-1 >= f.left && f.free(x-n-1, x, y):
			f.write(x-n-1, y, p.Name, sheet.Strong)
		}
	})
	each(func(p sheet.Point, x, y int) {
		if p.Show == sheet.Background && f.free(x, x+1, y) {
			f.set(x, y, '∙', sheet.Soft)
		}
	})
}
