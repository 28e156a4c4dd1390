package search

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
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

func (c Candidate) String() string {
	return fmt.Sprintf("%d, GOGC=%d, vary %d", c.Procs, c.GOGC, c.Vary)
}

// steady is a noise that differs from run to run but is the same in every test: −1, 0 or 1 times 1 %.
func steady(r TuneRun) float64 {
	setting := r.Procs + r.GOGC/100
	return 1 + 0.01*float64((r.Block*(setting%5+1)+setting)%3-1)
}

// goodRun is a run, before the setting makes it worse or better.
var goodRun rule = func(r TuneRun) TuneObservation {
	return TuneObservation{
		Run: r, Valid: true, SLOHeld: true,
		Tail: 0.030 * steady(r), P99: 0.040 * steady(r), CPUPerRequest: 0.001 * steady(r), Throughput: 500,
	}
}

// A rule says what a run gives.
type rule func(TuneRun) TuneObservation

// costing is a program of which a setting multiplies CPU per request and the tail.
func costing(c Candidate, cpu, tail float64) rule {
	return func(r TuneRun) TuneObservation {
		o := goodRun(r)
		if r.Candidate() == c {
			o.CPUPerRequest *= cpu
			o.Tail *= tail
			o.P99 *= tail
		}
		return o
	}
}

// but changes what a program's run gives.
func (f rule) but(change func(*TuneObservation)) rule {
	return func(r TuneRun) TuneObservation {
		o := f(r)
		change(&o)
		return o
	}
}

// room is that of a budget of that many runs in all.
func (f rule) room(runs int) rule {
	return func(r TuneRun) TuneObservation {
		o := f(r)
		runs--
		o.Room = max(1, runs)
		return o
	}
}

// tune does a search to its end.
func tune(t testing.TB, c TuneConfig, run rule) *Tune {
	t.Helper()
	return stopped(t, c, run, 0)
}

// stopped does the first runs of a search; 0: all.
func stopped(t testing.TB, c TuneConfig, run rule, after int) *Tune {
	t.Helper()
	m, err := NewTune(c)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5000 {
		r, ok := m.Next()
		if !ok || after > 0 && n == after {
			return m
		}
		if err := m.Observe(run(r)); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the search has no end")
	return nil
}

// two are GOMAXPROCS=4, which the program has, and 2.
var two = TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{2}, Exact: true}

func (c TuneConfig) by(m Metric) TuneConfig { c.Objective = m; return c }
func (c TuneConfig) pairs(n int) TuneConfig { c.Pairs = n; return c }
func (c TuneConfig) batch() TuneConfig      { c.Batch = true; return c }

var (
	is2 = Candidate{Procs: 2}
	is4 = Candidate{Procs: 4}
)

