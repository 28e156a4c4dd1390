package emulate

import "time"

// ledger adds up the CPU time of a tree of processes, of which some come and go between two looks. It is pure.
//
// A process has a clock of its own, in nanoseconds. The time of children that it has waited for is added to its reaped time: that is how
// children count that were never seen. Those that were seen would count twice, so what is expected there is noted as owed.
type ledger struct {
	used  time.Duration // never falls
	procs map[int]*entry
}

type entry struct {
	parent int
	clock  time.Duration
	reaped time.Duration
	owed   time.Duration // counted already, and to come once more as reaped time
}

// unseen is what reaped time may lack: user and system time are each cut to whole ticks.
const unseen = 2 * userTick

func newLedger() *ledger { return &ledger{procs: map[int]*entry{}} }

// join notes a process. All that it used is new.
func (l *ledger) join(pid, parent int) {
	l.procs[pid] = &entry{parent: parent}
}

// clock notes what a process used itself.
func (l *ledger) clock(pid int, t time.Duration) {
	if e := l.procs[pid]; e != nil && t > e.clock {
		l.used += t - e.clock
		e.clock = t
	}
}

// reaped notes what its children used that it has waited for. Those that have gone must have been noted before.
func (l *ledger) reaped(pid, parent int, t time.Duration) {
	e := l.procs[pid]
	if e == nil {
		return
	}
	e.parent = parent
	if t <= e.reaped {
		return
	}
	more := t - e.reaped
	e.reaped = t
	known := min(more, e.owed)
	e.owed -= known
	l.used += more - known
}

// gone notes that a process no longer exists. Its parent has waited for it, or its time is not counted there: a parent may ignore SIGCHLD,
// and then nothing comes.
func (l *ledger) gone(pid int) {
	e := l.procs[pid]
	if e == nil {
		return
	}
	delete(l.procs, pid)
	if p := l.procs[e.parent]; p != nil {
		p.owed += e.clock + e.reaped + min(e.owed, unseen)
	}
}

// clockOf is the clock as last noted.
func (l *ledger) clockOf(pid int) time.Duration {
	if e := l.procs[pid]; e != nil {
		return e.clock
	}
	return 0
}

// parents are the processes that have children.
func (l *ledger) parents() map[int]bool {
	set := map[int]bool{}
	for _, e := range l.procs {
		set[e.parent] = true
	}
	return set
}
