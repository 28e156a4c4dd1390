package search

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestCandidates(t *testing.T) {
	for _, c := range []struct {
		name                     string
		limit                    float64
		cpus, current, goDefault int
		want                     []int
	}{
		{"half a CPU", 0.5, 8, 2, 2, []int{2, 1, 4, 8}}, // floor 0 is none, ceil 1, 1+1, 2·1, 2·1+2
		{"one", 1, 64, 64, 2, []int{64, 2, 1, 4}},
		{"two and a half", 2.5, 16, 16, 3, []int{16, 3, 1, 2, 4, 6, 8}},
		{"more than the CPUs", 8, 4, 4, 4, []int{4, 1, 5, 8, 10}},
		{"more Ps than CPUs", 2, 2, 2, 2, []int{2, 1, 3, 4, 6}},
		{"no limit", 0, 16, 16, 16, []int{16, 1, 4, 8}},
		{"no limit, one CPU", 0, 1, 1, 1, []int{1}},
		{"the current setting by hand", 4, 8, 7, 4, []int{7, 4, 1, 5, 8, 10}},
		{"nothing is known", 0, 0, 0, 0, []int{1}},
		{"the CPUs aren't known", 2, 0, 0, 2, []int{2, 1, 3, 4, 6}},
		{"bad limit", math.NaN(), 8, 8, 8, []int{8, 1, 2, 4}},
		{"infinite limit", math.Inf(1), 8, 8, 8, []int{8, 1, 9, 16, 18}},
	} {
		if got := Candidates(c.limit, c.cpus, c.current, c.goDefault); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := AllCandidates(4, 6); !slices.Equal(got, []int{6, 1, 2, 3, 4}) {
		t.Error(got)
	}
}

// steady is a noise that differs from run to run but is the same in every test: −1, 0 or 1 times 1 %.
func steady(r TuneRun) float64 { return 1 + 0.01*float64((r.Block*(r.Procs%5+1)+r.Procs)%3-1) }

// A good run, before the setting makes it worse.
func goodRun(r TuneRun) TuneObservation {
	return TuneObservation{
		Run: r, Valid: true, SLOHeld: true,
		P99: 0.040 * steady(r), CPUPerRequest: 0.001 * steady(r), Throughput: 500,
	}
}

func tune(t testing.TB, c TuneConfig, run func(TuneRun) TuneObservation) *Tune {
	t.Helper()
	m, err := NewTune(c)
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		r, ok := m.Next()
		if !ok {
			return m
		}
		if err := m.Observe(run(r)); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the search has no end")
	return nil
}

// Programs whose runs follow a rule that a reader can check by hand.
var scriptedTunes = []struct {
	name   string
	config TuneConfig
	run    func(TuneRun) TuneObservation
	kind   Verdict
	procs  int
	want   string
}{
	{
		"a change",
		TuneConfig{Current: 8, GoDefault: 3, Candidates: []int{8, 3, 2, 1}, Pairs: 10},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			if r.Procs != 2 {
				o.P99 *= 2.4
				o.CPUPerRequest *= 1.45
				o.Throttled = 0.78
			}
			return o
		},
		Change, 2,
		"Set GOMAXPROCS=2. p99 fell from 96 ms to 40 ms (−58 %, 95 % interval −58 to −57 %), CPU a request −30 % (−31 to −30 %), throttled periods 78 % → 0 %. 10 fresh interleaved pairs, p=0.004.",
	},
	{
		"by CPU, to the default",
		TuneConfig{Current: 8, GoDefault: 3, Candidates: []int{3}, Objective: CPU},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			if r.Procs == 8 {
				o.CPUPerRequest *= 1.3
			}
			return o
		},
		Change, 3,
		"Set GOMAXPROCS=3. CPU a request fell from 1.3 ms to 1.0 ms (−23 %, 95 % interval −25 to −22 %), p99 −0.5 % (−2 to +1 %). 6 fresh interleaved pairs, p=0.03. That is Go's default, so it is enough not to set another.",
	},
	{
		"throughput",
		TuneConfig{Current: 2, GoDefault: 2, Candidates: []int{4}, Objective: Throughput, Pairs: 6},
		func(r TuneRun) TuneObservation {
			return TuneObservation{Run: r, Valid: true, SLOHeld: true, Throughput: 100 * math.Sqrt(float64(r.Procs)) * steady(r)}
		},
		Change, 4,
		"Set GOMAXPROCS=4. Throughput rose from 143/s to 200/s (+40 %, 95 % interval +39 to +41 %). 6 fresh interleaved pairs, p=0.03.",
	},
	{
		"all equal",
		TuneConfig{Current: 3, GoDefault: 3, Candidates: []int{2, 3, 4}, Objective: CPU},
		goodRun, Keep, 3,
		"3 and 4 are within 2 % of each other (CPU a request in 6 blocks): keep the default.",
	},
	{
		"the current setting is best",
		TuneConfig{Current: 1, GoDefault: 2, Candidates: []int{2, 4}},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			o.CPUPerRequest *= math.Sqrt(float64(r.Procs))
			return o
		},
		Keep, 1,
		"Keep GOMAXPROCS=1. By p99 and CPU a request none of the 2 other settings did better in 3 blocks.",
	},
	{
		"it looked better",
		TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{2}, Objective: CPU},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			if r.Procs == 2 && r.Phase == Explore {
				o.CPUPerRequest *= 0.8
			}
			return o
		},
		Keep, 4,
		"2 and 4 are within 3 % of each other: keep the default. CPU a request went from 1.0 ms to 1.0 ms (+1 %, 95 % interval 0 to +2 %), p99 +1 % (0 to +2 %). 6 fresh interleaved pairs, p=0.1.",
	},
	{
		"it is worse in truth",
		TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{2}, Objective: CPU},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			if r.Procs == 2 {
				o.CPUPerRequest *= map[Phase]float64{Explore: 0.8, Confirm: 1.2}[r.Phase]
			}
			return o
		},
		Keep, 4,
		"Keep GOMAXPROCS=4. GOMAXPROCS=2 looked better, but fresh pairs refute it. CPU a request rose from 1.0 ms to 1.2 ms (+21 %, 95 % interval +20 to +22 %), p99 +1 % (0 to +2 %). 6 fresh interleaved pairs, p=0.03.",
	},
	{
		"too noisy",
		TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{2}, Objective: CPU, Pairs: 8},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			if r.Procs == 2 {
				o.CPUPerRequest *= 0.85
				if r.Phase == Confirm {
					o.CPUPerRequest *= 1 + 0.3*float64(r.Block%2)
				}
			}
			return o
		},
		Undecided, 4,
		"Undecided: GOMAXPROCS=2 was the best of the search, but fresh pairs don't show that it is better than 4. CPU a request went from 1.0 ms to 987 µs (−2 %, 95 % interval −15 to +12 %), p99 +1 % (0 to +2 %). 8 fresh interleaved pairs, p=0.3. About 742 runs more (a fresh confirmation of 371 pairs) would settle 5 %.",
	},
	{
		"the SLO first",
		TuneConfig{Current: 8, GoDefault: 2, Candidates: []int{2, 1}},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			switch r.Procs {
			case 8:
				o.SLOHeld = false
				o.P99 = 0
			case 1:
				o.CPUPerRequest *= 0.5
				o.ErrorShare = 0.3
			}
			return o
		},
		Change, 2,
		"Set GOMAXPROCS=2. It held the SLO in 10 of 10 runs, the current setting in 0, p99 unknown in some runs, CPU a request +1 % (+0.5 to +2 %). 10 fresh interleaved pairs, p=0.006. That is Go's default, so it is enough not to set another.",
	},
	{
		"it breaks the SLO in the confirmation",
		TuneConfig{Current: 8, GoDefault: 2, Candidates: []int{2}, Objective: CPU, Pairs: 8},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			if r.Procs == 2 {
				o.CPUPerRequest *= 0.5
				o.SLOHeld = r.Phase == Explore || r.Block%2 == 0
			}
			return o
		},
		Keep, 8,
		"Keep GOMAXPROCS=8. GOMAXPROCS=2 looked better, but held the SLO in 4 of 8 fresh runs, the current setting in 8.",
	},
	{
		"nothing holds the SLO",
		TuneConfig{Current: 8, GoDefault: 2, Candidates: []int{2}},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			o.SLOHeld = false
			return o
		},
		Undecided, 8,
		"Undecided: no setting holds the SLO at this rate, in 3 blocks. A lower rate, or a higher limit, would tell more.",
	},
	{
		"one candidate",
		TuneConfig{Current: 1, GoDefault: 1, Candidates: []int{1, 1}},
		goodRun, Keep, 1,
		"GOMAXPROCS=1 is the only candidate: there is nothing to compare it with.",
	},
	{
		"the program dies as it is",
		TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{1}},
		func(r TuneRun) TuneObservation {
			if r.Procs == 4 {
				return TuneObservation{Run: r, Failed: "exit status 2"}
			}
			return goodRun(r)
		},
		Undecided, 4,
		"Undecided: the program failed with its current setting, GOMAXPROCS=4, and there is nothing to compare the others with: exit status 2",
	},
	{
		"the program dies with the others",
		TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{1, 2}},
		func(r TuneRun) TuneObservation {
			if r.Procs != 4 {
				return TuneObservation{Run: r, Failed: "exit status 2"}
			}
			return goodRun(r)
		},
		Keep, 4,
		"Keep GOMAXPROCS=4. By p99 and CPU a request none of the 2 other settings did better in 1 block.",
	},
	{
		"the program dies in the confirmation",
		TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{1}},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			if r.Procs == 1 {
				o.CPUPerRequest *= 0.5
				if r.Phase == Confirm && r.Block == 4 {
					o.Failed = "killed"
				}
			}
			return o
		},
		Keep, 4,
		"Keep GOMAXPROCS=4. GOMAXPROCS=1 looked better, but the program failed with it in the confirmation: killed",
	},
	{
		"the generator is late, always",
		TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{1}},
		func(r TuneRun) TuneObservation { return TuneObservation{Run: r} },
		Undecided, 4,
		"Undecided: too many runs were not valid, as the generator could not keep up or a figure was missing.",
	},
	{
		"the declared figure is never known",
		TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{1}, Objective: Time},
		goodRun, Undecided, 4,
		"Undecided: too many runs were not valid, as the generator could not keep up or a figure was missing.",
	},
	{
		"a small budget",
		TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{1}, Exact: true, MaxRuns: 12},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			o.CPUPerRequest *= float64(r.Procs)
			return o
		},
		Undecided, 4,
		"Undecided: the budget of 12 runs has no room for a confirmation. Best so far is GOMAXPROCS=1. About 20 runs more would settle it.",
	},
}

