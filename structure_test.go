package unthrottle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/unthrottle/unthrottle"

// order is the import order of the packages, lowest first: a package imports only from lines above its own. A package
// that is not here is an error, so that a new one gets its place with thought.
var order = []string{
	module + "/internal/foreign",
	module + "/internal/fromenv",
	module + "/internal/size",
	module + "/internal/collected",
	module + "/cgroup",
	module,
	module + "/heapfloor",
	module + "/memory",
	module + "/memlimit",
	module + "/auto",
	module + "/auto/watch",
	module + "/auto/heapfloor",
	module + "/auto/memory",
	module + "/maxprocs",
	module + "/guard",
	module + "/metrics",
	module + "/metrics/web",
	module + "/docs",

	module + "/cmd/internal/ground/plain",
	module + "/cmd/internal/ground/input",
	module + "/cmd/internal/ground/hint",
	module + "/cmd/internal/ground/ours",
	module + "/cmd/internal/ground/quantity",
	module + "/cmd/internal/ground/schema",
	module + "/cmd/internal/ground/web",
	module + "/cmd/internal/ground/finding",
	module + "/cmd/internal/show/sheet",
	module + "/cmd/internal/command/terminal",
	module + "/cmd/internal/process/podpath",
	module + "/cmd/internal/study/journal",
	module + "/cmd/internal/study/sample",
	module + "/cmd/internal/process/executable",
	module + "/cmd/internal/process/procs",
	module + "/cmd/internal/process/golive",
	module + "/cmd/internal/process/goself",
	module + "/cmd/internal/command/bug",
	module + "/cmd/internal/process/choice",
	module + "/cmd/internal/process/host",
	module + "/cmd/internal/limit/workload/program",
	module + "/cmd/internal/limit/workload",
	module + "/cmd/internal/limit/builds",
	module + "/cmd/internal/study/lab",
	module + "/cmd/internal/study/generator",
	module + "/cmd/internal/study/search",
	module + "/cmd/internal/limit/meter",
	module + "/cmd/internal/limit/podmeter",
	module + "/cmd/internal/limit/expire",
	module + "/cmd/internal/traffic/grpc",
	module + "/cmd/internal/traffic/load",
	module + "/cmd/internal/diagnose/moments",
	module + "/cmd/internal/diagnose/pauses",
	module + "/cmd/internal/diagnose/neighbours",
	module + "/cmd/internal/study/loadtest",
	module + "/cmd/internal/limit/emulate",
	module + "/cmd/internal/limit/netns",
	module + "/cmd/internal/limit/runner",
	module + "/cmd/internal/limit/service",
	module + "/cmd/internal/diagnose/freeze",
	module + "/cmd/internal/diagnose/exectrace",
	module + "/cmd/internal/diagnose/heartbeat",
	module + "/cmd/internal/diagnose/cpuprofile",
	module + "/cmd/internal/study/trial",
	module + "/cmd/internal/study/tour",
	module + "/cmd/internal/diagnose/attach",
	module + "/cmd/internal/study/tune",
	module + "/cmd/internal/traffic/hey",
	module + "/cmd/internal/command/demo",
	module + "/cmd/internal/diagnose/rule",
	module + "/cmd/internal/show/report",
	module + "/cmd/internal/show/inspect",
	module + "/cmd/internal/show/ci",
	module + "/cmd/internal/show/chart",
	module + "/cmd/internal/show/render",
	module + "/cmd/internal/show/view",
	module + "/cmd/internal/command/verb",
	module + "/cmd/internal/command/asked",
	module + "/cmd/internal/command/progress",
	module + "/cmd/internal/command/conduct",
	module + "/cmd/internal/command/cli",
	module + "/cmd/unthrottle",

	module + "/cmd/kubectl-unthrottle/internal/facts/workload",
	module + "/cmd/kubectl-unthrottle/internal/facts/manifest",
	module + "/cmd/kubectl-unthrottle/internal/facts/binary",
	module + "/cmd/kubectl-unthrottle/internal/facts/registry",
	module + "/cmd/kubectl-unthrottle/internal/facts/forecast",
	module + "/cmd/kubectl-unthrottle/internal/facts/permit",
	module + "/cmd/kubectl-unthrottle/internal/facts/cluster",
	module + "/cmd/kubectl-unthrottle/internal/facts/pods",
	module + "/cmd/kubectl-unthrottle/internal/act/podtrial",
	module + "/cmd/kubectl-unthrottle/internal/facts/remedy",
	module + "/cmd/kubectl-unthrottle/internal/judge/lint",
	module + "/cmd/kubectl-unthrottle/internal/judge/baseline",
	module + "/cmd/kubectl-unthrottle/internal/judge/fix",
	module + "/cmd/kubectl-unthrottle/internal/judge/policy",
	module + "/cmd/kubectl-unthrottle/internal/judge/audit",
	module + "/cmd/kubectl-unthrottle/internal/judge/prom",
	module + "/cmd/kubectl-unthrottle/internal/act/alert",
	module + "/cmd/kubectl-unthrottle/internal/act/install",
	module + "/cmd/kubectl-unthrottle/internal/show/result",
	module + "/cmd/kubectl-unthrottle/internal/act/inventory",
	module + "/cmd/kubectl-unthrottle/internal/act/agents",
	module + "/cmd/kubectl-unthrottle/internal/act/inpod",
	module + "/cmd/kubectl-unthrottle/internal/act/door",
	module + "/cmd/kubectl-unthrottle/internal/act/webhook/certs",
	module + "/cmd/kubectl-unthrottle/internal/act/agent",
	module + "/cmd/kubectl-unthrottle/internal/show/page",
	module + "/cmd/kubectl-unthrottle/internal/act/webhook",
	module + "/cmd/kubectl-unthrottle/internal/cli",
	module + "/cmd/kubectl-unthrottle",
}

