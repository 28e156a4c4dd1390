package cli

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

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

Flags:
      --cpus N        CPU time a second: 0.5, 2, or 500m as Kubernetes writes it
      --period D      in which that is counted (100ms)
      --burst D       unused time that may be saved for later periods
      --memory SIZE   512m, 2g
      --cpuset LIST   CPUs to run on: 0-1,4
      --gomaxprocs N  set GOMAXPROCS for the program
      --limit-with K  auto, cgroup, systemd or emulate
      --json          the document instead of text
  -o, --output F      write to file F
  -q, --quiet         write nothing at the end
      --color WHEN    auto, always or never

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
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	limit := limitFlags(cmd, true)
	flags.IntVar(&o.procs, "gomaxprocs", 0, "")
	flags.BoolVar(&o.json, "json", false, "")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "")
	flags.StringVarP(&o.output, "output", "o", "", "")
	color := colorFlag(cmd, IO{Out: stdio.Err, Env: stdio.Env})
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
func limitFlags(cmd *cobra.Command, withCPUs bool) func() (runner.Limit, string, error) {
	flags := cmd.Flags()
	var cpus, memory, cpuset, with string
	var l runner.Limit
	if withCPUs {
		flags.StringVar(&cpus, "cpus", "", "")
	}
	flags.DurationVar(&l.Period, "period", 0, "")
	flags.DurationVar(&l.Burst, "burst", 0, "")
	flags.StringVar(&memory, "memory", "", "")
	flags.StringVar(&cpuset, "cpuset", "", "")
	flags.StringVar(&with, "limit-with", "auto", "")
	return func() (_ runner.Limit, _ string, err error) {
		if cpus != "" {
			if l.CPUs, err = quantity.ParseCPUs(cpus); err != nil {
				return l, "", hint.Usage("--cpus 0.5, or --cpus 500m", "--cpus: %w", err)
			}
		}
		if memory != "" {
			if l.Memory, err = quantity.ParseBytes(memory); err != nil {
				return l, "", hint.Usage("--memory 512m", "--memory: %w", err)
			}
		}
		if cpuset != "" {
			if l.Cpuset, err = quantity.ParseCPUList(cpuset); err != nil {
				return l, "", hint.Usage("--cpuset 0-1", "--cpuset: %w", err)
			}
		}
		switch runner.With(with) {
		case runner.Auto, runner.Cgroup, runner.Systemd, runner.Emulate:
		default:
			return l, "", hint.Usage("write --limit-with=auto, cgroup, systemd or emulate", "--limit-with=%s is none of its values", with)
		}
		if withCPUs {
			if err := l.Check(); err != nil {
				return l, "", hint.Usage("unthrottle run --cpus 0.5 --period 100ms PROGRAM", "%w", err)
			}
		}
		return l, with, nil
	}
}