func TestScriptedTunes(t *testing.T) {
	for _, s := range scriptedTunes {
		t.Run(s.name, func(t *testing.T) {
			m := tune(t, s.config, s.run)
			v := m.Verdict()
			if v.Text != s.want || v.Kind != s.kind || v.Procs != s.procs {
				t.Errorf("%s %d\ngot  %s\nwant %s", v.Kind, v.Procs, v.Text, s.want)
			}
			if !v.Done {
				t.Error("not done")
			}
		})
	}
}

// TestTuneOrder: every block has every candidate that is left once, with one seed; the middles of the gaps beside the
// leader join after the third; the pairs are balanced, and have seeds of their own.
func TestTuneOrder(t *testing.T) {
	m := tune(t, TuneConfig{Current: 8, GoDefault: 2, Candidates: []int{8, 2, 1, 4}, Objective: CPU, Pairs: 8, Seed: 3}, func(r TuneRun) TuneObservation {
		o := goodRun(r)
		o.CPUPerRequest *= 1 + 0.03*math.Abs(float64(r.Procs-4)) // 4 is best, 3 and 5 or 6 are near
		return o
	})
	blocks := map[Phase]map[int][]int{Explore: {}, Confirm: {}}
	seeds := map[uint64]TuneRun{}
	for _, o := range m.Seen() {
		r := o.Run
		blocks[r.Phase][r.Block] = append(blocks[r.Phase][r.Block], r.Procs)
		if other, ok := seeds[r.Seed]; ok && (other.Phase != r.Phase || other.Block != r.Block) {
			t.Errorf("%+v and %+v have the same arrivals", other, r)
		}
		seeds[r.Seed] = r
	}
	if len(seeds) != len(blocks[Explore])+len(blocks[Confirm]) {
		t.Error("a block has more than one seed")
	}
	for b := 1; b <= 3; b++ {
		got := slices.Sorted(slices.Values(blocks[Explore][b]))
		if !slices.Equal(got, []int{1, 2, 4, 8}) {
			t.Errorf("block %d has %v", b, got)
		}
	}
	fourth := blocks[Explore][4]
	if !slices.Contains(fourth, 3) || !slices.Contains(fourth, 6) || !slices.Contains(fourth, 8) {
		t.Errorf("block 4 has %v", fourth)
	}
	first := map[int]int{}
	for b := 1; b <= 8; b++ {
		p := blocks[Confirm][b]
		if len(p) != 2 || p[0] == p[1] || !slices.Contains(p, 8) || !slices.Contains(p, m.Verdict().Leader) {
			t.Fatalf("pair %d is %v", b, p)
		}
		first[p[0]]++
	}
	if first[8] != 4 {
		t.Errorf("the current setting is first in %d of 8 pairs", first[8])
	}
	again := tune(t, TuneConfig{Current: 8, GoDefault: 2, Candidates: []int{8, 2, 1, 4}, Exact: true, Objective: CPU}, goodRun)
	for _, o := range again.Seen() {
		if !slices.Contains([]int{1, 2, 4, 8}, o.Run.Procs) {
			t.Errorf("%d has joined an exact list", o.Run.Procs)
		}
	}
}

