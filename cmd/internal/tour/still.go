package tour

import (
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

// A Span is a piece of time, in seconds.
type Span struct{ From, To float64 }

// still finds when a group stood still because of its limit, by its counters alone: nothing has to run inside it. The kernel
// counts throttled time when a standstill is over, so what goes on is known a moment later.
type still struct {
	began time.Time
	moved time.Time       // when the CPU time was last seen to grow
	from  cgroup.Counters // as they were then

	spans []Span
	until float64 // so far it is known
}

func newStill(now time.Time, c cgroup.Counters) *still {
	return &still{began: now, moved: now, from: c}
}

// see takes a reading. A group that used no CPU time for a while had nothing to do, or was not allowed to: of that time no more
// was a standstill than was throttled. It is the end of it, for a quota is used up first and refilled later.
func (s *still) see(now time.Time, c cgroup.Counters) {
	if c.CPU == s.from.CPU {
		return
	}
	s.until = now.Sub(s.began).Seconds()
	if throttled := min(c.ThrottledTime-s.from.ThrottledTime, now.Sub(s.moved)); throttled > look {
		s.spans = append(s.spans, Span{From: s.until - throttled.Seconds(), To: s.until})
	}
	s.moved, s.from = now, c
}

// share is how much of the time it stood still.
func (s *still) share(until float64) float64 {
	sum := 0.0
	for _, span := range s.spans {
		sum += max(0, min(span.To, until)-min(span.From, until))
	}
	if until <= 0 {
		return 0
	}
	return sum / until
}
