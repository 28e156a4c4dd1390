package cluster

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A fake is an API server with these objects by path: /apis/apps/v1/namespaces/shop/deployments. It gives pages as the real one
// does, with tokens that are places in the list.
type fake struct {
	objects map[string][]string
	before  func(w http.ResponseWriter, r *http.Request) (done bool)

	mu    sync.Mutex
	asked []string
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r.URL.String())
	f.mu.Unlock()
	if f.before != nil && f.before(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/apis" {
		fmt.Fprint(w, `{"kind":"APIGroupList","groups":[{"name":"apps","preferredVersion":{"version":"v1"}},{"name":"batch","preferredVersion":{"version":"v1"}},`+
			`{"name":"argoproj.io","preferredVersion":{"version":"v1alpha1"}},{"name":"autoscaling.k8s.io","preferredVersion":{"version":"v1"}}]}`)
		return
	}
	dir, name := filepath.Split(r.URL.Path)
	if strings.HasSuffix(dir, "/configmaps/") {
		for _, o := range f.objects[strings.TrimSuffix(dir, "/")] {
			if strings.Contains(o, fmt.Sprintf("%q", name)) {
				fmt.Fprint(w, o)
				return
			}
		}
		status(w, http.StatusNotFound, "NotFound", "there is none", "")
		return
	}
	all := f.objects[r.URL.Path]
	from, limit := 0, 0
	fmt.Sscan(r.URL.Query().Get("continue"), &from)
	fmt.Sscan(r.URL.Query().Get("limit"), &limit)
	to := min(from+limit, len(all))
	next := ""
	if to < len(all) {
		next = fmt.Sprint(to)
	}
	body := fmt.Sprintf(`{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":%q},"items":[%s]}`, next, strings.Join(all[from:to], ","))
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		z.Write([]byte(body))
		z.Close()
		return
	}
	fmt.Fprint(w, body)
}

func status(w http.ResponseWriter, code int, reason, message, next string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
		"metadata": map[string]string{"continue": next},
	})
}

// serve starts it, and makes what leads to it.
func serve(t *testing.T, f http.Handler) Options {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return Options{Kubeconfig: kubeconfig(t, s.URL, ""), Namespace: "shop", Page: 2, Timeout: time.Minute}
}

