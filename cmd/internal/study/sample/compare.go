package sample

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Better says which direction of a metric is good.
type Better int

// The zero value is that of times and costs.
const (
	Lower Better = iota
	Higher
)

// A Verdict is what may be said of a Comparison.
type Verdict string

// The verdicts.
const (
	VerdictBetter    Verdict = "better"    // other is, beyond the margin
	VerdictWorse     Verdict = "worse"     // other is, beyond the margin
	VerdictSame      Verdict = "same"      // no worthwhile difference
	VerdictUndecided Verdict = "undecided" // the pairs allow no statement
	VerdictTooFew    Verdict = "too few"   // so few pairs never do; see Missing
)

// A Comparison says how the values of one setting, other, relate to those of another, base, that were measured in the
// same blocks. Its JSON is part of the document of bench.
type Comparison struct {
	Better Better  `json:"-"` // set by the caller, before Decide
	Margin float64 `json:"-"` // as well: the difference that is worth something, see Decide

	Pairs      int     `json:"pairs"`
	Ratio      float64 `json:"ratio"` // other ÷ base, estimated; 0: none
	Low        float64 `json:"low"`   // the ratio's interval, for this comparison alone; both are 0 if Confidence is
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence_level"` // what the interval really has, at least 0.95; 0: no interval
	Spread     float64 `json:"-"`                // standard deviation of the pairs' log-ratios: 0.04 means that pairs differ by about 4 %
	P          float64 `json:"p"`                // of the signed-rank test, two-sided; 1 if there is no ratio

	// What follows is about the family, the comparisons that are decided together. Compare takes the comparison to be
	// alone, Decide sets it.

	Inferior float64 `json:"-"` // set by the caller, before Decide: P of being worse by the margin or more, one-sided

	Adjusted float64 `json:"p_adjusted"`              // P after Holm's adjustment
	Family   int     `json:"family"`                  // number of comparisons in the family
	Verdict  Verdict `json:"verdict"`                 // from Compare: too few, or undecided
	Missing  int     `json:"missing_pairs,omitempty"` // for a difference to be shown in this family; 0: there are enough
	NotWorse bool    `json:"-"`                       // it is shown that it is not worse by the margin or more
	Warnings []error `json:"-"`
}

// Compare compares the values of two settings. Those with the same index are a pair: they come from the same block. The
// lengths must agree. The caller sets Better, and passes the comparisons of one metric or lab to Decide, together.
//
// The estimate is that of Hodges and Lehmann on the log-ratios; the interval and P are the signed-rank test's. They
// assume that no pair depends on another, and that the log-ratios are symmetric. Random order within the blocks makes
// them so when the settings are equal, hence a claim that they differ is safe. When noise is skewed in one setting
// only, they aren't: the ratio is then that of a typical pair, and need not be that of the medians. TestSkew shows by
// how much.
//
// A ratio needs numbers above 0. If one value is not, there is no ratio, even if the other pairs have one: which runs fail to have a value
// is no accident. For a metric that often is 0, such as throttled time, use Summarise on both.
func Compare(base, other []float64) Comparison {
	if len(base) != len(other) {
		panic(fmt.Sprintf("sample: comparing %d values with %d", len(base), len(other)))
	}
	c := Comparison{Pairs: len(base), P: 1, Family: 1, Adjusted: 1, Verdict: VerdictUndecided}
	c.Missing = max(0, Needed(1, 1)-c.Pairs)
	diffs, err := logRatios(base, other)
	if err != nil {
		c.Warnings = append(c.Warnings, err)
		return c
	}
	if c.Missing > 0 {
		c.Verdict = VerdictTooFew
		c.Warnings = append(c.Warnings,
			fmt.Errorf("a %v %% statement needs %d pairs, there are %d", 100*Confidence, Needed(1, 1), c.Pairs))
	}
	if c.Pairs == 0 {
		return c
	}
	l := locate(diffs)
	c.Ratio = math.Exp(l.center)
	if l.confidence > 0 {
		c.Low, c.High, c.Confidence = math.Exp(l.low), math.Exp(l.high), l.confidence
	}
	_, c.Spread = Moments(diffs)
	c.P = signedRank(diffs)
	c.Adjusted = c.P
	if diffs[0] == 0 && diffs[len(diffs)-1] == 0 {
		c.Warnings = append(c.Warnings, errors.New("the values of every pair are equal: this metric may measure nothing here"))
	}
	return c
}

// logRatios returns the logarithm of other ÷ base of every pair, sorted.
func logRatios(base, other []float64) ([]float64, error) {
	usable := func(v float64) bool { return v >= 1/largest && v <= largest }
	bad, first := 0, 0
	diffs := make([]float64, len(base))
	for i, b := range base {
		if !usable(b) || !usable(other[i]) {
			if bad++; bad == 1 {
				first = i
			}
			continue
		}
		diffs[i] = math.Log(other[i]) - math.Log(b) // not Log(other/b): this way swapping the two only changes the sign
	}
	if bad > 0 {
		return nil, fmt.Errorf("pairs without a ratio, which needs numbers above 0: %d of %d, such as pair %d with %v and %v",
			bad, len(base), first+1, base[first], other[first])
	}
	slices.Sort(diffs)
	return diffs, nil
}

