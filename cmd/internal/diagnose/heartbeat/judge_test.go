package heartbeat

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
)

const ms = time.Millisecond

// usual is what is known of a quota.
var usual = freeze.Quotas{Period: 100 * ms, Levels: 1}

// quota is what a heartbeat reports of a quota: that much frozen at the end of each period.
func quota(wall, period, frozen time.Duration) *Observation {
	o := &Observation{}
	for end := period + 7*ms; end < wall; end += period {
		o.Add(Pulse{At: end, Beats: o.Beats + 10, Freezes: []freeze.Gap{{Start: end - frozen, End: end}}})
	}
	o.Add(Pulse{At: wall, Beats: o.Beats + 1})
	return o
}

// uneven lets freezes begin when the quota is used up, which takes longer at times.
func uneven(o *Observation) *Observation {
	for i := range o.Kept {
		o.Kept[i].Start += time.Duration(i%5-2) * ms
	}
	return o
}

// behind makes one freeze of some run past the refill while the group's own threads go first.
func behind(o *Observation, one int) *Observation {
	for i := range o.Kept {
		if i%one == 0 {
			o.Kept[i].End += time.Duration(5+i%16) * ms
		}
	}
	return recount(o)
}

// mostlyBehind makes most freezes end at one time after the refill.
func mostlyBehind(o *Observation) *Observation {
	for i := range o.Kept {
		if i%5 > 1 {
			o.Kept[i].End += 14*ms + time.Duration(i%3)*ms
		}
	}
	return recount(o)
}

// recount adds the freezes up again.
func recount(o *Observation) *Observation {
	again := &Observation{}
	again.Add(Pulse{At: o.Wall, Beats: o.Beats, Freezes: o.Kept})
	return again
}

// noise is late at any time.
func noise(wall time.Duration, n int, length time.Duration) *Observation {
	r := rand.New(rand.NewPCG(1, 2))
	o := &Observation{}
	at := time.Duration(0)
	for range n {
		at += time.Duration(r.ExpFloat64() * float64(wall) / float64(n+1))
		o.Add(Pulse{At: at + length, Freezes: []freeze.Gap{{Start: at, End: at + length}}})
		at += length
	}
	o.Add(Pulse{At: max(wall, at)})
	return o
}

// host is what the kernel says of ten seconds on two CPUs.
func host(change func(*Evidence)) Evidence {
	e := Evidence{
		Wall: 10 * time.Second, Throttling: cgroup.Throttling{Owner: cgroup.Counters{Known: true, Periods: 100}, LocalKnown: true}, Limit: cgroup.Limited,
		ThreadsKnown: true, Threads: 5, Run: 5 * time.Second, Used: 5 * time.Second, Busy: 6 * time.Second, CPUs: 2,
	}
	change(&e)
	return e
}

