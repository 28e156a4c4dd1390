//go:build linux

package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
)

// chains are limits from the top group down to the process's own.
var chains = []struct {
	name   string
	limits []string // "-": the group has no cpu controller
	state  cgroup.State
	cpus   float64
	from   int // which group sets it
	procs  int // what the policies want on a machine with CPUs to spare; 0: all CPUs
	floor  int
}{
	{"half a CPU", []string{"50000 100000"}, cgroup.Limited, 0.5, 0, 2, 1},
	{"one and a half", []string{"150000 100000"}, cgroup.Limited, 1.5, 0, 2, 1},
	{"three", []string{"300000 100000"}, cgroup.Limited, 3, 0, 3, 3},
	{"another period", []string{"62500 25000"}, cgroup.Limited, 2.5, 0, 3, 2},
	{"a hair over two", []string{"200010 100000"}, cgroup.Limited, 2.0001, 0, 2, 2},
	{"more than there are", []string{"6400000 100000"}, cgroup.Limited, 64, 0, 64, 64},
	{"none", []string{"max"}, cgroup.None, 0, 0, 0, 0},
	{"none at any level", []string{"max", "max", "max"}, cgroup.None, 0, 0, 0, 0},
	{"own is tighter", []string{"400000 100000", "250000 100000"}, cgroup.Limited, 2.5, 1, 3, 2},
	{"parent is tighter", []string{"200000 100000", "300000 100000"}, cgroup.Limited, 2, 0, 2, 2},
	{"child far above the parent", []string{"150000 100000", "1600000 100000"}, cgroup.Limited, 1.5, 0, 2, 1},
	{"equal", []string{"200000 100000", "100000 50000"}, cgroup.Limited, 2, 1, 2, 2},
	{"grandparent only", []string{"250000 100000", "max", "max"}, cgroup.Limited, 2.5, 0, 3, 2},
	{"in the middle", []string{"max", "250000 100000", "max"}, cgroup.Limited, 2.5, 1, 3, 2},
	{"no controller, limited parent", []string{"250000 100000", "-"}, cgroup.Limited, 2.5, 0, 3, 2},
	{"no controller twice", []string{"250000 100000", "-", "-"}, cgroup.Limited, 2.5, 0, 3, 2},
	{"no controller, no limit", []string{"max", "-"}, cgroup.None, 0, 0, 0, 0},
	{"no controller at all", []string{"-", "-"}, cgroup.None, 0, 0, 0, 0},
}

func TestLimits(t *testing.T) {
	needVM(t)
	for _, c := range chains {
		t.Run(c.name, func(t *testing.T) {
			groups := makeChain(t, c.limits)
			from := ""
			if c.state == cgroup.Limited {
				from = groups[c.from].dir
			}
			a := groups[len(groups)-1].start()
			inside := a.do("look").Seen
			checkLimits(t, "from inside", inside, c.state, c.cpus, from)
			checkLevels(t, inside, groups, c.limits)
			checkLimits(t, "from outside", look(a.pid), c.state, c.cpus, from)

			l := cgroup.Read(cgroup.Source{PID: a.pid})
			if got, want := unthrottle.Decide(l, unthrottle.Go).Procs, atMostCPUs(c.procs); got != want {
				t.Errorf("policy go decides %d, want %d", got, want)
			}
			if got, want := unthrottle.Decide(l, unthrottle.Floor).Procs, atMostCPUs(c.floor); got != want {
				t.Errorf("policy floor decides %d, want %d", got, want)
			}
			if got, want := a.ask(request{Op: "set", Policy: "go"}).Procs, atMostCPUs(c.procs); got != want {
				t.Errorf("after Set GOMAXPROCS is %d, want %d", got, want)
			}
			if got, want := a.ask(request{Op: "set", Policy: "floor"}).Procs, atMostCPUs(c.floor); got != want {
				t.Errorf("after Set with policy floor GOMAXPROCS is %d, want %d", got, want)
			}
		})
	}
}

// makeChain makes groups, each in the one before, the first below the test's own.
func makeChain(t *testing.T, limits []string) []group {
	t.Helper()
	var groups []group
	at := newGroup(t)
	for i, limit := range limits {
		name := fmt.Sprint("level", i)
		if limit == "-" {
			at = at.bareChild(name)
			if at.has("cpu.max") {
				t.Fatalf("%s has a cpu.max", at.dir)
			}
		} else {
			at = at.child(name)
			at.limit(limit)
		}
		groups = append(groups, at)
	}
	return groups
}

