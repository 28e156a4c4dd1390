//go:build linux

package guest

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

func TestCpusetSmallerThanQuota(t *testing.T) {
	g := newGroup(t).child("own")
	g.limit("300000 100000")
	g.write("cpuset.cpus", "0-1")
	a := g.start()
	v := a.do("look").Seen
	if v.CPUs != 3 || v.Affinity != 2 || v.Levels[0].Cpuset != "0-1" {
		t.Errorf("got %s\nwant 3 CPUs, affinity 2, cpuset 0-1", dump(v))
	}
	if out := look(a.pid); out.Affinity != 2 {
		t.Errorf("from outside the affinity is %d, want 2", out.Affinity)
	}
	if n := a.ask(request{Op: "set", Policy: "go"}).Procs; n != 2 {
		t.Errorf("after Set GOMAXPROCS is %d, want 2", n)
	}
}

// A cpuset of a parent holds for the child as well.
func TestCpusetOfParent(t *testing.T) {
	parent := newGroup(t).child("parent")
	parent.write("cpuset.cpus", "1-3")
	g := parent.child("own")
	v := g.start().do("look").Seen
	if v.State != "none" || v.Affinity != 3 || v.Levels[0].Cpuset != "1-3" {
		t.Errorf("got %s\nwant no limit, affinity 3, cpuset 1-3", dump(v))
	}
}

func TestAffinity(t *testing.T) {
	g := newGroup(t).child("own")
	g.limit("300000 100000")
	a := g.start()
	setAffinity(t, a.pid, 0b0101)
	if v := a.do("look").Seen; v.CPUs != 3 || v.Affinity != 2 {
		t.Errorf("got %s\nwant 3 CPUs, affinity 2", dump(v))
	}
	if v := look(a.pid); v.Affinity != 2 {
		t.Errorf("from outside the affinity is %d, want 2", v.Affinity)
	}
	if n := a.ask(request{Op: "set", Policy: "go"}).Procs; n != 2 {
		t.Errorf("after Set GOMAXPROCS is %d, want 2", n)
	}
	// A mask of one CPU goes below the policy's minimum of two.
	setAffinity(t, a.pid, 0b0010)
	if n := a.ask(request{Op: "set", Policy: "go"}).Procs; n != 1 {
		t.Errorf("after Set with one CPU GOMAXPROCS is %d, want 1", n)
	}
}

func TestWatchFollowsCpuset(t *testing.T) {
	g := newGroup(t).child("own")
	g.limit("300000 100000")
	a := g.start()
	a.ask(request{Op: "watch", N: watchMillis})
	a.until("Watch has called back", func(r reply) bool { return lastDecision(r).Procs == 3 })
	g.write("cpuset.cpus", "2-3")
	a.until("Watch sees 2 CPUs", func(r reply) bool {
		return lastDecision(r).Procs == 2 && lastDecision(r).Seen.Affinity == 2 && r.Procs == 2
	})
	// Not "": a cpuset with processes in it refuses to become empty again.
	g.write("cpuset.cpus", fmt.Sprint("0-", runtime.NumCPU()-1))
	a.until("Watch sees all CPUs again", func(r reply) bool {
		return lastDecision(r).Procs == 3 && lastDecision(r).Seen.Affinity == runtime.NumCPU() && r.Procs == 3
	})
}

func TestWatchFollowsAffinity(t *testing.T) {
	g := newGroup(t).child("own")
	a := g.start()
	a.ask(request{Op: "watch", N: watchMillis})
	a.until("Watch has called back", func(r reply) bool { return len(r.Decisions) == 1 })
	setAffinity(t, a.pid, 0b1010)
	a.until("Watch sees 2 CPUs", func(r reply) bool { return lastDecision(r).Procs == 2 && r.Procs == 2 })
}

// setAffinity sets the mask of every thread of a process. A thread inherits the
// mask of the one that starts it, so it is done when a look finds no other mask.
func setAffinity(t *testing.T, pid int, mask uint64) {
	t.Helper()
	for again := true; again; {
		again = false
		entries, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			dir := "/proc/" + strconv.Itoa(pid) + "/task/" + e.Name()
			if status, _ := os.ReadFile(dir + "/status"); hasMask(string(status), mask) {
				continue
			}
			again = true
			tid, err := strconv.Atoi(e.Name())
			if err != nil {
				t.Fatal(err)
			}
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(tid),
				unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask))); errno != 0 && errno != syscall.ESRCH {
				t.Fatalf("setting the affinity of %s: %v", dir, errno)
			}
		}
	}
}

// hasMask looks for a line such as "Cpus_allowed:\t0005".
func hasMask(status string, mask uint64) bool {
	_, rest, _ := strings.Cut(status, "Cpus_allowed:\t")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseUint(line, 16, 64)
	return err == nil && n == mask
}
