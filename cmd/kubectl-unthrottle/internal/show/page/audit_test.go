package page

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/ci"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// audited is an audit of some workloads, with an agent and Prometheus.
func audited(t testing.TB) *result.Audit {
	plain := func(name string, limit, request float64) workload.Container {
		c := workload.Container{Name: "app", Image: "registry.example.com/" + name + ":1", Role: workload.Main, At: workload.Position{Path: "spec.template.spec.containers[0]"}}
		if limit > 0 {
			c.Limit = workload.Amount{Value: limit, State: workload.Known}
		}
		if request > 0 {
			c.Request = workload.Amount{Value: request, State: workload.Known}
		}
		return c
	}
	pinned := plain("pinned", 1, 0)
	pinned.Env = []workload.Variable{{
		Name: "GOMAXPROCS", At: workload.Position{Path: "spec.template.spec.containers[0].env[0]"}, Form: workload.Literal, Text: "16", Value: "16", State: workload.Known,
	}}
	quiet := plain("quiet", 1, 0)
	quiet.Env = pinned.Env
	nginx := plain("nginx", 1, 0)
	nginx.Image = "nginx:1"
	found := &cluster.Found{Context: "prod", Server: "https://10.0.0.1:6443", Objects: 61}
	for _, one := range []struct {
		kind, name string
		c          workload.Container
		pods       int
	}{
		{"Deployment", "api", plain("api", 1, 0), 3},
		{"StatefulSet", "pinned", pinned, 2},
		{"Deployment", "perhaps", plain("perhaps", 2, 0), 1},
		{"DaemonSet", "web", nginx, 2},
		{"Deployment", "burst", plain("burst", 0, 0.5), 1},
		{"Deployment", "good", plain("good", 2, 0), 1},
		{"Deployment", "old", plain("old", 2, 0), 1},
		{"StatefulSet", "quiet", quiet, 1},
	} {
		w := &workload.Workload{APIVersion: "apps/v1", Kind: one.kind, Namespace: "shop", Name: one.name, Pod: workload.Pod{Containers: []workload.Container{one.c}}}
		if one.name == "old" {
			w.Labels = map[string]string{"argocd.argoproj.io/instance": "web"}
		}
		found.Workloads = append(found.Workloads, w)
		for i := range one.pods {
			name := one.name + "-" + string(rune('a'+i))
			found.Pods = append(found.Pods, cluster.Pod{Namespace: "shop", Name: name, UID: name, Node: "node-1", Of: w})
		}
	}
	a := audit.New(found, lint.Known{}, audit.Options{})
	for _, pod := range []string{"api-a", "api-b"} {
		a.Saw("node-1", audit.Program{
			Namespace: "shop", Pod: pod, UID: pod, Container: "app", GoVersion: "go1.24.3", GoLine: "1.24 or later", Procs: 16, Expected: 2, SetBy: "default", Limit: 1,
			Level: "container", CPUs: 16, CPU: new(0.8), Running: new(4.0), Spinning: new(2.0), Frozen: new(0.44), Throttled: new(0.9),
			Findings: []finding.Finding{{
				Rule: "too-many-ps", Verdict: "too many Ps", Severity: finding.Critical, Summary: "GOMAXPROCS is 16 under a limit of 1 CPU",
				Evidence: []string{"set by the Go runtime, from the number of CPUs"}, Fix: "build with Go 1.25 or later",
			}},
		})
	}
	a.Saw("node-1", audit.Program{
		Namespace: "shop", Pod: "good-a", UID: "good-a", Container: "app", GoVersion: "go1.26.0", GoLine: "1.26 or later", Procs: 2, Expected: 2, SetBy: "default", Limit: 2, CPUs: 16, CPU: new(0.3),
	})
	a.Saw("node-1", audit.Program{
		Namespace: "shop", Pod: "old-a", UID: "old-a", Container: "app", GoVersion: "go1.24.3", GoLine: "1.24 or later", Procs: 2, Expected: 2, SetBy: "default", Limit: 2, CPUs: 2, CPU: new(0.3),
	})
	a.History(audit.History{Namespace: "shop", Pod: "pinned-a", Container: "app", Procs: 16, GoVersion: "go1.25.1", CPU: new(0.9), Periods: 864000, ThrottledPeriods: 432000})
	joined, err := a.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, made := range joined.FromGit() {
		made.Owner.Repository, made.Owner.Path = "https://git.example.com/fleet.git", "apps/shop"
	}
	d := result.NewAudit(found, joined, result.AuditAgents{
		Asked: true, Found: 2, Answered: 1, Programs: 4, Failed: []result.AuditFailure{{Agent: "unthrottle/agent-b", Node: "node-2", Why: "timed out"}},
	}, &result.AuditPrometheus{URL: "http://prometheus:9090", Since: 86400, Series: 7, Joined: 1, Empty: []string{}}, []result.Problem{{
		At: "agent agent-b in unthrottle, on node node-2", Severity: string(manifest.Error), Text: "no usable answer: timed out", Hint: "kubectl logs shows what it does",
	}})
	d.Header = report.Header{Version: report.Version, Verb: "audit", MadeBy: "unthrottle test", Time: "2026-11-23T00:00:00Z"}
	d.Top = 20
	return d
}

