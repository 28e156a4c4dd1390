package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/inspect"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/verb"
)

const (
	mostRequests = 16 // at a time, of all kinds but the probes
	mostExplains = 4
	mostScrapes  = 4
	mostReading  = 5 * time.Second  // of a request
	mostWriting  = 20 * time.Second // of an answer
	explainFor   = time.Second
)

// Serve answers at a listener until ctx ends, and scans meanwhile.
func (a *Agent) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	scanning := make(chan struct{})
	go func() {
		defer close(scanning)
		a.Run(ctx)
	}()
	s := &http.Server{
		Handler: a.Handler(), ReadHeaderTimeout: mostReading, ReadTimeout: mostReading, WriteTimeout: mostWriting, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(a.o.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	var err error
	select {
	case err = <-served:
		err = fmt.Errorf("serving at %s: %w", l.Addr(), err)
	case <-ctx.Done():
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		if s.Shutdown(end) != nil {
			s.Close()
		}
		stop()
	}
	cancel()
	<-scanning
	return err
}

// Handler answers requests. None of them changes anything.
func (a *Agent) Handler() http.Handler {
	scrape := promhttp.HandlerFor(a.metrics.registry(), promhttp.HandlerOpts{
		MaxRequestsInFlight: mostScrapes, Timeout: mostWriting / 2, ErrorLog: slog.NewLogLogger(a.o.Log.Handler(), slog.LevelError),
	})
	api := http.NewServeMux()
	api.Handle("GET /metrics", scrape)
	api.HandleFunc("GET /api/v1/processes", a.servesProcesses)
	api.Handle("GET /api/v1/explain", atMost(mostExplains, http.HandlerFunc(a.servesExplain)))
	if a.o.PProf {
		api.HandleFunc("GET /debug/pprof/", pprof.Index)
		api.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		api.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", a.servesHealth)
	mux.HandleFunc("GET /readyz", a.servesReady)
	mux.Handle("/", atMost(mostRequests, api))
	return mux
}

// atMost turns away what comes while so many requests are being answered.
func atMost(n int, h http.Handler) http.Handler {
	room := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
			h.ServeHTTP(w, r)
		default:
			busy(w)
		}
	})
}

func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "2")
	http.Error(w, "the agent answers others: ask again in two seconds", http.StatusServiceUnavailable)
}

// servesHealth says whether the loop goes on. A scan that fails is no reason to start anew: what it found is in the metrics.
func (a *Agent) servesHealth(w http.ResponseWriter, _ *http.Request) {
	if !a.alive() {
		http.Error(w, "the scan loop stands still", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (a *Agent) servesReady(w http.ResponseWriter, _ *http.Request) {
	if a.Latest() == nil {
		http.Error(w, "the first scan is not done", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (a *Agent) servesProcesses(w http.ResponseWriter, _ *http.Request) {
	s := a.Latest()
	if s == nil {
		http.Error(w, "the first scan is not done: ask again in a few seconds", http.StatusServiceUnavailable)
		return
	}
	data, err := s.encoded()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, data)
}

// servesExplain explains a Go program of a container of the last scan, and no other process of the node.
func (a *Agent) servesExplain(w http.ResponseWriter, r *http.Request) {
	text := r.URL.Query().Get("pid")
	pid, err := strconv.Atoi(text)
	if err != nil || pid < 1 {
		http.Error(w, fmt.Sprintf("%.20q is no pid: write /api/v1/explain?pid=N, with one that /api/v1/processes names", text), http.StatusBadRequest)
		return
	}
	if !a.knows(pid) {
		http.Error(w, fmt.Sprintf("%d is no Go program of a container in the last scan: /api/v1/processes names them", pid), http.StatusNotFound)
		return
	}
	f, err := inspect.Process(r.Context(), a.o.Root, pid, explainFor)
	switch {
	case errors.Is(err, context.Canceled):
		return // nobody waits
	case err != nil:
		text := err.Error()
		for _, h := range hint.Of(err) {
			text += "\n" + h
		}
		http.Error(w, text, http.StatusNotFound)
		return
	}
	f.Process.Command = withoutArguments(f.Process.Command)
	doc := report.NewExplain(f)
	doc.Header = verb.NewHeader("explain")
	var b bytes.Buffer
	if err := report.WriteJSONLine(&b, doc); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, b.Bytes())
}

// knows reports whether a process is a Go program of a container, and the one that the last scan found under its number.
func (a *Agent) knows(pid int) bool {
	s := a.Latest()
	if s == nil {
		return false
	}
	for i := range s.Doc.Processes {
		p := &s.Doc.Processes[i]
		if p.PID == pid && p.Container != nil {
			at, ok := procs.ReadClock(a.o.Root).Started(a.o.Root, pid)
			then, err := time.Parse(time.RFC3339, p.Started)
			return ok && err == nil && at.Sub(then).Abs() < 2*time.Second // the system's clock is set now and then
		}
	}
	return false
}

func writeJSON(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.Write(data) // who went away is told nothing
}

// Supported reports whether there is something to look at.
func Supported() error {
	if runtime.GOOS != "linux" {
		return hint.With(errors.New("only Linux shows other processes"), "the agent runs on the nodes of a cluster: deploy/agent in the repository has all that it needs")
	}
	return nil
}
