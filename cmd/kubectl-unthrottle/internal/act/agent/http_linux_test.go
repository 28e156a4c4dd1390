package agent

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// A running scan of this machine answers all that is asked.
func TestHTTP(t *testing.T) {
	a := New(Options{Node: "node1", Interval: time.Minute, For: 100 * time.Millisecond, MaxContainers: 10})
	h, probes := a.Handler(), a.Probes()
	for path, want := range map[string]int{"/readyz": 503, "/healthz": 200, "/metrics": 404, "/": 404} {
		if code, body := get(t, probes, path); code != want {
			t.Errorf("before the first scan the probe %s gives %d: %s", path, code, body)
		}
	}
	for path, want := range map[string]int{
		"/readyz": 404, "/healthz": 404, "/api/v1/processes": 503, "/metrics": 200, "/": 404, "/debug/pprof/": 404, "/api/v1/watch?pid=1": 404,
	} {
		if code, body := get(t, h, path); code != want {
			t.Errorf("before the first scan %s gives %d: %s", path, code, body)
		}
	}
	cmd := exec.Command("sleep", "100") // it isn't a Go program
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if _, err := a.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	code, body := get(t, h, "/api/v1/processes")
	var doc result.Agent
	if err := json.Unmarshal([]byte(body), &doc); err != nil || code != 200 {
		t.Fatalf("%d, %v: %s", code, err, body)
	}
	if doc.Node != "node1" || doc.Version != report.Version || doc.Verb != "agent" || doc.Looked == 0 || len(doc.Problems) == 0 {
		t.Errorf("%+v", doc)
	}
	for path, want := range map[string]int{
		"/api/v1/explain": 400, "/api/v1/explain?pid=x": 400, "/api/v1/explain?pid=-1": 400, "/api/v1/explain?pid=1": 404,
		"/api/v1/explain?pid=99999999": 404,
	} {
		if code, body := get(t, h, path); code != want || code >= 400 && !strings.Contains(body, "/api/v1/processes") {
			t.Errorf("%s gives %d: %s", path, code, body)
		}
	}
	if code, body := get(t, probes, "/readyz"); code != 200 {
		t.Errorf("/readyz gives %d: %s", code, body)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/api/v1/processes", nil))
	if w.Code != 405 {
		t.Errorf("POST gives %d", w.Code)
	}
	if code, _ := get(t, New(Options{PProf: true}).Handler(), "/debug/pprof/"); code != 200 {
		t.Errorf("--pprof gives %d", code)
	}
}

// No more requests are answered at a time than there is room for.
func TestBusy(t *testing.T) {
	hold, started := make(chan struct{}), make(chan struct{})
	h := atMost(make(chan struct{}, 1), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(started)
		<-hold
	}))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}()
	<-started
	if code, _ := get(t, h, "/"); code != http.StatusServiceUnavailable {
		t.Errorf("a second one gets %d", code)
	}
	close(hold)
	<-ended
}

// The server ends when it should, even while a slow client holds a connection.
func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	probes, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := New(Options{Node: "node1", Interval: time.Second, For: 100 * time.Millisecond, MaxContainers: 10})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx, l, probes) }()
	slow, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	io.WriteString(slow, "GET /metrics HT")
	for a.Latest() == nil {
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	answer, err := http.Get("http://" + probes.Addr().String() + "/readyz")
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("%v, %v", answer, err)
	}
	answer.Body.Close()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}
