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

// interesting are the variables that decide how a Go program uses its CPUs.
var interesting = []string{"GOMAXPROCS", "GODEBUG", "GOMEMLIMIT", "GOGC"}

// A pendingEnv is an environment before the other objects are known.
type pendingEnv struct {
	entries []pendingVar
	sources []pendingSource
	wanted  map[string]bool // the interesting variables, and what they refer to
}

type pendingVar struct {
	workload.Variable
	name, key string // of a ConfigMap or Secret
	optional  bool
	field     string
}

type pendingSource struct {
	workload.Source
	unknown string // its name is a template
}

// environment takes the variables of a container that matter, and the ConfigMaps and Secrets that may bring more.
func (d *document) environment(c at, f *workload.Container) pendingEnv {
	env := pendingEnv{wanted: map[string]bool{}}
	for _, name := range interesting {
		env.wanted[name] = true
	}
	list := c.get("env")
	switch {
	case list.template():
		f.EnvUnknown = list.unrendered()
	case list.ok() && list.node.Kind != List:
		list.problem(Error, "", "env is a %s where a list of name and value is wanted", kindName(list.node))
	}
	items := list.list()
	// From the last to the first: a value can refer to earlier variables only.
	for i := len(items) - 1; i >= 0; i-- {
		item := items[i]
		if item.template() {
			f.EnvUnknown = item.unrendered()
			continue
		}
		if !item.isMap() {
			continue
		}
		name := item.get("name")
		value := item.get("value")
		if n := value.node; n != nil && (n.Kind != Scalar && !value.template() || n.Kind == Scalar && !n.isString() && !n.isNull()) {
			hint := ""
			if n.Kind == Scalar {
				hint = fmt.Sprintf("write %q", value.text())
			}
			value.problem(Error, hint, "the value of %s is a %s: Kubernetes takes text only", short(name.text()), kindName(n))
		}
		if name.template() {
			f.EnvUnknown = name.unrendered()
		}
		if !env.wanted[name.text()] {
			if item.get("valueFrom").get("resourceFieldRef").get("resource").name() == "limits.memory" {
				f.MemoryVariable = true
			}
			for _, other := range references(value.text()) {
				if slices.Contains(interesting, other) && !slices.Contains(f.Referred, other) {
					f.Referred = append(f.Referred, other)
				}
			}
			continue
		}
		v := d.variable(item)
		if v.Form == workload.Literal {
			for _, other := range references(v.Text) {
				env.wanted[other] = true
			}
		}
		env.entries = append(env.entries, v)
	}
	for i, j := 0, len(env.entries)-1; i < j; i, j = i+1, j-1 {
		env.entries[i], env.entries[j] = env.entries[j], env.entries[i]
	}
	from := c.get("envFrom")
	if from.template() {
		f.EnvUnknown = from.unrendered()
	}
	for _, item := range from.list() {
		if item.template() {
			f.EnvUnknown = item.unrendered()
			continue
		}
		for kind, key := range map[string]string{"ConfigMap": "configMapRef", "Secret": "secretRef"} {
			ref := item.get(key)
			if !ref.isMap() {
				continue
			}
			s := pendingSource{Source: workload.Source{
				Kind: kind, Name: ref.get("name").name(), Prefix: item.get("prefix").text(),
				Optional: ref.get("optional").bool(), At: item.position(),
			}}
			if name := ref.get("name"); name.template() {
				s.unknown = name.unrendered()
			}
			env.sources = append(env.sources, s)
		}
	}
	return env
}

