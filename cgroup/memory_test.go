package cgroup_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/fixture"
)

func TestReadMemory(t *testing.T) {
	const v2 = `-- proc/self/cgroup --
0::/a/b
-- proc/self/mountinfo --
30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
`
	const v1 = `-- proc/self/cgroup --
4:cpu:/x
3:memory:/a
-- proc/self/mountinfo --
34 25 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
35 25 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
-- sys/fs/cgroup/memory/a/memory.limit_in_bytes --
`
	tests := []struct{ name, text, want string }{
		{"v2 own", v2 + "-- sys/fs/cgroup/a/b/memory.max --\n1048576\n", "limited 1048576 /sys/fs/cgroup/a/b"},
		{"v2 parent", v2 + "-- sys/fs/cgroup/a/b/memory.max --\nmax\n-- sys/fs/cgroup/a/memory.max --\n4096\n", "limited 4096 /sys/fs/cgroup/a"},
		{"v2 smallest", v2 + "-- sys/fs/cgroup/a/b/memory.max --\n8192\n-- sys/fs/cgroup/a/memory.max --\n4096\n", "limited 4096 /sys/fs/cgroup/a"},
		{"v2 high", v2 + "-- sys/fs/cgroup/a/b/memory.max --\n8192\n-- sys/fs/cgroup/a/b/memory.high --\n6144\n", "limited 6144 /sys/fs/cgroup/a/b high"},
		{"v2 high of the parent", v2 + "-- sys/fs/cgroup/a/b/memory.max --\n8192\n-- sys/fs/cgroup/a/memory.high --\n4096\n", "limited 4096 /sys/fs/cgroup/a high"},
		{"v2 high above max", v2 + "-- sys/fs/cgroup/a/b/memory.max --\n8192\n-- sys/fs/cgroup/a/b/memory.high --\n9000\n", "limited 8192 /sys/fs/cgroup/a/b"},
		{"v2 high, none", v2 + "-- sys/fs/cgroup/a/b/memory.high --\nmax\n", "none 0 "},
		{"v2 none", v2 + "-- sys/fs/cgroup/a/b/memory.max --\nmax\n", "none 0 "},
		{"v2 garbage", v2 + "-- sys/fs/cgroup/a/b/memory.max --\n1G\n", `unknown 0  reading memory limit: /sys/fs/cgroup/a/b/memory.max: bad text "1G"`},
		{"v1", v1 + "2097152\n", "limited 2097152 /sys/fs/cgroup/memory/a"},
		{"v1 none", v1 + "9223372036854771712\n", "none 0 "},
		{"v1 of a level that can't be seen", v1 + "2097152\n-- sys/fs/cgroup/memory/a/memory.stat --\ncache 0\nhierarchical_memory_limit 1048576\n", "limited 1048576 /sys/fs/cgroup/memory/.."},
		{"v1 of that alone", v1 + "9223372036854771712\n-- sys/fs/cgroup/memory/a/memory.stat --\nhierarchical_memory_limit 1048576\n", "limited 1048576 /sys/fs/cgroup/memory/.."},
		{"v1 own, as the kernel has it", v1 + "2097152\n-- sys/fs/cgroup/memory/a/memory.stat --\nhierarchical_memory_limit 2097152\n", "limited 2097152 /sys/fs/cgroup/memory/a"},
		{"v1 none, as the kernel has it", v1 + "9223372036854771712\n-- sys/fs/cgroup/memory/a/memory.stat --\nhierarchical_memory_limit 9223372036854771712\n", "none 0 "},
		{"v1 a parent that holds nothing below it", v1 + "2097152\n-- sys/fs/cgroup/memory/memory.limit_in_bytes --\n4096\n-- sys/fs/cgroup/memory/a/memory.stat --\nhierarchical_memory_limit 2097152\n", "limited 2097152 /sys/fs/cgroup/memory/a"},
		{"controller not in use", "-- proc/self/cgroup --\n4:cpu:/x\n", "none 0 "},
		{"nothing", "-- x --\n", "unknown 0  reading memory limit: /proc/self/cgroup: no such file or directory"},
	}
	for _, tt := range tests {
		root := t.TempDir()
		if err := fixture.Parse(tt.text).WriteTo(root); err != nil {
			t.Fatal(err)
		}
		m := cgroup.ReadMemory(cgroup.Source{Root: root})
		got := fmt.Sprintf("%v %v %v", m.State, m.Bytes, m.From)
		if m.High {
			got += " high"
		}
		if m.Reason != nil {
			got += " " + strings.ReplaceAll(m.Reason.Error(), root, "")
		}
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
