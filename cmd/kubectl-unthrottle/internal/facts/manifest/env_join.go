package manifest

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A pendingPod is a pod whose environments wait for the other objects.
type pendingPod struct {
	workload *workload.Workload
	file     *File
	env      []pendingEnv // of each container
	named    map[string]*workload.Container
}

// container is the pod's container of a name: the last one, where several have it.
func (p *pendingPod) container(name string) *workload.Container {
	if p.named == nil {
		p.named = map[string]*workload.Container{}
		for i := range p.workload.Pod.Containers {
			c := &p.workload.Pod.Containers[i]
			p.named[c.Name] = c
		}
	}
	return p.named[name]
}

// whole are the variables that come from ConfigMaps and Secrets that are taken whole, those that matter: if several have one
// name, the last one, which counts. open is why there may be others.
func (j *join) whole(p *pendingPod, env pendingEnv) (vars []workload.Variable, sources []workload.Source, open string) {
	found := make([]*data, len(env.sources))
	unknown := make([]string, len(env.sources)) // why a source is
	for i, s := range env.sources {
		if unknown[i] = s.unknown; unknown[i] == "" {
			found[i], unknown[i] = j.data(p, s.Kind, s.Name)
		}
		s.Known = found[i] != nil
		if !s.Known {
			open = unknown[i]
		}
		sources = append(sources, s.Source)
	}
	// From the last to the first, so that each name is looked at once: what a later source sets counts, and what a later one that is
	// not known may set is not known.
	wanted := sortedKeys(env.wanted)
	type source struct{ kind, name, prefix string }
	seen := map[source]bool{}
	set := map[string]bool{}
	later := laterSources{next: map[string]int{}}
	for i, s := range slices.Backward(sources) {
		if found[i] == nil {
			later.add(s.Prefix, i)
			continue
		}
		key := source{s.Kind, s.Name, s.Prefix}
		if seen[key] {
			continue
		}
		seen[key] = true
		first := len(vars)
		for _, v := range found[i].matching(wanted, s, set) {
			set[v.Name] = true
			if k, ok := later.maySet(v.Name); ok && v.State == workload.Known {
				v.State, v.Value, v.Unknown = workload.Unknown, "", unknown[k]
			}
			vars = append(vars, v)
		}
		slices.Reverse(vars[first:])
	}
	slices.Reverse(vars)
	return vars, sources, open
}

// matching are the variables that a source sets: those wanted (which are sorted) and not set already.
func (d *data) matching(wanted []string, s workload.Source, set map[string]bool) (vars []workload.Variable) {
	from, _ := slices.BinarySearch(wanted, s.Prefix)
	for _, name := range wanted[from:] {
		key, ok := strings.CutPrefix(name, s.Prefix)
		if !ok {
			break
		}
		if value, ok := d.values[key]; ok && !set[name] {
			v := workload.Variable{
				Name: name, At: s.At, ValueAt: value.at, Form: workload.FromWhole,
				Text: fmt.Sprintf("%s %s, key %s", s.Kind, s.Name, key),
			}
			v.Value, v.State, v.Unknown = value.get()
			vars = append(vars, v)
		}
	}
	return vars
}

// laterSources are unknown sources; the one that was added last comes first.
type laterSources struct {
	next    map[string]int // the first of each prefix
	lengths []int          // of the prefixes
}

func (l *laterSources) add(prefix string, i int) {
	if _, known := l.next[prefix]; !known && !slices.Contains(l.lengths, len(prefix)) {
		l.lengths = append(l.lengths, len(prefix))
	}
	l.next[prefix] = i
}

// maySet is the first of them that may set a name.
func (l *laterSources) maySet(name string) (first int, ok bool) {
	for _, n := range l.lengths {
		if n > len(name) {
			continue
		}
		if at, known := l.next[name[:n]]; known && (!ok || at < first) {
			first, ok = at, true
		}
	}
	return first, ok
}

