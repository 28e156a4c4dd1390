package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A fold makes one workload of an object and all that it has made. Pods that are not as their template says, because something
// changed them on their way or a limit was changed in place, are one workload more for each way in which they differ.
type fold struct {
	made  map[string]*made // by UID
	top   []*made          // what stands for itself, in order
	pods  map[string]*like // by what they are like
	order []*like
}

func newFold() fold { return fold{made: map[string]*made{}, pods: map[string]*like{}} }

// made is an object that owns others.
type made struct {
	name   string // Deployment/api
	parent string // UID of its owner
	owner  string // the owner's name
	facts  facts
	w      *workload.Workload // nil: it stands for nothing, or its owner stands for it
}

// A like is pods that are like each other.
type like struct {
	w     *workload.Workload // the first of them
	of    *made              // nil: their owner was not read
	maker *made              // the nearest of their owners
	facts facts
}

// add takes an object. For a pod it returns what stands for it.
func (f *fold) add(o manifest.Object, u use) (of *workload.Workload) {
	if u == runs {
		for _, w := range o.Workloads {
			of = f.pod(o, w)
		}
		return of
	}
	m := &made{name: o.Kind + "/" + o.Name, parent: o.Owner.UID, owner: ownerName(o.Owner)}
	f.made[o.UID] = m
	if u == link || len(o.Workloads) == 0 {
		return nil
	}
	m.facts = factsOf(o.Workloads[0])
	if f.stands(m.parent) != nil || o.Idle && (o.Kind == "Job" || m.owner != "") {
		return nil
	}
	m.w = o.Workloads[0]
	m.w.Owner = m.owner
	f.top = append(f.top, m)
	for _, w := range o.Workloads[1:] { // a custom resource may have several templates
		w.Owner = m.w.Owner
		f.top = append(f.top, &made{w: w})
	}
	return nil
}

func ownerName(o manifest.Owner) string {
	if o.UID == "" {
		return ""
	}
	return o.Kind + "/" + o.Name
}

// stands is what stands for the object of a UID: the uppermost of its owners that makes pods.
func (f *fold) stands(uid string) (top *made) {
	for range 10 { // owners may go in circles, as nothing checks them
		m := f.made[uid]
		if m == nil {
			break
		}
		if m.w != nil {
			top = m
		}
		uid = m.parent
	}
	return top
}

func (f *fold) pod(o manifest.Object, w *workload.Workload) (of *workload.Workload) {
	own := factsOf(w)
	maker, top := f.made[o.Owner.UID], f.stands(o.Owner.UID)
	if top != nil && slices.Equal(top.facts, own) {
		top.w.Copies++
		return top.w
	}
	owner := ownerName(o.Owner)
	key := o.UID // a pod without an owner is like no other
	if owner != "" {
		key = o.Namespace + "\n" + o.Owner.UID
	}
	switch {
	case top != nil:
		owner = top.name
		key = o.Namespace + "\n" + top.name
	case maker != nil && maker.owner != "": // a ReplicaSet whose Deployment was not asked for
		owner = maker.owner
	}
	key += "\n" + strings.Join(own, "\n")
	l := f.pods[key]
	if l == nil {
		l = &like{w: w, of: top, maker: maker, facts: own}
		if top != nil {
			w.Around = top.w.Around // what is about the owner applies to its pods
		}
		w.Owner = owner
		f.pods[key] = l
		f.order = append(f.order, l)
	}
	if owner != "" {
		l.w.Copies++
	}
	return l.w
}

// all are the workloads, and what to say about pods that differ from their template.
func (f *fold) all() (all []*workload.Workload, differ []string) {
	for _, m := range f.top {
		all = append(all, m.w)
	}
	for _, l := range f.order {
		all = append(all, l.w)
		if l.of != nil {
			differ = append(differ, l.text())
		}
	}
	return all, differ
}

// text says how pods differ from their template.
func (l *like) text() string {
	from := l.of.w.String()
	verb := "differ"
	if l.w.Copies == 1 {
		verb = "differs"
	}
	text := fmt.Sprintf("%s of %s %s from its template, such as %s: ", quantity.Plural(l.w.Copies, "pod"), from, verb, l.w.Name)
	if l.w.Copies == 1 {
		text = fmt.Sprintf("pod %s of %s differs from its template: ", l.w.Name, from)
	}
	if l.maker != nil && l.maker != l.of && slices.Equal(l.maker.facts, l.facts) {
		return text + "an earlier template made it, that of " + l.maker.name
	}
	return text + strings.Join(difference(l.of.facts, l.facts), "; ")
}

// facts are what counts of a workload, sorted by container, a line each: "app: GOMAXPROCS=2".
type facts []string

func factsOf(w *workload.Workload) (all facts) {
	pod := forecast.For(w)
	for i := range w.Pod.Containers {
		c := &w.Pod.Containers[i]
		add := func(format string, args ...any) {
			all = append(all, "container "+c.Name+": "+fmt.Sprintf(format, args...))
		}
		switch l := forecast.LimitOf(w, c); l.State {
		case workload.Known:
			add("a limit of %s", quantity.CPUs(l.CPUs))
		case workload.Absent:
			add("no CPU limit")
		default:
			add("a limit that is not known")
		}
		switch s := pod.Setting(c, binary.Binary{}); {
		case s.Node:
			add("GOMAXPROCS from the node's CPUs")
		case s.State == workload.Known:
			add("GOMAXPROCS=%s", s.Value)
		case s.State == workload.Unknown:
			add("a GOMAXPROCS that is not known")
		}
		for _, name := range []string{"GODEBUG", "GOMEMLIMIT", "GOGC"} {
			switch v, ok := c.Var(name); {
			case ok && v.State == workload.Known:
				add("%s=%s", name, v.Value)
			case ok && v.State == workload.Unknown:
				add("a %s that is not known", name)
			}
		}
	}
	slices.Sort(all)
	return all
}

// difference says what is in one of two and not in the other.
func difference(template, pod facts) (texts []string) {
	for _, line := range pod {
		if !slices.Contains(template, line) {
			texts = append(texts, line)
		}
	}
	for _, line := range template {
		if !slices.Contains(pod, line) {
			texts = append(texts, "not "+line)
		}
	}
	return texts
}
