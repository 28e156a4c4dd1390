package chart

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// Of a field: its height, in pixels, and the longest names of lines that fit at their ends. Longer ones are explained by keys below it.
const (
	fieldHeight = 320
	endLetters  = 14
)

// A field is a drawing between two axes, with the texts that are still to be written into it, by their importance.
type field struct {
	*drawing
	x, y  axis
	texts []label
	marks []label // which texts keep off
}

// newField draws what has two axes.
func newField(c *sheet.Field) *drawing {
	f, phone := &field{drawing: &drawing{Class: "plot field", Tall: fieldHeight}}, float64(phoneField)
	if slices.ContainsFunc(c.Lines, func(l sheet.Line) bool { return l.Name != "" }) {
		f.Class, phone = "plot field ends", phoneEnds
	}
	if slices.ContainsFunc(c.Lines, func(l sheet.Line) bool { return l.Short != "" }) {
		f.Class += " long" // names, on a desk
	}
	f.x, f.y = fieldAxes(c)
	f.figure = newFigure(c.Figure, append(f.x.notes("The axis across"), f.y.notes("The axis up")...)...)
	if c.Y.Title != "" {
		f.Above = c.Y.Title + " ↑"
	}
	if c.X.Title != "" {
		f.Below = c.X.Title + " →"
	}
	if c.Chance != nil {
		from := f.x.share(*c.Chance)
		f.rect("few", "", from, 0, 100-from, 100)
	}
	for _, t := range upright(f.y, fieldHeight, lineHeight) {
		f.across("grid", 100-t.at)
		f.beside(t.text, 100-t.at, 4)
	}
	f.ticks(f.x, phone, "grid", false, true)
	f.across("rule", 100)
	f.guides(c)
	for _, l := range slices.Backward(c.Lines) {
		f.curve(l)
	}
	for _, l := range c.Lines {
		f.named(l)
	}
	f.points(c.Lines)
	f.settle(phone)
	return f.drawing
}

func (f *field) at(x, y float64) (across, below float64) { return f.x.share(x), 100 - f.y.share(y) }