// outside are packages that the tests, the benchmarks, the virtual machine and the cluster are made of. Nothing in order may import
// them, save its tests.
var outside = []string{
	module + "/internal/fixture",
	module + "/internal/kerneltest",
	module + "/internal/slowtest",
	module + "/cmd/internal/show/browsertest",
	module + "/cmd/internal/show/contracttest",
	module + "/cmd/internal/process/hostile",
	module + "/otel",
	module + "/bench",
	module + "/cmd/kubectl-unthrottle/bench",
	module + "/vmtest",
	module + "/clustertest",
	module + "/deploy",
}

// noImport is what a package must not import, and why.
var noImport = []struct{ in, path, why string }{
	{"/cmd/", module + "/internal/fromenv", "the command uses the library's public packages only, save foreign: there is one way to read what belongs to others"},
	{"library", "log", "the library is silent"},
	{"library", "log/slog", "it makes an importer's program some 300 KB larger"},
	{"library", "net", "the library reads files only"},
	{"library", "net/http", "the library reads files only"},
	{"library", "os/exec", "the library starts nothing"},
	{"library", "os/signal", "the library listens to nobody"},
	{"/cmd/internal/show/render", "os", "a renderer writes to an io.Writer"},
	{"/cmd/internal/show/render", module + "/cmd/internal/show/report", "a renderer knows no verb"},
	{"/cmd/internal/show/view", "os", "a sheet is made from a document"},
	{"/cmd/internal/show/report", "os", "a document is made from facts"},
}

// lookers are packages that look at other processes, beside those that import package foreign. What belongs to these is opened by
// package foreign alone, see there.
var lookers = []string{
	"cgroup", "cmd/internal/command/bug", "cmd/internal/process/choice", "cmd/internal/process/executable", "cmd/internal/process/golive", "cmd/internal/diagnose/heartbeat", "cmd/internal/process/host",
	"cmd/internal/show/inspect", "cmd/internal/limit/meter", "cmd/internal/limit/podmeter", "cmd/internal/process/procs", "cmd/kubectl-unthrottle/internal/act/agent",
}