func kubeconfig(t *testing.T, url, more string) string {
	t.Helper()
	user := "{token: secret}"
	if strings.HasPrefix(more, "{") {
		user, more = more, ", insecure-skip-tls-verify: true"
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- {name: test, cluster: {server: %q%s}}
users:
- {name: me, user: %s}
contexts:
- {name: here, context: {cluster: test, user: me}}
- {name: there, context: {cluster: test, user: me, namespace: far}}
current-context: here
`, url, more, user)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func read(t *testing.T, o Options) *Found {
	t.Helper()
	found, err := Read(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// names are the workloads with their copies, and problems their texts.
func names(found *Found) (names []string) {
	for _, w := range found.Workloads {
		text := w.String()
		if w.Copies > 0 {
			text += fmt.Sprintf(" x%d", w.Copies)
		}
		names = append(names, text)
	}
	return names
}

func problems(found *Found) (texts []string) {
	for _, p := range found.Problems {
		texts = append(texts, p.At.String()+": "+p.Text+" ("+p.Hint+")")
	}
	return texts
}

// meta is an object's beginning. owner is KIND/NAME, whose UID is its name.
func meta(name, owner string) string {
	text := fmt.Sprintf(`"metadata":{"name":%q,"namespace":"shop","uid":"uid-%s","managedFields":[{"fieldsV1":{"f:spec":{"containers":[{"name":"no"}]}}}]`, name, name)
	if kind, of, ok := strings.Cut(owner, "/"); ok {
		text += fmt.Sprintf(`,"ownerReferences":[{"kind":"Other","name":"x","uid":"y"},{"kind":%q,"name":%q,"uid":"uid-%s","controller":true}]`, kind, of, of)
	}
	return text + "}"
}

func spec(env string) string {
	if env != "" {
		env = `,"env":[` + env + `]`
	}
	return `{"containers":[{"name":"app","image":"a:1","resources":{"limits":{"cpu":"500m"}}` + env + `}]}`
}

func template(name, owner, env string) string {
	return "{" + meta(name, owner) + `,"spec":{"replicas":2,"template":{"spec":` + spec(env) + `}}}`
}

func pod(name, owner, env string) string {
	return "{" + meta(name, owner) + `,"spec":` + spec(env) + `}`
}

const (
	milli = `{"name":"GOMAXPROCS","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"1m"}}}`
	two   = `{"name":"GOMAXPROCS","value":"2"}`
	apps  = "/apis/apps/v1/namespaces/shop/"
	core  = "/api/v1/namespaces/shop/"
	batch = "/apis/batch/v1/namespaces/shop/"
	argo  = "/apis/argoproj.io/v1alpha1/namespaces/shop/"
)

// TestFold: one workload for what is alike, regardless of who made it.
func TestFold(t *testing.T) {
	idle := strings.Replace(template("api-old", "Deployment/api", two), `"replicas":2`, `"replicas":0`, 1)
	over := strings.Replace(template("migrate", "", two), `"replicas":2`, `"parallelism":1`, 1)
	over = strings.TrimSuffix(over, "}") + `,"status":{"conditions":[{"type":"Complete","status":"True"}]}}`
	f := &fake{objects: map[string][]string{
		apps + "deployments": {template("api", "", milli), template("web", "", "")},
		apps + "replicasets": {template("api-1", "Deployment/api", milli), template("api-0", "Deployment/api", two), idle, template("lone", "", "")},
		batch + "cronjobs":   {"{" + meta("report", "") + `,"spec":{"jobTemplate":{"spec":{"template":{"spec":` + spec("") + `}}}}}`},
		batch + "jobs":       {template("report-1", "CronJob/report", ""), template("once", "", ""), over},
		argo + "rollouts":    {template("canary", "", two)},
		core + "pods": {
			pod("api-1-a", "ReplicaSet/api-1", milli), pod("api-1-b", "ReplicaSet/api-1", milli), pod("api-1-c", "ReplicaSet/api-1", two),
			pod("api-0-a", "ReplicaSet/api-0", two), pod("api-1-d", "ReplicaSet/api-1", two), pod("report-1-a", "Job/report-1", ""),
			pod("bare", "", ""), pod("bare2", "", ""), pod("op-0", "Operator/op", two), pod("op-1", "Operator/op", two), pod("op-2", "Operator/op", ""),
			pod("canary-a", "Rollout/canary", two), pod("web-1-a", "ReplicaSet/gone", ""),
		},
	}}
	found := read(t, serve(t, f))
	want := []string{
		"Rollout/canary in shop x1", "CronJob/report in shop x1", "Deployment/api in shop x2", "Deployment/web in shop", "Job/once in shop", "ReplicaSet/lone in shop",
		"Pod of Deployment/api in shop x3", "Pod/bare in shop", "Pod/bare2 in shop", "Pod of Operator/op in shop x2", "Pod of Operator/op in shop x1",
		"Pod of ReplicaSet/gone in shop x1",
	}
	if got := names(found); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := strings.Join(found.Differ, "\n"); got != "3 pods of Deployment/api in shop differ from its template, such as api-1-c: "+
		"container app: GOMAXPROCS=2; not container app: GOMAXPROCS=500" {
		t.Errorf("what differs: %s", got)
	}
	if len(found.Problems) != 0 || found.Objects != 24 || found.Namespace != "shop" || found.Context != "here" {
		t.Errorf("%+v", found)
	}
	v := found.Workloads[2].Pod.Containers[0].Env[0]
	if v.At.String() != "spec.template.spec.containers[0].env[0]" || v.Value != "500" || v.State != workload.Known {
		t.Errorf("%+v", v)
	}
}

// TestEarlier: an ongoing rollout is not someone else's change.
func TestEarlier(t *testing.T) {
	f := &fake{objects: map[string][]string{
		apps + "deployments": {template("api", "", "")},
		apps + "replicasets": {template("api-0", "Deployment/api", two)},
		core + "pods":        {pod("api-0-a", "ReplicaSet/api-0", two)},
	}}
	found := read(t, serve(t, f))
	if want := []string{"pod api-0-a of Deployment/api in shop differs from its template: an earlier template made it, that of ReplicaSet/api-0"}; !slices.Equal(found.Differ, want) {
		t.Errorf("%q", found.Differ)
	}
}

// TestConfigMaps: those are asked for that may matter, each once, and no Secret is.
func TestConfigMaps(t *testing.T) {
	from := func(kind, name string) string {
		return fmt.Sprintf(`{"name":"GOMAXPROCS","valueFrom":{%q:{"name":%q,"key":"procs"}}}`, kind, name)
	}
	whole := strings.Replace(template("whole", "", ""), `"image"`, `"envFrom":[{"configMapRef":{"name":"all"}},{"prefix":"APP_","configMapRef":{"name":"prefixed"}},{"secretRef":{"name":"s"}}],"image"`, 1)
	f := &fake{objects: map[string][]string{
		apps + "deployments": {
			template("a", "", from("configMapKeyRef", "tuning")), template("b", "", from("configMapKeyRef", "tuning")), template("c", "", from("secretKeyRef", "s")),
			template("d", "", from("configMapKeyRef", "none")), whole, template("plain", "", ""),
		},
		core + "configmaps": {
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"tuning","namespace":"shop"},"data":{"procs":"3"}}`,
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"all","namespace":"shop"},"data":{"GOMAXPROCS":"4","OTHER":"x"}}`,
		},
	}}
	found := read(t, serve(t, f))
	var got []string
	for _, w := range found.Workloads {
		v, _ := w.Pod.Containers[0].Var("GOMAXPROCS")
		got = append(got, w.Name+"="+v.Value+v.Unknown)
	}
	want := []string{
		"a=3", "b=3", "c=Secret s is not read: no Secret is", "d=ConfigMap none could not be read", "whole=Secret s is not read: no Secret is", "plain=",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var asked []string
	for _, path := range f.asked {
		if strings.Contains(path, "configmaps") || strings.Contains(path, "secrets") {
			name, _, _ := strings.Cut(filepath.Base(path), "?")
			asked = append(asked, name)
		}
	}
	slices.Sort(asked)
	if want := []string{"all", "none", "tuning"}; !slices.Equal(asked, want) || len(found.Problems) > 0 {
		t.Errorf("asked for %q, want %q; %q", asked, want, problems(found))
	}
}

