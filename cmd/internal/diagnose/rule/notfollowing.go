package rule

import (
	"fmt"
	"math"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
)

// notFollowing finds a GOMAXPROCS that a call or an import has fixed while the limit can change. If the number suits the
// limit, that does not matter yet.
func notFollowing(f *Facts) (finding.Finding, bool) {
	if !f.limited() || f.Procs == 0 || f.Source != host.FromCall && f.Source != choice.FromAutomaxprocs {
		return finding.Finding{}, false
	}
	if f.OutOfSight && Suits(f.Procs, f.Limits) { // nothing else could follow the limit
		return finding.Finding{}, false
	}
	limit := f.Limits.CPUs
	found := finding.Finding{
		Severity: finding.Info,
		Summary:  fmt.Sprintf("GOMAXPROCS stays %d: %s has fixed it", f.Procs, f.setBy()),
		Evidence: []string{fmt.Sprintf("its limit is %s now, and a limit can be changed while it runs", quantity.UsedCPUs(limit))},
		Fix:      "take it out, or call unthrottle.Watch, which follows the limit",
	}
	switch {
	case f.OutOfSight:
		found.Fix = f.getRight()
	case f.Source == choice.FromAutomaxprocs:
		found.Fix = "call unthrottle.Watch instead of automaxprocs: it follows the limit"
	}
	if f.Minor >= 25 {
		found.Evidence = append(found.Evidence, "any call of runtime.GOMAXPROCS ends the runtime's own updates")
	}
	if least := math.Max(1, math.Floor(limit)); float64(f.Procs) < least || float64(f.Procs) > math.Max(2, math.Ceil(limit)) {
		found.Severity = finding.Warning
		found.Evidence = append(found.Evidence, fmt.Sprintf("%d does not suit the limit: Go's own rule says %d", f.Procs, f.right()))
	}
	return found, true
}
