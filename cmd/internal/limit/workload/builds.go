package workload

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/build"
	"go/version"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
)

// A Variant is a way to build a package of the user's: at a commit, by a toolchain, with flags.
type Variant struct {
	Name   string   // what users know it by; "": it is the only one
	Dir    string   // in which go is called; "": here
	Go     string   // the toolchain; "": the go command's own
	GoLine bool     // the go line of the module is the toolchain's
	Flags  []string // of go build
	Env    []string
}

// about names a variant where there are others.
func (v Variant) about() string {
	return strings.TrimSpace(strings.Join([]string{v.Name, v.Go}, " "))
}

// in says in which of several a package was looked for.
func (v Variant) in() string {
	if v.Name == "" {
		return ""
	}
	return " in " + v.Name
}

// A Maker builds what the user wants to compare. Builds with the same sum are one program, regardless of how their sources differ, and need
// no measuring. Nothing of the user's is written to: a commit's files go to a directory of their own, and all that is built to another.
type Maker struct {
	Dir  string // ours alone: what is built goes there
	Note func(string)

	made int
}

// A Program is what was built of a package.
type Program struct {
	Path string // its import path
	Name string // the path within its module
	Dir  string // its source's
	File string
	Sum  string // of the file, and of the test data if it is one of tests
}

// A goPackage package is one as go list describes it.
type goPackage struct {
	ImportPath, Dir, Name     string
	Module                    *struct{ Path string }
	TestGoFiles, XTestGoFiles []string

	target string // what go builds it by
}

// name is the path of a package within its module.
func (p goPackage) name() string {
	if p.Module != nil {
		if below, ok := strings.CutPrefix(p.ImportPath, p.Module.Path+"/"); ok {
			return below
		}
	}
	return p.file()
}

var major = regexp.MustCompile(`^v[0-9]+$`)

// file is what go calls a program of it.
func (p goPackage) file() string {
	name := path.Base(p.ImportPath)
	switch {
	case p.ImportPath == "command-line-arguments": // files that are named one by one
		return strings.TrimSuffix(filepath.Base(p.target), ".go")
	case major.MatchString(name) && path.Dir(p.ImportPath) != ".":
		return path.Base(path.Dir(p.ImportPath))
	}
	return name
}

// Main builds a main package.
func (m *Maker) Main(ctx context.Context, v Variant, pattern string) (Program, error) {
	pkgs, at, err := m.list(ctx, v, pattern)
	switch {
	case err != nil:
		return Program{}, err
	case len(pkgs) != 1:
		return Program{}, fmt.Errorf("%s is not one package", pattern)
	case pkgs[0].Name != "main":
		return Program{}, fmt.Errorf("%s is package %s, which is not a program", pattern, pkgs[0].Name)
	}
	return m.build(ctx, v, at, pkgs[0], "build", "-o")
}

// Benchmarks builds the tests of those packages that have benchmarks.
func (m *Maker) Benchmarks(ctx context.Context, v Variant, pattern string) (programs []Program, err error) {
	pkgs, at, err := m.list(ctx, v, pattern)
	if err != nil {
		return nil, err
	}
	tests := false
	for _, p := range pkgs {
		tests = tests || len(p.TestGoFiles)+len(p.XTestGoFiles) > 0
		if !p.hasBenchmarks() {
			continue
		}
		program, err := m.build(ctx, v, at, p, "test", "-c", "-o")
		if err != nil {
			return nil, err
		}
		if err := program.addData(); err != nil {
			return nil, err
		}
		programs = append(programs, program)
	}
	switch {
	case !tests:
		return nil, fmt.Errorf("%s has no tests%s", pattern, v.in())
	case len(programs) == 0:
		return nil, fmt.Errorf("%s has no benchmarks%s", pattern, v.in())
	}
	return programs, nil
}

var benchmark = regexp.MustCompile(`(?m)^func Benchmark`)

// hasBenchmarks looks for them in a package's tests. A file that can't be read is go's to complain about.
func (p goPackage) hasBenchmarks() bool {
	for _, files := range [][]string{p.TestGoFiles, p.XTestGoFiles} {
		for _, name := range files {
			if text, err := os.ReadFile(filepath.Join(p.Dir, name)); err != nil || benchmark.Match(text) {
				return true
			}
		}
	}
	return false
}

