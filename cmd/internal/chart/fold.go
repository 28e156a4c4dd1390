package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// Sizes of the drawing. Paths are in ten-thousandths of the period.
const (
	foldRows  = 600 // more periods than this share rows
	foldTall  = 12  // pixels of a row, at most
	foldMost  = 640 // pixels of all rows, about
	foldUnits = 10000
	foldBins  = 200 // parts of a row that stands for several periods
	foldTones = 8
)

// A folding is how time is cut: periods from the first on, some of them in each row. The first and the last may be of a part
// of a period only.
type folding struct {
	period, wall, first float64
	periods, each, rows int
}

func newFolding(c *sheet.Fold, most int) folding {
	f := folding{period: c.Period, wall: c.Wall}
	if phase := math.Mod(c.Phase, c.Period); phase > 0 {
		f.first = phase - c.Period
	}
	f.periods = max(1, int(math.Ceil((c.Wall-f.first)/c.Period-1e-9)))
	f.each = (f.periods + most - 1) / most
	f.rows = (f.periods + f.each - 1) / f.each
	return f
}

// longest is beyond what anything lasts, in seconds; it keeps texts readable.
const longest = 1e9

// bounded is the fold without times beyond measure.
func bounded(c *sheet.Fold) *sheet.Fold {
	out := *c
	out.Wall, out.Period = min(c.Wall, longest), min(c.Period, longest)
	return &out
}

// merged are the spans within the time, in its order, each moment once.
func merged(c *sheet.Fold) (spans []sheet.Span) {
	for _, s := range c.Spans {
		if s.From, s.To = max(s.From, 0), min(s.To, c.Wall); s.From < s.To {
			spans = append(spans, s)
		}
	}
	slices.SortFunc(spans, func(a, b sheet.Span) int { return cmp.Compare(a.From, b.From) })
	n := 0
	for _, s := range spans {
		if n > 0 && s.From <= spans[n-1].To {
			spans[n-1].To = max(spans[n-1].To, s.To)
			continue
		}
		spans[n] = s
		n++
	}
	return spans[:n]
}

// during is how much of a time is in the spans, which are in its order.
func during(spans []sheet.Span, from, to float64) (sum float64) {
	first := sort.Search(len(spans), func(i int) bool { return spans[i].To > from })
	for _, s := range spans[first:] {
		if s.From >= to {
			break
		}
		sum += max(0, min(s.To, to)-max(s.From, from))
	}
	return min(sum, to-from)
}

// newFold draws all periods below each other, with the spans filled. What has the rhythm of the period stands in a column.
func newFold(c *sheet.Fold) *drawing {
	c = bounded(c)
	f, spans := newFolding(c, foldRows), merged(c)
	d := &drawing{Class: "plot field", Height: f.rows * max(1, min(foldTall, foldMost/f.rows))}
	tall := float64(d.Height)
	d.rect("all", 0, 0, 100, tall)
	for tone, path := range f.tones(spans) {
		if path != "" {
			d.stretched("span", path, 0, tall, fmt.Sprintf("%d %d", foldUnits, f.rows)).Opacity = quantity.Number(float64(tone) / foldTones)
		}
	}
	for i, share := range []float64{0, 0.25, 0.5, 0.75, 1} {
		d.name(place{tick: tick{100 * share, quantity.Seconds(share * c.Period)}, wide: i%2 == 1}, tall+18)
	}
	for _, t := range f.downTicks(tall) {
		d.beside(t.text, t.at/100*tall+9)
	}
	text := "A row for each period."
	if f.each > 1 {
		text = fmt.Sprintf("A row for %s: the more of them were %s, the darker.", quantity.Plural(f.each, "period"), was(c))
	}
	if c.Refill {
		text += " It begins where the kernel refills the quota: what ends there is throttling."
	}
	d.figure = newFigure(c.Figure)
	d.Notes = append([]string{text}, d.Notes...)
	if c.About == "" {
		d.Label = fmt.Sprintf("%s of %s, %s in all, of which it was %s for %s", quantity.Plural(f.periods, "period"), quantity.Seconds(c.Period),
			quantity.Lasting(c.Wall), was(c), quantity.Share(during(spans, 0, c.Wall)/c.Wall))
	}
	return d
}

// was is what it was in the spans.
func was(c *sheet.Fold) string { return cmp.Or(c.Was, "frozen") }

// A piece is the part of a span that is in one period, as shares of it.
type piece struct {
	row      int
	from, to float64
}

