package view

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/golive"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
)

func TestExplain(t *testing.T) {
	for name, e := range explains() {
		made := Explain(e)
		golden(t, "explain "+name, made)
		shown(t, made)
		screen(t, "explain "+name, made)
	}
}

// explains are documents made by hand: each is a screen that users get to see.
func explains() map[string]*report.Explain {
	counted := report.Counters{
		Dir: "/sys/fs/cgroup/app", Known: true,
		PeriodCount: report.PeriodCount{Periods: 60, ThrottledPeriods: 20, PeriodsShare: ptr(1.0 / 3), ThrottledSeconds: 1.5},
	}
	return map[string]*report.Explain{
		"throttled now": {
			Subject: report.Subject{PID: 4711, Name: "server"},
			Limit: report.Limit{
				State: "limited", CPUs: ptr(1.5), From: "/sys/fs/cgroup/app", Cgroup: "v2",
				Levels: []report.Level{
					{Dir: "/sys/fs/cgroup/app", CPUs: 1.5, Quota: 0.15, Period: 0.1, Burst: 0.05, Weight: 59, Cpuset: "0-3", InForce: true},
					{Dir: "/sys/fs/cgroup"},
				},
			},
			Affinity: report.Affinity{CPUs: 4},
			Throttling: report.Throttling{
				Own: counted, Owner: counted, LocalSeconds: ptr(1.5),
				Now: &report.Interval{Seconds: 1.0004, Periods: 10, Throttled: 4, Frozen: &report.Frozen{Share: 0.44}, LocalSeconds: ptr(0.25), Active: ptr(true)},
			},
			Memory: report.Memory{State: "limited", Bytes: 512 << 20, GOMEMLIMIT: "450MiB", GOGC: "200"},
			Collector: &report.Collector{
				GOGC: ptr(200), GOMEMLIMIT: ptr(int64(450 << 20)), Live: 97 << 20, Roots: 1 << 20, Other: 20 << 20, Goal: ptr(int64(293 << 20)), Collecting: ptr(0.04),
			},
			Go: &report.Go{
				Version: "go1.26.8", GoLine: "1.24", Automaxprocs: "blank import", Unthrottle: "no",
				Containermaxprocs: report.Setting{Built: "0", Env: "1", On: true}, Updatemaxprocs: report.Setting{Built: "0"},
				GODEBUG: ptr("containermaxprocs=1"),
			},
			GOMAXPROCS: report.GOMAXPROCS{Value: ptr(2), Source: "limit", Rule: "Go 1.26 and later", Why: "the Go runtime rounds its limit up, to 2 at least", Predicted: true, Proof: report.ProofPredicted},
			Choices: []report.Choice{
				{Rule: "Go 1.24 and earlier", Procs: 4, Wrong: true, Why: "it reads no cgroup", Fix: "build with Go 1.26"},
				{Rule: "Go 1.26 and later", Procs: 2, Limit: ptr(1.5), Applies: true},
				{Rule: "downward API", Procs: 2, Why: "somewhere else"},
			},
			Warnings: []string{"a first one", "a second one"},
		},
		"not throttled now": {
			Subject:  report.Subject{PID: 4711, Name: "server"},
			Limit:    report.Limit{State: "none", Cgroup: "v1", Hybrid: true, Levels: []report.Level{{Dir: "/sys/fs/cgroup/cpu/a", Weight: 100}, {Dir: "/sys/fs/cgroup/cpu", Weight: 1024}}},
			Affinity: report.Affinity{CPUs: 1},
			Throttling: report.Throttling{
				Owner: report.Counters{Known: true, PeriodCount: report.PeriodCount{Periods: 10}}, Now: &report.Interval{Seconds: 1, Active: ptr(false)},
			},
			Memory:     report.Memory{State: "none"},
			GOMAXPROCS: report.GOMAXPROCS{Why: "not a Go program", Predicted: true, Proof: report.ProofPredicted},
		},
		"hidden inside of a container": {
			Subject: report.Subject{PID: 7, Name: "api"},
			Limit: report.Limit{
				State: "hidden", Reason: "the kernel throttles this group, but no level that can be seen here sets a quota",
				Cgroup: "v2", Levels: []report.Level{{Dir: "/sys/fs/cgroup"}},
			},
			Throttling: report.Throttling{LocalSeconds: ptr(3.25), Now: &report.Interval{Seconds: 1}},
			Memory:     report.Memory{State: "unknown"},
			GOMAXPROCS: report.GOMAXPROCS{Value: ptr(16), Source: "cpus", Why: "the CPUs that the affinity mask allows", Predicted: true, Proof: report.ProofPredicted},
			Choices:    []report.Choice{{Rule: "Go 1.25"}},
		},
		"by the spec alone": {
			Subject:    report.Subject{Name: "container app of pod api-1"},
			Limit:      report.Limit{State: "limited", CPUs: ptr(1.5), From: "resources.limits of the container"},
			Memory:     report.Memory{State: "limited", Bytes: 256 << 20},
			GOMAXPROCS: report.GOMAXPROCS{Why: "it is not in its environment, so its runtime or a library chooses", Predicted: true, Proof: report.ProofPredicted},
			Choices: []report.Choice{
				{Rule: "a go line of 1.24 or earlier", All: true, Wrong: true, Why: "it reads no cgroup", Fix: "build with Go 1.26"},
				{Rule: "Go 1.26 and later", Procs: 2, Limit: ptr(1.5)},
			},
			Unmeasured: &report.Unmeasured{Why: "no agent of namespace unthrottle is ready on node n1"},
			Warnings:   []string{"its last run was out of memory"},
		},
		"three levels up, seen from outside": {
			Subject: report.Subject{PID: 7, Name: "api"},
			Limit: report.Limit{
				State: "limited", CPUs: ptr(1.0), From: "/sys/fs/cgroup/ecstasks.slice", Cgroup: "v2", Inside: &report.Inside{State: "none"},
				Levels: []report.Level{
					{Dir: "/sys/fs/cgroup/ecstasks.slice/task.slice/pod.slice/docker-" + strings.Repeat("0123456789abcdef", 4) + ".scope"},
					{Dir: "/sys/fs/cgroup/ecstasks.slice/task.slice/pod.slice", Error: "permission denied"},
					{Dir: "/sys/fs/cgroup/ecstasks.slice/task.slice"},
					{Dir: "/sys/fs/cgroup/ecstasks.slice", CPUs: 1, Quota: 0.1, Period: 0.1, InForce: true},
					{Dir: "/sys/fs/cgroup"},
				},
			},
			Affinity:   report.Affinity{CPUs: 16},
			Throttling: report.Throttling{Own: report.Counters{Dir: "x", Known: true}, Owner: counted, LocalSeconds: ptr(0.0123)},
			Memory:     report.Memory{State: "none"},
			Collector:  &report.Collector{Live: 1 << 20},
			Go:         &report.Go{Version: "devel go1.28-abcdef", Automaxprocs: "no", Unthrottle: "linked", GOMAXPROCS: ptr("3")},
			GOMAXPROCS: report.GOMAXPROCS{Value: ptr(3), Source: "environment", Why: "GOMAXPROCS=3 in its environment", Predicted: true, Proof: report.ProofPredicted},
		},
	}
}

