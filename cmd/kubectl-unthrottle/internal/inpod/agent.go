package inpod

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// What is read of an agent at most. It is a pod like any other.
const mostOfAgent = 32 << 20

const (
	agentLabel = "app.kubernetes.io/name=unthrottle-agent"
	agentPort  = "9435"
)

// agent asks the agent of the pod's node, which sees the container's programs from outside. errNotThere: there is none, or it does
// not know the container.
func (p *Pod) agent(ctx context.Context, at *pod, container string) (*Done, error) {
	id := at.id(container)
	var found struct {
		Items []struct {
			Metadata struct{ Namespace, Name string }
			Status   struct{ Phase string }
		}
	}
	list := p.REST.Get().AbsPath("api", "v1", "pods").Param("labelSelector", agentLabel).Param("fieldSelector", "spec.nodeName="+at.Spec.NodeName)
	if err := into(ctx, list, &found); err != nil || id == "" {
		return nil, notThere(err, "agents may not be looked for")
	}
	for _, a := range found.Items {
		if a.Status.Phase != "Running" {
			continue
		}
		path := []string{"api", "v1", "namespaces", a.Metadata.Namespace, "pods", "http:" + a.Metadata.Name + ":" + agentPort, "proxy", "api", "v1"}
		pid, err := p.byAgent(ctx, path, id)
		if err != nil {
			return nil, err
		}
		p.Say("asking agent " + a.Metadata.Name + " on node " + at.Spec.NodeName)
		var document json.RawMessage
		if err := into(ctx, p.REST.Get().AbsPath(append(path, "explain")...).Param("pid", strconv.Itoa(pid)), &document); err != nil {
			return nil, notThere(err, "its agent does not explain it")
		}
		return &Done{Document: document}, nil
	}
	return nil, fmt.Errorf("%w: no agent runs on node %s", errNotThere, at.Spec.NodeName)
}

// byAgent is the process of a container that used the most CPU, as the agent's node numbers it.
func (p *Pod) byAgent(ctx context.Context, path []string, id string) (pid int, err error) {
	var doc struct {
		Processes []struct {
			PID       int      `json:"pid"`
			CPU       *float64 `json:"cpus_used"`
			Container *struct {
				ID string `json:"id"`
			} `json:"container"`
		} `json:"processes"`
	}
	if err := into(ctx, p.REST.Get().AbsPath(append(path, "processes")...), &doc); err != nil {
		return 0, notThere(err, "its agent does not answer")
	}
	most := -1.0
	for _, process := range doc.Processes {
		used := 0.0
		if process.CPU != nil {
			used = *process.CPU
		}
		if process.Container != nil && process.Container.ID == id && used > most {
			pid, most = process.PID, used
		}
	}
	if pid == 0 {
		return 0, fmt.Errorf("%w: its agent saw no Go program in it yet", errNotThere)
	}
	return pid, nil
}

// notThere is why something can't be had from an agent; the other ways may do.
func notThere(err error, what string) error {
	if err == nil {
		return fmt.Errorf("%w: %s", errNotThere, what)
	}
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: %s: it is forbidden", errNotThere, what)
	}
	return fmt.Errorf("%w: %s: %w", errNotThere, what, err)
}

// into reads an answer.
func into(ctx context.Context, r *rest.Request, v any) error {
	body, err := r.MaxRetries(0).Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(io.LimitReader(body, mostOfAgent)).Decode(v)
}

// id is a container's, without the name of its runtime.
func (p *pod) id(name string) string {
	for _, s := range append(p.Status.ContainerStatuses, p.Status.InitContainerStatuses...) {
		if _, id, ok := strings.Cut(s.ContainerID, "://"); s.Name == name && ok {
			return id
		}
	}
	return ""
}
