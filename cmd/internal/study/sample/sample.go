// Package sample answers: what do these measurements say, and how sure is that?
//
// In go numbers, one a run: a run of a fresh process is the unit, because requests inside of one are not independent.
// Out come a Summary of one setting, and Comparisons of two settings measured in the same blocks, with warnings that
// travel along. The package does not measure, does not print, and does not decide what to run.
//
// Nothing here assumes that measurements are normally distributed; they rarely are. The interval of a Summary is that
// of golang.org/x/perf/benchmath, as benchstat shows it. A Comparison is paired, which benchstat's is not: what a block
// has in common, such as a busy host, then cancels out.
//
// No exported number is ever infinite or NaN, because JSON can't hold these.
package sample

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Confidence is what every interval has at least, and 1-Confidence is the rate of false claims that is put up with.
const Confidence = 0.95

// largest is the largest number that is taken for a measurement, its inverse the smallest that a ratio is made of.
// Squares and ratios of such numbers are finite. No unit needs more.
const largest = 1e150

// A Summary says what the runs of one setting have in common. Its JSON is part of the documents of bench and tune.
type Summary struct {
	N int `json:"n"` // usable values; the numbers below are 0 if there are none

	Median     float64 `json:"median"`
	Low        float64 `json:"low"` // the median's interval; both are 0 if Confidence is
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence_level"` // what the interval really has, at least 0.95; 0: too few values for an interval

	Mean   float64 `json:"mean"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	StdDev float64 `json:"-"` // of the sample, so with N-1; 0 for one value

	// Outliers are the indexes of values far from the others. They are shown, and never left out: in a shared host's
	// measurements the slow ones are real as well.
	Outliers []int   `json:"outliers,omitempty"`
	Warnings []error `json:"-"`
}

// Summarise summarises the values of a setting's runs. It leaves values alone. A value that is not a number is left out
// with a warning.
//
// With 6 to 30 values the interval's confidence is exact. Beyond that benchmath approximates it, and is up to 0.002 too
// modest: see TestMedianConfidence.
func Summarise(values []float64) Summary {
	sorted := make([]float64, 0, len(values))
	for _, v := range values {
		if math.Abs(v) <= largest { // false for NaN
			sorted = append(sorted, v)
		}
	}
	slices.Sort(sorted) // sums of sorted values don't depend on the order of the runs
	s := Summary{N: len(sorted)}
	if bad := len(values) - s.N; bad > 0 {
		s.Warnings = append(s.Warnings, fmt.Errorf("values left out because they are not numbers: %d of %d", bad, len(values)))
	}
	if s.N == 0 {
		s.Warnings = append(s.Warnings, errors.New("there are no values"))
		return s
	}
	s.Median, s.Min, s.Max = median(sorted), sorted[0], sorted[s.N-1]
	s.Mean, s.StdDev = Moments(sorted)
	s.interval(sorted)
	s.Outliers = outliers(values, s.Median, deviation(sorted, s.Median))
	if n := len(s.Outliers); n > 0 {
		s.Warnings = append(s.Warnings,
			fmt.Errorf("values far from the others: %d of %d; the host may have been busy with something else", n, s.N))
	}
	return s
}

// interval takes the median's interval from benchmath. The median itself is our own, as benchmath's is interpolated and
// so can be a rounding error away from the middle value.
func (s *Summary) interval(sorted []float64) {
	b := benchmath.AssumeNothing.Summary(benchmath.NewSample(sorted, &benchmath.DefaultThresholds), Confidence)
	s.Warnings = append(s.Warnings, b.Warnings...)
	// With 5 values benchmath has an interval that is open on one side. Half an interval is none for us.
	if !math.IsInf(b.Lo, 0) && !math.IsInf(b.Hi, 0) {
		s.Low, s.High, s.Confidence = b.Lo, b.Hi, b.Confidence
	}
}

// median returns the middle of sorted values, which must not be empty.
func median(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// Moments returns the mean and the standard deviation of values, the latter 0 for fewer than two.
func Moments(values []float64) (mean, sd float64) {
	for _, v := range values {
		mean += v
	}
	mean /= float64(len(values))
	if len(values) < 2 || slices.Min(values) == slices.Max(values) {
		return mean, 0 // equal values have none, which rounding would hide
	}
	sum := 0.0
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(sum / float64(len(values)-1))
}

// MiddleHalf returns the mean of values without the lowest and the highest quarter, each rounded down.
func MiddleHalf(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted) / 4
	mean, _ := Moments(sorted[n : len(sorted)-n])
	return mean
}

// outlierAt is how many times the median absolute deviation a value must be away from the median to be suspicious:
// hyperfine's threshold, ten standard deviations of normal noise.
//
// Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993), propose 3.5 standard deviations. With ten runs the
// median deviation is too uncertain for that: something is flagged in 12 % of the samples in which nothing is wrong,
// and in 28 % if they are as skewed as p99 is on a shared host. A warning that comes up so often is not read. With ten
// standard deviations it is 0.01 % and 1.5 %; TestOutliersRate counts them.
const outlierAt = 1.4826 * 10

// deviation returns the median absolute deviation, but not less than 1 % of the median. When most values are equal it
// would be 0, and the smallest difference an outlier.
func deviation(sorted []float64, center float64) float64 {
	away := make([]float64, len(sorted))
	for i, v := range sorted {
		away[i] = math.Abs(v - center)
	}
	slices.Sort(away)
	return max(median(away), math.Abs(center)/100)
}

func outliers(values []float64, center, deviation float64) (indexes []int) {
	for i, v := range values {
		if away := math.Abs(v - center); math.Abs(v) <= largest && away > outlierAt*deviation {
			indexes = append(indexes, i)
		}
	}
	return indexes
}
