// Package agents answers: what do the agents of a cluster say? In go answers of an API server: which pods are agents, and what each says
// through the API server's proxy. Out come the Go programs that they saw, one after the other, and which agents could not be heard.
//
// An agent is a pod like any other, so it may hang, answer with nonsense, with far too much, or with what it can't know. Each has
// its time and its size, what it says is checked before it is used, and no document is kept.
package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// Options bound what agents are given. The zero value is good.
type Options struct {
	AtOnce int           // agents that are asked at the same time; 0: 16
	Within time.Duration // of an answer; 0: 5 s

	// Ask gets what an agent says; nil: through the API server's proxy.
	Ask func(ctx context.Context, a Agent) (io.ReadCloser, error)
	// Pods are those of a node, for agents that can't name what they see; nil: they can.
	Pods func(ctx context.Context, node string) (pods.Source, error)
}

const (
	mostProcs    = 1 << 20 // GOMAXPROCS
	mostCPUs     = 8192    // of a machine: Linux knows no larger one
	mostFound    = 32      // findings of a program
	mostRate     = 1e9     // of anything that happens, a second
	mostPrograms = 20_000  // of a node
	mostValue    = 1 << 20 // bytes, of a program or another thing that is kept
)

// An Answer is how it went with one agent.
type Answer struct {
	Agent
	Err       error  // it was not heard to the end; what it said before that was taken
	Programs  int    // that belong to containers
	Looked    int    // processes of all kinds
	Refused   int    // those that it may not look into
	Stuck     int    // those about which the kernel tells it nothing
	Problems  int    // that it reports itself
	Elsewhere int    // programs in pods of other nodes: it can't have seen them
	Unnamed   int    // programs in containers that it can't name, or not yet
	Strange   int    // programs in containers that their pods do not have
	Otherwise int    // programs about which another agent of its node said otherwise before
	NewRules  int    // findings of rules that are not known here
	WrongNode string // that it says it is on

	System  report.PsSystem
	Seconds float64 // for which it looked
}

// Trusted reports whether the agent listed all that runs on its node, and can know it.
func (t *Answer) Trusted() bool {
	return t.Err == nil && t.Looked > 0 && t.Refused == 0 && t.Stuck == 0 && t.Problems == 0 && t.Elsewhere == 0 && t.Unnamed == 0 && t.Strange == 0 && t.Otherwise == 0 && t.WrongNode == ""
}

// Doubted reports whether the agent said what can't be, or something that isn't about its node: none of its numbers counts
// against what is written.
func (t *Answer) Doubted() bool {
	return t.WrongNode != "" || t.Elsewhere > 0 || t.Strange > 0 || t.Otherwise > 0 || errors.Is(t.Err, errDocument)
}

