package render

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// What all pages have in common: their style, their parts, and the axes of their drawings.

//go:embed page.css
var pageCSS string

//go:embed drawings.css
var drawingsCSS string

//go:embed parts.html
var partsHTML string

// pageStyle is the style that all pages have.
func pageStyle() template.CSS { return template.CSS(pageCSS) }

// drawingsStyle is the style of the drawings that load has.
func drawingsStyle() template.CSS { return template.CSS(drawingsCSS) }

// parsePage parses a page's template, and the parts that several pages have. It is called when a page is written and not
// when the command starts: it takes half a millisecond.
func parsePage(name, text string) (*template.Template, error) {
	page, err := template.New(name).Parse(text)
	if err != nil {
		return nil, err
	}
	if _, err := page.New("parts.html").Parse(partsHTML); err != nil {
		return nil, fmt.Errorf("parsing parts.html: %w", err)
	}
	return page, nil
}

// documentCommand tells how a verb's document is had from its page.
func documentCommand(verb string) htmlCommand {
	return htmlCommand{
		"The document that this page shows is in it, on a line of its own. To have it as a file, and shown in another form:",
		fmt.Sprintf("grep '^{\"version\"' %[1]s.html > %[1]s.json\nunthrottle report %[1]s.json", verb),
	}
}

// An htmlTick is a tick of an axis that goes across.
type htmlTick struct {
	At, Text string
	Anchor   string
	Wide     bool // its text is shown where there is room only
}

// newTick places a text at its tick, or beside it where it would reach out of the drawing.
func newTick(share float64, text string, wide bool) htmlTick {
	t := htmlTick{At: inPercent(share), Text: text, Anchor: "middle", Wide: wide}
	switch {
	case share < 2:
		t.Anchor = "start"
	case share > 95:
		t.Anchor = "end"
	}
	return t
}

// An upTick is a tick of an axis that goes up.
type upTick struct{ Y, Text string }

func upTicks(a axis, height float64) (ticks []upTick) {
	values, step := a.values()
	for _, v := range values {
		ticks = append(ticks, upTick{pixels(down(a.share(v), height)), a.text(v, step)})
	}
	return ticks
}

// down is how far down a height in percent is, in a drawing.
func down(share, height float64) float64 { return height * (1 - max(0, min(share, 100))/100) }

// An axis says where a value is.
type axis struct {
	unit      string
	low, high float64 // at its ends
	log       bool
}

// Axes: one whose values differ by more than logFrom is logarithmic; one whose smallest value is less than zeroBelow of
// the largest begins at zero, for then it costs little room; any other would hide what is to be seen.
const (
	logFrom   = 20
	zeroBelow = 0.4
	axisRoom  = 0.05 // beyond the values, as a part of their range
)

func newAxis(unit string, low, high float64) axis {
	a := axis{unit: unit, low: low, high: high}
	switch {
	case low == high && low == 0:
		a.high = 1
	case low == high:
		a.low, a.high = low-math.Abs(low)/20, high+math.Abs(high)/20
	case low > 0 && high/low > logFrom:
		a.log = true
		room := math.Pow(high/low, axisRoom)
		a.low, a.high = low/room, high*room
	case low >= 0 && low < zeroBelow*high:
		a.low, a.high = 0, high+high*axisRoom
	default:
		a.low, a.high = low-(high-low)*axisRoom, high+(high-low)*axisRoom
	}
	return a
}

// share returns how far along the axis a value is, in percent.
func (a axis) share(v float64) float64 {
	v = max(a.low, min(a.high, v))
	if a.log {
		return 100 * math.Log(v/a.low) / math.Log(a.high/a.low)
	}
	return 100 * (v - a.low) / (a.high - a.low)
}

func (a axis) at(v float64) string { return inPercent(a.share(v)) }

func (a axis) notes() []string {
	switch {
	case a.log:
		return []string{"The axis is logarithmic."}
	case a.low > 0:
		return []string{"The axis does not begin at 0."}
	}
	return nil
}

// ticks are round values of the axis.
func (a axis) ticks() (ticks []htmlTick) {
	values, step := a.values()
	for i, v := range values {
		ticks = append(ticks, newTick(a.share(v), a.text(v, step), narrow(len(values), i)))
	}
	return ticks
}

// narrow reports whether tick i of n is left out where there is little room.
func narrow(n, i int) bool {
	switch {
	case n > 6:
		return i%3 != 0
	case n > 3:
		return i%2 != 0
	}
	return false
}

// ticksMost is how many ticks there are at most.
const ticksMost = 7

func (a axis) values() (values []float64, step float64) {
	if a.log {
		for _, digits := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
			values = nil
			for power := math.Floor(math.Log10(a.low)); power <= math.Log10(a.high); power++ {
				for _, digit := range digits {
					if v := digit * math.Pow(10, power); v >= a.low && v <= a.high {
						values = append(values, v)
					}
				}
			}
			if len(values) <= ticksMost {
				break
			}
		}
		for len(values) > ticksMost { // a wide range: each second power, each fourth, …
			var half []float64
			for i := 0; i < len(values); i += 2 {
				half = append(half, values[i])
			}
			values = half
		}
		return values, 0
	}
	step = a.step()
	for k := math.Ceil(a.low / step); k*step <= a.high && len(values) <= ticksMost; k++ {
		values = append(values, k*step)
	}
	return values, step
}

// step is the distance of ticks: 1, 2 or 5 in the unit that is shown.
func (a axis) step() float64 {
	unit, _ := a.scale(a.middle())
	least := (a.high - a.low) / (ticksMost - 1) / unit
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, digit := range []float64{1, 2, 5} {
		if digit*power >= least {
			return digit * power * unit
		}
	}
	return 10 * power * unit
}

// middle is the value whose unit all ticks have.
func (a axis) middle() float64 {
	if v := (a.low + a.high) / 2; v != 0 {
		return v
	}
	return a.high
}

// scale says what metric would print a value in: the unit's name, and how much it is. It asks metric itself, so that the
// axis has the unit of all other numbers.
func (a axis) scale(v float64) (unit float64, name string) {
	text, name, _ := strings.Cut(metric(a.unit, v), " ")
	shown, err := strconv.ParseFloat(text, 64)
	if err != nil || shown == 0 || v/shown <= 0 {
		return 1, name
	}
	if strings.HasSuffix(a.unit, "-bytes") {
		return math.Pow(1024, math.Round(math.Log(v/shown)/math.Log(1024))), name
	}
	return math.Pow(10, math.Round(math.Log10(v/shown))), name
}

// text prints a tick with as many digits as tell it from the next.
func (a axis) text(v, step float64) string {
	if v == 0 {
		return "0"
	}
	if a.log {
		unit, name := a.scale(v)
		return strings.TrimSpace(strconv.FormatFloat(v/unit, 'g', 6, 64) + " " + name)
	}
	unit, name := a.scale(a.middle())
	digits := max(0, int(math.Ceil(-math.Log10(step/unit)-1e-9)))
	return strings.TrimSpace(strings.Replace(strconv.FormatFloat(v/unit, 'f', digits, 64), "-", "−", 1) + " " + name)
}

func inPercent(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) + "%"
}

func pixels(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// bounds are the lowest and the highest of values above zero.
type bounds struct{ low, high float64 }

func newBounds() bounds { return bounds{math.Inf(1), 0} }

func (b *bounds) add(v float64) {
	if v > 0 {
		b.low, b.high = min(b.low, v), max(b.high, v)
	}
}

func (b bounds) axis(unit string) axis { return newAxis(unit, min(b.low, b.high), b.high) }
