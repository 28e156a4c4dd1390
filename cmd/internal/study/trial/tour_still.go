package trial

import (
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
)

// A Span is a piece of time, in seconds.
type Span struct{ From, To float64 }

// still keeps when a group stood still because of its limit, by its counters alone: nothing has to run inside it. The kernel
// counts throttled time when a standstill is over, so what goes on is known a moment later.
type still struct {
	began time.Time
	last  runner.Standstill
	spans []Span
	until float64 // so far it is known
}

func newStill(now time.Time, c cgroup.Counters) *still {
	s := &still{began: now}
	s.last.Begin(now, c)
	return s
}

// see takes a reading. A standstill is the end of the time in which nothing ran, for a quota is used up first and refilled later.
func (s *still) see(now time.Time, c cgroup.Counters) {
	stood, moved := s.last.See(now, c)
	if !moved {
		return
	}
	s.until = now.Sub(s.began).Seconds()
	if stood > look {
		s.spans = append(s.spans, Span{From: s.until - stood.Seconds(), To: s.until})
	}
}
