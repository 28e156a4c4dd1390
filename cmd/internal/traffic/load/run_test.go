package load

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// both runs a test with both engines, with the lean one in both ways.
func both(t *testing.T, f func(t *testing.T, e Engine)) {
	for _, e := range []Engine{Lean, Goroutines, NetHTTP} {
		t.Run(string(e), func(t *testing.T) { f(t, e) })
	}
}

func do(t *testing.T, p Plan) *Result {
	t.Helper()
	run, err := Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return run.Wait()
}

func TestOpenLoop(t *testing.T) {
	both(t, func(t *testing.T, e Engine) {
		var got atomic.Int64
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) { got.Add(1); w.Write([]byte("hello")) })
		samples := 0
		r := do(t, Plan{
			Targets: []Target{{URL: url}}, Rate: 2000, Duration: 500 * time.Millisecond, WarmUp: 100 * time.Millisecond,
			Client: Client{Engine: e, Timeout: 10 * time.Second},
			Each:   func(s *Sample) { samples++ },
		})
		if r.Planned != 1000 || r.Requests != 1000 || r.Sent != 1000 || r.Good != 1000 || r.Failed != 0 || r.Statuses[200] != 1000 || samples != 1000 {
			t.Errorf("%+v", r)
		}
		if got.Load() != 1200 {
			t.Errorf("the server saw %d requests, want 1200 with those of the warm-up", got.Load())
		}
		if r.Waited < 0 || r.CaughtUp.TotalCount() > r.PacerLate.TotalCount() {
			t.Errorf("%v waited, %d caught up with", r.Waited, r.CaughtUp.TotalCount())
		}
		if r.Bytes != 5000 || (r.Engine == NetHTTP) != (e == NetHTTP) || r.Response.TotalCount() != 1000 || r.Service.TotalCount() != 1000 || r.Lag.TotalCount() != 1000 {
			t.Errorf("%+v", r)
		}
		t.Log(Quantile(r.Response, 50), Quantile(r.Service, 50), Quantile(r.Lag, 50), Quantile(r.PacerLate, 50), Quantile(r.PacerLate, 99), r.MostConns, r.CPU, r.Invalid)
	})
}

func TestClosedLoop(t *testing.T) {
	slowtest.Skip(t)
	both(t, func(t *testing.T, e Engine) {
		var got atomic.Int64
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) { got.Add(1); w.Write([]byte("hello")) })
		r := do(t, Plan{Targets: []Target{{URL: url}}, Requests: 20205, Conns: 10, Client: Client{Engine: e, Timeout: 10 * time.Second}})
		if r.Requests != 20205 || r.Good != 20205 || got.Load() != 20205 {
			t.Errorf("%+v", r)
		}
		t.Log(r.Elapsed, Quantile(r.Response, 50), r.MostConns, r.CPU/20205)
		r = do(t, Plan{Targets: []Target{{URL: url}}, Duration: 200 * time.Millisecond, EachRate: 50, Conns: 3, Client: Client{Engine: e}})
		if r.Requests == 0 || r.Requests > 30 || r.Failed != 0 {
			t.Errorf("%+v", r)
		}
		t.Log(r.Requests)
	})
}

