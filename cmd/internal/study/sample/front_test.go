package sample

import (
	"math"
	"testing"
)

func TestBeats(t *testing.T) {
	unknown := math.NaN()
	for _, test := range []struct {
		a, b []float64
		want bool
	}{
		{[]float64{1, 1}, []float64{2, 2}, true},
		{[]float64{1, 3}, []float64{2, 2}, false},
		{[]float64{1, 2}, []float64{2, 2}, false}, // as good in one
		{[]float64{1, unknown}, []float64{2, 2}, false},
		{[]float64{1, 1}, []float64{2, unknown}, false},
		{[]float64{1}, []float64{2}, true},
		{nil, nil, false}, // nothing counts
	} {
		if got := Beats(test.a, test.b); got != test.want {
			t.Errorf("%v beats %v: %v, want %v", test.a, test.b, got, test.want)
		}
	}
}
