package chart

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// A drawing is a figure whose plot is SVG, with labels next to its rows or not. Places in it are in percent of its width and its height,
// and only what keeps its size is in pixels.
type drawing struct {
	figure
	Class, Factor, Side string // of the plot, and headings of the labels and of the bars at the side
	Tall                int    // pixels of a row at least, or of all if it has no rows
	Rows                []row
	svg                 strings.Builder
}

// A row is a row of a drawing with its label. All are equally high: enough for the highest label.
type row struct {
	Name, Tag, Class string
	Lines            []cell
	Share, Wide      string // text and length of the bar at the side
	Number           int    // in the grid of the plot, whose first row is the axis
	top, tall        float64
}

// A cell is a line of a label.
type cell struct{ Text, Class string }

// tones are the classes of texts.
var tones = map[sheet.Tone]string{
	sheet.Strong: "strong", sheet.Soft: "soft", sheet.Good: "better", sheet.Bad: "worse", sheet.Warn: "warn", sheet.Unsure: "soft",
}

func (d *drawing) row(l sheet.Label, of int) *row {
	tall := 100 / float64(of)
	r := row{Name: l.Name, Tag: l.Tag, Class: Class(l.Color), Number: len(d.Rows) + 2, top: tall * float64(len(d.Rows)), tall: tall}
	for _, c := range l.Lines {
		r.Lines = append(r.Lines, cell{glued(c.Text), tones[c.Tone]})
	}
	d.Rows = append(d.Rows, r)
	return &d.Rows[len(d.Rows)-1]
}

// down is so far down a row, as a share of 1, without its edges.
func (r row) down(share float64) float64 { return r.top + r.tall*(edge+(1-2*edge)*share) }

// edge is the part of a row that is left free at its top and at its bottom.
const edge = 0.12

// SVG is what is in the plot.
func (d *drawing) SVG() template.HTML { return template.HTML(d.svg.String()) }

// element writes an element with its attributes. What is in it must be escaped already.
func (d *drawing) element(name, in, attributes string, values ...any) {
	fmt.Fprintf(&d.svg, "\n<%s "+attributes, append([]any{name}, values...)...)
	if in == "" {
		d.svg.WriteString("/>")
	} else {
		d.svg.WriteString(">" + in + "</" + name + ">")
	}
}

// titled is the element of what is said of another.
func titled(text string) string {
	if text == "" {
		return ""
	}
	return "<title>" + html.EscapeString(glued(text)) + "</title>"
}

func (d *drawing) line(class, title string, x1, y1, x2, y2 float64) {
	d.element("line", titled(title), `class="%s" x1="%s" x2="%s" y1="%s" y2="%s"`, class, percent(x1), percent(x2), percent(y1), percent(y2))
}

func (d *drawing) across(class string, y float64) { d.line(class, "", 0, y, 100, y) }

func (d *drawing) up(class, title string, x float64) { d.line(class, title, x, 0, x, 100) }

func (d *drawing) rect(class, title string, x, y, wide, tall float64) {
	d.element("rect", titled(title), `class="%s" x="%s" y="%s" width="%s" height="%s"`, class, percent(x), percent(y), percent(wide), percent(tall))
}

func (d *drawing) mark(class, title string, s sheet.Shape, open bool, x, y, radius float64) {
	class = "dot " + class
	if open {
		class += " open"
	}
	if path := paths[s]; path != "" {
		d.element("svg", fmt.Sprintf(`%s<path class="%s" d="%s"/>`, titled(title), class, path), `x="%s" y="%s"`, percent(x), percent(y))
		return
	}
	d.element("circle", titled(title), `class="%s" cx="%s" cy="%s" r="%s"`, class, percent(x), percent(y), number(radius))
}

// stretched draws a path in units of its own over a part of the height: unitsWide and unitsTall are the width and the height.
func (d *drawing) stretched(class, title, path string, y, tall float64, unitsWide, unitsTall int) {
	d.element("svg", fmt.Sprintf(`%s<path class="%s" d="%s"/>`, titled(title), class, path),
		`y="%s" height="%s" viewBox="0 0 %d %d" preserveAspectRatio="none"`, percent(y), percent(tall), unitsWide, unitsTall)
}

