package load

import (
	"errors"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Pin binds all threads of this process, and those that they start, to CPUs, and sets GOMAXPROCS to their number.
func Pin(cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	done := map[int]bool{}
	for again := true; again; { // a thread may be started meanwhile by one that is not bound yet
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		again = false
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil || done[id] {
				continue
			}
			done[id], again = true, true
			if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				return os.NewSyscallError("sched_setaffinity", err)
			}
		}
	}
	runtime.GOMAXPROCS(len(cpus))
	return nil
}