// TestAudit holds all formats to their files.
func TestAudit(t *testing.T) {
	d := audited(t)
	for name, write := range map[string]func(io.Writer) error{
		"audit.txt":        func(w io.Writer) error { return render.Text(w, Audit(d), render.Style{}) },
		"audit-narrow.txt": func(w io.Writer) error { return render.Text(w, Audit(d), render.Style{Width: 100}) },
		"audit.md":         func(w io.Writer) error { return render.Markdown(w, Audit(d)) },
		"audit.html":       func(w io.Writer) error { return render.HTML(w, Audit(d)) },
		"audit.csv":        func(w io.Writer) error { return AuditCSV(w, d) },
		"audit.json":       func(w io.Writer) error { return report.WriteJSON(w, d) },
		"audit.sarif":      func(w io.Writer) error { return ci.SARIF(w, "test", d.Checks()) },
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			got := b.String()
			if name == "audit.html" { // its style and the document have tests of their own
				got = regexp.MustCompile(`(?s)<(style|script).*?</(style|script)>`).ReplaceAllString(got, "")
			}
			golden := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != strings.ReplaceAll(string(want), "\r\n", "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestAuditHeadlines: the answer has at most twelve words.
func TestAuditHeadlines(t *testing.T) {
	const now, written, elsewhere = audit.HoldsNow, audit.HoldsWritten, audit.HoldsElsewhere
	for _, c := range []struct {
		now, written, elsewhere, open, fine, nobody int
		measured                                    int
		causes                                      []audit.Cause
		namespace, want                             string
	}{
		{namespace: "shop", want: "No workload was found in namespace shop."},
		{want: "No workload was found in the cluster."},
		{now: 1, causes: []audit.Cause{{Rule: "K005", Holds: now}}, want: "1 of 1 workload has a wrong GOMAXPROCS now."},
		{now: 12, fine: 100000, causes: []audit.Cause{{Rule: "stale", Holds: now}}, want: "12 of 100,012 workloads have a wrong GOMAXPROCS now."},
		{now: 12, fine: 8, causes: []audit.Cause{{Rule: "throttled", Holds: now}}, want: "12 of 20 workloads are short of CPU now: throttled, or waiting."},
		{now: 12, fine: 8, causes: []audit.Cause{{Rule: "throttled", Holds: now}, {Rule: "stale", Holds: now}}, want: "12 of 20 workloads have a wrong GOMAXPROCS or lack CPU now."},
		{now: 12, fine: 8, causes: []audit.Cause{{Rule: "throttled", Holds: now}, {Rule: "K005", Holds: written}}, want: "12 of 20 workloads are short of CPU now: throttled, or waiting."},
		{now: 2, fine: 8, causes: []audit.Cause{{Rule: "memory-too-tight", Holds: now}}, want: "2 of 10 workloads have trouble with memory now."},
		{now: 2, fine: 8, causes: []audit.Cause{{Rule: "memory-too-tight", Holds: now}, {Rule: "stale", Holds: now}}, want: "2 of 10 workloads have trouble with CPU or memory now."},
		{now: 1, elsewhere: 3, causes: []audit.Cause{{Rule: "K013", Holds: elsewhere}}, want: "1 of 4 workloads is wrong now, 3 on larger nodes."},
		{now: 1, elsewhere: 3, causes: []audit.Cause{{Rule: "K013", Holds: elsewhere}, {Rule: "K001", Holds: elsewhere}}, want: "1 of 4 workloads is wrong now, 3 elsewhere."},
		{now: 12, written: 3, elsewhere: 1, causes: []audit.Cause{{Rule: "K013", Holds: elsewhere}}, want: "12 of 16 workloads are wrong now, 3 as written, 1 elsewhere."},
		{now: 1, written: 3, want: "1 of 4 workloads is wrong now, 3 as written."},
		{written: 1, fine: 2, want: "1 of 3 workloads is wrong as written; no GOMAXPROCS was measured."},
		{written: 2, fine: 2, measured: 2, want: "2 of 4 workloads are wrong as written, none as measured."},
		{written: 2, elsewhere: 3, measured: 3, want: "2 workloads are wrong as written, 3 elsewhere; none as measured."},
		{elsewhere: 3, fine: 3, measured: 3, causes: []audit.Cause{{Rule: "K003", Holds: elsewhere}}, want: "3 of 6 workloads would be wrong on larger nodes; none now."},
		{elsewhere: 1, fine: 3, measured: 1, causes: []audit.Cause{{Rule: "K005", Holds: elsewhere}}, want: "1 of 4 workloads would be wrong elsewhere; none now."},
		{open: 1, fine: 2, want: "Nothing is known to be wrong; 1 of 3 workloads stays open."},
		{open: 3, fine: 8, want: "Nothing is known to be wrong; 3 of 11 workloads stay open."},
		{fine: 8, want: "Nothing wrong was found in 8 workloads."},
		{fine: 7, nobody: 1, want: "Nothing wrong was found; 1 of 8 workloads can't be judged."},
		{nobody: 8, want: "Nothing wrong was found; 8 of 8 workloads can't be judged."},
	} {
		r := &audit.Result{Totals: audit.Totals{
			Workloads: c.now + c.written + c.elsewhere + c.open + c.fine + c.nobody, Measured: c.measured, Causes: c.causes,
			Verdicts: map[audit.Verdict]int{
				audit.Wrong: c.now, audit.AsWritten: c.written, audit.NotHere: c.elsewhere, audit.Open: c.open, audit.Fine: c.fine, audit.Nobody: c.nobody,
			},
		}}
		d := result.NewAudit(&cluster.Found{Namespace: c.namespace}, r, result.AuditAgents{}, nil, nil)
		if d.Verdict != c.want || quantity.Words(d.Verdict) > report.HeadlineWords {
			t.Errorf("%+v: %q", c, d.Verdict)
		}
	}
}

// TestWhatIf: what would be is shown after what is, and only on request. The documents for programs always have it.
func TestWhatIf(t *testing.T) {
	d := audited(t)
	for name, write := range map[string]func(io.Writer) error{
		"text":     func(w io.Writer) error { return render.Text(w, Audit(d), render.Style{}) },
		"Markdown": func(w io.Writer) error { return render.Markdown(w, Audit(d)) },
		"HTML":     func(w io.Writer) error { return render.HTML(w, Audit(d)) },
	} {
		for _, asked := range []bool{false, true} {
			d.WhatIf = asked
			var b strings.Builder
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			for _, line := range []string{"under Go 1.26", "under CRI-O", "under our policy", "OpenShift asks"} {
				if at := strings.Index(b.String(), line); (at >= 0) != asked || asked && at < strings.Index(b.String(), "Deployment/old in shop") {
					t.Errorf("%s, asked for: %v: %q is at %d", name, asked, line, at)
				}
			}
		}
	}
	var with, without strings.Builder
	if err := report.WriteJSON(&with, d); err != nil {
		t.Fatal(err)
	}
	d.WhatIf = false
	if err := report.WriteJSON(&without, d); err != nil || with.String() != without.String() || !strings.Contains(with.String(), `"under_crio_injection"`) {
		t.Errorf("%v: the document depends on what a screen shows", err)
	}
}

// TestAuditTop: what a screen leaves out is counted.
func TestAuditTop(t *testing.T) {
	d := audited(t)
	d.Top = 1
	var b strings.Builder
	if err := render.Text(&b, Audit(d), render.Style{}); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, "4 workloads more, wrong or open: --top 0 shows all") || strings.Contains(text, "StatefulSet/pinned") {
		t.Error(text)
	}
	// A spreadsheet takes no formula from a cluster.
	d.Workloads[0].Summary = "=1+1"
	b.Reset()
	if err := AuditCSV(&b, d); err != nil || !strings.Contains(b.String(), ",'=1+1,") {
		t.Errorf("%v: %s", err, b.String())
	}
}
