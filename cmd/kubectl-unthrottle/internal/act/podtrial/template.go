package podtrial

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// An object is one of the API server's, as it came: what we know nothing of is kept.
type object = map[string]any

// A Template is the pod of a workload, and which of its containers is tuned.
type Template struct {
	Kind, Name, Namespace string
	Annotations           object
	Spec                  object // of the pod
	Container             string
}

// ParseTemplate takes the pod out of an object in JSON: of a Pod itself, or of anything that makes pods. Without a container's name it
// is the only one, or the one that kubectl would take.
func ParseTemplate(data []byte, container string) (*Template, error) {
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, fmt.Errorf("reading the workload: %w", err)
	}
	t := &Template{Kind: text(o, "kind"), Name: text(o, "metadata", "name"), Namespace: text(o, "metadata", "namespace")}
	for _, path := range [][]string{{"spec", "template"}, {"spec", "jobTemplate", "spec", "template"}, {}} {
		if pod := at(o, path...); pod != nil && list(pod, "spec", "containers") != nil {
			t.Spec, t.Annotations = clone(at(pod, "spec")), clone(at(pod, "metadata", "annotations"))
			break
		}
	}
	if t.Spec == nil {
		return nil, hint.With(fmt.Errorf("%s makes no pods: no containers", t), "name a Deployment, StatefulSet, DaemonSet, Job, CronJob or Pod")
	}
	t.withoutToken()
	return t, t.choose(container)
}

// ReadTemplate takes the pod out of a file: of its first object that makes pods.
func ReadTemplate(data []byte, container string) (*Template, error) {
	var first error
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var o object
		err := d.Decode(&o)
		if err != nil {
			if first == nil && errors.Is(err, io.EOF) {
				err = errors.New("there is no object in it")
			}
			return nil, fmt.Errorf("reading the workload: %w", cmp.Or(first, err))
		}
		if len(o) == 0 {
			continue
		}
		text, err := json.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("reading the workload: %w", err)
		}
		t, err := ParseTemplate(text, container)
		if err == nil || t != nil {
			return t, err
		}
		first = cmp.Or(first, err)
	}
}

// String names the workload as kubectl does.
func (t *Template) String() string { return strings.ToLower(t.Kind) + "/" + t.Name }

func (t *Template) choose(container string) error {
	var names []string
	for _, c := range list(t.Spec, "containers") {
		names = append(names, text(c, "name"))
	}
	usual := text(t.Annotations, "kubectl.kubernetes.io/default-container")
	switch {
	case container != "" && slices.Contains(names, container):
		t.Container = container
	case container != "":
		return hint.Usage("-c "+quantity.Either(names), "%s has no container %s", t, container)
	case len(names) == 1:
		t.Container = names[0]
	case slices.Contains(names, usual):
		t.Container = usual
	default:
		return hint.Usage("-c "+quantity.Either(names), "%s has %d containers: which of them is the server?", t, len(names))
	}
	return nil
}

// withoutToken removes what the API server has put into a running pod: the volume with the service account's token.
func (t *Template) withoutToken() {
	const prefix = "kube-api-access-"
	drop := func(from object, key, name string) {
		if items := list(from, key); items != nil {
			from[key] = anys(slices.DeleteFunc(items, func(o object) bool { return strings.HasPrefix(text(o, name), prefix) }))
		}
	}
	drop(t.Spec, "volumes", "name")
	for _, key := range []string{"containers", "initContainers"} {
		for _, c := range list(t.Spec, key) {
			drop(c, "volumeMounts", "name")
		}
	}
}

// container is the one that is tuned.
func (t *Template) container() object { return named(list(t.Spec, "containers"), t.Container) }

// CPUs is the limit that the container has in its manifest; 0: none.
func (t *Template) CPUs() float64 { return t.limit("cpu") }

// Memory is the same in bytes.
func (t *Template) Memory() int64 { return int64(t.limit("memory")) }

