package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// spokenBenches are benches whose second setting, and third if they have one, differ from the first by factors. Each run has a noise of a
// hundredth, and that of the tail is the case's.
var spokenBenches = []struct {
	name   string
	blocks int
	noise  float64
	of     []map[string]float64
	change func(*lab.Study)
}{
	{"more than twice", 10, 0, []map[string]float64{{"ops/s": 2.2}}, withFigure("ops/s")},
	{"a little more, and less", 10, 0, []map[string]float64{{"ops/s": 1.2}, {"ops/s": 0.7}}, withFigure("ops/s")},
	{"less than the base, and alike", 20, 0, []map[string]float64{{"ops/s": 0.6}, {"ops/s": 1}}, withFigure("ops/s")},
	{"too noisy", 10, 0, []map[string]float64{{"ops/s": 1.02}}, func(s *lab.Study) {
		withFigure("ops/s")(s)
		for i := range s.Runs {
			s.Runs[i].Metrics["ops/s"] *= 1 + 0.3*math.Sin(float64(5*i*i))
		}
	}},
	{"too few", 4, 0, []map[string]float64{{"ops/s": 2}}, withFigure("ops/s")},
	{"alone", 4, 0, nil, withFigure("ops/s")},
	{"by the limit", 10, 0, []map[string]float64{{"ops/s": 1.5}, {"ops/s": 1}}, func(s *lab.Study) {
		withFigure("ops/s")(s)
		byLimit(s)
	}},
	{"no figures", 4, 0, []map[string]float64{{}}, func(s *lab.Study) {
		for i := range s.Runs {
			s.Runs[i].Error = "exit code 1"
		}
	}},
	{"a server that is cheaper", 10, 0.02, []map[string]float64{{"cpu-ns/req": 0.8}}, nil},
	{"a server that is better in both", 10, 0.02, []map[string]float64{{"cpu-ns/req": 0.8, "tail-latency-ns": 0.5}}, nil},
	{"a trade", 10, 0.02, []map[string]float64{{"cpu-ns/req": 0.88, "tail-latency-ns": 2.6}}, nil},
	{"a trade the other way round", 10, 0.02, []map[string]float64{{"cpu-ns/req": 1.3, "tail-latency-ns": 0.4}, {}}, nil},
	{"a trade whose tail is open", 10, 0.7, []map[string]float64{{"cpu-ns/req": 0.88}}, nil},
	{"a trade that fails requests", 10, 0.02, []map[string]float64{{"cpu-ns/req": 0.8, "errors-%": 2}}, nil},
	{"nothing better", 10, 0.02, []map[string]float64{{"cpu-ns/req": 1.3}, {"tail-latency-ns": 2}}, nil},
	{"an open tail", 10, 0.7, []map[string]float64{{}}, nil},
	{"whole windows disagree", 10, 0.02, []map[string]float64{{"tail-latency-ns": 0.6, "p99-latency-ns": 2}}, nil},
	{"a server by the limit", 10, 0.02, []map[string]float64{{"cpu-ns/req": 0.88, "tail-latency-ns": 0.3}}, byLimit},
	{"a short window at its limit", 10, 0.02, []map[string]float64{{}}, func(s *lab.Study) {
		s.Plan.Served.Rate = 980
		s.Plan.Served.Window = lab.Seconds(time.Second)
		s.Plan.Figures["shop"] = lab.P90.Metric("p90 of the response times")
		for i := range s.Runs {
			s.Runs[i].Metrics["req/s"] = 980
		}
	}},
	{"a slower build", 10, 0.02, []map[string]float64{{"cpu-ns/req": 1.08, "tail-latency-ns": 1.07}}, byBuild},
	{"a build that takes more CPU", 10, 0.02, []map[string]float64{{"cpu-ns/req": 1.08}}, byBuild},
	{"a faster build", 20, 0.02, []map[string]float64{{"cpu-ns/req": 0.9, "tail-latency-ns": 0.9}}, byBuild},
	{"a build as good", 20, 0.01, []map[string]float64{{}}, byBuild},
	{"a build on a noisy machine", 10, 0.1, []map[string]float64{{}}, byBuild},
	{"a build that is perhaps slower", 10, 0.08, []map[string]float64{{"tail-latency-ns": 1.08}}, func(s *lab.Study) {
		byBuild(s)
		s.Plan.Looks, s.Plan.Blocks = 4, 0
	}},
	{"too few blocks of builds", 4, 0.01, []map[string]float64{{}}, byBuild},
	{"three builds", 10, 0.01, []map[string]float64{{"cpu-ns/req": 1.08, "tail-latency-ns": 1.07}, {}}, byBuild},
	{"builds whose CPU time nobody can tell", 10, 0.01, []map[string]float64{{"tail-latency-ns": 1.07}}, withoutCPU},
	{"three of them", 10, 0.01, []map[string]float64{{"tail-latency-ns": 1.07}, {}}, withoutCPU},
	{"a build that is a server", 10, 0.02, []map[string]float64{{"cpu-ns/req": 1.08, "tail-latency-ns": 1.5}}, buildsOf("main", "working tree")},
	{"a server that fails requests", 10, 0.02, []map[string]float64{{"errors-%": 2}}, buildsOf("main", "working tree")},
	{"two programs", 20, 0.02, []map[string]float64{{"cpu-ns/req": 1.01}}, buildsOf("old", "new")},
	{"a load that was not asked for", 10, 0.02, []map[string]float64{{}}, func(s *lab.Study) {
		s.Runs[3].Marks = []string{lab.MarkLoad + ": in bursts", lab.MarkSteal + " 9 %"}
		s.Runs[4].Marks = []string{lab.MarkLoad + ": in bursts"}
	}},
}

