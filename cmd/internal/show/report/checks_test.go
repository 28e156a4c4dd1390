package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
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
		"loads":  "warning", // at one load the advice is to keep the current setting
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
		checks := doc.(*Tune).Checks()
		if got := worst(checks); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if unknown := name == "undecided" || name == "nothing"; (checks[0].Unknown != "") != unknown {
			t.Errorf("%s: not known: %q", name, checks[0].Unknown)
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
		if got := worst(checks); got != c.want || len(checks) != 1 || (checks[0].Unknown != "") != (c.want == "info") {
			t.Errorf("%+v: %q of %d, want %q; not known: %q", c, got, len(checks), c.want, checks[0].Unknown)
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

// TestUndecidedLoad: what is advised of one load is a failure, though that of the verdict is undecided.
func TestUndecidedLoad(t *testing.T) {
	d := &Tune{Verdict: TuneVerdict{Kind: "undecided", Text: "Undecided."}, Loads: []TuneLoad{{Kind: "undecided"}, {Kind: "change"}}}
	if checks := d.Checks(); checks[0].Unknown != "" || worst(checks) != "warning" {
		t.Errorf("%+v", checks)
	}
}

type checked interface{ Checks() []Check }

// TestUnknown: what means "don't know" is not a success, in any document; and what is known is one.
func TestUnknown(t *testing.T) {
	one, half := 1, 0.5
	known := PsProcess{GOMAXPROCS: PsGOMAXPROCS{Value: &one}, Limit: Limit{State: "limited"}, CPU: &half}
	ps := func(change func(*PsProcess)) checked {
		p := known
		change(&p)
		return &Ps{Processes: []PsProcess{p}}
	}
	explain := func(change func(*Explain)) checked {
		d := &Explain{GOMAXPROCS: GOMAXPROCS{Value: &one, Proof: ProofLive}, Limit: Limit{State: "limited", CPUs: &half}, Throttling: Throttling{Now: &Interval{}}}
		change(d)
		return d
	}
	load := func(change func(*Load)) checked {
		d := &Load{Summary: loadtest.Summary{Requests: 9, Valid: true, Response: loadtest.Latencies{Count: 9}, SLO: &loadtest.SLO{Text: "p99=10ms", Held: true}}}
		change(d)
		return d
	}
	bench := func(by lab.Factor, c *sample.Comparison) checked {
		other := BenchRow{}
		if c != nil {
			c.Ratio = 1
			if other.Versus = newBenchComparison(c); by == lab.ByBuild {
				other.Versus.judge(c)
			}
		}
		return &Bench{Plan: lab.Plan{Compare: by}, Groups: []BenchGroup{{Settings: []BenchRow{{}, other}}}}
	}
	for name, c := range map[string]struct {
		doc     checked
		unknown bool
	}{
		"ps":                      {ps(func(*PsProcess) {}), false},
		"ps --for 0":              {ps(func(p *PsProcess) { p.CPU = nil }), true},
		"ps, no GOMAXPROCS":       {ps(func(p *PsProcess) { p.GOMAXPROCS.Value = nil }), true},
		"ps, no limit known":      {ps(func(p *PsProcess) { p.Limit.State = "unknown" }), true},
		"explain":                 {explain(func(*Explain) {}), false},
		"explain --for 0":         {explain(func(d *Explain) { d.Throttling.Now = nil }), true},
		"explain, unread":         {explain(func(d *Explain) { d.Unread = "not yours" }), true},
		"explain, no limit known": {explain(func(d *Explain) { d.Limit.State = "unknown" }), true},
		"explain, no Go program":  {explain(func(d *Explain) { d.GOMAXPROCS.Value = nil }), true},
		"watch":                   {&Watch{Cause: "none"}, false},
		"watch, unsure":           {&Watch{Cause: "unsure"}, true},
		"trace":                   {&Trace{Cause: "none"}, false},
		"trace, doubtful":         {&Trace{Cause: "none", Confidence: "low", Doubt: "few events"}, true},
		"trace, unsure":           {&Trace{Cause: "unsure", Doubt: "too few samples"}, true},
		"profile":                 {&Profile{Samples: 7, Limit: ProfileLimit{State: "none"}}, false},
		"profile, empty":          {&Profile{Limit: ProfileLimit{State: "none"}}, true},
		"profile, no limit given": {&Profile{Samples: 7, Limit: ProfileLimit{State: "not given"}}, true},
		"load":                    {load(func(*Load) {}), false},
		"load, no SLO":            {load(func(d *Load) { d.SLO = nil }), false},
		"load, not judged":        {load(func(d *Load) { d.SLO = &loadtest.SLO{Text: "p99=10ms", HeldFromReady: true} }), true},
		"load, nothing sent":      {load(func(d *Load) { d.SLO, d.Requests = nil, 0 }), true},
		"load, highest rate":      {load(func(d *Load) { d.Search = &LoadSearch{Sustains: 7} }), false},
		"load, no rate held":      {load(func(d *Load) { d.Search = &LoadSearch{Text: "not found"} }), true},
		"tune, undecided":         {&Tune{Verdict: TuneVerdict{Kind: "undecided", Text: "Undecided."}}, true},
		"tune, undecided, a trade of another load": {&Tune{Verdict: TuneVerdict{Kind: "undecided", Text: "Undecided."}, Loads: []TuneLoad{{Kind: "undecided"}, {Kind: "trade"}}}, true},
		"tune, keep":                    {&Tune{Verdict: TuneVerdict{Kind: "keep"}}, false},
		"bench, too few":                {bench(lab.ByProcs, &sample.Comparison{Verdict: sample.VerdictTooFew}), true},
		"bench, the same":               {bench(lab.ByProcs, &sample.Comparison{Verdict: sample.VerdictSame}), false},
		"bench, no worse, of settings":  {bench(lab.ByProcs, &sample.Comparison{Verdict: sample.VerdictUndecided, NotWorse: true}), true},
		"bench, no worse, of builds":    {bench(lab.ByBuild, &sample.Comparison{Verdict: sample.VerdictUndecided, NotWorse: true}), false},
		"bench, builds that are open":   {bench(lab.ByBuild, &sample.Comparison{Verdict: sample.VerdictUndecided}), true},
		"bench, builds beyond, perhaps": {bench(lab.ByBuild, &sample.Comparison{Verdict: sample.VerdictSame}), true},
		"bench, no figures":             {bench(lab.ByBuild, nil), true},
		"bench, identical builds":       {&Bench{Plan: lab.Plan{Same: []string{"server"}}}, false},
		"run":                           {&Run{Command: []string{"x"}}, false},
	} {
		checks := c.doc.Checks()
		if len(checks) != 1 || (checks[0].Unknown != "") != c.unknown || worst(checks) != "" && worst(checks) != "info" {
			t.Errorf("%s: %+v", name, checks)
		}
	}
}