func (t *Template) limit(of string) float64 {
	limit, ok := at(t.container(), "resources", "limits")[of]
	if !ok {
		return 0
	}
	q, err := quantity.ParseResource(fmt.Sprint(limit))
	if err != nil {
		return 0
	}
	return q.Float()
}

// Env is what the manifest says about a variable: its value, and whether that is known. What comes from elsewhere has none.
func (t *Template) Env(name string) (value string, set, known bool) {
	e := named(list(t.container(), "env"), name)
	if e == nil {
		return "", false, true
	}
	return text(e, "value"), true, e["valueFrom"] == nil
}

// Port is the port of the container that has one, and only one.
func (t *Template) Port() (port int, ok bool) {
	ports := list(t.container(), "ports")
	if len(ports) != 1 {
		return 0, false
	}
	n, ok := ports[0]["containerPort"].(float64)
	return int(n), ok
}

// A Needed is an object that pods refer to and can't do without.
type Needed struct {
	Kind string // ConfigMap, Secret, PersistentVolumeClaim
	Name string
}

func (n Needed) String() string { return strings.ToLower(n.Kind) + "/" + n.Name }

// Needs are the objects of its own namespace that the pod refers to, each once. Those that may be absent are among them.
func (t *Template) Needs() (needs []Needed) {
	add := func(kind, name string) {
		if n := (Needed{kind, name}); name != "" && !slices.Contains(needs, n) {
			needs = append(needs, n)
		}
	}
	for _, s := range list(t.Spec, "imagePullSecrets") {
		add("Secret", text(s, "name"))
	}
	for _, v := range list(t.Spec, "volumes") {
		add("ConfigMap", text(v, "configMap", "name"))
		add("Secret", text(v, "secret", "secretName"))
		add("PersistentVolumeClaim", text(v, "persistentVolumeClaim", "claimName"))
		for _, s := range list(v, "projected", "sources") {
			add("ConfigMap", text(s, "configMap", "name"))
			add("Secret", text(s, "secret", "name"))
		}
	}
	for _, key := range []string{"initContainers", "containers"} {
		for _, c := range list(t.Spec, key) {
			for _, e := range list(c, "env") {
				add("ConfigMap", text(e, "valueFrom", "configMapKeyRef", "name"))
				add("Secret", text(e, "valueFrom", "secretKeyRef", "name"))
			}
			for _, e := range list(c, "envFrom") {
				add("ConfigMap", text(e, "configMapRef", "name"))
				add("Secret", text(e, "secretRef", "name"))
			}
		}
	}
	return needs
}

// at is the object at a path; nil: none.
func at(o object, path ...string) object {
	for _, key := range path {
		next, ok := o[key].(object)
		if !ok {
			return nil
		}
		o = next
	}
	return o
}

// text is the string at a path.
func text(o object, path ...string) string {
	s, _ := at(o, path[:len(path)-1]...)[path[len(path)-1]].(string)
	return s
}

// list are the objects of the list at a path.
func list(o object, path ...string) (all []object) {
	items, _ := at(o, path[:len(path)-1]...)[path[len(path)-1]].([]any)
	for _, item := range items {
		if o, ok := item.(object); ok {
			all = append(all, o)
		}
	}
	return all
}

func anys(all []object) []any {
	items := []any{}
	for _, o := range all {
		items = append(items, o)
	}
	return items
}

// named is the object of a list with a name.
func named(all []object, name string) object {
	for _, o := range all {
		if text(o, "name") == name {
			return o
		}
	}
	return nil
}

// under is the object at a path, which is made where it is missing.
func under(o object, path ...string) object {
	for _, key := range path {
		next, ok := o[key].(object)
		if !ok {
			next = object{}
			o[key] = next
		}
		o = next
	}
	return o
}

// clone copies an object, so that its maker may change it.
func clone(o object) object {
	if o == nil {
		return nil
	}
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // it came as JSON
	}
	var c object
	if err := json.Unmarshal(data, &c); err != nil {
		panic(err)
	}
	return c
}
