package view

import (
	"fmt"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

func psDocument() *report.Ps {
	found := func(rule, verdict string, s finding.Severity) finding.Finding {
		return finding.Finding{
			Rule: rule, Verdict: verdict, Severity: s, Summary: "one sentence that says what it is, long enough to be broken on a narrow screen",
			Evidence: []string{"the first evidence", "the second one, which is rather longer than the first one was, and has to be broken"}, Fix: "what mends it",
		}
	}
	procs := func(n int, proof, source string) report.PsGOMAXPROCS {
		return report.PsGOMAXPROCS{Value: &n, Proof: proof, Source: source}
	}
	limited := func(n float64) report.Limit { return report.Limit{State: "limited", CPUs: &n} }
	with := func(p report.PsProcess, findings ...finding.Finding) report.PsProcess {
		p.Verdict, p.Findings = "fine", findings
		if len(findings) > 0 {
			p.Verdict, p.Severity = findings[0].Verdict, &findings[0].Severity
		}
		return p
	}
	return &report.Ps{
		Seconds: 2.004, System: report.PsSystem{CPUs: 8, Busy: ptr(3.456)}, Looked: 120, Refused: 3,
		Processes: []report.PsProcess{
			with(report.PsProcess{
				PID: 4711, Name: "agent", GoVersion: "go1.24.13", GOMAXPROCS: procs(192, "live", "cpus"), Limit: limited(1), CPUs: 192,
				Share: ptr(1.0), Frozen: &report.Frozen{Share: 0.98, Exact: true}, CPU: ptr(0.999),
			}, found("too-many-ps", "too many Ps", finding.Critical), found("throttled", "throttled", finding.Warning)),
			with(report.PsProcess{
				PID: 31, Name: "a program with a very long name", GoVersion: "go1.26.8", GOMAXPROCS: procs(4, "live", "automaxprocs"), Limit: limited(4.5), CPUs: 8,
				Share: ptr(0.004), Frozen: &report.Frozen{Share: 0.001, Exact: true}, CPU: ptr(2.0),
			}, found("not-following", "not following", finding.Info)),
			with(report.PsProcess{
				PID: 100200, Name: "evil\x1b[2J\n", GoVersion: "go1.26.8\x1b", GOMAXPROCS: procs(2, "predicted", "limit"), Limit: limited(0.5), CPUs: 8,
				Share: ptr(0.5), Frozen: &report.Frozen{Share: 0.25}, CPU: ptr(0.5),
			}, found("throttled", "throttled", finding.Critical)),
			with(report.PsProcess{PID: 5, Name: "c-host", Limit: report.Limit{State: "none"}}),
			with(report.PsProcess{PID: 6, Name: "idle", GoVersion: "go1.27.3", GOMAXPROCS: procs(8, "live", "cpus"), Limit: report.Limit{State: "unknown"}, CPUs: 8, CPU: ptr(0.0)}),
		},
	}
}

func TestPs(t *testing.T) {
	s := Ps(psDocument())
	golden(t, "ps", s)
	shown(t, s)
	screen(t, "ps", s)
}

// The live table has no more rows than it is given.
func TestPsLook(t *testing.T) {
	for _, tt := range []struct{ rows, want, more int }{{0, 5, 0}, {5, 5, 0}, {3, 2, 3}, {100, 5, 0}} {
		table := PsLook(psDocument(), tt.rows).Sections[0].Blocks[0].(*sheet.Table)
		if len(table.Rows) != tt.want || (tt.more > 0) != (len(table.Notes) > 0) {
			t.Errorf("%d rows: got %d and %v", tt.rows, len(table.Rows), table.Notes)
		}
		if want := fmt.Sprintf("… %d more processes", tt.more); tt.more > 0 && table.Notes[0].Text != want {
			t.Errorf("got %q, want %q", table.Notes[0].Text, want)
		}
	}
	if text := shown(t, PsLook(&report.Ps{Looked: 7}, 10)); text != "no Go programs among 7 processes\n" {
		t.Errorf("got %q", text)
	}
}
