package memory

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	lookAgain = time.Second // at the kernel's limit
	tellAgain = time.Minute // that it was given up, or is set again
	noLimit   = math.MaxInt64
	back      = 1.5 // times the least GOGC: the room that a limit that was given up must leave to be set again
)

// step looks at what the last collection left, says what it did about that, and reports whether to go on.
func step() bool {
	k, told := steer()
	if told != "" {
		k.options.line(told)
	}
	return k != nil
}

// steer does what the last collection's result requires, and returns the line for a log; "": nothing has changed. nil: no Set is in force.
func steer() (k *keeper, told string) {
	now := time.Now()
	kept.Lock()
	defer kept.Unlock()
	n := len(kept.keepers)
	if n == 0 {
		kept.hooked = false
		return nil, ""
	}
	k = kept.keepers[n-1]
	if now.Sub(kept.read) >= lookAgain {
		kept.read = now
		k.look()
	}
	// A limit that is not ours is left alone, but looked at again: a program may set another for a while. The GOGC that replaced ours must
	// not stay behind.
	if k.d.Yielded = debug.SetMemoryLimit(-1) != kept.left; k.d.Yielded || k.d.Bytes == 0 {
		restoreGOGC()
	} else if h, ok := readHeap(); ok && k.d.Options.MinGOGC > 0 {
		least, room := float64(k.d.Options.MinGOGC), h.effective(k.d.Bytes)
		switch {
		case !kept.givenUp && room < least:
			k.giveUp(h.percent)
		case kept.left != k.d.Bytes && room >= back*least:
			k.apply()
		}
	}
	k.d.GivenUp = kept.givenUp
	return k, k.news(now)
}

// news is the line for a log about what was not reported yet; "": there is nothing. A limit that is nearly too tight may be given up and
// set again every few seconds: that gets a line a minute.
func (k *keeper) news(now time.Time) string {
	other := k.d.Changes != k.told.Changes || k.d.Yielded != k.told.Yielded
	room := k.d.GivenUp != k.told.GivenUp || k.d.Spirals != k.told.Spirals
	if k.options.Logf == nil || !other && (!room || now.Sub(k.toldAt) < tellAgain) {
		return ""
	}
	k.told, k.toldAt = k.d, now
	return k.d.String()
}

// look follows the kernel's limit.
func (k *keeper) look() {
	was := k.d.Limits
	next := Decide(k.options.limits(), k.options)
	if next.Limits.State == was.State && next.Limits.Bytes == was.Bytes && next.Limits.From == was.From {
		return
	}
	next.Before, next.Spirals, next.Changes, next.GivenUp, next.Floor = k.d.Before, k.d.Spirals, k.d.Changes+1, k.d.GivenUp, k.d.Floor
	k.d = next
	if debug.SetMemoryLimit(-1) != kept.left || kept.givenUp {
		return // the next step decides whether there is room
	}
	if k.d.Bytes == 0 {
		k.limit(kept.before)
		return
	}
	k.limit(k.d.Bytes)
}

// limit sets GOMEMLIMIT.
func (k *keeper) limit(bytes int64) {
	debug.SetMemoryLimit(bytes)
	kept.left = bytes
}

// giveUp lifts the limit, and has the collector run at the least GOGC in its place.
func (k *keeper) giveUp(gogc int) {
	least := k.d.Options.MinGOGC
	if gogc < 0 || gogc > least {
		debug.SetGCPercent(least)
		kept.gogc = gogc
	} else {
		kept.gogc = least
	}
	kept.least = least
	kept.givenUp = true
	k.limit(noLimit)
	k.d.Spirals++
}

// restoreGOGC puts GOGC back, unless the program has set another since.
func restoreGOGC() {
	if !kept.givenUp {
		return
	}
	kept.givenUp = false
	if found := debug.SetGCPercent(kept.gogc); found != kept.least {
		debug.SetGCPercent(found)
	}
}

// A heap is what the last collection left, as the runtime's pacer sees it.
type heap struct {
	percent int     // GOGC, -1 when it is off
	live    float64 // bytes of objects
	scanned float64 // bytes of stacks and globals, which count for GOGC
	others  float64 // bytes that count for GOMEMLIMIT and are not objects
}

var samples = []metrics.Sample{
	{Name: "/gc/gogc:percent"},
	{Name: "/gc/heap/live:bytes"},
	{Name: "/gc/scan/stack:bytes"},
	{Name: "/gc/scan/globals:bytes"},
	{Name: "/memory/classes/total:bytes"},
	{Name: "/memory/classes/heap/released:bytes"},
	{Name: "/memory/classes/heap/free:bytes"},
	{Name: "/memory/classes/heap/objects:bytes"},
}

// readHeap reads the current heap. The caller holds the lock.
func readHeap() (h heap, ok bool) {
	metrics.Read(samples)
	for _, s := range samples {
		if s.Value.Kind() != metrics.KindUint64 {
			return h, false
		}
	}
	at := func(i int) float64 { return float64(samples[i].Value.Uint64()) }
	h = heap{percent: -1, live: at(1), scanned: at(2) + at(3), others: at(4) - at(5) - at(6) - at(7)}
	if gogc := samples[0].Value.Uint64(); gogc <= math.MaxInt32 {
		h.percent = int(gogc)
	}
	return h, true
}

// effective is the GOGC that a limit comes down to: the room that it leaves to the heap, as a share of what is alive and what is scanned
// with it. The pacer keeps 3 % of its goal in reserve, at least a MiB (mgcpacer.go: memoryLimitHeapGoal).
func (h heap) effective(limit int64) float64 {
	goal := float64(limit) - h.others
	goal -= math.Max(1<<20, goal*0.03)
	return 100 * (goal - h.live) / math.Max(1, h.live+h.scanned)
}
