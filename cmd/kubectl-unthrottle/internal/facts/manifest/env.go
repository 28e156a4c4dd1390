package manifest

import (
	"fmt"
	"slices"
	"strings"

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
func environment(c at, f *workload.Container) pendingEnv {
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
	// From the last to the first: a value can refer to earlier variables only.
	for _, item := range slices.Backward(list.list()) {
		env.take(item, f)
	}
	slices.Reverse(env.entries)
	from := c.get("envFrom")
	if from.template() {
		f.EnvUnknown = from.unrendered()
	}
	for _, item := range from.list() {
		env.takeWhole(item, f)
	}
	return env
}

// take reads an entry of env, and keeps it if it matters.
func (env *pendingEnv) take(item at, f *workload.Container) {
	if item.template() {
		f.EnvUnknown = item.unrendered()
		return
	}
	if !item.isMap() {
		return
	}
	name, value := item.get("name"), item.get("value")
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
		return
	}
	v := variable(item)
	if v.Form == workload.Literal {
		for _, other := range references(v.Text) {
			env.wanted[other] = true
		}
	}
	env.entries = append(env.entries, v)
}

// takeWhole reads an entry of envFrom.
func (env *pendingEnv) takeWhole(item at, f *workload.Container) {
	if item.template() {
		f.EnvUnknown = item.unrendered()
		return
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

// variable reads an entry of env.
func variable(item at) pendingVar {
	v := pendingVar{Variable: workload.Variable{Name: item.get("name").text(), At: item.position()}}
	value, from := item.get("value"), item.get("valueFrom")
	switch { // as the kubelet does it: an empty value lets valueFrom count
	case value.text() != "" || !from.ok():
		v.literal(value)
	case from.template():
		v.Form, v.Text, v.ValueAt = workload.Literal, from.raw(), from.position()
		v.State, v.Unknown = workload.Unknown, from.unrendered()
	default:
		v.ValueAt = from.position()
		v.reference(from)
	}
	return v
}

// literal takes a value that is in the manifest.
func (v *pendingVar) literal(value at) {
	v.Form, v.Text, v.ValueAt, v.State = workload.Literal, value.text(), value.position(), workload.Known
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
}

// reference takes what a valueFrom refers to.
func (v *pendingVar) reference(from at) {
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
		return
	}
	v.name, v.key, v.optional = ref.get("name").name(), ref.get("key").text(), ref.get("optional").bool()
	for _, part := range []string{"resource", "containerName", "divisor", "fieldPath", "name", "key"} {
		if p := ref.get(part); p.template() {
			v.State, v.Unknown = workload.Unknown, p.unrendered()
		} else if why := substituted(p.text()); why != "" {
			v.State, v.Unknown = workload.Unknown, why
		}
	}
}

// Bounds on values that are put into values, which a few lines can double sixty times. What matters here is a number of CPUs, an
// amount of memory or a list of settings: none has more than some hundred letters.
const (
	longestExpanded = 4 << 10  // of one value: sixteen times the longest GODEBUG that has all settings
	mostExpansion   = 64 << 10 // of all values of a container that refer to others; charts have some kilobytes
	longestReason   = 200      // of why a value is not known, before it is given without the names that lead to it
)

// expand replaces $(NAME) as the kubelet does: $$ is a dollar sign, and what isn't a reference stays. It refuses a result that has
// more than most bytes, and stops working on it.
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
