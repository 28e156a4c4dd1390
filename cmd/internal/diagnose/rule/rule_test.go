package rule

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/fixture"
)

var update = flag.Bool("update", false, "write testdata/findings.golden and the table of docs/rules/README.md")

// A situation is a process, described in a few words.
type situation struct {
	name   string
	limit  float64 // 0: none
	cpus   int
	goes   string // Go version
	live   int    // 0: GOMAXPROCS is predicted
	custom bool
	env    string // GOMAXPROCS
	automax,
	old bool // go line before 1.25
	hidden bool
	idle   bool // the system is
	usage  host.Usage
	want   string // rule/severity, in order
}

// used is a usage of that many CPUs in two seconds.
func used(cpu float64, more func(*host.Usage)) host.Usage {
	u := host.Usage{
		Wall: 2 * time.Second, CPU: time.Duration(2e9 * cpu), Throttling: cgroup.Throttling{Owner: cgroup.Counters{Known: true, Periods: 20}},
		Samples: 200, Running: cpu, FrozenKnown: true, Parallel: 1,
	}
	if more != nil {
		more(&u)
	}
	if u.FrozenKnown {
		u.Owner.ThrottledTime = time.Duration(u.Frozen * float64(u.Wall))
	}
	return u
}

var situations = []situation{
	{name: "all well", limit: 2, cpus: 8, live: 2, usage: used(0.7, nil)},
	{name: "no limit, all CPUs busy", cpus: 8, live: 8, usage: used(7.9, nil)},
	{name: "nothing is known but the limit", limit: 2, cpus: 8, goes: "go1.26.8"},
	{
		name: "192 Ps under one CPU", limit: 1, cpus: 192, goes: "go1.24.13", live: 192,
		usage: used(1, func(u *host.Usage) {
			u.Running, u.Spinning, u.Owner.Throttled, u.Frozen = 56.3, 2.07, 20, 0.98
		}),
		want: "too-many-ps/critical throttled/critical limit-not-seen/warning",
	},
	{
		name: "the same, idle", limit: 1, cpus: 192, goes: "go1.24.13", live: 192, usage: used(0.001, nil),
		want: "too-many-ps/info limit-not-seen/info",
	},
	{name: "eight by the environment under one CPU", limit: 1, cpus: 16, live: 8, custom: true, env: "8", usage: used(0.3, nil), want: "too-many-ps/warning"},
	{
		name: "old go line, two CPUs of four", limit: 2, cpus: 4, live: 4, old: true, usage: used(0.5, nil),
		want: "limit-not-seen/warning",
	},
	{
		name: "two Ps at a limit of one", limit: 1, cpus: 4, live: 2,
		usage: used(0.96, func(u *host.Usage) { u.Running, u.Owner.Throttled, u.Frozen = 1.8, 20, 0.46 }),
		want:  "throttled/critical",
	},
	{
		name: "idle, and others use up its limit", limit: 1, cpus: 4, live: 2,
		usage: used(0.001, func(u *host.Usage) { u.Owner.Throttled, u.Frozen = 19, 0.46 }), want: "throttled/warning",
	},
	{
		name: "idle, with a burst", limit: 1, cpus: 4, live: 2,
		usage: used(0.004, func(u *host.Usage) { u.Owner.Periods, u.Owner.Throttled, u.Frozen = 2, 2, 0.08 }),
	},
	{
		name: "bursts", limit: 2, cpus: 4, live: 2,
		usage: used(0.4, func(u *host.Usage) { u.Owner.Throttled, u.Frozen = 1, 0.02 }), want: "throttled/info",
	},
	{
		name: "throttled, memory not to be read", limit: 1, cpus: 2, goes: "go1.26.8",
		usage: used(1, func(u *host.Usage) {
			u.Samples, u.FrozenKnown, u.Owner.Throttled, u.Owner.ThrottledTime = 0, false, 20, 2*time.Second
		}),
		want: "throttled/critical",
	},
	{
		name: "a limit that can't be seen", cpus: 4, live: 4, hidden: true,
		usage: used(1, func(u *host.Usage) { u.Owner.Known, u.LocalKnown, u.Local = false, true, time.Second }), want: "throttled/warning",
	},
	{
		name: "a busy host", cpus: 2, live: 2,
		usage: used(0.8, func(u *host.Usage) {
			u.Running, u.Delay, u.DelayWall, u.DelayCPU = 1.9, 1650*time.Millisecond, 1500*time.Millisecond, 1200*time.Millisecond
		}),
		want: "contended/warning",
	},
	{
		name: "short waits on an idle system", cpus: 2, live: 2, idle: true,
		usage: used(0.37, func(u *host.Usage) {
			u.Delay, u.DelayWall, u.DelayCPU = 760*time.Millisecond, 1500*time.Millisecond, 550*time.Millisecond
		}),
	},
	{
		name: "waits for CPUs, but for its own Ps", cpus: 2, live: 4, custom: true, env: "4",
		usage: used(2, func(u *host.Usage) {
			u.Running, u.Delay, u.DelayWall, u.DelayCPU = 4, 3*time.Second, 1500*time.Millisecond, 3*time.Second
		}),
	},
	{
		name: "a tiny heap", limit: 1, cpus: 4, live: 2,
		usage: used(0.65, func(u *host.Usage) {
			u.GCKnown, u.Collected, u.Switched, u.AnonMemory = true, 400, 1.5e6, 6<<20
		}),
		want: "sweeper-spin/warning",
	},
	{
		name: "a tiny heap on one P", limit: 1, cpus: 4, live: 1, custom: true, env: "1",
		usage: used(0.2, func(u *host.Usage) { u.GCKnown, u.Collected, u.AnonMemory = true, 390, 5<<20 }),
	},
	{
		name: "a large heap, often collected", limit: 4, cpus: 4, live: 4,
		usage: used(3, func(u *host.Usage) { u.GCKnown, u.Collected, u.AnonMemory = true, 120, 1<<30 }),
	},
	{name: "automaxprocs", limit: 4, cpus: 8, live: 4, custom: true, automax: true, usage: used(1, nil), want: "not-following/info"},
	{name: "a call, after the limit was lowered", limit: 1, cpus: 8, live: 4, custom: true, usage: used(0.5, nil), want: "not-following/warning"},
	{name: "one P by a call, busy", limit: 4, cpus: 8, live: 1, custom: true, usage: used(0.98, nil), want: "too-few-ps/warning not-following/warning"},
	{name: "one P by a call, idle, no limit", cpus: 8, live: 1, custom: true, usage: used(0.01, nil)},
}