func TestJudge(t *testing.T) {
	throttled := func(e *Evidence) {
		e.Owner.Throttled, e.Owner.ThrottledTime, e.Local, e.Waited = 99, 15*time.Second, 15*time.Second, 20*time.Second
	}
	busyHost := func(e *Evidence) { e.Busy, e.Waited = 20*time.Second, 6*time.Second }
	tests := []struct {
		name  string
		o     *Observation
		e     Evidence
		cause freeze.Cause
		why   string
	}{
		{"a quota", quota(10*time.Second, 100*ms, 75*ms), host(throttled), freeze.Throttled, "R 1.00"},
		{"a quota of another period", quota(10*time.Second, 20*ms, 10*ms), host(throttled), freeze.Throttled, "one phase of 20 ms"},
		{"a quota that nobody counts here", uneven(quota(10*time.Second, 100*ms, 25*ms)), host(func(e *Evidence) {
			*e = Evidence{Wall: 10 * time.Second}
		}), freeze.Throttled, "R 1.00"},
		{"a hidden quota", quota(10*time.Second, 100*ms, 25*ms), host(func(e *Evidence) {
			e.Owner.Known, e.Owner.Periods, e.Limit, e.Local = false, 0, cgroup.Hidden, 5*time.Second
		}), freeze.Throttled, "a group above throttles it"},
		{"a hidden quota that the heartbeat does not feel", &Observation{Wall: 10 * time.Second}, host(func(e *Evidence) {
			e.Owner.Known, e.Owner.Periods, e.Limit, e.Local = false, 0, cgroup.Hidden, 5*time.Second
		}), freeze.Throttled, "a group above held it up for 5 s, summed over CPUs: each time for less than"},
		{"a hidden quota, beside others that make it late", noise(10*time.Second, 100, 20*ms), host(func(e *Evidence) {
			e.Owner.Known, e.Owner.Periods, e.Limit, e.Local, e.Busy = false, 0, cgroup.Hidden, 1200*ms, 20*time.Second
		}), freeze.Throttled, "held it up for 1.2 s"},
		{"hardly any of that", &Observation{Wall: 10 * time.Second}, host(func(e *Evidence) {
			e.Owner.Known, e.Owner.Periods, e.Limit, e.Local = false, 0, cgroup.Hidden, 50*ms
		}), freeze.None, "0.0 %"},
		{"a rhythm that the kernel knows nothing of", quota(10*time.Second, 100*ms, 25*ms), host(func(*Evidence) {}), freeze.Unsure, "in no period"},
		{"freezes too short to be seen", quota(10*time.Second, 100*ms, 0), host(throttled), freeze.Throttled, "in 99 of 100 periods: each time for less than the 3 ms"},
		{"throttled and noisy", noise(10*time.Second, 100, 20*ms), host(throttled), freeze.Throttled, "in 99 of 100 periods"},
		{"nothing", &Observation{Wall: 10 * time.Second}, host(func(*Evidence) {}), freeze.None, "0.0 %"},
		{"nothing, and a host whose CPUs are in use", &Observation{Wall: 10 * time.Second}, host(func(e *Evidence) { e.Busy = 20 * time.Second }), freeze.None, "0.0 %"},
		{"a busy host", &Observation{Wall: 10 * time.Second}, host(busyHost), freeze.Contended, "others used 1.50 of the host's 2 CPUs"},
		{"a busy host that makes it late", noise(10*time.Second, 100, 20*ms), host(busyHost), freeze.Contended, "waited for 55 %"},
		{"a busy host, and freezes that are too few to have a rhythm", noise(10*time.Second, 8, 80*ms), host(func(e *Evidence) {
			e.Busy, e.Used, e.Run = 20*time.Second, time.Second, time.Second
		}), freeze.Contended, "hardly one was free"},
		{"the same where nobody counts what groups above did", noise(10*time.Second, 8, 80*ms), host(func(e *Evidence) {
			e.Busy, e.Used, e.Run, e.LocalKnown = 20*time.Second, time.Second, time.Second, false
		}), freeze.Unsure, "too few"},
		{"its own threads", &Observation{Wall: 10 * time.Second}, host(func(e *Evidence) {
			e.Busy, e.Run, e.Used, e.Waited = 20*time.Second, 20*time.Second, 20*time.Second, 60*time.Second
		}), freeze.None, "they wait for each other"},
		{"its own threads, which make it late", noise(10*time.Second, 100, 20*ms), host(func(e *Evidence) {
			e.Busy, e.Run, e.Used, e.Waited = 20*time.Second, 20*time.Second, 20*time.Second, 60*time.Second
		}), freeze.Contended, "they wait for each other"},
		{"a hypervisor", noise(10*time.Second, 100, 20*ms), host(func(e *Evidence) { e.Steal = 4 * time.Second }), freeze.Contended, "took 0.40 of 2"},
		{"a rhythm that the own limit knows nothing of, and nobody counts those above", uneven(quota(10*time.Second, 100*ms, 25*ms)), host(func(e *Evidence) {
			e.LocalKnown = false
		}), freeze.Unsure, "in no period, and what groups above did"},
		{"a rhythm that is its own or a neighbour's", quota(10*time.Second, 100*ms, 25*ms), Evidence{Wall: 10 * time.Second}, freeze.Unsure, "or of a neighbour's"},
		{"a neighbour's quota, of which the host's mean says nothing", quota(10*time.Second, 100*ms, 25*ms), host(func(e *Evidence) {
			e.Limit, e.Owner, e.Run, e.Used, e.Waited, e.Busy = cgroup.None, cgroup.Counters{Known: true}, 4*time.Second, 4*time.Second, 6*time.Second, 10*time.Second
		}), freeze.Contended, "others used 0.60 of the host's 2 CPUs, and those had what"},
		{"a neighbour's quota that the heartbeat does not feel", &Observation{Wall: 10 * time.Second}, host(func(e *Evidence) {
			e.Limit, e.Owner, e.Run, e.Used, e.Waited, e.Busy = cgroup.None, cgroup.Counters{Known: true}, 4*time.Second, 4*time.Second, 24*time.Second, 10*time.Second
		}), freeze.Contended, "waited for 86 %"},
		{"a neighbour's quota, own limit far away", quota(10*time.Second, 100*ms, 25*ms), host(func(e *Evidence) {
			e.Run, e.Used, e.Waited, e.Busy = 4*time.Second, 4*time.Second, 6*time.Second, 10*time.Second
		}), freeze.Contended, "it waits for another group"},
		{"its own threads on the one CPU that it has", &Observation{Wall: 10 * time.Second}, host(func(e *Evidence) {
			e.Affinity, e.Run, e.Used, e.Waited, e.Busy = 1, 9900*ms, 9900*ms, 30*time.Second, 15*time.Second
		}), freeze.None, "waited for 75 %"},
		{"an idle host of which a hypervisor takes 4 %", noise(10*time.Second, 20, 6*ms), host(func(e *Evidence) {
			e.Limit, e.Owner, e.Run, e.Used, e.Waited = cgroup.None, cgroup.Counters{}, 100*ms, 100*ms, 40*ms
			e.Busy, e.Steal = 200*ms, 800*ms
		}), freeze.None, "took 0.08 of 2 CPUs"},
		{"late for no reason", noise(10*time.Second, 100, 20*ms), host(func(*Evidence) {}), freeze.Unsure, "nothing else tells"},
	}
	for _, tt := range tests {
		v := tt.o.Judge(usual, tt.e)
		if why := strings.Join(v.Why, "; "); v.Cause != tt.cause || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %s (%s), want %s (%s)", tt.name, v.Cause, why, tt.cause, tt.why)
		}
		switch {
		case v.Cause != freeze.Throttled && v.Throttled != 0, v.Throttled+v.Contended > tt.o.Share()+1e-9, tt.e.hidden() && v.Throttled > ratio(tt.e.Local, tt.e.Wall)+1e-9:
			t.Errorf("%s: throttled %v, contended %v of %v", tt.name, v.Throttled, v.Contended, tt.o.Share())
		}
	}
}

