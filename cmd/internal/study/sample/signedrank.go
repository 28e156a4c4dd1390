package sample

import (
	"math"
	"slices"
)

// Wilcoxon's signed-rank test (1945) and the estimate and interval that belong to it: Hodges and Lehmann (1963), Tukey
// (1949). Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, chapter 3, has all of them.

// exactMost is the number of differences up to which distributions are exact. Beyond it they are taken to be normal,
// with the correction for continuity; there the two p differ by less than 0.002. The exact one takes time as n³.
const exactMost = 100

// negligible is how far apart two log-ratios may be and still count as equal, or a log-ratio from 0. Rounding makes
// "exactly 20 % more" a different number in every block, and that must not break a tie.
const negligible = 1e-12

// signedRank returns the two-sided p of the hypothesis that the differences are symmetric about 0.
//
// Equal differences share their middle rank, and the distribution is the one that these very ranks have, so p is exact
// with ties as well. Zero differences are ranked and then left out (Pratt 1959). Leaving them out before the ranking,
// as Wilcoxon did, has a paradox: differences that all grow can make p larger.
func signedRank(diffs []float64) (p float64) {
	ranks, plus := doubledRanks(diffs)
	sum := 0
	for _, r := range ranks {
		sum += r
	}
	high := max(plus, sum-plus)
	if len(diffs) > exactMost {
		return min(1, 2*normalTail(float64(high)-float64(sum)/2, ranks))
	}
	tail := 0.0
	for _, prob := range rankSums(ranks, sum)[high:] {
		tail += prob
	}
	return min(1, 2*tail)
}

// doubledRanks returns twice the rank of every difference that is not 0, which makes middle ranks whole numbers, and
// the sum of those of the positive ones.
func doubledRanks(diffs []float64) (ranks []int, plus int) {
	byAmount := slices.Clone(diffs)
	slices.SortFunc(byAmount, func(a, b float64) int {
		switch a, b := math.Abs(a), math.Abs(b); {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	})
	for i := 0; i < len(byAmount); {
		first, j := math.Abs(byAmount[i]), i
		for j < len(byAmount) && math.Abs(byAmount[j])-first <= negligible {
			j++
		}
		for _, d := range byAmount[i:j] {
			if math.Abs(d) <= negligible {
				continue
			}
			ranks = append(ranks, i+1+j) // the ranks from i+1 to j, so their middle, doubled
			if d > 0 {
				plus += i + 1 + j
			}
		}
		i = j
	}
	return ranks, plus
}

// rankSums returns the probability of every sum from 0 to the given sum of all ranks, when each rank counts or does not
// with equal chances.
func rankSums(ranks []int, sum int) []float64 {
	prob := make([]float64, sum+1)
	prob[0] = 1
	reached := 0
	for _, r := range ranks {
		reached += r
		for s := reached; s >= r; s-- {
			prob[s] = (prob[s] + prob[s-r]) / 2
		}
		for s := min(r, reached+1) - 1; s >= 0; s-- {
			prob[s] /= 2
		}
	}
	return prob
}

// normalTail approximates the probability that a sum of doubled ranks is at least above more than its mean.
func normalTail(above float64, ranks []int) float64 {
	variance := 0.0
	for _, r := range ranks {
		variance += float64(r) * float64(r) / 4
	}
	if variance == 0 {
		return 1 // all differences are 0
	}
	return upper((above - 1) / math.Sqrt(variance)) // half a rank, doubled
}

// upper returns the probability that a standard normal number is above z.
func upper(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }

// quantile returns the number that a standard normal one is above with probability p.
func quantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(1-2*p) }

// A location is where differences lie.
type location struct {
	center, low, high float64
	confidence        float64 // 0: too few differences for an interval
}

// locate returns the Hodges–Lehmann estimate, which is the median of the means of all pairs of differences (each with
// itself as well), and the interval of all locations that the signed-rank test does not reject. Which of the means are
// its ends depends on the distribution without ties. With ties it has at least that confidence, as its ends belong to
// it (Noether 1967).
//
// The means are n²/2 in number, so this is for thousands of differences at most.
func locate(diffs []float64) location {
	n := len(diffs)
	means := make([]float64, 0, n*(n+1)/2)
	for i, a := range diffs {
		for _, b := range diffs[i:] {
			means = append(means, (a+b)/2)
		}
	}
	slices.Sort(means)
	l := location{center: median(means)}
	if outside, confidence := critical(n); outside >= 0 {
		l.low, l.high, l.confidence = means[outside], means[len(means)-1-outside], confidence
	}
	return l
}

// critical returns the largest rank sum c of n differences whose lower tail has at most half of what Confidence leaves,
// and the confidence of an interval that leaves the c lowest and c highest means outside. If there isn't one, c is -1.
func critical(n int) (c int, confidence float64) {
	const tail = (1 - Confidence) / 2
	sum := n * (n + 1) / 2
	if n > exactMost {
		sd := math.Sqrt(float64(sum) * float64(2*n+1) / 12)
		c = int(float64(sum)/2 - 0.5 - quantile(tail)*sd)
		return c, 1 - 2*upper((float64(sum)/2-0.5-float64(c))/sd)
	}
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	prob, below := rankSums(ranks, sum), 0.0
	for c = -1; below+prob[c+1] <= tail; c++ {
		below += prob[c+1]
	}
	return c, 1 - 2*below
}
