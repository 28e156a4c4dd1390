package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

const fromNode = `env: [{name: GOMAXPROCS, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: "0"}}}]`

func TestMutate(t *testing.T) {
	for _, c := range []struct {
		name      string
		o         Options
		container string
		metadata  string
		patch     string
		changed   string   // what the pod then says, where it has no annotation
		warnings  []string // a part of each
	}{
		{name: "nothing to say", container: literal("2", "2")},
		{name: "no environment", container: "resources: {limits: {cpu: 1}}"},
		{
			name: "a divisor of 1m, told", container: limited("250m", "1m"),
			warnings: []string{`unthrottle: container "app": GOMAXPROCS is 250 for 0.25 CPUs (K001); fix: `},
		},
		{
			name: "the same, repaired", o: Options{Mode: Fix}, container: limited("250m", "1m"),
			changed: "app: K001", patch: `[{"op":"add","path":"/spec/containers/0/env/1/valueFrom/resourceFieldRef/divisor","value":"1"}]`,
			warnings: []string{`unthrottle: container "app": the divisor of GOMAXPROCS is now "1": `},
		},
		{
			name: "of a program that follows its limit", o: Options{Mode: Fix, Go: &procs.Program{GoVersion: "go1.25"}}, container: limited("250m", "1m"),
			changed: "app: K001", patch: `[{"op":"remove","path":"/spec/containers/0/env/1"}]`,
			warnings: []string{"GOMAXPROCS is taken out: "},
		},
		{
			name: "of one that does not, and has none", o: Options{Mode: Fix, Go: &procs.Program{GoVersion: "go1.24"}},
			container: "resources: {limits: {cpu: 500m}}\nenv: [{name: GOMEMLIMIT, value: 1GiB}]",
			changed:   "app: K013", patch: `[{"op":"add","path":"/spec/containers/0/env/-","value":{"name":"GOMAXPROCS","value":"2"}}]`,
			warnings: []string{`GOMAXPROCS is now "2": `},
		},
		{
			name: "from a limit that is not there", o: Options{Mode: Fix}, container: fromNode,
			changed: "app: K003", patch: `[{"op":"remove","path":"/spec/containers/0/env/0"}]`, warnings: []string{"GOMAXPROCS is taken out: there is no limit"},
		},
		{
			name: "no number", o: Options{Mode: Fix}, container: literal("2500m", "2.5"),
			changed: "app: K006", patch: `[{"op":"replace","path":"/spec/containers/0/env/0","value":{"name":"GOMAXPROCS","valueFrom":{"resourceFieldRef":{"divisor":"1","resource":"limits.cpu"}}}}]`,
			warnings: []string{"GOMAXPROCS is now limits.cpu: "},
		},
		{
			name: "in a pod with annotations", o: Options{Mode: Fix}, container: limited("250m", "1m"), metadata: "annotations: {a: b}",
			patch: `[{"op":"add","path":"/spec/containers/0/env/1/valueFrom/resourceFieldRef/divisor","value":"1"},` +
				`{"op":"add","path":"/metadata/annotations/unthrottle.dev~1changed","value":"app: K001"}]`,
			warnings: []string{"the divisor of GOMAXPROCS"},
		},
		{
			name: "in one that a policy has changed", o: Options{Mode: Fix}, container: limited("250m", "1m"), metadata: "annotations: {unthrottle.dev/changed: 'a: K006'}",
			patch: `[{"op":"add","path":"/spec/containers/0/env/1/valueFrom/resourceFieldRef/divisor","value":"1"},` +
				`{"op":"add","path":"/metadata/annotations/unthrottle.dev~1changed","value":"a: K006, app: K001"}]`,
			warnings: []string{"the divisor of GOMAXPROCS"},
		},
		{name: "pinned is told to those who ask", o: Options{Mode: Fix}, container: literal("2", "2")},
		{name: "as info", o: Options{Mode: Fix, WarnOn: finding.Info}, container: literal("2", "2"), warnings: []string{"(K004); fix: take GOMAXPROCS out if"}},
		{name: "not by default", o: Options{WarnOn: finding.Critical}, container: fromNode},
		{name: "a label", container: limited("250m", "1m"), metadata: "labels: {unthrottle.dev/ignore: all}"},
		{name: "a label with a rule", container: limited("250m", "1m"), metadata: "labels: {unthrottle.dev/ignore: k001}", o: Options{WarnOn: finding.Warning}},
		{name: "with another rule", container: fromNode, metadata: "labels: {unthrottle.dev/ignore: K001.K007}", warnings: []string{"K003"}},
		{name: "an annotation", container: fromNode, metadata: "annotations: {unthrottle.dev/ignore: 'K003, K004 the node is ours'}", o: Options{Mode: Fix, WarnOn: finding.Warning}},
		{name: "a container", container: fromNode, o: Options{ExemptContainers: []string{"app"}}},
		{name: "a namespace", container: fromNode, o: Options{ExemptNamespaces: []string{"other", "shop"}}},
		{name: "another one", container: fromNode, o: Options{ExemptNamespaces: []string{"other"}}, warnings: []string{"K003"}},
		{
			name: "the command refers to it", o: Options{Mode: Fix}, container: fromNode + "\nargs: [--procs=$(GOMAXPROCS)]",
			warnings: []string{"(K003); fix: "},
		},
		{
			name: "another variable refers to it", o: Options{Mode: Fix}, warnings: []string{"(K003); fix: "},
			container: `env: [{name: GOMAXPROCS, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}, {name: MORE, value: a $(GOMAXPROCS)}]`,
		},
		{
			name: "another variable refers to a number", o: Options{Mode: Fix}, warnings: []string{"(K005); fix: "},
			container: "resources: {limits: {cpu: 2}}\nenv: [{name: GOMAXPROCS, value: '64'}, {name: MORE, value: a $(GOMAXPROCS)}]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.o.WarnOn == finding.Info && !strings.Contains(c.name, "info") {
				c.o.WarnOn = finding.Warning
			}
			h, log := logged(c.o)
			body := reviewOf(t, nil, podWith(t, c.container, c.metadata), nil)
			r := ask(t, h, MutatePath, body)
			want := c.patch
			if c.changed != "" {
				want = strings.TrimSuffix(want, "]") + `,{"op":"add","path":"/metadata/annotations","value":{"unthrottle.dev/changed":"` + c.changed + `"}}]`
			}
			if string(r.Patch) != want {
				t.Errorf("the patch is %s\nwant %s", r.Patch, want)
			}
			same(t, r.Warnings, c.warnings)
			if r.UID != "0815" || !strings.Contains(log.String(), "pod=Pod/api") && c.name != "a namespace" && !strings.Contains(log.String(), "exempt") {
				t.Errorf("uid %q, log %s", r.UID, log)
			}
		})
	}
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.EqualFunc(got, want, strings.Contains) {
		t.Errorf("warnings %q, want %q", got, want)
	}
}

