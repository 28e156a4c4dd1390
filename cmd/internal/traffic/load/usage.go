package load

import (
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// usage is what this process has used so far.
type usage struct {
	cpu    time.Duration
	waited time.Duration // for a CPU; 0: not known
}

func readUsage() usage {
	threads, _ := procs.ReadSchedstat("", 0) // Linux alone has it
	return usage{procs.OwnCPU(), threads.Waited}
}

// since is what was used after another reading. A thread that has ended takes its waiting with it.
func (u usage) since(before usage) usage {
	return usage{u.cpu - before.cpu, max(0, u.waited-before.waited)}
}
