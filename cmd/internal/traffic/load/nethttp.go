package load

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/web"
)

// NewClient sends requests as the load does, before it.
func NewClient(c Client) (*http.Client, error) {
	t, err := newTransport(c, 1)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: t, Timeout: c.Timeout}, nil
}

// newTransport makes what all connections of net/http share.
func newTransport(c Client, conns int) (*http.Transport, error) {
	t := &http.Transport{
		TLSClientConfig:        c.TLS.Clone(), // the transport writes into it
		DisableCompression:     true,          // we ask for it ourselves, and don't spend our time on unpacking
		DisableKeepAlives:      c.NoKeepAlive,
		MaxIdleConnsPerHost:    max(conns, 1),
		MaxIdleConns:           0,
		Protocols:              new(http.Protocols),
		MaxResponseHeaderBytes: maxHead,
		TLSHandshakeTimeout:    c.Timeout,
	}
	switch c.HTTP2 {
	case HTTP2Only:
		t.Protocols.SetHTTP2(true)
		t.Protocols.SetUnencryptedHTTP2(true)
	case HTTP2Never:
		t.Protocols.SetHTTP1(true)
	case HTTP2Auto:
		t.Protocols.SetHTTP1(true)
		t.Protocols.SetHTTP2(true)
	default:
		return nil, fmt.Errorf("unknown choice of HTTP/2: %q", c.HTTP2)
	}
	if c.Proxy != "" {
		u, err := url.Parse(c.Proxy)
		if err != nil {
			return nil, fmt.Errorf("reading the proxy's URL: %w", err)
		}
		t.Proxy = http.ProxyURL(u)
	}
	dialer := &net.Dialer{Timeout: c.Timeout}
	t.DialContext = dialer.DialContext
	if c.Unix != "" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", c.Unix)
		}
	}
	return t, nil
}

// An httpConn sends one request at a time by net/http. Connections are the transport's; it may share one among many.
type httpConn struct {
	slot
	load   *Run
	client *http.Client // nil: redirects are not followed, and the transport is asked directly
	wake   chan struct{}
	gone   chan struct{}

	*lifetime // nil: none
}

// A lifetime is what requests that follow each other have in common: all of them can be cancelled by one timer. When it has done so a new
// one is made; what net/http still reports about the old requests goes to the old one.
type lifetime struct {
	requests []*http.Request // one for each of the load's
	cancel   context.CancelFunc
	timer    *time.Timer
	late     atomic.Bool // the timer has ended a request
	trace    trace
}

// newLifetime makes the load's requests.
func (c *httpConn) newLifetime() (*lifetime, error) {
	r := c.load
	l := &lifetime{requests: make([]*http.Request, len(r.requests))}
	ctx, cancel := context.WithCancel(r.ctx)
	l.cancel = cancel
	l.timer = time.AfterFunc(time.Hour, func() {
		l.late.Store(true)
		cancel()
	})
	l.timer.Stop()
	ctx = httptrace.WithClientTrace(ctx, l.hooks(c))
	for i := range r.requests {
		req, err := r.requests[i].http(r.plan.Client)
		if err != nil {
			return nil, err
		}
		l.requests[i] = req.WithContext(ctx)
	}
	return l, nil
}

// A trace is what net/http reports about a request, from goroutines of its own: times since the load began.
type trace struct {
	asked, looking, lookup, got, wrote, first atomic.Int64
	fresh                                     atomic.Bool
}

func newHTTPConn(r *Run) *httpConn {
	c := &httpConn{load: r, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	if n := r.plan.Client.Redirects; n > 0 {
		c.client = &http.Client{Transport: r.shared[0], CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if !web.SameOrigin(via[0].URL, next.URL) {
				// The headers are for the server that the user has named, and so is the load.
				host := web.Said(next.URL.Host)
				r.elsewhere.CompareAndSwap(nil, &host)
				return http.ErrUseLastResponse
			}
			if len(via) > n {
				return http.ErrUseLastResponse
			}
			return nil
		}}
	}
	return c
}

func (c *httpConn) run() {
	defer func() {
		if c.lifetime != nil {
			c.cancel()
		}
	}()
	for {
		c.load.done(c, c.do())
		switch c.load.take(c, true) {
		case quit:
			return
		case wait:
			select {
			case <-c.wake:
			case <-c.gone:
				return
			}
		}
	}
}

func (c *httpConn) start() { c.wake <- struct{}{} }

func (c *httpConn) abort() { close(c.gone) }