// Programs whose runs follow a rule that a reader can check by hand.
var scriptedTunes = []struct {
	name   string
	config TuneConfig
	run    rule
	after  int // runs in which the time is over; 0: it isn't
	kind   Verdict
	reason Reason
	procs  int
	is     func(TuneVerdict) bool
}{
	{
		"a change",
		TuneConfig{Current: 8, GoDefault: 3, Candidates: []int{8, 3, 2, 1}, Pairs: 10},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			if r.Procs != 2 {
				o.Tail, o.P99, o.CPUPerRequest, o.Throttled = 2.4*o.Tail, 2.4*o.P99, 1.45*o.CPUPerRequest, 0.78
			}
			return o
		},
		0, Change, Better, 2,
		func(v TuneVerdict) bool {
			return v.Basis == P99 && v.Pairs >= 10 && v.Fresh >= 2 && v.Effect(Throttled).From == 0.78
		},
	},
	{
		"by CPU, to the default", two.by(CPU), costing(is2, 0.8, 1), 0, Change, Better, 2,
		func(v TuneVerdict) bool { return v.Basis == CPU },
	},
	{"a tail of its own", two.by(P99), costing(is2, 2, 0.5), 0, Change, Better, 2, nil},
	{
		"CPU is better and the tail is not worse", two, costing(is2, 0.8, 1.1), 0, Change, Better, 2,
		func(v TuneVerdict) bool { return v.Effect(P99).Says == NotWorse },
	},
	{
		"the tail is better and CPU is not worse", two, costing(is2, 1.04, 0.5), 0, Change, Better, 2,
		func(v TuneVerdict) bool { return v.Basis == P99 },
	},
	{
		"CPU for the tail", two, costing(is2, 0.8, 2), 0, Trade, Worsens, 4,
		func(v TuneVerdict) bool { return v.Basis == CPU && v.WorseIn == P99 && v.Leader == is2 },
	},
	{
		"the tail for CPU", two, costing(is2, 1.3, 0.5), 0, Trade, Worsens, 4,
		func(v TuneVerdict) bool { return v.Basis == P99 && v.WorseIn == CPU },
	},
	{
		"the tail for CPU, of which it is not known whether it is more than is allowed", two,
		costing(is2, 1, 0.5).but(func(o *TuneObservation) {
			if o.Run.Procs == 2 {
				o.CPUPerRequest *= []float64{1.055, 1.11, 1.08}[o.Run.Block%3]
			}
		}),
		0, Trade, Worsens, 4, func(v TuneVerdict) bool { return v.WorseIn == CPU && v.Effect(CPU).Says == IsWorse },
	},
	{
		"cheaper, and its tail may be anything", two,
		costing(is2, 0.7, 1).but(func(o *TuneObservation) {
			if o.Run.Procs == 2 {
				o.Tail *= []float64{1.3, 5, 0.3}[o.Run.Block%3]
			}
		}),
		0, Undecided, MayWorsen, 4, func(v TuneVerdict) bool { return v.WorseIn == P99 && v.Effect(P99).Says == Open },
	},
	{
		"the p99 of windows speaks against its tail", two,
		costing(is2, 0.7, 1).but(func(o *TuneObservation) {
			if o.Run.Procs == 2 {
				o.P99 *= 3
			}
		}),
		0, Undecided, MayWorsen, 4, func(v TuneVerdict) bool { return v.Contradicted && v.WorseIn == P99 },
	},
	{
		"something else ran all the time", two, costing(is2, 0.7, 1).but(func(o *TuneObservation) { o.Disturbed = true }),
		0, Undecided, Disturbed, 4, func(v TuneVerdict) bool {
			return v.Disturbed == v.Runs && v.Effect(P99) == nil && v.Effect(CPU).Says == IsBetter && v.Leader == is2
		},
	},
	{
		"something else ran, and nothing looks better", two, goodRun.but(func(o *TuneObservation) { o.Disturbed = true }),
		0, Undecided, Disturbed, 4, func(v TuneVerdict) bool { return v.Rival == Candidate{} },
	},
	{
		"cheaper, and nobody knows its tail", two,
		costing(is2, 0.7, 1).but(func(o *TuneObservation) { o.Tail, o.P99 = 0, 0 }),
		0, Undecided, TailUnknown, 4, nil,
	},
	{
		"cheaper, and its tail is known of some pairs", two.pairs(12),
		costing(is2, 0.7, 1).but(func(o *TuneObservation) {
			if o.Run.Block%3 == 0 {
				o.Tail, o.P99 = 0, 0
			}
		}),
		0, Change, Better, 2, func(v TuneVerdict) bool { return v.Effect(P99).Pairs < v.Effect(CPU).Pairs },
	},
	{
		"throughput", two.by(Throughput),
		func(r TuneRun) TuneObservation {
			return TuneObservation{Run: r, Valid: true, SLOHeld: true, Throughput: 100 / math.Sqrt(float64(r.Procs)) * steady(r)}
		},
		0, Change, Better, 2, nil,
	},
	{
		"all equal",
		TuneConfig{Current: 3, GoDefault: 3, Candidates: []int{2, 3, 4}},
		goodRun, 0, Keep, NoneBetter, 3,
		func(v TuneVerdict) bool { return v.Rival.Procs == 0 },
	},
	{
		"the current setting is best",
		TuneConfig{Current: 1, GoDefault: 2, Candidates: []int{2, 4}},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			o.CPUPerRequest *= math.Sqrt(float64(r.Procs))
			return o
		},
		0, Keep, NoneBetter, 1, nil,
	},
	{
		"nothing to be seen in the noise", two,
		goodRun.but(func(o *TuneObservation) { o.CPUPerRequest *= 1 + 0.5*float64((o.Run.Block*o.Run.Procs/2)%3) }),
		0, Keep, Leads, 4, func(v TuneVerdict) bool { return v.Rival == is2 && v.RivalIn == CPU && v.Better > 0.05 && v.More > 0 },
	},
	{
		"it looks better, and the noise is too much", two.by(CPU),
		goodRun.but(func(o *TuneObservation) {
			if o.Run.Procs == 2 {
				o.CPUPerRequest *= 0.88 * (1 + 0.3*float64(o.Run.Block%2))
			} else {
				o.CPUPerRequest *= 1 + 0.6*float64(o.Run.Block%4/3)
			}
		}),
		0, Undecided, NotShown, 4, nil,
	},
	{
		"the SLO first",
		TuneConfig{Current: 8, GoDefault: 2, Candidates: []int{2, 1}, Exact: true},
		func(r TuneRun) TuneObservation {
			o := goodRun(r)
			switch r.Procs {
			case 8:
				o.SLOHeld = false
				o.Throttled = 0.1 // which says nothing about the SLO
			case 2:
				o.CPUPerRequest *= 1.5 // whatever it costs
				o.Throttled = 0.2
			case 1:
				o.CPUPerRequest *= 0.5
				o.ErrorShare = 0.3
			}
			return o
		},
		0, Change, Better, 2, func(v TuneVerdict) bool { return v.Basis == SLO && v.Held[0] == 0 && v.Held[1] == v.Pairs },
	},
	{
		"it breaks the SLO from the guard on", two.by(CPU),
		costing(is2, 0.5, 1).but(func(o *TuneObservation) { o.SLOHeld = o.Run.Procs != 2 || o.Run.Block <= 3 }),
		0, Trade, Worsens, 4, func(v TuneVerdict) bool { return v.WorseIn == SLO && v.Held[1] < v.Held[0] },
	},
	{
		"nothing holds the SLO", two, goodRun.but(func(o *TuneObservation) { o.SLOHeld = false }), 0, Keep, NoneBetter, 4,
		func(v TuneVerdict) bool { return v.NoneOK && v.Broke == v.BrokeOf },
	},
	{"one candidate", TuneConfig{Current: 1, GoDefault: 1, Candidates: []int{1, 1}}, goodRun, 0, Keep, Alone, 1, nil},
	{
		"the program dies as it is, and with all others",
		TuneConfig{Current: 4, GoDefault: 1, Candidates: []int{2, 1}, Exact: true},
		goodRun.but(func(o *TuneObservation) { *o = TuneObservation{Run: o.Run, Failed: "exit status 2"} }), 0, Undecided, Fails, 4,
		func(v TuneVerdict) bool {
			return v.Failure == "exit status 2" && v.Current == is4 && v.Fallen[0].Candidate == is4 && !v.Stands
		},
	},
	{
		"the program dies as it is, and one is left", two, failing(4, 0), 0, Keep, NoneBetter, 2,
		func(v TuneVerdict) bool {
			return v.Stands && v.Current == is2 && v.Others == 0 && v.Runs == 1+firstClaim
		},
	},
	{
		"the program dies as it is, and the others are alike", threeOthers, failing(8, 0), 0, Keep, Leads, 2,
		func(v TuneVerdict) bool { return v.Stands && v.Current == is2 && v.Others == 2 },
	},
	{
		"the program dies as it is, and one of the others is better", threeOthers, failing(8, 0).but(cheaper(1)), 0, Change, Better, 1,
		func(v TuneVerdict) bool {
			return v.Stands && v.Current == is2 && v.Leader.Procs == 1 && v.Basis == CPU && v.Fresh == guardPairs
		},
	},
	{
		"the program dies as it is, and one of the others is a trade", threeOthers, failing(8, 0).but(cheaper(1)).but(func(o *TuneObservation) {
			if o.Run.Procs == 1 {
				o.Tail *= 3
			}
		}), 0, Trade, Worsens, 2,
		func(v TuneVerdict) bool { return v.Stands && v.Leader.Procs == 1 && v.WorseIn == P99 },
	},
	{
		"the program dies as it is, and then with what took its place", threeOthers, func(r TuneRun) TuneObservation {
			if r.Procs == 2 && r.Block >= 3 {
				return TuneObservation{Run: r, Failed: "exit status 3", Killed: true}
			}
			return failing(8, 2)(r)
		}, 0, Keep, NoneBetter, 1,
		func(v TuneVerdict) bool {
			return v.Stands && len(v.Fallen) == 2 && v.Fallen[1] == Fallen{is2, "exit status 3", true} && v.Others == 1
		},
	},
	{
		"the program dies in the guard of a change", two.by(CPU), costing(is2, 0.5, 1).but(func(o *TuneObservation) {
			if o.Run.Procs == 4 && o.Run.Phase == Confirm {
				*o = TuneObservation{Run: o.Run, Failed: "exit status 2"}
			}
		}), 0, Keep, NoneBetter, 2, func(v TuneVerdict) bool { return v.Stands && v.Current == is2 },
	},
	{
		"what was worse than the program as it is takes its place when it dies", threeOthers,
		failing(8, 3).but(func(o *TuneObservation) {
			switch o.Run.Procs {
			case 1:
				o.CPUPerRequest *= 0.9 // it may be a change, so there is a third block
			case 2:
				o.CPUPerRequest *= 2
			}
		}), 0, Change, Better, 1, func(v TuneVerdict) bool { return v.Stands && v.Current == is2 && v.Others == 2 },
	},
	{
		"it is over soon after the program has died as it is", threeOthers, failing(8, 0).but(cheaper(1)), 6, Undecided, NotDone, 2,
		func(v TuneVerdict) bool { return !v.Stands && len(v.Fallen) == 1 },
	},
	{"the program dies with the others", two, failing(2, 0), 0, Keep, NoneBetter, 4, nil},
	{
		"no run is valid", two, func(r TuneRun) TuneObservation { return TuneObservation{Run: r} }, 0, Undecided, Invalid, 4,
		func(v TuneVerdict) bool { return v.Invalid == v.Runs && v.Runs >= 2*attempts },
	},
	{"the declared figure is never known", two.by(Time), goodRun, 0, Undecided, Invalid, 4, nil},
	{"a benchmark without figures", two.batch(), func(r TuneRun) TuneObservation { return TuneObservation{Run: r, Valid: true, SLOHeld: true} }, 0, Undecided, Invalid, 4, nil},
	{
		"a job", two.batch(),
		func(r TuneRun) TuneObservation {
			return TuneObservation{Run: r, Valid: true, SLOHeld: true, Time: float64(r.Procs) * steady(r), CPUPerRequest: 4 * steady(r)}
		},
		0, Change, Better, 2, func(v TuneVerdict) bool { return v.Basis == Time },
	},
	{
		"a job of which only CPU is known", two.batch(),
		func(r TuneRun) TuneObservation {
			return TuneObservation{Run: r, Valid: true, SLOHeld: true, CPUPerRequest: 1e-6 * float64(r.Procs)}
		},
		0, Change, Better, 2, nil,
	},
	{"no block is complete", two, costing(is2, 0.5, 1), 1, Undecided, NothingYet, 4, nil},
	{
		"before the guard", two, costing(is2, 0.5, 1), 4, Undecided, NotDone, 4,
		func(v TuneVerdict) bool { return v.Leader == is2 && v.Blocks == 2 },
	},
	{
		"in the guard", two, costing(is2, 0.5, 1), 7, Undecided, NotDone, 4,
		func(v TuneVerdict) bool { return v.Leader == is2 && v.Effect(CPU).Says == IsBetter },
	},
	{
		"time is over in the guard, and it has led before", two, goodRun.but(func(o *TuneObservation) {
			if o.Run.Procs == 2 {
				o.CPUPerRequest *= []float64{0.75, 0.6, 0.6, 0.6, 0.6, 0.6}[o.Run.Block-1]
			}
		}),
		9, Change, Better, 2,
		func(v TuneVerdict) bool { return v.Blocks == 3 && v.Fresh == guardPairs && v.Pairs == 4 },
	},
	{
		"it fails requests: a trade, and that early", two,
		costing(is2, 0.5, 1).but(func(o *TuneObservation) {
			if o.Run.Procs == 2 {
				o.ErrorShare = 0.005
			}
		}),
		0, Trade, Worsens, 4,
		func(v TuneVerdict) bool { return v.WorseIn == SLO && v.Blocks == firstClaim },
	},
}

