package maxprocs

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
)

// recorder is a printf that keeps its lines.
type recorder struct{ lines []string }

func (r *recorder) printf(format string, args ...interface{}) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func TestLeave(t *testing.T) {
	leaving := fmt.Sprintf("maxprocs: Leaving GOMAXPROCS=%d: CPU quota undefined", CurrentProcs())
	bad := errors.New("bad file")
	for _, tt := range []struct {
		name   string
		limits cgroup.Limits
		line   string
		err    error
	}{
		{"none", cgroup.Limits{State: cgroup.None}, leaving, nil},
		{"not supported", cgroup.Limits{Reason: cgroup.ErrNotSupported}, leaving, nil},
		{"hidden", cgroup.Limits{State: cgroup.Hidden, Reason: errors.New("throttled from above")}, leaving + ": throttled from above", nil},
		{
			"not visible",
			cgroup.Limits{Reason: fmt.Errorf("no mount: %w", cgroup.ErrNotVisible)},
			leaving + ": no mount: " + cgroup.ErrNotVisible.Error(), nil,
		},
		{"unknown", cgroup.Limits{Reason: bad}, "", bad},
		{"unknown, at most", cgroup.Limits{Reason: bad, AtMost: 2}, "", bad},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log recorder
			c := config{printf: log.printf}
			if err := c.leave(tt.limits); err != tt.err {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			var want []string
			if tt.line != "" {
				want = []string{tt.line}
			}
			if !reflect.DeepEqual(log.lines, want) {
				t.Errorf("logged %q, want %q", log.lines, want)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	three := func(float64) int { return 3 }
	for _, tt := range []struct {
		name    string
		options []Option
		min     int
		round   func(float64) int
	}{
		{"none", nil, 1, nil},
		{"minimum", []Option{Min(4)}, 4, nil},
		{"minimum below 1", []Option{Min(4), Min(0), Min(-1)}, 4, nil},
		{"rounding", []Option{RoundQuotaFunc(three)}, 1, three},
		{"rounding taken back", []Option{RoundQuotaFunc(three), RoundQuotaFunc(nil)}, 1, nil},
		{"no logger", []Option{Logger(nil)}, 1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newConfig(tt.options)
			c.log("goes nowhere")
			got := c.policy
			if got.Min != tt.min || (got.RoundFunc == nil) != (tt.round == nil) || !got.LimitOnly || got.Rounding != unthrottle.RoundDown {
				t.Errorf("got %+v", got)
			}
			if tt.round != nil && got.RoundFunc(1) != 3 {
				t.Error("another rounding function")
			}
		})
	}
}