// do sends the job's request and reads the answer.
func (c *httpConn) do() (o outcome) {
	r := c.load
	req, err := c.prepare()
	if err != nil {
		return outcome{at: r.now(), err: err}
	}
	o.status, o.bytes, err = c.roundTrip(req)
	o.at = r.now()
	o.phases = c.trace.phases(o.at)
	inTime := r.plan.Client.Timeout == 0 || c.trace.got.Load() == 0 || c.timer.Stop() && !c.late.Load()
	switch {
	case err == nil:
	case r.ctx.Err() != nil:
		o.err = ErrUnfinished
	case !inTime || timedOut(err):
		o.err = ErrTimeout
	default:
		o.err = plain(err)
	}
	if !inTime {
		c.cancel()
		c.lifetime = nil
	}
	return o
}

// plain removes what net/http puts before a cause: the method and the URL.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errTruncated
	case errors.Is(err, io.EOF):
		return errNoAnswer
	}
	return err
}

func (c *httpConn) roundTrip(req *http.Request) (status int, n int64, err error) {
	var res *http.Response
	if c.client != nil {
		res, err = c.client.Do(req)
	} else {
		n := c.load.asked.Add(1) % uint64(len(c.load.shared))
		res, err = c.load.shared[n].RoundTrip(req)
	}
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	if n, err = io.Copy(io.Discard, res.Body); err == nil {
		const name = "Grpc-Status" // of the trailers, or in the head where there is no message
		err = grpcFailure(res.StatusCode, res.Header.Get("Content-Type"), cmp.Or(res.Trailer.Get(name), res.Header.Get(name)))
	}
	return res.StatusCode, n, err
}

// prepare returns the job's request.
func (c *httpConn) prepare() (*http.Request, error) {
	if c.lifetime == nil {
		l, err := c.newLifetime()
		if err != nil {
			return nil, err
		}
		c.lifetime = l
	}
	c.trace.reset()
	req := c.requests[c.job.request]
	body := c.load.requests[c.job.request].target.Body
	if len(body) == 0 && c.client == nil {
		req.Body, req.GetBody = http.NoBody, nil
		return req, nil
	}
	copied := *req // a body is read once; and a client changes the request's header
	copied.Body = io.NopCloser(bytes.NewReader(body))
	if len(body) == 0 {
		copied.Body = http.NoBody
	}
	return &copied, nil
}

func (t *trace) reset() {
	for _, v := range []*atomic.Int64{&t.asked, &t.looking, &t.lookup, &t.got, &t.wrote, &t.first} {
		v.Store(0)
	}
	t.fresh.Store(false)
}

// hooks note when a connection is there, and the rest only if it is wanted: each takes some time.
func (l *lifetime) hooks(c *httpConn) *httptrace.ClientTrace {
	r, t := c.load, &l.trace
	note := func(v *atomic.Int64) { v.Store(int64(r.now())) }
	hooks := &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			t.fresh.Store(!info.Reused)
			if !info.Reused {
				r.opened.Add(1)
			}
			if t.got.Load() != 0 {
				return // it follows a redirect, or is tried again
			}
			note(&t.got)
			r.connected(c)
			if timeout := r.plan.Client.Timeout; timeout > 0 {
				l.timer.Reset(timeout) // before, there are the dialer's and TLS's
			}
		},
	}
	if r.plan.Phases {
		hooks.GetConn = func(string) { note(&t.asked) }
		hooks.DNSStart = func(httptrace.DNSStartInfo) { note(&t.looking) }
		hooks.DNSDone = func(httptrace.DNSDoneInfo) { note(&t.lookup) }
		hooks.WroteRequest = func(httptrace.WroteRequestInfo) { note(&t.wrote) }
		hooks.GotFirstResponseByte = func() { note(&t.first) }
	}
	return hooks
}

func (t *trace) phases(at time.Duration) (p Phases) {
	between := func(a, b *atomic.Int64) time.Duration {
		if a.Load() == 0 || b.Load() == 0 {
			return 0
		}
		return max(0, time.Duration(b.Load()-a.Load()))
	}
	if t.fresh.Load() {
		p.Connect, p.Lookup = between(&t.asked, &t.got), between(&t.looking, &t.lookup)
	}
	p.Write, p.Wait = between(&t.got, &t.wrote), between(&t.wrote, &t.first)
	if first := time.Duration(t.first.Load()); first != 0 {
		p.Read = max(0, at-first)
	}
	return p
}
