package search

import (
	"cmp"
	"encoding/json"
	"flag"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
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
func steady(r TuneRun) float64 {
	setting := r.Procs + r.GOGC/100
	return 1 + 0.01*float64((r.Block*(setting%5+1)+setting)%3-1)
}

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
	reason Reason
	procs  int
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
		Change, Better, 2,
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
		Change, Better, 3,
	},
	{
		"cheaper, and nobody knows its p99",
		TuneConfig{Current: 2, GoDefault: 2, Candidates: []int{1}},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			if o.P99 = 0; r.Procs == 1 {
				o.CPUPerRequest *= 0.7
			}
			return o
		},
		Undecided, TailUnknown, 2,
	},
	{
		"cheaper, and its p99 is known of some pairs",
		TuneConfig{Current: 2, GoDefault: 2, Candidates: []int{1}, Pairs: 12},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			if r.Procs == 1 {
				o.CPUPerRequest *= 0.7
			}
			if r.Block%3 == 0 {
				o.P99 = 0
			}
			return o
		},
		Change, Better, 1,
	},
	{
		"cheaper, and its p99 may be anything",
		TuneConfig{Current: 2, GoDefault: 2, Candidates: []int{1}, Pairs: 8},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			if r.Procs == 1 {
				o.CPUPerRequest *= 0.7
				o.P99 *= []float64{1.3, 9, 0.2}[r.Block%3]
			}
			return o
		},
		Undecided, TailWorse, 2,
	},
	{
		"throughput",
		TuneConfig{Current: 2, GoDefault: 2, Candidates: []int{4}, Objective: Throughput, Pairs: 6},
		func(r TuneRun) TuneObservation {
			return TuneObservation{Run: r, Valid: true, SLOHeld: true, Throughput: 100 * math.Sqrt(float64(r.Procs)) * steady(r)}
		},
		Change, Better, 4,
	},
	{
		"all equal",
		TuneConfig{Current: 3, GoDefault: 3, Candidates: []int{2, 3, 4}, Objective: CPU},
		goodRun, Keep, Equal, 3,
	},
	{
		"the current setting is best",
		TuneConfig{Current: 1, GoDefault: 2, Candidates: []int{2, 4}},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			o.CPUPerRequest *= math.Sqrt(float64(r.Procs))
			return o
		},
		Keep, Leads, 1,
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
		Keep, Equal, 4,
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
		Keep, Refuted, 4,
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
		Keep, Alike, 4,
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
		Change, Better, 2,
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
		Keep, LosesSLO, 8,
	},
	{
		"nothing holds the SLO",
		TuneConfig{Current: 8, GoDefault: 2, Candidates: []int{2}},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			o.SLOHeld = false
			return o
		},
		Undecided, NoneHolds, 8,
	},
	{
		"one candidate",
		TuneConfig{Current: 1, GoDefault: 1, Candidates: []int{1, 1}},
		goodRun, Keep, Alone, 1,
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
		Undecided, Fails, 4,
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
		Keep, Leads, 4,
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
		Keep, LeaderFails, 4,
	},
	{
		"the generator is late, always",
		TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{1}},
		func(r TuneRun) TuneObservation { return TuneObservation{Run: r} },
		Undecided, Invalid, 4,
	},
	{
		"the declared figure is never known",
		TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{1}, Objective: Time},
		goodRun, Undecided, Invalid, 4,
	},
	{
		"a small budget",
		TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{1}, Exact: true, MaxRuns: 12},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			o.CPUPerRequest *= float64(r.Procs)
			return o
		},
		Undecided, NoRoom, 4,
	},
	{
		"a tail of its own",
		TuneConfig{Current: 8, GoDefault: 8, Candidates: []int{2}, Exact: true, Objective: P99, Pairs: 8},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			if r.Procs == 2 {
				o.P99 /= 2
			}
			return o
		},
		Change, Better, 2,
	},
	{
		"a batch job that is too slow",
		TuneConfig{Current: 8, GoDefault: 2, Candidates: []int{2}, Batch: true},
		func(r TuneRun) TuneObservation {
			return TuneObservation{Run: r, Valid: true, Time: steady(r), CPUPerRequest: steady(r)}
		},
		Undecided, NoneHolds, 8,
	},
	{
		"a batch job",
		TuneConfig{Current: 8, GoDefault: 8, Candidates: []int{2}, Exact: true, Batch: true},
		func(r TuneRun) TuneObservation {
			o := TuneObservation{Run: r, Valid: true, SLOHeld: r.Procs == 2 && r.Block == 1, Time: 2 * steady(r), CPUPerRequest: 4 * steady(r)}
			if r.Procs == 2 {
				o.Time /= 2
			}
			return o
		},
		Change, Better, 2,
	},
	{
		"a benchmark without figures",
		TuneConfig{Current: 8, Candidates: []int{2}, Batch: true},
		func(r TuneRun) TuneObservation { return TuneObservation{Run: r, Valid: true, SLOHeld: true} },
		Undecided, Invalid, 8,
	},
	{
		"a benchmark",
		TuneConfig{Current: 2, Candidates: []int{4}, Exact: true, Batch: true},
		func(r TuneRun) TuneObservation {
			return TuneObservation{Run: r, Valid: true, SLOHeld: true, CPUPerRequest: 1e-6 * float64(r.Procs)}
		},
		Keep, Leads, 2,
	},
}

