package runner

import (
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

// TestStandstill reads the counters of a group every 10 ms: 25 ms of work by two CPUs, then 75 ms of standstill.
func TestStandstill(t *testing.T) {
	var s Standstill
	var longest time.Duration
	now := time.Unix(0, 0)
	var c cgroup.Counters
	read := func(cpu, throttled time.Duration) {
		c.CPU += cpu
		c.ThrottledTime += throttled
		if c.CPU == 0 {
			s.Begin(now, c)
		}
		stood, _ := s.See(now, c)
		longest = max(longest, stood)
		now = now.Add(10 * time.Millisecond)
	}
	const ms = time.Millisecond
	read(0, 0)
	read(20*ms, 0) // at 10 ms
	read(20*ms, 0)
	read(10*ms, 0) // the quota is used up at 25 ms; this reading is at 30
	for range 7 {
		read(0, 0)
	}
	read(5*ms, 150*ms) // at 110 ms: both CPUs went on at 100 ms
	if longest != 80*ms {
		t.Errorf("got %v, want 80ms: from the last reading that moved to the next", longest)
	}
	for range 20 {
		read(0, 0) // it sleeps, and no throttled time grows
	}
	read(5*ms, 0)
	if longest != 80*ms {
		t.Errorf("got %v: sleeping is not a standstill", longest)
	}
	for range 3 {
		read(0, 0)
	}
	read(5*ms, 30*ms)
	if longest != 80*ms {
		t.Errorf("got %v", longest)
	}
	for range 11 {
		read(0, 0)
	}
	read(5*ms, 90*ms)
	if longest != 90*ms {
		t.Errorf("got %v, want the throttled 90ms: the rest it slept", longest)
	}
}

// TestCheck holds limits against the kernel's rules.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		l  Limit
		ok bool
	}{
		{Limit{}, true},
		{Limit{CPUs: 0.5}, true},
		{Limit{CPUs: 0.01}, true},
		{Limit{CPUs: 0.009}, false},
		{Limit{CPUs: 0.009, Period: time.Second}, true},
		{Limit{CPUs: 1, Period: 2 * time.Second}, false},
		{Limit{CPUs: 1, Period: time.Microsecond}, false},
		{Limit{CPUs: 1, Burst: 100 * time.Millisecond}, true},
		{Limit{CPUs: 1, Burst: 101 * time.Millisecond}, false},
		{Limit{Burst: time.Millisecond}, false},
		{Limit{Period: time.Millisecond}, false},
		{Limit{Memory: -1}, false},
		{Limit{CPUs: -1}, false},
	} {
		if err := c.l.Check(); (err == nil) != c.ok {
			t.Errorf("%+v: got %v", c.l, err)
		}
	}
}
