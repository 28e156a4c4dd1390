package manifest

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A join brings the objects together that speak of each other. An object without a namespace meets only those without one.
type join struct {
	objects map[dataKey][]*data
	vpas    map[dataKey][]vpa  // by their targets
	boosts  map[string][]boost // by their namespaces, as what follows
	quotas  map[string][]quota
	limits  map[string][]limitRange
	around  map[place]workload.Around // what quotas and LimitRanges say, until there are more of them
	pods    []*pendingPod
	missed  map[missedKey]bool // ConfigMaps and Secrets that containers refer to, and that are not there
	faulty  []*data            // those that an API server would refuse
	live    bool               // they are an API server's
}

type missedKey struct{ kind, name string }

func newJoin() *join {
	return &join{
		objects: map[dataKey][]*data{}, vpas: map[dataKey][]vpa{}, boosts: map[string][]boost{}, quotas: map[string][]quota{},
		limits: map[string][]limitRange{}, around: map[place]workload.Around{}, missed: map[missedKey]bool{},
	}
}

// A place is where objects are that the same others are near: the directory is "" for what was named on the command line.
type place struct{ namespace, dir string }

func (p *pendingPod) place() place {
	if !p.file.found {
		return place{p.workload.Namespace, ""}
	}
	return place{p.workload.Namespace, p.file.dir()}
}

type dataKey struct{ kind, namespace, name string }

// Data is a ConfigMap or Secret.
type data struct {
	file   *File
	values map[string]dataValue
	faults []fault // which an API server would refuse it for
	wanted bool    // by a container
}

// A fault is what is wrong with an object that isn't a workload. It is an error if a workload refers to the object; otherwise it is not
// for us: a gate for workloads must not fail for it.
type fault struct {
	at         workload.Position
	hint, text string
}

type dataValue struct {
	text, unknown string
	at            workload.Position
}

func (v dataValue) get() (string, workload.State, string) {
	if v.unknown != "" {
		return "", workload.Unknown, v.unknown
	}
	return v.text, workload.Known, ""
}

type vpa struct {
	file       *File
	target     dataKey
	facts      workload.VPA
	containers map[string]containerPolicy
	targets    map[string]workload.Amount // CPUs that its status recommends, by container
}

type containerPolicy struct{ off, limitsOff bool }

type boost struct {
	file    *File
	name    string
	selects func(labels map[string]string) bool
}

type quota struct{ file *File }

type limitRange struct {
	file                         *File
	largest, standard, requested workload.Amount
}

// add keeps an object that may matter to others.
func (j *join) add(o object) {
	file := o.document.file
	switch {
	case o.kind == "ConfigMap" && o.group == "", o.kind == "Secret" && o.group == "":
		key := dataKey{o.kind, o.namespace, o.name}
		d := o.values()
		j.objects[key] = append(j.objects[key], d)
		if len(d.faults) > 0 {
			j.faulty = append(j.faulty, d)
		}
	case o.kind == "VerticalPodAutoscaler":
		v := o.vpa()
		j.vpas[v.target] = append(j.vpas[v.target], v)
	case o.kind == "StartupCPUBoost" && o.group == "autoscaling.x-k8s.io":
		if len(j.boosts[o.namespace]) >= mostBoosts {
			o.problem(Warning, "", "more than %d StartupCPUBoosts in one namespace: this one is not looked at", mostBoosts)
			return
		}
		j.boosts[o.namespace] = append(j.boosts[o.namespace], boost{file, o.name, o.get("selector").selector()})
	case o.kind == "ResourceQuota" && o.group == "":
		if o.get("spec", "hard", "limits.cpu").ok() {
			j.quotas[o.namespace] = append(j.quotas[o.namespace], quota{file})
			clear(j.around)
		}
	case o.kind == "LimitRange" && o.group == "":
		for _, item := range o.get("spec", "limits").list() {
			if item.get("type").text() != "Container" {
				continue
			}
			l := limitRange{file: file}
			l.largest, _ = item.amount("max", "cpu")
			l.standard, _ = item.amount("default", "cpu")
			l.requested, _ = item.amount("defaultRequest", "cpu")
			// As the API server fills what is missing.
			if l.standard.State == workload.Absent {
				l.standard = l.largest
			}
			if l.requested.State == workload.Absent {
				l.requested = l.standard
			}
			if l.requested.State == workload.Absent {
				l.requested, _ = item.amount("min", "cpu")
			}
			j.limits[o.namespace] = append(j.limits[o.namespace], l)
			clear(j.around)
		}
	}
}

// longestValue is how long a value of a ConfigMap may be to be kept: nothing that goes into a variable of ours is longer.
const longestValue = 1 << 10