// TestJudgeBehind: sixteen busy threads under half a CPU, and a heartbeat that has to wait for its turn behind them. What is after the
// refill isn't a freeze, or a sign of a busy host.
func TestJudgeBehind(t *testing.T) {
	made := func() *Observation { return uneven(quota(10*time.Second, 100*ms, 65*ms)) }
	for name, c := range map[string]struct {
		o           *Observation
		busy, steal time.Duration
		contended   float64 // at most
	}{
		"idle":   {behind(made(), 3), 7900 * ms, 0, 0},
		"full":   {behind(made(), 3), 19 * time.Second, 0, 1},
		"mostly": {mostlyBehind(made()), 7900 * ms, 0, 0},
		"stolen": {behind(made(), 3), 7900 * ms, 800 * ms, 0.08}, // 4 % of two CPUs
	} {
		v := c.o.Judge(usual, host(func(e *Evidence) {
			e.Owner.Throttled, e.Owner.ThrottledTime, e.Local, e.Waited = 99, 13*time.Second, 13*time.Second, 150*time.Second
			e.Busy, e.Steal = c.busy, c.steal
		}))
		if v.Cause != freeze.Throttled || math.Abs(v.Throttled-0.65) > 0.03 {
			t.Errorf("%s: %v, throttled %.3f: %v", name, v.Cause, v.Throttled, v.Why)
		}
		if (v.Contended > 0) != (c.contended > 0) || v.Contended > c.contended+1e-9 || math.Abs(v.Frozen-v.Throttled-v.Contended) > 1e-9 {
			t.Errorf("%s: contended %.3f, frozen %.3f", name, v.Contended, v.Frozen)
		}
		for _, g := range v.Freezes {
			if name != "full" && !v.Rhythm.Ends(g) {
				t.Errorf("%s: a freeze still ends at %v", name, g.End)
				break
			}
		}
	}
}

