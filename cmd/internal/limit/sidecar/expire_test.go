package sidecar

import (
	"bytes"
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWait: as long as the Job is there nothing is deleted, regardless of what else goes wrong; then the namespace is.
func TestWait(t *testing.T) {
	answers := []int{200, 500, 403, 200, 404, 500, 404, 202}
	var asked []string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("the token is %q", got)
		}
		asked = append(asked, r.Method+" "+r.URL.Path)
		if len(asked) > len(answers) {
			t.Errorf("it goes on after its end")
			return
		}
		w.WriteHeader(answers[len(asked)-1])
	}))
	defer s.Close()
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	for name, text := range map[string][]byte{"ca.crt": ca, "token": []byte("secret\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u, _ := url.Parse(s.URL)
	host, port, _ := net.SplitHostPort(u.Host)
	env := map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
	var log bytes.Buffer
	o := Expiry{Namespace: "unthrottle-tune-x", Owner: "study", Every: time.Millisecond, Dir: dir, Log: &log, Env: func(n string) string { return env[n] }}
	if err := Expire(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	get, del := "GET /apis/batch/v1/namespaces/unthrottle-tune-x/jobs/study", "DELETE /api/v1/namespaces/unthrottle-tune-x"
	if want := []string{get, get, get, get, get, del, get, del}; !slices.Equal(asked, want) {
		t.Errorf("it asked %q\nwant %q", asked, want)
	}
	for _, want := range []string{"500 Internal Server Error", "403 Forbidden"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log is %q, want %q in it", log.String(), want)
		}
	}
	for name, o := range map[string]Expiry{"no names": {Env: o.Env}, "no pod": {Namespace: "a", Owner: "b", Env: func(string) string { return "" }}} {
		if err := Expire(context.Background(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Expire(ctx, o); err != nil {
		t.Errorf("ended from outside: %v", err)
	}
}
