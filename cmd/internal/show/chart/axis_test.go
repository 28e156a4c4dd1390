package chart

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

func TestAxis(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		name   string
		spec   sheet.Axis
		values []float64
		log    bool
		low    float64
		high   float64
		ticks  string
	}{
		{"from zero where it costs little", sheet.Axis{Unit: quantity.Second}, []float64{0.01, 0.1}, false, 0, 0.105, "0 20 ms 40 ms 60 ms 80 ms 100 ms"},
		{"not from zero where it hides", sheet.Axis{Unit: quantity.Second}, []float64{0.09, 0.1}, false, 0.0895, 0.1005, "90 ms 92 ms 94 ms 96 ms 98 ms 100 ms"},
		{"logarithmic", sheet.Axis{Unit: quantity.Second}, []float64{0.001, 0.1}, true, 0.000794, 0.126, "1 ms 2 ms 5 ms 10 ms 20 ms 50 ms 100 ms"},
		{"logarithmic and wide", sheet.Axis{Unit: quantity.Second}, []float64{1e-6, 1}, true, 5.01e-7, 2, "1 µs 10 µs 100 µs 1 ms 10 ms 100 ms 1 s"},
		{"one value", sheet.Axis{}, []float64{40}, false, 38, 42, "38 39 40 41 42"},
		{"nothing but zero", sheet.Axis{}, []float64{0}, false, 0, 1, "0 0.2 0.4 0.6 0.8 1.0"},
		{"no value", sheet.Axis{}, nil, false, 0, 1, "0 0.2 0.4 0.6 0.8 1.0"},
		{"below zero", sheet.Axis{}, []float64{-10, 10}, false, -11, 11, "−10 −5 0 5 10"},
		{"what is no number", sheet.Axis{}, []float64{nan, 40, nan}, false, 38, 42, "38 39 40 41 42"},
		{"beyond measure", sheet.Axis{}, []float64{-inf, 40, inf}, false, 38, 42, "38 39 40 41 42"},
		{"a given end", sheet.Axis{Scale: sheet.Linear, High: 30, Unit: quantity.Second}, []float64{1, 9}, false, 0, 30, "0 5 s 10 s 15 s 20 s 25 s 30 s"},
		{"values beyond a given end", sheet.Axis{Scale: sheet.Linear, High: 4}, []float64{1, 5}, false, 0, 5, "0 1 2 3 4 5"},
		{"an end below zero", sheet.Axis{Scale: sheet.Linear, High: -1}, []float64{0, 5}, false, 0, 5, "0 1 2 3 4 5"},
		{"percentiles", sheet.Axis{Scale: sheet.Percentiles, High: 99.99}, []float64{0, 100}, true, 0, 99.99, "0 p50 p90 p99 p99.9 p99.99"},
		{"percentiles without ends", sheet.Axis{Scale: sheet.Percentiles}, []float64{50, 99, 100, 101}, true, 50, 99, "p50 p90 p99"},
		{"changes", sheet.Axis{Scale: sheet.Changes}, []float64{0.5, 1.2, -1, inf}, true, 0.466, 1.29, "−50 % −40 % −30 % −20 % −10 % −5 % −2 % −1 % 0 +1 % +2 % +5 % +10 % +20 %"},
		{"no change", sheet.Axis{Scale: sheet.Changes}, []float64{1}, true, 0.945, 1.06, "−5 % −2 % −1 % 0 +1 % +2 % +5 %"},
		{"limits", sheet.Axis{Unit: quantity.CPU, Ticks: []float64{0.5, 1, 2, 99, nan}}, []float64{0.5, 2}, false, 0, 2.1, "0.5 CPUs 1 CPU 2 CPUs"},
	} {
		a := newAxis(tt.spec, tt.values)
		near := func(got, want float64) bool { return math.Abs(got-want) <= 0.005*math.Abs(want) }
		if a.log != tt.log || !near(a.low, tt.low) || !near(a.high, tt.high) {
			t.Errorf("%s: logarithmic %v from %v to %v, want %v from %v to %v", tt.name, a.log, a.low, a.high, tt.log, tt.low, tt.high)
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
	for _, tt := range []struct {
		axis axis
		want string
	}{
		{axis{scale: sheet.Linear, high: 1}, ""},
		{axis{scale: sheet.Linear, low: 1, high: 2}, "The axis up does not begin at 0."},
		{axis{log: true, low: 1, high: 2}, "The axis up is logarithmic."},
		{axis{scale: sheet.Percentiles, log: true, high: 99}, "The axis up is logarithmic: from each nine to the next there are ten times fewer values."},
	} {
		if got := strings.Join(tt.axis.notes("The axis up"), " "); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.axis, got, tt.want)
		}
	}
}

// TestThinned names ticks that are ten letters wide.
func TestThinned(t *testing.T) {
	for _, tt := range []struct {
		name   string
		places []float64
		even   bool
		want   []float64
	}{
		{"none", nil, true, nil},
		{"all have room", []float64{0, 10, 20}, true, []float64{0, 10, 20}},
		{"each second has", []float64{0, 5, 10, 15}, true, []float64{0, 10}},
		{"the first alone has", []float64{0, 1, 2}, true, []float64{0}},
		{"all in one place", []float64{3, 3, 3}, true, []float64{3}},
		{"by importance", []float64{50, 45, 60, 0, 8}, false, []float64{50, 60, 0}},
	} {
		var ticks []tick
		for _, at := range tt.places {
			ticks = append(ticks, tick{at: at})
		}
		var got []float64
		for _, kept := range thinned(ticks, tt.even, func(t tick) (from, to float64) { return t.at, t.at + 10 }) {
			got = append(got, kept.at)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestSettled puts labels of a line each, at the right of a field, below each other.
func TestSettled(t *testing.T) {
	for _, tt := range []struct{ places, want []float64 }{
		{[]float64{50}, []float64{50}},
		{[]float64{50, 150}, []float64{50, 150}},
		{[]float64{50, 52}, []float64{50, 68}},
		{[]float64{50, 50, 50}, []float64{50, 34, 66}},
		{[]float64{320, 320, 320}, []float64{320, 304, 288}},
	} {
		var all taken
		var got []float64
		for _, y := range tt.places {
			put, ok := label{text: "2", x: 100, dy: y, anchor: "start"}.settled(func(l label) bool { return all.free(l.box(100, fieldHeight)) })
			if ok {
				all, got = append(all, put.box(100, fieldHeight)), append(got, put.dy)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.places, got, tt.want)
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
