package audit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/fix"
)

// A Fix is what to do about a workload.
type Fix struct {
	Text    string `json:"text"`
	Patch   string `json:"patch,omitempty"`   // a strategic merge patch, or a list of operations, as YAML
	Command string `json:"command,omitempty"` // kubectl patch …, on one line
	Without string `json:"without,omitempty"` // why no patch is possible
}

// Advice is what to do about a workload, in a sentence: where it is made from Git, the change belongs there.
func (w *Workload) Advice() string {
	text := w.Fix.Text
	if w.Fix.Without != "" {
		text += " (" + w.Fix.Without + ")"
	}
	if w.Git != nil && w.Fix.Patch != "" {
		text += "; " + w.Git.Advice()
	}
	return text
}

// ofProcs are the rules about what ran that a change of GOMAXPROCS in the objects may remedy.
var ofProcs = append(slices.Clone(rule.OfNumber), "not-following")

// fix says what to do about the worst finding, and if the rules of the objects know a change that is right for what runs there,
// the patch that makes it. What is only worth knowing changes nothing, unless it is the cause of what was seen.
func (r *row) fix(w *Workload, found []specFinding) *Fix {
	if !w.Verdict.Wrong() {
		return nil
	}
	caused := map[string]bool{} // containers in which a number was seen to be wrong
	for _, f := range w.Findings {
		if f.Source != FromSpec && f.matters() && slices.Contains(ofProcs, f.Rule) {
			caused[f.Container] = true
		}
	}
	first := w.Findings[0]
	out := &Fix{Text: first.Fix}
	var of *workload.Workload
	var wanted []fix.Wanted
	var texts []string
	told := map[[2]string]bool{}
	for _, f := range found {
		if f.Severity < finding.Warning && !caused[f.Container] {
			continue
		}
		i := slices.IndexFunc(f.Remedies, remedy.Remedy.Changes)
		if i < 0 {
			out.Without = cmp.Or(out.Without, left(f.Remedies))
			continue
		}
		about := [2]string{f.Container, f.Remedies[i].Variable}
		if told[about] || of != nil && of != f.w {
			continue // one patch is for one object
		}
		c := containerOf(f.w, f.Container)
		if c == nil {
			continue
		}
		told[about], of = true, f.w
		wanted = append(wanted, fix.Wanted{Container: c, Remedy: f.Remedies[i]})
		text := f.Remedies[i].String() + " in container " + c.Name
		if slices.ContainsFunc(f.Remedies, func(r remedy.Remedy) bool { return r.Action == remedy.Rebuild }) {
			text += ", or better build it with Go 1.26 and a go line to match"
		}
		texts = append(texts, text)
	}
	if len(wanted) == 0 {
		return out
	}
	if first.Source != FromSpec && !told[[2]string{first.Container, variableOf(first.Rule, caused[first.Container])}] {
		texts = append([]string{first.Fix}, texts...)
	}
	out.Text = strings.Join(texts, "; ")
	patch, err := fix.Live(of, wanted...)
	if err != nil {
		out.Without = err.Error()
		return out
	}
	out.Patch, out.Command, out.Without = patch.YAML, patch.Line(), ""
	if of.Owner != "" {
		out.Without = of.Owner + " made it, and may take the change back: change it there"
	}
	return out
}

// variableOf is the variable by which a finding of what ran is helped; "": by none. Throttling is, where the number is wrong.
func variableOf(name string, wrong bool) string {
	switch {
	case name == "no-gomemlimit" || name == "gomemlimit-too-high":
		return "GOMEMLIMIT"
	case slices.Contains(ofProcs, name) || name == "throttled" && wrong:
		return "GOMAXPROCS"
	}
	return ""
}

// left is why nothing is changed.
func left(remedies []remedy.Remedy) string {
	for _, r := range remedies {
		if r.Action == remedy.Leave {
			return r.Why
		}
	}
	return ""
}

func containerOf(w *workload.Workload, name string) *workload.Container {
	for i := range w.Pod.Containers {
		if w.Pod.Containers[i].Name == name {
			return &w.Pod.Containers[i]
		}
	}
	return nil
}
