// Package emulate answers: how is a program held to a CPU limit without any privilege? In go the number of a process
// that was just started and a limit; the process and all that it starts are then held with SIGSTOP when the quota of a
// period is spent, and continued with SIGCONT when the next begins. Out comes what the kernel counts for a real limit.
//
// It follows the kernel's rules (sched-bwc.rst, kernel/sched/fair.c): periods stand on a fixed grid and are counted while
// the program is active; unused quota is lost; what was used beyond the quota is taken from the next period's. Time is
// read where the kernel keeps it, and that is brought up to date at the kernel's tick and when threads change: so we see
// an overrun no later than the kernel's own limit does.
//
// A limit by signals differs from the kernel's in ways that a program can notice:
//
//   - All threads of all processes stand still together. The kernel hands out quota to each CPU in slices of 5 ms, and
//     stops each CPU for itself.
//   - Its processes are in state T, and each stop wakes the threads that sleep: that is CPU time of the program.
//   - After SIGCONT some system calls return EINTR, even where no signal has a handler: epoll_wait, semop and a few
//     more, see signal(7). Go's runtime and most libraries call again.
//   - A parent within the program gets SIGCHLD for a child's stop unless it set SA_NOCLDSTOP. It does not see the stop
//     by waitpid with WUNTRACED, since it is stopped first and continued last. The parent of the first process does.
//   - SIGTSTP that comes while a process is held is passed on when the hold ends, not at once. A SIGCONT to a held
//     process, no matter who sends it, sets it free until the next period.
//   - A process that is started is held from when it is first seen, which is before its parent is held or, at the
//     latest, with the next look. A daemon is not found if it was started before Start tagged the program, or if its
//     program has a hard limit for real-time scheduling. The time of a process that was never seen and that no one
//     waited for is not counted.
//   - Processes that run as another user can't be held, if we may not signal them.
//   - While the process that holds is stopped itself, nothing is held again.
//
// It limits no memory, saves no quota for a burst, and knows no weights.
//
// Nothing stays stopped when the controller ends, however it ends, and nothing of the program goes on without its limit when we are
// killed: a small guard process ends what is left of it then.
package emulate

import (
	"fmt"
	"time"
)

// A Limit is CPU time in each period.
type Limit struct {
	Quota, Period time.Duration
}

func (l Limit) check() error {
	if l.Quota <= 0 || l.Period <= 0 {
		return fmt.Errorf("holding a process: bad quota of %v each %v", l.Quota, l.Period)
	}
	return nil
}

// Counters are what a limit has done so far. Periods and Throttled count as the kernel's nr_periods and nr_throttled do.
type Counters struct {
	CPU           time.Duration // of all processes, also of those that have ended
	Periods       int64         // in which the program was active, and the one after
	Throttled     int64         // periods at whose end the program was held
	ThrottledTime time.Duration // all holds, each counted once: the kernel adds it up over CPUs
	// LongestStandstill is the longest hold. One that goes on over several periods is one hold.
	LongestStandstill time.Duration
}
