package lab

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
)

// served is a study of a server with GOMAXPROCS 2, the base, and others. Runs of a block differ by the noise in their tail, by
// 1 % in CPU time, and blocks by what is common to both settings.
func served(blocks int, noise float64, of ...map[Measure]float64) *Study {
	r := rand.New(rand.NewPCG(1, 2))
	procs := []int{2, 1, 4, 8}[:len(of)]
	s := &Study{Plan: plan(blocks, procs...)}
	s.Plan.Figures = map[string]Metric{"w": ReadyTail.Metric("tail")}
	s.Plan.Costs = map[string]Metric{"w": CPUPerRequest.Metric("CPU per request")}
	s.Plan.Tail = 0.25
	for block := 1; block <= blocks; block++ {
		common := math.Exp(0.1 * r.NormFloat64())
		for i, factors := range of {
			factor := func(m Measure) float64 {
				if f, ok := factors[m]; ok {
					return f
				}
				return 1
			}
			tail := 0.01 * common * math.Exp(noise*r.NormFloat64())
			run := Run{Block: block, Setting: i, Seconds: 1, Metrics: map[string]float64{}}
			ReadyTail.Set(run.Metrics, tail*factor(ReadyTail))
			P99.Set(run.Metrics, tail*factor(ReadyTail)*factor(P99))
			CPUPerRequest.Set(run.Metrics, 0.001*common*math.Exp(0.01*r.NormFloat64())*factor(CPUPerRequest))
			ErrorShare.Set(run.Metrics, factor(ErrorShare)-1)
			s.Runs = append(s.Runs, run)
		}
	}
	return s
}

// TestServedClaims has what may be said where two metrics decide. P99 is that of whole windows, as a multiple of the tail's
// change; 1.01 of ErrorShare is 1 % of the requests.
func TestServedClaims(t *testing.T) {
	type change = map[Measure]float64
	for _, c := range []struct {
		name   string
		blocks int
		noise  float64
		of     []change // besides the base
		want   Claim
		front  []bool // the base first
	}{
		{
			"cheaper, tail the same", 10, 0.02,
			[]change{{CPUPerRequest: 0.88}},
			Claim{Kind: Set, Row: 1, Gain: InCost},
			nil,
		},
		{
			"better in both", 10, 0.02,
			[]change{{CPUPerRequest: 0.88, ReadyTail: 0.6}},
			Claim{Kind: Set, Row: 1, Gain: InFigure},
			[]bool{false, true},
		},
		{
			"lower tail, CPU a little higher", 10, 0.02,
			[]change{{CPUPerRequest: 1.03, ReadyTail: 0.6}},
			Claim{Kind: Set, Row: 1, Gain: InFigure},
			[]bool{true, true},
		},
		{
			"cheaper, higher tail", 10, 0.02,
			[]change{{CPUPerRequest: 0.88, ReadyTail: 2.6}},
			Claim{Trade, 1, InCost, InFigure, true},
			[]bool{true, true},
		},
		{
			"lower tail, dearer", 10, 0.02,
			[]change{{CPUPerRequest: 1.3, ReadyTail: 0.5}},
			Claim{Trade, 1, InFigure, InCost, true},
			[]bool{true, true},
		},
		{
			"cheaper, tail not known well enough", 10, 0.6,
			[]change{{CPUPerRequest: 0.88}},
			Claim{Trade, 1, InCost, InFigure, false},
			nil,
		},
		{
			"a change goes before a trade", 10, 0.02,
			[]change{{CPUPerRequest: 0.6, ReadyTail: 3}, {CPUPerRequest: 0.85}},
			Claim{Kind: Set, Row: 2, Gain: InCost},
			nil,
		},
		{
			"beaten in both", 10, 0.02,
			[]change{{CPUPerRequest: 0.88, ReadyTail: 2.6}, {CPUPerRequest: 1.1, ReadyTail: 1.5}},
			Claim{Trade, 1, InCost, InFigure, true},
			[]bool{true, true, false},
		},
		{
			"worse in both", 10, 0.02,
			[]change{{CPUPerRequest: 1.2, ReadyTail: 2}},
			Claim{Kind: Keep},
			[]bool{true, false},
		},
		{
			"cheaper, but requests fail", 10, 0.02,
			[]change{{CPUPerRequest: 0.8, ErrorShare: 1.01}},
			Claim{Trade, 1, InCost, InErrors, true},
			nil,
		},
		{
			"whole windows say the opposite", 10, 0.02,
			[]change{{ReadyTail: 0.6, P99: 3}},
			Claim{Kind: Undecided, Row: 1},
			nil,
		},
		{
			"whole windows say the opposite, a little", 10, 0.02,
			[]change{{ReadyTail: 0.6, P99: 1.9}},
			Claim{Kind: Undecided, Row: 1},
			nil,
		},
		{
			"cheaper, and whole windows speak against it", 10, 0.02,
			[]change{{CPUPerRequest: 0.88, P99: 3}},
			Claim{Trade, 1, InCost, InFigure, false},
			nil,
		},
		{"few blocks", 6, 0.02, []change{{CPUPerRequest: 0.5}}, Claim{Kind: TooFew}, nil}, // two comparisons need seven
		{"the tail is open", 10, 0.4, []change{{}}, Claim{Kind: Undecided, Row: 1}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := Analyse(served(c.blocks, c.noise, append([]change{{}}, c.of...)...)).Groups[0]
			if g.Claim != c.want {
				t.Errorf("got %+v, want %+v", g.Claim, c.want)
				for _, r := range g.Rows[1:] {
					t.Logf("tail %+v\nCPU %+v", *r.Comparison, *r.Cost)
				}
			}
			for i, want := range c.front {
				if g.Rows[i].Front != want {
					t.Errorf("%d is on the front: %v", i, g.Rows[i].Front)
				}
			}
		})
	}
}

