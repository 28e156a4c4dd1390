package unthrottle

import (
	"errors"
	"math"
	"testing"

	"github.com/unthrottle/unthrottle/cgroup"
)

func limited(cpus float64, affinity int) cgroup.Limits {
	return cgroup.Limits{State: cgroup.Limited, CPUs: cpus, From: "/sys/fs/cgroup/app", Affinity: affinity}
}

func TestDecide(t *testing.T) {
	none := cgroup.Limits{State: cgroup.None, Affinity: 8}
	unknown := cgroup.Limits{Reason: errors.New("no /proc"), Affinity: 8}
	tests := []struct {
		name string
		l    cgroup.Limits
		p    Policy
		want int
		by   Basis
	}{
		{"zero policy is Go", limited(1.5, 8), Policy{}, 2, ByLimit},
		{"go rounds up", limited(2.1, 8), Go, 3, ByLimit},
		{"go whole", limited(4, 8), Go, 4, ByLimit},
		{"go minimum of 2", limited(0.5, 8), Go, 2, ByMinimum},
		{"go minimum of 2 at 1", limited(1, 8), Go, 2, ByMinimum},
		{"go minimum on one CPU", limited(0.5, 1), Go, 1, ByCPUs},
		{"go a hair over", limited(3.0001, 8), Go, 3, ByLimit},
		{"go at the tolerance", limited(3.01, 8), Go, 3, ByLimit},
		{"go over the tolerance", limited(3.011, 8), Go, 4, ByLimit},
		{"clamp", limited(64, 16), Go, 16, ByCPUs},
		{"clamp equal", limited(16, 16), Go, 16, ByLimit},
		{"affinity not known", limited(64, 0), Go, 64, ByLimit},
		{"huge", limited(1<<44, 8), Go, 8, ByCPUs},
		{"floor", limited(2.9, 8), Floor, 2, ByLimit},
		{"floor whole", limited(3, 8), Floor, 3, ByLimit},
		{"floor below 1", limited(0.4, 8), Floor, 1, ByMinimum},
		{"ceil below 1", limited(0.4, 8), Ceil, 1, ByLimit},
		{"ceil 1m", limited(0.01, 8), Ceil, 1, ByMinimum},
		{"exact down", limited(1.4, 8), Exact, 1, ByLimit},
		{"exact half", limited(1.5, 8), Exact, 2, ByLimit},
		{"exact below 1", limited(0.2, 8), Exact, 1, ByMinimum},
		{"limit only", limited(3, 8), Policy{LimitOnly: true}, 3, ByLimit},
		{"limit only, none", none, Policy{LimitOnly: true, Max: 2}, 0, ByNothing},
		{"limit only, at most", cgroup.Limits{Reason: errors.New("x"), AtMost: 1.5}, Policy{LimitOnly: true}, 0, ByNothing},
		{"off", limited(2, 8), Off, 0, ByNothing},
		{"user wins", limited(2, 8), Policy{operator: operator{procs: 5}}, 5, ByEnvironment},
		{"user wins over the CPUs", limited(2, 1), Policy{operator: operator{procs: 5}}, 5, ByEnvironment},
		{"user and off", none, Policy{operator: operator{procs: 5}, Off: true}, 5, ByEnvironment},
		{"own minimum", limited(1, 8), Policy{Min: 3}, 3, ByMinimum},
		{"minimum above the CPUs", limited(1, 2), Policy{Min: 3}, 2, ByCPUs},
		{"maximum", limited(6, 8), Policy{Max: 4}, 4, ByMaximum},
		{"maximum without limit", none, Policy{Max: 4}, 4, ByMaximum},
		{"maximum above", limited(3, 8), Policy{Max: 4}, 3, ByLimit},
		{"headroom", limited(4, 8), Policy{Headroom: 0.5}, 4, ByLimit},
		{"headroom of one", limited(4, 8), Policy{Headroom: 1}, 3, ByLimit},
		{"headroom floor", limited(2.3, 8), Policy{Rounding: RoundDown, Min: 1, Headroom: 0.3}, 2, ByLimit},
		{"headroom above the limit", limited(1, 8), Policy{Headroom: 3}, 2, ByMinimum},
		{"headroom below zero", limited(1, 8), Policy{Min: 1, Headroom: -3}, 1, ByLimit},
		{"request caps", limited(6, 8), Policy{Request: 2.5}, 3, ByRequest},
		{"request never raises", limited(2, 8), Policy{Request: 6}, 2, ByLimit},
		{"request times factor", limited(8, 8), Policy{Request: 2, RequestFactor: 2}, 4, ByRequest},
		{"request without limit", none, Policy{Request: 0.5, RequestFactor: 6}, 3, ByRequest},
		{"request keeps the minimum", none, Policy{Request: 0.5}, 2, ByRequest},
		{"request above the CPUs", none, Policy{Request: 64}, 8, ByCPUs},
		{"request and unknown", unknown, Policy{Request: 3}, 3, ByRequest},
		{"own function", limited(2.5, 8), Policy{Min: 1, RoundFunc: func(v float64) int { return int(v * 2) }}, 5, ByLimit},
		{"own function below the minimum", limited(2.5, 8), Policy{Min: 1, RoundFunc: func(float64) int { return -3 }}, 1, ByMinimum},
		{"none", none, Go, 8, ByCPUs},
		{"none and affinity unknown", cgroup.Limits{State: cgroup.None}, Go, 0, ByNothing},
		{"unknown", unknown, Go, 0, ByNothing},
		{"unknown but at most", cgroup.Limits{Reason: errors.New("x"), AtMost: 1.5, Affinity: 8}, Go, 2, ByLimit},
		{"hidden", cgroup.Limits{State: cgroup.Hidden, Affinity: 8}, Go, 0, ByNothing},
		{"not supported", cgroup.Limits{Reason: cgroup.ErrNotSupported, Affinity: 8}, Go, 0, ByNothing},
	}
	for _, tt := range tests {
		d := Decide(tt.l, tt.p)
		if d.Procs != tt.want || d.By != tt.by {
			t.Errorf("%s: got %d by %q, want %d by %q (%v)", tt.name, d.Procs, d.By, tt.want, tt.by, d)
		}
		if len(d.Why()) == 0 {
			t.Errorf("%s: no reason", tt.name)
		}
	}
}

