package fix

import (
	"context"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// An origin is what objects were read from. A rendering has the name of the file that it is of.
type origin struct {
	name string
	made bool
}

// Applied is what kustomizations make of the files that they take. A file is changed where all that is made of it has the same finding
// and the same remedy: an overlay may set the limit that a base does not have.
type applied struct {
	containers map[part]int               // how many renderings have it
	remedies   map[whatFor]map[effect]int // of those, how many have the finding, and what to do about it
	plain      map[whatFor]bool           // findings of the files themselves
}

type part struct{ file, kind, container string }

type whatFor struct {
	part
	rule, variable string
}

// An effect is what a remedy comes to.
type effect struct {
	action                  remedy.Action
	variable, value, source string
}

func appliedOf(ctx context.Context, set *manifest.Set, known lint.Known) (*applied, error) {
	a := &applied{map[part]int{}, map[whatFor]map[effect]int{}, map[whatFor]bool{}}
	taken := map[string]bool{}
	for _, f := range set.Files {
		if f.Taken() {
			taken[f.Name] = true
		}
	}
	if len(taken) == 0 {
		return a, nil
	}
	for _, w := range set.Workloads {
		file := w.At.File
		if !taken[file] {
			continue
		}
		found, err := lint.Check(ctx, w, known)
		if err != nil {
			return nil, err
		}
		if w.Made == nil {
			for _, f := range found {
				a.plain[whatOf(w, f)] = true
			}
			continue
		}
		for _, c := range w.Pod.Containers {
			a.containers[part{file, w.Kind, c.Name}]++
		}
		for _, f := range found {
			key := whatOf(w, f)
			if a.remedies[key] == nil {
				a.remedies[key] = map[effect]int{}
			}
			for _, r := range f.Remedies {
				a.remedies[key][effectOf(r)]++
			}
		}
	}
	return a, nil
}

func whatOf(w *workload.Workload, f lint.Finding) whatFor {
	return whatFor{part{w.At.File, w.Kind, f.Container}, f.Rule, f.Variable}
}

func effectOf(r remedy.Remedy) effect { return effect{r.Action, r.Variable, r.Value, r.Resource} }

// known says whether a finding of a rendering is one of its file, too.
func (a *applied) known(w *workload.Workload, f lint.Finding) bool {
	return w.Made != nil && a.plain[whatOf(w, f)]
}

// against says why a change to a file is not right for all that is made of it, or "".
func (a *applied) against(w *workload.Workload, d *Decision) string {
	key := whatOf(w, d.Finding)
	n := a.containers[key.part]
	switch got := a.remedies[key][effectOf(d.Remedy)]; {
	case n == 0 || got == n:
		return ""
	case got == 0:
		return "a kustomization changes it: what it renders asks for another remedy, or none, as lint says"
	}
	return "kustomizations change it: not all that is rendered from it asks for this, as lint says"
}

// LeaveMade takes back the changes of what was rendered: they have no file to go into. As patches they are right.
func (p *Plan) LeaveMade() {
	for _, d := range p.Decisions {
		switch {
		case d.change == nil || d.made == nil:
		case d.made.Chart != "":
			d.leave("a template makes it: " + d.Remedy.String() + " in the values of " + d.made.String() +
				", if they reach it; --as kustomize patches what is rendered")
		default:
			d.leave(d.made.String() + " makes it: " + d.Remedy.String() + " there")
		}
	}
}
