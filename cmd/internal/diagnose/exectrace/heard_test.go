package exectrace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
)

// logged is a program of two busy loops that a quota stops for 80 of each 100 ms, in 20 periods, and what it logs of them: the
// counts before and after, where that is before's period.
func logged(messages ...string) *Trace {
	s := newScript(2)
	say := func(text string) {
		s.add(event{kind: heard, name: s.p.names.number(frame{function: text})})
	}
	for i := range int64(2) {
		s.proc(int(i), running)
		s.goroutine(i+1, running)
	}
	say(messages[0])
	for range 20 {
		s.wait(10)
		s.goroutine(1, runnable) // the runtime takes turns
		s.goroutine(1, running)
		s.wait(10)
		s.goroutine(2, runnable)
		s.goroutine(2, running)
		s.wait(80)
		s.goroutine(1, runnable)
		s.goroutine(1, running)
	}
	for _, m := range messages[1:] {
		say(m)
	}
	return s.trace(Options{})
}

func TestHeard(t *testing.T) {
	stat := func(periods, throttled int, rest string) string {
		return fmt.Sprintf("nr_periods %d\nnr_throttled %d\nthrottled_usec %d\n%s", periods, throttled, throttled*160_000, rest)
	}
	for _, tt := range []struct {
		name     string
		messages []string
		sure     bool
		period   time.Duration
	}{
		{"as many as there are freezes", []string{stat(100, 50, "period_usec 100000\n"), stat(120, 70, "period_usec 100000\n")}, true, 100 * time.Millisecond},
		{"one more, at an edge", []string{stat(100, 50, ""), stat(121, 71, "")}, true, 0},
		{"fewer: others had the CPUs", []string{stat(100, 50, ""), stat(120, 60, "")}, false, 0},
		{"more: not all are seen", []string{stat(100, 50, ""), stat(200, 150, "")}, false, 0},
		{"nothing to compare with", []string{stat(100, 50, "")}, false, 0},
		{"counts of another group from then on", []string{stat(100, 50, ""), stat(20, 20, "")}, false, 0},
		{"another period from then on", []string{stat(100, 50, "period_usec 100000\n"), stat(120, 70, "period_usec 50000\n")}, true, 0},
		{"no period that the kernel takes", []string{stat(100, 50, "period_usec 1\n"), stat(120, 70, "period_usec -1\n")}, true, 0},
		{"something else", []string{"hello", "nr_periods -1\n"}, false, 0},
	} {
		got := logged(tt.messages...)
		if got.Sure != tt.sure || tt.sure && got.Cause != freeze.Throttled || got.Cause == freeze.Contended {
			t.Errorf("%s: %s, sure %v: %s; %s", tt.name, got.Cause, got.Sure, got.Why, got.Doubt)
		}
		if tt.sure != strings.Contains(got.Why, "the kernel counted") {
			t.Errorf("%s: %s", tt.name, got.Why)
		}
		if got.Heard == nil && tt.period != 0 || got.Heard != nil && got.Heard.Period != tt.period {
			t.Errorf("%s: %+v", tt.name, got.Heard)
		}
	}
	if got := logged("hello", "nr_periods 1\n"); got.Heard != nil {
		t.Errorf("heard %+v", got.Heard)
	}
	never := logged(stat(100, 50, ""), stat(120, 50, ""))
	if never.Sure || strings.Contains(never.Why, "the kernel counted") {
		t.Errorf("throttled in no period: %s, %s", never.Cause, never.Why)
	}
}
