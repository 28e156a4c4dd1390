package runner

import (
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

// To see a standstill, counters must be read every few milliseconds, and the wake-ups for that would cost more than one
// percent of a CPU. So they are read that often only while there is something to see: for two periods, when the group
// was throttled since the last look, and once a standstill was seen, once in thirty periods at most. Between these looks
// they are read once a period.
const (
	lookFor   = 2  // periods
	lookEvery = 30 // periods
	minStep   = 2 * time.Millisecond
	maxStep   = 5 * time.Millisecond
	minRest   = 100 * time.Millisecond
)

// watchStandstill reads a place's counters until it is stopped, and returns the longest standstill that it saw.
func watchStandstill(p place, period time.Duration, stop <-chan struct{}) time.Duration {
	step := min(max(period/20, minStep), maxStep)
	rest := max(period, minRest)
	var s Standstill
	var longest time.Duration
	var throttled int64
	looked := time.Time{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return longest
		case <-timer.C:
		}
		c := p.counters()
		now := time.Now()
		switch looking := now.Sub(looked) < lookFor*period; {
		case c.Known && looking:
			stood, _ := s.See(now, c)
			longest = max(longest, stood)
			timer.Reset(step)
		case c.Known && c.Throttled > throttled && (longest == 0 || now.Sub(looked) >= lookEvery*period):
			throttled, looked = c.Throttled, now
			s.Begin(now, c)
			timer.Reset(step)
		default:
			timer.Reset(rest)
		}
	}
}

// A Standstill finds when a group stood still because of its limit. The kernel does not count that: throttled time is summed over
// CPUs, and grows when the standstill is over.
type Standstill struct {
	moved time.Time       // when the CPU time was last seen to grow
	from  cgroup.Counters // as they were then
}

// Begin takes the first of a row of readings.
func (s *Standstill) Begin(now time.Time, c cgroup.Counters) { s.moved, s.from = now, c }

// See takes the next. moved says whether the group ran since the last one, and stood for how long it had stood still before.
//
// The time since it last ran holds the standstill and, at its ends, up to two steps of running. The throttled time bounds it too:
// the CPUs' sum is never less than one of them, and a group that had nothing to do was not throttled.
func (s *Standstill) See(now time.Time, c cgroup.Counters) (stood time.Duration, moved bool) {
	if c.CPU == s.from.CPU {
		return 0, false
	}
	stood = max(0, min(now.Sub(s.moved), c.ThrottledTime-s.from.ThrottledTime))
	s.moved, s.from = now, c
	return stood, true
}
