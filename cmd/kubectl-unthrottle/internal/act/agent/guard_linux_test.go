package agent

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/certs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/permit"
)

// Each path of the agent asks for a right of its own, by a name that no role of Kubernetes' own grants to everyone.
func TestRights(t *testing.T) {
	rights := make(chan string, 100)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Kind string
			Spec struct {
				NonResourceAttributes struct{ Path string }
			}
		}
		json.NewDecoder(r.Body).Decode(&in)
		w.Header().Set("Content-Type", "application/json")
		if in.Kind == "TokenReview" {
			io.WriteString(w, `{"status":{"authenticated":true,"user":{"username":"a"}}}`)
			return
		}
		rights <- in.Spec.NonResourceAttributes.Path
		io.WriteString(w, `{"status":{"allowed":true}}`)
	}))
	defer api.Close()
	config := &rest.Config{Host: api.URL}
	cluster.Prepare(config, time.Minute)
	client, err := cluster.Place{Config: config}.Client()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	own := &certs.Own{Name: "unthrottle-agent", Log: log}
	if err := own.Load(); err != nil {
		t.Fatal(err)
	}
	a := New(Options{
		Node: "node1", Interval: time.Minute, For: 100 * time.Millisecond, MaxContainers: 10, PProf: true, Log: log,
		Guard: permit.New(client, log), Certificate: own,
	})
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l, probes := listen(), listen()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx, l, probes) }()
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	defer c.CloseIdleConnections()
	ask := func(path, token string) (int, string) {
		t.Helper()
		r, _ := http.NewRequest(http.MethodGet, "https://"+l.Addr().String()+path, nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		if answer.ProtoMajor != 1 {
			t.Errorf("%s by %s", path, answer.Proto)
		}
		return answer.StatusCode, string(text)
	}
	for path, want := range map[string]string{
		"/metrics": "/metrics", "/api/v1/processes": "/unthrottle/processes", "/api/v1/explain?pid=1": "/unthrottle/explain",
		"/debug/pprof/": "/debug/pprof", "/debug/pprof/heap": "/debug/pprof",
	} {
		if code, text := ask(path, ""); code != http.StatusUnauthorized || strings.Contains(text, "unthrottle_container") {
			t.Errorf("%s without a token: %d %s", path, code, text)
		}
		if code, _ := ask(path, "t"); code == http.StatusUnauthorized || code == http.StatusForbidden {
			t.Errorf("%s with one: %d", path, code)
		}
		select {
		case got := <-rights:
			if got != want {
				t.Errorf("%s asks for the right to %s, want %s", path, got, want)
			}
		default: // it is remembered, of another path of the same name
			if want != "/debug/pprof" {
				t.Errorf("%s asks for no right", path)
			}
		}
	}
	if r, err := http.Get("http://" + l.Addr().String() + "/metrics"); err == nil && r.StatusCode == http.StatusOK {
		t.Error("without TLS it answers")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