func TestDecisionWords(t *testing.T) {
	tests := []struct {
		d    Decision
		want string
	}{
		{
			Decide(limited(1.5, 8), Go),
			"GOMAXPROCS=2: limit 1.5 CPUs at /sys/fs/cgroup/app; policy go: rounded up to 2",
		},
		{
			Decide(limited(1, 8), Policy{Name: "mine", Headroom: 0.25, Min: 1, Rounding: RoundDown}),
			"GOMAXPROCS=1: limit 1 CPU at /sys/fs/cgroup/app; 0.25 CPUs left to side processes: 0.75 CPUs; policy mine: rounded down to 0; raised to 1, the minimum",
		},
		{
			Decide(limited(0.5, 8), Policy{}),
			"GOMAXPROCS=2: limit 0.5 CPUs at /sys/fs/cgroup/app; policy go: rounded up to 1; raised to 2, the minimum of policy go",
		},
		{
			Decide(limited(0.5, 8), Policy{Min: 3, Headroom: 1}),
			"GOMAXPROCS=3: limit 0.5 CPUs at /sys/fs/cgroup/app; 1 CPU left to side processes: 0 CPUs; policy go: 0; raised to 3, the minimum",
		},
		{
			Decide(limited(1, 8), Policy{operator: operator{off: true}, Off: true}),
			"GOMAXPROCS unchanged: UNTHROTTLE=off is set in the environment",
		},
		{
			Decide(limited(6, 4), Policy{Request: 1.5, RequestFactor: 2}),
			"GOMAXPROCS=3: limit 6 CPUs at /sys/fs/cgroup/app; policy go: 6; lowered to 3 by the request of 1.5 CPUs × 2",
		},
		{
			Decide(cgroup.Limits{Reason: errors.New("open /proc/self/cgroup: permission denied"), Affinity: 4}, Go),
			"GOMAXPROCS unchanged: the limit is unknown: open /proc/self/cgroup: permission denied",
		},
		{
			Decide(cgroup.Limits{State: cgroup.None, Affinity: 4}, Go),
			"GOMAXPROCS=4: no limit; all 4 CPUs that the affinity mask allows",
		},
	}
	for _, tt := range tests {
		if got := tt.d.String(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func TestBasisWords(t *testing.T) {
	for b, want := range map[Basis]string{ByNothing: "", ByProgram: "program", 99: "basis 99"} {
		if got := b.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// FuzzDecide checks what must be true of every decision.
func FuzzDecide(f *testing.F) {
	f.Add(1.5, 8, uint8(0), 0, 0, 0.0, 0.0)
	f.Add(64.0, 4, uint8(1), 1, 3, 0.5, 2.0)
	f.Fuzz(func(t *testing.T, cpus float64, affinity int, rounding uint8, min, max int, headroom, request float64) {
		if !(cpus > 0) || math.IsInf(cpus, 0) || affinity < 1 {
			t.Skip()
		}
		p := Policy{Rounding: Rounding(rounding % 3), Min: min, Max: max, Headroom: headroom, Request: request}
		d := Decide(limited(cpus, affinity), p)
		if d.Procs < 1 || d.Procs > affinity {
			t.Errorf("%+v at %v CPUs of %d: %d", p, cpus, affinity, d.Procs)
		}
		if max > 0 && d.Procs > max {
			t.Errorf("%+v at %v CPUs: %d is above the maximum", p, cpus, d.Procs)
		}
		p.Request = 0
		if without := Decide(limited(cpus, affinity), p); d.Procs > without.Procs {
			t.Errorf("%+v at %v CPUs: a request of %v raised %d to %d", p, cpus, request, without.Procs, d.Procs)
		}
	})
}
