package report

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

// Programs whose runs follow a rule, and what is said of them is in testdata/tune-words.txt.
var spokenTunes = []struct {
	name   string
	change func(*tune.Study)
	run    func(r *tune.Run) // begins as one of a setting that differs in nothing
	most   int               // runs; 0: all
}{
	{"a change by CPU", nil, costs(1, 0.6, 1), 0},
	{"a change by both", nil, costs(1, 0.29, 0.04), 0},
	{"a change by p99", nil, costs(4, 1.02, 0.4), 0},
	{"a change to Go's default", func(s *tune.Study) { s.Pilot.Procs, s.Pilot.Candidates = 8, []int{2, 4} }, costs(2, 0.7, 0.8), 0},
	{"a trade", nil, costs(1, 0.88, 2.6), 0},
	{"a trade the other way round", nil, costs(4, 1.3, 0.4), 0},
	{"a trade whose tail is open", nil, wide(costs(1, 0.88, 1.2)), 0},
	{"a trade that breaks the SLO at times", func(s *tune.Study) { s.Plan.SLO = "p99=50ms" }, func(r *tune.Run) {
		costs(1, 0.7, 1)(r)
		r.SLOHeld = r.Search.Procs != 1 || r.Search.Block%3 != 0
	}, 0},
	{"a trade that fails requests", nil, func(r *tune.Run) {
		if costs(1, 0.7, 1)(r); r.Search.Procs == 1 {
			r.Metrics["errors-%"] = 0.9
		}
	}, 0},
	{"the SLO lets requests fail", func(s *tune.Study) { s.Plan.SLO = "p99=50ms,errors=5%" }, func(r *tune.Run) {
		costs(1, 0.6, 1)(r)
		r.Metrics["errors-%"] = 3
	}, 0},
	{"requests fail, and no SLO says how many may", nil, func(r *tune.Run) {
		if costs(1, 0.6, 1)(r); r.Search.Procs == 2 {
			r.Metrics["errors-%"] = 3
		}
	}, 0},
	{"requests fail with each setting, and no SLO says how many may", nil, func(r *tune.Run) { r.Metrics["errors-%"] = 3 }, 0},
	{"all equal", nil, costs(1, 1, 1), 0},
	{"no setting holds the SLO", func(s *tune.Study) { s.Plan.SLO = "p99=5ms" }, func(r *tune.Run) { r.SLOHeld = false }, 0},
	{"the current setting breaks the SLO, and no other is better", func(s *tune.Study) { s.Plan.SLO = "p99=41ms" }, func(r *tune.Run) {
		r.SLOHeld = r.Search.Procs != 2 || r.Search.Block%3 == 0
	}, 0},
	{"too noisy to say", nil, wide(wide(costs(1, 0.97, 0.8))), 0},
	{"it looks better", nil, wide(costs(4, 1, 0.75)), 0},
	{"another candidate fails", nil, func(r *tune.Run) {
		if costs(1, 0.6, 1)(r); r.Search.Procs == 4 {
			r.Error = "exit code 2"
		}
	}, 0},
	{"another candidate is out of memory", nil, func(r *tune.Run) {
		if costs(1, 0.6, 1)(r); r.Search.Procs == 4 {
			r.Error, r.Killed, r.Kills = "out of memory: limit 256Mi", true, 1
		}
	}, 0},
	{"two others are out of memory", nil, func(r *tune.Run) {
		if costs(1, 0.6, 1)(r); r.Search.Procs != 2 {
			r.Error, r.Killed, r.Kills = "out of memory: limit 256Mi", true, 1
		}
	}, 0},
	{"another candidate is out of memory, and the current setting was once", nil, func(r *tune.Run) {
		if costs(1, 0.6, 1)(r); r.Search.Procs == 4 {
			r.Error, r.Killed, r.Kills = "out of memory: limit 256Mi", true, 2
		}
		if r.Search.Procs == 2 && r.Search.Block == 1 {
			r.Kills, r.Attempt = 1, 1
		}
	}, 0},
	{"all settings fail", nil, func(r *tune.Run) { r.Error = "exit code 2" }, 0},
	{"the current setting fails, and the others are alike", nil, dying(costs(1, 1, 1)), 0},
	{"the current setting fails, and one of the others is better", nil, dying(costs(1, 0.6, 1)), 0},
	{"the current setting fails, and one of the others is a trade", nil, dying(costs(1, 0.88, 2.6)), 0},
	{"the current setting fails, and one is left", func(s *tune.Study) { s.Pilot.Candidates = []int{4} }, dying(costs(1, 1, 1)), 0},
	{"the current setting fails, and then it is interrupted", nil, dying(costs(1, 0.6, 1)), 4},
	{"the current setting fails, and what is better is Go's default", func(s *tune.Study) { s.Pilot.GoDefault = 1 }, dying(costs(4, 0.5, 1)), 0},
	{"a job fails with the current setting", func(s *tune.Study) {
		s.Plan.Kind, s.Pilot.Loads = tune.JobKind, []tune.Load{{Tail: "p99"}}
	}, dying(func(r *tune.Run) {
		r.Metrics = map[string]float64{"wall-sec": 12 / math.Sqrt(float64(r.Search.Procs)) * shaken(r, 0.02, 3), "cpu-sec": 9 * shaken(r, 0.01, 5)}
	}), 0},
	{"no run is valid", nil, func(r *tune.Run) { r.Valid = false }, 0},
	{"interrupted in the first block", nil, costs(1, 0.6, 1), 2},
	{"interrupted", nil, costs(1, 0.6, 1), 8},
	{"the budget is used up", func(s *tune.Study) { s.Plan.Budget = 50 * time.Second }, wide(costs(1, 0.9, 0.9)), 7},
	{"the budget went to runs that others disturbed", func(s *tune.Study) { s.Plan.Budget = 50 * time.Second }, func(r *tune.Run) {
		costs(1, 1, 1)(r)
		r.Others, r.Again, r.Lost = 1.3, 1, 6
	}, 2},
	{"the program failed as its load was found, and the budget went to runs that others disturbed", func(s *tune.Study) {
		s.Plan.Budget, s.Pilot.Base = 50*time.Second, 1
	}, func(r *tune.Run) {
		costs(1, 1, 1)(r)
		r.Others, r.Again, r.Lost = 1.3, 1, 6
	}, 2},
	{"the program failed as its load was found, and not in its runs", func(s *tune.Study) { s.Pilot.Base = 1 }, costs(1, 1, 1), 0},
	{"nothing is known of the tail", nil, func(r *tune.Run) {
		costs(1, 0.6, 1)(r)
		delete(r.Metrics, "p99-latency-ns")
		delete(r.Metrics, "tail-latency-ns")
	}, 0},
	{"a GOGC", func(s *tune.Study) { s.Pilot.Levers = []int{800} }, func(r *tune.Run) {
		if r.Search.GOGC != 0 {
			r.Metrics["cpu-ns/req"] *= 0.6
		}
	}, 0},
	{"a GOGC under a memory limit", func(s *tune.Study) {
		s.Pilot.Levers, s.Pilot.GOMEMLIMIT, s.Pilot.Memory = []int{800}, "230MiB", 256<<20
		s.Pilot.GC = &tune.GC{PerSecond: 50, CPUShare: 0.3, Live: 3 << 20, Goal: 6 << 20, Procs: 2}
	}, func(r *tune.Run) {
		r.Metrics["peak-RSS-bytes"] = 14 << 20
		if r.Search.GOGC != 0 {
			r.Metrics["cpu-ns/req"] *= 0.6
			r.Metrics["peak-RSS-bytes"] = 45 << 20
		}
	}, 0},
	{"a heap floor", func(s *tune.Study) { s.Plan.TryFloor(0) }, func(r *tune.Run) {
		r.Metrics["peak-RSS-bytes"] = 8 << 20
		if r.Search.Vary != 0 {
			r.Metrics["cpu-ns/req"] *= 0.6
			r.Metrics["peak-RSS-bytes"] = 33 << 20
		}
	}, 0},
	{"a GOMAXPROCS that takes more memory", nil, func(r *tune.Run) {
		if costs(1, 0.6, 1)(r); r.Search.Procs == 1 {
			r.Metrics["peak-RSS-bytes"] = 25 << 20
		}
	}, 0},
	{"both levers", func(s *tune.Study) { s.Pilot.Levers = []int{800} }, func(r *tune.Run) {
		if costs(1, 0.7, 1)(r); r.Search.GOGC != 0 {
			r.Metrics["cpu-ns/req"] *= 0.6
		}
	}, 0},
	{"one candidate", func(s *tune.Study) { s.Pilot.Candidates = nil }, costs(1, 1, 1), 0},
	{"a job", func(s *tune.Study) { s.Plan.Kind, s.Pilot.Loads = tune.JobKind, []tune.Load{{Tail: "p99"}} }, func(r *tune.Run) {
		r.Metrics = map[string]float64{"wall-sec": 2 * shaken(r, 0.02, 3), "cpu-sec": 4 * shaken(r, 0.01, 5)}
		if r.Search.Procs == 4 {
			r.Metrics["wall-sec"] /= 1.8
		}
	}, 0},
	{"a job that takes a little longer, as surely", func(s *tune.Study) { s.Plan.Kind, s.Pilot.Loads = tune.JobKind, []tune.Load{{Tail: "p99"}} }, func(r *tune.Run) {
		r.Metrics = map[string]float64{"wall-sec": 2 * shaken(r, 0.01, 3), "cpu-sec": 4 * shaken(r, 0.01, 5)}
		if r.Search.Procs == 1 {
			r.Metrics["wall-sec"] *= 1.04
			r.Metrics["cpu-sec"] *= 0.8
		}
	}, 0},
	{"a variable", varied(false), saves(1), 0},
	{"a variable that is better unset, and an argument", varied(false), saves(5), 0},
	{"a variable that is better unset", varied(false), saves(4), 0},
	{"a variable is a trade", varied(false), func(r *tune.Run) {
		if saves(1)(r); r.Search.Vary == 1 {
			costs(2, 1, 2.6)(r)
		}
	}, 0},
	{"of two variables none is better", varied(false), saves(-1), 0},
	{"interrupted, with a variable", varied(false), saves(1), 8},
	{"the program dies as it is, with a variable", varied(false), func(r *tune.Run) {
		if r.Search.Vary == 0 {
			r.Error = "out of memory"
		}
	}, 0},
	{"a variable and GOMAXPROCS", varied(true), func(r *tune.Run) {
		costs(1, 0.6, 1)(r)
		saves(2)(r)
	}, 0},
	{"a variable, and GOMAXPROCS does nothing", varied(true), saves(2), 0},
	{"somebody else's load", foreign("p99"), costs(1, 0.6, 1), 0},
	{"somebody else's load that tells no percentile", foreign(""), func(r *tune.Run) {
		delete(r.Metrics, "p99-latency-ns")
		delete(r.Metrics, "tail-latency-ns")
		r.Metrics["ns/op"] = 2e5 * shaken(r, 0.01, 3)
		if r.Search.Procs == 4 {
			r.Metrics["ns/op"] /= 1.3
		}
	}, 0},
	{"somebody else's load is too noisy", foreign("p99"), wide(wide(wide(wide(costs(1, 0.97, 0.8))))), 0},
}

