package chart

import (
	"fmt"
	"math"

	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// A fold in a terminal: periods below each other, some of them together in a row. What has their rhythm stands in a column,
// and what has none is spread.
const (
	foldLines = 16 // at most
	foldSlots = 50 // of a row, at most
	foldLeft  = 9  // two blanks, the time, and a blank
	foldRight = 8  // the share after it
)

var tints = []rune("░▒▓█")

func foldText(c *sheet.Fold, width int) *canvas {
	if c = bounded(c); c.Seconds {
		return secondsText(c, width)
	}
	slots := min(foldSlots, width-foldLeft-foldRight)
	slots -= slots % 2
	if slots < 10 {
		return nil
	}
	d := &canvas{width: width}
	f := newFolding(c, foldLines)
	text := fmt.Sprintf("Folded at %s: %s a row, %s a column. %c it ran, %c %s in all of them.", quantity.Seconds(c.Period), quantity.Plural(f.each, "period"),
		quantity.Seconds(c.Period/float64(slots)), none, tints[len(tints)-1], was(c))
	if c.Refill {
		text += " At the right edge the quota is refilled."
	} else {
		text += " A quota of that period would stand as a column."
	}
	d.say(0, text, sheet.Soft)
	for i, bins := range f.bins(merged(c), slots) {
		y := d.height()
		start := max(0, f.first+float64(i*f.each)*f.period)
		d.end(foldLeft-1, y, quantity.Seconds(math.Round(start*100)/100), sheet.Plain)
		var all bin
		for x, b := range bins {
			all.in, all.seen = all.in+b.in, all.seen+b.seen
			if b.seen > 0 {
				d.slot(foldLeft+x, y, int(math.Ceil(b.share()*float64(len(tints))-0.2)), tints)
			}
		}
		if all.seen > 0 {
			d.end(foldLeft+slots+foldRight-1, y, quantity.Share(math.Round(all.share()*100)/100), sheet.Plain)
		}
	}
	y := d.height()
	middle, end := quantity.Seconds(c.Period/2), quantity.Seconds(c.Period)
	d.write(foldLeft, y, "0", sheet.Soft)
	d.write(foldLeft+slots/2-len([]rune(middle))/2, y, middle, sheet.Soft)
	d.end(foldLeft+slots, y, end, sheet.Soft)
	return d
}

// slot draws how much of a slot was in spans, as one of the levels; 0: nothing.
func (c *canvas) slot(x, y, level int, levels []rune) {
	if level <= 0 {
		c.set(x, y, none, sheet.Soft)
		return
	}
	c.set(x, y, levels[min(level, len(levels))-1], sheet.Bad)
}

// A Second is how seconds are drawn, a row each, in groups of a period each.
type Second struct {
	width         int
	groups, slots int // of a second, and of a group
}

// Columns beside a second: of the time before it, and of the share after it.
const (
	secondLeft  = 7
	secondRight = 7
)

// NewSecond fits seconds into so many columns. The period is 0 if it is not known.
func NewSecond(period float64, width int) Second {
	s := Second{width: max(width, 0), groups: 10}
	// Longer periods would not fill a row, shorter ones would have no room.
	if n := math.Round(1 / period); n >= 4 && n <= 20 && math.Abs(n*period-1) < 1e-6 {
		s.groups = int(n)
	}
	s.slots = max(1, min(20, (width-secondLeft-secondRight)/s.groups-1))
	return s
}

// Legend says how to read the rows.
func (s Second) Legend(was string) string {
	return fmt.Sprintf("Each row is a second, each column %s: %c ran, %c %s.", quantity.Seconds(1/float64(s.groups*s.slots)), none, sparks[len(sparks)-1], was)
}

// Row draws a second as far as the data reach: how much of each slot was in spans, and their share of it all. The spans are
// in the order of time.
func (s Second) Row(second int, spans []sheet.Span, until float64, paint Paint) string {
	d := &canvas{width: s.width}
	s.draw(d, 0, second, spans, until)
	return d.lines(paint)[0]
}

func (s Second) draw(d *canvas, y, second int, spans []sheet.Span, until float64) {
	d.end(secondLeft-1, y, quantity.Lasting(float64(second)), sheet.Plain)
	n := s.groups * s.slots
	var all float64
	for i := range n {
		start, end := float64(second)+float64(i)/float64(n), float64(second)+float64(i+1)/float64(n)
		if start >= until {
			break
		}
		part := during(spans, start, min(end, until))
		all += part
		d.slot(secondLeft+i+i/s.slots, y, int(math.Round(part/(end-start)*float64(len(sparks)))), sparks)
	}
	if seen := min(1, until-float64(second)); seen > 0 {
		d.end(secondLeft+n+s.groups+5, y, quantity.Share(math.Round(all/seen*100)/100), sheet.Plain)
	}
}

// A drawing of seconds has so many at most, and leaves out a last one that is hardly begun.
const (
	secondsMost = 20
	secondsRest = 0.2
)

func secondsText(c *sheet.Fold, width int) *canvas {
	d, s, spans := &canvas{width: width}, NewSecond(c.Period, width), merged(c)
	first := max(0, int(math.Ceil(c.Wall-secondsRest))-secondsMost)
	d.say(0, s.Legend(was(c)), sheet.Soft)
	if first > 0 {
		d.say(0, fmt.Sprintf("(the last %s)", quantity.Seconds(secondsMost)), sheet.Soft)
	}
	for second := first; float64(second) < c.Wall-secondsRest || second == 0; second++ {
		s.draw(d, d.height(), second, spans, c.Wall)
	}
	return d
}
