package lint

import (
	"math"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// divisor finds a GOMAXPROCS that counts thousandths of a CPU, and a GOMEMLIMIT that counts MiB as bytes.
func divisor(f *facts) (found []Finding) {
	if f.isGo == other {
		return nil
	}
	const set = `set the divisor to "1"`
	by := repair("GOMAXPROCS", set, "the divisor is the unit that is counted in")
	s := f.procs
	if v := s.Var; v != nil && v.Form == workload.ResourceRef && f.limit.State != workload.Unknown {
		if divide, ok := forecast.Divisor(v); ok && divide != 1 && divide != 0.001 {
			n := f.about(finding.Warning, leave(set, "no API server takes such a divisor, and what it was meant to count is not known"), "GOMAXPROCS has a divisor of %s, which the API server refuses", v.Divisor)
			found = append(found, n.saying("for CPUs it takes 1 and 1m only"))
		}
	}
	if s.State == workload.Known && s.Target != nil && s.Divide < 1 {
		if s.Node {
			out := f.unlimited(`take GOMAXPROCS out, or set a CPU limit and a divisor of "1"`, "without it the program takes the node's CPUs, not a thousand times as many")
			n := f.about(finding.Critical, out, "GOMAXPROCS is a thousand times the node's CPUs")
			found = append(found, n.saying("%s with divisor %s, and there is no limit: a node with 4 CPUs for pods makes it 4,000",
				s.From, s.Var.Divisor))
		} else if one := math.Ceil(s.Resource.Value); float64(s.Procs) > one {
			n := f.about(finding.Critical, f.counted(by, int(one)), "GOMAXPROCS is %s for %s", quantity.Count(s.Procs), quantity.CPUs(s.Resource.Value))
			found = append(found, n.saying("%s with divisor %s counts thousandths of a CPU: %s / %s = %s",
				s.From, s.Var.Divisor, quantity.Number(s.Resource.Value), quantity.Number(s.Divide), quantity.Count(s.Procs)).
				saying("with a divisor of 1 it would be %s", quantity.Count(int(one))))
		}
	}
	if v, ok := f.c.Var("GOMEMLIMIT"); ok && v.Form == workload.ResourceRef && v.Resource == "limits.memory" {
		memory := f.c.Memory
		if unit := forecast.MemoryDivisor(v.Divisor); unit >= 1000 && is(memory) && (v.Container == "" || v.Container == f.c.Name) {
			bytes := quantity.Count(int64(math.Ceil(memory.Value / unit)))
			n := Finding{Variable: "GOMEMLIMIT", At: v.At}
			n.Severity = finding.Critical
			fits := f.withHeadroom()
			if !fits.changes() {
				fits = repair("GOMEMLIMIT", set, "Go takes a number without a unit for bytes")
			}
			n.fixed(fits)
			n.Summary = "GOMEMLIMIT is " + bytes + " bytes for a memory limit of " + memory.Text
			found = append(found, n.saying("limits.memory with divisor %s is %s, and Go takes a number without a unit for bytes", v.Divisor, bytes).
				saying("the garbage collector runs without a pause to reach it"))
		}
	}
	return found
}

// counted is the fix where a divisor of 1 makes GOMAXPROCS that many. For a request, or another container's limit, that may not
// fit; and without a limit there is nothing that a program could read itself.
func (f *facts) counted(by fix, one int) fix {
	switch {
	case f.limit.State != workload.Known:
		return by
	case far(one, f.limit) || forecast.TooFew(one, f.limit):
		return f.takeOut(f.fitting())
	}
	return f.takeOut(by)
}