func (s situation) process() *host.Process {
	if s.goes == "" {
		s.goes = "go1.26.8"
	}
	p := &host.Process{Live: s.live, Custom: s.custom, Usage: s.usage}
	p.PID, p.Name, p.Env = 42, "api", map[string]string{}
	p.Program = &procs.Program{GoVersion: s.goes, Defaults: map[string]string{}}
	p.CustomKnown = s.live > 0 && p.Program.Minor() >= 25
	if s.env != "" {
		p.Env["GOMAXPROCS"] = s.env
	}
	if s.automax {
		p.Program.Automaxprocs = procs.Imported
	}
	if s.old {
		p.Program.Defaults["containermaxprocs"] = "0"
	}
	p.System = choice.Under(s.limit, s.cpus, unthrottle.Policy{})
	if s.hidden {
		p.System.Limits.State = cgroup.Hidden
	}
	p.Prediction = p.System.Predict(p.Process)
	return p
}

// parts are what is known of a program that wasn't looked at as a process: a trace, a profile, a heartbeat in its group.
var parts = []struct {
	name  string
	facts *Facts
	want  string
}{
	{"nothing is known", &Facts{}, ""},
	{
		"the trace of another machine, at the rhythm of a quota",
		&Facts{Procs: 8, Running: number(7.5), Frozen: &Frozen{0.5, true}, Still: freeze.Verdict{Cause: freeze.Throttled, Throttled: 0.5}, Why: []string{"all ends at one phase"}},
		"throttled/critical",
	},
	{
		"the rhythm of a quota, not sure, of a program whose limit could not be read",
		&Facts{
			Limits: cgroup.Limits{Reason: os.ErrPermission}, Frozen: &Frozen{0.02, true}, Doubt: "there are few events",
			Still: freeze.Verdict{Cause: freeze.Throttled, Throttled: 0.02}, Why: []string{"all ends at one phase"},
		},
		"throttled/info",
	},
	{
		"the rhythm of a quota, not that of its own limit",
		&Facts{
			Limits: limited(4), CPU: number(0.4), Frozen: &Frozen{0.1, true}, Counted: cgroup.Throttling{Owner: cgroup.Counters{Known: true, Periods: 20}},
			Still: freeze.Verdict{Cause: freeze.Throttled, Throttled: 0.1}, Why: []string{"all ends at one phase"},
		},
		"throttled/warning",
	},
	{
		"the kernel counted, whatever the rhythm",
		&Facts{
			Limits: limited(1), CPU: number(0.95), Counted: cgroup.Throttling{Owner: cgroup.Counters{Known: true, Periods: 1000, Throttled: 999}},
			Still: freeze.Verdict{Cause: freeze.Unsure}, Why: []string{"too few"},
		},
		"throttled/warning",
	},
	{"a profile of all of a limit", &Facts{Limits: limited(1), Procs: 2, CPU: number(1)}, ""},
	{"a profile of a program with too many Ps", &Facts{Limits: limited(1), Procs: 192, CPU: number(1), Running: number(56)}, "too-many-ps/critical"},
	{"too many Ps, and nothing is known of their use", &Facts{Limits: limited(1), Procs: 192}, "too-many-ps/info"},
	{"a profile of one P", &Facts{Limits: limited(4), Procs: 1, CPU: number(0.98)}, "too-few-ps/warning"},
	{
		"a trace without a rhythm", &Facts{Procs: 2, Still: freeze.Verdict{Cause: freeze.Contended, Contended: 0.4}, Why: []string{"the standstills have no rhythm"}, Doubt: "a part may be a quota"},
		"contended/warning",
	},
	{"a heartbeat beside others, in a group that is hardly throttled", besideOthers(1), "contended/warning"},
	{"a heartbeat beside others, in a group that is throttled as well", besideOthers(8), "throttled/warning contended/warning"},
	{"a limit that was raised under a fixed number", resized(1, 2, choice.FromEnvironment), "stale/warning"},
	{"a limit that was lowered under a fixed number", resized(8, 2, host.FromCall), "stale/warning too-many-ps/warning not-following/warning"},
	{"a limit that was raised, and the number is right for it", resized(2, 1.5, choice.FromEnvironment), ""},
	{"105 MiB alive under 115 of 128", remembers(105, 400, 115, 128, 0.56), "memory-too-tight/critical"},
	{"80 MiB alive under 115 of 128", remembers(80, 400, 115, 128, 0.3), "memory-too-tight/warning"},
	{"the same, seldom collected", remembers(80, 400, 115, 128, 0.1), ""},
	{"the way out of the spiral", remembers(97, 10, 0, 128, 0.5), "memory-too-tight/critical"},
	{"the same under all of 128", remembers(105, 400, 128, 128, 0.56), "memory-too-tight/critical gomemlimit-too-high/warning"},
	{"the same under all of 15", remembers(3, 100, 15, 15, 0.56), "memory-too-tight/critical gomemlimit-too-high/warning"},
	{"a tiny heap under a tiny GOMEMLIMIT", often(remembers(1, 100, 12, 64, 0.2), 641), "memory-too-tight/warning"},
	{"a tiny heap with room", often(remembers(1, 100, 57, 64, 0.2), 131), "sweeper-spin/warning"},
	{"a low GOGC, and a heap at its end", remembers(220, 30, 0, 256, 0.1), "no-gomemlimit/warning"},
	{"GOGC=off where there is no room for a GOMEMLIMIT", remembers(2, -1, 0, 24, 0), "no-gomemlimit/warning"},
	{"a low GOGC that somebody chose", remembers(20, 10, 0, 512, 0.5), ""},
	{"all of a small limit, often collected, with room", remembers(20, 100, 100, 128, 0.4), ""},
	{"GOGC=800, 1 MiB alive", remembers(1, 800, 0, 256, 0.01), "no-gomemlimit/info"},
	{"GOGC=800, 25 MiB alive", remembers(25, 800, 0, 256, 0.01), "no-gomemlimit/warning"},
	{"GOGC=800 and GOMEMLIMIT", remembers(25, 800, 230, 256, 0.01), ""},
	{"GOGC=800, no limit", remembers(25, 800, 0, 0, 0.01), ""},
	{"GOGC=off", remembers(25, -1, 0, 256, 0), "no-gomemlimit/warning"},
	{"GOGC=off and GOMEMLIMIT", remembers(25, -1, 230, 256, 0.01), ""},
	{"as Go has it, a small heap", remembers(20, 100, 0, 256, 0.01), ""},
	{"as Go has it, a heap that is half of the limit when it is collected", remembers(70, 100, 0, 256, 0.01), "no-gomemlimit/info"},
	{"as Go has it, a heap at its end", remembers(120, 100, 0, 256, 0.01), "no-gomemlimit/warning"},
	{"all of the limit", remembers(20, 100, 256, 256, 0.01), "gomemlimit-too-high/info"},
	{"all of the limit, and the heap gets there", remembers(120, 100, 256, 256, 0.01), "gomemlimit-too-high/warning"},
	{"all of a memory.high", high(remembers(20, 100, 256, 256, 0.01)), "gomemlimit-too-high/info"},
	{"above a limit that was lowered", remembers(120, 100, 460, 256, 0.01), "gomemlimit-too-high/warning"},
	{"twice as many Ps as CPUs, throttled for hours", counted(2, 5, 0.3, nil), "too-many-ps/warning throttled/warning"},
	{"the same, hardly throttled", counted(2, 5, 0.05, nil), "throttled/info"},
	{"the same in a look of two seconds", short(counted(2, 5, 0.3, nil)), "throttled/warning"},
	{"what Go itself chooses for one CPU", counted(1, 2, 0.3, nil), "throttled/warning"},
	{"one P too many for hours", counted(2, 3, 0.3, nil), "throttled/warning"},
	{"pressure at the limit, and nobody has counted periods", counted(1, 2, 0, &Pressure{All: 0.2, Some: 0.6}), "throttled/warning"},
	{"the same, most of the time", counted(1, 2, 0, &Pressure{All: 0.6, Some: 0.6}), "throttled/critical"},
	{"pressure, and twice as many Ps", counted(1, 3, 0, &Pressure{All: 0.2, Some: 0.6}), "too-many-ps/warning throttled/warning"},
	{"the same far below the limit: it may come from others", counted(2, 5, 0, &Pressure{All: 0.3, Some: 0.6}), "throttled/info"},
	{"pressure far below the limit", counted(4, 4, 0, &Pressure{All: 0.3, Some: 0.6}), "throttled/info"},
	{"hardly any", counted(1, 2, 0, &Pressure{All: 0.04, Some: 0.6}), ""},
	{"pressure, and periods that were not throttled", unthrottled(counted(1, 2, 0, &Pressure{All: 0.4, Some: 0.6})), ""},
	{"GOMEMLIMIT above the limit, and nothing is known of the heap", reckoned(100, 512<<20, 0), "gomemlimit-too-high/info"},
	{"GOMEMLIMIT below the limit, and nothing is known of the heap", reckoned(100, 200<<20, 0), ""},
	{"GOGC=off, and nothing is known of the heap", reckoned(-1, math.MaxInt64, 0), "no-gomemlimit/warning"},
	{"no GOMEMLIMIT, and nothing is known of the heap", reckoned(100, math.MaxInt64, 0), ""},
	{"no GOMEMLIMIT, and a heap that is small", reckoned(100, math.MaxInt64, 40), ""},
	{"no GOMEMLIMIT, and a heap that comes near the limit", reckoned(100, math.MaxInt64, 120), "no-gomemlimit/warning"},
	{"a group that waits for others", group(2), "contended/warning"},
	{"a group that waits for itself", group(0.1), ""},
}

