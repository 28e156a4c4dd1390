package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sample"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// A fakeSetting is what a setting is like at a load.
type fakeSetting struct {
	procs, gogc    int
	p99, cpu, time float64 // seconds
	throttled      float64 // share
	memory, gc     float64
	blocks         int // 0: all; otherwise it was dropped after them
	dropped        string
	current, best  bool
}

// A fakeTune makes documents that look like those of a tune.
type fakeTune struct {
	random   *rand.Rand
	at       time.Time
	d        *report.Tune
	names    map[string]string // of a quantity: that of its metric
	points   int               // of a curve
	steps    int
	noise    float64
	requests float64 // a run
}

var tuneUnits = map[string]string{
	"p50": "p50-latency-ns", "p99": "p99-latency-ns", "cpu": "cpu-ns/req", "throttled": "throttled-%", "memory": "peak-RSS-bytes", "time": "wall-sec",
}

func newFakeTune(seed uint64) *fakeTune {
	begin := time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC)
	f := &fakeTune{random: rand.New(rand.NewPCG(seed, 9)), at: begin, names: tuneUnits, points: 9, steps: 5, noise: 0.1, requests: 1200}
	f.d = &report.Tune{
		Header:    report.Header{Version: 2, Verb: "tune", MadeBy: "unthrottle v0.1.0", Time: begin.Format(time.RFC3339)},
		Current:   report.TuneCurrent{Procs: 2, Why: "Go's default under a limit of 1 CPU", GoDefault: 2},
		Subject:   report.TuneSubject{Kind: "server", Name: "shop", Command: []string{"./shop", "--port", "8080"}, URL: "http://127.0.0.1:8080/cart", Unit: "request"},
		LimitCPUs: 1, LimitKind: "cgroup-v2", Margin: 0.05, Seed: 7, Finished: true, Warnings: []string{},
		Command: []string{"unthrottle", "tune", "--cpus", "1", "--rate", "120", "--seed", "7", "./shop", "--port", "8080"},
		Environment: lab.Environment{
			OS: "linux", Arch: "amd64", Kernel: "6.12.8", CPU: "AMD EPYC 9454P 48-Core Processor", CPUs: 16, Memory: 64 << 30, Go: "go1.26.8", LimitKind: "cgroup-v2",
		},
	}
	return f
}

// nines is a percentile's place where 90, 99 and 99.9 % are equally far from each other.
func nines(percentile float64) float64 { return -math.Log10(1 - min(percentile, 100-1e-9)/100) }

func digits4(v float64) float64 {
	if v == 0 {
		return 0
	}
	power := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*power) / power
}

// run makes one run.
func (f *fakeTune) run(load int, phase string, block int, s fakeSetting, host float64) report.TuneRun {
	noise := func(sd float64) float64 { return host * math.Exp(sd*f.random.NormFloat64()) }
	r := report.TuneRun{
		Load: load, Phase: phase, Block: block, Procs: s.procs, GOGC: s.gogc, Seed: 1000*uint64(block) + uint64(len(phase)), Start: f.at.Format(time.RFC3339),
		Seconds: 12.4, Valid: true, SLOHeld: true, Metrics: map[string]float64{},
	}
	f.at = f.at.Add(13 * time.Second)
	set := func(quantity string, v float64) {
		if v > 0 || quantity == "throttled" {
			if strings.Contains(f.names[quantity], "-ns") {
				v *= 1e9
			}
			r.Metrics[f.names[quantity]] = digits4(v)
		}
	}
	throttled := min(1, s.throttled*math.Exp(0.1*f.random.NormFloat64()))
	share := throttled
	if strings.HasSuffix(f.names["throttled"], "%") {
		share *= 100
	}
	set("throttled", share)
	set("cpu", s.cpu*noise(0.04))
	set("memory", math.Round(s.memory*noise(0.02)))
	if s.time > 0 {
		set("time", s.time*noise(f.noise))
		return r
	}
	p99 := s.p99 * noise(f.noise)
	p50 := 0.0021 * noise(0.05)
	set("p50", p50)
	set("p99", p99)
	at := func(percentile float64) float64 {
		x := nines(percentile)
		if percentile == 100 {
			x = math.Log10(f.requests)
		}
		if x <= 0.301 {
			return digits4(p50 * (0.35 + 0.65*x/0.301))
		}
		return digits4(p50 * math.Pow(p99/p50, (x-0.301)/(2-0.301)))
	}
	last := math.Log10(f.requests)
	for i := range f.points - 1 {
		percentile := 100 * (1 - math.Pow(10, -last*float64(i)/float64(f.points-1)))
		percentile = math.Round(percentile*1000) / 1000
		r.Curve = append(r.Curve, report.CurvePoint{Percentile: percentile, Seconds: at(percentile), Count: int64(f.requests * percentile / 100)})
	}
	r.Curve = append(r.Curve, report.CurvePoint{Percentile: 100, Seconds: at(100), Count: int64(f.requests)})
	for i := range f.steps {
		length := 10 / float64(f.steps)
		periods := int64(10 * length)
		r.Axis = append(r.Axis, report.TuneStep{
			At: float64(i) * length, Length: length, Sent: int64(f.requests / float64(f.steps)), P99: digits4(p99 * noise(0.2)), Periods: periods,
			Throttled: min(periods, int64(math.Round(float64(periods)*throttled*noise(0.3)))),
		})
	}
	return r
}

