//go:build linux

package guest

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/unthrottle/unthrottle/cgroup"
)

// contained gives a process mounts and a cgroup namespace of its own. The
// namespace's root is the group that the process is in when it asks for one, so
// this must be unshare and not a flag of clone.
func contained(cmd *exec.Cmd) {
	cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWCGROUP
}

// A container whose own group has no limit, below a limited group that it cannot
// see: a pod's limit, for example. The kernel throttles it all the same.
func TestHiddenLimit(t *testing.T) {
	parent := newGroup(t).child("parent")
	parent.limit("50000 100000")
	g := parent.child("own")
	a := g.start(contained)
	a.do("remount")

	before := a.do("look")
	checkContained(t, before.Seen)
	if before.Seen.CPUs != 0 {
		t.Errorf("a number for a limit that cannot be seen: %s", dump(before.Seen))
	}

	a.ask(request{Op: "spin", N: 2})
	if !poll(func() bool { return look(a.pid).Throttling.Owner.Throttled >= 3 }) {
		t.Fatalf("the parent is never throttled: %s", dump(look(a.pid)))
	}
	want, reason := cgroup.None, ""
	if g.has(localFile) {
		want = cgroup.Hidden
		a.until("the hidden limit shows", func(r reply) bool { return r.Seen.State == "hidden" })
	} else {
		reason = noLocalFile
	}
	a.do("rest")
	after := a.do("look")
	if after.Seen.State != want.String() || after.Seen.CPUs != 0 || after.Seen.From != "" {
		t.Errorf("got %s\nwant state %v, without a number", dump(after.Seen), want)
	}
	if want == cgroup.Hidden && after.Seen.Reason == "" {
		t.Error("hidden without a reason")
	}
	if l := observed(before.Seen, after.Seen); l.State != want {
		t.Errorf("Observed says %v, want %v", l.State, want)
	}
	// GOMAXPROCS stays unchanged: nothing better is known.
	if n := a.ask(request{Op: "set", Policy: "go"}).Procs; n != before.Procs {
		t.Errorf("Set changed GOMAXPROCS from %d to %d", before.Procs, n)
	}

	// The host sees what the container cannot.
	checkLimits(t, "from the host", look(a.pid), cgroup.Limited, 0.5, parent.dir)
	if reason != "" {
		t.Skip("all but the state hidden was tested: " + reason)
	}
}

func observed(before, after view) cgroup.Limits {
	return cgroup.Limits{State: cgroup.None}.Observed(before.Throttling, after.Throttling)
}

// The usual container: its own group has the limit and is all that it sees.
func TestContainerOwnLimit(t *testing.T) {
	g := newGroup(t).child("own")
	g.limit("250000 100000")
	a := g.start(contained)
	a.do("remount")
	v := a.do("look").Seen
	checkContained(t, v)
	checkLimits(t, "from inside", v, cgroup.Limited, 2.5, cgroupRoot)
	checkLimits(t, "from the host", look(a.pid), cgroup.Limited, 2.5, g.dir)

	// Watch works there as well.
	a.ask(request{Op: "watch", N: watchMillis})
	a.expect("limited", 2.5, cgroupRoot, 3)
	g.limit("200000 100000")
	a.expect("limited", 2, cgroupRoot, 2)
}

// A container that makes a group for itself below its root, as Docker in Docker
// does: the root of its mount is a level with a limit.
func TestContainerNestedGroup(t *testing.T) {
	outer := newGroup(t).child("outer")
	outer.limit("250000 100000")
	inner := outer.child("inner")
	// The process has to be in outer when its namespace is made, and a group with
	// children that have controllers takes no process. So the order is: begin in a
	// group outside, and let the namespace be that of outer while it has none.
	outer.write("cgroup.subtree_control", "-cpu -cpuset")
	a := outer.start(contained)
	a.do("remount")
	inner.move(a)
	outer.write("cgroup.subtree_control", "+cpu +cpuset")
	checkLimits(t, "from inside", a.do("look").Seen, cgroup.Limited, 2.5, cgroupRoot)
	inner.limit("150000 100000")
	checkLimits(t, "from inside", a.do("look").Seen, cgroup.Limited, 1.5, cgroupRoot+"/inner")
}

// A contained process that looks at processes outside. The cgroup of one is next to the namespace's root, and the kernel does not name what
// is above ("/../other"). The other is in the root of the hierarchy. The mounts of process 1 lead to both.
func TestContainerLooksOutside(t *testing.T) {
	top := newGroup(t)
	g, other := top.child("own"), top.child("other")
	g.limit("150000 100000")
	other.limit("300000 100000")
	outside := other.start()
	a := g.start(contained)
	a.do("remount")
	v := a.ask(request{Op: "look", PID: outside.pid}).Seen
	checkLimits(t, "the process beside", v, cgroup.Limited, 3, "/proc/1/root"+other.dir)
	v = a.ask(request{Op: "look", PID: 1}).Seen
	checkLimits(t, "process 1", v, cgroup.None, 0, "")
}

// A new cgroup namespace with the old mount: /proc/self/cgroup says "/", and the
// mount's root is above that ("/../.."). No directory can be named, and the root
// of the mount is not the process's own group.
func TestNamespaceWithOldMount(t *testing.T) {
	g := newGroup(t).child("own")
	g.limit("150000 100000")
	a := g.start(contained)
	r := a.do("look")
	if r.Seen.State != "unknown" || r.Seen.Reason == "" || r.Seen.CPUs != 0 {
		t.Errorf("got %s, want unknown with a reason", dump(r.Seen))
	}
	if n := a.ask(request{Op: "set", Policy: "go"}).Procs; n != r.Procs {
		t.Errorf("Set changed GOMAXPROCS from %d to %d", r.Procs, n)
	}
	checkLimits(t, "from the host", look(a.pid), cgroup.Limited, 1.5, g.dir)
}

func checkContained(t *testing.T, v view) {
	t.Helper()
	if v.Path != "/" || len(v.Levels) != 1 || v.Levels[0].Dir != cgroupRoot || strings.Contains(v.From, "parent") {
		t.Fatalf("the process is not contained: %s", dump(v))
	}
}
