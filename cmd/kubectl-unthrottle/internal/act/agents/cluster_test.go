package agents

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/process/hostile"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
)

// TestProxy: agents are found by a real API server and asked through its proxy, which has its own ways to say no.
func TestProxy(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts an API server")
	}
	c := clustertest.Start(t, clustertest.Options{})
	l, err := net.Listen("tcp", net.JoinHostPort(outside(t), "0"))
	if err != nil {
		t.Skipf("no agent can listen: %v", err)
	}
	sink := hostile.NewSink(t)
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch name := r.Header.Get("X-Forwarded-Uri"); {
		case r.URL.Path != "/api/v1/processes":
			http.NotFound(w, r)
		case strings.Contains(name, "/http:hangs:"):
			<-r.Context().Done()
		case strings.Contains(name, "/http:large:"):
			for range 100 {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1e6)); err != nil {
					return
				}
			}
		case strings.Contains(name, "/http:leads:"):
			http.Redirect(w, r, sink.URL+"/stolen", http.StatusFound)
		default:
			io.WriteString(w, document("node-1", 3))
		}
	})}}
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	host, port, _ := net.SplitHostPort(l.Addr().String())
	const owner = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: unthrottle-agent, namespace: default, labels: {app.kubernetes.io/name: unthrottle-agent}}
spec:
  selector: {matchLabels: {no: pods}}
  template:
    metadata: {labels: {no: pods}}
    spec: {nodeSelector: {no: node}, containers: [{name: agent, image: "agent:1"}]}
`
	c.Must(t, owner, "create", "-f", "-")
	uid := c.Must(t, "", "get", "daemonset", "unthrottle-agent", "-o", "jsonpath={.metadata.uid}")
	manifest, statuses := "", map[string]string{}
	for name, ip := range map[string]string{"good": host, "hangs": host, "large": host, "leads": host, "loopback": "127.0.0.1", "pending": ""} {
		manifest += fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata:
  name: %s
  namespace: default
  labels: {app.kubernetes.io/name: unthrottle-agent}
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: unthrottle-agent, uid: %s, controller: true}]
spec:
  serviceAccountName: default
  nodeName: node-1
  containers: [{name: agent, image: "agent:1", ports: [{name: http, containerPort: %s}]}]
`, name, uid, port)
		if ip != "" {
			statuses[name] = fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}],"conditions":[{"type":"Ready","status":"True"}]}}`, ip, ip)
		}
	}
	c.Must(t, manifest, "create", "-f", "-")
	for name, status := range statuses {
		c.Must(t, "", "patch", "pod", name, "--subresource=status", "--type=merge", "-p", status)
	}
	access, err := cluster.Open(cluster.Options{Kubeconfig: c.Kubeconfig}, 1e6)
	if err != nil {
		t.Fatal(err)
	}
	search := Search{Namespace: "default", Within: time.Minute}
	found, err := Find(t.Context(), access, search)
	all := found.Agents
	if err != nil || len(all) != 6 {
		t.Fatalf("%v, %+v", err, found)
	}
	got := map[string]string{}
	programs := 0
	Read(t.Context(), access, all, Options{Within: 3 * time.Second}, func(string, audit.Program) audit.Outcome { programs++; return audit.Taken }, func(x *Answer) {
		got[x.Pod] = fmt.Sprint(x.Err)
	})
	for name, want := range map[string]string{
		"leads": "answered with a redirect to " + sink.URL + ": not followed",
		"good":  "<nil>", "hangs": "deadline exceeded", "large": cluster.ErrTooLarge.Error(), "loopback": "not allowed", "pending": ErrNotReady.Error(),
	} {
		if !strings.Contains(got[name], want) {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
	if n, last := sink.Asked(); n > 0 {
		t.Errorf("the sink was asked %d times: %s", n, last)
	}
	if programs != 3 {
		t.Errorf("%d programs", programs)
	}

	// A user who may read pods but not reach into them.
	for _, args := range [][]string{
		{"create", "clusterrole", "reader", "--verb=list", "--resource=pods,daemonsets.apps"},
		{"create", "clusterrolebinding", "reader", "--clusterrole=reader", "--user=reader"},
	} {
		c.Must(t, "", args...)
	}
	data, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	as := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(as, []byte(strings.Replace(string(data), "token:", "as: reader, token:", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if access, err = cluster.Open(cluster.Options{Kubeconfig: as}, 1e6); err != nil {
		t.Fatal(err)
	}
	if found, err = Find(t.Context(), access, search); err != nil || len(found.Agents) != 6 {
		t.Fatalf("%v, %+v", err, found)
	}
	Read(t.Context(), access, all[:1], Options{}, nil, func(x *Answer) {
		if why, _ := cluster.Reason(x.Err); !cluster.Forbidden(x.Err) || !strings.Contains(why, `resource "pods/proxy"`) {
			t.Errorf("%s: %v", x, x.Err)
		}
	})
}

// outside is an address of this machine that is not loopback: the API server's proxy refuses that.
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
	t.Skip("this machine has no address but loopback's")
	return ""
}