// varied is a program of which a variable and an argument are varied, instead of GOMAXPROCS or in addition to it.
func varied(procs bool) func(*tune.Study) {
	return func(s *tune.Study) {
		s.Plan.Program = []string{"./shop", "--workers", "{workers}"}
		s.Plan.Vary = []tune.Knob{{Name: "MODE", Values: []string{"fast", "slow", ""}}, {Name: "workers", Values: []string{"4", "8"}}}
		if s.Pilot.Candidates = nil; procs {
			s.Plan.Procs, s.Pilot.Candidates = []int{1}, []int{1}
		}
	}
}

// saves makes one of the varied settings cheaper.
func saves(vary int) func(*tune.Run) {
	return func(r *tune.Run) {
		if r.Search.Vary == vary {
			r.Metrics["cpu-ns/req"] *= 0.6
		}
	}
}

// foreign is a server under another generator's load, which reports a percentile.
func foreign(tail string) func(*tune.Study) {
	return func(s *tune.Study) {
		s.Plan.Load, s.Pilot.Loads = "wrk http://{addr}/", []tune.Load{{Tail: tail, Window: 5 * time.Second}}
	}
}

// costs multiplies a setting's CPU and tail by these factors.
func costs(procs int, cpu, tail float64) func(*tune.Run) {
	return func(r *tune.Run) {
		if r.Search.Procs == procs {
			r.Metrics["cpu-ns/req"] *= cpu
			r.Metrics["p99-latency-ns"] *= tail
			r.Metrics["tail-latency-ns"] *= tail
		}
	}
}

