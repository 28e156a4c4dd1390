package hey

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// maxKept is how many results are kept one by one, as hey does.
const maxKept = 1_000_000

// lateAtLeast is what counts as sent late, where the interval of -q is shorter. Below that it may be our own timer.
const lateAtLeast = 2 * time.Millisecond

// A Collector takes the samples of a run. What it keeps is bounded; sums and extremes are of all.
type Collector struct {
	plan   load.Plan
	detail bool // keep all that -o could ask for, not just how long each took

	n, late  int64
	bytes    int64
	statuses map[int]int
	good     bool // there was a success

	took, connect, lookup, write, wait, read stat
	kept                                     rows
	spread                                   *spread // nil: all are kept
}

// rows are results one by one, in the order in which they ended, as hey's templates want them: in seconds.
type rows struct {
	took, connect, lookup, write, wait, read, offset []float64
	status                                           []int
}

// NewCollector makes a collector for a run. Its Add goes into the plan's Each.
func NewCollector(o Options) *Collector {
	none := []float64{} // a list in JSON, not null
	return &Collector{plan: o.Plan, detail: o.Output != "", statuses: map[int]int{}, kept: rows{
		took: none, connect: none, lookup: none, write: none, wait: none, read: none, offset: none, status: []int{},
	}}
}

// Add counts a request that is done. Only those with an answer enter the times.
func (c *Collector) Add(s *load.Sample) {
	c.n++
	c.good = c.good || s.OK()
	if c.plan.EachRate > 0 && s.Ready-s.Intended >= c.lateFrom() {
		c.late++
	}
	if s.Err != nil {
		return
	}
	took := s.Done - s.Ready // with the time to connect: hey's clock starts when its worker does
	c.took.add(took)
	c.connect.add(s.Phases.Connect)
	c.lookup.add(s.Phases.Lookup)
	c.write.add(s.Phases.Write)
	c.wait.add(s.Phases.Wait)
	c.read.add(s.Phases.Read)
	c.statuses[s.Status]++
	c.bytes += s.Bytes
	switch {
	case len(c.kept.took) < maxKept:
		c.kept.add(s, took, c.detail)
		return
	case c.spread == nil:
		c.spread = newSpread(c.kept.took)
	}
	c.spread.add(took)
}

// lateFrom is what counts as sent late: a whole interval, so that the worker has missed a turn.
func (c *Collector) lateFrom() time.Duration {
	return max(lateAtLeast, time.Duration(float64(time.Second)/c.plan.EachRate).Round(time.Microsecond))
}

func (r *rows) add(s *load.Sample, took time.Duration, detail bool) {
	r.took = append(r.took, took.Seconds())
	if !detail {
		return
	}
	r.connect = append(r.connect, s.Phases.Connect.Seconds())
	r.lookup = append(r.lookup, s.Phases.Lookup.Seconds())
	r.write = append(r.write, s.Phases.Write.Seconds())
	r.wait = append(r.wait, s.Phases.Wait.Seconds())
	r.read = append(r.read, s.Phases.Read.Seconds())
	r.offset = append(r.offset, s.Ready.Seconds())
	r.status = append(r.status, s.Status)
}

// A stat is the sum and the extremes of durations.
type stat struct {
	n             int64
	sum, min, max time.Duration
}

func (t *stat) add(d time.Duration) {
	if t.n == 0 {
		t.min, t.max = d, d
	}
	t.n++
	t.sum += d
	t.min, t.max = min(t.min, d), max(t.max, d)
}

func (t *stat) average() float64 {
	if t.n == 0 {
		return 0
	}
	return t.sum.Seconds() / float64(t.n)
}

// A spread counts durations by size, to 0.2 %: below 2^10 ns each has its own count, above that the ten highest bits
// decide.
type spread struct {
	n      int64
	counts [56 << 9]int64
}

func newSpread(seconds []float64) *spread {
	var s spread
	for _, v := range seconds {
		s.add(time.Duration(math.Round(v * 1e9)))
	}
	return &s
}

func (s *spread) add(d time.Duration) {
	v := uint64(max(0, d))
	shift := max(0, bits.Len64(v)-10)
	s.counts[shift<<9+int(v>>shift)]++
	s.n++
}

// value is the middle of what is counted at an index, in seconds.
func value(index int) float64 {
	shift := max(0, index>>9-1)
	low := uint64(index-shift<<9) << shift
	return (float64(low) + float64(uint64(1)<<shift-1)/2) / 1e9
}

// each calls f for the values in ascending order, with how many there are of each.
func (s *spread) each(f func(seconds float64, count int64)) {
	for i, n := range s.counts {
		if n > 0 {
			f(value(i), n)
		}
	}
}

// times are what the distributions are made from: values in ascending order, each with how often it was.
func (c *Collector) times(f func(seconds float64, count int64)) {
	if c.spread != nil {
		lowest, highest := c.took.min.Seconds(), c.took.max.Seconds()
		c.spread.each(func(v float64, n int64) { f(min(max(v, lowest), highest), n) })
		return
	}
	ascending := slices.Clone(c.kept.took)
	slices.Sort(ascending)
	for _, v := range ascending {
		f(v, 1)
	}
}
