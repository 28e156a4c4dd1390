package demo

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadCPU is the CPU time of the thread that asks.
func threadCPU() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}
