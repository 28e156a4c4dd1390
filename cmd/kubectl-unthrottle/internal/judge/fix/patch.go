package fix

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A Patch is the changes of one object, for what applies patches.
type Patch struct {
	Workload *workload.Workload
	YAML     string // one document
	JSON6902 bool   // it is a list of operations; else a strategic merge patch

	root *node // of a live object's
}

// Strategic are strategic merge patches. Kubernetes knows how to merge the lists of its own kinds only, by the names of containers
// and variables: what can't be said so is returned as left.
func (p *Plan) Strategic() (patches []Patch, left []Left) {
	for _, o := range p.objects() {
		switch why := noStrategic(o); {
		case why != "":
			left = append(left, Left{o[0].w, why})
		default:
			patches = append(patches, Patch{Workload: o[0].w, YAML: strategic(o)})
		}
	}
	return patches, left
}

// Left is an object that no patch was made for.
type Left struct {
	Workload *workload.Workload
	Why      string
}

// JSON6902 are lists of operations. Each tests that the variable is where it was.
func (p *Plan) JSON6902() (patches []Patch) {
	for _, o := range p.objects() {
		patches = append(patches, Patch{Workload: o[0].w, YAML: operations(o), JSON6902: true})
	}
	return patches
}

// Kustomize is the kustomization.yaml of a Component that patches all objects. Its patches are operations: with a strategic merge
// patch kustomize puts what it merges in front, and init containers run in their order.
func (p *Plan) Kustomize() (text string, left []Left) {
	var b strings.Builder
	b.WriteString("apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n")
	n := 0
	for _, o := range p.objects() {
		w := o[0].w
		if w.Name == "" {
			left = append(left, Left{w, "it has no name that a patch could go by"})
			continue
		}
		group, version, grouped := strings.Cut(w.APIVersion, "/")
		target := object()
		if !grouped {
			group, version = "", group
		} else {
			target = object("group", group)
		}
		for _, pair := range [][2]string{{"version", version}, {"kind", w.Kind}, {"name", w.Name}, {"namespace", w.Namespace}} {
			if pair[1] != "" {
				target.Keys, target.Items = append(target.Keys, str(pair[0])), append(target.Items, str(pair[1]))
			}
		}
		s := style{newline: "\n", step: "  "}
		b.WriteString("- " + s.block("target", target, "  ") + "\n  patch: |-\n")
		for line := range strings.Lines(operations(o)) {
			b.WriteString("    " + line)
		}
		n++
	}
	if n == 0 {
		return "", left
	}
	return b.String(), left
}

// objects are the changes, an object at a time.
func (p *Plan) objects() (all [][]*change) {
	for _, d := range p.Decisions {
		if d.change == nil {
			continue
		}
		if n := len(all); n > 0 && all[n-1][0].w.At == d.change.w.At {
			all[n-1] = append(all[n-1], d.change)
			continue
		}
		all = append(all, []*change{d.change})
	}
	return all
}

// own are the API groups of Kubernetes' own kinds with pods.
var own = []string{"v1", "apps/v1", "batch/v1", "apps/v1beta1", "apps/v1beta2", "batch/v1beta1", "extensions/v1beta1"}

// noStrategic says why a strategic merge patch can't say what is wanted, or "".
func noStrategic(o []*change) string {
	w := o[0].w
	switch {
	case !slices.Contains(own, w.APIVersion):
		return "no strategic merge patch works for custom resources; take --as json6902"
	case w.Name == "":
		return "it has no name that a patch could go by"
	}
	names := map[string]int{}
	for _, c := range w.Pod.Containers {
		names[c.Name]++
	}
	for _, ch := range o {
		if len(ch.entries) > 1 {
			return "a variable is in env twice; take --as json6902"
		}
		if ch.c.Name == "" || names[ch.c.Name] > 1 {
			return "its containers have no names to tell them apart; use --as json6902"
		}
	}
	return ""
}