// wide adds noise.
func wide(run func(*tune.Run)) func(*tune.Run) {
	return func(r *tune.Run) {
		run(r)
		for i, m := range []string{"cpu-ns/req", "p99-latency-ns", "tail-latency-ns"} {
			r.Metrics[m] *= shaken(r, []float64{0.02, 0.4, 0.3}[i], 11)
		}
	}
}

// shaken is a factor that differs from run to run, with a deviation of about sd, and is the same in every test.
func shaken(r *tune.Run, sd float64, salt int) float64 {
	n := r.Search.Block*7919 + r.Search.Procs*104729 + r.Search.GOGC*31 + salt*1299709
	n = (n*1103515245 + 12345) & 0x7fffffff
	n = (n*1103515245 + 12345) & 0x7fffffff
	return math.Exp(sd * 3.4 * (float64(n>>8%1000)/1000 - 0.5))
}

// TestTuneWords holds what is said of each kind of end: the verdict, and below it why, and what to type.
func TestTuneWords(t *testing.T) {
	var b strings.Builder
	for _, c := range spokenTunes {
		load := tune.Load{Rate: 440, Share: 0.65, Closed: 0.49, Window: 5 * time.Second, WarmUp: time.Second, Tail: "p99"}
		d, err := NewTune(spokenStudy(t, load, c.change, c.run, c.most))
		if err != nil {
			t.Fatal(err)
		}
		l := d.Loads[0]
		if n := quantity.Words(l.Text); n > HeadlineWords {
			t.Errorf("%s: %d words: %s", c.name, n, l.Text)
		}
		fmt.Fprintf(&b, "== %s: %s\n%s\n", c.name, l.Kind, strings.Join(append([]string{l.Text}, l.Also...), "\n"))
		for _, s := range d.Settings {
			if s.Dropped != "" {
				fmt.Fprintf(&b, "   (%s: %s)\n", s.Key().short(), s.Dropped)
			}
		}
	}
	golden(t, "testdata/tune-words.txt", b.String())
}

