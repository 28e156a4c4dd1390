package report

import (
	"fmt"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// TestActivity looks at the middle of runs: of one that is longer than a window, and of a short one.
func TestActivity(t *testing.T) {
	b := &Bench{Runs: []lab.Run{
		{Block: 1, Setting: 0, Activity: [][2]float64{{0, 0.000005}}},
		{Block: 2, Setting: 0, Activity: [][2]float64{{0, 0.025}, {0.99, 1.125}, {1.5, 1.6}, {2.9, 3}}},
		{Block: 2, Setting: 1, Activity: [][2]float64{{0, 0.025}, {0.1, 0.125}}},
		{Block: 2, Setting: 2},
	}}
	g := &BenchGroup{Settings: []BenchRow{{}, {Row: lab.Row{Setting: 1}}, {Row: lab.Row{Setting: 2}}}}
	all, window := b.Activity(g)
	if window != 1 || len(all) != 2 {
		t.Fatalf("a window of %v s, %d rows", window, len(all))
	}
	if got, want := fmt.Sprint(all), "[{0 2 1 [{0 0.125} {0.5 0.6}]} {1 2 0 [{0 0.025} {0.1 0.125}]}]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestPoints: a run is identified by its block and by whether it is far from the others of its setting.
func TestPoints(t *testing.T) {
	run := func(block, setting int, v float64) lab.Run {
		return lab.Run{Block: block, Setting: setting, Metrics: map[string]float64{"x": v}}
	}
	failed := run(2, 0, 0)
	failed.Error = "it failed"
	b := &Bench{Runs: []lab.Run{run(1, 0, 1), run(1, 1, 2), failed, run(3, 0, 9), run(7, 1, 2)}}
	g := &BenchGroup{Figure: lab.Metric{Unit: "x"}, Settings: []BenchRow{
		{Row: lab.Row{Metrics: map[string]BenchSummary{"x": {Outliers: []int{1}}}}}, {Row: lab.Row{Setting: 1}},
	}}
	points, blocks := b.Points(g)
	if blocks != 3 {
		t.Errorf("%d blocks, want 3", blocks)
	}
	if got, want := fmt.Sprint(points), "[{0 1 0 1 false []} {0 3 1 9 true []} {1 1 0 2 false []} {1 7 2 2 false []}]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
