package chart

import (
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// flameView is the tree of stacks, roots at the top: each frame as wide as its cost.
type flameView struct {
	figure
	Height int
	Frames []flameFrame
}

type flameFrame struct {
	Left, Width string
	Top         int
	Class       string
	Marked      bool
	Name, Title string
}

// Sizes of the flame graph.
const (
	flameRow  = 18 // pixels
	flameDeep = 64 // rows; what is deeper is not drawn
	flameText = 1. // percent of the width below which there is no room for a letter
)

func newFlame(c *sheet.Flame) *flameView {
	v := &flameView{figure: newFigure(c.Figure)}
	colors := map[string]string{}
	for _, k := range c.Classes {
		if k.Color >= sheet.FirstFlame { // any other has no colour
			colors[k.Name] = Class(k.Color)
		}
		text := k.Name
		if k.Text != "" {
			text += " " + k.Text
		}
		v.Keys = append(v.Keys, key{Class: colors[k.Name], Text: glued(text), Marked: k.Marked})
	}
	cut := false
	for _, f := range c.Frames {
		from := 100 * within(f.From, 0)
		width := min(100*within(f.Width, 0), 100-from)
		switch {
		case f.Depth > flameDeep:
			cut = true
			continue
		case width <= 0 || f.Depth < 1:
			continue
		}
		out := flameFrame{Left: percent(from), Width: percent(width), Top: (f.Depth - 1) * flameRow, Class: colors[f.Class], Marked: f.Marked, Title: f.Title}
		if width >= flameText {
			out.Name = f.Name
		}
		v.Frames = append(v.Frames, out)
		v.Height = max(v.Height, f.Depth*flameRow)
	}
	if cut {
		v.Notes = append(v.Notes, fmt.Sprintf("Frames more than %d deep are left out.", flameDeep))
	}
	return v
}