// variable reads an entry of env.
func (d *document) variable(item at) pendingVar {
	v := pendingVar{Variable: workload.Variable{Name: item.get("name").text(), At: item.position()}}
	value, from := item.get("value"), item.get("valueFrom")
	// As the kubelet does it: an empty value lets valueFrom count.
	if value.text() != "" || !from.ok() {
		v.Form, v.Text = workload.Literal, value.text()
		v.ValueAt = value.position()
		v.State = workload.Known
		switch why := substituted(v.Text); {
		case value.template():
			v.State, v.Unknown = workload.Unknown, value.unrendered()
		case why != "":
			v.State, v.Unknown = workload.Unknown, why
		case value.node != nil && value.node.Kind != Scalar:
			v.State, v.Unknown = workload.Unknown, "its value is a "+kindName(value.node)
		case len(v.Text) > longestExpanded:
			v.State, v.Unknown = workload.Unknown, fmt.Sprintf("its value has more than %d KiB", longestExpanded>>10)
		}
		return v
	}
	v.ValueAt = from.position()
	if from.template() {
		v.Form, v.Text = workload.Literal, from.raw()
		v.State, v.Unknown = workload.Unknown, from.unrendered()
		return v
	}
	var ref at
	switch {
	case from.get("resourceFieldRef").ok():
		ref = from.get("resourceFieldRef")
		v.Form, v.Resource, v.Container = workload.ResourceRef, ref.get("resource").name(), ref.get("containerName").name()
		if divisor := ref.get("divisor"); divisor.ok() {
			v.Divisor, v.DivisorAt = divisor.name(), divisor.position()
		}
		v.Text = v.Resource
	case from.get("fieldRef").ok():
		ref = from.get("fieldRef")
		v.Form, v.field = workload.FieldRef, ref.get("fieldPath").name()
		v.Text = v.field
	case from.get("configMapKeyRef").ok():
		ref = from.get("configMapKeyRef")
		v.Form = workload.ConfigMap
		v.Text = fmt.Sprintf("ConfigMap %s, key %s", ref.get("name").name(), ref.get("key").name())
	case from.get("secretKeyRef").ok():
		ref = from.get("secretKeyRef")
		v.Form = workload.Secret
		v.Text = fmt.Sprintf("Secret %s, key %s", ref.get("name").name(), ref.get("key").name())
	default:
		v.Form, v.State, v.Unknown = workload.Literal, workload.Unknown, "its valueFrom is of no kind that is known here"
		return v
	}
	v.name, v.key, v.optional = ref.get("name").name(), ref.get("key").text(), ref.get("optional").bool()
	for _, part := range []string{"resource", "containerName", "divisor", "fieldPath", "name", "key"} {
		if p := ref.get(part); p.template() {
			v.State, v.Unknown = workload.Unknown, p.unrendered()
		} else if why := substituted(p.text()); why != "" {
			v.State, v.Unknown = workload.Unknown, why
		}
	}
	return v
}

// Bounds on values that are put into values, which a few lines can double sixty times. What matters here is a number of CPUs, an
// amount of memory or a list of settings: none has more than some hundred letters.
const (
	longestExpanded = 4 << 10  // of one value: sixteen times the longest GODEBUG that has all settings
	mostExpansion   = 64 << 10 // of all values of a container that refer to others; charts have some kilobytes
	longestReason   = 200      // of why a value is not known, before it is told without the names that lead to it
)

// expand replaces $(NAME) as the kubelet does: $$ is a dollar sign, and what is no reference stays. It says no to a result that has
// more than most bytes, and does no more work for it.
func expand(text string, most int, value func(name string) string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(text) && b.Len() <= most; i++ {
		if text[i] != '$' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		switch end := strings.IndexByte(text[i:], ')'); {
		case text[i] == '$':
			b.WriteByte('$')
		case text[i] == '(' && end > 0:
			part := value(text[i+1 : i+end])
			if b.Len()+len(part) > most {
				return "", false
			}
			b.WriteString(part)
			i += end
		default:
			b.WriteByte('$')
			b.WriteByte(text[i])
		}
	}
	if b.Len() > most {
		return "", false
	}
	return b.String(), true
}

// references are the names that a value refers to.
func references(text string) []string {
	if !strings.Contains(text, "$(") {
		return nil
	}
	var names []string
	expand(text, len(text), func(name string) string {
		names = append(names, name)
		return ""
	})
	return names
}

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

