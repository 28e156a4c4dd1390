package chart

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// A Paint gives a text the look of its tone.
type Paint = func(tone sheet.Tone, text string) string

// A canvas is a drawing made of characters. Row 0 is at the top; it grows downwards.
type canvas struct {
	width      int
	rows       [][]char
	left, wide int // where the plot is
}

// A char is a character with its tone.
type char struct {
	r    rune
	tone sheet.Tone
}

// Columns: how far drawings are from the left, of names and of what is behind rows at most, as a part of the width, and
// of the plot at least.
const (
	margin    = 2
	sidesPart = 3
	plotLeast = 16
)

// newCanvas is a canvas with room for labels at the left of rows and for texts behind them; nil if none is left for the plot.
func newCanvas(labels []sheet.Label, ends []string, width int) *canvas {
	names, behind := 0, 0
	for i, l := range labels {
		names = max(names, utf8.RuneCountInString(title(l)))
		behind = max(behind, utf8.RuneCountInString(ends[i])+2)
	}
	if behind == 2 {
		behind = 0
	}
	c := &canvas{width: width, left: margin + min(names, width/sidesPart) + 2}
	if c.wide = width - c.left - min(behind, width/sidesPart); c.wide < plotLeast {
		return nil
	}
	return c
}

// row begins a row, with its label at the left and a text behind it.
func (c *canvas) row(l sheet.Label, end string) (y int) {
	y, names := c.height(), c.left-margin-2
	c.write(margin, y, cut(l.Name, names), sheet.Strong)
	if at := utf8.RuneCountInString(l.Name) + 1; at+utf8.RuneCountInString(l.Tag) <= names {
		c.write(margin+at, y, l.Tag, sheet.Soft)
	}
	if end != "" {
		c.end(c.width, y, cut(end, c.width-c.left-c.wide-2))
	}
	return y
}

// column is where a share in percent is.
func (c *canvas) column(share float64) int { return c.left + steps(share, c.wide) }

// steps is how many of n steps from the first a share in percent is.
func steps(share float64, n int) int { return int(share/100*float64(n-1) + 0.5) }

func (c *canvas) height() int { return len(c.rows) }

// set draws a character unless that is outside.
func (c *canvas) set(x, y int, r rune, tone sheet.Tone) {
	for y >= len(c.rows) {
		c.rows = append(c.rows, slices.Repeat([]char{{r: ' '}}, c.width))
	}
	if x >= 0 && x < c.width {
		c.rows[y][x] = char{r, tone}
	}
}

// write writes a text from a column on.
func (c *canvas) write(x, y int, text string, tone sheet.Tone) {
	for _, r := range text {
		c.set(x, y, r, tone)
		x++
	}
}

// end writes a text up to a column.
func (c *canvas) end(x, y int, text string) {
	c.write(x-utf8.RuneCountInString(text), y, text, sheet.Plain)
}

// say writes a sentence in rows of its own, from a column on.
func (c *canvas) say(left int, text string) {
	for _, l := range wrapped(text, c.width-left) {
		c.write(left, c.height(), strings.TrimRight(l, " "), sheet.Soft)
	}
}

// below draws an axis with the names of its ticks below all else.
func (c *canvas) below(a axis) {
	y := c.height()
	c.write(c.left, y, strings.Repeat("─", c.wide), sheet.Soft)
	begin := func(t tick) int {
		n := utf8.RuneCountInString(t.text)
		return max(c.left, min(c.column(t.at)-n/2, c.left+c.wide-n))
	}
	ticks, even := a.ticks()
	for _, t := range thinned(ticks, even, func(t tick) (from, to float64) {
		from = float64(begin(t))
		return from, from + float64(utf8.RuneCountInString(t.text)) + 1
	}) {
		c.set(c.column(t.at), y, '┴', sheet.Soft)
		c.write(begin(t), y+1, t.text, sheet.Soft)
	}
}

// lines are the rows, painted in as few pieces as there are.
func (c *canvas) lines(paint Paint) (lines []string) {
	for _, row := range c.rows {
		var line strings.Builder
		for len(row) > 0 {
			tone, piece := row[0].tone, ""
			for len(row) > 0 && row[0].tone == tone {
				piece += string(row[0].r)
				row = row[1:]
			}
			if paint != nil && tone != sheet.Plain {
				piece = paint(tone, piece)
			}
			line.WriteString(piece)
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}

// wrapped breaks a text between words, but not between a number and its unit.
func wrapped(text string, width int) (lines []string) {
	used := 0
	for word := range strings.SplitSeq(glued(text), " ") {
		n := utf8.RuneCountInString(word)
		word = strings.ReplaceAll(word, "\u00a0", " ")
		if last := len(lines) - 1; last >= 0 && used+1+n <= width {
			lines[last] += " " + word
			used += 1 + n
			continue
		}
		lines, used = append(lines, word), n
	}
	return lines
}

// cut shortens a name so that it fits.
func cut(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return string(runes[:max(0, width-1)]) + "…"
	}
	return text
}

// Bars from low to high; nothing is a dot of its own.
var bars = []rune("·▁▂▃▄▅▆▇█")

const none, full = '·', '█'
