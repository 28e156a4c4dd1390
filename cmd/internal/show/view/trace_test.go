package view

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/exectrace"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
)

// traced is what exectrace says of a trace with these freezes.
func traced(wall time.Duration, gaps []freeze.Gap) *exectrace.Trace {
	t := &exectrace.Trace{
		Go: "1.26", Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Wall: wall, Bytes: 369_000, Events: 57_870,
		Procs: []exectrace.Setting{{At: 7 * time.Microsecond, Procs: 2}}, Sure: true, Busy: 1.987, Threshold: 3 * time.Millisecond,
		Rhythm:  freeze.Find(gaps, freeze.Quotas{}),
		Silence: exectrace.Silence{EventsPerSecond: 57_870 / wall.Seconds(), P99: 1052 * time.Microsecond, Ordinary: 500 * time.Microsecond, Floor: time.Millisecond},
		GC:      exectrace.GC{Cycles: 33, Marking: 0.1221, Frozen: 0.141},
	}
	for _, g := range gaps {
		t.Freezes = append(t.Freezes, exectrace.Freeze{Start: g.Start, End: g.End, Refill: t.Rhythm.Ends(g)})
	}
	longest := slices.Clone(t.Freezes)
	slices.SortStableFunc(longest, func(a, b exectrace.Freeze) int { return int(b.Length() - a.Length()) })
	for i, f := range longest[:min(10, len(longest))] {
		t.Longest = append(t.Longest, tracedMoment(i, f))
	}
	return t
}

// tracedMoment is one of each kind in turn.
func tracedMoment(i int, f exectrace.Freeze) exectrace.Moment {
	serves := func(id int64) exectrace.Goroutine {
		return exectrace.Goroutine{ID: id, Function: "net.(*netFD).Read", Started: "net/http.(*conn).serve", For: f.Length() + time.Millisecond, Serves: true}
	}
	m := exectrace.Moment{Freeze: f, Procs: 2}
	switch i % 5 {
	case 0:
		m.Running = []exectrace.Goroutine{serves(11), {ID: 69, Label: "GC (fractional)", For: f.Length()}}
		m.Runnable = []exectrace.Goroutine{serves(12), serves(13), {ID: 862, Function: "net/http.(*connReader).backgroundRead", Started: "net/http.(*connReader).backgroundRead", For: f.Length()}}
		m.Waiting, m.Serving, m.GC = 11, true, true
	case 1:
		m.Running, m.Serving = []exectrace.Goroutine{serves(11)}, true
	case 2:
		m.Running = []exectrace.Goroutine{{ID: 5}, {ID: 6, Started: "main.burn"}}
		m.Runnable = []exectrace.Goroutine{{ID: 7, Function: "example.org/a/b.Do[...]"}}
		m.Waiting = 1
	case 3:
		m.Procs = 1
	default:
		m.Procs = 0
	}
	return m
}

