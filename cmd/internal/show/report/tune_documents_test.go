package report

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

// served gives a run what that of a server has, for a setting with these true costs: milliseconds and shares.
func served(p99, cpu, throttled float64) func(*tune.Run) {
	return func(r *tune.Run) {
		tail := p99 * 1e6 * shaken(r, 0.12, 2)
		for m, v := range map[lab.Measure]float64{
			lab.P50: tail / 8, lab.P90: tail / 2, lab.P99: tail, lab.P999: tail * 1.7, lab.ReadyTail: 0.8 * tail * shaken(r, 0.04, 3),
			lab.CPUPerRequest: cpu * 1e6 * shaken(r, 0.02, 4), lab.RequestRate: 440 * shaken(r, 0.003, 5),
			lab.ThrottledShare: 100 * throttled * shaken(r, 0.1, 6), lab.PeakMemory: 30 << 20,
		} {
			r.Metrics[string(m)] = math.Round(v*1e4) / 1e4
		}
		r.Curve = nil
		for i, percentile := range []float64{1, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 100} {
			at := tail / 1e9 * math.Exp(0.5*(min(-math.Log10(1-min(percentile, 99.99)/100), 4)-2)-float64(11-i)/11)
			r.Curve = append(r.Curve, trial.Point{Percentile: percentile, Seconds: math.Round(at*1e6) / 1e6, Count: int64(22 * percentile)})
		}
		r.Axis = nil
		for second := range 5 {
			share := throttled * (0.6 + 0.2*float64((second+r.Search.Block)%5))
			r.Axis = append(r.Axis, trial.Step{At: float64(second), Length: 1, Sent: 440, P99: math.Round(tail/1e3) / 1e6, Periods: 10, Throttled: int64(min(10, 10*share))})
		}
	}
}

// costing are a server's costs by setting, as p99 in ms, CPU per request in ms and throttled share.
func costing(of map[int][3]float64) func(*tune.Run) {
	return func(r *tune.Run) {
		c := of[r.Search.Procs]
		served(c[0], c[1], c[2])(r)
		if r.Search.GOGC != 0 {
			r.Metrics["cpu-ns/req"] *= 0.6
		}
	}
}

