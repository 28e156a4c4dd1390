package chart

import (
	"math"
	"slices"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// An axis says where a value is.
type axis struct {
	unit      quantity.Unit
	scale     sheet.Scale
	log       bool      // logarithmic
	low, high float64   // at its ends
	given     []float64 // ticks that are asked for
}

// Axes: one whose values differ by more than logFrom is logarithmic; one whose smallest value is less than zeroBelow of the largest begins
// at zero, for then it costs little room; any other would hide what is there to see.
const (
	logFrom   = 20
	zeroBelow = 0.4
	axisRoom  = 0.05 // beyond the values, as a part of their range
)

// newAxis makes an axis that all values are on.
func newAxis(spec sheet.Axis, values []float64) axis {
	a := axis{unit: spec.Unit, scale: spec.Scale, given: spec.Ticks}
	if spec.High > 0 {
		values = append([]float64{0, spec.High}, values...)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v, ok := a.sane(v); ok {
			low, high = min(low, v), max(high, v)
		}
	}
	if low > high {
		low, high = 0, 0
	}
	a.low, a.high = low, high
	switch a.scale {
	case sheet.Percentiles:
		a.log, a.high = true, max(high, 90)
	case sheet.Changes:
		a.changes()
	case sheet.Fitting:
		a.fit()
	}
	if a.low == a.high {
		a.high = a.low + max(1, math.Abs(a.low))
	}
	return a
}

// sane makes a value one that the axis may reach; false if it isn't one. Within these limits no difference and no ratio is infinite.
func (a axis) sane(v float64) (float64, bool) {
	if math.Abs(v) < 1e-150 {
		v = 0
	}
	switch a.scale {
	case sheet.Percentiles:
		return v, v >= 0 && v < 100-1e-8
	case sheet.Changes:
		return v, v > 1e-6 && v < 1e6
	}
	return v, math.Abs(v) <= 1e150
}

// fit makes the axis logarithmic if its values differ much, and linear else.
func (a *axis) fit() {
	low, high := a.low, a.high
	switch room := (high - low) * axisRoom; {
	case low == high:
		a.low, a.high = low-math.Abs(low)/20, high+math.Abs(high)/20
	case low > 0 && low < high/logFrom:
		a.log = true
		a.spread(axisRoom)
	case low >= 0 && low < zeroBelow*high:
		a.low, a.high = 0, high+high*axisRoom
	default:
		a.low, a.high = low-room, high+room
	}
}

// spread gives a logarithmic axis room beyond its values.
func (a *axis) spread(room float64) {
	factor := math.Exp((math.Log(a.high) - math.Log(a.low)) * room)
	a.low, a.high = a.low/factor, a.high*factor
}

// changes is the axis of ratios, with 1 on it.
func (a *axis) changes() {
	a.log = true
	if a.low == 0 { // there are no values
		a.low, a.high = 1, 1
	}
	a.low, a.high = min(a.low, 1), max(a.high, 1)
	if a.high/a.low < 1.1 {
		a.low, a.high = a.low/1.05, a.high*1.05
	}
	a.spread(0.08)
}

// share returns how far along the axis a value is, in percent.
func (a axis) share(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	from, to := a.place(a.low), a.place(a.high)
	return 100 * (a.place(max(a.low, min(a.high, v))) - from) / (to - from)
}

// place is where a value would be if its neighbours were equally far. 90, 99 and 99.9 % are equally far from each other.
func (a axis) place(v float64) float64 {
	switch {
	case a.scale == sheet.Percentiles:
		return -math.Log10(1 - min(v, 100-1e-9)/100)
	case a.log:
		return math.Log(v)
	}
	return v
}

// on reports whether a value is between the ends.
func (a axis) on(v float64) bool { return v >= a.low && v <= a.high }

// notes say how to read an axis.
func (a axis) notes(name string) []string {
	switch {
	case a.scale == sheet.Percentiles:
		return []string{name + " is logarithmic: from each nine to the next there are ten times fewer values."}
	case a.log:
		return []string{name + " is logarithmic."}
	case a.low > 0:
		return []string{name + " does not begin at 0."}
	}
	return nil
}

// A tick is a value of an axis with its name.
type tick struct {
	at   float64 // in percent
	text string
}

// Ticks that are not round values, the most important first.
var (
	ratioTicks = []float64{
		1, 0.5, 2, 0.1, 10, 0.2, 5, 0.8, 1.2, 0.01, 100, 0.9, 1.1, 0.7, 1.5, 0.6, 0.4, 0.3, 3, 0.95, 1.05, 0.02, 50, 0.05, 20, 0.98, 1.02, 0.99, 1.01,
		0.001, 1000, 0.0001, 10000, 0.00001, 100000,
	}
	percentileTicks = []float64{99, 90, 99.9, 99.99, 50, 99.999, 99.9999, 0}
)

const (
	ticksMost = 7  // round ticks
	textMost  = 14 // letters of a tick's name: longer ones are numbers that can't be read
)

// ticks are values of the axis by their importance. Even ones are in the order of their values: either all or each second,
// third and so on has a name.
func (a axis) ticks() (ticks []tick, even bool) {
	values, step := a.given, 0.0
	switch {
	case len(values) > 0:
	case a.scale == sheet.Changes:
		values = ratioTicks
	case a.scale == sheet.Percentiles:
		values = percentileTicks
	case a.log:
		values, even = a.powers(), true
	default:
		values, step = a.steps()
		even = true
	}
	for _, v := range values {
		if text := a.text(v, step); a.on(v) && utf8.RuneCountInString(text) <= textMost {
			ticks = append(ticks, tick{a.share(v), text})
		}
	}
	return ticks, even
}

// text names a tick.
func (a axis) text(v, step float64) string {
	switch {
	case v == 0 || a.scale == sheet.Changes && v == 1:
		return "0"
	case a.scale == sheet.Percentiles:
		return "p" + quantity.Number(v)
	case a.scale == sheet.Changes:
		return quantity.Change(v)
	case a.unit == quantity.CPU: // one of them has a name of its own
		return a.unit.Text(v)
	}
	unitOf := v
	if step > 0 {
		unitOf = a.middle()
	}
	one, name := a.unit.Scale(unitOf)
	return quantity.Tick(v, step, one, name)
}

// powers are the ticks of a logarithmic axis.
func (a axis) powers() (values []float64) {
	for _, digits := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		values = nil
		for power := math.Floor(math.Log10(a.low)); power <= math.Log10(a.high); power++ {
			for _, digit := range digits {
				if v := digit * math.Pow(10, power); a.on(v) {
					values = append(values, v)
				}
			}
		}
		if len(values) <= ticksMost {
			break
		}
	}
	return values
}