// TestExplainIsSafe hides terminal sequences in everything that comes from a process or from the names of files.
func TestExplainIsSafe(t *testing.T) {
	evil := "a\x1b[2J\x07\nb"
	e := &report.Explain{
		Subject: report.Subject{PID: 7, Name: evil},
		Limit: report.Limit{
			State: "unknown", Reason: evil, From: evil,
			Levels: []report.Level{{Dir: "/x/" + evil, Error: evil, Cpuset: evil}, {Dir: "/x"}},
		},
		Memory:     report.Memory{State: "none", GOMEMLIMIT: evil, GOGC: evil},
		Go:         &report.Go{Version: evil, GOMAXPROCS: ptr(evil), GODEBUG: ptr(evil), Automaxprocs: "no", Unthrottle: "no"},
		GOMAXPROCS: report.GOMAXPROCS{Why: evil},
		Choices:    []report.Choice{{Rule: "x", Why: evil}},
		Warnings:   []string{evil},
	}
	text := shown(t, Explain(e))
	if n := strings.Count(text, `a\x1b[2J\a\nb`); n < 10 {
		t.Errorf("%d of the texts are shown:\n%s", n, text)
	}
	if *e.Go.GODEBUG != evil || e.Warnings[0] != evil {
		t.Error("the document was changed")
	}
}

