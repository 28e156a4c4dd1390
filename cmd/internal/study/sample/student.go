package sample

import "math"

// ShownAbove reports whether the mean of some differences is above least, and above 0 by more than chance explains, at a
// one-sided level. Fewer than two show nothing.
func ShownAbove(differences []float64, least, level float64) bool {
	n := len(differences)
	if n < 2 {
		return false
	}
	mean, sd := Moments(differences)
	return mean > least && mean > StudentQuantile(level, n-1)*sd/math.Sqrt(float64(n))
}

// studentTail is the probability that Student's variable with that many degrees of freedom is above t, t ≥ 0: the finite
// series of Abramowitz and Stegun, 26.7.3 and 26.7.4.
func studentTail(t float64, freedom int) float64 {
	const most = 400 // beyond it quantiles differ from the normal distribution's by less than a hundredth
	freedom = min(freedom, most)
	theta := math.Atan(t / math.Sqrt(float64(freedom)))
	sin, cos := math.Sincos(theta)
	sum, term, first := 0.0, 1.0, 2
	if freedom%2 == 1 {
		first, term = 3, cos
	}
	for k := first; k <= freedom; k += 2 {
		sum += term
		term *= cos * cos * float64(k-1) / float64(k)
	}
	if freedom%2 == 1 {
		return (1 - 2/math.Pi*(theta+sin*sum)) / 2
	}
	return (1 - sin*sum) / 2
}

// StudentQuantile is the t beyond which this share of Student's distribution is; the share is below a half.
func StudentQuantile(level float64, freedom int) float64 {
	low, high := 0.0, 1.0
	for high < 1e9 && studentTail(high, freedom) > level {
		low, high = high, 2*high
	}
	for range 60 {
		if middle := (low + high) / 2; studentTail(middle, freedom) > level {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
