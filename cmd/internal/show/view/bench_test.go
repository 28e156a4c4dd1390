package view

import (
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// study makes a study with numbers that look like a program that allocates under a limit: the more Ps, the more CPU time
// and throttling. Change may alter each run.
func study(workload string, figure lab.Metric, cpus float64, procs []int, blocks int, change func(p int, r *lab.Run)) *lab.Study {
	random := rand.New(rand.NewPCG(1, uint64(blocks)))
	begin := time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC)
	s := &lab.Study{
		Version: 2, Verb: "bench", MadeBy: "unthrottle v0.1.0", Time: begin.Format(time.RFC3339),
		Plan: lab.Plan{
			Settings: lab.Cross([]string{workload}, []lab.Setting{{}}, []float64{cpus}, procs),
			Figures:  map[string]lab.Metric{workload: figure}, Blocks: blocks, Seed: 42, Margin: 0.02,
			Command: []string{"unthrottle", "bench", "--cpus", lab.Setting{CPUs: cpus}.Value(lab.ByCPUs), "--blocks", strconv.Itoa(blocks), workload},
		},
		Environment: lab.Environment{
			OS: "linux", Arch: "amd64", Kernel: "6.12.8", CPU: "AMD EPYC 9454P 48-Core Processor", CPUs: 16, Memory: 64 << 30,
			Go: "go1.26.8", LimitKind: "cgroup v2",
		},
	}
	s.Plan.Compare = lab.Varied(s.Plan.Settings)
	at := begin
	for block := 1; block <= blocks; block++ {
		host := math.Exp(0.02 * random.NormFloat64()) // what a block has in common
		for place, setting := range s.Plan.Order(block) {
			p := s.Plan.Settings[setting].Procs
			actual := p
			if p == 0 {
				actual = max(2, int(math.Ceil(cpus)))
			}
			over := max(0, float64(actual)-cpus)
			noise := host * math.Exp(0.006*random.NormFloat64())
			cost := (1 + 0.03*math.Log2(float64(actual))) * noise
			throttled := 100 * over / (over + 1.2) * (0.9 + 0.2*random.Float64())
			r := lab.Run{
				Block: block, Place: place + 1, Setting: setting, Start: at, Seconds: 1.05 + 0.1*random.Float64(), GOMAXPROCS: actual,
				Go: "go1.26.8", LimitKind: "cgroup v2",
				Metrics: map[string]float64{
					figure.Unit: 27_000 * cost, "cpu-sec": math.Round(980_000*cost) / 1e6, "throttled-%": min(100, math.Round(throttled*10)/10),
					"gc-cpu-%":     math.Round(100*(6+2*math.Log2(float64(actual)))*noise) / 100,
					"sched-p99-ns": math.Round(40_000 * float64(actual) * noise), "peak-RSS-bytes": float64(24<<20 + int(over)<<20),
				},
			}
			if figure.Better == "higher" {
				r.Metrics[figure.Unit] = 1.2e6 / cost
			}
			r.Metrics[figure.Unit] = math.Round(r.Metrics[figure.Unit]*10) / 10
			if change != nil {
				change(p, &r)
			}
			s.Runs = append(s.Runs, r)
			at = at.Add(time.Duration(r.Seconds * float64(time.Second)))
		}
	}
	return s
}

var (
	nsPerOp   = lab.Metric{Unit: "ns/op", Better: "lower", About: "time per operation"}
	opsPerSec = lab.Metric{Unit: "ops/s", Better: "higher", About: "operations a second"}
)