func many(n int) (all []string) {
	for i := range n {
		all = append(all, pod(fmt.Sprintf("pod-%d", i), "", ""))
	}
	return all
}

// TestExpired: a list that the server has forgotten goes on where it says, or starts again, and nothing is reported twice.
func TestExpired(t *testing.T) {
	for _, c := range []struct {
		next  string // what the server says
		times int
		want  int
		error string
	}{{"4", 1, 7, ""}, {"", 1, 7, ""}, {"", 3, 7, ""}, {"", 4, 4, "too old"}} {
		times := 0
		f := &fake{objects: map[string][]string{core + "pods": many(7)}}
		f.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("continue") != "4" || times == c.times {
				return false
			}
			times++
			status(w, http.StatusGone, "Expired", "The provided continue parameter is too old", c.next)
			return true
		}
		found := read(t, serve(t, f))
		if text := strings.Join(problems(found), "\n"); len(found.Workloads) != c.want || (text == "") != (c.error == "") || !strings.Contains(text, c.error) {
			t.Errorf("%+v: %d pods, %q", c, len(found.Workloads), text)
		}
	}
}

// TestPartly: what goes wrong with one kind keeps nothing else from being read; a server that is gone ends it.
func TestPartly(t *testing.T) {
	for _, c := range []struct {
		name, path string
		answer     func(w http.ResponseWriter, r *http.Request)
		workloads  int
		want       string
	}{
		{"forbidden", "deployments", func(w http.ResponseWriter, _ *http.Request) {
			status(w, 403, "Forbidden", `deployments.apps is forbidden: User "me" cannot list resource "deployments"`, "")
		}, 1, `deployments.apps: the verb list is missing in namespace shop: User "me" cannot list resource "deployments" (kubectl auth can-i list deployments.apps -n shop)`},
		{"not found", "deployments", func(w http.ResponseWriter, _ *http.Request) { status(w, 404, "NotFound", "no such thing", "") }, 1, "listing them in namespace shop: no such thing"},
		{"extra not found", "rollouts", func(w http.ResponseWriter, _ *http.Request) { status(w, 404, "NotFound", "no such thing", "") }, 2, ""},
		{"broken inside", "deployments", func(w http.ResponseWriter, _ *http.Request) {
			status(w, 500, "InternalError", "etcdserver: no leader", "")
		}, 1, "etcdserver: no leader"},
		{"no JSON", "deployments", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, 1, "its answer is not what an API server sends"},
		{"cut off", "deployments", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"items":[{"metadata":{`) }, 1, "its answer is not what an API server sends"},
		{"null", "deployments", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"metadata":{},"items":null}`) }, 1, ""},
		{"gone", "replicasets", func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, 1, "the API server went away while they were read, and what comes after them is missing too"},
		{"logged out", "replicasets", func(w http.ResponseWriter, _ *http.Request) { status(w, 401, "Unauthorized", "Unauthorized", "") }, 1, "it does not know who you are (401)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{objects: map[string][]string{apps + "deployments": {template("api", "", "")}, core + "pods": many(1)}}
			f.before = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/"+c.path) {
					return false
				}
				c.answer(w, r)
				return true
			}
			found := read(t, serve(t, f))
			got := strings.Join(problems(found), "\n")
			if len(found.Workloads) != c.workloads || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q and %q", names(found), got)
			}
		})
	}
}