// tuneStudies are studies of every kind of end, whole ones with all that a real one has.
func tuneStudies(t *testing.T) map[string]*tune.Study {
	shop := map[int][3]float64{1: {41, 5, 0.1}, 2: {97, 5.2, 0.5}, 3: {99, 5.3, 0.6}, 4: {120, 6, 0.8}, 8: {200, 6.5, 0.9}}
	load := tune.Load{Rate: 440, Share: 0.65, Closed: 0.49, Window: 5 * time.Second, WarmUp: time.Second, Tail: "p99"}
	study := func(change func(*tune.Study), run func(*tune.Run), most int) *tune.Study {
		s := newStudy(t, nil, nil, nil)
		s.Plan.Name, s.Plan.Program, s.Plan.URL = "shop", []string{"./shop", "--db", "orders one"}, "http://127.0.0.1:8080/cart"
		s.Plan.Command = []string{"unthrottle", "tune", "--seed", "7", "--", "./shop", "--db", "orders one"}
		s.Environment = lab.Environment{OS: "linux", Arch: "amd64", Kernel: "6.18.5", CPU: "a CPU", CPUs: 8, Memory: 16 << 30, Go: "go1.26.8", LimitKind: "cgroup-v2"}
		s.Pilot.Loads, s.Pilot.Capacity = []tune.Load{load}, 900
		if change != nil {
			change(s)
		}
		fill(t, s, run, most)
		return s
	}
	all := map[string]*tune.Study{
		"change": study(func(s *tune.Study) {
			s.Plan.SLO = "p99=150ms,errors=0.1%"
			s.Pilot.Candidates = []int{1, 3, 4, 8}
			s.Pilot.GC = &tune.GC{PerSecond: 30, CPUShare: 0.12, Live: 4 << 20, Goal: 8 << 20} // next to a build
		}, func(r *tune.Run) {
			costing(shop)(r)
			r.SLOHeld = lab.P99.In(r.Metrics) <= 0.15
			r.GC = &tune.GC{PerSecond: 30 / float64(r.Search.Procs), CPUShare: 0.1 * float64(r.Search.Procs), Live: 4 << 20, Goal: 8 << 20}
		}, 0),
		"keep":        study(nil, costing(map[int][3]float64{1: {60, 5.1, 0.1}, 2: {58, 5, 0.1}, 3: {59, 5, 0.1}, 4: {59, 5.1, 0.1}}), 0),
		"trade":       study(nil, costing(map[int][3]float64{1: {14, 4.4, 0}, 2: {5.6, 5, 0.02}, 3: {5.6, 5.1, 0.02}, 4: {5.5, 5.1, 0.03}}), 0),
		"undecided":   study(func(s *tune.Study) { s.Plan.Budget = 60 * time.Second }, wide(costing(map[int][3]float64{1: {41, 4.7, 0.1}, 2: {60, 5, 0.3}, 4: {60, 5.2, 0.4}})), 8),
		"gogc":        study(func(s *tune.Study) { s.Pilot.Levers = []int{800} }, costing(map[int][3]float64{1: {50, 5, 0}, 2: {50, 5.1, 0}, 3: {50, 5.1, 0}, 4: {52, 5.2, 0}}), 0),
		"interrupted": study(func(s *tune.Study) { s.Pilot.Candidates = []int{1, 3, 4, 8} }, costing(shop), 7),
		"job": study(func(s *tune.Study) {
			s.Plan.Kind, s.Plan.URL, s.Pilot.Loads, s.Pilot.Capacity = tune.JobKind, "", []tune.Load{{Tail: "p99"}}, 0
		}, func(r *tune.Run) {
			r.Metrics = map[string]float64{
				"wall-sec": 12 / math.Sqrt(float64(r.Search.Procs)) * shaken(r, 0.02, 3), "cpu-sec": 9 * shaken(r, 0.01, 5), "throttled-%": 20, "peak-RSS-bytes": 40 << 20,
			}
			r.Axis = nil
		}, 0),
		"loads": study(func(s *tune.Study) {
			at := func(share, rate float64) tune.Load {
				l := load
				l.Share, l.Rate, l.Closed = share, rate, rate/900
				return l
			}
			s.Plan.Shares, s.Pilot.Loads = []float64{0.65, 0.4, 0.9}, []tune.Load{at(0.65, 440), at(0.4, 270), at(0.9, 610)}
		}, func(r *tune.Run) {
			costing([]map[int][3]float64{
				{1: {41, 4.4, 0.1}, 2: {42, 5, 0.3}, 4: {43, 5.1, 0.4}, 3: {43, 5.1, 0.4}},
				{1: {21, 5, 0}, 2: {20, 5, 0}, 4: {20, 5.1, 0}, 3: {20, 5.1, 0}},
				{1: {90, 4.4, 0.6}, 2: {190, 5, 0.7}, 4: {200, 5.1, 0.8}, 3: {200, 5.1, 0.8}},
			}[r.Load])(r)
		}, 0),
		"doubts": study(func(s *tune.Study) {
			s.Pilot.LimitKind, s.Environment.LimitKind, s.Pilot.Candidates = "emulated", "emulated", []int{1, 8}
			s.Pilot.Bias = tune.Bias{CPU: 0.15, Tail: 0.15}
			s.Environment.Notes = []string{"cgroup v2: no write access to /sys/fs/cgroup", "systemd: no session bus"}
			s.Plan.SLO = "p99=80ms"
		}, func(r *tune.Run) {
			costing(shop)(r)
			r.SLOHeld = r.Search.Procs == 1
			switch {
			case r.Search.Procs == 8:
				r.Error, r.Metrics, r.Curve, r.Axis = "exit status 2: panic: out of file descriptors", nil, nil, nil
			case r.Search.Block == 2 && r.Search.Procs == 2 && r.Seconds < 7:
				r.Marks = []string{"other processes used 0.6 CPUs"}
			}
		}, 0),
		"vary": study(func(s *tune.Study) {
			varied(false)(s)
			s.Plan.Load, s.Plan.URL, s.Pilot.Loads, s.Pilot.Capacity = "pgbench -T 5 -h {host} -p {port}", "localhost:5432", []tune.Load{{Window: 5 * time.Second, WarmUp: 5 * time.Second, Share: 0.8}}, 0
		}, func(r *tune.Run) {
			served(0, 5, 0.4)(r)
			r.Metrics = map[string]float64{"cpu-ns/req": r.Metrics["cpu-ns/req"], "req/s": r.Metrics["req/s"], "ns/op": 1e9 / r.Metrics["req/s"], "throttled-%": 40}
			r.Curve, r.Axis = nil, nil
			saves(1)(r)
		}, 0),
		"failed": study(func(s *tune.Study) {
			s.Plan.Budget, s.Failure = 240*time.Second, "the meter stood still: it saw 4.161s of 6.075s"
		}, costing(shop), 5),
		"fallen": study(func(s *tune.Study) {
			s.Pilot.Procs, s.Pilot.Base, s.Pilot.Candidates = 500, 2, []int{1, 2, 4}
			s.Pilot.Warnings = []string{"while its load was being found, the program failed with GOMAXPROCS=500, its current setting (out of memory: limit 256Mi): GOMAXPROCS=2 was used instead"}
			s.Environment.LimitKind, s.Pilot.LimitKind = "kubernetes", "kubernetes"
		}, func(r *tune.Run) {
			if costing(shop)(r); r.Search.Procs == 500 {
				r.Error, r.Killed, r.Kills, r.Metrics, r.Curve, r.Axis = "out of memory: limit 256Mi", true, 2, map[string]float64{}, nil, nil
			}
		}, 0),
		"nothing": study(func(s *tune.Study) { s.Pilot.Loads = nil }, nil, 0),
	}
	// A run that had to be repeated.
	s, again := all["doubts"], 0
	s.Runs = nil
	fill(t, s, func(r *tune.Run) {
		costing(shop)(r)
		r.SLOHeld = r.Search.Procs == 1
		switch again++; {
		case again == 3:
			r.Valid, r.Notes = false, []string{"12 % of the requests were sent in bursts", "the hypervisor took 9 % of the CPU time"}
		case r.Search.Procs == 8:
			r.Error, r.Metrics, r.Curve, r.Axis = "exit status 2: panic: out of file descriptors", nil, nil, nil
		case again == 5:
			r.Marks = []string{"other processes used 0.6 CPUs"}
		}
	}, 0)
	all["nothing"].Pilot = nil
	all["limits"] = limitStudy(t)
	all["memory"] = memoryStudy(t, 64*mib, 128*mib, 256*mib, 512*mib)
	return all
}

