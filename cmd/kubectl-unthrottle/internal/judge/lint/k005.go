package lint

import (
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// aboveLimit finds a number far above the limit. One or two more than the limit often help: a burst runs at once. Twice the limit
// is reported, and four times is another machine's number, as for rule too-many-ps.
func aboveLimit(f *facts) []Finding {
	s := f.procs
	if f.isGo == other || !s.Valid() || s.Target != nil || f.limit.State != workload.Known || !far(s.Procs, f.limit) {
		return nil
	}
	n := f.about(finding.Info, f.takeOut(f.fitting()), "GOMAXPROCS is %s under %s", quantity.Count(s.Procs), f.limit)
	if forecast.TooMany(s.Procs, f.limit) {
		n.Severity = finding.Warning
	}
	n = n.saying("%s; %s threads at a time use up the quota of 100 ms in %s ms", f.source(), quantity.Count(s.Procs),
		quantity.Hundredths(100*f.limit.CPUs/float64(s.Procs)))
	return one(n.saying("a quarter of all Ps mark during a garbage collection, and idle ones join in"))
}

// far reports whether a GOMAXPROCS is at least twice the limit, and two above it.
func far(procs int, l forecast.Limit) bool {
	least := l.Procs()
	return procs >= 2*least && procs-least >= 2
}
