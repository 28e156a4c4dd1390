package agents

import (
	"slices"
	"strconv"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// name adds to a process what an agent that knows the pods would say about it: whose container it is in, who set its GOMAXPROCS, and
// whether a resize has left that behind. What needs an earlier scan is not known.
func name(p *result.AgentProcess, t *Answer, c pods.Container) {
	of := p.Container
	of.Namespace, of.Pod, of.UID, of.Name, of.Muted = c.Namespace, c.Pod, c.UID, c.Name, c.Muted
	of.Spec = result.AgentSetting{Set: c.Spec.Set, Form: string(c.Spec.Form), Value: c.Spec.Value}
	procs := 0
	if p.GOMAXPROCS.Value != nil {
		procs = *p.GOMAXPROCS.Value
	}
	if p.SetBy == result.FromEnvironment {
		p.SetBy = result.SetInEnvironment(strconv.Itoa(procs), c, 0)
	}
	if p.Stale = leftBehind(p, procs, c); p.Stale != nil {
		for _, f := range rule.Check(facts(p, t.System, t.Seconds)) {
			if f.Rule == "stale" {
				p.Findings = append(p.Findings, f)
			}
		}
	}
	p.Findings = slices.DeleteFunc(p.Findings, func(f finding.Finding) bool {
		return pods.Mutes(c.Muted, f.Rule)
	})
}

// leftBehind says that a GOMAXPROCS is that of a limit before, by what the API server has of a resize; nil: it does not show one.
func leftBehind(p *result.AgentProcess, procs int, c pods.Container) *result.AgentStale {
	began, err := time.Parse(time.RFC3339, p.Started)
	if err != nil || procs == 0 || p.GOMAXPROCS.Source != string(choice.FromEnvironment) {
		return nil
	}
	quota := 0.0
	for _, l := range p.Levels {
		if l.Level == podpath.Container && l.Limit != nil {
			quota = *l.Limit
		}
	}
	switch {
	case c.ResizedUnder(began):
		return &result.AgentStale{Since: c.Resized.UTC().Format(time.RFC3339), Now: p.Limit.CPUs}
	case c.Outdated(procs, quota) > 0:
		return &result.AgentStale{Now: p.Limit.CPUs}
	}
	return nil
}
