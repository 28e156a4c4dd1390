// Package maxprocs has the calls of go.uber.org/automaxprocs/maxprocs, built on unthrottle. A program moves by changing
// one import line:
//
//	import "github.com/unthrottle/unthrottle/maxprocs"
//
// [Set] makes GOMAXPROCS fit the CPU quota: rounded down, but at least [Min], which is 1 unless it is given. Without a quota it leaves
// GOMAXPROCS unchanged. The log lines too are those of automaxprocs, where they still say what happened.
//
// Deliberate differences:
//
//   - A quota on a parent of the process's cgroup counts. The smallest one on the way up is the limit.
//   - The quota is found wherever the cgroup file system is mounted, also below names with spaces. Other controllers
//     that can't be reached, and lines of mountinfo that are longer than 64 KiB, don't stand in the way.
//   - The number is never larger than the count of CPUs in the affinity mask. That applies to Min as well.
//   - GOMAXPROCS in the environment counts as set only if the Go runtime accepts it: a whole number above zero. Both
//     ignore texts such as "", "0" and "2500m".
//   - runtime.GOMAXPROCS is called only when the number must change, for each call ends the automatic updates that Go
//     has from 1.25 on. The undo function gives them back if they were on.
//   - Where no cgroup can be seen at all, as in some sandboxes, there is no error: GOMAXPROCS stays, and the log says why.
//   - The undo function does its work once.
//   - With UNTHROTTLE=off in the environment nothing is set. A lower GOMAXPROCS that the program has set itself is not
//     raised.
//
// New programs need not start here: unthrottle.Set says more about its decision and can do more than round down.
package maxprocs

import (
	"errors"
	"os"
	"runtime"
	"sync"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
)

// Version is the version of automaxprocs whose calls this package has.
const Version = "1.6.0"

// CurrentProcs returns the current GOMAXPROCS.
func CurrentProcs() int { return runtime.GOMAXPROCS(0) }

// An Option changes what Set does.
type Option interface {
	apply(*config)
}

type config struct {
	policy unthrottle.Policy
	printf func(string, ...interface{})
}

func newConfig(opts []Option) *config {
	c := &config{policy: unthrottle.Floor}
	c.policy.LimitOnly = true
	for _, o := range opts {
		o.apply(c)
	}
	return c
}

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// Logger makes Set and its undo function write one line each through printf. Without it they are silent.
func Logger(printf func(string, ...interface{})) Option {
	return optionFunc(func(c *config) { c.printf = printf })
}

// Min sets the smallest GOMAXPROCS that a quota may lead to. A number below 1 is ignored.
func Min(n int) Option {
	return optionFunc(func(c *config) {
		if n >= 1 {
			c.policy.Min = n
		}
	})
}

// RoundQuotaFunc sets the function that turns the quota, a number of CPUs, into a whole number. Without it, or with nil,
// the quota is rounded down.
func RoundQuotaFunc(rf func(v float64) int) Option {
	return optionFunc(func(c *config) { c.policy.RoundFunc = rf })
}

// Set makes GOMAXPROCS fit the CPU quota and returns a function that undoes that. The function is never nil.
//
// GOMAXPROCS stays unchanged if there is no quota, as on all systems but Linux, and if it is set in the environment. It also stays if Set
// returns an error, which means that a file could not be read or understood.
func Set(opts ...Option) (undo func(), err error) {
	c := newConfig(opts)
	nothing := func() { c.log("maxprocs: No GOMAXPROCS change to reset") }
	d, reset := unthrottle.Set(unthrottle.Options{Policy: c.policy})
	switch {
	case d.By == unthrottle.ByEnvironment:
		c.log("maxprocs: Honoring GOMAXPROCS=%q as set in environment", os.Getenv("GOMAXPROCS"))
		return nothing, nil
	case d.Policy.Off:
		c.log("maxprocs: Leaving GOMAXPROCS=%v: UNTHROTTLE=off is set in environment", d.Now)
		return nothing, nil
	case d.Limits.State != cgroup.Limited:
		return nothing, c.leave(d.Limits)
	case d.By == unthrottle.ByProgram && !d.Changed:
		c.log("maxprocs: Leaving GOMAXPROCS=%v: the program has set it, below the CPU quota", d.Now)
		return nothing, nil
	case d.By == unthrottle.ByMinimum:
		c.log("maxprocs: Updating GOMAXPROCS=%v: using minimum allowed GOMAXPROCS", d.Procs)
	case d.By == unthrottle.ByCPUs:
		c.log("maxprocs: Updating GOMAXPROCS=%v: determined from CPU affinity, which allows less than the CPU quota", d.Procs)
	default:
		c.log("maxprocs: Updating GOMAXPROCS=%v: determined from CPU quota", d.Procs)
	}
	if !d.Changed {
		return nothing, nil
	}
	return c.once(reset, nothing), nil
}

// leave says why GOMAXPROCS stays unchanged, or returns the error that kept the quota from being known. Where no cgroup can be seen, or
// where a group above those that can be seen has the quota, automaxprocs finds no quota: a program that exits on errors must not start to
// exit there.
func (c *config) leave(l cgroup.Limits) error {
	const line = "maxprocs: Leaving GOMAXPROCS=%v: CPU quota undefined"
	switch {
	case l.State == cgroup.None, errors.Is(l.Reason, cgroup.ErrNotSupported):
		c.log(line, CurrentProcs())
	case l.State == cgroup.Hidden, errors.Is(l.Reason, cgroup.ErrNotVisible):
		c.log(line+": %v", CurrentProcs(), l.Reason)
	default:
		return l.Reason
	}
	return nil
}

// once makes an undo function of reset: the first call resets GOMAXPROCS and says to what, since the runtime's own choice may have changed;
// the others do nothing.
func (c *config) once(reset, nothing func()) func() {
	var first sync.Once
	return func() {
		done := false
		first.Do(func() {
			reset()
			c.log("maxprocs: Resetting GOMAXPROCS to %v", CurrentProcs())
			done = true
		})
		if !done {
			nothing()
		}
	}
}

func (c *config) log(format string, args ...interface{}) {
	if c.printf != nil {
		c.printf(format, args...)
	}
}
