package lint

import (
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// drift finds a reference without a divisor: the API server writes "0" there, and what compares a manifest with the cluster sees a
// difference forever.
func drift(f *facts) (found []Finding) {
	for _, name := range []string{"GOMAXPROCS", "GOMEMLIMIT"} {
		v, ok := f.c.Var(name)
		if !ok || v.Form != workload.ResourceRef || v.Resource == "" || v.Divisor != "" || v.At.File == "" {
			continue
		}
		if amount := f.amount(v.Resource); amount.State == workload.Unknown {
			continue
		}
		n := Finding{Variable: name, At: v.At}
		n.Severity = finding.Info
		by := repair(name, `add divisor: "1"`, "that is what the missing one means")
		if does, _ := f.itself(); does && name == "GOMAXPROCS" && f.procs.Valid() && f.limit.State == workload.Known {
			by = f.takeOut(by)
		}
		n.fixed(by)
		n.Summary = name + " comes from " + v.Resource + " without a divisor, which GitOps tools may show as a difference for ever"
		found = append(found, n.saying(`the API server stores divisor: "0", which means 1; the value is the same`))
	}
	return found
}

// amount is what a reference within the container uses.
func (f *facts) amount(resource string) workload.Amount {
	switch resource {
	case "limits.cpu":
		return workload.Amount{State: f.limit.State}
	case "requests.cpu":
		return f.c.Request
	case "limits.memory":
		return f.c.Memory
	case "requests.memory":
		return f.c.MemoryRequest
	}
	return workload.Amount{State: workload.Unknown}
}