func TestStop(t *testing.T) {
	both(t, func(t *testing.T, e Engine) {
		var got atomic.Int64
		url := serve(t, func(w http.ResponseWriter, req *http.Request) {
			got.Add(1)
			select {
			case <-req.Context().Done():
			case <-time.After(time.Minute):
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		run, err := Start(ctx, Plan{Targets: []Target{{URL: url}}, Rate: 100, Client: Client{Engine: e}})
		if err != nil {
			t.Fatal(err)
		}
		for got.Load() < 10 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		r := run.Wait()
		if !r.Stopped || r.Unfinished != r.Requests || r.Requests < 10 || r.Requests != r.Planned || r.Response.TotalCount() != r.Requests {
			t.Errorf("%+v", r)
		}
		// Those that the server has seen were sent, and count in the service too.
		if r.Sent < 10 || r.Service.TotalCount() != r.Sent || r.Unsent != r.Requests-r.Sent {
			t.Errorf("%d sent, %d not, %d in the service", r.Sent, r.Unsent, r.Service.TotalCount())
		}
	})
}

// What follows a redirect is the service of one request.
func TestServiceOfRedirects(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			time.Sleep(50 * time.Millisecond)
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	})
	r := do(t, Plan{Targets: []Target{{URL: url}}, Requests: 5, Conns: 1, Client: Client{Redirects: 1, Timeout: time.Minute}})
	if r.Good != 5 || Quantile(r.Service, 0) < 49*time.Millisecond {
		t.Errorf("%d good, the fastest in %v", r.Good, Quantile(r.Service, 0))
	}
}

// A closed loop has not sent what found no server.
func TestClosedLoopRefused(t *testing.T) {
	both(t, func(t *testing.T, e Engine) {
		r := do(t, Plan{Targets: []Target{{URL: refusing(t)}}, Requests: 20, Conns: 2, Client: Client{Engine: e, Timeout: time.Minute}})
		if r.Requests != 20 || r.Sent != 0 || r.Failed != 20 {
			t.Errorf("%d requests, %d sent, %d failed", r.Requests, r.Sent, r.Failed)
		}
	})
}

// Everything that the lean engine leaves to net/http.
func TestTransports(t *testing.T) {
	var protocols [3]atomic.Int64
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols[r.ProtoMajor].Add(1)
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/", http.StatusFound)
			return
		}
		w.Write([]byte("hello"))
	})
	secure := httptest.NewUnstartedServer(handler)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	pool := &tls.Config{RootCAs: x509.NewCertPool()}
	pool.RootCAs.AddCert(secure.Certificate())
	clear := httptest.NewUnstartedServer(handler)
	clear.Config.Protocols = new(http.Protocols)
	clear.Config.Protocols.SetHTTP1(true)
	clear.Config.Protocols.SetUnencryptedHTTP2(true)
	clear.Start()
	defer clear.Close()
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		u, _ := url.Parse(clear.URL)
		r.SetURL(u)
	}})
	defer proxy.Close()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	local := &http.Server{Handler: handler}
	go local.Serve(l)
	defer local.Close()

	for _, test := range []struct {
		name   string
		url    string
		client Client
		engine Engine
		proto  int
		status int
	}{
		{"https", secure.URL, Client{TLS: pool}, NetHTTP, 2, 200},
		{"https, HTTP/1.1", secure.URL, Client{TLS: pool, HTTP2: HTTP2Never}, NetHTTP, 1, 200},
		{"h2", secure.URL, Client{TLS: pool, HTTP2: HTTP2Only}, NetHTTP, 2, 200},
		{"h2c", clear.URL, Client{HTTP2: HTTP2Only}, NetHTTP, 2, 200},
		{"lean", clear.URL, Client{}, Lean, 1, 200},
		{"net/http", clear.URL, Client{Engine: NetHTTP}, NetHTTP, 1, 200},
		{"no keep-alive", clear.URL, Client{NoKeepAlive: true}, Lean, 1, 200},
		{"no keep-alive, net/http", clear.URL, Client{NoKeepAlive: true, Engine: NetHTTP}, NetHTTP, 1, 200},
		{"unix", "http://any/", Client{Unix: socket}, Lean, 1, 200},
		{"unix, net/http", "http://any/", Client{Unix: socket, Engine: NetHTTP}, NetHTTP, 1, 200},
		{"proxy", "http://nowhere.invalid/", Client{Proxy: proxy.URL}, NetHTTP, 1, 200},
		{"a redirect is an answer", clear.URL + "/moved", Client{}, Lean, 1, 302},
		{"a redirect is followed", clear.URL + "/moved", Client{Redirects: 3}, NetHTTP, 1, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			for i := range protocols {
				protocols[i].Store(0)
			}
			test.client.Timeout = time.Minute
			r := do(t, Plan{Targets: []Target{{URL: test.url}}, Requests: 20, Conns: 2, Client: test.client})
			if r.Requests != 20 || r.Statuses[test.status] != 20 || r.Engine != test.engine || protocols[test.proto].Load() < 20 {
				t.Errorf("%d requests, %v, %v, engine %s, protocols %d and %d", r.Requests, r.Statuses, r.Errors, r.Engine, protocols[1].Load(), protocols[2].Load())
			}
			if test.client.NoKeepAlive != (r.Opened == 20) {
				t.Errorf("%d connections opened", r.Opened)
			}
		})
	}
	for _, p := range []Plan{
		{},
		{Targets: []Target{{URL: secure.URL}}, Client: Client{Engine: Lean}},
		{Targets: []Target{{URL: clear.URL}}, Rate: -1},
		{Targets: []Target{{URL: clear.URL}}, Rate: 1, EachRate: 1},
		{Targets: []Target{{URL: clear.URL}}, Rate: 1, Duration: time.Millisecond},
		{Targets: []Target{{URL: clear.URL}}, Rate: 1, Arrivals: "random"},
		{Targets: []Target{{URL: clear.URL}}, Client: Client{Proxy: "::"}},
		{Targets: []Target{{URL: clear.URL}}, Client: Client{Engine: NetHTTP, HTTP2: "maybe"}},
	} {
		if run, err := Start(t.Context(), p); err == nil {
			run.Wait()
			t.Errorf("%+v makes sense", p)
		}
	}
}

