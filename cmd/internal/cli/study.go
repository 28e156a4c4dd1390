package cli

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

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/journal"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/verb"
)

// A study is what bench and tune have in common: each run is written to a journal as it finishes, so that a study can be
// interrupted, shown as far as it goes, and gone on with.
type study struct {
	verb     string
	example  string // of going on with one
	stdio    IO
	flags    *verb.Flags
	resume   string
	runs     string
	progress *progress
	fail     verb.Threshold
	failed   error             // what --fail-on says of what was shown
	drop     func(error) error // closes the files of -o
	cleanup  []func()
}

// A studyVerb is what the verb of type T does itself.
type studyVerb[T any] interface {
	common() *study

	// plan checks the command line and opens the files of -o.
	plan(ctx context.Context, args, command []string) error
	// name begins the name of the journal.
	name() string
	// prepare makes ready what has to be while no other study is at work on this machine.
	prepare(ctx context.Context) error
	// head is the journal's head.
	head() any
	// execute does the runs that are missing, and hands out a record of each.
	execute(ctx context.Context, record func(any) error) error
	// measured reports whether there is anything to show.
	measured() bool
	// show shows what there is. next is the command that goes on with it.
	show(journal, next string, interrupted bool) error

	// read reads the journal of an interrupted study, and tells the command that began it and where that was.
	read(data []byte) (command []string, dir string, cut int, err error)
	// inherit takes what the command line of --resume, which has read the journal, says in place of the first one's.
	inherit(from T)
	// goOn checks that the plan is that of the study that was read, and takes its runs.
	goOn(from T) error
}

func (s *study) common() *study { return s }

// seeded is a seed, and the command that does the same again.
func (s *study) seeded(seed uint64) (uint64, []string) {
	command := s.stdio.command()
	if seed == 0 {
		seed = uint64(rand.IntN(1_000_000) + 1)
		command = slices.Insert(command, 2, "--seed", strconv.FormatUint(seed, 10))
	}
	return seed, command
}

// tempDir makes a directory that is there as long as the study is at work.
func (s *study) tempDir() (string, error) {
	dir, remove, err := trial.TempDir()
	if err == nil {
		s.cleanup = append(s.cleanup, remove)
	}
	return dir, err
}

// lock waits until no other study is at work on this machine.
func (s *study) lock(ctx context.Context) (unlock func(), err error) {
	lock := trial.Lock
	if s.stdio.Lab != nil {
		lock = s.stdio.Lab.Lock
	}
	return lock(ctx, func() { s.progress.note("waiting for another bench or tune on this machine to end") })
}

func (s *study) clean() {
	s.progress.done()
	s.drop(errors.New("not written"))
	for _, f := range s.cleanup {
		f()
	}
}

// runStudy does the verb.
func runStudy[T studyVerb[T]](ctx context.Context, s T, args []string, again func() (*cobra.Command, T)) error {
	c := s.common()
	if c.resume != "" {
		if len(args) > 0 {
			return hint.Usage(c.example, "--resume takes its plan from the file")
		}
		return resume(ctx, s, again)
	}
	defer c.clean()
	args, command := c.flags.Split(args)
	if err := s.plan(ctx, args, command); err != nil {
		return err
	}
	path := c.runs
	if path == "" {
		var err error
		if path, err = runsPath(s.name()); err != nil {
			return err
		}
	}
	j, err := journal.Create(path)
	if err != nil {
		return hint.With(fmt.Errorf("opening the file of runs: %w", err), "--runs needs a new file; unthrottle "+c.verb+" --resume FILE continues an old one")
	}
	defer j.Close()
	return conduct(ctx, s, j, true)
}

