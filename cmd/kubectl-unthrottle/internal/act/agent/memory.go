package agent

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
)

// memory is what a scan leaves for the next one: each scan makes it again, so that what is gone is forgotten.
type memory struct {
	counters  map[string]cgroup.Counters // of groups, by directory
	processes map[process]seen
}

// A process is one as long as it runs one program: pids come again.
type process struct {
	pid     int
	started time.Time
}

// seen is what was found of a process in earlier scans.
type seen struct {
	procs   int
	then    float64   // the limit, when this GOMAXPROCS was first seen; 0: there was none
	suited  bool      // it was right for that
	now     float64   // the limit, if it is another than that
	changed time.Time // when that was first seen; zero: it is the same
	spec    time.Time // when the pod's spec was first seen to say another number
}

func newMemory(processes int) memory {
	return memory{counters: map[string]cgroup.Counters{}, processes: make(map[process]seen, processes)}
}

// patience is how long a program has to follow a new limit on its own, if it can.
const patience = time.Minute

// stale says why a program's GOMAXPROCS is that of a limit before; nil: it is not, as far as is known.
func (l *look) stale(p *host.Process, c pods.Container, levels []level) *rule.Stale {
	procs, limits := p.Procs(), p.System.Limits
	if p.Started.IsZero() || procs == 0 || limits.State != cgroup.Limited && limits.State != cgroup.None {
		return nil
	}
	key := process{p.PID, p.Started}
	s, ok := l.Agent.memory.processes[key]
	if !ok || s.procs != procs {
		s = seen{procs: procs, then: limits.CPUs, suited: rule.Suits(procs, limits)}
	}
	s.notice(l.at, limits.CPUs)
	why := s.resized(p, l.at)
	if why == nil && s.changed.IsZero() {
		why = byResize(p, c)
	}
	if why == nil {
		if why = bySpec(p, c, levels); why == nil {
			s.spec = time.Time{}
		} else {
			if s.spec.IsZero() {
				s.spec = l.at
			}
			why.Since = s.spec
		}
	}
	if why != nil {
		why.Written = c.Spec.Form == pods.Literal && p.Source() == choice.FromEnvironment
	}
	l.memory.processes[key] = s
	return why
}

// notice takes down whether the limit is another than when this GOMAXPROCS was first seen.
func (s *seen) notice(at time.Time, cpus float64) {
	switch {
	case same(cpus, s.then):
		s.changed = time.Time{}
	case s.changed.IsZero() || !same(cpus, s.now):
		s.changed = at
	}
	s.now = cpus
}

func same(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// resized reports that the limit was seen to change, and that a GOMAXPROCS that was right before stayed.
func (s *seen) resized(p *host.Process, at time.Time) *rule.Stale {
	fixed := p.Source() == choice.FromEnvironment // nothing but a new process changes it
	switch {
	case s.changed.IsZero(), p.CustomKnown && !p.Custom: // the runtime follows
		return nil
	case !fixed && (p.Live == 0 || at.Sub(s.changed) < patience):
		return nil
	case !s.suited:
		return nil // it was wrong before
	}
	then := "there was no limit"
	if s.then > 0 {
		then = "the limit was " + quantity.UsedCPUs(s.then)
	}
	return &rule.Stale{
		Since: s.changed, Then: s.then, Now: s.now,
		Why: then + " while the same process ran, until " + s.changed.UTC().Format(time.RFC3339),
	}
}

// byResize reports that the API server has the limit changed after the process began, and that its GOMAXPROCS is fixed. It needs no
// earlier scan, so it outlives the agent. What the limit was then is not known.
func byResize(p *host.Process, c pods.Container) *rule.Stale {
	if !c.ResizedUnder(p.Started) || p.Source() != choice.FromEnvironment {
		return nil
	}
	return &rule.Stale{
		Since: c.Resized, Now: p.System.Limits.CPUs,
		Why: "the pod was resized at " + c.Resized.UTC().Format(time.RFC3339) + ", while the same process ran",
	}
}

// bySpec reports that a pod's spec would now give another GOMAXPROCS than the process was started with. It needs no earlier scan.
func bySpec(p *host.Process, c pods.Container, levels []level) *rule.Stale {
	n, err := strconv.Atoi(p.Env["GOMAXPROCS"])
	if err != nil || n != p.Procs() {
		return nil
	}
	quota := 0.0
	for _, v := range levels {
		if v.name == podpath.Container && v.quota > 0 {
			quota = v.quota
		}
	}
	limit := c.Outdated(n, quota)
	if limit == 0 {
		return nil
	}
	return &rule.Stale{
		Now: p.System.Limits.CPUs,
		Why: fmt.Sprintf("the pod's spec takes GOMAXPROCS from limits.cpu, which is %s now, and the process was started with %d", quantity.UsedCPUs(limit), n),
	}
}