// withFigure makes the program one with a single figure, of which more is better.
func withFigure(unit string) func(*lab.Study) {
	return func(s *lab.Study) {
		s.Plan.Figures["shop"] = lab.Metric{Unit: unit, Better: lab.Higher, About: "operations a second"}
		s.Plan.Costs, s.Plan.Served, s.Plan.Tail = nil, nil, 0
		for _, r := range s.Runs {
			for name := range r.Metrics {
				if name != unit {
					delete(r.Metrics, name)
				}
			}
		}
	}
}

// buildsOf lets the settings differ in their build instead.
func buildsOf(names ...string) func(*lab.Study) {
	return func(s *lab.Study) {
		for i := range s.Plan.Settings {
			s.Plan.Settings[i].Procs, s.Plan.Settings[i].CPUs = 0, 0
			s.Plan.Settings[i].Build = names[i]
			s.Plan.Builds = append(s.Plan.Builds, lab.Build{Name: names[i]})
		}
		s.Plan.Compare, s.Plan.Margin = lab.ByBuild, 0.02
	}
}

// byBuild makes the program a benchmark of several builds.
func byBuild(s *lab.Study) {
	buildsOf("main", WorkingTree, "working tree, pgo=off")(s)
	s.Plan.Served, s.Plan.Tail = nil, 0
	s.Plan.Figures["shop"], s.Plan.Costs["shop"] = lab.OpTime.Metric("time for an operation"), lab.CPUPerOp.Metric("CPU time of an operation")
	for i, r := range s.Runs {
		s.Runs[i].Metrics = map[string]float64{string(lab.OpTime): r.Metrics["tail-latency-ns"], string(lab.CPUPerOp): r.Metrics["cpu-ns/req"]}
	}
}

// withoutCPU is byBuild for benchmarks that run together with others.
func withoutCPU(s *lab.Study) {
	byBuild(s)
	for _, r := range s.Runs {
		delete(r.Metrics, string(lab.CPUPerOp))
	}
}

// byLimit lets the settings differ in their limit instead.
func byLimit(s *lab.Study) {
	for i := range s.Plan.Settings {
		s.Plan.Settings[i].Procs, s.Plan.Settings[i].CPUs = 2, float64(1+i)
	}
	s.Plan.Compare = lab.ByCPUs
}

func spokenBench(blocks int, noise float64, of []map[string]float64) *lab.Study {
	r := rand.New(rand.NewPCG(3, 4))
	procs := []int{0, 1, 4}[:1+len(of)]
	s := &lab.Study{Plan: lab.Plan{
		Settings: lab.Cross([]string{"shop"}, []lab.Setting{{}}, []float64{1}, procs), Compare: lab.ByProcs,
		Blocks: blocks, Margin: 0.05, Tail: 0.25,
		Figures: map[string]lab.Metric{"shop": lab.ReadyTail.Metric("tail of typical seconds")},
		Costs:   map[string]lab.Metric{"shop": lab.CPUPerRequest.Metric("CPU per request")},
		Served:  &lab.Served{Rate: 500, Window: lab.Seconds(5 * time.Second)},
	}}
	for block := 1; block <= blocks; block++ {
		for i := range procs {
			near := func(sd float64) float64 { return math.Exp(sd * r.NormFloat64()) }
			tail := 6e6 * near(noise)
			run := lab.Run{Block: block, Setting: i, GOMAXPROCS: []int{2, 1, 4}[i], Metrics: map[string]float64{
				"ops/s":           1000 * near(0.01),
				"tail-latency-ns": tail, "p99-latency-ns": 1.3 * tail, "p90-latency-ns": tail, "cpu-ns/req": 1e6 * near(0.01), "req/s": 500,
			}}
			run.Metrics["errors-%"] = 0
			if i > 0 {
				for name, factor := range of[i-1] {
					run.Metrics[name] *= factor
				}
				run.Metrics["errors-%"] = of[i-1]["errors-%"]
				if factor := of[i-1]["tail-latency-ns"]; factor > 0 { // windows follow their seconds
					run.Metrics["p99-latency-ns"] *= factor
				}
			}
			s.Runs = append(s.Runs, run)
		}
	}
	return s
}

// TestBenchWords holds what is said of each kind of end: the advice, and below it what it rests on.
func TestBenchWords(t *testing.T) {
	var b strings.Builder
	for _, c := range spokenBenches {
		s := spokenBench(c.blocks, c.noise, c.of)
		if c.change != nil {
			c.change(s)
		}
		d := NewBench(s)
		g := d.Groups[0]
		fmt.Fprintf(&b, "== %s: %s\n%s\n", c.name, g.Claim, strings.Join(append([]string{g.Advice}, g.Also...), "\n"))
		for _, w := range d.Warnings {
			fmt.Fprintf(&b, "   (%s)\n", w)
		}
		if n := quantity.Words(g.Advice); n > HeadlineWords {
			t.Errorf("%s: %d words: %s", c.name, n, g.Advice)
		}
	}
	const golden = "testdata/bench-words.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s is not what is said now; -update writes it. It is\n%s", golden, b.String())
	}
}
