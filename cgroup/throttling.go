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
	r := s.reader("throttling")
	own := l.Levels[0].Dir
	t.Own = r.counters(own, l.Version)
	t.Owner = t.Own
	if l.From != "" && l.From != own {
		t.Owner = r.counters(l.From, l.Version)
	}
	n, ok := r.stat(own, "/cpu.stat.local", localName(l.Version))
	t.Local, t.LocalKnown = statTime(n, l.Version), ok
	return t
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
	text, err := r.file(dir, "/cpu.stat")
	if err != nil {
		return c
	}
	throttled, burst := "throttled_usec", "burst_usec"
	if v == V1 {
		throttled, burst = "throttled_time", "burst_time"
	}
	count := func(name string) int64 {
		n, _ := stat(text, name)
		return n
	}
	c.Periods, c.Known = stat(text, "nr_periods")
	c.Throttled = count("nr_throttled")
	c.ThrottledTime = statTime(count(throttled), v)
	c.Bursts = count("nr_bursts")
	c.BurstTime = statTime(count(burst), v)
	return c
}

// localName is what cpu.stat.local, which kernels before 6.6 don't have, calls its time.
func localName(v Version) string {
	if v == V1 {
		return "throttled_time"
	}
	return "throttled_usec"
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
