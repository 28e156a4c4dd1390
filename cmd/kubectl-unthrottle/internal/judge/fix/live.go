package fix

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A Wanted is a remedy for a container of a live object.
type Wanted struct {
	Container *workload.Container
	Remedy    remedy.Remedy
}

// Live is the patch by which a live object gets its remedies, or why there isn't one. There is no text to edit and read
// again: the place of a container and a variable is what the API server's answer said.
func Live(w *workload.Workload, wanted ...Wanted) (Patch, error) {
	switch {
	case w.Kind == "Pod" && w.Owner != "":
		return Patch{}, errors.New("no template says so: find what changes these pods as they are made")
	case w.Kind == "Pod", w.Kind == "Job":
		return Patch{}, fmt.Errorf("the environment of a %s can't be changed: create it again", w.Kind)
	}
	var changes []*change
	for _, x := range wanted {
		ch, err := live(w, x)
		if err != nil {
			return Patch{}, err
		}
		changes = append(changes, ch)
	}
	if len(changes) == 0 {
		return Patch{}, errors.New("nothing is to be changed")
	}
	if why := noStrategic(changes); why == "" {
		return Patch{Workload: w, YAML: strategic(changes), root: merge(changes)}, nil
	}
	for _, ch := range changes {
		if len(ch.entries) == 0 {
			return Patch{}, errors.New("how its env is merged is for its operator to say: change it by hand")
		}
	}
	return Patch{Workload: w, YAML: operations(changes), JSON6902: true, root: list(steps(changes)...)}, nil
}

// numbered is a part of a path in a list: containers[0].
var numbered = regexp.MustCompile(`^(.*)\[(\d+)\]$`)

// live is a remedy in its place.
func live(w *workload.Workload, x Wanted) (*change, error) {
	ch := &change{w: w, c: x.Container, remedy: x.Remedy}
	for part := range strings.SplitSeq(x.Container.At.Path, ".") {
		key := []string{part}
		if m := numbered.FindStringSubmatch(part); m != nil {
			key = m[1:]
		}
		ch.keys = append(ch.keys, key...)
	}
	if len(ch.keys) < 3 {
		return nil, fmt.Errorf("the place of container %s is not known", x.Container.Name)
	}
	ch.pointer = "/" + strings.Join(ch.keys, "/")
	var last *workload.Variable
	for i := range x.Container.Env {
		v := &x.Container.Env[i]
		if v.Name != x.Remedy.Variable || v.Form == workload.FromWhole {
			continue
		}
		m := numbered.FindStringSubmatch(v.At.Path)
		if m == nil {
			return nil, fmt.Errorf("the place of %s is not known", v.Name)
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return nil, fmt.Errorf("the place of %s is not known", v.Name)
		}
		ch.entries, last = append(ch.entries, n), v
	}
	if last == nil && x.Remedy.Action != remedy.Set {
		return nil, fmt.Errorf("%s is not an entry of env", x.Remedy.Variable)
	}
	ch.old = entryOf(last)
	switch x.Remedy.Action {
	case remedy.Remove:
	case remedy.Set:
		key, value := ch.value()
		ch.new = object("name", x.Remedy.Variable, key, value)
	case remedy.Repair:
		ref := object("divisor", x.Remedy.Value, "resource", last.Resource)
		if last.Container != "" {
			ref.Keys, ref.Items = append(ref.Keys, str("containerName")), append(ref.Items, str(last.Container))
		}
		ch.new = object("name", x.Remedy.Variable, "valueFrom", object("resourceFieldRef", ref))
	default:
		return nil, fmt.Errorf("there is no known way to %s", x.Remedy.Action)
	}
	return ch, nil
}

// entryOf is what a merge has to know about a variable that was there.
func entryOf(v *workload.Variable) *node {
	switch {
	case v == nil:
		return object()
	case v.Form == workload.Literal:
		return object("name", v.Name, "value", v.Text)
	}
	ref := object("resource", v.Resource)
	if v.Container != "" {
		ref = object("resource", v.Resource, "containerName", v.Container)
	}
	return object("name", v.Name, "valueFrom", object("resourceFieldRef", ref))
}

// Line is the command that carries out a patch of a live object, on one line.
func (p Patch) Line() string {
	n := p.root
	if !p.JSON6902 && n != nil { // the object is named by the command
		n = &node{Kind: manifest.Map}
		for i, key := range p.root.Keys {
			if key.Value == "spec" {
				n.Keys, n.Items = append(n.Keys, key), append(n.Items, p.root.Items[i])
			}
		}
	}
	command, _, _ := strings.Cut(p.Command(""), " --patch-file")
	return command + " -p '" + strings.ReplaceAll(asJSON(n), "'", `'\''`) + "'"
}

// asJSON writes a node that was made here.
func asJSON(n *node) string {
	quoted := func(text string) string {
		data, _ := json.Marshal(text) // a string always can
		return string(data)
	}
	switch {
	case n == nil || n.Kind == manifest.Scalar && n.Tag == "!!null":
		return "null"
	case n.Kind == manifest.Map:
		parts := make([]string, len(n.Keys))
		for i, key := range n.Keys {
			parts[i] = quoted(key.Value) + ":" + asJSON(n.Items[i])
		}
		return "{" + strings.Join(parts, ",") + "}"
	case n.Kind == manifest.List:
		parts := make([]string, len(n.Items))
		for i, item := range n.Items {
			parts[i] = asJSON(item)
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	return quoted(n.Value)
}
