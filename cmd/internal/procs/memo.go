package procs

import (
	"cmp"
	"sync"
)

// maxMemo is how many files are remembered. A node with 1,000 Go programs has some hundreds of them, and some thousands of libraries
// that other programs have mapped.
const maxMemo = 1 << 14

// A Memo remembers what was read of files, for as long as somebody asks for them between two calls of Forget. What is remembered is not
// changed any more. The zero value remembers nothing yet.
//
// It is written by its owner alone: who reads a file where he may be left behind notes what he found in a Draft of his own, and
// nobody takes over that of one who did not come back.
type Memo[V any] struct {
	mu     sync.Mutex
	known  map[FileID]V
	before map[FileID]V // what was known when Forget was called
	most   int          // 0: maxMemo
}

// Forget drops the files that nobody asked for since it was called last.
func (m *Memo[V]) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before, m.known = m.known, nil
}

// Keep remembers a file. Where too many are, it will be read again.
func (m *Memo[V]) Keep(id FileID, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[FileID]V{}
	}
	if _, ok := m.known[id]; ok || len(m.known) < cmp.Or(m.most, maxMemo) {
		m.known[id] = v
	}
}

func (m *Memo[V]) get(id FileID) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.known[id]
	if !ok {
		v, ok = m.before[id]
	}
	return v, ok
}

// Len is how many files somebody asked for since Forget was called.
func (m *Memo[V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.known)
}

// Draft begins to note what is read.
func (m *Memo[V]) Draft() *Draft[V] { return &Draft[V]{memo: m} }

// Take remembers what was noted.
func (m *Memo[V]) Take(d *Draft[V]) {
	for _, n := range d.notes {
		m.Keep(n.id, n.v)
	}
}

// A Draft is what one reader found. It looks up in the Memo, and does not write to it.
type Draft[V any] struct {
	memo  *Memo[V]
	notes []note[V]
}

type note[V any] struct {
	id FileID
	v  V
}

// Get returns what is remembered of a file, and notes that somebody asked for it.
func (d *Draft[V]) Get(id FileID) (V, bool) {
	v, ok := d.memo.get(id)
	if ok {
		d.Put(id, v)
	}
	return v, ok
}

// Put notes what was found.
func (d *Draft[V]) Put(id FileID, v V) { d.notes = append(d.notes, note[V]{id, v}) }