func TestScriptedTunes(t *testing.T) {
	for _, s := range scriptedTunes {
		t.Run(s.name, func(t *testing.T) {
			m := tune(t, s.config, s.run)
			v := m.Verdict()
			if v.Kind != s.kind || v.Reason != s.reason || v.Procs != s.procs || v.GOGC != 0 {
				t.Errorf("%s, %s, %d", v.Kind, v.Reason, v.Procs)
			}
			if !v.Done {
				t.Error("not done")
			}
		})
	}
}

var update = flag.Bool("update", false, "write the files under testdata anew")

// TestVerdictFigures: all that the scripted searches have found. The tests of report make sentences of the same file.
func TestVerdictFigures(t *testing.T) {
	var lines []string
	tell := func(name string, m *Tune) { lines = append(lines, strconv.Quote(name)+": "+figures(t, m.Verdict())) }
	for _, s := range scriptedTunes {
		tell(s.name, tune(t, s.config, s.run))
	}
	for _, s := range leverTunes {
		config := leverConfig
		if s.config != nil {
			s.config(&config)
		}
		tell(s.name, tune(t, config, s.run))
	}
	got := "{\n" + strings.Join(lines, ",\n") + "\n}\n"
	const file = "testdata/verdicts.json"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wants := strings.Split(strings.TrimSuffix(strings.TrimPrefix(string(want), "{\n"), "\n}\n"), ",\n")
	if len(wants) != len(lines) {
		t.Fatalf("%d verdicts, want %d", len(lines), len(wants))
	}
	for i, line := range lines {
		if line != wants[i] {
			t.Errorf("got  %s\nwant %s", line, wants[i])
		}
	}
}

// figures is a verdict as JSON, without what is zero, and with six digits: machines differ in the last ones.
func figures(t *testing.T, v TuneVerdict) string {
	t.Helper()
	saved, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(saved, &all); err != nil {
		t.Fatal(err)
	}
	if saved, err = json.Marshal(short(all)); err != nil {
		t.Fatal(err)
	}
	return string(saved)
}

func short(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			if v[name] = short(field); v[name] == nil {
				delete(v, name)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			if v[i] = short(v[i]); v[i] == nil {
				v[i] = 0
			}
		}
	case float64:
		if rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64); rounded != 0 {
			return rounded
		}
		return nil
	case string:
		if v == "" {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	}
	return v
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
		if len(p) != 2 || p[0] == p[1] || !slices.Contains(p, 8) || !slices.Contains(p, m.Verdict().Leader.Procs) {
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
		if v := m.Verdict(); v.Leader != (Candidate{Procs: c.want}) || v.Procs != c.want {
			t.Errorf("%+v: the leader is %d: %+v", c, v.Leader, v)
		}
	}
}

