package lint

import (
	"math"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/workload"
)

// divisor finds a GOMAXPROCS that counts thousandths of a CPU, and a GOMEMLIMIT that counts MiB as bytes.
func divisor(f *facts) (found []Finding) {
	if f.isGo == other {
		return nil
	}
	const fix = `set the divisor to "1"`
	s := f.procs
	if v := s.Var; v != nil && v.Form == workload.ResourceRef && f.limit.State != workload.Unknown {
		if divide, ok := forecast.Divisor(v); ok && divide != 1 && divide != 0.001 {
			n := f.about(finding.Warning, fix, "GOMAXPROCS has a divisor of %s, which the API server refuses", v.Divisor)
			found = append(found, n.saying("for CPUs it takes 1 and 1m only"))
		}
	}
	if s.State == workload.Known && s.Target != nil && s.Divide < 1 {
		if s.Node {
			n := f.about(finding.Critical, `take GOMAXPROCS out, or set a CPU limit and a divisor of "1"`, "GOMAXPROCS is a thousand times the node's CPUs")
			found = append(found, n.saying("%s with divisor %s, and there is no limit: a node with 4 CPUs for pods makes it 4,000",
				s.From, s.Var.Divisor))
		} else if one := math.Ceil(s.Resource.Value); float64(s.Procs) > one {
			n := f.about(finding.Critical, f.takeOut(fix), "GOMAXPROCS is %s for %s", quantity.Count(s.Procs), quantity.CPUs(s.Resource.Value))
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
			n.Severity, n.Fix = finding.Critical, fix
			n.Summary = "GOMEMLIMIT is " + bytes + " bytes for a memory limit of " + memory.Text
			found = append(found, n.saying("limits.memory with divisor %s is %s, and Go takes a number without a unit for bytes", v.Divisor, bytes).
				saying("the garbage collector runs without a pause to reach it"))
		}
	}
	return found
}
