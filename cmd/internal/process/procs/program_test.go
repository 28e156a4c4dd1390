package procs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/process/executable"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// The stand-in for automaxprocs has its module path, packages and function names, and needs no network.
var automaxprocsFiles = map[string]string{
	"automaxprocs/go.mod": "module go.uber.org/automaxprocs\n\ngo 1.20\n",
	"automaxprocs/automaxprocs.go": `package automaxprocs

import (
	"log"

	"go.uber.org/automaxprocs/maxprocs"
)

func init() { maxprocs.Set(maxprocs.Logger(log.Printf)) }
`,
	"automaxprocs/maxprocs/maxprocs.go": `package maxprocs

import "runtime"

type Option func(string, ...interface{})

func Logger(printf func(string, ...interface{})) Option { return printf }

func Set(opts ...Option) (func(), error) {
	for _, o := range opts {
		o("GOMAXPROCS=%d", runtime.GOMAXPROCS(0))
	}
	return func() {}, nil
}
`,
}

const (
	plainMain       = "package main\n\nfunc main() {}\n"
	automaxBlank    = "package main\n\nimport _ \"go.uber.org/automaxprocs\"\n\nfunc main() {}\n"
	automaxCall     = "package main\n\nimport \"go.uber.org/automaxprocs/maxprocs\"\n\nfunc main() { maxprocs.Set() }\n"
	automaxUnused   = "package main\n\nimport _ \"go.uber.org/automaxprocs/maxprocs\"\n\nfunc main() {}\n"
	unthrottleAuto  = "package main\n\nimport _ \"github.com/unthrottle/unthrottle/auto\"\n\nfunc main() {}\n"
	unthrottleSet   = "package main\n\nimport \"github.com/unthrottle/unthrottle\"\n\nfunc main() { unthrottle.Set(unthrottle.Options{}) }\n"
	unthrottleSeen  = "package main\n\nimport \"github.com/unthrottle/unthrottle/cgroup\"\n\nfunc main() { println(cgroup.Self().CPUs) }\n"
	unthrottleMove  = "package main\n\nimport \"github.com/unthrottle/unthrottle/maxprocs\"\n\nfunc main() { maxprocs.Set() }\n"
	unthrottleFloor = "package main\n\nimport _ \"github.com/unthrottle/unthrottle/auto/heapfloor\"\n\nfunc main() {}\n"

	unthrottleWatch = `package main

import (
	"context"

	"github.com/unthrottle/unthrottle"
)

func main() { unthrottle.Watch(context.Background(), unthrottle.Options{}, nil) }
`
	// Names of functions as data: in a string, in one that ends as the table's entries do, and in a variable.
	stringsMain = `package main

import "os"

var name = []byte("go.uber.org/automaxprocs.init.0\x00github.com/unthrottle/unthrottle.Set\x00")

func main() {
	os.Stdout.WriteString("go.uber.org/automaxprocs/maxprocs.Set\x00github.com/unthrottle/unthrottle/auto.init.0\x00")
	os.Stdout.Write(name)
}
`
)

