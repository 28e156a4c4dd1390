package choice

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle"
)

// goVersions are the runtimes whose answers are recorded, the first of them also that of the program with automaxprocs.
var goVersions = []string{"go1.24.13", "go1.25.14", "go1.26.11", "go1.27.3"}

// TestReal compares the models of other projects' rules with what real programs did in the same trees: testdata/real.txt, which TestRecord
// makes.
func TestReal(t *testing.T) {
	text, err := os.ReadFile("testdata/real.txt")
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string][][]string{}
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
			recorded[f[0]] = append(recorded[f[0]], f[1:])
		}
	}
	agree := map[string]int{}
	all := layouts(t)
	for _, l := range all {
		t.Run(l.name, func(t *testing.T) {
			if len(recorded[l.name]) == 0 {
				t.Fatal("no real answers: run TestRecord")
			}
			s := ReadSystem(l.lay(t), l.pid, unthrottle.Go)
			bad := map[string]bool{}
			for _, f := range recorded[l.name] {
				cpus, _ := strconv.Atoi(f[0])
				s.Limits.Affinity = cpus
				for i, rule := range []Rule{Go124, Go125, Go126, Go126} {
					if got := word(s.Of(rule).Procs); got != f[1+i] {
						t.Errorf("%d CPUs, %s: model %s, real %s", cpus, goVersions[i], got, f[1+i])
						bad[goVersions[i]] = true
					}
				}
				if got := s.automaxprocsWord(); got != f[5] && f[5] != "-" {
					t.Errorf("%d CPUs, automaxprocs: model %s, real %s", cpus, got, f[5])
					bad["automaxprocs"] = true
				}
			}
			for _, name := range append([]string{"automaxprocs"}, goVersions...) {
				if !bad[name] {
					agree[name]++
				}
			}
		})
	}
	for _, name := range append(goVersions, "automaxprocs") {
		t.Logf("%s: the model agrees in %d of %d layouts", name, agree[name], len(all))
	}
}

// word is a number as TestRecord writes it.
func word(procs int) string {
	if procs == 0 {
		return "crash"
	}
	return strconv.Itoa(procs)
}

// automaxprocsWord is the model's answer as the recorded program prints it.
func (s System) automaxprocsWord() string {
	b := s.automaxprocs()
	switch {
	case strings.HasPrefix(b.why, "it fails"):
		return "error"
	case !b.limited:
		return "none"
	}
	return strconv.Itoa(s.Of(Automaxprocs).Procs)
}
