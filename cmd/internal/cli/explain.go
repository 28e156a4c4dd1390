package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/host"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/render"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/view"
)

const explainHelp = `The CPU limit of a process, its GOMAXPROCS, and why.

Usage:
  unthrottle explain [FLAGS]                      what is started from this shell
  unthrottle explain [FLAGS] PID                  a running process
  unthrottle explain [FLAGS] -- COMMAND [ARGS]    start COMMAND, explain it, leave it alone

COMMAND runs on when it has been explained, and explain waits for it; its output goes to stderr.

{{flags}}

Without root it explains your own processes. Of another user's it sees the limit, but neither the program nor its
environment.

Example:
  unthrottle explain --watch $(pgrep -o myserver)
`

type explainOptions struct {
	watch  bool
	detach bool
	json   bool
	output string
	root   string
	style  render.Style
}

func newExplain(stdio IO) *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{Use: "explain", Long: explainHelp}
	list := newFlagList(cmd)
	flags := list.section("Flags:").FlagSet
	flags.BoolVar(&o.watch, "watch", false, "read twice, a second apart: is it being throttled now?")
	flags.BoolVar(&o.detach, "detach", false, "don't wait for COMMAND")
	jsonFlag(flags, &o.json)
	outputFlag(flags, &o.output)
	color := colorFlag(flags, stdio)
	flags.StringVar(&o.root, "root", "", "DIR\tread /proc and /sys below DIR: another system's mounts, or a saved tree")
	list.done()
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if o.style, err = color(o.output != ""); err != nil {
			return err
		}
		pid, command, err := explainArgs(args, cmd.ArgsLenAtDash())
		if err != nil {
			return err
		}
		if len(command) > 0 && o.root != "" {
			return hint.Usage("leave out one of them", "--root and a command exclude each other")
		}
		if o.detach && len(command) == 0 {
			return hint.Usage("unthrottle explain --detach -- COMMAND", "--detach is for a command that explain starts")
		}
		if runtime.GOOS != "linux" && o.root == "" && (pid != 0 || len(command) > 0) {
			return hint.With(errors.New("only Linux shows another process's limit"), "unthrottle explain alone works here")
		}
		to, err := openOne(sheetFormats(view.Explain), o.output, o.json, stdio.Out)
		if err != nil {
			return err
		}
		if len(command) > 0 {
			return explainCommand(cmd.Context(), stdio, o, to, command)
		}
		return to.out.finish(explainPID(cmd.Context(), o, to, pid))
	}
	return cmd
}

// explainArgs tells the three ways of calling explain apart.
func explainArgs(args []string, dash int) (pid int, command []string, err error) {
	const example = "unthrottle explain PID, or unthrottle explain -- COMMAND"
	if dash >= 0 {
		if dash > 0 {
			return 0, nil, hint.Usage(example, "both a pid and a command given")
		}
		if len(args) == 0 {
			return 0, nil, hint.Usage(example, "no command after --")
		}
		return 0, args, nil
	}
	switch len(args) {
	case 0:
		return 0, nil, nil
	case 1:
		pid, err := strconv.Atoi(args[0])
		if err != nil || pid <= 0 {
			return 0, nil, hint.Usage(example, "%q is not a pid", args[0])
		}
		return pid, nil, nil
	}
	return 0, nil, hint.Usage(example, "one pid at a time, got %d", len(args))
}

func explainPID(ctx context.Context, o explainOptions, to result[*report.Explain], pid int) error {
	f, err := readFacts(ctx, o, pid)
	if err != nil {
		return err
	}
	return writeExplain(o, to, f)
}

func writeExplain(o explainOptions, to result[*report.Explain], f report.Facts) error {
	e := report.NewExplain(f)
	e.Header = newHeader("explain")
	return to.write(to.out.w, e, o.style)
}

func newHeader(verb string) report.Header {
	return report.Header{
		Version: report.Version, Verb: verb, MadeBy: "unthrottle " + buildVersion(),
		Time: time.Now().UTC().Format(time.RFC3339),
	}
}