// search adds a load's runs and what they say.
func (f *fakeTune) search(l report.TuneLoad, blocks, pairs int, settings ...fakeSetting) {
	d, n := f.d, len(f.d.Loads)
	var current, rival fakeSetting
	for _, s := range settings {
		if s.current {
			current = s
		} else if s.best || rival.procs == 0 {
			rival = s
		}
	}
	first := len(d.Runs)
	d.Runs = append(d.Runs, f.run(n, "pilot", 1, current, 1))
	for block := 1; block <= blocks; block++ {
		host := math.Exp(0.02 * f.random.NormFloat64())
		for _, i := range f.random.Perm(len(settings)) {
			if s := settings[i]; s.blocks == 0 || block <= s.blocks {
				d.Runs = append(d.Runs, f.run(n, "explore", block, s, host))
			}
		}
	}
	for pair := 1; pair <= pairs; pair++ {
		host := math.Exp(0.02 * f.random.NormFloat64())
		both := []fakeSetting{current, rival}
		for _, i := range f.random.Perm(2) {
			d.Runs = append(d.Runs, f.run(n, "confirm", pair, both[i], host))
		}
	}
	l.Blocks, l.Pairs, l.Done = blocks, pairs, true
	runs := d.Runs[first:]
	if pairs > 0 {
		l.Effects = f.effects(runs, "confirm", current, rival, true)
	}
	d.Loads = append(d.Loads, l)
	for _, s := range settings {
		row := report.TuneSetting{
			Load: n, Procs: s.procs, GOGC: s.gogc, Current: s.current, Best: s.best, Dropped: s.dropped, Metrics: map[string]report.BenchSummary{},
			Versus: []report.TuneEffect{}, Curve: []report.CurvePoint{},
		}
		values := map[string][]float64{}
		var curves [][]report.CurvePoint
		for _, r := range runs {
			if r.Procs != s.procs || r.GOGC != s.gogc || r.Phase == "pilot" {
				continue
			}
			row.Runs++
			curves = append(curves, r.Curve)
			for unit, v := range r.Metrics {
				values[unit] = append(values[unit], v)
			}
		}
		for unit, v := range values {
			m := sample.Summarise(v)
			row.Metrics[unit] = report.BenchSummary{
				N: m.N, Median: digits4(m.Median), Low: m.Low, High: m.High, Confidence: digits4(m.Confidence), Mean: digits4(m.Mean), Min: m.Min, Max: m.Max, Outliers: m.Outliers,
			}
		}
		if len(curves) > 0 {
			for i, point := range curves[0] {
				var all []float64
				for _, c := range curves {
					all = append(all, c[i].Seconds)
				}
				point.Count = 0 // it is that of no run
				point.Seconds = digits4(sample.Summarise(all).Median)
				row.Curve = append(row.Curve, point)
			}
		}
		if !s.current {
			row.Versus = f.effects(runs, "explore", current, s, false)
		}
		if s.gc > 0 {
			row.GC = &report.TuneGC{PerSecond: 12, CPUShare: s.gc, Live: 24 << 20, Goal: 48 << 20}
		}
		d.Settings = append(d.Settings, row)
	}
}

