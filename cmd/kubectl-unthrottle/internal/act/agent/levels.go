package agent

import (
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
)

// A level is a cgroup on a process's way up.
type level struct {
	name  string // as package podpath has it
	dir   string
	quota float64 // CPUs; 0: none
	total cgroup.Counters
	since cgroup.Counters // the scan before
}

// levels are the groups that a process is in, its own first. Each group's counters are read once a scan, regardless of how many
// processes are in it. A group without a quota has only its CPU time, which is reported for containers only.
func (l *look) levels(p *host.Process, ref podpath.Ref) []level {
	limits := p.System.Limits
	own := strings.HasPrefix(limits.Mount.Point, "/proc/"+strconv.Itoa(p.PID)+"/root/")
	all := make([]level, 0, len(limits.Levels))
	for _, at := range limits.Levels {
		v := level{name: podpath.Level(at.Dir), dir: at.Dir, quota: at.Quota.CPUs()}
		if own && ref.Container != "" && v.name == podpath.Other {
			v.name = podpath.Container // seen from within: its own is all that there is
		}
		if v.name == podpath.Container || v.quota > 0 {
			v.total = l.count(p, at.Dir)
			v.since = l.since(p, v.total)
		}
		all = append(all, v)
	}
	return all
}

// since is what a group has counted since the scan before, or for as long as the process was looked at.
func (l *look) since(p *host.Process, total cgroup.Counters) cgroup.Counters {
	if before, ok := l.Agent.memory.counters[total.Dir]; ok {
		return total.Since(before)
	}
	for _, seen := range []cgroup.Counters{p.Usage.Owner, p.Usage.Own} {
		if seen.Dir == total.Dir {
			return seen
		}
	}
	return cgroup.Counters{}
}

// owner gives a limit to the pod whose it is. The kubelet also writes a pod's own limit to those of its containers that have none,
// and of two equal quotas the lower one counts otherwise: but all of the pod's containers use up the pod's, so it is that one
// which throttles.
func (a *Agent) owner(p *host.Process) {
	l := &p.System.Limits
	if a.o.Pods == nil || l.State != cgroup.Limited {
		return
	}
	ref, _ := whose(*l)
	c, ok := a.o.Pods.Container(ref)
	if !ok || c.Limit > 0 || c.PodLimit == 0 {
		return
	}
	for _, v := range l.Levels {
		if podpath.Level(v.Dir) == podpath.Pod && same(v.Quota.CPUs(), l.CPUs) {
			l.From = v.Dir
		}
	}
}

// count reads the counters of a group, if that was not just done.
func (l *look) count(p *host.Process, dir string) cgroup.Counters {
	c, ok := l.memory.counters[dir]
	switch {
	case ok:
		return c
	case p.Usage.Total.Own.Dir == dir:
		c = p.Usage.Total.Own
	case p.Usage.Total.Owner.Dir == dir:
		c = p.Usage.Total.Owner
	default:
		c = cgroup.ReadCounters(cgroup.Source{Root: l.o.Root, PID: p.PID}, p.System.Limits, dir)
	}
	l.memory.counters[dir] = c
	return c
}

// Whose limit it is, in metrics.
const (
	ofContainer = "container"
	ofPod       = "pod"
	above       = "above"
)

// owner folds a level for metrics: what is above a pod has no owner in particular.
func (v level) owner() string {
	switch v.name {
	case podpath.Container:
		return ofContainer
	case podpath.Pod:
		return ofPod
	}
	return above
}
