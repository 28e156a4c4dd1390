package disturbance

import (
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/watcher"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// room is for pauses that a thread has seen and that are not read yet: with one in each sleep, more than it can see between two reports.
const room = 64

// An eye is what a thread reports: it writes, and WatchPauses reads.
type eye struct {
	until atomic.Int64 // it has been awake since all that it has reported; 0: it has not begun
	told  atomic.Int64 // pauses, of which the last ones are in the ring
	ring  [room][2]atomic.Int64
	errno atomic.Int32 // why it has no priority

	_ [64]byte // apart from the next one, in the caches too
}

// WatchPauses waits for a line from in, and then writes reports to out until they are no longer read. Its process does nothing else, and
// has neither a garbage collection nor preemption, and a P for each CPU and one more: see StartPauses.
func WatchPauses(in io.Reader, out io.Writer) error {
	if err := watcher.AwaitBegin(in); err != nil {
		return err
	}
	cpus := allowed()
	eyes := make([]eye, len(cpus))
	for i, cpu := range cpus {
		go eyes[i].watch(cpu, max(interval, interval*time.Duration(len(cpus))/few))
	}
	read := make([]int64, len(cpus))
	var r report
	var line []byte
	own := price{cpus: len(cpus)}
	for {
		time.Sleep(reportEvery)
		if err := own.check(time.Duration(now()), procs.OwnCPU()); err != nil {
			return err
		}
		r.until = time.Duration(now())
		for i := range eyes {
			e := &eyes[i]
			if errno := e.errno.Load(); errno != 0 {
				return fmt.Errorf("real-time priority, which takes root or CAP_SYS_NICE: %w", unix.Errno(errno))
			}
			// In this order: what is reported later has ended later, too.
			r.until = min(r.until, time.Duration(e.until.Load()))
			for told := e.told.Load(); read[i] < told; read[i]++ {
				if told-read[i] > room {
					read[i] = told - room
				}
				p := &e.ring[read[i]%room]
				r.pauses = append(r.pauses, Span{From: time.Duration(p[0].Load()), To: time.Duration(p[1].Load())})
			}
		}
		if r.until == 0 { // one of them has not begun
			continue
		}
		line = r.append(line[:0])
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("writing a report of pauses: %w", err)
		}
		r.pauses = r.pauses[:0]
	}
}

// allowed are the CPUs that this process may use, regardless of the affinity that it inherited.
func allowed() (cpus []int) {
	var set unix.CPUSet
	for c := range len(set) * 64 {
		set.Set(c)
	}
	_ = unix.SchedSetaffinity(0, &set)
	set.Zero() // the kernel fills in as much as it has
	if unix.SchedGetaffinity(0, &set) != nil {
		return []int{0}
	}
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus
}

// priority is above the load generator's, which is 1.
const priority = 2

// watch is a thread. The scheduler knows nothing of its sleeps, and the loop calls nothing that is not inlined: at the beginning of a
// function it could be stopped, and would wait for a thread without any priority.
func (e *eye) watch(cpu int, sleep time.Duration) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	_ = unix.SchedSetaffinity(0, &set)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: priority}
	if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
		errno, _ := err.(unix.Errno)
		e.errno.Store(int32(errno))
		return
	}
	var t unix.Timespec
	due := now()
	for {
		due += int64(sleep)
		t = unix.NsecToTimespec(due)
		unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&t)), 0, 0, 0)
		unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&t)), 0)
		woke := t.Nano()
		if woke-due >= int64(late) {
			told := e.told.Load()
			p := &e.ring[told%room]
			p[0].Store(due)
			p[1].Store(woke)
			e.told.Store(told + 1)
		}
		e.until.Store(woke)
		due = woke
	}
}

// now is the machine's monotonic clock.
func now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}
