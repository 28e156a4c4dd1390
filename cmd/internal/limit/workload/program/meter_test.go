package program

import (
	"math"
	"runtime/metrics"
	"testing"
)

func TestPercentile(t *testing.T) {
	inf := math.Inf(1)
	histogram := func(counts ...uint64) *metrics.Float64Histogram {
		return &metrics.Float64Histogram{Counts: counts, Buckets: []float64{0, 1, 2, 3, inf}[:len(counts)+1]}
	}
	for _, test := range []struct {
		start, end *metrics.Float64Histogram
		p, want    float64 // 0: nothing to tell
	}{
		{nil, histogram(1), 0.5, 0},
		{histogram(1), nil, 0.5, 0},
		{histogram(1), histogram(1, 1), 0.5, 0}, // the runtime changed its buckets
		{histogram(3, 3, 3, 3), histogram(3, 3, 3, 3), 0.5, 0},
		{histogram(9, 0, 0, 0), histogram(9, 0, 1, 0), 0.5, 3}, // what was before does not count
		{histogram(0, 0, 0, 0), histogram(50, 49, 1, 0), 0.50, 1},
		{histogram(0, 0, 0, 0), histogram(50, 49, 1, 0), 0.51, 2},
		{histogram(0, 0, 0, 0), histogram(50, 49, 1, 0), 0.99, 2},
		{histogram(0, 0, 0, 0), histogram(50, 48, 2, 0), 0.99, 3},
		{histogram(0, 0, 0, 0), histogram(0, 0, 0, 1), 0.99, 3}, // no upper bound: the lower
	} {
		got := percentile(test.start, test.end, test.p)
		if (got == nil) != (test.want == 0) || got != nil && *got != test.want {
			t.Errorf("%v to %v, %v: got %v, want %v", test.start, test.end, test.p, got, test.want)
		}
	}
}

func TestGCShare(t *testing.T) {
	for _, test := range []struct {
		start, end *cpuClasses
		want       float64 // −1: not known
	}{
		{nil, nil, -1},
		{nil, &cpuClasses{}, -1},
		{&cpuClasses{1, 1, 1, 1, 1}, &cpuClasses{1, 1, 1, 1, 1}, 0}, // no collection in the window
		// Marking took 1 + 2 + 3 = 6 seconds, scavenging 1, the program 5: half of 12.
		{&cpuClasses{1, 1, 1, 1, 1}, &cpuClasses{2, 3, 4, 2, 6}, 0.5},
		{&cpuClasses{0, 0, 0, 0, 1}, &cpuClasses{1, 0, 0, 0, 0.5}, 1}, // user time is a remainder, and rounding made it negative
	} {
		got := gcShare(runtimeState{cpu: test.start}, runtimeState{cpu: test.end})
		if (got == nil) != (test.want < 0) || got != nil && *got != test.want {
			t.Errorf("%v to %v: got %v, want %v", test.start, test.end, got, test.want)
		}
	}
}
