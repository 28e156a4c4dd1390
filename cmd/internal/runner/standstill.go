package runner

import "time"

// standstillStep is how often counters are read to see a standstill. Reading is 10 µs of work; the wake-up costs more.
const standstillStep = 10 * time.Millisecond

// watchStandstill reads a place's counters until it is stopped, and returns the longest standstill.
func watchStandstill(p place, period time.Duration, stop <-chan struct{}) time.Duration {
	var s standstill
	tick := time.NewTicker(max(standstillStep, period/10))
	defer tick.Stop()
	for {
		if c, ok := p.counters(); ok {
			s.see(time.Now(), c)
		}
		select {
		case <-stop:
			return s.longest
		case <-tick.C:
		}
	}
}

// standstill finds the longest time in which a group stood still because of its limit. That is not counted by the
// kernel: throttled time is summed over CPUs, and grows when the standstill is over.
type standstill struct {
	longest time.Duration

	seen  bool
	moved time.Time // when the CPU time was last seen to grow
	from  Counters  // as they were then
}

// see takes one reading.
func (s *standstill) see(now time.Time, c Counters) {
	if !s.seen {
		s.seen, s.moved, s.from = true, now, c
		return
	}
	if c.CPU == s.from.CPU {
		return
	}
	// The time since it last moved holds the standstill and, at its ends, up to two steps of movement. The throttled
	// time bounds it too: the CPUs' sum is never less than one of them.
	s.longest = max(s.longest, min(now.Sub(s.moved), c.ThrottledTime-s.from.ThrottledTime))
	s.moved, s.from = now, c
}
