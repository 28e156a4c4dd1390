package lint

import (
	"fmt"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// shared finds a pod-level limit that each of several containers takes for its own.
func shared(pod []*facts) []Finding {
	var names []string
	var limit forecast.Limit
	sum, sure := 0, 0
	for _, f := range pod {
		if f.c.Role == workload.Init || f.isGo == other || f.limit.Of != forecast.OfPod || f.limit.State != workload.Known ||
			f.procs.State == workload.Unknown {
			continue
		}
		limit = f.limit
		n := f.right()
		if f.procs.Valid() {
			n = f.procs.Procs
		}
		sum += n
		names = append(names, fmt.Sprintf("%s %d", f.c.Name, n))
		if f.isGo == goes {
			sure++
		}
	}
	least := limit.Procs()
	if len(names) < 2 || sum < 2*least || sum-least < 2 {
		return nil
	}
	f := Finding{At: limit.At}
	f.Severity = finding.Info
	f.fixed(leave("give each container a CPU limit of its own, or a GOMAXPROCS that is its share",
		"how the limit is to be shared is not in the manifest"))
	f.Summary = fmt.Sprintf("%d containers share %s, and each sizes itself for all of it", len(names), limit)
	if sure < 2 {
		f.Summary += ", if they are Go programs"
	} else if forecast.TooMany(sum, limit) {
		f.Severity = finding.Warning
	}
	f = f.saying("a container without a limit gets the pod's quota in its own cgroup: GOMAXPROCS is %s, together %s for %s",
		strings.Join(names, ", "), quantity.Count(sum), quantity.CPUs(limit.CPUs))
	return one(f.saying("what they are throttled is counted on the pod's cgroup: the containers' own counters show nothing"))
}
