// Package chart answers: how is a chart drawn? In go the charts of a sheet, which are data in the units of their axes; out
// come figures of HTML with SVG, and lines of characters for a terminal, where these can be read without colours. One axis and
// one way to find room for texts serve both.
//
// In figures places are in percent of the width and the height, and only what keeps its size is in pixels: so text can be
// read on a phone, rows are as high as their labels, and no script needs to know the width. The flame graph alone has a script, without
// which it is complete too. The page around gives the colours of text and paper, see chart.css.
//
// It computes nothing of its own and knows no verb. Texts must be printable already.
package chart

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"sync"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

//go:embed chart.html
var templates string

// CSS is the style of all charts. It needs the page's variables: paper, panel, ink, soft, rule, grid, accent, other, thread,
// good, bad and warn.
//
//go:embed chart.css
var CSS string

//go:embed flame.js
var flameScript string

// Script is what a page with these charts runs; "" if nothing.
func Script(charts []sheet.Chart) string {
	isFlame := func(c sheet.Chart) bool {
		_, ok := c.(*sheet.Flame)
		return ok && !c.Empty()
	}
	if slices.ContainsFunc(charts, isFlame) {
		return flameScript
	}
	return ""
}

// parsed are the templates. They are read when the first chart is drawn and not when the command starts: it takes time.
var parsed = sync.OnceValues(func() (*template.Template, error) { return template.New("chart.html").Parse(templates) })

// HTML draws a chart as a figure; "" if there is nothing to be drawn.
func HTML(c sheet.Chart) (template.HTML, error) {
	if c == nil || c.Empty() {
		return "", nil
	}
	name, data := "drawing", any(nil)
	switch c := c.(type) {
	case *sheet.Rows:
		data = newRows(c)
	case *sheet.Field:
		data = newField(c)
	case *sheet.Strips:
		data = newStrips(c)
	case *sheet.Fold:
		data = newFold(c)
	case *sheet.Flame:
		name, data = "flame", newFlame(c)
	default:
		return "", fmt.Errorf("drawing a chart: no drawing is known of %T", c)
	}
	t, err := parsed()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("drawing a chart: %w", err)
	}
	return template.HTML(b.String()), nil
}

// widthMost is how wide a drawing in a terminal is at most: wider is not clearer.
const widthMost = 120

// Text draws a chart with characters, in lines no wider than width columns; nil if that can't be read, or if the chart is for pages.
func Text(c sheet.Chart, width int, paint Paint) []string {
	if c == nil || c.Empty() || width <= 0 {
		return nil
	}
	width = min(width, widthMost)
	var drawn *canvas
	switch c := c.(type) {
	case *sheet.Rows:
		drawn = rowsText(c, width)
	case *sheet.Field:
		drawn = fieldText(c, width)
	case *sheet.Strips:
		drawn = stripsText(c, width)
	case *sheet.Fold:
		drawn = foldText(c, width)
	}
	if drawn == nil {
		return nil
	}
	return drawn.lines(paint)
}

// A figure is what is around all drawings.
type figure struct {
	Title, Above, Below string // Above and below are names of axes
	Label               string // for readers who don't see it
	Notes               []string
	Shades              bool // there is a scale of them
	Keys                []key
}

func newFigure(f sheet.Figure, notes ...string) figure {
	out := figure{Title: f.Title, Label: cmp.Or(f.About, f.Title)}
	for _, text := range slices.Concat(f.Legend, notes) {
		out.Notes = append(out.Notes, glued(text))
	}
	for _, k := range f.Keys {
		out.Keys = append(out.Keys, key{Class: Class(k.Color), Path: paths[k.Shape], Text: glued(k.Text), Open: k.Open})
	}
	return out
}

// A key explains a mark, or a line.
type key struct {
	Class, Path, Text string
	Open, Line        bool
	Marked            bool
}

// paths are the outlines of marks; a dot is a circle.
var paths = map[sheet.Shape]string{
	sheet.Diamond:  "M0-5.5 5.5 0 0 5.5-5.5 0z",
	sheet.Triangle: "M0-5.5 5.5 4.5H-5.5z",
}

// strokes are the classes of lines that are not solid.
var strokes = map[sheet.Stroke]string{sheet.Dotted: " dotted", sheet.Dashed: " dashed"}

// Class is the class of a colour in CSS, for keys outside of charts too.
func Class(c sheet.Color) string {
	switch {
	case c == sheet.BadColor:
		return "bad"
	case c == sheet.GoodColor:
		return "good"
	case c >= sheet.FirstFlame:
		return fmt.Sprintf("f%d", (c-sheet.FirstFlame)%sheet.FlameColors)
	case c >= sheet.BaseColor:
		return fmt.Sprintf("s%d", (c-sheet.BaseColor)%sheet.Colors+1)
	}
	return "s0"
}

// glued keeps numbers on the line of their units.
func glued(text string) string {
	words := strings.Split(text, " ")
	var b strings.Builder
	for i, word := range words {
		switch {
		case i == 0:
		case quantity.Glued(words[i-1], word):
			b.WriteString("\u00a0")
		default:
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	return b.String()
}

// title is a label's first line.
func title(l sheet.Label) string { return strings.TrimSpace(l.Name + " " + l.Tag) }
