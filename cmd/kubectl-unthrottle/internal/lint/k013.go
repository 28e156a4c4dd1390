package lint

import (
	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/workload"
)

// notRead finds a program, known from its file, that does not read the limit of its container, and nothing tells it.
func notRead(f *facts) []Finding {
	unset := f.procs.State == workload.Absent || f.procs.State == workload.Known && (f.procs.Value == "" || f.procs.Value == "0") && f.procs.Target == nil
	if !f.b.Go() || f.limit.State != workload.Known || !unset || f.off() != "" {
		return nil
	}
	var wrong []forecast.Line
	severity := finding.Info
	for _, line := range forecast.Of(f.w, f.c, f.b, f.nodes).Lines {
		if line.Wrong {
			wrong = append(wrong, line)
			if line.Node == 0 || forecast.TooMany(line.Procs, f.limit) {
				severity = finding.Warning
			}
		}
	}
	if wrong == nil {
		return nil
	}
	n := f.about(severity, wrong[0].Fix, "the program does not read its limit: GOMAXPROCS is the node's CPUs under %s", f.limit)
	n = n.saying("%s is %s", f.b.From, f.b).saying("%s", wrong[0].Why)
	for _, line := range wrong {
		if line.Node > 0 {
			n = n.saying("%s on a node of %s, where %s would be right", quantity.Count(line.Procs), quantity.CPUs(float64(line.Node)),
				quantity.Count(line.Right))
		}
	}
	return one(n)
}