// traces are documents of all kinds.
func traces(t *testing.T) map[string]*report.Trace {
	t.Helper()
	const wall = 5 * time.Second
	made := map[string]*report.Trace{}
	add := func(name string, f report.TraceFacts) {
		f.Trace.Why = "96 % of the time in 51 standstills ends at one phase of 100 ms (R 0.97)" // package exectrace's business
		if !f.Trace.Sure {
			f.Trace.Doubt = "there are only 125 events a second and no CPU samples: the shares are estimates"
		}
		if f.Source == "" {
			f.Source = "trace.out"
		}
		d, err := report.NewTrace(f)
		if err != nil {
			t.Fatal(err)
		}
		d.Header = report.Header{Version: report.Version, Verb: "trace", MadeBy: "unthrottle v1.2.3", Time: "2026-01-02T03:04:17Z"}
		d.Command = []string{"unthrottle", "trace", f.Source}
		made[name] = d
	}

	throttled := traced(wall, atEnds(wall, 100*time.Millisecond, 73*time.Millisecond))
	throttled.Cause, throttled.Frozen, throttled.Throttled, throttled.Hidden = freeze.Throttled, 0.726, 0.726, 0.012
	throttled.CPUs, throttled.CPUsBy = 0.498, "samples"
	throttled.Samples = &exectrace.Samples{Count: 247, CPU: 2470 * time.Millisecond, Running: 8680 * time.Millisecond, Starved: 0.716}
	throttled.Handlers = &exectrace.Handlers{
		What: "net/http", Count: 1049, Frozen: 239,
		Took:  exectrace.Latency{P50: 5300 * time.Microsecond, P99: 189 * time.Millisecond, Max: 285 * time.Millisecond},
		Added: exectrace.Latency{P99: 146123 * time.Microsecond, Max: 223 * time.Millisecond},
		Rest:  exectrace.Latency{P50: 4700 * time.Microsecond, P99: 48600 * time.Microsecond, Max: 72300 * time.Microsecond},
	}
	add("throttled", report.TraceFacts{
		Trace: throttled, Source: "http://127.0.0.1:6060/debug/pprof/trace?seconds=5", Saved: "kept.trace", PeriodFrom: "limit",
		PID: 4711, Name: "server", Live: 2,
		Limits: &cgroup.Limits{
			State: cgroup.Limited, CPUs: 0.5, From: "/sys/fs/cgroup/app", Affinity: 2, Version: cgroup.V2,
			Levels: []cgroup.Level{{Dir: "/sys/fs/cgroup/app", Quota: cgroup.Quota{QuotaMicros: 50000, PeriodMicros: 100000}}},
		},
		Readings: []host.Reading{
			{Counters: cgroup.Counters{Known: true, Periods: 10, Throttled: 9, ThrottledTime: time.Second}},
			{Counters: cgroup.Counters{Known: true, Periods: 61, Throttled: 60, ThrottledTime: 8330 * time.Millisecond}},
		},
	})

	var ends []freeze.Gap // of a container's quota, and of its pod's
	for at := time.Duration(0); at < wall; at += 100 * time.Millisecond {
		ends = append(ends, freeze.Gap{Start: at + 10*time.Millisecond, End: at + 40*time.Millisecond}, freeze.Gap{Start: at + 51*time.Millisecond, End: at + 100*time.Millisecond})
	}
	two := traced(wall, ends)
	two.Cause, two.Frozen, two.Throttled = freeze.Throttled, 0.79, 0.79
	level := cgroup.Level{Dir: "/sys/fs/cgroup/pod/app", Quota: cgroup.Quota{QuotaMicros: 20000, PeriodMicros: 100000}}
	above := cgroup.Level{Dir: "/sys/fs/cgroup/pod", Quota: level.Quota}
	add("two", report.TraceFacts{
		Trace: two, PeriodFrom: "limit", PID: 4711, Name: "server",
		Limits: &cgroup.Limits{State: cgroup.Limited, CPUs: 0.2, From: level.Dir, Affinity: 2, Version: cgroup.V2, Levels: []cgroup.Level{level, above}},
		Readings: []host.Reading{
			{Counters: cgroup.Counters{Known: true}},
			{Counters: cgroup.Counters{Known: true, Periods: 50, Throttled: 50, ThrottledTime: 4900 * time.Millisecond}},
		},
	})

	sparse := traced(wall, atEnds(wall, 20*time.Millisecond, 8*time.Millisecond))
	sparse.Cause, sparse.Frozen, sparse.Throttled, sparse.Sure = freeze.Throttled, 0.4, 0.4, false
	sparse.CPUs, sparse.CPUsBy, sparse.Silence.Sparse = 1.21, "procs", true
	sparse.Procs = append(sparse.Procs, exectrace.Setting{At: time.Second, Procs: 3})
	sparse.GC = exectrace.GC{}
	add("sparse", report.TraceFacts{
		Trace: sparse, Source: "-", PID: 31, Limits: &cgroup.Limits{Reason: errors.New("reading CPU limit: permission denied")},
		Stat: &[2]cgroup.Counters{{Known: true, Periods: 100}, {Known: true, Periods: 350}},
	})

	both := append(atEnds(wall, 100*time.Millisecond, 40*time.Millisecond), anywhere(wall, 40)...)
	slices.SortFunc(both, func(a, b freeze.Gap) int { return int(a.Start - b.Start) })
	mixed := traced(wall, both)
	mixed.Cause, mixed.Frozen, mixed.Throttled, mixed.Contended = freeze.Throttled, 0.45, 0.39, 0.06
	mixed.CPUs, mixed.CPUsBy = 0.523, "procs"
	mixed.Handlers = &exectrace.Handlers{What: "network", Count: 1, Lost: 3}
	add("mixed", report.TraceFacts{Trace: mixed, Recorded: []string{"./my server", "-x"}, Source: "./my server", PID: 77, Name: "my server"})

	contended := traced(wall, anywhere(wall, 90))
	contended.Cause, contended.Frozen, contended.Contended = freeze.Contended, 0.13, 0.13
	add("contended", report.TraceFacts{
		Trace: contended, PID: 4711, Name: "server", Limits: &cgroup.Limits{State: cgroup.None},
		Readings: []host.Reading{{Counters: cgroup.Counters{Known: true}}, {Counters: cgroup.Counters{Known: true, Periods: 50}}},
	})

	none := traced(wall, anywhere(wall, 3))
	none.Cause = freeze.None
	add("none", report.TraceFacts{Trace: none})

	unsure := traced(wall, anywhere(wall, 12))
	unsure.Cause, unsure.Sure = freeze.Unsure, false
	add("unsure", report.TraceFacts{Trace: unsure, Source: "http://h:6060/debug/pprof/trace?seconds=5", Warnings: []error{errors.New("there are no CPU samples in it: no")}})

	empty := traced(400*time.Millisecond, nil)
	empty.Cause, empty.Procs, empty.Sure = freeze.None, nil, false
	add("empty", report.TraceFacts{Trace: empty})

	long := traced(10*time.Minute, atEnds(10*time.Minute, 100*time.Millisecond, 75*time.Millisecond))
	long.Cause, long.Frozen, long.Throttled, long.Left = freeze.Throttled, 0.75, 0.75, 12
	add("long", report.TraceFacts{Trace: long})
	return made
}

