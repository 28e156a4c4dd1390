package view

import (
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/tour"
)

func TestDemo(t *testing.T) {
	legs := func(doubts ...string) []tour.Leg {
		return []tour.Leg{{Procs: 16, P99: 1.2, CPU: 0.004}, {Procs: 2, P99: 0.05, CPU: 0.002}, {Procs: 1, P99: 0.004, CPU: 0.001, Doubts: doubts}}
	}
	unclear := legs("other programs used 1.2 of 2 CPUs")
	unclear[1].P99, unclear[2].P99 = 0.6, 0.7
	for name, d := range map[string]*report.Demo{"demo": {CPUs: 1, Rate: 400, Legs: legs()}, "demo too busy": {CPUs: 1, Rate: 400, Legs: unclear}} {
		s := Demo(d)
		golden(t, name, s)
		shown(t, s)
		screen(t, name, s)
	}
}

// TestDemoLeg: where nothing was measured there is no figure, and how long failed requests were waited for is no latency.
func TestDemoLeg(t *testing.T) {
	for want, leg := range map[string]tour.Leg{
		"p99 5.00 ms, CPU per request 200 µs, throttled in 40 % of the periods":                   {P99: 0.005, CPU: 0.0002, Throttled: 0.4},
		"p99 5.00 ms, CPU per request 200 µs, throttled in 40 % of the periods, 0.2 % failed":     {P99: 0.005, CPU: 0.0002, Throttled: 0.4, Failed: 0.002},
		"20.1 % of the requests failed, CPU per request 200 µs, throttled in 40 % of the periods": {P99: 20, CPU: 0.0002, Throttled: 0.4, Failed: 0.201},
		"nothing was measured": {P99: 20, Failed: 1},
	} {
		if got := DemoLeg(leg); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