// Read asks all agents that are ready, some at the same time. saw gets each program, and told gets each agent once it has been
// heard; neither is called concurrently.
func Read(ctx context.Context, from Getter, agents []Agent, o Options, saw func(node string, p audit.Program) audit.Outcome, told func(*Answer)) {
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
			t := &Answer{Agent: a}
			if !a.Ready {
				t.Err = ErrNotReady
			} else {
				t.Err = o.read(ctx, from, t, func(p *result.AgentProcess) error {
					program, ok := programOf(p, t)
					if !ok {
						return errProgram
					}
					one.Lock()
					defer one.Unlock()
					switch saw(a.Node, program) {
					case audit.Elsewhere:
						t.Elsewhere++
					case audit.Unnamed:
						t.Unnamed++
					case audit.Strange:
						t.Strange++
					case audit.Otherwise:
						t.Otherwise++
					}
					return nil
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
var ErrNotReady = errors.New("not ready")

// Busiest is the process of a container that used the most CPU, according to the agent of its node, and of how many; nil: it reports none.
func Busiest(ctx context.Context, from Getter, a Agent, container string, within time.Duration) (t *Answer, best *result.AgentProcess, of int, err error) {
	t = &Answer{Agent: a}
	used := func(p *result.AgentProcess) float64 {
		if p.CPU == nil {
			return 0
		}
		return *p.CPU
	}
	err = read(ctx, from, t, within, func(p *result.AgentProcess) error {
		if p.Container.ID != container || p.PID <= 0 {
			return nil
		}
		if _, ok := programOf(p, t); !ok {
			return errProgram
		}
		of++
		if best == nil || used(p) > used(best) {
			best = p
		}
		return nil
	})
	if err == nil && t.WrongNode != "" {
		err = fmt.Errorf("%w: claims to be on another node", errDocument)
	}
	return t, best, of, err
}

// errProgram is the error of numbers that no program has.
var errProgram = fmt.Errorf("%w: its figures for a program are impossible", errDocument)

// read reads one, and names the containers that it can't name itself.
func (o Options) read(ctx context.Context, from Getter, t *Answer, saw func(*result.AgentProcess) error) error {
	if o.Ask == nil {
		return read(ctx, from, t, o.Within, saw)
	}
	body, err := o.Ask(ctx, t.Agent)
	if err != nil {
		return err
	}
	defer body.Close()
	if o.Pods == nil {
		return parse(body, t, saw)
	}
	known, err := o.Pods(ctx, t.Node)
	if err != nil {
		return err
	}
	return parse(body, t, func(p *result.AgentProcess) error {
		if c, ok := known.Container(podpath.Ref{Container: p.Container.ID}); ok {
			name(p, t, c)
		}
		return saw(p)
	})
}

func read(ctx context.Context, from Getter, t *Answer, within time.Duration, saw func(*result.AgentProcess) error) error {
	body, err := from.Get(ctx, t.Path("processes"), nil, within)
	if err != nil {
		return err
	}
	defer body.Close()
	return parse(body, t, saw)
}

// errDocument is the error of an answer that isn't an agent's document.
var errDocument = errors.New("its answer is not an agent's document")

// parse reads a document, a process at a time.
func parse(r io.Reader, t *Answer, saw func(*result.AgentProcess) error) error {
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
		case "stuck":
			err = d.Decode(&t.Stuck)
		case "problems":
			var problems []string
			err = d.Decode(&problems)
			t.Problems = len(problems)
		case "system":
			if err = d.Decode(&t.System); err == nil && (t.System.CPUs < 0 || t.System.CPUs > mostCPUs || !between([]*float64{t.System.Busy, t.System.Steal}, mostCPUs)) {
				t.System = report.PsSystem{}
			}
		case "seconds":
			err = d.Decode(&t.Seconds)
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
		return 0, fmt.Errorf("%w: one value takes more than %d MB", errDocument, mostValue>>20)
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
		return fmt.Errorf("%w: ends in the middle", errDocument)
	case errors.As(err, &syntax), errors.As(err, &kind):
		return fmt.Errorf("%w: %w", errDocument, err)
	}
	return err
}

func processes(d *json.Decoder, in *bounded, t *Answer, saw func(*result.AgentProcess) error) error {
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
			return fmt.Errorf("%w: more than %d programs", errDocument, mostPrograms)
		}
		if err := saw(&p); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// Muted are the rules that the pod of a process mutes, as far as they are known here.
func Muted(p *result.AgentProcess) (names []string) {
	for _, name := range p.Container.Muted {
		if known(name) || name == "all" {
			names = append(names, name)
		}
	}
	return names
}

// programOf is what an audit needs of a process: numbers that can be, names that are looked up in what the API server gave, and
// words that are known. ok is false if that can't be.
func programOf(p *result.AgentProcess, t *Answer) (out audit.Program, ok bool) {
	c := p.Container
	out = audit.Program{
		Namespace: c.Namespace, Pod: c.Pod, UID: c.UID, Container: c.Name, PID: p.PID, GoVersion: like(p.GoVersion, versions), GoLine: like(p.GoLine, lines),
		SetBy: among(p.SetBy, sources), CPUs: p.CPUs, CPU: p.CPU, Spinning: p.Spinning, Throttled: p.Share,
	}
	out.Muted = Muted(p)
	if v := p.GOMAXPROCS.Value; v != nil {
		out.Procs = *v
	}
	if p.Limit.CPUs != nil {
		out.Limit = *p.Limit.CPUs
	}
	out.NoLimit = p.Limit.State == cgroup.None.String()
	if p.Starvation != nil {
		out.Running = &p.Starvation.Running
	}
	if p.Frozen != nil {
		out.Frozen = &p.Frozen.Share
	}
	if at := owner(p); at != nil {
		out.Level = among(at.Level, levels)
	}
	for _, l := range p.Levels {
		if l.Periods > 0 && l.ThrottledPeriods >= 0 && l.ThrottledPeriods <= l.Periods {
			if share := float64(l.ThrottledPeriods) / float64(l.Periods); out.Throttled == nil || share > *out.Throttled {
				out.Throttled = &share
				out.Level = among(l.Level, levels)
			}
		}
	}
	numbers := []*float64{out.CPU, out.Running, out.Spinning, &out.Limit}
	shares := []*float64{out.Frozen, out.Throttled}
	rates := []*float64{p.Collected, p.Switched}
	var quotas []*float64
	if p.Starvation != nil {
		numbers = append(numbers, &p.Starvation.CPU)
	}
	if p.Stale != nil {
		quotas = append(quotas, p.Stale.Then, p.Stale.Now)
	}
	for _, l := range p.Levels {
		quotas = append(quotas, l.Limit)
	}
	used := out.CPU == nil || out.CPUs == 0 || *out.CPU <= 1.1*float64(out.CPUs)+0.5 // no program uses more than there is, but clocks are not exact
	ok = used && between(numbers, mostCPUs) && between(shares, 1) && between(rates, mostRate) && between(quotas, mostQuota) && min(out.Procs, out.CPUs) >= 0 &&
		out.Procs <= mostProcs && out.CPUs <= mostCPUs && (p.Anonymous == nil || *p.Anonymous >= 0) &&
		len(p.Findings) <= mostFound && len(c.Muted) <= mostFound && len(p.Levels) <= mostLevels
	if !ok {
		return out, false
	}
	out.Expected = unthrottle.Decide(limits(p), unthrottle.Policy{}).Procs // what an agent expects is what the program's own rule gives
	strange := 0
	out.Findings, strange = judge(p, t.System, t.Seconds)
	t.NewRules += strange
	return out, true
}

// between reports whether numbers, as far as they are known, are between 0 and most.
func between(numbers []*float64, most float64) bool {
	return !slices.ContainsFunc(numbers, func(v *float64) bool { return v != nil && !(*v >= 0 && *v <= most) })
}
