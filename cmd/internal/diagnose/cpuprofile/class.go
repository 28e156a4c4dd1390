package cpuprofile

import "strings"

// A Class is a kind of work. The samples of a profile are classified by the functions in their stacks.
type Class struct {
	Name   string
	About  string
	Excess bool // it grows with GOMAXPROCS while the program gets no more done
	Work   bool // it is the program's own

	any  []string // of the package runtime; one in the stack is enough. A * at the end stands for any letters
	with []string // one of these has to be in the stack too
}

// classes are all the classes. A sample belongs to the first that fits. Program and other come last: see classOf.
//
// Names were compared with the source of Go 1.21 to 1.27. What has changed there:
//   - gcDrainMarkWorkerIdle, …Dedicated and …Fractional came with Go 1.22. Before, all of it is gcDrain, and marking by idle Ps can't be
//     distinguished from the rest: Profile.NoIdle.
//   - checkTimers is (*timers).check since 1.23; both run within schedule, findRunnable or stealWork.
//   - forEachP does its work in forEachPInternal since 1.22, hence the *. unlock2 wakes by unlock2Wake since 1.24.
//   - exitsyscallfast and its kin are gone since 1.26, where a P in a system call has no state of its own.
//   - mallocgc has variants for sizes since 1.24, and more since 1.26: malloc*.
//
// Why channel locks and plain scheduling are not excess: a program that passes messages spends 17 to 33 % there at
// GOMAXPROCS 1 too.
var classes = []Class{
	{
		Name: "idle-mark", About: "garbage collection on Ps that had nothing to do", Excess: true,
		any: []string{"gcDrainMarkWorkerIdle"},
	},
	{
		Name: "mark", About: "garbage collection: marking, and assists by goroutines that allocate",
		any: []string{"gcDrainMarkWorkerDedicated", "gcDrainMarkWorkerFractional", "gcAssistAlloc*", "gcDrain", "gcDrainN"},
	},
	{
		Name: "stop-world", About: "stopping and starting all Ps", Excess: true,
		any: []string{"stopTheWorld*", "startTheWorld*", "gcstopm", "forEachP*", "gcMarkTermination*", "clearpools", "procresize", "flushallmcaches"},
	},
	{
		Name: "sweep-lock", About: "locks that sweepers and scavengers fight for", Excess: true,
		any: sweeping, with: locking,
	},
	{
		Name: "sweep", About: "sweeping, and giving memory back",
		any: sweeping,
	},
	{
		Name: "steal", About: "looking for work at other Ps", Excess: true,
		any: []string{"stealWork", "runqsteal", "runqgrab", "(*randomEnum)*", "(*randomOrder)*", "checkRunqsNoP", "checkTimersNoP", "checkIdleGCNoP"},
	},
	{
		Name: "wake-sleep", About: "waking threads and putting them to sleep", Excess: true,
		any: []string{
			"wakep", "startm", "stopm", "mPark", "notewakeup", "notesleep*", "notetsleep*", "resetspinning", "newm", "newm1", "newosproc*",
			"handoffp", "injectglist*", "pidleget*", "pidleput*",
		},
	},
	{
		Name: "preempt", About: "interrupting what runs for too long", Excess: true,
		any: []string{"doSigPreempt", "preemptone", "preemptM", "preemptall", "tgkill", "signalM", "sysmon", "retake"},
	},
	{
		Name: "lock", About: "the runtime's locks, those of channels among them",
		any: locking,
	},
	{
		Name: "schedule", About: "switching between goroutines, starting and ending them",
		any: []string{
			"schedule", "findRunnable", "park_m", "goschedImpl", "gosched_m", "gopreempt_m", "goyield_m", "goready*", "ready", "readyWithTime",
			"gopark*", "execute", "runq*", "globrunq*", "casgstatus", "castogscanstatus", "casGTo*", "exitsyscall*", "entersyscall*",
			"reentersyscall", "newproc*", "goexit0", "goexit1", "gdestroy", "gfget", "gfput",
		},
	},
	{
		Name: "netpoll", About: "asking the kernel which connections are ready",
		any: []string{"netpoll*"},
	},
	{
		Name: "gc-other", About: "the rest of garbage collection, write barriers among it",
		any: []string{"gc*", "(*gc*", "GC", "_GC", "wbBufFlush*", "bulkBarrier*", "finishsweep_m"},
	},
	{
		Name: "alloc", About: "allocating memory",
		any: []string{"malloc*", "growslice*", "newobject", "makeslice*", "(*mcache)*", "(*mheap)*", "(*mcentral)*", "(*pageAlloc)*", "(*fixalloc)*"},
	},
	{Name: "program", About: "the program itself", Work: true},
	{Name: "other", About: "the rest of the runtime"},
}

var (
	sweeping = []string{"bgsweep", "bgscavenge", "(*scavengerState)*", "(*sweepLocked).sweep*", "sweepone"}
	locking  = []string{"lock2", "lockWithRank*", "unlock2*", "unlockWithRank*", "procyield*", "osyield*"}
)

// program and other are the places of the classes that no list of names defines.
var program, other = len(classes) - 2, len(classes) - 1

// Classes are all classes, in the order in which they are tried.
func Classes() []Class { return classes }

// Thresholds between which a share of excess says little on its own. Under a limit of one CPU a server that decodes JSON had 1.0 % at
// GOMAXPROCS 1, 2.7 % at 2 and 12.2 % at 192; two goroutines that only pass a message back and forth had 14.4 %, 17.8 % and 0.3 %. So it is
// a hint, and the same program is the only measure.
const (
	LittleExcess = 0.03
	MuchExcess   = 0.08
)

// A marks says what a function does to the class of a stack: a bit for each class.
type marks struct {
	any, with uint32
	runtime   bool
}

func marksOf(function string) (m marks) {
	name, ok := strings.CutPrefix(function, "runtime.")
	if function == "gcWriteBarrier" { // assembly without a package in its name, in all of Go 1.21 to 1.27
		name, ok = function, true
	}
	if !ok {
		m.runtime = strings.HasPrefix(function, "internal/runtime/") || strings.HasPrefix(function, "runtime/internal/")
		return m
	}
	m.runtime = name != "_ExternalCode" && name != "_LostExternalCode" // that is C, or anything else that is linked
	for i, c := range classes {
		set := func(bits *uint32, names []string) {
			if among(name, names) {
				*bits |= 1 << i
			}
		}
		set(&m.any, c.any)
		set(&m.with, c.with)
	}
	return m
}

// among reports whether a name is in a list. A closure belongs to the function that it is in.
func among(name string, names []string) bool {
	for _, n := range names {
		prefix, open := strings.CutSuffix(n, "*")
		rest, ok := strings.CutPrefix(name, prefix)
		if ok && (open || rest == "" || rest[0] == '.') {
			return true
		}
	}
	return false
}

// A stack is what is known of one, from its root up to a function.
type stack struct {
	any, with uint32
	own       bool // there is a frame that is not the runtime's
}

func (s stack) add(m marks) stack {
	return stack{s.any | m.any, s.with | m.with, s.own || !m.runtime}
}

// class is its place in classes.
func (s stack) class() int {
	for i, c := range classes {
		bit := uint32(1) << i
		if s.any&bit != 0 && (c.with == nil || s.with&bit != 0) {
			return i
		}
	}
	if s.own {
		return program
	}
	return other
}
