package chart

import (
	"cmp"
	"math"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// An axis says where a value is.
type axis struct {
	unit      quantity.Unit
	scale     sheet.Scale // Linear, Log, Percentiles or Changes
	low, high float64     // at its ends
	given     []float64   // ticks that are asked for
}

// Axes: one whose values differ by more than logFrom is logarithmic; one whose smallest value is less than zeroBelow of
// the largest begins at zero, for then it costs little room; any other would hide what is to be seen.
const (
	logFrom   = 20
	zeroBelow = 0.4
	axisRoom  = 0.05 // beyond the values, as a part of their range
)

// Values beyond these are taken for them, or for 0: with them no difference and no ratio is infinite.
const (
	largest  = 1e150
	smallest = 1e-150
)

// sane makes a value one that can be drawn; false if it is none.
func sane(v float64) (float64, bool) {
	if math.Abs(v) < smallest {
		v = 0
	}
	return max(-largest, min(v, largest)), !math.IsNaN(v)
}

// newAxis makes an axis of which all values are.
func newAxis(spec sheet.Axis, values []float64) axis {
	a := axis{unit: spec.Unit, scale: spec.Scale, given: spec.Ticks}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v, ok := sane(v); ok && a.has(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	if low > high {
		low, high = 0, 0
	}
	if from, to, ok := ends(spec); ok {
		a.between(from, to)
		return a
	}
	switch a.scale {
	case sheet.Percentiles:
		a.low, a.high = low, max(high, 90)
	case sheet.Changes:
		a.changes(low, high)
	case sheet.Log:
		a.fit(low, high, 0)
	case sheet.FromZero:
		if a.fit(low, high, logFrom); a.scale == sheet.Linear {
			a.low, a.high = min(low, 0), max(high, 0)
		}
	case sheet.Linear:
		a.low, a.high = low, high
	default:
		a.fit(low, high, logFrom)
	}
	if a.low == a.high {
		a.high = a.low + max(1, math.Abs(a.low))
	}
	return a
}

// has reports whether a value is one that can be an end of the axis.
func (a axis) has(v float64) bool {
	switch a.scale {
	case sheet.Percentiles:
		return v >= 0 && v < 100
	case sheet.Changes:
		return v > 1e-6 && v < 1e6
	case sheet.Log:
		return v > 0
	}
	return true
}

// ends are those that a sheet asks for.
func ends(spec sheet.Axis) (low, high float64, ok bool) {
	low, lowOK := sane(spec.Low)
	high, highOK := sane(spec.High)
	return low, high, lowOK && highOK && low < high
}

// between is the axis between the given ends, logarithmic if it was meant to be.
func (a *axis) between(low, high float64) {
	a.low, a.high = low, high
	positive := low > 0
	switch {
	case a.scale == sheet.Percentiles:
		a.low, a.high = max(0, min(low, 99)), max(1, min(high, 100-1e-9))
		a.high = max(a.high, a.low+(100-a.low)/10)
	case (a.scale == sheet.Log || a.scale == sheet.Changes) && positive:
	case (a.scale == sheet.Fitting || a.scale == sheet.FromZero) && positive && apartBy(low, high) > math.Log(logFrom):
		a.scale = sheet.Log
	default:
		a.scale = sheet.Linear
	}
}

// apartBy is the logarithm of a ratio.
func apartBy(low, high float64) float64 { return math.Log(high) - math.Log(low) }

// fit makes the axis logarithmic if its values differ by more than a factor, and linear else.
func (a *axis) fit(low, high, from float64) {
	a.scale, a.low, a.high = sheet.Linear, low, high
	switch {
	case low == high:
		a.low, a.high = low-math.Abs(low)/20, high+math.Abs(high)/20
	case low > 0 && (from == 0 || apartBy(low, high) > math.Log(from)):
		a.scale = sheet.Log
		a.spread(axisRoom)
	case low >= 0 && low < zeroBelow*high:
		a.low, a.high = 0, high+high*axisRoom
	default:
		a.low, a.high = low-(high-low)*axisRoom, high+(high-low)*axisRoom
	}
}

// spread gives a logarithmic axis room beyond its values.
func (a *axis) spread(room float64) {
	factor := math.Exp(apartBy(a.low, a.high) * room)
	a.low, a.high = a.low/factor, a.high*factor
}

// changes is the axis of ratios, with 1 on it.
func (a *axis) changes(low, high float64) {
	a.low, a.high = 1, 1
	if low > 0 {
		a.low, a.high = min(low, 1), max(high, 1)
	}
	if a.high/a.low < 1.1 {
		a.low, a.high = a.low/1.05, a.high*1.05
	}
	a.spread(0.08)
}

// place is where a value would be if its neighbours were equally far.
func (a axis) place(v float64) float64 {
	switch a.scale {
	case sheet.Log, sheet.Changes:
		return math.Log(v)
	case sheet.Percentiles:
		return nines(v)
	}
	return v
}

// nines is a percentile's place on an axis on which 90, 99 and 99.9 % are equally far from each other. 0 % is at 0.
func nines(percentile float64) float64 {
	return -math.Log10(1 - max(0, min(percentile, 100-1e-9))/100)
}

// share returns how far along the axis a value is, in percent.
func (a axis) share(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	v = max(a.low, min(a.high, v))
	from, to := a.place(a.low), a.place(a.high)
	return 100 * (a.place(v) - from) / (to - from)
}

// on reports whether a value is between the ends.
func (a axis) on(v float64) bool { return v >= a.low && v <= a.high }

func (a axis) logarithmic() bool {
	return a.scale == sheet.Log || a.scale == sheet.Changes || a.scale == sheet.Percentiles
}

// axisNotes says how axes have to be read: of one that is alone in its drawing, or of two.
func axisNotes(axes ...axis) (notes []string) {
	percentiles := axes[0].scale == sheet.Percentiles
	if len(axes) > 1 && axes[0].logarithmic() && axes[1].logarithmic() {
		text := "Both axes are logarithmic"
		if percentiles {
			text += nineNote
		}
		return []string{text + "."}
	}
	for i, a := range axes {
		name := "The axis"
		switch {
		case percentiles && i == 0:
			name = "The axis of percentiles"
		case len(axes) > 1:
			name += []string{" across", " up"}[i]
		}
		switch {
		case a.scale == sheet.Percentiles:
			notes = append(notes, name+" is logarithmic"+nineNote+".")
		case a.logarithmic():
			notes = append(notes, name+" is logarithmic.")
		case a.low > 0:
			notes = append(notes, name+" does not begin at 0.")
		}
	}
	return notes
}

const nineNote = ": from each nine to the next there are ten times fewer values"

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

// textMost is how long the name of a tick may be, longer ones are numbers that nobody can read; and givenMost how many ticks
// of a sheet are looked at.
const (
	textMost  = 14
	givenMost = 300
)

// ticks are values of the axis by their importance. Of even ones, which are in the order of their values, either all or
// each second, third and so on is named.
func (a axis) ticks() (ticks []tick, even bool) {
	values, step := a.given, 0.0
	switch {
	case len(values) > 0:
		values = values[:min(len(values), givenMost)]
	case a.scale == sheet.Changes:
		values = ratioTicks
	case a.scale == sheet.Percentiles:
		values = percentileTicks
	case a.scale == sheet.Log:
		values, even = a.powers(), true
	default:
		values, step = a.steps()
		even = true
	}
	for _, v := range values {
		if text := a.text(v, step); a.on(v) && len([]rune(text)) <= textMost {
			ticks = append(ticks, tick{a.share(v), text})
		}
	}
	return ticks, even
}

// text names a tick.
func (a axis) text(v, step float64) string {
	switch {
	case v == 0:
		return "0"
	case a.scale == sheet.Percentiles:
		return "p" + quantity.Number(v)
	case a.scale == sheet.Changes && v == 1:
		return "0"
	case a.scale == sheet.Changes:
		return quantity.Change(v)
	case a.unit == quantity.CPU: // one of them has a name of its own
		return a.unit.Text(v)
	case step == 0:
		one, name := a.unit.Scale(v)
		return quantity.Tick(v, 0, one, name)
	}
	one, name := a.unit.Scale(a.middle())
	return quantity.Tick(v, step, one, name)
}

// ticksMost is how many round ticks there are at most.
const ticksMost = 7

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
	for len(values) > ticksMost { // a wide range: each second power, each fourth, …
		var half []float64
		for i := 0; i < len(values); i += 2 {
			half = append(half, values[i])
		}
		values = half
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

// fitting chooses which ticks have room, of those that take so much of it.
func fitting(ticks []tick, even bool, room func(tick) (from, to float64)) []bool {
	kept := make([]bool, len(ticks))
	if !even {
		for i, t := range ticks {
			kept[i] = !meets(t, ticks, kept, room)
		}
		return kept
	}
	for stride := 1; ; stride++ {
		clear(kept)
		fits := true
		for i := 0; i < len(ticks) && fits; i += stride {
			fits = i < stride || !overlap(ticks[i-stride], ticks[i], room)
			kept[i] = true
		}
		if fits {
			return kept
		}
	}
}

func meets(t tick, ticks []tick, kept []bool, room func(tick) (from, to float64)) bool {
	for i, other := range ticks {
		if kept[i] && overlap(other, t, room) {
			return true
		}
	}
	return false
}

func overlap(a, b tick, room func(tick) (from, to float64)) bool {
	fromA, toA := room(a)
	fromB, toB := room(b)
	return fromA < toB && fromB < toA
}

// apart moves labels so that they are a distance from each other, and no further down than the bottom.
func apart(places []float64, distance, bottom float64) []float64 {
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(places[a], places[b]) })
	out := slices.Clone(places)
	for k := 1; k < len(order); k++ {
		out[order[k]] = max(out[order[k]], out[order[k-1]]+distance)
	}
	limit := bottom
	for _, i := range slices.Backward(order) {
		out[i] = min(out[i], limit)
		limit = out[i] - distance
	}
	return out
}
