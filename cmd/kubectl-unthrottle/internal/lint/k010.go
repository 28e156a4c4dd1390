package lint

import (
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/workload"
)

// noLimit finds Go programs with a request and no limit: every Go takes the node's CPUs. It is told where something says that it is
// a Go program, once for a pod: many have good reasons for it.
func noLimit(pod []*facts) []Finding {
	var found Finding
	var names []string
	for _, f := range pod {
		if f.c.Role == workload.Init || f.isGo != goes || f.limit.State != workload.Absent || !is(f.c.Request) ||
			f.procs.State == workload.Unknown || f.procs.Valid() || f.w.Around.Quota || !f.outgrows() {
			continue
		}
		if names == nil {
			found.At = f.c.At
		}
		names = append(names, f.c.Name)
		found = found.saying("container %s requests %s and has no limit", f.c.Name, quantity.CPUs(f.c.Request.Value))
	}
	if names == nil {
		return nil
	}
	found.Severity = finding.Info
	found.Summary = "GOMAXPROCS will be the node's CPUs in " + strings.Join(names, ", ") + ": there is no CPU limit"
	found.cured(leave("set GOMAXPROCS to a small multiple of the request if it does much less than the node could; else leave it",
		"how much of the node it is to use is not in the manifest"))
	return one(found.saying("no version of Go looks at the request; CRI-O may be told to set GOMAXPROCS to twice the request"))
}

// outgrows reports whether the nodes are not known, or one is far larger than the request.
func (f *facts) outgrows() bool {
	for _, node := range f.nodes {
		if forecast.TooMany(node, forecast.Limit{State: workload.Known, CPUs: f.c.Request.Value}) {
			return true
		}
	}
	return len(f.nodes) == 0
}
