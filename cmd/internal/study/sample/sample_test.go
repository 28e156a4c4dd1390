package sample

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
)

func TestSummarise(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, test := range []struct {
		name   string
		values []float64
		want   Summary
	}{
		{"none", nil, Summary{Warnings: warnings("there are no values")}},
		{"one", []float64{3}, Summary{
			N: 1, Median: 3, Mean: 3, Min: 3, Max: 3,
			Warnings: warnings("need >= 6 samples for confidence interval at level 0.95"),
		}},
		// Deviations from the mean 3: 2, 1, 0, 1, 2; their squares sum up to 10; 10/4 = 2.5. With five values
		// benchmath's interval is open on one side.
		{"five", []float64{5, 4, 3, 2, 1}, Summary{
			N: 5, Median: 3, Mean: 3, Min: 1, Max: 5, StdDev: math.Sqrt(2.5),
			Warnings: warnings("need >= 6 samples for confidence interval at level 0.95"),
		}},
		// The median is below or above all six values with 2/2⁶ = 0.03125. Squares: 2·(2.5² + 1.5² + 0.5²) = 17.5;
		// 17.5/5 = 3.5.
		{"six", []float64{6, 1, 5, 2, 4, 3}, Summary{
			N: 6, Median: 3.5, Low: 1, High: 6, Confidence: 1 - 0.03125, Mean: 3.5, Min: 1, Max: 6, StdDev: math.Sqrt(3.5),
		}},
		// Ten: 2·(1+10)/2¹⁰ = 0.021484375 for leaving out the lowest and the highest; a further one would make it
		// 0.109.
		{"ten", []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Summary{
			N: 10, Median: 5.5, Low: 2, High: 9, Confidence: 1 - 0.021484375, Mean: 5.5, Min: 1, Max: 10,
			StdDev: math.Sqrt(82.5 / 9),
		}},
		{"equal", []float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, Summary{
			N: 6, Median: 0.1, Low: 0.1, High: 0.1, Confidence: 1 - 0.03125, Mean: 0.1, Min: 0.1, Max: 0.1,
		}},
		{"no numbers", []float64{nan, 7, inf, -inf}, Summary{
			N: 1, Median: 7, Mean: 7, Min: 7, Max: 7,
			Warnings: warnings("values left out because they are not numbers: 3 of 4",
				"need >= 6 samples for confidence interval at level 0.95"),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := slices.Clone(test.values)
			got := Summarise(test.values)
			if math.Abs(got.Mean-test.want.Mean) > 1e-12 || math.Abs(got.StdDev-test.want.StdDev) > 1e-12 ||
				math.Abs(got.Confidence-test.want.Confidence) > 1e-12 {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			got.Mean, got.StdDev, got.Confidence = test.want.Mean, test.want.StdDev, test.want.Confidence
			if !reflect.DeepEqual(text(got.Warnings), text(test.want.Warnings)) {
				t.Errorf("warnings %q, want %q", text(got.Warnings), text(test.want.Warnings))
			}
			got.Warnings, test.want.Warnings = nil, nil
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			for i, v := range test.values {
				if v != before[i] && v == v {
					t.Error("the values were changed")
				}
			}
		})
	}
}

func warnings(text ...string) (errs []error) {
	for _, s := range text {
		errs = append(errs, errors.New(s))
	}
	return errs
}

func text(errs []error) (text []string) {
	for _, err := range errs {
		text = append(text, err.Error())
	}
	return text
}

func TestOutliers(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []float64
		want   []int
	}{
		// Median 100, deviations 0 1 1 2 2 3, so the median deviation is 1.5 and the threshold 22.2.
		{"near", []float64{99, 100, 101, 98, 100 + 3, 100 + 2}, nil},
		// Sorted 98 99 100 101 102 130: median 100.5, deviations 0.5 0.5 1.5 1.5 2.5 29.5, median 1.5.
		{"far", []float64{99, 100, 130, 98, 101, 102}, []int{2}},
		// Median 100.5, deviations 0.5 0.5 1.5 1.5 2.5 2.5 30.5 50.5, median 2: the threshold is 29.7.
		{"both sides", []float64{99, 100, 131, 98, 101, 102, 50, 103}, []int{2, 6}},
		// Most are equal: 1 % of the median is the deviation, so 14.8 % is the threshold.
		{"equal but one", []float64{10, 10, 10, 10, 10, 10, 10, 100}, []int{7}},
		{"pages", []float64{4096, 4096, 4096, 4096, 4096, 4100, 4100, 4100}, nil},
		{"zero but one", []float64{0, 0, 0, 0, 0, 3}, []int{5}},
		{"index in what was given", []float64{math.NaN(), 10, 10, 10, 10, 100, math.Inf(1)}, []int{5}},
		{"two", []float64{0, 1000}, nil},
	} {
		got := Summarise(test.values)
		if !slices.Equal(got.Outliers, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got.Outliers, test.want)
		}
		warning := fmt.Sprintf("values far from the others: %d of %d; the host may have been busy with something else",
			len(test.want), got.N)
		if warned := slices.Contains(text(got.Warnings), warning); warned != (test.want != nil) {
			t.Errorf("%s: warnings %q", test.name, text(got.Warnings))
		}
	}
}

