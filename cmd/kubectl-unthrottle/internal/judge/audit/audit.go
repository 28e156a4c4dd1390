// Package audit answers: what is wrong in a whole cluster, what does it cost, and what would help? In go the workloads of a
// cluster, what agents say about the running Go programs, and what Prometheus has counted; each of the latter two may be
// missing. Out comes a row for each workload, the most expensive first, and the totals.
//
// A row says no more than its data: without an agent, without Prometheus and without a variable that only Go programs read, a
// program is not known to be a Go program. CPUs that could be saved are a range, and come from measured programs, never from
// guesses. Nothing is read or printed here, and what is wrong is for packages rule and lint to say.
package audit

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// Options are what is assumed where nothing can be read.
type Options struct {
	Floor int // of CRI-O's min_injected_gomaxprocs; 0: 1
}

// A Source is where a finding comes from.
type Source string

const (
	FromAgent      Source = "agent"      // the program was looked at while it ran
	FromPrometheus Source = "prometheus" // it was counted, over a while
	FromSpec       Source = "spec"       // the objects say so
)

// A Finding is what is wrong with a workload, by whichever source.
type Finding struct {
	finding.Finding
	Container string `json:"container,omitempty"` // "" for the pod as a whole
	Source    Source `json:"source"`
	Pods      int    `json:"pods"` // in which it is so; 0: it is the template's
	Holds     Holds  `json:"holds"`

	// Elsewhere is how severe it is where it holds, if that is elsewhere: here it costs nothing.
	Elsewhere *finding.Severity `json:"severity_elsewhere,omitempty"`

	last string   // pod that was counted
	in   *Program // that it was found in; nil: the objects say so
}

// matters reports whether a finding is about something wrong. What is only worth knowing isn't, unless a number was seen that does not
// suit its limit: that of an idle program costs nothing yet.
func (f *Finding) matters() bool {
	return f.Severity >= finding.Warning || f.Source != FromSpec && slices.Contains(rule.OfNumber, f.Rule)
}

// A Program is a Go program that an agent saw in a container. What is not known is zero or nil.
type Program struct {
	Namespace, Pod, UID, Container string

	PID               int
	GoVersion, GoLine string
	Procs             int     // its GOMAXPROCS
	Expected          int     // what Go's own rule would choose by the limit in force
	SetBy             string  // spec, image-or-runtime, runtime, code, default, automaxprocs, unthrottle
	Limit             float64 // in force
	NoLimit           bool    // it is known that it has none
	Level             string  // that owns it: container, pod, or one above
	CPUs              int     // that its affinity allows

	CPU       *float64 // that it used
	Running   *float64 // Ps that had work
	Spinning  *float64 // threads that looked for work
	Frozen    *float64 // share of the time
	Throttled *float64 // share of the periods
	Findings  []finding.Finding
	Muted     []string // rules, or all
}

// A History is what Prometheus has of a container, or of a pod where Container is "". What is not known is zero or nil.
type History struct {
	Namespace, Pod, Container string
	OwnerKind, OwnerName      string // as kube-state-metrics has it: a ReplicaSet, not its Deployment

	OfPod            bool // the program's series name the pod alone: they are the container's if the pod has no other
	Procs            int
	GoVersion        string
	Limit            float64
	CPU              *float64 // that it used
	Periods          int64    // of the quota; 0: none was counted
	ThrottledPeriods int64    // of them
	ThrottledSeconds *float64 // a second, summed over CPUs
	Frozen           *float64 // share of the time
	Findings         []finding.Finding

	Stalled, Waiting *float64  // shares of the time in which no thread of its group that was ready ran, and in which at least one didn't
	InForce          float64   // the CPU limit that the kernel has, as cAdvisor reports it
	Before           []float64 // other CPU limits that it had meanwhile
	Moved            bool      // the process or its GOMAXPROCS is not the same all the time

	GOGC        *int  // -1: off
	GOMEMLIMIT  int64 // math.MaxInt64: none
	MemoryLimit int64
	Goal        int64 // bytes of the heap at which it was collected, at most
}

// An Audit takes what was read, and joins it.
type Audit struct {
	o     Options
	known lint.Known
	found *cluster.Found

	rows  map[key]*row
	order []*row
	uids  map[string]*pod
	names map[name]*pod
	nodes map[string]bool // with an agent that answered: it may look at every program there
	told  map[process]Program

	doubted map[string]bool // nodes with an agent that reported what can't be
}