// benches are documents that are shown in the tests.
func benches() map[string]*report.Bench {
	documents := map[string]*report.Bench{}
	add := func(name string, s *lab.Study) { documents[name] = report.NewBench(s) }

	add("usual", study("garbage", nsPerOp, 1, []int{0, 1, 4, 8}, 10, nil))
	add("two", study("json", opsPerSec, 1.5, []int{0, 1}, 6, func(p int, r *lab.Run) { r.Metrics["ops/s"] *= 1 - 0.1*float64(p) }))
	add("one", study("fib", nsPerOp, 2, []int{2}, 6, nil))
	add("few", study("fib", nsPerOp, 1, []int{0, 1, 2}, 1, nil))
	add("wide", study("chain", nsPerOp, 0.5, []int{0, 1, 2, 4, 16}, 20, func(p int, r *lab.Run) {
		r.Metrics["ns/op"] *= math.Pow(float64(max(1, p)), 1.4)
	}))
	add("large", study("garbage", nsPerOp, 1, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32}, 60, nil))
	add("readfile", readfileStudy())
	add("failures", failuresStudy())
	add("served-trade", servedStudy(10, func(p int, m map[string]float64) {
		switch p {
		case 1:
			m["tail-latency-ns"], m["p99-latency-ns"], m["cpu-ns/req"] = m["tail-latency-ns"]*2.3, m["p99-latency-ns"]*2.4, m["cpu-ns/req"]*0.88
		case 4:
			m["tail-latency-ns"], m["p99-latency-ns"], m["errors-%"] = m["tail-latency-ns"]*1.2, m["p99-latency-ns"]*3, 0.4
		}
	}))
	add("served-change", servedStudy(10, func(p int, m map[string]float64) {
		if p == 1 {
			m["cpu-ns/req"] *= 0.7
		}
	}))

	several := study("garbage", nsPerOp, 1, []int{0, 1, 2}, 8, nil)
	for _, cpus := range []float64{2, 4} {
		more := study("garbage", nsPerOp, cpus, []int{0, 1, 2}, 8, nil)
		for _, r := range more.Runs {
			r.Setting += len(several.Plan.Settings)
			several.Runs = append(several.Runs, r)
		}
		several.Plan.Settings = append(several.Plan.Settings, more.Plan.Settings...)
	}
	add("several", several)
	add("builds", buildsStudy([]string{"price.BenchmarkOf"}, nil))
	add("builds-many", buildsStudy([]string{"price.BenchmarkOf", "price.BenchmarkSum", "cart.BenchmarkAdd", "cart.BenchmarkClear"}, []string{"internal/tax", "name"}))
	add("builds-identical", buildsStudy(nil, []string{"server"}))
	return documents
}

// buildsStudy is one of benchmarks in two builds: the first is slower in the second, the next is noisy, then one is faster, and one
// the same.
func buildsStudy(names []string, same []string) *lab.Study {
	s := study("x", lab.OpTime.Metric("time for an operation"), 0, []int{0}, 1, nil)
	s.Runs = nil
	p := &s.Plan
	p.Settings = lab.Cross(names, []lab.Setting{{Build: "main"}, {Build: report.WorkingTree}}, []float64{0}, []int{0})
	p.Builds = []lab.Build{{Name: "main", Commit: "5f1e0c3", Sum: "a1"}, {Name: report.WorkingTree, Sum: "b2"}}
	p.Same, p.Compare, p.Blocks, p.Margin, p.Figures, p.Costs = same, lab.ByBuild, 12, 0.02, map[string]lab.Metric{}, map[string]lab.Metric{}
	p.Command = []string{"unthrottle", "bench", "--base", "main", "--gobench", "./..."}
	random := rand.New(rand.NewPCG(2, 3))
	factor, noise := []float64{1.08, 1, 0.8, 1}, []float64{0.01, 0.15, 0.01, 0.005}
	for i, name := range names {
		p.Figures[name], p.Costs[name] = lab.OpTime.Metric("time for an operation"), lab.CPUPerOp.Metric("CPU time of an operation")
		for block := 1; block <= p.Blocks; block++ {
			for build := range 2 {
				cost := 1000 * float64(i+1) * math.Exp(noise[i]*random.NormFloat64())
				if build == 1 {
					cost *= factor[i]
				}
				s.Runs = append(s.Runs, lab.Run{
					Block: block, Place: build + 1, Setting: 2*i + build, Seconds: 1.1, GOMAXPROCS: 16, Go: "go1.26.8", LimitKind: "none",
					Start: time.Date(2026, 11, 2, 9, 30, block, 0, time.UTC), Ops: 1000000,
					Metrics: map[string]float64{"ns/op": math.Round(cost), "cpu-ns/op": math.Round(1.02 * cost * math.Exp(0.004*random.NormFloat64()))},
				})
			}
		}
	}
	s.Environment.LimitKind = "none"
	return s
}