// build builds a program in a new module, without the network, and returns the file.
func build(t testing.TB, goLine, source string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	repo, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mod := "module example.com/program\n\ngo " + goLine + "\n"
	if strings.Contains(source, `"`+automaxprocs) {
		mod += "\nrequire go.uber.org/automaxprocs v1.6.0\n\nreplace go.uber.org/automaxprocs => ./automaxprocs\n"
	}
	if strings.Contains(source, `"`+unthrottle) {
		if _, err := os.Stat(filepath.Join(repo, "unthrottle.go")); err != nil {
			t.Skip("the library is not here: it lies beside this module in a checkout")
		}
		mod += "\nrequire github.com/unthrottle/unthrottle v0.0.0\n\nreplace github.com/unthrottle/unthrottle => " + repo + "\n"
	}
	write(t, filepath.Join(dir, "go.mod"), mod)
	write(t, filepath.Join(dir, "main.go"), source)
	for name, text := range automaxprocsFiles {
		write(t, filepath.Join(dir, name), text)
	}
	bin := filepath.Join(dir, "program")
	cmd := exec.Command("go", append(append([]string{"build", "-o", bin}, flags...), ".")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOPROXY=off", "GOSUMDB=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "go.mod requires go >=") {
			t.Skip("the go command here is older than go line " + goLine)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// goVersion asks the go command for its version, which need not be the one that the test was built with.
func goVersion(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("go", "env", "GOVERSION")
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local", "GOWORK=off")
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	if err != nil {
		t.Skip(err)
	}
	return strings.TrimSpace(string(out))
}

// TestBuilds reads what the go command builds from small programs.
func TestBuilds(t *testing.T) {
	slowtest.Plain(t)
	if runtime.GOOS != "linux" {
		t.Skip("looks into ELF files")
	}
	stripped := []string{"-ldflags=-s -w"}
	pie := []string{"-buildmode=pie"}
	for _, test := range []struct {
		name         string
		goLine       string
		source       string
		flags        []string
		automaxprocs Link
		unthrottle   Link
		floor        bool
	}{
		{name: "plain", source: plainMain},
		{name: "plain, stripped", source: plainMain, flags: stripped},
		{name: "plain, pie", source: plainMain, flags: pie},
		{name: "names as data", source: stringsMain},
		{name: "names as data, pie", source: stringsMain, flags: pie},

		{name: "automaxprocs, blank import", source: automaxBlank, automaxprocs: Imported},
		{name: "automaxprocs, blank import, stripped", source: automaxBlank, flags: stripped, automaxprocs: Imported},
		{name: "automaxprocs, blank import, pie", source: automaxBlank, flags: pie, automaxprocs: Imported},
		{name: "automaxprocs, called", source: automaxCall, automaxprocs: Linked},
		{name: "automaxprocs, called, pie and stripped", source: automaxCall, flags: append(pie, stripped...), automaxprocs: Linked},
		{name: "automaxprocs, called, trimmed paths", source: automaxCall, flags: []string{"-trimpath"}, automaxprocs: Linked},
		{name: "automaxprocs, not inlined", source: automaxCall, flags: []string{"-gcflags=all=-l"}, automaxprocs: Linked},
		{name: "automaxprocs, required only", source: automaxUnused, automaxprocs: Required},

		{name: "unthrottle, blank import", source: unthrottleAuto, unthrottle: Imported},
		{name: "unthrottle, blank import, stripped", source: unthrottleAuto, flags: stripped, unthrottle: Imported},
		{name: "unthrottle, blank import, pie", source: unthrottleAuto, flags: pie, unthrottle: Imported},
		{name: "unthrottle, called", source: unthrottleSet, unthrottle: Linked},
		{name: "unthrottle, called, stripped", source: unthrottleSet, flags: stripped, unthrottle: Linked},
		{name: "unthrottle, watching", source: unthrottleWatch, unthrottle: Linked},
		{name: "unthrottle, by automaxprocs' calls", source: unthrottleMove, unthrottle: Linked},
		{name: "unthrottle, a heap floor", source: unthrottleFloor, unthrottle: Required, floor: true},
		{name: "unthrottle, a heap floor, stripped", source: unthrottleFloor, flags: stripped, unthrottle: Required, floor: true},
		{name: "unthrottle, required only", source: unthrottleSeen, unthrottle: Required},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := ReadProgram(build(t, "1.21", test.source, test.flags...))
			if err != nil {
				t.Fatal(err)
			}
			if p.Automaxprocs != test.automaxprocs || p.Unthrottle != test.unthrottle || p.HeapFloor != test.floor {
				t.Errorf("automaxprocs %v, unthrottle %v, heap floor %v, want %v, %v and %v", p.Automaxprocs, p.Unthrottle, p.HeapFloor, test.automaxprocs, test.unthrottle, test.floor)
			}
			if want := goVersion(t); p.GoVersion != want {
				t.Errorf("Go version %q, want %q", p.GoVersion, want)
			}
			if p.Path != "example.com/program" || p.Module != "example.com/program" || p.Version == "" {
				t.Errorf("got %+v", p)
			}
		})
	}
}

// TestBuildsGoLine reads what the go line leaves in a program.
func TestBuildsGoLine(t *testing.T) {
	slowtest.Plain(t)
	const debug = "//go:debug "
	version := (&Program{GoVersion: goVersion(t)}).Minor()
	if version < 26 {
		t.Skip("needs Go 1.26")
	}
	line26 := "1.26"
	if version == 26 {
		line26 += " or later"
	}
	for _, test := range []struct {
		name, goLine, debug string
		want                string
		built               string
		on                  bool
	}{
		{"1.20", "1.20", "", "1.20 or older", "0", false},
		{"1.21", "1.21", "", "1.21", "0", false},
		{"1.22", "1.22", "", "1.22", "0", false},
		{"1.23", "1.23", "", "1.23", "0", false},
		{"1.24", "1.24", "", "1.24", "0", false},
		{"1.24.5", "1.24.5", "", "1.24", "0", false},
		{"1.25", "1.25", "", "1.25", "", true},
		{"1.25.0", "1.25.0", "", "1.25", "", true},
		{"1.26", "1.26", "", line26, "", true},
		{"off by directive", "1.26", "containermaxprocs=0", line26, "0", false},
		{"off by directive, 1.25", "1.25", "containermaxprocs=0", "1.25", "0", false},
		{"on by directive, 1.24", "1.24", "containermaxprocs=1", "1.24", "1", true},
		{"another by directive", "1.26", "tlssha1=1", line26, "", true},
		{"as an older line by directive", "1.26", "default=go1.22", "1.22", "0", false}, // which is the same to the build
	} {
		t.Run(test.name, func(t *testing.T) {
			source := plainMain
			if test.debug != "" {
				source = debug + test.debug + "\n" + source
			}
			p, err := ReadProgram(build(t, test.goLine, source))
			if err != nil {
				t.Fatal(err)
			}
			if got := p.GoLine(); got != test.want {
				t.Errorf("go line %q, want %q from %v", got, test.want, p.Defaults)
			}
			if got, want := p.Setting("containermaxprocs", nil), (Setting{Built: test.built, On: test.on}); got != want {
				t.Errorf("containermaxprocs %+v, want %+v", got, want)
			}
		})
	}
}

