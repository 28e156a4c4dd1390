package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// serve starts a server of its own for a test.
func serve(t *testing.T, o Options) (*Server, *httptest.Server) {
	t.Helper()
	s := New(o)
	s.rounds = func() float64 { return 1e8 } // a tenth of the real work or so
	server := httptest.NewServer(s.handler)
	t.Cleanup(func() {
		s.close()
		s.dial.end()
		s.watch.end()
		server.Close()
	})
	return s, server
}

// keepProcs puts GOMAXPROCS back when the test ends.
func keepProcs(t *testing.T) {
	t.Helper()
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// ask sends a request and returns the status and the answer.
func ask(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, strings.TrimSpace(string(data))
}

func TestRequests(t *testing.T) {
	keepProcs(t)
	_, server := serve(t, Options{MaxN: 1000, MaxProcs: 64, MaxCPU: time.Second, MaxAlloc: 1 << 20, MaxRate: 100})
	tests := []struct {
		method, path, body string
		status             int
		want               string // within the answer
	}{
		{"GET", "/healthz", "", 200, "ok"},
		{"GET", "/", "", 200, "<!DOCTYPE html>"},
		{"GET", "/page.js", "", 200, "EventSource"},
		{"GET", "/page.css", "", 200, "--paper"},
		{"GET", "/icon.svg", "", 200, "<svg"},
		{"GET", "/nothing", "", 404, ""},

		{"POST", "/maxProcs/3", "", 200, `"new":3`},
		{"GET", "/maxProcs", "", 200, `{"gomaxprocs":3}`},
		{"POST", "/maxProcs/2", "", 200, `{"new":2,"old":3}`},
		{"POST", "/maxProcs/0", "", 400, "GOMAXPROCS: 0 is not between 1 and 64"},
		{"POST", "/maxProcs/65", "", 400, "not between 1 and 64"},
		{"POST", "/maxProcs/-1", "", 400, "not between"},
		{"POST", "/maxProcs/two", "", 400, `\"two\" is not a whole number`},
		{"POST", "/maxProcs/1.5", "", 400, "not a whole number"},
		{"POST", "/maxProcs/99999999999999999999", "", 400, "not a whole number from 1 to 64"},
		{"POST", "/maxProcs", "", 405, ""},
		{"GET", "/maxProcs/2", "", 405, ""},
		{"PUT", "/maxProcs/2", "", 405, ""},

		{"GET", "/isPrime/7", "", 200, `{"n":7,"prime":true}`},
		{"GET", "/isPrime/666", "", 200, `{"n":666,"prime":false}`},
		{"GET", "/isPrime/0", "", 200, `"prime":false`},
		{"GET", "/isPrime/1", "", 200, `"prime":false`},
		{"GET", "/isPrime/2", "", 200, `"prime":true`},
		{"GET", "/isPrime/-7", "", 400, "not between"},
		{"GET", "/isPrime/1001", "", 400, "not between 0 and 1000"},
		{"GET", "/isPrime/x", "", 400, "not a whole number"},
		{"GET", "/isPrime", "", 404, ""},
		{"POST", "/isPrime/7", "", 405, ""},

		{"GET", "/work", "", 200, `{"cpu_seconds":0.005,"alloc_bytes":0}`},
		{"GET", "/work?cpu=0", "", 200, `{"cpu_seconds":0,`},
		{"GET", "/work?cpu=100us&alloc=64k", "", 200, `{"cpu_seconds":0.0001,"alloc_bytes":65536}`},
		{"GET", "/work?alloc=1M&cpu=0", "", 200, `"alloc_bytes":1048576`},
		{"GET", "/work?cpu=5", "", 400, "not a duration such as 5ms"},
		{"GET", "/work?cpu=-5ms", "", 400, "not between 0 and 1s"},
		{"GET", "/work?cpu=1001ms", "", 400, "not between"},
		{"GET", "/work?cpu=1ms&cpu=2ms", "", 400, "cpu: given 2 times"},
		{"GET", "/work?alloc=2m", "", 400, "alloc: 2m is more than 1048576 bytes"},
		{"GET", "/work?alloc=9223372036854775807m", "", 400, "more than"},
		{"GET", "/work?alloc=-1", "", 400, "not a number of bytes"},
		{"GET", "/work?alloc=k", "", 400, "not a number of bytes"},
		{"GET", "/work?mem=1", "", 400, `\"mem\" is not known`},
		{"GET", "/work?cpu=%zz", "", 400, "invalid URL escape"},
		{"POST", "/work", "", 405, ""},

		{"GET", "/load", "", 200, `{"load":null,"note":""}`},
		{"POST", "/load", "", 400, "EOF"},
		{"POST", "/load", `{"rate":"many"}`, 400, "load: want"},
		{"POST", "/load", `{"rate":1,"path":"/work","speed":1}`, 400, "unknown field"},
		{"POST", "/load", `{"rate":-1,"path":"/work"}`, 400, "rate: -1 is not between 0 and 100"},
		{"POST", "/load", `{"rate":101,"path":"/work"}`, 400, "rate: 101"},
		{"POST", "/load", `{"rate":1}`, 400, "not a path"},
		{"POST", "/load", `{"rate":1,"path":"/maxProcs/1"}`, 400, "neither /work nor /isPrime/N"},
		{"POST", "/load", `{"rate":1,"path":"//elsewhere.example/work"}`, 400, "path"},
		{"POST", "/load", `{"rate":1,"path":"http://elsewhere.example/work"}`, 400, "not a path"},
		{"POST", "/load", `{"rate":1,"path":"/work?cpu=1h"}`, 400, "cpu: 1h0m0s is not between"},
		{"POST", "/load", `{"rate":1,"path":"/isPrime/1001"}`, 400, "n: 1001"},
		{"POST", "/load", `{"rate":1,"path":"` + strings.Repeat("/", 5000) + `"}`, 400, "too large"},
		{"POST", "/load", `{"rate":0}`, 200, `{"rate":0,"path":""}`},
		{"PUT", "/load", "", 405, ""},

		{"GET", "/metrics", "", 200, "go_sched_gomaxprocs_threads 2\n"},
		{"GET", "/debug/pprof/", "", 200, "goroutine"},
		{"GET", "/debug/pprof/goroutine?debug=1", "", 200, "goroutine profile:"},
		{"GET", "/debug/pprof/profile?seconds=31", "", 400, "seconds: 31 is not between 1 and 30"},
		{"GET", "/debug/pprof/heap?seconds=0", "", 400, "seconds: 0"},
		{"GET", "/debug/trace?seconds=x", "", 400, "seconds"},
		{"GET", "/debug/trace?seconds=31", "", 400, "seconds: 31"},
		{"GET", "/debug/pprof/trace?seconds=31", "", 400, "seconds: 31"},
	}
	for _, test := range tests {
		status, text := ask(t, test.method, server.URL+test.path, test.body)
		if status != test.status || !strings.Contains(text, test.want) {
			t.Errorf("%s %s %.60s: %d %.300q, want %d with %q", test.method, test.path, test.body, status, text, test.status, test.want)
		}
	}
}

// Other websites, and names that they may have pointed here, are refused.
func TestGuard(t *testing.T) {
	keepProcs(t)
	_, server := serve(t, Options{Hosts: []string{"demo.example"}})
	own := server.URL
	port := own[strings.LastIndex(own, ":"):]
	tests := []struct {
		name, method, path string
		header             []string
		status             int
	}{
		{"no browser", "POST", "/maxProcs/2", nil, 200},
		{"own page", "POST", "/maxProcs/2", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"other website", "POST", "/maxProcs/2", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another port of this machine", "POST", "/maxProcs/2", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"old browser, own page", "POST", "/maxProcs/2", []string{"Origin", own}, 200},
		{"old browser, other website", "POST", "/maxProcs/2", []string{"Origin", "https://elsewhere.example"}, 403},
		{"old browser, load", "POST", "/load", []string{"Origin", "null"}, 403},
		{"image of another website", "GET", "/work?cpu=1s", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "image"}, 403},
		{"frame of another website", "GET", "/work?cpu=1s", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "iframe"}, 403},
		{"link of another website", "GET", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "document"}, 200},
		{"localhost", "GET", "/maxProcs", []string{"Host", "localhost" + port}, 200},
		{"LOCALHOST without a port", "GET", "/maxProcs", []string{"Host", "LOCALHOST"}, 200},
		{"below localhost", "GET", "/maxProcs", []string{"Host", "demo.localhost" + port}, 200},
		{"IPv6", "GET", "/maxProcs", []string{"Host", "[::1]" + port}, 200},
		{"IPv6 without a port", "GET", "/maxProcs", []string{"Host", "[::1]"}, 200},
		{"allowed name", "GET", "/maxProcs", []string{"Host", "demo.example" + port}, 200},
		{"rebound name", "GET", "/maxProcs", []string{"Host", "elsewhere.example" + port}, 403},
		{"rebound name that looks like ours", "POST", "/maxProcs/2", []string{"Host", "localhost.elsewhere.example"}, 403},
		{"rebound name, same origin", "POST", "/maxProcs/2", []string{"Host", "elsewhere.example", "Sec-Fetch-Site", "same-origin"}, 403},
	}
	for _, test := range tests {
		if status, text := ask(t, test.method, own+test.path, "", test.header...); status != test.status {
			t.Errorf("%s: %d %s, want %d", test.name, status, text, test.status)
		}
	}
}

