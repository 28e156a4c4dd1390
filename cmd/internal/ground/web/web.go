// Package web answers: how do we ask a server that may be anyone's? In goes what a client is for; out comes an http.Client, or a transport
// around someone else's, whose answers are bounded and whose credentials stay with the server that they were meant for. All clients of the
// commands are made here, which a test checks.
//
// A redirect is the way to lead a client elsewhere with what it carries. Where an API is asked there is no reason for one, so it
// is an error that says where it would have led. Where a person has typed an address it is followed if it stays with the same
// scheme, host and port. It does not look at what is in an answer.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Options say what a client is for. The zero value follows no redirect, uses no proxy and reads Usual bytes of an answer.
type Options struct {
	Of        string        // who answers, for errors: Prometheus; "": the server
	Within    time.Duration // for an answer with all its redirects and its body; 0: as long as the context lasts
	Most      int64         // bytes of an answer's body, unpacked; 0: Usual; Endless: any number
	Redirects int           // that are followed, to the same scheme, host and port; 0: one is an error; Returned: it is the answer
	Elsewhere bool          // redirects lead to other hosts too, without credentials: a registry's blobs are elsewhere
	Proxy     bool          // the environment's is used
	TLS       *tls.Config
	Once      bool                                                                 // a connection is not used again
	Dial      func(ctx context.Context, network, address string) (net.Conn, error) // nil: from here
}

const (
	// Usual is how much of an answer is read: a page of metrics has some 100 KB, an object of Kubernetes 2 MB at most.
	Usual = 8 << 20
	// Endless is for answers that last, such as a watch, whose reader bounds the parts.
	Endless = -1
	// Returned lets the caller see a redirect as the answer.
	Returned = -1

	mostHead   = 256 << 10 // bytes of an answer's headers; servers send some 1 KB, and proxies with cookies 16 KB
	mostShown  = 200       // letters of what a server said that are shown
	dialWithin = 30 * time.Second
	handshake  = 10 * time.Second
	idle       = 30 * time.Second
)

// New is a client with a transport of its own.
func New(o Options) *http.Client {
	t := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dialWithin, KeepAlive: idle}).DialContext,
		TLSClientConfig:        o.TLS,
		TLSHandshakeTimeout:    handshake,
		MaxResponseHeaderBytes: mostHead,
		IdleConnTimeout:        idle,
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      o.Once,
	}
	if o.Dial != nil {
		t.DialContext = o.Dial
	}
	if o.Proxy {
		t.Proxy = http.ProxyFromEnvironment
	}
	return &http.Client{Transport: Guard(t, o), Timeout: o.Within, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		switch {
		case o.Redirects == Returned:
			return http.ErrUseLastResponse
		case len(via) > o.Redirects:
			return fmt.Errorf("%s answered with more than %d redirects", o.of(), o.Redirects)
		}
		return nil
	}}
}

// Guard is a transport that asks another one and enforces the options on its answers: their size, and where they lead. A client above it
// never sees a redirect that it must not follow, so it does not matter what that client would do, or which credentials it would add again.
// The deadline, the proxy and the bound on headers are the other one's.
func Guard(next http.RoundTripper, o Options) http.RoundTripper { return &guard{next, o} }

type guard struct {
	next http.RoundTripper
	o    Options
}

// WrappedRoundTripper is for those who look for the transport beneath.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.next }

// CloseIdleConnections closes those of the transport beneath.
func (g *guard) CloseIdleConnections() {
	if c, ok := g.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// credentials are the headers that are for one host.
var credentials = []string{"Authorization", "Cookie", "Cookie2", "Proxy-Authorization", "Www-Authenticate"}

// RoundTrip sends a request.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if led(r) {
		if !g.o.Elsewhere {
			if r.Body != nil {
				r.Body.Close()
			}
			return nil, &Redirect{g.o.of(), shown(r.URL)} // no guard below has let it pass
		}
		r = r.Clone(r.Context())
		for _, name := range credentials {
			r.Header.Del(name)
		}
	}
	answer, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return answer, nil // its body is a connection
	}
	if err := g.leads(r, answer); err != nil {
		if answer.Body != nil {
			answer.Body.Close()
		}
		return nil, err
	}
	if most := g.o.most(); most != Endless && answer.Body != nil && answer.Body != http.NoBody {
		answer.Body = &Body{answer.Body, most, most}
	}
	return answer, nil
}

// led reports whether a redirect on the way to a request led to another server than the first. One hop more on that server's side
// changes nothing: net/http would add the first one's headers again, where only the port is another, or the name is below the first's.
func led(r *http.Request) bool {
	for to := r; to.Response != nil && to.Response.Request != nil; to = to.Response.Request {
		if !SameOrigin(to.Response.Request.URL, r.URL) {
			return true
		}
	}
	return false
}

// leads says that an answer leads where it must not.
func (g *guard) leads(r *http.Request, answer *http.Response) error {
	if !IsRedirect(answer.StatusCode) || g.o.Redirects == Returned || g.o.Elsewhere {
		return nil
	}
	place := answer.Header.Get("Location")
	to, err := r.URL.Parse(place)
	switch {
	case place == "" && g.o.Redirects > 0:
		return nil // it is an answer like any other
	case err != nil:
		return &Redirect{g.o.of(), Quote(place)}
	case g.o.Redirects > 0 && SameOrigin(r.URL, to):
		return nil
	}
	return &Redirect{g.o.of(), shown(to)}
}

// IsRedirect reports whether a client would follow an answer with this status.
func IsRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// SameOrigin reports whether two addresses have one scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case strings.EqualFold(u.Scheme, "https"):
		return "443"
	}
	return "80"
}

// shown is where an address leads, without what a server may have put into its path.
func shown(u *url.URL) string {
	if u.Host == "" {
		return Quote(u.Scheme + ":" + u.Opaque)
	}
	return Said(u.Scheme + "://" + u.Host)
}

func (o Options) of() string {
	if o.Of == "" {
		return "the server"
	}
	return o.Of
}

func (o Options) most() int64 {
	if o.Most == 0 {
		return Usual
	}
	return o.Most
}

// A Redirect is the error of an answer that led elsewhere.
type Redirect struct{ Of, To string }

func (e *Redirect) Error() string {
	return fmt.Sprintf("%s answered with a redirect to %s: not followed", e.Of, e.To)
}

// ErrTooLarge is the error of an answer that was not read to its end.
var ErrTooLarge = errors.New("its answer is too large")

// A Body ends with ErrTooLarge where it is larger than it may be.
type Body struct {
	io.ReadCloser
	Left, Most int64
}

// Read reads on while there is room. One byte more distinguishes an answer that just fits from one that does not.
func (b *Body) Read(to []byte) (int, error) {
	if int64(len(to)) > b.Left+1 {
		to = to[:b.Left+1]
	}
	n, err := b.ReadCloser.Read(to)
	if int64(n) > b.Left {
		n, b.Left = int(b.Left), 0
		return n, fmt.Errorf("%w: more than %d MB", ErrTooLarge, b.Most/1e6)
	}
	b.Left -= int64(n)
	return n, err
}

// Quote is what a server sent, for an error: quoted, and short enough to be read.
func Quote(text string) string {
	if letters := []rune(text); len(letters) > mostShown {
		text = string(letters[:mostShown]) + "…"
	}
	return strconv.Quote(text)
}

// Said is the text that a server sent: unchanged if it is a short line of printable letters, and otherwise quoted and shortened.
func Said(text string) string {
	if len(text) <= mostShown && strings.IndexFunc(text, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) < 0 {
		return text
	}
	return Quote(text)
}
