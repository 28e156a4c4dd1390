package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBenchstat lets benchstat read what bench writes for it, with the command that the documentation names.
func TestBenchstat(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "lab.txt")
	cmd := exec.Command(self, "bench", "fib", "--blocks", "8", "--seed", "1", "--procs", "1,2,4", "-o", file)
	cmd.Env = append(os.Environ(), asFake+"=1", "XDG_CACHE_HOME="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	stat := exec.Command("go", "run", "golang.org/x/perf/cmd/benchstat", "-col", "/gomaxprocs", "-ignore", "/block", file)
	var stderr strings.Builder
	stat.Stderr = &stderr
	out, err := stat.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if stderr.Len() > 0 {
		t.Errorf("benchstat warns: %s", stderr.String())
	}
	for _, want := range []string{"│ ", "ops/s", "vs base", "Fib/limit=1", "p=0.000 n=8", "kernel: 6.1.0"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	// One column each for GOMAXPROCS 1, 2 and 4: the first line of a table names them.
	for _, procs := range []string{" 1 ", " 2 ", " 4 "} {
		if !strings.Contains(string(out), procs) {
			t.Errorf("no column for%sin\n%s", procs, out)
		}
	}
	t.Logf("%s", out)
}
