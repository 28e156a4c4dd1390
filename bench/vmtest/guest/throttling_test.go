//go:build linux

package guest

import (
	"path/filepath"
	"testing"
)

// localFile came with Linux 6.6.
const localFile = "cpu.stat.local"

const noLocalFile = "this kernel has no cpu.stat.local (it came with 6.6)"

// burn lets the agent use CPU time until the counters are ok.
func burn(a *agent, what string, ok func(view) bool) view {
	a.t.Helper()
	a.ask(request{Op: "spin", N: 2})
	v := a.until(what, func(r reply) bool { return ok(r.Seen) }).Seen
	a.do("rest")
	return v
}

func TestThrottlingOwn(t *testing.T) {
	g := newGroup(t).child("own")
	g.limit("50000 100000")
	a := g.start()
	before := a.do("look").Seen.Throttling
	if !before.Own.Known || !before.Owner.Known {
		t.Fatalf("counters are not known: %s", dump(before))
	}
	v := burn(a, "the own group has been throttled", func(v view) bool {
		return v.Throttling.Own.Throttled >= before.Own.Throttled+3
	})
	checkOwner(t, v, g)
	if v.Throttling.Own != v.Throttling.Owner {
		t.Errorf("own and owner differ: %s", dump(v.Throttling))
	}
	// What the agent saw at the end, seen from outside: the counters never go down.
	if out := look(a.pid).Throttling; out.Own.Throttled < v.Throttling.Own.Throttled || out.Own.Dir != g.dir {
		t.Errorf("from outside the counters are %s, from inside they were %s", dump(out), dump(v.Throttling))
	}
}

// The quota is the parent's, so the parent counts. The process's own group has a controller, and counts nothing.
func TestThrottlingParent(t *testing.T) {
	parent := newGroup(t).child("parent")
	parent.limit("50000 100000")
	g := parent.child("own")
	a := g.start()
	v := burn(a, "the parent has been throttled", func(v view) bool { return v.Throttling.Owner.Throttled >= 3 })
	checkOwner(t, v, parent)
	own := v.Throttling.Own
	if own.Dir != g.dir || !own.Known || own.Throttled != 0 || own.Periods != 0 {
		t.Errorf("own counters are %+v, want zeros of %s", own, g.dir)
	}

	t.Run("local", func(t *testing.T) {
		if !g.has(localFile) {
			if v.Throttling.LocalKnown {
				t.Error("the local time is known without its file")
			}
			t.Skip(noLocalFile)
		}
		if v.Throttling.Local == 0 {
			v = burn(a, "the local time grows", func(v view) bool { return v.Throttling.Local > 0 })
		}
		if !v.Throttling.LocalKnown {
			t.Error("the local time is not known")
		}
		if v.State != "limited" {
			t.Errorf("state is %s, want limited: the parent is visible", v.State)
		}
	})
}

// Without the controller a group has usage in cpu.stat and no periods: that is not
// known, not zero.
func TestThrottlingWithoutController(t *testing.T) {
	parent := newGroup(t).child("parent")
	parent.limit("50000 100000")
	g := parent.bareChild("own")
	v := burn(g.start(), "the parent has been throttled", func(v view) bool { return v.Throttling.Owner.Throttled >= 3 })
	checkOwner(t, v, parent)
	if v.Throttling.Own.Known {
		t.Errorf("own counters are %+v, want unknown", v.Throttling.Own)
	}
}

func TestThrottlingNone(t *testing.T) {
	g := newGroup(t).child("own")
	a := g.start()
	before := look(a.pid).Throttling
	burn(a, "anything", func(view) bool { return true })
	after := look(a.pid).Throttling
	if after.Own.Throttled != 0 || after.Owner.Throttled != 0 || after.Local != before.Local {
		t.Errorf("an unlimited group is throttled: %s", dump(after))
	}
}

// checkOwner checks that the counters are those of the group with the quota.
func checkOwner(t *testing.T, v view, owner group) {
	t.Helper()
	c := v.Throttling.Owner
	if v.State != "limited" || v.CPUs != 0.5 || v.From != owner.dir {
		t.Errorf("limit is %s, %v CPUs from %s, want 0.5 from %s", v.State, v.CPUs, v.From, owner.dir)
	}
	if c.Dir != owner.dir || !c.Known || c.Periods < c.Throttled || c.ThrottledTime <= 0 {
		t.Errorf("the owner's counters are %+v, want those of %s, with more periods than throttled ones, and a time",
			c, filepath.Base(owner.dir))
	}
}