// TestGRPC: a call that failed is a failure, though HTTP says 200.
func TestGRPC(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Reply-As"))
		status := strings.TrimPrefix(r.URL.Path, "/")
		if r.URL.RawQuery == "head" {
			w.Header().Set("Grpc-Status", status)
			return
		}
		w.Write([]byte{0, 0, 0, 0, 0})
		if status != "none" {
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", status)
		}
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	for _, c := range []struct{ path, as, want string }{
		{"/0", "", ""},
		{"/0?head", "", ""},
		{"/13", "", "grpc-status 13 INTERNAL"},
		{"/16?head", "", "grpc-status 16 UNAUTHENTICATED"},
		{"/none", "", "no grpc-status"},
		{"/17", "", "a grpc-status that does not exist"},
		{"/13x", "", "a grpc-status that does not exist"},
		{"/13", "application/grpc; charset=utf-8", "grpc-status 13 INTERNAL"},
		{"/13", "text/plain", ""},                   // a trailer of some other protocol
		{"/none", "application/grpc-web+proto", ""}, // its status is in the body
	} {
		header := [][2]string{{"Reply-As", cmp.Or(c.as, "application/grpc+proto")}, {"Content-Type", "application/grpc"}}
		for _, e := range []Engine{Any, NetHTTP} {
			r := do(t, Plan{Targets: []Target{{Method: "POST", URL: server.URL + c.path, Header: header}}, Requests: 20, Conns: 2, Client: Client{HTTP2: HTTP2Only, Timeout: time.Minute, Engine: e}})
			got := ""
			if len(r.Errors) > 0 {
				got = r.Errors[0].Text
			}
			if failed := r.Failed == 20; got != c.want || failed != (c.want != "") || r.Statuses[200] != 20 || r.Response.TotalCount() != 20 || r.Engine != cmp.Or(e, Lean) {
				t.Errorf("%s, %s: %d of %d failed, %v, statuses %v, %d latencies", c.path, r.Engine, r.Failed, r.Requests, r.Errors, r.Statuses, r.Response.TotalCount())
			}
		}
	}
}

// Requests to several servers go each to its own.
func TestServers(t *testing.T) {
	both(t, func(t *testing.T, e Engine) {
		if e != NetHTTP {
			e = Any // which can't be the lean one: its connections are all alike
		}
		var got [2]atomic.Int64
		var targets []Target
		for i := range got {
			targets = append(targets, Target{URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/"+string(rune('0'+i)) {
					got[i].Add(1)
				}
			}) + "/" + string(rune('0'+i))})
		}
		r := do(t, Plan{Targets: targets, Requests: 200, Conns: 4, Client: Client{Engine: e, Timeout: time.Minute}})
		if r.Good != 200 || got[0].Load()+got[1].Load() != 200 || got[0].Load() == 0 || got[1].Load() == 0 {
			t.Errorf("%d good, %d and %d arrived", r.Good, got[0].Load(), got[1].Load())
		}
	})
}

// Large bodies arrive whole, also at a server that answers before it has read them.
func TestBodies(t *testing.T) {
	both(t, func(t *testing.T, e Engine) {
		body := bytes.Repeat([]byte("0123456789"), 100_000)
		var whole atomic.Int64
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/early" {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				return
			}
			if got, err := io.ReadAll(r.Body); err == nil && bytes.Equal(got, body) {
				whole.Add(1)
			}
		})
		target := Target{Method: "POST", URL: url, Body: body}
		r := do(t, Plan{Targets: []Target{target}, Requests: 20, Rate: 500, Conns: 3, Client: Client{Engine: e, Timeout: time.Minute}})
		if r.Good != 20 || whole.Load() != 20 {
			t.Errorf("%d good, %d arrived whole, %v", r.Good, whole.Load(), r.Errors)
		}
		target.URL += "/early"
		r = do(t, Plan{Targets: []Target{target}, Requests: 20, Conns: 3, Client: Client{Engine: e, Timeout: time.Minute}})
		if r.Requests != 20 || r.Failed != 20 {
			t.Errorf("%d counted, %d failed, %v", r.Requests, r.Failed, r.Errors)
		}
	})
}

// A server that stands still makes the requests wait that were due meanwhile, and an open loop counts that, whether they
// were sent or not.
func TestStandstill(t *testing.T) {
	both(t, func(t *testing.T, e Engine) {
		var gate sync.RWMutex
		var once sync.Once
		url := serve(t, func(http.ResponseWriter, *http.Request) {
			once.Do(func() {
				gate.Lock()
				time.AfterFunc(300*time.Millisecond, gate.Unlock)
			})
			gate.RLock()
			defer gate.RUnlock()
		})
		r := do(t, Plan{Targets: []Target{{URL: url}}, Rate: 200, Duration: 500 * time.Millisecond, Arrivals: Constant, Conns: 2, Client: Client{Engine: e, Timeout: time.Minute}})
		if r.Requests != 100 || r.Good != 100 || !r.AllConns || r.MostConns != 2 {
			t.Fatalf("%+v", r)
		}
		// Due each 5 ms, those of the first 300 ms wait for what is left of them: 60 requests, 150 ms on the average.
		waited := 0
		for _, b := range r.Response.Distribution() {
			if time.Duration(b.From) >= 100*time.Millisecond {
				waited += int(b.Count)
			}
		}
		if waited < 30 {
			t.Errorf("%d requests waited 100 ms and more, 40 must have", waited)
		}
		if sent := r.Service.ValueAtPercentile(50); time.Duration(sent) > 150*time.Millisecond {
			t.Errorf("half of the requests took %v from when they were sent; most were sent after the standstill", time.Duration(sent))
		}
		if lag := Quantile(r.NoConnection, 90); lag < 50*time.Millisecond {
			t.Errorf("waited %v for a connection at p90", lag)
		}
	})
}
