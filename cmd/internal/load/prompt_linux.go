package load

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// slice is the shortest time slice that the kernel gives a thread that asks for it.
const slice = 100_000 // nanoseconds

// Prompt asks the kernel to run this process's threads soon after they are woken, also where something else is running:
// since Linux 6.12 a thread may ask for a shorter time slice and has its turn earlier for that. It takes no privilege and
// gives no more CPU time. Older kernels ignore it.
func Prompt() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		attr, err := unix.SchedGetAttr(id, 0)
		if err != nil || attr.Policy != unix.SCHED_NORMAL {
			continue
		}
		attr.Runtime = slice
		unix.SchedSetAttr(id, attr, 0)
	}
}