// fieldAxes are the axes of all that is in the field.
func fieldAxes(c *sheet.Field) (x, y axis) {
	var xs, ys []float64
	for _, l := range c.Lines {
		for _, p := range known(l) {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	for _, l := range c.Limits {
		xs, ys = append(xs, l.X), append(ys, l.Y)
	}
	for _, r := range c.Rules {
		ys = append(ys, r.At)
	}
	for _, r := range c.Posts {
		xs = append(xs, r.At)
	}
	return newAxis(c.X, xs), newAxis(c.Y, ys)
}

// known are the points of a line that are somewhere.
func known(l sheet.Line) []sheet.Point {
	return slices.DeleteFunc(slices.Clone(l.Points), func(p sheet.Point) bool { return math.IsNaN(p.X + p.Y) })
}

// upright are the ticks of an axis that goes up or down so far, at least so far from each other.
func upright(a axis, tall, apart float64) []tick {
	ticks, even := a.ticks()
	return thinned(ticks, even, func(t tick) (from, to float64) { return t.at / 100 * tall, t.at/100*tall + apart })
}

// guides draws lines across and up, and what lines must pass below, with what they are.
func (f *field) guides(c *sheet.Field) {
	for _, l := range c.Limits {
		x, y := f.at(l.X, l.Y)
		f.element("svg", `<path class="dot bad" d="M-6-9H6L0 0z"/>`, `x="%s" y="%s"`, percent(x), percent(y))
		f.texts = append(f.texts, label{class: "named bad", text: l.Text, x: x, y: y, dy: -14, anchor: anchor(x)})
	}
	for _, r := range c.Posts {
		at := f.x.share(r.At)
		f.up("at "+Class(r.Color), "", at)
		f.texts = append(f.texts, label{class: "named " + Class(r.Color), text: r.Text, x: at, dy: -6, anchor: anchor(at)})
	}
	for _, r := range c.Rules {
		y := 100 - f.y.share(r.At)
		f.across("at "+Class(r.Color), y)
		f.texts = append(f.texts, label{class: "named " + Class(r.Color), text: r.Text, y: y, dx: 4, dy: -5, anchor: "start"})
	}
}

// curve draws a line.
func (f *field) curve(l sheet.Line) {
	var points []string
	for _, p := range known(l) {
		points = append(points, point(f.at(p.X, p.Y)))
	}
	if l.Stroke != sheet.NoStroke && len(points) > 0 {
		f.joined("line "+Class(l.Color)+strokes[l.Stroke], points)
	}
}

// named writes the name of a line at its end, or in a key.
func (f *field) named(l sheet.Line) {
	points, class := known(l), Class(l.Color)
	if l.Name == "" || len(points) == 0 {
		return
	}
	k := &key{Class: class + strokes[l.Stroke], Line: true, Text: glued(title(sheet.Label{Name: l.Name, Tag: l.Tag}))}
	if utf8.RuneCountInString(l.Name) > endLetters {
		f.Keys = append(f.Keys, *k)
		return
	}
	_, end := f.at(points[len(points)-1].X, points[len(points)-1].Y)
	name := label{class: "end " + class, text: l.Name, more: l.Tag, x: 100, y: end, dx: 8, dy: 4, anchor: "start", key: k}
	if l.Short != "" {
		name.text, name.long = l.Short, l.Name
	}
	f.texts = append(f.texts, name)
}

// points draws the points of lines: those in the background, the others, and what is written next to these.
func (f *field) points(lines []sheet.Line) {
	radius := map[sheet.Show]float64{sheet.Background: 3, sheet.Small: 4, sheet.Large: 6}
	for _, layer := range [][]sheet.Show{{sheet.Background}, {sheet.Small, sheet.Large}} {
		for _, l := range lines {
			for _, p := range known(l) {
				if slices.Contains(layer, p.Show) {
					f.point(p, Class(cmp.Or(p.Color, l.Color)), radius[p.Show])
				}
			}
		}
	}
}

func (f *field) point(p sheet.Point, class string, radius float64) {
	at, y := f.at(p.X, p.Y)
	if p.Show == sheet.Background {
		class += " faint"
	}
	f.mark(class, p.Title, p.Shape, p.Open, at, y, radius)
	name := label{class: "pointname " + class, text: p.Name, x: at, y: y, dx: 10, dy: 4, anchor: "start", key: &key{Class: class, Text: glued(p.Name)}}
	if at > 55 {
		name.dx, name.anchor = -10, "end"
	}
	if p.Name != "" {
		f.marks = append(f.marks, label{x: at, y: y, dy: 6})
	}
	value := label{class: "value", text: p.Text, x: at, y: y, dy: -9, anchor: "end"}
	if at < 12 {
		value.anchor = "start"
	}
	f.texts = append(f.texts, name, value)
}

// settle writes the texts where they have room on a phone: then they have it on any other screen too.
func (f *field) settle(width float64) {
	var all taken
	for _, m := range f.marks {
		all = append(all, m.box(width, fieldHeight))
	}
	for _, l := range f.texts {
		if l.box(width, fieldHeight).left < 0 {
			l.anchor = "start" // on the left is the axis
		}
		put, ok := l.settled(func(l label) bool { return all.free(l.box(width, fieldHeight)) })
		switch {
		case l.text == "":
		case ok:
			taken := put.box(width, fieldHeight)
			all = append(all, box{taken.left - tickGap, taken.right + tickGap, taken.top, taken.bottom}) // letters may be wider than they are thought
			f.write(put)
		case l.key != nil:
			f.Keys = append(f.Keys, *l.key)
		}
	}
}

// settled is the label as near to where it belongs as it is free, up or down by half lines; false if it is nowhere.
func (l label) settled(free func(label) bool) (label, bool) {
	dy := l.dy
	for i := range 4*linesAway + 1 {
		l.dy = dy + float64((i+1)/2*(1-i%2*2))*lineHeight/2
		if y := l.y/100*fieldHeight + l.dy; y >= -6 && y <= fieldHeight+4 && free(l) {
			return l, true
		}
	}
	return l, false
}

// linesAway is how many lines a text may be from where it belongs.
const linesAway = 5

// Sizes of a field in a terminal: its lines, and the columns of the names at its left.
const (
	fieldLines = 10
	fieldLeft  = 10
)

// fieldText draws the percentiles of a load, from the median on and up to where they are chance. More lines can't be distinguished without
// colours, and points and what else is in fields are for pages.
func fieldText(c *sheet.Field, width int) *canvas {
	var lines []sheet.Line
	for _, l := range c.Lines {
		l.Points = slices.DeleteFunc(known(l), func(p sheet.Point) bool { return p.X < 50 || c.Chance != nil && p.X > *c.Chance })
		if l.Stroke != sheet.NoStroke && len(l.Points) > 1 {
			lines = append(lines, l)
		}
	}
	d := &canvas{width: width, left: margin + fieldLeft, wide: width - margin - fieldLeft - 2}
	if c.X.Scale != sheet.Percentiles || len(lines) == 0 || len(lines) > 2 || d.wide < plotLeast {
		return nil
	}
	x, y := fieldAxes(&sheet.Field{X: sheet.Axis{Scale: c.X.Scale}, Y: c.Y, Lines: lines, Limits: c.Limits})
	d.head(lines, c.Limits, y)
	top := d.height()
	row := func(share float64) int { return top + fieldLines - 1 - steps(share, fieldLines) }
	for i := range fieldLines {
		d.set(d.left-1, top+i, '│', sheet.Soft)
	}
	for _, t := range upright(y, fieldLines-1, 1) {
		d.set(d.left-1, row(t.at), '┤', sheet.Soft)
		d.end(d.left-2, row(t.at), cut(t.text, fieldLeft-1))
	}
	for _, l := range slices.Backward(lines) {
		d.curve(l, x, y, row)
	}
	for _, l := range c.Limits {
		if x.on(l.X) || l.X >= 100 {
			d.set(d.column(x.share(l.X)), row(y.share(l.Y)), '▼', sheet.Strong)
		}
	}
	d.below(x)
	d.set(d.left-1, d.height()-2, '└', sheet.Soft)
	return d
}

// head says what lines and marks are.
func (c *canvas) head(lines []sheet.Line, limits []sheet.Limit, y axis) {
	var parts []string
	for _, l := range lines {
		pen := "──"
		if l.Stroke != sheet.Solid {
			pen = "··"
		}
		parts = append(parts, pen+"\u00a0"+l.Name)
	}
	for _, l := range limits {
		parts = append(parts, strings.ReplaceAll("▼ "+l.Text, " ", "\u00a0"))
	}
	if y.log {
		parts = append(parts, "(logarithmic)")
	}
	c.say(c.left, strings.Join(parts, "  "))
}

// What lines are drawn with: along, upwards, and the corners where they turn up or down.
var (
	solid  = []rune("─│╯╭╮╰")
	dotted = []rune("·:····")
)

// curve draws a line through its points, from left to right.
func (c *canvas) curve(l sheet.Line, x, y axis, row func(share float64) int) {
	rows := slices.Repeat([]int{-1}, c.width)
	for i, to := range l.Points {
		from := l.Points[max(i-1, 0)]
		first, last, low, high := c.column(x.share(from.X)), c.column(x.share(to.X)), y.share(from.Y), y.share(to.Y)
		for at := first; at <= last; at++ {
			rows[at] = row(low + (high-low)*float64(at-first)/float64(max(last-first, 1)))
		}
		rows[last] = row(high)
	}
	p, tone := solid, sheet.Strong
	if l.Stroke != sheet.Solid {
		p, tone = dotted, sheet.Soft
	}
	for at, now := range rows {
		before := rows[max(at-1, 0)]
		switch {
		case now < 0:
			continue
		case before < 0 || before == now:
			before = now
			c.set(at, now, p[0], tone)
		case before > now:
			c.set(at, before, p[2], tone)
			c.set(at, now, p[3], tone)
		default:
			c.set(at, before, p[4], tone)
			c.set(at, now, p[5], tone)
		}
		for up := min(before, now) + 1; up < max(before, now); up++ {
			c.set(at, up, p[1], tone)
		}
	}
}