// whole are the variables that come from ConfigMaps and Secrets that are taken whole, as far as they matter: of several of a name
// the last one, which counts. open is why there may be others.
func (j *join) whole(p *pendingPod, env pendingEnv) (vars []workload.Variable, sources []workload.Source, open string) {
	found := make([]*data, len(env.sources))
	for i := range env.sources {
		s := env.sources[i]
		why := s.unknown
		if why == "" {
			found[i], why = j.data(p, s.Kind, s.Name)
		}
		s.Known = found[i] != nil
		if !s.Known {
			open = why
		}
		sources = append(sources, s.Source)
	}
	// From the last to the first, so that each name is looked at once: what a later source sets counts, and what a later one that is
	// not known may set is not known.
	wanted := sortedKeys(env.wanted)
	type source struct{ kind, name, prefix string }
	seen := map[source]bool{}
	set := map[string]bool{}
	later := map[string]int{} // the next source after this one that is not known, by its prefix
	var lengths []int         // of those prefixes
	for i := len(sources) - 1; i >= 0; i-- {
		s := &sources[i]
		if found[i] == nil {
			if _, known := later[s.Prefix]; !known && !slices.Contains(lengths, len(s.Prefix)) {
				lengths = append(lengths, len(s.Prefix))
			}
			later[s.Prefix] = i
			continue
		}
		if key := (source{s.Kind, s.Name, s.Prefix}); seen[key] {
			continue
		} else {
			seen[key] = true
		}
		from, _ := slices.BinarySearch(wanted, s.Prefix)
		first := len(vars)
		for _, name := range wanted[from:] {
			key, ok := strings.CutPrefix(name, s.Prefix)
			if !ok {
				break
			}
			value, ok := found[i].values[key]
			if !ok || set[name] {
				continue
			}
			set[name] = true
			v := workload.Variable{
				Name: name, At: s.At, ValueAt: value.at, Form: workload.FromWhole,
				Text: fmt.Sprintf("%s %s, key %s", s.Kind, s.Name, key),
			}
			v.Value, v.State, v.Unknown = value.get()
			next := len(sources)
			for _, n := range lengths {
				if n > len(name) {
					continue
				}
				if at, ok := later[name[:n]]; ok {
					next = min(next, at)
				}
			}
			if v.State == workload.Known && next < len(sources) {
				v.State, v.Value = workload.Unknown, ""
				if v.Unknown = env.sources[next].unknown; v.Unknown == "" {
					_, v.Unknown = j.data(p, sources[next].Kind, sources[next].Name)
				}
			}
			vars = append(vars, v)
		}
		slices.Reverse(vars[first:])
	}
	slices.Reverse(vars)
	return vars, sources, open
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
	// What only served to make a value goes again.
	kept := c.Env[:0]
	used := map[string]bool{}
	for _, name := range interesting {
		used[name] = true
	}
	for i := len(c.Env) - 1; i >= 0; i-- {
		if v := c.Env[i]; used[v.Name] && v.Form == workload.Literal {
			for _, name := range references(v.Text) {
				used[name] = true
			}
		}
	}
	for _, v := range c.Env {
		if used[v.Name] {
			kept = append(kept, v)
		}
	}
	clear(c.Env[len(kept):])
	c.Env = kept
}

// tooLong is why a value is not known that others make long.
var tooLong = fmt.Sprintf("the values that it is put together from make more than %d KiB", longestExpanded>>10)

// value is what the program will see.
func (j *join) value(p *pendingPod, c *workload.Container, v pendingVar, known map[string]workload.Variable, open string, left *int) (string, workload.State, string) {
	switch v.Form {
	case workload.Literal:
		if !strings.Contains(v.Text, "$") {
			return v.Text, workload.Known, ""
		}
		unknown := "" // the last name in it that is not known
		text, ok := expand(v.Text, min(*left, longestExpanded), func(name string) string {
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
