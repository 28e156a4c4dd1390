package demo

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

const ms = time.Millisecond

func TestStandstill(t *testing.T) {
	tests := []struct {
		name                       string
		span, cpu, throttled, gaps time.Duration
		procs                      int
		want                       time.Duration
	}{
		{"half a CPU, two threads", 100 * ms, 50 * ms, 150 * ms, 78 * ms, 2, 75 * ms},
		{"half a CPU, one thread", 100 * ms, 50 * ms, 50 * ms, 53 * ms, 1, 50 * ms},
		{"half a CPU, two Ps of which one is busy", 100 * ms, 50 * ms, 100 * ms, 50 * ms, 2, 50 * ms},
		{"the heartbeat had to queue", 100 * ms, 50 * ms, 150 * ms, 100 * ms, 2, 75 * ms},
		{"not throttled, but busy", 100 * ms, 190 * ms, 0, 90 * ms, 2, 0},
		{"throttled for a moment", 100 * ms, 50 * ms, 3 * ms, 0, 2, 0},
		{"more CPU time than there can be", 100 * ms, 210 * ms, 50 * ms, 50 * ms, 2, 0},
		{"no Ps known", 100 * ms, 40 * ms, 90 * ms, 90 * ms, 0, 60 * ms},
	}
	for _, test := range tests {
		if got := standstill(test.span, test.cpu, test.throttled, test.gaps, test.procs); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// text writes cells so that they are easily compared: span/CPU/standstill in ms, and throttled of periods.
func text(cells []cell) (s string) {
	whole := func(seconds float64) int { return int(math.Round(seconds * 1000)) }
	for _, c := range cells {
		cpu := fmt.Sprint(whole(c.CPU))
		if c.CPU < 0 {
			cpu = "?"
		}
		s += fmt.Sprintf("%d/%s/%d %d of %d; ", whole(c.Span), cpu, whole(c.Still), c.Throttled, c.Periods)
	}
	return s
}

func TestCells(t *testing.T) {
	start := reading{at: time.Second, cpu: time.Second, cpuKnown: true, counts: cgroup.Counters{Known: true, Periods: 10, Throttled: 5, ThrottledTime: time.Second}, limited: true}
	later := func(span, cpu time.Duration, periods, throttled int64, time time.Duration) reading {
		r := start
		r.at, r.cpu = r.at+span, r.cpu+cpu
		r.counts.Periods, r.counts.Throttled, r.counts.ThrottledTime = r.counts.Periods+periods, r.counts.Throttled+throttled, r.counts.ThrottledTime+time
		return r
	}
	unknown := later(100*ms, 0, 0, 0, 0)
	unknown.cpuKnown, unknown.limited = false, false
	tests := []struct {
		name  string
		after reading
		gaps  time.Duration
		want  string
	}{
		{"throttled", later(100*ms, 50*ms, 1, 1, 150*ms), 78 * ms, "100/50/75 1 of 1; "},
		{"not throttled", later(100*ms, 30*ms, 1, 0, 0), 0, "100/30/0 0 of 1; "},
		{"not throttled, whatever the heartbeat says", later(100*ms, 30*ms, 1, 0, 0), 60 * ms, "100/30/0 0 of 1; "},
		{"idle", later(100*ms, 0, 0, 0, 0), 0, "100/0/0 0 of 0; "},
		{"a little late", later(120*ms, 60*ms, 1, 1, 120*ms), 80 * ms, "120/60/80 1 of 1; "},
		{"two periods late, both throttled", later(200*ms, 100*ms, 2, 2, 300*ms), 160 * ms, "100/50/75 1 of 1; 100/50/75 1 of 1; "},
		{"two periods late, one throttled", later(200*ms, 80*ms, 2, 1, 100*ms), 70 * ms, "100/40/0 0 of 1; 100/40/70 1 of 1; "},
		{"short periods", later(100*ms, 50*ms, 10, 10, 150*ms), 78 * ms, "100/50/75 10 of 10; "},
		{"the counters begin again", later(100*ms, 10*ms, -10, -5, -time.Second), 0, "100/10/0 0 of 0; "},
		{"little is known", unknown, 0, "100/?/0 0 of 0; "},
		{"no time", later(0, 0, 0, 0, 0), 0, ""},
	}
	for _, test := range tests {
		if got := text(cells(start, test.after, test.gaps, 2)); got != test.want {
			t.Errorf("%s: %s want %s", test.name, got, test.want)
		}
	}
	if n := len(cells(start, later(time.Hour, 0, 0, 0, 0), 0, 2)); n != stripCells {
		t.Errorf("an hour makes %d cells", n)
	}
}

// A cell shows the GOMAXPROCS with which it ended, and so where that changed.
func TestCellProcs(t *testing.T) {
	for _, c := range cells(reading{procs: 2}, reading{at: 300 * ms, procs: 4}, 0, 2) {
		if c.Procs != 4 {
			t.Errorf("a cell has GOMAXPROCS %d, want 4", c.Procs)
		}
	}
}

// However late a reading is, nothing that was counted gets lost.
func TestCellsAddUp(t *testing.T) {
	for n := range int64(40) {
		after := reading{at: time.Duration(n+1) * 97 * ms, cpu: time.Duration(n) * 31 * ms, cpuKnown: true, counts: cgroup.Counters{Known: true, Periods: n, Throttled: n * 2 / 3}, limited: true}
		var periods, throttled int64
		var span, cpu float64
		for _, c := range cells(reading{counts: cgroup.Counters{Known: true}, limited: true}, after, 0, 2) {
			periods, throttled, span, cpu = periods+c.Periods, throttled+c.Throttled, span+c.Span, cpu+c.CPU
		}
		if periods != after.counts.Periods || throttled != after.counts.Throttled ||
			math.Abs(span-after.at.Seconds()) > 1e-9 || math.Abs(cpu-after.cpu.Seconds()) > 1e-9 {
			t.Errorf("%+v becomes %d periods, %d throttled, %v s and %v s of CPU time", after, periods, throttled, span, cpu)
		}
	}
}

func TestEarly(t *testing.T) {
	at := func(at time.Duration, periods int64, limited bool) reading {
		return reading{at: at, counts: cgroup.Counters{Known: true, Periods: periods}, limited: limited}
	}
	tests := []struct {
		after reading
		want  bool
	}{
		{at(100*ms, 5, true), true},
		{at(105*ms, 5, true), true},
		{at(150*ms, 5, true), false}, // nothing runs, so that no period ends
		{at(105*ms, 6, true), false},
		{at(100*ms, 5, false), false},
	}
	for _, test := range tests {
		if got := early(at(0, 5, test.after.limited), test.after); got != test.want {
			t.Errorf("%+v: %v", test.after, got)
		}
	}
}

func TestDue(t *testing.T) {
	for _, test := range []struct {
		before, now time.Duration
		want        bool
	}{{0, 99 * ms, false}, {0, 100 * ms, true}, {104 * ms, 199 * ms, false}, {104 * ms, 201 * ms, true}, {201 * ms, 201 * ms, false}, {201 * ms, 195 * ms, false}} {
		if got := due(test.before, test.now); got != test.want {
			t.Errorf("%v after %v: %v", test.now, test.before, got)
		}
	}
}

func TestPulse(t *testing.T) {
	var p pulse
	for _, at := range []time.Duration{5, 10, 16, 24, 99, 104, 109} {
		p.beat(at * ms)
	}
	if got := p.silent(0, 110*ms); got != 75*ms {
		t.Errorf("silent for %v, want 75ms, from 24 to 99", got)
	}
	p.beat(160 * ms) // from 109 on, of which 50 after 110
	p.beat(200 * ms)
	if got := p.silent(110*ms, 180*ms); got != 70*ms {
		t.Errorf("silent for %v, want 70ms", got)
	}
	if got := p.silent(0, time.Hour); got != 0 {
		t.Errorf("silent for %v, which was counted before", got)
	}
}

func TestStripKeepsAMinute(t *testing.T) {
	var s strip
	for i := range 2000 {
		s.add(cell{Periods: int64(i)})
		if len(s.cells) > 2*stripCells {
			t.Fatalf("it keeps %d cells", len(s.cells))
		}
	}
	tests := []struct {
		from, first int64
		n           int
	}{{0, 1400, 600}, {1400, 1400, 600}, {1990, 1990, 10}, {2000, 2000, 0}, {2005, 2000, 0}}
	for _, test := range tests {
		first, cells := s.since(test.from)
		if first != test.first || len(cells) != test.n || test.n > 0 && cells[0].Periods != first {
			t.Errorf("since %d: %d cells from %d on", test.from, len(cells), first)
		}
	}
}

func TestSummary(t *testing.T) {
	repeat := func(n int, c cell) (cells []cell) {
		for range n {
			cells = append(cells, c)
		}
		return cells
	}
	throttled := cell{Span: .1, CPU: .05, Still: .075, Periods: 1, Throttled: 1}
	free := cell{Span: .1, CPU: .03, Periods: 1}
	tests := []struct {
		name  string
		cells []cell
		limit float64
		want  string
	}{
		{"nothing yet", nil, .5, "Nothing is measured yet."},
		{
			"throttled", append(repeat(2, free), repeat(98, throttled)...), .5,
			"Throttled in 98 of the last 100 periods. When throttled it ran for 25 ms and stood still for 75 ms of each 100 ms.",
		},
		{"not throttled", repeat(100, free), .5, "Not throttled: 0.30 of 0.5 CPUs were in use."},
		{"one CPU", repeat(100, free), 1, "Not throttled: 0.30 of 1 CPU were in use."},
		{"no limit", repeat(100, free), 0, "No limit is known, and nothing was throttled: 0.30 CPUs were in use."},
		{"no limit, CPU time not known", repeat(100, cell{Span: .1, CPU: -1}), 0, "No limit is known, and nothing was throttled."},
		{"CPU time not known", repeat(100, cell{Span: .1, CPU: -1}), .5, "Not throttled."},
	}
	for _, test := range tests {
		if got := summarise(test.cells, test.limit).Text; got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestCounted(t *testing.T) {
	throttling := cgroup.Throttling{Owner: cgroup.Counters{Known: true, Periods: 3, Throttled: 2, ThrottledTime: time.Second}}
	var r reading
	r.counted(cgroup.Limits{State: cgroup.Limited}, throttling)
	if !r.limited || r.counts != throttling.Owner {
		t.Errorf("%+v", r)
	}
	if r.counted(cgroup.Limits{State: cgroup.None}, throttling); r.limited {
		t.Error("limited, though there is no limit")
	}
}

func TestDescribe(t *testing.T) {
	levels := []cgroup.Level{{Dir: "/c/a/b"}, {Dir: "/c/a", Quota: cgroup.Quota{QuotaMicros: 50000, PeriodMicros: 100000}}, {Dir: "/c", Err: fmt.Errorf("bad quota")}}
	tests := []struct {
		limits      cgroup.Limits
		short, long string
	}{
		{cgroup.Limits{State: cgroup.Limited, CPUs: .5, From: "/c/a", Levels: levels}, "0.5 CPUs", "50 ms of CPU time in each 100 ms, set by /c/a"},
		{cgroup.Limits{State: cgroup.None}, "none", "no cgroup from this process's own up to the root sets one"},
		{cgroup.Limits{State: cgroup.Unknown, Reason: cgroup.ErrNotSupported}, "unknown", "no CPU limit is known on this system"},
		{cgroup.Limits{State: cgroup.Unknown}, "unknown", "it could not be found out"},
	}
	for _, test := range tests {
		if got := describe(test.limits); got.Short != test.short || got.Long != test.long {
			t.Errorf("%+v: %q, %q", test.limits, got.Short, got.Long)
		}
	}
	got := fmt.Sprint(describe(tests[0].limits).Levels)
	if want := "[{/c/a/b no limit false} {/c/a 50 ms of CPU time in each 100 ms true} {/c bad quota false}]"; got != want {
		t.Errorf("levels %s, want %s", got, want)
	}
}

func TestMostProcs(t *testing.T) {
	for _, test := range []struct {
		limit      float64
		cpus, want int
	}{{.5, 2, 8}, {0, 4, 8}, {3.5, 4, 10}, {2, 64, 64}} {
		if got := mostProcs(test.limit, test.cpus); got != test.want {
			t.Errorf("limit %v, %d CPUs: %d, want %d", test.limit, test.cpus, got, test.want)
		}
	}
}
