package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/attach"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/sidecar"
	"github.com/unthrottle/unthrottle/cmd/internal/process/hostile"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/agents"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/inpod"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/install"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/once"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/podtrial"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/registry"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/prom"
)

const secretToken = "the-users-own-token"

// kubeconfigOf leads to a server with TLS as a user with a token: a client has none to give to one without.
func kubeconfigOf(t *testing.T, s *httptest.Server) string {
	t.Helper()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\nusers: [{name: u, user: {token: %s}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: u, namespace: shop}}]\ncurrent-context: c\n", s.URL, ca, secretToken)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// An asker is something in the tree that asks a server.
type asker struct {
	name   string
	secure bool // it has a token, which it gives to a server with TLS only
	waits  bool // until its time is up, with nearly every answer
	ask    func(ctx context.Context, t *testing.T, s *httptest.Server) error
}

func place(t *testing.T, s *httptest.Server) cluster.Place {
	p, err := cluster.Locate(cluster.Options{Kubeconfig: kubeconfigOf(t, s), Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func inPodOf(t *testing.T, s *httptest.Server, way inpod.Way) *inpod.Pod {
	p := place(t, s)
	client, err := p.Client()
	if err != nil {
		t.Fatal(err)
	}
	return &inpod.Pod{Config: p.Config, REST: client, Namespace: "shop", Name: "api", Way: way, Agents: "unthrottle", Image: "x", Start: time.Second, Say: func(string) {}}
}

// butForThePod answers as another server does, but of the pod as an API server would.
func butForThePod(t *testing.T, s *httptest.Server) *httptest.Server {
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	other := httputil.NewSingleHostReverseProxy(u)
	other.Transport = s.Client().Transport
	other.ErrorLog = log.New(io.Discard, "", 0)
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/pods/api") {
			io.WriteString(w, `{"metadata":{"name":"api"},"spec":{"containers":[{"name":"api","image":"api"}]},"status":{"phase":"Running","containerStatuses":[{"name":"api","state":{"running":{}}}]}}`)
			return
		}
		other.ServeHTTP(w, r)
	}))
	front.Config.ErrorLog = other.ErrorLog
	t.Cleanup(front.CloseClientConnections)
	return front
}