// readfileStudy has an activity: with a limit of half a CPU the program uses up its 50 ms of a period the sooner the more
// Ps it has.
func readfileStudy() *lab.Study {
	random := rand.New(rand.NewPCG(3, 4))
	return study("readfile", opsPerSec, 0.5, []int{0, 1, 4}, 6, func(p int, r *lab.Run) {
		if p == 0 {
			p = 2
		}
		on := int64(50_000 / p)
		for at := 3000 + random.Int64N(90_000); at < 3_000_000; at += 100_000 {
			r.Activity = append(r.Activity, [2]float64{float64(at) / 1e6, float64(at+on+random.Int64N(2000)-1000) / 1e6})
		}
		r.Metrics["on-ms"], r.Metrics["off-ms"] = float64(on)/1000, float64(100_000-on)/1000
	})
}

// servedStudy is of a server at 400 requests a second, whose settings are alike but for the change.
func servedStudy(blocks int, change func(p int, m map[string]float64)) *lab.Study {
	random := rand.New(rand.NewPCG(5, 6))
	s := study("shop", lab.ReadyTail.Metric("tail of typical seconds"), 1, []int{0, 1, 4}, blocks, func(p int, r *lab.Run) {
		near := func() float64 { return math.Exp(0.02 * random.NormFloat64()) }
		tail := 6e6 * near()
		r.Metrics = map[string]float64{
			"tail-latency-ns": math.Round(tail), "p99-latency-ns": math.Round(1.3 * tail * near()), "cpu-ns/req": math.Round(1.5e6 * near()),
			"req/s": 400, "errors-%": 0, "throttled-%": r.Metrics["throttled-%"], "peak-RSS-bytes": r.Metrics["peak-RSS-bytes"],
		}
		change(p, r.Metrics)
		if r.Block == 3 && p == 4 {
			r.Marks = []string{lab.MarkLoad + ": 3 % of the requests were sent in bursts"}
		}
	})
	s.Plan.Costs = map[string]lab.Metric{"shop": lab.CPUPerRequest.Metric("CPU per request")}
	s.Plan.Served = &lab.Served{URL: "http://localhost:8080/", Rate: 400, WarmUp: lab.Seconds(time.Second), Window: lab.Seconds(5 * time.Second)}
	s.Plan.Margin, s.Plan.Tail = 0.05, 0.25
	s.Plan.Command = []string{"unthrottle", "bench", "--rate", "400", "--procs", "default,1,4", "--", "./shop"}
	return s
}

// failuresStudy has all that goes wrong, under names that try to break the page.
func failuresStudy() *lab.Study {
	s := study(hostile, nsPerOp, 1, []int{0, 1, 2, 4}, 9, func(p int, r *lab.Run) {
		switch {
		case p == 2 || p == 4 && r.Block%4 == 0:
			r.Error, r.Metrics = "exit status 2: "+hostile, nil
		case r.Block == 3 && p != 4:
			r.Marks = []string{"load of the host 3.2", hostile}
		}
		if p == 1 && (r.Block == 3 || r.Block == 7) {
			r.Metrics["ns/op"] *= 1.8
		}
	})
	s.Environment.LimitKind, s.Environment.Notes = "emulated", []string{"cgroup v2: no write access to /sys/fs/cgroup", hostile}
	s.Environment.CPU = hostile
	s.Plan.Blocks = 20
	s.Plan.Command = append(s.Plan.Command, "it's", "")
	return s
}

