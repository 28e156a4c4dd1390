package lint

import (
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// notRead finds a program, known from its file, that does not read the limit of its container, and nothing tells it.
func notRead(f *facts) []Finding {
	unset := f.procs.State == workload.Absent || f.procs.State == workload.Known && (f.procs.Value == "" || f.procs.Value == "0") && f.procs.Target == nil
	if !f.b.Go() || f.limit.State != workload.Known || !unset || f.off() != "" {
		return nil
	}
	var wrong []forecast.Line
	severity := finding.Info
	for _, line := range f.pod.Of(f.c, f.b, f.nodes).Lines {
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
	n := f.about(severity, f.told(wrong[0].Fix), "the program does not read its limit: GOMAXPROCS is the node's CPUs under %s", f.limit)
	n = n.saying("%s is %s", f.b.From, f.b).saying("%s", wrong[0].Why)
	for _, line := range wrong {
		if line.Node > 0 {
			n = n.saying("%s on a node of %s, where %s would be right", quantity.Count(line.Procs), quantity.CPUs(float64(line.Node)),
				quantity.Count(line.Right))
		}
	}
	return one(n)
}

// told is the fix that a manifest can bring. A build with a newer Go is the better one, as it follows changes.
func (f *facts) told(text string) fix {
	c := f.fitting()
	c.text = text
	c.remedies[0].Why = "the program, " + f.b.String() + ", does not read its limit; " + c.remedies[0].Why
	c.remedies = append(c.remedies, remedy.Remedy{Action: remedy.Rebuild, Why: "built with Go 1.26 and a go line of 1.25 or later it follows its limit without GOMAXPROCS"})
	return c
}
