package service

import (
	"bytes"
	"sync"
)

// A tail keeps the last lines of what is written to it, and signals when one has matched.
type tail struct {
	matches func([]byte) bool
	matched chan struct{}     // closed then
	each    func([]byte) bool // takes lines that were asked for: they are not kept; nil: none

	mu    sync.Mutex
	lines []string
	open  []byte // a line that is not complete
	found bool
}

// How much is kept.
const (
	maxLines = 20
	maxLine  = 1000 // bytes
)

func newTail(matches, each func([]byte) bool) *tail {
	return &tail{matches: matches, matched: make(chan struct{}), each: each}
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if room := maxLine - len(t.open); room > 0 {
			t.open = append(t.open, line[:min(room, len(line))]...)
		}
		if t.look(); whole {
			if t.each == nil || !t.each(t.open) {
				t.lines = append(t.lines, string(bytes.TrimSuffix(t.open, []byte("\r"))))
			}
			t.open = t.open[:0]
			if len(t.lines) > maxLines {
				t.lines = append(t.lines[:0], t.lines[1:]...)
			}
		}
		rest = after
	}
	return len(p), nil
}

// look also sees a line that is not complete: a prompt, say.
func (t *tail) look() {
	if !t.found && len(t.open) > 0 && t.matches(t.open) {
		t.found = true
		close(t.matched)
	}
}

func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := append([]string{}, t.lines...)
	if len(t.open) > 0 {
		lines = append(lines, string(t.open))
	}
	return lines
}
