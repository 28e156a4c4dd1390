package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/sample"
)

// worst is the severity of what checks have found; "": nothing.
func worst(checks []Check) (word string) {
	most := -1
	for _, f := range Found(checks) {
		if int(f.Severity) > most {
			most, word = int(f.Severity), f.Severity.String()
		}
	}
	return word
}

func TestTuneChecks(t *testing.T) {
	for name, want := range map[string]string{
		"change": "warning", "gogc": "warning", "trade": "info", "keep": "", "undecided": "", "nothing": "",
		"loads":  "warning", // of one load it is to keep what is
		"limits": "",        // Go's default is advised
	} {
		data, err := os.ReadFile(filepath.Join("testdata", "tune-"+name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := Read(data)
		if err != nil {
			t.Fatal(err)
		}
		if got := worst(doc.(*Tune).Checks()); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestBenchChecks(t *testing.T) {
	versus := func(v sample.Verdict) *BenchComparison {
		return &BenchComparison{Comparison: sample.Comparison{Verdict: v}}
	}
	for _, c := range []struct {
		figure, cost *BenchComparison
		want         string
	}{
		{versus(sample.VerdictBetter), versus(sample.VerdictSame), ""},
		{versus(sample.VerdictWorse), nil, "warning"},
		{versus(sample.VerdictBetter), versus(sample.VerdictWorse), "warning"},
		{versus(sample.VerdictUndecided), nil, "info"},
		{versus(sample.VerdictWorse), versus(sample.VerdictTooFew), "warning"},
	} {
		d := Bench{Groups: []BenchGroup{{Settings: []BenchRow{{}, {Versus: c.figure, CostVersus: c.cost}}}}}
		checks := d.Checks()
		if got := worst(checks); got != c.want || len(checks) != 1 {
			t.Errorf("%+v: %q of %d, want %q", c, got, len(checks), c.want)
		}
	}
}

func TestRuleChecks(t *testing.T) {
	d := Ps{Processes: []PsProcess{
		{PID: 7, Name: "api", Findings: []finding.Finding{{Verdict: "too many Ps", Severity: finding.Warning}, {Verdict: "throttled"}}},
		{PID: 8, Name: "fine"},
	}}
	checks := d.Checks()
	if len(checks) != 3 || checks[0].About != "api, pid 7" || checks[0].Name != "too many Ps" || checks[2].Found != nil || worst(checks) != "warning" {
		t.Errorf("%+v", checks)
	}
	if c := (&Run{Command: []string{"x"}, ExitCode: 3}).Checks(); worst(c) != "critical" {
		t.Errorf("%+v", c)
	}
	if c := (&Run{Command: []string{"x"}}).Checks(); worst(c) != "" {
		t.Errorf("%+v", c)
	}
}
