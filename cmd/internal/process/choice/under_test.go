package choice

import (
	"io/fs"
	"testing"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

func TestUnder(t *testing.T) {
	program := func(version string) procs.Process { return procs.Process{Program: &procs.Program{GoVersion: version}} }
	linked := program("go1.26.0")
	linked.Program.Automaxprocs = procs.Linked
	ours := program("go1.26.0")
	ours.Program.Unthrottle = procs.Linked
	set := program("go1.26.0")
	set.Env = map[string]string{"GOMAXPROCS": "7"}
	for _, c := range []struct {
		name        string
		limit       float64
		p           procs.Process
		procs, byGo int
	}{
		{"Go 1.26", 2.5, program("go1.26.0"), 3, 3},
		{"Go 1.26, below 2", 0.5, program("go1.26.0"), 2, 2},
		{"Go 1.26, more than there are", 20, program("go1.26.0"), 8, 8},
		{"Go 1.26, none", 0, program("go1.26.0"), 8, 8},
		{"Go 1.25", 2.5, program("go1.25.3"), 3, 3},
		{"Go 1.24", 2.5, program("go1.24.3"), 8, 8},
		{"automaxprocs", 2.5, linked, 2, 3},
		{"this library", 2.5, ours, 3, 3},
		{"the environment", 2.5, set, 7, 3},
		{"no Go program", 2.5, procs.Process{ProgramErr: procs.ErrNotGo}, 0, 0},
	} {
		s := Under(c.limit, 8, unthrottle.Go)
		if got := s.Predict(c.p); got.Procs != c.procs {
			t.Errorf("%s: %+v, want %d", c.name, got, c.procs)
		}
		if got := s.GoDefault(c.p); got.Procs != c.byGo {
			t.Errorf("%s: by Go %+v, want %d", c.name, got, c.byGo)
		}
	}
}

// TestHiddenInside: a library that only sees that something throttles it leaves GOMAXPROCS to Go, which may be wrong.
func TestHiddenInside(t *testing.T) {
	for cpus, wrong := range map[int]bool{2: false, 16: true} {
		s := Under(0.5, cpus, unthrottle.Policy{})
		s.Inside = cgroup.Limits{State: cgroup.Hidden, Affinity: cpus, Version: cgroup.V2}
		s.read = func(string) (string, error) { return "", fs.ErrNotExist } // the limit is above what the program can read
		if c := s.Of(Unthrottle); c.Procs != cpus || c.Wrong != wrong || (c.Fix != "") != wrong {
			t.Errorf("%d CPUs: %+v", cpus, c)
		}
	}
}