func access(t *testing.T, s *httptest.Server) *cluster.Access {
	a, err := cluster.Open(cluster.Options{Kubeconfig: kubeconfigOf(t, s), Timeout: 2 * time.Second}, mostOfAgent)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// askers begin with the two that wait: TestHostileAnswers starts them in this order.
var askers = []asker{
	{"expire", true, true, func(ctx context.Context, t *testing.T, s *httptest.Server) error {
		dir := t.TempDir()
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		for name, data := range map[string][]byte{"ca.crt": ca, "token": []byte(secretToken)} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		u, _ := url.Parse(s.URL)
		env := map[string]string{"KUBERNETES_SERVICE_HOST": u.Hostname(), "KUBERNETES_SERVICE_PORT": u.Port()}
		return sidecar.Expire(ctx, sidecar.Expiry{Namespace: "a", Owner: "b", Every: time.Minute, Env: func(name string) string { return env[name] }, Dir: dir})
	}},
	{"the agent's watch of pods", true, true, func(ctx context.Context, t *testing.T, s *httptest.Server) error {
		source, err := pods.Watch(ctx, place(t, s).Config, "n")
		if err != nil {
			return err
		}
		<-ctx.Done()
		return source.Err()
	}},
	{"profile", false, false, func(ctx context.Context, _ *testing.T, s *httptest.Server) error {
		u, _ := url.Parse(strings.Replace(s.URL, "http://", "http://me:secret@", 1) + "/debug/pprof/profile?seconds=1")
		_, err := (&attach.Profiler{URL: u, Seconds: 1, Metrics: "none"}).Take(ctx)
		return err
	}},
	{"a server that is to be ready", false, false, func(ctx context.Context, _ *testing.T, s *httptest.Server) error {
		answer, err := service.Get(ctx, s.URL)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.ReadAll(answer.Body)
		return err
	}},
	{"load", false, false, func(ctx context.Context, _ *testing.T, s *httptest.Server) error {
		run, err := load.Start(ctx, load.Plan{Requests: 4, Conns: 2, Client: load.Client{Redirects: 10, Timeout: time.Second}, Targets: []load.Target{{
			Method: "POST", URL: s.URL, Body: []byte("secret"), Header: [][2]string{{"X-Api-Key", "secret"}},
		}}})
		if err == nil {
			run.Wait()
		}
		return err
	}},
	{"lint --cluster", true, false, func(ctx context.Context, t *testing.T, s *httptest.Server) error {
		_, err := cluster.Read(ctx, cluster.Options{Kubeconfig: kubeconfigOf(t, s), Timeout: 2 * time.Second})
		return err
	}},
	{"looking for agents", true, false, func(ctx context.Context, t *testing.T, s *httptest.Server) error {
		search := agents.Search{Namespace: "unthrottle", Within: 2 * time.Second}
		agents.Others(ctx, access(t, s), search)
		_, err := agents.Find(ctx, access(t, s), search)
		return err
	}},
	{"audit of an agent", true, false, func(ctx context.Context, t *testing.T, s *httptest.Server) (err error) {
		all := []agents.Agent{{Namespace: "unthrottle", Pod: "a", Node: "n", Port: 9435, Ready: true}}
		agents.Read(ctx, access(t, s), all, agents.Options{Within: 2 * time.Second}, func(string, audit.Program) audit.Outcome { return audit.Unknown }, func(x *agents.Answer) { err = x.Err })
		return err
	}},
	{"explain by an agent", true, false, func(ctx context.Context, t *testing.T, s *httptest.Server) error {
		_, _, _, err := agents.Busiest(ctx, access(t, s), agents.Agent{Namespace: "unthrottle", Pod: "a", Node: "n", Port: 9435}, "77", 2*time.Second)
		return err
	}},
	{"explain of a pod", true, false, func(ctx context.Context, t *testing.T, s *httptest.Server) error {
		_, err := inPodOf(t, s, inpod.Auto).Run(ctx, "explain", time.Second)
		return err
	}},
	{"a port of a pod", true, false, func(ctx context.Context, t *testing.T, s *httptest.Server) error {
		p := inPodOf(t, butForThePod(t, s), inpod.Forward)
		p.Process, p.Agents = "localhost:6060", ""
		_, err := p.Run(ctx, "trace", time.Second)
		return err
	}},
	{"a command in a container", true, false, func(ctx context.Context, t *testing.T, s *httptest.Server) error {
		_, err := inPodOf(t, butForThePod(t, s), inpod.Exec).Run(ctx, "explain", time.Second)
		return err
	}},
	{"tune's objects", true, false, func(ctx context.Context, t *testing.T, s *httptest.Server) error {
		p := place(t, s)
		client, err := p.Client()
		if err != nil {
			t.Fatal(err)
		}
		api := &podtrial.API{Client: client}
		api.Merge(ctx, "/api/v1/namespaces/shop/pods/a", map[string]any{"x": "y"})
		var list struct{ Items []json.RawMessage }
		return api.List(ctx, "/api/v1/namespaces/shop/pods", "a=b", &list)
	}},
	{"a log", true, false, func(ctx context.Context, t *testing.T, s *httptest.Server) error {
		p := place(t, s)
		client, err := p.Client()
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&podtrial.API{Client: client}).Log(ctx, "shop", "a", "b", time.Time{}, false)
		return err
	}},
	{"install", true, false, func(ctx context.Context, t *testing.T, s *httptest.Server) error {
		c, err := install.Connect(cluster.Options{Kubeconfig: kubeconfigOf(t, s), Timeout: time.Second}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		return c.Apply(ctx, install.Options{Namespace: "unthrottle"}, false)
	}},
	{"audit --once", true, false, func(ctx context.Context, t *testing.T, s *httptest.Server) error {
		p := place(t, s)
		client, err := p.Client()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := once.New(ctx, client, access(t, s), "unthrottle", "x"); err != nil {
			return err
		}
		_, err = pods.List(ctx, p.Config, "shop", "n")
		return err
	}},
	{"Prometheus", false, false, func(ctx context.Context, _ *testing.T, s *httptest.Server) error {
		_, err := prom.Read(ctx, prom.Options{URL: strings.Replace(s.URL, "http://", "http://me:secret@", 1), Within: 300 * time.Millisecond})
		return err
	}},
	{"a registry", false, false, func(ctx context.Context, _ *testing.T, s *httptest.Server) (err error) {
		image := registry.Image{Name: strings.TrimPrefix(s.URL, "http://") + "/app:1", Containers: []*workload.Container{{}}}
		registry.Read(ctx, []registry.Image{image}, registry.Options{Within: time.Second}, func(p registry.Program) { err = p.Err })
		return err
	}},
}

// mostHeld is how much memory a client may have for one answer. A page of a list is 64 MiB, and is read whole before it is parsed.
const mostHeld = 640 << 20

// onePart is the environment variable that has TestHostileAnswers look at one of its parts.
const onePart = "UNTHROTTLE_TEST_PART"

// A part is an asker and some of the answers that it gets.
type part struct {
	asker
	answers []hostile.Answer
}

// parts are all askers with all answers. Askers that wait have theirs in several parts, so that they wait for them at the same time.
func parts() (all []part) {
	const most = 9
	for _, c := range askers {
		answers := hostile.Answers()
		for c.waits && len(answers) > most {
			all = append(all, part{c, answers[:most]})
			answers = answers[most:]
		}
		all = append(all, part{c, answers})
	}
	return all
}

// TestHostileAnswers: no matter what a server answers, each client of the tree ends, within bounds, asks no one else, and what it
// says does nothing to a terminal. Each has a process to itself, because its memory is measured. They mostly wait, so six do that at
// a time, however many CPUs there are.
func TestHostileAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for half a minute")
	}
	t.Parallel()
	all := parts()
	if text, ok := os.LookupEnv(onePart); ok {
		i, err := strconv.Atoi(text)
		if err != nil || i < 0 || i >= len(all) {
			t.Fatalf("%s=%q: there are parts 0 to %d", onePart, text, len(all)-1)
		}
		hostileAnswers(t, all[i])
		return
	}
	type told struct {
		out []byte
		err error
	}
	turns, results := make(chan struct{}, 6), make([]chan told, len(all))
	for i := range all {
		results[i] = make(chan told, 1)
	}
	go func() {
		for i := range all {
			turns <- struct{}{}
			go func() {
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHostileAnswers$", "-test.v")
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", onePart, i))
				out, err := cmd.CombinedOutput()
				results[i] <- told{out, err}
				<-turns
			}()
		}
	}()
	for i, p := range all {
		t.Run(p.name, func(t *testing.T) {
			r := <-results[i]
			if n := bytes.Count(r.out, []byte("    --- PASS: ")); r.err != nil || n != len(p.answers) {
				t.Errorf("%v; %d of %d answers were borne\n%s", r.err, n, len(p.answers), r.out)
			}
		})
	}
}

