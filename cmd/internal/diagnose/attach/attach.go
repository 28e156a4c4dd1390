// Package attach answers: how do we get an execution trace or a CPU profile of a program? In goes a page of net/http/pprof, a
// pid or a program to start; out comes the trace or the profile, with what was seen besides: the process, its limit, what the
// kernel counted meanwhile and, with a profile, how much CPU time its runtime says it wanted. It also reads both from
// input that may be something else, and says what that is. What they mean is for exectrace and cpuprofile to say.
package attach

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/input"

	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/golive"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
)

// Beside is what was seen besides a trace or a profile.
type Beside struct {
	PID        int           // 0: not known
	Name       string        // of the process
	Set        choice.Source // its environment, if that has its GOMAXPROCS
	Live       int           // GOMAXPROCS from its memory; 0: not known
	Limits     *cgroup.Limits
	OutOfSight bool           // the limit can't be seen from inside its container
	Readings   []host.Reading // while it was taken
	Kernel     freeze.Kernel  // what they say of the cause of standstills
	Warnings   []error
}

// find looks at a process, and reports whether it was seen. Limits that are known stay.
func (b *Beside) find(pid int) bool {
	if pid == 0 {
		return false
	}
	process, _, err := host.Read("", pid)
	if err != nil {
		b.Warnings = append(b.Warnings, fmt.Errorf("the process: %w: its limit is not known", err))
		return false
	}
	b.PID, b.Name = pid, process.Name
	if b.Limits == nil {
		b.Limits, b.OutOfSight = &process.System.Limits, process.System.OutOfSight()
	}
	if v, err := golive.Read(pid); err == nil {
		b.Live = v.Procs
		if p := process.Prediction; p.Source == choice.FromEnvironment && p.Procs == v.Procs {
			b.Set = p.Source
		}
	}
	return true
}

// while reads the counters of the process's group, where it is known, while something is done.
func (b *Beside) while(ctx context.Context, far *Far, do func() error) error {
	switch {
	case far != nil:
		err := do()
		b.againFar(ctx, far)
		return err
	case b.PID == 0:
		return do()
	}
	m := host.StartMeter("", b.PID, time.Second)
	err := do()
	b.Readings = m.Stop()
	b.Kernel = counted(b.PID, m.Limit, b.Readings)
	return err
}

// counted is what readings say of the cause of standstills: nothing if the process was moved meanwhile, or its limit changed.
func counted(pid int, limit cgroup.Limits, readings []host.Reading) freeze.Kernel {
	first, last := readings[0].Groups, readings[len(readings)-1].Groups
	if !sameLimit(cgroup.Read(cgroup.Source{PID: pid}), limit) {
		return freeze.Kernel{}
	}
	return freeze.Counted(limit.State, freeze.Seen(limit).Levels, last.Since(first))
}

// sameLimit reports whether nothing was changed between two looks at a process's limit.
func sameLimit(a, b cgroup.Limits) bool {
	return a.Path == b.Path && a.From == b.From && a.CPUs == b.CPUs
}

// profileMost is more than a profile has; cpuprofile reports one that large.
const profileMost = 65 << 20

// ReadFile reads a file, or stdin for "-", but no more of it than a profile has.
func ReadFile(ctx context.Context, name string, stdin io.Reader) ([]byte, error) {
	f, err := input.Open(ctx, name, stdin)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, profileMost))
}
