package heartbeat

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/freeze"
)

const ms = time.Millisecond

// quota is what a heartbeat tells of a quota: so much frozen at the end of each period.
func quota(wall, period, frozen time.Duration) *Observation {
	o := &Observation{}
	for end := period + 7*ms; end < wall; end += period {
		o.Add(Pulse{At: end, Beats: o.Beats + 10, Freezes: []freeze.Gap{{Start: end - frozen, End: end}}})
	}
	o.Add(Pulse{At: wall, Beats: o.Beats + 1})
	return o
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
		{"a quota that nobody counts here", quota(10*time.Second, 100*ms, 25*ms), host(func(e *Evidence) {
			*e = Evidence{Wall: 10 * time.Second}
		}), freeze.Throttled, "R 1.00"},
		{"a hidden quota", quota(10*time.Second, 100*ms, 25*ms), host(func(e *Evidence) {
			e.Owner.Known, e.Owner.Periods, e.Limit, e.Local = false, 0, cgroup.Hidden, 5*time.Second
		}), freeze.Throttled, "a group above throttles it"},
		{"a rhythm that the kernel knows nothing of", quota(10*time.Second, 100*ms, 25*ms), host(func(*Evidence) {}), freeze.Unsure, "in no period"},
		{"freezes too short to be seen", quota(10*time.Second, 100*ms, 0), host(throttled), freeze.Throttled, "in 99 of 100 periods: each time for less than the 3 ms"},
		{"throttled and noisy", noise(10*time.Second, 100, 20*ms), host(throttled), freeze.Throttled, "in 99 of 100 periods"},
		{"nothing", &Observation{Wall: 10 * time.Second}, host(func(*Evidence) {}), freeze.None, "0.0 %"},
		{"nothing, and a host whose CPUs are in use", &Observation{Wall: 10 * time.Second}, host(func(e *Evidence) { e.Busy = 20 * time.Second }), freeze.None, "0.0 %"},
		{"a busy host", &Observation{Wall: 10 * time.Second}, host(busyHost), freeze.Contended, "others used 1.50 of the host's 2 CPUs"},
		{"a busy host that makes it late", noise(10*time.Second, 100, 20*ms), host(busyHost), freeze.Contended, "waited for 55 %"},
		{"its own threads", &Observation{Wall: 10 * time.Second}, host(func(e *Evidence) {
			e.Busy, e.Run, e.Used, e.Waited = 20*time.Second, 20*time.Second, 20*time.Second, 60*time.Second
		}), freeze.None, "they wait for each other"},
		{"its own threads, which make it late", noise(10*time.Second, 100, 20*ms), host(func(e *Evidence) {
			e.Busy, e.Run, e.Used, e.Waited = 20*time.Second, 20*time.Second, 20*time.Second, 60*time.Second
		}), freeze.Contended, "they wait for each other"},
		{"a hypervisor", noise(10*time.Second, 100, 20*ms), host(func(e *Evidence) { e.Steal = 4 * time.Second }), freeze.Contended, "took 0.40 of 2"},
		{"late for no reason", noise(10*time.Second, 100, 20*ms), host(func(*Evidence) {}), freeze.Unsure, "nothing else tells"},
	}
	for _, tt := range tests {
		v := tt.o.Judge(100*ms, tt.e)
		if why := strings.Join(v.Why, "; "); v.Cause != tt.cause || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %s (%s), want %s (%s)", tt.name, v.Cause, why, tt.cause, tt.why)
		}
		switch {
		case v.Cause != freeze.Throttled && v.Throttled != 0, v.Throttled+v.Contended > tt.o.Share()+1e-9:
			t.Errorf("%s: throttled %v, contended %v of %v", tt.name, v.Throttled, v.Contended, tt.o.Share())
		}
	}
}

func TestObservation(t *testing.T) {
	o := quota(4000*time.Second, 100*ms, 25*ms)
	if o.Freezes != 39999 || len(o.Kept) >= keptMost*11/10 || int64(len(o.Kept))+o.Dropped != o.Freezes || o.Longest != 25*ms {
		t.Errorf("%d freezes, kept %d, dropped %d, longest %v", o.Freezes, len(o.Kept), o.Dropped, o.Longest)
	}
	if v := o.Judge(100*ms, Evidence{}); v.Cause != freeze.Throttled || math.Abs(v.Throttled-0.25) > 0.001 {
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

// TestJudgeShares has both a quota and a busy host: what the kernel has not counted was no throttling.
func TestJudgeShares(t *testing.T) {
	o := noise(10*time.Second, 100, 20*ms)
	v := o.Judge(100*ms, host(func(e *Evidence) {
		e.Owner.Throttled, e.Owner.ThrottledTime, e.Local, e.Waited, e.Busy = 40, time.Second, time.Second, 20*time.Second, 20*time.Second
	}))
	if v.Cause != freeze.Throttled || v.Throttled != 0.1 || math.Abs(v.Throttled+v.Contended-o.Share()) > 1e-9 {
		t.Errorf("%v: throttled %v, contended %v of %v", v.Cause, v.Throttled, v.Contended, o.Share())
	}
}
