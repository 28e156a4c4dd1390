package lint

import (
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// belowLimit finds a number that leaves a CPU of the limit unused, or the whole program on one P.
func belowLimit(f *facts) []Finding {
	s := f.procs
	if f.isGo == other || f.c.Role == workload.Init || !s.Valid() || s.Node || s.Target != nil && s.Var.Resource == "limits.cpu" ||
		f.limit.State != workload.Known || !forecast.TooFew(s.Procs, f.limit) {
		return nil
	}
	n := f.about(finding.Info, f.takeOut(f.fitting()),
		"GOMAXPROCS is %s under %s: Go code can't use the rest", quantity.Count(s.Procs), f.limit)
	n = n.saying("%s, which leaves %s of the limit out of its reach", f.source(), quantity.CPUs(f.limit.CPUs-float64(s.Procs)))
	if s.Procs == 1 {
		n.Severity = finding.Warning
		n = n.saying("on one P nothing runs beside the garbage collector's marking")
	}
	if v := f.w.Around.VPA; v != nil && !v.Off[f.c.Name] {
		n.Severity = finding.Warning
		n = n.saying("VerticalPodAutoscaler %s goes by the CPU that it uses, which can't come near the limit", v.Name)
	}
	return one(n)
}
