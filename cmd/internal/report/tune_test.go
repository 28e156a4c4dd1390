package report

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
	"github.com/unthrottle/unthrottle/cmd/internal/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/tune"
)

// newStudy is a server that runs with 2 by itself, and whose CPU a request is as cpu has it.
func newStudy(t *testing.T, loads []tune.Load, cpu func(rate float64, c search.Candidate) float64, change func(*tune.Run)) *tune.Study {
	t.Helper()
	s := &tune.Study{
		Version: 2, Verb: "tune", MadeBy: "unthrottle test", Time: "2026-01-02T03:04:05Z",
		Plan:        tune.Plan{Kind: tune.ServerKind, Name: "shop", Program: []string{"./shop", "--name", "a b"}, URL: "http://localhost:1/", CPUs: 1, Margin: 0.05, Seed: 7, Command: []string{"unthrottle", "tune"}},
		Environment: lab.Environment{OS: "linux", Arch: "amd64", CPUs: 4, LimitKind: "cgroup-v2"},
		Pilot: &tune.Pilot{
			Foresight: tune.Foresight{Procs: 2, Why: "a reason", GoDefault: 2}, Candidates: []int{1, 4}, LimitKind: "cgroup-v2",
			Capacity: 1000, Loads: loads, Seconds: 9, PerRun: 6,
		},
	}
	for i, l := range loads {
		m, err := s.Search(i)
		if err != nil {
			t.Fatal(err)
		}
		for {
			next, more := m.Next()
			if !more {
				break
			}
			noise := 1 + 0.01*float64(len(s.Runs)%5)
			r := tune.Run{
				Load: i, Search: next, Valid: true, SLOHeld: true,
				Run: lab.Run{Start: time.Unix(0, 0).UTC(), Seconds: 6, LimitKind: "cgroup-v2", Metrics: map[string]float64{
					"p50-latency-ns": 1e6 * noise, "p90-latency-ns": 5e6 * noise, "p99-latency-ns": 40e6 * noise, "cpu-ns/req": cpu(l.Rate, next.Candidate()) * noise,
					"req/s": l.Rate, "throttled-%": 5, "errors-%": 0, "peak-RSS-bytes": 20 << 20,
				}},
				Curve: []trial.Point{{Percentile: 50, Seconds: 0.001 * noise}, {Percentile: 99, Seconds: 0.04 * noise}},
				Axis:  []trial.Step{{At: 0, Length: 1, Sent: 100, P99: 0.04, Periods: 10, Throttled: 2}},
			}
			if change != nil {
				change(&r)
			}
			s.Runs = append(s.Runs, r)
			if m, err = s.Search(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

func cheapAtOne(_ float64, c search.Candidate) float64 { return 1e6 * math.Sqrt(float64(c.Procs)) }

func TestNewTune(t *testing.T) {
	load := tune.Load{Rate: 650, Share: 0.65, Window: 5 * time.Second, WarmUp: time.Second, Tail: "p99"}
	d, err := NewTune(newStudy(t, []tune.Load{load}, cheapAtOne, nil))
	if err != nil {
		t.Fatal(err)
	}
	v := d.Verdict
	if v.Kind != "change" || v.Procs != 1 || !strings.HasPrefix(v.Text, "Set GOMAXPROCS=1. CPU a request fell") || !d.Finished || d.Current.Procs != 2 {
		t.Errorf("%+v", v)
	}
	var how []string
	for _, h := range v.How {
		how = append(how, h.Where+": "+h.Text)
	}
	for _, want := range []string{
		"GOMAXPROCS=1 ./shop --name 'a b'", "kubectl set env deployment/NAME GOMAXPROCS=1", `value: "1"`, "Environment=GOMAXPROCS=1",
		"unthrottle.Set(unthrottle.Options{Policy: unthrottle.Ceil}) // 1 at a limit of 1, and it follows the limit",
	} {
		if !strings.Contains(strings.Join(how, "\n"), want) {
			t.Errorf("no %q in\n%s", want, strings.Join(how, "\n"))
		}
	}
	best := d.Settings[0]
	if best.Procs != 1 || !best.Best || best.Current || best.Metrics["cpu-ns/req"].N != best.Runs || len(best.Versus) == 0 || len(best.Curve) != 2 || best.Curve[1].Seconds < 0.04 {
		t.Errorf("%+v", best)
	}
	if l := d.Loads[0]; !l.Main || l.Pairs < 6 || l.Capacity != 1000 || l.Arrivals != "poisson" || l.Noise["cpu"] <= 0 || len(l.Effects) < 2 {
		t.Errorf("%+v", l)
	}
	if len(d.Runs) == 0 || d.Runs[0].Phase != "explore" || d.Runs[0].Axis[0].Throttled != 2 || len(d.Metrics) < 8 || d.Metrics[0].Unit != "p50-latency-ns" {
		t.Errorf("%+v, %+v", d.Runs[0], d.Metrics)
	}
	if want := 9 + 6*float64(len(d.Runs)); d.Seconds != want {
		t.Errorf("%v seconds, want %v", d.Seconds, want)
	}
	if len(d.Warnings) > 0 {
		t.Errorf("warnings %q", d.Warnings)
	}
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read(data)
	if doc, ok := again.(*Tune); err != nil || !ok || doc.Verdict.Text != v.Text {
		t.Errorf("read again: %v", err)
	}
}

// TestNewTuneLoads: one that is best at a low rate, and another at a high one.
func TestNewTuneLoads(t *testing.T) {
	load := func(rate float64) tune.Load {
		return tune.Load{Rate: rate, Share: rate / 1000, Window: 5 * time.Second, Tail: "p99"}
	}
	d, err := NewTune(newStudy(t, []tune.Load{load(650), load(400), load(900)}, func(rate float64, c search.Candidate) float64 {
		if rate > 800 {
			return 1e6 / math.Sqrt(float64(c.Procs))
		}
		return cheapAtOne(rate, c)
	}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if d.Verdict.Procs != 1 || !strings.HasPrefix(d.Verdict.Text, "At 65 % of its capacity: Set GOMAXPROCS=1.") || d.Loads[d.Verdict.Load].Rate != 650 {
		t.Errorf("%+v", d.Verdict)
	}
	also := strings.Join(d.Verdict.Also, "\n")
	for _, want := range []string{"At 40 % (400/s): Set GOMAXPROCS=1.", "At 90 % (900/s): Set GOMAXPROCS=4.", "From 90 % of the capacity on it is GOMAXPROCS=4, below GOMAXPROCS=1."} {
		if !strings.Contains(also, want) {
			t.Errorf("no %q in\n%s", want, also)
		}
	}
	if !slices.IsSortedFunc(d.Loads, func(a, b TuneLoad) int { return int(a.Rate - b.Rate) }) {
		t.Errorf("loads are not in order: %+v", d.Loads)
	}
	for _, r := range d.Runs {
		if want := d.Loads[r.Load].Rate; r.Metrics["req/s"] != want {
			t.Fatalf("a run of %v/s belongs to the load of %v/s", r.Metrics["req/s"], want)
		}
	}
}

func TestNewTuneWarnings(t *testing.T) {
	load := tune.Load{Rate: 20, Share: 0.65, Window: 20 * time.Second, Tail: "p90"}
	n := 0
	s := newStudy(t, []tune.Load{load}, cheapAtOne, func(r *tune.Run) {
		switch n++; n {
		case 1:
			r.Valid, r.Notes = false, []string{"it could not"}
		case 2:
			r.Late = true
			delete(r.Metrics, "p90-latency-ns")
		case 3:
			r.Marks = []string{"other processes used 0.4 CPUs", "the hypervisor took 5 % of the CPU time"}
		}
	})
	s.Environment.LimitKind, s.Environment.CPUs, s.Pilot.Warnings = "emulated", 1, []string{"a warning of the pilot's"}
	d, err := NewTune(s)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(d.Warnings, "\n")
	for _, want := range []string{
		"the limit is emulated", "a warning of the pilot's", "compared by their p90", "shares 1 CPU with the program, which may use 1",
		"the generator was late by itself", "runs were not valid", "other processes used the CPUs as well", "the hypervisor took CPU time away",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
}

func TestNewTuneNothing(t *testing.T) {
	s := newStudy(t, []tune.Load{{Rate: 1, Tail: "p50"}}, cheapAtOne, nil)
	s.Pilot, s.Runs = nil, nil
	d, err := NewTune(s)
	if err != nil || d.Verdict.Kind != "undecided" || d.Verdict.Text == "" {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestNewTuneUndecided tells how to go on.
func TestNewTuneUndecided(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	s := newStudy(t, []tune.Load{{Rate: 650, Share: 0.65, Window: 5 * time.Second, Tail: "p99"}}, func(_ float64, c search.Candidate) float64 {
		cpu := 1e6 * math.Exp(0.2*random.NormFloat64())
		if c.Procs == 1 {
			return 0.85 * cpu
		}
		return cpu
	}, nil)
	d, err := NewTune(s)
	if err != nil {
		t.Fatal(err)
	}
	if d.Verdict.Kind != "undecided" {
		t.Fatalf("this noise gave %q", d.Verdict.Text)
	}
	if l := d.Loads[0]; l.MoreSeconds <= 0 || !strings.Contains(l.Text, "--pairs") {
		t.Errorf("%+v", l)
	}
}

func TestNewTuneLimits(t *testing.T) {
	s := newStudy(t, []tune.Load{{Rate: 1, Tail: "p50"}}, cheapAtOne, nil)
	s.Pilot, s.Runs = nil, nil
	s.Plan.Limits, s.Defaults, s.Plan.SLO, s.Plan.Rate = []float64{1, 0.5}, []int{2, 2}, "p99=50ms", 100
	for _, try := range s.Tries() {
		most := 150 * try.CPUs // what it can do
		for {
			m, err := s.MaxRate(try)
			if err != nil {
				t.Fatal(err)
			}
			step, more := m.Next()
			if !more {
				break
			}
			s.Windows = append(s.Windows, tune.LimitWindow{CPUs: try.CPUs, Procs: try.Procs, Phase: tune.CurvePhase, Step: string(step.Phase), Rate: step.Rate, Held: step.Rate <= most, Valid: true, Seconds: 5, Metrics: map[string]float64{"p99-latency-ns": 1e6}})
		}
	}
	for _, cpus := range []float64{0.5, 1} {
		best, _ := s.Best(cpus)
		for range tune.HoldWindows {
			s.Windows = append(s.Windows, tune.LimitWindow{CPUs: cpus, Procs: best.Procs, Phase: tune.HoldPhase, Rate: 100, Held: cpus == 1, Valid: true, Seconds: 5, Metrics: map[string]float64{"p99-latency-ns": 30e6 / cpus, "cpu-ns/req": 2e6}})
		}
	}
	d, err := NewTune(s)
	if err != nil {
		t.Fatal(err)
	}
	want := "A limit of 1 CPU is enough, with GOMAXPROCS=2: it held p99=50ms at 100/s in 5 of 5 windows, with a p99 of 30 ms. The next smaller, 0.5 CPUs, held it in 0 of 5, with a p99 of 60 ms."
	if v := d.Verdict; v.Kind != "change" || v.LimitCPUs != 1 || v.Procs != 2 || v.Text != want || !d.Finished {
		t.Errorf("%+v", d.Verdict)
	}
	if len(d.Limits) != 2 || d.Limits[0].CPUs != 0.5 || d.Limits[0].Will || !d.Limits[1].Will || d.Limits[1].Settings[0].Rate < 100 || d.Limits[1].CPU != 0.002 {
		t.Errorf("%+v", d.Limits)
	}
	s.Windows = s.Windows[:3]
	if d, err = NewTune(s); err != nil || d.Finished || d.Verdict.Kind != "undecided" || !strings.Contains(d.Verdict.Text, "Interrupted after 3 windows") {
		t.Errorf("%+v, %v", d.Verdict, err)
	}
}

func TestPolicyCode(t *testing.T) {
	for _, c := range []struct {
		limit       float64
		cpus, procs int
		want        string
	}{
		{1.5, 8, 2, "Policy: unthrottle.Go}"},
		{2.5, 8, 2, "Policy: unthrottle.Floor}"},
		{0.5, 8, 1, "Policy: unthrottle.Ceil}"},
		{1, 8, 3, "Min: 3, Max: 3"},
		{0, 8, 4, "Min: 4, Max: 4"},
		{1, 2, 4, "runtime.GOMAXPROCS(4)"},
	} {
		if got := policyCode(c.limit, c.cpus, c.procs); !strings.Contains(got, c.want) {
			t.Errorf("%v of %d CPUs, %d: %s", c.limit, c.cpus, c.procs, got)
		}
	}
}
