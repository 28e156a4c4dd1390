package lint

import (
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// noLimit finds Go programs with a request and no limit: every Go takes the node's CPUs. It is reported where something says that
// it is a Go program, once per pod: many have good reasons for it.
func noLimit(pod []*facts) []Finding {
	found, names := once(pod, func(f *facts) (evidence string, ok bool) {
		return f.c.Name + " requests " + quantity.CPUs(f.c.Request.Value) + " and has no limit",
			f.isGo == goes && f.limit.State == workload.Absent && is(f.c.Request) &&
				f.procs.State != workload.Unknown && !f.procs.Valid() && !f.w.Around.Quota && f.outgrows()
	})
	if names == "" {
		return nil
	}
	found.Severity = finding.Info
	found.Summary = "GOMAXPROCS will be the node's CPUs in " + names + ": there is no CPU limit"
	found.fixed(leave("set GOMAXPROCS to a small multiple of the request if it does much less than the node could; else leave it",
		"how much of the node it is to use is not in the manifest"))
	return one(found.saying("no version of Go looks at the request; CRI-O can be configured to set GOMAXPROCS to twice the request"))
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
