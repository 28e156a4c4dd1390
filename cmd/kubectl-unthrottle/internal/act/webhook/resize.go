package webhook

import (
	"context"
	"fmt"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// pinned is the rule that a resize breaks.
const pinned = "K004"

// resize looks at a pod whose resources change while it runs. Its environment can't, so there is nothing to be patched.
func (h *Handler) resize(ctx context.Context, req *request) (verdict, error) {
	if req.Operation != "UPDATE" || req.SubResource != "resize" {
		return verdict{outcome: quiet}, nil
	}
	before, old, err := readPod(ctx, req.OldObject)
	if err != nil {
		return verdict{}, err
	}
	_, now, err := readPod(ctx, req.Object)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{outcome: quiet, subject: old.Kind + "/" + old.Name}
	if h.exempted(req.Namespace, before).has(pinned) {
		v.outcome = exempt
		return v, nil
	}
	next := map[string]*workload.Container{}
	for i := range now.Pod.Containers {
		next[now.Pod.Containers[i].Name] = &now.Pod.Containers[i]
	}
	pod := forecast.For(old)
	for i := range old.Pod.Containers {
		if ctx.Err() != nil {
			return verdict{}, errLate
		}
		c := &old.Pod.Containers[i]
		then := next[c.Name]
		if then == nil || c.Role == workload.Init || slices.Contains(h.o.ExemptContainers, c.Name) ||
			!changes(forecast.LimitOf(old, c), forecast.LimitOf(now, then)) {
			continue
		}
		if text := stays(pod, c, before.Metadata.Generation == 1); text != "" {
			v.warnings = append(v.warnings, fmt.Sprintf("unthrottle: container %q: the container's GOMAXPROCS stays %s", c.Name, text))
			h.metrics.found(pinned)
		}
	}
	if len(v.warnings) > 0 {
		v.outcome = warned
	}
	return v, nil
}

func changes(a, b forecast.Limit) bool { return a.State != b.State || a.CPUs != b.CPUs }

// stays says what a container's GOMAXPROCS stays, and why: "1: it is pinned by …". It is empty where it does not stay. first says
// that the pod's resources have never changed: what came from them is still what it was at the start.
func stays(pod *forecast.Pod, c *workload.Container, first bool) string {
	v, ok := c.Var("GOMAXPROCS")
	if !ok || v.State == workload.Absent {
		return ""
	}
	s := pod.Setting(c, binary.Binary{})
	made := s.Target != nil || v.Form == workload.ResourceRef // again, with the container
	if made && c.Resize == workload.ResizeRestart {
		return ""
	}
	by := v.Text
	if v.Form == workload.Literal {
		by = "a value"
	}
	by = "it is pinned by " + by + " in its environment, which can't change while it runs"
	switch {
	case s.State == workload.Known && !s.Valid():
		return "" // Go ignores the value
	case s.Node:
		return "what the node has for pods: " + by
	case s.State == workload.Known && (first || !made):
		return s.Value + ": " + by
	}
	return "what it was at its start: " + by
}