// TestMark: a pod that can be made stays one, no matter what is written into it.
func TestMark(t *testing.T) {
	marks := slices.Repeat([]string{strings.Repeat("a", 63) + ": K001"}, 1000)
	p := new(pod)
	text := p.mark(marks)[0].Value.(map[string]string)[remedy.ChangedKey]
	if len(text) > 2100 || !strings.HasSuffix(text, " and 972 more") {
		t.Errorf("%d bytes: …%s", len(text), text[len(text)-80:])
	}
	p.Metadata.Annotations = map[string]string{"a": strings.Repeat("a", 262_000)}
	if ops := p.mark(marks); ops != nil {
		t.Errorf("annotations of 262,000 bytes get %v", ops)
	}
}

// TestPatch holds each kind of patch to its text, and that several fit each other.
func TestPatch(t *testing.T) {
	object := asJSON(t, `
spec:
  initContainers:
  - {name: first, env: [{name: GOMAXPROCS, value: "1"}]}
  containers:
  - {name: none}
  - name: twice
    env: [{name: A, value: a}, {name: GOMAXPROCS, value: "8"}, {name: B, value: b}, {name: GOMAXPROCS, value: "9"}, {name: GOMEMLIMIT, value: "1"}]
  - {name: reference, env: [{name: GOMAXPROCS, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]}
`)
	set := remedy.Remedy{Action: remedy.Set, Variable: "GOMAXPROCS", Value: "2"}
	remove := remedy.Remedy{Action: remedy.Remove, Variable: "GOMAXPROCS"}
	fix := remedy.Remedy{Action: remedy.Repair, Variable: "GOMAXPROCS", Value: "1"}
	memory := remedy.Remedy{Action: remedy.Remove, Variable: "GOMEMLIMIT"}
	for _, c := range []struct {
		container string
		remedies  []remedy.Remedy
		want      string
	}{
		{"first", []remedy.Remedy{remove}, `remove /spec/initContainers/0/env/0`},
		{"none", []remedy.Remedy{set}, `add /spec/containers/0/env [{"name":"GOMAXPROCS","value":"2"}]`},
		{"none", []remedy.Remedy{set, {Action: remedy.Set, Variable: "GOGC", Value: "50"}}, `add /spec/containers/0/env [{"name":"GOMAXPROCS","value":"2"}]; add /spec/containers/0/env/- {"name":"GOGC","value":"50"}`},
		{"none", []remedy.Remedy{remove}, ""},
		{"none", []remedy.Remedy{fix}, ""},
		{"nobody", []remedy.Remedy{set}, ""},
		{"twice", []remedy.Remedy{set}, `replace /spec/containers/1/env/3 {"name":"GOMAXPROCS","value":"2"}`},
		{"twice", []remedy.Remedy{remove, memory}, `remove /spec/containers/1/env/3; remove /spec/containers/1/env/1; remove /spec/containers/1/env/2`},
		{"twice", []remedy.Remedy{fix}, ""},
		{"reference", []remedy.Remedy{fix}, `add /spec/containers/2/env/0/valueFrom/resourceFieldRef/divisor "1"`},
		{"reference", []remedy.Remedy{{Action: remedy.Leave, Variable: "GOMAXPROCS"}}, ""},
	} {
		p := &pod{}
		if err := json.Unmarshal(object, p); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range c.remedies {
			ops, ok := p.patch(c.container, r)
			if ok != (len(ops) > 0) {
				t.Errorf("%v: ok is %v with %v", r, ok, ops)
			}
			for _, op := range ops {
				text := op.Op + " " + op.Path
				if op.Value != nil {
					value, _ := json.Marshal(op.Value)
					text += " " + string(value)
				}
				got = append(got, text)
			}
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s, %v: %s\nwant %s", c.container, c.remedies, text, c.want)
		}
	}
}

