package rule

import (
	"fmt"
	"math"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
)

// Stale says that the limit changed while the program ran, and its GOMAXPROCS did not. Only an observer that looks repeatedly knows.
type Stale struct {
	Since     time.Time // when the new limit was first seen
	Then, Now float64   // CPUs; 0: no limit
	Why       string    // how that is known
	Written   bool      // its GOMAXPROCS is a number in the pod's spec, so that a restart changes nothing
}

// stale finds a GOMAXPROCS that was right for a limit that is no longer in force.
func stale(f *Facts) (finding.Finding, bool) {
	s := f.Stale
	if s == nil || f.Procs == 0 || Suits(f.Procs, f.Limits) {
		return finding.Finding{}, false
	}
	found := finding.Finding{
		Severity: finding.Warning,
		Summary:  fmt.Sprintf("GOMAXPROCS is still %d, though its limit has changed", f.Procs),
		Evidence: []string{s.Why},
		Fix:      "restart the program, or take out what has fixed GOMAXPROCS: then it follows the limit",
	}
	found.Evidence = append(found.Evidence, f.setByText()...)
	found.Evidence = append(found.Evidence, fmt.Sprintf("for %s Go's own rule says %d", limitWords(s.Now), f.right()))
	switch {
	case s.Written: // a restart changes nothing
		found.Fix = f.Alone.Fix(f.right())
	case f.Source == choice.FromEnvironment:
		found.Fix = "restart the container; or " + f.Alone.Fix(f.right())
	case f.OutOfSight:
		found.Fix = f.getRight()
	}
	return found, true
}

func limitWords(cpus float64) string {
	if cpus == 0 {
		return "no limit"
	}
	return "a limit of " + quantity.UsedCPUs(cpus)
}

// Suits reports whether a GOMAXPROCS is one that may have been chosen for these limits: by Go's own rule, or rounded down or up. What is
// not known suits.
func Suits(procs int, l cgroup.Limits) bool {
	switch {
	case procs == unthrottle.Decide(l, unthrottle.Policy{}).Procs:
		return true
	case l.State == cgroup.Limited:
	case l.State == cgroup.None && l.Affinity > 0:
		return procs == l.Affinity
	default:
		return true
	}
	cpus := l.CPUs
	if l.Affinity > 0 {
		cpus = min(cpus, float64(l.Affinity))
	}
	n := float64(procs)
	return n >= math.Max(1, math.Floor(cpus)) && n <= math.Max(2, math.Ceil(cpus))
}
