package sample

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The seeds are fixed, so that these tests give the same counts every time: they check the arithmetic against the
// truth, and do not depend on luck or speed. With -v they print the rates.

const labs = 2000

// allowed is how far a rate may be from the true one in this many labs: three standard errors.
func allowed(rate float64) float64 { return 3 * math.Sqrt(rate*(1-rate)/labs) }

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// A world makes the log-noise of the runs. Its block noise is what the runs of a block have in common.
type world struct {
	name  string
	block float64
	run   func(*rand.Rand) float64
	step  float64 // of log-values, which makes ties; 0: none
}

var worlds = []world{
	{"normal", 0, func(r *rand.Rand) float64 { return 0.1 * r.NormFloat64() }, 0},
	{"heavy tails", 0, func(r *rand.Rand) float64 { return 0.1 * student(r) }, 0},
	{"drift", 0.45, func(r *rand.Rand) float64 { return 0.1 * r.NormFloat64() }, 0},
	{"drift and heavy tails", 0.45, func(r *rand.Rand) float64 { return 0.1 * student(r) }, 0},
	{"coarse", 0, func(r *rand.Rand) float64 { return 0.1 * r.NormFloat64() }, 0.1},
}

// student draws from Student's distribution with two degrees of freedom, which has no variance.
func student(r *rand.Rand) float64 {
	return r.NormFloat64() / math.Sqrt(r.ExpFloat64())
}

// lab returns the values of n blocks: a row a setting, whose true median is its factor.
func (w world) lab(r *rand.Rand, n int, factors ...float64) [][]float64 {
	rows := make([][]float64, len(factors))
	for range n {
		block := w.block * r.NormFloat64()
		for i, f := range factors {
			noise := block + w.run(r)
			if w.step > 0 {
				noise = math.Round(noise/w.step) * w.step
			}
			rows[i] = append(rows[i], f*math.Exp(noise))
		}
	}
	return rows
}

// TestCoverage counts how often an interval contains the truth. It must do so as often as it says, not less, and if
// nothing is tied not more either.
func TestCoverage(t *testing.T) {
	const factor = 1.3
	for i, w := range worlds {
		for _, n := range []int{6, 10} {
			r := random(uint64(100*i + n))
			summaries, comparisons := 0, 0
			var s Summary
			var c Comparison
			for range labs {
				rows := w.lab(r, n, 1, factor)
				s, c = Summarise(rows[1]), Compare(rows[0], rows[1])
				if s.Low <= factor+1e-9 && s.High >= factor-1e-9 {
					summaries++
				}
				if c.Low <= factor+1e-9 && c.High >= factor-1e-9 {
					comparisons++
				}
			}
			check := func(what string, count int, confidence float64) {
				rate := float64(count) / labs
				t.Logf("%-21s %2d runs: %s %.4f, says %.4f", w.name, n, what, rate, confidence)
				if d := rate - confidence; d < -allowed(confidence) || d > allowed(confidence) && w.step == 0 {
					t.Errorf("%s, %d runs: the interval of the %s contains the truth with %.4f, and says %.4f",
						w.name, n, what, rate, confidence)
				}
			}
			check("median", summaries, s.Confidence)
			check("ratio ", comparisons, c.Confidence)
		}
	}
}

// TestFalseClaims compares four settings with a base when all five are equal, without a margin.
func TestFalseClaims(t *testing.T) {
	for i, w := range worlds {
		r := random(uint64(1000 + i))
		claims, unadjusted := 0, 0
		for range labs {
			rows := w.lab(r, 10, 1, 1, 1, 1, 1)
			var family []*Comparison
			for _, row := range rows[1:] {
				c := Compare(rows[0], row)
				family = append(family, &c)
			}
			Decide(family, 1)
			claim, small := false, false
			for _, c := range family {
				claim = claim || c.Verdict == VerdictBetter || c.Verdict == VerdictWorse
				small = small || c.P <= 0.05
			}
			if claim {
				claims++
			}
			if small {
				unadjusted++
			}
		}
		rate := float64(claims) / labs
		t.Logf("%-21s false claims %.4f, without Holm %.4f", w.name, rate, float64(unadjusted)/labs)
		if rate > 0.05+allowed(0.05) {
			t.Errorf("%s: false claims in %.4f of the labs", w.name, rate)
		}
	}
}

// TestPower is why comparisons are paired: a gain of 10 % with a noise of 6 % a run, while the host drifts by 45 % from
// block to block.
func TestPower(t *testing.T) {
	w := world{"", 0.45, func(r *rand.Rand) float64 { return 0.06 * r.NormFloat64() }, 0}
	r := random(7)
	paired, unpaired := 0, 0
	for range labs {
		rows := w.lab(r, 10, 1, 0.9)
		if c := decided(rows[0], rows[1], 0); c.Verdict == VerdictBetter {
			paired++
		}
		if mannWhitney(rows[0], rows[1]) <= 0.05 {
			unpaired++
		}
	}
	p, u := float64(paired)/labs, float64(unpaired)/labs
	t.Logf("a gain of 10 %% is seen in %.4f of the labs, by Mann and Whitney's test in %.4f", p, u)
	if p < 0.9 || u > 0.01 {
		t.Errorf("a gain of 10 %% is seen in %.4f of the labs, by Mann and Whitney's test in %.4f", p, u)
	}
}

