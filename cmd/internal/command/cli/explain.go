package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/show/inspect"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/view"
)

const explainHelp = `The CPU limit of a process, its GOMAXPROCS, and why.

Usage:
  unthrottle explain [FLAGS]                      programs started from this shell
  unthrottle explain [FLAGS] PID | NAME | URL     a running process: api, or localhost:8080 if it listens there
  unthrottle explain [FLAGS] -- COMMAND [ARGS]    start COMMAND, explain it, and let it run

COMMAND keeps running after it has been explained, and explain waits for it to end; COMMAND's output goes to stderr.

{{flags}}

A running process is observed for one second, because only that shows whether it is throttled and what is wrong with it.

Without root it explains only your own processes. Of another user's process it sees the limit, but neither the program nor
its environment.

Exit codes:
  0 done   1 no such process, or with --fail-on it could not be examined   2 usage   3 see --fail-on   130 interrupted

Example:
  unthrottle explain --for 10s myserver
`

type explainOptions struct {
	look    time.Duration // how long the process is looked at
	detach  bool
	root    string
	fail    verb.Threshold
	results *verb.Results[*report.Explain]
}

func newExplain(stdio IO) *cobra.Command {
	return verb.New("explain", explainHelp, func(l *verb.Flags) func(context.Context, []string) error {
		o := explainOptions{results: verb.NewResults(stdio.IO, verb.SheetFormats(view.Explain)), look: time.Second}
		flags := l.Section("Flags:")
		verb.Duration(flags, &o.look, "for", 0, "D\thow long to observe it: a running process for 1s, others not at all; 0: one reading")
		flags.BoolVar(&o.detach, "detach", false, "don't wait for COMMAND")
		o.fail.FailOn(flags)
		o.results.JSONFlag(flags)
		o.results.FileFlag(flags)
		o.results.ColorFlag(flags)
		flags.StringVar(&o.root, "root", "", "DIR\tread /proc and /sys below DIR: another system's mounts, or a saved tree")
		return func(ctx context.Context, args []string) error {
			args, command := l.Split(args)
			subject, named, err := explainArgs(args, command)
			switch {
			case err != nil:
				return err
			case command != nil && o.root != "":
				return hint.Usage("use one of them", "--root and a command cannot be used together")
			case o.detach && command == nil:
				return hint.Usage("unthrottle explain --detach -- COMMAND", "--detach is for a command that explain starts")
			case runtime.GOOS != "linux" && o.root == "" && (named || command != nil):
				return hint.With(errors.New("only Linux shows another process's limit"), "unthrottle explain alone works here")
			}
			if l.Given("for") && o.look == 0 && o.fail.Severity != "" {
				return unlooked
			}
			if o.look > time.Hour {
				return hint.Usage("write --for=1s", "--for=%v is longer than an hour", o.look)
			}
			pid := 0
			if named {
				if pid, err = procs.FindOne(o.root, subject); err != nil {
					return err
				}
			}
			if !l.Given("for") && (pid == 0 || o.root != "") {
				o.look = 0
			}
			if err := o.results.Open(); err != nil {
				return err
			}
			if command != nil {
				return explainCommand(ctx, stdio, o, command)
			}
			verdict, err := o.show(inspect.Process(ctx, o.root, pid, o.look))
			if err != nil {
				return err
			}
			return verdict
		}
	})
}

// show writes what was found out, if it was, and returns what --fail-on says of it.
func (o explainOptions) show(f report.Facts, err error) (verdict, failed error) {
	if err != nil {
		return nil, o.results.Drop(err)
	}
	e := report.NewExplain(f)
	e.Header = verb.NewHeader("explain")
	verdict = o.fail.Verdict(f.Findings, 0)
	if verdict == nil && o.fail.Severity != "" {
		verdict = e.Blind()
		if errors.Is(f.Process.ProgramErr, fs.ErrPermission) {
			verdict = hint.With(verdict, asItsUser)
		}
	}
	return verdict, o.results.Finish(e, nil)
}

// explainArgs distinguishes the three ways of calling explain.
func explainArgs(args, command []string) (subject string, named bool, err error) {
	const example = "unthrottle explain PID, or unthrottle explain -- COMMAND"
	switch {
	case command != nil && len(args) > 0:
		return "", false, hint.Usage(example, "both a process and a command given")
	case command != nil && len(command) == 0:
		return "", false, hint.Usage(example, "no command after --")
	case len(args) > 1:
		return "", false, hint.Usage(example, "one process at a time, got %d", len(args))
	case len(args) == 1:
		return args[0], true, nil
	}
	return "", false, nil
}

// settle is how long a started command gets to become what it will be: a shell that replaces itself by a program, or a
// wrapper that moves itself to a cgroup.
const settle = 250 * time.Millisecond

// explainCommand starts a command, explains it, and leaves it alone.
func explainCommand(ctx context.Context, stdio IO, o explainOptions, command []string) error {
	child := exec.Command(command[0], command[1:]...)
	child.Stdin, child.Stdout, child.Stderr = stdio.In, stdio.Err, stdio.Err
	if err := child.Start(); err != nil {
		return o.results.Drop(hint.With(fmt.Errorf("starting %s: %w", command[0], hint.Cause(err)), executable))
	}
	ended := make(chan struct{})
	go func() {
		child.Wait() // its exit code is its own affair
		close(ended)
	}()
	verdict, err := o.show(readCommandFacts(ctx, o, child, ended))
	if err != nil {
		return hint.With(err, fmt.Sprintf("%s was started and left alone, pid %d", command[0], child.Process.Pid))
	}
	if o.detach {
		fmt.Fprintf(stdio.Err, "unthrottle: %s keeps running, pid %d\n", plain.Line(command[0]), child.Process.Pid)
		return verdict
	}
	select {
	case <-ended:
		return verdict
	case <-ctx.Done():
		// Ctrl-C reached the command as well. A SIGTERM was for us alone: the command stays.
		return ctx.Err()
	}
}

// readCommandFacts looks at a command that was just started. If it ends before that is done, what it was started with is what counts: it
// had our cgroup, affinity and environment.
func readCommandFacts(ctx context.Context, o explainOptions, child *exec.Cmd, ended <-chan struct{}) (report.Facts, error) {
	select {
	case <-time.After(settle):
		f, err := inspect.Process(ctx, o.root, child.Process.Pid, o.look)
		select {
		case <-ended:
		default:
			return f, err
		}
	case <-ended:
	}
	f, err := inspect.Process(ctx, o.root, 0, o.look)
	f.Self = false
	f.Process.PID, f.Process.Name, f.Process.Command = child.Process.Pid, child.Args[0], child.Args
	f.Process.Program, f.Process.ProgramErr = procs.ReadProgram(child.Path)
	f.Process.Prediction = f.Process.System.Predict(f.Process.Process)
	f.Warnings = append(f.Warnings, errors.New("the command ended before it could be looked at: explained from its file and from where it was started"))
	return f, err
}
