// Package runner answers: how is a program run under a CPU limit, and what did the limit do to it? In go a limit and a
// command; out comes what the kernel counted: CPU time, periods, throttled periods, standstill.
//
// It is the only package that starts programs under a limit or writes cgroup files. A limit is real where a cgroup can
// be made, by ourselves or by systemd, and otherwise emulated; which of them it was is part of every result. Groups are
// removed when the command ends, however it ends, with every process that is left in them; those of a runner that was
// killed are removed by the next one.
package runner

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// A With says which kinds of limit may be used.
type With string

const (
	Auto    With = "auto" // the first of the others that is available
	Cgroup  With = "cgroup"
	Systemd With = "systemd"
	Emulate With = "emulate"
)

// A Kind is what a limit turned out to be.
type Kind string

const (
	V1       Kind = "cgroup-v1"
	V2       Kind = "cgroup-v2"
	Scope    Kind = "systemd"
	Emulated Kind = "emulated"
	None     Kind = "none" // no limit was asked for
)

// A Limit is what a command is held to. The zero Limit is none.
type Limit struct {
	CPUs   float64       // 0: none
	Period time.Duration // 0: 100 ms
	Burst  time.Duration // unused quota that may be saved for later periods
	Memory int64         // bytes; 0: none
	Cpuset []int         // CPUs to run on; nil: all that we may use

	// CountMemory asks for the group's memory to be counted where it can be, though it is not limited.
	CountMemory bool
}

// Bounds of the kernel for a quota and its period; see sched-bwc.rst.
const (
	minQuota      = time.Millisecond
	minPeriod     = time.Millisecond
	maxPeriod     = time.Second
	defaultPeriod = 100 * time.Millisecond
)

// What a process takes to start at all. With less the kernel refuses the fork, with a different error for each size, or kills
// the program before its first instruction.
const (
	minMemory = 1 << 20
	goMemory  = 4 << 20
)

// PeriodInForce is the period: the kernel's own where the limit leaves it open.
func (l Limit) PeriodInForce() time.Duration {
	if l.Period == 0 {
		return defaultPeriod
	}
	return l.Period
}

// WithCPUs is the limit with another number of CPUs. With 0 there is no period and no burst either.
func (l Limit) WithCPUs(cpus float64) Limit {
	if l.CPUs = cpus; cpus == 0 {
		l.Period, l.Burst = 0, 0
	}
	return l
}

// Quota is the CPU time of a period.
func (l Limit) Quota() time.Duration {
	return time.Duration(math.Round(l.CPUs * float64(l.PeriodInForce()))).Round(time.Microsecond)
}

// OutOfMemory begins what is said about a program that the kernel killed for lack of memory.
const OutOfMemory = "out of memory"

// OutOfMemory says so of one that had this limit.
func (l Limit) OutOfMemory() string {
	if l.Memory == 0 {
		return OutOfMemory
	}
	return OutOfMemory + ": limit " + quantity.Bytes(l.Memory)
}

// countsMemory reports whether to count the group's memory.
func (l Limit) countsMemory() bool { return l.Memory != 0 || l.CountMemory }

// needsGroup reports whether something is limited that takes a group, or its emulation.
func (l Limit) needsGroup() bool { return l.CPUs != 0 || l.Memory != 0 }

// Refused is an error in the limit, and not of this machine: another kind of limit would not help.
type Refused struct{ error }

func (r Refused) Unwrap() error { return r.error }

func refused(format string, args ...any) error { return Refused{fmt.Errorf(format, args...)} }

// Check checks a limit against the kernel's rules.
func (l Limit) Check() error {
	switch {
	case l.CPUs < 0 || math.IsNaN(l.CPUs) || l.CPUs > 1<<20:
		return refused("bad limit of %v CPUs", l.CPUs)
	case l.Period != 0 && (l.Period < minPeriod || l.Period > maxPeriod):
		return refused("a period of %v: the kernel wants 1ms to 1s", l.Period)
	case l.CPUs == 0 && (l.Period != 0 || l.Burst != 0):
		return refused("a period or a burst without a limit")
	case l.CPUs != 0 && l.Quota() < minQuota:
		return refused("%v of a period of %v are %v: the kernel wants a quota of at least %v; a longer period makes it larger",
			quantity.CPUs(l.CPUs), l.PeriodInForce(), l.Quota(), minQuota)
	case l.Burst < 0 || l.Burst > l.Quota():
		return refused("a burst of %v: the kernel wants at most the quota, which is %v", l.Burst, l.Quota())
	case l.Memory != 0 && l.Memory < minMemory:
		return refused("a memory limit of %s: no program runs in less than %s, and one in Go takes about %s",
			quantity.Bytes(l.Memory), quantity.Bytes(minMemory), quantity.Bytes(goMemory))
	}
	return checkCpuset(l.Cpuset)
}