// joined draws a line through points.
func (d *drawing) joined(class string, points []string) {
	d.stretched(class, "", "M"+strings.Join(slices.Compact(points), "L"), 0, 100, 100, 100)
}

func point(x, y float64) string { return number(x) + " " + number(y) }

func percent(v float64) string { return number(v) + "%" }

// number writes a coordinate; adding 0 takes the sign from a zero.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100+0, 'f', -1, 64) }

// A label is a text next to a place, some pixels from it.
type label struct {
	class, text, more string // more is added where there is room
	long              string // replaces the text where there is room
	x, y, dx, dy      float64
	anchor            string
	key               *key // is used instead where it has no room
}

func (d *drawing) write(l label) {
	in := html.EscapeString(glued(l.text))
	if l.long != "" {
		in = `<tspan class="wide">` + html.EscapeString(glued(l.long)) + `</tspan><tspan class="narrow">` + in + "</tspan>"
	}
	if l.more != "" {
		in += `<tspan class="wide"> ` + html.EscapeString(glued(l.more)) + "</tspan>"
	}
	d.element("text", in, `class="%s" x="%s" y="%s" dx="%s" dy="%s" text-anchor="%s"`, l.class, percent(l.x), percent(l.y), number(l.dx), number(l.dy), l.anchor)
}

// Sizes of texts, in pixels.
const (
	lineHeight  = 16
	letterWidth = 6.8
	tickGap     = 6 // between the names of ticks
)

// How wide drawings are at least: on a desk, and on the smallest phone next to what is at their sides.
const (
	deskWidth  = 520
	phoneRows  = 176
	phoneSided = 112
	phoneField = 208
	phoneEnds  = 160
)

// box is the room of a text, in a drawing of this size in pixels.
func (l label) box(width, height float64) box {
	left, wide := l.x/100*width+l.dx, float64(utf8.RuneCountInString(l.text))*letterWidth
	switch l.anchor {
	case "middle":
		left -= wide / 2
	case "end":
		left -= wide
	}
	bottom := l.y/100*height + l.dy
	return box{left, left + wide, bottom - lineHeight, bottom}
}

// anchor says to which side of its place a text goes so that it doesn't reach out of the drawing.
func anchor(share float64) string {
	switch {
	case share < 2:
		return "start"
	case share > 95:
		return "end"
	}
	return "middle"
}

// ticks draws the ticks of an axis that goes across, with a line each of that class, and their names above the plot or below
// it: as many as have room.
func (d *drawing) ticks(a axis, phone float64, class string, above, below bool) {
	if above && below {
		d.Class += " many"
	}
	ticks, even := a.ticks()
	to := func(t tick) string { // above the plot is a title to the left, which is near on a phone
		if above && (label{text: t.text, x: t.at, anchor: anchor(t.at)}).box(phone, 0).left < -tickGap {
			return "start"
		}
		return anchor(t.at)
	}
	in := func(width float64) func(tick) (from, to float64) {
		return func(t tick) (float64, float64) {
			b := label{text: t.text, x: t.at, anchor: to(t)}.box(width, 0)
			return b.left, b.right + tickGap
		}
	}
	ticks = thinned(ticks, even, in(deskWidth))
	small := thinned(ticks, even, in(phone))
	for _, t := range ticks {
		name := label{class: "tick", text: t.text, x: t.at, dy: -12, anchor: to(t)}
		if !slices.Contains(small, t) {
			name.class += " wide"
		}
		if class != "" {
			d.up(class, "", t.at)
		}
		if above {
			d.write(name)
		}
		if name.y, name.dy = 100, 18; below {
			d.write(name)
		}
	}
}

// beside writes the name of a tick to the left of the drawing.
func (d *drawing) beside(text string, y, dy float64) {
	d.write(label{class: "tick", text: text, y: y, dx: -8, dy: dy, anchor: "end"})
}