// opening are functions that follow links, wait for pipes, act on devices, or read without end.
var opening = map[string][]string{
	"os":                    {"Open", "OpenFile", "OpenRoot", "OpenInRoot", "ReadFile", "Stat", "Lstat", "ReadDir", "Readlink", "DirFS", "CopyFS"},
	"io/ioutil":             {"ReadFile", "ReadDir"},
	"path/filepath":         {"Glob", "Walk", "WalkDir", "EvalSymlinks"},
	"syscall":               {"Open", "Openat", "Stat", "Lstat", "Readlink"},
	"golang.org/x/sys/unix": {"Open", "Openat", "Openat2", "Stat", "Lstat", "Readlink"},
}

// believing are functions that believe what a program's file says of itself. Nothing at all calls them for one that somebody else made.
var believing = map[string][]string{
	"debug/elf":       {"NewFile", "Open"},
	"debug/buildinfo": {"Read", "ReadFile"},
}

// openers are the places that use them all the same, and why they may.
var openers = map[string]string{
	"cgroup/system_linux.go: syscall.Open":                       "what a program reads of itself, and what its own mounts show",
	"cgroup/system_linux.go: syscall.Stat":                       "the same",
	"cmd/internal/diagnose/attach/page.go: os.Stat":              "a file that the user names",
	"cmd/internal/diagnose/heartbeat/join_linux.go: unix.Openat": "a cgroup to write to, below a mount of our own that nobody else sees",
	"cmd/internal/process/procs/program.go: os.Open":             "a program that the user names",
	"cmd/internal/process/procs/program.go: buildinfo.Read":      "parses an open file of another format, within a budget",
	"cmd/internal/study/trial/lock_unix.go: os.OpenFile":         "a file of our own, in a directory of our own",
	"cmd/internal/study/trial/lock_unix.go: unix.Stat":           "whose a process is, which its directory in /proc says",
	"cmd/internal/limit/workload/build.go: buildinfo.ReadFile":   "a program that was just built here",
}

// TestOpeners holds that there is one way to open what belongs to other processes.
func TestOpeners(t *testing.T) {
	looks := map[string]bool{}
	for _, dir := range lookers {
		if files, err := filepath.Glob(dir + "/*.go"); err != nil || len(files) == 0 {
			t.Fatalf("%s has no files, %v", dir, err)
		}
		looks[dir] = true
	}
	for _, p := range packages(t) {
		if p.imports[module+"/internal/foreign"] {
			looks[strings.TrimPrefix(p.path, module+"/")] = true
		}
	}
	used := map[string]bool{}
	skip := func(dir, name string) bool { return isOutside(module+"/"+dir) || name == "testdata" || name == "tools" }
	eachSource(t, skip, func(path string, files *token.FileSet, file *ast.File) {
		judge := func(of map[string][]string, why string) {
			for from, names := range of {
				for _, s := range selectorsOf(file, from, names...) {
					place := path + ": " + from[strings.LastIndexByte(from, '/')+1:] + "." + s.Sel.Name
					if used[place] = true; openers[place] == "" {
						t.Errorf("%s: %s: %s", files.Position(s.Pos()), place, why)
					}
				}
			}
		}
		if dir := filepath.ToSlash(filepath.Dir(path)); looks[dir] {
			judge(opening, "what belongs to other processes is opened by package foreign")
		}
		judge(believing, "programs are read by package executable")
	})
	for place := range openers {
		if !used[place] {
			t.Errorf("%s is no more: take it out of the list", place)
		}
	}
}

// A goPackage is a directory with Go files.
type goPackage struct {
	path    string
	doc     bool
	imports map[string]bool // of its files other than tests
}