// values takes the texts of a ConfigMap or Secret.
func (o object) values() *data {
	d := &data{file: o.document.file, values: map[string]dataValue{}}
	o.get("data").entries(func(key string, value at) {
		if !value.ok() {
			d.values[key] = dataValue{at: value.position()}
			return
		}
		v := dataValue{text: value.text(), at: value.position()}
		switch {
		case value.template():
			v.text, v.unknown = "", value.raw()+" is a template that was not rendered"
		case value.node.Kind != Scalar || !value.node.isString():
			hint := ""
			if value.node.Kind == Scalar {
				hint = "put it in quotes"
			}
			d.faults = append(d.faults, fault{
				value.position(), hint,
				fmt.Sprintf("the value of the key %s is a %s: Kubernetes takes text only", short(key), kindName(value.node)),
			})
		case len(v.text) > longestValue:
			v.text, v.unknown = "", "it is too long for a variable"
		case o.kind == "Secret":
			v.text, v.unknown = decoded(v.text)
		}
		if v.unknown == "" {
			v.unknown = substituted(v.text)
		}
		d.values[key] = v
	})
	if o.kind == "Secret" {
		o.get("stringData").entries(func(key string, value at) {
			v := dataValue{text: value.text(), at: value.position()}
			if value.template() {
				v.text, v.unknown = "", value.raw()+" is a template that was not rendered"
			} else if len(v.text) > longestValue {
				v.text, v.unknown = "", "it is too long for a variable"
			}
			d.values[key] = v
		})
	}
	return d
}

func (o object) vpa() vpa {
	mode := o.get("spec", "updatePolicy", "updateMode").text()
	if mode == "" {
		mode = "Auto"
	}
	v := vpa{
		file: o.document.file, target: dataKey{o.get("spec", "targetRef", "kind").name(), o.namespace, o.get("spec", "targetRef", "name").name()},
		facts:      workload.VPA{Name: o.name, Mode: mode, At: o.position(), Boost: o.get("spec", "startupBoost").ok()},
		containers: map[string]containerPolicy{}, targets: map[string]workload.Amount{},
	}
	for _, p := range o.get("spec", "resourcePolicy", "containerPolicies").list() {
		controls := p.get("controlledResources").strings()
		v.containers[p.get("containerName").text()] = containerPolicy{
			off:       p.get("mode").text() == "Off" || p.get("controlledResources").ok() && !slices.Contains(controls, "cpu"),
			limitsOff: p.get("controlledValues").text() == "RequestsOnly",
		}
		v.facts.Boost = v.facts.Boost || p.get("startupBoost").ok()
	}
	for _, r := range o.get("status", "recommendation", "containerRecommendations").list() {
		text := r.get("target", "cpu").text()
		if cpus, err := quantity.ParseCPUs(text); err == nil { // else it is nothing to fail for: no API server keeps it
			v.targets[r.get("containerName").text()] = workload.Amount{Value: cpus, Text: text, State: workload.Known}
		}
	}
	return v
}

// advise gives containers the CPU limit that the target would give them, as the VerticalPodAutoscaler's admission controller works it
// out: the limit of the template, times what the request is multiplied with, in thousandths rounded down. upperBound is not a request
// that a pod gets, only one above which it is evicted.
func (v vpa) advise(w *workload.Workload) {
	for i := range w.Pod.Containers {
		c := &w.Pod.Containers[i]
		target, limit, request := v.targets[c.Name], c.Limit, c.Request
		if w.Around.VPA.Off[c.Name] || w.Around.VPA.LimitsOff[c.Name] || !positive(target) || !positive(limit) || request.State == workload.Unknown {
			continue
		}
		ratio := 1.0
		if positive(request) {
			ratio = limit.Value / request.Value
		}
		cpus := math.Floor(target.Value*1000*ratio+1e-6) / 1000
		a := workload.Advice{
			By: "VerticalPodAutoscaler " + v.facts.Name, Request: target, Does: v.facts.Mode != "Off",
			How: "its target is " + target.Text + ", and limits keep their ratio to requests",
		}
		if largest := w.Around.LimitMax; positive(largest) && cpus > largest.Value {
			cpus, a.How = largest.Value, a.How+", up to the LimitRange's "+largest.Text
		}
		if !(cpus > 0) || math.IsInf(cpus, 0) {
			continue
		}
		if v.facts.Mode == "Off" {
			a.How += " where updateMode is not Off"
		}
		a.Limit = workload.Amount{Value: cpus, Text: strconv.FormatFloat(cpus, 'f', -1, 64), State: workload.Known}
		c.Advice = append(c.Advice, a)
	}
}

func positive(a workload.Amount) bool { return a.State == workload.Known && a.Value > 0 }

// of are the facts of a VerticalPodAutoscaler for a workload.
func (v vpa) of(w *workload.Workload) *workload.VPA {
	facts := v.facts
	facts.Off, facts.LimitsOff = map[string]bool{}, map[string]bool{}
	for _, c := range w.Pod.Containers {
		policy, ok := v.containers[c.Name]
		if !ok {
			policy = v.containers["*"]
		}
		switch {
		case policy.off:
			facts.Off[c.Name] = true
		case policy.limitsOff:
			facts.LimitsOff[c.Name] = true
		default:
			facts.LimitsToo = true
		}
	}
	return &facts
}

