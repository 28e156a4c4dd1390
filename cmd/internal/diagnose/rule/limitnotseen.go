package rule

import (
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
)

// limitNotSeen finds a limit that is in force but unknown to what chose GOMAXPROCS: because of an old Go version or go line, a
// quota on a parent group, or a way of mounting cgroups that its reader does not understand.
func limitNotSeen(f *Facts) (finding.Finding, bool) {
	c := f.Chosen
	if !f.limited() || c == nil || !c.Wrong {
		return finding.Finding{}, false
	}
	found := finding.Finding{
		Severity: finding.Info,
		Summary:  fmt.Sprintf("%s does not see the limit of %s", c.Rule, quantity.UsedCPUs(f.Limits.CPUs)),
		Evidence: []string{fmt.Sprintf("so GOMAXPROCS is %d", f.Procs), "the limit is set by " + f.Limits.From},
		Fix:      c.Fix,
	}
	if c.Rule == choice.Go124 && f.Minor >= 25 { // by its go line, or by GODEBUG
		found.Summary = fmt.Sprintf("Go 1.%d is set to ignore the limit of %s", f.Minor, quantity.UsedCPUs(f.Limits.CPUs))
	}
	if c.Why != "" {
		found.Evidence = append(found.Evidence, c.Why)
	}
	if f.busy() {
		found.Severity = finding.Warning
	}
	if f.Counted.Owner.Throttled > 0 {
		found.Evidence = append(found.Evidence, f.throttledText()...)
	}
	return found, true
}
