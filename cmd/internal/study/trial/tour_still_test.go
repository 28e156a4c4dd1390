package trial

import (
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

// TestStill: a group under half a CPU that runs with two threads for 25 ms of each period, then idles for a period.
func TestStill(t *testing.T) {
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	var c cgroup.Counters
	s := newStill(begin, c)
	for period := range 5 {
		for ms := 5; ms <= 100; ms += 5 {
			switch {
			case ms <= 25:
				c.CPU += 10 * time.Millisecond
			case ms == 100: // the refill: the kernel counts the time of both CPUs
				c.ThrottledTime += 150 * time.Millisecond
				c.CPU += time.Millisecond
			}
			s.see(at(100*period+ms), c)
		}
	}
	if len(s.spans) != 5 || s.until != 0.5 {
		t.Fatalf("%v, until %v", s.spans, s.until)
	}
	for i, span := range s.spans {
		if from, to := 0.1*float64(i)+0.025, 0.1*float64(i+1); span.From < from-1e-9 || span.From > from+1e-9 || span.To < to-1e-9 || span.To > to+1e-9 {
			t.Errorf("%v, want %v to %v", span, from, to)
		}
	}

	// Idle is not still.
	c.CPU += time.Millisecond
	s.see(at(700), c)
	if len(s.spans) != 5 || s.until != 0.7 {
		t.Errorf("%v, until %v", s.spans, s.until)
	}
}
