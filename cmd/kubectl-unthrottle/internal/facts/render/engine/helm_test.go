package engine_test

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/render"
)

var (
	helm   = flag.String("helm", "", "helm's program, to compare with")
	clones = flag.String("charts", "", "a directory with charts to compare for")
)

// TestAsHelm checks that charts are rendered as helm template renders them, byte for byte, except for blank lines between documents: Helm
// 3 prints fewer than Helm 4. What differs between two runs of helm, such as a password that a template makes up, is not compared.
func TestAsHelm(t *testing.T) {
	if *helm == "" || *clones == "" {
		t.Skip("go test -run TestAsHelm -helm PROGRAM -charts DIRECTORY compares")
	}
	r := renderer(t)
	same, random, refused, other := 0, 0, 0, 0
	err := filepath.WalkDir(*clones, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, "Chart.yaml")); err != nil {
			return nil
		}
		reply, err := r.Render(t.Context(), render.Request{Files: filesOf(t, dir), Kube: "1.36.0"})
		want, bad := exec.Command(*helm, "template", dir, "--kube-version", "1.36.0").Output()
		switch {
		case err != nil && bad != nil:
			refused++
		case err != nil || bad != nil:
			t.Errorf("%s: %v, and helm: %v", dir, err, bad)
			other++
		default:
			next, _ := exec.Command(*helm, "template", dir, "--kube-version", "1.36.0").Output()
			got, want, again := dense(asHelm(reply)), dense(string(want)), dense(string(next))
			switch {
			case got == want:
				same++
			case equalBut(got, want, again):
				random++
			default:
				t.Errorf("%s: %s", dir, difference(got, want))
				other++
			}
		}
		return fs.SkipDir
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d charts are the same, %d but for what helm makes up each time, both refuse %d; %d differ", same, random, refused, other)
}

func filesOf(t *testing.T, dir string) (files []render.File) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name) // through links, as helm reads them
		if err != nil {
			return nil
		}
		rel, _ := filepath.Rel(dir, name)
		files = append(files, render.File{Name: filepath.ToSlash(rel), Data: data})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// asHelm is what helm template prints: manifests, and hooks after them.
func asHelm(r *render.Reply) string {
	var manifests, hooks bytes.Buffer
	for _, d := range r.Documents {
		to := &manifests
		if d.Hook {
			to = &hooks
		}
		to.WriteString("---\n# Source: " + d.Source + "\n" + d.Text + "\n")
	}
	return strings.TrimSpace(manifests.String()) + "\n" + hooks.String()
}

var between = regexp.MustCompile(`\s*\n---\n`)

func dense(text string) string {
	return strings.TrimSpace(between.ReplaceAllString(strings.ReplaceAll(text, "\r\n", "\n"), "\n---\n"))
}

// equalBut compares without the lines in which two runs of helm differ.
func equalBut(got, one, two string) bool {
	g, a, b := strings.Split(got, "\n"), strings.Split(one, "\n"), strings.Split(two, "\n")
	if len(g) != len(a) || len(a) != len(b) {
		return false
	}
	for i := range g {
		if g[i] != a[i] && a[i] == b[i] {
			return false
		}
	}
	return true
}

func difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "got " + g[i] + "\nwant " + w[i]
		}
	}
	return "one has more lines"
}
