package manifest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A Live reads the objects of an API server, a page at a time, into the same facts as those of files. It keeps what other objects
// may need, such as a LimitRange, and gives the workloads away. Their variables have values once Resolve was called.
type Live struct{ reader *reader }

// NewLive is one that has read nothing.
func NewLive() *Live {
	l := &Live{&reader{set: &Set{}, join: newJoin()}}
	l.reader.join.live = true
	return l
}

// An Object is a live one.
type Object struct {
	Kind, Namespace, Name, UID string
	Owner                      Owner    // that controls it; its UID is "" if there isn't one
	Idle                       bool     // nothing of it runs: a ReplicaSet that is scaled to 0, a Job that is over
	Ephemeral                  []string // names of a pod's ephemeral containers
	Workloads                  []*workload.Workload
}

// An Owner controls an object.
type Owner struct{ Kind, Name, UID string }

// List reads one answer to a request for a list. kind and version are those of its items, which need not say them. next is where
// the list goes on, "" at its end.
func (l *Live) List(data []byte, kind, version string) (objects []Object, next string, err error) {
	r := &jsonReader{data: data}
	member := func(open, end byte, each func() error) error {
		if r.next() != open {
			return r.wrong("%q where %q is wanted", r.shown(), string(open))
		}
		r.at++
		for first := true; r.next() != end; first = false {
			if !first {
				if r.next() != ',' {
					return r.wrong("a comma or %q is missing", string(end))
				}
				r.at++
				r.blank()
			}
			if err := each(); err != nil {
				return err
			}
		}
		r.at++
		return nil
	}
	err = member('{', '}', func() error {
		if r.next() != '"' {
			return r.wrong("a key in double quotes is wanted")
		}
		key, err := r.text()
		if err != nil {
			return err
		}
		if r.next() != ':' {
			return r.wrong("a colon is missing")
		}
		r.at++
		r.blank()
		start := r.at
		if key.Value == "items" && r.next() == '[' {
			return member('[', ']', func() error {
				start := r.at
				if err := r.skip(); err != nil {
					return err
				}
				o, err := l.Add(data[start:r.at], kind, version)
				if err == nil {
					objects = append(objects, o)
				}
				return err
			})
		}
		if err := r.skip(); err != nil {
			return err
		}
		if key.Value == "metadata" {
			var meta struct{ Continue string }
			err := json.Unmarshal(data[start:r.at], &meta)
			next = meta.Continue
			return err
		}
		return nil
	})
	return objects, next, err
}

// Add reads one object.
func (l *Live) Add(data []byte, kind, version string) (Object, error) {
	r := l.reader
	f := &File{live: true, Data: data}
	u := unit{end: len(data), json: true}
	root, err := f.parse(u)
	if err != nil {
		return Object{}, fmt.Errorf("an object of kind %s: %w", kind, err)
	}
	d := &document{reader: r, file: f, unit: u, root: root}
	a := at{document: d, node: root}
	problems := len(r.set.Problems)
	d.object(a, list{kind + "List", version}, 0)
	o := Object{
		Kind: kind, Namespace: a.get("metadata", "namespace").name(), Name: a.get("metadata", "name").name(),
		UID: a.get("metadata", "uid").text(), Workloads: slices.Clone(r.set.Workloads),
	}
	for _, ref := range a.get("metadata", "ownerReferences").list() {
		if ref.get("controller").bool() {
			o.Owner = Owner{ref.get("kind").text(), ref.get("name").text(), ref.get("uid").text()}
		}
	}
	if kind == "Pod" {
		for _, c := range a.get("spec", "ephemeralContainers").list() {
			o.Ephemeral = append(o.Ephemeral, c.get("name").name())
		}
	}
	o.Idle = a.get("spec", "replicas").text() == "0" || kind == "Job" && a.over()
	r.fold(f)
	for i := range r.set.Problems[problems:] {
		p := &r.set.Problems[problems+i]
		p.At = workload.Position{Path: strings.TrimSuffix(o.String()+": "+p.At.Path, ": ")}
	}
	for _, w := range o.Workloads {
		delete(w.Annotations, lastApplied)
	}
	r.set.Workloads, r.containers = nil, 0
	f.Data = nil // the join keeps files, and all that was taken from this one is a copy
	return o, nil
}

// lastApplied is where kubectl keeps all of an object once more.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// over says whether a Job has ended.
func (a at) over() bool {
	for _, c := range a.get("status", "conditions").list() {
		if kind := c.get("type").text(); (kind == "Complete" || kind == "Failed") && c.get("status").text() == "True" {
			return true
		}
	}
	return false
}

// String is how an object is called.
func (o Object) String() string {
	return (&workload.Workload{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}).String()
}

// A Name is an object's, in its namespace.
type Name struct{ Namespace, Name string }

// Wanted are the ConfigMaps that what was read since the last Resolve refers to, and that were not added. Those that only
// make variables of no interest here are not among them.
func (l *Live) Wanted() []Name {
	var names []Name
	seen := map[Name]bool{}
	add := func(namespace, name string) {
		n := Name{namespace, name}
		if name != "" && !seen[n] && l.reader.join.objects[dataKey{"ConfigMap", namespace, name}] == nil {
			seen[n] = true
			names = append(names, n)
		}
	}
	for _, p := range l.reader.join.pods {
		for _, env := range p.env {
			if len(env.sources) > 0 {
				wanted := sortedKeys(env.wanted)
				for _, s := range env.sources {
					if s.Kind == "ConfigMap" && mayWant(wanted, s.Prefix) {
						add(p.workload.Namespace, s.Name)
					}
				}
			}
			for _, e := range env.entries {
				if e.Form == workload.ConfigMap {
					add(p.workload.Namespace, e.name)
				}
			}
		}
	}
	return names
}

// mayWant says whether one of the variables that are of interest, in order, begins so.
func mayWant(wanted []string, prefix string) bool {
	i, _ := slices.BinarySearch(wanted, prefix)
	return i < len(wanted) && strings.HasPrefix(wanted[i], prefix)
}

// Resolve fills in the values of what was read since the last time.
func (l *Live) Resolve(ctx context.Context) error {
	defer func() { l.reader.join.pods = nil }()
	return l.reader.join.resolve(ctx)
}

// Problems are those of all objects so far.
func (l *Live) Problems() []Problem { return l.reader.set.Problems }