// list finds packages, and where to call go to build them: a directory may be in a module other than the one here.
func (m *Maker) list(ctx context.Context, v Variant, pattern string) (pkgs []goPackage, at string, err error) {
	named := pattern
	at = v.Dir
	if filepath.IsAbs(pattern) || build.IsLocalImport(pattern) {
		dir := pattern
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(cmp.Or(v.Dir, "."), pattern)
		}
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			pattern, at = ".", dir
		}
	}
	if v.GoLine { // what is there is the same by any toolchain, and one that is older than the module's own refuses
		v.Go, v.GoLine = "", false
	}
	out, err := m.run(ctx, v, at, append(append([]string{"list", "-json"}, v.Flags...), pattern)...)
	if failed := new(BuildError); errors.As(err, &failed) && failed.Said != "" {
		return nil, "", fmt.Errorf("no Go package at %s%s: %s", named, v.in(), failed.Said)
	} else if err != nil {
		return nil, "", err
	}
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var p goPackage
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF) && len(pkgs) == 1:
			pkgs[0].target = pattern
			return pkgs, at, nil
		case errors.Is(err, io.EOF):
			return pkgs, at, nil
		case err != nil:
			return nil, "", fmt.Errorf("what go list says of %s: %w", named, err)
		}
		p.target = p.ImportPath
		pkgs = append(pkgs, p)
	}
}

// build builds one package.
func (m *Maker) build(ctx context.Context, v Variant, at string, p goPackage, args ...string) (Program, error) {
	m.Note(strings.TrimSpace("building " + p.name() + " " + v.about()))
	m.made++
	made := Program{Path: p.ImportPath, Name: p.name(), Dir: p.Dir, File: filepath.Join(m.Dir, strconv.Itoa(m.made), p.file())}
	if err := os.Mkdir(filepath.Dir(made.File), 0o700); err != nil {
		return made, err
	}
	args = append(args, made.File, "-trimpath", "-buildvcs=false") // the same code is the same file then, wherever its source lies
	if v.GoLine {
		mod, err := m.withGoLine(ctx, v, at)
		if err != nil {
			return made, err
		}
		args = append(args, "-modfile="+mod)
	}
	args = append(args, v.Flags...)
	if _, err := m.run(ctx, v, at, append(args, p.target)...); err != nil {
		return made, explain(err, v)
	}
	var err error
	made.Sum, err = sum(made.File)
	return made, err
}

// explain says which build failed, and what may be missing in one of a commit.
func explain(err error, v Variant) error {
	if about := v.about(); about != "" {
		err = fmt.Errorf("building %s: %w", about, err)
	}
	switch failed := new(BuildError); {
	case errors.As(err, &failed) && strings.Contains(failed.Said, syscall.ENOSPC.Error()):
		err = hint.With(err, "TMPDIR=DIR builds on another disk")
	case v.Dir != "":
		err = hint.With(err, "it is built from what git has of that commit: generated files that git ignores are not there")
	}
	return err
}

// withGoLine is a copy of a module's file whose go line is that of the variant's toolchain.
func (m *Maker) withGoLine(ctx context.Context, v Variant, at string) (file string, err error) {
	out, err := m.run(ctx, Variant{Dir: v.Dir, Env: v.Env}, at, "env", "GOMOD")
	if err != nil {
		return "", err
	}
	mod := strings.TrimSpace(out)
	if mod == "" || mod == os.DevNull {
		return "", errors.New("there is no go.mod whose go line could be changed")
	}
	m.made++
	base := filepath.Join(m.Dir, strconv.Itoa(m.made))
	file = base + ".mod"
	if err := copyFile(mod, file); err != nil {
		return "", err
	}
	if err := copyFile(strings.TrimSuffix(mod, ".mod")+".sum", base+".sum"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	line := strings.TrimPrefix(version.Lang(v.Go), "go")
	_, err = m.run(ctx, Variant{Env: v.Env}, at, "mod", "edit", "-go="+line, "-toolchain=none", file)
	return file, err
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

// run calls go.
func (m *Maker) run(ctx context.Context, v Variant, at string, args ...string) (string, error) {
	env := BuildCache(filepath.Join(m.Dir, "gocache"))
	if v.Go != "" {
		env = append(env, "GOTOOLCHAIN="+v.Go)
	}
	if v.GoLine {
		env = append(env, "GOWORK=off") // a workspace allows no other go.mod
	}
	return output(command(ctx, at, append(env, v.Env...), "go", args...))
}

// addData makes the data that tests read part of the sum.
func (p *Program) addData() error {
	h := sha256.New()
	io.WriteString(h, p.Sum)
	root := filepath.Join(p.Dir, "testdata")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		own, err := sum(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		fmt.Fprintf(h, "%q %s\n", name, own)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	p.Sum = hex.EncodeToString(h.Sum(nil))
	return err
}

// Sum is that of several programs.
func Sum(programs []Program) string {
	h := sha256.New()
	for _, p := range programs {
		fmt.Fprintf(h, "%q %s\n", p.Path, p.Sum)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sum is that of a file.
func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
