package load

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A greeter is a server that is called by gRPC's rules.
type greeter struct {
	*httptest.Server
	calls, conns atomic.Int64
	open, most   atomic.Int64 // calls at once
}

func newGreeter(t *testing.T, config *http.HTTP2Config, secure bool, answer http.HandlerFunc) *greeter {
	t.Helper()
	g := &greeter{}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.calls.Add(1)
		for open := g.open.Add(1); ; {
			if most := g.most.Load(); open <= most || g.most.CompareAndSwap(most, open) {
				break
			}
		}
		defer g.open.Add(-1)
		body, _ := io.ReadAll(r.Body)
		if r.ProtoMajor != 2 || r.Method != "POST" || r.Header.Get("Te") != "trailers" || r.Header.Get("X-Mine") != "yes" || r.Host != "greeter.example" || string(body) != "\x00\x00\x00\x00\x01x" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.Header().Set("Content-Type", "application/grpc")
		if answer != nil {
			answer(w, r)
		}
		w.Write(body)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}))
	g.Config.HTTP2 = config
	g.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			g.conns.Add(1)
		}
	}
	if g.EnableHTTP2 = secure; secure {
		g.StartTLS()
	} else {
		g.Config.Protocols = new(http.Protocols)
		g.Config.Protocols.SetUnencryptedHTTP2(true)
		g.Start()
	}
	t.Cleanup(g.Close)
	return g
}

func (g *greeter) plan(p Plan) Plan {
	p.Targets = []Target{{Method: "POST", URL: g.URL + "/hello.Greeter/SayHello", Body: []byte("\x00\x00\x00\x00\x01x"), Header: [][2]string{
		{"Content-Type", "application/grpc"}, {"Te", "trailers"}, {"X-Mine", "yes"},
	}}}
	p.Client.HTTP2, p.Client.Host = HTTP2Only, "greeter.example"
	if g.TLS != nil {
		p.Client.TLS = g.Client().Transport.(*http.Transport).TLSClientConfig
	}
	if p.Client.Timeout == 0 {
		p.Client.Timeout = time.Minute
	}
	return p
}

// TestCalls: calls share connections, as many as are asked for, whichever loop sends them.
func TestCalls(t *testing.T) {
	for _, c := range []struct {
		name   string
		secure bool
		plan   Plan
		conns  int64
	}{
		{"open", false, Plan{Rate: 2000, Requests: 400}, 1},
		{"open, warm", false, Plan{Rate: 2000, Requests: 400, WarmUp: 50 * time.Millisecond}, 1},
		{"closed", false, Plan{Requests: 400, Conns: 8}, 1},
		{"for a time", false, Plan{Duration: 100 * time.Millisecond, Conns: 8}, 1},
		{"four connections", false, Plan{Requests: 400, Conns: 8, Client: Client{Shared: 4}}, 4},
		{"TLS", true, Plan{Rate: 2000, Requests: 400}, 1},
		{"TLS, closed", true, Plan{Requests: 400, Conns: 8, Client: Client{Shared: 2}}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGreeter(t, nil, c.secure, nil)
			r := do(t, g.plan(c.plan))
			wanted := c.plan.Requests
			if wanted == 0 {
				wanted = r.Planned
			}
			warm := g.calls.Load() - wanted
			if r.Engine != Lean || r.Requests != wanted || r.Good != wanted || r.Sent != wanted || r.Bytes != 6*wanted || warm < 0 || c.plan.WarmUp == 0 && warm > 0 {
				t.Errorf("engine %s, %d of %d good, %d sent, %d bytes, %v; the server counts %d", r.Engine, r.Good, r.Requests, r.Sent, r.Bytes, r.Errors, g.calls.Load())
			}
			if r.Opened != c.conns || g.conns.Load() != c.conns {
				t.Errorf("%d connections, and the server counts %d", r.Opened, g.conns.Load())
			}
		})
	}
}