// atMostCPUs is n, or all CPUs of the machine if it has fewer or n is 0.
func atMostCPUs(n int) int {
	if n == 0 {
		return runtime.NumCPU()
	}
	return min(n, runtime.NumCPU())
}

func checkLimits(t *testing.T, what string, got view, state cgroup.State, cpus float64, from string) {
	t.Helper()
	if got.State != state.String() || got.CPUs != cpus || got.From != from || got.Version != cgroup.V2 ||
		got.Affinity != runtime.NumCPU() || len(got.Warnings) > 0 || got.Reason != "" {
		t.Errorf("%s: got %s\nwant state %v, %v CPUs from %q, version v2, affinity %d, no warning",
			what, dump(got), state, cpus, from, runtime.NumCPU())
	}
}

// checkLevels checks that every level from the process's own up to the root is there with what its files say.
func checkLevels(t *testing.T, got view, groups []group, limits []string) {
	t.Helper()
	type line struct{ dir, limit string }
	var want, have []line
	for i := len(groups) - 1; i >= 0; i-- {
		want = append(want, line{groups[i].dir, strings.Replace(limits[i], "-", "max", 1)})
	}
	top := cgroupRoot + "/" + strings.Split(groups[0].dir, "/")[4]
	want = append(want, line{top, "max"}, line{cgroupRoot, "max"})
	for _, l := range got.Levels {
		limit := "max"
		if l.Quota != (cgroup.Quota{}) {
			limit = fmt.Sprint(l.Quota.QuotaMicros, " ", l.Quota.PeriodMicros)
		}
		have = append(have, line{l.Dir, limit})
	}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("levels are %v, want %v", have, want)
	}
}

// A process that has ended but has not been waited for is still in its cgroup: the kernel names it until the end, and most other files of
// the process are gone.
func TestZombie(t *testing.T) {
	g := newGroup(t).child("own")
	g.limit("150000 100000")
	a := g.start()
	a.zombie()
	checkLimits(t, "of a zombie", look(a.pid), cgroup.Limited, 1.5, g.dir)
}

// Zombies do not keep a cgroup from being removed. This is the only process of
// version 2 whose cgroup can be gone: a live one keeps its group.
func TestZombieInRemovedGroup(t *testing.T) {
	parent := newGroup(t).child("parent")
	parent.limit("150000 100000")
	g := parent.child("own")
	a := g.start()
	a.zombie()
	g.remove() // not at once: the first thread can be a zombie before the others have ended
	v := look(a.pid)
	if v.State != "limited" || v.CPUs != 1.5 || v.From != parent.dir {
		t.Errorf("got %s\nwant the limit of %s, 1.5 CPUs", dump(v), parent.dir)
	}
	path := strings.TrimPrefix(g.dir, cgroupRoot)
	if len(v.Warnings) != 1 || !strings.Contains(v.Warnings[0], path) {
		t.Errorf("warnings are %q, want one about %s", v.Warnings, path)
	}
}

func TestNoSuchProcess(t *testing.T) {
	g := newGroup(t).child("own")
	a := g.start()
	a.stop()
	l := cgroup.Read(cgroup.Source{PID: a.pid})
	if l.State != cgroup.Unknown || l.CPUs != 0 || !errors.Is(l.Reason, fs.ErrNotExist) {
		t.Errorf("got %s, want unknown, because a file does not exist", dump(viewOf(l)))
	}
	th := cgroup.ReadThrottling(cgroup.Source{PID: a.pid}, l)
	if th.Own.Known || th.Owner.Known || th.LocalKnown {
		t.Errorf("counters of a process that is gone: %s", dump(th))
	}
}

// The root of cgroup v2 has no cpu.max at all.
func TestRootGroup(t *testing.T) {
	needVM(t)
	v := look(0)
	checkLimits(t, "in the root", v, cgroup.None, 0, "")
	if len(v.Levels) != 1 || v.Levels[0].Dir != cgroupRoot {
		t.Errorf("levels are %+v, want %s alone", v.Levels, cgroupRoot)
	}
}