// environment makes a container's variables, now that all objects are known.
func (j *join) environment(p *pendingPod, c *workload.Container, env pendingEnv) {
	known := map[string]workload.Variable{}
	set := func(v workload.Variable) {
		known[v.Name] = v
		c.Env = append(c.Env, v)
	}
	open := c.EnvUnknown // why a name that nothing sets may be set all the same
	vars, sources, why := j.whole(p, env)
	if why != "" {
		open = why
	}
	c.EnvFrom = sources
	for _, v := range vars {
		set(v)
	}
	left := mostExpansion
	for _, e := range env.entries {
		v := e.Variable
		if v.State != workload.Unknown {
			v.Value, v.State, v.Unknown = j.value(p, c, e, known, open, &left)
		}
		if v.State == workload.Absent {
			continue // optional, and not there: nothing is set
		}
		set(v)
	}
	c.Env = thatMatter(c.Env)
}

// thatMatter leaves out variables that only served to make a value.
func thatMatter(all []workload.Variable) []workload.Variable {
	used := map[string]bool{}
	for _, name := range interesting {
		used[name] = true
	}
	for _, v := range slices.Backward(all) {
		if used[v.Name] && v.Form == workload.Literal {
			for _, name := range references(v.Text) {
				used[name] = true
			}
		}
	}
	return slices.DeleteFunc(all, func(v workload.Variable) bool { return !used[v.Name] })
}

// tooLong is why a value is not known that others make long.
var tooLong = fmt.Sprintf("the values that it is put together from make more than %d KiB", longestExpanded>>10)

// value is what the program will see.
func (j *join) value(p *pendingPod, c *workload.Container, v pendingVar, known map[string]workload.Variable, open string, left *int) (string, workload.State, string) {
	switch v.Form {
	case workload.Literal:
		return expanded(v.Text, known, open, left)
	case workload.ResourceRef:
		return j.resource(p, c, v)
	case workload.FieldRef:
		return field(p.workload, v.field)
	}
	kind := "ConfigMap"
	if v.Form == workload.Secret {
		kind = "Secret"
	}
	data, why := j.data(p, kind, v.name)
	if data == nil {
		return "", workload.Unknown, why
	}
	value, ok := data.values[v.key]
	switch {
	case ok:
		return value.get()
	case v.optional:
		return "", workload.Absent, ""
	}
	return "", workload.Unknown, fmt.Sprintf("%s %s has no key %s: the container does not start", kind, short(v.name), short(v.key))
}

// expanded is a text in which other variables are put into their places. left is how much of that may still be done.
func expanded(text string, known map[string]workload.Variable, open string, left *int) (string, workload.State, string) {
	if !strings.Contains(text, "$") {
		return text, workload.Known, ""
	}
	unknown := "" // the last name in it that is not known
	text, ok := expand(text, min(*left, longestExpanded), func(name string) string {
		other, ok := known[name]
		switch {
		case ok && other.State != workload.Unknown:
			return other.Value
		case ok || open != "" || isService(name):
			unknown = name
		}
		return "$(" + name + ")"
	})
	*left = max(0, *left-len(text))
	switch other, set := known[unknown]; {
	case unknown == "" && ok:
		return text, workload.Known, ""
	case unknown == "":
		return "", workload.Unknown, tooLong
	case set && len(other.Unknown) > longestReason:
		return "", workload.Unknown, other.Unknown
	case set:
		return "", workload.Unknown, fmt.Sprintf("$(%s): %s", short(unknown), other.Unknown)
	case open != "":
		return "", workload.Unknown, fmt.Sprintf("$(%s): %s", short(unknown), open)
	}
	return "", workload.Unknown, fmt.Sprintf("$(%s) may be a Service's address", short(unknown))
}

