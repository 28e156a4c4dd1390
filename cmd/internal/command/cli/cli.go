// Package cli answers: what does the command line ask for? It turns arguments into calls of the other packages and their
// results into output and an exit code. One file a verb: flags, options, call, render.
//
// Exit codes: 0 done, 1 could not do it, 2 usage, 3 what was asked for does not hold, 130 interrupted.
package cli

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/docs"
)

// IO is what a verb may read and write, and what it runs.
type IO struct {
	verb.IO
	Self string // the command's file, which runs the built-in workloads
	Lab  *Lab   // nil: the real one
}

// Main runs the command and returns its exit code.
func Main(ctx context.Context, args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return Run(ctx, IO{IO: verb.IO{In: stdin, Out: stdout, Err: stderr, Env: env, Args: args}, Self: self})
}

// Run is Main for callers who bring a lab of their own.
func Run(ctx context.Context, stdio IO) int {
	if len(stdio.Args) > 0 && !slices.Contains(ofOurs, stdio.Args[0]) {
		runner.Sweep()
		ours.SweepTemp()
	}
	given := stdio.IO
	given.OwnEnd = func(args []string) bool { return len(args) > 0 && args[0] == "run" } // signals are the program's
	given.Args = goFlags(given.Args)
	return verb.Run(ctx, given, newRoot(stdio), forOthers...)
}

// forOthers are the verbs whose work is not only for the readers of their output: it goes on without them.
var forOthers = []string{"run", "serve", "explain", "heartbeat", "workload", "sidecar", "expire"}

// ofOurs are verbs that other verbs start, in limited groups too: they leave it to those to remove what killed ones have left.
var ofOurs = []string{"heartbeat", "workload", "sidecar", "expire", "load"}

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

const rootHelp = `unthrottle finds, fixes and prevents CPU-limit trouble in Go programs.

Usage:
  unthrottle VERB [FLAGS] [ARGS]

New here? unthrottle demo shows in twenty seconds what this is about.

Verbs:
  demo        what GOMAXPROCS does to a server under a CPU limit, live
  explain     the CPU limit of a process, its GOMAXPROCS, and why
  ps          every Go program running here: GOMAXPROCS, limit, throttling, and what is wrong
  watch       throttling as it happens, seen by a heartbeat inside the cgroup
  run         run a program under a CPU limit, and report what the limit did to it
  tune        find the best GOMAXPROCS for a program under a limit, and say how sure that is
  bench       what GOMAXPROCS, a limit or a Go version costs a program
  load        send HTTP requests at a given rate, and report how long users wait
  hey         the same, with hey's flags and report
  profile     which part of a program's CPU time grows with GOMAXPROCS
  trace       when a program stood still, from its execution trace, and whether a quota was the cause
  serve       a server to try all this on, with a live page
  report      show a saved result again, also as HTML, Markdown or CSV
  bug         pack everything that a report of a wrong answer needs into one file
  version     which version of unthrottle this is
  completion  a completion script for your shell: bash, zsh, fish or powershell
  help VERB   more about a verb, or a page of the documentation, such as a rule's: help too-many-ps

Exit codes:
  0 done   1 failed   2 usage   3 an SLO or --fail-on   130 interrupted

Example:
  unthrottle explain myserver
`

func newRoot(stdio IO) *cobra.Command {
	bench, _ := newBench(stdio)
	tune, _ := newTune(stdio)
	verbs := []*cobra.Command{bench, tune}
	for _, verb := range []func(IO) *cobra.Command{
		newExplain, newPs, newWatch, newHeartbeat, newRun, newLoad, newPauses, newHey, newServe, newDemo, newProfile, newTrace, newReport, newBug, newWorkload, newSidecar, newExpire, newVersion, newCompletion,
	} {
		verbs = append(verbs, verb(stdio))
	}
	root := verb.NewRoot("unthrottle", rootHelp, verbs...)
	root.SetHelpCommand(verb.NewHelp(helpHelp + verb.Hanging("  ", strings.Join(docs.Names(), ", "))))
	return root
}

const helpHelp = `More about a verb, or a page of the documentation, such as a rule's.

Usage:
  unthrottle help [VERB | PAGE]

If a page has the same name as a verb, docs/NAME.md shows the page.

Examples:
  unthrottle help explain
  unthrottle help too-many-ps

Pages:
`

// command is the whole command line.
func (s IO) command() []string { return append([]string{"unthrottle"}, s.Args...) }
