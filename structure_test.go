package unthrottle

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/internal/fixture"
)

var update = flag.Bool("update", false, "draw the picture of the wings")

const module = "github.com/unthrottle/unthrottle"

// A floor is a folder with packages.
type floor struct{ dir, packages string }

// house is the import order: a package imports only from floors below its own, which stand before it, and from packages before it on its
// floor. One that is not here is an error, so that a new package gets its place with thought. Floors below an internal folder are wings,
// and the doc.go of each says what it is for.
var house = []floor{
	{"", "internal/foreign internal/fromenv internal/size internal/collected cgroup . heapfloor memory memlimit " +
		"auto auto/watch auto/heapfloor auto/memory maxprocs guard metrics metrics/web docs"},
	{"cmd/internal/ground", "plain input hint ours quantity schema web finding"},
	{"cmd/internal/process", "podpath executable procs golive goself choice host"},
	{"cmd/internal/limit", "workload/program workload sidecar emulate runner service"},
	{"cmd/internal/diagnose", "watcher disturbance freeze exectrace heartbeat cpuprofile attach rule"},
	{"cmd/internal/traffic", "grpc h2 load hey"},
	{"cmd/internal/study", "sample lab generator search loadtest trial tune"},
	{"cmd/internal/show", "sheet report inspect ci chart render view"},
	{"cmd/internal/command", "bug demo verb conduct cli"},
	{"cmd", "unthrottle"},
	{"cmd/kubectl-unthrottle/internal/facts", "workload advice render render/engine manifest binary registry forecast gitops permit cluster pods remedy"},
	{"cmd/kubectl-unthrottle/internal/judge", "lint config fix policy audit prom"},
	{"cmd/kubectl-unthrottle/internal/show", "result page"},
	{"cmd/kubectl-unthrottle/internal/act", "podtrial alert install agents once inpod door certs agent webhook"},
	{"cmd/kubectl-unthrottle/internal", "cli"},
	{"cmd/kubectl-unthrottle", "."},
}

// places are the import paths of the house's packages, each with its place in the order.
func places() map[string]int {
	at := map[string]int{}
	for _, f := range house {
		for _, name := range strings.Fields(f.packages) {
			at[path.Join(module, f.dir, name)] = len(at)
		}
	}
	return at
}

// wing is the name of the wing that a floor is; "": it is none.
func (f floor) wing() string {
	if path.Base(path.Dir(f.dir)) != "internal" {
		return ""
	}
	return path.Base(f.dir)
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
	module + "/cmd/kubectl-unthrottle/clustertest",
}

// noImport is what a package must not import, and why.
var noImport = []struct{ in, path, why string }{
	{"/cmd/", module + "/internal/fromenv", "the command uses the library's public packages only, save foreign: there is one way to read what belongs to others"},
	{"library", "log", "the library is silent"},
	{"library", "log/slog", "it makes an importer's program some 300 KB larger"},
	{"library", "net", "the library reads files only"},
	{"library", "net/http", "the library reads files only"},
	{"library", "os/exec", "the library starts nothing"},
	{"library", "os/signal", "the library listens to no one"},
	{"/cmd/internal/show/render", "os", "a renderer writes to an io.Writer"},
	{"/cmd/internal/show/render", module + "/cmd/internal/show/report", "a renderer knows no verb"},
	{"/cmd/internal/show/view", "os", "a sheet is made from a document"},
	{"/cmd/internal/show/report", "os", "a document is made from facts"},
}

// lookers are packages that look at other processes, beside those that import package foreign. What belongs to these is opened by
// package foreign alone, see there.
var lookers = []string{
	"cgroup", "cmd/internal/command/bug", "cmd/internal/process/choice", "cmd/internal/process/executable", "cmd/internal/process/golive", "cmd/internal/diagnose/heartbeat", "cmd/internal/process/host",
	"cmd/internal/show/inspect", "cmd/internal/limit/sidecar", "cmd/internal/process/procs", "cmd/kubectl-unthrottle/internal/act/agent",
}

// opening are functions that follow links, wait for pipes, act on devices, or read without end.
var opening = map[string][]string{
	"os":                    {"Open", "OpenFile", "OpenRoot", "OpenInRoot", "ReadFile", "Stat", "Lstat", "ReadDir", "Readlink", "DirFS", "CopyFS"},
	"io/ioutil":             {"ReadFile", "ReadDir"},
	"path/filepath":         {"Glob", "Walk", "WalkDir", "EvalSymlinks"},
	"syscall":               {"Open", "Openat", "Stat", "Lstat", "Readlink"},
	"golang.org/x/sys/unix": {"Open", "Openat", "Openat2", "Stat", "Lstat", "Readlink"},
}

