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
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/docs"
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
	// A reader that has seen enough is not a failure. The signal is caught and not ignored, because a command that explain
	// starts would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if len(stdio.Args) > 0 && !slices.Contains(forOthers, stdio.Args[0]) {
		go awaitReadersEnd(ctx, func() { end(syscall.EPIPE) }, stdio.Out, stdio.Err)
	}
	stderr := stdio.Err
	root := newRoot(stdio)
	root.SetArgs(goFlags(stdio.Args))
	root.SetIn(stdio.In)
	root.SetOut(stdio.Out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if errors.Is(context.Cause(ctx), syscall.EPIPE) {
		return exitDone
	}
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

// forOthers are the verbs whose work is for others than the readers of their output: it goes on without them.
var forOthers = []string{"run", "serve", "explain", "heartbeat", "workload"}

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

New here? unthrottle demo shows in twenty seconds what this is about.

Verbs:
  demo        what GOMAXPROCS does to a server under a CPU limit, live
  explain     the CPU limit of a process, its GOMAXPROCS, and why
  ps          every Go program that runs here: GOMAXPROCS, limit, throttling, what is wrong
  watch       throttling as it happens, seen by a heartbeat inside the cgroup
  run         a program under a CPU limit, and what the limit did to it
  tune        the best GOMAXPROCS for a program under a limit, and how sure that is
  bench       what GOMAXPROCS, a limit or a Go version costs a program
  load        send an HTTP server requests at a rate, and tell how long users wait
  hey         the same with hey's flags and report
  profile     what of a CPU profile grows with GOMAXPROCS
  trace       when a program stood still, from its execution trace, and whether a quota was the cause
  serve       a server to try all this on, with a live page
  report      show a saved result again, also as HTML, Markdown or CSV
  bug         pack what a report of a wrong answer needs into one file
  version     which unthrottle this is
  completion  a script for your shell: bash, zsh, fish or powershell
  help VERB   more about a verb, or a page such as that of a rule: help too-many-ps

Exit codes:
  0 done   1 could not do it   2 usage   3 an SLO or --fail-on   130 interrupted

Example:
  unthrottle explain myserver
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
				return cmd.Help()
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
	bench, _ := newBench(stdio)
	tune, _ := newTune(stdio)
	root.AddCommand(bench, tune)
	for _, verb := range []func(IO) *cobra.Command{
		newExplain, newPs, newWatch, newHeartbeat, newRun, newLoad, newHey, newServe, newDemo, newProfile, newTrace, newReport, newBug, newWorkload, newVersion, newCompletion,
	} {
		root.AddCommand(verb(stdio))
	}
	for _, verb := range root.Commands() { // for the shell's completion; the help of each is its own
		verb.Short, _, _ = strings.Cut(verb.Long, "\n")
	}
	return root
}

func unknownVerb(root *cobra.Command, verb string) error {
	next := "unthrottle help shows the verbs"
	if near := root.SuggestionsFor(verb); verb != "" && len(near) > 0 {
		next = "did you mean unthrottle " + strings.Join(near, " or ") + "?"
	}
	return hint.Usage(next, "unknown verb %q", verb)
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:               "help",
		Short:             "More about a verb, or a page of the documentation.",
		Long:              helpHelp + hanging("  ", strings.Join(docs.Names(), ", ")),
		ValidArgsFunction: helpTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			verb, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) == 0 {
				return verb.Help()
			}
			if len(args) > 1 {
				return hint.Usage("unthrottle help "+args[0], "help takes one verb or page, got %d", len(args))
			}
			if page, ok := docs.Page(args[0]); ok {
				_, err := io.WriteString(cmd.OutOrStdout(), page)
				return err
			}
			return unknownVerb(cmd.Root(), args[0])
		},
	}
}

// helpTopics are the verbs, and the pages that have no verb's name.
func helpTopics(cmd *cobra.Command, args []string, _ string) (topics []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	verbs := map[string]bool{}
	for _, verb := range cmd.Root().Commands() {
		if verbs[verb.Name()] = true; !verb.Hidden {
			topics = append(topics, cobra.CompletionWithDesc(verb.Name(), verb.Short))
		}
	}
	for _, name := range docs.Names() {
		if page, _ := docs.Page(name); !verbs[name] {
			title, _, _ := strings.Cut(strings.TrimPrefix(page, "# "), "\n")
			topics = append(topics, cobra.CompletionWithDesc(name, "the page: "+title))
		}
	}
	return topics, cobra.ShellCompDirectiveNoFileComp
}

const helpHelp = `More about a verb, or a page of the documentation, such as that of a rule.

Usage:
  unthrottle help [VERB | PAGE]

Where a page has the name of a verb, docs/NAME.md is the page.

Examples:
  unthrottle help explain
  unthrottle help too-many-ps

Pages:
`

// command is the whole command line.
func (s IO) command() []string { return append([]string{"unthrottle"}, s.Args...) }

func newHeader(verb string) report.Header {
	return report.Header{Version: report.Version, Verb: verb, MadeBy: madeBy(), Time: now()}
}

func madeBy() string { return "unthrottle " + buildVersion() }

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// unstamped is the version of what was built in a checkout. In a workspace, which ours is, the go command records the commit
// only if it is told to, and go run and go test never do.
const unstamped = "(devel)"

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
		version = unstamped
	}
	if version == unstamped && len(revision) >= 12 {
		version += " " + revision[:12] + dirty
	}
	return version
}
