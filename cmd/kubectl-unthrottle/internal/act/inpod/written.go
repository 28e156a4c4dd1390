package inpod

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/forecast"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// written is what the pod's spec and status say about a container's GOMAXPROCS, by what lint and forecast know. unmeasured is why the
// program was not looked at.
func (p *Pod) written(ctx context.Context, at *pod, name string, unmeasured error) (*Done, error) {
	s, err := p.spec(ctx, at, name)
	if err != nil {
		return nil, err
	}
	w, c := s.workload, s.container
	d := &report.Explain{
		Header:  verb.NewHeader("explain"),
		Subject: report.Subject{Name: "container " + name + " of pod " + p.Name}, Unmeasured: &report.Unmeasured{Why: unmeasured.Error()},
		Findings: []finding.Finding{}, Choices: []report.Choice{}, Warnings: at.doubts(name),
	}
	for _, problem := range s.problems {
		d.Warnings = append(d.Warnings, problem.At.Path+": "+problem.Text)
	}
	d.Unmeasured.NodeCPUs = p.nodeCPUs(ctx, at.Spec.NodeName)
	known := lint.Known{Binaries: &binary.Set{}}
	if n := d.Unmeasured.NodeCPUs; n > 0 {
		known.Nodes = []int{n}
	}
	if s.was != "" {
		d.Warnings = append(d.Warnings, fmt.Sprintf("its spec has a CPU limit of %s, and its status still one of %s, which is in force", s.was, c.Limit.Text))
	}
	findings, err := lint.Check(ctx, w, known)
	if err != nil {
		return nil, err
	}
	for _, f := range findings {
		if f.Container == name || f.Container == "" && len(w.Pod.Containers) == 1 { // what is said about a pod may be about another container
			d.Findings = append(d.Findings, f.Finding)
		}
	}
	slices.SortStableFunc(d.Findings, func(a, b finding.Finding) int { return int(b.Severity) - int(a.Severity) })
	foretell(d, forecast.For(w).Of(c, binary.Binary{}, known.Nodes), at.resizedSince(name))
	d.Memory = memory(at, c)
	document, err := json.Marshal(d)
	return &Done{Document: document, Unmeasured: unmeasured}, err
}

// A spec is that of a container, with the limit that its status says is in force.
type spec struct {
	workload  *workload.Workload
	container *workload.Container
	problems  []manifest.Problem
	was       string // the limit as its spec has it, if that is not in force
}

// spec reads a container's.
func (p *Pod) spec(ctx context.Context, at *pod, name string) (*spec, error) {
	w, problems, err := cluster.ReadPod(ctx, p.REST, at.data)
	if err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", p.Name, err)
	}
	i := slices.IndexFunc(w.Pod.Containers, func(c workload.Container) bool { return c.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("reading pod %s: there is no container %s in it", p.Name, name)
	}
	s := &spec{workload: w, container: &w.Pod.Containers[i], problems: problems}
	if was, now, ok := at.resized(name, s.container.Limit.Text); ok {
		s.was, s.container.Limit.Text = was, now
		s.container.Limit.Value, _ = quantity.ParseCPUs(now)
	}
	return s, nil
}

// foretell fills in the limit, and the GOMAXPROCS that a program has. resized says that the limit was another one when it started.
func foretell(d *report.Explain, f forecast.Forecast, resized bool) {
	d.Limit.Levels = []report.Level{}
	switch f.Limit.State {
	case workload.Known:
		d.Limit.State, d.Limit.CPUs, d.Limit.From = "limited", &f.Limit.CPUs, "resources.limits of the "+string(f.Limit.Of)
	case workload.Unknown:
		d.Limit.State, d.Limit.Reason = "unknown", f.Limit.Unknown
	default:
		d.Limit.State = "none"
	}
	g := &d.GOMAXPROCS
	g.Predicted, g.Proof = true, report.ProofPredicted
	if f.Setting.State == workload.Unknown {
		g.Why = "its environment is not known: " + f.Setting.Unknown
		return
	}
	if resized && f.Setting.Var != nil && f.Setting.Var.Form == workload.ResourceRef {
		g.Why = f.Setting.From + " as it was when the container started; the pod was resized since"
		return
	}
	if resized && !f.Setting.Valid() {
		d.Warnings = append(d.Warnings, "the pod was resized after the container had started: what does not follow its limit has another GOMAXPROCS")
	}
	if f.Setting.Valid() {
		line := f.Lines[0] // they are all alike
		g.Source, g.Why = string(choice.FromEnvironment), line.Why
		if v := f.Setting.Var; v != nil && v.Form == workload.Literal {
			g.Why = "GOMAXPROCS=" + f.Setting.Value + " in its environment"
		}
		if line.Procs > 0 {
			g.Value, g.Expected = &line.Procs, &line.Procs
		}
		return
	}
	g.Why = "not set in its environment, as far as its pod says; the program's Go and its libraries choose"
	for _, l := range f.Lines {
		c := report.Choice{Rule: l.Kind, Procs: l.Procs, All: l.All && l.Procs == 0, Wrong: l.Wrong, Fix: l.Fix}
		if l.Wrong {
			c.Why = l.Why
		}
		if l.Sees > 0 {
			c.Limit = &l.Sees
		}
		d.Choices = append(d.Choices, c)
	}
}

// memory is the container's limit, and what its environment says about the heap.
func memory(at *pod, c *workload.Container) report.Memory {
	m := report.Memory{State: "unknown"}
	switch {
	case c.Memory.State == workload.Known && c.Memory.Value > 0:
		m.State, m.Bytes = "limited", int64(c.Memory.Value)
	case c.Memory.State == workload.Absent && at.Spec.Resources.Limits["memory"] == "":
		m.State = "none"
	}
	m.GOMEMLIMIT, _ = forecast.Value(c, binary.Binary{}, "GOMEMLIMIT")
	m.GOGC, _ = forecast.Value(c, binary.Binary{}, "GOGC")
	return m
}

// nodeCPUs is how many CPUs a node has; 0: unknown, as for a user who may not look at nodes.
func (p *Pod) nodeCPUs(ctx context.Context, name string) int {
	if name == "" {
		return 0
	}
	data, err := cluster.Raw(ctx, p.REST.Get().AbsPath("/api/v1/nodes/"+url.PathEscape(name)))
	if err != nil {
		return 0
	}
	var node struct {
		Status struct {
			Capacity struct{ CPU string }
		}
	}
	if json.Unmarshal(data, &node) != nil {
		return 0
	}
	cpus, err := quantity.ParseCPUs(node.Status.Capacity.CPU)
	if err != nil {
		return 0
	}
	return int(cpus)
}