type (
	key  struct{ namespace, owner string } // owner: Deployment/api
	name struct{ namespace, pod string }

	process struct {
		pod       *pod
		container string
		pid       int
	}
)

// A pod is one of a row's.
type pod struct {
	cluster.Pod
	row     *row
	seen    bool    // a Go program runs there
	unnamed bool    // one does in a container that no agent could name
	frozen  float64 // share of the time
	known   bool    // frozen is
}

// passing reports whether a name is that of an init or ephemeral container.
func (p *pod) passing(name string) bool {
	return slices.Contains(p.Ephemeral, name) || slices.ContainsFunc(p.Of.Pod.Containers, func(c workload.Container) bool {
		return c.Role == workload.Init && c.Name == name
	})
}

// A row is a workload with all that is known about it.
type row struct {
	first      *workload.Workload
	variants   []*workload.Workload // the template, and pods that differ from it
	pods       []*pod
	of         map[*workload.Workload][]*pod // those that are as one of variants says
	containers []*container
	findings   []*Finding
	muted      int
	cost       Cost
}

// A container is what is known about those with a name in a row.
type container struct {
	name     string
	in       *workload.Workload
	spec     *workload.Container // nil: it isn't a container of the template
	programs int
	main     Program // with the most CPU
	worst    Program // whose GOMAXPROCS suits its limit least
	low      int     // least and greatest GOMAXPROCS
	high     int
	versions []string
	limit    float64 // that Prometheus has
	cpu      float64 // that the programs of one pod used at most
	counted  bool    // cpu is known
	share    float64 // of throttled periods, at most

	histories []History
	fits      map[*pod]fit
}

// New begins with what a cluster's objects say.
func New(found *cluster.Found, known lint.Known, o Options) *Audit {
	o.Floor = cmp.Or(o.Floor, 1)
	a := &Audit{
		o: o, known: known, found: found, rows: map[key]*row{}, nodes: map[string]bool{}, doubted: map[string]bool{}, told: map[process]Program{},
		uids: make(map[string]*pod, len(found.Pods)), names: make(map[name]*pod, len(found.Pods)),
	}
	for _, w := range found.Workloads {
		k := keyOf(w)
		r := a.rows[k]
		if r == nil {
			r = &row{first: w}
			a.rows[k] = r
			a.order = append(a.order, r)
		}
		r.variants = append(r.variants, w)
		for i := range w.Pod.Containers {
			if c := &w.Pod.Containers[i]; c.Role != workload.Init {
				of := r.container(c.Name)
				if of.spec == nil {
					of.in, of.spec = w, c
				}
			}
		}
	}
	all := make([]pod, len(found.Pods))
	for i, p := range found.Pods {
		all[i] = pod{Pod: p, row: a.rows[keyOf(p.Of)]}
		one := &all[i]
		one.row.pods = append(one.row.pods, one)
		a.uids[p.UID] = one
		a.names[name{p.Namespace, p.Name}] = one
	}
	return a
}

// keyOf is what the pods of a workload have in common with it: those that differ from their template say who made them.
func keyOf(w *workload.Workload) key {
	if w.Kind == "Pod" && w.Owner != "" {
		return key{w.Namespace, w.Owner}
	}
	return key{w.Namespace, w.Kind + "/" + w.Name}
}

func (r *row) container(name string) *container {
	for _, c := range r.containers {
		if c.name == name {
			return c
		}
	}
	c := &container{name: name}
	r.containers = append(r.containers, c)
	return c
}

// Unseen are the containers of workloads whose programs were not seen and may be Go programs, by their images.
func (a *Audit) Unseen() map[string][]*workload.Container {
	all := map[string][]*workload.Container{}
	for _, r := range a.order {
		for _, c := range r.containers {
			if c.spec == nil || c.programs > 0 || a.known.Binaries.Of(c.in, c.spec).Known || c.spec.Image == "" {
				continue
			}
			if is, told := a.known.IsGo(c.in, c.spec); is || !told {
				all[c.spec.Image] = append(all[c.spec.Image], c.spec)
			}
		}
	}
	return all
}

// Named says which program the containers with an image run.
func (a *Audit) Named(image string, b binary.Binary) {
	if a.known.Binaries == nil {
		a.known.Binaries = &binary.Set{}
	}
	a.known.Binaries.AddFile(image, b)
}

