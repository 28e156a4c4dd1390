package rule

import (
	"fmt"
	"math"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
)

// tooFewPs finds a program whose Ps are all busy while its limit allows more CPUs.
func tooFewPs(f *facts) (finding.Finding, bool) {
	u := f.Usage
	if f.procs == 0 || float64(f.procs) > math.Floor(f.allowed)-1 || f.share > 0 {
		return finding.Finding{}, false
	}
	if f.cpu < 0.85*float64(f.procs) || u.Samples > 0 && u.Running < 0.9*float64(f.procs) {
		return finding.Finding{}, false
	}
	return finding.Finding{
		Severity: finding.Warning,
		Summary:  fmt.Sprintf("GOMAXPROCS is %d and all of it is used, while %s would be allowed", f.procs, CPUs(f.allowed)),
		Evidence: []string{"set by " + f.setBy(), fmt.Sprintf("it used %s", CPUs(f.cpu))},
		Fix:      f.getRight(),
	}, true
}
