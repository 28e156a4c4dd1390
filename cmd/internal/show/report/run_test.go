package report

import (
	"slices"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
)

// TestRun checks what a limit is said to have done where it had little to do.
func TestRun(t *testing.T) {
	const mem = 100 << 20
	for _, test := range []struct {
		name     string
		limit    runner.Limit
		kind     runner.Kind
		wall     time.Duration
		counted  cgroup.Counters
		share    float64 // 0: none
		frozen   float64 // 0: not known
		memory   int64
		warnings []string
	}{
		{"over before the first period", runner.Limit{CPUs: 0.5}, runner.V1, 3 * time.Millisecond, cgroup.Counters{Known: true, CPU: 2 * time.Millisecond}, 0, 0, 0, nil},
		{
			"two of the CPUs' periods",
			runner.Limit{CPUs: 0.5},
			runner.V1, time.Second,
			cgroup.Counters{Known: true, CPU: 500 * time.Millisecond, Periods: 10, Throttled: 10, ThrottledTime: 1500 * time.Millisecond},
			1, 0.75, 0, nil,
		},
		{
			"more than there is",
			runner.Limit{CPUs: 100},
			runner.V2, time.Second,
			cgroup.Counters{CPU: time.Second},
			0.01, 0, 0,
			[]string{"a limit of 100 CPUs limits nothing here: there are 2 CPUs"},
		},
		{"all that there is", runner.Limit{CPUs: 2, Memory: mem}, runner.V2, time.Second, cgroup.Counters{CPU: time.Second}, 0.5, 0, mem, nil},
		{"by signals", runner.Limit{CPUs: 1, Memory: mem}, runner.Emulated, time.Second, cgroup.Counters{CPU: time.Second}, 1, 0, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := NewRun([]string{"true"}, nil, test.limit, 2, test.kind, nil, runner.Result{Wall: test.wall, Counters: test.counted})
			share, frozen := 0.0, 0.0
			if d.LimitShare != nil {
				share = *d.LimitShare
			}
			if d.Frozen != nil {
				frozen = d.Frozen.Share
			}
			if share != test.share || frozen != test.frozen || d.MemoryLimit != test.memory || !slices.Equal(d.Warnings, test.warnings) {
				t.Errorf("%v of the limit, frozen for %v, %d bytes, %q\nwant %v, %v, %d, %q",
					share, frozen, d.MemoryLimit, d.Warnings, test.share, test.frozen, test.memory, test.warnings)
			}
		})
	}
}
