package rule

import (
	"fmt"
	"math"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// tooFewPs finds a program whose Ps are all busy while its limit allows more CPUs.
func tooFewPs(f *Facts) (finding.Finding, bool) {
	procs := float64(f.Procs)
	if f.Procs == 0 || f.CPU == nil || procs > math.Floor(f.allowed())-1 || f.share() > 0 {
		return finding.Finding{}, false
	}
	if *f.CPU < 0.85*procs || f.Running != nil && *f.Running < 0.9*procs {
		return finding.Finding{}, false
	}
	return finding.Finding{
		Severity: finding.Warning,
		Summary:  fmt.Sprintf("GOMAXPROCS is %d, all in use, and %s are allowed", f.Procs, quantity.UsedCPUs(f.allowed())),
		Evidence: append(f.setByText(), "it used "+quantity.UsedCPUs(*f.CPU)),
		Fix:      f.getRight(),
	}, true
}
