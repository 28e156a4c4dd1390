package search

import (
	"math"
	"slices"
	"testing"
)

func TestSignTest(t *testing.T) {
	for _, c := range []struct {
		heads, tails int
		want         float64
	}{{0, 0, 1}, {1, 0, 1}, {6, 0, 2.0 / 64}, {0, 6, 2.0 / 64}, {5, 1, 14.0 / 64}, {3, 3, 1}} {
		if got := signTest(c.heads, c.tails); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%d to %d: %v, want %v", c.heads, c.tails, got, c.want)
		}
	}
}

// raced is a search in which each setting, the current one first, has run in that many blocks. A run for which rule returns false was void.
func raced(t *testing.T, settings, blocks int, rule func(procs, block int, o *TuneObservation) bool) *Tune {
	t.Helper()
	c := TuneConfig{Current: 1, Exact: true}
	for procs := 2; procs <= settings; procs++ {
		c.Candidates = append(c.Candidates, procs)
	}
	m, err := NewTune(c)
	if err != nil {
		t.Fatal(err)
	}
	for block := 1; block <= blocks; block++ {
		for _, a := range m.arms {
			o := TuneObservation{Run: TuneRun{Procs: a.Procs, Phase: Race, Block: block}, Valid: true, SLOHeld: true}
			if rule(a.Procs, block, &o) {
				a.runs = append(a.runs, o.clean())
				m.seen = append(m.seen, o.clean())
			}
		}
	}
	m.block, m.raced, m.rounds = blocks, blocks, float64(blocks)
	return m
}

// cpu makes a search of logarithms of CPU per request, by setting and block; NaN is a run that was void.
func cpu(t *testing.T, logs ...[]float64) *Tune {
	return raced(t, len(logs), len(logs[0]), func(procs, block int, o *TuneObservation) bool {
		x := logs[procs-1][block-1]
		o.CPUPerRequest = math.Exp(x)
		return !math.IsNaN(x)
	})
}

// TestSpread: what is left of a run is its logarithm without its setting's and its block's.
func TestSpread(t *testing.T) {
	void := math.NaN()
	for _, c := range []struct {
		name    string
		logs    [][]float64
		sd      float64
		freedom int
	}{
		// The differences 0.1, 0.2 and 0.3 have the standard deviation 0.1, which both runs of a pair make.
		{"two settings", [][]float64{{0, 5, -3}, {0.1, 5.2, -2.7}}, 0.1 / math.Sqrt2, 2},
		// Means of settings 0, 0 and of blocks 0, 0: what is left is ±0.1 in all four, so 0.04 in one degree of freedom.
		{"a square", [][]float64{{0.1, -0.1}, {-0.1, 0.1}}, 0.2, 1},
		// Effects ±0.3 of settings and ±1 of blocks, and of each cell of three by three what its row and column add up to, but
		// 0.3 more in the first: left are 0.3·(4, −2, −2, −2, 1, 1, −2, 1, 1)/9, of which the squares add up to 0.3²·36/81.
		{"three by three", [][]float64{{-1, -0.3, 0.7}, {-1, 0, 1}, {-0.7, 0.3, 1.3}}, math.Sqrt(0.09 * 36 / 81 / 4), 4},
		{"a run is missing", [][]float64{{void, -0.3, 0.7}, {-1, 0, 1}, {-0.7, 0.3, 1.3}}, 0, 3}, // and it was the one that did not fit
		{"one joined late", [][]float64{{0, 5, -3}, {0.1, 5.2, -2.7}, {void, void, 8}}, 0.1 / math.Sqrt2, 2},
		{"one block", [][]float64{{0}, {3}}, 0, 0},
		{"nothing", [][]float64{{void}, {void}}, 0, 0},
	} {
		if s := cpu(t, c.logs...).spread(CPU); math.Abs(s.sd-c.sd) > 1e-9 || s.freedom != c.freedom {
			t.Errorf("%s: %+v, want %v with %d degrees of freedom", c.name, s, c.sd, c.freedom)
		}
	}
}

