package chart

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

func TestAxis(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		name   string
		spec   sheet.Axis
		values []float64
		scale  sheet.Scale
		low    float64
		high   float64
		ticks  string
	}{
		{"from zero where it costs little", sheet.Axis{Unit: quantity.Second}, []float64{0.01, 0.1}, sheet.Linear, 0, 0.105, "0 20 ms 40 ms 60 ms 80 ms 100 ms"},
		{"not from zero where it hides", sheet.Axis{Unit: quantity.Second}, []float64{0.09, 0.1}, sheet.Linear, 0.0895, 0.1005, "90 ms 92 ms 94 ms 96 ms 98 ms 100 ms"},
		{"logarithmic", sheet.Axis{Unit: quantity.Second}, []float64{0.001, 0.1}, sheet.Log, 0.000794, 0.126, "1 ms 2 ms 5 ms 10 ms 20 ms 50 ms 100 ms"},
		{"logarithmic and wide", sheet.Axis{Unit: quantity.Second}, []float64{1e-6, 1}, sheet.Log, 5.01e-7, 2, "1 µs 10 µs 100 µs 1 ms 10 ms 100 ms 1 s"},
		{"one value", sheet.Axis{}, []float64{40}, sheet.Linear, 38, 42, "38 39 40 41 42"},
		{"nothing but zero", sheet.Axis{}, []float64{0}, sheet.Linear, 0, 1, "0 0.2 0.4 0.6 0.8 1.0"},
		{"no value", sheet.Axis{}, nil, sheet.Linear, 0, 1, "0 0.2 0.4 0.6 0.8 1.0"},
		{"below zero", sheet.Axis{}, []float64{-10, 10}, sheet.Linear, -11, 11, "−10 −5 0 5 10"},
		{"what is no number", sheet.Axis{}, []float64{nan, 40, nan}, sheet.Linear, 38, 42, "38 39 40 41 42"},
		{"beyond measure", sheet.Axis{}, []float64{-inf, inf}, sheet.Linear, -1.1e150, 1.1e150, ""},
		{"given ends", sheet.Axis{Scale: sheet.Linear, High: 30, Unit: quantity.Second}, []float64{1, 99}, sheet.Linear, 0, 30, "0 5 s 10 s 15 s 20 s 25 s 30 s"},
		{"ends the wrong way round", sheet.Axis{Scale: sheet.Linear, Low: 30, High: 1}, []float64{0, 5}, sheet.Linear, 0, 5, "0 1 2 3 4 5"},
		{"given ends far apart", sheet.Axis{Low: 1, High: 100}, nil, sheet.Log, 1, 100, "1 2 5 10 20 50 100"},
		{"from zero", sheet.Axis{Scale: sheet.FromZero, Unit: quantity.Rate}, []float64{380, 400}, sheet.Linear, 0, 400, "0 100 200 300 400"},
		{"from zero, but too far", sheet.Axis{Scale: sheet.FromZero}, []float64{1, 100}, sheet.Log, 0.794, 126, "1 2 5 10 20 50 100"},
		{"logarithms of what is below zero", sheet.Axis{Scale: sheet.Log}, []float64{-1, 2}, sheet.Linear, 1.9, 2.1, "1.90 1.95 2.00 2.05 2.10"},
		{"percentiles", sheet.Axis{Scale: sheet.Percentiles, High: 99.99}, []float64{0, 100}, sheet.Percentiles, 0, 99.99, "0 p50 p90 p99 p99.9 p99.99"},
		{"percentiles without ends", sheet.Axis{Scale: sheet.Percentiles}, []float64{50, 99, 100, 101}, sheet.Percentiles, 50, 99, "p50 p90 p99"},
		{"changes", sheet.Axis{Scale: sheet.Changes}, []float64{0.5, 1.2, -1, inf}, sheet.Changes, 0.466, 1.29, "−50 % −40 % −30 % −20 % −10 % −5 % −2 % −1 % 0 +1 % +2 % +5 % +10 % +20 %"},
		{"no change", sheet.Axis{Scale: sheet.Changes}, []float64{1}, sheet.Changes, 0.945, 1.06, "−5 % −2 % −1 % 0 +1 % +2 % +5 %"},
		{"limits", sheet.Axis{Unit: quantity.CPU, Ticks: []float64{0.5, 1, 2, 99, nan}}, []float64{0.5, 2}, sheet.Linear, 0, 2.1, "0.5 CPUs 1 CPU 2 CPUs"},
	} {
		a := newAxis(tt.spec, tt.values)
		near := func(got, want float64) bool { return math.Abs(got-want) <= 0.005*math.Abs(want) }
		if a.scale != tt.scale || !near(a.low, tt.low) || !near(a.high, tt.high) {
			t.Errorf("%s: scale %d from %v to %v, want %d from %v to %v", tt.name, a.scale, a.low, a.high, tt.scale, tt.low, tt.high)
		}
		if a.share(a.low) != 0 || math.Abs(a.share(a.high)-100) > 1e-9 {
			t.Errorf("%s: its ends are at %v and %v", tt.name, a.share(a.low), a.share(a.high))
		}
		ticks, _ := a.ticks()
		slices.SortFunc(ticks, func(a, b tick) int {
			if a.at < b.at {
				return -1
			}
			return 1
		})
		var names []string
		for _, tick := range ticks {
			names = append(names, tick.text)
		}
		if got := strings.Join(names, " "); got != tt.ticks && tt.ticks != "" {
			t.Errorf("%s: its ticks are %s, want %s", tt.name, got, tt.ticks)
		}
	}
}

