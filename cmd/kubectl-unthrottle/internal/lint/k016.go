package lint

import (
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/workload"
)

// noMemoryLimit finds Go programs under a memory limit that they are not told of. It is told once for a pod: many do well without.
func noMemoryLimit(pod []*facts) []Finding {
	var found Finding
	var names []string
	for _, f := range pod {
		_, grows := f.grows()
		if f.c.Role == workload.Init || f.isGo != goes || !f.bounded() || grows || !f.noGOMEMLIMIT() ||
			f.b.Go() && f.b.Program.Unthrottle >= procs.Linked { // which may set it
			continue
		}
		if names == nil {
			found.At = f.c.At
		}
		names = append(names, f.c.Name)
		found = found.saying("container %s has a memory limit of %s", f.c.Name, f.c.Memory.Text)
	}
	if names == nil {
		return nil
	}
	found.Severity = finding.Info
	found.Summary = "no GOMEMLIMIT in " + strings.Join(names, ", ") + ", under a memory limit"
	found.cured(leave("set GOMEMLIMIT to 90 % of the limit if the heap may come near to half of it; else leave it",
		"how much a program keeps in its heap is not in the manifest"))
	return one(found.saying("Go reads no memory limit itself: the heap may grow to twice of what is alive; some programs set it in their code"))
}
