package view

import (
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
)

func TestRun(t *testing.T) {
	for name, d := range runs() {
		s := Run(d)
		golden(t, name, s)
		shown(t, s)
		screen(t, name, s)
	}
}

func runs() map[string]*report.Run {
	return map[string]*report.Run{
		"run throttled": {
			Command: []string{"./server", "--name", "a b"}, WallSeconds: 2.004, CPUSeconds: 1.01,
			Held: report.Held{
				LimitKind: "cgroup-v1", LimitCPUs: ptr(0.5), QuotaSeconds: 0.05, PeriodSeconds: 0.1, BurstLimit: 0.05, MemoryLimit: 512 << 20, Cpuset: []int{0, 1},
				LimitShare: ptr(0.99), PeriodCount: report.PeriodCount{Periods: 20, ThrottledPeriods: 18, PeriodsShare: ptr(0.9), ThrottledSeconds: 1.8},
				Bursts: 3, BurstSeconds: 0.02, Frozen: &report.Frozen{Share: 0.45}, Standstill: ptr(0.075),
			},
			PeakMemory: 12 << 20, PeakMemoryOf: "group", Needed: 7 << 20, OOMKills: 1, Voluntary: 1234, Involuntary: 56, Left: 2,
			Notes: []string{"no cgroup can be made here"}, Warnings: []string{"a warning"},
		},
		"run without a limit": {
			Command: []string{"true"}, ExitCode: 130, Signal: "interrupt", WallSeconds: 0.0123, CPUSeconds: 0.002,
			Held: report.Held{LimitKind: "none"}, PeakMemory: 1 << 20, PeakMemoryOf: "at most",
		},
		"run for less than a period": {
			Command: []string{"evil\x1b[2J"}, WallSeconds: 0.01, Held: report.Held{LimitKind: "emulated", LimitCPUs: ptr(2.0), QuotaSeconds: 0.2, PeriodSeconds: 0.1},
			PeakMemory: 1 << 20, PeakMemoryOf: "process",
		},
	}
}

// TestRunTyped: a page shows the command as it was typed.
func TestRunTyped(t *testing.T) {
	page := forms(t, Run(&report.Run{Command: []string{"sleep", "1"}, WallSeconds: 1}))["page"]
	if !strings.Contains(page, `<p class="text">sleep 1: `) {
		t.Error("the command begins with a capital")
	}
}