// steps are the ticks of a linear axis: 1, 2 or 5 in the unit that is shown from each other.
func (a axis) steps() (values []float64, step float64) {
	one, _ := a.unit.Scale(a.middle())
	least := (a.high - a.low) / (ticksMost - 1) / one
	power := math.Pow(10, math.Floor(math.Log10(least)))
	step = 10 * power * one
	for _, digit := range []float64{5, 2, 1} {
		if digit*power >= least {
			step = digit * power * one
		}
	}
	for k := math.Ceil(a.low / step); k*step <= a.high && len(values) <= ticksMost; k++ {
		values = append(values, k*step)
	}
	return values, step
}

// middle is the value whose unit all ticks have.
func (a axis) middle() float64 {
	if v := (a.low + a.high) / 2; v != 0 {
		return v
	}
	return a.high
}

// A box is the room that a text takes.
type box struct{ left, right, top, bottom float64 }

// taken is the room that texts have taken.
type taken []box

func (t taken) free(b box) bool {
	return !slices.ContainsFunc(t, func(o box) bool {
		return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
	})
}

// thinned are the ticks that have room, given how much of it each takes along the axis.
func thinned(ticks []tick, even bool, room func(tick) (from, to float64)) (kept []tick) {
	for stride := 1; ; stride++ {
		var names taken
		whole := true
		kept = nil
		for i := 0; i < len(ticks); i += stride {
			from, to := room(ticks[i])
			if b := (box{from, to, 0, 1}); names.free(b) {
				names, kept = append(names, b), append(kept, ticks[i])
			} else {
				whole = false
			}
		}
		if whole || !even {
			return kept
		}
	}
}

// within is a share of 1 that is one.
func within(v, otherwise float64) float64 {
	if math.IsNaN(v) {
		return otherwise
	}
	return max(0, min(v, 1))
}

// levels are how many shares of 1 can be distinguished as shades, or as bars of a terminal.
const levels = 8

// level is that of a share; 0 is that of hardly anything.
func level(share float64) int { return int(math.Round(within(share, 0) * levels)) }
