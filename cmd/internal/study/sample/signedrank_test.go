package sample

import (
	"math"
	"testing"
)

func TestSignedRank(t *testing.T) {
	for _, test := range []struct {
		name  string
		diffs []float64
		want  float64
	}{
		{"none", nil, 1},
		{"one", []float64{3}, 1},
		// Of the 2ⁿ patterns of signs only this one and its mirror image are so extreme: 2/2ⁿ.
		{"five, all up", []float64{1, 2, 3, 4, 5}, 0.0625},
		{"six, all up", []float64{1, 2, 3, 4, 5, 6}, 0.03125},
		{"six, all down", []float64{-1, -2, -3, -4, -5, -6}, 0.03125},
		// The negative ranks sum up to 2. Sums of at most 2 are {}, {1}, {2}: 2·3/64. The table of Wilcoxon's test for
		// n=6 has 2 as the critical value of 10 %, and 0 as that of 5 %.
		{"six, second down", []float64{1, -2, 3, 4, 5, 6}, 0.09375},
		// The tables have 8 as the critical value of 5 % for n=10. Sums of at most 8 are made by 25 sets of ranks, of
		// at most 9 by 33 (1 1 1 2 2 3 4 5 6 and 8 sets for 0 to 9): 2·25/1024 and 2·33/1024.
		{"ten, sum 8", []float64{1, 2, 3, 4, 5, 6, 7, -8, 9, 10}, 0.048828125},
		{"ten, sum 9", []float64{1, 2, 3, 4, 5, 6, 7, 8, -9, 10}, 0.064453125},
		// Equal amounts share ranks 1 to 4, so 2.5 each, and the mean of the sum is 5. The sums are 0, 2.5, 5, 7.5, 10
		// with 1, 4, 6, 4, 1 patterns: one of four is down with 2·(1+4)/16.
		{"ties", []float64{1, 1, 1, -1}, 0.625},
		{"ties but for rounding", []float64{0.1 + 0.2, 0.3, 0.3, -0.3}, 0.625},
		// Ranks 1, 2.5, 2.5, 4. At most 1 is made by {} and {1}: 2·2/16.
		{"a tie inside", []float64{-1, 2, 2, 3}, 0.25},
		{"zeros only", []float64{0, 0, 0, 0, 0, 0}, 1},
		// The zeros have ranks 1 and 2 and are left out. That leaves 3, 4, 5, 6 with the lowest down: at most 3 is made
		// by {} and {3}, 2·2/16, as it would be without them.
		{"zeros", []float64{0, 0, -1, 2, 3, 4}, 0.25},
		// Where the zeros matter: two zeros, then ranks 3 4 5 6 7, down are 3 and 4. At most 7 is made by {} 3 4 5 6 7
		// {3,4}: 2·7/32. Without the zeros' ranks it would be 1 2 3 4 5, at most 3 by {} 1 2 3 {1,2}: 2·5/32.
		{"zeros count", []float64{0, 0, -1, -2, 3, 4, 5}, 0.4375},
		{"zeros but for rounding", []float64{1e-16, -1e-16, -1, -2, 3, 4, 5}, 0.4375},
		{"half up", []float64{-1, 1}, 1},
	} {
		if got := signedRank(test.diffs); got != test.want {
			t.Errorf("%s: p is %v, want %v", test.name, got, test.want)
		}
	}
}

// TestCritical compares with the critical values that books print for a two-sided 5 %.
func TestCritical(t *testing.T) {
	for n := range 6 {
		if c, _ := critical(n); c != -1 {
			t.Errorf("%d differences have an interval", n)
		}
	}
	for n, want := range map[int]int{
		6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 11: 10, 12: 13, 13: 17, 14: 21, 15: 25, 16: 29, 17: 34, 18: 40, 19: 46, 20: 52,
		25: 89, 30: 137, 50: 434,
	} {
		c, confidence := critical(n)
		if c != want || confidence < Confidence || confidence > 0.985 {
			t.Errorf("%d differences: critical value %d with %v, want %d", n, c, confidence, want)
		}
	}
	if _, confidence := critical(10); confidence != 1-2*25/1024.0 { // see TestSignedRank
		t.Errorf("ten differences: %v", confidence)
	}
}

