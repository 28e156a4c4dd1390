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
	m.Keep(b, "b")
	if _, ok := m.Get(a); ok {
		t.Error("what nobody told is remembered")
	}
	m.Forget()
	if v, ok := m.Get(b); !ok || v != "b" {
		t.Errorf("b is %q, %v", v, ok)
	}
	m.Forget()
	if _, ok := m.Get(b); !ok {
		t.Error("what was asked for is forgotten")
	}
	m.Forget()
	m.Forget()
	if _, ok := m.Get(b); ok {
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
