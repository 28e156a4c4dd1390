package sample

import (
	"math"
	"slices"
	"testing"

	"golang.org/x/perf/benchmath"
)

// TestExactFactor is a lab in which each block has exactly 20 and 30 % more for two settings, and the blocks drift by
// 10 % each. A comparison that ignores the blocks is unsure; in pairs all ten agree: 2/2¹⁰.
func TestExactFactor(t *testing.T) {
	base := make([]float64, 10)
	for i := range base {
		base[i] = 100 * math.Pow(1.1, float64(i))
	}
	for _, factor := range []float64{1.2, 1.3} {
		other := scaled(base, factor)
		c := Compare(base, other)
		if c.P != 2.0/1024 {
			t.Errorf("p is %v", c.P)
		}
		for _, got := range []float64{c.Ratio, c.Low, c.High} {
			if math.Abs(got-factor) > 1e-12 {
				t.Errorf("the ratio is %v with %v to %v, want %v", c.Ratio, c.Low, c.High, factor)
			}
		}
		if c.Spread > 1e-12 || c.Pairs != 10 || c.Confidence != 1-2*25/1024.0 {
			t.Errorf("got %+v", c)
		}
		c.Margin = 0.05
		if Decide([]*Comparison{&c}, 1); c.Verdict != VerdictWorse {
			t.Errorf("got %+v", c)
		}
		if p := mannWhitney(base, other); p < 0.1 {
			t.Errorf("the unpaired p is %v", p)
		}
	}
}

func mannWhitney(base, other []float64) (p float64) {
	sample := func(values []float64) *benchmath.Sample {
		return benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
	}
	return benchmath.AssumeNothing.Compare(sample(base), sample(other)).P
}

func scaled(values []float64, factor float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v * factor
	}
	return out
}

func TestCompareWarnings(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, test := range []struct {
		name        string
		base, other []float64
		want        string
		verdict     Verdict
		missing     int
	}{
		{"none", nil, nil, "a 95 % statement needs 6 pairs, there are 0", VerdictTooFew, 6},
		{"two", []float64{1, 2}, []float64{2, 3}, "a 95 % statement needs 6 pairs, there are 2", VerdictTooFew, 4},
		{"six", []float64{1, 2, 3, 4, 5, 6}, []float64{2, 3, 4, 5, 6, 7}, "", VerdictUndecided, 0},
		{
			"zero",
			[]float64{1, 2, 3, 4, 5, 6},
			[]float64{2, 3, 0, 5, -6, 7},
			"pairs without a ratio, which needs numbers above 0: 2 of 6, such as pair 3 with 3 and 0", VerdictUndecided, 0,
		},
		{
			"no number",
			[]float64{nan},
			[]float64{1},
			"pairs without a ratio, which needs numbers above 0: 1 of 1, such as pair 1 with NaN and 1", VerdictUndecided, 5,
		},
		{
			"infinite",
			[]float64{1, 1},
			[]float64{1, inf},
			"pairs without a ratio, which needs numbers above 0: 1 of 2, such as pair 2 with 1 and +Inf", VerdictUndecided, 4,
		},
		{
			"equal",
			[]float64{1, 2, 3, 4, 5, 6},
			[]float64{1, 2, 3, 4, 5, 6},
			"the values of every pair are equal: this metric may measure nothing here", VerdictUndecided, 0,
		},
	} {
		c := Compare(test.base, test.other)
		got := ""
		if len(c.Warnings) > 0 {
			got = c.Warnings[0].Error()
		}
		if got != test.want || len(c.Warnings) > 1 {
			t.Errorf("%s: warnings %q, want %q", test.name, c.Warnings, test.want)
		}
		if c.Verdict != test.verdict || c.Missing != test.missing || c.Pairs != len(test.base) || c.Family != 1 || c.Adjusted != c.P {
			t.Errorf("%s: got %+v", test.name, c)
		}
		if noRatio := c.Ratio == 0; noRatio && (c.P != 1 || c.Confidence != 0 || c.Low != 0 || c.High != 0) {
			t.Errorf("%s: got %+v", test.name, c)
		}
		finite(t, c)
	}
}

