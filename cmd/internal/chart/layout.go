package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// Sizes, in pixels. The style has some of them too.
const (
	axisHeight  = 26
	rowMargin   = 10 // above and below what is in a row
	labelHeight = 16 // of a line of text within a drawing
	letterWidth = 6.8
	tickGap     = 6 // between the names of ticks
)

// How wide drawings are at least: on a desk, and on the smallest phone beside what is at their sides.
const (
	deskWidth  = 520
	phoneRows  = 176
	phoneSided = 112
	phoneField = 208
	phoneEnds  = 160
)

// A place is a tick that goes across, as screens show it.
type place struct {
	tick
	wide bool // its name is shown where there is room only
	bare bool // it has no name
}

// anchor tells to which side of its place a text goes so that it doesn't reach out of the drawing.
func anchor(share float64) string {
	switch {
	case share < 2:
		return "start"
	case share > 95:
		return "end"
	}
	return "middle"
}

// box is the room that a tick's name takes in so wide a drawing.
func box(width float64) func(tick) (from, to float64) {
	return func(t tick) (from, to float64) {
		at, wide := t.at/100*width, float64(utf8.RuneCountInString(t.text))*letterWidth+tickGap
		switch anchor(t.at) {
		case "start":
			return at, at + wide
		case "end":
			return at - wide, at
		}
		return at - wide/2, at + wide/2
	}
}

// across are the ticks of an axis that have their names on a screen, from left to right.
func across(a axis, phone float64) []place {
	ticks, even := a.ticks()
	return slices.DeleteFunc(screens(ticks, even, phone), func(p place) bool { return p.bare })
}

// screens chooses the ticks whose names have room on a screen, and of these the ones that have room on a phone.
func screens(ticks []tick, even bool, phone float64) []place {
	out := make([]place, len(ticks))
	var left []tick
	var at []int
	for i, ok := range fitting(ticks, even, box(deskWidth)) {
		out[i] = place{tick: ticks[i], bare: !ok}
		if ok {
			left, at = append(left, ticks[i]), append(at, i)
		}
	}
	for i, ok := range fitting(left, even, box(phone)) {
		out[at[i]].wide = !ok
	}
	return out
}

// down is how far down a height in percent is.
func down(share, height float64) float64 { return height * (1 - max(0, min(share, 100))/100) }

// A row is a row of a drawing with its label.
type row struct {
	Name, Tag, Class string
	Lines            []cell
	GridRow          int
	Share, Wide      string // text and length of the bar at the side
	start, tall      float64
}

func (r row) middle() float64 { return r.start + r.tall/2 }
func (r row) end() float64    { return r.start + r.tall }

// A cell is a line of a label.
type cell struct{ Text, Class string }

// tones are the classes of texts.
var tones = map[sheet.Tone]string{
	sheet.Strong: "strong", sheet.Soft: "soft", sheet.Good: "better", sheet.Bad: "worse", sheet.Warn: "warn", sheet.Unsure: "soft",
}

func newRow(l sheet.Label) row {
	r := row{Name: l.Name, Tag: l.Tag, Class: Class(l.Color)}
	for _, c := range l.Lines {
		for _, text := range append([]string{c.Text}, c.More...) {
			if text != "" {
				r.Lines = append(r.Lines, cell{glued(text), tones[c.Tone]})
			}
		}
	}
	r.tall = float64(8 + nameHeight*broken(strings.TrimSpace(r.Name+" "+r.Tag), nameLetters))
	for _, line := range r.Lines {
		r.tall += float64(lineHeight * broken(line.Text, lineLetters))
	}
	return r
}

// Lines of a label on a phone: how many letters have room in them, and their heights in pixels.
const (
	nameLetters = 11
	lineLetters = 13
	nameHeight  = 20
	lineHeight  = 17
)

// wordLines is how many lines a word of a name is given: one from outside may be of any length, and is cut.
const wordLines = 5

// broken is how many lines a text takes. A browser breaks a long word too, where it is not of letters alone.
func broken(text string, letters int) int {
	lines, used := 1, -1
	for word := range strings.SplitSeq(text, " ") {
		n := utf8.RuneCountInString(word)
		if used >= 0 && used+1+n > letters {
			lines, used = lines+1, -1
		}
		if strings.ContainsFunc(word, unicode.IsPunct) {
			lines += min((n-1)/letters, wordLines-1)
		}
		used += 1 + n
	}
	return lines
}

// A layout is rows below each other, below an axis.
type layout struct {
	Factor string
	Rows   []row
	rows   string // the heights, for the style
	end    int
	many   bool // the axis is repeated below the rows
}

// rowsMany is from how many rows on the axis is repeated below them.
const rowsMany = 7

// newLayout gives rows their places; each is as high as it has to be for its label.
func newLayout(factor string, rows []row) (l layout, height int) {
	l = layout{Factor: factor, Rows: rows, end: axisHeight, many: len(rows) >= rowsMany}
	grid := []string{fmt.Sprintf("%dpx", axisHeight)}
	for i := range rows {
		rows[i].GridRow, rows[i].start = i+2, float64(l.end)
		l.end += int(rows[i].tall)
		grid = append(grid, fmt.Sprintf("%dpx", int(rows[i].tall)))
	}
	if height = l.end; l.many {
		height += axisHeight
		grid = append(grid, grid[0])
	}
	l.rows = "grid-template-rows: " + strings.Join(grid, " ")
	return l, height
}

// within is a share of 1 that is one.
func within(v, otherwise float64) float64 {
	if math.IsNaN(v) {
		return otherwise
	}
	return max(0, min(v, 1))
}