// believing are functions that believe what a program's file says of itself. Nothing at all calls them for one that someone else made.
var believing = map[string][]string{
	"debug/elf":       {"NewFile", "Open"},
	"debug/buildinfo": {"Read", "ReadFile"},
}

// openers are the places that use them all the same, and why they may.
var openers = map[string]string{
	"cgroup/system_linux.go: syscall.Open":                       "what a program reads of itself, and what its own mounts show",
	"cgroup/system_linux.go: syscall.Stat":                       "the same",
	"cmd/internal/diagnose/attach/page.go: os.Stat":              "a file that the user names",
	"cmd/internal/diagnose/heartbeat/join_linux.go: unix.Openat": "a cgroup to write to, below a mount of our own that no one else sees",
	"cmd/internal/limit/sidecar/expire.go: os.ReadFile":          "the token that a pod has for itself",
	"cmd/internal/process/procs/program.go: os.Open":             "a program that the user names",
	"cmd/internal/process/procs/program.go: buildinfo.Read":      "parses an open file of another format, within a budget",
	"cmd/internal/study/trial/lock_unix.go: os.OpenFile":         "a file of our own, in a directory of our own",
	"cmd/internal/study/trial/lock_unix.go: unix.Stat":           "whose a process is, which its directory in /proc says",
	"cmd/internal/limit/workload/builtin.go: buildinfo.ReadFile": "a program that was just built here",
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
	place := places()
	for _, p := range packages(t) {
		if !p.doc {
			t.Errorf("%s has no package comment", p.path)
		}
		if isOutside(p.path) || slices.ContainsFunc(house, func(f floor) bool { return f.wing() != "" && p.path == module+"/"+f.dir }) {
			continue
		}
		own, ok := place[p.path]
		if !ok {
			t.Errorf("%s has no place in the house of structure_test.go", p.path)
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

// TestWings: a wing has no code of its own, and its doc.go names each of its packages once.
func TestWings(t *testing.T) {
	for _, f := range house {
		if f.wing() == "" {
			continue
		}
		files, _ := filepath.Glob(f.dir + "/*")
		var folders []string
		for _, name := range files {
			if name = filepath.Base(name); name != "doc.go" {
				folders = append(folders, name)
			}
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.dir+"/doc.go", nil, parser.ParseComments)
		if err != nil {
			t.Error(err)
			continue
		}
		var named []string
		for _, line := range strings.Split(file.Doc.Text(), "\n") {
			if name, ok := strings.CutPrefix(line, "\t"); ok {
				named = append(named, strings.Fields(name)[0])
			}
		}
		slices.Sort(named)
		if !slices.Equal(named, folders) {
			t.Errorf("%s has %q, and its doc.go names %q", f.dir, folders, named)
		}
	}
}

// TestPicture holds the picture of the wings in docs/design.md to their imports. -update draws it.
func TestPicture(t *testing.T) {
	fixture.Section(t, *update, "docs/design.md", "imports only what stands below it:\n\n", picture(t))
}

// picture has a line for each wing of the command, the highest first, with the wings that it uses.
func picture(t *testing.T) string {
	wingOf := map[string]string{}
	for _, f := range house {
		for _, name := range strings.Fields(f.packages) {
			wingOf[path.Join(module, f.dir, name)] = f.wing()
		}
	}
	uses := map[string]map[string]bool{}
	found := packages(t)
	var lines []string
	for _, f := range house {
		if f.wing() == "" || !strings.HasPrefix(f.dir, "cmd/internal/") {
			continue
		}
		used := map[string]bool{}
		uses[f.wing()] = used
		for _, name := range strings.Fields(f.packages) {
			for imported := range found[path.Join(module, f.dir, name)].imports {
				if w := wingOf[imported]; w != "" && w != f.wing() {
					used[w] = true
				}
			}
		}
		var below []string
		for i := len(house) - 1; i >= 0; i-- {
			if other := house[i]; used[other.wing()] && strings.HasPrefix(other.dir, "cmd/internal/") {
				below = append(below, other.wing())
			}
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("    %-9s ─→ %s", f.wing(), strings.Join(below, ", ")), " ─→"))
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
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
