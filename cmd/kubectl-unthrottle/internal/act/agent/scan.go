package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/process/podpath"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// ownShare is what the agent may use for samples, of a CPU, while it looks. It looks for a small part of the time.
const ownShare = 0.01

// scan looks at all processes once.
func (a *Agent) scan(ctx context.Context) (*Scan, error) {
	start := time.Now()
	found, err := a.survey.Read(ctx, host.Options{Root: a.o.Root, For: a.o.For, Share: ownShare, Adjust: a.owner})
	if err != nil {
		return nil, err
	}
	ps := report.NewPs(found)
	l := look{
		Agent: a, at: time.Now(), system: found.System, memory: newMemory(len(ps.Processes)),
		groups: map[string]*group{}, stales: map[int]*rule.Stale{}, floor: sync.OnceValue(func() int { return injectionFloor(a.o.Root) }),
	}
	doc := &result.Agent{
		Header: verb.NewHeader("agent"), Node: a.o.Node, Seconds: ps.Seconds, System: ps.System, Looked: ps.Looked, Refused: ps.Refused, Odd: ps.Odd, Stuck: ps.Stuck,
		Processes: make([]result.AgentProcess, 0, len(ps.Processes)),
	}
	for i := range ps.Processes {
		doc.Processes = append(doc.Processes, l.process(&found.Processes[i], ps.Processes[i]))
	}
	a.memory = l.memory
	doc.Problems = l.problems(doc)
	s := &Scan{Doc: doc, stale: l.stales, Known: a.o.Pods != nil && a.o.Pods.Err() == nil}
	s.Containers, s.Dropped = l.containers(a.o.MaxContainers)
	s.encoded = sync.OnceValues(func() ([]byte, error) {
		var b strings.Builder
		err := report.WriteJSONLine(&b, doc)
		return []byte(b.String()), err
	})
	s.Took = time.Since(start)
	return s, nil
}

// A look is what is needed while one scan's facts are put together.
type look struct {
	*Agent
	at     time.Time
	system host.System
	memory memory // for the next scan
	groups map[string]*group
	stales map[int]*rule.Stale // by pid
	floor  func() int          // of what CRI-O injects

	unread  int   // programs whose memory can't be read
	why     error // of one of them
	unnamed int   // containers' programs that the pods' source does not know
	cut     int   // containers' programs whose groups above can't be seen
}

// process adds to what ps says whose the process is, and what was seen of it before.
func (l *look) process(p *host.Process, doc report.PsProcess) result.AgentProcess {
	limits := p.System.Limits
	out := result.AgentProcess{PsProcess: doc, Levels: []result.AgentLevel{}}
	out.Command = withoutArguments(doc.Command)
	if !p.Started.IsZero() {
		out.Started = p.Started.UTC().Format(time.RFC3339)
	}
	if p.Live == 0 {
		l.unread++
		if l.why == nil || errors.Is(p.LiveErr, fs.ErrPermission) {
			l.why = p.LiveErr
		}
	}
	ref, in := whose(limits)
	in = in && ref.Container != ""
	var known pods.Container
	named := false
	if in && l.o.Pods != nil {
		if known, named = l.o.Pods.Container(ref); !named {
			l.unnamed++
		}
	}
	levels := l.levels(p, ref)
	if in {
		out.Container = newContainer(ref, known, named)
		if !slices.ContainsFunc(levels, func(v level) bool { return v.name == podpath.Pod }) {
			l.cut++
		}
	}
	for _, v := range levels {
		if v.quota > 0 {
			out.Levels = append(out.Levels, result.AgentLevel{
				Level: v.name, Dir: v.dir, Limit: positive(v.quota), Periods: v.since.Periods, ThrottledPeriods: v.since.Throttled,
				ThrottledSeconds: v.since.ThrottledTime.Seconds(),
			})
		}
	}
	floor := 0
	if ref.Runtime == "cri-o" {
		floor = l.floor()
	}
	out.SetBy = setBy(p, known, named, floor)

	facts := rule.OfProcess(p, l.system)
	facts.Stale = l.stale(p, known, levels)
	all := rule.Check(facts)
	out.Judge(slices.DeleteFunc(slices.Clone(all), func(f finding.Finding) bool { return pods.Mutes(known.Muted, f.Rule) }))
	if i := slices.IndexFunc(all, func(f finding.Finding) bool { return f.Rule == "stale" }); i >= 0 {
		l.stales[p.PID] = facts.Stale
		out.Stale = &result.AgentStale{
			Since: facts.Stale.Since.UTC().Format(time.RFC3339), Then: positive(facts.Stale.Then), Now: positive(facts.Stale.Now), Why: facts.Stale.Why,
		}
	}
	if named {
		l.add(known, p, &out, levels, all)
	}
	return out
}

// withoutArguments leaves out a program's arguments. They may hold secrets, and the agent asks no one for a password.
func withoutArguments(command []string) []string { return command[:min(1, len(command))] }

// whose says which container a process is in. Its path may be written as a neighbour's of ours, in which case only the directory
// tells the pod.
func whose(limits cgroup.Limits) (podpath.Ref, bool) {
	if strings.HasPrefix(limits.Path, "/..") && len(limits.Levels) > 0 {
		if ref, ok := podpath.Parse(limits.Levels[0].Dir); ok && ref.Container != "" {
			return ref, true
		}
	}
	return podpath.Parse(limits.Path)
}

