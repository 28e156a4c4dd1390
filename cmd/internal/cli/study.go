package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/journal"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

// A study is what bench and tune have in common: each run is written to a journal as it finishes, so that a study can be
// interrupted, shown as far as it goes, and gone on with. T is the verb's own type.
type study[T any] interface {
	verb() string

	// plan checks the command line and opens the files of -o.
	plan(ctx context.Context, args []string, dash int) error
	journalPath() (string, error)

	// lock waits until no other study is at work on this machine.
	lock(ctx context.Context) (unlock func(), err error)
	// prepare makes ready what has to be under the lock.
	prepare(ctx context.Context) error
	// head is the journal's head.
	head() any
	// execute does the runs that are missing, and hands out a record of each.
	execute(ctx context.Context, record func(any) error) error
	// measured reports whether there is anything to show.
	measured() bool
	// show shows what there is. next is the command that goes on with it.
	show(journal, next string, interrupted bool) error
	clean()

	// read reads the journal of an interrupted study, and tells the command that began it and where that was.
	read(data []byte) (command []string, dir string, cut int, err error)
	// inherit takes what the command line of --resume, which has read the journal, says in place of the first one's.
	inherit(from T) error
	// goOn checks that the plan is that of the study that was read, and takes its runs.
	goOn(from T) error
}

// begin does a new study.
func begin[T study[T]](ctx context.Context, s T, args []string, dash int) error {
	defer s.clean()
	if err := s.plan(ctx, args, dash); err != nil {
		return err
	}
	path, err := s.journalPath()
	if err != nil {
		return err
	}
	j, err := journal.Create(path)
	if err != nil {
		return hint.With(fmt.Errorf("opening the file of runs: %w", err), "--runs wants a new file; unthrottle "+s.verb()+" --resume FILE goes on with an old one")
	}
	defer j.Close()
	return conduct(ctx, s, j, true)
}

// resume goes on with an interrupted study: the command that began it is read again, by the verb's own constructor, and what
// is done is not done again.
func resume[T study[T]](ctx context.Context, s T, file string, again func() (*cobra.Command, T)) error {
	wants := "--resume wants the file of runs that an interrupted " + s.verb() + " has named"
	data, err := os.ReadFile(file)
	if err != nil {
		return hint.With(err, wants)
	}
	command, dir, cut, err := s.read(data)
	if err != nil {
		return hint.With(fmt.Errorf("%s: %w", file, err), wants)
	}
	if len(command) < 2 || command[1] != s.verb() {
		return fmt.Errorf("%s does not tell the command that began it", file)
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
		return hint.With(err, "the "+s.verb()+" was begun there")
	}
	if err := next.inherit(s); err != nil {
		return err
	}
	defer next.clean()
	if err := next.plan(ctx, cmd.Flags().Args(), cmd.ArgsLenAtDash()); err != nil {
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
func conduct[T study[T]](ctx context.Context, s T, j *journal.Journal, begun bool) error {
	keep := !begun
	defer func() {
		if !keep {
			j.Remove()
		}
	}()
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if begun {
		if err := j.Write(s.head()); err != nil {
			return fmt.Errorf("writing the runs: %w", err)
		}
	}
	err = s.execute(ctx, func(record any) error {
		if err := j.Write(record); err != nil {
			return fmt.Errorf("writing the runs: %w", err)
		}
		keep = true
		return nil
	})
	if !s.measured() {
		return err
	}
	keep = true
	name := report.ShellWord(j.Name())
	next := "unthrottle " + s.verb() + " --resume " + name
	if showErr := s.show(j.Name(), next, err != nil); showErr != nil {
		if err != nil {
			showErr = fmt.Errorf("%w; then %w", err, showErr)
		}
		return hint.With(showErr, "the runs are kept: unthrottle report "+name)
	}
	if err != nil {
		return hint.With(err, "go on with "+next)
	}
	return nil
}

// runsPath is a new file for runs of this name.
func runsPath(now time.Time, name string) (string, error) {
	dir, err := cacheDir("runs")
	if err != nil {
		return "", hint.With(err, "--runs FILE puts the runs elsewhere")
	}
	name = strings.Map(func(r rune) rune {
		if r == '/' || r == os.PathSeparator || r <= ' ' {
			return '-'
		}
		return r
	}, name)
	return filepath.Join(dir, fmt.Sprintf("%s-%s-%d.jsonl", now.UTC().Format("20060102-150405"), name, os.Getpid())), nil
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