// TestContrast: three log-ratios −0.3, −0.2 and −0.1 have the mean −0.2 and the standard deviation 0.1; Student's quantile of
// two degrees of freedom for 0.982, (2p−1)/√(2p(1−p)), is 5.127, so that the interval is −0.2 ± 5.127·0.1/√3 = −0.496 to 0.096.
func TestContrast(t *testing.T) {
	m := cpu(t, []float64{7, 0, 1, 2}, []float64{math.NaN(), -0.1, 0.8, 1.7})
	c := m.contrast(CPU, m.arms[1], m.arms[0])
	near := func(got, want float64) bool { return math.Abs(got-want) < 1e-3 }
	if c.pairs != 3 || c.freedom != 2 || !near(c.mean, -0.2) || !near(c.error, 0.1/math.Sqrt(3)) || !near(c.below(interval), -0.4960) || !near(c.above(interval), 0.0960) {
		t.Errorf("%+v: %v to %v", c, c.below(interval), c.above(interval))
	}
	if e, ok := m.effect(CPU, m.arms[1]); !ok || !near(e.Ratio, math.Exp(-0.2)) || !near(e.Lo, math.Exp(-0.4960)) || !near(e.Hi, math.Exp(0.0960)) || e.Pairs != 3 || e.RankLo != 0 {
		t.Errorf("%+v", e)
	}
	// More throughput costs less.
	o := raced(t, 2, 3, func(procs, block int, o *TuneObservation) bool {
		o.Throughput = 100 * float64(procs)
		return true
	})
	if c := o.contrast(Throughput, o.arms[1], o.arms[0]); !near(c.mean, -math.Ln2) {
		t.Errorf("%+v", c)
	}
	// With one pair nothing is known.
	m = cpu(t, []float64{0}, []float64{1})
	if c := m.contrast(CPU, m.arms[1], m.arms[0]); c.known() || !math.IsInf(c.below(0.1), -1) || !math.IsInf(c.above(0.1), 1) {
		t.Errorf("%+v", c)
	}
	// The noise is that of all settings, which tell 0.21, except where a setting's own is clearly larger: that of differences
	// ±0.3 is 0.346.
	still, wild := []float64{0, 0, 0, 0}, []float64{0.3, -0.3, 0.3, -0.3}
	m = cpu(t, still, wild, still, still, still)
	if c := m.contrast(CPU, m.arms[1], m.arms[0]); !near(c.error, 0.3464/2) || c.freedom != 3 {
		t.Errorf("of its own: %+v", c)
	}
	if c := m.contrast(CPU, m.arms[2], m.arms[0]); !near(c.error, math.Sqrt(2*0.36*0.8/12)/2) || c.freedom != 12 {
		t.Errorf("of all: %+v", c)
	}
}

// TestStrays: a neighbour that was not seen, in a few of the pairs, does not make a setting whose tail is worse look no worse.
func TestStrays(t *testing.T) {
	for _, c := range []struct {
		pairs, strays int
		worse, stray  float64 // logarithms of the ratio in most pairs, and of what a stray adds
		want          bool
	}{
		{20, 0, 0.08, 0, true},
		{20, 4, 0.2, -0.6, false}, // 0.08 on average as well, with an upper bound of 0.21
		{20, 4, 0, 0.3, true},
		{7, 1, 0.1, -0.2, true}, // so few have no middle half to speak of
	} {
		m := raced(t, 2, c.pairs, func(procs, block int, o *TuneObservation) bool {
			o.Tail, o.CPUPerRequest = 1, 1
			if procs == 2 {
				o.Tail = math.Exp(c.worse + 0.03*float64(block%3-1))
				if block <= c.strays {
					o.Tail *= math.Exp(c.stray)
				}
			}
			return true
		})
		if got := m.notWorse(P99, m.arms[1], m.arms[0], unharmed); got != c.want {
			t.Errorf("%+v: %v by %+v", c, got, m.contrast(P99, m.arms[1], m.arms[0]))
		}
	}
}

// TestNoise: with ten degrees of freedom the interval of a standard deviation is 0.699 to 1.755 of it.
func TestNoise(t *testing.T) {
	var a, b []float64
	for block := range 11 {
		a, b = append(a, float64(block)), append(b, float64(block)+0.1*float64(block%3))
	}
	n, ok := cpu(t, a, b).Noise()[CPU]
	if !ok || math.Abs(n.Low/n.SD-0.699) > 0.005 || math.Abs(n.High/n.SD-1.755) > 0.01 {
		t.Errorf("%+v", n)
	}
	if n := cpu(t, a[:3], b[:3]).Noise(); len(n) != 0 {
		t.Errorf("with two degrees of freedom: %v", n)
	}
}

