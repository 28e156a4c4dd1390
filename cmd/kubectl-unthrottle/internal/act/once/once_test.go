package once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

type object = map[string]any

// A fake is an API server with a Job controller and kubelets.
type fake struct {
	labels   object                      // of the namespace; nil: it is not there
	refuse   func(r *http.Request) int   // with which status; 0: it does not
	pod      func(looks int) object      // its status; nil: none
	events   []object                    // of each Job
	log      string                      // of each pod
	lost     bool                        // the answer to a Job that is made
	made     chan string                 // Jobs
	received func(path string, o object) // each object that is made

	mu    sync.Mutex
	jobs  map[string]int // how often its pod was looked at
	asked []string
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.Method+" "+r.URL.Path)
	if f.refuse != nil {
		if code := f.refuse(r); code != 0 {
			f.status(w, code)
			return
		}
	}
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/unthrottle")
	jobs := strings.TrimPrefix(r.URL.Path, "/apis/batch/v1/namespaces/unthrottle/jobs")
	switch {
	case r.Method == http.MethodPost && jobs == "":
		var o object
		json.NewDecoder(r.Body).Decode(&o)
		name := o["metadata"].(object)["name"].(string)
		f.jobs[name] = 0
		if f.received != nil {
			f.received(r.URL.Path, o)
		}
		if f.lost {
			f.status(w, http.StatusGatewayTimeout)
			return
		}
		f.give(w, o)
		if f.made != nil {
			f.made <- name
		}
	case r.Method == http.MethodDelete && strings.HasPrefix(path, "/pods/"):
		f.give(w, object{"kind": "Status", "status": "Success"})
	case r.Method == http.MethodDelete:
		name := strings.TrimPrefix(jobs, "/")
		if _, ok := f.jobs[name]; !ok {
			f.status(w, http.StatusNotFound)
			return
		}
		delete(f.jobs, name)
		f.give(w, object{"kind": "Status", "status": "Success"})
	case path == "" && f.labels == nil:
		f.status(w, http.StatusNotFound)
	case path == "":
		f.give(w, object{"kind": "Namespace", "metadata": object{"labels": f.labels}})
	case path == "/events":
		f.give(w, object{"kind": "EventList", "items": f.events})
	case path == "/pods":
		_, job, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
		items := []object{}
		if _, ok := f.jobs[job]; ok {
			f.jobs[job]++
			if s := f.pod(f.jobs[job]); s != nil {
				items = append(items, object{"metadata": object{"name": job + "-x"}, "status": s})
			}
		}
		f.give(w, object{"kind": "PodList", "items": items})
	case strings.HasSuffix(path, "-x/log"):
		io.WriteString(w, f.log)
	default:
		f.status(w, http.StatusNotFound)
	}
}

func (f *fake) give(w http.ResponseWriter, o object) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(o)
}

func (f *fake) status(w http.ResponseWriter, code int) {
	reason := map[int]string{403: "Forbidden", 404: "NotFound", 504: "Timeout"}[code]
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": `jobs "x" is forbidden: the test says so`})
}

// left are the Jobs that are there.
func (f *fake) left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.jobs)
}

// look is what asks the fake.
func (f *fake) look(t *testing.T) (*Look, error) {
	t.Helper()
	f.jobs = map[string]int{}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	p := cluster.Place{Config: &rest.Config{Host: s.URL}}
	cluster.Prepare(p.Config, 0)
	c, err := p.Client()
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(t.Context(), c, cluster.Over(c), "unthrottle", "registry.example.com/kubectl-unthrottle:1")
	if l != nil {
		l.every = time.Millisecond
	}
	return l, err
}