func TestLocate(t *testing.T) {
	// The means of 1 2 4 and each with itself: 1 1.5 2 2.5 3 4, so the estimate is 2.25.
	if l := locate([]float64{1, 2, 4}); l != (location{center: 2.25}) {
		t.Errorf("got %+v", l)
	}
	// Six: the interval is from the lowest to the highest, with 1 - 2/64. There are 21 means, so the 11th is the
	// estimate. In order: 0 .5 1 1.5 1.5 2 2 2 2.5 2.5 3 3 3 3.5 4 … ; the differences have gaps 1 1 1 1 6.
	if l := locate([]float64{0, 1, 2, 3, 4, 10}); l != (location{center: 2.5, low: 0, high: 10, confidence: 0.96875}) {
		t.Errorf("got %+v", l)
	}
}

// TestApproximation compares the approximation with what is exact, where the one takes over from the other.
func TestApproximation(t *testing.T) {
	const n = exactMost + 1
	for _, tied := range []bool{false, true} {
		for turned := 0; turned < 30; turned += 3 {
			diffs := shifted(differences(n, tied), turned)
			ranks, plus := doubledRanks(diffs)
			sum := 0
			for _, r := range ranks {
				sum += r
			}
			exact := 0.0
			for _, prob := range rankSums(ranks, sum)[max(plus, sum-plus):] {
				exact += 2 * prob
			}
			if got := signedRank(diffs); math.Abs(got-min(1, exact)) > 0.002 {
				t.Errorf("%d turned: p is %v, want %v", turned, got, exact)
			}
		}
	}
	if p := signedRank(make([]float64, n)); p != 1 {
		t.Errorf("zeros only: p is %v", p)
	}
	// The interval, as the exact distribution of the ranks 1 to n has it.
	c, confidence := critical(n)
	exact, ranks := 1.0, make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	for _, prob := range rankSums(ranks, n*(n+1)/2)[:c+1] {
		exact -= 2 * prob
	}
	if math.Abs(confidence-exact) > 0.0005 || confidence < Confidence || confidence > Confidence+0.001 {
		t.Errorf("critical value %d with %v, want %v", c, confidence, exact)
	}
}

// differences returns n of them, evenly spread about 0, in groups of four equal amounts if they are tied.
func differences(n int, tied bool) []float64 {
	diffs := make([]float64, n)
	for i := range diffs {
		amount := float64(i + 1)
		if tied {
			amount = float64(i/4 + 1)
		}
		diffs[i] = amount * float64(1-2*(i%2))
	}
	return diffs
}

// shifted turns a number of negative differences to the other side.
func shifted(diffs []float64, n int) []float64 {
	diffs = append([]float64(nil), diffs...)
	for i, d := range diffs {
		if d < 0 && n > 0 {
			diffs[i] = -d
			n--
		}
	}
	return diffs
}

// FuzzSignedRank compares with counting over all patterns of signs.
func FuzzSignedRank(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6})
	f.Add([]byte{0, 0, 255, 254, 3, 4, 5})
	f.Add([]byte{1, 1, 255, 255, 2, 2, 2, 0, 0, 7})
	f.Add([]byte{10, 9, 8, 7, 6, 251, 252, 253, 254, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		var diffs []float64
		for _, b := range data[:min(len(data), 10)] {
			diffs = append(diffs, float64(int8(b)))
		}
		if got, want := signedRank(diffs), counted(diffs); got != want {
			t.Errorf("%v: p is %v, want %v", diffs, got, want)
		}
	})
}

func TestSignedRankCounted(t *testing.T) {
	r := random(1)
	for range 300 {
		diffs := make([]float64, 1+r.IntN(10))
		for i := range diffs {
			diffs[i] = float64(r.IntN(9) - 4) // few numbers, so ties and zeros
		}
		if got, want := signedRank(diffs), counted(diffs); got != want {
			t.Errorf("%v: p is %v, want %v", diffs, got, want)
		}
	}
}

// counted returns the p of the signed-rank test by trying all signs. The rank of a difference is, doubled, twice the
// number of smaller ones plus the number of equal ones, itself included, plus one.
func counted(diffs []float64) float64 {
	var ranks []int
	sum, plus := 0, 0
	for _, d := range diffs {
		rank := 1
		for _, e := range diffs {
			switch {
			case math.Abs(e) < math.Abs(d):
				rank += 2
			case math.Abs(e) == math.Abs(d):
				rank++
			}
		}
		if d == 0 {
			continue
		}
		ranks = append(ranks, rank)
		sum += rank
		if d > 0 {
			plus += rank
		}
	}
	extreme := 0
	for signs := range 1 << len(ranks) {
		other := 0
		for i, r := range ranks {
			if signs>>i&1 == 1 {
				other += r
			}
		}
		if max(other, sum-other) >= max(plus, sum-plus) {
			extreme++
		}
	}
	return float64(extreme) / float64(int(1)<<len(ranks))
}
