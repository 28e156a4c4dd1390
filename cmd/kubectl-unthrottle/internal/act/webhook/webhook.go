// Package webhook answers: what does a pod that is about to be made need? In go the API server's admission reviews; out come
// answers that allow everything, with warnings and, if that is asked for, a patch. It asks package lint and does what its
// remedies say; it does not know itself what is right.
//
// It never refuses a pod. What it can't read, what is too large, and its own faults are allowed, and reported. It keeps nothing,
// asks no one and writes no part of a pod to its log but names.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// Where the reviews come in.
const (
	MutatePath = "/mutate" // pods that are made
	ResizePath = "/resize" // pods whose resources change in place
)

// A Mode says what is done about a finding.
type Mode string

const (
	Warn Mode = "warn" // it is reported
	Fix  Mode = "fix"  // the pod is changed where that is right for any program
)

// Options say how pods are looked at. The zero value warns of everything.
type Options struct {
	Mode             Mode
	WarnOn           finding.Severity // findings below it are counted only
	ExemptNamespaces []string
	ExemptContainers []string
	Go               *procs.Program // what unidentified Go programs are built with; nil: not known
	MaxBody          int64          // bytes of a review (0: 3 MiB, as the API server's own bound). What is larger is allowed unread
	MaxBodies        int64          // bytes of all large reviews together (0: 3 MiB): they take some fifty times their size
	Log              *slog.Logger
}

const (
	maxBody   = 3 << 20
	maxBodies = 3 << 20

	// small is the size up to which a review has room regardless of other reviews: pods have 5 to 20 KB. How many there are at a
	// time is bounded by how many connections there are.
	small = 64 << 10

	// mostSmall is how many of those are looked at together. They take less than a millisecond each, so they wait for each other.
	mostSmall = 8

	// mostPod is where etcd ends: it stores no object of more than 1.5 MiB.
	mostPod = 3 << 19

	// mostContainers of a pod are some twenty times what the largest have.
	mostContainers = 1000

	// mostTime is as long as the API server waits by our configuration; it says so itself if someone has changed that.
	mostTime = 2 * time.Second
)

// A Handler answers reviews.
type Handler struct {
	o       Options
	check   func(context.Context, *workload.Workload) ([]lint.Finding, error)
	metrics *metrics
	bodies  atomic.Int64  // bytes of large reviews that are here
	turns   chan struct{} // of small ones
	mux     *http.ServeMux
}

