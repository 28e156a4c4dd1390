// Package fix answers: how do manifests look once the findings about them are remedied? In go what was read and what the rules
// found; out come decisions, each with its why, and the new bytes of the files that change.
//
// It edits text, and not values: what a change does not touch stays the same byte for byte, including comments, order, anchors,
// quotes and line ends. Every result is read again, and refused unless it says what was intended and nothing else differs. It
// leaves alone what it does not understand. It decides nothing about GOMAXPROCS (package lint does), and it writes no files.
package fix

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// A Plan is what to do about a set of manifests.
type Plan struct {
	Decisions []*Decision
	Files     []File // those that change, in the order in which they were read

	sections map[string][]section // of the files, when a template was first asked for
}

// A Decision is what is done about a finding.
type Decision struct {
	Finding lint.Finding
	Remedy  remedy.Remedy   // the one that was chosen; Leave with why, if none is carried out
	Told    []remedy.Remedy // right for some programs, or not for a manifest to bring

	change *change        // nil if nothing is changed
	made   *workload.Made // what the workload was rendered from
}

// Changes reports whether the decision changes a manifest.
func (d *Decision) Changes() bool { return d.change != nil }

// A File is one that changes.
type File struct {
	Name     string
	Within   string // the directory that was named, if the file was found in one: its place must not lead out of it
	Old, New []byte
	edits    []edit
}

// mostChanges is how many changes are made together: until they are tried, each takes 30 KB.
const mostChanges = 20_000

// Make decides about each finding of the rules (none: of all), and makes the changes.
func Make(ctx context.Context, set *manifest.Set, known lint.Known, rules ...string) (*Plan, error) {
	p := &Plan{}
	files := map[origin]*document{}
	changes := 0
	for _, f := range set.Files {
		if f.Data != nil {
			files[origin{f.Name, f.Made()}] = &document{file: f}
		}
	}
	applied, err := appliedOf(ctx, set, known)
	if err != nil {
		return nil, err
	}
	for i, w := range set.Workloads {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		findings, err := lint.Check(ctx, w, known)
		if err != nil {
			return nil, err
		}
		in := containersOf(w)
		document := files[origin{w.At.File, w.Made != nil}]
		for _, found := range findings {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if len(found.Remedies) == 0 || len(rules) > 0 && !slices.Contains(rules, found.Rule) {
				continue
			}
			if applied.known(w, found) {
				continue // it is reported for the file
			}
			d := decide(document, w, in, found)
			d.made = w.Made
			if d.Changes() && document.file.Taken() {
				if why := applied.against(w, d); why != "" {
					document.open = slices.DeleteFunc(document.open, func(c *change) bool { return c == d.change })
					d.leave(why)
				}
			}
			d.Finding.At = w.Made.Place(found.At)
			p.Decisions = append(p.Decisions, d)
			if d.Changes() {
				changes++
			}
		}
		switch {
		case len(p.Decisions) > lint.MostFindings:
			return nil, lint.ErrTooMany
		case changes > mostChanges:
			return nil, hint.With(fmt.Errorf("more than %d changes", mostChanges), "name fewer files, or one rule at a time: --rule")
		}
		if d := document; d != nil && (i+1 == len(set.Workloads) || set.Workloads[i+1].At != w.At) {
			d.close()
		}
	}
	for _, f := range set.Files {
		d := files[origin{f.Name, f.Made()}]
		if d == nil || d.file != f || len(d.batches) == 0 {
			continue
		}
		made, err := d.settle(ctx)
		if err != nil {
			return nil, err
		}
		if len(made) > 0 && !f.Made() {
			file := File{Name: f.Name, Within: f.Within(), Old: f.Data, New: d.apply(made)}
			for _, b := range made {
				file.edits = append(file.edits, b.edits...)
			}
			p.Files = append(p.Files, file)
		}
	}
	return p, ctx.Err()
}

// decide chooses the remedy that changes something and is right for anything that runs there, and prepares the change.
func decide(in *document, w *workload.Workload, all containers, found lint.Finding) *Decision {
	d := &Decision{Finding: found}
	chosen := slices.IndexFunc(found.Remedies, remedy.Remedy.Changes)
	if chosen < 0 {
		chosen = slices.IndexFunc(found.Remedies, func(r remedy.Remedy) bool { return r.Action == remedy.Leave })
	}
	for i, r := range found.Remedies {
		if i != chosen {
			d.Told = append(d.Told, r)
		}
	}
	if chosen < 0 {
		d.Remedy = remedy.Remedy{Action: remedy.Leave, Variable: found.Variable, Why: "the program is not known"}
		return d
	}
	d.Remedy = found.Remedies[chosen]
	if !d.Remedy.Changes() {
		return d
	}
	if in == nil {
		d.leave("it is not in a file")
		return d
	}
	c := all.of(found)
	if c == nil {
		d.leave("its container is not found again")
		return d
	}
	change, err := in.change(w, c, d.Remedy)
	if err != nil {
		d.leave(err.Error())
		return d
	}
	change.decision = d
	d.change = change
	in.open = append(in.open, change)
	return d
}

// leave takes the change back.
func (d *Decision) leave(why string) {
	d.change = nil
	d.Remedy = remedy.Remedy{Action: remedy.Leave, Variable: d.Remedy.Variable, Why: why}
}

// containers are those of a pod, by their names: there may be thousands of them, of one name, too.
type containers map[string]*namesakes

// namesakes are the containers of a name.
type namesakes struct {
	last    *workload.Container // of the pod
	byPlace []*workload.Container
}

func containersOf(w *workload.Workload) containers {
	all := containers{}
	for i := range w.Pod.Containers {
		c := &w.Pod.Containers[i]
		if all[c.Name] == nil {
			all[c.Name] = &namesakes{}
		}
		n := all[c.Name]
		n.last, n.byPlace = c, append(n.byPlace, c)
	}
	for _, n := range all {
		slices.SortStableFunc(n.byPlace, func(a, b *workload.Container) int { return cmp.Compare(a.At.Offset, b.At.Offset) })
	}
	return all
}

// of is the container that a finding is about. Its variable is in it; without one the finding is at the container.
func (all containers) of(found lint.Finding) *workload.Container {
	n := all[found.Container]
	if n == nil {
		return nil
	}
	at := found.At.Offset
	// Containers aren't nested: the first that ends behind the place is the only one that may have it in it.
	i := sort.Search(len(n.byPlace), func(i int) bool { return n.byPlace[i].At.End > at })
	if i < len(n.byPlace) && n.byPlace[i].At.Offset <= at {
		return n.byPlace[i]
	}
	return n.last
}

// refuse says why a change is not made.
func refuse(format string, args ...any) error { return fmt.Errorf(format, args...) }
