package cgroup

import (
	"math"
	"time"
)

// ReadThrottling reads what the limits in l, which came from the same source, have done so far.
func ReadThrottling(s Source, l Limits) Throttling {
	var t Throttling
	if len(l.Levels) == 0 {
		return t
	}
	r := newReader(s)
	own := l.Levels[0].Dir
	t.Own = r.counters(own, l.Version)
	t.Owner = t.Own
	if l.From != "" && l.From != own {
		t.Owner = r.counters(l.From, l.Version)
	}
	t.Local, t.LocalKnown = r.local(own, l.Version)
	return t
}

// throttledByOthers reports whether the process's own group has been throttled by a group that can't be seen. The count
// in cpu.stat.local also grew if a quota was set here and taken away since, but then that level has counted it too.
func (r *reader) throttledByOthers(l Limits) bool {
	if d, ok := r.local(l.Levels[0].Dir, l.Version); !ok || d == 0 {
		return false
	}
	for _, level := range l.Levels {
		if r.counters(level.Dir, l.Version).Throttled > 0 {
			return false
		}
	}
	return true
}

// counters reads cpu.stat. Version 1 counts time in nanoseconds, version 2 in microseconds:
//
//	v1: nr_periods 60, nr_throttled 20, throttled_time 1500000000, nr_bursts 0, burst_time 0
//	v2: usage_usec 1, …, nr_periods 60, nr_throttled 20, throttled_usec 1500000, nr_bursts 0, burst_usec 0
//
// A v2 group without the controller has the usage only: then nothing is known. See the kernel's cgroup-v2.rst and
// sched-bwc.rst.
func (r *reader) counters(dir string, v Version) Counters {
	c := Counters{Dir: dir}
	data, err := r.file(join(dir, "/cpu.stat"))
	if err != nil {
		return c
	}
	eachStat(data, func(name string, n int64) {
		switch name {
		case "nr_periods":
			c.Known, c.Periods = true, n
		case "nr_throttled":
			c.Throttled = n
		case "throttled_time", "throttled_usec":
			c.ThrottledTime = statTime(n, v)
		case "nr_bursts":
			c.Bursts = n
		case "burst_time", "burst_usec":
			c.BurstTime = statTime(n, v)
		}
	})
	return c
}

// local reads cpu.stat.local: "throttled_usec 1500000" (v2) or "throttled_time 1500000000" (v1). Kernels before 6.6
// don't have it.
func (r *reader) local(dir string, v Version) (d time.Duration, ok bool) {
	data, err := r.file(join(dir, "/cpu.stat.local"))
	if err != nil {
		return 0, false
	}
	eachStat(data, func(name string, n int64) {
		if name == "throttled_time" || name == "throttled_usec" {
			d, ok = statTime(n, v), true
		}
	})
	return d, ok
}

func eachStat(data []byte, f func(name string, n int64)) {
	for len(data) > 0 {
		var line []byte
		line, data = cutLine(data)
		name, value := cutField(line)
		if n, ok := parseInt(value); ok && n >= 0 {
			f(string(name), n)
		}
	}
}

func statTime(n int64, v Version) time.Duration {
	if v == V1 {
		return time.Duration(n)
	}
	if n > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Microsecond
}
