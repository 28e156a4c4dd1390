package demo

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadCPU is the CPU time of the thread that asks.
func threadCPU() time.Duration {
	cpu, _ := clock(unix.CLOCK_THREAD_CPUTIME_ID)
	return cpu
}

// processCPU is the CPU time of this process so far.
func processCPU() (cpu time.Duration, known bool) { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func clock(id int32) (time.Duration, bool) {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
