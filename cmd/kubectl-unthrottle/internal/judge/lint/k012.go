package lint

import (
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// exclusive finds a fixed GOMAXPROCS in a pod that gets CPUs of its own from a kubelet with the static CPU manager: there the
// affinity mask says it all, and every version of Go reads it.
func exclusive(f *facts) []Finding {
	s := f.procs
	if f.isGo == other || f.c.Role == workload.Init || !s.Valid() || s.Node || !f.guaranteed || f.asFixed() || float64(s.Procs) != f.c.Limit.Value {
		return nil
	}
	return one(f.about(finding.Info, f.spare(),
		"GOMAXPROCS says what a static CPU manager says already").
		saying("every container is Guaranteed with whole CPUs; this one has %s", quantity.CPUs(f.c.Limit.Value)).
		saying("where cpuManagerPolicy is static it gets them for itself, and every version of Go counts the CPUs that it may run on"))
}

// guaranteed reports whether every container has limits equal to its requests, and whole CPUs.
func guaranteed(w *workload.Workload) bool {
	for _, c := range w.Pod.Containers {
		for _, pair := range [][2]workload.Amount{{c.Limit, c.Request}, {c.Memory, c.MemoryRequest}} {
			if !is(pair[0]) || !is(pair[1]) || pair[0].Value != pair[1].Value {
				return false
			}
		}
		if !whole(c.Limit.Value) {
			return false
		}
	}
	return len(w.Pod.Containers) > 0
}

// spare is the fix: what the nodes are is not in the manifest.
func (f *facts) spare() fix {
	if does, _ := f.itself(); does {
		return f.takeOut(fix{})
	}
	c := remove("take GOMAXPROCS out if the nodes run the static CPU manager", "every Go counts the CPUs that it may run on")
	c.remedies[0].Only = "nodes that run the static CPU manager"
	return c
}
