package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/show/ci"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/config"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// project are the flags about how to judge the manifests of a repository, and what its file says.
type project struct {
	patterns []string
	path     string // of --config; "": it is looked for

	exclude config.Paths
	file    *config.Config
}

func (p *project) flags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&p.patterns, "exclude", nil, "GLOB\tleave out files and directories: testdata, dev/**/*.yaml; may be repeated")
	flags.StringVar(&p.path, "config", "", "F\tthis file in place of "+config.Name+"; none: no such file")
}

// read reads the file that holds for what is named, and adds to what is known what the flags don't say.
func (p *project) read(ctx context.Context, names []string, known *lint.Known) error {
	for _, pattern := range p.patterns {
		if err := p.exclude.Add(pattern); err != nil {
			return hint.Usage("--exclude testdata, --exclude 'dev/**/*.yaml'", "--exclude: %v", err)
		}
	}
	p.file = &config.Config{}
	path := p.path
	if path == "" {
		var err error
		if path, err = fileFor(names); err != nil {
			return err
		}
	}
	if path == "" || path == "none" {
		return nil
	}
	var err error
	p.file, err = config.Read(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return hint.Usage("name a file as "+config.Name+" is written, or none", "--config %s: there is no such file", path)
	case err != nil:
		return hint.With(err, "kubectl unthrottle help lint-gate tells what may stand there; --config none does without it")
	}
	known.Levels = p.file.Levels
	if len(known.Nodes) == 0 {
		known.Nodes = p.file.Nodes
	}
	if known.Go == nil {
		known.Go = p.file.Go
	}
	return nil
}

// fileFor is the file that holds for all that is named: that of its directory, or above. For standard input and a cluster it is that of
// the current directory. "": none.
func fileFor(names []string) (path string, err error) {
	if len(names) == 0 {
		names = []string{"."}
	}
	first := ""
	for i, name := range names {
		dir := directoryOf(name)
		found, err := config.Find(dir, ci.Repository(dir))
		switch {
		case err != nil:
			return "", hint.With(err, "--config F names it, --config none does without it")
		case i == 0:
			path, first = found, name
		case found != path:
			return "", hint.Usage("look at them one by one, or name the one that counts by --config", "%s and %s do not have the same %s", first, name, config.Name)
		}
	}
	if here, err := os.Getwd(); err == nil && path != "" {
		if short, err := filepath.Rel(here, path); err == nil {
			path = short
		}
	}
	return path, nil
}

// directoryOf is where a name is. What is neither a file nor a directory, such as a pipe, is the current directory's, and so is
// what is not there, which is reported elsewhere.
func directoryOf(name string) string {
	info, err := os.Stat(name)
	switch {
	case name == "-" || err != nil:
		return "."
	case info.IsDir():
		return name
	case info.Mode().IsRegular():
		return filepath.Dir(name)
	}
	return "."
}

// excludes says whether a file or directory is left out.
func (p *project) excludes(name string) bool { return p.exclude.Has(name) || p.file.Exclude.Has(name) }

// told is what a document says about it.
func (p *project) told(excluded int) result.Project {
	out := result.Project{Config: p.file.Path, Excluded: excluded}
	for rule, severity := range p.file.Levels {
		if severity == nil {
			out.RulesOff = append(out.RulesOff, rule)
		}
	}
	slices.Sort(out.RulesOff)
	return out
}
