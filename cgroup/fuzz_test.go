package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The parsers see text from kernels, emulations and other people's containers. Given any text they must not panic, and must not make up a
// number.

func FuzzParseQuota(f *testing.F) {
	for _, s := range []string{"150000 100000", "max 100000", "max", "-1", "1000", "0 0", "1 2 3", "9223372036854775808 1", "٣ 1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := parseQuota(text)
		if err != nil && q != (Quota{}) {
			t.Errorf("%q: both %v and %v", text, q, err)
		}
		if q.QuotaMicros < 0 || q.PeriodMicros < 0 || (q.QuotaMicros > 0) != (q.PeriodMicros > 0) {
			t.Errorf("%q: %v", text, q)
		}
		if cpus := q.CPUs(); cpus < 0 || cpus != cpus {
			t.Errorf("%q: %v CPUs", text, cpus)
		}
	})
}

func FuzzParseProcCgroup(f *testing.F) {
	for _, s := range []string{"0::/\n", "4:cpu,cpuacct:/a:b\n0::/c\n", "1:name=cpu:/\n", "::", "0::/a (deleted)\n", "3:memory:/a\n", "3:memory:/a\n4:cpu:a\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var l Limits
		unused := parseProcCgroup(text, "cpu", &l)
		if isAbs(l.Path) != (l.Version != 0) || unused && l.Version != 0 {
			t.Errorf("%q: %+v", text, l)
		}
		if !strings.Contains(text, l.Path) {
			t.Errorf("%q: path %q is not in it", text, l.Path)
		}
	})
}

func FuzzParseMount(f *testing.F) {
	for _, s := range []string{
		"30 24 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw",
		"34 25 0:29 /a /b\\040c rw - cgroup cgroup rw,cpu,cpuacct",
		"1 2 3 / / - cgroup2", " - cgroup2 - ", "\\", "\\777",
	} {
		f.Add(s, "/a/b")
	}
	f.Fuzz(func(t *testing.T, line, path string) {
		for _, v := range []Version{V1, V2} {
			root, point := parseMount(line, v, "cpu")
			if isAbs(root) != isAbs(point) || root == "" != (point == "") {
				t.Errorf("%q: %q at %q", line, root, point)
			}
			rel, ok := below(path, root)
			if ok && (rel != "" && rel[0] != '/' || strings.HasPrefix(rel+"/", "/../")) {
				t.Errorf("below(%q, %q) = %q", path, root, rel)
			}
		}
	})
}

func FuzzStat(f *testing.F) {
	f.Add("nr_periods 60\nnr_throttled 20\nthrottled_time 1500000000\n", "nr_throttled")
	f.Add("usage_usec 1\nthrottled_usec 9223372036854775807\nx\n\n -1", "")
	f.Fuzz(func(t *testing.T, text, name string) {
		n, ok := stat(text, name)
		if n < 0 || !ok && n != 0 || statTime(n, V1) < 0 || statTime(n, V2) < 0 {
			t.Errorf("%q in %q: %d, %v", name, text, n, ok)
		}
	})
}

func FuzzParseStat(f *testing.F) {
	f.Add("nr_periods 60\nnr_throttled 20\nthrottled_time 1500000000\nnr_bursts 1\nburst_time 1\n")
	f.Add("usage_usec 1\nnr_periods 60\nnr_throttled 20\nthrottled_usec 9223372036854775807\nburst_usec 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseStat(text)
		for _, n := range []int64{c.Periods, c.Throttled, int64(c.ThrottledTime), c.Bursts, int64(c.BurstTime), int64(c.CPU)} {
			if n < 0 || n > 0 && !c.Known && !c.CPUKnown {
				t.Errorf("%q: %+v", text, c)
			}
		}
		if err != nil && c != (Counters{}) {
			t.Errorf("%q: both %+v and %v", text, c, err)
		}
	})
}

func FuzzParseCPUMask(f *testing.F) {
	f.Add("ff")
	f.Add("00000001,ffffffff")
	f.Fuzz(func(t *testing.T, mask string) {
		if n, ok := parseCPUMask(mask); n > 4*len(mask) || ok != (n > 0) {
			t.Errorf("%q: %d, %v", mask, n, ok)
		}
	})
}

// FuzzRead lays out a whole system from fuzzed files. Read must always come to an answer.
func FuzzRead(f *testing.F) {
	f.Add("0::/a\n", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "150000 100000\n", "max\n")
	f.Add("4:cpu:/a (deleted)\n", "30 24 0:26 /.. /sys/fs/cgroup rw - cgroup cgroup rw,cpu\n", "", "1")
	f.Add("3:memory:/a\n", "", "", "")
	f.Add("0::/../../a\n", "30 24 0:26 / /sys/fs/cgroup/.. rw - cgroup2 cgroup2 rw\n", "x", "")
	f.Fuzz(func(t *testing.T, procCgroup, mountinfo, own, parent string) {
		root := t.TempDir()
		for name, text := range map[string]string{
			"/proc/self/cgroup": procCgroup, "/proc/self/mountinfo": mountinfo,
			"/sys/fs/cgroup/a/cpu.max": own, "/sys/fs/cgroup/cpu.max": parent,
		} {
			os.MkdirAll(filepath.Dir(root+name), 0o777)
			os.WriteFile(root+name, []byte(text), 0o666)
		}
		l := Read(Source{Root: root})
		if (l.State == Limited) != (l.CPUs > 0) || (l.CPUs > 0) != (l.From != "") || l.CPUs > 0 && l.AtMost > 0 {
			t.Errorf("%+v", l)
		}
		if (l.State == Unknown || l.State == Hidden) != (l.Reason != nil) {
			t.Errorf("state %v with reason %v", l.State, l.Reason)
		}
		if unused := l.State == None && l.Version == 0; l.State != Unknown && len(l.Levels) == 0 != unused {
			t.Errorf("%v without a level", l.State)
		}
	})
}
