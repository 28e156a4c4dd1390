// Package heapfloor keeps the garbage collector of a small heap from running too often. A program with 1 MB alive is collected each time it
// has allocated some 3 MB, which can be hundreds of times a second, and with more than one P that costs far more CPU than the collections
// themselves; docs/heap-floor.md has measurements.
//
//	d, undo := heapfloor.Keep(32 << 20)
//	defer undo()
//	log.Print(d)
//
// Package auto/heapfloor does it by a blank import, where the environment asks for it.
package heapfloor

import (
	"errors"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/collected"
	"github.com/unthrottle/unthrottle/internal/size"
)

// A Decision is what [Keep] does, and what it was decided from. Why and String put it in words.
type Decision struct {
	Bytes int64 // the floor that is kept; 0: none
	Asked int64 // the floor that was asked for
	GOGC  int   // the GOGC that was found, which undo restores; -1 means off

	UserGOGC    string // GOGC, if the user has set it in the environment: then there is no floor
	Limit       int64  // the smaller of GOMEMLIMIT and the cgroup's memory limit; 0: no limit
	LimitFrom   string // "GOMEMLIMIT", or the directory of the cgroup
	LimitReason error  // why the cgroup's is not known
	Warning     error  // an invalid variable, which counts as not set

	// The steering so far, in what Last returns.
	Percent int  // the GOGC that was set last
	Steps   int  // how often it was set
	Yielded bool // the program has set another GOGC since, which stays
}

const (
	// leastGoal is the smallest goal that the collector has at GOGC=100. It grows in proportion to GOGC, whatever is
	// alive: that is why a GOGC computed from the live heap alone overshoots. A heap of 1 MB seems to need GOGC=6300
	// for a goal of 64 MB, and gets one of 252.
	leastGoal = 4 << 20

	// largestFloor is where a floor stops being a cure for small heaps. It would need a GOGC of many thousands.
	largestFloor = 256 << 20
)

// Keep raises GOGC until the heap's goal is just below the floor, and lowers it as the live heap grows, down to the GOGC
// that it found, which undo restores. A floor of 16 to 32 MiB is enough to help; the program uses up to that much more
// memory.
//
// It does nothing if the user has set GOGC in the environment or the collector is off. A floor is cut if the memory
// limit, be it GOMEMLIMIT or the cgroup's, has no room for it. A program that calls debug.SetGCPercent gets what it
// asks for: Keep steps aside until it finds the GOGC that it had set itself.
//
// No goroutine is started: GOGC is set after a collection, by a finalizer, and nothing runs in an idle program. If
// several floors are asked for, the largest counts, until each is undone.
//
// Keep(0) leaves the floor to the environment's UNTHROTTLE_HEAP_FLOOR: 32MiB, or a number of bytes. Without the variable there is no floor.
// Package auto/heapfloor calls it this way, and [Last] returns what was decided.
func Keep(bytes int64) (d Decision, undo func()) {
	var warning error
	if bytes == 0 {
		bytes, warning = envFloor(os.Getenv("UNTHROTTLE_HEAP_FLOOR"))
	}
	p := keepFloor(bytes, warning)
	if p.Bytes == 0 {
		return *p, func() {}
	}
	var once sync.Once
	return *p, func() { once.Do(func() { dropFloor(p) }) }
}

// envFloor reads the floor that the environment asks for, 0 for none.
func envFloor(text string) (bytes int64, err error) {
	if bytes = size.Parse(text); bytes == 0 && text != "" {
		err = errors.New("UNTHROTTLE_HEAP_FLOOR=" + text + ": want a size such as 32MiB")
	}
	return bytes, err
}

// Last returns the newest decision of Keep in this process, including that of package auto/heapfloor, and
// how the steering is going.
func Last() (d Decision, ok bool) {
	floors.Lock()
	defer floors.Unlock()
	if floors.last == nil {
		return Decision{}, false
	}
	d = *floors.last
	if len(floors.kept) > 0 {
		d.Percent, d.Steps, d.Yielded = floors.percent, floors.steps, floors.yielded
	}
	return d, true
}

// floors is GOGC as this package steers it. There is only one GOGC, so there is only one of these.
var floors struct {
	sync.Mutex
	kept    []*Decision // those that are not undone
	last    *Decision
	base    int // GOGC without us
	percent int // GOGC as we left it
	steps   int
	yielded bool
	hooked  bool // adjust is called after each collection
	samples [4]metrics.Sample
}