// TestNotWorse has the bounds: the margin of a tail, twice that of a cost, and either way of being better.
func TestNotWorse(t *testing.T) {
	for _, c := range []struct {
		side Side
		c    sample.Comparison
		want bool
	}{
		{InFigure, sample.Comparison{Low: 0.9, High: 1.24, Margin: 0.25}, true},
		{InFigure, sample.Comparison{Low: 0.9, High: 1.26, Margin: 0.25}, false},
		{InCost, sample.Comparison{Low: 0.9, High: 1.09, Margin: 0.05}, true},
		{InCost, sample.Comparison{Low: 0.9, High: 1.11, Margin: 0.05}, false},
		{InFigure, sample.Comparison{Low: 0.96, High: 3, Margin: 0.05, Better: sample.Higher}, true},
		{InFigure, sample.Comparison{Low: 0.94, High: 3, Margin: 0.05, Better: sample.Higher}, false},
		{InFigure, sample.Comparison{Margin: 0.05}, false}, // without an interval nothing is shown
	} {
		if c.c.High > 0 {
			c.c.Confidence = 0.95
		}
		if got := (&Row{Comparison: &c.c, Cost: &c.c}).notWorse(c.side); got != c.want {
			t.Errorf("%s from %v to %v: not worse is %v", c.side, c.c.Low, c.c.High, got)
		}
	}
}

// TestNoCost holds that settings with one metric have neither a trade nor a front.
func TestNoCost(t *testing.T) {
	s := served(10, 0.02, map[Measure]float64{}, map[Measure]float64{CPUPerRequest: 0.5, ReadyTail: 2})
	s.Plan.Costs = nil
	g := Analyse(s).Groups[0]
	if g.Claim != (Claim{Kind: Keep}) || g.Rows[0].Front || g.Rows[1].Front {
		t.Errorf("got %+v", g)
	}
}

// TestDisagree: changes of a tail and of whole windows that are worth a warning, with a margin of 5 %.
func TestDisagree(t *testing.T) {
	for _, c := range []struct {
		tail, whole float64
		want        bool
	}{
		{0.8, 0.7, false},
		{0.9, 1.1, true},    // opposite
		{0.97, 1.03, false}, // as good as equal
		{0.5, 0.8, true},    // 1.6 times apart
		{2, 1.4, false},
		{2, 1.3, true},
		{0, 1.3, false}, // not known
	} {
		r := Row{Comparison: &sample.Comparison{Ratio: c.tail}, Whole: &sample.Comparison{Ratio: c.whole}}
		if got := r.Disagree(0.05); got != c.want {
			t.Errorf("%v and %v disagree: %v", c.tail, c.whole, got)
		}
	}
	if (&Row{Comparison: &sample.Comparison{Ratio: 2}}).Disagree(0.05) {
		t.Error("without whole windows there is nothing to disagree with")
	}
}