// newContainer is what is known about a container: by its cgroup's path, and by its pod.
func newContainer(ref podpath.Ref, c pods.Container, named bool) *result.AgentContainer {
	if !named {
		return &result.AgentContainer{UID: ref.PodUID, ID: ref.Container, Runtime: ref.Runtime, Muted: []string{}}
	}
	return &result.AgentContainer{
		Namespace: c.Namespace, Pod: c.Pod, UID: c.UID, Name: c.Name, Kind: string(c.Kind),
		OwnerAPIVersion: c.Owner.APIVersion, OwnerKind: c.Owner.Kind, Owner: c.Owner.Name,
		Image: c.Image, Digest: c.Digest, ID: c.ID, Runtime: cmp.Or(c.Runtime, ref.Runtime), Restarts: c.Restarts,
		Limit: c.Limit, Request: c.Request, PodLimit: c.PodLimit,
		Spec:  result.AgentSetting{Set: c.Spec.Set, Form: string(c.Spec.Form), Value: c.Spec.Value},
		Muted: append([]string{}, c.Muted...),
	}
}

// problems say what could not be seen, and what to do.
func (l *look) problems(doc *result.Agent) []string {
	problems := []string{}
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	const rights = "the agent needs the capability SYS_PTRACE, and an AppArmor profile that allows it"
	if doc.Refused > 0 {
		say("%s may not be looked into, and may be Go programs: %s", quantity.Plural(doc.Refused, "process"), rights)
	}
	if doc.Stuck > 0 {
		say("left out: %s of which the kernel tells nothing, as where a file system has stopped answering", quantity.Plural(doc.Stuck, "process"))
	}
	if l.unread > 0 {
		what := fmt.Sprintf("the GOMAXPROCS of %s can't be read from memory and is predicted", quantity.Plural(l.unread, "Go program"))
		if errors.Is(l.why, fs.ErrPermission) {
			say("%s: %s", what, rights)
		} else {
			say("%s: %v", what, l.why)
		}
	}
	if l.cut > 0 {
		say("of %s only the container's own cgroup can be seen, and no limit of its pod: the agent needs hostPID and SYS_PTRACE",
			quantity.Plural(l.cut, "Go program"))
	}
	switch {
	case l.o.Unnamed:
	case l.o.Pods == nil:
		say("the API server is not asked for the pods, so containers have no names: --pods api asks it")
	case l.o.Pods.Err() != nil:
		err := l.o.Pods.Err()
		say("%s", strings.Join(append([]string{err.Error()}, hint.Of(err)...), ": "))
	case l.unnamed > 0:
		say("the containers of %s are not known yet, or do not belong to a pod of this node", quantity.Plural(l.unnamed, "Go program"))
	}
	return problems
}

// A group is a container with Go programs, while it is put together.
type group struct {
	of       pods.Container
	cpu, top float64 // CPUs of all its programs, and of the main one
	result   Container
}

// add adds a process to its container.
func (l *look) add(c pods.Container, p *host.Process, doc *result.AgentProcess, levels []level, all []finding.Finding) {
	g := l.groups[c.ID]
	if g == nil {
		g = &group{of: c, top: -1, result: Container{
			Namespace: c.Namespace, Pod: c.Pod, Name: c.Name, OwnerKind: c.Owner.Kind, Owner: c.Owner.Name,
			Findings: map[string]finding.Severity{}, Muted: map[string]bool{},
		}}
		l.groups[c.ID] = g
	}
	cpu := 0.0
	if doc.CPU != nil {
		cpu = *doc.CPU
	}
	g.cpu += cpu
	g.result.Processes++
	if cpu > g.top {
		g.top = cpu
		g.result.takeMain(p, doc, levels)
	}
	for _, f := range all {
		if pods.Mutes(c.Muted, f.Rule) {
			g.result.Muted[f.Rule] = true
		} else if worst, ok := g.result.Findings[f.Rule]; !ok || f.Severity > worst {
			g.result.Findings[f.Rule] = f.Severity
		}
	}
}

// containers are those that have metrics: the ones with the most CPU. If two have one name, the older is about to go.
func (l *look) containers(most int) (kept []Container, dropped int) {
	byName := map[[3]string]*group{}
	for _, g := range l.groups {
		name := [3]string{g.of.Namespace, g.of.Pod, g.of.Name}
		if other := byName[name]; other == nil || cmp.Or(g.of.Started.Compare(other.of.Started), cmp.Compare(g.of.ID, other.of.ID)) > 0 {
			byName[name] = g
		}
	}
	groups := slices.SortedFunc(maps.Values(byName), func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.cpu, a.cpu), cmp.Compare(a.of.ID, b.of.ID))
	})
	if len(groups) > most {
		groups, dropped = groups[:most], len(groups)-most
	}
	for _, g := range groups {
		kept = append(kept, g.result)
	}
	slices.SortFunc(kept, func(a, b Container) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Pod, b.Pod), strings.Compare(a.Name, b.Name))
	})
	return kept, dropped
}

func positive(v float64) *float64 {
	if v <= 0 {
		return nil
	}
	return &v
}
