// Package verb answers: how is a command line with verbs read, and where do its results go? It is what all verbs of the
// commands here share: flags with their place in the help, --fail-on, the files and formats of a result, exit codes, errors
// with hints, signals and closed pipes. It knows no verb.
//
// Exit codes: 0 done, 1 could not do it, 2 usage, 3 what was asked for does not hold, 130 interrupted.
package verb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
)

// Exit codes.
const (
	Done        = 0
	Failed      = 1
	Usage       = 2
	Findings    = 3
	Interrupted = 130
)

// IO is what a verb may read and write.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
	Args     []string // the command line, without the command itself

	// OwnEnd reports whether a command line is of a verb that ends in its own time after SIGTERM. nil: none is.
	OwnEnd func(args []string) bool
}

// An ExitCode is the exit code of a verb that has one of its own, such as that of a program that was run in our place.
type ExitCode struct {
	Code int
	Err  error // nil: there is nothing left to be said
}

func (c ExitCode) Error() string { return fmt.Sprint(c.Err) }
func (c ExitCode) Unwrap() error { return c.Err }

// Run runs a command and returns its exit code. forOthers are the verbs whose work is not only for the readers of their output: it goes on
// without them.
func Run(ctx context.Context, stdio IO, root *cobra.Command, forOthers ...string) int {
	// A reader that has seen enough is not a failure. The signal is caught and not ignored, because a command that a verb
	// starts would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := untilSignal(ctx, stdio)
	defer stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if len(stdio.Args) > 0 && !slices.Contains(forOthers, stdio.Args[0]) {
		go awaitReadersEnd(ctx, func() { end(syscall.EPIPE) }, stdio.Out, stdio.Err)
	}
	root.SetArgs(stdio.Args)
	root.SetIn(stdio.In)
	root.SetOut(stdio.Out)
	root.SetErr(stdio.Err)
	if len(stdio.Args) > 0 && slices.Contains([]string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, stdio.Args[0]) {
		completeWords(root)
	}
	err := root.ExecuteContext(ctx)
	if errors.Is(context.Cause(ctx), syscall.EPIPE) {
		return Done
	}
	name := root.Name()
	var code ExitCode
	if errors.As(err, &code) {
		if code.Err != nil {
			printError(stdio.Err, name, code.Err)
		}
		return code.Code
	}
	switch {
	case err == nil || readerGone(err):
		return Done
	case ctx.Err() != nil:
		fmt.Fprintf(stdio.Err, "%s: interrupted\n", name)
		printHints(stdio.Err, name, err)
		return Interrupted
	}
	printError(stdio.Err, name, err)
	if hint.IsUsage(err) {
		return Usage
	}
	return Failed
}

// readerGone reports whether our output is no longer read. A server that closes its connection fails in the same way, and is another
// matter.
func readerGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) && !errors.As(err, new(*net.OpError))
}

// below begins the further lines of an error or a hint. Others can write such lines, a server in its answer for one, and they must
// not look like ours.
const below = "  "

// Grace of SIGTERM: a server that is asked to end has 5 s, a load generator 2 s before that, and docker kills after 10 s.
const grace = 9 * time.Second

// untilSignal is a context that SIGINT or SIGTERM ends. They are caught once: the second one ends the process as usual, even while it waits
// for something without looking at its context. After a SIGTERM the process ends on its own when its time is over.
func untilSignal(ctx context.Context, stdio IO) (_ context.Context, stop func()) {
	ctx, end := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over := make(chan struct{})
	go func() {
		var got os.Signal
		select {
		case got = <-signals:
		case <-over:
			return
		}
		signal.Stop(signals)
		end()
		if got != syscall.SIGTERM || stdio.OwnEnd != nil && stdio.OwnEnd(stdio.Args) {
			return
		}
		select {
		case <-time.After(grace):
			kill(syscall.SIGTERM)
		case <-over:
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(over)
		end()
	})
}

func printError(stderr io.Writer, name string, err error) {
	fmt.Fprintf(stderr, "%s: error: %s\n", name, plain.Lines(err.Error(), below))
	printHints(stderr, name, err)
}

func printHints(stderr io.Writer, name string, err error) {
	for _, h := range hint.Of(err) {
		fmt.Fprintf(stderr, "%s: hint: %s\n", name, plain.Lines(h, below))
	}
}

// NewRoot is a command that has verbs. Its help is what is shown without one.
func NewRoot(name, help string, verbs ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:           name,
		Long:          help,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // RunE says what is wrong with them
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return Unknown(cmd, args[0])
		},
	}
	root.SuggestionsMinimumDistance = 2
	root.SetHelpTemplate("{{.Long}}")
	root.SetUsageTemplate("{{.Long}}")
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.DisableDefaultCmd = true
	root.Version = VersionText(name)
	root.SetVersionTemplate("{{.Version}}")
	root.AddCommand(verbs...)
	for _, verb := range verbs { // for the shell's completion; the help of each is its own
		verb.Short, _, _ = strings.Cut(verb.Long, "\n")
	}
	return root
}

// Unknown says that there is no verb of that name.
func Unknown(root *cobra.Command, verb string) error {
	next := root.CommandPath() + " help shows the verbs"
	if near := root.SuggestionsFor(verb); verb != "" && len(near) > 0 {
		next = "did you mean " + root.CommandPath() + " " + strings.Join(near, " or ") + "?"
	}
	return hint.Usage(next, "unknown verb %q", verb)
}

// Check reports what is wrong with a command line's verb and flags, without running it.
func Check(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd == root && len(args) > 0 {
		return Unknown(root, args[0])
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return cmd.FlagErrorFunc()(cmd, err)
	}
	return nil
}

// NoArgs refuses arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return hint.Usage(cmd.CommandPath()+" --help shows how to call it", "%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}