func TestResize(t *testing.T) {
	const restart = "\nresizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]"
	reference := "resources: {limits: {cpu: LIMIT}}\n" + fromNode
	memory := func(env string) string {
		return "resources: {limits: {memory: LIMIT}}\nenv: [{name: GOMEMLIMIT, " + env + "}]"
	}
	const (
		ofLimit      = "valueFrom: {resourceFieldRef: {resource: limits.memory}}"
		memoryAgain  = "\nresizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]"
		leavesLittle = "; it leaves nothing of the new memory limit of 256Mi, and the kernel kills the program first"
	)
	for _, c := range []struct {
		name, container, metadata, from, to string
		o                                   Options
		want                                []string
	}{
		{name: "a literal", container: literal("LIMIT", "1"), want: []string{`unthrottle: container "app": the container's GOMAXPROCS stays 1: it is pinned by a value in its environment, which can't change while it runs`}},
		{name: "a reference", container: reference, metadata: "generation: 1", want: []string{"stays 1: it is pinned by limits.cpu"}},
		{name: "a reference after a resize", container: reference, metadata: "generation: 2", want: []string{"stays what it was at its start: it is pinned by limits.cpu"}},
		{name: "a ConfigMap", container: "resources: {limits: {cpu: LIMIT}}\nenv: [{name: GOMAXPROCS, valueFrom: {configMapKeyRef: {name: tuning, key: procs}}}]", want: []string{"stays what it was at its start: it is pinned by ConfigMap tuning, key procs"}},
		{name: "no limit before", container: fromNode + "\nresources: LIMIT", metadata: "generation: 1", from: "{}", to: "{limits: {cpu: 1}}", want: []string{"stays what the node has for pods: "}},
		{name: "recreated", container: reference + restart},
		{name: "a literal is not", container: literal("LIMIT", "1") + restart, want: []string{"stays 1"}},
		{name: "the limit stays", container: literal("LIMIT", "1"), to: "500m"},
		{name: "the same in other letters", container: literal("LIMIT", "1"), to: `"0.5"`},
		{name: "Go ignores it", container: literal("LIMIT", "auto")},
		{name: "none", container: "resources: {limits: {cpu: LIMIT}}"},
		{name: "GOMEMLIMIT, and more memory", container: memory("value: 460MiB"), from: "512Mi", to: "1Gi", want: []string{`unthrottle: container "app": the container's GOMEMLIMIT stays 460MiB: it is pinned by a value in its environment, which can't change while it runs`}},
		{name: "GOMEMLIMIT, and less", container: memory("value: 460MiB"), from: "512Mi", to: "256Mi", want: []string{"stays 460MiB: it is pinned by a value in its environment, which can't change while it runs" + leavesLittle}},
		{name: "GOMEMLIMIT of the limit", container: memory(ofLimit), metadata: "generation: 1", from: "512Mi", to: "256Mi", want: []string{"GOMEMLIMIT stays 512 MiB: it is pinned by limits.memory in its environment, which can't change while it runs" + leavesLittle}},
		{name: "GOMEMLIMIT of the limit after a resize", container: memory(ofLimit), metadata: "generation: 2", from: "512Mi", to: "256Mi", want: []string{"GOMEMLIMIT stays what it was at its start: it is pinned by limits.memory"}},
		{name: "GOMEMLIMIT is made again", container: memory(ofLimit) + memoryAgain, from: "512Mi", to: "256Mi"},
		{name: "GOMEMLIMIT is not", container: memory("value: 460MiB") + memoryAgain, from: "512Mi", to: "256Mi", want: []string{"stays 460MiB"}},
		{name: "GOMEMLIMIT, and the same memory", container: memory("value: 460MiB"), from: "1024Mi", to: "1Gi"},
		{name: "GOMEMLIMIT, and no memory limit any more", container: "resources: LIMIT\nenv: [{name: GOMEMLIMIT, value: 460MiB}]", from: "{limits: {memory: 1Gi}}", to: "{}", want: []string{"stays 460MiB"}},
		{name: "GOMEMLIMIT is off", container: memory("value: off"), from: "512Mi", to: "256Mi"},
		{name: "GOMEMLIMIT, and more CPU", container: "resources: {limits: {cpu: LIMIT, memory: 1Gi}}\nenv: [{name: GOMEMLIMIT, value: 460MiB}]"},
		{name: "both", container: "resources: {limits: {cpu: LIMIT, memory: LIMIT}}\nenv: [{name: GOMAXPROCS, value: '1'}, {name: GOMEMLIMIT, value: 64MiB}]", from: "500M", to: "1G", want: []string{"GOMAXPROCS stays 1", "GOMEMLIMIT stays 64MiB"}},
		{name: "exempt", container: literal("LIMIT", "1"), metadata: "annotations: {unthrottle.dev/ignore: K004 we restart it}"},
		{name: "exempt from another rule", container: literal("LIMIT", "1"), metadata: "annotations: {unthrottle.dev/ignore: K003}", want: []string{"stays 1"}},
		{name: "an exempt container", container: literal("LIMIT", "1"), o: Options{ExemptContainers: []string{"app"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, to := c.from, c.to
			if from == "" {
				from = "500m"
			}
			if to == "" {
				to = "2"
			}
			pod := func(limit string) json.RawMessage {
				return podWith(t, strings.NewReplacer("GOMEMLIMIT", "GOMEMLIMIT", "LIMIT", limit).Replace(c.container), c.metadata)
			}
			r := ask(t, New(c.o), ResizePath, reviewOf(t, resizing, pod(to), pod(from)))
			same(t, r.Warnings, c.want)
			if len(r.Patch) > 0 {
				t.Errorf("patch %s", r.Patch)
			}
		})
	}
}

func TestOwner(t *testing.T) {
	for _, c := range []struct{ metadata, want string }{
		{"", "Pod/api"},
		{"name: ''\ngenerateName: api-", "Pod/api-…"},
		{"ownerReferences: [{kind: Other, name: x}, {kind: Job, name: report-29, controller: true}]", "Job/report-29"},
		{"ownerReferences: [{kind: ReplicaSet, name: api-6d5, controller: true}]\nlabels: {pod-template-hash: 6d5}", "Deployment/api"},
		{"ownerReferences: [{kind: ReplicaSet, name: api-6d5, controller: true}]\nlabels: {pod-template-hash: other}", "ReplicaSet/api-6d5"},
		{"ownerReferences: [{kind: ReplicaSet, name: web-77b, controller: true}]\nlabels: {rollouts-pod-template-hash: 77b}", "Rollout/web"},
		{"ownerReferences: [{kind: Job, name: report-29921882, controller: true}]\ncreationTimestamp: '2026-11-23T01:02:03Z'", "CronJob/report"},
	} {
		_, w, err := readPod(t.Context(), podWith(t, "", c.metadata))
		if err != nil || w.Kind+"/"+w.Name != c.want {
			t.Errorf("%s: %v, %v", c.metadata, w, err)
		}
	}
}

// TestAllows sends what no one should. All of it is allowed, and said to be unread.
func TestAllows(t *testing.T) {
	pod := podWith(t, limited("250m", "1m"), "")
	h := New(Options{MaxBody: 10_000})
	large := reviewOf(t, nil, podWith(t, "args: ["+strings.Repeat("a", 20_000)+"]", ""), nil)
	for _, c := range []struct {
		name, uid string
		body      []byte
		want      string
	}{
		{"nothing", "", nil, "not the JSON that it should be"},
		{"no JSON", "", []byte("hello"), "not the JSON"},
		{"another shape", "", []byte(`[1]`), "not the JSON"},
		{"broken off", "0815", reviewOf(t, nil, pod, nil)[:400], "not the JSON"},
		{"no request", "", []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), "asks nothing"},
		{"another version", "0815", []byte(strings.Replace(string(reviewOf(t, nil, pod, nil)), "k8s.io/v1", "k8s.io/v1beta1", 1)), "is not of admission.k8s.io/v1"},
		{"another kind", "0815", reviewOf(t, func(r *request) { r.Kind = metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"} }, pod, nil), "rules have to be for pods only"},
		{"no object", "0815", reviewOf(t, nil, nil, nil), "not the shape of a pod"},
		{"another object", "0815", reviewOf(t, nil, []byte(`{"kind":"Pod","apiVersion":"v1","spec":[]}`), nil), "shape of a pod"},
		{"no containers", "0815", reviewOf(t, nil, []byte(`{"kind":"Pod","apiVersion":"v1","spec":{}}`), nil), "shape of a pod"},
		{"too large", "0815", large, "the review has more than 10000 bytes"},
		{"an uid late", "0815", []byte(`{"kind":{"a":[1]},"request":{"object":{},"uid":"0815","kind":1`), "not the JSON"},
	} {
		r := ask(t, h, MutatePath, c.body)
		if r.UID != c.uid || len(r.Patch) > 0 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], c.want) {
			t.Errorf("%s: %+v, want uid %q and %q", c.name, r, c.uid, c.want)
		}
	}
	// A length that is not declared.
	w := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodPost, MutatePath, io.MultiReader(strings.NewReader(string(large))))
	h.ServeHTTP(w, req)
	if text := w.Body.String(); !strings.Contains(text, `"uid":"0815","allowed":true`) || !strings.Contains(text, "more than 10000 bytes") {
		t.Errorf("without a length: %s", text)
	}
	for _, change := range []func(*request){func(r *request) { r.Operation = "DELETE" }, func(r *request) { r.SubResource = "exec" }} {
		for _, path := range []string{MutatePath, ResizePath} {
			if r := ask(t, New(Options{}), path, reviewOf(t, change, pod, nil)); len(r.Warnings) > 0 || len(r.Patch) > 0 {
				t.Errorf("%+v", r)
			}
		}
	}
	for path, want := range map[string]int{"/": http.StatusNotFound, MutatePath: http.StatusMethodNotAllowed} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
}