func keepFloor(bytes int64, warning error) *Decision {
	d := &Decision{Asked: bytes, Warning: warning}
	floors.Lock()
	defer floors.Unlock()
	now, ok := readCollector()
	ours := len(floors.kept) > 0 && now.percent == floors.percent
	d.GOGC = now.percent
	if ours {
		d.GOGC = floors.base
	}
	if !ok {
		d.LimitReason = errNoMetrics
	} else {
		d.decide(os.Getenv("GOGC"), now.limit, memoryLimit)
	}
	floors.last = d
	if d.Bytes == 0 {
		return d
	}
	if !ours {
		floors.base, floors.percent, floors.steps, floors.yielded = now.percent, now.percent, 0, false
	}
	floors.kept = append(floors.kept, d)
	if !floors.hooked {
		floors.hooked = true
		collected.Each(adjust)
	}
	return d
}

func dropFloor(d *Decision) {
	floors.Lock()
	defer floors.Unlock()
	for i, k := range floors.kept {
		if k == d {
			floors.kept = append(floors.kept[:i:i], floors.kept[i+1:]...)
			break
		}
	}
	if len(floors.kept) == 0 { // else the next collection uses the floors that are left
		swapGOGC(floors.percent, floors.base)
		floors.percent, floors.steps = floors.base, 0
	}
}

// adjust takes one step, and reports whether to go on. If it is late, GOGC stays where it is, and the largest it can be is what
// [steer] allows.
func adjust() bool {
	floors.Lock()
	defer floors.Unlock()
	if len(floors.kept) == 0 {
		floors.hooked = false
		return false
	}
	now, _ := readCollector()
	// A program that sets GOGC for a while restores what was there. So a GOGC that is not ours is left alone, but looked at again: ours
	// must not stay behind with nothing to lower it when the heap grows.
	floors.yielded = now.percent != floors.percent
	if floors.yielded {
		return true
	}
	var floor int64
	for _, k := range floors.kept {
		if k.Bytes > floor {
			floor = k.Bytes
		}
	}
	next := steer(cutFloor(floor, now.limit), floors.base, now)
	if next != now.percent {
		if swapGOGC(now.percent, next) {
			floors.percent = next
			floors.steps++
		} else {
			floors.yielded = true
		}
	}
	return true
}

// swapGOGC sets GOGC to next if it is from, and reports whether it was. If something set another in the meantime, that one is restored: the
// newest, if they go on doing so.
func swapGOGC(from, next int) bool {
	found := debug.SetGCPercent(next)
	if found == from {
		return true
	}
	for {
		left := next
		next = found
		if found = debug.SetGCPercent(next); found == left {
			return false
		}
	}
}

// A collector is the state of the garbage collector as the steering sees it.
type collector struct {
	percent int   // GOGC, -1 when it is off
	goal    int64 // heap size at which the next collection is to end
	live    int64 // what the last one left
	limit   int64 // GOMEMLIMIT, 0 for none
}

type unsupported string

func (u unsupported) Error() string { return string(u) }

const errNoMetrics unsupported = "this Go runtime does not report its heap goal"

// readCollector reads the collector's current state. The caller holds the lock.
func readCollector() (c collector, ok bool) {
	s := floors.samples[:]
	s[0].Name = "/gc/gogc:percent"
	s[1].Name = "/gc/heap/goal:bytes"
	s[2].Name = "/gc/heap/live:bytes"
	s[3].Name = "/gc/gomemlimit:bytes"
	metrics.Read(s)
	for i := range s {
		if s[i].Value.Kind() != metrics.KindUint64 {
			return c, false
		}
	}
	// GOGC=off is the largest uint64, which becomes -1.
	at := func(i int) int64 { return int64(s[i].Value.Uint64()) }
	c = collector{percent: int(at(0)), goal: at(1), live: at(2), limit: at(3)}
	if c.limit == math.MaxInt64 {
		c.limit = 0
	}
	return c, true
}

// steer returns the GOGC to set next, for a goal between seven eighths of the floor and the floor. It changes nothing
// while the goal is there, and never goes below base, which is the GOGC without a floor. So the goal is beyond the floor
// only where base puts it there, or until the next collection where the live heap grew.
//
// GOGC goes up by doubling at most, since the heap's pages have to be made; it goes down at once, since that is about memory. The goal is
// the larger of two: 4 MB × GOGC/100, and the live heap plus GOGC percent of it and of the stacks and globals, which the runtime doesn't
// report. The second is extrapolated from the current goal, and the first is a cap: with it, the goal is never more than 1 + floor / 4 MB
// times the floor, even if the whole heap turns out to be alive.
func steer(floor int64, base int, now collector) int {
	low, aim := floor-floor/8, floor-floor/16
	if now.percent <= 0 || now.goal >= low && now.goal <= floor {
		return now.percent
	}
	percent, live := float64(now.percent), float64(now.live)
	next := float64(base)
	if grows := float64(now.goal) - live; grows > 0 {
		next = percent * (float64(aim) - live) / grows
	}
	next = math.Min(next, 100*float64(aim)/leastGoal)
	if now.goal < low {
		if next <= percent || live+live*percent/100 > float64(now.goal) {
			return now.percent // it is a memory limit that holds the goal down, not GOGC
		}
		next = math.Min(next, 2*percent)
	}
	n := base
	if next > float64(base) {
		n = int(next)
	}
	if n > base && n%5 == 0 {
		n-- // people choose round numbers, so one of those is not ours
	}
	return n
}

