package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// Of a field: its height, in pixels, and how many names stand at ends or beside points. What is more, or longer, is explained
// by keys below it, or by titles.
const (
	fieldHeight = 320
	endsMost    = fieldHeight / labelHeight
	endLetters  = 14
	namesMost   = 60
)

// newField draws what has two axes.
func newField(c *sheet.Field) *drawing {
	d, ends, phone := &drawing{Class: "plot field", Height: fieldHeight}, endsFit(c.Lines), float64(phoneField)
	if ends {
		d.Class, phone = "plot field ends", phoneEnds
	}
	x, y := fieldAxes(c)
	d.figure = newFigure(c.Figure, axisNotes(x, y)...)
	if c.Y.Title != "" {
		d.Above = c.Y.Title + " ↑"
	}
	if c.X.Title != "" {
		d.Below = c.X.Title + " →"
	}
	if c.Chance != nil && x.share(*c.Chance) < 100 {
		from := x.share(*c.Chance)
		d.rect("few", from, 0, 100-from, fieldHeight)
	}
	for _, t := range up(y) {
		d.across("grid", down(t.at, fieldHeight))
		d.beside(t.text, down(t.at, fieldHeight)+4)
	}
	for _, t := range across(x, phone) {
		d.tick("grid", t, 0, fieldHeight, fieldHeight+18)
	}
	d.across("rule", fieldHeight)
	for _, r := range c.Posts {
		if at := x.share(r.At); !math.IsNaN(r.At) {
			d.line("at "+Class(r.Color), at, 0, at, fieldHeight)
			d.text("named "+Class(r.Color), r.Text, at, -6, anchor(at))
		}
	}
	for _, r := range c.Rules {
		if !math.IsNaN(r.At) {
			d.rule(r, down(y.share(r.At), fieldHeight))
		}
	}
	d.lines(c.Lines, x, y, ends)
	d.points(c.Lines, x, y)
	for _, l := range c.Limits {
		if at, high := x.share(l.X), down(y.share(l.Y), fieldHeight); !math.IsNaN(l.X + l.Y) {
			d.add(&shape{Kind: "mark", Class: "bad", Path: "M-6-9H6L0 0z", X: inPercent(at), Y: pixels(high)})
			d.text("named bad", l.Text, at, high-14, anchor(at))
		}
	}
	return d
}

// rule draws a line across with what it is.
func (d *drawing) rule(r sheet.Rule, y float64) {
	d.across("at "+Class(r.Color), y)
	d.text("named "+Class(r.Color), r.Text, 0, y-5, "start").DX = "4"
}

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

// up are the ticks of a field's axis that goes up.
func up(a axis) (kept []tick) {
	ticks, even := a.ticks()
	for i, ok := range fitting(ticks, even, func(t tick) (from, to float64) {
		at := t.at / 100 * fieldHeight
		return at, at + labelHeight
	}) {
		if ok {
			kept = append(kept, ticks[i])
		}
	}
	return kept
}

// endsFit reports whether the names of lines have room at their ends.
func endsFit(lines []sheet.Line) bool {
	named := 0
	for _, l := range lines {
		if l.Name != "" {
			named++
		}
		if utf8.RuneCountInString(l.Name) > endLetters {
			return false
		}
	}
	return named > 0 && named <= endsMost
}

// lines draws the lines, the first on top, with their names at their ends or in keys.
func (d *drawing) lines(lines []sheet.Line, x, y axis, ends bool) {
	var places []float64
	var names []*shape
	for _, l := range slices.Backward(lines) {
		var points []string
		end := 0.0
		for _, p := range known(l) {
			end = down(y.share(p.Y), fieldHeight)
			points = append(points, coordinate(x.share(p.X), 100)+" "+pixels(end))
		}
		if len(points) == 0 {
			continue
		}
		if l.Stroke != sheet.NoStroke {
			class := "line " + Class(l.Color) + strokes[l.Stroke]
			if l.Faint {
				class += " faint"
			}
			d.stretched(class, "M"+strings.Join(slices.Compact(points), "L"), 0, fieldHeight, fmt.Sprintf("100 %d", fieldHeight))
		}
		switch {
		case l.Name == "":
		case ends:
			name := d.text("end "+Class(l.Color), l.Name, 100, 0, "start")
			name.More, name.DX = l.Tag, "8"
			places, names = append(places, end+4), append(names, name)
		default:
			k := sheet.Key{Shape: sheet.NoShape, Line: l.Stroke, Color: l.Color, Text: strings.TrimSpace(l.Name + " " + l.Tag)}
			if l.Stroke == sheet.NoStroke {
				k.Shape = sheet.Dot
			}
			d.Keys = append(d.Keys, newKey(k))
		}
	}
	for i, at := range apart(places, labelHeight, fieldHeight) {
		names[i].Y = pixels(at)
	}
}

// points draws the points of lines: those in the background, the others, and what is written beside these.
func (d *drawing) points(lines []sheet.Line, x, y axis) {
	radius := map[sheet.Show]float64{sheet.Background: 3, sheet.Small: 4, sheet.Large: 6}
	var names []pointName
	front, texts := &drawing{}, &drawing{}
	for _, l := range lines {
		for _, p := range known(l) {
			share, at, class := x.share(p.X), down(y.share(p.Y), fieldHeight), Class(cmp.Or(p.Color, l.Color))
			switch p.Show {
			case sheet.Hidden:
				continue
			case sheet.Background:
				d.mark(class+" faint", p.Shape, p.Open, share, at, 3, p.Title)
				continue
			}
			front.mark(class, p.Shape, p.Open, share, at, max(radius[p.Show], 3), p.Title)
			if p.Text != "" {
				text := texts.text("value", p.Text, share, at-9, "end")
				if share < 12 {
					text.Anchor = "start"
				}
				if p.Wide {
					text.Class += " wide"
				}
			}
			if p.Name != "" && len(names) < namesMost {
				name := pointName{y: at + 4, left: share, wide: 100 * (10 + letterWidth*1.15*float64(utf8.RuneCountInString(p.Name))) / phoneField}
				name.shape = texts.text("pointname "+class, p.Name, share, 0, "start")
				if name.DX = "10"; share > 55 {
					name.DX, name.Anchor, name.left = "-10", "end", share-name.wide
				}
				names = append(names, name)
			}
		}
	}
	spread(names)
	d.Shapes = slices.Concat(d.Shapes, front.Shapes, texts.Shapes)
}

// A pointName is the name of a point, and the room that it takes on a phone, in percent.
type pointName struct {
	*shape
	left, wide, y float64
}

// spread keeps names apart that would be above each other.
func spread(names []pointName) {
	slices.SortStableFunc(names, func(a, b pointName) int { return cmp.Compare(a.left, b.left) })
	for from := 0; from < len(names); {
		to, right := from, math.Inf(-1)
		var places []float64
		for ; to < len(names) && (to == from || names[to].left < right); to++ {
			right = max(right, names[to].left+names[to].wide)
			places = append(places, names[to].y)
		}
		for i, at := range apart(places, labelHeight, fieldHeight) {
			names[from+i].Y = pixels(at)
		}
		from = to
	}
}
