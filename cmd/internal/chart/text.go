package chart

import (
	"strings"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// A Paint gives a text the look of its tone.
type Paint = func(tone sheet.Tone, text string) string

// widthMost is how wide a drawing in a terminal is at most: wider is not clearer.
const widthMost = 120

// Text draws a chart with characters, in lines that are no wider than so many columns; nil if that can't be read.
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

// A canvas is a drawing made of characters. Row 0 is at the top; it grows downwards.
type canvas struct {
	width int
	rows  [][]char
}

// A char is a character with its tone; 0: there is none.
type char struct {
	r    rune
	tone sheet.Tone
}

func (c *canvas) height() int { return len(c.rows) }

// set draws a character unless that is outside.
func (c *canvas) set(x, y int, r rune, tone sheet.Tone) {
	for y >= len(c.rows) {
		c.rows = append(c.rows, make([]char, c.width))
	}
	if x >= 0 && x < c.width && y >= 0 {
		c.rows[y][x] = char{r, tone}
	}
}

// free reports whether nothing is drawn on a part of a row, which is within the canvas.
func (c *canvas) free(from, to, y int) bool {
	if from < 0 || to > c.width || y < 0 {
		return false
	}
	for x := from; x < to && y < len(c.rows); x++ {
		if c.rows[y][x].r != 0 {
			return false
		}
	}
	return true
}

// write writes a text from a column on.
func (c *canvas) write(x, y int, text string, tone sheet.Tone) {
	for _, r := range text {
		c.set(x, y, r, tone)
		x++
	}
}

// end writes a text up to a column.
func (c *canvas) end(x, y int, text string, tone sheet.Tone) {
	c.write(x-utf8.RuneCountInString(text), y, text, tone)
}

// say writes a sentence in rows of its own, from a column on.
func (c *canvas) say(left int, text string, tone sheet.Tone) {
	for _, l := range wrapped(text, c.width-left) {
		c.write(left, c.height(), l, tone)
	}
}

// lines are the rows, painted in as few pieces as there are.
func (c *canvas) lines(paint Paint) (lines []string) {
	for _, row := range c.rows {
		for len(row) > 0 && (row[len(row)-1].r == 0 || row[len(row)-1].r == ' ') {
			row = row[:len(row)-1]
		}
		var b strings.Builder
		for len(row) > 0 {
			n := 1
			for n < len(row) && row[n].tone == row[0].tone && (row[n].r == 0) == (row[0].r == 0) {
				n++
			}
			b.WriteString(painted(row[:n], paint))
			row = row[n:]
		}
		lines = append(lines, b.String())
	}
	return lines
}

// painted is a piece of a row whose characters have one tone.
func painted(row []char, paint Paint) string {
	var b strings.Builder
	for _, c := range row {
		if c.r == 0 {
			c.r = ' '
		}
		b.WriteRune(c.r)
	}
	if paint == nil || row[0].r == 0 || row[0].tone == sheet.Plain {
		return b.String()
	}
	return paint(row[0].tone, b.String())
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
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	return string(runes[:max(0, width-1)]) + "…"
}

// below draws an axis with the names of its ticks below all else, from a column on.
func (c *canvas) below(a axis, left, width int) {
	y := c.height()
	for x := range width {
		c.set(left+x, y, '─', sheet.Soft)
	}
	begin := func(t tick) int {
		n := utf8.RuneCountInString(t.text)
		return max(0, min(column(t.at, width)-n/2, width-n))
	}
	ticks, even := a.ticks()
	kept := fitting(ticks, even, func(t tick) (from, to float64) {
		from = float64(begin(t))
		return from, from + float64(utf8.RuneCountInString(t.text)) + 1
	})
	for i, t := range ticks {
		if kept[i] {
			c.set(left+column(t.at, width), y, '┴', sheet.Soft)
			c.write(left+begin(t), y+1, t.text, sheet.Soft)
		}
	}
}

// names is how many columns the names of rows take, of which there are so many.
func names(labels []sheet.Label, most int) (wide int) {
	for _, l := range labels {
		wide = max(wide, utf8.RuneCountInString(title(l)))
	}
	return min(wide, max(0, most))
}

func title(l sheet.Label) string { return strings.TrimSpace(l.Name + " " + l.Tag) }

// name writes the name of a row, with its tag if that has room.
func (c *canvas) name(y int, l sheet.Label, wide int) {
	c.write(margin, y, cut(l.Name, wide), sheet.Strong)
	if at := utf8.RuneCountInString(l.Name) + 1; l.Tag != "" && at+utf8.RuneCountInString(l.Tag) <= wide {
		c.write(margin+at, y, l.Tag, sheet.Soft)
	}
}

// margin is how far drawings are from the left.
const margin = 2

// column is where a share in percent is.
func column(share float64, width int) int {
	return int(max(0, min(share, 100))/100*float64(width-1) + 0.5)
}
