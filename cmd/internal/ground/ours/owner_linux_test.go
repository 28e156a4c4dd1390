package ours

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAbandoned distinguishes our own groups from other users', and a dead owner's from a living one's.
func TestAbandoned(t *testing.T) {
	const prefix = "unthrottle-run-"
	own := Name(prefix)
	part := strings.Split(own, "-")
	other := func(i int, text string) string {
		p := slices.Clone(part)
		p[i] = text
		return strings.Join(p, "-")
	}
	if StartTime(os.Getpid()) == "" || pidNamespace() == "" {
		t.Fatalf("this process has the name %q", own)
	}
	for name, want := range map[string]bool{
		own:                         false,
		other(4, "1"):               true, // the same number, started at another time
		other(3, "999999999"):       true, // no such process
		other(2, "1"):               false,
		other(3, "x"):               false,
		"unthrottle-run-":           false,
		"unthrottle-run-1-2-3":      false,
		"docker-" + own:             false,
		fmt.Sprintf("%s-more", own): false,
	} {
		if got := Abandoned(prefix, name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

// TestTempDir: a directory that a killed process has left is removed by the next command, one of a living process is not.
func TestTempDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	living := filepath.Join(os.TempDir(), Name(tempPrefix+"bench-"))
	part := strings.Split(filepath.Base(living), "-")
	part[4] = "999999999" // no such process
	dead := filepath.Join(os.TempDir(), strings.Join(part, "-"))
	for _, dir := range []string{living, dead} {
		if err := os.MkdirAll(filepath.Join(dir, "cache"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dir, remove, err := TempDir("bench")
	if err != nil {
		t.Fatal(err)
	}
	file, err := TempFile("trace")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	SweepTemp()
	for path, want := range map[string]bool{living: true, dead: false, dir: true, file.Name(): true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", path, err, want)
		}
	}
	remove()
	if _, err := os.Stat(dir); err == nil {
		t.Error("it is not removed")
	}
}
