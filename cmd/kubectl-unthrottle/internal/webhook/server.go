package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/webhook/certs"
)

// A Server serves a handler with a certificate, and tells how it fares at another address.
type Server struct {
	Handler *Handler
	Source  certs.Source
	Drain   time.Duration // from "not ready" to the end of new reviews: others have to hear of it
	Log     *slog.Logger

	leaving atomic.Bool
}

// How long things may take. The API server goes on without an answer after two seconds.
const (
	mostReading  = 10 * time.Second
	mostFinished = 10 * time.Second
	idle         = 2 * time.Minute
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

	main := s.server(s.Handler)
	main.TLSConfig = &tls.Config{GetCertificate: certs.Get(s.Source), MinVersion: tls.VersionTLS12}
	side := s.server(s.operations())
	ended := make(chan error, 2)
	all.Go(func() { ended <- main.ServeTLS(reviews, "", "") })
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

func (s *Server) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: mostReading, ReadTimeout: mostReading, WriteTimeout: mostReading, IdleTimeout: idle,
		MaxHeaderBytes: 64 << 10, ErrorLog: log.New(lines{s.Log}, "", 0),
	}
}

// lines writes what net/http has to say, mostly of others' TLS handshakes, to the log.
type lines struct{ log *slog.Logger }

func (l lines) Write(text []byte) (int, error) {
	l.log.Debug("http: " + string(bytes.TrimSpace(text)))
	return len(text), nil
}

func (s *Server) operations() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		err := certs.Good(s.Source, time.Now())
		if s.leaving.Load() {
			err = errors.New("it is leaving")
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
