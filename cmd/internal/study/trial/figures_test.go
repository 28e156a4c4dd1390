package trial

import (
	"maps"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
)

// limited are the counters of a group that was throttled in 3 of 12 periods.
var limited = cgroup.Counters{Periods: 12, Throttled: 3, ThrottledTime: 2 * time.Second, CPU: time.Second}

func TestFigures(t *testing.T) {
	result := runner.Result{
		Wall: 4 * time.Second, Counters: limited, Standstill: 500 * time.Millisecond, PeakMemory: 1 << 20, PeakOf: runner.OfProcess,
	}
	bound := result
	bound.PeakOf = runner.AtMost
	for _, c := range []struct {
		name string
		got  map[string]float64
		want map[string]float64
	}{
		{"nothing is known", ofRun(runner.Result{}), map[string]float64{"wall-sec": 0, "cpu-sec": 0}},
		{"a run", ofRun(result), map[string]float64{"wall-sec": 4, "cpu-sec": 1, "throttled-%": 25, "standstill-sec": 0.5, "peak-RSS-bytes": 1 << 20}},
		{"a server's process", ofProcess(result), map[string]float64{"peak-RSS-bytes": 1 << 20}},
		{"a bound on its memory is no figure", ofProcess(bound), map[string]float64{}},
		{"a window", ofWindow(limited, 100, 20), map[string]float64{"errors-%": 20, "cpu-ns/req": 12.5e6, "throttled-%": 25, "throttled-sec": 2}},
		{"all requests failed", ofWindow(limited, 5, 5), map[string]float64{"errors-%": 100, "throttled-%": 25, "throttled-sec": 2}},
		{"no limit", ofWindow(cgroup.Counters{CPU: time.Second}, 10, 0), map[string]float64{"errors-%": 0, "cpu-ns/req": 1e8}},
		{"no request", ofWindow(cgroup.Counters{CPU: time.Second}, 0, 0), map[string]float64{}},
	} {
		if !maps.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}