// leverRun is a run of which the CPU a request is multiplied by what its GOMAXPROCS and its GOGC are worth.
func leverRun(procs, gogc map[int]float64) func(TuneRun) TuneObservation {
	return func(r TuneRun) TuneObservation {
		o := goodRun(r)
		o.CPUPerRequest *= cmp.Or(procs[r.Procs], 1) * cmp.Or(gogc[r.GOGC], 1)
		return o
	}
}

// Programs with another lever beside GOMAXPROCS, as leverConfig has it.
var leverTunes = []struct {
	name     string
	config   func(*TuneConfig)
	run      func(TuneRun) TuneObservation
	kind     Verdict
	want     Candidate
	combined bool
}{
	{
		"the lever alone is best", nil,
		leverRun(map[int]float64{1: 1.2, 2: 1.1}, map[int]float64{200: 0.9, 800: 0.7}),
		Change,
		Candidate{4, 800},
		false,
	},
	{
		"GOMAXPROCS is best", nil,
		leverRun(map[int]float64{2: 0.8}, map[int]float64{200: 1.1, 800: 1.2}),
		Change,
		Candidate{2, 0},
		false,
	},
	{
		"both add up", nil,
		leverRun(map[int]float64{1: 0.6, 2: 0.8}, map[int]float64{200: 0.9, 800: 0.7}),
		Change,
		Candidate{1, 800},
		true,
	},
	{
		"both are the same gain", nil,
		func(r TuneRun) TuneObservation {
			o := leverRun(map[int]float64{1: 0.6}, nil)(r)
			if r.GOGC == 800 {
				o.CPUPerRequest = 0.0005 * steady(r)
			}
			return o
		},
		Change,
		Candidate{4, 800},
		true,
	},
	{
		"the lever is worth less than GOMAXPROCS, and nothing beside it", nil,
		func(r TuneRun) TuneObservation {
			o := leverRun(map[int]float64{1: 0.5}, map[int]float64{800: 0.8})(r)
			if r.Procs == 1 {
				o.CPUPerRequest = 0.0005 * steady(r)
			}
			return o
		},
		Change,
		Candidate{1, 0},
		true,
	},
	{
		"nothing makes a difference", nil, leverRun(nil, nil),
		Keep,
		Candidate{4, 0},
		false,
	},
	{
		"the best of the search is not better in truth", nil,
		func(r TuneRun) TuneObservation {
			if r.Phase == Explore {
				return leverRun(map[int]float64{1: 1.2, 2: 1.1}, map[int]float64{800: 0.7})(r)
			}
			return goodRun(r)
		},
		Keep,
		Candidate{4, 0},
		false,
	},
	{
		"the program dies with the best lever", nil,
		func(r TuneRun) TuneObservation {
			o := leverRun(map[int]float64{1: 0.6}, map[int]float64{200: 0.9, 800: 0.5})(r)
			if r.GOGC == 800 && r.Block == 3 {
				o.Failed = "out of memory"
			}
			return o
		},
		Change,
		Candidate{1, 200},
		true,
	},
	{
		"the program dies with the combination, in the confirmation", nil,
		func(r TuneRun) TuneObservation {
			o := leverRun(map[int]float64{1: 0.6}, map[int]float64{800: 0.5})(r)
			if r.Phase == Confirm && r.Procs == 1 {
				o.Failed = "out of memory"
			}
			return o
		},
		Keep,
		Candidate{4, 0},
		true,
	},
	{
		"the lever breaks the SLO", nil,
		func(r TuneRun) TuneObservation {
			o := leverRun(map[int]float64{1: 0.6}, map[int]float64{800: 0.5})(r)
			o.SLOHeld = r.GOGC != 800
			return o
		},
		Change,
		Candidate{1, 0},
		false,
	},
	{
		"p99 first: the lever that makes it worse is not combined",
		func(c *TuneConfig) { c.Objective = Auto },
		func(r TuneRun) TuneObservation {
			o := leverRun(map[int]float64{1: 0.6}, map[int]float64{800: 0.5})(r)
			if r.GOGC == 800 {
				o.P99 *= 2
			}
			return o
		},
		Change,
		Candidate{1, 0},
		false,
	},
	{
		"GOMAXPROCS to Go's default",
		func(c *TuneConfig) { c.GoDefault = 1 },
		leverRun(map[int]float64{1: 0.6}, map[int]float64{800: 0.7}),
		Change,
		Candidate{1, 800},
		true,
	},
	{
		"no blocks are left for the combination",
		func(c *TuneConfig) { c.MaxBlocks = 4 },
		leverRun(map[int]float64{1: 0.6}, map[int]float64{800: 0.7}),
		Change,
		Candidate{1, 0},
		false,
	},
	{
		"no runs are left for the combination", // three blocks of five, the shortest confirmation, and two more
		func(c *TuneConfig) { c.MaxRuns = 29 },
		leverRun(map[int]float64{1: 0.6}, map[int]float64{800: 0.7}),
		Change,
		Candidate{1, 0},
		false,
	},
	{
		"the budget has no room for a confirmation",
		func(c *TuneConfig) { c.MaxRuns = 16 },
		leverRun(map[int]float64{1: 1.2}, map[int]float64{800: 0.7}),
		Undecided,
		Candidate{4, 0},
		false,
	},
}

