package runner

import (
	"errors"
	"fmt"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/emulate"
)

// emulated holds a command by signals. It takes no privilege.
type emulated struct {
	limit   Limit
	control *emulate.Controller
}

func placeEmulated(l Limit) (place, error) {
	if l.Burst != 0 {
		return nil, errNoBurst
	}
	if l.Memory != 0 {
		return nil, errors.New("an emulated limit does not hold memory")
	}
	if err := emulate.Check(); err != nil {
		return nil, err
	}
	return &emulated{limit: l}, nil
}

func (e *emulated) kind() Kind             { return Emulated }
func (e *emulated) command(*processConfig) {}
func (e *emulated) enter() error           { return nil }
func (e *emulated) leave()                 {}

func (e *emulated) started(pid int) (err error) {
	e.control, err = emulate.Start(pid, emulate.Limit{Quota: e.limit.Quota(), Period: e.limit.PeriodInForce()})
	if errors.Is(err, emulate.ErrGone) { // it exited before the limit applied, which is fine
		return nil
	}
	return err
}

func (e *emulated) counters() cgroup.Counters {
	if e.control == nil {
		return cgroup.Counters{}
	}
	c := e.control.Counters()
	return cgroup.Counters{
		Known: true, Periods: c.Periods, Throttled: c.Throttled, ThrottledTime: c.ThrottledTime, CPUKnown: true, CPU: c.CPU,
	}
}

func (e *emulated) needs() int64 { return 0 }

// finish puts the exact standstill in the place of what was seen from outside.
func (e *emulated) finish(res *Result) {
	if e.control == nil {
		return
	}
	res.Left = e.control.Kill()
	res.Standstill = e.control.Counters().LongestStandstill
	for _, err := range e.control.Warnings() {
		res.Warnings = append(res.Warnings, fmt.Errorf("the emulated limit: %w", err))
	}
}
