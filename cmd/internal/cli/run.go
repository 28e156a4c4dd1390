package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/view"
)

const runHelp = `Run a program under a CPU limit, and tell what the limit did to it.

Usage:
  unthrottle run [FLAGS] [--] PROGRAM [ARGS]

Signals, input, output and the exit code are the program's. What was counted is written to stderr at its end.

{{flags}}

The limit is a cgroup or a systemd scope if possible, otherwise it is emulated: the program is stopped and continued by
signals, which needs no privilege. What is left of the program when it ends is killed, as in a container; a run without
--cpus and --memory has nothing to find it by, and leaves it alone.

Exit codes:
  the program's own; 128 and its number for a signal; 127 not found; 126 not executable; 1 no limit possible; 2 usage

Example:
  unthrottle run --cpus 0.5 --gomaxprocs 1 ./myserver -port 8080
`

// exitCode is the exit code of a program that was run in our place, or why it could not be.
type exitCode struct {
	code int
	err  error // nil: the program has said itself what there was to say
}

func (c exitCode) Error() string { return fmt.Sprint(c.err) }
func (c exitCode) Unwrap() error { return c.err }

func newRun(stdio IO) *cobra.Command {
	return newVerb("run", runHelp, func(l *flagList) func(context.Context, []string) error {
		l.cmd.Flags().SetInterspersed(false)
		screen := stdio
		screen.Out = stdio.Err
		results, procs, quiet := newResults(screen, sheetFormats(view.Run)), 0, false
		flags := l.section("Flags:")
		limit := limitFlags(flags, true)
		numberFlag(flags, &procs, "gomaxprocs", "", 1, "N\tset GOMAXPROCS for the program")
		results.jsonFlag(flags)
		results.fileFlag(flags)
		flags.BoolVarP(&quiet, "quiet", "q", false, "write nothing at the end")
		results.colorFlag(flags)
		return func(_ context.Context, args []string) error {
			if len(args) == 0 {
				return hint.Usage("unthrottle run --cpus 0.5 PROGRAM", "no program given")
			}
			if procs > quantity.MostWhole {
				return hint.Usage("--gomaxprocs 2", "--gomaxprocs: %d is more than %d", procs, quantity.MostWhole)
			}
			if err := limit.Check(); err != nil {
				return hint.Usage("unthrottle run --cpus 0.5 --period 100ms --memory 512m PROGRAM", "%w", err)
			}
			if err := results.open(); err != nil {
				return err
			}
			if quiet && !results.json && results.path == "" {
				results.opened = nil
			}
			doc, err := runProgram(stdio, limit, procs, args)
			if err = results.finish(doc, err); err == nil && doc.ExitCode != 0 {
				err = exitCode{doc.ExitCode, nil}
			}
			return err
		}
	})
}

// runProgram runs a program as if it were we.
func runProgram(stdio IO, limit *limitOptions, procs int, args []string) (*report.Run, error) {
	// Signals are the program's from now on. They must not end us before it, for its limit is removed by us.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	command := runner.Command{Args: args, Stdin: stdio.In, Stdout: stdio.Out, Stderr: stdio.Err}
	var given *int
	if procs > 0 {
		given, command.Env = &procs, append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(procs))
	}
	cpus := cmp.Or(len(limit.Cpuset), runtime.NumCPU())
	run, err := runner.Start(limit.Limit, limit.with, command)
	if err != nil {
		return nil, startError(err)
	}
	run.Forward(signals)
	doc := report.NewRun(args, given, limit.Limit, cpus, run.Kind(), run.Notes, run.Wait())
	doc.Header = newHeader("run")
	return &doc, nil
}

// executable is the hint for a program that is not found or may not be executed.
const executable = "is it in the PATH, and executable?"

// startError says what to do about a program that could not be started.
func startError(err error) error {
	var missing *runner.CommandError
	var refused runner.Refused
	switch {
	case errors.As(err, &missing):
		return exitCode{missing.Code(), hint.With(err, executable)}
	case errors.As(err, &refused):
		return err
	}
	return hint.With(err, "--limit-with=emulate needs no privilege")
}

// limitOptions are the flags of a limit.
type limitOptions struct {
	runner.Limit
	with runner.With
}

// limitFlags adds the flags of a limit to a verb. One that has its own way of naming CPUs leaves out --cpus.
func limitFlags(flags *pflag.FlagSet, withCPUs bool) *limitOptions {
	l := &limitOptions{with: runner.Auto}
	if withCPUs {
		flags.Var(quantity.Value(&l.CPUs, quantity.ParseCPUs, "0.5, or --cpus 500m"), "cpus", "N\tCPU time a second: 0.5, 2, or 500m as Kubernetes writes it")
	}
	flags.DurationVar(&l.Period, "period", 0, "D\tthe period in which that is counted (100ms)")
	flags.DurationVar(&l.Burst, "burst", 0, "D\tunused time that may be saved for later periods")
	flags.Var(quantity.Value(&l.Memory, quantity.ParseBytes, "512m"), "memory", "SIZE\tmost memory: 512m, 2g")
	flags.Var(quantity.Value(&l.Cpuset, quantity.ParseCPUList, "0-1"), "cpuset", "LIST\tCPUs to run on: 0-1,4")
	limitWithFlag(flags, &l.with)
	return l
}