func TestBench(t *testing.T) {
	for name, d := range benches() {
		s := Bench(d)
		if name != "large" && name != "wide" && name != "several" { // whose sheets are more than anyone reads
			golden(t, "bench "+name, s)
		}
		shown(t, s)
		if name == "usual" || name == "several" || name == "readfile" || name == "failures" || strings.HasPrefix(name, "served") {
			screen(t, "bench "+name, s)
		}
		if name == "failures" {
			harmless(t, s)
		} else {
			selfContained(t, s)
		}
	}
}

// TestBenchSays holds that each verdict is in all forms, on a page as a sentence of its own.
func TestBenchSays(t *testing.T) {
	for name, d := range benches() {
		for form, text := range forms(t, Bench(d)) {
			text = strings.ReplaceAll(text, `\`, "")
			for _, g := range d.Groups {
				want := g.Verdict
				if form == "page" || len(d.Groups) == 1 {
					want = g.Advice
				}
				if !strings.HasPrefix(g.Verdict, g.Name+": ") || !strings.EqualFold(g.Name+": "+g.Advice, g.Verdict) {
					t.Errorf("the advice %q is not what %q says", g.Advice, g.Verdict)
				}
				if name == "builds-many" && (g.Claim == lab.Undecided || g.Claim == lab.NoWorse) { // a row says it
					want = g.Name
				}
				if name != "failures" && !strings.Contains(text, want) {
					t.Errorf("%s: the %s does not say %q", name, form, want)
				}
			}
		}
	}
}

// figures counts the runs that have a figure.
func figures(b *report.Bench) (n int) {
	for _, r := range b.Runs {
		unit := b.Plan.Figures[b.Plan.Settings[r.Setting].Workload].Unit
		if _, ok := r.Metrics[unit]; ok && r.Error == "" {
			n++
		}
	}
	return n
}

// TestBenchAtOnce: how much was made at the same time is said, and why not more.
func TestBenchAtOnce(t *testing.T) {
	const together = "2 runs: those of a block that are compared with each other ran at the same time"
	with, turned := lab.Run{AtOnce: 2}, lab.Run{InTurn: "one failed"}
	for want, runs := range map[string][]lab.Run{
		"":                       {{}, {}},
		together:                 {with, with, {}},
		"nothing, as one failed": {turned, {}},
		together + "; then in turn, as one failed":                         {with, with, turned, {}},
		together + "; 2 of 3 comparisons in turn, the first as one failed": {with, with, turned, {InTurn: "no room"}},
	} {
		if got := benchAtOnce(&report.Bench{Runs: runs, Groups: make([]report.BenchGroup, 3)}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestBenchDots holds that there is a mark for each run with a figure, and that no mark says anything else.
func TestBenchDots(t *testing.T) {
	for name, d := range benches() {
		marks := 0
		for i := range d.Groups {
			g := &d.Groups[i]
			chart := benchDots(d, g, true)
			for j, row := range chart.Rows {
				marks += len(row.Marks)
				if m, ok := g.Settings[j].Metrics[g.Figure.Unit]; ok && *row.Middle != m.Median {
					t.Errorf("%s: a median of %v is drawn at %v", name, m.Median, *row.Middle)
				}
				for _, m := range row.Marks {
					if m.Place < 0 || m.Place > 1 || m.Thread < 1 {
						t.Errorf("%s: %+v", name, m)
					}
				}
			}
		}
		if want := figures(d); marks != want {
			t.Errorf("%s: %d marks for %d runs with figures", name, marks, want)
		}
	}
	d := benches()["failures"]
	outliers, marked := 0, 0
	chart := benchDots(d, &d.Groups[0], true)
	for _, row := range chart.Rows {
		for _, m := range row.Marks {
			if m.Open {
				outliers++
			}
			if m.Shape == sheet.Triangle {
				marked++
			}
		}
	}
	if outliers != 2 || marked != 2 || len(chart.Keys) != 3 {
		t.Errorf("%d far from the others, %d while the host did something else, %d keys", outliers, marked, len(chart.Keys))
	}
}

// TestBenchSize: a usual page is small. Most of a large one is the document itself, which grows with the runs.
func TestBenchSize(t *testing.T) {
	for name, most := range map[string]int{"usual": 70_000, "several": 110_000, "large": 420_000} {
		d := benches()[name]
		document, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		page := forms(t, Bench(d))["page"]
		t.Logf("%s: %d runs, %d bytes, of which the document has %d", name, len(d.Runs), len(page), len(document))
		if len(page) > most {
			t.Errorf("%s: the page has %d bytes", name, len(page))
		}
	}
}

// TestBenchOdd shows documents that no lab makes, but a file may hold.
func TestBenchOdd(t *testing.T) {
	huge, small := study("fib", nsPerOp, 1, []int{0, 1}, 6, nil), study("fib", nsPerOp, 1, []int{0, 1}, 6, nil)
	for i := range huge.Runs {
		huge.Runs[i].Metrics["ns/op"] = math.Pow(10, float64(i*10))
		small.Runs[i].Metrics["ns/op"] = -float64(i)
		small.Runs[i].Activity = [][2]float64{{0.0005, 0.0001}, {-5, 9e18}, {7, -3}}
	}
	none := study("fib", nsPerOp, 1, []int{0, 1}, 3, func(_ int, r *lab.Run) { r.Error, r.Metrics = "it failed", nil })
	wrong := report.NewBench(huge)
	wrong.Runs[0].Setting = 99
	wrong.Groups[0].Best = ptr(7)
	wrong.Groups = append(wrong.Groups, report.BenchGroup{Name: "empty"})
	for name, d := range map[string]*report.Bench{
		"empty": {}, "no figures": report.NewBench(none), "huge": report.NewBench(huge), "negative": report.NewBench(small),
		"wrong numbers": wrong, "zero": report.NewBench(study("fib", nsPerOp, 1, []int{1}, 2, func(_ int, r *lab.Run) { r.Metrics["ns/op"] = 0 })),
	} {
		t.Run(name, func(t *testing.T) {
			sane(t, Bench(d))
			sane(t, BenchClassic(d))
		})
	}
	broken := report.NewBench(none)
	broken.Seconds = math.Inf(1)
	if err := render.HTML(io.Discard, Bench(broken)); err == nil {
		t.Error("a document that can't be JSON made a page all the same")
	}
}

func TestBenchClassic(t *testing.T) {
	s := study("chain", nsPerOp, 1, []int{1, 2}, 6, nil)
	for _, r := range s.Runs {
		r.Setting += len(s.Plan.Settings)
		s.Runs = append(s.Runs, r)
	}
	for _, setting := range s.Plan.Settings {
		setting.CPUs = 0
		s.Plan.Settings = append(s.Plan.Settings, setting)
	}
	text := shown(t, BenchClassic(report.NewBench(s)))
	want := regexp.MustCompile(`^  limit 1  go1\.26\.8
  Chain    2\d\.\d µs × \(0\.9\d, 1\.0\d\)
  Chain-2  2\d\.\d µs × \(0\.9\d, 1\.0\d\)

  no limit  go1\.26\.8
  Chain     2\d\.\d µs × \(0\.9\d, 1\.0\d\)
  Chain-2   2\d\.\d µs × \(0\.9\d, 1\.0\d\)
$`)
	if !want.MatchString(text) {
		t.Errorf("got\n%s", text)
	}
	for name, want := range map[string]string{"chain 1": "Chain", "chain 2": "Chain-2", "chain default": "Chain-default"} {
		work, procs, _ := strings.Cut(name, " ")
		if got := classicName(work, procs); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
