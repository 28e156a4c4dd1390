package advice

import (
	"fmt"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// krr is as KRR 1.2x writes it, shortened: values are objects there, and bare numbers in older ones.
const krr = `{
  "scans": [
    {"object": {"cluster": null, "name": "api", "container": "app", "pods": [{"name": "api-1", "deleted": false}], "hpa": null,
        "namespace": "web", "kind": "Deployment", "allocations": {"requests": {"cpu": 1.0}, "limits": {"cpu": 2.0}, "info": {}}},
     "recommended": {"requests": {"cpu": {"value": 0.35, "severity": "WARNING"}, "memory": {"value": 104857600, "severity": "OK"}},
        "limits": {"cpu": {"value": 2.5, "severity": "OK"}, "memory": {"value": "?", "severity": "UNKNOWN"}}, "info": {"cpu": null}},
     "severity": "WARNING"},
    {"object": {"cluster": "prod", "name": "api", "container": "app", "namespace": "shop", "kind": "Deployment"},
     "recommended": {"requests": {"cpu": 0.1}, "limits": {"cpu": null}}},
    {"object": {"name": "api", "container": "new", "namespace": "web", "kind": "Deployment"},
     "recommended": {"requests": {"cpu": {"value": "?"}}, "limits": {"cpu": {"value": "?"}}}},
    {"object": {"name": "api", "container": "gone", "namespace": "web", "kind": "Deployment"},
     "recommended": {"requests": {}, "limits": {"cpu": {"value": 0}}}}
  ],
  "score": 50
}`

func deployment(namespace string) *workload.Workload {
	return &workload.Workload{
		Kind: "Deployment", Name: "api", Namespace: namespace,
		Pod: workload.Pod{Containers: []workload.Container{{Name: "app"}, {Name: "new"}}},
	}
}

func told(w *workload.Workload) (lines []string) {
	for _, c := range w.Pod.Containers {
		for _, a := range c.Advice {
			lines = append(lines, fmt.Sprintf("%s: %s: limit %s request %s", c.Name, a.By, a.Limit.Text, a.Request.Text))
		}
	}
	return lines
}

func TestTo(t *testing.T) {
	for _, c := range []struct {
		namespace, want, unmet string
	}{
		{"web", "app: KRR: limit 2.5 request 0.35", "it is about containers that were not read: 2 of 3 recommendations"},
		{"shop", "app: KRR of cluster prod: limit  request 0.1", "it is about containers that were not read: 2 of 3 recommendations"},
		{"other", "", "it is about containers that were not read: 3 of 3 recommendations"},
		{
			"", "app: KRR in namespace web: limit 2.5 request 0.35\napp: KRR in namespace shop of cluster prod: limit  request 0.1",
			"it is about containers that were not read: 1 of 3 recommendations",
		},
	} {
		s, err := parse([]byte(krr))
		if err != nil {
			t.Fatal(err)
		}
		w := deployment(c.namespace)
		s.To(w)
		if got := strings.Join(told(w), "\n"); got != c.want || s.Unmet() != c.unmet {
			t.Errorf("namespace %q: %q, %q", c.namespace, got, s.Unmet())
		}
	}
}

func TestWrong(t *testing.T) {
	one := func(cpu string) string {
		return `{"scans": [{"object": {"kind": "Deployment", "name": "a", "container": "b"}, "recommended": {"limits": {"cpu": ` + cpu + `}}}]}`
	}
	for text, want := range map[string]string{
		``:                                  "not a JSON document of KRR",
		`[]`:                                "not a JSON document of KRR",
		`{"items": []}`:                     "there are no scans in it",
		one(`-1`):                           "scans[0], Deployment/a, container b: cpu: \"-1\" is no number of CPUs",
		one(`1e7`):                          "is no number of CPUs",
		one(`"500m"`):                       "is no number of CPUs",
		one(`[1]`):                          "is no number of CPUs",
		one(`{"value":`):                    "not a JSON document of KRR",
		strings.Repeat(`{"scans":`, 20_000): "not a JSON document of KRR",
	} {
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
	s, err := parse([]byte(one(`"?"`)))
	if err != nil || s.Unmet() != "it recommends nothing about CPU limits: every value is unknown" {
		t.Errorf("nothing known: %v, %q", err, s.Unmet())
	}
}

func TestManyForOne(t *testing.T) {
	var list []string
	for i := range 50 {
		list = append(list, fmt.Sprintf(`{"object": {"cluster": "c%d", "kind": "Deployment", "name": "api", "container": "app", "namespace": "web"}, "recommended": {"limits": {"cpu": %d}}}`, i, i+1))
	}
	s, err := parse([]byte(`{"scans": [` + strings.Join(list, ",") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	w := deployment("web")
	s.To(w)
	if n := len(w.Pod.Containers[0].Advice); n != mostEach || s.Unmet() != "" {
		t.Errorf("%d recommendations, %q", n, s.Unmet())
	}
}
