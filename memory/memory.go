// Package memory gives a Go program the GOMEMLIMIT that fits the memory limit it is really held to, follows changes of that
// limit, and keeps the garbage collector from taking all of the CPU when the limit is too tight.
//
//	d, undo := memory.Set(memory.Options{})
//	defer undo()
//	log.Print(d)
//
// The Go runtime reads the CPU limit of its cgroup, but no memory limit: without GOMEMLIMIT a heap may double until the kernel kills the
// program. With one, the collector runs more often as the heap comes closer to it. Where live memory nearly fills the limit, the collector
// runs all the time, at three to four times the program's CPU: the limit has become a throttle. [Set] sees that after a collection, and
// gives up the limit until there is room again: meanwhile the collector runs whenever the heap has grown by Options.MinGOGC percent, and
// the program may use what is left of the kernel's limit.
//
// The limit is the smallest memory.max or memory.high from the process's own cgroup up to the root of the mount, or v1's
// memory.limit_in_bytes. Importing package auto/memory for its effect is Set with [FromEnv].
//
// A GOMEMLIMIT in the environment wins, "off" too, and so does a limit that the program has set with debug.SetMemoryLimit, and
// UNTHROTTLE=off. Without a limit, or where it can't be read, nothing is touched. The package has no dependencies, prints
// nothing unless it is given a Logf, and starts no goroutine: it looks at the limit again after a collection, at most once a second.
package memory

import (
	"errors"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/heapfloor"
	"github.com/unthrottle/unthrottle/internal/collected"
	"github.com/unthrottle/unthrottle/internal/size"
)

// Options configure Set. The zero value is usable.
type Options struct {
	Share   float64 // of the limit; 0 means 0.9
	Reserve int64   // bytes to subtract from that, for what is not Go's: cgo, mapped files, the page cache that is needed

	// MinGOGC is the least GOGC that a limit may come down to in effect: where the limit leaves less room, it is given up until there is
	// half as much again. 0 means 10; below zero it is kept whatever that costs.
	MinGOGC int

	Min int64 // GOMEMLIMIT is no lower, to the extent that the limit has room for it

	// Floor keeps a small heap from being collected too often: it may grow to that many bytes first, as with heapfloor.Keep. The floor is
	// cut to what the limit has room for, and pauses while the limit is given up. 0: no floor.
	Floor int64

	// Logf gets a line for each decision, and one for each warning: log.Printf is one. Without it nothing is logged. It is called after a
	// collection, too, when the limit has changed, or, once a minute at most, when it was given up or is set again. So it must not wait for
	// long.
	Logf func(format string, args ...any)

	// Limit says what the limit is, for one that isn't a control group's; 0: no limit. It is called again after a collection, at most once
	// a second, so it must not wait or call this package. nil: the kernel says.
	Limit func() (bytes int64, err error)

	off      bool
	warnings []error // about the variables that these are from
}

// FromEnv returns the Options that the environment asks for:
//
//	UNTHROTTLE_MEMORY      on (the default), off, a share of the limit such as 80%, or one less a reserve: 90%-64MiB
//	UNTHROTTLE_MIN_GOGC    the least GOGC in effect: 10, or off
//	UNTHROTTLE_HEAP_FLOOR  32MiB, or a number of bytes; without it there is none
//
// What is wrong with a variable becomes a warning in the Decision, and it counts as not set.
func FromEnv() Options { return fromEnv(os.Getenv) }

func fromEnv(get func(string) string) (o Options) {
	if text := get("UNTHROTTLE_MEMORY"); !o.parse(text) {
		o.warn("UNTHROTTLE_MEMORY=" + text + ": want on, off, 80% or 90%-64MiB")
	}
	switch text := get("UNTHROTTLE_MIN_GOGC"); text {
	case "":
	case "off":
		o.MinGOGC = -1
	default:
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			o.warn("UNTHROTTLE_MIN_GOGC=" + text + ": want a whole number above zero, or off")
			break
		}
		o.MinGOGC = int(n)
	}
	if text := get("UNTHROTTLE_HEAP_FLOOR"); text != "" {
		if o.Floor = size.Parse(text); o.Floor == 0 {
			o.warn("UNTHROTTLE_HEAP_FLOOR=" + text + ": want a size such as 32MiB")
		}
	}
	return o
}

func (o *Options) warn(text string) { o.warnings = append(o.warnings, errors.New(text)) }

// parse reads UNTHROTTLE_MEMORY, and reports whether it could.
func (o *Options) parse(text string) bool {
	switch text {
	case "", "on":
		return true
	case "off":
		o.off = true
		return true
	}
	percent, reserve, less := strings.Cut(text, "-")
	percent, ok := strings.CutSuffix(percent, "%")
	n, err := strconv.ParseUint(percent, 10, 7)
	if !ok || err != nil || n < 1 || n > 100 {
		return false
	}
	if less {
		if o.Reserve = size.Parse(reserve); o.Reserve == 0 {
			return false
		}
	}
	o.Share = float64(n) / 100
	return true
}

