package sample

import (
	"math"
	"testing"
)

// TestStudent: against the tables.
func TestStudent(t *testing.T) {
	for _, c := range []struct {
		level   float64 // of one end
		freedom int
		want    float64
	}{
		{0.025, 1, 12.706},
		{0.05, 2, 2.920},
		{0.025, 2, 4.303},
		{0.001, 3, 10.215},
		{0.025, 4, 2.776},
		{0.1, 5, 1.476},
		{0.01, 10, 2.764},
		{0.005, 11, 3.106},
		{0.05, 30, 1.697},
		{0.025, 400, 1.966},
		{0.5, 7, 0},
	} {
		if got := StudentQuantile(c.level, c.freedom); math.Abs(got-c.want) > 0.002*max(1, c.want/3) {
			t.Errorf("level %v, %d degrees of freedom: %.4f, want %.3f", c.level, c.freedom, got, c.want)
		}
		if got := studentTail(c.want, c.freedom); math.Abs(got/c.level-1) > 0.002 {
			t.Errorf("beyond %v with %d degrees of freedom: %v, want %v", c.want, c.freedom, got, c.level)
		}
	}
	for level, want := range map[float64]float64{0.025: 1.960, 0.01: 2.326, 0.1: 1.2816} { // the normal distribution's
		if got := StudentQuantile(level, 1e6); math.Abs(got-want) > 0.01 {
			t.Errorf("level %v, a million degrees of freedom: %v", level, got)
		}
	}
}

func TestShownAbove(t *testing.T) {
	for _, c := range []struct {
		differences []float64
		want        bool
	}{
		{nil, false},
		{[]float64{1}, false},
		{[]float64{1, 1}, true},
		{[]float64{0.1, 0.1}, false}, // that is too small to matter
		{[]float64{-1, 4, -1}, false},
		{[]float64{1, 2, 1, 2}, true},
		{[]float64{-1, -2, -1, -2}, false},
	} {
		if got := ShownAbove(c.differences, 0.5, 0.05); got != c.want {
			t.Errorf("%v: %v", c.differences, got)
		}
	}
}