// threeOthers are a setting that a program may die with, and three that it survives.
var threeOthers = TuneConfig{Current: 8, GoDefault: 2, Candidates: []int{2, 1, 4}, Exact: true}

// cheaper has a setting take less CPU time.
func cheaper(procs int) func(*TuneObservation) {
	return func(o *TuneObservation) {
		if o.Run.Procs == procs {
			o.CPUPerRequest *= 0.5
		}
	}
}

// failing is a program that dies with a setting, from a block on.
func failing(procs, from int) rule {
	return goodRun.but(func(o *TuneObservation) {
		if o.Run.Procs == procs && o.Run.Block >= from {
			*o = TuneObservation{Run: o.Run, Failed: "exit status 2"}
		}
	})
}

func TestScriptedTunes(t *testing.T) {
	reasons := map[Reason]bool{}
	for _, s := range scriptedTunes {
		t.Run(s.name, func(t *testing.T) {
			v := stopped(t, s.config, s.run, s.after).Verdict()
			if v.Kind != s.kind || v.Reason != s.reason || v.Procs != s.procs || v.GOGC != 0 || v.Done != (s.after == 0) || s.is != nil && !s.is(v) {
				t.Errorf("%s, %s, %d: %+v", v.Kind, v.Reason, v.Procs, v)
			}
			reasons[v.Reason] = true
		})
	}
	if len(reasons) != 13 {
		t.Errorf("these have %d of the 13 reasons: %v", len(reasons), reasons)
	}
}

var update = flag.Bool("update", false, "write the files under testdata again")

