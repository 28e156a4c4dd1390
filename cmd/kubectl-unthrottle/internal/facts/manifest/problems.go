package manifest

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// problems are those of a file, by what they are about: what is in it a hundred times is reported once.
type problems map[string]*alike

// alike are the problems of a kind.
type alike struct {
	told  []int // of the set's problems
	count int
	lines []int // of the first ones that are not reported individually
}

const (
	// mostAlike is how many problems of a kind are reported individually.
	mostAlike = 3
	// mostKinds is how many kinds of problems of one file are reported. Kinds are sentences of ours, but what a parser says may contain
	// words of the file.
	mostKinds = 50
)

// problem adds a problem of a file, or of none. Those of a file that differ only in the words put
// into the format are alike.
func (r *reader) problem(f *File, at workload.Position, severity Severity, hint, format string, args ...any) {
	p := Problem{at, severity, fmt.Sprintf(format, args...), hint}
	kind := format
	if format == "%v" {
		kind = p.Text
	}
	r.tell(f, kind, p)
}

// tell adds a problem of some kind.
func (r *reader) tell(f *File, kind string, p Problem) {
	if f == nil {
		r.set.Problems = append(r.set.Problems, p)
		return
	}
	p.At = f.made.Place(p.At)
	if f.problems == nil {
		f.problems = problems{}
	}
	kind = string(p.Severity) + p.Hint + kind
	group := f.problems[kind]
	if group == nil && len(f.problems) >= mostKinds {
		r.rest(f, p.Severity, p.At)
		return
	}
	if group == nil {
		group = &alike{}
		f.problems[kind] = group
	}
	switch group.count++; {
	case group.count <= mostAlike:
		group.told = append(group.told, len(r.set.Problems))
		r.set.Problems = append(r.set.Problems, p)
	case len(group.lines) < mostAlike:
		group.lines = append(group.lines, p.At.Line)
	}
}

// rest reports that there are more kinds of problems, as severe as the worst of them.
func (r *reader) rest(f *File, severity Severity, at workload.Position) {
	const kind = "the rest"
	group := f.problems[kind]
	if group == nil {
		f.problems[kind] = &alike{told: []int{len(r.set.Problems)}}
		r.set.Problems = append(r.set.Problems, Problem{at, severity, "too many problems in this file: the rest are left out", ""})
		return
	}
	if p := &r.set.Problems[group.told[0]]; p.Severity == Note || severity == Error {
		p.Severity = severity
	}
}

// fold makes one of more than a few problems of a kind: the first, with how many there are and where the next ones are.
func (r *reader) fold(files ...*File) {
	var gone []int
	for _, f := range files {
		for _, group := range f.problems {
			if group.count <= mostAlike {
				continue
			}
			slices.SortFunc(group.told, func(i, j int) int { return r.set.Problems[i].At.Offset - r.set.Problems[j].At.Offset }) // env is read backwards
			first := &r.set.Problems[group.told[0]]
			lines := []int{}
			for _, i := range group.told[1:] {
				lines = append(lines, r.set.Problems[i].At.Line)
			}
			first.Text += "; and " + quantity.Count(group.count-1) + " more like this" + where(append(lines, group.lines...))
			gone = append(gone, group.told[1:]...)
		}
		f.problems = nil
	}
	if len(gone) == 0 {
		return
	}
	slices.Sort(gone)
	kept := r.set.Problems[:0]
	for i, p := range r.set.Problems {
		if _, isGone := slices.BinarySearch(gone, i); !isGone {
			kept = append(kept, p)
		}
	}
	r.set.Problems = kept
}

// where names the first few lines; "" if none.
func where(lines []int) string {
	var texts []string
	slices.Sort(lines)
	for _, line := range slices.Compact(lines) {
		if line > 0 && len(texts) < mostAlike {
			texts = append(texts, strconv.Itoa(line))
		}
	}
	switch len(texts) {
	case 0:
		return ""
	case 1:
		return ", the next in line " + texts[0]
	}
	return ", the next in lines " + quantity.List(texts)
}
