//go:build !linux

package host

import (
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// cpuTime is the CPU time that a process has used, from the files below a root.
func cpuTime(root string, pid int) (time.Duration, bool) {
	stat, err := foreign.ReadRecord(root, procs.Dir("", pid)+"/stat", foreign.Record)
	if err != nil {
		return 0, false
	}
	return procs.ParseCPUTime(string(stat))
}

// allowed are the CPUs that a process may run on.
func allowed(root string, pid int) string { return allowedLine(root, pid) }
