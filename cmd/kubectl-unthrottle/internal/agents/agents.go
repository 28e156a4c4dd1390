// Package agents answers: what do the agents of a cluster say? In go answers of an API server: which pods are agents, and what
// each tells through the API server's proxy. Out come the Go programs that they saw, one after the other, and which agents could
// not be heard.
//
// An agent is a pod like any other, so it may hang, answer with nonsense, with far too much, or with what it can't know. Each has
// its time and its size, what it says is checked before anybody goes by it, and no document is kept.
package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/audit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/result"
)

// A Getter asks an API server for a path. The answer is bounded.
type Getter interface {
	Get(ctx context.Context, path string, query url.Values, within time.Duration) (io.ReadCloser, error)
}

// An Agent is a pod that says of itself that it is one.
type Agent struct {
	Namespace, Pod, Node string
	Port                 int
	Ready                bool
}

// String is how an agent is called.
func (a Agent) String() string {
	return fmt.Sprintf("%s in %s, on node %s", a.Pod, a.Namespace, a.Node)
}

// Options bound what agents are given. The zero value is good.
type Options struct {
	AtOnce int           // agents that are asked at the same time; 0: 16
	Within time.Duration // of an answer; 0: 5 s
}

const (
	label        = "app.kubernetes.io/name=unthrottle-agent"
	usualPort    = 9435
	portName     = "http"
	inPage       = 500
	mostPages    = 100     // an API server whose list never ends is none
	mostProcs    = 1 << 20 // GOMAXPROCS
	mostCPUs     = 8192    // of a machine: Linux knows no larger one
	mostFound    = 32      // findings of a program
	mostText     = 2000    // letters of a text that is kept
	mostPrograms = 20_000  // of a node
	mostValue    = 1 << 20 // bytes, of a program or another thing that is kept
)

// Find asks which pods are agents.
func Find(ctx context.Context, from Getter, within time.Duration) (all []Agent, err error) {
	next := ""
	for range mostPages {
		query := url.Values{"labelSelector": {label}, "limit": {strconv.Itoa(inPage)}}
		if next != "" {
			query.Set("continue", next)
		}
		more, token, err := find(ctx, from, query, within)
		if err != nil {
			return all, err
		}
		all = append(all, more...)
		if next = token; next == "" {
			return all, nil
		}
	}
	return all, errors.New("its list of agents does not end")
}

