package workload

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

const module = `
-- go.mod --
module example.com/shop/v2

go 1.21
-- cmd/server/main.go --
package main

import "example.com/shop/v2/price"

func main() { println(price.Of(3)) }
-- price/price.go --
package price

func Of(n int) int { return 2 * n }
-- price/price_test.go --
package price

import "testing"

func BenchmarkOf(b *testing.B) { for i := 0; i < b.N; i++ { Of(i) } }
-- price/testdata/list.txt --
1 2 3
-- name/name_test.go --
package name

import "testing"

func TestName(t *testing.T) {}
`

// repository makes one with a commit of the module, on main, and goes there.
func repository(t *testing.T) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git here")
	}
	dir = t.TempDir()
	t.Chdir(dir)
	for k, v := range map[string]string{
		"GOWORK": "off", "GOFLAGS": "", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
		"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com",
	} {
		t.Setenv(k, v)
	}
	git(t, "init", "-q", "-b", "main")
	write(t, module)
	commit(t, "first")
	return dir
}

func git(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func commit(t *testing.T, what string) {
	t.Helper()
	git(t, "add", ".")
	git(t, "commit", "-q", "-m", what)
}

func write(t *testing.T, archive string) {
	t.Helper()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		if err := os.MkdirAll(filepath.Dir(f.Name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.Name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCommit(t *testing.T) {
	dir, ctx := repository(t), context.Background()
	first := git(t, "rev-parse", "HEAD")
	git(t, "checkout", "-q", "-b", "change")
	write(t, "-- a.txt --\na\n")
	commit(t, "second")
	git(t, "checkout", "-q", "main")
	write(t, "-- b.txt --\nb\n")
	commit(t, "third")
	third := git(t, "rev-parse", "HEAD")
	git(t, "update-ref", "refs/remotes/origin/release", first)
	git(t, "checkout", "-q", "change")
	r, err := FindRepo(ctx, "price")
	if err != nil {
		t.Fatal(err)
	}
	if r.below != "price"+string(filepath.Separator) {
		t.Errorf("seen from %q", r.below)
	}
	for name, want := range map[string]string{"main": third, "main...": first, "release": first, first[:8]: first, "HEAD~1": first} {
		if got, err := r.Commit(ctx, name); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %s", name, got, err, want)
		}
	}
	if n := r.Beyond(ctx, third); n != 1 {
		t.Errorf("main has %d commits that are not here", n)
	}
	for _, name := range []string{"nosuch", "-q", "--all", ""} {
		if got, err := r.Commit(ctx, name); err == nil {
			t.Errorf("%q: %q", name, got)
		}
	}
	_, err = r.Commit(ctx, "nosuch")
	if text := fmt.Sprint(hint.Of(err)); !strings.Contains(text, "git branch") {
		t.Errorf("%v, hint %q", err, text)
	}
	git(t, "clone", "-q", "--depth", "1", "file://"+dir, "shallow")
	if r, err = FindRepo(ctx, "shallow"); err != nil {
		t.Fatal(err)
	}
	_, err = r.Commit(ctx, first)
	if text := fmt.Sprint(hint.Of(err)); !strings.Contains(text, "--unshallow") {
		t.Errorf("in a shallow clone: %v, hint %q", err, text)
	}
	if _, err := FindRepo(ctx, t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a git repository") {
		t.Errorf("outside of one: %v", err)
	}
}

// TestExport: nothing of the user's changes, regardless of what is in the tree.
func TestExport(t *testing.T) {
	repository(t)
	ctx := context.Background()
	write(t, "-- price/price.go --\npackage price\n\nfunc Of(n int) int { return n << 1 }\n-- new.txt --\nnew\n")
	git(t, "add", "price")
	state := func() string {
		return git(t, "status", "--porcelain") + git(t, "worktree", "list") + git(t, "stash", "list") + git(t, "ls-files", "--stage")
	}
	before := state()
	r, err := FindRepo(ctx, "price")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := r.Commit(ctx, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := r.Export(ctx, hash, filepath.Join(t.TempDir(), "base"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "price.go"))
	if err != nil || !strings.Contains(string(text), "2 * n") {
		t.Errorf("got %s, %v", text, err)
	}
	if after := state(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if err := os.Mkdir("late", 0o755); err != nil {
		t.Fatal(err)
	}
	if r, err = FindRepo(ctx, "late"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Export(ctx, hash, filepath.Join(t.TempDir(), "base")); err == nil || !strings.Contains(err.Error(), "there is no directory late") {
		t.Errorf("a directory that was not there: %v", err)
	}
	if _, err := r.Export(ctx, hash, "/proc/nosuch/base"); err == nil {
		t.Error("exported to where nothing can be written")
	}
}

func maker(t *testing.T) *Maker { return &Maker{Dir: t.TempDir(), Note: func(string) {}} }

func TestPrograms(t *testing.T) {
	slowtest.Skip(t)
	repository(t)
	ctx := context.Background()
	r, err := FindRepo(ctx, ".")
	if err != nil {
		t.Fatal(err)
	}
	hash, err := r.Commit(ctx, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	base, err := r.Export(ctx, hash, filepath.Join(t.TempDir(), "base"))
	if err != nil {
		t.Fatal(err)
	}
	m := maker(t)
	build := func(v Variant, pkg string) Program {
		t.Helper()
		p, err := m.Main(ctx, v, pkg)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	was := build(Variant{Name: "main", Dir: base}, "./cmd/server")
	if filepath.Base(was.File) != "server" || was.Name != "cmd/server" {
		t.Errorf("got %+v", was)
	}
	write(t, "-- price/price.go --\npackage price\n\nfunc Of(n int) int { return 2 * n } // a price\n")
	if is := build(Variant{}, "./cmd/server"); is.Sum != was.Sum {
		t.Error("another comment on the same line made another program")
	}
	if is := build(Variant{}, "example.com/shop/v2/cmd/server"); is.Sum != was.Sum {
		t.Error("the package by its path is another program")
	}
	if is := build(Variant{Flags: []string{"-gcflags=all=-N"}}, "./cmd/server"); is.Sum == was.Sum {
		t.Error("other flags made the same program")
	}
	write(t, "-- price/price.go --\npackage price\n\nfunc Of(n int) int { return 3 * n }\n")
	if is := build(Variant{}, "./cmd/server"); is.Sum == was.Sum {
		t.Error("another program is the same")
	}
	for pkg, want := range map[string]string{
		"./price":   "which is not a program",
		"./...":     "is not one package",
		"./nosuch":  "no Go package at ./nosuch",
		"./cmd/one": "no Go package",
	} {
		if _, err := m.Main(ctx, Variant{}, pkg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", pkg, err)
		}
	}
	write(t, "-- price/price.go --\npackage price\n\nfunc Of(n int) int { return m }\n")
	_, err = m.Main(ctx, Variant{Name: "working tree"}, "./cmd/server")
	if err == nil || !strings.Contains(err.Error(), "building working tree") || !strings.Contains(err.Error(), "undefined: m") {
		t.Errorf("what does not build: %v", err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := m.Main(canceled, Variant{}, "./cmd/server"); err == nil {
		t.Error("built though it was interrupted")
	}
}

// TestGoLine: a go line decides what the runtime does, such as reading the CPU limit.
func TestGoLine(t *testing.T) {
	slowtest.Skip(t)
	repository(t)
	out, err := exec.Command("go", "env", "GOVERSION").Output()
	if err != nil {
		t.Fatal(err)
	}
	toolchain := strings.TrimSpace(string(out))
	for _, line := range []bool{false, true} {
		p, err := maker(t).Main(context.Background(), Variant{Go: toolchain, GoLine: line}, "./cmd/server")
		if err != nil {
			t.Fatal(err)
		}
		info, err := buildinfo.ReadFile(p.File)
		if err != nil {
			t.Fatal(err)
		}
		old := strings.Contains(info.String(), "updatemaxprocs=0")
		if old == line {
			t.Errorf("with the go line %v, settings %v", line, info.Settings)
		}
	}
	if mod, err := os.ReadFile("go.mod"); err != nil || !strings.Contains(string(mod), "go 1.21\n") {
		t.Errorf("go.mod is %s, %v", mod, err)
	}
}

func TestBenchmarks(t *testing.T) {
	slowtest.Skip(t)
	repository(t)
	ctx := context.Background()
	list := func() Program {
		t.Helper()
		programs, err := maker(t).Benchmarks(ctx, Variant{}, "./...")
		if err != nil {
			t.Fatal(err)
		}
		if len(programs) != 1 || programs[0].Name != "price" || programs[0].Path != "example.com/shop/v2/price" {
			t.Fatalf("got %+v", programs)
		}
		return programs[0]
	}
	was := list()
	write(t, "-- price/testdata/list.txt --\n1 2 4\n")
	if list().Sum == was.Sum {
		t.Error("with other data they are the same")
	}
	write(t, "-- price/testdata/list.txt --\n1 2 3\n")
	if list().Sum != was.Sum {
		t.Error("with the same data they are others")
	}
	for pkg, want := range map[string]string{"./name": "has no benchmarks", "./cmd/...": "has no tests"} {
		if _, err := maker(t).Benchmarks(ctx, Variant{}, pkg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", pkg, err)
		}
	}
}

func TestParseFlags(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "[] []",
		"pgo=off":                      "[-pgo=off] []",
		"-race  tags=a,b":              "[-race -tags=a,b] []",
		"GOAMD64=v3 pgo=auto":          "[-pgo=auto] [GOAMD64=v3]",
		`'gcflags=all=-N -l' "race"`:   "[-gcflags=all=-N -l -race] []",
		"GOEXPERIMENT=a\tldflags=-s":   "[-ldflags=-s] [GOEXPERIMENT=a]",
		`"-ldflags=-X 'main.a=b c'" v`: "[-ldflags=-X 'main.a=b c' -v] []",
	} {
		flags, env, err := ParseBuildFlags(text)
		if got := fmt.Sprint(flags, " ", env); got != want || err != nil {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	if _, _, err := ParseBuildFlags("'pgo=off"); err == nil {
		t.Error("half a quotation is no error")
	}
}

func FuzzParseFlags(f *testing.F) {
	for _, text := range []string{"pgo=off", "'a b' c", `"`, "A=b -c=d", "''"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		flags, env, err := ParseBuildFlags(text)
		for _, flag := range flags {
			if !strings.HasPrefix(flag, "-") {
				t.Errorf("%q gave %q", text, flag)
			}
		}
		if err != nil && strings.Count(text, "'")+strings.Count(text, `"`) == 0 {
			t.Errorf("%q: %v", text, err)
		}
		if n := len(flags) + len(env); n > len(text) {
			t.Errorf("%q gave %d words", text, n)
		}
	})
}
