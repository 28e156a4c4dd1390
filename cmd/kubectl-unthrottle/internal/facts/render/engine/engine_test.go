package engine_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/render"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/render/engine"
)

// TestMain is the process that renders, where a test has started it.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_RENDERS") != "" {
		if err := engine.Serve(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func renderer(t *testing.T) *render.Renderer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &render.Renderer{Command: func() *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = []string{"TEST_RENDERS=1"}
		return cmd
	}}
	t.Cleanup(r.Close)
	return r
}

const chartYAML = "apiVersion: v2\nname: shop\nversion: 1.0.0\n"

// chart makes files of a chart: names and texts by turns.
func chart(pairs ...string) (files []render.File) {
	for i := 0; i < len(pairs); i += 2 {
		files = append(files, render.File{Name: pairs[i], Data: []byte(pairs[i+1])})
	}
	return files
}

func kindOf(err error) render.Kind {
	var f *render.Failure
	if errors.As(err, &f) {
		return f.Kind
	}
	return ""
}

func TestChart(t *testing.T) {
	r := renderer(t)
	files := chart("Chart.yaml", chartYAML,
		"values.yaml", "cpu: 1\n",
		".helmignore", "templates/old/\n",
		"templates/old/broken.yaml", "{{ fail \"it is ignored\" }}",
		"templates/_name.tpl", `{{ define "name" }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}`,
		"templates/NOTES.txt", "hello",
		"templates/b.yaml", "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: {{ include \"name\" . }}\ndata:\n  cpu: {{ .Values.cpu | quote }}\n  kube: {{ .Capabilities.KubeVersion }}\n"+
			"  looked: {{ lookup \"v1\" \"Pod\" \"a\" \"b\" | toJson | quote }}\n  env: {{ .Release.Namespace }}\n",
		"templates/hook.yaml", "kind: Job\napiVersion: batch/v1\nmetadata:\n  name: h\n  annotations: {helm.sh/hook: pre-install}\n",
		"charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
		"charts/sub/templates/a.yaml", "kind: Namespace\napiVersion: v1\nmetadata: {name: {{ .Values.global.name }}}\n",
	)
	got, err := r.Render(t.Context(), render.Request{
		Files: files, Kube: "1.30", Release: "r", Namespace: "n", Set: []string{"global.name=x"},
		Values: chart("v.yaml", "cpu: 2\n", "w.yaml", "cpu: 3\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []render.Document{
		{Source: "shop/charts/sub/templates/a.yaml", Text: "kind: Namespace\napiVersion: v1\nmetadata: {name: x}"},
		{Source: "shop/templates/b.yaml", Text: "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: r-shop\ndata:\n  cpu: \"3\"\n  kube: v1.30\n  looked: \"{}\"\n  env: n"},
		{Source: "shop/templates/hook.yaml", Text: "kind: Job\napiVersion: batch/v1\nmetadata:\n  name: h\n  annotations: {helm.sh/hook: pre-install}", Hook: true},
	}
	if len(got.Documents) != len(want) {
		t.Fatalf("%+v", got.Documents)
	}
	for i, d := range got.Documents {
		d.Text = strings.TrimSpace(d.Text)
		if d != want[i] {
			t.Errorf("document %d\ngot  %+v\nwant %+v", i, d, want[i])
		}
	}
}

// TestRefused has a chart for each kind of failure. The same process renders them all, and a good one at the end.
func TestRefused(t *testing.T) {
	r := renderer(t)
	for _, c := range []struct {
		name  string
		files []render.File
		kind  render.Kind
		says  string
	}{
		{"no Chart.yaml", chart("values.yaml", ""), render.Broken, "Chart.yaml"},
		{"library", chart("Chart.yaml", chartYAML+"type: library\n"), render.Nothing, "library"},
		{"missing", chart("Chart.yaml", chartYAML+"dependencies: [{name: redis, version: 1, repository: https://charts.example.com}]\n"), render.Missing, "redis"},
		{"required", chart("Chart.yaml", chartYAML, "templates/a.yaml", `{{ required "set the token" .Values.token }}`), render.Broken, "set the token"},
		{"syntax", chart("Chart.yaml", chartYAML, "templates/a.yaml", `{{ if }}`), render.Broken, "templates/a.yaml"},
		{"no YAML", chart("Chart.yaml", chartYAML, "templates/a.yaml", "a: b: c"), render.Broken, "templates/a.yaml"},
		{"schema", chart("Chart.yaml", chartYAML, "values.schema.json", `{"properties": {"cpu": {"type": "number"}}}`, "values.yaml", "cpu: many"), render.Broken, "cpu"},
		{"kube", chart("Chart.yaml", chartYAML+"kubeVersion: '<1.20.0'\n"), render.Broken, "<1.20.0"},
		{"no archive", nil, render.Broken, ""},
	} {
		q := render.Request{Files: c.files}
		if c.files == nil {
			q.Packed = []byte("not packed")
		}
		if _, err := r.Render(t.Context(), q); kindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q %v", c.name, kindOf(err), err)
		}
	}
	// A schema that names something elsewhere is not fetched, and nothing is held against it.
	for _, schema := range []string{`{"$ref": "http://127.0.0.1:1/x"}`, `{"a": [{"$ref": "file:///etc/passwd"}]}`, `{"$schema": "http://127.0.0.1:1/x"}`} {
		if _, err := r.Render(t.Context(), render.Request{Files: chart("Chart.yaml", chartYAML, "values.schema.json", schema)}); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

// TestHostile has a chart for each bound: each ends with an error, and the next one is rendered.
func TestHostile(t *testing.T) {
	r := renderer(t)
	loop := "{{ range $i := until 1000000 }}{{ range $j := until 1000000 }}{{ end }}{{ end }}"
	for _, c := range []struct {
		name, template string
		kind           render.Kind
	}{
		{"endless", loop, render.TooSlow},
		{"one large text", `{{ $x := repeat 2000000000 "x" }}`, render.TooLarge},
		{"doubling", `{{ $x := "x" }}{{ range until 60 }}{{ $x = print $x $x }}{{ end }}`, render.TooLarge},
		{"a long list", `{{ $x := until 2000000000 }}`, render.TooLarge},
		{"includes itself", `{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`, render.Broken},
		{"many documents", `{{ range until 100001 }}
---
a: b
{{ end }}`, render.TooLarge},
		{"long output", `{{ range until 70 }}{{ repeat 1000000 "# x\n" }}{{ end }}a: b`, render.TooLarge},
	} {
		q := render.Request{Files: chart("Chart.yaml", chartYAML, "templates/a.yaml", c.template), Memory: 512 << 20}
		if c.kind == render.TooSlow {
			q.Time = time.Second
		}
		if _, err := r.Render(t.Context(), q); kindOf(err) != c.kind {
			t.Errorf("%s: %q %v", c.name, kindOf(err), err)
		}
		if _, err := r.Render(t.Context(), render.Request{Files: chart("Chart.yaml", chartYAML)}); err != nil {
			t.Errorf("after %s: %v", c.name, err)
		}
	}
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := r.Render(ctx, render.Request{Files: chart("Chart.yaml", chartYAML, "templates/a.yaml", loop)}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// tree writes files into a directory: names and texts by turns.
func tree(t *testing.T, pairs ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(pairs); i += 2 {
		name := filepath.Join(dir, pairs[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(pairs[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: c\n    image: i\n"

func TestKustomization(t *testing.T) {
	r := renderer(t)
	dir := tree(t, "base/kustomization.yaml", "resources: [pod.yaml]\n", "base/pod.yaml", pod,
		"prod/kustomization.yaml", "namePrefix: prod-\nresources: [../base]\nconfigMapGenerator: [{name: g, literals: [a=b]}]\n",
		"json/kustomization.yaml", `{"resources": ["../base"]}`,
		"kept/kustomization.yaml", "resources: [../base]\nbuildMetadata: [originAnnotations]\n")
	got, err := r.Render(t.Context(), render.Request{Directory: filepath.Join(dir, "prod")})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Documents) != 2 || got.Documents[0].Source != "../base/pod.yaml" || got.Documents[0].Text != strings.Replace(pod, "name: a", "name: prod-a", 1) &&
		!strings.Contains(got.Documents[0].Text, "name: prod-a") || strings.Contains(got.Documents[0].Text, "origin") {
		t.Errorf("%+v", got.Documents)
	}
	if got.Documents[1].Source != "kustomization.yaml" {
		t.Errorf("%+v", got.Documents[1])
	}
	if got, err := r.Render(t.Context(), render.Request{Directory: filepath.Join(dir, "json")}); err != nil || len(got.Documents) != 1 {
		t.Errorf("JSON: %+v %v", got, err)
	}
	if got, err := r.Render(t.Context(), render.Request{Directory: filepath.Join(dir, "kept")}); err != nil || !strings.Contains(got.Documents[0].Text, "origin") {
		t.Errorf("its own buildMetadata: %+v %v", got, err)
	}
}

func TestKustomizationRefused(t *testing.T) {
	r := renderer(t)
	secret := filepath.Join(tree(t, "pod.yaml", pod), "pod.yaml")
	for _, c := range []struct {
		name string
		text string
		kind render.Kind
	}{
		{"a repository", "resources: ['github.com/example/example//deploy?ref=v1']", render.Remote},
		{"a web page", "resources: ['https://127.0.0.1:1/pod.yaml']", render.Remote},
		{"a chart", "helmCharts: [{name: x, repo: 'https://127.0.0.1:1', version: '1'}]", render.Remote},
		{"a file outside", "resources: [" + secret + "]", render.Broken},
		{"a link that leads out", "resources: [link.yaml]", render.Broken},
		{"a pipe", "resources: [pipe.yaml]", render.Broken},
		{"a file that is not there", "resources: [none.yaml]", render.Broken},
		{"a program", "generators: [exec.yaml]", render.Broken},
		{"itself", "resources: [../k]", render.Broken},
		{"nothing", "resources: []", render.Nothing},
	} {
		dir := tree(t, "k/kustomization.yaml", c.text, "k/exec.yaml",
			"apiVersion: example.com/v1\nkind: Made\nmetadata:\n  name: x\n  annotations:\n    config.kubernetes.io/function: |\n      exec: {path: ./run.sh}\n",
			"k/run.sh", "#!/bin/sh\ntouch ran\n")
		if err := os.Symlink(secret, filepath.Join(dir, "k", "link.yaml")); err != nil {
			t.Skip(err)
		}
		pipe(t, filepath.Join(dir, "k", "pipe.yaml"))
		if _, err := r.Render(t.Context(), render.Request{Directory: filepath.Join(dir, "k")}); kindOf(err) != c.kind {
			t.Errorf("%s: %q %v", c.name, kindOf(err), err)
		}
		if _, err := os.Stat(filepath.Join(dir, "k", "ran")); err == nil {
			t.Errorf("%s: a program ran", c.name)
		}
	}
}

// packed makes a chart in one file, of names and texts by turns.
func packed(t *testing.T, pairs ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for i := 0; i < len(pairs); i += 2 {
		err := w.WriteHeader(&tar.Header{Name: "shop/" + pairs[i], Mode: 0o644, Size: int64(len(pairs[i+1]))})
		if _, bad := w.Write([]byte(pairs[i+1])); errors.Join(err, bad) != nil {
			t.Fatal(err, bad)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPacked has packed charts; some unpack to far more than their size.
func TestPacked(t *testing.T) {
	r := renderer(t)
	zeros := strings.Repeat("\x00", 6<<20)
	many := []string{"Chart.yaml", chartYAML}
	for i := range 30 {
		many = append(many, fmt.Sprintf("files/%d", i), zeros[:4<<20])
	}
	var nested []string
	most := string(packed(t, many[:2+2*24]...))
	for i := range 8 { // each unpacks to less than 100 MiB
		nested = append(nested, fmt.Sprintf("charts/c%d-1.tgz", i), most)
	}
	for _, c := range []struct {
		name string
		data []byte
		kind render.Kind // "": it is rendered
		says string
	}{
		{"good", packed(t, "Chart.yaml", chartYAML, "templates/a.yaml", "kind: Namespace\n"), "", ""},
		{"a large file", packed(t, "Chart.yaml", chartYAML, "templates/a.yaml", zeros), render.Broken, "larger than the maximum"},
		{"many files", packed(t, many...), render.Broken, "larger than the maximum"},
		{"charts in charts", packed(t, append([]string{"Chart.yaml", chartYAML}, nested...)...), render.TooLarge, "memory"},
		{"a name that leads out", packed(t, "Chart.yaml", chartYAML, "../../etc/x", ""), render.Broken, ""},
	} {
		got, err := r.Render(t.Context(), render.Request{Packed: c.data, Memory: 256 << 20})
		if kindOf(err) != c.kind || c.kind == "" && (err != nil || len(got.Documents) != 1) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %d bytes: %q %v", c.name, len(c.data), kindOf(err), err)
		}
	}
}
