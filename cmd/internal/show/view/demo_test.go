package view

import (
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

func TestDemo(t *testing.T) {
	legs := func(doubts ...string) []trial.Leg {
		return []trial.Leg{{Procs: 16, P99: 1.2, CPU: 0.004}, {Procs: 2, P99: 0.05, CPU: 0.002}, {Procs: 1, P99: 0.004, CPU: 0.001, Doubts: doubts}}
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