// TestTuneTies: among equals the current setting stays; else it is Go's default, else the smallest.
func TestTuneTies(t *testing.T) {
	for _, c := range []struct{ current, goDefault, worse, want int }{
		{3, 2, 8, 3},
		{8, 2, 8, 2},
		{8, 3, 8, 3},
		{8, 0, 8, 1},
		{8, 8, 8, 1},
	} {
		config := TuneConfig{Current: c.current, GoDefault: c.goDefault, Candidates: []int{8, 3, 2, 1}, Exact: true, Objective: CPU}
		m := tune(t, config, func(r TuneRun) TuneObservation {
			o := TuneObservation{Run: r, Valid: true, SLOHeld: true, CPUPerRequest: 0.001}
			if r.Procs == c.worse {
				o.CPUPerRequest *= 1.2
			}
			return o
		})
		if v := m.Verdict(); v.Leader != c.want || v.Procs != c.want {
			t.Errorf("%+v: the leader is %d: %s", c, v.Leader, v.Text)
		}
	}
}

// TestTuneVerdictJSON: what others read.
func TestTuneVerdictJSON(t *testing.T) {
	m := tune(t, scriptedTunes[0].config, scriptedTunes[0].run)
	saved, err := json.Marshal(m.Verdict())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"kind":"change"`, `"gomaxprocs":2`, `"text":"Set GOMAXPROCS=2. `, `"metric":"throttled"`} {
		if !strings.Contains(string(saved), want) {
			t.Errorf("no %s in %s", want, saved)
		}
	}
}