// remembers is a busy program with that many MiB alive, GOGC, GOMEMLIMIT and a memory limit in MiB, where 0 means none, and the share of
// the time that its collections take.
func remembers(alive uint64, gogc int, gomemlimit, limit int64, collecting float64) *Facts {
	m := &Memory{Limit: cgroup.Memory{State: cgroup.None}, Collecting: &collecting}
	m.Percent, m.Collector.Limit, m.Live, m.Other, m.Roots = gogc, math.MaxInt64, alive<<20, 12<<20, 1<<20
	if limit > 0 {
		m.Limit = cgroup.Memory{State: cgroup.Limited, Bytes: limit << 20, From: "/sys/fs/cgroup/app"}
	}
	m.Goal = m.Live + (m.Live+m.Roots)*uint64(max(0, gogc))/100
	if gogc < 0 {
		m.Goal = math.MaxUint64
	}
	if gomemlimit > 0 {
		m.Collector.Limit = gomemlimit << 20
		m.Goal = max(m.Live, min(m.Goal, uint64(gomemlimit<<20)-m.Other))
	}
	return &Facts{Limits: limited(1), Procs: 1, CPU: number(0.9), Memory: m}
}

// counted is a program that used 0.95 CPUs for hours, with a share of throttled periods, or under pressure where none were counted.
func counted(limit float64, procs int, throttled float64, p *Pressure) *Facts {
	f := &Facts{Limits: limited(limit), Procs: procs, CPU: number(0.95), Lasting: true, Pressure: p}
	if p == nil {
		f.Counted.Owner = cgroup.Counters{Known: true, Periods: 1000, Throttled: int64(1000 * throttled)}
	}
	return f
}

