package permit_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/install"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/permit"
)

// TestCluster asks a guard that has the agents' rights, by what install puts there: through the API server's proxy and directly.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts an API server")
	}
	c := clustertest.Start(t, clustertest.Options{})
	objects, err := install.Objects(install.Options{Namespace: "watch"})
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, o := range objects {
		data, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	c.Must(t, all.String(), "apply", "--server-side", "-f", "-")
	for _, name := range []string{"auditor", "half", "prometheus", "nobody"} {
		c.Must(t, "", "create", "serviceaccount", name)
	}
	c.Must(t, "", "create", "rolebinding", "auditor", "-n", "watch", "--role=unthrottle-audit", "--serviceaccount=default:auditor")
	c.Must(t, "", "create", "role", "half", "-n", "watch", "--verb=get", "--resource=pods/proxy")
	c.Must(t, "", "create", "rolebinding", "half", "-n", "watch", "--role=half", "--serviceaccount=default:half")
	c.Must(t, "", "create", "clusterrole", "metrics", "--verb=get", "--non-resource-url=/metrics")
	c.Must(t, "", "create", "clusterrolebinding", "metrics", "--clusterrole=metrics", "--serviceaccount=default:prometheus")

	token := func(namespace, name string, args ...string) string {
		t.Helper()
		return c.Must(t, "", append([]string{"create", "token", name, "-n", namespace}, args...)...)
	}
	// as is a kubeconfig of a token.
	as := func(token string) cluster.Options {
		t.Helper()
		data, err := os.ReadFile(c.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(data), c.Token, token)), 0o600); err != nil {
			t.Fatal(err)
		}
		return cluster.Options{Kubeconfig: file, Timeout: time.Minute}
	}
	place, err := cluster.Locate(as(token("watch", "unthrottle-agent")))
	if err != nil {
		t.Fatal(err)
	}
	client, err := place.Client()
	if err != nil {
		t.Fatal(err)
	}
	guard := permit.New(client, slog.New(slog.DiscardHandler))
	mux := http.NewServeMux()
	for path, right := range map[string]string{"/metrics": "/metrics", "/api/v1/processes": "/unthrottle/processes"} {
		mux.Handle(path, guard.For(right, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "told") })))
	}
	seen := make(chan http.Header, 100)
	l, err := net.Listen("tcp", net.JoinHostPort(outside(t), "0"))
	if err != nil {
		t.Skipf("no agent can listen: %v", err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Clone()
		mux.ServeHTTP(w, r)
	})}}
	s.StartTLS()
	t.Cleanup(s.Close)
	host, port, _ := net.SplitHostPort(l.Addr().String())
	c.Must(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"agent","namespace":"watch"},"spec":{"nodeName":"n","hostNetwork":true,"hostPID":true,"containers":[{"name":"agent","image":"a"}]}}`, "create", "-f", "-")
	c.Must(t, "", "patch", "pod", "agent", "-n", "watch", "--subresource=status", "--type=merge", "-p", fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}]}}`, host, host))

	through := func(o cluster.Options) (string, error) {
		t.Helper()
		access, err := cluster.Open(o, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		body, err := access.Get(t.Context(), "/api/v1/namespaces/watch/pods/https:agent:"+port+"/proxy/api/v1/processes", nil, time.Minute)
		if err != nil {
			return "", err
		}
		defer body.Close()
		text, err := io.ReadAll(body)
		return string(text), err
	}
	auditor := token("default", "auditor")
	clustertest.WaitFor(t, time.Minute, func() error { // the API server follows roles in its own time
		if text, err := through(as(auditor)); err != nil || text != "told" {
			return fmt.Errorf("one who audits: %q, %w", text, err)
		}
		return nil
	})
	for len(seen) > 0 {
		h := <-seen
		if text := fmt.Sprint(h); strings.Contains(text, auditor) || strings.Contains(text, c.Token) || h.Get("Authorization") != "" {
			t.Errorf("the user's own token comes to a pod: %v", h)
		}
		if h.Get(permit.Header) == "" {
			t.Errorf("no token for the agents: %v", h)
		}
	}
	_, err = through(as(token("default", "half")))
	if why, _ := cluster.Reason(err); !cluster.Forbidden(err) || !strings.Contains(why, "serviceaccounts/token") {
		t.Errorf("one who may not make a token: %v, %s", err, why)
	}

	direct := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer direct.CloseIdleConnections()
	for _, who := range []struct {
		name, token, path string
		want              int
	}{
		{"nobody", "", "/metrics", 401},
		{"no token", "x", "/metrics", 401},
		{"Prometheus", token("default", "prometheus"), "/metrics", 200},
		{"Prometheus, by a token for agents alone", token("default", "prometheus", "--audience="+permit.Audience), "/metrics", 200},
		{"Prometheus, by one for others", token("default", "prometheus", "--audience=vault"), "/metrics", 401},
		{"Prometheus, elsewhere", token("default", "prometheus"), "/api/v1/processes", 403},
		{"another", token("default", "nobody"), "/metrics", 403},
		{"another, of what lies below /api", token("default", "nobody"), "/api/v1/processes", 403},
		{"a reader", token("watch", permit.Reader, "--audience="+permit.Audience), "/api/v1/processes", 200},
		{"an administrator", c.Token, "/api/v1/processes", 200},
	} {
		r, _ := http.NewRequest(http.MethodGet, s.URL+who.path, nil)
		if who.token != "" {
			r.Header.Set("Authorization", "Bearer "+who.token)
		}
		answer, err := direct.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != who.want {
			t.Errorf("%s: %d %s, want %d", who.name, answer.StatusCode, text, who.want)
		}
	}
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