// A Decision is the memory limit that the Go runtime should have, and everything that it was decided from. Why and String put it in words.
type Decision struct {
	Bytes int64 // GOMEMLIMIT; 0: it stays unchanged

	Limits   cgroup.Memory
	Options  Options // with what was left open filled in
	Warnings []error
	Before   int64  // GOMEMLIMIT as found; math.MaxInt64: none
	User     string // GOMEMLIMIT, if the user has set it in the environment
	Off      bool   // UNTHROTTLE=off, or UNTHROTTLE_MEMORY=off
	Floor    heapfloor.Decision

	// How it goes, in what Last returns.
	GivenUp bool // the limit leaves the collector too little room, so that it is given up for now
	Spirals int  // how often that was so
	Changes int  // of the kernel's limit since
	Yielded bool // the program has set another limit since, which stays
}

const (
	usualShare = 0.9
	usualGOGC  = 10
	leastLimit = 32 << 20 // below that a share of the limit has no room for the runtime itself
	leastRoom  = 8 << 20  // that is always left to the kernel
	highShare  = 0.95     // with more than that programs are killed
)

// Decide says which GOMEMLIMIT the options want under the limits. It reads and changes nothing.
func Decide(m cgroup.Memory, o Options) Decision {
	if !(o.Share > 0) || o.Share > 1 {
		o.Share = usualShare
	}
	if o.Reserve < 0 {
		o.Reserve = 0
	}
	if o.MinGOGC == 0 {
		o.MinGOGC = usualGOGC
	}
	d := Decision{Limits: m, Options: o, Warnings: o.warnings, Before: math.MaxInt64, Off: o.off}
	if d.Off || m.State != cgroup.Limited || m.Bytes < leastLimit {
		return d
	}
	n := int64(o.Share*float64(m.Bytes)) - o.Reserve
	if n < o.Min {
		n = o.Min
	}
	if most := m.Bytes - leastRoom; n > most {
		n = most
	}
	if n >= leastRoom {
		d.Bytes = n
	}
	if o.Share > highShare {
		d.Warnings = append(d.Warnings[:len(d.Warnings):len(d.Warnings)], errors.New("a share above 95 % leaves too little for what is not the Go runtime's: programs are killed"))
	}
	return d
}

// String returns the limit and its reasons on one line.
func (d Decision) String() string {
	n := "GOMEMLIMIT unchanged"
	if d.Bytes > 0 {
		n = "GOMEMLIMIT=" + size.Text(d.Bytes)
	}
	n += ": " + strings.Join(d.Why(), "; ")
	if d.Floor.Asked > 0 {
		n += "; " + d.Floor.String()
	}
	return n
}

// Why returns the reasons in words, in the order in which they led to the limit.
func (d Decision) Why() (why []string) {
	m, o := d.Limits, d.Options
	switch {
	case d.User != "":
		return []string{"GOMEMLIMIT=" + d.User + " is set in the environment"}
	case d.Off:
		return []string{"it is switched off in the environment"}
	case d.Before != math.MaxInt64:
		return []string{"the program has set a limit of " + size.Text(d.Before)}
	case m.State == cgroup.None:
		return []string{"no memory limit"}
	case m.State != cgroup.Limited && m.Reason != nil:
		return []string{"the memory limit is unknown: " + m.Reason.Error()}
	case m.State != cgroup.Limited:
		return []string{"the memory limit is unknown"}
	}
	at := " by the program's own account"
	if m.From != "" {
		at = " at " + m.From
	}
	why = append(why, "limit "+size.Text(m.Bytes)+at)
	share := strconv.FormatFloat(math.Round(o.Share*1000)/10, 'f', -1, 64) + " % of it"
	if o.Reserve > 0 {
		share += ", less " + size.Text(o.Reserve)
	}
	switch {
	case m.Bytes < leastLimit:
		return append(why, "which has no room for a share")
	case d.Bytes == 0:
		return append(why, share+" is too little")
	case d.Bytes == m.Bytes-leastRoom:
		share = "all but " + size.Text(leastRoom) + " of it"
	case d.Bytes == o.Min:
		share = "no less is wanted"
	}
	why = append(why, share)
	switch {
	case d.Yielded:
		why = append(why, "the program has set another limit since, which stays")
	case d.GivenUp:
		why = append(why, "given up for now: it leaves the collector less room than GOGC "+strconv.Itoa(o.MinGOGC)+" would")
	case d.Spirals == 1:
		why = append(why, "it was given up once, while it left too little room")
	case d.Spirals > 0:
		why = append(why, "it was given up "+strconv.Itoa(d.Spirals)+" times, while it left too little room")
	}
	return why
}

