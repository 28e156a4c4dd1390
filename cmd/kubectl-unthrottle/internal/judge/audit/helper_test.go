package audit

import (
	"fmt"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// cpus is an amount; 0: none.
func cpus(v float64) workload.Amount {
	if v == 0 {
		return workload.Amount{}
	}
	return workload.Amount{Value: v, State: workload.Known}
}

// app is a container with a limit and a request, and a GOMAXPROCS unless that is "".
func app(limit, request float64, procs string) workload.Container {
	c := workload.Container{
		Name: "app", Image: "registry.example.com/app:1", Role: workload.Main, Limit: cpus(limit), Request: cpus(request),
		At: workload.Position{Path: "spec.template.spec.containers[0]"},
	}
	switch procs {
	case "":
	case "limits.cpu":
		c.Env = []workload.Variable{{
			Name: "GOMAXPROCS", At: workload.Position{Path: c.At.Path + ".env[1]"}, Form: workload.ResourceRef, Text: procs, Resource: procs, Divisor: "1m",
		}}
	default:
		c.Env = []workload.Variable{{
			Name: "GOMAXPROCS", At: workload.Position{Path: c.At.Path + ".env[1]"}, Form: workload.Literal, Text: procs, Value: procs, State: workload.Known,
		}}
	}
	return c
}

func deployment(name string, containers ...workload.Container) *workload.Workload {
	return &workload.Workload{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: name, Pod: workload.Pod{Containers: containers}}
}

// running is a cluster with some pods of each workload, one on a node.
func running(pods int, all ...*workload.Workload) *cluster.Found {
	f := &cluster.Found{Server: "https://10.0.0.1:6443", Workloads: all}
	for _, w := range all {
		for i := range pods {
			name := fmt.Sprintf("%s-%d", w.Name, i)
			f.Pods = append(f.Pods, cluster.Pod{Namespace: w.Namespace, Name: name, UID: "uid-" + name, Node: fmt.Sprintf("node-%d", i), Of: w})
			w.Copies++
		}
	}
	return f
}

// seen is a Go program in a pod of a workload: on that pod's node.
func seen(w string, i int, change func(*Program)) Program {
	name := fmt.Sprintf("%s-%d", w, i)
	p := Program{
		Namespace: "shop", Pod: name, UID: "uid-" + name, Container: "app", GoVersion: "go1.24.3", GoLine: "1.24 or later", Procs: 16, Expected: 2,
		SetBy: "default", Limit: 1, Level: "container", CPUs: 16, CPU: new(0.5), Running: new(2.0), Spinning: new(1.5), Frozen: new(0.4), Throttled: new(0.9),
		Findings: []finding.Finding{found("too-many-ps", finding.Critical)},
	}
	if change != nil {
		change(&p)
	}
	return p
}

func found(rule string, s finding.Severity) finding.Finding {
	return finding.Finding{Rule: rule, Verdict: rule, Severity: s, Summary: rule + " was found", Fix: "do something about " + rule}
}

func resultOf(t *testing.T, a *Audit) *Result {
	t.Helper()
	r, err := a.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// only is the one workload of an audit.
func only(t *testing.T, a *Audit) *Workload {
	t.Helper()
	r := resultOf(t, a)
	if len(r.Workloads) != 1 {
		t.Fatalf("%d workloads", len(r.Workloads))
	}
	return r.Workloads[0]
}

func start(pods int, all ...*workload.Workload) *Audit {
	return New(running(pods, all...), lint.Known{}, Options{})
}