// TestMedianConfidence holds benchmath's intervals against the binomial distribution: the k-th lowest of n values is
// above the median when fewer than k values are below it. From 31 values on benchmath approximates. It then is a little
// better than it says.
func TestMedianConfidence(t *testing.T) {
	for n := 6; n <= 200; n++ {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i + 1)
		}
		s := Summarise(values)
		exact := 0.0
		for below := int(s.Low); below < int(s.High); below++ {
			exact += binomial(n, below)
		}
		tolerance := 1e-9
		if n > 30 {
			tolerance = 0.0018
		}
		if exact < s.Confidence-1e-9 || exact > s.Confidence+tolerance || s.Confidence < Confidence {
			t.Errorf("%d values: the interval is said to have %.5f and has %.5f", n, s.Confidence, exact)
		}
	}
}

// binomial returns the probability of k heads in n throws.
func binomial(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return math.Exp(a - b - c - float64(n)*math.Ln2)
}

// FuzzFinite feeds anything: nothing panics, and no number is infinite or NaN.
func FuzzFinite(f *testing.F) {
	for _, values := range [][]float64{
		{},
		{1, 2},
		{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-150},
		{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
		{1e150, 1e-150, 1e150, 1e-150, 1e150, 1e-150, 1e150, 1e-150, 1e150, 1e-150, 1e150, 1e-150},
		{1e150, -1e150, 1e150, -1e150, 1e150, -1e150, 1e150},
	} {
		var data []byte
		for _, v := range values {
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
		}
		f.Add(data, 0.05)
	}
	f.Fuzz(func(t *testing.T, data []byte, margin float64) {
		var values []float64
		for ; len(data) >= 8 && len(values) < 300; data = data[8:] {
			values = append(values, math.Float64frombits(binary.LittleEndian.Uint64(data)))
		}
		s := Summarise(values)
		finite(t, s)
		if s.Confidence > 0 && (s.Low > s.Median || s.High < s.Median) {
			t.Errorf("median outside of its interval: %+v", s)
		}
		half := len(values) / 2
		c := Compare(values[:half], values[half:2*half])
		if !(margin >= 0) || math.IsInf(margin, 1) {
			margin = 0 // it is a share that someone asked for
		}
		c.Margin = margin
		for range 2 { // to decide twice is the same as once
			Decide([]*Comparison{&c, {P: 0.001, Pairs: 12, Ratio: 2, Margin: margin}}, 1)
			finite(t, c)
			if c.Verdict == "" || c.Confidence > 0 && (c.Ratio < c.Low || c.Ratio > c.High) {
				t.Errorf("%+v", c)
			}
			if more := More(c); more < 0 || more > Many {
				t.Errorf("%d more for %+v", more, c)
			}
		}
	})
}

// finite checks all numbers of a struct.
func finite(t *testing.T, v any) {
	t.Helper()
	for _, value := range reflect.ValueOf(v).Fields() {
		if value.CanFloat() && (math.IsInf(value.Float(), 0) || math.IsNaN(value.Float())) {
			t.Errorf("not finite: %+v", v)
		}
	}
}

func TestMiddleHalf(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{1, 2, 6}, 3},
		{[]float64{100, 2, 4, -9}, 3},
		{[]float64{8, 1, 2, 3, 4, 5, 900, -1}, 3.5},
	} {
		before := slices.Clone(c.values)
		if got := MiddleHalf(c.values); got != c.want || !slices.Equal(c.values, before) {
			t.Errorf("%v: %v, want %v; then %v", before, got, c.want, c.values)
		}
	}
}
