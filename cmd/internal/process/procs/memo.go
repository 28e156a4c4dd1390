package procs

import (
	"cmp"
	"sync"
)

// maxMemo is how many files are remembered. A node with 1,000 Go programs has some hundreds of them, and some thousands of libraries
// that other programs have mapped.
const maxMemo = 1 << 14

// A Memo remembers what was read of files, for as long as someone asks for them between two calls of Forget. What is remembered no longer
// changes, so several goroutines may read and add at a time, and one that was left behind in the kernel may add late. The zero value
// remembers nothing yet.
type Memo[V any] struct {
	mu     sync.Mutex
	known  map[FileID]V
	before map[FileID]V // what was known when Forget was called
	most   int          // 0: maxMemo
}

// Forget drops the files that were not asked for since it was last called.
func (m *Memo[V]) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before, m.known = m.known, nil
}

// Keep remembers a file. Where too many are, it will be read again.
func (m *Memo[V]) Keep(id FileID, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep(id, v)
}

func (m *Memo[V]) keep(id FileID, v V) {
	if m.known == nil {
		m.known = map[FileID]V{}
	}
	if _, ok := m.known[id]; ok || len(m.known) < cmp.Or(m.most, maxMemo) {
		m.known[id] = v
	}
}

// Get returns what is remembered of a file.
func (m *Memo[V]) Get(id FileID) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.known[id]
	if !ok {
		if v, ok = m.before[id]; ok {
			m.keep(id, v)
		}
	}
	return v, ok
}

// Len is how many files were asked for since Forget was called.
func (m *Memo[V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.known)
}
