// Package webhook answers: what does a pod that is about to be made need? In go the API server's admission reviews; out come
// answers that allow everything, with warnings and, if that is asked for, a patch. It asks package lint and does what its
// remedies say; what is right it does not know itself.
//
// It never refuses a pod. What it can't read, what is too large, and its own faults are allowed, and told. It keeps nothing, asks
// nobody and writes no part of a pod to its log but names.
package webhook

import (
	"bytes"
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

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/lint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/workload"
)

// Where the reviews come in.
const (
	MutatePath = "/mutate" // pods that are made
	ResizePath = "/resize" // pods whose resources change in place
)

// A Mode says what is done about a finding.
type Mode string

const (
	Warn Mode = "warn" // it is told
	Fix  Mode = "fix"  // the pod is changed where that is right for any program
)

// Options say how pods are looked at. The zero value warns of everything.
type Options struct {
	Mode             Mode
	WarnOn           finding.Severity // findings below it are counted only
	ExemptNamespaces []string
	ExemptContainers []string
	Go               *procs.Program // what Go programs are built with that nobody names; nil: not known
	MaxBody          int64          // bytes of a review (0: 3 MiB, as the API server's own bound). What is larger is allowed unread
	MaxBodies        int64          // bytes of all reviews that are looked at together (0: 4 MiB): they take some fifty times their size
	Log              *slog.Logger
}

const (
	maxBody   = 3 << 20
	maxBodies = 4 << 20
)

// A Handler answers reviews.
type Handler struct {
	o       Options
	check   func(*workload.Workload) []lint.Finding
	metrics *metrics
	bodies  atomic.Int64 // bytes that are being looked at
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
	h := &Handler{o: o, metrics: newMetrics(), mux: http.NewServeMux()}
	h.check = func(w *workload.Workload) []lint.Finding { return lint.Check(w, lint.Known{Go: o.Go}) }
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

// An outcome is what became of a review, as it is counted.
type outcome string

const (
	quiet   outcome = "quiet"   // there was nothing to say
	warned  outcome = "warned"  // something was told
	changed outcome = "changed" // the pod was changed
	exempt  outcome = "exempt"  // somebody wants it left alone
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
	body, release, err := h.read(r)
	defer release()
	if err == nil {
		req, err = readRequest(body)
	} else {
		req = &request{UID: uidOf(body)}
	}
	if err == nil {
		v, err = look(r.Context(), req)
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

var errTooMuch = errors.New("too many large pods at a time")

// prefix is what is read of a review that is not looked at, for its uid.
const prefix = 4 << 10

// read reads a body, or the beginning of one that is too large. What all bodies take together is bounded, so that no crowd of
// large ones takes the memory of those that matter.
func (h *Handler) read(r *http.Request) (body []byte, release func(), err error) {
	size := r.ContentLength
	if size < 0 || size > h.o.MaxBody {
		size = h.o.MaxBody
	}
	release = func() { h.bodies.Add(-size) }
	h.metrics.open(h.bodies.Add(size))
	most := h.o.MaxBody
	switch {
	case r.ContentLength > h.o.MaxBody:
		err = h.tooLarge()
	case h.bodies.Load() > h.o.MaxBodies:
		err = errTooMuch
	}
	if err != nil {
		most = prefix
	}
	buffer := bytes.NewBuffer(make([]byte, 0, min(size, most)+bytes.MinRead))
	n, failed := buffer.ReadFrom(io.LimitReader(r.Body, most+1))
	body = buffer.Bytes()
	switch {
	case err != nil:
	case failed != nil:
		err = errors.New("the review broke off")
	case n > most:
		err = h.tooLarge()
	}
	return body, release, err
}

func (h *Handler) tooLarge() error {
	return fmt.Errorf("the review has more than %d bytes", h.o.MaxBody)
}

// tell writes a line to the log: of what matters, and of all where that is asked for.
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