var leverConfig = TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{1, 2}, Exact: true, Levers: []int{200, 800}, Objective: CPU, Pairs: 8}

// TestTuneLevers: GOGC by itself, beside other GOMAXPROCS, and together with them.
func TestTuneLevers(t *testing.T) {
	for _, c := range leverTunes {
		t.Run(c.name, func(t *testing.T) {
			config := leverConfig
			if c.config != nil {
				c.config(&config)
			}
			m := tune(t, config, c.run)
			v := m.Verdict()
			if got := (Candidate{v.Procs, v.GOGC}); got != c.want || v.Kind != c.kind {
				t.Errorf("%s, %s, %s", v.Kind, v.Reason, got)
			}
			if m.combined != c.combined {
				t.Errorf("combined: %v", m.combined)
			}
			for _, s := range m.Standings() {
				both := s.Procs != config.Current && s.GOGC != 0
				if both && !c.combined || both && m.arm(Candidate{s.Procs, 0}) == nil || both && m.arm(Candidate{config.Current, s.GOGC}) == nil {
					t.Errorf("%s was tried", s.Candidate)
				}
			}
		})
	}
}

// TestTuneRefineBesideALever: what lies between two GOMAXPROCS is about those without a GOGC.
func TestTuneRefineBesideALever(t *testing.T) {
	config := TuneConfig{Current: 8, GoDefault: 8, Candidates: []int{1, 64}, Levers: []int{800}, Objective: CPU}
	for _, c := range []struct {
		gogc float64
		want []int // that were run
	}{
		{0.5, []int{1, 8, 64}},
		{1.5, []int{1, 3, 8, 23, 64}},
	} {
		m := tune(t, config, leverRun(map[int]float64{1: 1.5, 64: 1.5}, map[int]float64{800: c.gogc}))
		var got []int
		for _, o := range m.Seen() {
			got = append(got, o.Run.Procs)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, c.want) {
			t.Errorf("with a lever that is worth %v: %v, want %v", c.gogc, got, c.want)
		}
	}
}