// TestNotInterleaved shows what this package can't repair: settings measured one after the other while the host drifts.
// Pairs by index are then no pairs.
func TestNotInterleaved(t *testing.T) {
	r := random(8)
	claims := 0
	for range labs {
		drift, values := 0.0, make([]float64, 20)
		for i := range values {
			drift += 0.05 * r.NormFloat64()
			values[i] = math.Exp(drift + 0.1*r.NormFloat64())
		}
		if v := decided(values[:10], values[10:], 0).Verdict; v == VerdictBetter || v == VerdictWorse {
			claims++
		}
	}
	rate := float64(claims) / labs
	t.Logf("not interleaved: false claims %.4f", rate)
	if rate < 0.2 {
		t.Errorf("false claims in %.4f of the labs: is drift harmless after all?", rate)
	}
}

// TestSkew shows the limit that Compare mentions: one setting has symmetric noise, the other has a long tail, and their
// medians are equal. The interval contains that less often than it says, and more pairs do not help.
func TestSkew(t *testing.T) {
	for _, test := range []struct {
		n    int
		rate float64
	}{{10, 0.93}, {24, 0.87}} {
		r := random(uint64(3000 + test.n))
		contains := 0
		for range labs {
			base, other := make([]float64, test.n), make([]float64, test.n)
			for i := range base {
				base[i] = math.Exp(0.1 * r.NormFloat64())
				other[i] = math.Exp(0.3 * (r.ExpFloat64() - math.Ln2))
			}
			if c := Compare(base, other); c.Low <= 1 && c.High >= 1 {
				contains++
			}
		}
		rate := float64(contains) / labs
		t.Logf("skewed in one setting only, %d runs: ratio %.4f", test.n, rate)
		if math.Abs(rate-test.rate) > allowed(test.rate) {
			t.Errorf("%d runs: the interval contains the ratio of the medians with %.4f, want %.2f", test.n, rate, test.rate)
		}
	}
}

// TestMoreSettles runs labs with as many pairs as More says, in worlds as it assumes them.
func TestMoreSettles(t *testing.T) {
	for i, test := range []struct{ ratio, spread, margin float64 }{
		{1.1, 0.15, 0.05}, {0.8, 0.3, 0.05}, {1, 0.05, 0.05}, {1.02, 0.04, 0.05}, {1.05, 0.02, 0},
	} {
		c := Comparison{Pairs: 6, Ratio: test.ratio, Margin: test.margin, Spread: test.spread, Family: 1, Verdict: VerdictUndecided}
		n := c.Pairs + More(c)
		w := world{"", 0.45, func(r *rand.Rand) float64 { return test.spread / math.Sqrt2 * r.NormFloat64() }, 0}
		r := random(uint64(2000 + i))
		const labs = 500
		settled := 0
		for range labs {
			rows := w.lab(r, n, 1, test.ratio)
			if c := decided(rows[0], rows[1], test.margin); c.Verdict != VerdictUndecided {
				settled++
			}
		}
		rate := float64(settled) / labs
		t.Logf("ratio %.2f, spread %.2f, margin %.2f: %d pairs settle %.3f of the labs", test.ratio, test.spread, test.margin, n, rate)
		if rate < 0.85 {
			t.Errorf("ratio %.2f, spread %.2f, margin %.2f: %d pairs settle %.3f of the labs",
				test.ratio, test.spread, test.margin, n, rate)
		}
	}
}

// TestOutliersRate counts how often a sample of ten in which nothing is wrong has an outlier: see outlierAt.
func TestOutliersRate(t *testing.T) {
	r := random(9)
	for _, test := range []struct {
		name               string
		sd                 float64 // of log-values
		here, conventional float64 // expected with ten standard deviations, and with 3.5
	}{{"as CPU time", 0.04, 0.0001, 0.12}, {"as p99", 0.45, 0.015, 0.28}} {
		here, conventional := 0, 0
		for range labs {
			values := make([]float64, 10)
			for i := range values {
				values[i] = math.Exp(test.sd * r.NormFloat64())
			}
			s := Summarise(values)
			if len(s.Outliers) > 0 {
				here++
			}
			sorted := append([]float64(nil), values...)
			if len(outliers(values, s.Median, deviation(sorted, s.Median)*3.5/10)) > 0 {
				conventional++
			}
		}
		h, c := float64(here)/labs, float64(conventional)/labs
		t.Logf("%s: %.4f of the samples have an outlier; with 3.5 standard deviations %.4f", test.name, h, c)
		if math.Abs(h-test.here) > allowed(test.here) || math.Abs(c-test.conventional) > allowed(test.conventional) {
			t.Errorf("%s: %.4f of the samples have an outlier; with 3.5 standard deviations %.4f", test.name, h, c)
		}
	}
}
