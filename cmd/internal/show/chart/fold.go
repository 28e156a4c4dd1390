package chart

import (
	"fmt"
	"math"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// A grid is time cut into rows, each of which is some periods on top of each other, and these into cells.
type grid struct {
	first, period float64 // when the first period begins, in seconds, and how long each is
	each          int     // periods of a row
	rows, cells   int
}

// newGrid is a grid of all periods, in no more than most rows. The first and the last may be of a part of a period only.
func newGrid(c *sheet.Fold, most, cells int) grid {
	g := grid{period: c.Period, cells: cells}
	if phase := math.Mod(c.Phase, c.Period); phase > 0 {
		g.first = phase - c.Period
	}
	periods := max(1, int(math.Ceil((c.Wall-g.first)/c.Period-1e-9)))
	g.each = (periods + most - 1) / most
	g.rows = (periods + g.each - 1) / g.each
	return g
}

// A part is how many seconds of a cell were seen, and how many of them were in spans.
type part struct{ in, seen float64 }

func (p part) share() float64 {
	if p.seen <= 0 {
		return 0
	}
	return within(p.in/p.seen, 0)
}

// parts are the cells of the rows, seen up to the end.
func (g grid) parts(spans []sheet.Span, end float64) [][]part {
	in, seen := g.filled(spans, end), g.filled([]sheet.Span{{To: end}}, end)
	rows := make([][]part, g.rows)
	for r := range rows {
		for i := range g.cells {
			rows[r] = append(rows[r], part{in[r][i], seen[r][i]})
		}
	}
	return rows
}

// filled is how much of spans is in each cell of the rows, up to the end.
func (g grid) filled(spans []sheet.Span, end float64) [][]float64 {
	rows, cell := make([][]float64, g.rows), g.period/float64(g.cells)
	for r := range rows {
		rows[r] = make([]float64, g.cells)
	}
	for _, s := range spans {
		from, to := (max(s.From, 0)-g.first)/cell, (min(s.To, end)-g.first)/cell
		from, to = max(from, 0), min(to, float64(g.rows*g.each*g.cells))
		for n := int(from); from < to; {
			row := rows[n/g.cells/g.each]
			for i := n % g.cells; i < g.cells && from < to; i, n = i+1, n+1 { // there may be very many
				next := float64(n + 1)
				if next > to {
					next = to
				}
				row[i] += cell * (next - from)
				from = next
			}
		}
	}
	return rows
}

// sum is what a row is of.
func sum(row []part) (all part) {
	for _, p := range row {
		all.in, all.seen = all.in+p.in, all.seen+p.seen
	}
	return all
}

// Sizes of the drawing.
const (
	foldRows  = 600 // more periods than this share rows
	foldTall  = 12  // pixels of a row, at most
	foldMost  = 640 // pixels of all rows, about
	foldCells = 200
	foldTicks = 28 // pixels from one tick to the next at least
)

// newFold draws all periods below each other, with the spans filled. What has the rhythm of the period forms a column.
func newFold(c *sheet.Fold) *drawing {
	g := newGrid(c, foldRows, foldCells)
	d := &drawing{Class: "plot field", Tall: g.rows * max(1, min(foldTall, foldMost/g.rows))}
	d.rect("all", "", 0, 0, 100, 100)
	all := d.spans(g, c.Spans, c.Wall)
	d.ticks(periodAxis(c.Period), phoneField, "", false, true)
	time := newAxis(sheet.Axis{Unit: quantity.Second, Scale: sheet.Linear, High: c.Wall}, nil)
	for _, t := range upright(time, float64(d.Tall), foldTicks) {
		row := (t.at/100*c.Wall - g.first) / g.period / float64(g.each)
		d.beside(t.text, 100*row/float64(g.rows), 9)
	}
	text := "A row for each period."
	if g.each > 1 {
		text = fmt.Sprintf("A row for %s: the more of them were %s, the darker.", quantity.Plural(g.each, "period"), c.Was)
	}
	switch {
	case c.Refill && c.Second > 0:
		text += " It begins where the kernel refills one quota, and " + quantity.Seconds(c.Second) + " later it refills the other: what ends there is throttling."
	case c.Refill:
		text += " It begins where the kernel refills the quota: what ends there is throttling."
	}
	d.figure = newFigure(c.Figure)
	d.Notes = append([]string{text}, d.Notes...)
	if c.About == "" {
		d.Label = fmt.Sprintf("%s of %s, %s in all, of which it was %s for %s", quantity.Plural(int(math.Ceil(c.Wall/c.Period-1e-9)), "period"),
			quantity.Seconds(c.Period), quantity.Lasting(c.Wall), c.Was, quantity.Share(all.share()))
	}
	return d
}

func periodAxis(high float64) axis {
	return newAxis(sheet.Axis{Unit: quantity.Second, Scale: sheet.Linear, High: high, Ticks: []float64{0, high, high / 2, high / 4, 3 * high / 4}}, nil)
}

// spans fills the parts of rows that are in spans, the darker the more of the time they are, and returns how much that is in all.
func (d *drawing) spans(g grid, spans []sheet.Span, end float64) part {
	var paths [levels + 1]strings.Builder
	var all []part
	for r, row := range g.parts(spans, end) {
		all = append(all, sum(row))
		for from, to := 0, 0; from < len(row); from = to {
			of := level(row[from].share())
			for to = from + 1; to < len(row) && level(row[to].share()) == of; to++ {
			}
			fmt.Fprintf(&paths[of], "M%d %dh%dv1h-%[3]dz", from, r, to-from)
		}
	}
	for of, path := range paths {
		if of > 0 && path.Len() > 0 {
			d.stretched(fmt.Sprintf("span t%d", of), "", path.String(), 0, 100, foldCells, g.rows)
		}
	}
	return sum(all)
}

// A fold in a terminal: periods below each other, some of them together in a row. What has their rhythm forms a column, and what has none
// is spread.
const (
	foldLines = 16 // at most
	foldSlots = 50 // of a row, at most
	foldLeft  = 9  // two blanks, the time, and a blank
	foldRight = 7  // the share after it
)

func foldText(c *sheet.Fold, width int) *canvas {
	if c.Seconds {
		return secondsText(c, width)
	}
	slots := min(foldSlots, width-foldLeft-foldRight)
	slots -= slots % 2
	if slots < 10 {
		return nil
	}
	d := &canvas{width: width, left: foldLeft, wide: slots}
	g := newGrid(c, foldLines, slots)
	text := fmt.Sprintf("Folded at %s: %s a row, %s a column. %c it ran, %c %s in all of them.", quantity.Seconds(c.Period), quantity.Plural(g.each, "period"),
		quantity.Seconds(c.Period/float64(slots)), none, full, c.Was)
	switch {
	case c.Refill && c.Second > 0:
		text += " At the right edge one quota is refilled, and the other " + quantity.Seconds(c.Second) + " later."
	case c.Refill:
		text += " At the right edge the quota is refilled."
	default:
		text += " A quota of that period would stand as a column."
	}
	d.say(0, text)
	for i, row := range g.parts(c.Spans, c.Wall) {
		start := max(0, g.first+float64(i*g.each)*g.period)
		d.parts(quantity.Seconds(math.Round(start*100)/100), row, slots)
	}
	d.below(periodAxis(c.Period))
	return d
}

// parts draws a row of time: when it began, how much of each part was in spans, with a blank after each group of them, and
// the share of it all.
func (c *canvas) parts(began string, row []part, group int) {
	y := c.height()
	c.end(c.left-1, y, began)
	for i, p := range row {
		r, tone := bars[level(p.share())], sheet.Bad
		if r == none {
			tone = sheet.Soft
		}
		if p.seen > 0 {
			c.set(c.left+i+i/group, y, r, tone)
		}
	}
	if all := sum(row); all.seen > 0 {
		c.end(c.left+len(row)+(len(row)-1)/group+foldRight-1, y, quantity.Share(math.Round(all.share()*100)/100))
	}
}

// A Second is how seconds are drawn, a row each, in groups of a period each.
type Second struct {
	width         int
	groups, slots int // of a second, and of a group
}

// secondLeft is how many columns the time before a second takes.
const secondLeft = 7

// NewSecond fits seconds into width columns. The period is 0 if it is not known.
func NewSecond(period float64, width int) Second {
	s := Second{width: max(width, 0), groups: 10}
	// Longer periods would not fill a row, shorter ones would have no room.
	if n := math.Round(1 / period); n >= 4 && n <= 20 && math.Abs(n*period-1) < 1e-6 {
		s.groups = int(n)
	}
	s.slots = max(1, min(20, (width-secondLeft-foldRight)/s.groups-1))
	return s
}

// Legend says how to read the rows.
func (s Second) Legend(was string) string {
	return fmt.Sprintf("Each row is a second, each column %s: %c ran, %c %s.", quantity.Seconds(1/float64(s.groups*s.slots)), none, full, was)
}

// Row draws a second up to where the data reach: how much of each slot was in spans, and their share of it all.
func (s Second) Row(second int, spans []sheet.Span, until float64, paint Paint) string {
	return s.rows(float64(second), 1, spans, until).lines(paint)[0]
}

func (s Second) rows(first float64, n int, spans []sheet.Span, until float64) *canvas {
	d := &canvas{width: s.width, left: secondLeft}
	g := grid{first: first, period: 1, each: 1, rows: n, cells: s.groups * s.slots}
	for i, row := range g.parts(spans, until) {
		d.parts(quantity.Lasting(first+float64(i)), row, s.slots)
	}
	return d
}

// A drawing of seconds has this many at most, and leaves out a last one that is hardly begun.
const (
	secondsMost = 20
	secondsRest = 0.2
)

func secondsText(c *sheet.Fold, width int) *canvas {
	d, s, end := &canvas{width: width}, NewSecond(c.Period, width), max(1, math.Ceil(c.Wall-secondsRest))
	first := max(0, end-secondsMost)
	d.say(0, s.Legend(c.Was))
	if first > 0 {
		d.say(0, fmt.Sprintf("(the last %s)", quantity.Seconds(secondsMost)))
	}
	d.rows = append(d.rows, s.rows(first, int(end-first), c.Spans, c.Wall).rows...)
	return d
}
