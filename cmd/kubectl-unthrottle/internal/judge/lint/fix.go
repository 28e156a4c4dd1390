package lint

import (
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// A fix is what to do about a finding: as a sentence for people, and as remedies for what edits manifests and pods. Each rule
// makes both in one place, so that they can't differ. A remedy may be narrower than the sentence: a person knows the program.
type fix struct {
	text     string
	remedies []remedy.Remedy
}

// The programs for which a remedy is right, where the program is not known.
const (
	newer = "a program built with Go 1.25 or later and a go line to match"
	older = "a program built with Go 1.24 or earlier, or with a go line that old"
)

// leave makes a fix that changes nothing.
func leave(text, why string) fix {
	return fix{text, []remedy.Remedy{{Action: remedy.Leave, Why: why}}}
}

// changes reports whether a fix changes a manifest.
func (c fix) changes() bool { return slices.ContainsFunc(c.remedies, remedy.Remedy.Changes) }

// repair makes the divisor of a variable's reference 1.
func repair(variable, text, why string) fix {
	return fix{text, []remedy.Remedy{{Action: remedy.Repair, Variable: variable, Value: "1", Why: why}}}
}

// remove takes GOMAXPROCS out.
func remove(text, why string) fix {
	return fix{text, []remedy.Remedy{{Action: remedy.Remove, Variable: "GOMAXPROCS", Why: why}}}
}

// fitting sets GOMAXPROCS to what fits the limit: by a reference where the limit rounded up is that number, so that it stays right
// when the limit in the manifest is edited; else as a number. What a limit is lifted to at the start is not a number to keep, and
// whether a custom resource takes a reference is for its operator to say.
func (f *facts) fitting() fix {
	n := strconv.Itoa(f.right())
	set := remedy.Remedy{Action: remedy.Set, Variable: "GOMAXPROCS", Value: n, Why: "that is what fits " + f.limit.String()}
	if f.limit.Procs() == f.right() && !f.resize.startUp && f.takesReference() {
		set.Value, set.Resource = "", "limits.cpu"
		set.Why = "limits.cpu makes it " + n + ", and keeps to the limit when it is edited"
		return fix{"set it to " + n + ", from limits.cpu", []remedy.Remedy{set}}
	}
	return fix{"set it to " + n, []remedy.Remedy{set}}
}

// takesReference reports whether GOMAXPROCS may be a resourceFieldRef there: in Kubernetes' own kinds, and where it is one.
func (f *facts) takesReference() bool {
	group, _, grouped := strings.Cut(f.w.APIVersion, "/")
	own := !grouped || slices.Contains([]string{"apps", "batch", "extensions"}, group)
	return own || f.procs.Var != nil && f.procs.Var.Form == workload.ResourceRef
}

// takeOut takes GOMAXPROCS out if the program is known to follow its limit; otherwise makes it fit. That is right for an unknown
// program, too: what would be better for newer ones is reported.
func (f *facts) takeOut(fits fix) fix {
	switch does, known := f.itself(); {
	case does:
		return remove("take GOMAXPROCS out: "+f.b.String()+", the program reads its limit itself",
			"the program, "+f.b.String()+", follows its limit itself")
	case known:
		return fits
	}
	out := remedy.Remedy{Action: remedy.Remove, Variable: "GOMAXPROCS", Only: newer, Why: "such a program follows its limit itself"}
	return fix{
		"take GOMAXPROCS out if the program is built with Go 1.25 or later and has a go line to match; else " + fits.text,
		append(slices.Clip(fits.remedies), out),
	}
}

// takeOutIfKnown is takeOut where a change for an unknown program could make things worse: it is only reported.
func (f *facts) takeOutIfKnown(fits fix) fix {
	c := f.takeOut(fits)
	if _, known := f.itself(); !known {
		for i := range c.remedies {
			if c.remedies[i].Changes() {
				c.remedies[i].Only = older
			}
		}
	}
	return c
}

// hold makes remedies that can't be carried out in this container into ones that say why.
func (f *facts) hold(remedies []remedy.Remedy) (held []remedy.Remedy) {
	for _, r := range remedies {
		switch r.Action {
		case remedy.Remove, remedy.Set, remedy.Repair:
			if why := f.obstacle(r); why != "" {
				r = remedy.Remedy{Action: remedy.Leave, Variable: r.Variable, Why: why}
			}
		}
		if !slices.Contains(held, r) {
			held = append(held, r)
		}
	}
	return held
}

// obstacle is why a container's variable must not be changed, or "". What is not written in the container can't be changed there,
// and what other places share would change there, too.
func (f *facts) obstacle(r remedy.Remedy) string {
	v, written := f.c.Var(r.Variable)
	switch {
	case f.c.EnvUnknown != "":
		return "a part of its env is not known: " + f.c.EnvUnknown
	case f.c.At.Shared || written && v.At.Shared:
		return "it stands behind an alias or a merge key: other places share the text"
	case !written:
		if _, image := f.b.Var(r.Variable); image {
			return "the image sets " + r.Variable + ": change it there, or set it in the manifest as well"
		}
	case v.Form == workload.ConfigMap, v.Form == workload.Secret, v.Form == workload.FromWhole:
		return "it comes from " + v.Text + ": change it there"
	case v.Form != workload.Literal && v.Form != workload.ResourceRef:
		return "it comes from " + v.Text + ", which may serve others, too"
	case v.Form == workload.Literal && v.Text != v.Value:
		return "its value is put together from other variables"
	}
	same := r.Action == remedy.Repair && v.Divisor == "" // which means 1 already
	switch {
	case !same && refers(f.c, r.Variable): // what refers to it changes with it, no matter what that is for
		return "the container's command or another variable refers to $(" + r.Variable + ")"
	case r.Action == remedy.Remove:
		return f.behind(r.Variable)
	}
	return ""
}

// behind says what would set a variable if the container's own were taken out, or "".
func (f *facts) behind(name string) string {
	for _, v := range f.c.Env {
		if v.Name == name && v.Form == workload.FromWhole {
			return v.Text + " sets it, too: that would count then"
		}
	}
	for _, s := range f.c.EnvFrom {
		if !s.Known && strings.HasPrefix(name, s.Prefix) {
			return s.Kind + " " + s.Name + " may set it, too: that would count then"
		}
	}
	if text, ok := f.b.Var(name); ok {
		return "the image sets it to " + text + ", which would count then"
	}
	return ""
}

// refers reports whether a container's command or another of its variables has $(NAME).
func refers(c *workload.Container, name string) bool {
	reference := "$(" + name + ")"
	has := func(text string) bool { return strings.Contains(text, reference) }
	return slices.Contains(c.Referred, name) || slices.ContainsFunc(c.Command, has) || slices.ContainsFunc(c.Args, has) ||
		slices.ContainsFunc(c.Env, func(v workload.Variable) bool { return v.Form == workload.Literal && has(v.Text) })
}