func TestCompareLengths(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("two values were compared with one")
		}
	}()
	Compare([]float64{1, 2}, []float64{1})
}

func TestHolm(t *testing.T) {
	// Four of them, in order 0.005 0.01 0.03 0.04, are multiplied by 4 3 2 1: 0.02 0.03 0.06 0.04, and none is less
	// than the one before it. This is the example of the article on Holm's method in Wikipedia.
	family := []*Comparison{
		{P: 0.01, Pairs: 10, Ratio: 1.2, Margin: 0.05},
		{P: 0.04, Pairs: 10, Ratio: 1.2, Margin: 0.05},
		{P: 0.03, Pairs: 10, Ratio: 1.2, Margin: 0.05},
		{P: 0.005, Pairs: 10, Ratio: 1.2, Margin: 0.05},
	}
	Decide(family, 1)
	for i, want := range []struct {
		adjusted float64
		verdict  Verdict
	}{{0.03, VerdictWorse}, {0.06, VerdictUndecided}, {0.06, VerdictUndecided}, {0.02, VerdictWorse}} {
		if c := family[i]; math.Abs(c.Adjusted-want.adjusted) > 1e-15 || c.Verdict != want.verdict || c.Family != 4 {
			t.Errorf("%d: got %+v, want %+v", i, *c, want)
		}
	}
	family = []*Comparison{{P: 0.5}, {P: 0.6}}
	Decide(family, 1)
	if family[0].Adjusted != 1 || family[1].Adjusted != 1 {
		t.Errorf("got %v and %v", family[0].Adjusted, family[1].Adjusted)
	}
	Decide(nil, 1)
}

func TestPairsNeeded(t *testing.T) {
	// 2/2ⁿ ≤ 0.05/K, so 2ⁿ ≥ 40·K: 2⁶ is 64, 2⁷ is 128, 2⁸ is 256.
	for family, want := range map[int]int{1: 6, 2: 7, 3: 7, 4: 8, 6: 8, 7: 9, 12: 9, 13: 10} {
		if got := Needed(family, 1); got != want {
			t.Errorf("a family of %d needs %d pairs, want %d", family, got, want)
		}
	}
	if first, last := Needed(2, LookPart(1, 4)), Needed(2, LookPart(4, 4)); first != 13 || last != 8 {
		t.Errorf("at the first look %d pairs, at the last %d", first, last)
	}
}

// TestLookPart: the looks share all of it, and each has more than the one before.
func TestLookPart(t *testing.T) {
	for of := 1; of <= 20; of++ {
		sum := 0.0
		for look := 1; look <= of; look++ {
			part := LookPart(look, of)
			if sum += part; part <= 0 || look > 1 && part <= LookPart(look-1, of) {
				t.Errorf("look %d of %d has %v", look, of, part)
			}
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("%d looks have %v", of, sum)
		}
	}
	if LookPart(0, 0) != 1 {
		t.Error("without looks there is one, at the end")
	}
}

