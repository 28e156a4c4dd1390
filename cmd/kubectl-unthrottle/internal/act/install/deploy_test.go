// Are the kustomize bases and the Helm charts of the repository's folder deploy the same objects?
package install_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const deployed = "../../../../../deploy/"

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

func kustomize(t *testing.T, base string) objects {
	t.Helper()
	found, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), deployed+base)
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

// load reads a chart, and what its values become with some given.
func load(t *testing.T, name string, values map[string]any) (*chart.Chart, common.Values, error) {
	t.Helper()
	loaded, err := loader.Load(deployed + "charts/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := loaded.Validate(); err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: "any", Namespace: "unthrottle", IsInstall: true}
	all, err := util.ToRenderValues(loaded, values, release, nil)
	return loaded, all, err
}

// helm is what a chart installs.
func helm(t *testing.T, name string, values map[string]any) objects {
	t.Helper()
	installed, _ := render(t, name, values)
	return installed
}

// render is what a chart installs, and what helm test makes.
func render(t *testing.T, name string, values map[string]any) (installed, tests objects) {
	t.Helper()
	loaded, all, err := load(t, name, values)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(loaded, all)
	if err != nil {
		t.Fatal(err)
	}
	installed, tests = objects{}, objects{}
	for name, text := range files {
		if strings.Contains(name, "/templates/tests/") {
			tests.add(t, text)
		} else if strings.HasSuffix(name, ".yaml") {
			installed.add(t, text)
		} else if !strings.Contains(text, "warns") && !strings.Contains(text, "change nothing") {
			t.Errorf("%s: %q", name, text)
		}
	}
	return installed, tests
}

// TestTests: what helm test makes is a hook, each object of it. It goes again, but for the pod, whose log helm test --logs prints, and it
// refers to what is installed.
func TestTests(t *testing.T) {
	for _, c := range []struct {
		chart  string
		values map[string]any
		args   string
	}{
		{"unthrottle-agent", nil, `["audit","--namespace=unthrottle","--agents=unthrottle"]`},
		{"unthrottle-webhook", nil, `["webhook","--check","--namespace=unthrottle-webhook-test"]`},
		{"unthrottle-agent", map[string]any{"audit": map[string]any{"enabled": false}}, ""},
	} {
		installed, tests := render(t, c.chart, c.values)
		if c.args == "" && len(tests) > 0 {
			t.Errorf("%s: without the role for audit: %q", c.chart, slices.Sorted(maps.Keys(tests)))
		}
		for key, text := range tests {
			var o struct {
				Kind     string
				Metadata struct {
					Annotations map[string]string
					Labels      map[string]string
				}
				RoleRef  struct{ Kind, Name string }
				Subjects []struct{ Kind, Name string }
				Spec     struct {
					ServiceAccountName string
					Containers         []struct {
						Image string
						Args  json.RawMessage
					}
				}
			}
			if err := json.Unmarshal([]byte(text), &o); err != nil {
				t.Fatal(err)
			}
			want := "before-hook-creation,hook-succeeded,hook-failed"
			if o.Kind == "Pod" {
				want = "before-hook-creation"
				var args bytes.Buffer
				if err := json.Compact(&args, o.Spec.Containers[0].Args); err != nil || args.String() != c.args {
					t.Errorf("%s: %s, want %s (%v)", c.chart, args.String(), c.args, err)
				}
				if image := o.Spec.Containers[0].Image; !strings.Contains(installed["DaemonSet/unthrottle-agent"]+installed["Deployment/unthrottle-webhook"], fmt.Sprintf("%q", image)) {
					t.Errorf("%s: the image %s", c.chart, image)
				}
				if tests["ServiceAccount/"+o.Spec.ServiceAccountName] == "" {
					t.Errorf("%s: the account %s", c.chart, o.Spec.ServiceAccountName)
				}
			}
			if a := o.Metadata.Annotations; a["helm.sh/hook"] != "test" || a["helm.sh/hook-delete-policy"] != want {
				t.Errorf("%s: %s: %q", c.chart, key, a)
			}
			if o.Metadata.Labels != nil { // a DaemonSet takes pods with its labels for its own
				t.Errorf("%s: %s has labels", c.chart, key)
			}
			if role := o.RoleRef.Kind + "/" + o.RoleRef.Name; role != "/" && installed[role]+tests[role] == "" {
				t.Errorf("%s: %s is bound to %s", c.chart, key, role)
			}
			for _, s := range o.Subjects {
				if tests[s.Kind+"/"+s.Name] == "" {
					t.Errorf("%s: %s is for %s", c.chart, key, s)
				}
			}
		}
	}
}

// operator are the values for a cluster with Prometheus' operator.
var operator = map[string]any{"podMonitor": map[string]any{"enabled": true}, "prometheusRule": map[string]any{"enabled": true}}

// TestSame compares the bases with what the charts make of their own values, object by object. A chart makes no namespace: helm
// does.
func TestSame(t *testing.T) {
	for _, c := range []struct {
		base, chart string
		values      map[string]any
	}{
		{"webhook", "unthrottle-webhook", nil},
		{"agent", "unthrottle-agent", nil},
		{"agent/operator", "unthrottle-agent", operator},
	} {
		base, rendered := kustomize(t, c.base), helm(t, c.chart, c.values)
		delete(base, "Namespace/unthrottle")
		if got, want := slices.Sorted(maps.Keys(rendered)), slices.Sorted(maps.Keys(base)); !slices.Equal(got, want) {
			t.Errorf("%s: the chart has %q, the base %q", c.base, got, want)
		}
		for key, want := range base {
			if got := rendered[key]; got != want {
				t.Errorf("%s: %s: %s", c.base, key, difference(got, want))
			}
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
	found := helm(t, "unthrottle-webhook", map[string]any{
		"replicas": 3, "mode": "fix", "warnOn": "critical", "go": "1.25", "policy": map[string]any{"enabled": false},
		"clientAuthority": map[string]any{"secret": "callers", "names": []any{"kube-apiserver"}},
		"image":           map[string]any{"repository": "example.com/webhook", "tag": "1.2"},
		"exempt":          map[string]any{"namespaces": []any{"kube-system", "shop"}, "containers": []any{"istio-proxy", "proxy"}},
		"tolerations":     []any{map[string]any{"operator": "Exists"}}, "nodeSelector": map[string]any{"kubernetes.io/arch": "amd64"},
		"priorityClassName": "system-cluster-critical", "imagePullSecrets": []any{map[string]any{"name": "pull"}},
		"resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}},
	})
	found.have(t, map[string][]string{
		"Deployment/unthrottle-webhook": {
			`"replicas": 3`, `"--mode=fix"`, `"--warn-on=critical"`, `"--go=1.25"`, `"--exempt-container=istio-proxy,proxy"`,
			`"--client-ca=/etc/unthrottle/callers/ca.crt"`, `"--client-name=kube-apiserver"`, `"secretName": "callers"`, `"mountPath": "/etc/unthrottle/callers"`,
			`"image": "example.com/webhook:1.2"`, `"operator": "Exists"`, `"kubernetes.io/arch": "amd64"`, `"system-cluster-critical"`,
			`"name": "pull"`, `"memory": "1Gi"`,
		},
		"MutatingWebhookConfiguration/unthrottle-webhook": {`"kube-system",` + "\n" + `       "shop",` + "\n" + `       "unthrottle"`},
	})
	if found["ValidatingAdmissionPolicy/unthrottle-webhook"] != "" {
		t.Error("there is a policy")
	}
}

// have holds objects to what must be in them.
func (o objects) have(t *testing.T, all map[string][]string) {
	t.Helper()
	for key, wants := range all {
		for _, want := range wants {
			if !strings.Contains(o[key], want) {
				t.Errorf("%s lacks %s:\n%.3000s", key, want, o[key])
			}
		}
	}
}

func TestAgentValues(t *testing.T) {
	found := helm(t, "unthrottle-agent", map[string]any{
		"image": map[string]any{"repository": "example.com/agent", "tag": "1.2"}, "imagePullSecrets": []any{map[string]any{"name": "pull"}},
		"args": []any{"--max-containers=900"}, "pods": "kubelet", "podAnnotations": map[string]any{"team": "go"},
		"podMonitor":     map[string]any{"enabled": true, "interval": "1m", "labels": map[string]any{"release": "prometheus"}},
		"prometheusRule": map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}},
		"rules":          map[string]any{"enabled": false}, "dashboard": map[string]any{"labels": map[string]any{"folder": "go"}},
		"audit": map[string]any{"enabled": false}, "events": map[string]any{"enabled": false}, "networkPolicy": map[string]any{"enabled": true, "from": []any{map[string]any{"ipBlock": map[string]any{"cidr": "192.0.2.10/32"}}}},
		"priorityClass": map[string]any{"name": "system-node-critical"}, "capabilities": []any{}, "seLinuxOptions": map[string]any{"type": "spc_t"},
		"tolerations": []any{}, "nodeSelector": map[string]any{"pool": "go"}, "maxUnavailable": 3,
	})
	found.have(t, map[string][]string{
		"DaemonSet/unthrottle-agent": {
			`"image": "example.com/agent:1.2"`, `"name": "pull"`, `"--max-containers=900"`, `"--pods=kubelet"`, `"--events=false"`, `"team": "go"`,
			`"priorityClassName": "system-node-critical"`, `"type": "spc_t"`, `"pool": "go"`, `"maxUnavailable": 3`,
		},
		"ClusterRole/unthrottle-agent":    {`"nodes/proxy"`},
		"NetworkPolicy/unthrottle-agent":  {`10250`, `192.0.2.10/32`},
		"PodMonitor/unthrottle-agent":     {`"release": "prometheus"`, `"interval": "1m"`, `"honorLabels": true`},
		"PrometheusRule/unthrottle-agent": {`"release": "prometheus"`, `"alert": "UnthrottleStale"`, "{{ $labels.namespace }}"},
		"ConfigMap/unthrottle-dashboard":  {`"folder": "go"`},
	})
	for _, not := range []string{"ConfigMap/unthrottle-rules", "ClusterRole/unthrottle-audit", "Role/unthrottle-audit", "ServiceAccount/unthrottle-reader", "PriorityClass/unthrottle-agent"} {
		if found[not] != "" {
			t.Errorf("there is %s", not)
		}
	}
	if strings.Contains(found["ClusterRole/unthrottle-agent"], "events") {
		t.Error("it may write events")
	}
	for _, not := range []string{"prometheus.io", "SYS_PTRACE", "tolerations"} {
		if strings.Contains(found["DaemonSet/unthrottle-agent"], not) {
			t.Errorf("the DaemonSet has %s", not)
		}
	}
}

// TestSchema: a value that no template reads is an error, and so is one that a template can't use.
func TestSchema(t *testing.T) {
	set := func(path string, to any) map[string]any {
		names := strings.Split(path, ".")
		for _, name := range slices.Backward(names) {
			to = map[string]any{name: to}
		}
		return to.(map[string]any)
	}
	for name, bad := range map[string]map[string]any{
		"unthrottle-agent": {
			"podMonitor.enabld": true, "podMonitor.enabled": "yes", "podMonitor.interval": "often", "pods": "none", "image.tags": "1", "tolerations": map[string]any{},
			"maxUnavailable": 0, "goMemLimit": "most", "networkPolicy.to": []any{}, "resource": map[string]any{}, "nodeSelector.a": 1,
		},
		"unthrottle-webhook": {
			"mode": "repair", "warnOn": "error", "go": "go1.25", "replicas": -1, "exempt.namespace": []any{"a"}, "exempt.containers": "a", "clientAuthority.name": "a", "polcy": true,
		},
	} {
		for path, value := range bad {
			if _, _, err := load(t, name, set(path, value)); err == nil {
				t.Errorf("%s takes %s=%v", name, path, value)
			}
		}
		if _, _, err := load(t, name, set("global.a", 1)); err != nil {
			t.Errorf("%s as a part of another chart: %v", name, err)
		}
	}
}

// TestSchemaWhole: the schema has each value of the chart's own file.
func TestSchemaWhole(t *testing.T) {
	for _, name := range []string{"unthrottle-agent", "unthrottle-webhook"} {
		loaded, _, err := load(t, name, nil)
		if err != nil {
			t.Fatal(err)
		}
		type part struct {
			Properties map[string]*part
			Additional json.RawMessage `json:"additionalProperties"`
		}
		var schema part
		if err := json.Unmarshal(loaded.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		var compare func(path string, values map[string]any, s *part)
		compare = func(path string, values map[string]any, s *part) {
			if string(s.Additional) != "false" {
				return
			}
			for key := range s.Properties {
				if _, ok := values[key]; !ok && path+key != "global" && path != "seLinuxOptions." {
					t.Errorf("%s: the schema has %s%s, the values have not", name, path, key)
				}
			}
			for key, v := range values {
				if s.Properties[key] == nil {
					t.Errorf("%s: the schema lacks %s%s", name, path, key)
				} else if below, ok := v.(map[string]any); ok {
					compare(path+key+".", below, s.Properties[key])
				}
			}
		}
		compare("", loaded.Values, &schema)
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
	if err := json.Unmarshal([]byte(kustomize(t, "webhook")["MutatingWebhookConfiguration/unthrottle-webhook"]), &c); err != nil {
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