// TestVerdictFigures: all that the scripted searches have found. The tests of report make sentences of the same file.
func TestVerdictFigures(t *testing.T) {
	var lines []string
	tell := func(name string, m *Tune) { lines = append(lines, strconv.Quote(name)+": "+figures(t, m.Verdict())) }
	for _, s := range scriptedTunes {
		tell(s.name, stopped(t, s.config, s.run, s.after))
	}
	for _, s := range leverTunes {
		tell(s.name, tune(t, s.of(), s.run))
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

// TestHonestVerdicts are cases in which a search once said what was not so, or nothing where there was something to say.
func TestHonestVerdicts(t *testing.T) {
	three := TuneConfig{Current: 2, GoDefault: 2, Candidates: []int{1, 2, 4}, Exact: true}
	against := TuneConfig{Current: 2, GoDefault: 2, Candidates: []int{1}, Exact: true}
	is1 := Candidate{Procs: 1}
	isNot := func(kinds ...Verdict) func(*testing.T, *Tune) {
		return func(t *testing.T, m *Tune) {
			if v := m.Verdict(); slices.Contains(kinds, v.Kind) {
				t.Errorf("%+v", v)
			}
		}
	}
	one := func(cpu, tail float64, change func(*TuneObservation)) rule {
		return costing(is1, cpu, tail).but(func(o *TuneObservation) {
			if o.Run.Procs == 4 {
				o.CPUPerRequest *= 1.1
			}
			if o.Run.Procs == 1 && change != nil {
				change(o)
			}
		})
	}
	ratios := func(middle float64) func(o *TuneObservation) {
		z := []float64{-1.35, -0.76, -0.35, 0, 0.35, 0.76, 1.35} // the quantiles of seven
		return func(o *TuneObservation) {
			x := middle * math.Exp(0.57*z[3*o.Run.Block%7])
			o.Tail, o.P99 = o.Tail*x, o.P99*x
		}
	}
	for _, c := range []struct {
		name   string
		config TuneConfig
		run    rule
		after  int
		check  func(*testing.T, *Tune)
	}{
		{"void", three, one(0.7, 1, func(o *TuneObservation) { o.Valid = o.Run.Phase != Confirm || o.Run.Block != 4 }), 0, func(t *testing.T, m *Tune) {
			if v := m.Verdict(); v.Kind != Change || v.Fresh != guardPairs || v.Invalid != attempts {
				t.Errorf("%+v", v)
			}
		}},
		{"slo", three.pairs(7), one(0.85, 1, func(o *TuneObservation) { o.SLOHeld = o.Run.Block != 3 && o.Run.Block != 6 }), 0, isNot(Change)},
		{"slo in one block", three.pairs(7), one(0.85, 1, func(o *TuneObservation) { o.SLOHeld = o.Run.Block != 5 }), 0, func(t *testing.T, m *Tune) {
			// In one of ten blocks it may be chance, and is reported.
			if v := m.Verdict(); v.Kind == Change && (v.Pairs < 10 || v.Held != [2]int{v.Pairs, v.Pairs - 1}) {
				t.Errorf("%+v", v)
			}
		}},
		{"errors", three.pairs(7), one(0.85, 1, func(o *TuneObservation) { o.ErrorShare = 0.0095 }), 0, func(t *testing.T, m *Tune) {
			if v := m.Verdict(); v.Kind != Trade || v.WorseIn != SLO || math.Abs(v.Errors[1]-0.0095) > 1e-9 || v.Errors[0] != 0 {
				t.Errorf("%+v", v)
			}
		}},
		{"no slo", three, goodRun.but(func(o *TuneObservation) { o.ErrorShare = 0.02 }), 0, func(t *testing.T, m *Tune) {
			if v := m.Verdict(); v.Kind == Change || !v.NoneOK || math.Abs(v.Errors[0]-0.02) > 1e-9 {
				t.Errorf("%+v", v)
			}
		}},
		{"open tail", against.pairs(7), one(0.88, 1, ratios(1.5)), 0, isNot(Change)},
		{"wide tail", against.pairs(7), one(0.88, 1, ratios(1.04)), 0, isNot(Change)},
		{"wider tail", against.pairs(7), one(0.88, 1, ratios(1.7)), 0, isNot(Change)},
		{"one late", against.pairs(7), one(1, 2.5, func(o *TuneObservation) {
			if o.Run.Block == 3 {
				o.Tail, o.P99 = 0, 0
			}
		}), 0, func(t *testing.T, m *Tune) {
			v, says := m.Verdict(), Says("")
			for _, s := range m.Standings() {
				for _, e := range s.Effects {
					if s.Procs == 1 && e.Metric == P99 {
						says = e.Says
					}
				}
			}
			// That it is within any margin is said of what is not worse only.
			if v.Kind != Keep || v.Rival.Procs != 0 || says != IsWorse {
				t.Errorf("p99 is %q: %+v", says, v)
			}
		}},
		// If two halve CPU time it is not clear which is better, and yet one of them is guarded in time.
		{"budget", TuneConfig{Current: 2, GoDefault: 2, Candidates: []int{1, 2, 4}, Exact: true, Levers: []int{800}}, func(r TuneRun) TuneObservation {
			o := goodRun(r)
			o.CPUPerRequest *= 1 + 10*(steady(r)-1)
			if r.Procs != 2 {
				o.CPUPerRequest *= 0.5
			}
			return o
		}, 25, func(t *testing.T, m *Tune) {
			if v := m.Verdict(); v.Kind != Change || v.Procs == 2 {
				t.Errorf("%+v", v)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := c.run
			if c.after > 0 {
				run = run.room(c.after)
			}
			c.check(t, stopped(t, c.config, run, c.after))
		})
	}
}

// TestTuneGuard: a change rests on fresh pairs that all agree, and a leader that fails in them twice is none.
func TestTuneGuard(t *testing.T) {
	cheaper := costing(is2, 0.8, 1)
	refuted := cheaper.but(func(o *TuneObservation) {
		if o.Run.Phase == Confirm && o.Run.Procs == 2 {
			o.CPUPerRequest *= 1.5
		}
	})
	count := func(m *Tune) (pairs int, fresh map[int]int) {
		fresh = map[int]int{}
		for _, o := range m.Seen() {
			if o.Run.Phase == Confirm && o.Valid {
				fresh[o.Run.Block]++
			}
		}
		return len(fresh), fresh
	}
	m := tune(t, two, cheaper)
	if n, _ := count(m); n != guardPairs || m.Verdict().Kind != Change || m.Verdict().Fresh != n || m.Verdict().Runs != 2*(firstLook+guardPairs) {
		t.Errorf("guarded by %d pairs: %+v", n, m.Verdict())
	}
	m = tune(t, two.pairs(9), cheaper)
	if v := m.Verdict(); v.Kind != Change || v.Pairs != 9 {
		t.Errorf("with 9 pairs: %+v", v)
	}
	m = tune(t, two, refuted)
	if n, _ := count(m); n > mostGuards*guardPairs || m.guards != mostGuards || m.Verdict().Kind == Change || !m.Verdict().Done {
		t.Errorf("%d pairs, %d guards: %+v", n, m.guards, m.Verdict())
	}
	// All fresh pairs count. One that disagrees requires twice as many, and is reported; far from the others it makes them less sure as
	// well.
	for block, want := range map[int][2]int{12: {9, 10}, 4: {6, 7}} {
		pairs := 0
		if block == 12 {
			pairs = 12
		}
		m = tune(t, two.pairs(pairs), cheaper.but(func(o *TuneObservation) {
			if o.Run.Procs == 2 && o.Run.Block == block {
				o.CPUPerRequest *= 1.27
			}
		}))
		if v := m.Verdict(); v.Kind != Change || [2]int{v.Agreed, v.Fresh} != want || m.guards != 0 {
			t.Errorf("block %d, %d guards: %+v", block, m.guards, v)
		}
	}
	// Missing evidence isn't a failure: the tail of the fresh pairs is not known, and then it is.
	m = tune(t, two, costing(is2, 1, 0.5).but(func(o *TuneObservation) { o.Disturbed = o.Run.Phase == Confirm && o.Run.Block < 5 }))
	if v := m.Verdict(); v.Kind != Change || v.Basis != P99 || v.Fresh != guardPairs || v.Disturbed == 0 || m.guards != 0 {
		t.Errorf("%d guards: %+v", m.guards, v)
	}
	// A void pair is repeated, whichever of the two is void, and a setting that is void twice is out.
	for procs, kind := range map[int]Verdict{2: Change, 4: Change, 0: Keep} {
		m = tune(t, two, cheaper.but(func(o *TuneObservation) {
			fresh := o.Run.Phase == Confirm
			o.Valid = !fresh || o.Run.Procs != procs || o.Run.Block != 4
			if procs == 0 && fresh && o.Run.Procs == 2 {
				o.Valid = false
			}
		}))
		v := m.Verdict()
		_, fresh := count(m)
		whole := 0
		for _, n := range fresh {
			whole += n / 2
		}
		if v.Kind != kind || kind == Change && (v.Fresh != guardPairs || whole != guardPairs) {
			t.Errorf("GOMAXPROCS=%d is void: %d whole pairs, %+v", procs, whole, v)
		}
		if d := m.arm(is2).dropped; procs == 0 && (d == nil || d.Reason != NoValidRun) {
			t.Errorf("dropped: %+v", d)
		}
	}
	// The program dies in the guard: what was only worse than that setting is in the race again.
	m = tune(t, TuneConfig{Current: 4, Candidates: []int{1, 2}, Exact: true}, func(r TuneRun) TuneObservation {
		o := cheaper(r)
		if r.Procs == 1 {
			if o.CPUPerRequest *= 0.5; r.Phase == Confirm {
				o.Failed = "killed"
			}
		}
		return o
	})
	if v := m.Verdict(); v.Kind != Change || v.Procs != 2 {
		t.Errorf("%+v", v)
	}
}

// TestTuneRoom: in any amount of time, a change that shows early is guarded, no useless run is asked for, and the leader gets the time that
// is left.
func TestTuneRoom(t *testing.T) {
	config := TuneConfig{Current: 2, GoDefault: 2, Candidates: []int{1, 2, 4, 8}, Exact: true}
	half := costing(Candidate{Procs: 1}, 0.5, 1)
	for room := 9; room <= 40; room++ { // two blocks of four and a run: less shows nothing
		m := stopped(t, config, half.room(room), room)
		if v := m.Verdict(); v.Runs > room || room >= 12 && v.Kind != Change {
			t.Errorf("room for %d: %+v", room, v)
		}
	}
	// Nothing is shown after three blocks but that 3 is out, and there is no time for all of the others: it is the leader's.
	for room, want := range map[int][]int{2: {1, 2}, 3: {1, 2, 4}, 0: {1, 2, 4}} {
		m := raced(t, 4, firstClaim, func(procs, block int, o *TuneObservation) bool {
			o.CPUPerRequest = 1 + 0.5*float64((block*procs*procs)%5)
			if procs == 2 {
				o.CPUPerRequest *= 0.7
			}
			return true
		})
		m.room, m.order, m.refined = room, nil, true
		m.endBlock()
		var got []int
		for _, c := range m.order {
			got = append(got, c.Procs)
		}
		if slices.Sort(got); !slices.Equal(got, want) || m.phase != Race {
			t.Errorf("room for %d: in %s %v run, want %v", room, m.phase, got, want)
		}
	}
}

// TestTuneOrder: every block has every candidate that is left once, with one seed; the middles of the gaps next to the leader join; guards
// have seeds of their own.
func TestTuneOrder(t *testing.T) {
	config := TuneConfig{Current: 8, GoDefault: 2, Candidates: []int{8, 2, 1, 4}, Objective: CPU, Pairs: 8, Seed: 3}
	m := tune(t, config, func(r TuneRun) TuneObservation {
		o := goodRun(r)
		o.CPUPerRequest *= 1 + 0.06*math.Abs(float64(r.Procs-4)) // 4 is best, 3 and 5 or 6 are near
		return o
	})
	blocks, seeds, orders := map[int][]int{}, map[uint64]int{}, map[string]bool{}
	for _, o := range m.Seen() {
		r := o.Run
		blocks[r.Block] = append(blocks[r.Block], r.Procs)
		if other, ok := seeds[r.Seed]; ok && other != r.Block || r.Seed >= 1<<53 {
			t.Errorf("blocks %d and %d have the same arrivals", other, r.Block)
		}
		seeds[r.Seed] = r.Block
	}
	if len(seeds) != len(blocks) {
		t.Error("a block has more than one seed")
	}
	joined := false
	for b := 1; b <= len(blocks); b++ {
		got := slices.Sorted(slices.Values(blocks[b]))
		if !slices.Contains(got, 8) || len(slices.Compact(got)) != len(blocks[b]) || b <= 2 && !slices.Equal(got, []int{1, 2, 4, 8}) {
			t.Errorf("block %d has %v", b, got)
		}
		joined = joined || slices.Contains(got, 3) && slices.Contains(got, 6)
		if len(got) == 2 {
			orders[strconv.FormatBool(blocks[b][0] == 8)] = true
		}
	}
	if v := m.Verdict(); !joined || v.Kind != Change || v.Procs != 4 || v.Pairs < 8 {
		t.Errorf("%v: %+v", blocks, v)
	}
	if len(orders) != 2 {
		t.Error("one of a pair is always the first")
	}
	for _, o := range tune(t, TuneConfig{Current: 8, Candidates: []int{2, 1, 4}, Exact: true, Objective: CPU}, costing(is4, 0.6, 1)).Seen() {
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
			t.Errorf("%+v: %+v", c, v)
		}
	}
}

// A worth multiplies CPU per request, by setting.
type worth map[int]float64

// leverRun is a run of which the CPU per request is multiplied by what its GOMAXPROCS and its GOGC are worth.
func leverRun(procs, gogc worth) rule {
	return func(r TuneRun) TuneObservation {
		o := goodRun(r)
		o.CPUPerRequest *= cmp.Or(procs[r.Procs], 1) * cmp.Or(gogc[r.GOGC], 1)
		return o
	}
}

// A leverTune is a program with another lever besides GOMAXPROCS.
type leverTune struct {
	name     string
	config   func(*TuneConfig)
	run      rule
	want     Candidate // that is advised, or kept
	combined bool
}

func (l leverTune) of() TuneConfig {
	c := TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{1, 2}, Exact: true, Levers: []int{200, 800}, Objective: CPU}
	if l.config != nil {
		l.config(&c)
	}
	return c
}

var leverTunes = []leverTune{
	{"the lever alone is best", nil, leverRun(worth{1: 1.2, 2: 1.1}, worth{200: 0.9, 800: 0.7}), Candidate{Procs: 4, GOGC: 800}, false},
	{"GOMAXPROCS is best", nil, leverRun(worth{2: 0.8}, worth{200: 1.1, 800: 1.2}), Candidate{Procs: 2, GOGC: 0}, false},
	{"both add up", nil, leverRun(worth{1: 0.6, 2: 0.8}, worth{200: 0.9, 800: 0.7}), Candidate{Procs: 1, GOGC: 800}, true},
	{"both are the same gain", nil, leverRun(worth{1: 0.6}, nil).but(func(o *TuneObservation) {
		if o.Run.GOGC == 800 {
			o.CPUPerRequest = 0.0005 * steady(o.Run)
		}
	}), Candidate{Procs: 4, GOGC: 800}, true},
	{"the lever is worth less than GOMAXPROCS, and nothing beside it", nil, leverRun(worth{1: 0.5}, worth{800: 0.8}).but(func(o *TuneObservation) {
		if o.Run.Procs == 1 {
			o.CPUPerRequest = 0.0005 * steady(o.Run)
		}
	}), Candidate{Procs: 1, GOGC: 0}, true},
	{"nothing makes a difference", nil, goodRun, Candidate{Procs: 4, GOGC: 0}, false},
	{"the program dies with the best lever", nil, leverRun(worth{1: 0.6}, worth{200: 0.9, 800: 0.5}).but(func(o *TuneObservation) {
		if o.Run.GOGC == 800 {
			o.Failed = "out of memory"
		}
	}), Candidate{Procs: 1, GOGC: 200}, true},
	{"the program dies with the combination, in the guard", nil, leverRun(worth{1: 0.6}, worth{800: 0.5}).but(func(o *TuneObservation) {
		if o.Run.Phase == Confirm && o.Run.Procs == 1 {
			o.Failed = "out of memory"
		}
	}), Candidate{Procs: 4, GOGC: 800}, true},
	{"the lever breaks the SLO", nil, leverRun(worth{1: 0.6}, worth{800: 0.5}).but(func(o *TuneObservation) {
		o.SLOHeld = o.Run.GOGC != 800
	}), Candidate{Procs: 1, GOGC: 0}, false},
	{
		"the lever that makes the tail worse is not combined",
		func(c *TuneConfig) { c.Objective = Auto },
		leverRun(worth{1: 0.6}, worth{800: 0.5}).but(func(o *TuneObservation) {
			if o.Run.GOGC == 800 {
				o.Tail *= 2
			}
		}),
		Candidate{Procs: 1, GOGC: 0},
		false,
	},
	{"GOMAXPROCS to Go's default", func(c *TuneConfig) { c.GoDefault = 1 }, leverRun(worth{1: 0.6}, worth{800: 0.7}), Candidate{Procs: 1, GOGC: 800}, true},
	{"no blocks are left for the combination", func(c *TuneConfig) { c.MaxBlocks = 4 }, leverRun(worth{1: 0.6}, worth{800: 0.7}), Candidate{Procs: 1, GOGC: 0}, false},
	{"no time is left for the combination", nil, leverRun(worth{1: 0.6}, worth{800: 0.7}).but(func(o *TuneObservation) {
		o.Room = 12 // it wants three blocks of three, and the guard
	}), Candidate{Procs: 1, GOGC: 0}, false},
}

// TestTuneLevers: GOGC alone, alongside other GOMAXPROCS, and together with them.
func TestTuneLevers(t *testing.T) {
	for _, c := range leverTunes {
		t.Run(c.name, func(t *testing.T) {
			config := c.of()
			m := tune(t, config, c.run)
			v := m.Verdict()
			if got := (Candidate{Procs: v.Procs, GOGC: v.GOGC}); got != c.want || (v.Kind == Change) != (c.want != v.Current) || v.Kind != Change && v.Kind != Keep {
				t.Errorf("%s, %s, %+v", v.Kind, v.Reason, got)
			}
			if m.combined != c.combined {
				t.Errorf("combined: %v", m.combined)
			}
			for _, s := range m.Standings() {
				both := s.Procs != config.Current && s.GOGC != 0
				if both && !c.combined || both && m.arm(Candidate{Procs: s.Procs, GOGC: 0}) == nil || both && m.arm(Candidate{Procs: config.Current, GOGC: s.GOGC}) == nil {
					t.Errorf("%+v was tried", s.Candidate)
				}
			}
			for _, l := range v.Levers {
				if l.Candidate == v.Leader || l.Ratio >= 0.96 || l.Procs != config.Current && l.GOGC != 0 {
					t.Errorf("beside %+v it tells %+v", v.Leader, l)
				}
			}
			if both := c.want.GOGC != 0 && c.want.Procs != config.Current; both && len(v.Levers) != 2 {
				t.Errorf("each alone: %+v", v.Levers)
			}
		})
	}
}

// TestTuneMemory: a setting that comes near to the memory limit, or whose collections take much more, is neither advised nor a trade,
// whatever it saves.
func TestTuneMemory(t *testing.T) {
	lever := Candidate{Procs: 2, GOGC: 400}
	// What is with the current setting, and with the lever, which saves a third of the CPU.
	for name, c := range map[string]struct {
		before, after         float64 // share of the limit at the peak
		collected, collecting float64
		but                   func(*TuneObservation)
		want                  DropReason
	}{
		"room":                   {before: 0.5, after: 0.78},
		"not known":              {},
		"not known of the other": {after: 0.9},
		"near to the limit":      {before: 0.5, after: 0.82, want: TooFull},
		"as it was":              {before: 0.8, after: 0.85}, // files fill what is free
		"in one run":             {before: 0.5, after: 0.6, but: func(o *TuneObservation) { o.Memory += 0.3 * float64(o.Run.Block/3%2) }, want: TooFull},
		"in a disturbed run": {before: 0.5, after: 0.6, but: func(o *TuneObservation) {
			o.Memory, o.Disturbed = o.Memory+0.3*float64(o.Run.Block/3%2), o.Run.Block/3 == 1
		}},
		"more collections":              {collected: 0.05, collecting: 0.16, want: Collects},
		"some more collections":         {collected: 0.2, collecting: 0.29},
		"more collections in one block": {collected: 0.05, collecting: 0.05, but: func(o *TuneObservation) { o.Collecting += 0.5 * float64(o.Run.Block/2%2) * float64(o.Run.Block%2) }},
	} {
		t.Run(name, func(t *testing.T) {
			config := TuneConfig{Current: 2, GoDefault: 2, Candidates: []int{1, 4}, Levers: []int{400}, Exact: true}
			m := tune(t, config, costing(lever, 0.66, 1).but(func(o *TuneObservation) {
				o.Memory, o.Collecting = c.before, c.collected
				if o.Run.GOGC == 400 {
					o.Memory, o.Collecting = c.after, c.collecting
					if c.but != nil {
						c.but(o)
					}
				}
			}))
			v := m.Verdict()
			if changed := v.Kind == Change && v.GOGC == 400; changed != (c.want == "") || c.want != "" && v.Kind != Keep {
				t.Errorf("%s, %s: %+v", v.Kind, v.Reason, v.Leader)
			}
			for _, s := range m.Standings() {
				switch {
				case s.GOGC == 400 && s.Procs != 2 && c.want != "":
					t.Errorf("%+v was tried", s.Candidate)
				case s.Candidate == lever && c.want != "" && (s.Dropped == nil || s.Dropped.Reason != c.want):
					t.Errorf("dropped %+v", s.Dropped)
				}
			}
		})
	}
}

// TestTuneNoTrade: what is worse in everything, where few pairs don't end a race, isn't a trade.
func TestTuneNoTrade(t *testing.T) {
	config := TuneConfig{Current: 2, GoDefault: 2, Candidates: []int{1, 4}, Exact: true, Patience: 10}
	v := tune(t, config, costing(Candidate{Procs: 4}, 2, 3).but(func(o *TuneObservation) {
		if o.Run.Procs == 1 {
			o.CPUPerRequest *= 0.7
			o.Tail *= 3
		}
	}))
	for _, s := range v.Standings() {
		want := map[int]DropReason{1: IsTrade, 4: Worse}[s.Procs]
		if want != "" && (s.Dropped == nil || s.Dropped.Reason != want || s.Dropped.After >= config.Patience) {
			t.Errorf("%d: %+v, want %s", s.Procs, s.Dropped, want)
		}
	}
}

// TestTuneVaried: what the user varies is tried alone, and together with a GOMAXPROCS and a GOGC that are better as well.
func TestTuneVaried(t *testing.T) {
	gains := func(procs, gogc, vary float64) rule {
		return goodRun.but(func(o *TuneObservation) {
			if o.Run.Procs == 1 {
				o.CPUPerRequest *= procs
			}
			if o.Run.GOGC == 800 {
				o.CPUPerRequest *= gogc
			}
			if o.Run.Vary == 2 {
				o.CPUPerRequest *= vary
			}
		})
	}
	for _, c := range []struct {
		name   string
		config TuneConfig
		run    rule
		want   Candidate
		levers int
	}{
		{"alone", TuneConfig{Varied: 3, Exact: true}, gains(1, 1, 0.7), Candidate{4, 0, 2}, 0},
		{"none is better", TuneConfig{Varied: 3, Exact: true}, goodRun, Candidate{4, 0, 0}, 0},
		{"with a GOMAXPROCS", TuneConfig{Varied: 2, Candidates: []int{1, 2}, Exact: true}, gains(0.7, 1, 0.7), Candidate{1, 0, 2}, 2},
		{"with a GOGC", TuneConfig{Varied: 2, Levers: []int{800}, Exact: true}, gains(1, 0.7, 0.7), Candidate{4, 800, 2}, 2},
		{"with both", TuneConfig{Varied: 2, Candidates: []int{1, 2}, Levers: []int{800}, Exact: true}, gains(0.7, 0.7, 0.7), Candidate{1, 800, 2}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Current, c.config.GoDefault, c.config.Objective = 4, 4, CPU
			v := tune(t, c.config, c.run).Verdict()
			if got := (Candidate{v.Procs, v.GOGC, v.Vary}); got != c.want || v.Leader != c.want || len(v.Levers) != c.levers {
				t.Errorf("%s, %s: %+v, each alone %+v", v.Kind, v.Reason, got, v.Levers)
			}
		})
	}
	if _, err := NewTune(TuneConfig{Current: 1, Varied: -1}); err == nil {
		t.Error("less than nothing is varied")
	}
}

