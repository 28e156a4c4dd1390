package manifest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/render"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

func TestAlign(t *testing.T) {
	template := `{{- range .Values.parts }}
kind: Pod
metadata:
  name: {{ .name }}
spec:
  containers:
  - name: one
    env:
    - name: GOMAXPROCS
      value: "{{ $.Values.procs }}"
  - name: two
    env:
    {{- toYaml .env | nindent 4 }}
    - name: GOMAXPROCS
      value: "4"
---
{{- end }}
`
	text := `# Source: a/templates/a.yaml
kind: Pod
metadata:
  name: x
spec:
  containers:
    - name: one
      env:
        - name: GOMAXPROCS
          value: "64"
    - name: two
      env:
        - name: FROM_VALUES
          valueFrom: {}
        - name: GOMAXPROCS
          value: "4"
---
kind: Pod
metadata:
  name: y
`
	want := []int{0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 14, 9, 15, 0, 2, 3, 4}
	lines := align([]byte(text), []byte(template))
	for i, l := range lines {
		if i == 12 || i == 13 || i == 14 { // from values: near enough
			continue
		}
		if l.Number != want[i] {
			t.Errorf("line %d %q: %d, want %d", i+1, strings.Split(text, "\n")[i], l.Number, want[i])
		}
	}
	m := &workload.Made{Lines: lines}
	if p := m.Place(workload.Position{File: "f", Line: 9, Column: 11}); p.Line != 9 || p.Column != 7 {
		t.Errorf("%+v", p) // two columns further in than the template has it
	}
	if p := m.Place(workload.Position{File: "f", Line: 99, Column: 11}); p.String() != "f" {
		t.Errorf("%+v", p)
	}
}

// TestAlignLong has texts that would take hours if each line were held against each.
func TestAlignLong(t *testing.T) {
	file := strings.Repeat("name: one\n", 200_000) + "---\n" + strings.Repeat("name: one\n", 200_000)
	lines := align([]byte(strings.Repeat("name: one\n", 500_000)), []byte(file))
	if len(lines) != 500_000 || lines[1].Number != 2 {
		t.Errorf("%d lines, %+v", len(lines), lines[1])
	}
	weave([]byte("a:\n"+strings.Repeat("  name: one\n", 200_000)), lines, []byte("# unthrottle:ignore K004\n- name: one\n"))
}

func TestTemplateOf(t *testing.T) {
	var files []render.File
	for _, name := range []string{"templates/a.yaml", "charts/sub/templates/b.yaml", "charts/dir/templates/c.yaml", "charts/redis-1.2.tgz", "charts/x/templates/d.yaml", "charts/y/templates/d.yaml"} {
		files = append(files, render.File{Name: name})
	}
	names := map[string]*render.File{}
	for i := range files {
		names[files[i].Name] = &files[i]
	}
	for source, want := range map[string]string{
		"shop/templates/a.yaml":                           "templates/a.yaml",
		"shop/charts/sub/templates/b.yaml":                "charts/sub/templates/b.yaml",
		"shop/charts/alias/templates/c.yaml":              "charts/dir/templates/c.yaml", // an alias, or another name
		"shop/charts/redis/templates/master.yaml":         "charts/redis-1.2.tgz",
		"shop/charts/redis/charts/common/templates/x.yml": "",
		"shop/charts/alias/templates/d.yaml":              "",
		"shop/templates/none.yaml":                        "",
	} {
		if got := templateOf(source, files, names); got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

// A made renderer answers what a test says.
type fake func(render.Request) (*render.Reply, error)

func (f fake) Render(_ context.Context, q render.Request) (*render.Reply, error) { return f(q) }

func written(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestChartFiles holds the bounds on what is read of a chart.
func TestChartFiles(t *testing.T) {
	large := strings.Repeat("x", mostChartFile+1)
	deep := strings.Repeat("d/", mostChartDepth+2) + "f"
	for _, c := range []struct {
		name  string
		files map[string]string
		says  string // "": it is rendered
	}{
		{"a large template", map[string]string{"templates/a.yaml": large}, "templates/a.yaml: too large"},
		{"a large picture", map[string]string{"picture.png": large}, ""},
		{"deep", map[string]string{deep: "x"}, "deep"},
	} {
		c.files["Chart.yaml"] = "name: a\nversion: 1\n"
		asked := false
		o := Options{Rendering: Rendering{By: fake(func(q render.Request) (*render.Reply, error) {
			asked = true
			return &render.Reply{}, nil
		})}}
		set, err := Read(t.Context(), o, written(t, c.files))
		if err != nil {
			t.Fatal(err)
		}
		problems := ""
		for _, p := range set.Problems {
			problems += string(p.Severity) + ": " + p.Text + "\n"
		}
		if asked != (c.says == "") || !strings.Contains(problems, c.says) {
			t.Errorf("%s: asked %t\n%s", c.name, asked, problems)
		}
	}
}

// TestMadeExcluded: what the options leave out is left out of what was rendered, too.
func TestMadeExcluded(t *testing.T) {
	dir := written(t, map[string]string{"Chart.yaml": "name: a\nversion: 1\n", "templates/a.yaml": "{{ x }}", "templates/b.yaml": "{{ y }}"})
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: c}]}\n"
	o := Options{
		Rendering: Rendering{By: fake(func(render.Request) (*render.Reply, error) {
			return &render.Reply{Documents: []render.Document{{Source: "a/templates/a.yaml", Text: pod}, {Source: "a/templates/b.yaml", Text: pod}}}, nil
		})},
		Exclude: func(name string) bool { return filepath.Base(name) == "b.yaml" },
	}
	set, err := Read(t.Context(), o, dir)
	if err != nil || len(set.Workloads) != 1 || filepath.Base(set.Workloads[0].At.File) != "a.yaml" || set.Excluded == 0 {
		t.Errorf("%v, %d workloads, %d excluded", err, len(set.Workloads), set.Excluded)
	}
}

// TestMadeTemplates checks that braces in what was rendered are not templates, and that all of a chart is near everything else in it.
func TestMadeTemplates(t *testing.T) {
	dir := written(t, map[string]string{"Chart.yaml": "name: a\nversion: 1\n", "templates/x/a.yaml": "{{ x }}", "templates/y/b.yaml": "{{ y }}"})
	o := Options{Rendering: Rendering{By: fake(func(render.Request) (*render.Reply, error) {
		return &render.Reply{Documents: []render.Document{
			{Source: "a/templates/x/a.yaml", Text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {GOMAXPROCS: \"3\", rule: \"{{ $labels.pod }}\"}"},
			{Source: "a/templates/y/b.yaml", Text: "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    image: c\n    envFrom: [{configMapRef: {name: m}}]\n"},
		}}, nil
	})}}
	set, err := Read(t.Context(), o, dir)
	if err != nil || len(set.Workloads) != 1 || len(set.Problems) > 0 {
		t.Fatalf("%v %+v %+v", err, set.Workloads, set.Problems)
	}
	w := set.Workloads[0]
	if v, ok := w.Pod.Containers[0].Var("GOMAXPROCS"); !ok || v.Value != "3" {
		t.Errorf("%+v", w.Pod.Containers[0])
	}
	if w.Made.String() != "the chart "+dir || w.Made.File != filepath.Join(dir, "templates/y/b.yaml") {
		t.Errorf("%+v", w.Made)
	}
}