func TestObservation(t *testing.T) {
	o := quota(4000*time.Second, 100*ms, 25*ms)
	if o.Freezes != 39999 || len(o.Kept) >= keptMost*11/10 || int64(len(o.Kept))+o.Dropped != o.Freezes || o.Longest != 25*ms {
		t.Errorf("%d freezes, kept %d, dropped %d, longest %v", o.Freezes, len(o.Kept), o.Dropped, o.Longest)
	}
	if v := uneven(o).Judge(usual, Evidence{}); v.Cause != freeze.Throttled || math.Abs(v.Throttled-0.25) > 0.001 {
		t.Errorf("by those that are kept: %+v", v)
	}
	n := o.Newest(10)
	if len(n.Kept) != 10 || n.Freezes != o.Freezes || n.Wall != o.Wall || int64(len(n.Kept))+n.Dropped != n.Freezes || len(o.Kept) == 10 {
		t.Errorf("newest: %d kept, %d dropped", len(n.Kept), n.Dropped)
	}
	if o := quota(time.Second, 100*ms, 25*ms); o.Newest(100) != o {
		t.Error("newest of few is another")
	}
}

// TestJudgeAbove has a pod's quota besides its container's: the container's own count is only a part of it.
func TestJudgeAbove(t *testing.T) {
	v := quota(10*time.Second, 100*ms, 75*ms).Judge(usual, host(func(e *Evidence) {
		e.Owner.Throttled, e.Owner.ThrottledTime, e.Local, e.Waited = 48, 2*time.Second, 14*time.Second, 60*time.Second
	}))
	if v.Cause != freeze.Throttled || math.Abs(v.Throttled-0.75) > 0.01 || math.Abs(v.Frozen-0.75) > 0.01 ||
		!strings.Contains(strings.Join(v.Why, "\n"), "a group above throttles it as well: it was held up for 14 s, summed over CPUs, for 2 s of that by its limit's own group") {
		t.Errorf("%v, throttled %v, frozen %v: %q", v.Cause, v.Throttled, v.Frozen, v.Why)
	}
}

// TestJudgeTwo has a pod's quota whose periods begin at another time than its container's: both are seen, and a freeze that runs past
// the refill of either is cut there.
func TestJudgeTwo(t *testing.T) {
	o := &Observation{}
	for end := 100 * ms; end < 10*time.Second; end += 100 * ms {
		o.Add(Pulse{At: end, Beats: o.Beats + 10, Freezes: []freeze.Gap{{Start: end - 88*ms, End: end - 60*ms}, {Start: end - 50*ms, End: end}}})
	}
	o = behind(uneven(o), 5)
	v := o.Judge(freeze.Quotas{Period: 100 * ms, Levels: 2}, host(func(e *Evidence) {
		e.Owner.Throttled, e.Owner.ThrottledTime, e.Local, e.Waited = 98, 9*time.Second, 16*time.Second, 60*time.Second
	}))
	if v.Cause != freeze.Throttled || v.Rhythm.Offset == 0 || v.Contended != 0 || math.Abs(v.Throttled-0.77) > 0.02 {
		t.Errorf("%v, throttled %v, contended %v, %+v: %q", v.Cause, v.Throttled, v.Contended, v.Rhythm, v.Why)
	}
	for _, g := range v.Freezes {
		if !v.Rhythm.Ends(g) {
			t.Errorf("a freeze still ends at %v", g.End)
		}
	}
}

// TestJudgeShares has both a quota and a busy host: what the kernel has not counted wasn't throttling.
func TestJudgeShares(t *testing.T) {
	o := noise(10*time.Second, 100, 20*ms)
	v := o.Judge(usual, host(func(e *Evidence) {
		e.Owner.Throttled, e.Owner.ThrottledTime, e.Local, e.Waited, e.Busy = 40, time.Second, time.Second, 20*time.Second, 20*time.Second
	}))
	if v.Cause != freeze.Throttled || v.Throttled != 0.1 || math.Abs(v.Throttled+v.Contended-o.Share()) > 1e-9 {
		t.Errorf("%v: throttled %v, contended %v of %v", v.Cause, v.Throttled, v.Contended, o.Share())
	}
}
