package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

// tree writes files below a directory; a path that ends in a slash is a directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestNode: a reader in a container with hostPID sees the groups of another pod's container, up to the root, and their memory limits.
func TestNode(t *testing.T) {
	const (
		node  = "proc/1/root/sys/fs/cgroup/"
		agent = node + "kubepods.slice/kubepods-burstable.slice/podA/a/"
		other = node + "kubepods.slice/kubepods-burstable.slice/podB/"
	)
	v2 := tree(t, map[string]string{
		"proc/self/mountinfo":  "30 24 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n",
		"proc/1/mountinfo":     "30 24 0:26 /../../../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"proc/7/cgroup":        "0::/../../podB/b\n",
		"proc/8/cgroup":        "0::/../../../../system.slice/c\n",
		"proc/9/cgroup":        "0::/../sidecar\n",
		agent + "cgroup.procs": "", agent + "cpu.max": "max 100000\n",
		node + "cgroup.procs":               "",
		node + "system.slice/c/cpu.max":     "30000 100000\n",
		node + "system.slice/d/e/f/cpu.max": "",
		other + "cpu.max":                   "150000 100000\n",
		other + "memory.max":                "67108864\n",
		other + "b/cpu.max":                 "max 100000\n",
		node + "kubepods.slice/kubepods-burstable.slice/podA/sidecar/cpu.max": "70000 100000\n",
	})
	if err := os.MkdirAll(v2+"/sys/fs", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../"+agent, v2+"/sys/fs/cgroup"); err != nil { // one directory at two places, as two mounts show it
		t.Fatal(err)
	}
	v1 := tree(t, map[string]string{
		"proc/self/mountinfo":                "30 24 0:26 /kubepods/podA/a /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,memory\n",
		"proc/1/mountinfo":                   "30 24 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,memory\n",
		"proc/7/cgroup":                      "3:cpu,memory:/kubepods/podB/b\n",
		"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
		"proc/1/root/sys/fs/cgroup/cpu/kubepods/podB/b/cpu.cfs_quota_us":    "-1\n",
		"proc/1/root/sys/fs/cgroup/cpu/kubepods/podB/cpu.cfs_quota_us":      "150000\n",
		"proc/1/root/sys/fs/cgroup/cpu/kubepods/podB/cpu.cfs_period_us":     "100000\n",
		"proc/1/root/sys/fs/cgroup/cpu/kubepods/podB/memory.limit_in_bytes": "67108864\n",
		"proc/7/mountinfo": "30 24 0:26 /kubepods/podB/b /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,memory\n",
		"proc/7/root/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
	})
	for _, c := range []struct {
		name, root string
		pid        int
		cpus       float64
		from       string
		levels     int
		memory     int64
	}{
		{"another pod", v2, 7, 1.5, "/" + other, 5, 64 << 20},
		{"no pod", v2, 8, 0.3, "/" + node + "system.slice/c", 3, 0},
		{"its own pod", v2, 9, 0.7, "/" + node + "kubepods.slice/kubepods-burstable.slice/podA/sidecar", 5, 0},
		{"version 1", v1, 7, 1.5, "/proc/1/root/sys/fs/cgroup/cpu/kubepods/podB", 4, 64 << 20},
	} {
		l, m := ReadAll(Source{Root: c.root, PID: c.pid})
		if l.State != Limited || l.CPUs != c.cpus || filepath.Clean(l.From) != filepath.Clean(c.from) || len(l.Levels) != c.levels {
			t.Errorf("%s: %v CPUs from %q, %d levels: %+v", c.name, l.CPUs, l.From, len(l.Levels), l)
		}
		if alone := ReadMemory(Source{Root: c.root, PID: c.pid}); m.State == Unknown || m.Bytes != c.memory || m != alone {
			t.Errorf("%s: memory %+v, alone %+v", c.name, m, alone)
		}
	}
}

func TestClimb(t *testing.T) {
	for path, want := range map[string]int{"": 0, "/": 0, "/..": 1, "/../..": 2, "/../../a/..": 2, "/..a": 0, "/a/..": 0} {
		if up, _ := climb(path); up != want {
			t.Errorf("%q: %d, want %d", path, up, want)
		}
	}
}
