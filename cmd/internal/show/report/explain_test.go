package report

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

func limited(cpus float64) choice.System {
	l := cgroup.Limits{State: cgroup.Limited, CPUs: cpus, From: "/sys/fs/cgroup/a", Affinity: 8, Version: cgroup.V2}
	return choice.System{Limits: l, Inside: l}
}

// in is a process in a system.
func in(s choice.System, p procs.Process) host.Process {
	return host.Process{Process: p, System: s, Prediction: s.Predict(p)}
}

func TestExplainWarnings(t *testing.T) {
	old := map[string]string{"containermaxprocs": "0", "updatemaxprocs": "0", "tlssha1": "1"}
	tests := []struct {
		name  string
		facts Facts
		want  []string // a part of each warning
	}{
		{"nothing", Facts{Process: in(limited(2), procs.Process{})}, nil},
		{
			"unreadable environment",
			Facts{Process: in(limited(2), procs.Process{EnvErr: errors.New("permission denied")})},
			[]string{"its environment can't be read, so GOMAXPROCS and GODEBUG in it are not known: permission denied"},
		},
		{
			"passed over",
			Facts{Process: in(limited(2), procs.Process{Program: &procs.Program{GoVersion: "go1.26.8"}, Env: map[string]string{"GOMAXPROCS": "2500m"}})},
			[]string{`GOMAXPROCS="2500m" in its environment is ignored`},
		},
		{
			"empty and good ones are not worth a warning",
			Facts{Process: in(limited(2), procs.Process{Program: &procs.Program{GoVersion: "go1.26.8"}, Env: map[string]string{"GOMAXPROCS": ""}})},
			nil,
		},
		{
			"automaxprocs freezes",
			Facts{Process: in(limited(2), procs.Process{Program: &procs.Program{GoVersion: "go1.26.8", Automaxprocs: procs.Imported}})},
			[]string{"automaxprocs ends the runtime's automatic updates"},
		},
		{
			"automaxprocs leaves alone what the environment names",
			Facts{Process: in(limited(2), procs.Process{
				Program: &procs.Program{GoVersion: "go1.26.8", Automaxprocs: procs.Imported}, Env: map[string]string{"GOMAXPROCS": "3"},
			})},
			nil,
		},
		{
			"nothing to freeze",
			Facts{Process: in(limited(2), procs.Process{Program: &procs.Program{GoVersion: "go1.24.1", Automaxprocs: procs.Imported}})},
			nil,
		},
		{
			"both linked",
			Facts{Process: in(limited(2), procs.Process{Program: &procs.Program{GoVersion: "go1.24.1", Automaxprocs: procs.Linked, Unthrottle: procs.Imported}})},
			[]string{"both linked"},
		},
		{
			"old go line",
			Facts{Process: in(limited(2), procs.Process{Program: &procs.Program{GoVersion: "go1.26.8", Defaults: old}})},
			[]string{"its go line is 1.24, which turns off"},
		},
		{
			"old go line, turned on all the same",
			Facts{Process: in(limited(2), procs.Process{
				Program: &procs.Program{GoVersion: "go1.26.8", Defaults: old}, Env: map[string]string{"GODEBUG": "containermaxprocs=1"},
			})},
			nil,
		},
		{
			"unknown limit says why",
			Facts{Process: in(choice.System{Limits: cgroup.Limits{Reason: errors.New("no /proc")}}, procs.Process{})},
			[]string{"no /proc"},
		},
		{
			"policy",
			Facts{Process: in(limited(2), procs.Process{}), Warnings: []error{errors.New("UNTHROTTLE=x: want something else")}},
			[]string{"UNTHROTTLE=x"},
		},
	}
	for _, tt := range tests {
		got := NewExplain(tt.facts).Warnings
		if len(got) != len(tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], tt.want[i]) {
				t.Errorf("%s: got %q, want %q", tt.name, got[i], tt.want[i])
			}
		}
	}
}

