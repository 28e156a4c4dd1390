//go:build linux

package guest

import (
	"fmt"
	"runtime"
	"testing"
)

// watchMillis is the interval of Watch in these tests. It is shorter than the
// second that the Go runtime takes between two looks of its own, so that Watch is
// mostly first.
const watchMillis = 100

func lastDecision(r reply) decision {
	if len(r.Decisions) == 0 {
		return decision{}
	}
	return r.Decisions[len(r.Decisions)-1]
}

// expect waits until Watch's last report has the limit and the number, and
// GOMAXPROCS is that.
func (a *agent) expect(state string, cpus float64, from string, procs int) {
	a.t.Helper()
	a.until(fmt.Sprintf("Watch reports %s, %v CPUs from %q, GOMAXPROCS %d", state, cpus, from, procs), func(r reply) bool {
		d := lastDecision(r)
		return d.Seen.State == state && d.Seen.CPUs == cpus && d.Seen.From == from && d.Procs == procs && r.Procs == procs
	})
}

func TestWatchFollowsOwnLimit(t *testing.T) {
	g := newGroup(t).child("own")
	g.limit("300000 100000")
	a := g.start()
	a.ask(request{Op: "watch", N: watchMillis})
	a.expect("limited", 3, g.dir, 3)
	g.limit("150000 100000")
	a.expect("limited", 1.5, g.dir, 2)
	g.limit("400000 100000")
	a.expect("limited", 4, g.dir, 4)
	g.limit("max")
	a.expect("none", 0, "", runtime.NumCPU())
	g.limit("200000 100000")
	a.expect("limited", 2, g.dir, 2)

	// A report for each change, none between.
	if n := len(a.do("look").Decisions); n != 5 {
		t.Errorf("Watch called back %d times, want 5", n)
	}

	// Watch has ended: the runtime follows the process's own group again, since nothing here ever needed a number other than the runtime's
	// own.
	a.do("unwatch")
	g.limit("300000 100000")
	a.untilProcs(3, "the runtime's own update after Watch")
	if n := len(a.do("look").Decisions); n != 5 {
		t.Errorf("Watch called back %d times after its end, want 5", n)
	}
}

func TestWatchFollowsParentLimit(t *testing.T) {
	parent := newGroup(t).child("parent")
	g := parent.child("own")
	g.limit("400000 100000")
	a := g.start()
	a.ask(request{Op: "watch", N: watchMillis})
	a.expect("limited", 4, g.dir, 4)
	parent.limit("300000 100000")
	a.expect("limited", 3, parent.dir, 3)
	parent.limit("150000 100000")
	a.expect("limited", 1.5, parent.dir, 2)
	parent.limit("max")
	a.expect("limited", 4, g.dir, 4)
	g.limit("max")
	a.expect("none", 0, "", runtime.NumCPU())
}

// With policy floor the number is never the runtime's own for a fraction.
func TestWatchFloor(t *testing.T) {
	g := newGroup(t).child("own")
	g.limit("350000 100000")
	a := g.start()
	a.ask(request{Op: "watch", N: watchMillis, Policy: "floor"})
	a.expect("limited", 3.5, g.dir, 3)
	g.limit("150000 100000")
	a.expect("limited", 1.5, g.dir, 1)
	g.limit("max")
	a.expect("none", 0, "", runtime.NumCPU())
}

// The runtime keeps reading the group that the process began in. Watch goes along.
func TestWatchFollowsMove(t *testing.T) {
	top := newGroup(t)
	first, second := top.child("first"), top.child("second")
	first.limit("300000 100000")
	second.limit("200000 100000")
	a := first.start()
	a.ask(request{Op: "watch", N: watchMillis})
	a.expect("limited", 3, first.dir, 3)
	second.move(a)
	a.expect("limited", 2, second.dir, 2)
	second.limit("400000 100000")
	a.expect("limited", 4, second.dir, 4)
	first.move(a)
	a.expect("limited", 3, first.dir, 3)
}

