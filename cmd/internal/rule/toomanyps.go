package rule

import (
	"fmt"
	"math"
	"strconv"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
)

// tooManyPs finds a GOMAXPROCS far above the CPUs that the process may use. A few more are no trouble, and help a program
// whose requests come in bursts: see throttled. Four times as many are another machine's number.
func tooManyPs(f *facts) (finding.Finding, bool) {
	least := math.Ceil(f.allowed)
	if f.allowed == 0 || f.procs < int(4*least) || f.procs-int(least) < 4 {
		return finding.Finding{}, false
	}
	found := finding.Finding{
		Summary:  fmt.Sprintf("GOMAXPROCS is %d under %s", f.procs, f.limitText()),
		Evidence: []string{"set by " + f.setBy()},
		Fix:      f.getRight(),
	}
	if !f.busy() {
		found.Evidence = append(found.Evidence, "it is idle now, so this costs nothing yet")
		return found, true
	}
	found.Severity = finding.Warning
	if wanting, ok := f.wanting(); ok && f.cpu > 0 && wanting >= 1.3*f.cpu {
		ratio := wanting / f.cpu
		found.Evidence = append(found.Evidence, fmt.Sprintf("on average %s had work at a time and got %s: they had to wait %s of the time",
			ps(wanting), CPUs(f.cpu), percent(1-1/ratio)))
		if ratio >= 4 {
			found.Severity = finding.Critical
		}
	}
	if f.Usage.Spinning >= 0.05 {
		found.Evidence = append(found.Evidence, fmt.Sprintf("%.1f threads were looking for work at a time, on average", f.Usage.Spinning))
	}
	if f.Usage.Owner.Throttled > 0 {
		found.Evidence = append(found.Evidence, f.throttledText())
	}
	return found, true
}

// ps writes a number of Ps.
func ps(n float64) string {
	if n >= 10 {
		return fmt.Sprintf("%.0f Ps", n)
	}
	return strconv.FormatFloat(math.Round(n*10)/10, 'f', -1, 64) + " Ps"
}
