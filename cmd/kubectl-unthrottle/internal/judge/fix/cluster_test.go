package fix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// An API server takes what fix makes, in all its forms, and they all come to the same.
func TestAPIServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts an API server")
	}
	c := clustertest.Start(t, clustertest.Options{})
	define(t, c)
	in := objects(t, c)
	changed := 0
	t.Run("live", func(t *testing.T) { linesDo(t, c) })
	for _, version := range []string{"", "1.24", "1.26"} {
		t.Run("Go "+version, func(t *testing.T) { changed += forms(t, c, in, known(t, version)) })
	}
	t.Logf("%d manifests, %d changed", len(in), changed)
	if len(in) < 30 || changed < 50 {
		t.Errorf("%d manifests, %d changed: too few", len(in), changed)
	}
}

// define makes the kinds known that the manifests have and Kubernetes does not.
func define(t *testing.T, c *clustertest.Cluster) {
	for group, kind := range map[string]string{"argoproj.io": "Rollout", "example.com": "Fleet"} {
		plural := strings.ToLower(kind) + "s"
		text := fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s}
spec:
  group: %[2]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[1]s, singular: %[4]s, listKind: %[3]sList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
`, plural, group, kind, strings.ToLower(kind))
		c.Must(t, text, "create", "-f", "-")
		c.Must(t, "", "wait", "--for=condition=Established", "--timeout=30s", "crd/"+plural+"."+group)
	}
}

// objects are manifests of one object each that the API server takes unchanged.
func objects(t *testing.T, c *clustertest.Cluster) map[string]string {
	a, err := txtar.ParseFile("testdata/cluster.txtar")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range a.Files {
		all[f.Name] = string(f.Data)
	}
	fixed := len(all)
	for seed := range uint64(40) {
		w := &writer{Rand: rand.New(rand.NewPCG(seed, 2)), valid: true}
		w.document()
		text := w.b.String()
		text = strings.Replace(text, "{name: api}", fmt.Sprintf("{name: random-%d}", seed), 1)
		if seed%7 == 0 {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}
		all[fmt.Sprintf("random-%d.yaml", seed)] = text
	}
	_, stderr, err := c.Kubectl("create", "--dry-run=server", "-f", folder(t, all))
	taken := map[string]string{}
	for name, text := range all {
		if object := strings.TrimSuffix(strings.TrimSuffix(name, ".yaml"), ".json"); !strings.Contains(stderr, `"`+object+`"`) {
			taken[name] = text
		} else if !strings.HasPrefix(name, "random") {
			t.Errorf("%s is refused as it is: %s", name, stderr)
		}
	}
	t.Logf("%d of %d manifests, %d of them written by hand, are taken as they are: %v", len(taken), len(all), fixed, err)
	return taken
}

// folder writes files into a directory of their own.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// forms has each form taken by the API server, and compares what it makes of them.
func forms(t *testing.T, c *clustertest.Cluster, in map[string]string, k lint.Known) int {
	dir := folder(t, in)
	names := slices.Sorted(maps.Keys(in))
	var files []string
	for _, name := range names {
		files = append(files, filepath.Join(dir, name))
	}
	set, err := manifest.Read(context.Background(), manifest.Options{}, files...)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Make(context.Background(), set, k)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range p.Decisions {
		if d.Remedy.Why == errBack.Error() {
			t.Errorf("%s: %s", d.Finding.At, d.Remedy.Why)
		}
	}
	whole := maps.Clone(in)
	for _, f := range p.Files {
		whole[filepath.Base(f.Name)] = string(f.New)
	}
	for _, custom := range []string{"rollout.yaml", "fleet.yaml"} {
		if whole[custom] == in[custom] {
			t.Errorf("%s is as it was", custom)
		}
	}
	want := specs(t, c, folder(t, whole))
	if len(want) != len(in) {
		t.Errorf("%d objects of %d", len(want), len(in))
	}

	strategic, left := p.Strategic()
	for _, l := range left {
		t.Logf("no strategic merge patch for %s: %s", l.Workload, l.Why)
	}
	for kind, patches := range map[string][]Patch{"strategic": strategic, "json": p.JSON6902()} {
		patched := map[string]string{}
		for _, patch := range patches {
			file := filepath.Join(t.TempDir(), "patch.yaml")
			if err := os.WriteFile(file, []byte(patch.YAML), 0o666); err != nil {
				t.Fatal(err)
			}
			out, _, err := c.Kubectl("patch", "--local", "-f", patch.Workload.At.File, "--type", kind, "--patch-file", file, "-o", "yaml")
			if err != nil {
				t.Errorf("%v\n%s", err, patch.YAML)
				continue
			}
			patched[filepath.Base(patch.Workload.At.File)] = out
		}
		compare(t, kind, specs(t, c, folder(t, patched)), want)
	}

	text, left := p.Kustomize()
	if len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	component := filepath.Join(dir, "component")
	if err := os.Mkdir(component, 0o777); err != nil {
		t.Fatal(err)
	}
	list := "resources:\n"
	for _, name := range names {
		list += "- " + name + "\n"
	}
	for file, text := range map[string]string{component: text, dir: list + "components: [component]\n"} {
		if err := os.WriteFile(filepath.Join(file, "kustomization.yaml"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	out, _, err := c.Kubectl("kustomize", dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	rendered := specs(t, c, folder(t, map[string]string{"all.yaml": out}))
	compare(t, "kustomize", rendered, want)
	if len(rendered) != len(want) {
		t.Errorf("kustomize: %d objects of %d", len(rendered), len(want))
	}
	return len(p.Files)
}

// specs are what the API server makes of the objects in a directory, by kind and name.
func specs(t *testing.T, c *clustertest.Cluster, dir string) map[string]any {
	t.Helper()
	out, _, err := c.Kubectl("create", "--dry-run=server", "-o", "json", "-f", dir)
	if err != nil {
		t.Errorf("%v", err)
	}
	all := map[string]any{}
	for values := json.NewDecoder(strings.NewReader(out)); ; {
		var o map[string]any
		if err := values.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		metadata, _ := o["metadata"].(map[string]any)
		spec := o["spec"]
		clean(spec)
		all[fmt.Sprint(o["kind"], "/", metadata["name"])] = spec
	}
}

// clean takes out what the API server makes up for each object, and an env that is empty. A strategic
// merge patch puts a new variable in front; nothing refers to it.
func clean(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "controller-uid")
		delete(v, "batch.kubernetes.io/controller-uid")
		env, ok := v["env"].([]any)
		if ok && len(env) == 0 {
			delete(v, "env")
		}
		name := func(v any) string { return fmt.Sprint(v.(map[string]any)["name"]) }
		slices.SortFunc(env, func(a, b any) int { return strings.Compare(name(a), name(b)) })
		for _, item := range v {
			clean(item)
		}
	case []any:
		for _, item := range v {
			clean(item)
		}
	}
}

func compare(t *testing.T, kind string, got, want map[string]any) {
	t.Helper()
	for name, spec := range got {
		if !reflect.DeepEqual(spec, want[name]) {
			a, _ := json.MarshalIndent(spec, "", " ")
			b, _ := json.MarshalIndent(want[name], "", " ")
			t.Errorf("%s: %s is\n%s\nand as a file\n%s", kind, name, a, b)
		}
	}
}