func TestReadProgramNotGo(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"empty": "", "script": "#!/bin/sh\n", "elf magic": "\x7fELF", "elf header": "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 57),
		"mark alone": "\xff Go buildinf:", "mark and text": strings.Repeat("\x00", 16) + "\xff Go buildinf:\x08\x02" + strings.Repeat("\xff", 100),
	} {
		file := filepath.Join(dir, name)
		write(t, file, text)
		if p, err := ReadProgram(file); err != ErrNotGo || p != nil {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if _, err := ReadProgram(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := ReadProgram(dir); err != ErrNotGo {
		t.Errorf("directory: %v", err)
	}
}

// TestReadProgramBroken reads a real program that is cut off at many lengths, and one with bytes changed: none of it may panic.
func TestReadProgramBroken(t *testing.T) {
	slowtest.Plain(t)
	file := build(t, "1.21", automaxBlank)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewSource(1))
	var lengths []int
	for n := 0; n < 4096; n += 61 { // the headers
		lengths = append(lengths, n)
	}
	for i := 0; i < 100; i++ {
		lengths = append(lengths, random.Intn(len(whole)))
	}
	for _, n := range append(lengths, len(whole)-1) {
		write(t, file, string(whole[:n]))
		if p, err := ReadProgram(file); (p == nil) != (err != nil) || err != nil && err != ErrNotGo && !errors.Is(err, executable.ErrOdd) {
			t.Errorf("%d bytes: %+v, %v", n, p, err)
		}
	}
	for i := 0; i < 200; i++ {
		broken := bytes.Clone(whole)
		end := 4096 // the headers
		if i%2 == 1 {
			end = len(broken)
		}
		for j := 0; j < 8; j++ {
			broken[random.Intn(end)] = byte(random.Intn(256))
		}
		write(t, file, string(broken))
		ReadProgram(file)
	}
}

func FuzzReadProgram(f *testing.F) {
	if self, err := os.Executable(); err == nil {
		if text, err := os.ReadFile(self); err == nil {
			f.Add(text[:min(len(text), 8192)])
		}
	}
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Add([]byte("MZ\x90\x00"))
	file := filepath.Join(f.TempDir(), "program")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(file, text, 0o666); err != nil {
			t.Fatal(err)
		}
		if p, err := ReadProgram(file); (p == nil) != (err != nil) {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// TestScan puts a name at every place around the boundary between two pieces.
func TestScan(t *testing.T) {
	const piece = 1 << 20
	names := []string{automaxprocs + "/maxprocs.Set\x00", "absent\x00"}
	name := names[0]
	text := make([]byte, 3*piece)
	try := func(offset int, want bool) {
		t.Helper()
		n := copy(text[offset:], name)
		found := make([]bool, len(names))
		scan(bytes.NewReader(text), names, found)
		if found[0] != want || found[1] {
			t.Errorf("at %d: found %v", offset, found)
		}
		clear(text[offset : offset+n])
	}
	const overlap = 256
	for _, end := range []int{piece, 2*piece - overlap, 3*piece - 2*overlap} {
		for offset := end - len(name) - 1; offset <= end+1; offset += 3 {
			try(offset, true)
		}
	}
	try(0, true)
	try(len(text)-len(name), true)
	try(len(text)-len(name)+1, false) // cut off

	// A name in two pieces isn't found.
	found := make([]bool, 1)
	scan(strings.NewReader(name[:10]+"-"+name[10:]), names[:1], found)
	if found[0] {
		t.Error("found in pieces")
	}
	for _, n := range []int{0, 1, overlap, piece - 1, piece, piece + 1} {
		scan(bytes.NewReader(text[:n]), names, make([]bool, len(names)))
	}
	for _, name := range names {
		if len(name) > overlap {
			t.Errorf("%q is longer than the overlap", name)
		}
	}
}

// endless is a table that never ends, but for an error.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left -= len(p); e.left < 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return len(p), nil
}

func TestScanMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	scan(&endless{left: 64 << 20}, []string{"absent"}, make([]bool, 1))
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 4<<20 {
		t.Errorf("a table of 64 MiB costs %d bytes", allocated)
	}
}
