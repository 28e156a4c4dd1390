//go:build linux

package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// agentPort is where the fake agents listen: at an address that the API server's proxy takes. It refuses loopback.
const agentPort = 19435

// fakes are a thousand agents: each says what runs on its node, ten programs with everything there is to say about them. All have
// one address; a header from the API server's proxy says which one is wanted.
type fakes struct {
	asked       atomic.Int64
	misbehaving atomic.Bool // in each hundred one hangs, one lies, and one answers with 100 MB
}

// agents starts them, and makes the objects that they need.
func agents(t *testing.T, m *maker, uid func(pod string) string) *fakes {
	f := &fakes{}
	address := outside(t)
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, agentPort))
	if err != nil {
		t.Skipf("the fake agents can't listen: %v", err)
	}
	documents := make([]string, nodes)
	for n := range documents {
		documents[n] = agentSays(n, uid)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		if _, err := fmt.Sscanf(r.Header.Get("X-Forwarded-Uri"), "/api/v1/namespaces/unthrottle/pods/http:unthrottle-agent-%d:", &n); err != nil || n < 0 || n >= nodes {
			http.Error(w, "who is meant?", http.StatusBadRequest)
			return
		}
		f.asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !f.misbehaving.Load() || n%100 > 2:
			io.WriteString(w, documents[n])
		case n%100 == 0:
			<-r.Context().Done()
		case n%100 == 1:
			io.WriteString(w, strings.Replace(documents[n], `"cpus_used":0.7`, `"cpus_used":-7`, 1))
		default:
			io.WriteString(w, `{"version":1,"problems":["`)
			for range 100 {
				if _, err := io.WriteString(w, strings.Repeat("x", 1e6)); err != nil {
					return
				}
			}
		}
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	m.create("/api/v1/namespaces", `{"metadata":{"name":"unthrottle"}}`)
	owner := m.create("/apis/apps/v1/namespaces/unthrottle/daemonsets", `{"metadata":{"name":"unthrottle-agent","labels":{"app.kubernetes.io/name":"unthrottle-agent"}},`+
		`"spec":{"selector":{"matchLabels":{"no":"pods"}},"template":{"metadata":{"labels":{"no":"pods"}},"spec":{"nodeSelector":{"no":"node"},"containers":[{"name":"agent","image":"agent:1"}]}}}}`)
	m.all(nodes, func(n int) {
		name := fmt.Sprintf("unthrottle-agent-%d", n)
		m.create("/api/v1/namespaces/unthrottle/pods", fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"app.kubernetes.io/name":"unthrottle-agent"},`+
			`"ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"unthrottle-agent","uid":%q,"controller":true}]},"spec":{"nodeName":"node-%d","containers":[{"name":"agent","image":"agent:1","ports":[{"name":"http","containerPort":%d}]}]}}`, name, owner, n, agentPort))
		m.status("/api/v1/namespaces/unthrottle/pods/"+name+"/status", fmt.Sprintf(
			`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}],"conditions":[{"type":"Ready","status":"True"}]}}`, address, address))
	})
	return f
}

// outside is an address of this machine that is not loopback.
func outside(t *testing.T) string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			return ip.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback's, which the API server's proxy refuses")
	return ""
}