// What is not reached over loopback is called by names that it can't know: a service of Kubernetes, for instance.
func TestAnyNameFromOutside(t *testing.T) {
	s := New(Options{})
	for addr, want := range map[string]int{"172.17.0.2": 200, "127.0.0.1": 403, "::1": 403, "::ffff:127.0.0.1": 403} {
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey,
			&net.TCPAddr{IP: net.ParseIP(addr), Port: 8080}), "GET", "http://demo.default.svc:8080/healthz", nil)
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("over %s: %d, want %d", addr, w.Code, want)
		}
	}
}

func TestPageMayLoadItselfOnly(t *testing.T) {
	_, server := serve(t, Options{})
	answer, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	policy := answer.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %q", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("the policy %q allows too much", policy)
	}
}

func TestOneTraceAtATime(t *testing.T) {
	s, server := serve(t, Options{})
	s.tracing.Store(true)
	if status, text := ask(t, "GET", server.URL+"/debug/trace", ""); status != 409 || !strings.Contains(text, "already") {
		t.Errorf("a second trace: %d %s", status, text)
	}
	s.tracing.Store(false)
	s.close() // which ends a trace at once
	status, text := ask(t, "GET", server.URL+"/debug/trace?seconds=30", "")
	if status != 200 || !strings.HasPrefix(text, "go 1.") {
		t.Errorf("a trace: %d %.40q", status, text)
	}
}