// TestTuneRefine: what joins lies between the leader and its neighbours, among those without a GOGC, where it can be distinguished.
func TestTuneRefine(t *testing.T) {
	wide := TuneConfig{Current: 64, GoDefault: 64, Candidates: []int{1, 8}, Levers: []int{800}, Objective: CPU}
	for _, c := range []struct {
		name string
		run  rule
		want []int // that were run
	}{
		{"8 leads", leverRun(worth{1: 1.5, 8: 0.6}, nil), []int{1, 3, 8, 23, 64}},
		{"the current setting leads", leverRun(worth{1: 1.5, 8: 1.5}, nil), []int{1, 8, 64}},
		{"the lever leads", leverRun(worth{1: 1.5, 8: 1.5}, worth{800: 0.5}), []int{1, 8, 64}},
		{"the noise is too much", leverRun(worth{1: 1.5, 8: 0.3}, nil).but(func(o *TuneObservation) {
			o.CPUPerRequest *= 1 + 0.5*float64((o.Run.Block+o.Run.Procs)%2)
		}), []int{1, 8, 64}},
	} {
		var got []int
		for _, o := range tune(t, wide, c.run).Seen() {
			got = append(got, o.Run.Procs)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestTuneStandings: the leader first, those dropped last; the ratios are those of blocks, and cost is not turned round.
func TestTuneStandings(t *testing.T) {
	config := TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{1, 2, 3}, Exact: true, Levers: []int{800, 400}, Objective: CPU}
	run := leverRun(worth{1: 3, 2: 0.9, 3: 0.96}, worth{800: 0.8}).but(func(o *TuneObservation) {
		o.CPUPerRequest *= math.Exp(float64(o.Run.Block)) // what a block does to all of them cancels out
		switch o.Run.Candidate() {
		case Candidate{Procs: 4, GOGC: 0}:
			o.Throttled = 0.5
		case Candidate{Procs: 3, GOGC: 0}:
			o.SLOHeld = o.Run.Block != 2
			o.Throughput /= 2
		case Candidate{Procs: 4, GOGC: 400}:
			o.Failed = "no such thing"
		}
	})
	m, err := NewTune(config)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Standings(); len(got) != 6 || !got[0].Current || got[0].Effects != nil || got[0].Front || len(m.Noise()) != 0 {
		t.Errorf("at the start: %+v, noise %v", got, m.Noise())
	}
	m = stopped(t, config, run, 11) // two blocks of six, and one that fails at once
	got := m.Standings()
	var order []Candidate
	for _, s := range got {
		order = append(order, s.Candidate)
	}
	// 20 % less than the current setting; the combination has joined, and not run yet. GOGC=400 has failed in block 1, and after
	// the second block the others can no longer be better than the leader.
	if want := []Candidate{{4, 800, 0}, {4, 0, 0}, {2, 800, 0}, {3, 0, 0}, {2, 0, 0}, {1, 0, 0}, {4, 400, 0}}; !slices.Equal(order, want) {
		t.Fatalf("%v, want %v", order, want)
	}
	of := func(c Candidate) Standing { return got[slices.Index(order, c)] }
	if s := of(Candidate{Procs: 3, GOGC: 0}); s.Runs != 2 || s.Broken != 1 || s.Pairs != 2 || s.Current || s.Dropped == nil || s.Front {
		t.Errorf("%#v", s)
	}
	if s := of(Candidate{Procs: 4, GOGC: 400}); s.Runs != 0 || s.Effects != nil || *s.Dropped != (Drop{Reason: ProgramFails, After: 1, Failure: "no such thing"}) {
		t.Errorf("%#v", s)
	}
	if !got[0].Front || of(Candidate{Procs: 2, GOGC: 0}).Front || !of(is4).Current {
		t.Errorf("%#v", got)
	}
	effect := func(c Candidate, m Metric) Effect {
		s := of(c)
		for _, e := range s.Effects {
			if e.Metric == m {
				return e
			}
		}
		t.Fatalf("%s of %s is not known", m, c)
		return Effect{}
	}
	if e := effect(Candidate{Procs: 3, GOGC: 0}, Throughput); e.From != 500 || e.To != 250 || math.Abs(e.Ratio-0.5) > 1e-9 || math.Abs(e.Lo-0.5) > 1e-9 || math.Abs(e.Hi-0.5) > 1e-9 {
		t.Errorf("%+v", e)
	}
	if e := effect(is4, CPU); e.Ratio != 1 || e.Lo != 0 || e.Hi != 0 || e.Says != "" {
		t.Errorf("the current setting: %+v", e)
	}
	for c, want := range map[Candidate]float64{{4, 0, 0}: 0.5, {4, 800, 0}: 0} { // no throttling is a figure as well
		if e := effect(c, Throttled); e.To != want || e.Ratio != 0 {
			t.Errorf("%s: %+v", c, e)
		}
	}
}

// TestTuneFront: a setting is in front as long as no other is better in both.
func TestTuneFront(t *testing.T) {
	config := TuneConfig{Current: 4, Candidates: []int{1, 2, 3}, Exact: true}
	m := stopped(t, config, func(r TuneRun) TuneObservation {
		o := goodRun(r)
		o.CPUPerRequest *= map[int]float64{1: 0.5, 2: 0.7, 3: 1.3, 4: 1}[r.Procs]
		o.Tail *= map[int]float64{1: 3, 2: 1.5, 3: 1.3, 4: 1}[r.Procs]
		return o
	}, 8)
	for _, s := range m.Standings() {
		if s.Front != (s.Procs != 3) {
			t.Errorf("%s: %v", s.Candidate, s.Front)
		}
	}
}

func TestTuneDrops(t *testing.T) {
	m := tune(t, TuneConfig{Current: 4, GoDefault: 4, Candidates: []int{1, 2, 3, 5, 6}, Exact: true}, func(r TuneRun) TuneObservation {
		o := goodRun(r)
		switch r.Procs {
		case 1:
			o.SLOHeld = false
			o.CPUPerRequest /= 2
		case 2:
			o.CPUPerRequest *= 1.5
		case 3:
			o.Failed = "out of memory"
		case 5:
			o.Valid = false
		case 6:
			o.Tail *= 3
			o.CPUPerRequest /= 2
		}
		return o
	})
	want := map[Candidate]Drop{
		{1, 0, 0}: {Reason: BreaksSLO, After: 3, Blocks: 3, Against: is4},
		{2, 0, 0}: {Reason: Worse, After: 2, Blocks: 2, Against: is4, Metric: CPU, Ratio: 1.5},
		{3, 0, 0}: {Reason: ProgramFails, After: 1, Failure: "out of memory"},
		{5, 0, 0}: {Reason: NoValidRun, After: 2, Blocks: 2},
		{6, 0, 0}: {Reason: IsTrade, After: 3, Blocks: 3, Against: is4, Metric: P99, Ratio: 3},
	}
	got := map[Candidate]Drop{}
	for _, s := range m.Standings() {
		if d := s.Dropped; d != nil {
			rounded := *d
			rounded.Ratio = math.Round(10*d.Ratio) / 10
			got[s.Candidate] = rounded
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%#v", got)
	}
	// What was dropped as a trade is reported as one; what always breaks the SLO isn't one.
	if v := m.Verdict(); v.Kind != Trade || v.Reason != Worsens || v.Leader.Procs != 6 || v.Invalid != 2*attempts {
		t.Errorf("%+v", v)
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
		{Current: 1, Objective: Pooled},
		{Current: 1, Objective: SLO},
		{Current: 1, Margin: math.NaN()},
		{Current: 1, Margin: -0.1},
		{Current: 1, TailMargin: math.Inf(1)},
		{Current: 1, TailMargin: -1},
		{Current: 1, Pairs: -1},
		{Current: 1, Pairs: 1001},
		{Current: 1, MaxBlocks: 2},
		{Current: 1, MaxErrors: 2},
		{Current: 1, Patience: -1},
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
// advises a change that was not guarded.
func TestTuneReplay(t *testing.T) {
	for _, c := range []struct {
		lever bool
		room  int // runs in all; 0: any number
	}{{false, 0}, {true, 0}, {true, 40}} {
		p := programOf(rand.New(rand.NewPCG(8, 8)), shapes[1], math.Log(1.3), false)
		p.invalid = 0.1
		if c.lever {
			p.withLever(math.Log(1.3), 2)
		}
		config := TuneConfig{Current: p.current, GoDefault: p.goDefault, Candidates: p.candidates, Levers: p.levers, Seed: 5}
		m, err := NewTune(config)
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; ; n++ {
			run, more := sameAgain(t, config, m)
			if !more || n == c.room {
				break
			}
			o := p.run(run)
			o.Room = max(0, c.room-n)
			if err := m.Observe(o); err != nil {
				t.Fatal(err)
			}
		}
		if v := m.Verdict(); v.Kind != Change || c.lever && c.room == 0 && !m.combined {
			t.Errorf("%+v: %+v", c, v)
		}
	}
}

// sameAgain replays a search and compares all that it says.
func sameAgain(t *testing.T, c TuneConfig, m *Tune) (TuneRun, bool) {
	t.Helper()
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
	}
	if v.Done == ok || ok && v.Kind == Change && (v.Fresh < guardPairs || v.Pairs < firstLook+guardPairs) {
		t.Fatalf("after %d runs: %+v", len(seen), v)
	}
	if s := m.Standings(); !reflect.DeepEqual(s, again.Standings()) {
		t.Fatalf("%#v, replayed %#v; the leader is %s", s, again.Standings(), v.Leader)
	}
	if !reflect.DeepEqual(m.Noise(), again.Noise()) {
		t.Fatalf("noise %v, replayed %v", m.Noise(), again.Noise())
	}
	return run, ok
}

// TestTuneLeft: the runs that are left are never more than was said, and the guess is of the right order.
func TestTuneLeft(t *testing.T) {
	for _, c := range []TuneConfig{
		{Current: 8, GoDefault: 2, Candidates: []int{8, 2, 1, 4}},
		{Current: 8, GoDefault: 2, Candidates: []int{8, 2, 1, 4}, Levers: []int{800}},
		{Current: 8, GoDefault: 2, Candidates: []int{8, 2, 1, 4}, Pairs: 12},
	} {
		run := leverRun(nil, worth{800: 0.7}).but(func(o *TuneObservation) { o.CPUPerRequest *= math.Sqrt(float64(o.Run.Procs)) })
		all := len(tune(t, c, run).Seen())
		m, _ := NewTune(c)
		for n := 0; ; n++ {
			likely, most := m.Left()
			if all-n > most || likely > most || math.Abs(float64(likely-(all-n))) > 14 {
				t.Errorf("%+v: after %d of %d runs %d to %d are said to be left", c, n, all, likely, most)
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

// FuzzTune: whatever is observed, the search ends within a bounded number of runs, and its verdict can be read and saved.
func FuzzTune(f *testing.F) {
	f.Add(uint64(1), uint8(0), 4, 2, 0, 0, 0, []byte{0})
	f.Add(uint64(2), uint8(1), 8, 2, 40, 6, 800, []byte{0, 10, 20, 30, 40, 250, 251, 252, 253, 254, 255})
	f.Add(uint64(3), uint8(2), 1, 3, 0, 20, 1, []byte{100, 101, 99, 98, 250, 97})
	f.Add(uint64(4), uint8(3), 64, 6, 7, 0, 400, []byte{253, 1, 2, 3})
	f.Add(uint64(5), uint8(4), 3, 6, 0, 0, 100000, []byte{254, 90, 91, 92, 93})
	f.Add(uint64(6), uint8(0), 2, 2, 0, 3, 0, []byte{1, 1, 1, 1, 1, 1, 1, 1, 255, 255, 255})
	f.Fuzz(func(t *testing.T, seed uint64, objective uint8, current, limit, room, pairs, lever int, script []byte) {
		objectives := append([]Metric{Auto}, deciding...)
		c := TuneConfig{
			Current: current, GoDefault: limit, Candidates: Candidates(float64(limit%1000), 64, 0, limit%1000), Seed: seed,
			Objective: objectives[int(objective)%len(objectives)], Pairs: pairs,
		}
		if lever != 0 {
			c.Levers = []int{lever, 200}
		}
		m, err := NewTune(c)
		if err != nil || len(script) == 0 || pairs > 50 { // a thousand would take all of the time
			t.Skip()
		}
		// Eleven GOMAXPROCS at most, two next to the leader, two GOGC and one of both together, and the guards, with pairs that were void;
		// each with three attempts.
		most := attempts * (16*usualBlocks + 2*mostGuards*(max(guardPairs, pairs)+2*mostVoid))
		for n := 0; ; n++ {
			v := m.Verdict()
			saved, err := json.Marshal(v)
			if err != nil || v.Reason == "" { // NaN and infinity can't be saved
				t.Fatalf("%v %+v", err, v)
			}
			if v.Kind == Change != (Candidate{Procs: v.Procs, GOGC: v.GOGC} != v.Current) || v.Kind == Change && (v.Fresh < guardPairs || v.Leader == v.Current) {
				t.Fatalf("%s", saved)
			}
			if v.Kind == Trade && (v.Leader == v.Current || v.Basis == "" || v.WorseIn == "" || v.Basis == v.WorseIn) {
				t.Fatalf("%s", saved)
			}
			checkStandings(t, m, v)
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
			if n > most {
				t.Fatalf("no end after %d runs", n)
			}
			b := script[(n*31+r.Procs+r.GOGC%1000)%len(script)]
			x := math.Exp(float64(b)/20 - 6)
			o := TuneObservation{Run: r, Valid: b%16 != 15, SLOHeld: b%8 != 7, Tail: x, P99: 2 * x, CPUPerRequest: x * x, Throughput: 1 / x, Time: x}
			if room > 0 {
				o.Room = max(1, room-n)
			}
			switch b {
			case 250:
				o.Tail, o.P99, o.CPUPerRequest, o.Throughput, o.Time = 0, 0, 0, 0, 0
			case 251:
				o.Tail, o.P99, o.CPUPerRequest, o.Throughput, o.Time = math.NaN(), math.NaN(), math.Inf(1), -1, 1e-300
				o.Throttled, o.ErrorShare = math.NaN(), math.Inf(1)
			case 252:
				o.Tail, o.Throughput, o.Time = 1e300, 1e12, 1e12
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

// checkStandings: every candidate has one; it can be saved; and noise is a number.
func checkStandings(t *testing.T, m *Tune, v TuneVerdict) {
	standings := m.Standings()
	if saved, err := json.Marshal(standings); err != nil || len(standings) != len(m.arms) {
		t.Fatalf("%v %s; the leader is %s", err, saved, v.Leader)
	}
	if v.Kind == Change && standings[0].Candidate != v.Leader {
		t.Fatalf("%s is advised, and %s is the first", v.Leader, standings[0].Candidate)
	}
	seen := map[Candidate]bool{}
	for i, s := range standings {
		if seen[s.Candidate] || s.Current != (s.Candidate == v.Current) || s.Broken > s.Runs || s.Pairs > s.Runs || i > 1 && s.Dropped == nil && standings[i-1].Dropped != nil {
			t.Fatalf("%#v", standings)
		}
		seen[s.Candidate] = true
		for _, e := range s.Effects {
			if !(e.Lo <= e.Ratio*(1+1e-9)) || e.Hi != 0 && e.Hi*(1+1e-9) < e.Ratio || e.To < 0 {
				t.Fatalf("%s: %+v", s.Candidate, e)
			}
		}
	}
	for metric, n := range m.Noise() {
		if !(n.SD > 0 && n.Low < n.SD && n.SD < n.High && n.High < 1e3) {
			t.Fatalf("noise of %s is %v", metric, n)
		}
	}
}

// TestTuneBesideNeighbours: the tails of a real tune, in milliseconds, with what its runs noted. GOMAXPROCS=1 is truly worse by 77 %; the
// runs of the first two blocks, alongside other programs, once led to advising it.
func TestTuneBesideNeighbours(t *testing.T) {
	tails := map[int][]float64{
		2: {19.25, 34.11, 5.07, 3.01, 2.57, 3.93, 5.98, 6.17},
		1: {3.08, 4.12, 5.02, 2.96, 4.05, 4.79, 5.67, 4.23},
		4: {4.63, 2.08, 3.89, 2.67, 1.97, 1.92, 2.1, 2},
	}
	disturbed := map[int][]int{2: {1, 2, 3, 7, 8}, 1: {2, 3, 7}, 4: {1, 3}} // others used CPUs, or more than 4 % was stolen
	run := rule(func(r TuneRun) TuneObservation {
		o, i := goodRun(r), (r.Block-1)%8
		o.Tail = tails[r.Procs][i] / 1000
		o.P99 = o.Tail
		o.Disturbed = slices.Contains(disturbed[r.Procs], i+1)
		if r.Procs == 1 {
			o.CPUPerRequest *= 0.89
		}
		return o
	})
	config := TuneConfig{Current: 2, GoDefault: 2, Candidates: []int{1, 2, 4}, Exact: true}
	for _, runs := range []int{9, 12, 15, 18, 20, 22, 24} {
		v := stopped(t, config, run.room(runs), runs).Verdict()
		if v.Kind != Undecided || v.Disturbed == 0 {
			t.Errorf("after %d runs: %+v", runs, v)
		}
	}
}

// TestTuneSLOBesideNeighbours: a run that broke the SLO while something else ran says nothing for the others, nor against its setting.
func TestTuneSLOBesideNeighbours(t *testing.T) {
	unlucky := func(setting int, run rule) rule {
		return run.but(func(o *TuneObservation) {
			o.Disturbed = o.Run.Block%4 != 0
			o.SLOHeld = !o.Disturbed || o.Run.Procs != setting
		})
	}
	if v := tune(t, two, unlucky(4, goodRun)).Verdict(); v.Kind == Change || v.Basis == SLO || v.Broke != 0 || v.BrokeOf >= v.Runs/2 {
		t.Errorf("the current setting: %+v", v)
	}
	v := tune(t, two, unlucky(2, costing(is2, 0.7, 0.7))).Verdict()
	if v.Kind != Change || v.Basis == SLO || v.Held != [2]int{v.HeldOf, v.HeldOf} || v.HeldOf == 0 || v.HeldOf >= v.Pairs {
		t.Errorf("a cheaper one: %+v", v)
	}
}

// TestDrowned: where runs differ so much that no verdict is in sight, three blocks are enough to say so, and what is known is reported.
// Where a difference is as large as the noise, or there is time to see one, the search goes on.
func TestDrowned(t *testing.T) {
	noise := func(sd float64) rule {
		return func(r TuneRun) TuneObservation {
			o := costing(Candidate{Procs: 1}, 0.85, 1)(r)
			random := rand.New(rand.NewPCG(r.Seed, uint64(r.Procs)))
			o.Tail *= math.Exp(sd * random.NormFloat64())
			o.P99 = o.Tail
			return o
		}
	}
	three := TuneConfig{Current: 2, Candidates: []int{1, 4}}
	ended, spent := 0, 0
	for seed := range uint64(50) {
		c := three
		c.Seed = seed
		v := tune(t, c, noise(1.75)).Verdict()
		spent += v.Blocks
		if v.Reason != TooNoisy {
			continue
		}
		ended++
		if v.Kind != Undecided || v.Drowned != P99 || !(v.Noise.SD > 0.8) || v.Procs != 2 {
			t.Errorf("seed %d: %+v", seed, v)
		}
		if e := v.Effect(CPU); v.Leader.Procs == 1 && (e == nil || e.Says != IsBetter || v.Basis != CPU) || v.Leader.Procs == 4 {
			t.Errorf("seed %d: it knows that 1 takes less CPU time: %+v", seed, v)
		}
	}
	if ended < 30 || spent > 50*8 {
		t.Errorf("%d of 50 ended as too noisy, after %d blocks in all", ended, spent)
	}
	for seed := range uint64(50) {
		c := three
		c.Seed = seed
		if v := tune(t, c, noise(0.37)).Verdict(); v.Reason == TooNoisy {
			t.Errorf("seed %d: it gave up at a noise of 37 %%", seed)
		}
		c.MaxBlocks = 400
		if m := stopped(t, c, noise(1.75), 9); m.phase == Done {
			t.Errorf("seed %d: there is time for 400 blocks, and it gave up", seed)
		}
		large := noise(0.9).but(func(o *TuneObservation) {
			if o.Run.Procs == 1 {
				o.Tail, o.P99 = 0.02*o.Tail, 0.02*o.P99
			}
		})
		c.MaxBlocks = 0
		if v := tune(t, c, large).Verdict(); v.Reason == TooNoisy {
			t.Errorf("seed %d: it gave up beside a difference of 50 times", seed)
		}
	}
}

// TestPatience: a setting that looks worse stays for that many pairs. A machine that is slower for a moment is no reason to drop it.
func TestPatience(t *testing.T) {
	slow := costing(Candidate{Procs: 1}, 0.8, 1).but(func(o *TuneObservation) {
		if o.Run.Procs == 1 && o.Run.Block <= 3 {
			o.CPUPerRequest *= 1.3
		}
	})
	for patience, want := range map[int]Verdict{0: Keep, 6: Change} {
		c := TuneConfig{Current: 2, Candidates: []int{1}, Objective: CPU, Patience: patience, MaxBlocks: 60}
		if v := tune(t, c, slow).Verdict(); v.Kind != want {
			t.Errorf("with a patience of %d pairs: %v after %d blocks, want %v", patience, v.Kind, v.Blocks, want)
		}
	}
}