// Answered says that the agent of a node has reported all Go programs there.
func (a *Audit) Answered(node string) { a.nodes[node] = true }

// An Outcome is what became of a program that an agent reported.
type Outcome uint8

const (
	Taken     Outcome = iota
	Elsewhere         // its pod runs on another node: the agent can't have seen it
	Unnamed           // which container of its pod it is in is not known to the agent, or not yet
	Passing           // it is in an init or ephemeral container, which is over soon: it counts for nothing
	Strange           // its pod has no such container
	Unknown           // no such pod exists now, or is among those that were asked for
	Twice             // it was reported before: a node may have two agents for a while
	Otherwise         // it was reported differently before; what came first counts
)

// Saw takes a program that the agent of a node reports, if the API server knows its container there.
func (a *Audit) Saw(node string, p Program) Outcome {
	at := a.uids[p.UID]
	if at != nil && at.Node != node {
		return Elsewhere
	}
	if at == nil {
		// A static pod has another UID on its node. A pod that was recreated under its name may be on another one by now.
		if at = a.names[name{p.Namespace, p.Pod}]; at == nil || at.Node != node {
			return Unknown
		}
	}
	if p.Container == "" {
		// A container is named once its pod's status has it, and one that holds a pod's namespaces never is. Nothing is known about
		// it but that it is there: it neither counts, nor lets the pod pass for one that was looked at.
		at.unnamed = true
		return Unnamed
	}
	c := at.row.named(p.Container)
	switch {
	case c != nil:
	case at.passing(p.Container):
		return Passing
	default:
		return Strange
	}
	process := process{at, p.Container, p.PID}
	if before, ok := a.told[process]; ok {
		if before.agrees(p) {
			return Twice
		}
		return Otherwise
	}
	a.told[process] = Program{GoVersion: p.GoVersion, GoLine: p.GoLine, Procs: p.Procs, Limit: p.Limit, CPUs: p.CPUs}
	at.seen = true
	c.saw(p)
	c.fitted(at, fitOf(p.Procs, p.limits()))
	r := at.row
	r.pay(at, p)
	for _, f := range p.Findings {
		if pods.Mutes(p.Muted, f.Rule) {
			r.muted++
			continue
		}
		r.found(Finding{Finding: f, Container: p.Container, Source: FromAgent, Pods: 1, Holds: HoldsNow, last: at.Name, in: &p})
	}
	return Taken
}

// agrees reports whether two agents say the same about a process, in what does not change from one scan to the next.
func (p Program) agrees(q Program) bool {
	return p.GoVersion == q.GoVersion && p.GoLine == q.GoLine && p.Procs == q.Procs && p.Limit == q.Limit && p.CPUs == q.CPUs
}

// named is a container that the row has; nil: it has none of that name.
func (r *row) named(name string) *container {
	i := slices.IndexFunc(r.containers, func(c *container) bool { return c.name == name })
	if i < 0 {
		return nil
	}
	return r.containers[i]
}

func (c *container) saw(p Program) {
	c.programs++
	if c.programs == 1 || value(p.CPU) > value(c.main.CPU) {
		c.main = p
		c.main.Findings = nil
	}
	if c.programs == 1 || p.misfit() > c.worst.misfit() {
		c.worst = p
	}
	c.counts(p.Procs, p.GoVersion)
	if p.CPU != nil {
		c.cpu, c.counted = max(c.cpu, *p.CPU), true
	}
	c.share = max(c.share, value(p.Throttled))
}

// counts takes a GOMAXPROCS and a version, as far as they are known.
func (c *container) counts(procs int, version string) {
	if procs > 0 {
		if c.low == 0 || procs < c.low {
			c.low = procs
		}
		c.high = max(c.high, procs)
	}
	if version != "" && !slices.Contains(c.versions, version) && len(c.versions) < mostVersions {
		c.versions = append(c.versions, version)
	}
}

// mostVersions is how many versions of Go are listed for a container.
const mostVersions = 8