// TestFaults makes the rules panic. The pod is allowed, and the log has no part of it.
func TestFaults(t *testing.T) {
	for name, fail := range map[string]func(){
		"text":    func() { panic("hunter2") },
		"error":   func() { panic(errors.New("hunter2")) },
		"runtime": func() { _ = []int{}[len(os.Args)+5] },
	} {
		h, log := logged(Options{Mode: Fix})
		h.check = func(context.Context, *workload.Workload) ([]lint.Finding, error) { fail(); return nil, nil }
		r := ask(t, h, MutatePath, reviewOf(t, nil, podWith(t, literal("1", "1"), ""), nil))
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "it failed") || r.UID != "0815" {
			t.Errorf("%s: %+v", name, r)
		}
		if strings.Contains(log.String(), "hunter2") || !strings.Contains(log.String(), "a fault of ours") {
			t.Errorf("%s: log %s", name, log)
		}
		if h.bodies.Load() != 0 {
			t.Errorf("%s: %d bytes are left", name, h.bodies.Load())
		}
	}
}

// TestSecrets looks for a pod's values in the log.
func TestSecrets(t *testing.T) {
	const container = "env: [{name: PASSWORD, value: hunter2}, {name: GOMAXPROCS, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]\nargs: [--token=hunter2]"
	for _, o := range []Options{{}, {Mode: Fix}} {
		h, log := logged(o)
		body := reviewOf(t, nil, podWith(t, container, "annotations: {note: hunter2}"), nil)
		ask(t, h, MutatePath, body)
		ask(t, h, ResizePath, body)
		ask(t, h, MutatePath, body[:len(body)-9])
		ask(t, h, MutatePath, []byte(strings.Replace(string(body), "[{", "{[", 1)))
		if text := log.String(); strings.Contains(text, "hunter2") || strings.Count(text, "level=") != 4 {
			t.Errorf("the log is %s", text)
		}
	}
}

