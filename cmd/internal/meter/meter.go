// Package meter answers: what did a process's CPU limit do to it while something went on? In goes a pid, out come
// readings of what the kernel counts for its group, with their times. It reads files; it needs no help from the process.
package meter

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
)

// A Reading is what the kernel has counted so far: of the group with the limit, for that is what the limit is held against.
// Where there is none the CPU time is the process's own, for its group may hold anything.
type Reading struct {
	At time.Time
	cgroup.Counters
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
	r := Reading{At: time.Now(), Counters: cgroup.ReadThrottling(m.source, m.Limit).Owner}
	if m.Limit.State != cgroup.Limited || !r.CPUKnown {
		r.CPU, r.CPUKnown = processCPU(filepath.Join(m.source.Root, "/proc", strconv.Itoa(m.source.PID)))
	}
	return r
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
