package cgroup

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestSelfAll: it returns what the functions that it replaces return.
func TestSelfAll(t *testing.T) {
	for range make([]int, 2) { // the second time without reading the mounts
		l, m, throttling := SelfAll()
		self, memory := Self(), ReadMemory(Source{})
		if l.State != self.State || l.CPUs != self.CPUs || l.From != self.From || len(l.Levels) != len(self.Levels) || l.Affinity != self.Affinity {
			t.Errorf("%+v, and Self says %+v", l, self)
		}
		if m.State != memory.State || m.Bytes != memory.Bytes || m.From != memory.From {
			t.Errorf("%+v, and ReadMemory says %+v", m, memory)
		}
		all := ReadThrottling(Source{}, *self)
		if throttling.LocalKnown != all.LocalKnown || throttling.Local > all.Local {
			t.Errorf("%+v, and ReadThrottling says %+v", throttling, all)
		}
		if o := throttling.Owner; self.State == Limited && (o.Known != all.Owner.Known || o.Dir != all.Owner.Dir || o.Periods > all.Owner.Periods) {
			t.Errorf("%+v, and ReadThrottling says %+v", o, all.Owner)
		}
	}
}

// TestMounts: a list of mounts is kept for a minute, and no other file is.
func TestMounts(t *testing.T) {
	var m list
	reads, fails, given := 0, false, "mounts"
	read := func() (string, error) {
		if reads++; fails {
			return "", errors.New("no")
		}
		return given, nil
	}
	look := func(path string, want int) {
		t.Helper()
		before := reads
		text, err := m.lately(remember())(path, read)
		if got := reads - before; got != want || fails != (err != nil) || text == "" != fails {
			t.Errorf("%s: %d reads, not %d: %q, %v", path, got, want, text, err)
		}
	}
	const mounts = "/proc/self/mountinfo"
	look(mounts, 1)
	look(mounts, 0)
	look("/proc/self/cgroup", 1)
	m.read = m.read.Add(-time.Minute)
	look(mounts, 1)
	fails, m.read = true, time.Time{}
	look(mounts, 1)
	fails = false
	look(mounts, 1)
	look(mounts, 0)
	given, m.read = strings.Repeat("mounts ", mostKept/7+1), time.Time{}
	look(mounts, 1)
	look(mounts, 1) // too long to be kept
}
