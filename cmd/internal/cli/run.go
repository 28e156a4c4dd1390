package cli

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
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

The limit is a cgroup or a scope of systemd where one can be had, else it is emulated: the program is stopped and continued
by signals, without any privilege. What is left of the program when it ends is killed, as in a container; a run without
--cpus and --memory has nothing to find it by, and leaves it alone.

Exit codes:
  the program's own; 128 and its number for a signal; 127 not found; 126 not to be executed; 1 no limit to be had; 2 usage

Example:
  unthrottle run --cpus 0.5 --gomaxprocs 1 ./myserver -port 8080
`

type runOptions struct {
	limit  runner.Limit
	with   string
	procs  int
	json   bool
	quiet  bool
	output string
}

// exitCode is the exit code of a program that was run in our place, or why it could not be.
type exitCode struct {
	code int
	err  error // nil: the program has said itself what there was to say
}

func (c exitCode) Error() string { return fmt.Sprint(c.err) }
func (c exitCode) Unwrap() error { return c.err }

func newRun(stdio IO) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{Use: "run", Long: runHelp}
	cmd.Flags().SetInterspersed(false)
	list := newFlagList(cmd)
	flags := list.section("Flags:").FlagSet
	limit := limitFlags(flags, true)
	flags.IntVar(&o.procs, "gomaxprocs", 0, "N\tset GOMAXPROCS for the program")
	jsonFlag(flags, &o.json)
	outputFlag(flags, &o.output)
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "write nothing at the end")
	color := colorFlag(flags, IO{Out: stdio.Err, Env: stdio.Env})
	list.done()
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if len(args) == 0 {
			return hint.Usage("unthrottle run --cpus 0.5 PROGRAM", "no program given")
		}
		if o.limit, o.with, err = limit(); err != nil {
			return err
		}
		if cmd.Flags().Changed("gomaxprocs") && o.procs < 1 {
			return hint.Usage("GOMAXPROCS is 1 or more", "--gomaxprocs=%d makes no sense", o.procs)
		}
		style, err := color(o.output != "")
		if err != nil {
			return err
		}
		to, err := openOne(sheetFormats(view.Run), o.output, o.json, stdio.Err)
		if err != nil {
			return err
		}
		doc, err := runProgram(stdio, o, args)
		if err == nil && (!o.quiet || o.json || o.output != "") {
			err = to.write(to.out.w, doc, style)
		}
		if err = to.out.finish(err); err == nil && doc.ExitCode != 0 {
			err = exitCode{doc.ExitCode, nil}
		}
		return err
	}
	return cmd
}

// runProgram runs a program as if it were we.
func runProgram(stdio IO, o runOptions, args []string) (*report.Run, error) {
	// Signals are the program's from now on. They must not end us before it, for its limit is removed by us.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)
	command := runner.Command{Args: args, Stdin: stdio.In, Stdout: stdio.Out, Stderr: stdio.Err}
	var procs *int
	if o.procs > 0 {
		procs = &o.procs
		command.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(o.procs))
	}
	run, err := runner.Start(o.limit, runner.With(o.with), command)
	if err != nil {
		return nil, startError(err)
	}
	run.Forward(signals)
	doc := report.NewRun(args, procs, o.limit, run.Kind(), run.Notes, run.Wait())
	doc.Header = newHeader("run")
	return &doc, nil
}

var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// startError says what to do about a program that could not be started.
func startError(err error) error {
	var missing *runner.CommandError
	var refused runner.Refused
	switch {
	case errors.As(err, &missing):
		return exitCode{missing.Code(), hint.With(err, "is it in the PATH, and may it be executed?")}
	case errors.As(err, &refused):
		return err
	}
	return hint.With(err, "--limit-with=emulate needs no privilege")
}

// limitFlags adds the flags of a limit to a verb and returns what reads them. A verb that has its own way of naming
// CPUs leaves out --cpus.
func limitFlags(flags *pflag.FlagSet, withCPUs bool) func() (runner.Limit, string, error) {
	with := runner.Auto
	var l runner.Limit
	if withCPUs {
		flags.Var(quantity.Value(&l.CPUs, quantity.ParseCPUs, "0.5, or --cpus 500m"), "cpus", "N\tCPU time a second: 0.5, 2, or 500m as Kubernetes writes it")
	}
	flags.DurationVar(&l.Period, "period", 0, "D\tthe period in which that is counted (100ms)")
	flags.DurationVar(&l.Burst, "burst", 0, "D\tunused time that may be saved for later periods")
	flags.Var(quantity.Value(&l.Memory, quantity.ParseBytes, "512m"), "memory", "SIZE\tmost memory: 512m, 2g")
	flags.Var(quantity.Value(&l.Cpuset, quantity.ParseCPUList, "0-1"), "cpuset", "LIST\tCPUs to run on: 0-1,4")
	flags.Var(oneOf(&with, runner.Auto, runner.Cgroup, runner.Systemd, runner.Emulate), "limit-with", "K\twhat sets the limit: auto, cgroup, systemd or emulate (auto)")
	return func() (runner.Limit, string, error) {
		if withCPUs {
			if err := l.Check(); err != nil {
				return l, "", hint.Usage("unthrottle run --cpus 0.5 --period 100ms PROGRAM", "%w", err)
			}
		}
		return l, string(with), nil
	}
}
