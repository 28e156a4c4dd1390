package host

import (
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// A Reading is what the kernel has counted so far: of the group with the limit, since the limit is compared with that. Without one the CPU
// time is the process's own, since its group may hold anything.
type Reading struct {
	At time.Time
	cgroup.Counters
	Groups cgroup.Throttling // of its own group as well

	byProcess bool // the CPU time is the process's own
}

// A Meter takes readings of a process's group until it is stopped: they say what its CPU limit did to it while something went on.
type Meter struct {
	Limit cgroup.Limits // at the beginning

	source   cgroup.Source
	stop     chan struct{}
	done     sync.WaitGroup
	readings []Reading
}

// StartMeter begins to read, now and then at every interval.
func StartMeter(root string, pid int, interval time.Duration) *Meter {
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
				m.add()
			}
		}
	})
	return m
}

// add takes another reading. The group of a process that has died can no longer be found, and its own time may be gone before it is reaped:
// the last count is kept, and is that of the group that was found first or of the process, as before.
func (m *Meter) add() {
	last := m.readings[len(m.readings)-1]
	r := m.read()
	if last.Known && !r.Known {
		r.Counters, r.Groups = last.Counters, last.Groups
	}
	if last.CPUKnown && (!r.CPUKnown || r.CPU < last.CPU || r.byProcess != last.byProcess) {
		r.CPU, r.CPUKnown, r.byProcess = last.CPU, true, last.byProcess
	}
	m.readings = append(m.readings, r)
}

// Stop takes the last reading and returns all.
func (m *Meter) Stop() []Reading {
	close(m.stop)
	m.done.Wait()
	m.add()
	return m.readings
}

func (m *Meter) read() Reading {
	groups := cgroup.ReadThrottling(m.source, m.Limit)
	r := Reading{At: time.Now(), Counters: groups.Owner, Groups: groups}
	if r.byProcess = m.Limit.State != cgroup.Limited || !r.CPUKnown; r.byProcess {
		r.CPU, r.CPUKnown = processCPU(m.source.Root, m.source.PID)
	}
	return r
}

// processCPU adds up what a process's threads have used. Threads that have ended are not among them, so stat, in hundredths of a second, is
// used where it says more.
func processCPU(root string, pid int) (time.Duration, bool) {
	threads, ok := procs.ReadSchedstat(root, pid)
	if data, err := foreign.ReadRecord(root, procs.Dir("", pid)+"/stat", foreign.Record); err == nil {
		if used, known := procs.ParseCPUTime(string(data)); known {
			return max(threads.Run, used), true
		}
	}
	return threads.Run, ok
}
