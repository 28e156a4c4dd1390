package manifest

import (
	"fmt"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// builtin says where Kubernetes' own kinds have their pod template. A Pod is its own. All other kinds are searched.
var builtin = map[string][]string{
	"Pod":                   {},
	"Deployment":            {"spec", "template"},
	"StatefulSet":           {"spec", "template"},
	"DaemonSet":             {"spec", "template"},
	"ReplicaSet":            {"spec", "template"},
	"ReplicationController": {"spec", "template"},
	"Job":                   {"spec", "template"},
	"CronJob":               {"spec", "jobTemplate", "spec", "template"},
	"PodTemplate":           {"template"},
}

// builtinGroups are the API groups of those kinds. A Job of another group is another thing.
var builtinGroups = map[string]bool{"": true, "apps": true, "batch": true, "extensions": true}

// noPods are kinds that may be large and never have a pod template of their own.
var noPods = map[string]bool{"CustomResourceDefinition": true, "ConfigMap": true, "Secret": true}

// podTemplates finds the pod templates of an object. What it returns has the pod's spec under "spec", or is a pod's spec.
func podTemplates(o object) []at {
	if path, ok := builtin[o.kind]; ok && builtinGroups[o.group] {
		t := o.get(path...)
		if len(t.get("spec", "containers").list()) == 0 {
			// A patch, or a template of a template.
			return nil
		}
		return []at{t}
	}
	if noPods[o.kind] {
		return nil
	}
	s := &search{left: mostSearched, seen: map[*Node]bool{}}
	s.look(o.at, 0)
	return s.found
}

// How much of a custom resource is searched for pod templates.
const (
	mostSearched = 50_000
	deepestShape = 20
)

// A search finds pod templates by their shape: a map whose containers are a list of maps with a name or an image.
type search struct {
	found []at
	left  int
	seen  map[*Node]bool // what aliases stand for is searched once
}

func (s *search) look(a at, depth int) {
	a = a.resolved()
	if s.left--; s.left < 0 || depth > deepestShape || a.node == nil || s.seen[a.node] {
		return
	}
	s.seen[a.node] = true
	switch a.node.Kind {
	case List:
		for _, item := range a.list() {
			s.look(item, depth+1)
		}
	case Map:
		if a.isTemplate(a.get("spec"), false) {
			s.found = append(s.found, a)
			return
		}
		if a.isTemplate(a, true) {
			s.found = append(s.found, a)
			return
		}
		a.entries(func(key string, value at) {
			if key != "status" {
				s.look(value, depth+1)
			}
		})
	}
}

// isTemplate says whether a map has the shape of a pod's spec. Without the word "spec" above it, each container must have both
// a name and an image.
func (a at) isTemplate(spec at, bare bool) bool {
	items := spec.get("containers").list()
	for _, c := range items {
		name, image := c.get("name"), c.get("image")
		if !c.isMap() || name.text() == "" && image.text() == "" || bare && (name.text() == "" || image.text() == "") {
			return false
		}
	}
	return len(items) > 0
}

// assertion is a key of a pod template that makes it what a test expects of an object: (cpu != null), as Chainsaw has it. No such
// key can be in a manifest.
func (a at) assertion() (found *Node) {
	if a.node == nil {
		return nil
	}
	a.node.walk(func(n *Node) bool {
		if n.Kind == Map {
			for _, k := range n.Keys {
				if k.Kind == Scalar && strings.HasPrefix(k.Value, "(") && strings.HasSuffix(k.Value, ")") {
					found = k
				}
			}
		}
		return found == nil
	})
	return found
}

// mostContainers is how many pods and containers of all that is read together are looked at: twice as many as whole companies have.
const mostContainers = 200_000

// full reports whether there are too many pods and containers, this one included. It reports the first.
func (r *reader) full(a at) bool {
	if r.containers++; r.containers == mostContainers+1 {
		r.problem(nil, a.position(), Error, "read it in parts", "more than %d pods and containers: those from here on are not looked at", mostContainers)
	}
	return r.containers > mostContainers
}

// pod takes the facts of a pod template.
func (d *document) pod(w *workload.Workload, template at) {
	spec := template.get("spec")
	meta := template.get("metadata")
	if len(spec.get("containers").list()) == 0 {
		spec = template
	}
	p := &w.Pod
	p.At = template.position()
	p.Labels, p.Annotations = meta.get("labels").texts(), meta.get("annotations").texts()
	p.Node, p.RuntimeClass = spec.get("nodeName").text(), spec.get("runtimeClassName").text()
	resources := spec.get("resources")
	if !resources.isMap() || resources.template() {
		resources.node = nil
	}
	p.Limit, p.LimitAt = resources.amount("limits", "cpu")
	p.Request, _ = resources.amount("requests", "cpu")
	pending := &pendingPod{workload: w, file: d.file}
	add := func(c at, role workload.Role) {
		if !c.isMap() || c.template() || d.reader.full(c) {
			return
		}
		container, env := d.container(c, role)
		p.Containers = append(p.Containers, container)
		pending.env = append(pending.env, env)
		p.Partial = p.Partial || container.Image == ""
	}
	for _, c := range spec.get("initContainers").list() {
		role := workload.Init
		if c.get("restartPolicy").text() == "Always" {
			role = workload.Sidecar
		}
		add(c, role)
	}
	for _, c := range spec.get("containers").list() {
		add(c, workload.Main)
	}
	d.reader.join.pods = append(d.reader.join.pods, pending)
}

// partOnly says why what a container doesn't have may yet be there.
const partOnly = "the container has no image, so this is a part of it"

func (d *document) container(c at, role workload.Role) (workload.Container, pendingEnv) {
	f := workload.Container{
		Name: c.get("name").name(), Image: c.get("image").name(), Role: role, At: c.position(),
		Command: c.get("command").strings(), Args: c.get("args").strings(),
	}
	resources := c.get("resources")
	f.Limit, f.LimitAt = resources.amount("limits", "cpu")
	f.Request, _ = resources.amount("requests", "cpu")
	f.Memory, _ = resources.amount("limits", "memory")
	f.MemoryRequest, _ = resources.amount("requests", "memory")
	if f.Image == "" { // a patch, or an operator completes it
		for _, a := range []*workload.Amount{&f.Limit, &f.Request, &f.Memory, &f.MemoryRequest} {
			if a.State == workload.Absent {
				*a = workload.Amount{State: workload.Unknown, Unknown: partOnly}
			}
		}
	}
	// The API server fills a missing request with the limit.
	if f.Request.State == workload.Absent {
		f.Request = f.Limit
	}
	if f.MemoryRequest.State == workload.Absent {
		f.MemoryRequest = f.Memory
	}
	for _, policy := range c.get("resizePolicy").list() {
		switch restart := workload.Resize(policy.get("restartPolicy").text()); policy.get("resourceName").text() {
		case "cpu":
			f.Resize, f.ResizeAt = restart, policy.position()
		case "memory":
			f.MemoryResize = restart
		}
	}
	return f, environment(c, &f)
}

// amount reads resources.limits.cpu and the like. A template in place of any level makes it unknown.
func (a at) amount(keys ...string) (workload.Amount, workload.Position) {
	for i := 0; ; i++ {
		if a.template() {
			return workload.Amount{Text: a.raw(), State: workload.Unknown, Unknown: a.unrendered()}, a.position()
		}
		if i == len(keys) {
			break
		}
		a = a.get(keys[i])
	}
	if !a.ok() {
		return workload.Amount{}, workload.Position{}
	}
	return a.quantity(), a.position()
}

// quantity reads an amount.
func (a at) quantity() workload.Amount {
	if a.node.Kind != Scalar {
		a.problem(Error, "", "%s is a %s where a quantity is wanted", last(a.path.String()), kindName(a.node))
		return workload.Amount{State: workload.Unknown, Unknown: "it is not a quantity"}
	}
	text := strings.TrimSpace(a.node.Value)
	if why := substituted(text); why != "" {
		return workload.Amount{Text: short(text), State: workload.Unknown, Unknown: why}
	}
	r, err := quantity.ParseResource(a.node.number())
	if err != nil {
		a.problem(Error, "", "%s: %v", last(a.path.String()), err)
		return workload.Amount{Text: short(text), State: workload.Unknown, Unknown: err.Error()}
	}
	return workload.Amount{Value: r.Float(), Text: text, State: workload.Known}
}

// last is the end of a path: limits.cpu.
func last(path string) string {
	parts := strings.Split(path, ".")
	if len(parts) > 2 {
		parts = parts[len(parts)-2:]
	}
	return strings.Join(parts, ".")
}

func kindName(n *Node) string {
	switch n.Kind {
	case Map:
		return "map"
	case List:
		return "list"
	}
	switch n.Tag {
	case "!!int", "!!float":
		return "number"
	case "!!bool":
		return "boolean"
	}
	if !n.isString() {
		return "boolean"
	}
	return "text"
}

// substituted says why a text is not what it will be: other tools write over ${NAME} before it is applied.
func substituted(text string) string {
	if start := strings.Index(text, "${"); start >= 0 && strings.Contains(text[start:], "}") {
		return fmt.Sprintf("%s is for envsubst or the like to fill in", short(text))
	}
	if len(text) > 1 && text[0] == '$' && isName(text[1:]) {
		return fmt.Sprintf("%s is for envsubst or the like to fill in, or a mistake: Kubernetes writes $(%s)", short(text), short(text[1:]))
	}
	return ""
}

func isName(text string) bool {
	for i, c := range []byte(text) {
		if !(c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return text != ""
}
