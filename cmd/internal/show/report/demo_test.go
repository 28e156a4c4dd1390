package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// TestDemo: three settings whose order is clear are reported, and what is not clear is not claimed.
func TestDemo(t *testing.T) {
	clear := []trial.Leg{{Procs: 16, P99: 1.2, CPU: 0.004}, {Procs: 2, P99: 0.05, CPU: 0.002}, {Procs: 1, P99: 0.004, CPU: 0.001}}
	d := &Demo{CPUs: 1, Rate: 400, Legs: clear}
	if text := d.Answer(); !d.Shown() || text != "With GOMAXPROCS=1 p99 was 4.00 ms; with 16 it was 1.20 s." {
		t.Errorf("%v, %s", d.Shown(), text)
	}
	if more := strings.Join(d.More(), " "); !strings.Contains(more, "1.00 ms with 1, 2.00 ms with 2, 4.00 ms with 16.") {
		t.Error(more)
	}
	for name, change := range map[string]func([]trial.Leg){
		"the tail of two is the other way round": func(l []trial.Leg) { l[0].P99, l[1].P99 = 0.007, 0.003 },
		"they cost as little":                    func(l []trial.Leg) { l[0].CPU, l[1].CPU = 0.00105, 0.00105 },
	} {
		legs := slices.Clone(clear)
		change(legs)
		d := &Demo{CPUs: 1, Rate: 400, Legs: legs}
		if d.Shown() || d.Answer() != "This machine did not show it: their order is not clear." {
			t.Errorf("%s: %v, %s", name, d.Shown(), d.Answer())
		}
		legs[0].Doubts, legs[2].Doubts = []string{"others used 0.5 CPUs"}, []string{"others used 0.5 CPUs"}
		d = &Demo{CPUs: 1, Rate: 400, Legs: legs}
		if more := d.More(); d.Answer() != "This machine was too busy to show it." || more[0] != "While it ran, others used 0.5 CPUs." || len(more) != 2 {
			t.Errorf("%s: %s %q", name, d.Answer(), more)
		}
	}
}

// TestDemoPartly: where only the first setting is beyond doubt, that is reported, and no order of the others.
func TestDemoPartly(t *testing.T) {
	d := &Demo{CPUs: 1, Rate: 400, Legs: []trial.Leg{
		{Procs: 16, P99: 0.938, CPU: 144e-6, Doubts: []string{"others used 0.5 CPUs"}},
		{Procs: 2, P99: 0.0301, CPU: 130e-6},
		{Procs: 1, P99: 0.0735, CPU: 108e-6},
	}}
	if text := d.Answer(); d.Shown() || text != "With GOMAXPROCS=16 p99 was 938 ms; with 2 or 1 at most 73.5 ms." {
		t.Errorf("%v, %s", d.Shown(), text)
	}
	want := []string{
		"Which of the others is better is not clear.", "While it ran, others used 0.5 CPUs.",
		"unthrottle demo --for 10s looks at each for longer.",
	}
	if more := d.More(); !slices.Equal(more, want) {
		t.Errorf("%q", more)
	}
	d.Legs[2].P99 = 0.5 // the neighbour hit the last one
	if text := d.Answer(); text != "This machine was too busy to show it." {
		t.Error(text)
	}
}

// TestDemoLeg: where nothing was measured there is no figure, and how long failed requests were waited for does not count as latency.
func TestDemoLeg(t *testing.T) {
	for want, leg := range map[string]trial.Leg{
		"p99 5.00 ms, CPU per request 200 µs, throttled in 40 % of the periods":               {P99: 0.005, CPU: 0.0002, Throttled: 0.4},
		"p99 5.00 ms, CPU per request 200 µs, throttled in 40 % of the periods, 0.2 % failed": {P99: 0.005, CPU: 0.0002, Throttled: 0.4, Failed: 0.002},
		"20.1 % failed, CPU per request 200 µs, throttled in 40 % of the periods":             {P99: 20, CPU: 0.0002, Throttled: 0.4, Failed: 0.201},
		"nothing was measured": {P99: 20, Failed: 1},
	} {
		if got := DemoLeg(leg); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestDemoFails: the sentence at the end says what the lines say.
func TestDemoFails(t *testing.T) {
	d := &Demo{CPUs: 1, Legs: []trial.Leg{{Procs: 16, P99: 20, CPU: 0.003, Failed: 0.201}, {Procs: 2, P99: 0.03, CPU: 0.0025}, {Procs: 1, P99: 0.005, CPU: 0.002}}}
	if got, want := d.Answer(), "With GOMAXPROCS=1: p99 5.00 ms; with 16: 20.1 % failed."; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
