package unthrottle

import (
	"errors"
	"runtime"
	"sync"
)

// procs is GOMAXPROCS as this package steers it. There is only one GOMAXPROCS, so there is only one of these.
var procs struct {
	sync.Mutex
	left    int        // GOMAXPROCS when this package last looked at it; 0: not known
	lowered int        // a number that the program has set itself, below the wanted one; 0: none
	sets    []*applied // Sets that have changed it and have not been undone, oldest first
	watches []*watcher // in the order in which they began: the last one sets it
}

// An applied is what undo needs to know of a Set.
type applied struct {
	before   int
	runtimes bool // before was the runtime's own choice
}

// holds reports whether d asks for the GOMAXPROCS that is already set.
func (d *Decision) holds(procs int) bool {
	return d.Procs == 0 || d.Procs == procs || d.By == ByEnvironment
}

// set puts d into effect and returns what undoes that.
func (d *Decision) set() (undo func()) {
	procs.Lock()
	defer procs.Unlock()
	runtimes := d.apply()
	if !d.Changed {
		return func() {}
	}
	s := &applied{d.Before, runtimes}
	procs.sets = append(procs.sets, s)
	var once sync.Once
	return func() { once.Do(s.undo) }
}

// undo restores GOMAXPROCS, to a number or to the runtime's own choice. If a newer Set is in force, that one stays, and later restores what
// this one would have.
func (s *applied) undo() {
	procs.Lock()
	defer procs.Unlock()
	for i, at := range procs.sets {
		if at != s {
			continue
		}
		procs.sets = append(procs.sets[:i:i], procs.sets[i+1:]...)
		if i < len(procs.sets) {
			*procs.sets[i] = *s
			return
		}
	}
	if !s.runtimes || setDefault() == 0 {
		runtime.GOMAXPROCS(s.before)
	}
	procs.left = 0
}

func begin(w *watcher) {
	procs.Lock()
	defer procs.Unlock()
	procs.watches = append(procs.watches, w)
}

func end(w *watcher) {
	procs.Lock()
	defer procs.Unlock()
	for i, at := range procs.watches {
		if at == w {
			procs.watches = append(procs.watches[:i:i], procs.watches[i+1:]...)
			return
		}
	}
}

var errNotLeading = errors.New("another Watch, which began later, sets GOMAXPROCS")

// lead puts d into effect if w is the Watch that does so.
func (d *Decision) lead(w *watcher) {
	procs.Lock()
	defer procs.Unlock()
	if n := len(procs.watches); procs.watches[n-1] == w {
		d.apply()
		return
	}
	d.Before = runtime.GOMAXPROCS(0)
	d.Now = d.Before
	d.Warnings = append(d.Warnings[:len(d.Warnings):len(d.Warnings)], errNotLeading)
}

// apply puts d into effect, notes in d what that took, and keeps it for Last. d must not change afterwards. The caller holds the lock.
//
// It asks the runtime for its own choice before it sets another. That shows whether the runtime had chosen the number
// that was there, which is what apply returns; and if its choice is the wanted one, its automatic updates stay on or
// come back. A lower number that is neither the runtime's nor ours is the program's, and stays.
func (d *Decision) apply() (runtimes bool) {
	d.Before = runtime.GOMAXPROCS(0)
	since := d.Before != procs.left // someone else has set it
	if since {
		procs.lowered = 0
	}
	if !d.holds(d.Before) && !d.yields() {
		runtimes = isDefault(d.Before, setDefault())
		if since && !runtimes && d.Before < d.Procs {
			procs.lowered = d.Before
			d.yields()
		}
		if d.Changed = d.Procs != d.Before; runtime.GOMAXPROCS(0) != d.Procs {
			runtime.GOMAXPROCS(d.Procs)
		}
	}
	if d.Now = runtime.GOMAXPROCS(0); d.Procs > 0 {
		procs.left = d.Now
	}
	last.Store(d)
	return runtimes
}

// yields makes d the number to which the program has lowered GOMAXPROCS, if d is above that, and reports whether there is
// nothing left to do.
func (d *Decision) yields() bool {
	if procs.lowered == 0 || d.Procs <= procs.lowered {
		return false
	}
	d.take(ByProgram, procs.lowered)
	return d.Before == procs.lowered
}

// isDefault reports whether the runtime itself would have chosen a number: its choice is n, or 0 where it can't be asked, and
// then it was the number of CPUs.
func isDefault(number, n int) bool {
	return number == n || n == 0 && number == runtime.NumCPU()
}