// New makes a handler.
func New(o Options) *Handler {
	if o.MaxBody <= 0 {
		o.MaxBody = maxBody
	}
	if o.MaxBodies <= 0 {
		o.MaxBodies = maxBodies
	}
	if o.Mode == "" {
		o.Mode = Warn
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &Handler{o: o, metrics: newMetrics(), mux: http.NewServeMux(), turns: make(chan struct{}, mostSmall)}
	h.check = func(ctx context.Context, w *workload.Workload) ([]lint.Finding, error) {
		return lint.Check(ctx, w, lint.Known{Go: o.Go})
	}
	h.mux.HandleFunc("POST "+MutatePath, h.review("mutate", h.mutate))
	h.mux.HandleFunc("POST "+ResizePath, h.review("resize", h.resize))
	return h
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// A verdict is what is answered about a pod.
type verdict struct {
	outcome  outcome
	subject  string // the pod, or what made it
	patch    []operation
	warnings []string
}

// An outcome is what became of a review, as counted.
type outcome string

const (
	quiet   outcome = "quiet"   // there was nothing to say
	warned  outcome = "warned"  // something was reported
	changed outcome = "changed" // the pod was changed
	exempt  outcome = "exempt"  // a user wants it left alone
	unread  outcome = "unread"  // it could not be read, or was too large
	failed  outcome = "failed"  // a fault of ours
)

var outcomes = []outcome{quiet, warned, changed, exempt, unread, failed}

// review makes an HTTP handler of something that looks at a pod. Whatever happens, it allows.
func (h *Handler) review(kind string, look func(context.Context, *request) (verdict, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		req, v := h.look(r, look)
		answer, err := json.Marshal(answerTo(req, v))
		if err != nil { // it can't be: there is nothing in it that JSON does not know
			http.Error(w, "the answer can't be written", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, err = w.Write(answer)
		h.metrics.reviewed(kind, v.outcome, time.Since(start))
		h.tell(kind, req, v, time.Since(start), err)
	}
}

// look reads a review and looks at it, and turns errors and panics into verdicts.
func (h *Handler) look(r *http.Request, look func(context.Context, *request) (verdict, error)) (req *request, v verdict) {
	req = &request{}
	defer func() {
		if p := recover(); p != nil {
			h.o.Log.Error("a fault of ours; the pod was allowed", "fault", fault(p), "stack", string(debug.Stack()))
			v = verdict{outcome: failed, subject: v.subject, warnings: []string{"unthrottle did not look at this pod: it failed"}}
		}
	}()
	ctx, cancel := context.WithTimeout(r.Context(), timeFor(r))
	defer cancel()
	body, release, err := h.read(r)
	defer func() { release() }()
	if err == nil && len(body) <= small {
		err = h.turn(ctx, &release)
	}
	if err == nil {
		req, err = readRequest(body)
	} else {
		req = &request{UID: uidOf(body)}
	}
	if err == nil {
		v, err = look(ctx, req)
	}
	if err != nil {
		v = verdict{outcome: unread, warnings: []string{"unthrottle did not look at this pod: " + err.Error()}}
	}
	return req, v
}

// fault is a panic's value, unless it may have a part of a pod in it.
func fault(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", p)
}

var (
	errTooMuch = errors.New("too many large pods at a time")
	errLate    = errors.New("there was no time for it")
)

// timeFor is how long the caller waits for the answer: the API server says so in its query.
func timeFor(r *http.Request) time.Duration {
	d, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || d <= 0 || d > mostTime {
		return mostTime
	}
	return d
}

// turn waits until a small review may be looked at.
func (h *Handler) turn(ctx context.Context, release *func()) error {
	select {
	case h.turns <- struct{}{}:
		before := *release
		*release = func() { <-h.turns; before() }
		return nil
	case <-ctx.Done():
		return errLate
	}
}

// prefix is what is read of a review that is not looked at, for its uid.
const prefix = 4 << 10

// read reads a body, or the beginning of one that is too large. What large bodies take together is bounded, so that no crowd of
// them takes the memory of those that matter. Bytes count when they are there: what a client says that it will send takes nothing.
func (h *Handler) read(r *http.Request) (body []byte, release func(), err error) {
	var held int64
	release = func() { h.bodies.Add(-held) }
	if r.ContentLength > h.o.MaxBody {
		body, _ = io.ReadAll(io.LimitReader(r.Body, prefix))
		return body, release, h.tooLarge()
	}
	for {
		if len(body) == cap(body) {
			grown := min(max(2*int64(cap(body)), 8<<10), h.o.MaxBody+1)
			if r.ContentLength >= int64(len(body)) {
				grown = min(grown, r.ContentLength+1) // the one is for the end
			}
			if more := grown - small - held; more > 0 { // from here on it is a large one
				held += more
				all := h.bodies.Add(more)
				if all > h.o.MaxBodies {
					return body, release, errTooMuch
				}
				h.metrics.open(all)
			}
			body = append(make([]byte, 0, grown), body...)
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > h.o.MaxBody:
			return body, release, h.tooLarge()
		case err == io.EOF:
			return body, release, nil
		case err != nil:
			return body, release, errors.New("the review broke off")
		}
	}
}

func (h *Handler) tooLarge() error {
	return fmt.Errorf("the review has more than %d bytes", h.o.MaxBody)
}

// tell writes a line to the log: about what matters, and about everything on request.
func (h *Handler) tell(kind string, req *request, v verdict, took time.Duration, err error) {
	level := slog.LevelDebug
	switch v.outcome {
	case changed, warned:
		level = slog.LevelInfo
	case unread:
		level = slog.LevelWarn
	}
	if err != nil {
		level = slog.LevelWarn
	}
	if !h.o.Log.Enabled(context.Background(), level) {
		return
	}
	args := []any{
		"review", kind, "outcome", string(v.outcome), "namespace", req.Namespace, "pod", v.subject, "uid", req.UID,
		"dryRun", req.DryRun, "changes", len(v.patch), "took", took,
	}
	for _, w := range v.warnings {
		args = append(args, "warning", w)
	}
	if err != nil {
		args = append(args, "error", err)
	}
	h.o.Log.Log(context.Background(), level, "reviewed", args...)
}

// Bounds of what the API server passes on: it shortens warnings where all of them have more than 4,096 characters.
const (
	mostWarnings = 12
	mostLetters  = 300
)

// warnings are those of a verdict as they can be sent: few enough, on one line each.
func sendable(all []string) (sent []string) {
	for i, text := range all {
		if i == mostWarnings-1 && len(all) > mostWarnings {
			return append(sent, fmt.Sprintf("unthrottle: and %d more", len(all)-i))
		}
		text = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return ' '
			}
			return r
		}, strings.ToValidUTF8(text, "?"))
		if letters := []rune(text); len(letters) > mostLetters {
			text = string(letters[:mostLetters-1]) + "…"
		}
		sent = append(sent, text)
	}
	return sent
}