func strategic(o []*change) string {
	s := style{newline: "\n", step: "  "}
	return s.pairs(merge(o), "") + "\n"
}

// merge is a strategic merge patch.
func merge(o []*change) *node {
	w := o[0].w
	root := object("apiVersion", w.APIVersion, "kind", w.Kind, "metadata", object("name", w.Name))
	if w.Namespace != "" {
		m := root.Items[2]
		m.Keys, m.Items = append(m.Keys, str("namespace")), append(m.Items, str(w.Namespace))
	}
	type name struct {
		in   *node
		text string
	}
	named := map[name]*node{}
	for _, ch := range o {
		at := root
		for _, key := range ch.keys[:len(ch.keys)-2] { // spec.template.spec, and then the list and the container
			at = child(at, key, manifest.Map)
		}
		containers := child(at, ch.keys[len(ch.keys)-2], manifest.List)
		c := named[name{containers, ch.c.Name}]
		if c == nil {
			c = object("name", ch.c.Name)
			named[name{containers, ch.c.Name}] = c
			containers.Items = append(containers.Items, c)
		}
		env := child(c, "env", manifest.List)
		env.Items = append(env.Items, ch.merged())
	}
	return root
}

// child is the value of a key, which is made where it is missing.
func child(n *node, key string, kind manifest.Kind) *node {
	if v, i := pair(n, key); i >= 0 {
		return v
	}
	v := &node{Kind: kind}
	n.Keys, n.Items = append(n.Keys, str(key)), append(n.Items, v)
	return v
}

// merged is the entry as a strategic merge patch has it: what should go is null.
func (ch *change) merged() *node {
	if ch.remedy.Action == remedy.Remove {
		return object("name", ch.remedy.Variable, "$patch", "delete")
	}
	n := plain(ch.new)
	null := &node{Kind: manifest.Scalar, Tag: "!!null"}
	for _, key := range []string{"value", "valueFrom"} {
		_, was := pair(ch.old, key)
		if _, is := pair(n, key); was >= 0 && is < 0 {
			n.Keys, n.Items = append(n.Keys, str(key)), append(n.Items, null)
		}
	}
	from, _ := pair(ch.old, "valueFrom")
	ref, _ := pair(from, "resourceFieldRef")
	to, _ := pair(n, "valueFrom")
	to, _ = pair(to, "resourceFieldRef")
	if _, was := pair(ref, "containerName"); was >= 0 && to != nil {
		if _, is := pair(to, "containerName"); is < 0 {
			to.Keys, to.Items = append(to.Keys, str("containerName")), append(to.Items, null)
		}
	}
	return n
}

// operations are RFC 6902's, as YAML: what is replaced, what is removed from the last to the first, and what is added.
func operations(o []*change) string {
	s := style{newline: "\n", step: "  "}
	var b strings.Builder
	for _, op := range steps(o) {
		b.WriteString(s.item(op, "") + "\n")
	}
	return b.String()
}

func steps(o []*change) (ops []*node) {
	type place struct {
		env   string
		index int
	}
	var gone []place // an env that goes as a whole has index -1
	whole := map[string]bool{}
	test := func(pointer string, i int, name string) {
		ops = append(ops, object("op", "test", "path", pointer+"/env/"+strconv.Itoa(i)+"/name", "value", name))
	}
	for _, ch := range o {
		switch {
		case ch.remedy.Action == remedy.Remove:
			for _, i := range ch.entries {
				test(ch.pointer, i, ch.remedy.Variable)
				if !ch.emptied {
					gone = append(gone, place{ch.pointer + "/env", i})
				}
			}
			if env := ch.pointer + "/env"; ch.emptied && !whole[env] {
				whole[env] = true
				gone = append(gone, place{env, -1})
			}
		case len(ch.entries) > 0:
			i := ch.entries[len(ch.entries)-1]
			test(ch.pointer, i, ch.remedy.Variable)
			ops = append(ops, object("op", "replace", "path", ch.pointer+"/env/"+strconv.Itoa(i), "value", plain(ch.new)))
		}
	}
	slices.SortStableFunc(gone, func(a, b place) int { return cmp.Or(cmp.Compare(a.env, b.env), cmp.Compare(b.index, a.index)) })
	for _, g := range gone {
		path := g.env
		if g.index >= 0 {
			path += "/" + strconv.Itoa(g.index)
		}
		ops = append(ops, object("op", "remove", "path", path))
	}
	for _, ch := range o {
		if ch.remedy.Action == remedy.Remove || len(ch.entries) > 0 {
			continue
		}
		if ch.count > 0 {
			ops = append(ops, object("op", "add", "path", ch.pointer+"/env/-", "value", plain(ch.new)))
			continue
		}
		ops = append(ops, object("op", "add", "path", ch.pointer+"/env", "value", list(plain(ch.new))))
	}
	return ops
}