// TestOneEstimate: how long a verdict takes is said once: by the runs as soon as they show it, and by the pilot until then.
func TestOneEstimate(t *testing.T) {
	for most, byPilot := range map[int]bool{1: true, 7: false} {
		load := tune.Load{Rate: 440, Share: 0.65, Closed: 0.49, Window: 5 * time.Second, WarmUp: time.Second, Tail: "p99"}
		s := spokenStudy(t, load, func(s *tune.Study) { s.Plan.Budget = 20 * time.Second }, wide(costs(1, 0.9, 0.9)), most)
		d, err := NewTune(s)
		if err != nil {
			t.Fatal(err)
		}
		if s.TooShort() == "" {
			t.Fatal("a budget of 20 s is enough")
		}
		if warned, told := slices.Contains(d.Warnings, s.TooShort()), d.Loads[0].MoreRuns > 0; warned != byPilot || told == byPilot {
			t.Errorf("after %d runs: %d more, warnings %q", most, d.Loads[0].MoreRuns, d.Warnings)
		}
	}
}

// golden holds a text.
func golden(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := strings.Split(text, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(wanted)) {
		if i >= len(got) || i >= len(wanted) || got[i] != wanted[i] {
			t.Fatalf("line %d of %s: got\n%s", i+1, file, strings.Join(got[min(i, len(got)):min(i+3, len(got))], "\n"))
		}
	}
}

