package demo

import (
	"fmt"
	"math"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// cellSpan is what a cell of the strip stands for: the kernel's usual period, in which a quota is counted.
const cellSpan = 100 * time.Millisecond

// stripCells is how far back the strip goes: a minute.
const stripCells = 600

// A reading is all that is known at one moment, counted since some moment before.
type reading struct {
	at       time.Duration
	cpu      time.Duration // of this process
	cpuKnown bool
	procs    int // GOMAXPROCS

	counts  cgroup.Counters
	limited bool // there is a limit, and its counts are known
}

// counted takes from t what is about the limit in l.
func (r *reading) counted(l cgroup.Limits, t cgroup.Throttling) {
	r.counts = t.Owner
	r.limited = t.Owner.Known && l.State == cgroup.Limited
}

// A cell is what happened in a piece of time.
type cell struct {
	Span      float64 `json:"span"`      // seconds
	CPU       float64 `json:"cpu"`       // seconds; −1: not known
	Still     float64 `json:"still"`     // seconds on the clock in which the limit made the process stand still
	Periods   int64   `json:"periods"`   // that the kernel counted
	Throttled int64   `json:"throttled"` // of these
	Procs     int     `json:"procs"`     // GOMAXPROCS at its end
}

// due reports whether it is time for a reading after one at before. The times are a grid's, not cells' ends: the beats are a
// little late each time, and cells would grow longer than the periods.
func due(before, now time.Duration) bool { return now/cellSpan > before/cellSpan }

// early reports whether it is too early to make cells: the kernel's period did not end yet, though it is as long as a
// cell. That is so when the two ends fall together, and it would make a throttled cell look like two halves.
func early(before, after reading) bool {
	return after.limited && after.counts.Periods == before.counts.Periods && after.at-before.at < cellSpan*3/2
}

// cells says what happened between two readings, cut into pieces of about a cell each: a process that stands still, or has much to do,
// reads late. The counters are the truth about whether it was throttled; gaps, and procs CPUs, show how long it stood still.
func cells(before, after reading, gaps time.Duration, procs int) []cell {
	span := after.at - before.at
	if span <= 0 {
		return nil
	}
	n := min(max(int64(math.Round(float64(span)/float64(cellSpan))), 1), stripCells)
	cpu, counted := after.cpu-before.cpu, after.counts.Since(before.counts)
	still := standstill(span, cpu, counted.ThrottledTime, gaps, procs)
	made := make([]cell, n)
	var hit int64 // cells that were throttled
	for i := range made {
		c := &made[i]
		c.Span, c.CPU, c.Procs = span.Seconds()/float64(n), -1, after.procs
		if after.cpuKnown {
			c.CPU = cpu.Seconds() / float64(n)
		}
		c.Periods, c.Throttled = share(counted.Periods, int64(i), n), share(counted.Throttled, int64(i), n)
		if c.Throttled > 0 {
			hit++
		}
	}
	for i := range made {
		if made[i].Throttled > 0 {
			made[i].Still = min(still.Seconds()/float64(hit), made[i].Span)
		}
	}
	return made
}

// share is the i-th of n parts of a whole number, so that the parts add up to it.
func share(whole, i, n int64) int64 { return whole*(i+1)/n - whole*i/n }

// standstill is how long the process stood still in a span in which it was throttled. Three things bound it from above,
// and the least of them is close:
//
//   - the gaps in which the heartbeat was silent; but in a busy program it also waits for its turn
//   - the throttled time; but that is summed over CPUs
//   - what the CPU time leaves: procs CPUs were needed for a procs-th of it at least
func standstill(span, cpu, throttled, gaps time.Duration, procs int) time.Duration {
	return max(0, min(gaps, throttled, span-cpu/time.Duration(max(procs, 1))))
}

// beatEvery is how often the heartbeat beats.
const beatEvery = 5 * time.Millisecond

// A pulse keeps when a heartbeat was silent for clearly longer than it should be.
type pulse struct {
	last time.Duration
	gaps []gap
}

type gap struct{ from, to time.Duration }

func (p *pulse) beat(now time.Duration) {
	if now-p.last > 2*beatEvery {
		p.gaps = append(p.gaps, gap{p.last, now})
	}
	p.last = now
}

// silent sums the gaps within a span that ends now, and forgets them.
func (p *pulse) silent(from, to time.Duration) (sum time.Duration) {
	for _, g := range p.gaps {
		sum += max(0, min(g.to, to)-max(g.from, from))
	}
	p.gaps = p.gaps[:0]
	return sum
}

// A strip is the newest cells. They are numbered from the start of the program on.
type strip struct {
	cells []cell
	next  int64 // number of the cell that comes next
}

func (s *strip) add(more ...cell) {
	s.cells = append(s.cells, more...)
	s.next += int64(len(more))
	if len(s.cells) > 2*stripCells { // twice: it is copied once a minute only
		s.cells = append([]cell(nil), s.cells[len(s.cells)-stripCells:]...)
	}
}

// since copies the cells from a number on, those that are still kept.
func (s *strip) since(number int64) (first int64, cells []cell) {
	n := min(max(s.next-number, 0), int64(len(s.cells)), stripCells)
	return s.next - n, append([]cell{}, s.cells[int64(len(s.cells))-n:]...)
}

// A summary says in words and numbers what the newest cells show.
type summary struct {
	Seconds   float64 `json:"seconds"`   // that it is about
	Periods   int64   `json:"periods"`   // that the kernel counted
	Throttled int64   `json:"throttled"` // of these
	CPUs      float64 `json:"cpus"`      // in use on average; −1: not known
	Still     float64 `json:"still"`     // of a throttled cell, the part of the time in which it stood still
	Text      string  `json:"text"`
}

// summarise looks at cells under a limit in CPUs, 0 being none.
func summarise(cells []cell, limit float64) summary {
	var s summary
	var cpu, span, still float64
	known := true
	for _, c := range cells {
		s.Seconds += c.Span
		s.Periods += c.Periods
		s.Throttled += c.Throttled
		cpu += c.CPU
		known = known && c.CPU >= 0
		if c.Throttled > 0 {
			span += c.Span
			still += c.Still
		}
	}
	s.CPUs = -1
	if known && s.Seconds > 0 {
		s.CPUs = cpu / s.Seconds
	}
	if span > 0 {
		s.Still = still / span
	}
	s.Text = s.words(limit)
	return s
}

func (s *summary) words(limit float64) string {
	used := "."
	if s.CPUs >= 0 {
		used = fmt.Sprintf(": %.2f CPUs were in use.", s.CPUs)
	}
	switch {
	case s.Seconds == 0:
		return "Nothing is measured yet."
	case limit == 0 && s.Throttled == 0:
		return "No limit is known, and nothing was throttled" + used
	case s.Throttled == 0 && s.CPUs >= 0:
		return fmt.Sprintf("Not throttled: %.2f of %s were in use.", s.CPUs, quantity.CPUs(limit))
	case s.Throttled == 0:
		return "Not throttled."
	}
	still := int(math.Round(s.Still * 100))
	return fmt.Sprintf("Throttled in %d of the last %d periods. When throttled it ran for %d ms and stood still for %d ms of each 100 ms.",
		s.Throttled, s.Periods, 100-still, still)
}
