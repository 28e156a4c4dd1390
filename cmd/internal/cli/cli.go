// Package cli answers: what does the command line ask for? It turns arguments into calls of the other packages and their
// results into output and an exit code. One file a verb: flags, options, call, render.
//
// Exit codes: 0 done, 1 could not do it, 2 usage, 3 what was asked for does not hold, 130 interrupted.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/render"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitFindings    = 3
	exitInterrupted = 130
)

// IO is what a verb may read and write.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string

	Args []string // the command line, without the command itself
	Self string   // the command's file, which runs the built-in workloads
	Lab  *Lab     // nil: the real one
}

// Main runs the command and returns its exit code.
func Main(ctx context.Context, args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return Run(ctx, IO{In: stdin, Out: stdout, Err: stderr, Env: env, Args: args, Self: self})
}

// Run is Main for those who bring a lab of their own.
func Run(ctx context.Context, stdio IO) int {
	// A reader that has seen enough is no failure. The signal is caught and not ignored, because a command that explain
	// starts would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	stderr := stdio.Err
	root := newRoot(stdio)
	root.SetArgs(goFlags(stdio.Args))
	root.SetIn(stdio.In)
	root.SetOut(stdio.Out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var code exitCode
	if errors.As(err, &code) {
		if code.err != nil {
			printError(stderr, code.err)
		}
		return code.code
	}
	switch {
	case err == nil || errors.Is(err, syscall.EPIPE):
		return exitDone
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "unthrottle: interrupted")
		printHints(stderr, err)
		return exitInterrupted
	}
	printError(stderr, err)
	if hint.IsUsage(err) {
		return exitUsage
	}
	return exitFailed
}

// goFlags lets -run be written as go test has it.
func goFlags(args []string) []string {
	args = slices.Clone(args)
	if len(args) == 0 || args[0] != "tune" && args[0] != "bench" {
		return args
	}
	for i, a := range args {
		if a == "--" {
			break
		}
		if a == "-run" || strings.HasPrefix(a, "-run=") {
			args[i] = "-" + a
		}
	}
	return args
}

func printError(stderr io.Writer, err error) {
	fmt.Fprintf(stderr, "unthrottle: error: %v\n", err)
	printHints(stderr, err)
}

func printHints(stderr io.Writer, err error) {
	for _, h := range hint.Of(err) {
		fmt.Fprintf(stderr, "unthrottle: hint: %s\n", h)
	}
}

const rootHelp = `unthrottle finds, fixes and prevents CPU-limit trouble in Go programs.

Usage:
  unthrottle VERB [FLAGS] [ARGS]

Verbs:
  explain     the CPU limit of a process, its GOMAXPROCS, and why
  ps          every Go program that runs here: GOMAXPROCS, limit, throttling, what is wrong
  watch       throttling as it happens, seen by a heartbeat inside the cgroup
  run         a program under a CPU limit, and what the limit did to it
  tune        the best GOMAXPROCS for a program under a limit, and how sure that is
  bench       what GOMAXPROCS, a limit or a Go version costs a program
  load        send an HTTP server requests at a rate, and tell how long users wait
  hey         the same with hey's flags and report
  profile     what of a CPU profile grows with GOMAXPROCS
  trace       when a program stood still, from its execution trace, and whether a quota did that
  serve       a server to try all this on, with a live page
  report      show a saved result again, also as HTML, Markdown or CSV
  version     which unthrottle this is
  completion  a script for your shell: bash, zsh, fish or powershell
  help VERB   more about a verb

Exit codes:
  0 done   1 could not do it   2 usage   3 an SLO or --fail-on   130 interrupted

Example:
  unthrottle explain $(pgrep -o myserver)
`

func newRoot(stdio IO) *cobra.Command {
	root := &cobra.Command{
		Use:           "unthrottle",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // RunE says what is wrong with them
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return hint.Usage("unthrottle help shows the verbs", "no verb given")
			}
			return unknownVerb(cmd, args[0])
		},
	}
	root.SuggestionsMinimumDistance = 2
	root.SetHelpTemplate("{{.Long}}")
	root.SetUsageTemplate("{{.Long}}")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelp())
	root.CompletionOptions.DisableDefaultCmd = true
	root.Version = versionText()
	root.SetVersionTemplate("{{.Version}}")
	root.AddCommand(newExplain(stdio), newPs(stdio), newWatch(stdio), newHeartbeat(stdio), newRun(stdio), newBench(stdio), newTune(stdio), newLoad(stdio), newHey(stdio), newServe(stdio), newProfile(stdio), newTrace(stdio), newReport(stdio), newWorkload(stdio), newVersion(stdio), newCompletion(stdio))
	return root
}

func unknownVerb(root *cobra.Command, verb string) error {
	next := "unthrottle help shows the verbs"
	if near := root.SuggestionsFor(verb); len(near) > 0 {
		next = "did you mean unthrottle " + strings.Join(near, " or ") + "?"
	}
	return hint.Usage(next, "unknown verb %q", verb)
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:  "help",
		Long: "More about a verb.\n\nUsage:\n  unthrottle help [VERB]\n\nExample:\n  unthrottle help explain\n",
		RunE: func(cmd *cobra.Command, args []string) error {
			verb, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownVerb(cmd.Root(), args[0])
			}
			return verb.Help()
		},
	}
}

// colorFlag adds --color to a verb and returns what text may look like that goes to stdout, or to a file in its place.
func colorFlag(flags *pflag.FlagSet, stdio IO) func(toFile bool) (render.Style, error) {
	when := "auto"
	flags.Var(oneOf(&when, "auto", "always", "never"), "color", "WHEN\tauto, always or never (auto)")
	return func(toFile bool) (style render.Style, err error) {
		f, ok := stdio.Out.(*os.File)
		terminal := ok && !toFile && term.IsTerminal(int(f.Fd()))
		if terminal {
			if style.Width, _, err = term.GetSize(int(f.Fd())); err != nil {
				style.Width = 0
			}
		}
		switch when {
		case "always":
			style.Color = true
		case "never":
		case "auto":
			style.Color = terminal && stdio.Env("NO_COLOR") == "" && stdio.Env("TERM") != "dumb"
		}
		return style, nil
	}
}

// buildVersion tells the module's version, or the revision where it was built from a checkout.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version, revision, dirty := info.Main.Version, "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ", modified"
		}
	}
	if version == "" {
		version = "(devel)"
	}
	if version == "(devel)" && len(revision) >= 12 {
		version += " " + revision[:12] + dirty
	}
	return version
}