// TestCallsWait: a server that takes three calls at once gets three at most; the others wait, which their latencies show.
func TestCallsWait(t *testing.T) {
	g := newGreeter(t, &http.HTTP2Config{MaxConcurrentStreams: 3}, false, func(http.ResponseWriter, *http.Request) { time.Sleep(10 * time.Millisecond) })
	r := do(t, g.plan(Plan{Rate: 10_000, Requests: 60}))
	if r.Good != 60 || g.most.Load() > 3 || r.Opened != 1 {
		t.Errorf("%d good, %d at once, %d connections, %v", r.Good, g.most.Load(), r.Opened, r.Errors)
	}
	if waited := time.Duration(r.NoConnection.Max()); waited < 100*time.Millisecond { // 20 turns of 10 ms
		t.Errorf("none waited longer than %v", waited)
	}
}

// TestCallsMove: a server that closes its connection in the orderly way, as one that is replaced does, loses no call.
func TestCallsMove(t *testing.T) {
	var n atomic.Int64
	g := newGreeter(t, nil, false, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%100 == 0 { // a call may meet each of these
			w.Header().Set("Connection", "close")
		}
	})
	r := do(t, g.plan(Plan{Rate: 1000, Requests: 400}))
	if r.Good != 400 || r.Opened < 2 {
		t.Errorf("%d good, %d connections, %v", r.Good, r.Opened, r.Errors)
	}
}

// TestCallsFail: what goes wrong has a name, and each call counts once.
func TestCallsFail(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler()) // HTTP/1.1 only
	defer secure.Close()
	for _, c := range []struct {
		name, url string
		timeout   time.Duration
		want      string
	}{
		{"nobody answers", "http://" + silent.Addr().String(), 50 * time.Millisecond, ErrTimeout.Error()},
		{"nobody greets", "https://" + silent.Addr().String(), 50 * time.Millisecond, ErrTimeout.Error()},
		{"nothing listens", "http://" + closed.Addr().String(), time.Minute, "connection refused"},
		{"HTTP/1.1", plain.URL, time.Minute, "does not speak HTTP/2"},
		{"HTTP/1.1 by TLS", secure.URL, time.Minute, "no application protocol"},
	} {
		for name, p := range map[string]Plan{"open": {Rate: 1000, Requests: 30}, "closed": {Requests: 30, Conns: 3}} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				p.Targets = []Target{{Method: "POST", URL: c.url + "/a/B", Header: [][2]string{{"Content-Type", "application/grpc"}}}}
				p.Client = Client{HTTP2: HTTP2Only, Timeout: c.timeout, TLS: &tls.Config{InsecureSkipVerify: true}}
				r := do(t, p)
				if r.Requests != 30 || r.Failed != 30 || len(r.Errors) == 0 || !strings.Contains(r.Errors[0].Text, c.want) || r.Engine != Lean {
					t.Errorf("%d of %d failed, %v", r.Failed, r.Requests, r.Errors)
				}
			})
		}
	}
}

// TestCallsStop: a load that is stopped waits for nothing.
func TestCallsStop(t *testing.T) {
	release := make(chan struct{})
	g := newGreeter(t, nil, false, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	run, err := Start(ctx, g.plan(Plan{Rate: 1000}))
	if err != nil {
		t.Fatal(err)
	}
	for g.calls.Load() < 10 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if r := run.Wait(); !r.Stopped || r.Unfinished != r.Requests || r.Requests < 10 || r.Requests != r.Planned || r.Sent < 10 {
		t.Errorf("%d of %d unfinished, %d planned, %d sent, %v", r.Unfinished, r.Requests, r.Planned, r.Sent, r.Errors)
	}
}

// TestCallsRefused: what the engine can't do is left to net/http.
func TestCallsRefused(t *testing.T) {
	g := newGreeter(t, nil, false, nil)
	for name, change := range map[string]func(*Plan){
		"a new connection each time": func(p *Plan) { p.Client.NoKeepAlive = true },
		"a rate for each":            func(p *Plan) { p.EachRate = 1000 },
		"phases":                     func(p *Plan) { p.Phases = true },
		"redirects":                  func(p *Plan) { p.Client.Redirects = 1 },
		"another kind of request":    func(p *Plan) { p.Targets[0].Header[0][1] = "text/plain" },
	} {
		p := g.plan(Plan{Requests: 20, Conns: 2})
		change(&p)
		if r := do(t, p); r.Good != 20 || r.Engine != NetHTTP {
			t.Errorf("%s: engine %s, %d good, %v", name, r.Engine, r.Good, r.Errors)
		}
	}
}
