package golive

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// A Collector is the settings and state that a running program's garbage collector uses, and the time that it has taken.
type Collector struct {
	Percent int   // GOGC; -1: off
	Limit   int64 // GOMEMLIMIT in bytes; math.MaxInt64: none

	Live  uint64 // bytes of the heap that the last collection found in use
	Roots uint64 // bytes of stacks and globals, which are scanned with it
	Other uint64 // bytes that count for GOMEMLIMIT and hold no objects
	Goal  uint64 // bytes of the heap by which the next collection should have ended

	// Ps' time until the end of the last collection: in collections, and in all that is not idle. Known false: it isn't known.
	In, Busy time.Duration
	Known    bool
}

// Room is what GOGC comes to, in percent of what is alive, where GOMEMLIMIT lowers the goal; +Inf: nothing is alive yet.
func (c *Collector) Room() float64 {
	if c.Live+c.Roots == 0 {
		return math.Inf(1)
	}
	return 100 * float64(c.Goal-min(c.Goal, c.Live)) / float64(c.Live+c.Roots)
}

// runtime.gcControllerState and runtime.cpuStats, from Go 1.21 to 1.27, on 64-bit systems.
const (
	atPercent, atLimit, atMinimum               = 0, 8, 16
	atGoal, atStacks, atGlobals, atLive         = 72, 128, 144, 152
	atInUse, atFree, atAlloc, atFreed, atMapped = 272, 288, 296, 304, 312
	collectorSize                               = 320
	statsTotal, statsIdle, statsAll, statsSize  = 32, 64, 80, 88
)

// The heap is not collected below 4 MB × GOGC/100, or 512 KB with an experiment.
var minimums = []uint64{4 << 20, 512 << 10}

// headroom is what the pacer keeps of GOMEMLIMIT's goal: 3 %, and a MiB at least.
const headroom = 1 << 20

// parseCollector reads gcControllerState. What isn't one is hardly taken for one: the least heap follows from GOGC to the byte, and
// the counts of memory fit into each other.
func (m *image) parseCollector(part []byte) (c Collector, ok bool) {
	at := func(offset int) uint64 { return m.Order.Uint64(part[offset:]) }
	c = Collector{
		Percent: int(int32(m.Order.Uint32(part[atPercent:]))), Limit: int64(at(atLimit)),
		Live: at(atLive), Roots: at(atStacks) + at(atGlobals), Goal: at(atGoal),
	}
	proven := false
	for _, least := range minimums {
		proven = proven || at(atMinimum) == leastHeap(c.Percent, least)
	}
	mapped, free, objects := at(atMapped), at(atFree), at(atAlloc)-at(atFreed)
	const most = 1 << 48 // of an address space
	// Zeros alone prove nothing: a GOGC of 0 goes with a limit, if only that of all memory.
	if !proven || c.Percent < -1 || c.Limit < 0 || c.Percent == 0 && c.Limit == 0 || mapped == 0 || mapped > most || at(atInUse) > mapped || at(atInUse) == 0 ||
		c.Live > most || c.Roots > most {
		return Collector{}, false
	}
	if free < mapped && objects < mapped-free { // else it was read while they change
		c.Other = mapped - free - objects
	}
	c.Goal = max(min(c.Goal, limitGoal(uint64(c.Limit), mapped, c.Other)), c.Live)
	return c, true
}

// leastHeap is heapMinimum, which the runtime computes with numbers that wrap around if GOGC is off.
func leastHeap(percent int, least uint64) uint64 {
	return least * uint64(percent) / 100
}

// limitGoal is the goal by GOMEMLIMIT, computed as in memoryLimitHeapGoal.
func limitGoal(limit, mapped, other uint64) uint64 {
	over := other
	if mapped > limit {
		over += mapped - limit
	}
	if over >= limit {
		return 0
	}
	goal := limit - over
	keep := max(goal/100*3, headroom)
	if goal < 2*keep {
		return keep
	}
	return goal - keep
}

// parseStats reads cpuStats. If its sums don't fit, it isn't cpuStats.
func (m *image) parseStats(c *Collector, part []byte) {
	var sum uint64
	for i := 0; i < statsTotal; i += 8 {
		next, carry := bits.Add64(sum, m.Order.Uint64(part[i:]), 0)
		if carry != 0 {
			return
		}
		sum = next
	}
	total, idle, all := m.Order.Uint64(part[statsTotal:]), m.Order.Uint64(part[statsIdle:]), m.Order.Uint64(part[statsAll:])
	if sum != total || all > math.MaxInt64 || total > all || idle > all-total {
		return
	}
	c.In, c.Busy, c.Known = time.Duration(total), time.Duration(all-idle), true
}

// collector reads the collector's state, from the first place that may be it and holds one.
func (r *reader) collector() (Collector, error) {
	if len(r.v.collector) == 0 || r.layout.npidle == 0 {
		return Collector{}, ErrNoSched
	}
	for _, pause := range pauses[:4] { // GOGC may be being set
		time.Sleep(pause)
		for _, addr := range r.v.collector {
			c, ok, err := r.readCollector(addr)
			if err != nil {
				return c, err
			}
			if ok {
				r.v.collector = []uint64{addr}
				return c, nil
			}
		}
	}
	return Collector{}, errUnproven
}

func (r *reader) readCollector(addr uint64) (c Collector, ok bool, err error) {
	var buf [collectorSize + statsSize]byte
	spans, size := []span{{addr, collectorSize}}, collectorSize
	if r.v.cycles != 0 {
		spans, size = append(spans, span{r.v.cycles + r.layout.stats, statsSize}), len(buf)
	}
	if err := r.mem.readSpans(buf[:size], spans); err != nil {
		return c, false, fmt.Errorf("%w: %w", errUnproven, err)
	}
	if c, ok = r.m.parseCollector(buf[:collectorSize]); ok && r.v.cycles != 0 {
		r.m.parseStats(&c, buf[collectorSize:])
	}
	return c, ok, nil
}