func short(f *Facts) *Facts {
	f.Lasting = false
	return f
}

func unthrottled(f *Facts) *Facts {
	f.Counted.Owner = cgroup.Counters{Known: true, Periods: 1000}
	return f
}

// reckoned is a program under 256 MiB whose metrics report that many MiB alive.
func reckoned(gogc int, gomemlimit int64, alive uint64) *Facts {
	m := &Memory{Limit: cgroup.Memory{State: cgroup.Limited, Bytes: 256 << 20}, Reckoned: true}
	m.Percent, m.Collector.Limit, m.Live, m.Goal = gogc, gomemlimit, alive<<20, 2*alive<<20
	return &Facts{Memory: m}
}

// often is a program whose tiny heap is collected that many times a second, on two Ps.
func often(f *Facts, collected float64) *Facts {
	f.Procs, f.Heap = 2, &Heap{Collected: collected, Switched: 2500 * collected, Memory: 4 << 20}
	return f
}

// high is a program whose limit is one at which the kernel reclaims memory.
func high(f *Facts) *Facts {
	f.Memory.Limit.High = true
	return f
}

func number(v float64) *float64 { return &v }

func limited(cpus float64) cgroup.Limits {
	return cgroup.Limits{State: cgroup.Limited, CPUs: cpus, From: "/sys/fs/cgroup/app", Affinity: 16}
}