// agentSays is the document of a node: one program in each of its pods.
func agentSays(n int, uid func(pod string) string) string {
	d := result.Agent{Node: fmt.Sprintf("node-%d", n), Seconds: 10, Looked: 120, Problems: []string{}}
	d.Version, d.Verb = report.Version, "agent"
	for copy := range perOwner {
		pod := fmt.Sprintf("api-%d-5d8f7-%d", n, copy)
		p := result.AgentProcess{
			Container: &result.AgentContainer{
				Namespace: fmt.Sprintf("team-%d", n%40), Pod: pod, UID: uid(pod), Name: "app", Kind: "container", OwnerKind: "Deployment", Owner: fmt.Sprintf("api-%d", n),
				Image: fmt.Sprintf("registry.example.com/app-%d:1", n), Digest: "sha256:" + strings.Repeat("0123456789abcdef", 4), ID: strings.Repeat("0123456789abcdef", 4),
			},
			Levels: []result.AgentLevel{{Level: "container", Dir: "/sys/fs/cgroup/kubepods/burstable/pod" + uid(pod), Limit: new(1.5), Periods: 100, ThrottledPeriods: 60}},
			SetBy:  "default",
		}
		p.PID, p.Name, p.Command, p.GoVersion, p.GoLine, p.CPUs = 1000+copy, "app", []string{"/app", "--port=8080", "--config=/etc/app/config.yaml"}, "go1.24.3", "1.24 or later", 64
		p.GOMAXPROCS = report.PsGOMAXPROCS{Value: new(64), Expected: new(2), Why: "the CPUs that the affinity mask allows"}
		p.Limit = report.Limit{State: "limited", CPUs: new(1.5), From: p.Levels[0].Dir}
		p.CPU, p.Spinning, p.Share = new(0.7), new(1.2), new(0.6)
		p.Starvation, p.Frozen = &report.Starved{Running: 3, CPU: 0.7}, &report.Frozen{Share: 0.3}
		for _, rule := range []string{"too-many-ps", "limit-not-seen", "throttled"} {
			p.Findings = append(p.Findings, finding.Finding{
				Rule: rule, Verdict: rule, Severity: finding.Warning, Summary: "GOMAXPROCS is 64 under a limit of 1.5 CPUs",
				Evidence: []string{"set by the Go runtime, from the number of CPUs", "60 of 100 periods were throttled"}, Fix: "build with Go 1.25 or later, or set GOMAXPROCS=2",
			})
		}
		d.Processes = append(d.Processes, p)
	}
	data, _ := json.Marshal(d)
	return string(data)
}

// TestAudit: the cluster of TestCluster with an agent on each of its nodes, all asked through the API server's own proxy.
func TestAudit(t *testing.T) {
	asked(t)
	c := clustertest.Start(t, clustertest.Options{})
	m := newMaker(t, c)
	uids := m.cluster()
	f := agents(t, m, func(pod string) string { uid, _ := uids.Load(pod); return fmt.Sprint(uid) })
	program := build(t)
	env := []string{"KUBECONFIG=" + c.Kubeconfig}
	measure(t, "audit -A --agents none", "", env, program, "audit", "-A", "--agents", "none")
	before := m.requests()
	f.asked.Store(0)
	got := measure(t, "audit -A", "", env, program, "audit", "-A")
	calls := (m.requests() - before) / int64(*times)
	t.Logf("%d requests to the API server and %d to agents in a run", calls, f.asked.Load()/int64(*times))
	if f.asked.Load() != int64(*times*nodes) {
		t.Errorf("%d requests to agents in %d runs", f.asked.Load(), *times)
	}
	if got.memory > 150e6 {
		t.Errorf("%d MB", got.memory/1e6)
	}
	f.misbehaving.Store(true)
	got = measure(t, "audit -A, 3 of 100 agents misbehave", "", env, program, "audit", "-A")
	t.Log(got.text)
	if got.memory > 150e6 {
		t.Errorf("%d MB", got.memory/1e6)
	}
}

// status sets an object's status.
func (m *maker) status(path, object string) { m.send(http.MethodPatch, path, object) }

// requests is how many requests the API server has been sent.
func (m *maker) requests() (n int64) {
	data := m.send(http.MethodGet, "/metrics", "")
	for line := range strings.Lines(string(data)) {
		var one float64
		if i := strings.LastIndexByte(line, ' '); strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `verb="`) {
			if _, err := fmt.Sscan(line[i+1:], &one); err == nil && !strings.Contains(line, `resource="leases"`) {
				n += int64(one)
			}
		}
	}
	return n
}
