package audit

import (
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// TestInjected is CRI-O's rule: twice the shares, in CPUs, rounded up.
func TestInjected(t *testing.T) {
	for _, c := range []struct {
		name      string
		container workload.Container
		floor     int
		skip      bool
		seen      func(*Program)
		want      Change
	}{
		{name: "best effort", container: app(0, 0, ""), want: Change{State: Changed, To: 1}},
		{name: "100m", container: app(0, 0.1, ""), want: Change{State: Changed, To: 1}},
		{name: "500m", container: app(0, 0.5, ""), want: Change{State: Changed, To: 1}},
		{name: "501m", container: app(0, 0.501, ""), want: Change{State: Changed, To: 2}},
		{name: "2500m", container: app(0, 2.5, ""), want: Change{State: Changed, To: 5}},
		{name: "a floor", container: app(0, 0.5, ""), floor: 4, want: Change{State: Changed, To: 4}},
		{name: "a floor below it", container: app(0, 8, ""), floor: 4, want: Change{State: Changed, To: 16}},
		{name: "a limit", container: app(1, 0.5, ""), want: Change{State: Same}},
		{name: "set", container: app(0, 0.5, "4"), want: Change{State: Same}},
		{name: "an annotation", container: app(0, 0.5, ""), skip: true},
		{name: "seen", container: app(0, 0.5, ""), seen: func(p *Program) { p.CPU = new(0.9) }, want: Change{State: Changed, From: 16, To: 1}},
		{name: "seen to use more", container: app(0, 0.5, ""), seen: func(p *Program) { p.CPU = new(1.4) }, want: Change{State: Changed, From: 16, To: 1, Scarce: true}},
		{name: "injected before", container: app(0, 0.5, ""), seen: func(p *Program) { p.SetBy = "runtime" }, want: Change{State: Same, From: 16, To: 16}},
	} {
		w := deployment("api", c.container)
		if c.skip {
			w.Pod.Annotations = map[string]string{skipCRIO: "true"}
		}
		a := New(running(1, w), lint.Known{}, Options{Floor: c.floor})
		if c.seen != nil {
			a.Saw("node-0", seen("api", 0, c.seen))
		}
		if got := only(t, a).CRIO; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestRebuilt: what a build with Go 1.26 would change, and what sets GOMAXPROCS anyhow.
func TestRebuilt(t *testing.T) {
	old := &binary.Set{}
	old.All(binary.Binary{Known: true, Program: procs.Built("go1.24.0", "1.24 or later")})
	for _, c := range []struct {
		name      string
		container workload.Container
		known     lint.Known
		seen      func(*Program)
		want      Change
	}{
		{name: "an old one", container: app(1, 0, ""), seen: func(*Program) {}, want: Change{State: Changed, From: 16, To: 2}},
		{name: "a limit of three", container: app(3, 0, ""), seen: func(p *Program) { p.Limit = 2.5 }, want: Change{State: Changed, From: 16, To: 3}},
		{name: "no limit", container: app(0, 0, ""), seen: func(p *Program) { p.Limit = 0 }, want: Change{State: Same, From: 16, To: 16}},
		{name: "set by the spec", container: app(1, 0, "16"), seen: func(p *Program) { p.SetBy = "spec" }, want: Change{State: Same, From: 16, To: 16}},
		{name: "set by code", container: app(1, 0, ""), seen: func(p *Program) { p.SetBy = "code" }, want: Change{State: Same, From: 16, To: 16}},
		{name: "CPUs not known", container: app(1, 0, ""), seen: func(p *Program) { p.CPUs = 0 }, want: Change{State: NotKnown, From: 16}},
		{name: "nobody knows the program", container: app(1, 0, ""), want: Change{State: NotKnown}},
		{name: "a program that is named", container: app(1, 0, ""), known: lint.Known{Binaries: old, Nodes: []int{8}}, want: Change{State: Changed, From: 8, To: 2}},
	} {
		a := New(running(1, deployment("api", c.container)), c.known, Options{})
		if c.seen != nil {
			a.Saw("node-0", seen("api", 0, c.seen))
		}
		if got := only(t, a).Go126; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestBurstable is OpenShift's question. The classes are Kubernetes' own.
func TestBurstable(t *testing.T) {
	memory := func(c workload.Container, limit, request float64) workload.Container {
		c.Memory, c.MemoryRequest = cpus(limit), cpus(request)
		return c
	}
	unknown := app(0, 0.5, "4")
	unknown.Env[0].State = workload.Unknown
	for _, c := range []struct {
		name       string
		containers []workload.Container
		quality    string
		want       string
	}{
		{"nothing is asked for", []workload.Container{app(0, 0, "")}, "BestEffort", "no"},
		{"a request", []workload.Container{app(0, 0.5, "")}, "Burstable", "yes"},
		{"memory alone", []workload.Container{memory(app(0, 0, ""), 0, 1e6)}, "Burstable", "yes"},
		{"a limit", []workload.Container{app(1, 0.5, "")}, "Burstable", "no"},
		{"one of two has a limit", []workload.Container{app(1, 0.5, ""), app(0, 0, "")}, "Burstable", "yes"},
		{"set", []workload.Container{app(0, 0.5, "4")}, "Burstable", "no"},
		{"guaranteed", []workload.Container{memory(app(1, 1, ""), 1e6, 1e6)}, "Guaranteed", "no"},
		{"guaranteed, requests by default", []workload.Container{memory(app(1, 0, ""), 1e6, 0)}, "Guaranteed", "no"},
		{"set by nobody knows what", []workload.Container{unknown}, "Burstable", "?"},
	} {
		w := deployment("api", c.containers...)
		if got := quality(w); got != c.quality {
			t.Errorf("%s: %s, want %s", c.name, got, c.quality)
		}
		got := "?"
		if b := only(t, start(1, w)).Burstable; b != nil {
			got = map[bool]string{true: "yes", false: "no"}[*b]
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestPolicy: our admission policies know no program, and leave kube-system alone.
func TestPolicy(t *testing.T) {
	for _, c := range []struct {
		procs, namespace string
		want             Changes
	}{{"16", "shop", Changed}, {"limits.cpu", "shop", Changed}, {"2", "shop", Same}, {"", "shop", Same}, {"16", "kube-system", Same}} {
		w := deployment("api", app(1, 0, c.procs))
		w.Namespace = c.namespace
		if got := only(t, start(0, w)).Policy.State; got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
