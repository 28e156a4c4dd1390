package lint

import (
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// nodeCPUs finds a GOMAXPROCS from a limit that is not there.
func nodeCPUs(f *facts) []Finding {
	s := f.procs
	if f.isGo == other || !s.Node || s.Divide != 1 || f.w.Around.Quota { // a quota on limits refuses such a pod
		return nil
	}
	text := "take GOMAXPROCS out, or set a CPU limit"
	if is(f.c.Request) {
		text = "take GOMAXPROCS out, set a CPU limit, or use requests.cpu"
	}
	out := f.unlimited(text, "there is no limit, and Go takes the node's CPUs without it")
	if f.c.Image == "" {
		out = leave(text, "the container has no image: what completes it may bring a limit")
	}
	n := f.about(finding.Warning, out, "GOMAXPROCS comes from a CPU limit that does not exist: it is the node's CPUs").
		saying("%s, and neither container %s nor the pod has a CPU limit: the kubelet puts what the node has for pods", s.From, s.Target.Name)
	if is(f.c.Request) {
		n = n.saying("it requests %s", quantity.CPUs(f.c.Request.Value))
	}
	for _, node := range f.nodes {
		n = n.saying("up to %s on a node of %s", quantity.Count(node), quantity.CPUs(float64(node)))
	}
	return one(n.saying("it does nothing that Go would not do without it"))
}

// unlimited is the fix for a reference to a limit that is not there: without it the program takes the node's CPUs all the same. If it
// is another container's that is missing, the container's own counts.
func (f *facts) unlimited(text, why string) fix {
	switch f.limit.State {
	case workload.Absent:
		return remove(text, why)
	case workload.Known:
		return f.takeOut(f.fitting())
	}
	return leave(text, "the container's own limit is not known: "+f.limit.Unknown)
}