// isService says whether a name looks like those that Kubernetes makes for Services.
func isService(name string) bool {
	return strings.HasSuffix(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") ||
		strings.Contains(name, "_PORT_") || strings.HasSuffix(name, "_PORT")
}

// field is the value of a fieldRef, where the pod template has it.
func field(w *workload.Workload, path string) (string, workload.State, string) {
	name, key, ok := strings.Cut(path, "['")
	key, closed := strings.CutSuffix(key, "']")
	if ok && closed {
		from := w.Pod.Annotations
		if name == "metadata.labels" {
			from = w.Pod.Labels
		}
		if value, ok := from[key]; ok && (name == "metadata.labels" || name == "metadata.annotations") && !strings.Contains(value, "{{") {
			return value, workload.Known, ""
		}
	}
	if path == "metadata.namespace" && w.Namespace != "" && !strings.Contains(w.Namespace, "{{") {
		return w.Namespace, workload.Known, ""
	}
	return "", workload.Unknown, fmt.Sprintf("%s is known in the pod only", short(path))
}

// resource is the value of a resourceFieldRef: the amount divided by the divisor, rounded up.
func (j *join) resource(p *pendingPod, c *workload.Container, v pendingVar) (string, workload.State, string) {
	of := c
	if v.Container != "" {
		if of = p.container(v.Container); of == nil {
			return "", workload.Unknown, fmt.Sprintf("the pod has no container %s", short(v.Container))
		}
	}
	var amount workload.Amount
	node := ""
	switch v.Resource {
	case "limits.cpu":
		amount, node = j.limit(p, of), "allocatable CPUs"
	case "requests.cpu":
		amount = of.Request
	case "limits.memory":
		amount, node = of.Memory, "allocatable memory"
	case "requests.memory":
		amount = of.MemoryRequest
	default:
		return "", workload.Unknown, fmt.Sprintf("%s is not known here", short(v.Resource))
	}
	cpu := strings.HasSuffix(v.Resource, ".cpu")
	switch {
	case amount.State == workload.Unknown:
		return "", workload.Unknown, amount.Unknown
	case amount.Value <= 0 && node != "":
		return "", workload.Unknown, "there is no such limit: it is the node's " + node
	case amount.State == workload.Absent && p.workload.Around.DefaultRequest.State != workload.Absent:
		return "", workload.Unknown, "a LimitRange sets the request"
	}
	divisor := quantity.Resource{}
	if v.Divisor != "" {
		var err error
		if divisor, err = quantity.ParseResource(v.Divisor); err != nil || divisor.Float() < 0 {
			return "", workload.Unknown, fmt.Sprintf("its divisor %q is not a quantity", short(v.Divisor))
		}
	}
	value, err := quantity.ParseResource(amount.Text)
	if err != nil || value.Float() != amount.Value {
		// An integer that YAML writes in another way: 0x10.
		value, _ = quantity.ParseResource(strconv.FormatFloat(amount.Value, 'f', -1, 64))
	}
	n, by := value.Whole(), divisor.Whole()
	if cpu {
		n, by = value.Milli(), divisor.Milli()
		if by == 0 {
			by = 1000
		}
	}
	return strconv.FormatInt(int64(math.Ceil(float64(n)/float64(max(by, 1)))), 10), workload.Known, ""
}

// limit is the CPU limit that a container gets: its own, the namespace's default, or the pod's.
func (j *join) limit(p *pendingPod, c *workload.Container) workload.Amount {
	for _, a := range []workload.Amount{c.Limit, p.workload.Around.Default, p.workload.Pod.Limit} {
		if a.State == workload.Unknown || a.State == workload.Known && a.Value > 0 {
			return a
		}
	}
	return workload.Amount{}
}

// decoded reads a Secret's data.
func decoded(text string) (string, string) {
	value, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	switch {
	case strings.HasPrefix(text, "ENC["):
		return "", "it is encrypted"
	case err != nil:
		return "", "it is not base64"
	}
	return string(value), ""
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
