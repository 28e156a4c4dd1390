package choice

import (
	"fmt"
	"io/fs"
	"math"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// Under is the system of a container that itself has this limit (0: none) and this many CPUs. It shows what a program will do
// there before it is there.
func Under(limit float64, cpus int, policy unthrottle.Policy) System {
	const own = "/sys/fs/cgroup"
	s := System{
		Policy:    policy,
		Limits:    cgroup.Limits{State: cgroup.None, Affinity: cpus, Version: cgroup.V2, Path: "/"},
		cgroup:    "0::/\n",
		mountinfo: "30 1 0:26 / " + own + " rw - cgroup2 cgroup2 rw\n",
	}
	level := cgroup.Level{Dir: own}
	quota := "max"
	if limit > 0 {
		s.Limits.State, s.Limits.CPUs, s.Limits.From = cgroup.Limited, limit, own
		level.Quota = cgroup.Quota{QuotaMicros: int64(math.Round(limit * 100_000)), PeriodMicros: 100_000}
		quota = fmt.Sprintf("%.0f", math.Round(limit*100_000))
	}
	s.Limits.Levels = []cgroup.Level{level}
	s.Inside = s.Limits
	s.read = func(file string) (string, error) {
		if file == own+"/cpu.max" {
			return quota + " 100000\n", nil
		}
		return "", fs.ErrNotExist
	}
	return s
}

// GoDefault is what the Go runtime of a program alone would choose: without libraries and GOMAXPROCS in the environment.
func (s System) GoDefault(p procs.Process) Prediction {
	if p.Program == nil {
		return Prediction{Why: reason(p.ProgramErr)}
	}
	return s.runtime(p)
}
