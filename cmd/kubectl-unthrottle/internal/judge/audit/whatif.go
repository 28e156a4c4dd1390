package audit

import (
	"context"
	"math"
	"slices"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/remedy"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// A Change is what would be another number of Ps under something that is not so now.
type Change struct {
	State  Changes `json:"state"`
	From   int     `json:"from,omitempty"` // of the container that changes most; 0: not known
	To     int     `json:"to,omitempty"`
	Scarce bool    `json:"less_than_used,omitempty"` // the program was measured to use more CPUs than it would have Ps
}

// Changes says whether something would change.
type Changes string

const (
	Changed    Changes = "changed"
	Same       Changes = "same"
	NotKnown   Changes = "not known"
	NotAsked   Changes = "" // no Go program, or nothing that it could be about
	skipCRIO           = "skip-gomaxprocs.crio.io"
	kubeSystem         = "kube-system"
)

// simulate fills in what would be.
func (a *Audit) simulate(ctx context.Context, r *row, w *Workload, known lint.Known) (err error) {
	if w.Go != GoNone {
		for _, c := range r.containers {
			w.Go126.with(a.rebuilt(c, known))
			w.CRIO.with(a.injected(c, known))
		}
	}
	w.Burstable = burstable(r)
	w.Policy, err = policyOf(ctx, r)
	return err
}

// with adds what a container would have.
func (c *Change) with(o Change) {
	order := []Changes{NotAsked, Same, NotKnown, Changed}
	at, now := slices.Index(order, o.State), slices.Index(order, c.State)
	if at > now || at == now && math.Abs(float64(o.To-o.From)) > math.Abs(float64(c.To-c.From)) {
		scarce := c.Scarce
		*c = o
		c.Scarce = c.Scarce || scarce
	}
	c.Scarce = c.Scarce || o.Scarce
}

// goes126 is a program of Go 1.26 with a go line to match.
var goes126 = &procs.Program{GoVersion: "go1.26.0"}

// rebuilt is what a container's program would have if it were built with Go 1.26 and a go line of 1.26. What sets GOMAXPROCS now
// would do so then.
func (a *Audit) rebuilt(c *container, known lint.Known) Change {
	if c.programs > 0 && c.main.Procs > 0 {
		p := c.main
		if p.SetBy != "default" {
			return Change{State: Same, From: p.Procs, To: p.Procs}
		}
		if p.CPUs <= 0 || p.CPUs > manyCPUs {
			return Change{State: NotKnown, From: p.Procs}
		}
		to := choice.Under(p.Limit, p.CPUs, unthrottle.Go).Predict(procs.Process{Program: goes126}).Procs
		return between(p.Procs, to)
	}
	if c.spec == nil {
		return Change{}
	}
	b := known.Of(c.in, c.spec)
	if set := forecast.SettingOf(c.in, c.spec, b); set.Valid() {
		return Change{State: Same, From: set.Procs, To: set.Procs}
	}
	if !b.Go() {
		if b.Known {
			return Change{}
		}
		return Change{State: NotKnown}
	}
	now := forecast.Of(c.in, c.spec, b, a.known.Nodes)
	newer := b
	program := *goes126
	program.Automaxprocs, program.Unthrottle = b.Program.Automaxprocs, b.Program.Unthrottle
	newer.Program = &program
	out := Change{State: Same}
	for i, line := range forecast.Of(c.in, c.spec, newer, a.known.Nodes).Lines {
		was := now.Lines[i]
		switch {
		case line.Procs == 0 && !line.All || was.Procs == 0 && !was.All:
			return Change{State: NotKnown}
		case line.Procs != was.Procs || line.All != was.All:
			out = Change{State: Changed, From: was.Procs, To: line.Procs}
		}
	}
	return out
}

func between(from, to int) Change {
	if from == to {
		return Change{State: Same, From: from, To: to}
	}
	return Change{State: Changed, From: from, To: to}
}

// injected is what CRI-O would set with min_injected_gomaxprocs: in containers without a CPU limit and without GOMAXPROCS twice the
// request, rounded up, and no less than the floor. An annotation of the pod takes it out.
func (a *Audit) injected(c *container, known lint.Known) Change {
	if c.spec == nil || c.in.Pod.Annotations[skipCRIO] != "" {
		return Change{}
	}
	limit, set := forecast.LimitOf(c.in, c.spec), forecast.SettingOf(c.in, c.spec, known.Of(c.in, c.spec))
	switch {
	case limit.State == workload.Unknown || set.State == workload.Unknown:
		return Change{State: NotKnown}
	case limit.State == workload.Known || set.State == workload.Known:
		return Change{State: Same}
	}
	to, ok := injectedProcs(c, a.o.Floor)
	if !ok {
		return Change{State: NotKnown}
	}
	if c.programs == 0 {
		return Change{State: Changed, To: to}
	}
	switch c.main.SetBy {
	case "image-or-runtime", "runtime", "code", "spec":
		return Change{State: Same, From: c.main.Procs, To: c.main.Procs}
	}
	change := between(c.main.Procs, to)
	change.Scarce = c.counted && c.cpu > float64(to)
	return change
}

// injectedProcs is the number itself. The kubelet turns a request into shares, 1024 for a CPU and 2 at least, and CRI-O uses these.
func injectedProcs(c *container, floor int) (procs int, ok bool) {
	request := c.spec.Request
	if request.State == workload.Absent || request.State == workload.Known && request.Value == 0 {
		request = c.in.Around.DefaultRequest
	}
	if request.State == workload.Unknown || !(request.Value >= 0 && request.Value <= manyCPUs) {
		return 0, false
	}
	milli := math.Ceil(request.Value*1000 - 1e-6)
	shares := min(max(2, math.Floor(milli*1024/1000)), 262144)
	return max(int(math.Ceil(shares*2/1024)), 1, floor), true
}

// repairs are the rules that the admission policy for pods carries out: docs/policy.md.
var repairs = []string{"K001", "K003", "K005", "K006", "K007"}

// policyOf is whether our admission policies would change the pods of a row when they are made. They know no program.
func policyOf(ctx context.Context, r *row) (Change, error) {
	if r.first.Namespace == kubeSystem {
		return Change{State: Same}, nil
	}
	for _, v := range r.variants {
		findings, err := lint.Check(ctx, v, lint.Known{})
		if err != nil {
			return Change{}, err
		}
		for _, f := range findings {
			if f.Variable == "GOMAXPROCS" && slices.Contains(repairs, f.Rule) && slices.ContainsFunc(f.Remedies, remedy.Remedy.Changes) {
				return Change{State: Changed}, nil
			}
		}
	}
	return Change{State: Same}, nil
}

// burstable answers OpenShift's question: is a pod burstable, with a container that has neither a CPU limit nor a GOMAXPROCS of
// its own? nil: unknown.
func burstable(r *row) *bool {
	unknown := false
	for _, v := range r.variants {
		switch quality(v) {
		case "":
			unknown = true
			continue
		case "Burstable":
		default:
			continue
		}
		pod := forecast.For(v)
		for i := range v.Pod.Containers {
			c := &v.Pod.Containers[i]
			if c.Role == workload.Init {
				continue
			}
			limit, set := forecast.LimitOf(v, c), pod.Setting(c, binary.Binary{})
			if limit.State == workload.Absent && set.State == workload.Absent {
				return new(true)
			}
			unknown = unknown || limit.State == workload.Unknown || limit.State == workload.Absent && set.State == workload.Unknown
		}
	}
	if unknown {
		return nil
	}
	return new(false)
}

// quality is the quality of service that Kubernetes gives a pod: Guaranteed, Burstable or BestEffort; "": not known.
func quality(w *workload.Workload) string {
	given, equal := false, true
	for i := range w.Pod.Containers {
		c := &w.Pod.Containers[i]
		limit := forecast.LimitOf(w, c)
		for _, amount := range []workload.Amount{c.Limit, c.Request, c.Memory, c.MemoryRequest} {
			if amount.State == workload.Unknown {
				return ""
			}
			given = given || amount.State == workload.Known && amount.Value > 0
		}
		given = given || limit.State == workload.Known
		same := func(limit, request workload.Amount) bool {
			return limit.State == workload.Known && limit.Value > 0 && (request.State == workload.Absent || request.Value == limit.Value)
		}
		equal = equal && same(c.Limit, c.Request) && same(c.Memory, c.MemoryRequest)
	}
	pod := w.Pod.Limit.State == workload.Known || w.Pod.Request.State == workload.Known
	switch {
	case equal && given:
		return "Guaranteed"
	case given || pod:
		return "Burstable"
	}
	return "BestEffort"
}