// Bounds on what is asked about each pod: a cluster has some dozens of StartupCPUBoosts, and their selectors a few parts.
const (
	mostBoosts    = 1000 // of a namespace
	mostSelecting = 100  // labels and expressions of a selector
)

// selector makes a function of a label selector.
func (a at) selector() func(labels map[string]string) bool {
	exact := a.get("matchLabels").texts()
	type expression struct {
		key, operator string
		values        map[string]bool
	}
	var expressions []expression
	list := a.get("matchExpressions").list()
	if len(exact)+len(list) > mostSelecting {
		a.problem(Warning, "", "a selector with more than %d parts: what it selects is not known", mostSelecting)
		return func(map[string]string) bool { return false }
	}
	for _, e := range list {
		values := map[string]bool{}
		for _, value := range e.get("values").strings() {
			values[value] = true
		}
		expressions = append(expressions, expression{e.get("key").text(), e.get("operator").text(), values})
	}
	return func(labels map[string]string) bool {
		for key, want := range exact {
			if value, ok := labels[key]; !ok || value != want {
				return false
			}
		}
		for _, e := range expressions {
			value, has := labels[e.key]
			in := has && e.values[value]
			switch {
			case e.operator == "In" && !in, e.operator == "NotIn" && in,
				e.operator == "Exists" && !has, e.operator == "DoesNotExist" && has:
				return false
			}
		}
		return true
	}
}

// near says whether two files may be for one cluster. Those named on the command line may; among those found in
// directories, only files of one directory or of directories below each other: a repository's examples are not.
func near(a, b *File) bool {
	if a == b || !a.found || !b.found {
		return true
	}
	x, y := a.dir(), b.dir()
	return x == y || within(x, y) || within(y, x)
}

func within(dir, in string) bool {
	return in == "." || len(dir) > len(in) && dir[len(in)] == filepath.Separator && strings.HasPrefix(dir, in)
}

// mostNamesakes is how many objects of one name are counted: which of two is wanted is not known either.
const mostNamesakes = 100

// data finds a ConfigMap or Secret, or says why it is not known.
func (j *join) data(p *pendingPod, kind, name string) (*data, string) {
	var found []*data
	for _, d := range j.objects[dataKey{kind, p.workload.Namespace, name}] {
		if near(d.file, p.file) {
			found = append(found, d)
		}
		if len(found) > mostNamesakes {
			return nil, fmt.Sprintf("there are more than %d of the name %s %s", mostNamesakes, kind, short(name))
		}
	}
	switch len(found) {
	case 0:
		switch {
		case j.live && kind == "Secret":
			return nil, fmt.Sprintf("Secret %s is not read: no Secret is", short(name))
		case j.live:
			return nil, fmt.Sprintf("%s %s could not be read", kind, short(name))
		}
		j.missed[missedKey{kind, name}] = true
		return nil, fmt.Sprintf("%s %s is not among the files", kind, short(name))
	case 1:
		found[0].wanted = true
		return found[0], ""
	}
	for _, d := range found {
		d.wanted = true
	}
	return nil, fmt.Sprintf("there are %d of the name %s %s", len(found), kind, short(name))
}

// defaults are what the LimitRanges and ResourceQuotas of a pod's namespace say.
func (j *join) defaults(p *pendingPod) workload.Around {
	at := p.place()
	if a, ok := j.around[at]; ok {
		return a
	}
	var a workload.Around
	set := func(to *workload.Amount, from workload.Amount) {
		if to.State == workload.Absent {
			*to = from
		}
	}
	for _, l := range j.limits[at.namespace] {
		if near(l.file, p.file) {
			set(&a.LimitMax, l.largest)
			set(&a.Default, l.standard)
			set(&a.DefaultRequest, l.requested)
		}
	}
	for _, q := range j.quotas[at.namespace] {
		a.Quota = a.Quota || near(q.file, p.file)
	}
	j.around[at] = a
	return a
}

// resolve fills in what only all objects together show.
func (j *join) resolve(ctx context.Context) error {
	for _, p := range j.pods {
		w := p.workload
		w.Around = j.defaults(p)
		for _, v := range j.vpas[dataKey{w.Kind, w.Namespace, w.Name}] {
			if near(v.file, p.file) {
				w.Around.VPA = v.of(w)
				v.advise(w)
				break
			}
		}
		for _, b := range j.boosts[w.Namespace] {
			if near(b.file, p.file) && b.selects(w.Pod.Labels) {
				w.Around.Boost = b.name
				break
			}
		}
		for i := range p.env {
			if err := ctx.Err(); err != nil {
				return err
			}
			j.environment(p, &w.Pod.Containers[i], p.env[i])
		}
		p.env = nil
	}
	return nil
}