// TestTraceAgrees draws random traces: no sentence of one denies another, nor the figures next to it.
func TestTraceAgrees(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 7))
	pick := func(of ...float64) float64 { return of[random.IntN(len(of))] }
	drawnOf := map[string]int{}
	for range 1000 {
		wall := time.Duration(pick(0.4, 2, 5) * float64(time.Second))
		periods := int64(wall / (100 * time.Millisecond))
		var x *exectrace.Trace
		share := 0.0 // of the periods, as the kernel counts them
		switch random.IntN(4) {
		case 0:
			still := pick(0.05, 0.4, 0.73)
			x = traced(wall, atEnds(wall, 100*time.Millisecond, time.Duration(still*float64(100*time.Millisecond))))
			x.Cause, x.Frozen, x.Throttled, share = freeze.Throttled, still, still, pick(0.9, 1)
		case 1:
			x = traced(wall, anywhere(wall, 10+random.IntN(30)))
			x.Cause, x.Frozen, share = freeze.Contended, pick(0.05, 0.3), pick(0, 0, 0.01, 0.06, 0.2)
			x.Contended, x.Neighbour = x.Frozen, random.IntN(3) == 0
		case 2:
			x = traced(wall, anywhere(wall, random.IntN(3)))
			x.Cause, share = freeze.None, pick(0, 0, 0.02, 0.1, 0.4)
		default:
			x = traced(wall, anywhere(wall, 8))
			x.Cause, x.Frozen, share = freeze.Unsure, 0.1, pick(0, 0.1, 0.6)
		}
		x.Sure = random.IntN(2) == 0
		x.Why = "this is package exectrace's business"
		if !x.Sure {
			x.Doubt = "there are only 125 events a second and no CPU samples: the shares are estimates"
		}
		x.CPUs, x.CPUsBy = pick(0.1, 0.5, 1.7), "samples"
		x.Samples = &exectrace.Samples{Count: 247, CPU: time.Duration(x.CPUs * float64(wall)), Running: wall, Starved: 0.3}
		f := report.TraceFacts{Trace: x, Source: "http://h:6060/debug/pprof/trace?seconds=5", PID: 4711, Name: "server", Live: 2}
		if random.IntN(4) > 0 {
			throttled := int64(math.Ceil(share * float64(periods)))
			f.Limits = &cgroup.Limits{
				State: cgroup.Limited, CPUs: pick(0.5, 2), From: "/sys/fs/cgroup/app", Affinity: 4, Version: cgroup.V2,
				Levels: []cgroup.Level{{Dir: "/sys/fs/cgroup/app", Quota: cgroup.Quota{QuotaMicros: 50000, PeriodMicros: 100000}}},
			}
			f.Readings = []host.Reading{
				{Counters: cgroup.Counters{Known: true}},
				{Counters: cgroup.Counters{Known: true, Periods: periods, Throttled: throttled, ThrottledTime: time.Duration(throttled) * 70 * time.Millisecond}},
			}
		}
		d, err := report.NewTrace(f)
		if err != nil {
			t.Fatal(err)
		}
		drawnOf[d.Claim()]++
		text := drawn(t, Trace(d), 0)
		if bad := contradictions(text); len(bad) > 0 {
			t.Fatalf("%q\n%s", bad, text)
		}
	}
	for _, claim := range []string{"throttled", "contended", "not frozen", "hardly frozen", "unsure"} {
		if drawnOf[claim] < 20 {
			t.Errorf("%v", drawnOf)
		}
	}
}

// hostileTrace has in its names and numbers what must not reach a screen or a page unchanged.
func hostileTrace(t *testing.T) *report.Trace {
	d := traces(t)["throttled"]
	bad := "a\x1b[31m<script>alert(1)</script>\u202e\n</script>*x*"
	d.Source, d.Pod, d.Saved, d.Recorded, d.Began, d.MadeBy, d.Format = bad, bad, bad, []string{bad}, bad, bad, bad
	d.Why, d.Doubt, d.Confidence, d.Warnings, d.Command = bad, bad, "low", []string{bad}, []string{bad}
	d.Process.Name, d.Limit.From, d.Limit.Reason, d.ImpliedBy, d.Handlers.What = bad, bad, bad, bad, bad
	d.Longest[0].Running[0].Function, d.Longest[0].Running[1].Label, d.Longest[0].Waiting[0].Started = bad, bad, bad
	d.Wall, d.Freezes[0].End, d.Freezes[1].Start, d.Freezes[2].Start = 1e14, 1e300, -1e300, 5
	d.Longest[1].End, d.Density.PerSecond, d.Bytes, d.Handlers.Took.P99 = -1e300, 1e300, -5, -1
	d.Rhythm.Phase = -3
	return d
}

func TestTrace(t *testing.T) {
	for name, d := range traces(t) {
		s := Trace(d)
		golden(t, "trace "+name, s)
		shown(t, s)
		if name == "throttled" || name == "unsure" || name == "empty" {
			screen(t, "trace "+name, s)
		}
		sane(t, s)
		selfContained(t, s)
	}
	harmless(t, Trace(hostileTrace(t)))
	sane(t, Trace(&report.Trace{}))
}
