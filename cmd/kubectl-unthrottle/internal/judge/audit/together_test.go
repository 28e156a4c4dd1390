package audit

import (
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
)

// TestTogether: the workloads of two clusters are sorted as one's, the totals are of both, and each command goes to its own.
func TestTogether(t *testing.T) {
	one := func(name string, v Verdict, pods int) *Result {
		w := &Workload{Kind: "Deployment", Namespace: "shop", Name: name, Verdict: v, Pods: pods, Cost: Cost{Programs: 1}, Fix: &Fix{Command: "kubectl patch deployment " + name}}
		if v == Wrong {
			w.Findings = []*Finding{{Finding: finding.Finding{Rule: "throttled", Verdict: "throttled", Severity: finding.Warning}, Holds: HoldsNow, Pods: pods}}
		}
		return &Result{Workloads: []*Workload{w}}
	}
	east, west, south := one("api", Wrong, 2), one("web", Wrong, 3), one("idle", Fine, 1)
	east.In("east")
	west.In("admin's west")
	south.In("arn:aws:eks:eu-1:123:cluster/south")
	r := Together([]*Result{south, east, west}, Options{Floor: 1})
	if n := len(r.Workloads); n != 3 {
		t.Fatalf("%d workloads", n)
	}
	for i, want := range []struct{ name, command string }{
		{"Deployment/web in shop of admin's west", `kubectl --context 'admin'\''s west' patch deployment web`},
		{"Deployment/api in shop of east", "kubectl --context east patch deployment api"},
		{"Deployment/idle in shop of arn:aws:eks:eu-1:123:cluster/south", "kubectl --context arn:aws:eks:eu-1:123:cluster/south patch deployment idle"},
	} {
		if w := r.Workloads[i]; w.String() != want.name || w.Fix.Command != want.command {
			t.Errorf("%s, %s", w, w.Fix.Command)
		}
	}
	x := r.Totals
	if x.Workloads != 3 || x.Pods != 6 || x.Programs != 3 || x.Verdicts[Wrong] != 2 || len(x.Causes) != 1 || x.Causes[0].Workloads != 2 || x.Causes[0].Pods != 5 || x.Floor != 1 {
		t.Errorf("%+v", x)
	}
}