// readFacts reads all that explain needs of a process, 0 meaning this one.
func readFacts(ctx context.Context, o explainOptions, pid int) (report.Facts, error) {
	f := report.Facts{Self: pid == 0 && o.root == "", Procs: runtime.GOMAXPROCS(0)}
	source := cgroup.Source{Root: o.root, PID: pid}
	process, err := procs.Read(o.root, pid)
	switch {
	case err == nil:
	case pid != 0:
		return f, hint.With(err, "pgrep NAME finds a process's pid")
	case f.Self: // there is no /proc to see, but we know ourselves
		process = procs.Self()
		if runtime.GOOS == "linux" {
			f.Warnings = append(f.Warnings, err)
		}
	}
	p, warnings := host.New(o.root, pid, process)
	f.Process, f.Rules = p, p.System.Rules()
	f.Warnings = append(f.Warnings, warnings...)
	f.Memory = cgroup.ReadMemory(source)
	f.Throttling = cgroup.ReadThrottling(source, p.System.Limits)
	before, start := f.Throttling, time.Now()
	look := time.Duration(0)
	if o.watch {
		look = time.Second
	}
	if err := diagnose(ctx, &f, o.root, pid, look); err != nil {
		return f, err
	}
	if o.watch {
		select { // what is no Go program is not looked at that long
		case <-ctx.Done():
			return f, ctx.Err()
		case <-time.After(look - time.Since(start)):
		}
		f.Throttling = cgroup.ReadThrottling(source, p.System.Limits)
		f.Before, f.Between = &before, time.Since(start)
	}
	return f, nil
}

// diagnose adds what can be seen of a running Go program: its GOMAXPROCS, and what is wrong. What can't be read stays as it
// was predicted.
func diagnose(ctx context.Context, f *report.Facts, root string, pid int, look time.Duration) error {
	if pid == 0 {
		return nil
	}
	system, ok, err := new(host.Survey).Look(ctx, root, &f.Process, look)
	if ok {
		f.Findings = rule.Check(rule.OfProcess(&f.Process, system))
	}
	return err
}

// settle is how long a started command gets to become what it will be: a shell that replaces itself by a program, or a
// wrapper that moves itself to a cgroup.
const settle = 250 * time.Millisecond

// explainCommand starts a command, explains it, and leaves it alone.
func explainCommand(ctx context.Context, stdio IO, o explainOptions, to result[*report.Explain], command []string) error {
	child := exec.Command(command[0], command[1:]...)
	child.Stdin, child.Stdout, child.Stderr = stdio.In, stdio.Err, stdio.Err
	if err := child.Start(); err != nil {
		return to.out.finish(hint.With(fmt.Errorf("starting %s: %w", command[0], trimExec(err)), "is it in the PATH, and may it be executed?"))
	}
	ended := make(chan struct{})
	go func() {
		child.Wait() // its exit code is its own affair
		close(ended)
	}()
	f, err := readCommandFacts(ctx, o, child, ended)
	if err == nil {
		err = writeExplain(o, to, f)
	}
	if err = to.out.finish(err); err != nil {
		return hint.With(err, fmt.Sprintf("%s was started and left alone, pid %d", command[0], child.Process.Pid))
	}
	if o.detach {
		fmt.Fprintf(stdio.Err, "unthrottle: %s runs on, pid %d\n", command[0], child.Process.Pid)
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		// Ctrl-C reached the command as well. A SIGTERM was for us alone: the command stays.
		return ctx.Err()
	}
}

// readCommandFacts looks at a command that was just started. Where it ends before that is done, what it was started with
// tells: it had our cgroup, affinity and environment.
func readCommandFacts(ctx context.Context, o explainOptions, child *exec.Cmd, ended <-chan struct{}) (report.Facts, error) {
	select {
	case <-time.After(settle):
		f, err := readFacts(ctx, o, child.Process.Pid)
		select {
		case <-ended:
		default:
			return f, err
		}
	case <-ended:
	}
	f, err := readFacts(ctx, o, 0)
	f.Self = false
	f.Process.PID, f.Process.Name, f.Process.Command = child.Process.Pid, child.Args[0], child.Args
	f.Process.Program, f.Process.ProgramErr = procs.ReadProgram(child.Path)
	f.Process.Prediction = f.Process.System.Predict(f.Process.Process)
	f.Warnings = append(f.Warnings, errors.New("the command ended before it could be looked at: explained from its file and from where it was started"))
	return f, err
}

// trimExec takes away what exec puts before the cause.
func trimExec(err error) error {
	var e *exec.Error
	if errors.As(err, &e) {
		return e.Err
	}
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return errors.New(strings.TrimSpace(err.Error()))
}
