package cgroup

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// ReadThrottling reads what the limits in l, which came from the same source, have done so far.
func ReadThrottling(s Source, l Limits) Throttling {
	var t Throttling
	if len(l.Levels) == 0 {
		return t
	}
	r := s.throttling(&l)
	defer r.close()
	own := l.Levels[0].Dir
	t.Own = r.counters(own, &l)
	t.Owner = t.Own
	if l.From != "" && l.From != own {
		t.Owner = r.counters(l.From, &l)
	}
	t.Local, t.LocalKnown = r.local(&l)
	return t
}

// ReadCounters reads what a group has counted so far: one of the levels in l, which came from the same source.
func ReadCounters(s Source, l Limits, dir string) Counters {
	r := s.throttling(&l)
	defer r.close()
	return r.counters(dir, &l)
}

// throttling reads where l was read.
func (s Source) throttling(l *Limits) *reader {
	r := s.reader("throttling")
	switch {
	case s.PID == 0:
	case strings.HasPrefix(l.Mount.Point, r.proc+"/root/"):
		r.useOwnMounts()
	case strings.HasPrefix(l.Mount.Point, "/proc/1/root/"):
		r.useNodeMounts()
	}
	if r.isOthers(l.Mount.Point) {
		r.others.mount(l.Mount.Point)
	}
	return r
}

// counters reads the counts of the group in dir, which is one of the levels of l.
func (r *reader) counters(dir string, l *Limits) Counters {
	c := r.counted(dir)
	if l.Version == V1 {
		c.CPU, c.CPUKnown = r.usageV1(dir, l)
	}
	return c
}

// counted are the counts in the file that has those of periods.
func (r *reader) counted(dir string) Counters {
	text, _ := r.record(dir, "/cpu.stat")
	c, _ := ParseStat(text)
	c.Dir = dir
	return c
}

// local is how long the process's own group was held up, by quotas of all levels.
func (r *reader) local(l *Limits) (time.Duration, bool) {
	n, ok := r.stat(l.Levels[0].Dir, "/cpu.stat.local", localName(l.Version))
	return statTime(n, l.Version), ok
}

// usageV1 reads the CPU time of a v1 group, in nanoseconds. Another controller counts it, which mostly shares the hierarchy
// of the quota.
func (r *reader) usageV1(dir string, l *Limits) (time.Duration, bool) {
	const file = "/cpuacct.usage"
	if l.usage == "" {
		return parseUsage(r.line(dir, file))
	}
	rel, ok := below(dir, l.Mount.Point)
	if !ok {
		return 0, false
	}
	return parseUsage(r.line(join(l.usage, rel), file))
}

func parseUsage(text string) (time.Duration, bool) {
	n := parsePositive(text)
	return time.Duration(n), n > 0 || text == "0"
}

// ParseStat reads the text of a group's cpu.stat, for callers that have it from elsewhere than [ReadThrottling]. Version 1 counts
// time in nanoseconds, version 2 in microseconds, which the names show:
//
//	v1: nr_periods 60, nr_throttled 20, throttled_time 1500000000, nr_bursts 0, burst_time 0
//	v2: usage_usec 1, …, nr_periods 60, nr_throttled 20, throttled_usec 1500000, nr_bursts 0, burst_usec 0
//
// Each is on a line of its own. A v2 group without the controller has the usage only, and a v1 group none: cpuacct.usage has
// it. Kernels before 5.14 count no bursts. See the kernel's cgroup-v2.rst and sched-bwc.rst.
//
// After an error nothing is known.
func ParseStat(text string) (Counters, error) {
	var c Counters
	var periods, throttled, held bool
	for i := 1; text != ""; i++ {
		var line string
		line, text = cut(text, '\n')
		name, value := cut(strings.TrimSpace(line), ' ')
		var to *int64
		unit := time.Nanosecond
		switch name {
		case "nr_periods":
			to, periods = &c.Periods, true
		case "nr_throttled":
			to, throttled = &c.Throttled, true
		case "nr_bursts":
			to = &c.Bursts
		case "throttled_time":
			to, held = (*int64)(&c.ThrottledTime), true
		case "throttled_usec":
			to, held, unit = (*int64)(&c.ThrottledTime), true, time.Microsecond
		case "burst_time":
			to = (*int64)(&c.BurstTime)
		case "burst_usec":
			to, unit = (*int64)(&c.BurstTime), time.Microsecond
		case "usage_usec":
			to, c.CPUKnown, unit = (*int64)(&c.CPU), true, time.Microsecond
		default:
			continue
		}
		n := parsePositive(value)
		if n == 0 && value != "0" || n > math.MaxInt64/int64(unit) {
			return Counters{}, fmt.Errorf("line %d of cpu.stat: bad number %q of %s", i, value, name)
		}
		*to = n * int64(unit)
	}
	if c.Known = periods && throttled && held; !c.Known {
		return Counters{CPU: c.CPU, CPUKnown: c.CPUKnown}, nil
	}
	return c, nil
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