// resume goes on with an interrupted study: the command that began it is read again, by the verb's own constructor, and what
// is done is not done again.
func resume[T studyVerb[T]](ctx context.Context, s T, again func() (*cobra.Command, T)) error {
	file, verb := s.common().resume, s.common().verb
	wants := "--resume needs the file of runs that the interrupted " + verb + " has named"
	data, err := os.ReadFile(file)
	if err != nil {
		return hint.With(err, wants)
	}
	command, dir, cut, err := s.read(data)
	if err != nil {
		return hint.With(fmt.Errorf("%s: %w", file, err), wants)
	}
	if len(command) < 2 || command[1] != verb {
		return fmt.Errorf("%s does not say which command began it", file)
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	cmd, next := again()
	if err := cmd.ParseFlags(goFlags(command[1:])[1:]); err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil {
		return hint.With(err, "the "+verb+" was started there")
	}
	next.inherit(s)
	c := next.common()
	defer c.clean()
	args, program := c.flags.Split(cmd.Flags().Args())
	if err := next.plan(ctx, args, program); err != nil {
		return err
	}
	if err := next.goOn(s); err != nil {
		return err
	}
	j, err := journal.Resume(path, int64(len(data)-cut))
	if err != nil {
		return err
	}
	defer j.Close()
	return conduct(ctx, next, j, false)
}

// conduct does the runs that are missing, and shows what there is, also when it is interrupted. A journal that was begun and
// has nothing in it is taken away.
func conduct[T studyVerb[T]](ctx context.Context, s T, j *journal.Journal, begun bool) error {
	keep := !begun
	defer func() {
		if !keep {
			j.Remove()
		}
	}()
	unlock, err := s.common().lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	write := func(v any) error {
		if err := j.Write(v); err != nil {
			return fmt.Errorf("writing the runs: %w", err)
		}
		return nil
	}
	if begun {
		if err := write(s.head()); err != nil {
			return err
		}
	}
	err = s.execute(ctx, func(record any) error {
		err := write(record)
		keep = keep || err == nil
		return err
	})
	s.common().progress.done()
	if !s.measured() {
		return err
	}
	keep = true
	name := report.ShellWord(j.Name())
	next := "unthrottle " + s.common().verb + " --resume " + name
	if showErr := s.show(j.Name(), next, err != nil); showErr != nil {
		if err != nil {
			showErr = fmt.Errorf("%w; then %w", err, showErr)
		}
		return hint.With(showErr, "the runs are kept: unthrottle report "+name)
	}
	if err != nil {
		return hint.With(err, "continue with "+next)
	}
	return s.common().failed
}

// runsPath is a new file for runs of this name.
func runsPath(name string) (string, error) {
	dir, err := cacheDir("runs")
	if err != nil {
		return "", hint.With(err, "--runs FILE puts the runs elsewhere")
	}
	journal.Prune(dir)
	name = strings.Map(func(r rune) rune {
		if r == '/' || r == os.PathSeparator || r <= ' ' {
			return '-'
		}
		return r
	}, name)
	return filepath.Join(dir, fmt.Sprintf("%s-%s-%d.jsonl", time.Now().UTC().Format("20060102-150405"), name, os.Getpid())), nil
}

// workDir is where we are. A user who may not look into it, as one that root has become there, still has it: os.Getwd wants to
// compare it with what PWD says, and gives up.
func workDir() (string, error) {
	if dir, err := os.Getwd(); err == nil {
		return dir, nil
	}
	dir, err := syscall.Getwd()
	if err != nil {
		err = hint.With(fmt.Errorf("finding out which directory this is: %w", err), "it may have been removed: go to another")
	}
	return dir, err
}

// cacheDir is a directory of ours that may be removed at any time. Who has no home, as in many containers, has it among the
// temporary files.
func cacheDir(name string) (dir string, err error) {
	if base, err := os.UserCacheDir(); err == nil {
		dir = filepath.Join(base, "unthrottle", name)
		if os.MkdirAll(dir, 0o755) == nil {
			return dir, nil
		}
	}
	dir = filepath.Join(os.TempDir(), fmt.Sprintf("unthrottle-%d", os.Getuid()), name)
	return dir, os.MkdirAll(dir, 0o700)
}