// TestTuneStandings: the leader first, those dropped last; the ratios are those of blocks, and cost is not turned round.
func TestTuneStandings(t *testing.T) {
	config := TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{1, 2, 3}, Exact: true, Levers: []int{800, 400}, Pairs: 8, Noise: map[Metric]float64{CPU: 0.3}}
	run := func(r TuneRun) TuneObservation {
		o := leverRun(map[int]float64{1: 3, 2: 0.9, 3: 0.96}, map[int]float64{800: 0.8})(r)
		block := math.Exp(float64(r.Block)) // what a block does to all of them cancels out
		o.CPUPerRequest *= block
		switch r.Candidate() {
		case Candidate{4, 0}:
			o.Throttled = 0.5
		case Candidate{3, 0}:
			o.SLOHeld = r.Block != 2
			o.Throughput /= 2
		case Candidate{4, 400}:
			o.Failed = "no such thing"
		}
		return o
	}
	m, err := NewTune(config)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Standings(); len(got) != 6 || !got[0].Current || got[0].Effects != nil || len(m.Noise()) != 1 {
		t.Errorf("at the start: %+v, noise %v", got, m.Noise())
	}
	for {
		r, ok := m.Next()
		if !ok || r.Phase == Explore && r.Block == 4 {
			break
		}
		if err := m.Observe(run(r)); err != nil {
			t.Fatal(err)
		}
	}
	got := m.Standings()
	var order []Candidate
	for _, s := range got {
		order = append(order, s.Candidate)
	}
	// 10 %, 4 % and 0 less than the current setting are apart by more than half of the margin. The combination has joined,
	// and not run yet. GOGC=400 has failed in block 1, and 1 was dropped after the third.
	if want := []Candidate{{4, 800}, {2, 0}, {3, 0}, {4, 0}, {2, 800}, {1, 0}, {4, 400}}; !slices.Equal(order, want) {
		t.Fatalf("%v, want %v: %#v", order, want, got)
	}
	if s := got[2]; s.Runs != 3 || s.Broken != 1 || s.Current || s.Dropped != nil {
		t.Errorf("%#v", s)
	}
	if s := got[6]; s.Runs != 0 || s.Effects != nil || *s.Dropped != (Drop{Reason: ProgramFails, After: 1, Failure: "no such thing"}) {
		t.Errorf("%#v", s)
	}
	effect := func(s Standing, m Metric) StandingEffect {
		for _, e := range s.Effects {
			if e.Metric == m {
				return e
			}
		}
		t.Fatalf("%s of %s is not known", m, s.Candidate)
		return StandingEffect{}
	}
	if e := effect(got[2], Throughput); e.Median != 250 || math.Abs(e.Ratio-0.5) > 1e-9 || math.Abs(e.Lo-0.5) > 1e-9 || math.Abs(e.Hi-0.5) > 1e-9 {
		t.Errorf("%+v", e)
	}
	if e := effect(got[3], CPU); e.Ratio != 1 || e.Lo != 0 || e.Hi != 0 {
		t.Errorf("the current setting: %+v", e)
	}
	if e := effect(got[3], Throttled); e != (StandingEffect{Metric: Throttled, Median: 0.5}) {
		t.Errorf("%+v", e)
	}
	if e := effect(got[0], Throttled); e != (StandingEffect{Metric: Throttled}) {
		t.Errorf("%+v", e)
	}
}

// TestTuneStandingInterval: three log-ratios −0.3, −0.2 and −0.1 have the mean −0.2 and the standard deviation 0.1; Student's
// quantile of two degrees of freedom is 4.303, so that the interval is −0.2 ± 4.303·0.1/√3 = −0.448 to 0.048.
func TestTuneStandingInterval(t *testing.T) {
	config := TuneConfig{Current: 4, Candidates: []int{2}, Exact: true, Noise: map[Metric]float64{P99: 0.4}}
	m, _ := NewTune(config)
	for {
		r, _ := m.Next()
		if r.Block == 4 {
			break
		}
		o := TuneObservation{Run: r, Valid: true, SLOHeld: true, CPUPerRequest: 1, Throughput: 1}
		if x := -0.1 * float64(r.Block); r.Procs == 2 {
			o.CPUPerRequest, o.Throughput = math.Exp(x), math.Exp(-x)
		}
		if err := m.Observe(o); err != nil {
			t.Fatal(err)
		}
		standing := m.Standings()
		i := slices.IndexFunc(standing, func(s Standing) bool { return s.Procs == 2 })
		for _, e := range standing[i].Effects {
			if standing[i].Runs < 3 && (e.Lo != 0 || e.Hi != 0) {
				t.Errorf("after %d runs: %+v", standing[i].Runs, e)
			}
		}
	}
	s := m.Standings()[0]
	if s.Procs != 2 || len(s.Effects) != 2 {
		t.Fatalf("%#v", s)
	}
	for _, e := range s.Effects {
		ratio, lo, hi := math.Log(e.Ratio), math.Log(e.Lo), math.Log(e.Hi)
		if e.Metric == Throughput {
			ratio, lo, hi = -ratio, -hi, -lo
		}
		if math.Abs(ratio+0.2) > 1e-9 || math.Abs(lo+0.4484) > 1e-3 || math.Abs(hi-0.0484) > 1e-3 {
			t.Errorf("%s: %.4f, %.4f to %.4f", e.Metric, ratio, lo, hi)
		}
	}
	noise := m.Noise()
	// The pilot's of p99; that of the others is 0.1/√2, as both runs of a pair have it.
	want := map[Metric]float64{P99: 0.4, CPU: 0.1 / math.Sqrt2, Throughput: 0.1 / math.Sqrt2}
	if len(noise) != len(want) {
		t.Errorf("%v", noise)
	}
	for m, sd := range want {
		if math.Abs(noise[m]-sd) > 1e-9 {
			t.Errorf("%s: %v, want %v", m, noise[m], sd)
		}
	}
}

