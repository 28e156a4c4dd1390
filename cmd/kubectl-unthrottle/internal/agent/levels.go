package agent

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/host"
	"github.com/unthrottle/unthrottle/cmd/internal/podpath"
)

// A level is a cgroup on a process's way up.
type level struct {
	name  string // as package podpath has it
	dir   string
	quota float64 // CPUs; 0: none
	total cgroup.Counters
	since cgroup.Counters // the scan before, or for as long as the process was looked at
}

// levels are the groups that a process is in, its own first. Each group's counters are read once a scan, whoever is in it.
func (l *look) levels(p *host.Process, ref podpath.Ref) []level {
	limits := p.System.Limits
	own := strings.HasPrefix(limits.Mount.Point, "/proc/"+strconv.Itoa(p.PID)+"/root/")
	var all []level
	for _, at := range limits.Levels {
		v := level{name: podpath.Level(at.Dir), dir: at.Dir, quota: at.Quota.CPUs()}
		if own && ref.Container != "" && v.name == podpath.Other {
			v.name = podpath.Container // seen from within: its own is all that there is
		}
		v.total = l.count(p, at.Dir, limits.Version)
		if before, ok := l.Agent.memory.counters[at.Dir]; ok {
			v.since = v.total.Since(before)
		} else {
			for _, seen := range []cgroup.Counters{p.Usage.Own, p.Usage.Owner} {
				if seen.Dir == at.Dir {
					v.since = seen
				}
			}
		}
		all = append(all, v)
	}
	return all
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

// count reads the counters of a group.
func (l *look) count(p *host.Process, dir string, version cgroup.Version) cgroup.Counters {
	if c, ok := l.memory.counters[dir]; ok {
		return c
	}
	text, _ := os.ReadFile(l.o.Root + dir + "/cpu.stat")
	c, _ := cgroup.ParseStat(string(text)) // after an error nothing is known
	c.Dir = dir
	if version == cgroup.V1 && !c.CPUKnown {
		c.CPU, c.CPUKnown = l.usage(p, dir)
	}
	l.memory.counters[dir] = c
	return c
}

// usage is the CPU time of a group of v1, which another controller counts. Where that has a hierarchy of its own, the paths are taken
// to be the same.
func (l *look) usage(p *host.Process, dir string) (time.Duration, bool) {
	const file = "/cpuacct.usage"
	text, err := os.ReadFile(l.o.Root + dir + file)
	if err != nil {
		apart, _, mount, _ := cgroup.Locate(cgroup.Source{Root: l.o.Root, PID: p.PID}, "cpuacct")
		here := p.System.Limits
		rel, ok := strings.CutPrefix(dir, here.Mount.Point)
		own, same := strings.CutPrefix(apart, mount.Point)
		if len(here.Levels) == 0 || !ok || !same || here.Levels[0].Dir != here.Mount.Point+own {
			return 0, false
		}
		if text, err = os.ReadFile(l.o.Root + mount.Point + rel + file); err != nil {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return time.Duration(n), err == nil && n >= 0
}

// Whose limit it is, in metrics.
const (
	ofContainer = "container"
	ofPod       = "pod"
	above       = "above"
)

// owner folds a level for metrics: what is above a pod belongs to nobody in particular.
func (v level) owner() string {
	switch v.name {
	case podpath.Container:
		return ofContainer
	case podpath.Pod:
		return ofPod
	}
	return above
}
