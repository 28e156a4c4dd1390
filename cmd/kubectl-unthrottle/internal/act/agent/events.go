package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// A Recorder takes events of pods.
type Recorder interface {
	Record(ctx context.Context, e *corev1.Event) error
}

// ToServer writes events to the API server.
func ToServer(client rest.Interface) Recorder { return toServer{client} }

type toServer struct{ rest.Interface }

func (s toServer) Record(ctx context.Context, e *corev1.Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, eventWithin)
	defer cancel()
	return s.Post().AbsPath("api", "v1", "namespaces", e.Namespace, "events").Body(body).Do(ctx).Error()
}

// How often events are written. API servers keep one for an hour, so what goes on for longer is written again before that.
const (
	eventAgain  = 55 * time.Minute
	eventBurst  = 10               // after a quiet time
	eventEach   = 10 * time.Second // for each that follows
	eventPause  = 10 * time.Minute // where it may not, or is asked to wait
	eventWithin = 5 * time.Second
	mostMessage = 1000 // bytes; the API server takes 1,024
)

// events writes what is wrong now as events of the pods, so that kubectl describe shows it to people who don't know about the agent.
type events struct {
	to   Recorder
	node string
	log  *slog.Logger

	told   map[occasion]time.Time
	before map[occasion]bool // the scan before found it
	room   float64           // events that may be written at once
	filled time.Time
	paused time.Time // until then nothing is written
}

// An occasion is what an event is of.
type occasion struct{ uid, container, rule string }

func newEvents(o *Options) *events {
	return &events{to: o.Events, node: o.Node, log: o.Log, told: map[occasion]time.Time{}, room: eventBurst}
}

// after writes events of what a scan found, and the one before it: what comes and goes within a minute is not an event.
func (e *events) after(ctx context.Context, doc *result.Agent, now time.Time) {
	e.room = min(eventBurst, e.room+now.Sub(e.filled).Seconds()/eventEach.Seconds())
	e.filled = now
	found := map[occasion]bool{}
	for i := range doc.Processes {
		p := &doc.Processes[i]
		if p.Container == nil || p.Container.Namespace == "" {
			continue
		}
		for _, f := range p.Findings {
			if f.Severity < finding.Warning {
				continue
			}
			of := occasion{p.Container.UID, p.Container.Name, f.Rule}
			if found[of] {
				continue // another process of the container
			}
			found[of] = true
			if last, ok := e.told[of]; e.before[of] && (!ok || now.Sub(last) >= eventAgain) {
				e.tell(ctx, of, p.Container, f, now)
			}
		}
	}
	e.before = found
	for of, at := range e.told {
		if now.Sub(at) >= eventAgain && !found[of] {
			delete(e.told, of)
		}
	}
}

// tell writes one event, if there is room. One that could not be written is tried again after the next scan.
func (e *events) tell(ctx context.Context, of occasion, c *result.AgentContainer, f finding.Finding, now time.Time) {
	if e.room < 1 || now.Before(e.paused) {
		return
	}
	e.room--
	err := e.to.Record(ctx, e.event(c, f, now))
	switch {
	case err == nil:
		e.told[of] = now
	case ctx.Err() != nil, apierrors.IsNotFound(err): // the namespace is going, or we are
	default:
		e.paused = now.Add(eventPause)
		e.log.Error("events: none is written for a while", "error", err, "pause", eventPause.String(), "off", "--events=false")
	}
}

func (e *events) event(c *result.AgentContainer, f finding.Finding, now time.Time) *corev1.Event {
	message := f.Summary + "; fix: " + f.Fix
	if len(message) > mostMessage {
		message = strings.ToValidUTF8(message[:mostMessage], "") + "…"
	}
	name := c.Pod[:min(len(c.Pod), 200)]
	return &corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: strings.TrimRight(name, ".-") + ".unthrottle-", Namespace: c.Namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: c.Namespace, Name: c.Pod, UID: types.UID(c.UID), FieldPath: "spec.containers{" + c.Name + "}",
		},
		Type: corev1.EventTypeWarning, Reason: reason(f.Rule), Message: message,
		Source:         corev1.EventSource{Component: "unthrottle-agent", Host: e.node},
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now), Count: 1,
		ReportingController: "unthrottle.dev/agent", ReportingInstance: e.node,
	}
}

// reason is a rule's name as events and alerts have it: UnthrottleTooManyPs.
func reason(rule string) string {
	text := "Unthrottle"
	for _, word := range strings.Split(rule, "-") {
		if word != "" {
			text += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return text
}