func TestShorten(t *testing.T) {
	if got := shorten("cri-containerd-0123456789abcdef.scope", 15); got != "cri-con…f.scope" {
		t.Errorf("got %q", got)
	}
	if got := shorten("short", 15); got != "short" {
		t.Errorf("got %q", got)
	}
}

// randomExplain is of a Go program of any version, started in any way, that wants some CPUs and some memory under limits of its own or
// above, alongside others. The same look is a line of ps.
func randomExplain(random *rand.Rand) (*report.Explain, *report.Ps) {
	pick := func(of ...float64) float64 { return of[random.IntN(len(of))] }
	word := func(of ...string) string { return of[random.IntN(len(of))] }
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	cpus, cores, wants, wall := pick(0, 0.3, 0.5, 1, 1.5, 3), pick(1, 2, 4, 16), pick(0, 0.005, 0.3, 1, 2, 4), pick(1, 5)
	s := choice.System{Limits: cgroup.Limits{State: cgroup.None, Version: cgroup.V2, Affinity: int(cores), Levels: []cgroup.Level{{Dir: "/sys/fs/cgroup/app/own"}, {Dir: "/sys/fs/cgroup/app"}}}}
	own := random.IntN(4) > 0
	if l := &s.Limits; cpus > 0 {
		i := 1
		if own {
			i = 0
		}
		l.State, l.CPUs, l.From = cgroup.Limited, cpus, l.Levels[i].Dir
		l.Levels[i].Quota = cgroup.Quota{QuotaMicros: int64(cpus * 1e5), PeriodMicros: 1e5}
	}
	s.Inside = s.Limits
	if !own && random.IntN(2) == 0 { // its namespace hides the level above
		s.Inside = cgroup.Limits{State: cgroup.None, Version: cgroup.V2, Affinity: int(cores), Levels: []cgroup.Level{{Dir: "/sys/fs/cgroup"}}}
	}
	program := &procs.Program{GoVersion: word("go1.21.3", "go1.24.13", "go1.25.1", "go1.26.8"), Path: "example.com/server"}
	switch random.IntN(6) {
	case 0:
		program.Automaxprocs = procs.Imported
	case 1:
		program.Unthrottle = procs.Imported
	}
	read := procs.Process{PID: 4711, Name: "server", Program: program, Env: map[string]string{}}
	if random.IntN(3) == 0 {
		read.Env["GOMAXPROCS"] = word("1", "2", "16", "64", "2500m")
	}
	p := host.Process{Process: read, System: s, Prediction: s.Predict(read), Version: program.GoVersion}
	p.Live = p.Prediction.Procs
	switch random.IntN(5) {
	case 0:
		p.Live = int(pick(1, 2, 16)) // a call
	case 1:
		p.Live = 0
	}
	used := min(wants, cores, float64(max(1, p.Procs())))
	if cpus > 0 {
		used = min(used, cpus)
	}
	u := host.Usage{Wall: seconds(wall), CPU: seconds(used * wall)}
	var now cgroup.Throttling
	if l := s.Limits; cpus > 0 {
		c := cgroup.Counters{Dir: l.From, Known: true, Periods: int64(10 * wall * min(1, 20*used))}
		if atOnce := min(wants, float64(p.Procs()), cores); atOnce > cpus {
			c.Throttled = int64(pick(0.05, 0.5, 1) * float64(c.Periods))
			c.ThrottledTime = seconds(0.1 * (atOnce - cpus) * float64(c.Throttled))
		} else if random.IntN(4) == 0 { // a burst now and then
			c.Throttled = min(c.Periods, int64(random.IntN(3)))
			c.ThrottledTime = seconds(0.03 * float64(c.Throttled))
		}
		now.Owner = c
		if random.IntN(2) == 0 {
			now.Local, now.LocalKnown = c.ThrottledTime, true
			u.StallKnown, u.Stall = true, seconds(min(wall, c.ThrottledTime.Seconds()/max(1, wants)))
		}
	} else if random.IntN(8) == 0 && used > 0.01 { // a limit that can't be seen
		now.Local, now.LocalKnown = seconds(0.3*wall), true
	}
	u.Throttling = now
	if p.Live > 0 {
		u.Samples, u.Running, u.Parallel = 1000, min(wants, float64(p.Live)), max(1, min(wants, float64(p.Live)))
		u.Running = max(u.Running, used)
		if now.Owner.Throttled > 0 {
			u.FrozenKnown, u.Frozen = true, min(1, now.Owner.ThrottledTime.Seconds()/wall/u.Parallel)
		}
	}
	others := min(pick(0, 0, 0.5, 1)*cores, cores-used)
	if random.IntN(2) == 0 {
		u.DelayWall, u.DelayCPU, u.Delay = seconds(wall), u.CPU, seconds(max(0, wants-used)*wall)
	}
	system := host.System{CPUs: int(cores), Wall: seconds(wall), Busy: used + others, Known: true}
	if live := pick(0, 1, 40, 90); live > 0 && p.Live > 0 {
		c := golive.Collector{Percent: int(pick(-1, 50, 100, 400)), Limit: math.MaxInt64, Live: uint64(live * (1 << 20)), Roots: 1 << 20, Other: 5 << 20}
		c.Goal = c.Live + uint64(float64(c.Live+c.Roots)*max(0, float64(c.Percent))/100)
		if random.IntN(2) == 0 {
			s.Memory = cgroup.Memory{State: cgroup.Limited, Bytes: int64(pick(64, 128, 512) * (1 << 20)), From: "/sys/fs/cgroup/app"}
			p.System.Memory = s.Memory
		}
		if random.IntN(2) == 0 {
			c.Limit = int64(pick(50, 115, 128, 460) * (1 << 20))
			c.Goal = max(c.Live, min(c.Goal, uint64(c.Limit)-min(uint64(c.Limit), c.Other)))
		}
		if c.Percent < 0 && c.Limit == math.MaxInt64 {
			c.Goal = math.MaxUint64
		}
		p.Collector = &c
		collecting := pick(0.01, 0.1, 0.6)
		u.Collecting, u.GCKnown, u.Collected, u.Switched, u.AnonMemory = &collecting, true, pick(0.1, 5, 200), 1e4, int64(c.Live+c.Other+c.Roots)
	}
	p.Usage = u
	before := cgroup.Throttling{Own: cgroup.Counters{Dir: "x"}, Owner: cgroup.Counters{Dir: now.Owner.Dir, Known: now.Owner.Known}, LocalKnown: now.LocalKnown}
	now.Own.Dir = "x"
	facts := report.Facts{Process: p, Rules: s.Rules(), Throttling: now, Before: &before, Between: seconds(wall)}
	if p.Live > 0 {
		facts.Findings = rule.Check(rule.OfProcess(&p, system))
	}
	return report.NewExplain(facts), report.NewPs(host.Result{System: system, Processes: []host.Process{p}, Looked: 1})
}

// TestExplainAgrees draws random programs: no sentence about one denies another, nor the figures next to it, and ps says the same.
func TestExplainAgrees(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	words := map[string]int{}
	for range 4000 {
		d, ps := randomExplain(random)
		v := d.Verdict()
		words[v.Word]++
		text := drawn(t, Explain(d), 0)
		bad := contradictions(text)
		if of := ps.Processes[0].Verdict; d.GOMAXPROCS.Proof == report.ProofLive && of != v.Word {
			bad = append(bad, fmt.Sprintf("explain says %q, ps %q", v.Word, of))
		}
		if len(bad) > 0 {
			t.Fatalf("%q\n%s", bad, text)
		}
		if bad := contradictions(drawn(t, Ps(ps), 0)); len(bad) > 0 {
			t.Fatalf("%q\n%s", bad, drawn(t, Ps(ps), 0))
		}
	}
	for _, r := range rule.Rules() {
		if r.Name != "stale" && words[r.Verdict] == 0 {
			t.Errorf("no process made up here is %s: %v", r.Verdict, words)
		}
	}
}
