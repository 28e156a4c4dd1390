package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/agents"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// given are the flags by which manifests are named, and the programs and nodes that they are for.
type given struct {
	files    []string // of -f, as kubectl has it
	binaries []string
	images   []string
	seen     []string // of --inventory
	nodes    []int
	program  *procs.Program // of --go
	empty    bool           // there may be no workload
	project  project
}

func (g *given) flags(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&g.files, "filename", "f", nil, "F\ta file, a directory or -, like an argument; may be repeated")
	g.project.flags(flags)
	g.emptyFlag(flags)
	g.programs(flags)
}

func (g *given) emptyFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&g.empty, "allow-empty", false, "exit with 0, not 1, if no workload is found")
}

// looked is an error where a verb had nothing to look at, which nothing says; "" if it had something. A gate that has looked at
// nothing must not be green.
func (g *given) looked(nothing, instead string) error {
	if nothing == "" || g.empty {
		return nil
	}
	return hint.With(errors.New(nothing), instead, "--allow-empty makes that a success")
}

// inFiles is what to do where files or a pipe have no workload.
const inFiles = "set -o pipefail ends a script where the command before a pipe failed"

// programs are the flags about programs and nodes.
func (g *given) programs(flags *pflag.FlagSet) {
	flags.StringArrayVar(&g.binaries, "binary", nil, "[IMAGE=]FILE\tthe program in the containers with this image, or in all; may be repeated")
	flags.StringArrayVar(&g.images, "image", nil, "IMAGE=FILE\tthat image: an OCI directory, or a tarball of one or from docker save; may be repeated")
	flags.StringArrayVar(&g.seen, "inventory", nil, "FILE\twhat agents report about running programs; may be repeated")
	flags.IntSliceVar(&g.nodes, "node-cpus", nil, "N,…\tCPUs of the nodes that the programs may run on")
	flags.Var(goFlag{&g.program}, "go", goUsage)
}

// all is what is known by the flags, and by the file of the project that what is named belongs to.
func (g *given) all(ctx context.Context, names []string) (lint.Known, error) {
	known, err := g.known(ctx)
	if err != nil {
		return known, err
	}
	return known, g.project.read(ctx, names, &known)
}

// known are the programs and nodes that the flags name. Images are read as long as ctx lasts, their programs when rules ask for them.
func (g *given) known(ctx context.Context) (lint.Known, error) {
	set := &binary.Set{}
	for _, text := range g.binaries {
		image, file, named := strings.Cut(text, "=")
		if !named {
			image, file = "", text
		}
		b, err := binary.ReadFile(file)
		switch {
		case err != nil:
			return lint.Known{}, hint.With(fmt.Errorf("--binary %s: %w", text, err), "--binary FILE, or --binary IMAGE=FILE where containers differ")
		case named:
			set.AddFile(image, b)
		default:
			set.All(b)
		}
	}
	for _, text := range g.images {
		name, file, ok := strings.Cut(text, "=")
		if !ok {
			return lint.Known{}, hint.Usage("--image registry/app:1=app.tar", "--image %s: there is no file", text)
		}
		image, err := binary.ReadImage(ctx, file, name)
		if err != nil {
			return lint.Known{}, hint.With(fmt.Errorf("--image %s: %w", text, err), "docker save IMAGE writes one")
		}
		set.AddImage(name, image)
	}
	for _, file := range g.seen {
		if err := agents.ReadProgramsFile(ctx, file, set); err != nil {
			return lint.Known{}, fmt.Errorf("--inventory %w", err)
		}
	}
	for _, n := range g.nodes {
		if n < 1 {
			return lint.Known{}, hint.Usage("--node-cpus 8,16", "--node-cpus: no node has %d CPUs", n)
		}
	}
	return lint.Known{Binaries: set, Nodes: g.nodes, Go: g.program}, nil
}