// TestForbiddenConfigMaps: a refusal is reported once per namespace.
func TestForbiddenConfigMaps(t *testing.T) {
	f := &fake{objects: map[string][]string{apps + "deployments": {
		template("a", "", `{"name":"GOGC","valueFrom":{"configMapKeyRef":{"name":"a","key":"x"}}}`),
		template("b", "", `{"name":"GOGC","valueFrom":{"configMapKeyRef":{"name":"b","key":"x"}}}`),
	}}}
	f.before = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "configmaps") {
			status(w, 403, "Forbidden", `configmaps "a" is forbidden: User "me" cannot get it`, "")
			return true
		}
		return false
	}
	found := read(t, serve(t, f))
	if got := problems(found); len(got) != 1 || !strings.Contains(got[0], "the verb get is missing in namespace shop: User") || len(found.Workloads) != 2 {
		t.Errorf("%q", got)
	}
}

// TestRequests: all namespaces, another context's, and a selector that is not for what is between objects and their pods.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   []string
	}{
		{func(o *Options) { o.AllNamespaces, o.Namespace = true, "" }, []string{"/api/v1/pods?", "/apis/apps/v1/deployments?"}},
		{func(o *Options) { o.Context, o.Namespace = "there", "" }, []string{"/api/v1/namespaces/far/pods?"}},
		{func(o *Options) { o.Namespace = "" }, []string{"/api/v1/namespaces/default/pods?"}},
		{func(o *Options) { o.Selector = "app in (a,b)" }, []string{
			"/pods?fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed&labelSelector=app+in+%28a%2Cb%29&limit=2",
			"/deployments?labelSelector=", "/replicasets?limit=2", "/limitranges?limit=2",
		}},
	} {
		f := &fake{}
		o := serve(t, f)
		c.change(&o)
		read(t, o)
		asked := strings.Join(f.asked, "\n")
		for _, want := range c.want {
			if !strings.Contains(asked, want) {
				t.Errorf("nobody asked for %s:\n%s", want, asked)
			}
		}
	}
}