// event reads the next event of a stream.
func event(t *testing.T, lines *bufio.Reader) (name string, data []byte) {
	t.Helper()
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatalf("the stream ended: %v", err)
		}
		switch line = bytes.TrimSuffix(line, []byte("\n")); {
		case len(line) == 0:
			return name, data
		case bytes.HasPrefix(line, []byte("event: ")):
			name = string(line[7:])
		case bytes.HasPrefix(line, []byte("data: ")):
			data = line[6:]
		default:
			t.Fatalf("not a line of an event: %q", line)
		}
	}
}

func TestStream(t *testing.T) {
	s, server := serve(t, Options{MaxWatchers: 1})
	answer, err := http.Get(server.URL + "/live")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got := answer.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("it is %q", got)
	}
	lines := bufio.NewReader(answer.Body)
	var next int64
	for cells := 0; cells < 3; {
		name, data := event(t, lines)
		var now state
		if err := json.Unmarshal(data, &now); err != nil || name != "state" {
			t.Fatalf("event %q: %v", name, err)
		}
		if now.First != next {
			t.Errorf("cells from %d on, want from %d", now.First, next)
		}
		next = now.First + int64(len(now.Cells))
		cells += len(now.Cells)
		if now.GOMAXPROCS < 1 || now.Most < 8 || now.Limit.State == "" || now.Limit.Short == "" || now.Summary.Text == "" {
			t.Errorf("a state lacks something: %s", data)
		}
	}
	if status, text := ask(t, "GET", server.URL+"/live", ""); status != 503 {
		t.Errorf("a page too many: %d %s", status, text)
	}
	s.close()
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Errorf("the stream does not end well: %v", err)
	}
}

func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := New(Options{})
	served := make(chan error)
	go func() { served <- s.Serve(ctx, l) }()
	base := "http://" + l.Addr().String()
	if status, text := ask(t, "GET", base+"/work?cpu=1ms&alloc=1k", ""); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	stream, err := http.Get(base + "/live")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	cancel()
	if err := <-served; err != nil {
		t.Errorf("it ended with %v", err)
	}
	if s.watch.enter(1) {
		t.Error("it samples after its end")
	}
}

func TestServeTellsOfABrokenListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := New(Options{}).Serve(t.Context(), l); err == nil {
		t.Error("no error")
	}
}