// LookPart is how much of the 5 % one of several looks has, where what is settled at one gets no further pairs: 1 where there is only one.
// Together they have all of it. The later ones have most, as they have most pairs: what is plain is settled early all the same.
func LookPart(look, of int) float64 {
	if of <= 1 {
		return 1
	}
	spent := func(look int) float64 { return math.Pow(float64(look)/float64(of), 3) }
	return spent(look) - spent(look-1)
}

// Decide gives the comparisons of a family their verdicts. The chance that it calls any of them better or worse when
// all settings are equal is 5 % at most, over the whole family (Holm 1979). That is true of one look at a number of
// pairs that was fixed beforehand; looking again after every block, and stopping at the first success, makes it many
// times that.
//
// A comparison's Margin is the difference that is worth something: 0.05 means that ratios from 1/1.05 to 1.05 are as good
// as 1. This way it does not matter which setting is base. It must not be negative.
//
//   - better, worse: Adjusted is at most 0.05, and the estimate is beyond the margin.
//   - same: the interval is inside of the margin; or Adjusted is at most 0.05, and the estimate is inside of the
//     margin. The interval then excludes 1, so it ends at about twice the margin. The intervals are not adjusted: each
//     of them is right 95 times in 100, not all of them together.
//   - too few: none of these, and the pairs are so few that this family can't show any difference.
//   - undecided: everything else.
//
// part is how much of the 5 % this look has: 1 if there is but one, else see LookPart.
func Decide(family []*Comparison, part float64) {
	byP := slices.Clone(family)
	slices.SortStableFunc(byP, func(a, b *Comparison) int { return cmp.Compare(a.P, b.P) })
	worst := 0.0
	for i, c := range byP {
		worst = max(worst, min(1, float64(len(byP)-i)/part*c.P))
		c.Adjusted = worst
		c.Family = len(byP)
		c.Missing = max(0, Needed(c.Family, part)-c.Pairs)
		c.Verdict = c.verdict()
		c.NotWorse = c.notWorse(part)
	}
}

// notWorse reports whether it is shown that other is not worse by the margin or more. With one look the interval says so.
func (c *Comparison) notWorse(part float64) bool {
	worst := c.High
	if c.Better == Higher && c.Low > 0 {
		worst = 1 / c.Low
	}
	return c.Confidence > 0 && worst < 1+c.Margin && (part == 1 || c.Inferior <= part*(1-Confidence)/2)
}

func (c *Comparison) verdict() Verdict {
	significant := c.Adjusted <= 1-Confidence
	switch {
	case c.Ratio == 0 && c.Pairs > 0:
		return VerdictUndecided // no number of pairs would help
	case c.Pairs < Needed(1, 1):
		return VerdictTooFew
	case significant && beyond(c.Ratio, c.Margin):
		if c.Ratio < 1 == (c.Better == Lower) {
			return VerdictBetter
		}
		return VerdictWorse
	case significant, !beyond(c.Low, c.Margin) && !beyond(c.High, c.Margin):
		return VerdictSame
	case c.Missing > 0:
		return VerdictTooFew
	}
	return VerdictUndecided
}

// beyond reports whether a ratio is beyond the margin in any direction. A ratio that is the margin, but for rounding,
// is not.
func beyond(ratio, margin float64) bool {
	return math.Abs(math.Log(ratio)) > math.Log1p(margin)+1e-9
}

// Needed returns the smallest number of pairs with which a family can show a difference at a look that has a part of the 5 %: the smallest p
// that n pairs can have is 2/2ⁿ, and Holm's first step multiplies it by the family's size.
func Needed(family int, part float64) int {
	n := 1
	for p := float64(family) / part; p > 1-Confidence; p /= 2 {
		n++
	}
	return n
}

// Many is the most that More returns: that many pairs or more, or no number of them.
const Many = 10_000

// More says about how many more pairs would settle an undecided comparison: 0 when it is settled, or when it has no
// ratio, so that none would help. It takes the ratio and the spread seen here for the true ones. Then the comparison
// gets settled nine times in ten; it is an order of magnitude, as with few pairs neither is well known.
//
// It is for planning the next measurement. To add the pairs to these and decide again is a second look, which makes
// false claims more frequent than Decide says.
func More(c Comparison) int {
	switch c.Verdict {
	case VerdictBetter, VerdictWorse, VerdictSame:
		return 0
	}
	if c.Ratio == 0 && c.Pairs > 0 {
		return 0
	}
	if c.Pairs < 2 {
		return c.Missing // nothing is known of the spread
	}
	effect, limit := math.Abs(math.Log(c.Ratio)), math.Log1p(c.Margin)
	// A difference is shown if the estimate is so far from 0 that it would be nine times in ten; equality, if it is so
	// far from both ends of the margin, which is why that has half of the tenth.
	difference := pairsFor(effect, c.Spread, quantile((1-Confidence)/2/float64(max(1, c.Family)))+quantile(0.1))
	need := difference
	if effect < limit {
		need = min(need, pairsFor(limit-effect, c.Spread, quantile((1-Confidence)/2)+quantile(0.05)))
	}
	return min(Many, max(1, c.Missing, need-c.Pairs))
}

// pairsFor returns how many pairs make distance the given number of standard errors of the estimate. The estimate needs
// π/3 as many as the mean would if the noise is normal, and fewer if it has heavy tails.
func pairsFor(distance, spread, times float64) int {
	if distance <= 0 {
		return math.MaxInt32
	}
	ratio := times * spread / distance
	return int(math.Ceil(min(math.MaxInt32, ratio*ratio*math.Pi/3)))
}
