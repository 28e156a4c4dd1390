package cgroup_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/fixture"
)

// TestMountTableNotKept keeps what was read on a node with thousands of mounts: it must not hold on to the table of mounts.
func TestMountTableNotKept(t *testing.T) {
	const tableSize, reads = 1 << 20, 64
	var table strings.Builder
	for i := 0; table.Len() < tableSize; i++ {
		fmt.Fprintf(&table, "%d 25 0:%d / /var/lib/kubelet/pods/%d/volumes rw,relatime - tmpfs tmpfs rw\n", i+100, i+100, i)
	}
	table.WriteString("30 25 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n")
	root := t.TempDir()
	tree := fixture.Tree{Files: []fixture.File{
		{Name: "proc/self/cgroup", Data: "0::/pod/container\n"},
		{Name: "proc/self/mountinfo", Data: table.String()},
		{Name: "sys/fs/cgroup/cgroup.controllers", Data: "cpu\n"},
		{Name: "sys/fs/cgroup/pod/cpu.max", Data: "max 100000\n"},
		{Name: "sys/fs/cgroup/pod/container/cpu.max", Data: "50000 100000\n"},
	}}
	if err := tree.WriteTo(root); err != nil {
		t.Fatal(err)
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	kept := make([]cgroup.Limits, reads)
	before := heap()
	for i := range kept {
		if kept[i] = cgroup.Read(cgroup.Source{Root: root}); kept[i].CPUs != 0.5 {
			t.Fatalf("the limit is %v", kept[i])
		}
	}
	if grown := heap() - before; grown > reads*tableSize/8 {
		t.Errorf("%d limits hold %d bytes", reads, grown)
	}
	runtime.KeepAlive(kept)
}
