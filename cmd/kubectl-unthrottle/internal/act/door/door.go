// Package door answers: who may come in, how many at a time, and how much may each take before it is known what it wants? In go a
// handler and bounds; out comes an HTTP server that keeps them. Anyone who reaches a server of ours may open connections to it,
// and each costs memory long before a request is whole.
//
// When there is no room left, a newcomer replaces the connection that has waited longest for its client, among those of the
// address that has the most; one whose request is being answered stays. So one address can't keep the others out.
//
// It knows no request. What a handler does, and who may ask it, are not its business.
package door

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Bounds are what strangers may take of a server.
type Bounds struct {
	Connections int           // at a time
	Each        int           // of them, of one address
	EachSecond  int           // new ones of one address, on average over a few seconds
	Header      int           // bytes of a request's head
	Reading     time.Duration // from a connection's beginning, or a request's, to the request's end
	Writing     time.Duration // of an answer
	Idle        time.Duration // between two requests
}

// A Server is an http.Server with bounds. Its Serve and ServeTLS keep them.
type Server struct {
	http.Server
	bounds Bounds
	log    *slog.Logger
}

// New makes a server. It speaks HTTP/1 only: no client of our servers needs HTTP/2, in which one connection has any number of
// requests and of half-received heads.
func New(h http.Handler, b Bounds, log *slog.Logger) *Server {
	s := &Server{bounds: b, log: log}
	s.Server = http.Server{
		Handler: answering(h), ReadHeaderTimeout: b.Reading, ReadTimeout: b.Reading, WriteTimeout: b.Writing, IdleTimeout: b.Idle,
		MaxHeaderBytes: b.Header, Protocols: new(http.Protocols), ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, key{}, own(c)) },
	}
	s.Protocols.SetHTTP1(true)
	return s
}

// Serve serves without TLS.
func (s *Server) Serve(l net.Listener) error { return s.Server.Serve(s.bound(l)) }

// ServeTLS serves with the certificate of the server's TLSConfig.
func (s *Server) ServeTLS(l net.Listener) error { return s.Server.ServeTLS(s.bound(l), "", "") }

func (s *Server) bound(l net.Listener) net.Listener {
	return &listener{Listener: l, bounds: s.bounds, log: s.log, sources: map[string]*source{}, now: time.Now}
}

// key is a request's connection in its context.
type key struct{}

// own is the connection that our listener made.
func own(c net.Conn) *conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	ours, _ := c.(*conn)
	return ours
}

// answering tells a connection when its request is whole, and when it is answered. Until a body has ended the server waits for the
// client, as it does for a head.
func answering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(key{}).(*conn)
		if c == nil { // a test that has no listener of ours
			next.ServeHTTP(w, r)
			return
		}
		defer c.waits()
		if r.Body == nil || r.Body == http.NoBody {
			c.works()
		} else {
			r.Body = &body{r.Body, c}
		}
		next.ServeHTTP(w, r)
	})
}

// A body tells its connection when it was read to its end.
type body struct {
	io.ReadCloser
	of *conn
}

func (b *body) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	if err != nil {
		b.of.works()
	}
	return n, err
}
