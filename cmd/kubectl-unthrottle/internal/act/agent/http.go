package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/show/inspect"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/certs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/door"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

const (
	mostRequests = 16 // at a time, of all kinds but the probes and the scrapes
	mostExplains = 4
	mostScrapes  = 4
	mostReading  = 5 * time.Second  // of a request
	mostWriting  = 20 * time.Second // of an answer
	explainFor   = time.Second
)

// What may be open at a time. Prometheus has one connection, and the API server's proxy one for each concurrent caller; a
// connection with the largest head or greeting takes 100 KB, so these are 6 MB of the container's 128. A greeting is the most that
// a caller without permission can make the agent compute, some 0.2 ms.
var (
	forAsking = door.Bounds{
		Connections: 64, Each: 16, EachSecond: 20, Header: 4 << 10, // a token has some 1,000 bytes
		Reading: mostReading, Writing: mostWriting, Idle: time.Minute,
	}
	forProbes = door.Bounds{ // by the kubelet
		Connections: 16, Each: 4, EachSecond: 20, Header: 4 << 10,
		Reading: mostReading, Writing: mostReading, Idle: time.Minute,
	}
)

// The rights that are asked for, as nonResourceURLs. Those for what is below /api have other names: in every cluster the role
// system:discovery lets every account get /api/*.
const (
	rightMetrics   = "/metrics"
	rightProcesses = "/unthrottle/processes"
	rightExplain   = "/unthrottle/explain"
	rightProfiles  = "/debug/pprof"
)

// Serve answers at a listener until ctx ends, and scans meanwhile. Probes are answered at another one, without TLS and for any caller.
func (a *Agent) Serve(ctx context.Context, l, probes net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var own sync.WaitGroup
	defer own.Wait()
	defer cancel()
	own.Go(func() { a.Run(ctx) })
	base := func(net.Listener) context.Context { return ctx }
	main := door.New(a.Handler(), forAsking, a.o.Log)
	side := door.New(a.Probes(), forProbes, a.o.Log)
	main.BaseContext, side.BaseContext = base, base
	serve := main.Serve
	if a.o.Certificate != nil {
		own.Go(func() { a.o.Certificate.Run(ctx) })
		main.TLSConfig = &tls.Config{GetCertificate: certs.Get(a.o.Certificate), MinVersion: tls.VersionTLS12}
		serve = main.ServeTLS
	}
	ended := make(chan error, 2)
	go func() { ended <- failed(l, serve(l)) }()
	go func() { ended <- failed(probes, side.Serve(probes)) }()
	select {
	case err := <-ended:
		main.Close()
		side.Close()
		<-ended
		return err
	case <-ctx.Done():
	}
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer stop()
	if main.Shutdown(end) != nil {
		main.Close()
	}
	side.Close()
	<-ended
	<-ended
	return nil
}

func failed(l net.Listener, err error) error {
	return fmt.Errorf("serving at %s: %w", l.Addr(), err)
}

// Handler answers requests of permitted callers. No request changes anything.
func (a *Agent) Handler() http.Handler {
	scrape := promhttp.HandlerFor(a.metrics.registry(), promhttp.HandlerOpts{
		MaxRequestsInFlight: mostScrapes, Timeout: mostWriting / 2, ErrorLog: slog.NewLogLogger(a.o.Log.Handler(), slog.LevelError),
	})
	room, explains := make(chan struct{}, mostRequests), make(chan struct{}, mostExplains)
	mux := http.NewServeMux()
	// A caller without permission takes none of the room, and no one takes that of the scrapes.
	handle := func(pattern, right string, h http.Handler) {
		if a.o.Guard != nil {
			h = a.o.Guard.For(right, h)
		}
		mux.Handle("GET "+pattern, h)
	}
	handle("/metrics", rightMetrics, scrape)
	handle("/api/v1/processes", rightProcesses, atMost(room, http.HandlerFunc(a.servesProcesses)))
	handle("/api/v1/explain", rightExplain, atMost(room, atMost(explains, http.HandlerFunc(a.servesExplain))))
	if a.o.PProf {
		handle("/debug/pprof/", rightProfiles, atMost(room, http.HandlerFunc(pprof.Index)))
		handle("/debug/pprof/profile", rightProfiles, atMost(room, http.HandlerFunc(pprof.Profile)))
		handle("/debug/pprof/trace", rightProfiles, atMost(room, http.HandlerFunc(pprof.Trace)))
	}
	return mux
}

// Probes answers whether it is alive, and ready.
func (a *Agent) Probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", a.servesHealth)
	mux.HandleFunc("GET /readyz", a.servesReady)
	return mux
}

// atMost turns requests away while there is no room.
func atMost(room chan struct{}, h http.Handler) http.Handler {
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

// servesHealth says whether the loop goes on. A scan that fails is no reason to restart: what it found is in the metrics.
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

// servesExplain explains a Go program of a container of the last scan, and no other process of the node. It says what the scan says:
// whose the limit is, and what was seen of the program before. What its pod mutes is left out.
func (a *Agent) servesExplain(w http.ResponseWriter, r *http.Request) {
	text := r.URL.Query().Get("pid")
	pid, err := strconv.Atoi(text)
	if err != nil || pid < 1 {
		http.Error(w, fmt.Sprintf("%.20q is not a pid: write /api/v1/explain?pid=N with a pid from /api/v1/processes", text), http.StatusBadRequest)
		return
	}
	p, stale := a.seen(pid)
	if p == nil {
		http.Error(w, fmt.Sprintf("%d was not a Go program of a container in the last scan: /api/v1/processes lists them", pid), http.StatusNotFound)
		return
	}
	f, err := inspect.ProcessKnown(r.Context(), a.o.Root, pid, explainFor, inspect.Known{Adjust: a.owner, Stale: stale})
	switch {
	case errors.Is(err, context.Canceled):
		return // the client is gone
	case err != nil:
		text := err.Error()
		for _, h := range hint.Of(err) {
			text += "\n" + h
		}
		http.Error(w, text, http.StatusNotFound)
		return
	}
	f.Process.Command = withoutArguments(f.Process.Command)
	f.Findings = slices.DeleteFunc(f.Findings, func(found finding.Finding) bool { return pods.Mutes(p.Container.Muted, found.Rule) })
	doc := report.NewExplain(f)
	doc.Header = verb.NewHeader("explain")
	var b bytes.Buffer
	if err := report.WriteJSONLine(&b, doc); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, b.Bytes())
}

// seen is what the last scan says about a process, if that is a Go program of a container and still the one found under its
// number, and why it is stale; nil: it is not.
func (a *Agent) seen(pid int) (p *result.AgentProcess, why *rule.Stale) {
	s := a.Latest()
	if s == nil {
		return nil, nil
	}
	for i := range s.Doc.Processes {
		p := &s.Doc.Processes[i]
		if p.PID == pid && p.Container != nil {
			at, ok := procs.ReadClock(a.o.Root).Started(a.o.Root, pid)
			then, err := time.Parse(time.RFC3339, p.Started)
			if ok && err == nil && at.Sub(then).Abs() < 2*time.Second { // the system's clock is set now and then
				return p, s.stale[pid]
			}
		}
	}
	return nil, nil
}

func writeJSON(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.Write(data) // a client that went away gets nothing
}

// Supported reports whether there is something to look at.
func Supported() error {
	if runtime.GOOS != "linux" {
		return hint.With(errors.New("only Linux shows other processes"), "the agent runs on the nodes of a cluster: deploy/agent in the repository has all that it needs")
	}
	return nil
}
