package report

import (
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
)

// TestPsVerdict holds the first line: of how many programs the number is wrong comes before all else.
func TestPsVerdict(t *testing.T) {
	found := func(rule, verdict string, s finding.Severity) PsProcess {
		return PsProcess{Verdict: verdict, Severity: &s, Findings: []finding.Finding{{Rule: rule, Verdict: verdict, Severity: s}}}
	}
	many, few := found("too-many-ps", "too many Ps", finding.Critical), found("too-few-ps", "too few Ps", finding.Warning)
	throttled, spin := found("throttled", "throttled", finding.Warning), found("sweeper-spin", "sweeper spin", finding.Warning)
	stays := found("not-following", "not following", finding.Info)
	for want, d := range map[string]*Ps{
		"none: No Go program was found.":                                                 {Looked: 9},
		"none: No Go program that this user may look into.":                              {Looked: 9, Refused: 3},
		"fine: Nothing wrong was found with 2 Go programs.":                              {Processes: make([]PsProcess, 2)},
		"wrong: The one Go program has a wrong GOMAXPROCS.":                              {Processes: []PsProcess{many}},
		"wrong: 2 of 3 Go programs have a wrong GOMAXPROCS. Of the others 1: throttled.": {Processes: []PsProcess{many, few, throttled}},
		"found: 1 of 2 Go programs has a finding: not following.":                        {Processes: []PsProcess{stays, {}}},
		"found: 4 of 4 Go programs have a finding.":                                      {Processes: []PsProcess{stays, spin, throttled, throttled}},
	} {
		v := d.Verdict()
		if n := quantity.Words(v.Text); n > HeadlineWords {
			t.Errorf("%d words: %s", n, v.Text)
		}
		if got := v.Word + ": " + strings.Join(append([]string{v.Text}, v.Also...), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
