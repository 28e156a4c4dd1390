package agent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// A recorder keeps events, or fails.
type recorder struct {
	got []*corev1.Event
	err error
}

func (r *recorder) Record(_ context.Context, e *corev1.Event) error {
	if r.err == nil {
		r.got = append(r.got, e)
	}
	return r.err
}

// scanned is a scan with these findings of a pod: rule/severity.
func scanned(pods int, rules ...string) *result.Agent {
	doc := &result.Agent{}
	for i := range pods {
		p := result.AgentProcess{Container: &result.AgentContainer{Namespace: "shop", Pod: "api", UID: string(rune('a' + i)), Name: "app"}}
		for _, text := range rules {
			name, severity, _ := strings.Cut(text, "/")
			f := finding.Finding{Rule: name, Severity: finding.Warning, Summary: "GOMAXPROCS is 16 under a limit of 0.5 CPUs", Fix: "set it to 2"}
			if severity == "info" {
				f.Severity = finding.Info
			}
			p.Findings = append(p.Findings, f)
		}
		doc.Processes = append(doc.Processes, p, p) // two processes
	}
	return doc
}

func TestEvents(t *testing.T) {
	at := time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)
	var r recorder
	e := newEvents(&Options{Node: "node-1", Events: &r, Log: slog.New(slog.DiscardHandler)})
	after := func(later time.Duration, doc *result.Agent, want int) {
		t.Helper()
		at = at.Add(later)
		r.got = nil
		e.after(t.Context(), doc, at)
		if len(r.got) != want {
			t.Errorf("%v: %d events, want %d", at, len(r.got), want)
		}
	}
	const scan = 30 * time.Second
	after(0, scanned(1, "too-many-ps", "throttled/info"), 0) // it may be gone at the next
	after(scan, scanned(1, "too-many-ps", "throttled/info"), 1)
	if got := r.got[0]; got.Reason != "UnthrottleTooManyPs" || got.Message != "GOMAXPROCS is 16 under a limit of 0.5 CPUs; fix: set it to 2" || got.Namespace != "shop" ||
		got.InvolvedObject.UID != "a" || got.InvolvedObject.FieldPath != "spec.containers{app}" || got.Source.Host != "node-1" || got.GenerateName != "api.unthrottle-" {
		t.Errorf("%+v", got)
	}
	after(scan, scanned(1, "too-many-ps"), 0)
	after(scan, scanned(1, "too-many-ps", "stale"), 0)
	after(scan, scanned(1, "too-many-ps", "stale"), 1)
	after(scan, scanned(0), 0)
	after(scan, scanned(1, "stale"), 0)
	after(scan, scanned(1, "stale"), 0) // it was written
	after(time.Hour, scanned(1, "stale"), 1)
	after(2*time.Hour, scanned(0), 0)
	if len(e.told) != 0 {
		t.Errorf("kept are %v", e.told)
	}

	// Many at once come one after the other.
	after(scan, scanned(25, "stale"), 0)
	after(scan, scanned(25, "stale"), eventBurst)
	after(scan, scanned(25, "stale"), 3)
	after(10*time.Minute, scanned(25, "stale"), eventBurst)
	after(10*time.Minute, scanned(25, "stale"), 2)

	// An agent that may not write tries again after a while, and still knows then what it has not written.
	at = at.Add(24 * time.Hour)
	e = newEvents(&Options{Events: &r, Log: slog.New(slog.DiscardHandler)})
	r.err = apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))
	after(0, scanned(1, "stale"), 0)
	after(scan, scanned(1, "stale"), 0)
	r.err = nil
	after(scan, scanned(1, "stale"), 0)
	after(eventPause, scanned(1, "stale"), 1)

	// A namespace being deleted is no reason to wait.
	r.err = apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")
	after(time.Hour, scanned(1, "stale"), 0)
	r.err = nil
	after(scan, scanned(1, "stale"), 1)
}

func TestEventLong(t *testing.T) {
	c := &result.AgentContainer{Namespace: "shop", Pod: strings.Repeat("a", 199) + ".b" + strings.Repeat("c", 52), UID: "u", Name: "app"}
	got := newEvents(&Options{}).event(c, finding.Finding{Rule: "stale", Summary: strings.Repeat("ä", 2000)}, time.Now())
	if len(got.Message) > 1024 || len(got.GenerateName) > 248 || strings.Contains(got.GenerateName, "..") {
		t.Errorf("%d bytes, name %s", len(got.Message), got.GenerateName)
	}
}
