//go:build linux

package guest

import (
	"math"
	"strconv"
	"testing"
)

// TestMemoryFollows: GOMEMLIMIT is a share of the smallest memory.max and memory.high of all levels, up, down and away.
func TestMemoryFollows(t *testing.T) {
	needVM(t)
	group{t, cgroupRoot}.write("cgroup.subtree_control", "+memory")
	parent := newGroup(t)
	parent.write("cgroup.subtree_control", "+memory")
	own := parent.bareChild("own")
	mib := func(n int) string { return strconv.Itoa(n << 20) }
	own.write("memory.max", mib(200))
	a := own.start()
	a.do("memory")
	expect := func(what string, want int64) {
		t.Helper()
		last := int64(0)
		if !poll(func() bool {
			last = a.do("collect").Memory
			return last == want
		}) {
			t.Fatalf("%s: GOMEMLIMIT is %d, want %d", what, last, want)
		}
	}
	expect("its own limit", 180<<20)
	parent.write("memory.high", mib(100))
	expect("a lower memory.high above", 90<<20)
	own.write("memory.max", mib(60))
	expect("a lower limit of its own", 52<<20) // 8 MiB are left to the kernel
	own.write("memory.max", "max")
	parent.write("memory.high", mib(150))
	expect("that of above, raised", 135<<20)
	parent.write("memory.high", "max")
	expect("none", math.MaxInt64)
	if r := a.do("undo"); r.Memory != math.MaxInt64 {
		t.Errorf("after undo GOMEMLIMIT is %d", r.Memory)
	}
}