// hostileAnswers gives an asker the answers of a part.
func hostileAnswers(t *testing.T, c part) {
	for _, a := range c.answers {
		t.Run(a.Name, func(t *testing.T) {
			sink := hostile.NewSink(t)
			s := a.Serve(t, sink, c.secure)
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			done := make(chan error, 1)
			runtime.GC()
			go func() { done <- c.ask(ctx, t, s) }()
			peak, err := await(t, done)
			if n, last := sink.Asked(); n > 0 && c.name != "a registry" {
				t.Errorf("another server was asked %d times: %s", n, last)
			} else if strings.Contains(last, "ecret") || strings.Contains(last, secretToken) {
				t.Errorf("another server was told: %s", last)
			}
			if peak > mostHeld {
				t.Errorf("it had %d MB", peak>>20)
			}
			if err != nil && (len(err.Error()) > 100_000 || strings.Contains(err.Error(), secretToken)) {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if c.name == "profile" && err != nil && strings.IndexFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
				t.Errorf("%q", err)
			}
		})
	}
}

// await waits for the end, and says how much memory there was on the way to it.
func await(t *testing.T, done chan error) (peak uint64, err error) {
	t.Helper()
	var m runtime.MemStats
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute) // it only guards against what never ends
	for {
		select {
		case err := <-done:
			return peak, err
		case <-tick.C:
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
		case <-end:
			t.Fatal("it does not end")
		}
	}
}

