// Package conduct answers: how is a long measurement begun, kept, interrupted, shown and gone on with? In goes a verb that plans a
// study, does its runs and shows it; each run is written to a journal as it finishes, and --resume reads that, with the command that
// began it, and does what is missing. Here are also the flags that such verbs share, and what one sees of work that goes on. It
// knows no verb.
package conduct

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// A Study is what verbs that measure for long have in common: each run is written to a journal as it finishes, so that a study can be
// interrupted, shown so far, and resumed.
type Study struct {
	Program  string // unthrottle, as it is typed
	Verb     string
	Example  string // of going on with one
	IO       verb.IO
	Args     func([]string) []string // the command line as its flags are read; nil: unchanged
	Flags    *verb.Flags
	Resume   string
	Runs     string
	Progress *Progress
	Fail     verb.Threshold
	Failed   error             // what --fail-on says of what was shown
	Drop     func(error) error // closes the files of -o
	Cleanup  []func()          // what to do in the end

	// Lock waits until no other study is at work here; nil: they don't matter. It is waited for that long at most (0: as long as it takes),
	// and before that the program is started once, if there is a way: what can't be started need not wait.
	Lock     func(ctx context.Context, note func(string), busy func(holder string) error) (unlock func(), err error)
	Patience time.Duration
	Rehearse func(context.Context) error

	outputs []string // the files of -o, which is said again of the command that goes on
}

// A Verb is what the verb of type T does itself.
type Verb[T any] interface {
	Common() *Study

	// Plan checks the command line and opens the files of -o.
	Plan(ctx context.Context, args, command []string) error
	// Name begins the name of the journal.
	Name() string
	// Prepare makes ready what must be made ready while no other study is at work on this machine.
	Prepare(ctx context.Context) error
	// Head is the journal's head.
	Head() any
	// Execute does the runs that are missing, and hands out a record of each.
	Execute(ctx context.Context, record func(any) error) error
	// Measured reports whether there is anything to show.
	Measured() bool
	// Show shows what there is. next is the command that goes on with it.
	Show(journal, next string, interrupted bool) error

	// Read reads the journal of an interrupted study, and returns the command that began it and where that was.
	Read(data []byte) (command []string, dir string, cut int, err error)
	// Inherit takes what the command line of --resume, which has read the journal, says in place of the first one's.
	Inherit(from T)
	// GoOn checks that the plan is that of the study that was read, and takes its runs.
	GoOn(from T) error
}

// Common is what a verb has of it.
func (s *Study) Common() *Study { return s }

// Command is the whole command line.
func (s *Study) Command() []string { return append([]string{s.Program}, s.IO.Args...) }

// typed is a command of the verb's, as people type it.
func (s *Study) typed(args ...string) string {
	return report.Typed(append([]string{s.Program, s.Verb}, args...))
}

// Seeded is a seed, and the command that does the same again.
func (s *Study) Seeded(seed uint64) (uint64, []string) {
	command := s.Command()
	if seed == 0 {
		seed = uint64(rand.IntN(1_000_000) + 1)
		command = slices.Insert(command, 2, "--seed", strconv.FormatUint(seed, 10))
	}
	return seed, command
}

// givenOutputs are the files of -o that the command line names.
func (s *Study) givenOutputs() []string {
	if paths, err := s.Flags.Cmd.Flags().GetStringArray("output"); err == nil {
		return paths
	}
	return nil
}

func (s *Study) lock(ctx context.Context) (unlock func(), err error) {
	if s.Lock == nil {
		return func() {}, nil
	}
	waiting, end := ctx, func() {}
	if s.Patience > 0 {
		waiting, end = context.WithTimeoutCause(ctx, s.Patience, fmt.Errorf("the budget of %s has gone by", quantity.Lasting(s.Patience.Seconds())))
	}
	defer end()
	unlock, err = s.Lock(waiting, s.Progress.Note, func(holder string) error {
		s.Progress.Note("waiting for " + holder + " to end")
		if s.Rehearse == nil {
			return nil
		}
		return s.Rehearse(waiting)
	})
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		err = hint.With(err, "try again when that has ended, or with a longer --budget")
	}
	return unlock, err
}

func (s *Study) args(command []string) []string {
	if s.Args == nil {
		return command
	}
	return s.Args(command)
}

func (s *Study) clean() {
	s.Progress.Done()
	s.Drop(errors.New("not written"))
	for _, f := range s.Cleanup {
		f()
	}
}

// Run does the verb.
func Run[T Verb[T]](ctx context.Context, s T, args []string, again func() (*cobra.Command, T)) error {
	c := s.Common()
	if c.Resume != "" {
		if len(args) > 0 {
			return hint.Usage(c.Example, "--resume takes its plan from the file")
		}
		return resume(ctx, s, again)
	}
	defer c.clean()
	c.outputs = c.givenOutputs()
	args, command := c.Flags.Split(args)
	if err := s.Plan(ctx, args, command); err != nil {
		return err
	}
	path := c.Runs
	if path == "" {
		var err error
		if path, err = c.runsPath(s.Name()); err != nil {
			return err
		}
	}
	j, err := lab.CreateJournal(path)
	if err != nil {
		return hint.With(fmt.Errorf("opening the file of runs: %w", err), "--runs needs a new file; "+c.typed("--resume", "FILE")+" continues an old one")
	}
	defer j.Close()
	return conduct(ctx, s, j, true)
}