// A Command is what to run.
type Command struct {
	Args           []string // the program, and its arguments
	Env            []string // instead of ours; nil: ours
	Dir            string   // "": ours
	Net            *Network // nil: ours
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Result is what is known of a command that has ended.
type Result struct {
	Wall time.Duration
	cgroup.Counters
	Standstill  time.Duration // the longest that the limit was seen to make it stand still
	PeakMemory  int64         // 0: not known
	PeakOf      PeakOf
	PeakNeeded  int64 // the most that was seen without pages of files; 0: not known
	OOMKills    int64
	Voluntary   int64 // context switches
	Involuntary int64
	ExitCode    int
	Signal      string // that ended it; ExitCode is then 128 and its number, as in a shell
	Left        int    // processes that it left behind, and which were killed
	Escaped     error  // it was not held to its limit all the time; nil: nothing of that was seen. It is among the warnings, too
	Warnings    []error
}

// PeakOf says what a peak of memory is of.
type PeakOf string

const (
	OfGroup   PeakOf = "group"
	OfProcess PeakOf = "process" // the largest of those that were waited for
	AtMost    PeakOf = "at most" // a process counts from before it became the program: then it was a copy of us, and as large
)

// Start starts a command under a limit. Kinds that aren't available here are skipped if with is Auto; Run.Notes says
// why.
func Start(l Limit, with With, c Command) (*Run, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if len(c.Args) == 0 {
		return nil, errors.New("no command to start")
	}
	if !l.needsGroup() {
		return start(plain{}, l, c)
	}
	var notes []string
	for _, kind := range kinds(with) {
		p, err := kind.place(l)
		if err == nil {
			var run *Run
			if run, err = start(p, l, c); err == nil {
				run.Notes = notes
				return run, nil
			}
		}
		var missing *CommandError
		var no Refused
		switch {
		case errors.As(err, &missing) || errors.As(err, &no):
			return nil, err
		case with != Auto:
			return nil, hint.With(err, l.way())
		}
		notes = append(notes, fmt.Sprintf("%s: %v", kind.with, err))
	}
	return nil, hint.With(fmt.Errorf("no kind of limit is available here: %s", strings.Join(notes, "; ")), l.way())
}

// Check returns which kind of limit Start would use, by running a command that does nothing, and why not one before it.
func Check(l Limit, with With, nothing ...string) (Kind, []string, error) {
	run, err := Start(l, with, Command{Args: nothing})
	if err != nil {
		return "", nil, err
	}
	run.Wait()
	return run.Kind(), run.Notes, nil
}

// CommandError is a command that can't be started: it is not there, or may not be executed.
type CommandError struct {
	Name string
	Err  error
}

func (e *CommandError) Error() string { return fmt.Sprintf("starting %s: %v", e.Name, e.Err) }
func (e *CommandError) Unwrap() error { return e.Err }

// Code is the exit code that shells have for it.
func (e *CommandError) Code() int {
	if errors.Is(e.Err, os.ErrPermission) {
		return 126
	}
	return 127
}

var errNoBurst = errors.New("only a cgroup can save unused quota for a burst")

// way is what to do where a limit can't be had.
func (l Limit) way() string {
	switch {
	case l.Memory != 0:
		return "a limit of memory takes a cgroup: run it as root, or leave the limit out"
	case l.Burst != 0:
		return "a burst takes a cgroup: run it as root, or leave the burst out"
	}
	return "--limit-with=emulate needs no privilege"
}

// A kind makes places of one kind of limit.
type kind struct {
	with  With
	place func(Limit) (place, error)
}

func kinds(with With) []kind {
	all := []kind{{Cgroup, placeInCgroup}, {Systemd, placeInScope}, {Emulate, placeEmulated}}
	if managedBySystemd() {
		// It takes controllers away from groups as soon as nothing of its own needs them, and our limit with them.
		all[0], all[1] = all[1], all[0]
	}
	for _, k := range all {
		if k.with == with {
			return []kind{k}
		}
	}
	return all
}

// A place is where a command can be held to a limit. Its methods are called in the order in which they stand here.
type place interface {
	kind() Kind
	// command may wrap the command line, and set what the system does when it starts the process.
	command(*processConfig)
	// enter moves the calling thread to where the process should be born, leave moves it back.
	enter() error
	leave()
	// started says what the process's number is.
	started(pid int) error
	// counters reads what the limit has done so far; they are not Known if nothing counts.
	counters() cgroup.Counters
	// needs reads how much memory the command has now, without pages of files, which the kernel gives up when memory is short; 0: not known.
	needs() int64
	// finish ends what is left of the command, gives the last figures, and removes the place.
	finish(*Result)
}