// Command is the kubectl command that a patch is for.
func (p Patch) Command(file string) string {
	w := p.Workload
	kind := strings.ToLower(w.Kind)
	if group, version, ok := strings.Cut(w.APIVersion, "/"); ok && !slices.Contains(own, w.APIVersion) {
		kind += "." + version + "." + group
	}
	command := "kubectl patch " + kind + " " + w.Name
	if w.Namespace != "" {
		command += " -n " + w.Namespace
	}
	if p.JSON6902 {
		command += " --type json"
	}
	return command + " --patch-file " + file
}

// A Template is the template of a Helm chart that an object was rendered from.
type Template struct{ Chart, File string }

var source = regexp.MustCompile(`(?m)^# Source: ([^/\s]+)/(\S+)\s*$`)

// A section is a part of a file between two lines ---, with the first template that it names.
type section struct {
	start, named int // named is where the line ends that names it; -1: none does
	Template
}

// sectionsOf goes through a file once: there may be as many decisions as objects in it.
func sectionsOf(data []byte) (all []section) {
	for start := 0; ; {
		stop := len(data)
		if i := bytes.Index(data[start+min(1, len(data)-start):], []byte("\n---")); i >= 0 {
			stop = start + 1 + i
		}
		s := section{start: start, named: -1}
		if m := source.FindSubmatchIndex(data[start:stop]); m != nil {
			s.named, s.Template = start+m[5], Template{string(data[start+m[2] : start+m[3]]), string(data[start+m[4] : start+m[5]])}
		}
		all = append(all, s)
		if stop == len(data) {
			return all
		}
		start = stop
	}
}

// source is the template that is named above an object in its file.
func (p *Plan) source(w *workload.Workload) (Template, bool) {
	if p.sections == nil {
		p.sections = map[string][]section{}
		for _, f := range p.Files {
			p.sections[f.Name] = sectionsOf(f.Old)
		}
	}
	all := p.sections[w.At.File]
	// The line --- of an object is before it.
	i := sort.Search(len(all), func(i int) bool { return i > 0 && all[i].start+len("\n---") > w.At.Offset })
	if i == 0 || all[i-1].named < 0 || all[i-1].named > w.At.Offset {
		return Template{}, false
	}
	return all[i-1].Template, true
}

// TemplateOf is where a decision's object was rendered from: helm template writes it above each object. A chart's label names the
// chart alone.
func (p *Plan) TemplateOf(d *Decision) (t Template, ok bool) {
	if d.change == nil {
		return t, false
	}
	w := d.change.w
	if w.Made != nil {
		return Template{Chart: w.Made.Chart, File: w.Made.File}, w.Made.Chart != ""
	}
	if t, ok := p.source(w); ok {
		return t, true
	}
	if chart := w.Labels["helm.sh/chart"]; chart != "" {
		return Template{Chart: chart}, true
	}
	return t, false
}

// String is a template as people name it.
func (t Template) String() string {
	if t.File == "" {
		return "chart " + t.Chart
	}
	return fmt.Sprintf("%s of chart %s", t.File, t.Chart)
}
