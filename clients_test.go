package unthrottle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ownClients are files that make HTTP clients of their own, and why. All others use one of package web, which bounds answers and sends
// credentials only to the server that they are for.
var ownClients = map[string]string{
	"cmd/internal/ground/web/web.go":                               "it is where they are made",
	"cmd/internal/traffic/load/nethttp.go":                         "the engine of a load: it throws answers away as they come, and keeps to the host that is named",
	"cmd/internal/limit/workload/program/http.go":                  "a workload that asks itself",
	"cmd/kubectl-unthrottle/internal/facts/render/engine/chart.go": "it takes the default one away, in a process that may reach nothing",
	"cmd/kubectl-unthrottle/clustertest/cluster.go":                "tests ask an API server that they have started",
	"cmd/kubectl-unthrottle/clustertest/testdata/worker/main.go":   "a program in a test's pod",
}

// ownConfigs are files that make a configuration of client-go, or a client from one, on their own, and how package web's guard gets around
// it. All others are given theirs.
var ownConfigs = map[string]string{
	"cmd/kubectl-unthrottle/internal/facts/cluster/config.go": "Prepare wraps each that is read from a kubeconfig",
	"cmd/kubectl-unthrottle/internal/facts/pods/kubelet.go":   "newServer takes it",
	"cmd/kubectl-unthrottle/internal/facts/pods/server.go":    "newServer wraps a copy of what it gets",
}

// TestClients checks that HTTP clients are made in one place only.
func TestClients(t *testing.T) {
	used := map[string]bool{}
	skip := func(dir, name string) bool {
		return dir == "bench" || dir == "cmd/kubectl-unthrottle/bench" || name == "tools"
	}
	eachSource(t, skip, func(path string, files *token.FileSet, file *ast.File) {
		for _, at := range clientsOf(file) {
			if used[path] = true; ownClients[path] == "" {
				t.Errorf("%s: an HTTP client of its own: package web makes them", files.Position(at))
			}
		}
		for _, at := range configsOf(file) {
			if used[path] = true; ownConfigs[path] == "" {
				t.Errorf("%s: a client for API servers of its own: package cluster makes them", files.Position(at))
			}
		}
	})
	for _, own := range []map[string]string{ownClients, ownConfigs} {
		for path := range own {
			if !used[path] {
				t.Errorf("%s has no client of its own", path)
			}
		}
	}
}

// eachSource parses the sources that aren't tests, except those in directories for which skip returns true.
func eachSource(t *testing.T, skip func(dir, name string) bool, look func(path string, files *token.FileSet, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		if d.IsDir() {
			if name := d.Name(); path != "." && (strings.HasPrefix(name, ".") || skip(path, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err == nil {
			look(path, files, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestClientsOf: the ways to make one.
func TestClientsOf(t *testing.T) {
	for text, want := range map[string]int{
		"var c = http.Client{}": 1, "var c = &http.Client{Timeout: 1}": 1, "var c http.Client": 1, "var c = new(http.Transport)": 1, "var c = http.DefaultClient": 1,
		"var c = http.DefaultTransport": 1, "func f() { http.Get(``) }": 1, "func f() { http.Post(``, ``, nil) }": 1, "type c struct { own http.Client }": 1,
		"var c = rest.HTTPClientFor": 0, "type c struct { http *http.Client }": 0, "func f(c *http.Client) *http.Transport { return nil }": 0, "var m = http.MethodGet": 0,
		"var other = html.Client{}": 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a\nimport \"net/http\"\n"+text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(clientsOf(file)); got != want {
			t.Errorf("%s: %d", text, got)
		}
	}
	renamed, _ := parser.ParseFile(token.NewFileSet(), "a.go", "package a\nimport web \"net/http\"\nvar c = web.DefaultClient", 0)
	if len(clientsOf(renamed)) != 1 {
		t.Error("another name of the package")
	}
}

// nameOf is what a file calls a package; "": it does not import it.
func nameOf(file *ast.File, path string) string {
	for _, spec := range file.Imports {
		if p, _ := strconv.Unquote(spec.Path.Value); p == path {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return path[strings.LastIndexByte(path, '/')+1:]
		}
	}
	return ""
}

// selectorsOf are the places in a file that name something from a package, called or not; no names: anything.
func selectorsOf(file *ast.File, path string, names ...string) (all []*ast.SelectorExpr) {
	name := nameOf(file, path)
	if name == "" {
		return nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == name && (len(names) == 0 || slices.Contains(names, s.Sel.Name)) {
				all = append(all, s)
			}
		}
		return true
	})
	return all
}

// configsOf are the places in a file that make a configuration of client-go, or a client without package web's guard.
func configsOf(file *ast.File) (at []token.Pos) {
	const rest, config = "k8s.io/client-go/rest", "k8s.io/client-go/tools/clientcmd"
	for _, s := range selectorsOf(file, rest, "HTTPClientFor", "TransportFor", "InClusterConfig", "AnonymousClientConfig") {
		at = append(at, s.Pos())
	}
	for _, s := range selectorsOf(file, config) {
		if s.Sel.Name != "IsEmptyConfig" {
			at = append(at, s.Pos())
		}
	}
	name := nameOf(file, rest)
	ast.Inspect(file, func(n ast.Node) bool {
		if l, ok := n.(*ast.CompositeLit); ok && name != "" {
			if s, ok := l.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Config" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == name {
					at = append(at, l.Pos())
				}
			}
		}
		return true
	})
	return at
}

// clientsOf are the places in a file that make an HTTP client or a transport, or use the ones that net/http has.
func clientsOf(file *ast.File) (at []token.Pos) {
	name := nameOf(file, "net/http")
	if name == "" {
		return nil
	}
	is := func(e ast.Expr, names ...string) bool {
		s, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, ok := s.X.(*ast.Ident)
		return ok && x.Name == name && slices.Contains(names, s.Sel.Name)
	}
	add := func(n ast.Node, found bool) {
		if found {
			at = append(at, n.Pos())
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			add(n, n.Type != nil && is(n.Type, "Client", "Transport"))
		case *ast.ValueSpec:
			add(n, n.Type != nil && is(n.Type, "Client", "Transport"))
		case *ast.Field:
			add(n, is(n.Type, "Client", "Transport"))
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.Ident)
			add(n, ok && f.Name == "new" && len(n.Args) == 1 && is(n.Args[0], "Client", "Transport"))
		case *ast.SelectorExpr:
			add(n, is(n, "DefaultClient", "DefaultTransport", "Get", "Post", "PostForm", "Head"))
		}
		return true
	})
	return at
}
