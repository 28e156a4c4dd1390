package render

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
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

func TestPsText(t *testing.T) {
	for name, style := range map[string]Style{"ps": {}, "ps.color": {Color: true}, "ps.80": {Width: 80}, "ps.50": {Width: 50}} {
		var b strings.Builder
		if err := PsText(&b, psDocument(), style); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || b.String() != string(want) {
			t.Errorf("%s: %v; got:\n%s", name, err, b.String())
		}
		if strings.Contains(b.String(), "\x1b[2J") {
			t.Errorf("%s: a name's control characters reach the terminal", name)
		}
	}
}

// The live table has no more lines than the screen.
func TestPsTable(t *testing.T) {
	for _, lines := range []int{0, 3, 5, 100} {
		var b strings.Builder
		if err := PsTable(&b, psDocument(), Style{Width: 200}, lines); err != nil {
			t.Fatal(err)
		}
		rows := strings.Count(b.String(), "\n") - 2 // the empty line and the foot
		more := strings.Contains(b.String(), "… ")
		if lines == 0 || lines == 100 {
			if rows != 6 || more {
				t.Errorf("%d lines: %d rows\n%s", lines, rows, b.String())
			}
			continue
		}
		if hidden := fmt.Sprintf("… %d more process", 6-lines+2); rows >= lines || !strings.Contains(b.String(), hidden) {
			t.Errorf("%d lines: %d rows, %q\n%s", lines, rows, hidden, b.String())
		}
	}
	var b strings.Builder
	if err := PsTable(&b, &report.Ps{Looked: 7}, Style{}, 10); err != nil || b.String() != "no Go programs among 7 processes\n" {
		t.Errorf("%v: %q", err, b.String())
	}
}
