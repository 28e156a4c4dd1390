package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
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

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// TestDeclared: a caller that only says that a review is large, or sends most of one and waits, takes nothing from small ones.
func TestDeclared(t *testing.T) {
	server := httptest.NewServer(New(Options{Mode: Fix}))
	defer server.Close()
	review := reviewOf(t, nil, podWith(t, fromNode, ""), nil)
	post := func() string {
		t.Helper()
		r, err := http.Post(server.URL+MutatePath, "application/json", bytes.NewReader(review))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, sent := range []int{0, 3<<20 - 100} {
		for range 4 {
			c, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", MutatePath, 3<<20)
			_ = c.SetWriteDeadline(time.Now().Add(2 * time.Second)) // what is not taken is not read either
			_, _ = c.Write(bytes.Repeat([]byte(" "), sent))
		}
		for range 3 {
			if text := post(); !strings.Contains(text, `"patchType":"JSONPatch"`) {
				t.Errorf("beside four that sent %d bytes of 3 MiB: %s", sent, text)
			}
		}
	}
}

// A body counts as it is read: one that declares 3 MiB and has sent nothing holds nothing.
func TestHeld(t *testing.T) {
	h := New(Options{})
	in, out := io.Pipe()
	r := httptest.NewRequest(http.MethodPost, MutatePath, in)
	r.ContentLength = 3 << 20
	held := make(chan int64)
	go func() {
		for _, n := range []int{60 << 10, 100 << 10} {
			out.Write(make([]byte, n))
			held <- h.bodies.Load()
		}
		out.CloseWithError(io.ErrUnexpectedEOF)
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, release, err := h.read(r)
		if err == nil {
			t.Error("no error of a body that broke off")
		}
		release()
	}()
	if n := <-held; n != 0 {
		t.Errorf("60 KiB hold %d", n)
	}
	if n := <-held; n < 90<<10 || n > 512<<10 {
		t.Errorf("160 KiB hold %d", n)
	}
	<-done
	if n := h.bodies.Load(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// manyContainers is a pod of n containers, each with a repair to be made.
func manyContainers(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"c%d","image":"x","env":[{"name":"GOMAXPROCS","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"1m"}}}],"resources":{"limits":{"cpu":"250m"}}}`, i)
	}
	b.WriteString("]}}")
	return []byte(b.String())
}

// repeated is a pod with one variable n times, all of which must go.
func repeated(n int) []byte {
	entry := `{"name":"GOMAXPROCS","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}}`
	return []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"x","env":[` +
		strings.Repeat(entry+",", n-1) + entry + `]}]}}`)
}

// TestLinear compares what a review allocates with what one of twice the size does.
func TestLinear(t *testing.T) {
	for name, c := range map[string]struct {
		pod func(int) []byte
		n   int
	}{"containers": {manyContainers, 450}, "one variable": {repeated, 4000}} {
		h := New(Options{Mode: Fix})
		cost := func(n int) float64 {
			body := reviewOf(t, nil, c.pod(n), nil)
			return bytesOf(t, func() {
				if r := ask(t, h, MutatePath, body); len(r.Patch) == 0 {
					t.Fatalf("%s: %d are not repaired: %q", name, n, r.Warnings)
				}
			})
		}
		cost(c.n)
		once, twice := cost(c.n), cost(2*c.n)
		if ratio := twice / once; ratio > 3 {
			t.Errorf("%s: twice the pod costs %.1f times the memory: %.0f and %.0f bytes", name, ratio, once, twice)
		}
	}
	// The lines and letters of a live object are not counted.
	_, w, err := readPod(t.Context(), manyContainers(3))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range w.Pod.Containers {
		for _, at := range []workload.Position{w.At, w.Pod.At, c.At, c.LimitAt, c.Env[0].At, c.Env[0].DivisorAt} {
			if at.Line != 0 || at.Offset != 0 || at.File != "" {
				t.Errorf("a place in it was worked out: %+v", at)
			}
		}
	}
}

func bytesOf(t *testing.T, f func()) float64 {
	t.Helper()
	r := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f()
		}
	})
	return float64(r.AllocedBytesPerOp())
}

// TestDoublings: values that are put into values are too long to be made. The pod passes without a word, and costs what others cost.
func TestDoublings(t *testing.T) {
	container := func(limit string) string {
		var b strings.Builder
		b.WriteString("resources: {limits: {cpu: " + limit + "}}\nenv:\n- {name: V0, value: \"1\"}\n")
		for i := 1; i <= 60; i++ {
			fmt.Fprintf(&b, "- {name: V%d, value: $(V%d)$(V%d)}\n", i, i-1, i-1)
		}
		b.WriteString("- {name: GOMAXPROCS, value: $(V60)}")
		return b.String()
	}
	h := New(Options{Mode: Fix})
	one, two := podWith(t, container("1"), ""), podWith(t, container("2"), "")
	const most = 4 << 20 // the value would have an exabyte; a review of this takes up to 650 KB
	for name, c := range map[string]struct {
		path string
		body []byte
		want string // of a warning
	}{
		"made":    {MutatePath, reviewOf(t, nil, two, nil), ""},
		"resized": {ResizePath, reviewOf(t, resizing, two, one), "stays what it was at its start"},
	} {
		var r response
		if bytes := bytesOf(t, func() { r = ask(t, h, c.path, c.body) }); bytes > most {
			t.Errorf("%s: %.0f bytes", name, bytes)
		}
		if len(r.Patch) > 0 || (c.want == "") != (len(r.Warnings) == 0) || !strings.Contains(strings.Join(r.Warnings, "\n"), c.want) {
			t.Errorf("%s: %s, %q", name, r.Patch, r.Warnings)
		}
	}
}

// TestMost sends what no pod has: it passes unread, and its uid is answered.
func TestMost(t *testing.T) {
	h := New(Options{Mode: Fix})
	padding := podWith(t, fromNode+"\nargs: ["+strings.Repeat("a", mostPod)+"]", "")
	for want, pod := range map[string][]byte{
		"the pod has more than 1000 containers": manyContainers(1001), "the pod has more than 1572864 bytes": padding,
	} {
		r := ask(t, h, MutatePath, reviewOf(t, nil, pod, nil))
		if r.UID != "0815" || len(r.Patch) > 0 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], want) {
			t.Errorf("%+v, want %q", r, want)
		}
	}
	if r := ask(t, h, MutatePath, reviewOf(t, nil, manyContainers(1000), nil)); len(r.Patch) == 0 {
		t.Errorf("1000 containers: %q", r.Warnings)
	}
}

// TestLate is a review that is no longer waited for, at each of its steps.
func TestLate(t *testing.T) {
	h := New(Options{Mode: Fix})
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for path, body := range map[string][]byte{
		MutatePath: reviewOf(t, nil, podWith(t, fromNode, ""), nil),
		ResizePath: reviewOf(t, resizing, podWith(t, limited("2", "1"), ""), podWith(t, limited("1", "1"), "")),
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(late, http.MethodPost, path, bytes.NewReader(body)))
		if text := w.Body.String(); !strings.Contains(text, `"uid":"0815","allowed":true`) || !strings.Contains(text, "there was no time for it") {
			t.Errorf("%s: %s", path, text)
		}
	}
	for query, want := range map[string]time.Duration{
		"": mostTime, "?timeout=1s": time.Second, "?timeout=500ms": time.Second / 2, "?timeout=30s": mostTime, "?timeout=-1s": mostTime, "?timeout=x": mostTime,
	} {
		if got := timeFor(httptest.NewRequest(http.MethodPost, MutatePath+query, nil)); got != want {
			t.Errorf("%q: %v", query, got)
		}
	}
	// All turns are taken by others.
	for range mostSmall {
		h.turns <- struct{}{}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, MutatePath+"?timeout=10ms", bytes.NewReader(reviewOf(t, nil, podWith(t, fromNode, ""), nil))))
	if text := w.Body.String(); !strings.Contains(text, "there was no time for it") {
		t.Errorf("without a turn: %s", text)
	}
}

// TestCallers asks for a certificate of an authority, and for a name.
func TestCallers(t *testing.T) {
	mine, other := &shown{}, &shown{}
	mine.show(t, 1, time.Now().Add(time.Hour))
	other.show(t, 2, time.Now().Add(time.Hour))
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(s *shown) {
		t.Helper()
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Certificate[0]}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(mine)
	for _, c := range []struct {
		name  string
		names []string
		show  *shown
		want  bool
	}{
		{"its own", nil, mine, true},
		{"none", nil, nil, false},
		{"another's", nil, other, false},
		{"another name", []string{"kube-apiserver"}, mine, false},
		{"its name", []string{"", "kube-apiserver"}, mine, true},
	} {
		callers := &Callers{File: file, Names: c.names, Log: slog.New(slog.DiscardHandler)}
		if err := callers.Load(); err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(New(Options{Mode: Fix}))
		server.TLS = callers.ask(&tls.Config{Certificates: []tls.Certificate{*other.Certificate()}})
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
		server.StartTLS()
		config := &tls.Config{InsecureSkipVerify: true}
		if c.show != nil {
			config.Certificates = []tls.Certificate{*c.show.Certificate()}
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
		r, err := client.Post(server.URL+MutatePath, "application/json", bytes.NewReader(reviewOf(t, nil, podWith(t, fromNode, ""), nil)))
		if err == nil {
			r.Body.Close()
		}
		if (err == nil) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
		client.CloseIdleConnections()
		server.Close()
	}
	callers := &Callers{File: file, Log: slog.New(slog.DiscardHandler)}
	if err := callers.Load(); err != nil {
		t.Fatal(err)
	}
	trusts := func(s *shown) bool {
		callers.loaded = time.Time{}
		_, err := s.Certificate().Leaf.Verify(x509.VerifyOptions{Roots: callers.current(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		return err == nil
	}
	write(other)
	if !trusts(other) || trusts(mine) {
		t.Error("the file's new authority is not taken")
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !trusts(other) {
		t.Error("an empty file takes the authority away")
	}
	if err := callers.Load(); err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("an empty file: %v", err)
	}
}
