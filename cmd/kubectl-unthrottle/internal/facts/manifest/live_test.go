package manifest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

const liveDeployment = `{
  "metadata": {"name": "api", "namespace": "shop", "uid": "u1", "labels": {"app": "api"},
    "annotations": {"unthrottle.dev/ignore": "K004 it is never resized"},
    "managedFields": [{"fieldsV1": {"f:spec": {"containers": [{"name": "no", "image": "no"}]}}}],
    "ownerReferences": [{"kind": "Other", "name": "o", "uid": "u8"}, {"kind": "Revision", "name": "r", "uid": "u9", "controller": true}]},
  "spec": {"replicas": 0, "template": {"metadata": {"labels": {"app": "api"}}, "spec": {
    "initContainers": [{"name": "proxy", "image": "p:1", "restartPolicy": "Always"}],
    "containers": [
      {"name": "app", "image": "a:1", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}},
       "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
       "env": [{"name": "HALF", "value": "4"}, {"name": "GOMAXPROCS", "value": "$(HALF)"}, {"name": "GOGC", "valueFrom": {"configMapKeyRef": {"name": "tuning", "key": "gc"}}}],
       "envFrom": [{"prefix": "APP_", "configMapRef": {"name": "app"}}]},
      {"name": "web", "image": "{{ w }}", "env": [{"name": "GOMAXPROCS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}
    ]}}},
  "status": {"replicas": 0}
}`

const (
	liveConfigMap  = `{"metadata": {"name": "tuning", "namespace": "shop"}, "data": {"gc": "50"}}`
	liveLimitRange = `{"metadata": {"name": "usual", "namespace": "shop"}, "spec": {"limits": [{"type": "Container", "default": {"cpu": "2"}}]}}`
)

func typed(version, kind, object string) string {
	return fmt.Sprintf(`{"apiVersion": %q, "kind": %q, %s`, version, kind, strings.TrimPrefix(object, "{"))
}

// TestLive: the facts of a live object are those of the same object in a file, except for their places.
func TestLive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "all.json")
	text := typed("apps/v1", "Deployment", liveDeployment) + "\n" + typed("v1", "ConfigMap", liveConfigMap) + "\n" + typed("v1", "LimitRange", liveLimitRange)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	set, err := Read(context.Background(), Options{}, file)
	if err != nil || len(set.Workloads) != 1 {
		t.Fatalf("%v, %+v", err, set)
	}
	l := NewLive()
	if _, err := l.Add([]byte(liveLimitRange), "LimitRange", "v1"); err != nil {
		t.Fatal(err)
	}
	list := `{"kind": "DeploymentList", "items": [` + liveDeployment + `], "metadata": {"continue": "more", "remainingItemCount": 3}}`
	objects, next, err := l.List([]byte(list), "Deployment", "apps/v1")
	if err != nil || next != "more" || len(objects) != 1 || len(objects[0].Workloads) != 1 {
		t.Fatalf("%v, %q, %+v", err, next, objects)
	}
	o := objects[0]
	if o.String() != "Deployment/api in shop" || o.UID != "u1" || o.Owner != (Owner{"Revision", "r", "u9"}) || !o.Idle {
		t.Errorf("%+v", o)
	}
	if want := l.Wanted(); len(want) != 1 || want[0] != (Name{"shop", "tuning"}) {
		t.Errorf("wanted are %v", want)
	}
	if _, err := l.Add([]byte(liveConfigMap), "ConfigMap", "v1"); err != nil {
		t.Fatal(err)
	}
	if want := l.Wanted(); len(want) != 0 {
		t.Errorf("still wanted are %v", want)
	}
	if err := l.Resolve(t.Context()); err != nil {
		t.Fatal(err)
	}
	live, fromFile := o.Workloads[0], set.Workloads[0]
	if at := live.Pod.Containers[1].Env[1].At; at.String() != "spec.template.spec.containers[0].env[1]" || at.Line != 0 {
		t.Errorf("GOMAXPROCS stands at %+v", at)
	}
	if len(live.Ignore) != 1 || live.Ignore[0].Reason != "it is never resized" {
		t.Errorf("%+v", live.Ignore)
	}
	for _, w := range []*workload.Workload{live, fromFile} {
		nowhere(reflect.ValueOf(w))
		w.Ignore = nil // lines
	}
	// An API server's objects are final: there a template is a text, while in a file what will be there is unknown.
	if !reflect.DeepEqual(live, fromFile) {
		t.Errorf("live\n%+v\nfrom a file\n%+v", live, fromFile)
	}
	if len(l.Problems()) > 0 {
		t.Errorf("%+v", l.Problems())
	}
}

// nowhere leaves of positions only their paths.
func nowhere(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			nowhere(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			nowhere(v.Index(i))
		}
	case reflect.Struct:
		if p, ok := v.Addr().Interface().(*workload.Position); ok {
			*p = workload.Position{Path: p.Path}
			return
		}
		for i := range v.NumField() {
			nowhere(v.Field(i))
		}
	}
}

// TestLiveProblems: what is wrong with an object is reported with its name.
func TestLiveProblems(t *testing.T) {
	l := NewLive()
	bad := `{"metadata": {"name": "odd"}, "spec": {"containers": [{"name": "a", "image": "a", "resources": {"limits": {"cpu": "x"}}}]}}`
	if _, err := l.Add([]byte(bad), "Pod", "v1"); err != nil {
		t.Fatal(err)
	}
	if p := l.Problems(); len(p) != 1 || p[0].At.String() != "Pod/odd: spec.containers[0].resources.limits.cpu" {
		t.Errorf("%+v", p)
	}
	for _, text := range []string{"", "[]", "{", `{"items":`, `{"items": [1`, `{"items": [{}] "a"`, `{"metadata": 1}`, `{"items": [{"a"]}`} {
		if objects, _, err := NewLive().List([]byte(text), "Pod", "v1"); err == nil {
			t.Errorf("%s: %+v", text, objects)
		}
	}
}

// FuzzLive: any answer of a server is read or refused.
func FuzzLive(f *testing.F) {
	f.Add([]byte(`{"items": [` + liveDeployment + `], "metadata": {"continue": "more"}}`))
	f.Add([]byte(`{"items": [` + liveConfigMap + `, ` + liveLimitRange + `]}`))
	f.Add([]byte(`{"items": null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range []string{"Deployment", "Pod", "ConfigMap", "VerticalPodAutoscaler", "Rollout"} {
			l := NewLive()
			objects, _, _ := l.List(data, kind, "v1")
			for _, o := range objects {
				for _, w := range o.Workloads {
					if p := w.At; p.Line != 0 || p.File != "" {
						t.Fatalf("%s stands at %+v", o, p)
					}
				}
			}
			l.Wanted()
			if err := l.Resolve(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
