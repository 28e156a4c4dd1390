package load

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/traffic/h2"
)

// A callConn sends one call of gRPC at a time, over a connection that it shares with others. Where there are several, calls take them in
// turn. The pacer writes a call itself, and the goroutine that reads the connection handles its answer.
type callConn struct {
	slot
	load  *Run
	call  h2.Call
	place *place
	tries int // with the job, of servers that did nothing about it
	once  sync.Once
	gone  chan struct{}
}

// A place has a connection, and the calls that wait for one, or for room on it.
type place struct {
	load    *Run
	running sync.WaitGroup // its connections

	mu      sync.Mutex
	conn    *h2.Conn // nil: none
	dialing bool
	waiting []*callConn
}

// calls reports whether all requests are calls of gRPC.
func calls(requests []request) bool {
	for i := range requests {
		if r := &requests[i]; r.method != "POST" || !isCall(r.header.Get("Content-Type")) {
			return false
		}
	}
	return true
}

// h2request makes the request as HTTP/2 has it.
func (r *request) h2request(c Client) (*h2.Request, error) {
	req, err := r.http(c)
	if err != nil {
		return nil, err
	}
	sent := &h2.Request{Body: r.target.Body, Header: [][2]string{
		{":method", r.method}, {":scheme", r.url.Scheme}, {":path", r.url.RequestURI()}, {":authority", req.Host},
	}}
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		lower := strings.ToLower(name)
		if lower == "connection" || lower == "keep-alive" || lower == "proxy-connection" || lower == "transfer-encoding" || lower == "upgrade" {
			continue // of HTTP/1.1
		}
		for _, v := range req.Header[name] {
			sent.Header = append(sent.Header, [2]string{lower, v})
		}
	}
	return sent, nil
}

func newCallConn(r *Run) *callConn {
	c := &callConn{load: r, gone: make(chan struct{})}
	c.call.Timeout = r.plan.Client.Timeout
	c.call.Done = c.done
	return c
}

// run sends the first job. What follows is done by the goroutines that read.
func (c *callConn) run() {
	c.start()
	<-c.gone
}

func (c *callConn) start() {
	r := c.load
	c.tries = 0
	c.call.Request = r.requests[c.job.request].h2
	c.place = r.places[r.asked.Add(1)%uint64(len(r.places))]
	c.place.send(c)
}

func (c *callConn) abort() { c.once.Do(func() { close(c.gone) }) }

// done handles what came of the call.
func (c *callConn) done(a h2.Answer) {
	r := c.load
	const most = 5 // a server that refuses for ever is reported
	if errors.Is(a.Err, h2.ErrUnprocessed) && c.tries < most {
		c.tries++
		c.place.send(c)
		return
	}
	o := outcome{at: r.now(), status: a.Status, bytes: a.Bytes, err: a.Err}
	switch {
	case a.Err == nil:
		o.err = grpcFailure(a.Status, a.ContentType, a.GRPCStatus)
	case r.ctx.Err() != nil:
		o.err = ErrUnfinished
	case errors.Is(a.Err, h2.ErrTimeout) || timedOut(a.Err):
		o.err = ErrTimeout
	default:
		o.err = plain(a.Err)
	}
	c.place.next()
	c.finish(o, true)
}

// finish counts the job and turns to the next.
func (c *callConn) finish(o outcome, alive bool) {
	r := c.load
	r.done(c, o)
	switch r.take(c, alive) {
	case work:
		c.start()
	case quit:
		c.abort()
	}
}

// send sends a call, or lets it wait.
func (p *place) send(c *callConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 && p.try(c) {
		return
	}
	p.waiting = append(p.waiting, c)
	p.connectAgain()
}

// try sends a call if there is room. p.mu is held.
func (p *place) try(c *callConn) bool {
	if p.conn == nil || !p.conn.Room() {
		return false
	}
	p.load.connected(c)
	return p.conn.Send(&c.call)
}

// next sends what waits, as far as there is room.
func (p *place) next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiting) > 0 && p.try(p.waiting[0]) {
		p.waiting = p.waiting[1:]
	}
	p.connectAgain()
}

// connectAgain opens a connection if calls wait for one. p.mu is held.
func (p *place) connectAgain() {
	if len(p.waiting) > 0 && !p.dialing && (p.conn == nil || p.conn.Closing()) && p.load.ctx.Err() == nil {
		p.dialing = true
		p.running.Go(p.connect)
	}
}

// end waits for the connections. The load's context is done, so no further ones are opened.
func (p *place) end() {
	p.mu.Lock()
	p.waiting = nil // a goroutine that was about to open one for them has done so
	p.mu.Unlock()
	p.running.Wait()
}

// connect opens a connection and reads it until it is gone.
func (p *place) connect() {
	r := p.load
	conn, forget, err := p.dial()
	p.mu.Lock()
	p.dialing = false
	if err != nil {
		failed := p.waiting
		p.waiting = nil
		p.mu.Unlock()
		for _, c := range failed {
			c.finish(outcome{at: r.now(), err: err}, false)
		}
		return
	}
	p.conn = conn
	p.mu.Unlock()
	p.next()
	conn.Run()
	forget()
	p.next() // over another one
}

// dial connects, and learns what the server wants. The connection ends with the load, until forget is called.
func (p *place) dial() (conn *h2.Conn, forget func() bool, err error) {
	r := p.load
	nc, _, err := r.dial(&r.requests[0])
	if err != nil {
		return nil, nil, err
	}
	forget = context.AfterFunc(r.ctx, func() { nc.Close() })
	timeout := r.plan.Client.Timeout
	over := nc
	if u := r.requests[0].url; u.Scheme == "https" {
		over, err = secure(nc, r.plan.Client.TLS, u.Hostname(), timeout)
	}
	if err == nil {
		conn = h2.New(over)
		err = conn.Greet(timeout)
	}
	if err != nil {
		forget()
		nc.Close()
		if timedOut(err) {
			return nil, nil, ErrTimeout
		}
		return nil, nil, plain(err)
	}
	r.opened.Add(1)
	return conn, forget, nil
}

// secure begins TLS, and agrees on HTTP/2.
func secure(nc net.Conn, config *tls.Config, host string, timeout time.Duration) (net.Conn, error) {
	if config = config.Clone(); config == nil {
		config = new(tls.Config)
	}
	config.NextProtos = []string{"h2"}
	if config.ServerName == "" {
		config.ServerName = host
	}
	if timeout > 0 {
		nc.SetDeadline(time.Now().Add(timeout))
		defer nc.SetDeadline(time.Time{})
	}
	s := tls.Client(nc, config)
	if err := s.Handshake(); err != nil {
		return nil, err
	}
	if s.ConnectionState().NegotiatedProtocol != "h2" {
		return nil, h2.ErrNotHTTP2
	}
	return s, nil
}