func TestWarnings(t *testing.T) {
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("%d\n%s\xff", i, strings.Repeat("ä", 400)))
	}
	sent := sendable(many)
	if len(sent) != mostWarnings || sent[mostWarnings-1] != "unthrottle: and 9 more" {
		t.Errorf("%d warnings, the last is %q", len(sent), sent[len(sent)-1])
	}
	letters := 0
	for _, text := range sent {
		letters += len([]rune(text))
		if strings.Contains(text, "\n") || !utf8.ValidString(text) {
			t.Errorf("%q", text)
		}
	}
	if letters > 4096 {
		t.Errorf("%d letters: the API server shortens that", letters)
	}
}

// TestBusy sends more than is looked at together.
func TestBusy(t *testing.T) {
	h := New(Options{MaxBodies: 1})
	body := reviewOf(t, nil, podWith(t, fromNode, ""), nil)
	large := reviewOf(t, nil, podWith(t, fromNode+"\nargs: ["+strings.Repeat("a", small)+"]", ""), nil)
	if r := ask(t, h, MutatePath, body); len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "K003") {
		t.Errorf("a small one: %+v", r)
	}
	if r := ask(t, h, MutatePath, large); r.UID != "0815" || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "too many large pods") {
		t.Errorf("%+v", r)
	}
	h = New(Options{})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if r := ask(t, h, MutatePath, body); len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "K003") {
				t.Errorf("%+v", r)
			}
		})
	}
	all.Wait()
	if n := h.bodies.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// FuzzReview sends anything. It is allowed, and nothing panics.
