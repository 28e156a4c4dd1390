// Package collected answers: when has the garbage collector run? Without a goroutine, so that an idle program stays idle.
package collected

import "runtime"

// A sentinel is garbage from the beginning, so that its finalizer runs once after each collection. It holds a pointer
// because the smallest objects without one share a block with others, and their finalizers may never run.
//
// Not taken: a goroutine with a ticker, which wakes an idle program, and is late by thousands of collections when it
// is needed most. A finalizer is late only if another one blocks.
type sentinel struct {
	self *byte
	step func() bool
}

// Each calls step after each collection, until it returns false. It runs among the program's other finalizers, so it must not take long.
func Each(step func() bool) {
	runtime.SetFinalizer(&sentinel{new(byte), step}, after)
}

func after(s *sentinel) {
	if s.step() {
		runtime.SetFinalizer(s, after)
	}
}
