package lint

import (
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// advised finds a limit that a tool recommends and that would make GOMAXPROCS another one, or a wrong one. It names no variable: what
// another rule says about GOMAXPROCS is about the limit that is there.
func advised(f *facts) (found []Finding) {
	if f.isGo == other || f.c.Role == workload.Init || f.limit.State == workload.Unknown || f.procs.State == workload.Unknown {
		return nil
	}
	told := map[string]bool{}
	for _, a := range f.c.Advice {
		n, ok := f.under(a)
		if ok && !told[n.Summary] {
			told[n.Summary] = true
			n.Variable = ""
			found = append(found, n)
		}
	}
	return found
}

// under is what becomes of GOMAXPROCS if an advice is followed; ok is false if that is not worth reporting.
func (f *facts) under(a workload.Advice) (n Finding, ok bool) {
	c := *f.c
	c.Limit = a.Limit
	if a.Request.State == workload.Known {
		c.Request = a.Request
	}
	limit, procs := forecast.LimitOf(f.w, &c), f.pod.Setting(&c, f.b)
	if limit.State == workload.Unknown || procs.State == workload.Unknown {
		return n, false
	}
	if !procs.Valid() {
		return f.choosing(a, limit, &c)
	}
	wants := a.By + " recommends " + limit.String()
	switch {
	case procs.Node && !f.procs.Node:
		n = f.about(finding.Warning, leave("set a CPU limit, or take GOMAXPROCS out before the limit goes", notYet),
			"%s: GOMAXPROCS, from limits.cpu, would be the node's CPUs", wants)
	case limit.State != workload.Known || procs.Node:
		return n, false
	case misfit(procs.Procs, limit) && !(f.limit.State == workload.Known && f.procs.Valid() && misfit(f.procs.Procs, f.limit)):
		n = f.about(finding.Warning, f.following(), "%s: GOMAXPROCS would be %s under it", wants, quantity.Count(procs.Procs)).saying("%s", f.source())
	case procs.Procs != f.procs.Procs && f.procs.Valid() && !f.procs.Node:
		n = f.about(finding.Info, leave("nothing: GOMAXPROCS goes with it", notYet), "%s: GOMAXPROCS would be %s, and is %s now",
			wants, quantity.Count(procs.Procs), quantity.Count(f.procs.Procs)).saying("%s", f.source())
	default:
		return n, false
	}
	return n.saying("%s", whoActs(a)), true
}

// notYet is why nothing is edited for a recommendation.
const notYet = "the limit is only recommended, and the manifest fits the one that it has"

func misfit(procs int, l forecast.Limit) bool {
	return forecast.TooMany(procs, l) || forecast.TooFew(procs, l)
}

// following is the fix for a GOMAXPROCS that does not go with the limit.
func (f *facts) following() fix {
	if does, _ := f.itself(); does {
		return leave("take GOMAXPROCS out before the limit changes: the program follows its limit itself", notYet)
	}
	return leave("take GOMAXPROCS from limits.cpu before the limit changes; a program built with Go 1.25 or later, with a go line to match, needs none", notYet)
}

// choosing is what programs choose themselves under a limit that is recommended.
func (f *facts) choosing(a workload.Advice, limit forecast.Limit, c *workload.Container) (n Finding, ok bool) {
	now, then := f.pod.Of(f.c, f.b, nil).Lines, f.pod.Of(c, f.b, nil).Lines
	var evidence []string
	changes := false
	for i, line := range then {
		if !count(line) || !count(now[i]) {
			continue
		}
		before, after := procsOf(now[i]), procsOf(line)
		changes = changes || before != after
		if before == after {
			evidence = append(evidence, fmt.Sprintf("%s: %s, as now", line.Kind, after))
		} else {
			evidence = append(evidence, fmt.Sprintf("%s: %s, and %s now", line.Kind, after, before))
		}
		if f.b.Known || line.Kind == "Go 1.25" {
			who := "a Go program that follows its limit would take"
			if f.b.Known {
				who = "the program would take"
			}
			n = f.about(finding.Info, leave("nothing, if this is intended; tune measures which limit and GOMAXPROCS are best", notYet),
				"%s recommends %s: %s %s, and takes %s now", a.By, limit, who, after, before)
		}
	}
	if !changes || n.Summary == "" {
		return n, false
	}
	for _, text := range evidence {
		n = n.saying("%s", text)
	}
	return n.saying("%s", whoActs(a)), true
}

// count reports whether a line has a number of CPUs, or all of the node's.
func count(l forecast.Line) bool { return l.Procs > 0 || l.All }

// procsOf is the GOMAXPROCS of a line.
func procsOf(l forecast.Line) string {
	if l.All {
		return "the node's CPUs"
	}
	return quantity.Count(l.Procs)
}

// whoActs says how an advice comes about, and who would carry it out.
func whoActs(a workload.Advice) string {
	if a.Does {
		return a.How + "; it sets that itself when it makes or resizes a pod"
	}
	return a.How + "; nothing sets that by itself"
}
