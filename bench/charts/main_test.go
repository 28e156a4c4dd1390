package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCircles: charts that need themselves, each other, or the folder that they are in are read, without what goes in a circle. Some
// of ethpandaops/ethereum-helm-charts do.
func TestCircles(t *testing.T) {
	tree := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	chart := func(name string, needs ...string) {
		text := "name: " + filepath.Base(name) + "\nversion: 1.0.0\n"
		for i, need := range needs {
			if i == 0 {
				text += "dependencies:\n"
			}
			dep, repository, _ := strings.Cut(need, " ")
			text += "- name: " + dep + "\n  version: 1.0.0\n  repository: " + repository + "\n"
		}
		write(name+"/Chart.yaml", text)
		write(name+"/templates/a.yaml", "a: b\n")
	}
	chart("self", "self https://example.com")
	chart("a", "b file://../b", "plain https://example.com", "gone https://example.com")
	chart("b", "c https://example.com")
	chart("c", "a file://../a", "plain file://../plain")
	chart("plain")
	chart("outer")
	chart("outer/inner", "outer file://..")
	for _, c := range []struct{ dir, needs, there, never string }{
		{"self", "", "self/templates", "self/charts"},
		{"a", "b plain", "a/charts/b/charts/c/charts/plain/templates a/charts/plain", "a/charts/b/charts/c/charts/a a/charts/gone"},
		{"outer/inner", "", "outer/inner/templates", "outer/inner/charts"},
	} {
		if err := (underWay{}).withoutMissing(filepath.Join(tree, c.dir)); err != nil {
			t.Errorf("%s: %v", c.dir, err)
			continue
		}
		text, err := os.ReadFile(filepath.Join(tree, c.dir, "Chart.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var needs []string
		_, list, _ := strings.Cut(string(text), "dependencies:")
		for line := range strings.Lines(list) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "- name: "); ok {
				needs = append(needs, name)
			}
		}
		if got := strings.Join(needs, " "); got != c.needs {
			t.Errorf("%s needs %q, want %q", c.dir, got, c.needs)
		}
		for _, name := range strings.Fields(c.there) {
			if _, err := os.Stat(filepath.Join(tree, name)); err != nil {
				t.Errorf("%s: %v", c.dir, err)
			}
		}
		for _, name := range strings.Fields(c.never) {
			if _, err := os.Stat(filepath.Join(tree, name)); err == nil {
				t.Errorf("%s: there is %s", c.dir, name)
			}
		}
	}
}