func TestAxisNotes(t *testing.T) {
	linear, short := axis{scale: sheet.Linear, high: 1}, axis{scale: sheet.Linear, low: 1, high: 2}
	log, percentiles := axis{scale: sheet.Log, low: 1, high: 2}, axis{scale: sheet.Percentiles, high: 99}
	for _, tt := range []struct {
		axes []axis
		want string
	}{
		{[]axis{linear}, ""},
		{[]axis{log}, "The axis is logarithmic."},
		{[]axis{short}, "The axis does not begin at 0."},
		{[]axis{short, log}, "The axis across does not begin at 0. The axis up is logarithmic."},
		{[]axis{log, log}, "Both axes are logarithmic."},
		{[]axis{percentiles, log}, "Both axes are logarithmic: from each nine to the next there are ten times fewer values."},
		{[]axis{percentiles, linear}, "The axis of percentiles is logarithmic: from each nine to the next there are ten times fewer values."},
	} {
		if got := strings.Join(axisNotes(tt.axes...), " "); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.axes, got, tt.want)
		}
	}
}

// TestFitting names ticks that are ten letters wide.
func TestFitting(t *testing.T) {
	room := func(t tick) (from, to float64) { return t.at, t.at + 10 }
	at := func(places ...float64) (ticks []tick) {
		for _, p := range places {
			ticks = append(ticks, tick{at: p})
		}
		return ticks
	}
	for _, tt := range []struct {
		name  string
		ticks []tick
		even  bool
		want  []bool
	}{
		{"none", nil, true, []bool{}},
		{"all have room", at(0, 10, 20), true, []bool{true, true, true}},
		{"each second has", at(0, 5, 10, 15), true, []bool{true, false, true, false}},
		{"the first alone has", at(0, 1, 2), true, []bool{true, false, false}},
		{"all in one place", at(3, 3, 3), true, []bool{true, false, false}},
		{"by importance", at(50, 45, 60, 0, 8), false, []bool{true, false, true, true, false}},
	} {
		if got := fitting(tt.ticks, tt.even, room); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestApart(t *testing.T) {
	for _, tt := range []struct{ places, want []float64 }{
		{nil, nil},
		{[]float64{5}, []float64{5}},
		{[]float64{0, 50}, []float64{0, 50}},
		{[]float64{5, 3}, []float64{19, 3}},
		{[]float64{98, 97, 96}, []float64{100, 84, 68}},
		{[]float64{120}, []float64{100}},
	} {
		if got := apart(tt.places, 16, 100); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.places, got, tt.want)
		}
	}
}

func TestBroken(t *testing.T) {
	for text, want := range map[string]int{"": 1, "p99": 1, "CPU a request": 2, "a name that is far": 2, "averyveryverylongword": 1, "a.name/that-is:far.too.long": 3} {
		if got := broken(text, 11); got != want {
			t.Errorf("%q takes %d lines, want %d", text, got, want)
		}
	}
}

func TestWrapped(t *testing.T) {
	got := wrapped("Folded at 100 ms: 4 periods a row, 2 ms a column.", 16)
	want := []string{"Folded at", "100 ms: 4", "periods a row,", "2 ms a column."}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