// TestTuneDocuments keeps the documents of these studies as files: package view shows them.
func TestTuneDocuments(t *testing.T) {
	for name, s := range tuneStudies(t) {
		d, err := NewTune(s)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Finished {
			d.Resume = "unthrottle tune --resume tune.jsonl"
		}
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
		if strings.TrimSpace(string(want)) != string(text) {
			t.Errorf("%s is not what is made now; -update writes it again", file)
		}
	}
}

// TestCollectorFits: what a sentence says of a setting's garbage collection is what the table says of it.
func TestCollectorFits(t *testing.T) {
	of := regexp.MustCompile(`and (\S+ %) of the CPU time, with GOMAXPROCS=(\d+)`)
	found := 0
	for name, s := range tuneStudies(t) {
		d, err := NewTune(s)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(d.Loads)
		for _, m := range of.FindAllStringSubmatch(string(text), -1) {
			found++
			for _, v := range d.Settings {
				if v.Load == 0 && v.GOGC == 0 && strconv.Itoa(v.Procs) == m[2] && (v.GC == nil || quantity.Share(v.GC.CPUShare) != m[1]) {
					t.Errorf("%s: %s, beside %+v", name, m[0], v.GC)
				}
			}
		}
	}
	if found < 2 {
		t.Errorf("only %d sentences tell of collections", found)
	}
}
