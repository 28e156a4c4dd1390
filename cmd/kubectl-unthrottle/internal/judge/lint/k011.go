package lint

import (
	"regexp"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// elsewhere finds a GOMAXPROCS that is decided away from the container: by its shell, from another container's limit, or in a
// ConfigMap.
func elsewhere(f *facts) []Finding {
	if f.isGo == other {
		return nil
	}
	if found := f.shell(); found != nil {
		return found
	}
	s := f.procs
	if s.Var == nil {
		return nil
	}
	if f.limit.State == workload.Unknown {
		return nil
	}
	if s.Target == nil && s.Var.Form == workload.ResourceRef && s.Var.Container != "" && s.Var.Container != f.c.Name {
		return one(f.about(finding.Warning, leave("name the container itself, or leave containerName out", "something may add that container"),
			"GOMAXPROCS refers to container %q, which is not in the pod", s.Var.Container).
			saying("unless something adds that container, this one does not start: CreateContainerConfigError"))
	}
	if f.limit.State != workload.Known || !s.Valid() || s.Node {
		return nil
	}
	switch {
	case s.Target != nil && s.Target != f.c:
		own := f.limit.Procs()
		if s.Divide != 1 || s.Procs == own || s.Procs == f.right() {
			return nil
		}
		n := f.about(finding.Info, f.takeOut(f.own()),
			"GOMAXPROCS is %d from container %s, and this one has %s", s.Procs, s.Target.Name, f.limit)
		if forecast.TooMany(s.Procs, f.limit) || forecast.TooFew(s.Procs, f.limit) {
			n.Severity = finding.Warning
		}
		return one(n.saying("%s", f.source()))
	case s.Var.Form == workload.ConfigMap || s.Var.Form == workload.Secret || s.Var.Form == workload.FromWhole:
		return one(f.about(finding.Info, f.takeOut(f.own()),
			"GOMAXPROCS is %d from %s, apart from the limit that it must fit", s.Procs, s.Var.Text).
			saying("it stays when the CPU limit of %s changes", f.c.Name))
	}
	return nil
}

// own is GOMAXPROCS from the container's own limit.
func (f *facts) own() fix {
	c := f.fitting()
	if c.remedies[0].Resource != "" && f.procs.Target != nil && f.procs.Target != f.c {
		c.text = "leave containerName out"
	}
	return c
}

// unscripted is the fix where a command sets GOMAXPROCS: a person may take it out of there.
func (f *facts) unscripted() fix {
	return leave(f.takeOut(fix{text: "take it from limits.cpu"}).text, "the command sets it, and a command is not taken apart here")
}

var (
	assignment = regexp.MustCompile(`(^|[\s;&|"'(])GOMAXPROCS=`)
	countsCPUs = regexp.MustCompile("(^|[\\s;&|\"'(])GOMAXPROCS=[\"']?(\\$\\(nproc( --all)?\\)|`nproc( --all)?`|\\$\\(getconf _NPROCESSORS_ONLN\\))")
)

// shell finds a GOMAXPROCS that the container's command sets.
func (f *facts) shell() []Finding {
	for _, list := range [][]string{f.c.Command, f.c.Args} {
		for _, text := range list {
			n := f.about(finding.Warning, f.unscripted(), "GOMAXPROCS is the node's CPUs: the command sets it from nproc")
			n.At = f.c.At
			switch {
			case countsCPUs.MatchString(text) && f.limit.State == workload.Known:
				return one(n.saying("nproc knows no CPU limit; the container has %s", f.limit))
			case assignment.MatchString(text) && f.limit.State == workload.Known && !countsCPUs.MatchString(text):
				n.Severity, n.Summary = finding.Info, "the command sets GOMAXPROCS, apart from the limit that it must fit"
				return one(n.saying("the container has %s", f.limit))
			}
		}
	}
	return nil
}