func TestStructure(t *testing.T) {
	place := map[string]int{}
	for i, path := range order {
		place[path] = i
	}
	for _, p := range packages(t) {
		if !p.doc {
			t.Errorf("%s has no package comment", p.path)
		}
		if isOutside(p.path) {
			continue
		}
		own, ok := place[p.path]
		if !ok {
			t.Errorf("%s has no place in the import order of structure_test.go", p.path)
		}
		for imported := range p.imports {
			if !strings.HasPrefix(imported, module) {
				continue
			}
			if at, ok := place[imported]; !ok || at >= own {
				t.Errorf("%s must not import %s: see the import order", p.path, imported)
			}
		}
		for _, no := range noImport {
			apart := no.path == "net/http" && p.path == module+"/metrics/web" || no.path == "log/slog" && p.path == module+"/memlimit" // for that
			inLibrary := no.in == "library" && !strings.HasPrefix(p.path, module+"/cmd/") && !apart
			if (inLibrary || strings.HasPrefix(p.path+"/", module+no.in)) && p.imports[no.path] {
				t.Errorf("%s must not import %s: %s", p.path, no.path, no.why)
			}
		}
		for imported := range p.imports {
			if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") &&
				!strings.HasPrefix(imported, module) && !strings.HasPrefix(p.path, module+"/cmd/") {
				t.Errorf("%s must not import %s: the library has no dependencies", p.path, imported)
			}
		}
	}
}

func isOutside(path string) bool {
	for _, o := range outside {
		if path == o || strings.HasPrefix(path, o+"/") {
			return true
		}
	}
	return false
}

// packages parses the imports of all packages of the repository.
func packages(t *testing.T) map[string]*goPackage {
	t.Helper()
	found := map[string]*goPackage{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || name == "tools" || path != "." && strings.HasPrefix(name, ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		importPath := strings.TrimSuffix(module+"/"+filepath.ToSlash(filepath.Dir(path)), "/.")
		p := found[importPath]
		if p == nil {
			p = &goPackage{path: importPath, imports: map[string]bool{}}
			found[importPath] = p
		}
		p.doc = p.doc || file.Doc != nil
		if !strings.HasSuffix(path, "_test.go") {
			for _, spec := range file.Imports {
				name, _ := strconv.Unquote(spec.Path.Value)
				p.imports[name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 4 {
		t.Fatalf("found %d packages only", len(found))
	}
	return found
}

// TestGoMod holds what importers rely on: they gain one line, and keep their go line.
func TestGoMod(t *testing.T) {
	data, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "module " + module + "\n\ngo 1.21\n"; strings.ReplaceAll(string(data), "\r\n", "\n") != want {
		t.Errorf("go.mod is\n%s\nwant\n%s", data, want)
	}
	if _, err := os.Stat("go.sum"); err == nil {
		t.Error("there is a go.sum: the library has no dependencies, not even for its tests")
	}
}

// headings are what a section of the CHANGELOG may be divided into.
var headings = []string{"### Incompatible", "### Features", "### Security", "### Fixes", "### Other"}

var release = regexp.MustCompile(`^## \d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)$`)

// TestChangelog holds the CHANGELOG to the form that .ci/release and .ci/api read: sections, the newest first, of which only
// the first may be unreleased.
func TestChangelog(t *testing.T) {
	data, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := 0
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSuffix(line, "\r")
		switch {
		case strings.HasPrefix(line, "### "):
			if !strings.Contains(strings.Join(headings, "\n")+"\n", line+"\n") {
				t.Errorf("line %d: %q is none of %q", i+1, line, headings)
			}
		case strings.HasPrefix(line, "## "):
			if sections++; !release.MatchString(line) && (sections > 1 || line != "## Unreleased") {
				t.Errorf("line %d: %q is no release, such as ## 0.1.0 (2026-12-01)", i+1, line)
			}
		}
	}
	if sections == 0 {
		t.Error("there is no section")
	}
}
