package report

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
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
		"not known: No wrong GOMAXPROCS was found; throttling was not measured.":         {Processes: []PsProcess{{Verdict: NotKnown}}},
		"not known: Nothing wrong was found; 1 of 2 Go programs can't be judged.":        {Seconds: 2, Processes: []PsProcess{{Verdict: NotKnown}, {}}},
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

// TestPsPod: the path of a process's cgroup says which pod it is in, or the document has no pod.
func TestPsPod(t *testing.T) {
	uid, id := "2d5133c0-65f3-40b2-b375-c04866d418e1", strings.Repeat("e01a2633", 8)
	for path, want := range map[string]string{
		"/kubepods/burstable/pod" + uid + "/" + id: `,"pod":{"uid":"` + uid + `","container_id":"` + id + `","runtime":""},`,
		"/../cri-containerd-" + id + ".scope":      `,"pod":{"uid":"","container_id":"` + id + `","runtime":"containerd"},`,
		"/docker/" + id:                            "",
	} {
		var p host.Process
		p.System.Limits.Path = path
		data, err := json.Marshal(NewPs(host.Result{Processes: []host.Process{p}}))
		if err != nil || strings.Contains(string(data), `"pod"`) != (want != "") || !strings.Contains(string(data), want) {
			t.Errorf("%s: %v, %s", path, err, data)
		}
	}
}
