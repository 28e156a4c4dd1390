// Package deploy answers: are the kustomize base and the Helm chart the same objects? It has nothing but this test: the folders
// beside it are what is deployed.
package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// objects are manifests by kind and name, as JSON.
type objects map[string]string

// add takes the documents of a YAML text.
func (o objects) add(t *testing.T, text string) {
	t.Helper()
	for _, document := range strings.Split("\n"+text, "\n---") {
		var object map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if object == nil {
			continue
		}
		meta, _ := object["metadata"].(map[string]any)
		key := fmt.Sprint(object["kind"], "/", meta["name"])
		if o[key] != "" {
			t.Errorf("%s stands twice", key)
		}
		data, err := json.MarshalIndent(object, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		o[key] = string(data)
	}
}

func kustomize(t *testing.T) objects {
	t.Helper()
	found, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "webhook")
	if err != nil {
		t.Fatal(err)
	}
	text, err := found.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	all := objects{}
	all.add(t, string(text))
	return all
}

func helm(t *testing.T, values map[string]any) objects {
	t.Helper()
	loaded, err := loader.Load("charts/unthrottle-webhook")
	if err != nil {
		t.Fatal(err)
	}
	if err := loaded.Validate(); err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: "any", Namespace: "unthrottle", IsInstall: true}
	all, err := util.ToRenderValues(loaded, values, release, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(loaded, all)
	if err != nil {
		t.Fatal(err)
	}
	found := objects{}
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			found.add(t, text)
		} else if !strings.Contains(text, "warns") {
			t.Errorf("%s: %q", name, text)
		}
	}
	return found
}

// TestSame compares the base with what the chart makes of its own values, object by object. A chart makes no namespace: helm
// does.
func TestSame(t *testing.T) {
	base, chart := kustomize(t), helm(t, nil)
	delete(base, "Namespace/unthrottle")
	if got, want := slices.Sorted(maps.Keys(chart)), slices.Sorted(maps.Keys(base)); !slices.Equal(got, want) {
		t.Errorf("the chart has %q, the base %q", got, want)
	}
	for key, want := range base {
		if got := chart[key]; got != want {
			t.Errorf("%s: %s", key, difference(got, want))
		}
	}
}

// difference is the first line in which two texts differ.
func difference(chart, base string) string {
	got, want := strings.Split(chart, "\n"), strings.Split(base, "\n")
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("the chart has %q where the base has %q, after\n%s", got[i], want[i], strings.Join(want[max(0, i-5):i], "\n"))
		}
	}
	return fmt.Sprintf("the chart has %d lines, the base %d", len(got), len(want))
}

func TestValues(t *testing.T) {
	found := helm(t, map[string]any{
		"replicas": 3, "mode": "fix", "warnOn": "critical", "go": "1.25",
		"image":       map[string]any{"repository": "example.com/webhook", "tag": "1.2"},
		"exempt":      map[string]any{"namespaces": []any{"kube-system", "shop"}, "containers": []any{"istio-proxy", "proxy"}},
		"tolerations": []any{map[string]any{"operator": "Exists"}}, "nodeSelector": map[string]any{"kubernetes.io/arch": "amd64"},
		"priorityClassName": "system-cluster-critical", "imagePullSecrets": []any{map[string]any{"name": "pull"}},
		"resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}},
	})
	for key, wants := range map[string][]string{
		"Deployment/unthrottle-webhook": {
			`"replicas": 3`, `"--mode=fix"`, `"--warn-on=critical"`, `"--go=1.25"`, `"--exempt-container=istio-proxy,proxy"`,
			`"image": "example.com/webhook:1.2"`, `"operator": "Exists"`, `"kubernetes.io/arch": "amd64"`, `"system-cluster-critical"`,
			`"name": "pull"`, `"memory": "1Gi"`,
		},
		"MutatingWebhookConfiguration/unthrottle-webhook": {`"kube-system",` + "\n" + `       "shop",` + "\n" + `       "unthrottle"`},
	} {
		for _, want := range wants {
			if !strings.Contains(found[key], want) {
				t.Errorf("%s lacks %s:\n%s", key, want, found[key])
			}
		}
	}
}

// TestSafe holds what must never be lost: without the webhook everything goes on.
func TestSafe(t *testing.T) {
	var c struct {
		Webhooks []struct {
			Name           string
			FailurePolicy  string
			TimeoutSeconds int
			SideEffects    string
			Rules          []struct{ Resources, Operations []string }
		}
	}
	if err := json.Unmarshal([]byte(kustomize(t)["MutatingWebhookConfiguration/unthrottle-webhook"]), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Webhooks) != 2 {
		t.Fatalf("%d webhooks", len(c.Webhooks))
	}
	for _, w := range c.Webhooks {
		if w.FailurePolicy != "Ignore" || w.TimeoutSeconds != 2 || w.SideEffects != "None" || len(w.Rules) != 1 ||
			len(w.Rules[0].Resources) != 1 || !strings.HasPrefix(w.Rules[0].Resources[0], "pods") {
			t.Errorf("%+v", w)
		}
	}
}
