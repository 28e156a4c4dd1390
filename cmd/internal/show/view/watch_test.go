package view

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/heartbeat"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
)

// watched is a heartbeat of this length with these freezes.
func watched(wall time.Duration, gaps []freeze.Gap) *heartbeat.Observation {
	o := &heartbeat.Observation{}
	o.Add(heartbeat.Pulse{At: wall, Beats: int64(wall / heartbeat.Interval), CPU: wall / 200, Freezes: gaps})
	return o
}

// atEnds makes freezes that end with each period, a little late each.
func atEnds(wall, period, frozen time.Duration) (gaps []freeze.Gap) {
	r := rand.New(rand.NewPCG(1, 2))
	for end := period + 13*time.Millisecond; end < wall; end += period {
		late := time.Duration(r.Int64N(int64(time.Millisecond)))
		gaps = append(gaps, freeze.Gap{Start: end - frozen + 2*late, End: end + late})
	}
	return gaps
}

// uneven lets freezes begin when the quota is used up, which takes longer at times.
func uneven(gaps []freeze.Gap) []freeze.Gap {
	for i := range gaps {
		gaps[i].Start -= time.Duration(i%5-2) * time.Millisecond
	}
	return gaps
}

// anywhere makes freezes at any time.
func anywhere(wall time.Duration, n int) (gaps []freeze.Gap) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		at := wall/time.Duration(n)*time.Duration(i) + time.Duration(r.Int64N(int64(wall)/int64(n)/2))
		gaps = append(gaps, freeze.Gap{Start: at, End: at + time.Duration(3+r.IntN(9))*time.Millisecond})
	}
	return gaps
}

// watches are documents of all kinds.
func watches() map[string]*report.Watch {
	const wall = 12 * time.Second
	limit := cgroup.Limits{
		State: cgroup.Limited, CPUs: 0.5, From: "/sys/fs/cgroup/app", Version: cgroup.V2, Affinity: 2,
		Levels: []cgroup.Level{{Dir: "/sys/fs/cgroup/app", Quota: cgroup.Quota{QuotaMicros: 50000, PeriodMicros: 100000}}},
	}
	none := cgroup.Limits{State: cgroup.None, Version: cgroup.V2, Affinity: 2, Levels: []cgroup.Level{{Dir: "/sys/fs/cgroup"}}}
	calm := heartbeat.Evidence{
		Wall: wall, Throttling: cgroup.Throttling{LocalKnown: true}, Limit: cgroup.None, ThreadsKnown: true, Threads: 7, Run: 6 * time.Second, Used: 6 * time.Second,
		Waited: 20 * time.Millisecond, Busy: 6300 * time.Millisecond, CPUs: 2, OurCPU: 100 * time.Millisecond,
	}
	throttled := calm
	throttled.Limit, throttled.Owner = cgroup.Limited, cgroup.Counters{Known: true, Periods: 120, Throttled: 119, ThrottledTime: 17850 * time.Millisecond}
	throttled.Local, throttled.Waited = 17850*time.Millisecond, 27*time.Second
	throttled.Group = procs.Pressure{Some: 9 * time.Second, Full: 8950 * time.Millisecond, SomeKnown: true, FullKnown: true}
	busy := calm
	busy.Busy, busy.Waited, busy.Steal = 23*time.Second, 7*time.Second, 100*time.Millisecond
	mixed := throttled
	mixed.Busy = 23 * time.Second
	both := append(atEnds(wall, 100*time.Millisecond, 40*time.Millisecond), anywhere(wall, 90)...)
	slices.SortFunc(both, func(a, b freeze.Gap) int { return int(a.Start - b.Start) })

	made := map[string]*report.Watch{}
	add := func(name string, f report.WatchFacts) {
		f.Began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		f.Planned = 12 * time.Second
		d := report.NewWatch(f)
		d.Header = report.Header{Version: report.Version, Verb: "watch", MadeBy: "unthrottle v1.2.3", Time: "2026-01-02T03:04:17Z"}
		d.Command = []string{"unthrottle", "watch", "--for", "12s"}
		made[name] = &d
	}
	add("throttled", report.WatchFacts{
		PID: 4711, Name: "server", Group: "/sys/fs/cgroup/app", Moved: true, Limit: limit, Evidence: throttled,
		Seen: watched(wall, atEnds(wall, 100*time.Millisecond, 75*time.Millisecond)),
	})
	add("mixed", report.WatchFacts{Group: "/sys/fs/cgroup/app", Limit: limit, Evidence: mixed, Seen: watched(wall, both)})
	add("contended", report.WatchFacts{Group: "/sys/fs/cgroup", Limit: none, Evidence: busy, Seen: watched(wall, anywhere(wall, 20))})
	add("none", report.WatchFacts{Group: "/sys/fs/cgroup", Limit: none, Evidence: calm, Seen: watched(wall, nil)})
	add("blind", report.WatchFacts{
		Limit: cgroup.Limits{Reason: errors.New("reading CPU limit: /proc/self/cgroup: permission denied")}, Evidence: heartbeat.Evidence{Wall: wall},
		Seen: watched(wall, uneven(atEnds(wall, 20*time.Millisecond, 8*time.Millisecond))), Warnings: []string{"the limit was changed meanwhile"},
	})
	long := throttled
	long.Wall, long.Owner.Periods, long.Owner.Throttled, long.Owner.ThrottledTime = 10*time.Minute, 6000, 5999, 890*time.Second
	add("long", report.WatchFacts{
		Group: "/sys/fs/cgroup/app", Limit: limit, Evidence: long, Ended: "process 4711 has ended",
		Seen: watched(10*time.Minute, atEnds(10*time.Minute, 100*time.Millisecond, 75*time.Millisecond)),
	})
	return made
}

