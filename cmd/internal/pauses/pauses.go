// Package pauses answers: when did the machine itself stand still, whatever its programs did? A process of its own has a thread for
// each CPU, at a priority above all that is measured, that sleeps for a millisecond again and again. Neither the program under test nor
// a neighbour can make it late: if it is, the host, its hypervisor or an interrupt had the CPU. Stolen time shows next to nothing of that.
//
// Such pauses are nearly all of the noise of a p99. A request counts or not by the time at which it was due, and by nothing that came
// of it: to leave out those that were under way would leave out more of the slow ones, whatever made them slow.
//
// In goes a command that calls Watch; out comes, for a moment, whether the machine ran around it. Linux only, and it takes the right to a
// real-time priority: a thread without one waits behind the program too.
package pauses

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// interval is how long a thread sleeps, on a machine of few CPUs. On one of many all threads together wake as often as these few.
	interval = time.Millisecond
	few      = 4
	// late is how late a wake must be to count. Interrupts alone make a hundredth of them 0.1 ms late.
	late = 500 * time.Microsecond
	// around is how long before and after a pause requests are not counted: those that were under way, and those that met the queue.
	around = 10 * time.Millisecond
	// reportEvery is how often the threads are asked what they saw.
	reportEvery = 20 * time.Millisecond
)

var errNotSupported = errors.New("only Linux tells when the machine stood still")

// A span is a time in which a CPU of the machine stood still, by the machine's monotonic clock.
type span struct{ from, to time.Duration }

// A report is what all threads saw up to a time.
type report struct {
	until  time.Duration
	pauses []span // that ended since the report before, or later than until
}

// append writes a report as a line: when, and the beginnings and ends of pauses, in nanoseconds.
func (r report) append(line []byte) []byte {
	line = strconv.AppendInt(line, int64(r.until), 10)
	for _, p := range r.pauses {
		line = append(line, ' ')
		line = strconv.AppendInt(line, int64(p.from), 10)
		line = append(line, '-')
		line = strconv.AppendInt(line, int64(p.to), 10)
	}
	return append(line, '\n')
}

// parse reads a line written by append.
func parse(line string) (r report, err error) {
	number := func(text string) time.Duration {
		n, e := strconv.ParseInt(text, 10, 64)
		if e != nil || n < 0 {
			err = fmt.Errorf("bad number %.30q in a report of pauses", text)
		}
		return time.Duration(n)
	}
	words := strings.Fields(line)
	if len(words) == 0 {
		return r, errors.New("an empty report of pauses")
	}
	r.until = number(words[0])
	for _, w := range words[1:] {
		from, to, _ := strings.Cut(w, "-")
		p := span{number(from), number(to)}
		if err == nil && p.to <= p.from {
			err = fmt.Errorf("bad pause %.60q in a report of pauses", w)
		}
		r.pauses = append(r.pauses, p)
	}
	return r, err
}

// A record is what is known so far.
type record struct {
	mu      sync.Mutex
	until   time.Duration // everything is known up to here
	ended   bool          // nothing more will be
	pauses  []span        // in order of their beginnings, none within another
	changed chan struct{} // closed when until is next moved
}

func (r *record) add(got report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range got.pauses {
		r.insert(p)
	}
	r.until = max(r.until, got.until)
	r.tell()
}

// insert keeps pauses apart: those that overlap, of several CPUs, become one.
func (r *record) insert(p span) {
	i := r.endingFrom(p.from)
	j := i
	for ; j < len(r.pauses) && r.pauses[j].from <= p.to; j++ {
		p = span{min(p.from, r.pauses[j].from), max(p.to, r.pauses[j].to)}
	}
	r.pauses = slices.Replace(r.pauses, i, j, p)
}

// endingFrom is the first pause that ends at a time or later.
func (r *record) endingFrom(at time.Duration) int {
	return sort.Search(len(r.pauses), func(i int) bool { return r.pauses[i].to >= at })
}

// tell wakes who waits. r.mu is held.
func (r *record) tell() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

func (r *record) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.tell()
}

// ran reports whether the machine ran around a time. As long as that is not known, known is false.
func (r *record) ran(at time.Duration) (ran, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at+around > r.until {
		return false, false
	}
	i := r.endingFrom(at - around)
	return i == len(r.pauses) || r.pauses[i].from > at+around, true
}

// A Total sums up the pauses of a time.
type Total struct {
	Count   int
	Lasted  time.Duration // together
	Longest time.Duration
}

// between sums up pauses that lie within a time, at least in part.
func (r *record) between(from, to time.Duration) (t Total) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pauses {
		if lasted := min(p.to, to) - max(p.from, from); lasted > 0 {
			t.Count++
			t.Lasted += lasted
			t.Longest = max(t.Longest, lasted)
		}
	}
	return t
}
