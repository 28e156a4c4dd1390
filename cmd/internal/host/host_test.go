package host

import (
	"math"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/choice"
)

func TestParsePressure(t *testing.T) {
	for _, c := range []struct {
		text string
		want pressure
	}{
		{
			"some avg10=0.00 avg60=0.00 avg300=0.00 total=157656722\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=12\n",
			pressure{157656722 * time.Microsecond, 12 * time.Microsecond, true},
		},
		{"some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n", pressure{some: 5 * time.Microsecond}}, // before Linux 5.13
		{"full avg10=0.00 total=x\nsome total=-1", pressure{}},
		{"some total=9223372036854775807\nfull total=1", pressure{full: time.Microsecond}},
		{"", pressure{}},
	} {
		if got := parsePressure(c.text); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.text, got, c.want)
		}
	}
}

func TestStatTime(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"42 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14", 3 * time.Second, true},
		{"42 (name) Z 1 2 3 4 5 6 7 8 9 10 250 50 13 14", 0, false},
		{"42 (name) S 1 2 3", 0, false},
		{"42 (name) S 1 2 3 4 5 6 7 8 9 10 9223372036854775807 50", 0, false},
		{"", 0, false},
	} {
		if got, ok := statTime(c.text); got != c.want || ok != c.ok {
			t.Errorf("%q: %v, %v", c.text, got, ok)
		}
	}
}

func TestParseSystem(t *testing.T) {
	text := "cpu  100 10 50 1000 7 3 2 40 0 0\ncpu0 50 5 25 500 3 1 1 20 0 0\ncpu1 50 5 25 500 4 2 1 20 0 0\nintr 1 2\n"
	got := parseSystem(text)
	if !got.Known || got.CPUs != 2 || math.Abs(got.Busy-1.65) > 1e-9 || math.Abs(got.Steal-0.4) > 1e-9 {
		t.Errorf("%+v", got)
	}
	if got := parseSystem("cpu 1 2\n"); got.Known {
		t.Errorf("a short line: %+v", got)
	}
}

func FuzzParsers(f *testing.F) {
	f.Add("some avg10=0.00 total=1\nfull total=2\n")
	f.Add("42 (a) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14")
	f.Add("cpu  100 10 50 1000 7 3 2 40 0 0\ncpu0 1\n")
	f.Add("123 456 7\n")
	f.Fuzz(func(t *testing.T, text string) {
		if p := parsePressure(text); p.some < 0 || p.full < 0 {
			t.Errorf("pressure %+v", p)
		}
		if d, ok := statTime(text); d < 0 || !ok && d != 0 {
			t.Errorf("CPU time %v, %v", d, ok)
		}
		if s := parseSystem(text); s.Busy < 0 || s.Steal < 0 || math.IsNaN(s.Busy) {
			t.Errorf("system %+v", s)
		}
		if d, ok := parseSchedstat(text); ok && d < 0 {
			t.Errorf("delay %v", d)
		}
	})
}

// A freeze is told from samples: slots in which Ps ran and no CPU time passed, and half a slot on either side.
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
	for _, c := range []struct {
		name  string
		u     Usage
		share float64
		exact bool
	}{
		{"never throttled", Usage{Wall: s, StallKnown: true, StallFull: s, FrozenKnown: true, Frozen: 1}, 0, true},
		{"by pressure", Usage{Wall: 4 * s, Throttled: 1, StallKnown: true, StallFull: s, FrozenKnown: true, Frozen: 0.5}, 0.25, true},
		{"by samples", Usage{Wall: 4 * s, Throttled: 1, FrozenKnown: true, Frozen: 0.5, ThrottledTime: 3 * s}, 0.5, true},
		{"by samples, of a busy system", Usage{Wall: 4 * s, Throttled: 1, FrozenKnown: true, Frozen: 0.5, ThrottledTime: s}, 0.25, true},
		{"by the counters", Usage{Wall: 2 * s, Throttled: 1, ThrottledTime: 3 * s}, 0.75, false},
	} {
		if share, exact := c.u.FrozenShare(2); share != c.share || exact != c.exact {
			t.Errorf("%s: %g, %v", c.name, share, exact)
		}
	}
}