// besideOthers is a group whose CPUs were used by others, with some of 31 periods throttled.
func besideOthers(throttled int64) *Facts {
	return &Facts{
		Limits: limited(1.5), CPU: number(0.92), Frozen: &Frozen{0, false},
		Counted: cgroup.Throttling{Owner: cgroup.Counters{Known: true, Periods: 31, Throttled: throttled}},
		Still:   freeze.Verdict{Cause: freeze.Contended, Contended: 0.3}, Why: []string{"others had the CPUs; it was no quota"},
	}
}

// resized is a busy program whose GOMAXPROCS stayed when its limit was changed from 0.5 CPUs.
func resized(procs int, to float64, by choice.Source) *Facts {
	return &Facts{
		Limits: limited(to), Procs: procs, Source: by, CPU: number(0.4),
		Stale: &Stale{Then: 0.5, Now: to, Why: "the limit was 0.5 CPUs until 12:00:00"},
	}
}

// group is one of busy threads on a full host, of which others use some CPUs.
func group(others float64) *Facts {
	return &Facts{
		CPU: number(2), Queue: &Queue{Ran: 2, Waited: 2},
		Host: Host{host.System{CPUs: 4, Busy: 4, Known: true}, &others},
	}
}

func check(t *testing.T, text *strings.Builder, name string, f *Facts, want string) {
	var got []string
	fmt.Fprintf(text, "== %s\n", name)
	for _, f := range Check(f) {
		got = append(got, f.Rule+"/"+f.Severity.String())
		if n := quantity.Words(f.Summary); n > 12 { // it is a headline
			t.Errorf("%s: %d words: %s", name, n, f.Summary)
		}
		fmt.Fprintf(text, "%s (%v): %s\n", f.Verdict, f.Severity, f.Summary)
		for _, e := range f.Evidence {
			fmt.Fprintf(text, "    %s\n", e)
		}
		fmt.Fprintf(text, "    fix: %s\n", f.Fix)
	}
	if strings.Join(got, " ") != want {
		t.Errorf("%s: %v, want %s", name, got, want)
	}
}