// steady waits until the Go runtime has had time for some looks of its own, and says whether GOMAXPROCS was n at the end. The runtime looks
// once a second at most; a second process, whose GOMAXPROCS nothing else sets, is the clock: when the runtime has followed three changes
// there, it has had its time here as well.
func (a *agent) steady(n int, clock group) {
	a.t.Helper()
	witness := clock.start()
	for _, procs := range []int{3, 2, 3} {
		clock.limit(fmt.Sprint(procs, "00000 100000"))
		for !poll(func() bool {
			a.do("look") // an idle runtime does not look
			return witness.do("look").Procs == procs
		}) {
			a.t.Fatal("the runtime of the witness does not follow its limit")
		}
	}
	if got := a.do("look").Procs; got != n {
		a.t.Errorf("after a while GOMAXPROCS is %d, want %d", got, n)
	}
}

// The parent's limit and the group's own give the same number, so the runtime's own answer is right and stays in force. Then the group's
// own limit goes up. The runtime follows that and knows nothing of the parent; Watch must bring it back.
func TestWatchHoldsParentLimitAgainstRuntime(t *testing.T) {
	top := newGroup(t)
	parent, clock := top.child("parent"), top.child("clock")
	g := parent.child("own")
	parent.limit("200000 100000")
	g.limit("150000 100000")
	a := g.start()
	a.ask(request{Op: "watch", N: watchMillis})
	a.expect("limited", 1.5, g.dir, 2)
	g.limit("400000 100000")
	a.until("Watch names the parent", func(r reply) bool { return lastDecision(r).Seen.From == parent.dir })
	a.steady(2, clock)
}

// The same after a move: both groups give the same number, so Watch has nothing to
// change, and then the limit of the group that was left behind goes up.
func TestWatchHoldsAfterMoveAgainstRuntime(t *testing.T) {
	top := newGroup(t)
	first, second, clock := top.child("first"), top.child("second"), top.child("clock")
	first.limit("200000 100000")
	second.limit("200000 100000")
	a := first.start()
	a.ask(request{Op: "watch", N: watchMillis})
	a.expect("limited", 2, first.dir, 2)
	second.move(a)
	a.expect("limited", 2, second.dir, 2)
	first.limit("400000 100000")
	a.steady(2, clock)
}

// When the runtime's answer is right already, Set touches nothing, and the runtime goes on following its own group without Watch.
func TestSetLeavesRuntimeUpdates(t *testing.T) {
	g := newGroup(t).child("own")
	g.limit("300000 100000")
	a := g.start()
	if n := a.do("look").Procs; n != 3 {
		t.Fatalf("the runtime begins with %d, want 3", n)
	}
	if n := a.ask(request{Op: "set", Policy: "go"}).Procs; n != 3 {
		t.Fatalf("after Set GOMAXPROCS is %d, want 3", n)
	}
	g.limit("200000 100000")
	a.untilProcs(2, "the runtime's own update after Set")
	g.limit("max")
	a.untilProcs(runtime.NumCPU(), "the runtime's own update after Set")
}

// Set had to change GOMAXPROCS, because the limit is the parent's. Undo hands it back to the runtime, which then follows its own group
// again.
func TestUndoBringsRuntimeUpdatesBack(t *testing.T) {
	parent := newGroup(t).child("parent")
	parent.limit("200000 100000")
	g := parent.child("own")
	g.limit("300000 100000")
	a := g.start()
	if n := a.do("look").Procs; n != 3 {
		t.Fatalf("the runtime begins with %d, want 3, the own limit", n)
	}
	if n := a.ask(request{Op: "set", Policy: "go"}).Procs; n != 2 {
		t.Fatalf("after Set GOMAXPROCS is %d, want 2, the parent's limit", n)
	}
	if n := a.do("undo").Procs; n != 3 {
		t.Fatalf("after undo GOMAXPROCS is %d, want 3", n)
	}
	g.limit("400000 100000")
	a.untilProcs(4, "the runtime's own update after undo")
	g.limit("150000 100000")
	a.untilProcs(2, "the runtime's own update after undo")
}
