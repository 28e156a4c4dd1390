package exectrace

import (
	"errors"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
)

// ParseStat reads a cpu.stat of either version that was saved before or after a trace. One without counts is an error.
func ParseStat(text string) (cgroup.Counters, error) {
	c, err := cgroup.ParseStat(text)
	if err == nil && !c.Known {
		err = errors.New("cpu.stat: no nr_periods, nr_throttled and throttled_usec (or throttled_time): is there a quota?")
	}
	return c, err
}

// ByStat is what two cpu.stat files say about the cause. Those of a group that was not throttled say nothing: the quota may be one of a
// group above.
func ByStat(before, after cgroup.Counters) freeze.Kernel {
	c := after.Since(before)
	return freeze.Kernel{Counts: c.Known && c.Throttled > 0, Most: c.ThrottledTime}
}

// Kernel is what the kernel counted while the trace was recorded.
type Kernel struct {
	cgroup.Counters
	PeriodsShare   float64       // Throttled ÷ Periods
	CPUs           int           // that ThrottledTime is divided by
	Wall           time.Duration // of the counters: Periods × the period if that is known, else of the trace
	ThrottledShare float64       // ThrottledTime ÷ CPUs ÷ Wall: to compare with Trace.Throttled
}

// Compare compares the trace with the counters from before and after it. CPUs is how many the program could use at once; 0 is its
// GOMAXPROCS.
func (t *Trace) Compare(before, after cgroup.Counters, cpus int) (*Kernel, error) {
	k := &Kernel{Counters: after.Since(before), CPUs: cpus, Wall: t.Wall}
	if !k.Known {
		return nil, errors.New("the first cpu.stat is the later one, or of another cgroup")
	}
	for _, s := range t.Procs {
		if cpus <= 0 {
			k.CPUs = max(k.CPUs, s.Procs)
		}
	}
	if k.Periods > 0 {
		k.PeriodsShare = float64(k.Throttled) / float64(k.Periods)
		// The kernel counts no period in which the group was idle.
		if wall := time.Duration(k.Periods) * t.Rhythm.Period; wall > t.Wall && wall/time.Duration(k.Periods) == t.Rhythm.Period {
			k.Wall = wall
		}
	}
	if k.CPUs > 0 && k.Wall > 0 {
		k.ThrottledShare = float64(k.ThrottledTime) / float64(k.CPUs) / float64(k.Wall)
	}
	return k, nil
}
