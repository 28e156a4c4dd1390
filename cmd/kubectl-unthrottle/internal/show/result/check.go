package result

import (
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
)

// checksOf are the checks of manifests or live objects: one for each finding, or a single one that found nothing. What was not read,
// or not whole, is neither right nor wrong, and so is what had no workload in it: a build must not count either as passed.
func checksOf(findings []report.Check, workloads int, nothing string, problems []Problem, below func(file string) (name, root string)) []report.Check {
	checks := findings
	if len(findings) == 0 && workloads > 0 {
		checks = []report.Check{{About: quantity.Plural(workloads, "workload"), Name: "no rule finds anything wrong"}}
	}
	if nothing != "" {
		checks = append(checks, report.Check{About: "what was given", Name: "there is a workload", Unknown: nothing})
	}
	for _, p := range problems {
		if p.Severity != string(manifest.Note) {
			checks = append(checks, p.check(below))
		}
	}
	return checks
}

// check is a problem as a system that runs builds reads it.
func (p Problem) check(below func(file string) (name, root string)) report.Check {
	c := report.Check{About: p.At, Name: "read as a whole", Unknown: p.Text, Place: placeOf(p.position, below)}
	if p.Hint != "" {
		c.Unknown += " (" + p.Hint + ")"
	}
	return c
}
