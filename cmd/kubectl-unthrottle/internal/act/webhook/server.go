package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/certs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/door"
)

// A Server serves a handler with a certificate, and reports its health at another address.
type Server struct {
	Handler *Handler
	Source  certs.Source
	Callers *Callers      // nil: anyone
	Drain   time.Duration // from "not ready" to the end of new reviews: others must hear of it first
	Log     *slog.Logger

	leaving atomic.Bool
}

// mostFinished is how long reviews that have begun may take when the server leaves.
const mostFinished = 10 * time.Second

// What may be open at a time. API servers have one connection for each review that is under way, at most 200 of each server unless
// that was set higher, and they keep 25 for later. A connection without a request takes some 40 KB, one that sends the largest head
// or greeting 100, and one that sends a small review 64 more: 60 MB of the container's 256 at the worst.
//
// The API server goes on without an answer after two seconds, and it sends a review at once.
var (
	forReviews = door.Bounds{
		Connections: 384, Each: 200, EachSecond: 1000, Header: 8 << 10, // an API server's head has some 300 bytes, and a token if configured
		Reading: 5 * time.Second, Writing: 5 * time.Second, Idle: 2 * time.Minute,
	}
	// Probes come from the node, and metrics are asked for by one or two.
	forOperations = door.Bounds{
		Connections: 32, Each: 8, EachSecond: 20, Header: 4 << 10,
		Reading: 5 * time.Second, Writing: 5 * time.Second, Idle: 2 * time.Minute,
	}
)

// Serve serves reviews at one listener, and /healthz, /readyz and /metrics without TLS at the other, until the context ends; then
// it says that it is not ready, goes on for Drain, and finishes what has begun. It closes both.
func (s *Server) Serve(ctx context.Context, reviews, operations net.Listener) error {
	// What belongs to the servers goes on while they drain.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() { s.Source.Run(inner) })

	main := door.New(s.Handler, forReviews, s.Log)
	main.TLSConfig = &tls.Config{GetCertificate: certs.Get(s.Source), MinVersion: tls.VersionTLS12}
	if s.Callers != nil {
		main.TLSConfig = s.Callers.ask(main.TLSConfig)
	}
	side := door.New(s.operations(), forOperations, s.Log)
	ended := make(chan error, 2)
	all.Go(func() { ended <- main.ServeTLS(reviews) })
	all.Go(func() { ended <- side.Serve(operations) })
	s.Log.Info("listening", "reviews", "https://"+reviews.Addr().String(), "operations", "http://"+operations.Addr().String(), "mode", string(s.Handler.o.Mode))

	var err error
	select {
	case err = <-ended:
		err = fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
		s.leaving.Store(true)
		s.Log.Info("leaving", "in", s.Drain)
		select {
		case <-time.After(s.Drain):
		case err = <-ended:
		}
	}
	finish, cancel := context.WithTimeout(context.Background(), mostFinished)
	defer cancel()
	if late := main.Shutdown(finish); late != nil {
		main.Close()
		err = errors.Join(err, fmt.Errorf("finishing reviews: %w", late))
	}
	side.Close()
	s.Log.Info("left")
	return err
}

func (s *Server) operations() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		err := certs.Good(s.Source, time.Now())
		if s.leaving.Load() {
			err = errors.New("shutting down")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		var text bytes.Buffer
		p := page{&text}
		s.Handler.metrics.write(p)
		p.family("certificate_failures_total", "counter", "Times that looking after the certificate failed.")
		p.sample("certificate_failures_total", "", float64(s.Source.Failures()))
		p.family("certificate_expires_seconds", "gauge", "When the certificate expires, in seconds since 1970; 0 without one.")
		expires := 0.0
		if c := s.Source.Certificate(); c != nil {
			expires = float64(c.Leaf.NotAfter.Unix())
		}
		p.sample("certificate_expires_seconds", "", expires)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(text.Bytes())
	})
	return mux
}
