package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/workload"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// buildOptions are what bench is given about the builds to compare.
type buildOptions struct {
	base   string
	flags  []string
	goes   string
	goLine bool

	several bool // builds are compared, and not only Go versions
}

func (o *buildOptions) register(in *pflag.FlagSet) {
	in.StringVar(&o.base, "base", "", "REV\tcompare the working tree with this commit: main, v1.2.0, HEAD, or main... for where this branch left it")
	in.StringArrayVar(&o.flags, "build", nil, "FLAGS\tflags of go build, or variables: pgo=off, GOAMD64=v3; repeated for each build")
	in.StringVar(&o.goes, "go", "", "LIST\tGo versions to build it with: 1.18,1.24.13")
	in.BoolVar(&o.goLine, "go-line", false, "set the go line of go.mod to each --go version")
}

// builtHere reports whether what is run is built here, from the user's source.
func (o *buildOptions) builtHere() bool { return o.base != "" || len(o.flags) > 0 || o.goes != "" }

// between is what separates two programs.
const between = "---"

// checkBuilds refuses what does not go together, and gives what was not asked for the values that suit a comparison of builds: a user who
// wants to know whether a change is slower does not ask for a limit, or for other GOMAXPROCS.
func (b *bench) checkBuilds(workloads, command []string) error {
	o := &b.builds
	programs := slices.Contains(command, between)
	switch {
	case programs && o.builtHere():
		return hint.Usage("unthrottle bench -- ./old --- ./new", "two programs after -- are run as they are: --base, --build and --go can't build them")
	case o.goLine && o.goes == "":
		return hint.Usage("unthrottle bench --go 1.25,1.26 --go-line -- ./cmd/server", "--go-line goes with --go")
	case len(workloads) > 0 && (o.base != "" || len(o.flags) > 0 || o.goLine):
		return hint.Usage("unthrottle bench --base main --gobench ./...", "the built-in programs have no source here to be built from")
	}
	o.several = programs || o.base != "" || len(o.flags) > 1
	if !o.several && (o.goes == "" || len(command) == 0) {
		return nil
	}
	if c := b.options.Compare; o.several && c != "" && c != lab.ByBuild {
		return hint.Usage("leave --compare out", "several builds are compared with each other, not by %s", c)
	}
	if !b.Flags.Given("procs") {
		b.procs = []int{0}
	}
	if !b.Flags.Given("cpus") {
		b.cpus = []float64{0}
	}
	if o.several && !b.Flags.Given("margin") {
		b.options.Margin = 0.02
	}
	return nil
}

// variants are the builds to compare, and what is known of each. Without any there is one, which has no name.
func (b *bench) variants(ctx context.Context, dir string) (variants []trial.Variant, about []lab.Build, err error) {
	type tree struct{ name, dir, commit string }
	trees := []tree{{}}
	if base := b.builds.base; base != "" {
		at, hash, err := b.export(ctx, base, dir)
		if err != nil {
			return nil, nil, err
		}
		trees = []tree{{strings.TrimSuffix(base, "..."), at, hash}, {name: report.WorkingTree}}
	}
	goes, err := b.toolchains(ctx)
	if err != nil {
		return nil, nil, err
	}
	sets := b.builds.flags
	if len(sets) == 0 {
		sets = []string{""}
	}
	for _, t := range trees {
		for _, set := range sets {
			flags, env, err := workload.ParseBuildFlags(set)
			if err != nil {
				return nil, nil, hint.Usage("--build 'gcflags=-l' --build 'pgo=off GOAMD64=v3'", "--build %q: %w", set, err)
			}
			label := ""
			if len(sets) > 1 {
				if label = set; label == "" {
					label = "no flags"
				}
			}
			name := strings.Join(slices.DeleteFunc([]string{t.name, label}, func(s string) bool { return s == "" }), ", ")
			for _, version := range goes {
				variants = append(variants, trial.Variant{
					Build: trial.Build{Name: name, Go: version},
					Variant: workload.Variant{
						Name: name, Dir: t.dir, Go: version, GoLine: b.builds.goLine, Flags: flags, Env: env,
					},
				})
				about = append(about, lab.Build{Name: name, Go: version, Commit: t.commit, Flags: slices.Concat(env, flags)})
			}
		}
	}
	return variants, about, nil
}