// Set reads the memory limit of this process, decides on GOMEMLIMIT, applies it, and follows changes. The undo function restores what was
// there before. If several Sets are in force, the newest counts.
func Set(o Options) (d Decision, undo func()) {
	k := set(o)
	lower := func() {}
	if o.Floor > 0 && os.Getenv("UNTHROTTLE") != "off" { // the limit is there, which cuts it
		floor, undo := heapfloor.Keep(o.Floor)
		lower = undo
		kept.Lock()
		k.d.Floor = floor
		kept.Unlock()
	}
	kept.Lock()
	d = k.d
	kept.Unlock()
	o.log(d)
	var once sync.Once
	return d, func() {
		once.Do(func() {
			k.undo() // first: while the limit is given up, GOGC is its own
			lower()
		})
	}
}

// set sets the limit, if there is one to set.
func set(o Options) *keeper {
	kept.Lock()
	defer kept.Unlock()
	k := &keeper{options: o}
	k.decide()
	if k.d.Bytes == 0 {
		if len(kept.keepers) == 0 {
			kept.last = k
		}
		return k
	}
	kept.keepers = append(kept.keepers, k)
	kept.last = k
	k.apply()
	if !kept.hooked {
		kept.hooked = true
		collected.Each(step)
	}
	return k
}

// log writes a line for each warning, and one about d.
func (o *Options) log(d Decision) {
	if o.Logf == nil {
		return
	}
	for _, w := range d.Warnings {
		o.line(w.Error())
	}
	o.line(d.String())
}

// line writes a line. A logger that panics must not end a program that only wants its memory limit.
func (o *Options) line(text string) {
	defer func() { _ = recover() }()
	o.Logf("%s", "unthrottle: "+text)
}

// Last returns the newest decision of Set in this process, including that of package auto/memory, and how it goes.
func Last() (d Decision, ok bool) {
	kept.Lock()
	defer kept.Unlock()
	if kept.last == nil {
		return Decision{}, false
	}
	d = kept.last.d
	if d.Floor.Bytes > 0 {
		if floor, ok := heapfloor.Last(); ok {
			d.Floor = floor
		}
	}
	return d, true
}

// kept is GOMEMLIMIT as this package steers it. There is only one, so there is only one of these.
var kept struct {
	sync.Mutex
	keepers []*keeper // Sets that are not undone; the last one counts
	last    *keeper
	before  int64 // GOMEMLIMIT without us
	left    int64 // as we left it
	givenUp bool
	gogc    int  // GOGC as it was when the limit was given up
	least   int  // that it was set to
	hooked  bool // step is called after each collection
	read    time.Time
}

// A keeper is a Set that is in force.
type keeper struct {
	options Options
	d       Decision
	told    Decision // as the log has it
	toldAt  time.Time
}

// readLimit is what the kernel allows now.
var readLimit = func() cgroup.Memory { return cgroup.ReadMemory(cgroup.Source{}) }

// limits are what the kernel allows now, or what stands in for it.
func (o *Options) limits() cgroup.Memory {
	if o.Limit == nil {
		return readLimit()
	}
	switch n, err := o.Limit(); {
	case err != nil:
		return cgroup.Memory{Reason: err}
	case n > 0:
		return cgroup.Memory{State: cgroup.Limited, Bytes: n}
	}
	return cgroup.Memory{State: cgroup.None}
}

// decide decides at first: the user's limit and one of the program's own win.
func (k *keeper) decide() {
	now := debug.SetMemoryLimit(-1)
	ours := len(kept.keepers) > 0 && now == kept.left
	var limits cgroup.Memory
	user, off := os.Getenv("GOMEMLIMIT"), os.Getenv("UNTHROTTLE") == "off"
	if mine := ours || now == noLimit; user == "" && !off && !k.options.off && mine {
		limits = k.options.limits()
	}
	if !ours {
		kept.before = now
	}
	k.d = Decide(limits, k.options)
	k.d.User, k.d.Off, k.d.Before = user, k.d.Off || off, kept.before
	kept.read = time.Now()
}

// apply sets the limit that k wants. The caller holds the lock.
func (k *keeper) apply() {
	restoreGOGC()
	k.limit(k.d.Bytes)
}

// undo undoes a Set.
func (k *keeper) undo() {
	kept.Lock()
	defer kept.Unlock()
	at := -1
	for i := range kept.keepers {
		if kept.keepers[i] == k {
			at = i
		}
	}
	if at < 0 {
		return // it had no limit to set
	}
	kept.keepers = append(kept.keepers[:at:at], kept.keepers[at+1:]...)
	restoreGOGC()
	k.d.GivenUp = false
	if debug.SetMemoryLimit(-1) != kept.left {
		return // the program has set another
	}
	if n := len(kept.keepers); n > 0 {
		kept.last = kept.keepers[n-1]
		kept.last.apply()
		return
	}
	k.limit(kept.before)
}