func TestVerdict(t *testing.T) {
	// What is not said is 10 pairs, p 0.002, lower is better.
	for _, test := range []struct {
		name   string
		c      Comparison
		margin float64
		alone  bool // otherwise in a family of four
		want   Verdict
	}{
		{"less", Comparison{Ratio: 0.8, Low: 0.7, High: 0.9}, 0.05, true, VerdictBetter},
		{"less, higher is better", Comparison{Ratio: 0.8, Low: 0.7, High: 0.9, Better: Higher}, 0.05, true, VerdictWorse},
		{"more", Comparison{Ratio: 1.2, Low: 1.1, High: 1.3}, 0.05, true, VerdictWorse},
		{"more, higher is better", Comparison{Ratio: 1.2, Low: 1.1, High: 1.3, Better: Higher}, 0.05, true, VerdictBetter},
		{"without a margin", Comparison{Ratio: 0.99, Low: 0.98, High: 0.999}, 0, true, VerdictBetter},
		{"less than the margin", Comparison{Ratio: 0.97, Low: 0.95, High: 0.99}, 0.05, true, VerdictSame},
		{"is the margin", Comparison{Ratio: 1.05, Low: 1.02, High: 1.08}, 0.05, true, VerdictSame},
		{"is the margin, below", Comparison{Ratio: 1 / 1.05, Low: 0.9, High: 0.99}, 0.05, true, VerdictSame},
		{"is beyond", Comparison{Ratio: 1.0501, Low: 1.02, High: 1.08}, 0.05, true, VerdictWorse},
		{"inside", Comparison{Ratio: 1.01, Low: 0.98, High: 1.04, P: 0.3}, 0.05, true, VerdictSame},
		{"ends at the margin", Comparison{Ratio: 1.01, Low: 1 / 1.05, High: 1.05, P: 0.3}, 0.05, true, VerdictSame},
		{"reaches beyond", Comparison{Ratio: 1.01, Low: 0.96, High: 1.06, P: 0.3}, 0.05, true, VerdictUndecided},
		{"reaches beyond, below", Comparison{Ratio: 0.99, Low: 0.94, High: 1.04, P: 0.3}, 0.05, true, VerdictUndecided},
		{"p just small enough", Comparison{Ratio: 1.2, Low: 1.01, High: 1.3, P: 0.05}, 0.05, true, VerdictWorse},
		{"p too large", Comparison{Ratio: 1.2, Low: 0.99, High: 1.3, P: 0.051}, 0.05, true, VerdictUndecided},
		{"too large in a family", Comparison{Ratio: 1.2, Low: 1.01, High: 1.3, P: 0.03}, 0.05, false, VerdictUndecided},
		{"equal", Comparison{Ratio: 1, Low: 1, High: 1, P: 1}, 0, true, VerdictSame},
		{"too few", Comparison{Ratio: 2, Low: 0, High: 0, P: 0.0625, Pairs: 5}, 0.05, true, VerdictTooFew},
		{"enough", Comparison{Ratio: 2, Low: 1.8, High: 2.2, P: 0.03125, Pairs: 6}, 0.05, true, VerdictWorse},
		{"too few in a family", Comparison{Ratio: 2, Low: 1.8, High: 2.2, P: 0.03125, Pairs: 6}, 0.05, false, VerdictTooFew},
		{"inside all the same", Comparison{Ratio: 1, Low: 0.99, High: 1.02, P: 0.8, Pairs: 6}, 0.05, false, VerdictSame},
		{"no ratio", Comparison{P: 1}, 0.05, true, VerdictUndecided},
		{"no ratio, few pairs", Comparison{P: 1, Pairs: 3}, 0.05, true, VerdictUndecided},
	} {
		c := test.c
		c.Margin = test.margin
		if c.P == 0 {
			c.P = 0.002
		}
		if c.Pairs == 0 {
			c.Pairs = 10
		}
		family := []*Comparison{&c}
		if !test.alone {
			family = append(family, &Comparison{P: 0.9}, &Comparison{P: 0.9}, &Comparison{P: 0.9})
		}
		if Decide(family, 1); c.Verdict != test.want {
			t.Errorf("%s: got %+v, want %s", test.name, c, test.want)
		}
	}
}

