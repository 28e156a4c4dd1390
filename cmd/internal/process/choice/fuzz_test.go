package choice

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
)

// FuzzRules gives the models texts that no kernel writes: a process can choose some of what is in them.
func FuzzRules(f *testing.F) {
	const v2, v1 = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "34 25 0:29 / /cpu rw - cgroup cgroup rw,cpu\n"
	f.Add("0::/a\n", v2, "150000 100000\n", "100000\n")
	f.Add("3:cpu:/a b\n0::/../x\n", v1+v2, "-1\n", "0\n")
	f.Add("0::/\n", strings.Replace(v2, "/sys", "/s\\040s", 1), "max", "")
	f.Add("x", "- - -", "+1 -0\n", "1")
	f.Fuzz(func(t *testing.T, group, mountinfo, quota, period string) {
		s := System{cgroup: group, mountinfo: mountinfo}
		s.Limits = cgroup.Limits{State: cgroup.Limited, CPUs: 1.5, From: "/sys/fs/cgroup", Affinity: 8}
		s.Inside, s.Policy = s.Limits, unthrottle.Go
		s.read = func(file string) (string, error) {
			if !strings.HasPrefix(file, "/") && strings.HasPrefix(group, "0::/") && absolute(mountinfo) {
				t.Errorf("reads %q", file)
			}
			switch {
			case strings.HasSuffix(file, "period_us"):
				return period, nil
			case strings.HasSuffix(file, "gone"):
				return "", fs.ErrNotExist
			}
			return quota, nil
		}
		for _, c := range s.Rules() {
			if c.Procs < 0 || c.Wrong && c.Why == "" || c.Wrong != (c.Fix != "") {
				t.Errorf("%+v", c)
			}
			if clamps := c.Rule != Automaxprocs && c.Rule != Downward; clamps && c.Procs > 8 {
				t.Errorf("more than there are: %+v", c)
			}
		}
		s.rebase("/a")
	})
}

// absolute says whether all mount points are paths from the root, as all that the kernel shows.
func absolute(mountinfo string) bool {
	for _, line := range strings.Split(strings.TrimSuffix(mountinfo, "\n"), "\n") {
		if f := strings.Split(line, " "); len(f) < 5 || !strings.HasPrefix(f[4], "/") {
			return false
		}
	}
	return true
}