// found adds what was found, once for all pods.
func (r *row) found(f Finding) {
	for _, old := range r.findings {
		if old.Container != f.Container || old.Rule != f.Rule {
			continue
		}
		switch {
		case old.Source == f.Source && f.Source == FromSpec && old.Summary != f.Summary:
			continue
		case old.Source != f.Source:
			return // what was seen comes before what was counted, and that before what is written
		}
		if f.last != old.last || f.last == "" {
			old.Pods += f.Pods
			old.last = f.last
		}
		if worse := f.Severity > old.Severity || f.Severity == old.Severity && slices.Index(holding, f.Holds) < slices.Index(holding, old.Holds); worse {
			pods := old.Pods
			*old = f
			old.Pods = pods
		}
		return
	}
	r.findings = append(r.findings, &f)
}

// History takes what Prometheus has of a container. It reports whether that belongs to a workload of the audit.
func (a *Audit) History(h History) bool {
	r, at := a.owner(h)
	if r == nil {
		return false
	}
	c := r.named(h.Container)
	switch {
	case h.Container == "" && len(r.containers) == 1:
		c = r.containers[0]
	case h.Container == "": // the pod's own group
		r.cost.PodThrottled = most(r.cost.PodThrottled, h.throttled())
		return true
	case c == nil:
		return true
	}
	if h.OfPod && len(r.containers) != 1 {
		h.Procs, h.GoVersion, h.GOGC, h.GOMEMLIMIT, h.Goal = 0, "", nil, 0, 0
	}
	if at != nil {
		if h.Procs > 0 || h.GoVersion != "" {
			at.seen = true
		}
		if c.fits[at] != notSeen {
			h.Procs = 0 // an agent saw the number in that pod
		}
		c.fitted(at, fitOf(h.Procs, cgroup.Limits{State: cgroup.Limited, CPUs: c.limitOf(h), Affinity: manyCPUs}))
		r.stands(at, h.Frozen)
	}
	if c.programs == 0 || c.high == 0 {
		c.counts(h.Procs, h.GoVersion)
	}
	c.limit = cmp.Or(c.limit, h.Limit)
	if h.CPU != nil {
		c.cpu, c.counted = max(c.cpu, *h.CPU), true
	}
	c.share = max(c.share, value(h.throttled()))
	r.cost.ThrottledSeconds = sum(r.cost.ThrottledSeconds, h.ThrottledSeconds)
	c.histories = append(c.histories, h)
	return true
}

// counted adds what was found in what Prometheus counted: when all is read, since another pod's series may show that it is a Go program.
func (r *row) counted() {
	for _, c := range r.containers {
		for _, h := range c.histories {
			in := &Program{Procs: h.Procs, Limit: c.limitOf(h)}
			for _, f := range append(counted(c, h), h.Findings...) {
				r.found(Finding{Finding: f, Container: c.name, Source: FromPrometheus, Pods: 1, Holds: HoldsNow, last: h.Pod, in: in})
			}
		}
	}
}

// throttled is the share of the periods that were throttled; nil: none was counted.
func (h History) throttled() *float64 {
	if h.Periods <= 0 || h.ThrottledPeriods < 0 || h.ThrottledPeriods > h.Periods {
		return nil
	}
	return new(float64(h.ThrottledPeriods) / float64(h.Periods))
}

// owner is the workload that a pod belongs to, be it there or gone.
func (a *Audit) owner(h History) (*row, *pod) {
	if p := a.names[name{h.Namespace, h.Pod}]; p != nil {
		return p.row, p
	}
	owners := []string{h.OwnerKind + "/" + h.OwnerName}
	if i := strings.LastIndexByte(h.OwnerName, '-'); i > 0 {
		switch h.OwnerKind {
		case "ReplicaSet":
			owners = append(owners, "Deployment/"+h.OwnerName[:i], "Rollout/"+h.OwnerName[:i])
		case "Job":
			owners = append(owners, "CronJob/"+h.OwnerName[:i])
		}
	}
	for _, o := range owners {
		if r := a.rows[key{h.Namespace, o}]; r != nil {
			return r, nil
		}
	}
	return nil, nil
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// most is the greater of what is known.
func most(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// sum is what is known, together.
func sum(a, b *float64) *float64 {
	switch {
	case b == nil:
		return a
	case a == nil:
		return new(*b)
	}
	return new(*a + *b)
}

// Nodes are those with pods of the audit.
func (a *Audit) Nodes() []string {
	names := map[string]bool{}
	for _, p := range a.found.Pods {
		if p.Node != "" {
			names[p.Node] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