func FuzzReview(f *testing.F) {
	pod := podWith(f, limited("250m", "1m"), "labels: {unthrottle.dev/ignore: K004}")
	f.Add(reviewOf(f, nil, pod, nil))
	f.Add(reviewOf(f, resizing, pod, podWith(f, limited("2", "1"), "")))
	f.Add(reviewOf(f, nil, podWith(f, fromNode, ""), nil)[:300])
	f.Add([]byte(`{"request":{"uid":"1","object":{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"env":[{"name":"GOMAXPROCS"}]}]}}}}`))
	f.Add([]byte("{\"request\":{\"uid\":\"\\ud800\""))
	var panics string
	f.Fuzz(func(t *testing.T, body []byte) {
		h, log := logged(Options{Mode: Fix, WarnOn: finding.Info})
		for _, path := range []string{MutatePath, ResizePath} {
			ask(t, h, path, body)
		}
		if panics = log.String(); strings.Contains(panics, "a fault of ours") {
			t.Error(panics)
		}
	})
}

// A typical pod: what a Deployment's has once the API server and a mesh are through with it.
func typical(t testing.TB) json.RawMessage {
	data, err := os.ReadFile("testdata/pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return asJSON(t, string(data))
}

// BenchmarkLargest is a review of the largest size, which no pod of a real cluster comes near.
func BenchmarkLargest(b *testing.B) {
	h := New(Options{Mode: Fix})
	env := strings.Repeat("{name: A, value: b}, ", 60_000)
	body := reviewOf(b, nil, podWith(b, "env: ["+env+"{name: GOMAXPROCS, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]", ""), nil)
	if len(body) > mostPod {
		b.Fatalf("%d bytes", len(body))
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if r := ask(b, h, MutatePath, body); len(r.Patch) == 0 {
			b.Fatalf("nothing is repaired: %q", r.Warnings)
		}
	}
}

// BenchmarkMutate is a review from its bytes to those of the answer, without HTTP.
func BenchmarkMutate(b *testing.B) {
	h := New(Options{Mode: Fix})
	body := reviewOf(b, nil, typical(b), nil)
	took := make([]time.Duration, 0, b.N)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		start := time.Now()
		r := ask(b, h, MutatePath, body)
		took = append(took, time.Since(start))
		if len(r.Patch) == 0 {
			b.Fatal("nothing is repaired")
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
