package inpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/web"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/act/agents"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// What is asked of an agent. It is a pod like any other.
const (
	mostOfAgent = 32 << 20 // bytes of an answer; one for 20,000 programs has 30 MB
	within      = 20 * time.Second
)

// A witness is an agent that knows a container's program.
type witness struct {
	ask     *cluster.Access
	agent   agents.Agent
	told    *agents.Answer
	process *result.AgentProcess
	of      int // Go programs in the container; it is the busiest
}

// witness finds the agent of the pod's node, which sees the container's programs from outside. errNotThere: there isn't one, or it
// does not know the container.
func (p *Pod) witness(ctx context.Context, at *pod, container string) (*witness, error) {
	id, node := at.id(container), at.Spec.NodeName
	if id == "" || node == "" {
		return nil, fmt.Errorf("%w: its container has not run yet", errNotThere)
	}
	ask := cluster.Over(p.REST)
	found, err := agents.Find(ctx, ask, agents.Search{Namespace: p.Agents, Node: node, Within: within})
	if err != nil {
		return nil, notThere(err, "agents may not be looked for in namespace "+p.Agents)
	}
	for _, s := range found.Strangers {
		p.Say("pod " + s.String() + " has an agent's label and was not asked: " + s.Why)
	}
	i := slices.IndexFunc(found.Agents, func(a agents.Agent) bool { return a.Ready })
	if i < 0 {
		return nil, fmt.Errorf("%w: no agent of namespace %s is ready on node %s", errNotThere, p.Agents, node)
	}
	a := found.Agents[i]
	p.Say("asking agent " + a.Pod + " on node " + node)
	told, process, of, err := agents.Busiest(ctx, ask, a, id, within)
	switch {
	case err != nil:
		return nil, notThere(err, "its agent does not answer")
	case process == nil:
		return nil, fmt.Errorf("%w: its agent saw no Go program in it yet", errNotThere)
	}
	return &witness{ask, a, told, process, of}, nil
}

// agent is what the agent of the pod's node knows. errNotThere: it can't be had from one.
func (p *Pod) agent(ctx context.Context, at *pod, container, verb string, length time.Duration) (*Done, error) {
	k, err := p.witness(ctx, at, container)
	if err != nil {
		return nil, err
	}
	if verb == "watch" {
		w := &watching{explain: k.explain, say: p.Say, length: length, every: time.Second, silence: within}
		done, err := w.watch(ctx, agents.Muted(k.process))
		if err != nil {
			return nil, notThere(err, "its agent does not tell what the kernel counts")
		}
		return done, nil
	}
	doc, err := k.explain(ctx)
	if err != nil {
		return nil, notThere(err, "its agent does not explain it")
	}
	document, err := json.Marshal(doc)
	return &Done{Document: document}, err
}

// explain is what the agent says about the process, in our words.
func (k *witness) explain(ctx context.Context) (*report.Explain, error) {
	body, err := k.ask.Get(ctx, k.agent.Path("explain"), url.Values{"pid": {strconv.Itoa(k.process.PID)}}, within)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(&web.Body{ReadCloser: body, Left: mostOfAgent, Most: mostOfAgent})
	if err != nil {
		return nil, err
	}
	read, err := report.Read(data)
	if err != nil {
		return nil, err
	}
	doc, ok := read.(*report.Explain)
	if !ok {
		return nil, errors.New("the answer is another verb's document")
	}
	return doc, agents.Retell(doc, k.told, k.process)
}

// notThere is why something can't be had from an agent; the other ways may do.
func notThere(err error, what string) error {
	if err == nil {
		return fmt.Errorf("%w: %s", errNotThere, what)
	}
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: %s: forbidden", errNotThere, what)
	}
	return fmt.Errorf("%w: %s: %w", errNotThere, what, err)
}

// id is a container's, without the name of its runtime.
func (p *pod) id(name string) string {
	if s := p.status(name); s != nil {
		_, id, _ := strings.Cut(s.ContainerID, "://")
		return id
	}
	return ""
}