func TestExplainNow(t *testing.T) {
	before := cgroup.Throttling{Local: time.Second, LocalKnown: true, Owner: cgroup.Counters{Known: true, Periods: 10, Throttled: 2}}
	after := cgroup.Throttling{Local: 3 * time.Second / 2, LocalKnown: true, Owner: cgroup.Counters{Known: true, Periods: 20, Throttled: 5}}
	e := NewExplain(Facts{Process: in(limited(2), procs.Process{}), Before: &before, Throttling: after, Between: time.Second})
	if now := e.Throttling.Now; now == nil || now.Periods != 10 || now.Throttled != 3 || *now.LocalSeconds != 0.5 || now.Active == nil || !*now.Active {
		t.Errorf("got %+v", now)
	}
	e = NewExplain(Facts{Process: in(limited(2), procs.Process{}), Before: &after, Throttling: after, Between: time.Second})
	if now := e.Throttling.Now; now == nil || now.Active == nil || *now.Active {
		t.Errorf("nothing grew: %+v", now)
	}
	e = NewExplain(Facts{Process: in(limited(2), procs.Process{}), Before: &cgroup.Throttling{}})
	if now := e.Throttling.Now; now == nil || now.Active != nil || now.LocalSeconds != nil {
		t.Errorf("nothing is counted: %+v", now)
	}
	// No quota in sight, and the group's time grows: hidden.
	none := cgroup.Limits{State: cgroup.None, Affinity: 8}
	e = NewExplain(Facts{Process: in(choice.System{Limits: none, Inside: none}, procs.Process{}), Before: &before, Throttling: after})
	if e.Limit.State != "hidden" || e.Limit.CPUs != nil || e.Limit.Reason == "" {
		t.Errorf("got %+v", e.Limit)
	}
}

func TestExplainGOMAXPROCS(t *testing.T) {
	program := procs.Process{Program: &procs.Program{GoVersion: "go1.26.8"}}
	e := NewExplain(Facts{Process: in(limited(2.5), program)})
	if g := e.GOMAXPROCS; !g.Predicted || g.Value == nil {
		t.Errorf("another process: %+v", g)
	}
	e = NewExplain(Facts{Process: in(limited(2.5), program), Self: true, Procs: 5})
	if g := e.GOMAXPROCS; g.Predicted || g.Value == nil || *g.Value != 5 {
		t.Errorf("this process: %+v", g)
	}
	e = NewExplain(Facts{Process: in(limited(2.5), procs.Process{ProgramErr: procs.ErrNotGo})})
	if g := e.GOMAXPROCS; g.Value != nil || g.Why != "not a Go program" || e.Go != nil {
		t.Errorf("no Go program: %+v", g)
	}
}