// cutFloor makes the floor fit under a memory limit: a quarter of it at most, and so small that the largest goal that
// steer can bring about is still within the limit: floor × (1 + floor / 4 MB).
func cutFloor(floor, limit int64) int64 {
	if floor > largestFloor {
		floor = largestFloor
	}
	if limit <= 0 {
		return floor
	}
	if limit/4 < floor {
		floor = limit / 4
	}
	const half = leastGoal / 2
	if most := half * (math.Sqrt(1+float64(limit)/(half/2)) - 1); most < float64(floor) {
		floor = int64(most)
	}
	return floor
}

// pointless reports whether the collector keeps the floor on its own at this GOGC.
func pointless(floor int64, gogc int) bool {
	return float64(floor-floor/8) <= leastGoal*float64(gogc)/100
}

// decide fills in d from the environment's GOGC, the GOMEMLIMIT that is in force (0: none) and the cgroup's limit.
func (d *Decision) decide(gogc string, limit int64, readMemory func() cgroup.Memory) {
	if userGOGC(gogc) {
		d.UserGOGC = gogc
	}
	if d.Asked <= 0 || d.UserGOGC != "" || d.GOGC <= 0 {
		return
	}
	if limit > 0 {
		d.Limit, d.LimitFrom = limit, "GOMEMLIMIT"
	}
	m := readMemory()
	if m.State == cgroup.Limited && (d.Limit == 0 || m.Bytes < d.Limit) {
		d.Limit, d.LimitFrom = m.Bytes, m.From
	}
	d.LimitReason = m.Reason
	if floor := cutFloor(d.Asked, d.Limit); !pointless(floor, d.GOGC) {
		d.Bytes = floor
	}
}

func memoryLimit() cgroup.Memory { return cgroup.ReadMemory(cgroup.Source{}) }

// userGOGC reports whether the runtime accepts this text of the variable GOGC: it ignores anything but "off" and whole
// numbers.
func userGOGC(text string) bool {
	_, err := strconv.ParseInt(text, 10, 32)
	return text == "off" || err == nil
}

// String returns the floor and its reasons on one line.
func (d Decision) String() string {
	n := "no heap floor"
	if d.Bytes > 0 {
		n = "heap floor " + size.Text(d.Bytes)
	}
	return n + ": " + strings.Join(d.Why(), "; ")
}

// Why returns the reasons in words, in the order in which they led to the floor.
func (d Decision) Why() (why []string) {
	switch {
	case d.Warning != nil:
		return []string{d.Warning.Error()}
	case d.Asked <= 0:
		return []string{"none is asked for"}
	case d.UserGOGC != "":
		return []string{"GOGC=" + d.UserGOGC + " is set in the environment"}
	case d.LimitReason == error(errNoMetrics):
		return []string{errNoMetrics.Error()}
	case d.GOGC < 0:
		return []string{"the collector is off"}
	case d.GOGC == 0:
		return []string{"the program has set GOGC to 0"}
	}
	why = d.whyCut()
	if d.Bytes == 0 {
		return append(why, "the collector keeps its goal above that by itself, with GOGC "+strconv.Itoa(d.GOGC))
	}
	switch {
	case d.Yielded:
		why = append(why, "the program has set another GOGC since, which stays")
	case d.Percent > 0:
		why = append(why, "GOGC is "+strconv.Itoa(d.Percent)+" after "+strconv.Itoa(d.Steps)+" steps from "+strconv.Itoa(d.GOGC))
	default:
		why = append(why, "GOGC is raised from "+strconv.Itoa(d.GOGC)+" as far as that needs")
	}
	return why
}

// whyCut says what became of the floor that was asked for.
func (d Decision) whyCut() (why []string) {
	why = append(why, size.Text(d.Asked)+" asked for")
	if d.LimitReason != nil {
		why = append(why, "the cgroup's memory limit is unknown: "+d.LimitReason.Error())
	}
	cut := cutFloor(d.Asked, d.Limit)
	switch {
	case cut == d.Asked:
	case cut == largestFloor:
		why = append(why, "cut to "+size.Text(cut)+", the largest there is")
	default:
		why = append(why, "cut to "+size.Text(cut)+" by the memory limit of "+size.Text(d.Limit)+" ("+d.LimitFrom+")")
	}
	return why
}