// hostileWatch has in its names and texts what must not reach a screen or a page unchanged.
func hostileWatch() *report.Watch {
	d := watches()["throttled"]
	bad := "a\x1b[31m<script>alert(1)</script>\u202e\n</script>*x*"
	d.Name, d.Group, d.Began, d.MadeBy, d.Ended, d.Cause = bad, bad, bad, bad, bad, "throttled"
	d.Why, d.Warnings, d.Command = []string{bad}, []string{bad}, []string{bad}
	d.Limit.From, d.Limit.Reason = bad, bad
	d.Elapsed, d.Freezes[0].End, d.Freezes[1].Start, d.Freezes[2].Start = 1e300, 1e300, -1e300, 5
	return d
}

func TestWatch(t *testing.T) {
	for name, d := range watches() {
		s := Watch(d)
		golden(t, "watch "+name, s)
		shown(t, s)
		if name == "throttled" || name == "contended" || name == "blind" {
			screen(t, "watch "+name, s)
		}
		selfContained(t, s)
	}
	harmless(t, Watch(hostileWatch()))
	sane(t, Watch(&report.Watch{}))
}

// randomWatch is a group that wants some CPUs, under a limit and alongside others.
func randomWatch(random *rand.Rand) *report.Watch {
	pick := func(of ...float64) float64 { return of[random.IntN(len(of))] }
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	cpus, wants, host := pick(0, 0.3, 0.5, 1, 1.5, 3), pick(0.02, 0.3, 0.5, 1, 2, 4), pick(1, 2, 4, 16)
	wall, period := pick(2, 5, 12, 40), pick(0.1, 0.1, 0.02)
	others, steal := pick(0, 0, 0.3, 0.9, 1)*host, pick(0, 0, 0, 0.3)*host
	used := min(wants, host-steal)
	if cpus > 0 {
		used = min(used, cpus)
	}
	others = min(others, host-steal-used)
	limits := cgroup.Limits{State: cgroup.None, Version: cgroup.V2, Affinity: int(host), Levels: []cgroup.Level{{Dir: "/sys/fs/cgroup/app"}}}
	e := heartbeat.Evidence{
		Wall: seconds(wall), Limit: cgroup.None, ThreadsKnown: true, Threads: 1 + random.IntN(20), Run: seconds(used * wall), Used: seconds(used * wall),
		CPUs: int(host), Busy: seconds((used + others) * wall), Steal: seconds(steal * wall), Affinity: int(host), OurCPU: seconds(0.005 * wall),
		Throttling: cgroup.Throttling{LocalKnown: random.IntN(2) == 0},
	}
	var gaps []freeze.Gap
	if cpus > 0 {
		limits.State, limits.CPUs, limits.From, e.Limit = cgroup.Limited, cpus, "/sys/fs/cgroup/app", cgroup.Limited
		limits.Levels[0].Quota = cgroup.Quota{QuotaMicros: int64(cpus * period * 1e6), PeriodMicros: int64(period * 1e6)}
		e.Owner = cgroup.Counters{Dir: "/sys/fs/cgroup/app", Known: true, Periods: int64(wall / period * min(1, 20*used))}
		if busy := min(wants, host); busy > cpus { // this many threads use the quota up, and stand still
			still := period * (1 - cpus/busy)
			share := pick(0.1, 0.5, 1)
			e.Owner.Throttled = int64(share * float64(e.Owner.Periods))
			e.Owner.ThrottledTime = seconds(still * busy * float64(e.Owner.Throttled))
			gaps = atEnds(seconds(share*wall), seconds(period), seconds(still))
			e.Group = procs.Pressure{Some: seconds(still / period * share * wall), Full: seconds(still / period * share * wall), SomeKnown: true, FullKnown: true}
		} else if random.IntN(4) == 0 { // a burst now and then
			e.Owner.Throttled = min(e.Owner.Periods, int64(random.IntN(4)))
			e.Owner.ThrottledTime = seconds(period / 3 * float64(e.Owner.Throttled))
		}
		e.Local = e.Owner.ThrottledTime
	} else if random.IntN(6) == 0 { // a limit above what can be seen
		limits.State, e.Limit, e.LocalKnown, e.Local = cgroup.Hidden, cgroup.Hidden, true, seconds(0.3*wall)
	}
	if steal+others+used > 0.95*host {
		gaps = append(gaps, anywhere(seconds(wall), 5+random.IntN(100))...)
	}
	slices.SortFunc(gaps, func(a, b freeze.Gap) int { return int(a.Start - b.Start) })
	gaps = slices.DeleteFunc(gaps, func(g freeze.Gap) bool { return g.Length() < heartbeat.Late })
	for i := len(gaps) - 1; i > 0; i-- { // none within another
		if gaps[i].Start <= gaps[i-1].End {
			gaps = slices.Delete(gaps, i, i+1)
		}
	}
	e.Waited = seconds(max(0, wants-used) * wall)
	f := report.WatchFacts{Group: "/sys/fs/cgroup/app", Limit: limits, Evidence: e, Planned: seconds(wall)}
	if random.IntN(3) > 0 {
		f.Seen = watched(seconds(wall), gaps)
	}
	d := report.NewWatch(f)
	return &d
}