func TestCandidateString(t *testing.T) {
	for c, want := range map[Candidate]string{{2, 0}: "2", {2, 800}: "2 with GOGC=800"} {
		if got := c.String(); got != want {
			t.Errorf("%s, want %s", got, want)
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
	want := map[Candidate]Drop{
		{1, 0}: {Reason: BreaksSLO, After: 3, Blocks: 3, Against: Candidate{4, 0}},
		{2, 0}: {Reason: Worse, After: 3, Blocks: 3, Against: Candidate{4, 0}, Metric: CPU, Ratio: 1.52},
		{3, 0}: {Reason: ProgramFails, After: 1, Failure: "out of memory"},
		{5, 0}: {Reason: NoValidRun, After: 2, Blocks: 2},
		{6, 0}: {Reason: Worse, After: 3, Blocks: 3, Against: Candidate{4, 0}, Metric: P99, Ratio: 2.99},
	}
	got := map[Candidate]Drop{}
	for _, s := range m.Standings() {
		if d := s.Dropped; d != nil {
			d.Ratio = math.Round(100*d.Ratio) / 100
			got[s.Candidate] = *d
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%#v", got)
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
		{Current: 1, Levers: []int{800, 0}},
		{Current: 1, Levers: []int{-1}},
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
	for _, levers := range []bool{false, true} {
		p := programOf(rand.New(rand.NewPCG(8, 8)), shapes[1], math.Log(1.3), 0.04, false, CPU)
		p.invalid = 0.1
		if levers {
			p.withLever(math.Log(1.3), 2)
		}
		c := TuneConfig{Current: p.current, GoDefault: p.goDefault, Candidates: p.candidates, Levers: p.levers, Seed: 5}
		m, err := NewTune(c)
		if err != nil {
			t.Fatal(err)
		}
		for more := true; more; {
			run, ok := sameAgain(t, c, m)
			if more = ok; ok {
				if err := m.Observe(p.run(run)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if m.combined != levers {
			t.Errorf("combined: %v", m.combined)
		}
	}
}

// sameAgain replays a search and compares all that it tells.
func sameAgain(t *testing.T, c TuneConfig, m *Tune) (TuneRun, bool) {
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
	v := m.Verdict()
	if !reflect.DeepEqual(v, again.Verdict()) {
		t.Fatalf("%+v, replayed %+v", v, again.Verdict())
	} else if ok && (v.Kind != Undecided || v.Done || v.Reason != NotDone && v.Reason != NothingYet) {
		t.Fatalf("after %d runs: %+v", len(seen), v)
	}
	if s := m.Standings(); !reflect.DeepEqual(s, again.Standings()) || s[0].Candidate != v.Leader {
		t.Fatalf("%#v, replayed %#v; the leader is %s", s, again.Standings(), v.Leader)
	}
	if !reflect.DeepEqual(m.Noise(), again.Noise()) {
		t.Fatalf("noise %v, replayed %v", m.Noise(), again.Noise())
	}
	return run, ok
}

// TestTuneLeft: the runs that are left are never more than was said, and the guess is of the right order.
func TestTuneLeft(t *testing.T) {
	for _, levers := range [][]int{nil, {800}} {
		c := TuneConfig{Current: 8, GoDefault: 2, Candidates: []int{8, 2, 1, 4}, Levers: levers}
		run := func(r TuneRun) TuneObservation {
			o := leverRun(nil, map[int]float64{800: 0.7})(r)
			o.CPUPerRequest *= math.Sqrt(float64(r.Procs))
			return o
		}
		all := len(tune(t, c, run).Seen())
		m, _ := NewTune(c)
		for n := 0; ; n++ {
			likely, most := m.Left()
			if all-n > most || likely > most || math.Abs(float64(likely-(all-n))) > 12 {
				t.Errorf("levers %v: after %d of %d runs %d to %d are said to be left", levers, n, all, likely, most)
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
}

// FuzzTune: whatever is observed, the search ends, in so many runs, and its verdict can be read and saved.
func FuzzTune(f *testing.F) {
	f.Add(uint64(1), uint8(0), 4, 2, 0, 0, 0, []byte{0})
	f.Add(uint64(2), uint8(1), 8, 2, 40, 6, 800, []byte{0, 10, 20, 30, 40, 250, 251, 252, 253, 254, 255})
	f.Add(uint64(3), uint8(2), 1, 3, 0, 20, 1, []byte{100, 101, 99, 98, 250, 97})
	f.Add(uint64(4), uint8(3), 64, 6, 7, 0, 400, []byte{253, 1, 2, 3})
	f.Add(uint64(5), uint8(4), 3, 6, 0, 0, 100000, []byte{254, 90, 91, 92, 93})
	f.Fuzz(func(t *testing.T, seed uint64, objective uint8, current, limit, maxRuns, pairs, lever int, script []byte) {
		objectives := append([]Metric{Auto}, deciding...)
		c := TuneConfig{
			Current: current, GoDefault: limit, Candidates: Candidates(float64(limit%1000), 64, 0, limit%1000), Seed: seed,
			Objective: objectives[int(objective)%len(objectives)], MaxRuns: maxRuns, Pairs: pairs,
		}
		if lever != 0 {
			c.Levers = []int{lever, 200}
		}
		m, err := NewTune(c)
		if err != nil || len(script) == 0 {
			t.Skip()
		}
		// Eleven GOMAXPROCS at most, two GOGC and one of both together, in six blocks, and the pairs, with three attempts each.
		most := attempts * (14*mostBlocks + 2*max(mostPairs, pairs))
		for n := 0; ; n++ {
			v := m.Verdict()
			saved, err := json.Marshal(v)
			if err != nil || v.Reason == "" { // NaN and infinity can't be saved
				t.Fatalf("%v %+v", err, v)
			}
			if v.Kind != Change && v.Kind != Keep && v.Kind != Undecided || v.Kind == Change != (Candidate{v.Procs, v.GOGC} != v.Current) {
				t.Fatalf("%s", saved)
			}
			if n < 100 || n%50 == 0 { // with a thousand pairs it would take most of the time
				checkStandings(t, m, v)
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
			b := script[(n*31+r.Procs+r.GOGC%1000)%len(script)]
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

// checkStandings: every candidate has one, the leader the first; it can be saved; and noise is a number.
func checkStandings(t *testing.T, m *Tune, v TuneVerdict) {
	standings := m.Standings()
	if saved, err := json.Marshal(standings); err != nil || len(standings) != len(m.arms) || standings[0].Candidate != v.Leader {
		t.Fatalf("%v %s; the leader is %s", err, saved, v.Leader)
	}
	seen := map[Candidate]bool{}
	for i, s := range standings {
		if seen[s.Candidate] || s.Current != (s.Candidate == v.Current) || s.Broken > s.Runs || i > 0 && s.Dropped == nil && standings[i-1].Dropped != nil {
			t.Fatalf("%#v", standings)
		}
		seen[s.Candidate] = true
		for _, e := range s.Effects {
			if !(e.Lo <= e.Ratio) || e.Hi != 0 && e.Hi < e.Ratio || e.Median < 0 {
				t.Fatalf("%s: %+v", s.Candidate, e)
			}
		}
	}
	for metric, sd := range m.Noise() {
		if !(sd > 0 && sd < 1e3) {
			t.Fatalf("noise of %s is %v", metric, sd)
		}
	}
}