func find(ctx context.Context, from Getter, query url.Values, within time.Duration) (all []Agent, next string, err error) {
	body, err := from.Get(ctx, "/api/v1/pods", query, within)
	if err != nil {
		return nil, "", err
	}
	defer body.Close()
	var list struct {
		Metadata struct{ Continue string }
		Items    []struct {
			Metadata struct{ Namespace, Name string }
			Spec     struct {
				NodeName   string
				Containers []struct {
					Ports []struct {
						Name          string
						ContainerPort int
					}
				}
			}
			Status struct {
				Phase      string
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := json.NewDecoder(body).Decode(&list); err != nil {
		return nil, "", fmt.Errorf("its answer is not a list of pods: %w", err)
	}
	for _, p := range list.Items {
		a := Agent{Namespace: p.Metadata.Namespace, Pod: p.Metadata.Name, Node: p.Spec.NodeName, Port: usualPort}
		if p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
			continue
		}
		for _, c := range p.Spec.Containers {
			for _, port := range c.Ports {
				if port.Name == portName && port.ContainerPort > 0 && port.ContainerPort < 1<<16 {
					a.Port = port.ContainerPort
				}
			}
		}
		for _, c := range p.Status.Conditions {
			a.Ready = a.Ready || c.Type == "Ready" && c.Status == "True"
		}
		all = append(all, a)
	}
	return all, list.Metadata.Continue, nil
}

// A Told is how it went with one agent.
type Told struct {
	Agent
	Err       error    // it was not heard to the end; what it said before that was taken
	Programs  int      // that belong to containers
	Looked    int      // processes of all kinds
	Refused   int      // those that it may not look into
	Problems  []string // that it tells of itself
	Elsewhere int      // programs in pods of other nodes: it can't have seen them
	Strange   int      // programs in containers that their pods do not have
	WrongNode string   // that it says it is on
}

// Trusted reports whether all that runs on its node was told, by an agent that can know.
func (t *Told) Trusted() bool {
	return t.Err == nil && t.Looked > 0 && t.Refused == 0 && len(t.Problems) == 0 && t.Elsewhere == 0 && t.Strange == 0 && t.WrongNode == ""
}

// Read asks all agents that are ready, some at the same time. saw gets each program, and told each agent when it has been heard;
// neither is called twice at a time.
func Read(ctx context.Context, from Getter, agents []Agent, o Options, saw func(node string, p audit.Program) audit.Outcome, told func(*Told)) {
	if o.AtOnce <= 0 {
		o.AtOnce = 16
	}
	if o.Within <= 0 {
		o.Within = 5 * time.Second
	}
	var (
		all  sync.WaitGroup
		one  sync.Mutex
		free = make(chan struct{}, o.AtOnce)
	)
	for _, a := range agents {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			t := &Told{Agent: a}
			if !a.Ready {
				t.Err = ErrNotReady
			} else {
				t.Err = read(ctx, from, t, o.Within, func(p audit.Program) {
					one.Lock()
					defer one.Unlock()
					switch saw(a.Node, p) {
					case audit.Elsewhere:
						t.Elsewhere++
					case audit.Strange:
						t.Strange++
					}
				})
			}
			one.Lock()
			defer one.Unlock()
			told(t)
		})
	}
	all.Wait()
}

// ErrNotReady is the error of an agent that Kubernetes does not call ready. It is not asked.
var ErrNotReady = errors.New("it is not ready")

func read(ctx context.Context, from Getter, t *Told, within time.Duration, saw func(audit.Program)) error {
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/http:%s:%d/proxy/api/v1/processes", url.PathEscape(t.Namespace), url.PathEscape(t.Pod), t.Port)
	body, err := from.Get(ctx, path, nil, within)
	if err != nil {
		return err
	}
	defer body.Close()
	return parse(body, t, saw)
}

// errDocument is the error of an answer that is no agent's document.
var errDocument = errors.New("its answer is not an agent's document")

// parse reads a document, a process at a time.
func parse(r io.Reader, t *Told, saw func(audit.Program)) error {
	in := &bounded{r, mostValue}
	d := json.NewDecoder(in)
	if err := expect(d, json.Delim('{')); err != nil {
		return err
	}
	var version int
	listed := false
	for ; d.More(); in.next() {
		token, err := d.Token()
		if err != nil {
			return wrong(err)
		}
		var node string
		var skipped json.RawMessage
		switch token {
		case "version":
			err = d.Decode(&version)
		case "node":
			if err = d.Decode(&node); err == nil && node != "" && node != t.Node {
				t.WrongNode = node
			}
		case "looked_at":
			err = d.Decode(&t.Looked)
		case "refused":
			err = d.Decode(&t.Refused)
		case "problems":
			err = d.Decode(&t.Problems)
		case "processes":
			listed = true
			err = processes(d, in, t, saw)
		default:
			err = d.Decode(&skipped)
		}
		if err != nil {
			return wrong(err)
		}
	}
	if err := expect(d, json.Delim('}')); err != nil {
		return err
	}
	if !listed || version != report.Version {
		return fmt.Errorf("%w of version %d", errDocument, report.Version)
	}
	return nil
}

// A bounded reader ends a value that is too large before it takes all memory. Of values that are taken one after the other there may be
// any number.
type bounded struct {
	r    io.Reader
	left int
}

// next begins another value.
func (b *bounded) next() { b.left = mostValue }

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: one thing in it takes more than %d MB", errDocument, mostValue>>20)
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func expect(d *json.Decoder, want json.Delim) error {
	token, err := d.Token()
	if err == nil && token != want {
		err = errDocument
	}
	return wrong(err)
}

