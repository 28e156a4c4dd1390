package chart

import (
	"html/template"
	"math"
	"strconv"

	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// A drawing is a figure whose plot is SVG, with labels beside it or not.
type drawing struct {
	figure
	layout
	Class  string // of the plot
	Side   string // heading of the bars at the side
	Height int
	Shapes []*shape
}

// A shape is a part of a drawing. Places across are in percent of the width, places down in pixels.
type shape struct {
	Kind, Class, Title string
	X, Y               string
	Wide, Tall         string // of a line: where it ends
	Text, More         string // more is added where there is room
	DX, Anchor         string
	Radius, Path, Box  string
	Opacity, Stroke    string
	Open               bool
	Shapes             []*shape // of a group
}

// Grid is the style of the grid that a plot is.
func (d *drawing) Grid() template.CSS { return template.CSS(d.rows) }

func (d *drawing) add(s *shape) *shape {
	d.Shapes = append(d.Shapes, s)
	return s
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64) *shape {
	return d.add(&shape{Kind: "line", Class: class, X: inPercent(x1), Y: pixels(y1), Wide: inPercent(x2), Tall: pixels(y2)})
}

func (d *drawing) across(class string, y float64) *shape { return d.line(class, 0, y, 100, y) }

func (d *drawing) rect(class string, x, y, wide, tall float64) *shape {
	return d.add(&shape{Kind: "rect", Class: class, X: inPercent(x), Y: pixels(y), Wide: inPercent(wide), Tall: pixels(tall)})
}

func (d *drawing) text(class, text string, x, y float64, anchor string) *shape {
	return d.add(&shape{Kind: "text", Class: class, Text: glued(text), X: inPercent(x), Y: pixels(y), Anchor: anchor})
}

func (d *drawing) mark(class string, s sheet.Shape, open bool, x, y, radius float64, title string) *shape {
	return d.add(&shape{Kind: "mark", Class: class, Path: paths[s], Open: open, X: inPercent(x), Y: pixels(y), Radius: pixels(radius), Title: glued(title)})
}

// stretched is a path in units of its own, from some place down; the box says how wide and high it is in these.
func (d *drawing) stretched(class, path string, y, tall float64, box string) *shape {
	return d.add(&shape{Kind: "path", Class: class, Path: path, Y: pixels(y), Tall: pixels(tall), Box: "0 0 " + box})
}

// tick draws a tick's line, and its name if it has one.
func (d *drawing) tick(class string, t place, from, to, text float64) {
	d.line(class, t.at, from, t.at, to)
	if !t.bare {
		d.name(t, text)
	}
}

// name writes the name of a tick that goes across.
func (d *drawing) name(t place, y float64) {
	class := ""
	if t.wide {
		class = "wide"
	}
	d.text(class, t.text, t.at, y, anchor(t.at))
}

// beside writes a text to the left of the drawing, for an axis that goes down.
func (d *drawing) beside(text string, y float64) { d.text("", text, 0, y, "end").DX = "-8" }

// top draws the ticks of an axis above all rows, and below them too if these are many.
func (d *drawing) top(class string, ticks []place) {
	for _, t := range ticks {
		d.tick(class, t, 20, float64(d.end), 14)
		if d.many && !t.bare {
			d.name(t, float64(d.end+18))
		}
	}
}

func inPercent(v float64) string { return coordinate(v, 100) + "%" }

func pixels(v float64) string { return coordinate(v, 10) }

// coordinate is a number of a drawing.
func coordinate(v, digits float64) string {
	return strconv.FormatFloat(math.Round(v*digits)/digits, 'f', -1, 64)
}
