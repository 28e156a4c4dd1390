package rule

import (
	"fmt"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/finding"
)

// throttled finds a program that its limit stops. That is a symptom and not yet a loss: a burst that runs at once and
// pays with a short stall may be served sooner than one that queues. How long it stands still tells how much it matters.
func throttled(f *facts) (finding.Finding, bool) {
	u := f.Usage
	hidden := f.System.Limits.State == cgroup.Hidden && u.Local > 0
	if !f.busy() || !hidden && f.share < 0.01 {
		return finding.Finding{}, false
	}
	found := finding.Finding{Severity: finding.Info, Fix: "unthrottle tune measures which GOMAXPROCS serves it best under this limit"}
	switch {
	case f.frozen >= 0.25:
		found.Severity = finding.Critical
	case f.frozen >= 0.05 || f.share >= 0.25:
		found.Severity = finding.Warning
	}
	if hidden {
		found.Severity = finding.Warning
		found.Summary = "a limit that can't be seen from here stops it"
		found.Evidence = []string{fmt.Sprintf("its group stood still for %.2f CPU seconds in %.1f s", u.Local.Seconds(), u.Wall.Seconds())}
		found.Fix = "look for the quota on the host, above the container's cgroup"
		return found, true
	}
	limit := f.System.Limits.CPUs
	found.Summary = "its limit of " + CPUs(limit) + " stops it"
	found.Evidence = []string{f.throttledText(), fmt.Sprintf("it used %s", CPUs(f.cpu))}
	switch wanting, ok := f.wanting(); {
	case f.cpu >= 0.9*limit:
		found.Evidence[1] += ", all that the limit allows"
		found.Fix = "it needs a higher limit or less work; unthrottle tune tells what GOMAXPROCS can do about it"
	case f.cpu < 0.5*limit && ok && wanting < limit:
		found.Evidence[1] += ", far below its limit: it comes in bursts, or others in the same group use the rest"
	}
	return found, true
}