// wrong is why a document could not be read: what the network says comes before what JSON says.
func wrong(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil, errors.Is(err, errDocument):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it ends in the middle", errDocument)
	case errors.As(err, &syntax), errors.As(err, &kind):
		return fmt.Errorf("%w: %w", errDocument, err)
	}
	return err
}

func processes(d *json.Decoder, in *bounded, t *Told, saw func(audit.Program)) error {
	token, err := d.Token()
	if err != nil || token == nil { // null
		return err
	}
	if token != json.Delim('[') {
		return errDocument
	}
	for in.next(); d.More(); in.next() {
		var p result.AgentProcess
		if err := d.Decode(&p); err != nil {
			return err
		}
		if p.Container == nil {
			continue
		}
		if t.Programs++; t.Programs > mostPrograms {
			return fmt.Errorf("%w: it tells of more than %d programs", errDocument, mostPrograms)
		}
		program, ok := programOf(&p)
		if !ok {
			return fmt.Errorf("%w: what it says of a program can't be", errDocument)
		}
		saw(program)
	}
	_, err = d.Token()
	return err
}

// programOf is what an audit needs of a process. ok is false if that can't be.
func programOf(p *result.AgentProcess) (out audit.Program, ok bool) {
	c := p.Container
	out = audit.Program{
		Namespace: c.Namespace, Pod: c.Pod, UID: c.UID, Container: c.Name, PID: p.PID, GoVersion: p.GoVersion, GoLine: p.GoLine, SetBy: p.SetBy, CPUs: p.CPUs,
		CPU: p.CPU, Spinning: p.Spinning, Throttled: p.Share, Findings: p.Findings, Muted: c.Muted,
	}
	if v := p.GOMAXPROCS.Value; v != nil {
		out.Procs = *v
	}
	if v := p.GOMAXPROCS.Expected; v != nil {
		out.Expected = *v
	}
	if p.Limit.CPUs != nil {
		out.Limit = *p.Limit.CPUs
	}
	if p.Starvation != nil {
		out.Running = &p.Starvation.Running
	}
	if p.Frozen != nil {
		out.Frozen = &p.Frozen.Share
	}
	for _, l := range p.Levels {
		if l.Limit != nil && *l.Limit == out.Limit && out.Limit > 0 && out.Level == "" {
			out.Level = l.Level
		}
		if l.Periods > 0 && l.ThrottledPeriods >= 0 && l.ThrottledPeriods <= l.Periods {
			if share := float64(l.ThrottledPeriods) / float64(l.Periods); out.Throttled == nil || share > *out.Throttled {
				out.Throttled = &share
				out.Level = l.Level
			}
		}
	}
	numbers := []*float64{out.CPU, out.Running, out.Spinning, &out.Limit}
	shares := []*float64{out.Frozen, out.Throttled}
	texts := []string{out.GoVersion, out.GoLine, out.SetBy, out.Level, out.Container}
	for _, f := range out.Findings {
		texts = append(append(texts, f.Rule, f.Verdict, f.Summary, f.Fix), f.Evidence...)
	}
	used := out.CPU == nil || out.CPUs == 0 || *out.CPU <= 1.1*float64(out.CPUs)+0.5 // no program uses more than there is, but clocks are not exact
	ok = used && between(numbers, mostCPUs) && between(shares, 1) && min(out.Procs, out.Expected, out.CPUs) >= 0 &&
		max(out.Procs, out.Expected) <= mostProcs && out.CPUs <= mostCPUs &&
		len(out.Findings) <= mostFound && len(out.Muted) <= mostFound && len(texts) <= 20*mostFound &&
		!slices.ContainsFunc(texts, func(s string) bool { return len(s) > mostText })
	return out, ok
}

// between reports whether numbers, as far as they are known, are from 0 to some most.
func between(numbers []*float64, most float64) bool {
	return !slices.ContainsFunc(numbers, func(v *float64) bool { return v != nil && !(*v >= 0 && *v <= most) })
}
