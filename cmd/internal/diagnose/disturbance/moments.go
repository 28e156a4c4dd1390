// Package disturbance answers: when did something other than what is measured have the machine? Two witnesses look: one for pauses, in
// which the machine itself stood still, and one for neighbours, other programs that used its CPUs. Both keep a record: out comes, for a
// moment of a measurement, whether it is clear of them, and whether that is known yet. The caller may have to wait, since what was seen is
// reported later.
package disturbance

import (
	"slices"
	"sort"
	"sync"
	"time"
)

// around is how long before and after a span requests are not counted: those that were under way, and those that met the queue.
const around = 10 * time.Millisecond

// A Span is a part of the time of a record.
type Span struct{ From, To time.Duration }

// A Record is what a witness knows so far. Its times are since Zero, which is set before it is used.
type Record struct {
	Zero time.Time

	mu      sync.Mutex
	until   time.Duration // everything is known up to here
	ended   bool          // nothing more will be
	spans   []Span        // in order of their beginnings, none within another
	changed chan struct{} // closed when until is next moved
}

// Add notes that everything is known up to a time, and spans that were not known before, in any order.
func (r *Record) Add(until time.Duration, spans ...Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range spans {
		r.insert(s)
	}
	r.until = max(r.until, until)
	r.tell()
}

// insert keeps spans apart: those that overlap become one.
func (r *Record) insert(s Span) {
	i := r.endingFrom(s.From)
	j := i
	for ; j < len(r.spans) && r.spans[j].From <= s.To; j++ {
		s = Span{min(s.From, r.spans[j].From), max(s.To, r.spans[j].To)}
	}
	r.spans = slices.Replace(r.spans, i, j, s)
}

// endingFrom is the first span that ends at a time or later.
func (r *Record) endingFrom(at time.Duration) int {
	return sort.Search(len(r.spans), func(i int) bool { return r.spans[i].To >= at })
}

// tell wakes those who wait. r.mu is held.
func (r *Record) tell() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// End says that nothing more will be known.
func (r *Record) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.tell()
}

// Ended reports whether nothing more will be known.
func (r *Record) Ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// Ran reports whether what is measured had the machine around a time. As long as that is not known, known is false.
func (r *Record) Ran(at time.Time) (ran, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := at.Sub(r.Zero)
	if t+around > r.until {
		return false, false
	}
	i := r.endingFrom(t - around)
	return i == len(r.spans) || r.spans[i].From > t+around, true
}

// Await waits until everything is known up to a time, but for no longer than most.
func (r *Record) Await(at time.Time, most time.Duration) {
	for end := time.After(most); ; {
		r.mu.Lock()
		if r.ended || at.Sub(r.Zero)+around <= r.until {
			r.mu.Unlock()
			return
		}
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-end:
			return
		}
	}
}

// A Total sums up the spans of a time.
type Total struct {
	Count   int
	Lasted  time.Duration // together
	Longest time.Duration
}

// Between sums up the spans that are within a time, at least in part.
func (r *Record) Between(from, to time.Time) (t Total) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if lasted := min(s.To, to.Sub(r.Zero)) - max(s.From, from.Sub(r.Zero)); lasted > 0 {
			t.Count++
			t.Lasted += lasted
			t.Longest = max(t.Longest, lasted)
		}
	}
	return t
}