func TestRules(t *testing.T) {
	var text strings.Builder
	for _, s := range situations {
		system := host.System{CPUs: s.cpus, Busy: float64(s.cpus) - 0.1, Steal: 0.2, Known: true}
		if s.idle {
			system.Busy = 0.6
		}
		check(t, &text, s.name, OfProcess(s.process(), system), s.want)
	}
	for _, p := range parts {
		check(t, &text, p.name, p.facts, p.want)
	}
	const golden = "testdata/findings.golden"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("the findings are other words than in %s; got:\n%s", golden, &text)
	}
}

// Each rule is found by some situation, and has a page that names its verdict, and a row in the table of rules.
func TestPages(t *testing.T) {
	var rows strings.Builder
	for _, r := range Rules() {
		found := false
		for _, s := range situations {
			found = found || strings.Contains(s.want, r.Name+"/")
		}
		for _, p := range parts {
			found = found || strings.Contains(p.want, r.Name+"/")
		}
		if !found {
			t.Errorf("no situation is for %s", r.Name)
		}
		fmt.Fprintf(&rows, "| [%s](%s.md) | %s |\n", r.Verdict, r.Name, r.Means)
		page, err := os.ReadFile("../../../../docs/rules/" + r.Name + ".md")
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(page), r.Verdict) {
			t.Errorf("the page of %s does not have its verdict, %q", r.Name, r.Verdict)
		}
	}
	fmt.Fprintf(&rows, "| %s | none of these |\n", Fine)
	fixture.Section(t, *update, "../../../../docs/rules/README.md", "| verdict | what it means |\n| --- | --- |\n", rows.String())
}

func TestSeverity(t *testing.T) {
	for _, s := range []finding.Severity{finding.Info, finding.Warning, finding.Critical} {
		text, _ := s.MarshalText()
		var back finding.Severity
		if err := back.UnmarshalText(text); err != nil || back != s {
			t.Errorf("%v became %v, %v", s, back, err)
		}
	}
	var s finding.Severity
	if err := s.UnmarshalText([]byte("bad")); err == nil {
		t.Error("no error for a severity that there is none of")
	}
}

func TestPs(t *testing.T) {
	for n, want := range map[float64]string{0.96: "1 P", 1.04: "1 P", 1.3: "1.3 Ps", 2: "2 Ps", 8.64: "8.6 Ps", 9.97: "10 Ps", 191.6: "192 Ps"} {
		if got := ps(n); got != want {
			t.Errorf("%v: got %q, want %q", n, got, want)
		}
	}
}

// TestOutOfSight: where a limit can't be seen from inside of the container, no import and no restart makes a program follow it.
func TestOutOfSight(t *testing.T) {
	for _, from := range []choice.Source{choice.FromCPUs, choice.FromLimit, choice.FromUnthrottle, choice.FromAutomaxprocs, host.FromCall} {
		f := resized(8, 2, from)
		f.OutOfSight = true
		found := Check(f)
		if len(found) < 2 {
			t.Errorf("set by %s: %+v", from, found)
		}
		for _, f := range found {
			if !strings.Contains(f.Fix, "can't see its limit") {
				t.Errorf("set by %s, %s: %s", from, f.Rule, f.Fix)
			}
		}
	}
}