// TestWatchAgrees draws random watches: no sentence of one denies another, nor the figures next to it.
func TestWatchAgrees(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	causes := map[string]int{}
	for range 2000 {
		d := randomWatch(random)
		causes[d.Cause]++
		text := drawn(t, WatchSummary(d), 0)
		if bad := contradictions(text); len(bad) > 0 {
			t.Fatalf("%q\n%s", bad, text)
		}
	}
	for _, cause := range []freeze.Cause{freeze.Throttled, freeze.Contended, freeze.None, freeze.Unsure} {
		if causes[string(cause)] < 20 {
			t.Errorf("%v", causes)
		}
	}
}

func TestWatchLine(t *testing.T) {
	d := watches()["throttled"]
	if got, want := WatchLine(3, d, 10, 10), "   4 s  frozen  74.4 %  10 freezes, longest 75 ms  throttled in 10 of 10 periods"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got, want := WatchHead(d), "Watching the cgroup of process 4711 (server), /sys/fs/cgroup/app; limit: 0.5 CPUs, 50 ms of each 100 ms."; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got, want := WatchStatus(d), "throttled  frozen 73.9 %  period 100 ms  longest 75 ms  119 of 120 periods throttled"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	d = watches()["none"]
	if got, want := WatchLine(0, d, 0, 0), "   1 s  frozen     0 %"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := WatchStatus(d), "not throttled  frozen 0 %"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
