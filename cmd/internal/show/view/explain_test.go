package view

import (
	"strings"
	"testing"

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