// TestProperties compares random labs in ways between which the answer must not differ.
func TestProperties(t *testing.T) {
	r := random(2)
	verdicts := map[Verdict]int{}
	for range 300 {
		n := 3 + r.IntN(12)
		base, other := make([]float64, n), make([]float64, n)
		factor := []float64{0.7, 1, 1.02, 1.3}[r.IntN(4)]
		for i := range base {
			block := math.Exp(0.4 * r.NormFloat64())
			base[i] = round(block*math.Exp(0.1*r.NormFloat64()), 10)
			other[i] = round(block*factor*math.Exp(0.1*r.NormFloat64()), 10)
		}
		c := decided(base, other, 0.1)
		verdicts[c.Verdict]++

		back := decided(other, base, 0.1)
		mirror := map[Verdict]Verdict{VerdictBetter: VerdictWorse, VerdictWorse: VerdictBetter}
		want := c.Verdict
		if m, ok := mirror[want]; ok {
			want = m
		}
		if !close(back.Ratio, 1/c.Ratio) || back.P != c.P || back.Verdict != want || !close(back.Spread, c.Spread) ||
			c.Confidence > 0 && (!close(back.Low, 1/c.High) || !close(back.High, 1/c.Low)) {
			t.Errorf("swapped:\n%+v\n%+v", c, back)
		}
		if larger := decided(scaled(base, 1e6/7), scaled(other, 1e6/7), 0.1); !alike(larger, c) {
			t.Errorf("scaled:\n%+v\n%+v", c, larger)
		}
		shuffled, partners := slices.Clone(base), slices.Clone(other)
		r.Shuffle(n, func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
			partners[i], partners[j] = partners[j], partners[i]
		})
		again := decided(shuffled, partners, 0.1)
		again.Warnings, c.Warnings = nil, nil
		if !alike(again, c) || again.Ratio != c.Ratio || again.Low != c.Low || again.Spread != c.Spread {
			t.Errorf("shuffled:\n%+v\n%+v", c, again)
		}
		if a, b := Summarise(base), Summarise(shuffled); a.Mean != b.Mean || a.StdDev != b.StdDev || a.Low != b.Low {
			t.Errorf("shuffled:\n%+v\n%+v", a, b)
		}
	}
	if len(verdicts) != 5 {
		t.Errorf("not all verdicts came up: %v", verdicts)
	}
}

// round makes ties: numbers have that many steps between 1 and 2.
func round(v, steps float64) float64 { return max(1, math.Round(v*steps)) / steps }

func decided(base, other []float64, margin float64) Comparison {
	c := Compare(base, other)
	c.Margin = margin
	Decide([]*Comparison{&c}, 1)
	return c
}

func close(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

func alike(a, b Comparison) bool {
	return close(a.Ratio, b.Ratio) && close(a.Low, b.Low) && close(a.High, b.High) && close(a.Spread, b.Spread) &&
		a.P == b.P && a.Verdict == b.Verdict && a.Confidence == b.Confidence
}

func TestMore(t *testing.T) {
	undecided := func(c Comparison) Comparison {
		c.Verdict, c.Pairs = VerdictUndecided, 10
		return c
	}
	for _, test := range []struct {
		name   string
		c      Comparison
		margin float64
		want   int
	}{
		{"better", Comparison{Ratio: 0.5, Pairs: 10, Spread: 0.1, Verdict: VerdictBetter}, 0.05, 0},
		{"same", Comparison{Ratio: 1, Pairs: 10, Spread: 0.1, Verdict: VerdictSame}, 0.05, 0},
		{"no ratio", undecided(Comparison{}), 0.05, 0},
		{"no pairs", Comparison{Missing: 6, Verdict: VerdictTooFew}, 0.05, 6},
		{"one pair", Comparison{Pairs: 1, Ratio: 2, Missing: 5, Verdict: VerdictTooFew}, 0.05, 5},
		{"too few, clear", Comparison{Pairs: 4, Ratio: 2, Spread: 0.01, Missing: 2, Verdict: VerdictTooFew}, 0.05, 2},
		// A difference of 0.1 with a spread of 0.15: (1.960+1.282)²·2.25·π/3 = 24.8, so 25.
		{"a difference", undecided(Comparison{Ratio: math.Exp(0.1), Spread: 0.15}), 0.05, 15},
		// In a family of four it is (2.498+1.282)²·2.25·π/3 = 33.7.
		{"in a family", undecided(Comparison{Ratio: math.Exp(-0.1), Spread: 0.15, Family: 4}), 0.05, 24},
		// Nothing at all and a margin of 0.0953: (1.960+1.645)²·(0.15/0.0953)²·π/3 = 33.7.
		{"equality", undecided(Comparison{Ratio: 1, Spread: 0.15}), 0.1, 24},
		{"would do already", undecided(Comparison{Ratio: 2, Spread: 0.1}), 0.05, 1},
		{"at the margin", undecided(Comparison{Ratio: 1.0499, Spread: 3}), 0.05, Many},
		{"never", undecided(Comparison{Ratio: 1, Spread: 0.15}), 0, Many},
	} {
		test.c.Margin = test.margin
		if got := More(test.c); got != test.want {
			t.Errorf("%s: %d more, want %d", test.name, got, test.want)
		}
	}
}
