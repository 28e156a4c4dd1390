package lab

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
	"github.com/unthrottle/unthrottle/internal/slowtest"
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

// TestLooks: what is decided gets no further runs, and a study ends when everything is decided.
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
		if i < 3 && 2*runs[2*i] > runs[6] {
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

// TestLooksAreHonest: looking four times makes no claim less sure. Among many studies of benchmarks that nothing has changed, few call any
// of them worse; one that is worse by just the margin is hardly ever called no worse; and what is worse by more is found.
func TestLooksAreHonest(t *testing.T) {
	slowtest.Plain(t)
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

// allowed is how often something that happens in a share of n cases may happen by chance; one test in thousands sees more.
func allowed(n int, share float64) int {
	return int(float64(n)*share + 3*math.Sqrt(float64(n)*share))
}

// TestInferior: against the margin the test agrees with the interval.
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

// suite runs benchmarks, each of which takes the given seconds in both builds; the newer build is slower by a tenth. told is what is
// reported about the budget.
func suite(budget time.Duration, takes ...float64) (s *Study, told string) {
	s = &Study{Plan: Plan{Compare: ByBuild, Margin: 0.02, Seed: 1, Budget: Seconds(budget), Looks: 4, Figures: map[string]Metric{}}}
	f := &lasting{of: map[string]float64{}}
	var names []string
	for i, t := range takes {
		name := fmt.Sprint("Benchmark", i)
		names, f.of[name], s.Plan.Figures[name] = append(names, name), t, OpTime.Metric("")
	}
	s.Plan.Settings = Cross(names, []Setting{{Build: "old"}, {Build: "new"}}, []float64{0}, []int{0})
	err := s.Execute(context.Background(), f, func() time.Time { return f.now }, keep, func(p Progress) { told += p.Short })
	if err != nil {
		panic(err)
	}
	return s, told
}

// lasting runs take the given time, and a tenth of a second to start.
type lasting struct {
	of  map[string]float64
	now time.Time
	n   int
}

func (f *lasting) Run(_ context.Context, s Setting, _ int) (Run, error) {
	f.now = f.now.Add(time.Duration((f.of[s.Workload] + 0.1) * float64(time.Second)))
	f.n++
	v := 1000 + float64(f.n%5)
	if s.Build == "new" {
		v *= 1.1
	}
	return Run{Seconds: f.of[s.Workload], Metrics: map[string]float64{"ns/op": v}}, nil
}

// TestAfford: a suite's long benchmarks don't take the time without which nothing can be said of the others. Which budget is long enough is
// said before the first block, and at the end.
func TestAfford(t *testing.T) {
	short := []float64{0.4, 0.4, 0.4, 0.4, 0.4}
	long := append(slices.Clone(short[:4]), 10)
	for _, c := range []struct {
		name      string
		budget    time.Duration
		takes     []float64
		runs      string // of each benchmark's base
		told, end string
	}{
		{"there is time", 60 * time.Second, short, "10 or more: 5", "", ""},
		{
			"one is long", 100 * time.Second, long, "10 or more: 4, 1: 1",
			"a budget of 1 min 40 s is too short for Benchmark4: a block takes 20.2 s, and fewer than 9 show nothing; --budget 5m is long enough for all, and --run selects some",
			"a budget of 1 min 40 s is too short for Benchmark4: a block takes 20.3 s, and fewer than 9 show nothing; --budget 6m is long enough for all, and --run selects some",
		},
		{
			"one is long, and gets what the others leave", 400 * time.Second, append(slices.Repeat([]float64{0.9}, 10), 10), "5: 1, 10 or more: 10",
			"a budget of 6 min 40 s is too short for Benchmark10: a block takes 20.2 s, and fewer than 10 show nothing; --budget 9m is long enough for all, and --run selects some",
			"a budget of 6 min 40 s is too short for Benchmark10: a block takes 20.3 s, and fewer than 10 show nothing; --budget 11m is long enough for all, and --run selects some",
		},
		{"with that budget", 300 * time.Second, long, "10 or more: 5", "", ""},
		{
			"some fit", 30 * time.Second, short, "10 or more: 2, 1: 3",
			"a budget of 30 s is too short for Benchmark4, Benchmark3 and Benchmark2: a block takes 3 s, and fewer than 9 show nothing; --budget 60s is long enough for all, and --run selects some",
			"a budget of 30 s is too short for Benchmark2, Benchmark3 and Benchmark4: a block takes 3 s, and fewer than 9 show nothing; --budget 65s is long enough for all, and --run selects some",
		},
		{
			"none fits", 20 * time.Second,
			[]float64{3, 3, 3},
			"1: 3",
			"a budget of 20 s is too short for all 3 benchmarks: a block takes 18.6 s, and fewer than 8 show nothing; --budget 4m is long enough for all, and --run selects some",
			"a budget of 20 s is too short for all 3 benchmarks: a block takes 18 s, and fewer than 8 show nothing; --budget 3m is long enough for all, and --run selects some",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, told := suite(c.budget, c.takes...)
			if told != c.told {
				t.Errorf("told %q", told)
			}
			if end := s.Longer(Analyse(s)); end != c.end {
				t.Errorf("at the end %q", end)
			}
			n, of := map[int]int{}, map[string]int{}
			for _, r := range s.Runs {
				n[r.Setting]++
			}
			for i := range c.takes {
				if n[2*i] != n[2*i+1] {
					t.Errorf("benchmark %d has %d and %d runs", i, n[2*i], n[2*i+1])
				}
				if name := strconv.Itoa(n[2*i]); n[2*i] < 10 {
					of[name]++
				} else {
					of["10 or more"]++
				}
			}
			var runs []string
			for _, name := range slices.Backward(slices.Sorted(maps.Keys(of))) {
				runs = append(runs, fmt.Sprintf("%s: %d", name, of[name]))
			}
			if got := strings.Join(runs, ", "); got != c.runs {
				t.Errorf("runs %s, want %s", got, c.runs)
			}
		})
	}
}

// TestLonger: where there are enough blocks of all, a budget is named that settles what is open, and it does so.
func TestLonger(t *testing.T) {
	changes := []change{{1.2, 0.005}, {1.05, 0.06}}
	s := compared(3, 60*time.Second, 4, changes...)
	longer := s.Longer(Analyse(s))
	const want = "what is undecided takes up to 141 more blocks: --budget 7m is likely to settle it"
	if longer != want {
		t.Errorf("%q, want %q", longer, want)
	}
	s = compared(3, 7*time.Minute, 4, changes...)
	if a := Analyse(s); a.Groups[1].Claim.Kind != Worse || s.Longer(a) != "" {
		t.Errorf("with that budget: %s, %q", a.Groups[1].Claim.Kind, s.Longer(a))
	}
	if s = compared(3, 60*time.Second, 4, change{1, 0.3}); s.Longer(Analyse(s)) == "" {
		t.Error("a benchmark that is noisy takes no more blocks")
	}
}
