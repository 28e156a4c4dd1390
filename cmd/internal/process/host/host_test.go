package host

import (
	"math"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// A freeze is recognised from samples: slots in which Ps ran and no CPU time passed, and half a slot on either side.
func TestSamples(t *testing.T) {
	const slot = 10 * time.Millisecond
	for _, c := range []struct {
		name     string
		cpu      []int // milliseconds used in each slot
		running  []int // at the end of each slot; at the start it is 1
		frozen   time.Duration
		averages float64
	}{
		{"busy", []int{10, 10, 10, 10}, []int{1, 1, 1, 1}, 0, 1},
		{"idle", []int{0, 0, 0, 0}, []int{0, 0, 0, 0}, 0, 0.125},
		{"frozen in the middle", []int{10, 3, 0, 0, 6, 10}, []int{2, 2, 2, 2, 2, 2}, 3 * slot, 11.5 / 6},
		{"frozen twice", []int{5, 0, 5, 0, 5}, []int{1, 1, 1, 1, 1}, 4 * slot, 1},
		{"frozen to the end", []int{10, 0, 0}, []int{1, 1, 1}, 5 * slot / 2, 1},
		{"waits for the disk", []int{10, 0, 0, 10}, []int{1, 0, 0, 1}, 0, 0.5},
	} {
		start := time.Unix(0, 0)
		w := watch{p: &Process{}, at: start, running: 1}
		var cpu time.Duration
		for i := range c.cpu {
			cpu += time.Duration(c.cpu[i]) * time.Millisecond
			w.add(start.Add(time.Duration(i+1)*slot), cpu, c.running[i], 0)
		}
		if w.frozen != c.frozen || math.Abs(w.ran/w.seen-c.averages) > 1e-9 {
			t.Errorf("%s: frozen %v, want %v; %g ran on average, want %g", c.name, w.frozen, c.frozen, w.ran/w.seen, c.averages)
		}
	}
}

func TestSource(t *testing.T) {
	for _, c := range []struct {
		name     string
		p        Process
		expected choice.Source
		want     choice.Source
	}{
		{"predicted", Process{}, choice.FromLimit, choice.FromLimit},
		{"as expected", Process{Live: 2, CustomKnown: true}, choice.FromLimit, choice.FromLimit},
		{"set to the number that was expected", Process{Live: 2, Custom: true, CustomKnown: true}, choice.FromLimit, FromCall},
		{"by the environment", Process{Live: 2, Custom: true, CustomKnown: true}, choice.FromEnvironment, choice.FromEnvironment},
		{"by automaxprocs", Process{Live: 2, Custom: true, CustomKnown: true}, choice.FromAutomaxprocs, choice.FromAutomaxprocs},
		{"another number, old Go", Process{Live: 7}, choice.FromCPUs, FromCall},
		{"another number, the limit was changed", Process{Live: 7, CustomKnown: true}, choice.FromLimit, choice.FromLimit},
		{"another number than in its environment", Process{Live: 7, Custom: true, CustomKnown: true}, choice.FromEnvironment, FromCall},
	} {
		c.p.Prediction = choice.Prediction{Procs: 2, Source: c.expected}
		if got := c.p.Source(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestFrozenShare(t *testing.T) {
	s := time.Second
	throttled := func(d time.Duration) cgroup.Throttling {
		return cgroup.Throttling{Owner: cgroup.Counters{Throttled: 1, ThrottledTime: d, CPUKnown: true, CPU: s}}
	}
	for _, c := range []struct {
		name  string
		u     Usage
		share float64
		exact bool
	}{
		{"never throttled", Usage{Wall: s, StallKnown: true, Stall: s, FrozenKnown: true, Frozen: 1}, 0, true},
		{"by pressure", Usage{Wall: 4 * s, Throttling: throttled(0), StallKnown: true, Stall: s, FrozenKnown: true, Frozen: 0.5}, 0.25, true},
		{"by samples", Usage{Wall: 4 * s, Samples: 9, Parallel: 1.5, Throttling: throttled(3 * s), FrozenKnown: true, Frozen: 0.45}, 0.45, true},
		{"by samples that saw too little", Usage{Wall: 4 * s, Samples: 9, Parallel: 1.5, Throttling: throttled(3 * s), FrozenKnown: true, Frozen: 0.3}, 0.375, true},
		{"by samples that saw too much", Usage{Wall: 4 * s, Samples: 9, Parallel: 1.5, Throttling: throttled(3 * s), FrozenKnown: true, Frozen: 0.9}, 0.75, true},
		{"by samples far apart, beside others", Usage{Wall: 4 * s, Samples: 9, Parallel: 1.5, CPU: s / 2, Throttling: throttled(3 * s), Frozen: 0.9}, 0.375, false},
		{"by samples far apart", Usage{Wall: 4 * s, Samples: 9, Parallel: 1.5, CPU: s, Throttling: throttled(3 * s), Frozen: 0.9}, 0.5, true},
		{"of one P", Usage{Wall: 4 * s, Samples: 9, Parallel: 0.8, CPU: s, Throttling: throttled(s)}, 0.25, true},
		{"of more Ps than CPUs", Usage{Wall: 4 * s, Samples: 9, Parallel: 50, Throttling: throttled(6 * s)}, 0.75, true},
		{"of others in its group", Usage{Wall: 4 * s, Samples: 9, Parallel: 1, Throttling: throttled(3 * s), FrozenKnown: true, Frozen: 0.1}, 0.1, true},
		{"idle", Usage{Wall: 4 * s, Samples: 9, Throttling: throttled(s)}, 0.125, false},
		{"by a level above too", Usage{Wall: 4 * s, Samples: 9, Parallel: 1.5, Throttling: cgroup.Throttling{
			Owner: cgroup.Counters{Throttled: 1, ThrottledTime: s}, Local: 3 * s, LocalKnown: true,
		}, FrozenKnown: true, Frozen: 0.45}, 0.45, true},
		{"by a hidden level", Usage{Wall: 2 * s, Throttling: cgroup.Throttling{Local: 3 * s, LocalKnown: true}}, 0.75, false},
		{"by the counters", Usage{Wall: 2 * s, Throttling: throttled(3 * s)}, 0.75, false},
	} {
		if share, exact := c.u.FrozenShare(2); share != c.share || exact != c.exact {
			t.Errorf("%s: %g, %v", c.name, share, exact)
		}
	}
}

// TestWrapper distinguishes unthrottle run, which no one looks for, from other programs.
func TestWrapper(t *testing.T) {
	own := &procs.Program{Path: "github.com/unthrottle/unthrottle/cmd/unthrottle"}
	for _, c := range []struct {
		program *procs.Program
		command []string
		want    bool
	}{
		{own, []string{"unthrottle", "run", "--cpus", "1", "./api"}, true},
		{own, []string{"unthrottle", "serve"}, false},
		{own, []string{"unthrottle"}, false},
		{&procs.Program{Path: "example.com/go"}, []string{"go", "run", "."}, false},
		{nil, []string{"bash", "run"}, false},
	} {
		if got := isWrapper(procs.Process{Program: c.program, Command: c.command}); got != c.want {
			t.Errorf("%q: %v, want %v", c.command, got, c.want)
		}
	}
}

// TestUncalled: a library that is linked and was not called has set nothing: the runtime knows of no call.
func TestUncalled(t *testing.T) {
	caddy := &procs.Program{GoVersion: "go1.26.8", Automaxprocs: procs.Linked}
	for _, c := range []struct {
		custom, known bool
		live          int
		want          choice.Source
	}{
		{false, true, 2, choice.FromCPUs},
		{true, true, 1, choice.FromAutomaxprocs},
		{true, true, 2, FromCall},
		{false, false, 1, choice.FromAutomaxprocs}, // before Go 1.25
	} {
		p := Process{Process: procs.Process{Program: caddy}, System: choice.Under(1, 2, unthrottle.Go), Live: c.live, Custom: c.custom, CustomKnown: c.known}
		p.Prediction = p.System.Predict(p.Process)
		if p.uncalled(); p.Source() != c.want {
			t.Errorf("%+v: %q, expected %+v", c, p.Source(), p.Prediction)
		}
	}
}