// TestUnreliable: a setting that breaks the SLO more often, or fails more requests, than a block of chance explains.
func TestUnreliable(t *testing.T) {
	for _, c := range []struct {
		name         string
		blocks       int
		lost, gained int // blocks in which only this setting broke the SLO, or only the current one
		errors       func(block int) float64
		others       func(block int) float64
		want         bool
	}{
		{"never", 7, 0, 0, nil, nil, false},
		{"once in seven", 7, 1, 0, nil, nil, true},
		{"once, and the other once", 7, 1, 1, nil, nil, false},
		{"twice in seven, the other once", 7, 2, 1, nil, nil, true},
		{"once in ten", 10, 1, 0, nil, nil, false},
		{"twice in ten", 10, 2, 0, nil, nil, true},
		{"it fails some", 4, 0, 0, func(int) float64 { return 0.0095 }, nil, true},
		{"both fail some", 4, 0, 0, func(int) float64 { return 0.0095 }, func(int) float64 { return 0.0095 }, false},
		{"the other fails some", 4, 0, 0, nil, func(int) float64 { return 0.0095 }, false},
		{"next to none", 4, 0, 0, func(int) float64 { return 0.0001 }, nil, false},
		{"once some", 4, 0, 0, func(block int) float64 { return 0.009 * float64(block/4) }, nil, false},
		{"as often as not", 6, 0, 0, func(block int) float64 { return 0.006 * float64(block%2) }, func(block int) float64 { return 0.001 * float64((block+1)%2) }, false},
	} {
		m := raced(t, 2, c.blocks, func(procs, block int, o *TuneObservation) bool {
			o.CPUPerRequest = 1
			switch {
			case procs == 2 && block <= c.lost, procs == 1 && block > c.blocks-c.gained:
				o.SLOHeld = false
			}
			for i, errors := range []func(int) float64{c.others, c.errors} {
				if errors != nil && procs == i+1 {
					o.ErrorShare = errors(block)
				}
			}
			return true
		})
		if got := m.unreliable(m.arms[1], m.arms[0]); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestGain: what a setting must be to be a change, and what it is otherwise. Runs differ by 1 %, so that of six blocks
// intervals are some 1 % wide.
func TestGain(t *testing.T) {
	for _, c := range []struct {
		name      string
		cpu, tail float64
		pooled    float64
		blocks    int
		gain      Metric // "": none
		trade     Metric // what it is better in
		worse     Metric
		may       bool // it may still be better
	}{
		{"both", 0.8, 0.7, 0.7, 6, P99, "", "", true},
		{"CPU, and the tail as it was", 0.8, 1, 1, 6, CPU, "", "", true},
		{"CPU, and the tail within its margin", 0.8, 1.2, 1.2, 6, CPU, "", "", true},
		{"CPU, and the tail beyond it", 0.8, 1.3, 1.3, 6, "", CPU, P99, true},
		{"CPU, and the p99 of windows beyond it", 0.8, 1, 1.3, 6, "", "", "", true},
		{"the tail, and CPU within twice its margin", 1.08, 0.7, 0.7, 6, P99, "", "", true},
		{"the tail, and CPU beyond", 1.12, 0.7, 0.7, 6, "", P99, CPU, true},
		{"CPU by less than counts", 0.96, 1, 1, 6, "", "", "", false},
		{"the tail by less than counts", 1, 0.85, 0.85, 6, "", "", "", false},
		{"nothing", 1, 1, 1, 6, "", "", "", false},
		{"worse in both", 1.2, 1.5, 1.5, 6, "", "", "", false},
		{"CPU, in one block", 0.8, 1, 1, 1, "", "", "", true},
		{"a trade, in two blocks", 0.8, 1.5, 1.5, 2, "", "", "", true},
	} {
		m := raced(t, 2, c.blocks, func(procs, block int, o *TuneObservation) bool {
			noise := 1 + 0.01*float64((block*procs)%3-1)
			o.CPUPerRequest, o.Tail, o.P99 = noise, noise, noise
			if procs == 2 {
				o.CPUPerRequest, o.Tail, o.P99 = c.cpu*noise, c.tail*noise, c.pooled*noise
			}
			return true
		})
		a := m.arms[1]
		gains := m.gains(a, m.level(claim), safely)
		if len(gains) > 0 != (c.gain != "") || len(gains) > 0 && gains[0] != c.gain {
			t.Errorf("%s: gains in %q", c.name, gains)
		}
		better, worse, ok := m.trade(a)
		if ok != (c.trade != "") || ok && (better != c.trade || worse != c.worse) {
			t.Errorf("%s: a trade, better in %q, worse in %q", c.name, better, worse)
		}
		if got := m.canBeBetter(a, m.arms[0]); got != c.may {
			t.Errorf("%s: it may be better: %v", c.name, got)
		}
	}
	// It saves CPU, is not worse, and among this many candidates that is not shown well enough: no gain, and no trade either.
	m := raced(t, 14, 4, func(procs, block int, o *TuneObservation) bool {
		o.Tail, o.P99 = 1, 1
		o.CPUPerRequest = 1 + 0.05*float64((block*procs*procs)%5)
		if procs == 2 {
			o.CPUPerRequest *= 0.885
		}
		return true
	})
	a, current := m.arms[1], m.arms[0]
	if !m.shownBetter(CPU, a, current, trading) || m.shownBetter(CPU, a, current, m.level(claim)) {
		t.Errorf("%+v", m.contrast(CPU, a, current))
	}
	if better, worse, ok := m.trade(a); ok {
		t.Errorf("a trade, better in %q and worse in %q", better, worse)
	}
	// The SLO alone, where it is held in nine blocks in which the current setting breaks it, whatever it costs.
	m = raced(t, 2, 9, func(procs, _ int, o *TuneObservation) bool {
		o.CPUPerRequest, o.Tail, o.SLOHeld = 1, 1, procs == 2
		if procs == 2 {
			o.CPUPerRequest, o.Throttled = 2, 0.9
		}
		return true
	})
	if gains := m.gains(m.arms[1], m.level(claim), safely); !slices.Equal(gains, []Metric{SLO}) || !m.canBeBetter(m.arms[1], m.arms[0]) || m.behind(m.arms[1], m.arms[1], m.arms[0]) != nil {
		t.Errorf("by the SLO: %q", gains)
	}
}
