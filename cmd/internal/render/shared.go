package render

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/loadtest"
)

// What the verbs here have in common.

// loadText is the text as far as it is written.
type loadText struct {
	strings.Builder
	style Style
	width int // of what is drawn; lines of words may be of any length if the style says so
}

// line writes words, broken where the screen ends.
func (t *loadText) line(mark, text string) {
	t.WriteString(mark + t.style.wrap(text, visible(mark)) + "\n")
}

func widest(lines []string) (width int) {
	for _, line := range lines {
		width = max(width, visible(line))
	}
	return width
}

// tableLines lays rows of cells out in columns.
func tableLines(rows [][]htmlCell, style Style, paint func(c htmlCell, text string) string) (lines []string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for j, c := range row {
			width[j] = max(width[j], visible(c.Text))
		}
	}
	for i, row := range rows {
		line := ""
		for j, c := range row {
			cell := padLeft(c.Text, width[j])
			if strings.HasPrefix(c.Class, "left") {
				cell = pad(c.Text, width[j])
			}
			if j == len(row)-1 {
				cell = strings.TrimRight(cell, " ")
			}
			if j > 0 {
				line += "  "
			}
			if i == 0 {
				line += style.dim(cell)
			} else {
				line += paint(c, cell)
			}
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// arrivalsText says how the requests of a rate are spread.
func arrivalsText(arrivals string) string {
	switch load.Arrivals(arrivals) {
	case load.Poisson:
		return "Poisson arrivals"
	case load.Constant:
		return "evenly spaced"
	}
	return arrivals
}

var sloSpaces = strings.NewReplacer("=", " ≤ ", ", ", ", ", ",", ", ", " %", " %", "%", " %")

// sloText writes p99=50ms,errors=1% for people.
func sloText(text string) string { return sloSpaces.Replace(text) }

// latency prints seconds with three digits.
func latency(s float64) string { return metric("sec", s) }

// perSecond prints a rate: 840/s.
func perSecond(v float64) string {
	if math.Abs(v) >= 1000 {
		return thousands(int64(math.Round(v))) + "/s"
	}
	text := three(v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + "/s"
}

// thousands prints a count as 12,000.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// lasting prints how long something lasted.
func lasting(s float64) string {
	s = max(0, min(s, 1e9)) // nothing lasts longer
	if s < 100 {
		return seconds(s)
	}
	return minutes(time.Duration(s * float64(time.Second)))
}

// part is a part of a whole as a percentage in brackets.
func part(n, of int64) string {
	if of <= 0 || n == 0 {
		return ""
	}
	share := float64(n) / float64(of)
	if share < 0.001 {
		return " (" + three(100*share) + " %)"
	}
	if share > 0.999 && n < of {
		return " (" + number(math.Floor(share*1e5)/1e3) + " %)"
	}
	return " (" + percent(share) + ")"
}

// nines is a percentile's place on an axis on which 90, 99 and 99.9 % are equally far from each other. 0 % is at 0.
func nines(percentile float64) float64 {
	return -math.Log10(1 - max(0, min(percentile, 100-1e-9))/100)
}

// A curveAxes is the field that curves of percentiles are drawn in.
type curveAxes struct {
	begin, end float64 // of the axis of percentiles, in nines
	y          axis
}

// across is how far along the axis a percentile is, from 0 to 1.
func (c curveAxes) across(percentile float64) float64 {
	return max(0, min((nines(percentile)-c.begin)/(c.end-c.begin), 1))
}

// The ticks of the axis of percentiles.
var curveTicks = []float64{0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999}

// carried is how many nines a count carries: beyond that are fewer than ten requests.
func carried(count int64) float64 { return math.Log10(float64(max(count, 1)) / loadtest.BeyondLeast) }

type htmlRows struct {
	Head []htmlCell
	Rows [][]htmlCell
}

// labelHeight is the least distance of two labels, in pixels.
const labelHeight = 16