func spokenStudy(t *testing.T, load tune.Load, change func(*tune.Study), run func(*tune.Run), most int) *tune.Study {
	s := newStudy(t, nil, nil, nil)
	s.Pilot.Loads = []tune.Load{load}
	if change != nil {
		change(s)
	}
	fill(t, s, func(r *tune.Run) {
		r.Metrics["cpu-ns/req"] = 1e6 * shaken(r, 0.02, 1)
		r.Metrics["p99-latency-ns"], r.Metrics["tail-latency-ns"] = 40e6*shaken(r, 0.1, 2), 30e6*shaken(r, 0.06, 2)
		run(r)
	}, most)
	return s
}

func TestDroppedTexts(t *testing.T) {
	w := tuneWords{tail: "p90", unit: "operation"}
	leader := search.Candidate{Procs: 4}
	for _, c := range []struct {
		drop *search.Drop
		want string
	}{
		{nil, ""},
		{&search.Drop{Reason: search.BreaksSLO, Blocks: 3, Against: leader}, "more than 1 % of the requests failed in all blocks, and fewer with 4"},
		{&search.Drop{Reason: search.Worse, Blocks: 3, Against: leader, Metric: search.CPU, Ratio: 1.52}, "no longer likely to be better than 4 by a relevant amount: CPU per operation +52 % in 3 blocks"},
		{&search.Drop{Reason: search.IsTrade, Blocks: 3, Against: leader, Metric: search.P99, Ratio: 2.99}, "a trade: p90 +199 % in 3 blocks"},
		{&search.Drop{Reason: search.ProgramFails, After: 1, Failure: "out of memory"}, "the program failed: out of memory"},
		{&search.Drop{Reason: search.NoValidRun, After: 2, Blocks: 2}, "no valid run in 2 blocks"},
		{&search.Drop{Reason: search.TooFull, After: 1, Ratio: 0.861}, "too near to the memory limit: 86 % of it at the peak"},
		{&search.Drop{Reason: search.Collects, After: 2, Against: leader, Ratio: 0.124}, "collections take 12 points more of the CPU time than with 4"},
	} {
		if got := w.dropped(c.drop); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	w.plan.SLO = "p99=50ms"
	const want = "broke the SLO in all blocks in which 4 held it"
	if got := w.dropped(&search.Drop{Reason: search.BreaksSLO, Blocks: 3, Against: leader}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzVerdictText: for anything a search observes, and at any time it is asked, there are words.
func FuzzVerdictText(f *testing.F) {
	f.Add(uint64(1), 4, 2, 0, 0, []byte{0})
	f.Add(uint64(2), 8, 2, 40, 800, []byte{0, 10, 20, 30, 40, 250, 251, 252, 253, 254, 255})
	f.Add(uint64(3), 1, 3, 0, 1, []byte{100, 101, 99, 98, 250, 97})
	f.Add(uint64(5), 3, 6, 0, 100000, []byte{254, 90, 91, 92, 93})
	f.Fuzz(func(t *testing.T, seed uint64, current, limit, maxRuns, lever int, script []byte) {
		c := search.TuneConfig{Current: current, GoDefault: limit, Candidates: search.Candidates(float64(limit%1000), 64, 0, limit%1000), Seed: seed, Batch: seed%2 == 1}
		if lever != 0 {
			c.Levers = []int{lever, 200}
		}
		m, err := search.NewTune(c)
		if err != nil || len(script) == 0 {
			t.Skip()
		}
		unit := []string{"request", "operation"}[seed%2]
		for n := 0; ; n++ {
			w := tuneWords{TuneVerdict: m.Verdict(), tail: "p99", unit: unit, perRun: 6, peaks: [2]float64{20e6, 30e6}}
			texts := []string{w.details(), w.next(), w.contradiction()}
			if below := strings.TrimSpace(texts[0] + " " + texts[1]); strings.Count(below, ". ") > 1 {
				t.Errorf("more than two sentences below the headline: %s", below)
			}
			for _, s := range m.Standings() {
				texts = append(texts, w.dropped(s.Dropped))
			}
			if text := w.headline(); quantity.Words(text) > HeadlineWords {
				t.Fatalf("%q has more than %d words", text, HeadlineWords)
			}
			for _, text := range append(texts, w.headline()) {
				if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "%!") {
					t.Fatalf("%q of %+v", text, w)
				}
			}
			r, ok := m.Next()
			if !ok {
				return
			}
			b := script[(n*31+r.Procs+r.GOGC%1000)%len(script)]
			x := math.Exp(float64(b)/20 - 6)
			o := search.TuneObservation{Run: r, Valid: b%16 != 15, SLOHeld: b%8 != 7, Room: maxRuns % 1000, Tail: x, P99: x * 1.5, CPUPerRequest: x * x, Throughput: 1 / x, Time: x}
			switch b {
			case 250:
				o.Tail, o.P99, o.CPUPerRequest, o.Throughput, o.Time = 0, 0, 0, 0, 0
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

func TestThrottledPeriods(t *testing.T) {
	r := TuneRun{Axis: []TuneStep{{Periods: 10, Throttled: 3}, {Periods: -1, Throttled: 5}, {Periods: 4, Throttled: 9}, {Periods: 2, Throttled: -2}}}
	if n, of := r.ThrottledPeriods(); n != 7 || of != 16 {
		t.Errorf("%d of %d", n, of)
	}
}

// dying has the current setting run out of memory.
func dying(run func(*tune.Run)) func(*tune.Run) {
	return func(r *tune.Run) {
		if run(r); r.Search.Procs == 2 {
			r.Error, r.Killed, r.Kills, r.Metrics, r.Curve, r.Axis = "out of memory: limit 256Mi", true, 2, map[string]float64{}, nil, nil
		}
	}
}

// TestWhyGC: how much the collector took is said where it is known, and nowhere made up.
func TestWhyGC(t *testing.T) {
	for share, want := range map[float64]string{
		0.3: "Garbage collection: 50 collections a second of a heap of 3 MB, and 30 % of the CPU time, with GOMAXPROCS=2.",
		0:   "Garbage collection: 50 collections a second of a heap of 3 MB with GOMAXPROCS=2.",
	} {
		s := newStudy(t, nil, nil, nil)
		s.Pilot.Loads = []tune.Load{{Rate: 440, Window: 5 * time.Second, Tail: "p99"}}
		s.Pilot.Levers, s.Pilot.GC = []int{800}, &tune.GC{PerSecond: 50, CPUShare: share, Live: 3 << 20, Goal: 6 << 20, Procs: 2}
		d, err := NewTune(s)
		if err != nil {
			t.Fatal(err)
		}
		if why := d.Loads[0].Why; len(why) == 0 || why[0] != want {
			t.Errorf("%q, want %s", why, want)
		}
	}
}