func (f *fake) must(t *testing.T) *Look {
	t.Helper()
	f.labels = object{"pod-security.kubernetes.io/enforce": "privileged"}
	l, err := f.look(t)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func succeeds(looks int) object {
	if looks < 3 {
		return object{"phase": "Pending"}
	}
	return object{"phase": "Succeeded"}
}

// TestAsk: a Job on each node, of the image, without a token; its log is the answer, and then it is gone.
func TestAsk(t *testing.T) {
	var jobs []object
	f := &fake{pod: succeeds, log: "what it says", received: func(path string, o object) { jobs = append(jobs, o) }}
	l := f.must(t)
	for _, a := range l.Agents([]string{"node-1", "node-2"}) {
		body, err := l.Ask(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(body)
		if err != nil || string(text) != "what it says" || f.left() != 1 {
			t.Errorf("%q, %v, %d left", text, err, f.left())
		}
		if err := body.Close(); err != nil || f.left() != 0 {
			t.Errorf("%v, %d left", err, f.left())
		}
	}
	if said, left := l.Said(), l.Left(); said != "made 2 Jobs in namespace unthrottle, and removed what was made" || left != nil {
		t.Errorf("%s; %v", said, left)
	}
	for i, job := range jobs {
		spec := job["spec"].(object)["template"].(object)["spec"].(object)
		agent := spec["containers"].([]any)[0].(object)
		if spec["nodeName"] != fmt.Sprintf("node-%d", i+1) || spec["automountServiceAccountToken"] != false || spec["serviceAccountName"] != nil || spec["hostPID"] != true ||
			spec["restartPolicy"] != "Never" || agent["image"] != "registry.example.com/kubectl-unthrottle:1" || agent["ports"] != nil || agent["livenessProbe"] != nil {
			t.Errorf("%v", spec)
		}
		if got := fmt.Sprint(agent["args"]); got != "[agent --once --pods none]" {
			t.Error(got)
		}
	}
}

// TestNever: a node that never says anything is an error that says why, and its Job is gone.
func TestNever(t *testing.T) {
	waits := func(reason string) func(int) object {
		return func(int) object {
			return object{"phase": "Pending", "containerStatuses": []object{{"state": object{"waiting": object{"reason": reason}}}}}
		}
	}
	failed := func(reason string) func(int) object {
		return func(int) object { return object{"phase": "Failed", "reason": reason} }
	}
	for name, c := range map[string]struct {
		f    *fake
		want string
		hint string
	}{
		"image":   {&fake{pod: waits("ImagePullBackOff")}, "its image can't be pulled", "--once-image"},
		"pending": {&fake{pod: waits("ContainerCreating")}, "no pod ran there within 2m0s", "kubectl describe node"},
		"windows": {&fake{pod: failed("PodOSNotSupported")}, "does not run Linux", ""},
		"full":    {&fake{pod: failed("OutOfpods")}, "no room", ""},
		"evicted": {&fake{pod: failed("Evicted")}, "has ended it", ""},
		"deleted": {&fake{pod: func(looks int) object { return map[bool]object{true: {"phase": "Running"}}[looks == 1] }}, "was deleted before it had ended", ""},
		"crashed": {&fake{pod: func(int) object {
			return object{"phase": "Failed", "containerStatuses": []object{{"state": object{"terminated": object{"exitCode": 2}}}}}
		}}, "ended with exit code 2", ""},
		"policy": {&fake{pod: func(int) object { return nil }, events: []object{
			{"reason": "FailedCreate", "message": `Error creating: pods "x-1" is forbidden: error looking up service account unthrottle/default: not found`},
			{"reason": "FailedCreate", "message": `Error creating: pods "x-1" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)`},
		}}, `no pod may be made there: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)`, "docs/without-agents.md"},
		"no pod": {&fake{pod: func(int) object { return nil }}, "no pod was made of its Job within 2m0s", "the events of that namespace"},
		"silent": {&fake{pod: func(int) object { return object{"phase": "Pending"} }}, "no pod ran there within 2m0s", "kubectl describe node"},
		"forbidden": {&fake{refuse: func(r *http.Request) int {
			if r.Method == http.MethodPost {
				return 403
			}
			return 0
		}}, "the test says so", ""},
		"lost": {&fake{lost: true}, "the test says so", ""},
		"no log": {&fake{pod: succeeds, refuse: func(r *http.Request) int {
			if strings.HasSuffix(r.URL.Path, "/log") {
				return 403
			}
			return 0
		}}, "the test says so", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := c.f.must(t)
			if l.within = time.Minute; strings.Contains(c.want, "2m0s") {
				l.within = 50 * time.Millisecond
			}
			_, err := l.Ask(t.Context(), l.Agents([]string{"node-1"})[0])
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(strings.Join(hint.Of(err), ";"), c.hint) {
				t.Errorf("%v (%q), want %s", err, hint.Of(err), c.want)
			}
			if c.f.left() != 0 || l.Left() != nil {
				t.Errorf("%d are left: %v", c.f.left(), l.Left())
			}
			forced := "DELETE /api/v1/namespaces/unthrottle/pods/" + l.Agents([]string{"node-1"})[0].Pod + "-x"
			if got := slices.Contains(c.f.asked, forced); got != (name == "silent" || name == "pending") {
				t.Errorf("the pod was deleted by its name: %v, %q", got, c.f.asked)
			}
			if deleted := slices.ContainsFunc(c.f.asked, func(r string) bool { return strings.HasPrefix(r, "DELETE") }); deleted == (name == "forbidden") {
				t.Errorf("%q", c.f.asked)
			}
		})
	}
}

// TestInterrupted: what was made goes, and nothing more is made.
func TestInterrupted(t *testing.T) {
	f := &fake{pod: func(int) object { return object{"phase": "Pending"} }, made: make(chan string, 1)}
	l := f.must(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-f.made; cancel() }()
	for _, a := range l.Agents([]string{"node-1", "node-2"}) {
		if _, err := l.Ask(ctx, a); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if f.left() != 0 || l.Said() != "made 1 Job in namespace unthrottle, and removed what was made" {
		t.Errorf("%d are left: %s", f.left(), l.Said())
	}
}

// TestLeft: what can't be removed is said, with the command that does.
func TestLeft(t *testing.T) {
	f := &fake{pod: succeeds, refuse: func(r *http.Request) int {
		if r.Method == http.MethodDelete {
			return 403
		}
		return 0
	}}
	l := f.must(t)
	body, err := l.Ask(t.Context(), l.Agents([]string{"node-1"})[0])
	if err != nil {
		t.Fatal(err)
	}
	body.Close()
	left := l.Left()
	if left == nil || left.Error() != "1 Job in namespace unthrottle could not be removed, pods included: the test says so; Kubernetes removes Jobs within 4m10s, and a pod once its node is back" ||
		!slices.Equal(hint.Of(left), []string{"kubectl delete jobs,pods -n unthrottle -l unthrottle.dev/once=" + l.id}) || l.Said() != "made 1 Job in namespace unthrottle" {
		t.Errorf("%v, %q, %s", left, hint.Of(left), l.Said())
	}
}

// TestNamespace: one that is missing, or admits no such pod, is an error before anything is made.
func TestNamespace(t *testing.T) {
	const label = "pod-security.kubernetes.io/enforce"
	for _, c := range []struct {
		f          *fake
		want, hint string
	}{
		{&fake{}, "there is no namespace unthrottle", "kubectl create namespace unthrottle && kubectl label namespace unthrottle " + label + "=privileged"},
		{&fake{labels: object{label: "baseline"}}, "admits baseline pods only", "kubectl label --overwrite namespace unthrottle " + label + "=privileged"},
		{&fake{labels: object{}, refuse: func(*http.Request) int { return 503 }}, "looking for the namespace unthrottle", ""},
		{&fake{labels: object{}}, "", ""},
		{&fake{labels: object{}, refuse: func(*http.Request) int { return 403 }}, "", ""},
	} {
		l, err := c.f.look(t)
		if (l == nil) != (c.want != "") || err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)) || !strings.Contains(strings.Join(hint.Of(err), "; "), c.hint) {
			t.Errorf("%v, %q; want %s, %s", err, hint.Of(err), c.want, c.hint)
		}
		if c.f.left() > 0 {
			t.Error("a Job was made")
		}
	}
}