// effects compares the runs of a phase.
func (f *fakeTune) effects(runs []report.TuneRun, phase string, current, other fakeSetting, throttled bool) (effects []report.TuneEffect) {
	var decide []*sample.Comparison
	for _, quantity := range []string{"p99", "time", "cpu", "throttled"} {
		unit := f.names[quantity]
		var from, to []float64
		for block := 1; block < 100; block++ {
			a, b := 0.0, 0.0
			for _, r := range runs {
				switch v := r.Metrics[unit]; {
				case r.Phase != phase || r.Block != block:
				case r.Procs == current.procs && r.GOGC == current.gogc:
					a = v
				case r.Procs == other.procs && r.GOGC == other.gogc:
					b = v
				}
			}
			if a > 0 && b > 0 || quantity == "throttled" && a > 0 {
				from, to = append(from, a), append(to, b)
			}
		}
		if len(from) == 0 || quantity == "throttled" && !throttled {
			continue
		}
		if strings.Contains(unit, "-ns") {
			for i := range from {
				from[i], to[i] = from[i]/1e9, to[i]/1e9
			}
		}
		e := report.TuneEffect{Metric: quantity, From: digits4(sample.Summarise(from).Median), To: digits4(sample.Summarise(to).Median)}
		if quantity == "throttled" {
			if strings.HasSuffix(unit, "%") {
				e.From, e.To = digits4(e.From/100), digits4(e.To/100)
			}
			effects = append(effects, e)
			continue
		}
		c := sample.Compare(from, to)
		decide = append(decide, &c)
		effects = append(effects, e)
	}
	sample.Decide(decide, 0.05)
	for i, c := range decide {
		e := &effects[i]
		e.Decides = throttled
		e.Ratio, e.Low, e.High, e.P, e.Adjusted, e.Verdict = digits4(c.Ratio), digits4(c.Low), digits4(c.High), digits4(c.P), digits4(c.Adjusted), string(c.Verdict)
		if !throttled {
			e.P, e.Adjusted, e.Verdict = 0, 0, ""
		}
	}
	return effects
}

// done completes the document.
func (f *fakeTune) done() *report.Tune {
	d := f.d
	for _, r := range d.Runs {
		for _, m := range slices.Sorted(maps.Keys(r.Metrics)) {
			if !slices.ContainsFunc(d.Metrics, func(have lab.Metric) bool { return have.Unit == m }) {
				d.Metrics = append(d.Metrics, lab.Metric{Unit: m, Better: "lower"})
			}
		}
	}
	if d.Seconds == 0 {
		d.Seconds = 13 * float64(len(d.Runs))
	}
	return d
}

func fakeHow() []report.TuneHow {
	return []report.TuneHow{
		{Where: "environment", Text: "GOMAXPROCS=1 ./shop --port 8080"},
		{Where: "Kubernetes", Text: "env:\n- name: GOMAXPROCS\n  value: \"1\""},
		{Where: "systemd", Text: "[Service]\nEnvironment=GOMAXPROCS=1"},
		{Where: "Go", Text: "import \"github.com/unthrottle/unthrottle\"\nunthrottle.Set(unthrottle.Options{Policy: unthrottle.Floor}) // 1 at a limit of 1, and it follows the limit"},
	}
}

func fakeLoad(rate, share float64) report.TuneLoad {
	return report.TuneLoad{
		Rate: rate, Share: share, Capacity: math.Round(rate / share), Arrivals: "poisson", Window: 10, WarmUp: 2, Tail: "p99",
		Noise: map[string]float64{"p99": 0.378, "cpu": 0.0392}, Kind: "change", Procs: 1,
	}
}

