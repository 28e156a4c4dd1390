package webhook

import (
	"context"
	"fmt"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/internal/size"
)

// pinned is the rule that a resize breaks.
const pinned = "K004"

// resize looks at a pod whose resources change while it runs. Its environment can't, so there is nothing to patch.
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
		if then == nil || c.Role == workload.Init || slices.Contains(h.o.ExemptContainers, c.Name) {
			continue
		}
		first := before.Metadata.Generation == 1
		warn := func(name, text string) {
			if text != "" {
				v.warnings = append(v.warnings, fmt.Sprintf("unthrottle: container %q: the container's %s stays %s", c.Name, name, text))
				h.metrics.found(pinned)
			}
		}
		if changes(forecast.LimitOf(old, c), forecast.LimitOf(now, then)) {
			warn("GOMAXPROCS", stays(pod, c, first))
		}
		if was, is := c.Memory, then.Memory; was.State != is.State || was.Value != is.Value {
			warn("GOMEMLIMIT", keeps(c, is, first))
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
	by := pinnedBy(v)
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

// keeps is the same of a container's GOMEMLIMIT, where its memory limit becomes another one.
func keeps(c *workload.Container, limit workload.Amount, first bool) string {
	v, ok := c.Var("GOMEMLIMIT")
	if !ok || v.State == workload.Absent {
		return ""
	}
	made := v.Form == workload.ResourceRef
	if made && c.MemoryResize == workload.ResizeRestart {
		return ""
	}
	text, bytes := "what it was at its start", int64(0)
	if value, known := forecast.Value(c, binary.Binary{}, "GOMEMLIMIT"); known && (first || !made) {
		if bytes = size.Parse(value); bytes == 0 {
			return "" // it is off, or Go does not take it
		}
		if text = value; made {
			text = size.Text(bytes)
		}
	}
	text += ": " + pinnedBy(v)
	if limit.State == workload.Known && choice.NoHeadroom(bytes, int64(limit.Value)) {
		text += "; it leaves nothing of the new memory limit of " + limit.Text + ", and the kernel kills the program first"
	}
	return text
}

// pinnedBy says where a variable comes from that stays.
func pinnedBy(v workload.Variable) string {
	by := v.Text
	if v.Form == workload.Literal {
		by = "a value"
	}
	return "it is pinned by " + by + " in its environment, which can't change while it runs"
}
