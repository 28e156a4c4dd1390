package disturbance

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what all threads of a process have used, including those that have ended; pid 0 is this process. The clock of another process
// has its number in its name, see the kernel's posix-timers.h.
func cpuTime(pid int) (time.Duration, error) {
	clock := int32(unix.CLOCK_PROCESS_CPUTIME_ID)
	if pid != 0 {
		const scheduled = 2 // what the scheduler counts, and not ticks
		clock = int32(^pid)<<3 | scheduled
	}
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
