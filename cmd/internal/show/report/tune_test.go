package report

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

// newStudy is a server that runs with 2 unless change says otherwise, and whose CPU per request is as cpu has it.
func newStudy(t *testing.T, loads []tune.Load, cpu func(rate float64, c search.Candidate) float64, change func(*tune.Run)) *tune.Study {
	t.Helper()
	s := &tune.Study{
		Version: 2, Verb: "tune", MadeBy: "unthrottle test", Time: "2026-01-02T03:04:05Z",
		Plan:        tune.Plan{Kind: tune.ServerKind, Name: "shop", Program: []string{"./shop", "--name", "a b"}, URL: "http://localhost:1/", CPUs: 1, Margin: 0.05, Tail: 0.25, Seed: 7, Command: []string{"unthrottle", "tune"}},
		Environment: lab.Environment{OS: "linux", Arch: "amd64", CPUs: 4, LimitKind: "cgroup-v2"},
		Pilot: &tune.Pilot{
			Foresight: tune.Foresight{Procs: 2, Why: "a reason", GoDefault: 2}, Candidates: []int{1, 4}, LimitKind: "cgroup-v2",
			Capacity: 1000, Loads: loads, Seconds: 9, PerRun: 6,
		},
	}
	fill(t, s, func(r *tune.Run) {
		rate := loads[r.Load].Rate
		noise := 1 + 0.01*float64(len(s.Runs)%5)
		for name, v := range map[string]float64{
			"p50-latency-ns": 1e6, "p90-latency-ns": 5e6, "p99-latency-ns": 40e6, "tail-latency-ns": 30e6, "cpu-ns/req": cpu(rate, r.Search.Candidate()),
		} {
			r.Metrics[name] = v * noise
		}
		r.Metrics["req/s"] = rate
		r.Curve = []trial.Point{{Percentile: 50, Seconds: 0.001 * noise}, {Percentile: 99, Seconds: 0.04 * noise}}
		if change != nil {
			change(r)
		}
	}, 0)
	return s
}

// fill does the runs of a study, most of them at most if that is not 0.
func fill(t *testing.T, s *tune.Study, run func(*tune.Run), most int) {
	t.Helper()
	for i := range s.Pilot.Loads {
		for {
			m, err := s.Search(i)
			if err != nil {
				t.Fatal(err)
			}
			next, more := m.Next()
			if !more || most > 0 && len(s.Runs) == most {
				break
			}
			r := tune.Run{
				Load: i, Search: next, Valid: true, SLOHeld: true,
				Run: lab.Run{Start: time.Unix(0, 0).UTC(), Seconds: 6, LimitKind: "cgroup-v2", Metrics: map[string]float64{
					"throttled-%": 5, "errors-%": 0, "peak-RSS-bytes": 20 << 20,
				}},
				Axis: []trial.Step{{At: 0, Length: 1, Sent: 100, P99: 0.04, Periods: 10, Throttled: 2}},
			}
			run(&r)
			s.Runs = append(s.Runs, r)
		}
	}
}

func cheapAtOne(_ float64, c search.Candidate) float64 { return 1e6 * math.Sqrt(float64(c.Procs)) }

func TestNewTune(t *testing.T) {
	load := tune.Load{Rate: 650, Share: 0.65, Window: 5 * time.Second, WarmUp: time.Second, Tail: "p99"}
	d, err := NewTune(newStudy(t, []tune.Load{load}, cheapAtOne, nil))
	if err != nil {
		t.Fatal(err)
	}
	v := d.Verdict
	if v.Kind != "change" || v.Procs != 1 || !strings.HasPrefix(v.Text, "Set GOMAXPROCS=1: CPU −") || !strings.HasPrefix(v.Also[0], "CPU per request fell") || !d.Finished || d.Current.Procs != 2 {
		t.Errorf("%+v", v)
	}
	var how []string
	for _, h := range v.How {
		how = append(how, h.Where+": "+h.Text)
	}
	for _, want := range []string{
		"GOMAXPROCS=1 ./shop --name 'a b'", "# in the container's spec; or: kubectl set env deployment/NAME GOMAXPROCS=1", `value: "1"`, "Environment=GOMAXPROCS=1",
		"unthrottle.Set(unthrottle.Options{Policy: unthrottle.Ceil}) // 1 at a limit of 1; unthrottle.Watch follows changes",
	} {
		if !strings.Contains(strings.Join(how, "\n"), want) {
			t.Errorf("no %q in\n%s", want, strings.Join(how, "\n"))
		}
	}
	best := d.Settings[0]
	if best.Procs != 1 || !best.Best || best.Current || best.Metrics["cpu-ns/req"].N != best.Runs || len(best.Versus) == 0 || len(best.Curve) != 2 || best.Curve[1].Seconds < 0.04 {
		t.Errorf("%+v", best)
	}
	if l := d.Loads[0]; !l.Main || l.Pairs < 4 || l.Capacity != 1000 || l.Arrivals != "poisson" || l.Noise["cpu"].SD <= 0 || len(l.Effects) < 2 {
		t.Errorf("%+v", l)
	}
	if len(d.Runs) == 0 || d.Runs[0].Phase != "race" || d.Runs[0].Axis[0].Throttled != 2 || len(d.Metrics) < 8 || d.Metrics[0].Unit != "p50-latency-ns" {
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
	if d.Verdict.Procs != 1 || !strings.HasPrefix(d.Verdict.Text, "Set GOMAXPROCS=1: ") || d.Loads[d.Verdict.Load].Rate != 650 {
		t.Errorf("%+v", d.Verdict)
	}
	also := strings.Join(d.Verdict.Also, "\n")
	for _, want := range []string{"At 40 % (400/s): Set GOMAXPROCS=1: CPU", "At 90 % (900/s): Set GOMAXPROCS=4: CPU", "From 90 % of the limit on it is GOMAXPROCS=4, below GOMAXPROCS=1."} {
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
			r.Marks = []string{"other processes used 0.4 CPUs", "the hypervisor took 5 % of the CPU time"}
		case 5:
			r.Marks = []string{lab.MarkRetried + ": the port is in use", lab.MarkUnseen}
		}
		if r.Search.Procs == 4 { // and again
			r.Error, r.Marks = "exit code 2", []string{lab.MarkRetried + ": exit code 2"}
		}
	})
	s.Environment.LimitKind, s.Environment.CPUs, s.Pilot.Warnings = "emulated", 1, []string{"a warning of the pilot's"}
	s.Pilot.Bias = tune.Bias{CPU: 0.15, Tail: 0.1}
	d, err := NewTune(s)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(d.Warnings, "\n")
	for _, want := range []string{
		"the limit is emulated: differences below 15 % can't be told from the emulation's own", "a warning of the pilot's", "compared by their p90", "shares 1 CPU with the program, which may use 1",
		"runs was not valid and was repeated", "other processes used the CPUs as well", "the hypervisor took CPU time away", "made again, as too little of it was seen",
		"\nin 1 of ", " runs the program failed at first, and ran when it was tried again", " runs failed",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if d.Margin != 0.15 {
		t.Errorf("the margin is %v", d.Margin)
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