// resume goes on with an interrupted study: the command that began it is read again, by the verb's own constructor, and what is done is not
// repeated. The command is shown first, and where results go is not taken from it: a file that someone else has made must not do more than
// measure, and not unseen.
func resume[T Verb[T]](ctx context.Context, s T, again func() (*cobra.Command, T)) error {
	file, verb := s.Common().Resume, s.Common().Verb
	wants := "--resume needs the file of runs that the interrupted " + verb + " has named"
	j, data, err := lab.OpenJournal(file)
	if err != nil {
		return hint.With(err, wants)
	}
	defer j.Close()
	command, dir, cut, err := s.Read(data)
	if err != nil {
		return hint.With(fmt.Errorf("%s: %w", file, err), wants)
	}
	if len(command) < 2 || command[1] != verb {
		return fmt.Errorf("%s does not say which command began it", file)
	}
	if own := s.Common().Program; command[0] != own {
		return hint.With(fmt.Errorf("%s was begun by %s", file, report.Typed(command[:2])), report.Typed([]string{command[0], verb, "--resume", file}))
	}
	cmd, next := again()
	if err := cmd.ParseFlags(s.Common().args(command[1:])[1:]); err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil {
		return hint.With(err, "the "+verb+" was started there")
	}
	c := next.Common()
	old := c.givenOutputs()
	next.Inherit(s)
	c.Runs = ""
	defer c.clean()
	// What is started now is in the file, and nowhere on the command line.
	fmt.Fprintf(c.IO.Err, "%s: continuing, in %s: %s\n", c.Program, report.ShellWord(dir), report.Typed(command))
	c.outputs = s.Common().givenOutputs()
	if len(old) > 0 && len(c.outputs) == 0 {
		fmt.Fprintf(c.IO.Err, "%s: its -o is not taken from there: nothing is written to %s\n", c.Program, report.ShellWords(old))
	}
	args, program := c.Flags.Split(cmd.Flags().Args())
	if err := next.Plan(ctx, args, program); err != nil {
		return err
	}
	if err := next.GoOn(s); err != nil {
		return err
	}
	if err := j.Resume(int64(len(data) - cut)); err != nil {
		return err
	}
	return conduct(ctx, next, j, false)
}

// conduct does the runs that are missing, and shows what there is, also when it is interrupted. A journal that was begun and has nothing in
// it is removed.
func conduct[T Verb[T]](ctx context.Context, s T, j *lab.Journal, begun bool) error {
	keep := !begun
	defer func() {
		if !keep {
			j.Remove()
		}
	}()
	unlock, err := s.Common().lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.Prepare(ctx); err != nil {
		return err
	}
	write := func(v any) error {
		if err := j.Write(v); err != nil {
			return fmt.Errorf("writing the runs: %w", err)
		}
		return nil
	}
	if begun {
		if err := write(s.Head()); err != nil {
			return err
		}
	}
	err = s.Execute(ctx, func(record any) error {
		err := write(record)
		keep = keep || err == nil
		return err
	})
	s.Common().Progress.Done()
	if !s.Measured() {
		return err
	}
	keep = true
	more := []string{"--resume", j.Name()}
	for _, path := range s.Common().outputs {
		more = append(more, "-o", path)
	}
	next := s.Common().typed(more...)
	if showErr := s.Show(j.Name(), next, err != nil); showErr != nil {
		if err != nil {
			showErr = fmt.Errorf("%w; then %w", err, showErr)
		}
		return hint.With(showErr, "the runs are kept: unthrottle report "+report.ShellWord(j.Name()))
	}
	if err != nil {
		return hint.With(err, "continue with "+next)
	}
	return s.Common().Failed
}

// runsPath is a new file for runs of this name.
func (c *Study) runsPath(name string) (string, error) {
	dir, err := ours.Cache("runs")
	if err != nil { // what others may write to is no place for what --resume runs
		var late error
		if dir, late = ours.KeptDir("runs"); late != nil {
			return "", hint.With(errors.Join(err, late), "--runs FILE puts the runs elsewhere")
		}
		c.Progress.Say(fmt.Sprintf("the runs go to a directory of their own, %s: %v", dir, err))
	}
	lab.PruneJournals(dir)
	name = strings.Map(func(r rune) rune {
		if r == '/' || r == os.PathSeparator || r <= ' ' {
			return '-'
		}
		return r
	}, name)
	return filepath.Join(dir, fmt.Sprintf("%s-%s-%d.jsonl", time.Now().UTC().Format("20060102-150405"), name, os.Getpid())), nil
}

// WorkDir is where we are. A user who may not look into it, such as one that root has become there, still has it: os.Getwd wants to compare
// it with what PWD says, and gives up.
func WorkDir() (string, error) {
	if dir, err := os.Getwd(); err == nil {
		return dir, nil
	}
	dir, err := syscall.Getwd()
	if err != nil {
		err = hint.With(fmt.Errorf("finding out which directory this is: %w", err), "it may have been removed: go to another")
	}
	return dir, err
}
