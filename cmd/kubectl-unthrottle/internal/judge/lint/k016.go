package lint

import (
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// noMemoryLimit finds Go programs under a memory limit that they don't know about. It is reported once per pod: many do well without.
func noMemoryLimit(pod []*facts) []Finding {
	found, names := once(pod, func(f *facts) (evidence string, ok bool) {
		_, grows := f.grows()
		mayKnow := f.b.Go() && f.b.Program.Unthrottle >= procs.Linked
		return f.c.Name + " has a memory limit of " + f.c.Memory.Text, f.isGo == goes && f.bounded() && !grows && !mayKnow && f.noGOMEMLIMIT()
	})
	if names == "" {
		return nil
	}
	found.Severity = finding.Info
	found.Summary = "no GOMEMLIMIT in " + names + ", under a memory limit"
	found.fixed(leave("set GOMEMLIMIT to 90 % of the limit if the heap may come near to half of it; else leave it",
		"how much a program keeps in its heap is not in the manifest"))
	return one(found.saying("Go reads no memory limit itself: the heap may grow to twice of what is alive; some programs set it in their code"))
}
