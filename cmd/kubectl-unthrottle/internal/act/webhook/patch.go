package webhook

import (
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
)

// An operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

const (
	mostMark        = 2000      // bytes that say what was changed
	mostAnnotations = 256 << 10 // bytes of all annotations of an object that Kubernetes takes
)

// mark says in the pod's annotation what was changed, and by which rules; nil where that would be more than an object may have.
func (p *pod) mark(marks []string) []operation {
	text, size := p.Metadata.Annotations[remedy.ChangedKey], 0
	for i, m := range marks {
		if len(text)+len(m) > mostMark {
			text += fmt.Sprintf(" and %d more", len(marks)-i)
			break
		}
		if text != "" {
			text += ", "
		}
		text += m
	}
	for key, value := range p.Metadata.Annotations {
		size += len(key) + len(value)
	}
	path := "/metadata/annotations"
	switch {
	case size+len(remedy.ChangedKey)+len(text) > mostAnnotations:
		return nil
	case p.Metadata.Annotations == nil:
		return []operation{{"add", path, map[string]string{remedy.ChangedKey: text}}}
	}
	return []operation{{"add", path + "/" + strings.ReplaceAll(remedy.ChangedKey, "/", "~1"), text}}
}

// patch is what a remedy does to a container's environment. ok is false where it can't be done there. The object of the patch
// becomes the pod's, so that the next patch fits what this one makes.
func (p *pod) patch(name string, r remedy.Remedy) (ops []operation, ok bool) {
	c, list, at := p.container(name)
	if c == nil || r.Variable == "" {
		return nil, false
	}
	env := fmt.Sprintf("/spec/%s/%d/env", list, at)
	var places []int
	for i, v := range c.Env {
		if v.Name == r.Variable {
			places = append(places, i)
		}
	}
	last := -1 // of several the last one counts
	if len(places) > 0 {
		last = places[len(places)-1]
	}
	switch r.Action {
	case remedy.Remove:
		if last < 0 {
			return nil, false
		}
		for i := len(places) - 1; i >= 0; i-- { // from behind, so that places stay what they are
			ops = append(ops, operation{Op: "remove", Path: fmt.Sprintf("%s/%d", env, places[i])})
		}
		c.Env = slices.DeleteFunc(c.Env, func(v variable) bool { return v.Name == r.Variable })
	case remedy.Repair:
		if last < 0 || c.Env[last].ValueFrom == nil || c.Env[last].ValueFrom.Resource == nil {
			return nil, false
		}
		ops = []operation{{"add", fmt.Sprintf("%s/%d/valueFrom/resourceFieldRef/divisor", env, last), r.Value}}
	case remedy.Set:
		entry := map[string]any{"name": r.Variable}
		if r.Resource != "" {
			entry["valueFrom"] = map[string]any{"resourceFieldRef": map[string]string{"resource": r.Resource, "divisor": "1"}}
		} else {
			entry["value"] = r.Value
		}
		switch {
		case last >= 0:
			ops = []operation{{"replace", fmt.Sprintf("%s/%d", env, last), entry}}
		case len(c.Env) == 0:
			ops = []operation{{"add", env, []any{entry}}}
			c.Env = []variable{{Name: r.Variable}}
		default:
			ops = []operation{{"add", env + "/-", entry}}
			c.Env = append(c.Env, variable{Name: r.Variable})
		}
	default:
		return nil, false
	}
	return ops, true
}
