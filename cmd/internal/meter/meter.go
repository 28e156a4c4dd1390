// Package meter answers: what did a process's CPU limit do to it while something went on? In goes a pid, out come
// readings of what the kernel counts for its group, with their times. It reads files; it needs no help from the process.
package meter

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
)

// A Reading is what the kernel has counted so far.
type Reading struct {
	At        time.Time
	Known     bool // that of periods
	Periods   int64
	Throttled int64
	Time      time.Duration // throttled, summed over CPUs
	CPU       time.Duration
	CPUKnown  bool
}

// A Meter takes readings of a process's group until it is stopped.
type Meter struct {
	Limit cgroup.Limits // at the beginning

	source   cgroup.Source
	stop     chan struct{}
	done     sync.WaitGroup
	readings []Reading
}

// Start begins to read, now and then at every interval.
func Start(root string, pid int, interval time.Duration) *Meter {
	m := &Meter{source: cgroup.Source{Root: root, PID: pid}, stop: make(chan struct{})}
	m.Limit = cgroup.Read(m.source)
	m.readings = append(m.readings, m.read())
	m.done.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-m.stop:
				return
			case <-tick.C:
				m.readings = append(m.readings, m.read())
			}
		}
	})
	return m
}

// Stop takes the last reading and returns all.
func (m *Meter) Stop() []Reading {
	close(m.stop)
	m.done.Wait()
	return append(m.readings, m.read())
}

func (m *Meter) read() Reading {
	r := Reading{At: time.Now()}
	if c := cgroup.ReadThrottling(m.source, m.Limit).Owner; c.Known {
		r.Known, r.Periods, r.Throttled, r.Time = true, c.Periods, c.Throttled, c.ThrottledTime
	}
	r.CPU, r.CPUKnown = m.cpu()
	return r
}

// cpu reads the CPU time of the group with the limit, where there is one: that is what the limit is held against. Of a
// process without a limit it is its own, for its group may hold anything.
func (m *Meter) cpu() (time.Duration, bool) {
	if m.Limit.State == cgroup.Limited {
		if own, _, _, err := cgroup.Locate(m.source, "cpu"); err == nil {
			up := 0 // from the process's own group to the one with the limit
			if rest, ok := strings.CutPrefix(own, m.Limit.From+"/"); ok {
				up = strings.Count(rest, "/") + 1
			}
			if d, ok := m.groupCPU(up); ok {
				return d, true
			}
		}
	}
	return processCPU(filepath.Join(m.source.Root, "/proc", strconv.Itoa(m.source.PID)))
}

func (m *Meter) groupCPU(up int) (time.Duration, bool) {
	climb := func(dir string) string {
		for range up {
			dir = filepath.Dir(dir)
		}
		return filepath.Join(m.source.Root, "/", dir)
	}
	if dir, _, _, err := cgroup.Locate(m.source, "cpuacct"); err == nil {
		if data, err := os.ReadFile(filepath.Join(climb(dir), "cpuacct.usage")); err == nil {
			n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
			return time.Duration(n), err == nil
		}
	}
	dir, _, _, err := cgroup.Locate(m.source, "cpu")
	if err != nil {
		return 0, false
	}
	data, err := os.ReadFile(filepath.Join(climb(dir), "cpu.stat"))
	if err != nil {
		return 0, false
	}
	return procs.ParseUsage(string(data))
}

// processCPU adds up what a process's threads have used. Threads that have ended are not among them, so that stat, in
// hundredths of a second, stands in where it says more.
func processCPU(dir string) (time.Duration, bool) {
	threads, ok := procs.ReadSchedstat(dir)
	if data, err := os.ReadFile(filepath.Join(dir, "stat")); err == nil {
		if used, known := procs.ParseCPUTime(string(data)); known {
			return max(threads.Run, used), true
		}
	}
	return threads.Run, ok
}