// export writes the base's files into a directory.
func (b *bench) export(ctx context.Context, base, dir string) (at, hash string, err error) {
	repo, err := workload.FindRepo(ctx, ".")
	if err != nil {
		if err = fmt.Errorf("--base: %w", err); len(hint.Of(err)) == 0 {
			err = hint.With(err, "--base takes a commit of the git repository that you are in")
		}
		return "", "", err
	}
	if hash, err = repo.Commit(ctx, base); err != nil {
		return "", "", fmt.Errorf("--base: %w", err)
	}
	if n := repo.Beyond(ctx, hash); n > 0 {
		b.Progress.Note(fmt.Sprintf("%s has %s that this branch does not have: --base %s... is where it left", base, quantity.Plural(n, "commit"), base))
	}
	at, err = repo.Export(ctx, hash, filepath.Join(dir, "base"))
	if err != nil {
		err = fmt.Errorf("--base: %w", err)
	}
	return at, hash, err
}

// toolchains are those of --go; "" is the one that built us, or the go command's own.
func (b *bench) toolchains(ctx context.Context) (list []string, err error) {
	if b.builds.goes == "" {
		return []string{""}, nil
	}
	return quantity.ParseList(b.builds.goes, func(v string) (string, error) { return workload.Resolve(ctx, v) })
}

// A lineup is the command lines of the programs that are compared, by their builds. The first is the base's.
type lineup struct {
	name  string
	args  map[trial.Build][]string
	order []trial.Build
	about []lab.Build
	copy  string // a directory for copies of those that were built here; "": the programs are run unchanged
	same  bool   // all are one program
}

func (l *lineup) first() []string { return l.args[l.order[0]] }

// lineUp builds a program after -- as often as is asked for, or takes several unchanged. nil: there is one program, and nothing to build.
func (b *bench) lineUp(ctx context.Context, command []string) (*lineup, error) {
	if slices.Contains(command, between) {
		return splitPrograms(command)
	}
	if !b.builds.builtHere() {
		return nil, nil
	}
	dir, err := b.tempDir()
	if err != nil {
		return nil, err
	}
	l := &lineup{args: map[trial.Build][]string{}, copy: dir}
	variants, about, err := b.variants(ctx, dir)
	if err != nil {
		return nil, err
	}
	m := &workload.Maker{Dir: dir, Note: b.Progress.Note}
	for i, v := range variants {
		program, err := m.Main(ctx, v.Variant, command[0])
		if err != nil {
			return nil, hint.With(err, "what is built is a package: unthrottle bench --base main -- ./cmd/server ARGS")
		}
		about[i].Sum = program.Sum
		l.name = filepath.Base(program.File)
		l.args[v.Build] = append([]string{program.File}, command[1:]...)
		l.order = append(l.order, v.Build)
	}
	l.about = about
	l.same = len(about) > 1 && !slices.ContainsFunc(about, func(o lab.Build) bool { return o.Sum != about[0].Sum })
	return l, nil
}

// splitPrograms takes programs apart, and names them: by their files, else by their paths, else by all of their command lines.
func splitPrograms(command []string) (*lineup, error) {
	l := &lineup{args: map[trial.Build][]string{}}
	var programs [][]string
	for rest := command; ; {
		end := slices.Index(rest, between)
		if end < 0 {
			programs = append(programs, rest)
			break
		}
		programs, rest = append(programs, rest[:end]), rest[end+1:]
	}
	for _, p := range programs {
		if len(p) == 0 {
			return nil, hint.Usage("unthrottle bench -- ./old --- ./new", "there is no program beside %s", between)
		}
		if _, err := findProgram(p[0]); err != nil {
			return nil, err
		}
	}
	for _, name := range []func(p []string) string{
		func(p []string) string { return filepath.Base(p[0]) },
		func(p []string) string { return p[0] },
		report.ShellWords,
	} {
		if l.name = name(programs[0]); l.take(programs, name) {
			return l, nil
		}
	}
	return nil, errors.New("the programs beside " + between + " are all the same command")
}

// take gives each program its name; false: two have the same.
func (l *lineup) take(programs [][]string, name func([]string) string) bool {
	clear(l.args)
	l.order, l.about = nil, nil
	for _, p := range programs {
		build := trial.Build{Name: name(p)}
		if l.args[build] != nil {
			return false
		}
		l.args[build], l.order = p, append(l.order, build)
		l.about = append(l.about, lab.Build{Name: build.Name})
	}
	return true
}

// settings are what Cross makes all others from.
func settings(builds []trial.Build) (of []lab.Setting) {
	for _, b := range builds {
		of = append(of, lab.Setting{Build: b.Name, Go: b.Go})
	}
	return of
}

// sameBuilds reports whether what goes on is what was begun: in the meantime a branch may have moved, and the working tree have changed.
func sameBuilds(now, then []lab.Build) bool {
	return slices.EqualFunc(now, then, func(a, b lab.Build) bool { return a.Name == b.Name && a.Go == b.Go && a.Sum == b.Sum })
}
