package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/view"
)

const runHelp = `Run a program under a CPU limit, and report what the limit did to it.

Usage:
  unthrottle run [FLAGS] [--] PROGRAM [ARGS]

Signals, input, output and the exit code are the program's own. When it ends, what was counted is written to stderr.

{{flags}}

The limit is a cgroup or a systemd scope if possible; otherwise it is emulated: signals stop and continue the program, which
needs no privilege. When the program ends, any processes that it left running are killed, as in a container. Without --cpus
and --memory, run can't find them and leaves them alone.

Exit codes:
  the program's own; 128 plus the number of a signal; 127 not found; 126 not executable; 1 no limit possible; 2 usage

Example:
  unthrottle run --cpus 0.5 --gomaxprocs 1 ./myserver -port 8080
`

func newRun(stdio IO) *cobra.Command {
	return verb.New("run", runHelp, func(l *verb.Flags) func(context.Context, []string) error {
		l.Cmd.Flags().SetInterspersed(false)
		screen := stdio
		screen.Out = stdio.Err
		results, procs, quiet := verb.NewResults(screen.IO, verb.SheetFormats(view.Run)), 0, false
		flags := l.Section("Flags:")
		limit := limitFlags(flags)
		verb.Number(flags, &procs, "gomaxprocs", "", 1, "N\tset GOMAXPROCS for the program")
		results.JSONFlag(flags)
		results.FileFlag(flags)
		flags.BoolVarP(&quiet, "quiet", "q", false, "print nothing at the end")
		results.ColorFlag(flags)
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
			if err := results.Open(); err != nil {
				return err
			}
			if quiet && !results.JSON && results.Path == "" {
				results.Silence()
			}
			doc, err := runProgram(stdio, limit, procs, args)
			if err = results.Finish(doc, err); err == nil && doc.ExitCode != 0 {
				err = verb.ExitCode{Code: doc.ExitCode}
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
	doc.Header = verb.NewHeader("run")
	return &doc, nil
}

// executable is the hint for a program that is not found or may not be executed.
const executable = "is it in the PATH, and executable?"

// startError says what to do about a program that could not be started.
func startError(err error) error {
	var missing *runner.CommandError
	if errors.As(err, &missing) {
		return verb.ExitCode{Code: missing.Code(), Err: hint.With(err, executable)}
	}
	return err
}

// limitOptions are the flags of a limit.
type limitOptions struct {
	runner.Limit
	with runner.With
}

// limitFlags adds the flags of a limit to a verb, but for those that it has in a way of its own.
func limitFlags(flags *pflag.FlagSet, but ...string) *limitOptions {
	l := &limitOptions{with: runner.Auto}
	if !slices.Contains(but, "cpus") {
		flags.Var(quantity.Value(&l.CPUs, quantity.ParseCPUs, "0.5, or --cpus 500m"), "cpus", "N\tCPU time per second: 0.5, 2, or 500m as in Kubernetes")
	}
	flags.DurationVar(&l.Period, "period", 0, "D\tthe period over which that is counted (100ms)")
	flags.DurationVar(&l.Burst, "burst", 0, "D\tunused time that may be saved for later periods")
	if !slices.Contains(but, "memory") {
		flags.Var(quantity.Value(&l.Memory, quantity.ParseBytes, "512m"), "memory", "SIZE\tmemory limit: 512m, 2g")
	}
	flags.Var(quantity.Value(&l.Cpuset, quantity.ParseCPUList, "0-1"), "cpuset", "LIST\tCPUs to run on: 0-1,4")
	limitWithFlag(flags, &l.with)
	return l
}