func TestTuneDrops(t *testing.T) {
	m := tune(t, TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{1, 2, 3, 5, 6}, Exact: true}, func(r TuneRun) TuneObservation {
		o := goodRun(r)
		switch r.Procs {
		case 1:
			o.SLOHeld = false
		case 2:
			o.CPUPerRequest *= 1.5
		case 3:
			o.Failed = "out of memory"
		case 5:
			o.Valid = false
		case 6:
			o.P99 *= 3
			o.CPUPerRequest /= 2
		}
		return o
	})
	want := []Dropped{
		{1, 3, "broke the SLO in all of 3 blocks in which 4 held it"},
		{2, 3, "CPU a request +52 % against 4 in 3 blocks"},
		{3, 1, "the program failed: out of memory"},
		{5, 2, "no valid run in 2 blocks"},
		{6, 3, "p99 +199 % against 4 in 3 blocks"},
	}
	if got := m.Verdict().Dropped; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if v := m.Verdict(); v.Kind != Keep || v.Invalid != 2*attempts {
		t.Errorf("%+v", v)
	}
}

func TestTunePairs(t *testing.T) {
	for _, c := range []struct {
		noise  float64
		effect float64
		pairs  int
		want   int
	}{
		{0, 0.8, 0, 6},      // no noise is given, and that of steady is 1 %: four more than one
		{0.01, 0.8, 0, 6},   // as before
		{0.04, 0.9, 0, 8},   // twice the margin: 3.24²·0.0032/0.0976²·1.047 = 3.7, and four
		{0.2, 0.7, 0, 24},   // half of 0.357: 3.24²·0.08/0.178²·1.047 = 27.6
		{0.45, 0.2, 0, 11},  // half of 1.61: 3.24²·0.405/0.805²·1.047 = 6.9, and four
		{0.45, 0.2, 40, 40}, // as told
	} {
		config := TuneConfig{Current: 4, Candidates: []int{2}, Exact: true, Objective: CPU, Pairs: c.pairs, Noise: map[Metric]float64{CPU: c.noise}}
		m := tune(t, config, func(r TuneRun) TuneObservation {
			o := goodRun(r)
			if r.Procs == 2 {
				o.CPUPerRequest *= c.effect
			}
			return o
		})
		if got := m.Verdict().Pairs; got != c.want {
			t.Errorf("noise %v, effect %v: %d pairs, want %d", c.noise, c.effect, got, c.want)
		}
	}
	for family, want := range map[int]int{0: 6, 1: 6, 2: 7, 3: 7} {
		if got := fewestPairs(family); got != want {
			t.Errorf("a family of %d needs %d pairs, want %d", family, got, want)
		}
	}
}

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

