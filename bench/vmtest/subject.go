//go:build linux

package vmtest

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Subject is a program that the guest tests explain: the source in the folder
// subject, built in one of the ways that decide about GOMAXPROCS.
type Subject struct {
	Name      string
	Toolchain string // for GOTOOLCHAIN
	GoLine    string // of its go.mod
	Import    string // package that it imports for its effect; may be ""
}

// The toolchains. The last release of each line when this was written; any would do.
const (
	go124 = "go1.24.13"
	go125 = "go1.25.14"
	go126 = "go1.26.11"
	go127 = "go1.27.3"
)

const library = "github.com/unthrottle/unthrottle"

// Subjects are all that there are.
var Subjects = []Subject{
	{"go1.24", go124, "1.24", ""},
	{"go1.25", go125, "1.25", ""},
	{"go1.26", go126, "1.26", ""},
	{"go1.27", go127, "1.27", ""},
	{"go1.27-line1.24", go127, "1.24", ""},
	{"automaxprocs-go1.27", go127, "1.27", "go.uber.org/automaxprocs"},
	{"unthrottle-go1.24", go124, "1.24", library + "/auto"},
	{"unthrottle-go1.27", go127, "1.27", library + "/auto"},
}

// ErrNotFetched means that a subject's toolchain or the module that it imports
// could not be had.
var ErrNotFetched = errors.New("could not be fetched")

//go:embed subject/main.go
var subjectSource []byte

// Its checksums, for a go.sum.
const (
	automaxprocsVersion = "v1.6.0"
	automaxprocsSums    = `go.uber.org/automaxprocs v1.6.0 h1:O3y2/QNTOdbF+e/dpXNNW7Rx2hZ4sTIPyybbxyNqTUs=
go.uber.org/automaxprocs v1.6.0/go.mod h1:ifeIMSnPZuznNm6jmdzmU3/bfk01Fe2fotchwEFJ8r8=
`
)

// Build compiles the subject and returns the program's path, which ends in its
// name. It makes a module for it below dir, out of reach of the workspace, so that
// nothing but the subject's own go line counts. It runs the go command in the
// current directory too, which must be inside this module.
func (s Subject) Build(ctx context.Context, dir string) (file string, err error) {
	module := filepath.Join(dir, s.Name+".module")
	if err := s.writeModule(ctx, module); err != nil {
		return "", fmt.Errorf("building subject %s: %w", s.Name, err)
	}
	env := []string{"GOTOOLCHAIN=" + s.Toolchain, "GOWORK=off", "GOFLAGS="}
	if _, err := runGo(ctx, module, env, "version"); err != nil {
		return "", fmt.Errorf("building subject %s: %s %w: %w", s.Name, s.Toolchain, ErrNotFetched, err)
	}
	if s.Import != "" {
		if _, err := runGo(ctx, module, env, "mod", "download"); err != nil {
			return "", fmt.Errorf("building subject %s: its modules %w: %w", s.Name, ErrNotFetched, err)
		}
	}
	file = filepath.Join(dir, s.Name)
	if _, err := runGo(ctx, module, env, "build", "-ldflags=-s -w", "-o", file, "."); err != nil {
		return "", fmt.Errorf("building subject %s: %w", s.Name, err)
	}
	return file, nil
}

// writeModule writes the source, go.mod and go.sum.
func (s Subject) writeModule(ctx context.Context, dir string) error {
	mod, sum, imports := "module example.com/subject\n\ngo "+s.GoLine+"\n", "", "package main\n"
	switch {
	case s.Import == "":
	case strings.HasPrefix(s.Import, library):
		root, err := runGo(ctx, "", nil, "list", "-m", "-f", "{{.Dir}}", library)
		if err != nil {
			return err
		}
		mod += "\nrequire " + library + " v0.0.0\n\nreplace " + library + " => " + root + "\n"
	default:
		mod += "\nrequire " + s.Import + " " + automaxprocsVersion + "\n"
		sum = automaxprocsSums
	}
	if s.Import != "" {
		imports += "\nimport _ \"" + s.Import + "\"\n"
	}
	err := os.MkdirAll(dir, 0o755)
	for name, text := range map[string]string{
		"main.go": string(subjectSource), "import.go": imports, "go.mod": mod, "go.sum": sum,
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return err
}

// runGo runs the go command for the machine and returns its output, trimmed.
func runGo(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64"), env...)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s%s", strings.Join(args, " "), err, &stdout, &stderr)
	}
	return strings.TrimSpace(stdout.String()), nil
}
