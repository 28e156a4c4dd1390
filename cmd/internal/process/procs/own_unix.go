//go:build unix

package procs

import (
	"syscall"
	"time"
)

// OwnCPU is the CPU time that this process has used.
func OwnCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
