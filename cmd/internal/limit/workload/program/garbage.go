package program

import (
	"fmt"
	"sync"
)

// garbageDepth gives trees of 4095 nodes, 32 bytes each: 131 KB.
const garbageDepth = 12

// A tree is a linked structure for the collector to follow.
type tree struct {
	left, right *tree
	value       int64
	weight      int64
}

func newTree(depth int, value int64) *tree {
	t := &tree{value: value, weight: 1}
	if depth > 1 {
		t.left, t.right = newTree(depth-1, value), newTree(depth-1, value)
		t.weight += t.left.weight + t.right.weight
	}
	return t
}

func (t *tree) sum() int64 {
	if t == nil {
		return 0
	}
	return t.value + t.left.sum() + t.right.sum()
}

// A forest is the live heap: 16 MB of trees at the default size, so that the process stays below 64 MB. It is the same for any number of
// workers.
type forest []struct {
	sync.Mutex
	tree *tree
}

// replace grows a new tree where an old one stands, and counts the old one to see that it is whole.
func (f forest) replace(i int64) error {
	slot := &f[i%int64(len(f))]
	grown := newTree(garbageDepth, i)
	slot.Lock()
	old := slot.tree
	slot.tree = grown
	slot.Unlock()
	if got, want := old.sum(), old.value*old.weight; old.weight != 1<<garbageDepth-1 || got != want {
		return fmt.Errorf("a tree of %d nodes sums to %d, want %d", old.weight, got, want)
	}
	return nil
}

// runGarbage measures an allocating program with a heap of linked structures. The operations are spread over workers, a
// goroutine for each P, as in golang.org/x/benchmarks.
func runGarbage(o options) (Result, error) {
	f := make(forest, o.size)
	for i := range f {
		f[i].tree = newTree(garbageDepth, int64(i))
	}
	return measure(workers(), o.window, func(_ int, i int64) error { return f.replace(i) })
}
