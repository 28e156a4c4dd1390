package rule

import (
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/host"
)

// limitNotSeen finds a limit that is in force and that what chose GOMAXPROCS knows nothing of: an old Go version or go
// line, a quota on a parent group, a way of mounting cgroups that a reader does not understand.
func limitNotSeen(f *facts) (finding.Finding, bool) {
	p := f.Prediction
	if !f.limited || p.Rule == "" || f.Source() != p.Source || f.procs != p.Procs {
		return finding.Finding{}, false
	}
	c := f.System.Of(p.Rule)
	if !c.Wrong || p.Source == choice.FromEnvironment || p.Source == host.FromCall {
		return finding.Finding{}, false
	}
	found := finding.Finding{
		Severity: finding.Info,
		Summary:  fmt.Sprintf("GOMAXPROCS is %d, for %s does not see the limit of %s", f.procs, p.Rule, CPUs(f.System.Limits.CPUs)),
		Evidence: []string{"the limit is set by " + f.System.Limits.From},
		Fix:      c.Fix,
	}
	if c.Why != "" {
		found.Evidence = append(found.Evidence, c.Why)
	} else if p.Why != "" {
		found.Evidence = append(found.Evidence, p.Why)
	}
	if f.busy() {
		found.Severity = finding.Warning
	}
	if f.Usage.Owner.Throttled > 0 {
		found.Evidence = append(found.Evidence, f.throttledText())
	}
	return found, true
}