// TestExplainBlind: nothing found in what could not be seen is not a success, and in what has nothing to find it is one.
func TestExplainBlind(t *testing.T) {
	for err, want := range map[error]string{
		nil:                                      "",
		procs.ErrNotGo:                           "",
		fmt.Errorf("open: %w", fs.ErrPermission): "--fail-on: what is wrong with process 7 (app) is not known: open: permission denied",
		procs.ErrStuck:                           "--fail-on: what is wrong with process 7 (app) is not known: the kernel does not answer",
	} {
		got := ""
		if blind := NewExplain(Facts{Process: in(limited(2), procs.Process{PID: 7, Name: "app", ProgramErr: err})}).Blind(); blind != nil {
			got = blind.Error()
		}
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}

func TestExplainCounters(t *testing.T) {
	own := cgroup.Counters{Dir: "/a", Known: true}
	owner := cgroup.Counters{Dir: "/", Known: true, Periods: 8, Throttled: 2, ThrottledTime: time.Second}
	e := NewExplain(Facts{Process: in(limited(2), procs.Process{}), Throttling: cgroup.Throttling{Own: own, Owner: owner}})
	if c := e.Throttling.Own; c.PeriodsShare != nil {
		t.Errorf("a share of no periods: %+v", c)
	}
	if c := e.Throttling.Owner; c.PeriodsShare == nil || *c.PeriodsShare != 0.25 || c.ThrottledSeconds != 1 {
		t.Errorf("got %+v", c)
	}
}

func TestExplainInside(t *testing.T) {
	s := limited(2)
	if e := NewExplain(Facts{Process: in(s, procs.Process{})}); e.Limit.Inside != nil {
		t.Errorf("the same inside: %+v", e.Limit.Inside)
	}
	s.Inside = cgroup.Limits{State: cgroup.Limited, CPUs: 4}
	if in := NewExplain(Facts{Process: in(s, procs.Process{})}).Limit.Inside; in == nil || in.State != "limited" || *in.CPUs != 4 {
		t.Errorf("another limit inside: %+v", in)
	}
	s.Inside = cgroup.Limits{State: cgroup.None}
	if in := NewExplain(Facts{Process: in(s, procs.Process{})}).Limit.Inside; in == nil || in.State != "none" || in.CPUs != nil {
		t.Errorf("none inside: %+v", in)
	}
}

// TestExplainVerdict holds the first line: it says nothing of what was not looked at.
func TestExplainVerdict(t *testing.T) {
	two := 2
	live := GOMAXPROCS{Value: &two, Proof: ProofLive}
	found := []finding.Finding{{Verdict: "too many Ps", Summary: "GOMAXPROCS is 64"}}
	for want, d := range map[string]*Explain{
		"GOMAXPROCS 2 is right under a limit of 1.5 CPUs.": { // started from here it would have that
			Subject: Subject{Self: true}, GOMAXPROCS: live, Limit: Limit{State: "limited", CPUs: new(1.5)}, Choices: []Choice{{Procs: 2, Applies: true}},
		},
		"GOMAXPROCS 2 fits a limit of 1.5 CPUs; throttling was not measured.": {
			GOMAXPROCS: live, Limit: Limit{State: "limited", CPUs: new(1.5)}, Choices: []Choice{{Procs: 64, Wrong: true}, {Procs: 2, Applies: true}},
		},
		"GOMAXPROCS 2 is wrong under a limit of 8 CPUs.": {
			GOMAXPROCS: live, Limit: Limit{State: "limited", CPUs: new(8.0)}, Choices: []Choice{{Procs: 2, Applies: true, Wrong: true}},
		},
		"GOMAXPROCS 2 is right with no CPU limit.": {GOMAXPROCS: live, Limit: Limit{State: "none"}, Choices: []Choice{{Procs: 2, Applies: true}}},
		"GOMAXPROCS is 2 with no CPU limit.":       {GOMAXPROCS: live, Limit: Limit{State: "none"}, Choices: []Choice{{Procs: 4, Applies: true}}},
		"GOMAXPROCS is 2; the CPU limit is not known. It was throttled while it was looked at.": {
			GOMAXPROCS: GOMAXPROCS{Value: &two}, Limit: Limit{State: "unknown"}, Throttling: Throttling{Now: &Interval{Active: new(true)}},
		},
		"GOMAXPROCS is 2; the CPU limit can't be seen from here.": {GOMAXPROCS: live, Limit: Limit{State: "hidden"}},
		"The CPU limit is 1.5 CPUs.":                              {Limit: Limit{State: "limited", CPUs: new(1.5)}},
		"No CPU limit is in force.":                               {Limit: Limit{State: "none"}},
		"A CPU limit that can't be seen from here throttles it.":  {Limit: Limit{State: "hidden"}},
		"The CPU limit is not known.":                             {Limit: Limit{State: "unknown"}},
		"too few Ps: GOMAXPROCS is 2 under a limit of 4 CPUs. GOMAXPROCS is 2 and all of it is used, while 4 CPUs would be allowed.": {
			GOMAXPROCS: live, Limit: Limit{CPUs: new(4.0)},
			Findings: []finding.Finding{{Verdict: "too few Ps", Summary: "GOMAXPROCS is 2 and all of it is used, while 4 CPUs would be allowed"}},
		},
		"fine: no rule finds anything wrong with GOMAXPROCS 2 here":                   {GOMAXPROCS: live, Throttling: Throttling{Now: &Interval{}}},
		"too many Ps: GOMAXPROCS is 64":                                               {GOMAXPROCS: live, Findings: found},
		"too many Ps: GOMAXPROCS is 64. It stood still for 44 % of the time.":         {Findings: found, Throttling: Throttling{Now: &Interval{Frozen: &Frozen{Share: 0.44, Exact: true}}}},
		"too many Ps: GOMAXPROCS is 64. It stood still for at least 4 % of the time.": {Findings: found, Throttling: Throttling{Now: &Interval{Frozen: &Frozen{Share: 0.04}}}},
	} {
		v := d.Verdict()
		if n := quantity.Words(v.Text); n > HeadlineWords {
			t.Errorf("%d words: %s", n, v.Text)
		}
		got := v.Word + ": " + strings.Join(append([]string{v.Text}, v.Also...), ". ")
		if v.Whole {
			got = strings.Join(append([]string{v.Text}, v.Also...), " ")
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