// TestSelected: the ReplicaSets of a Deployment that the selector does not mean stand for nothing, and their pods name it.
func TestSelected(t *testing.T) {
	f := &fake{objects: map[string][]string{
		apps + "replicasets": {template("api-1", "Deployment/api", "")},
		core + "pods":        {pod("api-1-a", "ReplicaSet/api-1", ""), pod("api-1-b", "ReplicaSet/api-1", "")},
	}}
	o := serve(t, f)
	o.Selector = "app=api"
	if got, want := names(read(t, o)), []string{"Pod of Deployment/api in shop x2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTrials: what a tune has made is not a workload.
func TestTrials(t *testing.T) {
	trial := func(object string) string {
		return strings.Replace(object, `"metadata":{`, `"metadata":{"labels":{"unthrottle.dev/study":"x7"},`, 1)
	}
	f := &fake{objects: map[string][]string{
		batch + "jobs": {template("own", "", two), trial(template("run", "", two))},
		core + "pods":  {pod("own-a", "Job/own", two), trial(pod("run-a", "Job/run", two))},
	}}
	o := serve(t, f)
	o.Pods = true
	found := read(t, o)
	if got, want := names(found), []string{"Job/own in shop x1"}; !slices.Equal(got, want) || found.Objects != 2 || len(found.Pods) != 1 {
		t.Errorf("%q and %+v, want %q", got, found.Pods, want)
	}
	if p := found.Problems; len(p) != 1 || p[0].Severity != manifest.Note || p[0].Text != "2 objects of a tune's trials were left out" {
		t.Errorf("it says %+v", p)
	}
}

// TestNoServer: clear errors, with what to do.
func TestNoServer(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>welcome</html>") })
	plain := httptest.NewServer(page)
	defer plain.Close()
	secure := httptest.NewTLSServer(page)
	secure.Config.ErrorLog = nil
	defer secure.Close()
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hang.Close()
	closed := httptest.NewServer(page)
	closed.Close()
	unknown := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { status(w, 401, "Unauthorized", "Unauthorized", "") }))
	defer unknown.Close()
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("clusters: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for _, c := range []struct {
		name       string
		o          Options
		want, hint string
	}{
		{"no kubeconfig", Options{}, "no cluster is configured", "KUBECONFIG"},
		{"none of that name", Options{Kubeconfig: filepath.Join(t.TempDir(), "a")}, "no such file", "kubectl config view"},
		{"broken kubeconfig", Options{Kubeconfig: broken}, "reading the kubeconfig: ", "kubectl config view"},
		{"unknown context", Options{Kubeconfig: kubeconfig(t, plain.URL, ""), Context: "hare"}, "there is no context hare", "there are here, there"},
		{"bad selector", Options{Selector: "app in"}, "--selector app in: ", "-l app=api"},
		{"not an API server", Options{Kubeconfig: kubeconfig(t, plain.URL, "")}, "the server there is not an API server", "kubectl config view --minify"},
		{"nobody listens", Options{Kubeconfig: kubeconfig(t, closed.URL, "")}, "connection refused", "kubectl cluster-info"},
		{"no such host", Options{Kubeconfig: kubeconfig(t, "https://no.such.host.invalid", "")}, "its name is not known", "VPN"},
		{"does not answer", Options{Kubeconfig: kubeconfig(t, hang.URL, ""), Timeout: 50 * time.Millisecond}, "timed out", "--request-timeout"},
		{"unknown authority", Options{Kubeconfig: kubeconfig(t, secure.URL, "")}, "its certificate is signed by an untrusted authority", "certificate-authority"},
		{"no TLS", Options{Kubeconfig: kubeconfig(t, strings.Replace(plain.URL, "http:", "https:", 1), "")}, "it does not speak TLS", "http://"},
		{"not logged in", Options{Kubeconfig: kubeconfig(t, unknown.URL, "")}, "it does not know who you are", "log in again"},
		{"no credentials", Options{Kubeconfig: kubeconfig(t, secure.URL, "{exec: {apiVersion: client.authentication.k8s.io/v1, command: no-such-plugin, interactiveMode: Never}}")}, "no-such-plugin", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(t.Context(), c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(strings.Join(hint.Of(err), "\n"), c.hint) {
				t.Errorf("%v (%q), want %q (%q)", err, hint.Of(err), c.want, c.hint)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, Options{Kubeconfig: kubeconfig(t, hang.URL, "")}); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("interrupted: %v", err)
	}
}