// TestRedirectedByAPod: a pod with an agent's label answers through the API server's proxy with a redirect, which the proxy passes on.
// No one else is asked, by audit, explain, exec or a log, and least of all with the user's token.
func TestRedirectedByAPod(t *testing.T) {
	const own = `"labels":{"app.kubernetes.io/name":"unthrottle-agent"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"unthrottle-agent","uid":"d-1","controller":true}]`
	sink := hostile.NewSink(t)
	asked := map[string]int{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+secretToken {
			t.Errorf("%s without the token", r.URL)
		}
		list := `{"kind":"List","apiVersion":"v1","metadata":{},"items":[%s]}`
		w.Header().Set("Content-Type", "application/json")
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/token"): // for agents alone; its own tests are package permit's
			io.WriteString(w, `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":"for agents"}}`)
		case strings.Contains(path, "/proxy/"), strings.HasSuffix(path, "/exec"):
			asked[path]++
			w.Header().Set("Location", sink.URL+"/stolen")
			w.WriteHeader(http.StatusFound)
		case path == "/apis":
			io.WriteString(w, `{"kind":"APIGroupList","groups":[{"name":"apps","preferredVersion":{"version":"v1"}}]}`)
		case path == "/apis/apps/v1/namespaces/unthrottle/daemonsets":
			fmt.Fprintf(w, list, `{"metadata":{"name":"unthrottle-agent","uid":"d-1"}}`)
		case path == "/api/v1/namespaces/unthrottle/pods":
			fmt.Fprintf(w, list, `{"metadata":{"name":"taken-over","namespace":"unthrottle",`+own+`},"spec":{"nodeName":"n1"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
		case path == "/api/v1/pods":
			fmt.Fprintf(w, list, `{"metadata":{"name":"friend","namespace":"tenant-evil",`+own+`},"spec":{"nodeName":"n1","containers":[{"ports":[{"name":"http","containerPort":9435}]}]},`+
				`"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
		case path == "/api/v1/namespaces/shop/pods/api":
			io.WriteString(w, `{"metadata":{"name":"api"},"spec":{"nodeName":"n1","containers":[{"name":"app"}]},"status":{"phase":"Running","containerStatuses":[{"name":"app","containerID":"containerd://77","state":{"running":{}}}]}}`)
		default:
			fmt.Fprintf(w, list, "")
		}
	}))
	defer server.Close()
	config := kubeconfigOf(t, server)
	run := func(args ...string) (code int, text string) {
		var out, errs bytes.Buffer
		code = Main(t.Context(), append(args, "--kubeconfig", config), func(string) string { return "" }, strings.NewReader(""), &out, &errs)
		return code, out.String() + errs.String()
	}
	const said = "answered with a redirect to "
	for _, c := range []struct {
		args  []string
		wants []string
	}{
		{[]string{"audit", "-n", "shop"}, []string{said + sink.URL + ": not followed", "taken-over in unthrottle, on node n1", "friend in tenant-evil: not asked"}},
		{[]string{"explain", "api", "--way", "agent"}, []string{said + sink.URL + ": not followed"}},
		{[]string{"explain", "api", "--way", "exec"}, []string{said + sink.URL + ": not followed"}},
		{[]string{"explain", "api", "--way", "agent", "--agents", "elsewhere"}, []string{"no agent of namespace elsewhere is ready on node n1"}},
	} {
		code, text := run(c.args...)
		for _, want := range c.wants {
			if code != 1 || !strings.Contains(text, want) {
				t.Errorf("%q: %d, lacks %q\n%s", c.args, code, want, text)
			}
		}
	}
	if n, last := sink.Asked(); n > 0 {
		t.Errorf("the sink was asked %d times: %s", n, last)
	}
	for path := range asked {
		if strings.Contains(path, "tenant-evil") {
			t.Errorf("%s was asked", path)
		}
	}
	if len(asked) < 2 {
		t.Errorf("asked %v", asked)
	}
}