// tunes are documents that are rendered in the tests.
func tunes() map[string]*report.Tune {
	all := map[string]*report.Tune{}

	f := newFakeTune(1)
	f.points, f.steps, f.noise = 30, 10, 0.3
	l := fakeLoad(120, 0.65)
	l.Main = true
	f.search(l, 4, 10,
		fakeSetting{procs: 1, p99: 0.041, cpu: 0.00495, throttled: 0.12, memory: 31 << 20, gc: 0.08, best: true},
		fakeSetting{procs: 2, p99: 0.097, cpu: 0.00523, throttled: 0.55, memory: 33 << 20, gc: 0.11, current: true},
		fakeSetting{procs: 4, p99: 0.148, cpu: 0.00561, throttled: 0.78, memory: 36 << 20, gc: 0.14, blocks: 3, dropped: "after 3 blocks p99 was 3.6 times that of GOMAXPROCS=1, in each of them higher"})
	f.d.Verdict = report.TuneVerdict{
		Kind: "change", Procs: 1,
		Text: "Set GOMAXPROCS=1: p99 falls from 97 ms to 41 ms (−58 %, 95 % interval −66 % to −47 %), at 120 requests a second, and a request costs 5 % less CPU. By 10 fresh pairs of runs.",
		Also: []string{"With 2 the program was throttled in 55 % of the periods, with 1 in 12 %.", "GOMAXPROCS=4 costs 13 % more CPU a request: of that the collector takes a half."},
		How:  fakeHow(),
	}
	f.d.Loads[0].Text = f.d.Verdict.Text
	all["change"] = f.done()

	f = newFakeTune(2)
	l = fakeLoad(200, 0.6)
	l.Main, l.Procs, l.GOGC, l.SLO = true, 2, 200, "p99=50ms"
	f.d.Objective, f.d.Current.Why = "cpu", "it is set in the environment"
	f.search(l, 5, 8,
		fakeSetting{procs: 2, gogc: 200, p99: 0.031, cpu: 0.00312, throttled: 0.05, memory: 61 << 20, gc: 0.06, best: true},
		fakeSetting{procs: 2, gogc: 100, p99: 0.044, cpu: 0.00341, throttled: 0.21, memory: 44 << 20, gc: 0.13, current: true},
		fakeSetting{procs: 2, gogc: 50, p99: 0.071, cpu: 0.0041, throttled: 0.44, memory: 36 << 20, gc: 0.24, blocks: 3, dropped: "after 3 blocks a request cost 20 % more CPU"},
		fakeSetting{procs: 1, gogc: 100, p99: 0.046, cpu: 0.00339, throttled: 0.11, memory: 42 << 20, gc: 0.12, blocks: 4, dropped: "after 4 blocks it was behind"})
	f.d.Verdict = report.TuneVerdict{
		Kind: "change", Procs: 2, GOGC: 200, Text: "Set GOGC=200 and keep GOMAXPROCS=2: a request costs 9 % less CPU (95 % interval −11 % to −6 %), for 17 MiB of memory.",
		How: []report.TuneHow{{Where: "environment", Text: "GOGC=200 ./shop"}},
	}
	for i := range f.d.Runs {
		if r := &f.d.Runs[i]; r.Metrics["p99-latency-ns"] > 0.05e9 {
			r.SLOHeld = false
			for j := range f.d.Settings {
				if s := &f.d.Settings[j]; s.Procs == r.Procs && s.GOGC == r.GOGC && r.Phase != "pilot" {
					s.Broken++
				}
			}
		}
	}
	all["gogc"] = f.done()

	f = newFakeTune(3)
	l = fakeLoad(90, 0.5)
	l.Main, l.Kind, l.Procs, l.Arrivals = true, "keep", 4, "const"
	f.d.Current, f.d.LimitCPUs = report.TuneCurrent{Procs: 4, Why: "Go's default under a limit of 4 CPUs", GoDefault: 4}, 4
	f.search(l, 6, 0,
		fakeSetting{procs: 4, p99: 0.0123, cpu: 0.0032, memory: 40 << 20, best: true, current: true},
		fakeSetting{procs: 3, p99: 0.0125, cpu: 0.00321, memory: 39 << 20},
		fakeSetting{procs: 5, p99: 0.0124, cpu: 0.00324, memory: 41 << 20},
		fakeSetting{procs: 8, p99: 0.0131, cpu: 0.0034, memory: 44 << 20, blocks: 4, dropped: "after 4 blocks a request cost 6 % more CPU"})
	f.d.Verdict = report.TuneVerdict{
		Kind: "keep", Procs: 4, Text: "3, 4 and 5 are within 4 % of each other (CPU a request in 6 blocks): keep 4.",
		Also: []string{"No period was throttled with any of them."},
	}
	all["keep"] = f.done()

	f = newFakeTune(4)
	f.noise = 0.5
	l = fakeLoad(120, 0.65)
	l.Main, l.Kind, l.Procs, l.MorePairs, l.MoreSeconds = true, "undecided", 2, 30, 780
	f.search(l, 4, 10,
		fakeSetting{procs: 1, p99: 0.081, cpu: 0.0051, throttled: 0.4, memory: 31 << 20, best: true},
		fakeSetting{procs: 2, p99: 0.097, cpu: 0.0052, throttled: 0.5, memory: 33 << 20, current: true},
		fakeSetting{procs: 3, p99: 0.099, cpu: 0.0053, throttled: 0.6, memory: 34 << 20})
	f.d.Verdict = report.TuneVerdict{
		Kind: "undecided", Procs: 2, Text: "Undecided: GOMAXPROCS=1 was the best of the search, but fresh pairs don't show that it is better than 2. About 60 runs more (13 minutes, a fresh confirmation of 30 pairs) would settle 5 %.",
	}
	all["undecided"] = f.done()

	f = newFakeTune(5)
	l = fakeLoad(120, 0.65)
	l.Main, l.Kind, l.Procs = true, "undecided", 2
	f.search(l, 2, 0,
		fakeSetting{procs: 1, p99: 0.041, cpu: 0.005, throttled: 0.1, memory: 31 << 20, best: true},
		fakeSetting{procs: 2, p99: 0.097, cpu: 0.0052, throttled: 0.5, memory: 33 << 20, current: true},
		fakeSetting{procs: 4, p99: 0.14, cpu: 0.0056, throttled: 0.7, memory: 36 << 20})
	f.d.Loads[0].Done, f.d.Finished = false, false
	f.d.Resume = "unthrottle tune --resume unthrottle-tune.json"
	f.d.Verdict = report.TuneVerdict{Kind: "undecided", Procs: 2, Text: "Interrupted after 7 runs. Best so far is GOMAXPROCS=1, unconfirmed."}
	all["interrupted"] = f.done()

	f = newFakeTune(6)
	f.noise = 0.02
	f.names = map[string]string{"time": "wall-sec", "cpu": "cpu-sec", "throttled": "throttled-%", "memory": "peak-RSS-bytes"}
	f.d.Subject = report.TuneSubject{Kind: "job", Name: "convert", Command: []string{"./convert", "all"}, Unit: "run"}
	f.d.LimitCPUs, f.d.Command = 1.5, []string{"unthrottle", "tune", "--cpus", "1.5", "--job", "./convert", "all"}
	f.search(report.TuneLoad{Main: true, Kind: "change", Procs: 1, Noise: map[string]float64{"time": 0.02, "cpu": 0.0392}}, 3, 8,
		fakeSetting{procs: 1, time: 6.1, cpu: 5.9, memory: 210 << 20, best: true},
		fakeSetting{procs: 2, time: 6.9, cpu: 8.7, throttled: 0.7, memory: 230 << 20, current: true},
		fakeSetting{procs: 4, time: 8.4, cpu: 11.9, throttled: 0.9, memory: 280 << 20, blocks: 3, dropped: "after 3 blocks it took 38 % longer"})
	f.d.Verdict = report.TuneVerdict{Kind: "change", Procs: 1, Text: "Set GOMAXPROCS=1: a run takes 6.1 s instead of 6.9 s (−11 %, 95 % interval −13 % to −9 %).", How: fakeHow()[:1]}
	all["job"] = f.done()

	f = newFakeTune(7)
	f.points, f.steps = 9, 4
	for i, share := range []float64{0.4, 0.65, 0.9} {
		l = fakeLoad(math.Round(185*share), share)
		l.Main, l.Capacity = i == 1, 185
		k := math.Pow(2, float64(i))
		l.Text = fmt.Sprintf("Set GOMAXPROCS=1: p99 is lower at %v %% of the capacity as well.", 100*share)
		if i == 0 {
			l.Kind, l.Procs, l.Text = "keep", 2, "1 and 2 are within 5 % of each other: keep 2."
		}
		f.search(l, 3, 8*min(i, 1),
			fakeSetting{procs: 1, p99: 0.012 * k, cpu: 0.005, throttled: 0.05 * k, memory: 31 << 20, best: i > 0},
			fakeSetting{procs: 2, p99: 0.0125 * k * k, cpu: 0.0052, throttled: 0.15 * k, memory: 33 << 20, current: true, best: i == 0},
			fakeSetting{procs: 4, p99: 0.02 * k * k, cpu: 0.0056, throttled: 0.2 * k, memory: 36 << 20})
	}
	f.d.Verdict = report.TuneVerdict{
		Kind: "change", Procs: 1, Load: 1, Text: "Set GOMAXPROCS=1: p99 falls from 47 ms to 25 ms at 120 requests a second.",
		Also: []string{"At 40 % of the capacity it makes no difference, at 90 % a larger one."}, How: fakeHow()[:1],
	}
	all["loads"] = f.done()

	f = newFakeTune(8)
	f.d.Loads = []report.TuneLoad{{Rate: 120, Arrivals: "poisson", Window: 10, WarmUp: 2, Tail: "p99", SLO: "p99=50ms,errors=1%", Main: true, Kind: "change", Procs: 1, Done: true}}
	f.d.LimitCPUs = 0
	f.d.Verdict = report.TuneVerdict{
		Kind: "change", Procs: 1, LimitCPUs: 1, Text: "A limit of 1 CPU will do for 120 requests a second with p99 ≤ 50 ms, with GOMAXPROCS=1. Half a CPU will not.",
		How: fakeHow()[:2],
	}
	for i, limit := range []float64{0.5, 0.75, 1, 1.5, 2} {
		row := report.TuneLimit{CPUs: limit, Held: []int{0, 2, 5, 5, 5}[i], Of: 5, Will: i > 1, P99: digits4(0.11 / (0.3 + limit*limit)), CPU: digits4(0.0049 + 0.0001*limit)}
		for _, procs := range []int{1, 2} {
			rate := math.Round(118 * limit * (1 + 0.15*float64(2-procs)))
			if procs == 1 {
				rate = min(rate, 205)
			}
			row.Settings = append(row.Settings, report.TuneLimitRates{
				Procs: procs, Default: procs == 2, Rate: rate, Text: fmt.Sprintf("sustains %v/s (5 of 5 windows), fails %v/s (4 of 5)", rate, math.Round(rate*1.1)), Windows: []report.LoadWindow{},
			})
		}
		f.d.Limits = append(f.d.Limits, row)
	}
	f.d.Seconds = 2400
	all["limits"] = f.done()

	f = newFakeTune(9)
	l = fakeLoad(120, 0.65)
	l.Main, l.Invalid = true, 2
	f.search(l, 3, 8,
		fakeSetting{procs: 1, p99: 0.041, cpu: 0.005, throttled: 0.1, memory: 31 << 20, best: true},
		fakeSetting{procs: 2, p99: 0.097, cpu: 0.0052, throttled: 0.5, memory: 33 << 20, current: true},
		fakeSetting{procs: 8, p99: 0.2, cpu: 0.006, throttled: 0.9, memory: 50 << 20, blocks: 1, dropped: "the program failed: exit status 2: panic: out of file descriptors"})
	f.d.LimitKind, f.d.Environment.LimitKind = "emulated", "emulated"
	f.d.Environment.Notes = []string{"cgroup v2: no write access to /sys/fs/cgroup", "systemd: no session bus"}
	f.d.Warnings = []string{
		"the limit is emulated, not the kernel's own: the program is stopped and continued by signals (cgroup v2: no write access to /sys/fs/cgroup)",
		"2 of 26 runs are not valid, as the generator was late by itself",
	}
	f.d.Settings[2].Failed = 1
	for i := range f.d.Runs {
		switch r := &f.d.Runs[i]; {
		case r.Procs == 8 && r.Phase == "explore":
			r.Error, r.Metrics, r.Valid, r.Curve, r.Axis = "exit status 2: panic: out of file descriptors", nil, false, nil, nil
		case i == 5 || i == 11:
			r.Valid, r.Invalid = false, []string{"the generator was late by itself: 7.3ms at p99, where 1ms is allowed"}
		case i == 8:
			r.Marks = []string{"load of the host 3.2"}
		}
	}
	f.d.Settings[2].Metrics, f.d.Settings[2].Versus, f.d.Settings[2].Curve, f.d.Settings[2].Runs = map[string]report.BenchSummary{}, nil, nil, 0
	f.d.Verdict = report.TuneVerdict{Kind: "change", Procs: 1, Text: "Set GOMAXPROCS=1: p99 falls from 97 ms to 41 ms.", How: fakeHow()[:1]}
	all["doubts"] = f.done()

	f = newFakeTune(10)
	f.d.Verdict = report.TuneVerdict{Kind: "undecided", Procs: 2, Text: "Undecided: the program did not answer at http://127.0.0.1:8080/cart within 30 s of its start, so nothing was measured."}
	f.d.Metrics, f.d.Warnings, f.d.Finished = []lab.Metric{}, []string{"the program wrote: listen tcp :8080: bind: address already in use"}, false
	all["nothing"] = f.done()
	return all
}

