package host

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

// tree writes files below a new root.
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

const stat = "7 (my (odd) name) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 3 0 100 0 0"

func TestMeter(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("cgroups are Linux's")
	}
	for _, test := range []struct {
		name  string
		files map[string]string
		want  cgroup.Counters
		cpus  float64
	}{
		{"v2, the limit is the parent's", map[string]string{
			"proc/7/cgroup":              "0::/a/b\n",
			"proc/self/mountinfo":        "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			"proc/7/stat":                stat,
			"sys/fs/cgroup/a/cpu.max":    "50000 100000\n",
			"sys/fs/cgroup/a/cpu.stat":   "usage_usec 1000\nnr_periods 10\nnr_throttled 4\nthrottled_usec 300\n",
			"sys/fs/cgroup/a/b/cpu.max":  "max 100000\n",
			"sys/fs/cgroup/a/b/cpu.stat": "usage_usec 900\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
		}, cgroup.Counters{
			Dir: "/sys/fs/cgroup/a", Known: true, Periods: 10, Throttled: 4, ThrottledTime: 300 * time.Microsecond, CPU: time.Millisecond, CPUKnown: true,
		}, 0.5},
		{"v1, CPU time counted apart", map[string]string{
			"proc/7/cgroup": "3:cpu:/a\n4:cpuacct:/a\n",
			"proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
				"31 1 0:27 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n",
			"proc/7/stat":                           stat,
			"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us":  "100000\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu/a/cpu.stat":          "nr_periods 20\nnr_throttled 5\nthrottled_time 7000\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":    "-1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us":   "100000\n",
			"sys/fs/cgroup/cpuacct/a/cpuacct.usage": "123456789\n",
		}, cgroup.Counters{
			Dir: "/sys/fs/cgroup/cpu/a", Known: true, Periods: 20, Throttled: 5, ThrottledTime: 7 * time.Microsecond, CPU: 123456789, CPUKnown: true,
		}, 1},
		{"no limit: the process's own time", map[string]string{
			"proc/7/cgroup":              "0::/a\n",
			"proc/self/mountinfo":        "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			"proc/7/stat":                stat,
			"proc/7/task/7/schedstat":    "1500000000 1 2\n",
			"proc/7/task/8/schedstat":    "1000000000 1 2\n",
			"sys/fs/cgroup/a/cpu.max":    "max 100000\n",
			"sys/fs/cgroup/a/cpu.stat":   "usage_usec 900\n",
			"sys/fs/cgroup/cgroup.procs": "",
		}, cgroup.Counters{Dir: "/sys/fs/cgroup/a", CPU: 2500 * time.Millisecond, CPUKnown: true}, 0},
		{"threads that have ended", map[string]string{
			"proc/7/cgroup":           "0::/\n",
			"proc/self/mountinfo":     "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			"proc/7/stat":             stat,
			"proc/7/task/7/schedstat": "1000 1 2\n",
		}, cgroup.Counters{CPU: 2 * time.Second, CPUKnown: true}, 0},
		{"the process is gone", nil, cgroup.Counters{}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := StartMeter(tree(t, test.files), 7, time.Hour)
			readings := m.Stop()
			if len(readings) != 2 {
				t.Fatalf("%d readings, want the first and the last", len(readings))
			}
			for _, got := range readings {
				if got.Counters != test.want {
					t.Errorf("%+v\nwant %+v", got.Counters, test.want)
				}
			}
			if m.Limit.CPUs != test.cpus {
				t.Errorf("a limit of %v CPUs, want %v", m.Limit.CPUs, test.cpus)
			}
		})
	}
}

// TestMeterDeath reads on when the process has died, and its parent has not asked for its end: it is in the root group then.
func TestMeterDeath(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("cgroups are Linux's")
	}
	for name, apart := range map[string]bool{"CPU time in the same hierarchy": false, "in one of its own": true} {
		t.Run(name, func(t *testing.T) {
			dir := "sys/fs/cgroup/cpu"
			mounts := "30 1 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
			if apart {
				dir = "sys/fs/cgroup/cpuacct"
				mounts = "30 1 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n31 1 0:27 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n"
			}
			root := tree(t, map[string]string{
				"proc/7/cgroup": "3:cpu:/a\n4:cpuacct:/a\n", "proc/self/mountinfo": mounts, "proc/7/stat": stat,
				"proc/7/task/7/schedstat":               "90000000000 1 2\n", // it was in another group before
				"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us":  "100000\n",
				"sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
				"sys/fs/cgroup/cpu/a/cpu.stat":          "nr_periods 20\nnr_throttled 5\nthrottled_time 7000\n",
				"sys/fs/cgroup/cpu/cpu.cfs_quota_us":    "-1\n",
				"sys/fs/cgroup/cpu/cpu.cfs_period_us":   "100000\n",
				dir + "/a/cpuacct.usage":                "1000000000\n",
				dir + "/cpuacct.usage":                  "5619000000000\n",
			})
			m := StartMeter(root, 7, time.Hour)
			for name, text := range map[string]string{"cgroup": "3:cpu:/\n4:cpuacct:/\n", "stat": "7 (my (odd) name) Z 1 7 7 0 -1 4194560 100 0 0 0 150 50 0"} {
				if err := os.WriteFile(filepath.Join(root, "proc/7", name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			readings := m.Stop()
			used := readings[1].Since(readings[0].Counters)
			if !used.CPUKnown || used.CPU != 0 || !used.Known || readings[1].CPU != time.Second {
				t.Errorf("it is said to have used %v more (known: %v), %v in all, want none", used.CPU, used.CPUKnown, readings[1].CPU)
			}
			if err := os.RemoveAll(filepath.Join(root, "sys/fs/cgroup/cpu/a")); err != nil {
				t.Fatal(err)
			}
			m.add()
			if gone := m.readings[len(m.readings)-1]; !gone.Known || gone.Periods != 20 || gone.CPU != time.Second {
				t.Errorf("when its group is gone: %+v, want what was counted last", gone.Counters)
			}
		})
	}
}
