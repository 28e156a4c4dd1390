package render

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

//go:embed periods.html
var periodsHTML string

//go:embed periods.css
var periodsCSS string

// periodsStyle is the style of a periodChart.
func periodsStyle() template.CSS { return template.CSS(periodsCSS) }

// parsePeriods adds the template "periods", which shows a periodChart, to a page.
func parsePeriods(page *template.Template) error {
	if _, err := page.New("periods.html").Parse(periodsHTML); err != nil {
		return fmt.Errorf("parsing periods.html: %w", err)
	}
	return nil
}

// A span is a piece of time, in seconds.
type span struct{ start, end float64 }

// A periodChart is a drawing of all periods of an observation below each other, a row each, with the time in which nothing
// ran filled. What has the rhythm of the period stands in a column.
type periodChart struct {
	Label  string
	Height int // pixels
	Across []htmlTick
	Down   []upTick
	Rows   int // units of the paths' height
	Shades []periodShade
	Each   int // periods in a row
}

// A periodShade is all of a row's parts that are frozen for so much of the time.
type periodShade struct {
	Opacity string
	Path    string
}

// Sizes of the drawing. Paths are in ten-thousandths of the period.
const (
	periodsRows  = 600 // more periods than this share rows
	periodsTall  = 12  // pixels of a row, at most
	periodsMost  = 640 // pixels of all rows, about
	periodsUnits = 10000
	periodsBins  = 200 // parts of a row that stands for several periods
	periodsTones = 8
)

// newPeriodChart draws the spans within so much time. Rows begin at the phase, which for a quota is when it is refilled;
// so the first and the last may be of a part of a period only. All times are in seconds.
func newPeriodChart(wall, period, phase float64, spans []span) *periodChart {
	if !(period > 0) || !(wall > 0) || wall/period > 1e6 {
		return nil
	}
	first := math.Mod(phase, period) // where a row begins
	if first > 0 {
		first -= period
	}
	periods := int(math.Ceil((wall-first)/period - 1e-9))
	c := &periodChart{Each: (periods + periodsRows - 1) / periodsRows}
	c.Rows = (periods + c.Each - 1) / c.Each
	c.Height = c.Rows * max(1, min(periodsTall, periodsMost/c.Rows))
	pieces := cutPeriods(first, period, wall, spans)
	if c.Each == 1 {
		c.exact(pieces)
	} else {
		c.binned(pieces, periods)
	}
	for _, share := range []float64{0, 0.25, 0.5, 0.75, 1} {
		c.Across = append(c.Across, newTick(100*share, seconds(share*period), share == 0.25 || share == 0.75))
	}
	c.downTicks(first, period, wall)
	frozen := 0.0
	for _, s := range spans {
		frozen += s.end - s.start
	}
	c.Label = fmt.Sprintf("%d periods of %s, %s in all, of which nothing ran for %s", periods, seconds(period), seconds(wall), percent(frozen/wall))
	return c
}

// A periodPiece is the part of a span that is in one period, as shares of it.
type periodPiece struct {
	row        int
	start, end float64
}

func cutPeriods(first, period, wall float64, spans []span) (pieces []periodPiece) {
	for _, s := range spans {
		from, to := max(s.start, 0)-first, min(s.end, wall)-first
		for row := int(from / period); from < to; row++ {
			end := min(to, float64(row+1)*period)
			if end > from {
				pieces = append(pieces, periodPiece{row, from/period - float64(row), end/period - float64(row)})
			}
			from = max(end, float64(row+1)*period)
		}
	}
	return pieces
}

// exact draws each piece where it is.
func (c *periodChart) exact(pieces []periodPiece) {
	var path strings.Builder
	for _, p := range pieces {
		rectangle(&path, p.row, p.start, p.end)
	}
	if path.Len() > 0 {
		c.Shades = []periodShade{{"1", path.String()}}
	}
}

// rectangle adds a part of a row to a path.
func rectangle(path *strings.Builder, row int, start, end float64) {
	x := int(math.Round(start * periodsUnits))
	w := max(int(math.Round(end*periodsUnits))-x, 1)
	fmt.Fprintf(path, "M%d %dh%dv1h-%dz", x, row, w, w)
}

// binned draws rows of several periods: the more of them were frozen at a time of the period, the darker it is.
func (c *periodChart) binned(pieces []periodPiece, periods int) {
	rows := make([][periodsBins]float64, c.Rows)
	for _, p := range pieces {
		row := &rows[p.row/c.Each]
		for i := int(p.start * periodsBins); i < periodsBins; i++ {
			low, high := float64(i)/periodsBins, float64(i+1)/periodsBins
			if low >= p.end {
				break
			}
			row[i] += (min(high, p.end) - max(low, p.start)) * periodsBins
		}
	}
	var paths [periodsTones + 1]strings.Builder
	for r := range rows {
		of := min(c.Each, periods-r*c.Each)
		tone := func(i int) int {
			return int(math.Round(min(1, rows[r][i]/float64(of)) * periodsTones))
		}
		for i := 0; i < periodsBins; {
			t, end := tone(i), i+1
			for end < periodsBins && tone(end) == t {
				end++
			}
			if t > 0 {
				rectangle(&paths[t], r, float64(i)/periodsBins, float64(end)/periodsBins)
			}
			i = end
		}
	}
	for t := range paths {
		if paths[t].Len() > 0 {
			c.Shades = append(c.Shades, periodShade{number(float64(t) / periodsTones), paths[t].String()})
		}
	}
}

// downTicks say at which row which time is.
func (c *periodChart) downTicks(first, period, wall float64) {
	most := max(2, min(7, c.Height/28))
	steps := []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400, 604800}
	at := slices.IndexFunc(steps, func(s float64) bool { return wall/s <= float64(most) })
	if at < 0 {
		at = len(steps) - 1
	}
	step := steps[at]
	for i := 0; i <= most && float64(i)*step <= wall*(1-1e-9); i++ {
		t := float64(i) * step
		row := (t - first) / period / float64(c.Each)
		c.Down = append(c.Down, upTick{pixels(row / float64(c.Rows) * float64(c.Height)), lasting(t)})
	}
}
