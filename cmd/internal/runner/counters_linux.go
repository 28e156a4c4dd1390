package runner

import (
	"bytes"
	"os"
	"path/filepath"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

// counterFiles are a group's counters, kept open: they are read a hundred times a second.
type counterFiles struct {
	version cgroup.Version
	stat    *os.File // cpu.stat
	usage   *os.File // cpuacct.usage of v1; nil: not counted
}

func (f *counterFiles) open(v cgroup.Version, cpu, usage string) (err error) {
	f.version = v
	if f.stat, err = os.Open(filepath.Join(cpu, "cpu.stat")); err != nil {
		return err
	}
	if v == cgroup.V1 && usage != "" {
		f.usage, err = os.Open(filepath.Join(usage, "cpuacct.usage"))
	}
	return err
}

func (f *counterFiles) close() {
	if f.stat != nil {
		f.stat.Close()
	}
	if f.usage != nil {
		f.usage.Close()
	}
}

// read reads the counters. Version 1 counts in nanoseconds, version 2 in microseconds:
//
//	v1: nr_periods 60, nr_throttled 20, throttled_time 1500000000, nr_bursts 0, burst_time 0
//	v2: usage_usec 1, …, nr_periods 60, nr_throttled 20, throttled_usec 1500000, nr_bursts 0, burst_usec 0
//
// A group without the controller has no periods.
func (f *counterFiles) read() (c Counters, known bool) {
	var buf [2048]byte
	n, _ := f.stat.ReadAt(buf[:], 0)
	text := buf[:n]
	if c.Periods, known = stat(text, "nr_periods"); !known {
		return c, false
	}
	c.Throttled, _ = stat(text, "nr_throttled")
	c.Bursts, _ = stat(text, "nr_bursts")
	if f.version == cgroup.V1 {
		c.ThrottledTime = statTime(text, "throttled_time", time.Nanosecond)
		c.BurstTime = statTime(text, "burst_time", time.Nanosecond)
		if f.usage != nil {
			n, _ := f.usage.ReadAt(buf[:], 0)
			c.CPU = time.Duration(number(buf[:n]))
		}
		return c, true
	}
	c.CPU = statTime(text, "usage_usec", time.Microsecond)
	c.ThrottledTime = statTime(text, "throttled_usec", time.Microsecond)
	c.BurstTime = statTime(text, "burst_usec", time.Microsecond)
	return c, true
}

// stat finds the number in a line such as "nr_throttled 20".
func stat(text []byte, name string) (n int64, ok bool) {
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		if value, found := bytes.CutPrefix(line, []byte(name+" ")); found {
			return number(value), true
		}
	}
	return 0, false
}

func statTime(text []byte, name string, unit time.Duration) time.Duration {
	n, _ := stat(text, name)
	return time.Duration(n) * unit
}

// number reads the digits that text begins with.
func number(text []byte) (n int64) {
	for _, c := range text {
		if c < '0' || c > '9' || n > 1<<58 {
			break
		}
		n = n*10 + int64(c-'0')
	}
	return n
}