// TestTuneDocuments keeps the documents that the renderers are tested with as files, for those who want to see one.
func TestTuneDocuments(t *testing.T) {
	for name, d := range tunes() {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", "tune-"+name+".json")
		if *update {
			if err := os.WriteFile(file, append(text, '\n'), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != string(text)+"\n" {
			t.Errorf("%s is not what is made now; -update writes it anew", file)
		}
		var again report.Tune
		if err := json.Unmarshal(want, &again); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTune(t *testing.T) {
	for name, d := range tunes() {
		s := Tune(d)
		golden(t, "tune "+name, s)
		text := shown(t, s)
		selfContained(t, s)
		switch name {
		case "change", "limits", "loads", "doubts":
			screen(t, "tune-"+name, text)
		}
	}
}

// TestTuneSays holds what a reader must not miss.
func TestTuneSays(t *testing.T) {
	all := tunes()
	for name, want := range map[string][]string{
		"change":      {"Set GOMAXPROCS=1: p99 falls from 97 ms to 41 ms", "GOMAXPROCS=4 was dropped: after 3 blocks", "noise: p99 ±46 % a run, CPU a request ±4 % a run", "10 fresh pairs"},
		"gogc":        {"Set GOGC=200", "missed the SLO in"},
		"interrupted": {"Interrupted after 7 runs", "unthrottle tune --resume unthrottle-tune.json"},
		"job":         {"CPU a run", "time"},
		"loads":       {"40 % of its capacity (74/s)", "keep 2", "set 1"},
		"limits":      {"A limit of 1 CPU will do", "yes, smallest", "5 of 5"},
		"doubts":      {"the limit is emulated", "panic: out of file descriptors", "the generator was late by itself"},
		"nothing":     {"nothing was measured", "address already in use"},
	} {
		for form, text := range forms(t, Tune(all[name])) {
			text = strings.NewReplacer(`\_`, "_", "&#39;", "'").Replace(text)
			for _, want := range want {
				if form == "markdown" && strings.Contains(want, "--resume") {
					continue
				}
				if !strings.Contains(text, want) {
					t.Errorf("%s: the %s does not say %q", name, form, want)
				}
			}
		}
	}
}

// TestTuneDraws: what has no data is not drawn.
func TestTuneDraws(t *testing.T) {
	for name, want := range map[string]int{"change": 6, "keep": 4, "job": 4, "nothing": 0, "limits": 1, "interrupted": 5, "loads": 17} {
		if got := strings.Count(forms(t, Tune(tunes()[name]))["page"], `<svg role="img"`); got != want {
			t.Errorf("%s: %d drawings, want %d", name, got, want)
		}
	}
}

// TestTuneColors: a setting has the same colour wherever it is seen, and the current one that of the base.
func TestTuneColors(t *testing.T) {
	for name, d := range tunes() {
		colors := map[string]sheet.Color{}
		see := func(name string, c sheet.Color) {
			name, _, _ = strings.Cut(name, " (")
			if before, ok := colors[name]; ok && before != c {
				t.Errorf("%s has two colours, %d and %d", name, before, c)
			}
			colors[name] = c
		}
		for _, section := range Tune(d).Sections {
			for _, b := range section.Blocks {
				if detail, ok := b.(sheet.Detail); ok {
					b = detail.Block
				}
				switch b := b.(type) {
				case *sheet.Table:
					for _, r := range b.Rows {
						if name := r.Cells[0].Text; b.Columns[0].Title == "GOMAXPROCS" && b.Columns[1].Title != "GOGC" {
							see(name, r.Color)
						}
					}
				case *sheet.Rows:
					for _, s := range b.Rows {
						if b.Factor != "" {
							see(s.Name, s.Color)
						}
					}
				case *sheet.Strips:
					for _, s := range b.Rows {
						see(s.Name, s.Color)
					}
				case *sheet.Field:
					for _, l := range b.Lines {
						if l.Name != "" {
							see(l.Name, l.Color)
						}
					}
				}
			}
		}
		for _, s := range d.Settings {
			if s.Current && s.GOGC == 0 && colors[strconv.Itoa(s.Procs)] != sheet.BaseColor {
				t.Errorf("%s: the current setting has the colour %d", name, colors[strconv.Itoa(s.Procs)])
			}
		}
	}
}

// hostileTune is a document with a text from outside in every place that has any.
func hostileTune(text string) *report.Tune {
	d := tunes()["doubts"]
	var change func(v reflect.Value)
	change = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			v.SetString(text)
		case reflect.Slice:
			if v.Type().Elem().Kind() == reflect.String && v.Len() == 0 {
				v.Set(reflect.ValueOf([]string{text}))
			}
			for i := range v.Len() {
				change(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if name := v.Type().Field(i).Name; name != "Phase" && name != "Unit" && name != "Verb" {
					change(v.Field(i))
				}
			}
		case reflect.Pointer:
			if !v.IsNil() {
				change(v.Elem())
			}
		}
	}
	change(reflect.ValueOf(d).Elem())
	d.Subject.Kind, d.Finished = "server", false
	for i := range d.Metrics {
		d.Metrics[i].Better = text
	}
	d.Metrics = append(d.Metrics, lab.Metric{Unit: text})
	d.Runs[0].Metrics[text] = 5
	d.Runs[1].Phase = text
	return d
}

var hostileTexts = map[string]string{
	"escapes": hostile, "lines": "a\nb\r\n\nBenchmarkX 1 2 ns/op\n", "long": strings.Repeat("very", 2500), "spaces": "  \t ", "table": "| a | `b` |\n|---|",
	"csv": `=1+1,"x` + "\n", "tooLong": strings.Repeat("word ", 2000),
}

// fenced is what Markdown takes as it is.
var fenced = regexp.MustCompile("(?s)\n```+\n.*?\n```+\n")

func TestTuneIsSafe(t *testing.T) {
	for name, text := range hostileTexts {
		d := hostileTune(text)
		s := Tune(d)
		if name == "long" || name == "tooLong" { // of which a page has several copies
			sane(t, s)
		} else {
			harmless(t, s)
		}
		if md := fenced.ReplaceAllString(forms(t, s)["markdown"], ""); strings.Contains(md, "<b>") {
			t.Errorf("%s: there is an element in the markdown", name)
		}
		if d.Verdict.Text != text || d.Runs[3].Error != text || d.Verdict.How[0].Text != text {
			t.Errorf("%s: the document was changed", name)
		}
	}
}

// odd documents: no tune makes them, but a file may hold them.
func oddTunes() map[string]*report.Tune {
	odd := map[string]*report.Tune{"empty": {}}
	number := func(name string, v float64) {
		d := tunes()["change"]
		var change func(x reflect.Value)
		change = func(x reflect.Value) {
			switch x.Kind() {
			case reflect.Float64:
				x.SetFloat(v)
			case reflect.Int, reflect.Int64:
				x.SetInt(int64(max(-1e6, min(v, 1e6))))
			case reflect.Slice:
				for i := range x.Len() {
					change(x.Index(i))
				}
			case reflect.Map:
				for _, key := range x.MapKeys() {
					e := reflect.New(x.Type().Elem()).Elem()
					e.Set(x.MapIndex(key))
					change(e)
					x.SetMapIndex(key, e)
				}
			case reflect.Struct:
				for i := range x.NumField() {
					change(x.Field(i))
				}
			case reflect.Pointer:
				if !x.IsNil() {
					change(x.Elem())
				}
			}
		}
		change(reflect.ValueOf(d).Elem())
		for i := range d.Runs {
			d.Runs[i].Load = i % 3 * 5
		}
		odd[name] = d
		inside := tunes()["limits"]
		change(reflect.ValueOf(inside).Elem())
		odd[name+" limits"] = inside
	}
	number("negative", -1)
	number("zero", 0)
	number("huge", 1e300)
	number("large", 1e15)
	number("small", 1e-300)
	number("hundred", 100)
	mixed := tunes()["change"]
	for i := range mixed.Runs {
		mixed.Runs[i].Metrics["p99-latency-ns"] = math.Pow(10, float64(i%25-12))
		mixed.Runs[i].Block = i
	}
	odd["mixed"] = mixed
	none := tunes()["change"]
	none.Runs = nil
	odd["no runs"] = none
	loads := tunes()["change"]
	loads.Loads = nil
	odd["no loads"] = loads
	wrong := tunes()["change"]
	wrong.Verdict.Load = 99
	wrong.Settings = slices.Repeat(wrong.Settings, 5)
	for i := range wrong.Settings {
		wrong.Settings[i].Procs = i
	}
	odd["many settings"] = wrong
	return odd
}

func TestTuneOdd(t *testing.T) {
	for name, d := range oddTunes() {
		t.Run(name, func(t *testing.T) { sane(t, Tune(d)) })
	}
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		d := tunes()["change"]
		d.Loads[0].Rate, d.Settings[0].Metrics["p99-latency-ns"], d.Runs[3].Metrics["p99-latency-ns"], d.Loads[0].Effects[0].Ratio = v, report.BenchSummary{N: 3, Median: v}, v, v
		d.Loads[0].Noise["p99"], d.Seconds, d.Margin = v, v, v
		s := Tune(d)
		s.Document = nil // which JSON can't hold
		sane(t, s)
	}
}
