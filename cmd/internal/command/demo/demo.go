// Package demo answers: what does a CPU limit do to a Go server, seen from the server itself? In go the options of a
// server; out comes an HTTP handler that burns CPU when asked to, sets GOMAXPROCS when told to, reports what the kernel
// counts, and shows all of that on a page while it happens.
//
// It is for learning, and the target that the tuner is tried on. It starts nothing on its own: its sampler runs only
// while someone watches, so that it is a quiet target otherwise, and its load only while someone who asked for it
// watches. It finds no setting and makes no report; that is the business of other packages.
package demo

import (
	"context"
	"embed"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// Options bound what can be asked of the server. The zero value is usable.
type Options struct {
	Hosts []string // names it may be called by on loopback, besides localhost and addresses; see allowHost

	MaxN        int64         // of /isPrime (0: 100,000,000)
	MaxProcs    int           // GOMAXPROCS (0: 1024)
	MaxCPU      time.Duration // of one /work (0: 10 s)
	MaxAlloc    int64         // bytes of one /work (0: 64 MiB)
	MaxRate     float64       // of the load, requests a second (0: 10,000)
	MaxOpen     int           // requests of the load that are open at once (0: 512)
	MaxLoad     time.Duration // how long a load goes on (0: 10 min)
	MaxTrace    time.Duration // of a trace or a profile (0: 30 s)
	MaxWatchers int           // pages open at once (0: 32)

	// Linger is how long the sampler and the load go on when no one watches any longer (0: 10 s): the time to load a page again.
	Linger time.Duration
}

// orElse returns o with the defaults for what is not set.
func (o Options) orElse() Options {
	orElse(&o.MaxN, 100_000_000)
	orElse(&o.MaxProcs, 1024)
	orElse(&o.MaxCPU, 10*time.Second)
	orElse(&o.MaxAlloc, 64<<20)
	orElse(&o.MaxRate, 10_000)
	orElse(&o.MaxOpen, 512)
	orElse(&o.MaxLoad, 10*time.Minute)
	orElse(&o.MaxTrace, 30*time.Second)
	orElse(&o.MaxWatchers, 32)
	orElse(&o.Linger, 10*time.Second)
	return o
}

func orElse[T int | int64 | float64 | time.Duration](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}

// A Server is the demo. Its page, its load and its figures are about the whole process, so there should be one.
type Server struct {
	o       Options
	handler http.Handler
	watch   *watch
	dial    *dial
	counts  counts
	tracing atomic.Bool
	rounds  func() float64 // of spin, a second of CPU time; measured when first asked for
	closing chan struct{}  // closed when the streams must end
	close   func()
}

// New makes a server.
func New(o Options) *Server {
	s := &Server{o: o.orElse(), rounds: sync.OnceValue(measure), closing: make(chan struct{})}
	s.close = sync.OnceFunc(func() { close(s.closing) })
	s.watch = newWatch(s.o.Linger)
	s.dial = &dial{o: s.o, watch: s.watch, start: func(ctx context.Context, p load.Plan) (running, error) {
		return load.Start(ctx, p)
	}}
	s.watch.each, s.watch.idle = s.dial.look, s.dial.desert
	s.handler = s.counts.around(s.guard(s.routes()), s.watch.beat)
	return s
}

// Serve answers on l until ctx is done. Then requests that are open have a moment to end, and its load and its sampler
// are ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.rounds() // now, and not on the first request's account
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: time.Minute, // a throttled server comes late to what has long arrived, and must not take that for a slow client
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		err = s.shutdown(server)
		<-served
	}
	s.close()
	s.dial.end()
	s.watch.end()
	return err
}

func (s *Server) shutdown(server *http.Server) error {
	s.close()
	s.dial.end() // first, or its requests would be waited for
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return server.Close() // those still open after that are cut off: the user has asked for the end
	}
	return err
}

//go:embed page.html page.css page.js icon.svg
var page embed.FS

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.file("page.html", "text/html; charset=utf-8"))
	mux.HandleFunc("GET /page.css", s.file("page.css", "text/css; charset=utf-8"))
	mux.HandleFunc("GET /page.js", s.file("page.js", "text/javascript; charset=utf-8"))
	mux.HandleFunc("GET /icon.svg", s.file("icon.svg", "image/svg+xml"))

	mux.HandleFunc("GET /maxProcs", s.getMaxProcs)
	mux.HandleFunc("POST /maxProcs/{n}", s.postMaxProcs)
	mux.HandleFunc("GET /isPrime/{n}", s.isPrime)
	mux.HandleFunc("GET /work", s.work)
	mux.HandleFunc("GET /live", s.live)
	mux.HandleFunc("GET /load", s.getLoad)
	mux.HandleFunc("POST /load", s.postLoad)
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answerText(w, "ok\n") })

	mux.HandleFunc("GET /debug/trace", s.trace)
	mux.HandleFunc("GET /debug/pprof/", s.bounded(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", s.bounded(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/trace", s.trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	return mux
}

// file serves a file of the page. It is looked at afresh each time: it comes from this machine, and a page of an older
// binary would talk to a newer server.
func (s *Server) file(name, kind string) http.HandlerFunc {
	data, err := page.ReadFile(name)
	if err != nil {
		panic(err) // it is not in the binary, which is a mistake of the build
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write(data)
	}
}

func (s *Server) getMaxProcs(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]int{"gomaxprocs": runtime.GOMAXPROCS(0)})
}

// postMaxProcs ends the runtime's own updates of GOMAXPROCS, as any call that sets it does.
func (s *Server) postMaxProcs(w http.ResponseWriter, r *http.Request) {
	n, err := whole("GOMAXPROCS", r.PathValue("n"), 1, int64(s.o.MaxProcs))
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	answer(w, map[string]int{"old": runtime.GOMAXPROCS(int(n)), "new": int(n)})
}
