package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
)

func TestParse(t *testing.T) {
	c, err := parse([]byte("# ours\nexclude:\n- '**/testdata/**'\n- dev/\nrules: {K010: off, k005: critical, K004: info}\nnode-cpus: [8, 64]\ngo: 1.20\n"), "/repo")
	if err != nil {
		t.Fatal(err)
	}
	off, has := c.Levels["K010"]
	if !has || off != nil || *c.Levels["K005"] != finding.Critical || *c.Levels["K004"] != finding.Info || len(c.Levels) != 3 {
		t.Errorf("levels are %v", c.Levels)
	}
	if !slices.Equal(c.Nodes, []int{8, 64}) || c.Go.GoVersion != "go1.20" || !c.Exclude.Has("/repo/a/testdata/b.yaml") || !c.Exclude.Has("/repo/dev") {
		t.Errorf("%+v", c)
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "rules:\nexclude: []\n"} {
		if _, err := parse([]byte(text), "/repo"); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	c, err = parse([]byte("exclude: dev\nnode-cpus: 8\n"), "/repo")
	if err != nil || !c.Exclude.Has("/repo/dev") || !slices.Equal(c.Nodes, []int{8}) {
		t.Errorf("one in place of a list: %+v, %v", c, err)
	}
}

// TestWrong: anything unknown is an error with its line.
func TestWrong(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"exclude: []\nrule: {}\n", `line 2: there is no key "rule": there are exclude, rules, node-cpus and go`},
		{"\n\nrules:\n  K001: off\n  K999: off\n", `line 5: there is no rule "K999"`},
		{"rules:\n  K001: loud\n", `line 2: rules: K001 is off, info, warning or critical, and not "loud"`},
		{"rules:\n  K001: [off]\n", "line 2: rules: K001 is off, info, warning or critical"},
		{"rules: {K001: off, k001: info}\n", "line 1: the rule K001 stands there twice"},
		{"rules: [K001]\n", "line 1: keys and values are wanted"},
		{"go: 1.25\ngo: 1.24\n", `line 2: the key "go" stands there twice`},
		{"go: two\n", `line 1: go: "two" is not a version of Go`},
		{"go: [1]\n", "line 1: go: a version is wanted, such as 1.25"},
		{"node-cpus: [8,\n 0]\n", `line 2: node-cpus: "0" is no number of CPUs`},
		{"exclude:\n- a\n- '['\n", `line 3: exclude: "[" is no pattern: syntax error in pattern`},
		{"exclude:\n- ../other\n", `line 2: exclude: "../other" leads out of the directory that it is for`},
		{"exclude: {a: b}\n", "line 1: a list is wanted"},
		{"exclude: ['']\n", `line 1: exclude: "" matches nothing`},
		{"- a\n", "line 1: keys and values are wanted"},
		{"a: b\n---\nc: d\n", "there is more than one document in it"},
		{"{[]: b}\n", "line 1: a key is a word"},
		{"a: &x b\n? *x\n: c\n", `line 1: there is no key "a"`},
		{"\ta: b\n", "found character that cannot start any token"},
	} {
		if _, err := parse([]byte(c.text), "/repo"); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		pattern    string
		yes, never []string
	}{
		{"testdata", []string{"/r/testdata", "/r/testdata/a.yaml", "/r/a/b/testdata/c/d.yaml"}, []string{"/r/testdata2", "/r/a.yaml", "/other/testdata", "/r"}},
		{"testdata/", []string{"/r/a/testdata"}, nil},
		{"*.gen.yaml", []string{"/r/a.gen.yaml", "/r/b/a.gen.yaml"}, []string{"/r/a.yaml"}},
		{"/dev", []string{"/r/dev", "/r/dev/a"}, []string{"/r/a/dev"}},
		{"a/dev", []string{"/r/a/dev", "/r/a/dev/x.yaml"}, []string{"/r/a", "/r/b/a/dev"}},
		{"a/**/c.yaml", []string{"/r/a/c.yaml", "/r/a/b/c.yaml", "/r/a/b/b/c.yaml"}, []string{"/r/a/b/d.yaml", "/r/c.yaml"}},
		{"**/charts/**", []string{"/r/charts", "/r/x/charts/y"}, []string{"/r/x"}},
		{"./a", []string{"/r/a"}, []string{"/r/b/a"}},
		{"a/*/c", []string{"/r/a/b/c"}, []string{"/r/a/b/b/c"}},
	} {
		p := Paths{base: filepath.FromSlash("/r")}
		if err := p.Add(c.pattern); err != nil {
			t.Fatal(err)
		}
		for _, name := range c.yes {
			if !p.Has(filepath.FromSlash(name)) {
				t.Errorf("%s does not match %s", c.pattern, name)
			}
		}
		for _, name := range c.never {
			if p.Has(filepath.FromSlash(name)) {
				t.Errorf("%s matches %s", c.pattern, name)
			}
		}
	}
}

// TestCommandLine: patterns of the command line hold for names as they are given there, wherever they lead.
func TestCommandLine(t *testing.T) {
	t.Chdir(t.TempDir())
	var p Paths
	for _, pattern := range []string{"testdata", "deploy/dev", "../other/x"} {
		if err := p.Add(pattern); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{
		"../else/testdata/a.yaml": true, "/src/testdata": true, "deploy/dev/a.yaml": true, "./deploy/dev": true, "../other/x/a.yaml": true,
		"../deploy/dev": false, ".": false, "a.yaml": false,
	} {
		if p.Has(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	// Many stars cost no more than their number times the path's.
	if err := p.Add(strings.Repeat("**/a*/", 200) + "b"); err != nil {
		t.Fatal(err)
	}
	if p.Has(strings.Repeat("aa/", 1000) + "c") {
		t.Error("it matches")
	}
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	repo := filepath.Join(root, "repo")
	deep := filepath.Join(repo, "a", "b")
	write := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("rules: {K010: off}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	find := func(dir, root, want string) {
		t.Helper()
		if got, err := Find(dir, filepath.ToSlash(root)); err != nil || got != want {
			t.Errorf("of %s in %q: %q, %v, want %q", dir, root, got, err, want)
		}
	}
	write(filepath.Join(root, Name))
	write(filepath.Join(deep, "c.yaml"))
	find(deep, repo, "") // not from above the repository
	find(deep, "", "")   // nor from anywhere above, without one
	find(root, "", filepath.Join(root, Name))
	write(filepath.Join(repo, Name))
	find(deep, repo, filepath.Join(repo, Name))
	write(filepath.Join(repo, "a", Name))
	find(deep, repo, filepath.Join(repo, "a", Name))
	c, err := Read(t.Context(), filepath.Join(repo, "a", Name))
	if err != nil || c.Path != filepath.Join(repo, "a", Name) {
		t.Errorf("%+v, %v", c, err)
	}
	if err := os.Symlink(filepath.Join(root, Name), filepath.Join(deep, Name)); err != nil {
		t.Skip("no links: ", err)
	}
	if got, err := Find(deep, filepath.ToSlash(repo)); err == nil || !strings.Contains(err.Error(), "is no plain file") {
		t.Errorf("a link is %q, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"rules: {K010: off}\n", "exclude: [a, '**']\n", "go: 1.25\nnode-cpus: 8\n", "a: &x [*x]\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse(data, "/r")
		if err == nil {
			c.Exclude.Has("/r/a/b")
		}
	})
}
