package workload

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// TestSource holds that the list of embedded files is complete.
func TestSource(t *testing.T) {
	onDisk, err := filepath.Glob("program/*.go")
	if err != nil {
		t.Fatal(err)
	}
	onDisk = slices.DeleteFunc(onDisk, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	embedded, err := fs.Glob(source, "program/*")
	if err != nil || !slices.Equal(onDisk, embedded) {
		t.Errorf("embedded are %q, %v, there are %q", embedded, err, onDisk)
	}
}

func TestBuild(t *testing.T) {
	slowtest.Plain(t)
	needGo(t)
	ctx := context.Background()
	toolchain, err := Resolve(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(t.TempDir(), "cache")
	if runtime.GOOS == "linux" { // what a build left that was killed
		parts := strings.Split(ours.Name("unthrottle-temp-build-"), "-")
		parts[len(parts)-2] = "1"
		if err := os.MkdirAll(filepath.Join(cache, strings.Join(parts, "-")), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var paths [2]string // two at a time don't disturb each other
	var wg sync.WaitGroup
	for i := range paths {
		wg.Go(func() {
			path, err := Build(ctx, toolchain, cache)
			if err != nil {
				t.Error(err)
			}
			paths[i] = path
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	if paths[0] != paths[1] || !filepath.IsAbs(paths[0]) {
		t.Errorf("built %q", paths)
	}
	runBuilt(t, paths[0], toolchain)

	files, err := os.ReadDir(cache)
	if err != nil || len(files) != 1 {
		t.Errorf("in the cache are %v, %v", files, err)
	}
	t.Setenv("PATH", "") // what is built needs no go command
	if again, err := Build(ctx, toolchain, cache); err != nil || again != paths[0] {
		t.Errorf("built again: %q, %v", again, err)
	}
}

// runBuilt runs a built program, and checks that it is of the toolchain and knows what that one can tell.
func runBuilt(t *testing.T, path, toolchain string) {
	t.Helper()
	w, _ := Find("chain")
	out, err := exec.Command(path, "chain", "--for", "5ms", "--size", "3").Output()
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	if r.Go != toolchain {
		t.Errorf("built with %s, want %s", r.Go, toolchain)
	}
	if old := strings.HasPrefix(r.Go, "go1.18") || strings.HasPrefix(r.Go, "go1.19"); (r.GCCPUShare == nil) != old {
		t.Errorf("%s: collector's share %v", r.Go, r.GCCPUShare)
	}
}

// TestToolchains builds with the oldest Go and with some that changed what the programs use. The oldest one's vet looks at the source, too,
// also at that for a system without getrusage. The first time takes minutes, for each toolchain has its standard library to compile; then
// its build cache has it.
func TestToolchains(t *testing.T) {
	slowtest.Plain(t)
	needGo(t)
	ctx := context.Background()
	for _, toolchain := range []string{"go1.18.10", "go1.21.13", "go1.24.13"} {
		t.Run(toolchain, func(t *testing.T) {
			if err := available(ctx, toolchain); err != nil {
				if os.Getenv("UNTHROTTLE_REQUIRE_TOOLCHAINS") == "1" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			path, err := Build(ctx, toolchain, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			runBuilt(t, path, toolchain)

			if toolchain != "go1.18.10" {
				return
			}
			dir := t.TempDir()
			if err := writeSource(dir, minLanguage); err != nil {
				t.Fatal(err)
			}
			for _, system := range []string{runtime.GOOS, "windows"} {
				if _, err := runGo(ctx, dir, append(goEnv(toolchain), "GOOS="+system), "vet", "./..."); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestBuildFails(t *testing.T) {
	slowtest.Plain(t)
	needGo(t)
	ctx := context.Background()
	t.Setenv("GOPROXY", "off")
	for _, test := range []struct{ toolchain, want string }{
		{"go1.99.1", "building the workloads with go1.99.1: go build"},
		{"go1.17.13", "the programs need go1.18 or later"},
		{"nonsense", `bad toolchain "nonsense"`},
		{"devel go1.20-123456", "can't run another"}, // not the one in PATH
	} {
		cache := t.TempDir()
		_, err := Build(ctx, test.toolchain, cache)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.toolchain, err, test.want)
		}
		if files, _ := os.ReadDir(cache); len(files) > 0 {
			t.Errorf("%s left %v", test.toolchain, files)
		}
	}

	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Build(ctx, "go"+minLanguage+".10", t.TempDir()); err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("cancelled: error %v", err)
	}
}

func TestNoGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	ctx := context.Background()
	_, local := Resolve(ctx, "")
	_, minor := Resolve(ctx, "1.21")
	_, build := Build(ctx, "go1.21.13", t.TempDir())
	w, _ := Find("gocmd-list")
	_, command := w.Command(Options{Dir: "/lab"})
	for _, err := range []error{local, minor, build, command, w.Prepare(ctx, Options{Dir: t.TempDir()})} {
		if err == nil || !strings.Contains(err.Error(), "there is no go command in PATH") {
			t.Errorf("error %v", err)
		}
	}
}

func TestResolve(t *testing.T) {
	needGo(t)
	t.Setenv("GOPROXY", "off")
	ctx := context.Background()
	for _, test := range []struct{ in, want, problem string }{
		{"", runtime.Version(), ""},
		{"go", runtime.Version(), ""},
		{"1.21.13", "go1.21.13", ""}, // may have to be fetched, but not to be named
		{"go1.21.13", "go1.21.13", ""},
		{"go1.24rc1", "go1.24rc1", ""},
		{"1.17", "", "too old"},
		{"1.18beta1", "", "too old"},
		{"1.x", "", `bad Go version "1.x"`},
		{"latest", "", `bad Go version "latest"`},
		{"go 1.21", "", `bad Go version "go 1.21"`},
		{"1.99", "", "finding a toolchain of go1.99"},
	} {
		if test.want == runtime.Version() {
			local, err := localVersion(ctx)
			if err != nil {
				t.Fatal(err)
			}
			test.want = local // the go command in PATH need not be the one that built the test
		}
		got, err := Resolve(ctx, test.in)
		if got != test.want || (err == nil) != (test.problem == "") || err != nil && !strings.Contains(err.Error(), test.problem) {
			t.Errorf("%q: got %q, %v, want %q, %q", test.in, got, err, test.want, test.problem)
		}
	}
}

// TestResolveOffline: without a list, what is on disk is taken, and that is at least the go command itself.
func TestResolveOffline(t *testing.T) {
	needGo(t)
	t.Setenv("GOPROXY", "off")
	ctx := context.Background()
	local, err := localVersion(ctx)
	if err != nil {
		t.Fatal(err)
	}
	language, err := languageOf(local)
	if err != nil {
		t.Fatal(err)
	}
	want := choose("go"+language, onDisk(ctx))
	if len(want) == 0 {
		t.Skipf("%s is not a release", local)
	}
	if got, err := Resolve(ctx, language); err != nil || got != want[0] {
		t.Errorf("got %q, %v, want %q", got, err, want[0])
	}
}

func TestChoose(t *testing.T) {
	list := []string{"go1.21.2", "go1.21rc3", "go1.21.10", "go1.2.2", "go1.22.1", "go1.21.0", "", "go1.21.11-fork", "devel go1.21-1234", "go1.18"}
	for _, test := range []struct{ lang, want string }{
		{"go1.21", "go1.21.13 go1.21.10 go1.21.2 go1.21.0"},
		{"go1.22", "go1.22.1"},
		{"go1.18", "go1.18.10 go1.18"},
		{"go1.30", ""},
	} {
		got := strings.Join(choose(test.lang, list, []string{"go1.18.10", "go1.21.10", "go1.21.13"}), " ")
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.lang, got, test.want)
		}
	}
}

func TestParseListed(t *testing.T) {
	const text = "golang.org/toolchain v0.0.1-go1.9.linux-amd64 v0.0.1-go1.18.10.linux-amd64 v0.0.1-go1.18.10.linux-arm64 " +
		"v0.0.1-go1.21rc2.linux-amd64 v0.0.1-nonsense.linux-amd64 v1.0.0\n"
	if got, want := parseListed(text, "linux-amd64"), []string{"go1.9", "go1.18.10", "go1.21rc2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzParseListed(f *testing.F) {
	f.Add("golang.org/toolchain v0.0.1-go1.9.linux-amd64 v0.0.1-go1.18.10.linux-arm64\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range parseListed(text, "linux-amd64") {
			if !strings.Contains(text, "v0.0.1-"+name+".linux-amd64") {
				t.Errorf("%q is not in %q", name, text)
			}
		}
	})
}

func TestLanguageOf(t *testing.T) {
	for _, test := range []struct{ toolchain, want string }{
		{"go1.18.10", "1.18"},
		{"go1.18", "1.18"},
		{"go1.21rc2", "1.21"},
		{"go1.26.8 X:something", "1.26"},
		{"devel go1.27-0123abc Mon Jan 1", "1.27"},
		{"go1.17.13", ""},
		{"1.21", ""},
		{"", ""},
	} {
		got, err := languageOf(test.toolchain)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%q: got %q, %v", test.toolchain, got, err)
		}
	}
}

func TestFileName(t *testing.T) {
	got := strings.TrimSuffix(fileName("devel go1.27-0123 X:a/b", "beef"), ".exe")
	if want := "workload-devel_go1.27-0123_X_a_b-beef"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLastLines(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"", ""},
		{"\n", ""},
		{"a\n", ":\n\ta"},
		{"1\n2\n3\n4\n5\n6\n", ":\n\t2\n\t3\n\t4\n\t5\n\t6"},
	} {
		if got := lastLines(test.in); got != test.want {
			t.Errorf("%q: got %q, want %q", test.in, got, test.want)
		}
	}
}

// Who has no home has no place for go's build cache either.
func TestBuildCache(t *testing.T) {
	t.Setenv("GOCACHE", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	if got := BuildCache("/alone"); got != nil {
		t.Errorf("with a home: %v", got)
	}
	t.Setenv("HOME", "/dev/null")
	if got := BuildCache("/alone"); len(got) != 1 || !strings.HasPrefix(got[0], "GOCACHE="+os.TempDir()) {
		t.Errorf("without one: %v", got)
	}
	t.Setenv("GOCACHE", "/somewhere")
	if got := BuildCache("/alone"); got != nil {
		t.Errorf("with one of the user's: %v", got)
	}
}
