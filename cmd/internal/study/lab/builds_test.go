package lab

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
)

// A change is a simulated benchmark: what its time is in the newer build, as a ratio, and its noise.
type change struct{ ratio, noise float64 }

// compared runs the benchmarks in two builds. A run takes a second, and all of a block share some of the machine's mood.
func compared(seed uint64, budget time.Duration, looks int, changes ...change) *Study {
	p := Plan{Compare: ByBuild, Margin: 0.02, Seed: seed, Budget: Seconds(budget), Looks: looks, Figures: map[string]Metric{}}
	var names []string
	for i := range changes {
		names = append(names, fmt.Sprint(i))
		p.Figures[names[i]] = OpTime.Metric("")
	}
	p.Settings = Cross(names, []Setting{{Build: "old"}, {Build: "new"}}, []float64{0}, []int{0})
	random := rand.New(rand.NewPCG(seed, 7))
	s := &Study{Plan: p}
	mood, of := 0.0, 0
	f := &fake{}
	f.value = func(setting Setting, n int) float64 {
		if block := n / len(p.Settings); block != of {
			of, mood = block, 0.1*random.NormFloat64()
		}
		var i int
		fmt.Sscan(setting.Workload, &i)
		v := 1000 * math.Exp(mood+changes[i].noise*random.NormFloat64())
		if setting.Build == "new" {
			v *= changes[i].ratio
		}
		return v
	}
	if err := s.Execute(context.Background(), f, f.clock, keep, quiet); err != nil {
		panic(err)
	}
	return s
}

// TestLooks: what is decided gets no more runs, and a study of which everything is decided ends.
func TestLooks(t *testing.T) {
	const budget = 400 * time.Second
	s := compared(1, budget, 4, change{1.2, 0.005}, change{1, 0.003}, change{0.8, 0.005}, change{1, 0.3})
	runs := map[int]int{}
	for _, r := range s.Runs {
		runs[r.Setting]++
	}
	for i, want := range []ClaimKind{Worse, NoWorse, Better, Undecided} {
		g := Analyse(s).Groups[i]
		if g.Claim.Kind != want {
			t.Errorf("benchmark %d: %s, want %s", i, g.Claim.Kind, want)
		}
		if runs[2*i] != runs[2*i+1] {
			t.Errorf("benchmark %d has %d and %d runs", i, runs[2*i], runs[2*i+1])
		}
		if i < 3 && 3*runs[2*i] > runs[6] {
			t.Errorf("benchmark %d has %d runs, the one that is open %d", i, runs[2*i], runs[6])
		}
	}
	s = compared(1, budget, 4, change{1.2, 0.005}, change{1, 0.003})
	if n := len(s.Runs); n > 110 {
		t.Errorf("%d runs, of a study of which everything is known after a quarter", n)
	}
	// One that goes on runs what is open, from where it was.
	s = compared(1, budget, 4, change{1.2, 0.005}, change{1, 0.3})
	before := len(s.Runs)
	last := s.Runs[before-1].Block
	f := &fake{value: func(Setting, int) float64 { return 1000 }}
	s.Plan.Budget = Seconds(30 * time.Second)
	if err := s.Execute(context.Background(), f, f.clock, keep, quiet); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Runs[before:] {
		if r.Setting < 2 || r.Block < last {
			t.Errorf("the one that goes on ran %+v", r)
		}
	}
	if len(s.Runs) == before {
		t.Error("the one that goes on ran nothing")
	}
}

// TestLooksAreHonest: to look four times makes no claim less sure. Of many studies of benchmarks that nothing has changed, few call any
// of them worse; one that is worse by just the margin is hardly ever called no worse; and what is worse by more is found.
func TestLooksAreHonest(t *testing.T) {
	const studies, budget = 300, 300 * time.Second
	var worse, cleared, found, known int
	for i := range uint64(studies) {
		equal := Analyse(compared(i, budget, 4, change{1, 0.03}, change{1, 0.06}, change{1, 0.02}))
		edge := Analyse(compared(i, budget, 4, change{1.02, 0.02}, change{1.07, 0.03}))
		any := false
		for _, g := range equal.Groups {
			any = any || g.Claim.Kind == Worse
			if g.Claim.Kind == NoWorse {
				known++
			}
		}
		if any {
			worse++
		}
		if edge.Groups[0].Claim.Kind == NoWorse {
			cleared++
		}
		if edge.Groups[1].Claim.Kind == Worse {
			found++
		}
	}
	t.Logf("of %d: %d call one worse, %d call no worse what is; %d find 7 %%; %d of %d equal ones are known to be", studies, worse, cleared, found, known, 3*studies)
	for name, c := range map[string]struct {
		n   int
		max float64
	}{"called worse": {worse, 0.025}, "called no worse": {cleared, 0.025}} {
		if c.n > allowed(studies, c.max) {
			t.Errorf("%s: %d of %d", name, c.n, studies)
		}
	}
	if found < studies*95/100 {
		t.Errorf("7 %% are found in %d of %d", found, studies)
	}
}

// allowed is how often something may happen that happens in a share of the cases, by chance, of so many; one test of thousands sees more.
func allowed(n int, share float64) int {
	return int(float64(n)*share + 3*math.Sqrt(float64(n)*share))
}

// TestInferior: beside the margin the test is that of the interval.
func TestInferior(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	for i := range 200 {
		var a, b []float64
		for range 6 + random.IntN(20) {
			a = append(a, 100*math.Exp(0.02*random.NormFloat64()))
			b = append(b, 101*math.Exp(0.02*random.NormFloat64()))
		}
		for _, better := range []sample.Better{sample.Lower, sample.Higher} {
			c := sample.Compare(a, b)
			c.Margin, c.Better = 0.02, better
			p := inferior(a, b, c)
			inside := c.High < 1.02
			if better == sample.Higher {
				inside = c.Low > 1/1.02
			}
			if level := (1 - c.Confidence) / 2; inside && p > level+1e-9 || !inside && p < level-0.02 {
				t.Errorf("%d: P is %v, and the interval of %v %% is %v to %v", i, p, 100*c.Confidence, c.Low, c.High)
			}
		}
	}
}
