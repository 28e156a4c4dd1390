package lint

import (
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/internal/size"
)

// noHeadroom finds a GOMEMLIMIT that leaves nothing of the memory limit, or is above it.
func noHeadroom(f *facts) []Finding {
	v, ok := f.c.Var("GOMEMLIMIT")
	if !f.bounded() || !ok {
		return nil
	}
	n := Finding{Variable: "GOMEMLIMIT", At: v.At}
	n.Severity = finding.Warning
	n.fixed(f.withHeadroom())
	const counted = choice.CountedBesides + ": it kills the program first"
	if v.Form == workload.ResourceRef {
		own := v.Container == "" || v.Container == f.c.Name
		if v.Resource != "limits.memory" || !own || forecast.MemoryDivisor(v.Divisor) != 1 {
			return nil
		}
		n.Summary = "GOMEMLIMIT is all of the memory limit of " + f.c.Memory.Text
		return one(n.saying(counted).saying("no divisor makes a share of limits.memory: it has to be a number"))
	}
	text, known := f.value("GOMEMLIMIT")
	bytes, limit := size.Parse(text), int64(f.c.Memory.Value)
	if !known || !choice.NoHeadroom(bytes, limit) {
		return nil
	}
	n.Summary = "GOMEMLIMIT is " + text + " under a memory limit of " + f.c.Memory.Text
	if bytes > limit {
		return one(n.saying("it is above the limit, and so does nothing"))
	}
	return one(n.saying(counted))
}