func (f folding) cut(spans []sheet.Span) (pieces []piece) {
	for _, s := range spans {
		from, to := s.From-f.first, s.To-f.first
		for n := int(from / f.period); from < to && n < f.periods; n++ {
			end := min(to, float64(n+1)*f.period)
			if end > from {
				pieces = append(pieces, piece{n, from/f.period - float64(n), end/f.period - float64(n)})
			}
			from = max(end, float64(n+1)*f.period)
		}
	}
	return pieces
}

// tones are the parts of rows that are spans for so much of the time, as paths. A row that stands for several periods is cut
// into bins: the more of them are spans at a time of the period, the darker it is.
func (f folding) tones(spans []sheet.Span) (paths [foldTones + 1]string) {
	var drawn [foldTones + 1]strings.Builder
	if f.each == 1 {
		for _, p := range f.cut(spans) {
			rectangle(&drawn[foldTones], p.row, p.from, p.to)
		}
	} else {
		for r, bins := range f.bins(spans, foldBins) {
			tone := func(i int) int { return int(math.Round(within(bins[i].share(), 0) * foldTones)) }
			for i := 0; i < foldBins; {
				t, end := tone(i), i+1
				for end < foldBins && tone(end) == t {
					end++
				}
				if t > 0 {
					rectangle(&drawn[t], r, float64(i)/foldBins, float64(end)/foldBins)
				}
				i = end
			}
		}
	}
	for t := range drawn {
		paths[t] = drawn[t].String()
	}
	return paths
}

// rectangle adds a part of a row to a path.
func rectangle(path *strings.Builder, row int, from, to float64) {
	x := int(math.Round(from * foldUnits))
	w := max(int(math.Round(to*foldUnits))-x, 1)
	fmt.Fprintf(path, "M%d %dh%dv1h-%dz", x, row, w, w)
}

// A bin is a part of the periods of a row: how much of it was seen, and how much was in spans.
type bin struct{ in, seen float64 }

func (b bin) share() float64 {
	if b.seen <= 0 {
		return 0
	}
	return b.in / b.seen
}

// bins cuts the rows into so many parts.
func (f folding) bins(spans []sheet.Span, parts int) [][]bin {
	rows := make([][]bin, f.rows)
	for r := range rows {
		rows[r] = make([]bin, parts)
		first, last := r*f.each, min((r+1)*f.each, f.periods)-1
		for i := range parts {
			rows[r][i].seen = f.seen(first, i, parts)
			if last > first { // only the first and the last of all are not whole
				rows[r][i].seen += f.seen(last, i, parts) + float64(last-first-1)*f.period/float64(parts)
			}
		}
	}
	whole := make([][]int, f.rows) // how many more pieces cover a part than the one before it
	for r := range whole {
		whole[r] = make([]int, parts+1)
	}
	for _, p := range f.cut(spans) {
		r := p.row / f.each
		from, to := p.from*float64(parts), p.to*float64(parts)
		first, last := int(from), min(int(to), parts-1)
		if first >= last {
			rows[r][last].in += (to - from) * f.period / float64(parts)
			continue
		}
		rows[r][first].in += (float64(first+1) - from) * f.period / float64(parts)
		rows[r][last].in += (to - float64(last)) * f.period / float64(parts)
		whole[r][first+1]++
		whole[r][last]--
	}
	for r, bins := range rows {
		over := 0
		for i := range bins {
			over += whole[r][i]
			bins[i].in += float64(over) * f.period / float64(parts)
		}
	}
	return rows
}

// seen is how much of a part of a period is within the time.
func (f folding) seen(period, i, parts int) float64 {
	start := f.first + float64(period)*f.period
	from := max(0, start+f.period*float64(i)/float64(parts))
	return max(0, min(f.wall, start+f.period*float64(i+1)/float64(parts))-from)
}

// downTicks say how far down which time is.
func (f folding) downTicks(tall float64) (ticks []tick) {
	most := max(2, min(7, tall/28))
	steps := []float64{1e-6, 1e-5, 1e-4, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400, 604800, 1e7, 1e8, longest}
	step := steps[max(0, slices.IndexFunc(steps, func(s float64) bool { return f.wall/s <= most }))]
	for i := 0.0; i <= most && i*step <= f.wall*(1-1e-9); i++ {
		row := (i*step - f.first) / f.period / float64(f.each)
		ticks = append(ticks, tick{100 * row / float64(f.rows), quantity.Lasting(i * step)})
	}
	return ticks
}
