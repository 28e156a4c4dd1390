package procs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/internal/foreign"
)

// fileOf is the identity of a file of its own.
func fileOf(t *testing.T, dir string, size int) FileID {
	t.Helper()
	path := filepath.Join(dir, strings.Repeat("x", size))
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := foreign.Look("", path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return f.ID
}

func TestMemo(t *testing.T) {
	var m Memo[string]
	dir := t.TempDir()
	a, b := fileOf(t, dir, 1), fileOf(t, dir, 2)
	left, taken := m.Draft(), m.Draft()
	left.Put(a, "of one who was left behind")
	taken.Put(b, "b")
	m.Take(taken)
	if _, ok := m.Draft().Get(a); ok {
		t.Error("a draft that nobody took is remembered")
	}
	m.Forget()
	d := m.Draft()
	if v, ok := d.Get(b); !ok || v != "b" {
		t.Errorf("b is %q, %v", v, ok)
	}
	m.Take(d)
	m.Forget()
	if _, ok := m.Draft().Get(b); !ok {
		t.Error("what was asked for is forgotten")
	}
	m.Forget()
	if _, ok := m.Draft().Get(b); ok {
		t.Error("what nobody asked for is remembered")
	}
	all := Memo[string]{most: 1}
	all.Keep(a, "")
	all.Keep(b, "")
	all.Keep(a, "")
	if n := all.Len(); n != 1 {
		t.Errorf("%d are remembered", n)
	}
}
