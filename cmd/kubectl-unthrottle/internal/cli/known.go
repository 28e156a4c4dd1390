package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/config"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// known are the flags about findings that a project lives with for now.
type known struct {
	read, write string // files
	standing    []config.BaselineFinding
}

func (k *known) flags(flags *pflag.FlagSet) {
	flags.StringVar(&k.read, "baseline", "", "F\tleave out the findings listed in file F, also for --fail-on")
	flags.StringVar(&k.write, "write-baseline", "", "F\twrite all current findings to file F, and exit with 0")
}

// open reads the file of --baseline.
func (k *known) open(ctx context.Context) error {
	if k.read == "" {
		return nil
	}
	var err error
	k.standing, err = config.ReadBaseline(ctx, k.read)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return hint.With(fmt.Errorf("--baseline %s: there is no such file", k.read), "--write-baseline "+k.read+" makes it")
	case err != nil:
		return hint.With(fmt.Errorf("--baseline: %w", err), "--write-baseline "+k.read+" writes it again, with everything found now")
	}
	return nil
}

// hold writes the file of --write-baseline, and leaves out what is in that of --baseline.
func (k *known) hold(d *result.Lint, covered func(config.BaselineFinding) bool) error {
	if k.write != "" {
		if n := d.Unread(); n > 0 {
			return hint.With(fmt.Errorf("--write-baseline %s: not written, because %d of the problems kept something from being read", k.write, n),
				"without --write-baseline they are reported")
		}
		out, err := verb.NewOutput(k.write, nil)
		if err == nil {
			all := result.Called(d.Findings, func(f lint.Finding) config.BaselineFinding { return called(k.write, f) })
			err = out.Finish(config.WriteBaseline(out.W, all))
		}
		if err != nil {
			return hint.With(fmt.Errorf("--write-baseline: %w", err), "it needs a file in a directory that exists and is writable")
		}
	}
	if k.read != "" {
		d.Against(k.read, k.standing, func(f lint.Finding) config.BaselineFinding { return called(k.read, f) }, covered)
	}
	return nil
}

// called is a finding as a baseline has it: files are named relative to the baseline, so that it is the same wherever the command runs.
func called(path string, f lint.Finding) config.BaselineFinding {
	b := config.BaselineFinding{Rule: f.Rule, Workload: f.Workload, Container: f.Container, Variable: f.Variable, File: f.At.File}
	if b.File != "" && b.File != manifest.Stdin {
		b.File = from(path, b.File)
	}
	return b
}

// from is a file's path relative to the directory of another.
func from(other, file string) string {
	dir, err1 := filepath.Abs(filepath.Dir(other))
	to, err2 := filepath.Abs(file)
	if err1 != nil || err2 != nil {
		return filepath.ToSlash(file)
	}
	if relative, err := filepath.Rel(dir, to); err == nil {
		to = relative
	}
	return filepath.ToSlash(to)
}

// readOf says what of a baseline was looked at with the files of a set: what is in one of them, or in one that no longer exists.
func (k *known) readOf(set *manifest.Set) func(config.BaselineFinding) bool {
	read := map[string]bool{}
	for _, f := range set.Files {
		name := f.Name
		if name != manifest.Stdin {
			name = from(k.read, name)
		}
		read[name] = true
	}
	return func(f config.BaselineFinding) bool {
		if f.File == "" {
			return false // a live object
		}
		if read[f.File] || f.File == manifest.Stdin {
			return read[f.File]
		}
		file := filepath.FromSlash(f.File)
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(k.read), file)
		}
		_, err := os.Stat(file)
		return errors.Is(err, fs.ErrNotExist)
	}
}

// readLive says what of a baseline was looked at in a namespace, or in all.
func readLive(namespace string, part bool) func(config.BaselineFinding) bool {
	return func(f config.BaselineFinding) bool {
		_, in, other := strings.Cut(f.Workload, " in ")
		if !other {
			in = "default"
		}
		return f.File == "" && !part && (namespace == "" || namespace == in)
	}
}