func TestBadTuneConfig(t *testing.T) {
	for _, c := range []TuneConfig{
		{},
		{Current: -1},
		{Current: 1, Candidates: []int{0}},
		{Current: 1, Objective: "p98"},
		{Current: 1, Objective: Throttled},
		{Current: 1, Margin: math.NaN()},
		{Current: 1, Margin: -0.1},
		{Current: 1, Pairs: 5},
		{Current: 1, MaxBlocks: 2},
		{Current: 1, MaxRuns: -1},
		{Current: 1, MaxErrors: 2},
		{Current: 1, Noise: map[Metric]float64{CPU: math.Inf(1)}},
	} {
		if _, err := NewTune(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

func TestTuneObserveWhatNobodyAskedFor(t *testing.T) {
	m, _ := NewTune(TuneConfig{Current: 2, Candidates: []int{1}})
	r, _ := m.Next()
	r.Procs = 3 - r.Procs
	if err := m.Observe(goodRun(r)); err == nil {
		t.Error("another setting is taken")
	}
	if len(m.Seen()) != 0 {
		t.Error("and kept")
	}
	m = tune(t, TuneConfig{Current: 2, Candidates: []int{1}}, goodRun)
	if err := m.Observe(goodRun(r)); err == nil {
		t.Error("an observation after the end is taken")
	}
}

// TestTuneReplay: the observations are the state, by way of JSON too, after every run; and no verdict before the last
// advises a change.
func TestTuneReplay(t *testing.T) {
	p := programOf(rand.New(rand.NewPCG(8, 8)), shapes[1], math.Log(1.3), 0.04, false, CPU)
	p.invalid = 0.1
	c := TuneConfig{Current: p.current, GoDefault: p.goDefault, Candidates: p.candidates, Seed: 5}
	m, err := NewTune(c)
	if err != nil {
		t.Fatal(err)
	}
	for {
		saved, err := json.Marshal(m.Seen())
		if err != nil {
			t.Fatal(err)
		}
		var seen []TuneObservation
		if err := json.Unmarshal(saved, &seen); err != nil {
			t.Fatal(err)
		}
		again, err := ReplayTune(c, seen)
		if err != nil {
			t.Fatal(err)
		}
		run, ok := m.Next()
		if runAgain, okAgain := again.Next(); run != runAgain || ok != okAgain {
			t.Fatalf("after %d runs %+v, replayed %+v", len(seen), run, runAgain)
		}
		if v := m.Verdict(); !reflect.DeepEqual(v, again.Verdict()) {
			t.Fatalf("%+v, replayed %+v", v, again.Verdict())
		} else if ok && (v.Kind != Undecided || v.Done || !strings.HasPrefix(v.Text, "Interrupted after ")) {
			t.Fatalf("after %d runs: %s", len(seen), v.Text)
		}
		if !ok {
			return
		}
		if err := m.Observe(p.run(run)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTuneLeft: the runs that are left are never more than was said, and the guess is of the right order.
func TestTuneLeft(t *testing.T) {
	c := TuneConfig{Current: 8, GoDefault: 2, Candidates: []int{8, 2, 1, 4}}
	run := func(r TuneRun) TuneObservation {
		o := goodRun(r)
		o.CPUPerRequest *= math.Sqrt(float64(r.Procs))
		return o
	}
	all := len(tune(t, c, run).Seen())
	m, _ := NewTune(c)
	for n := 0; ; n++ {
		likely, most := m.Left()
		if all-n > most || likely > most || math.Abs(float64(likely-(all-n))) > 12 {
			t.Errorf("after %d of %d runs %d to %d are said to be left", n, all, likely, most)
		}
		r, ok := m.Next()
		if !ok {
			break
		}
		if err := m.Observe(run(r)); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzTune: whatever is observed, the search ends, in so many runs, and its verdict can be read and saved.
func FuzzTune(f *testing.F) {
	f.Add(uint64(1), uint8(0), 4, 2, 0, 0, []byte{0})
	f.Add(uint64(2), uint8(1), 8, 2, 40, 6, []byte{0, 10, 20, 30, 40, 250, 251, 252, 253, 254, 255})
	f.Add(uint64(3), uint8(2), 1, 3, 0, 20, []byte{100, 101, 99, 98, 250, 97})
	f.Add(uint64(4), uint8(3), 64, 6, 7, 0, []byte{253, 1, 2, 3})
	f.Add(uint64(5), uint8(4), 3, 6, 0, 0, []byte{254, 90, 91, 92, 93})
	f.Fuzz(func(t *testing.T, seed uint64, objective uint8, current, limit, maxRuns, pairs int, script []byte) {
		objectives := append([]Metric{Auto}, deciding...)
		c := TuneConfig{
			Current: current, GoDefault: limit, Candidates: Candidates(float64(limit%1000), 64, 0, limit%1000), Seed: seed,
			Objective: objectives[int(objective)%len(objectives)], MaxRuns: maxRuns, Pairs: pairs,
		}
		m, err := NewTune(c)
		if err != nil || len(script) == 0 {
			t.Skip()
		}
		// Eleven candidates at most, in six blocks, and the pairs, with three attempts each.
		most := attempts * (11*mostBlocks + 2*max(mostPairs, pairs))
		for n := 0; ; n++ {
			v := m.Verdict()
			saved, err := json.Marshal(v)
			if err != nil || v.Text == "" || strings.Contains(v.Text, "NaN") || strings.Contains(v.Text, "Inf") || strings.Contains(v.Text, "%!") {
				t.Fatalf("%s %v %s", v.Text, err, saved)
			}
			if v.Kind != Change && v.Kind != Keep && v.Kind != Undecided || v.Kind == Change != (v.Procs != v.Current) {
				t.Fatalf("%s", saved)
			}
			r, ok := m.Next()
			if !ok {
				if !v.Done {
					t.Fatal("not done")
				}
				return
			}
			if likely, left := m.Left(); likely < 0 || left < 1 || r.Procs < 1 {
				t.Fatalf("%+v, %d to %d left", r, likely, left)
			}
			if n > most || maxRuns > 0 && n >= maxRuns {
				t.Fatalf("no end after %d runs", n)
			}
			b := script[(n*31+r.Procs)%len(script)]
			x := math.Exp(float64(b)/20 - 6)
			o := TuneObservation{Run: r, Valid: b%16 != 15, SLOHeld: b%8 != 7, P99: x, CPUPerRequest: x * x, Throughput: 1 / x, Time: x}
			switch b {
			case 250:
				o.P99, o.CPUPerRequest, o.Throughput, o.Time = 0, 0, 0, 0
			case 251:
				o.P99, o.CPUPerRequest, o.Throughput, o.Time = math.NaN(), math.Inf(1), -1, 1e-300
				o.Throttled, o.ErrorShare = math.NaN(), math.Inf(1)
			case 252:
				o.P99, o.Throughput, o.Time = 1e300, 1e12, 1e12
			case 253:
				o.Failed = "it failed"
			case 254:
				o.ErrorShare = 1
			}
			if err := m.Observe(o); err != nil {
				t.Fatal(err)
			}
		}
	})
}
