//go:build aix || darwin || dragonfly || freebsd || linux || netbsd || openbsd || solaris

package program

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time of this process so far, in user and in system mode. (The build constraint "unix" came
// after Go 1.18.)
func cpuTime() (time.Duration, bool) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, false
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), true
}
