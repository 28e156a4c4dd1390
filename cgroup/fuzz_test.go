package cgroup

import (
	"strings"
	"testing"
)

// The parsers see text from kernels, emulations and other people's containers. Whatever it is, they must not panic, and
// must not make up a number.

func FuzzParseCPUMax(f *testing.F) {
	for _, s := range []string{"150000 100000\n", "max 100000\n", "max", "-1", "1000", "0 0", "1 2 3", "9223372036854775808 1", "٣ 1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := parseCPUMax(data)
		if err != nil && q != (Quota{}) {
			t.Errorf("%q: both %v and %v", data, q, err)
		}
		if q.QuotaMicros < 0 || q.PeriodMicros < 0 || (q.QuotaMicros > 0) != (q.PeriodMicros > 0) {
			t.Errorf("%q: %v", data, q)
		}
		if cpus := q.CPUs(); cpus < 0 || cpus != cpus {
			t.Errorf("%q: %v CPUs", data, cpus)
		}
	})
}

func FuzzParseQuotaV1(f *testing.F) {
	for _, s := range []string{"150000\n", "-1\n", "", "0", "-2", "1e5", "max"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, err := parseQuotaMicros(data); n < 0 || err != nil && n != 0 {
			t.Errorf("quota %q: %d, %v", data, n, err)
		}
		if n, err := parsePeriodMicros(data); n < 0 || (err == nil) != (n > 0) {
			t.Errorf("period %q: %d, %v", data, n, err)
		}
	})
}

func FuzzParseProcCgroup(f *testing.F) {
	for _, s := range []string{"0::/\n", "4:cpu,cpuacct:/a:b\n0::/c\n", "1:name=cpu:/\n", "::", "0::/a (deleted)\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := parseProcCgroup(data, "cpu")
		if (err == nil) != strings.HasPrefix(h.path, "/") || (err == nil) != (h.version != 0) {
			t.Errorf("%q: %+v, %v", data, h, err)
		}
		if !strings.Contains(string(data), h.path) {
			t.Errorf("%q: path %q is not in it", data, h.path)
		}
	})
}

func FuzzParseMountinfo(f *testing.F) {
	for _, s := range []string{
		"30 24 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
		"34 25 0:29 /a /b\\040c rw - cgroup cgroup rw,cpu,cpuacct\n",
		"1 2 3 / / - cgroup2", " - cgroup2 - ", "\\", "\\777",
	} {
		f.Add([]byte(s), "/a/b")
	}
	f.Fuzz(func(t *testing.T, data []byte, path string) {
		for _, v := range []Version{V1, V2} {
			for _, m := range parseMountinfo(data, v, "cpu") {
				if !strings.HasPrefix(m.Root, "/") || !strings.HasPrefix(m.Point, "/") {
					t.Errorf("%q: %+v", data, m)
				}
				rel, ok := below(path, m.Root)
				if ok && (rel != "" && rel[0] != '/' || strings.HasPrefix(rel+"/", "/../")) {
					t.Errorf("below(%q, %q) = %q", path, m.Root, rel)
				}
			}
		}
	})
}

func FuzzStat(f *testing.F) {
	f.Add([]byte("nr_periods 60\nnr_throttled 20\nthrottled_time 1500000000\n"))
	f.Add([]byte("usage_usec 1\nthrottled_usec 9223372036854775807\nx\n\n -1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		eachStat(data, func(name string, n int64) {
			if n < 0 || statTime(n, V1) < 0 || statTime(n, V2) < 0 {
				t.Errorf("%q: %s %d", data, name, n)
			}
		})
	})
}

func FuzzParseCPUMask(f *testing.F) {
	f.Add([]byte("ff"))
	f.Add([]byte("00000001,ffffffff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, ok := parseCPUMask(data); n > 4*len(data) || ok && n < 1 {
			t.Errorf("%q: %d, %v", data, n, ok)
		}
	})
}
