package main

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// TestImport checks what importing auto adds to a program: nothing that auto does not use, less at each start than automaxprocs takes
// there, and not much more file size. Times are measured by the command; counts are the same each time.
func TestImport(t *testing.T) {
	dir := t.TempDir()
	byName := map[string]program{}
	inits := map[string]map[string]int{} // allocations of each package's initialisation
	for _, name := range names {
		p, err := build(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		byName[name], inits[name] = p, initsOf(t, p.linked)
	}
	for path := range inits["unthrottle"] {
		if _, plain := inits["plain"][path]; !plain && !regexp.MustCompile(`^github\.com/unthrottle/unthrottle(/(auto|cgroup|internal/.*))?$`).MatchString(path) {
			t.Errorf("importing auto initialises %s", path)
		}
	}
	const theirs, ours = "go.uber.org/automaxprocs", "github.com/unthrottle/unthrottle/auto"
	if a, b := inits["unthrottle"][ours], inits["automaxprocs"][theirs]; a == 0 || b == 0 || a*5 > b {
		t.Errorf("auto allocates %d times at the start, automaxprocs %d times", a, b)
	}
	added := func(name string) int64 { return byName[name].size.sections - byName["plain"].size.sections }
	t.Logf("added to the sections: %d bytes, by automaxprocs %d", added("unthrottle"), added("automaxprocs"))
	if a, b := added("unthrottle"), added("automaxprocs"); b <= 0 || a*2 > b*3 {
		t.Errorf("auto adds %d bytes, automaxprocs %d", a, b)
	}
}

var initLine = regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) allocs$`)

func initsOf(t *testing.T, path string) map[string]int {
	t.Helper()
	cmd := exec.Command(path)
	cmd.Env = []string{"GODEBUG=inittrace=1"} // with a GOMAXPROCS automaxprocs has nothing to do
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	all := map[string]int{}
	for _, m := range initLine.FindAllStringSubmatch(string(out), -1) {
		all[m[1]], _ = strconv.Atoi(m[2])
	}
	return all
}
