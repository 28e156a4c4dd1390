package exectrace

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

// ParseStat reads a cpu.stat that was saved before or after a trace. The names say which version it is of:
//
//	v1: nr_periods 60, nr_throttled 20, throttled_time 1500000000 (ns)
//	v2: usage_usec 1, …, nr_periods 60, nr_throttled 20, throttled_usec 1500000
//
// Each on a line of its own.
func ParseStat(text string) (cgroup.Counters, error) {
	var c cgroup.Counters
	found := 0
	for i, line := range strings.Split(text, "\n") {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		to, unit := &c.Periods, int64(1)
		var t int64
		switch name {
		case "nr_periods":
		case "nr_throttled":
			to = &c.Throttled
		case "throttled_time":
			to = &t
		case "throttled_usec":
			to, unit = &t, 1000
		default:
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/unit {
			return c, fmt.Errorf("line %d of cpu.stat: bad number %q of %s", i+1, value, name)
		}
		if *to = n * unit; to == &t {
			c.ThrottledTime = time.Duration(t)
		}
		found++
	}
	if found < 3 {
		return c, errors.New("cpu.stat: it has no nr_periods, nr_throttled and throttled_usec (or throttled_time): is there a quota?")
	}
	c.Known = true
	return c, nil
}

// Kernel is what the kernel counted while the trace was recorded.
type Kernel struct {
	Periods        int64         `json:"periods"`
	Throttled      int64         `json:"throttled"`       // periods
	PeriodsShare   float64       `json:"periods_share"`   // Throttled ÷ Periods
	ThrottledTime  time.Duration `json:"throttled_time"`  // a sum over CPUs
	CPUs           int           `json:"cpus"`            // that it is divided by
	Wall           time.Duration `json:"wall"`            // of the counters: Periods × the period if that is known, else of the trace
	ThrottledShare float64       `json:"throttled_share"` // ThrottledTime ÷ CPUs ÷ Wall: beside Trace.Throttled
}

// Compare sets the counters from before and after the trace beside it. CPUs is how many the program could use at once; 0
// is its GOMAXPROCS.
func (t *Trace) Compare(before, after cgroup.Counters, cpus int) (*Kernel, error) {
	k := &Kernel{
		Periods: after.Periods - before.Periods, Throttled: after.Throttled - before.Throttled,
		ThrottledTime: after.ThrottledTime - before.ThrottledTime, CPUs: cpus, Wall: t.Wall,
	}
	if k.Periods < 0 || k.Throttled < 0 || k.ThrottledTime < 0 {
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
