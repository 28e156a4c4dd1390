package audit

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/binary"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// TestVerdicts: each cause, from each source, with what is said about it and what to do. A verdict says no more than its data.
func TestVerdicts(t *testing.T) {
	clean := func(p *Program) { p.Procs, p.Findings = 2, nil }
	const patch = `kubectl patch deployment api -n shop -p '{"spec":{"template":{"spec":{"containers":[{"name":"app","env":[`
	for _, c := range []struct {
		name      string
		container workload.Container
		programs  []func(*Program) // one a pod
		answered  bool             // the agents of all nodes did
		history   *History

		verdict Verdict
		goes    Go
		first   string // rule and source of the first finding
		text    string // in the summary
		fix     string // in the fix
		command string // begins the command's patch; "": none
	}{
		{name: "nothing is known", container: app(0, 0.1, ""), verdict: Nobody, goes: GoOpen, text: "the program is not known"},
		{name: "a limit, and nobody knows who runs", container: app(1, 0, ""), verdict: Open, goes: GoOpen, text: "which Go program runs there is not known"},
		{name: "no Go, by its name", container: named(app(1, 0, ""), "nginx:1"), verdict: NoGo, goes: GoNone},
		{name: "no Go, by agents", container: app(1, 0, ""), answered: true, verdict: NoGo, goes: GoNone, text: "no Go program"},
		{
			name: "by the spec alone", container: app(1, 0, "16"), verdict: AsWritten, goes: GoLikely, first: "K005 spec", text: "GOMAXPROCS is 16",
			fix: "set GOMAXPROCS to 2 in container app", command: patch + `{"name":"GOMAXPROCS","value":"2"}]}]}}}}'`,
		},
		{
			name: "the divisor", container: app(0.25, 0, "limits.cpu"), verdict: AsWritten, goes: GoLikely, first: "K001 spec", fix: "divisor",
			command: patch + `{"name":"GOMAXPROCS","valueFrom":{"resourceFieldRef":{"divisor":"1","resource":"limits.cpu"}}}`,
		},
		{
			name: "an old Go is seen", container: app(1, 0, ""), programs: []func(*Program){nil}, verdict: Wrong, goes: GoSeen, first: "too-many-ps agent",
			fix: "set GOMAXPROCS to 2", command: patch + `{"name":"GOMAXPROCS","value":"2"}`,
		},
		{
			name: "an old Go with a larger limit", container: app(3, 0, ""), programs: []func(*Program){func(p *Program) { p.Limit = 3 }}, verdict: Wrong, goes: GoSeen,
			first: "too-many-ps agent", fix: "take GOMAXPROCS from limits.cpu",
			command: patch + `{"name":"GOMAXPROCS","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"1"}}}`,
		},
		{
			name: "a new Go with a number that is pinned", container: app(1, 0, "16"), verdict: Wrong, goes: GoSeen, first: "too-many-ps agent",
			programs: []func(*Program){func(p *Program) { p.GoVersion, p.GoLine, p.SetBy = "go1.26.1", "1.26 or later", "spec" }},
			fix:      "take GOMAXPROCS out", command: patch + `{"name":"GOMAXPROCS","$patch":"delete"}`,
		},
		{
			name: "stale after a resize", container: app(2, 0, "1"), verdict: Wrong, goes: GoSeen, first: "stale agent",
			programs: []func(*Program){func(p *Program) {
				p.GoVersion, p.GoLine, p.SetBy, p.Procs, p.Limit = "go1.26.1", "1.26 or later", "spec", 1, 2
				p.Findings = []finding.Finding{found("stale", finding.Warning)}
			}},
			fix: "take GOMAXPROCS out", command: patch + `{"name":"GOMAXPROCS","$patch":"delete"}`,
		},
		{
			name: "set by code", container: app(1, 0, ""), verdict: Wrong, goes: GoSeen, first: "too-many-ps agent",
			programs: []func(*Program){func(p *Program) { p.GoVersion, p.GoLine, p.SetBy = "go1.26.1", "1.26 or later", "code" }}, fix: "do something about too-many-ps",
		},
		{
			name: "throttled, and that is all", container: app(1, 0, ""), verdict: Wrong, goes: GoSeen, first: "throttled agent",
			programs: []func(*Program){func(p *Program) {
				p.GoVersion, p.GoLine, p.Procs = "go1.26.1", "1.26 or later", 2
				p.Findings = []finding.Finding{found("throttled", finding.Warning)}
			}}, fix: "do something about throttled",
		},
		{
			name: "a new Go, and nothing wrong", container: app(1, 0, ""), verdict: Fine, goes: GoSeen, text: "nothing is wrong with what was seen",
			programs: []func(*Program){func(p *Program) { clean(p); p.GoVersion, p.GoLine = "go1.26.1", "1.26 or later" }},
		},
		{
			name: "a note is no fault", container: app(1, 0, ""), verdict: Fine, goes: GoSeen, first: "contended agent",
			programs: []func(*Program){func(p *Program) {
				clean(p)
				p.GoVersion, p.GoLine, p.Findings = "go1.26.1", "1.26 or later", []finding.Finding{found("contended", finding.Info)}
			}},
		},
		{
			name: "muted", container: app(1, 0, ""), verdict: Fine, goes: GoSeen,
			programs: []func(*Program){func(p *Program) {
				p.GoVersion, p.GoLine, p.SetBy, p.Muted = "go1.26.1", "1.26 or later", "code", []string{"too-many-ps"}
			}},
		},
		{
			name: "counted: throttled, and too many Ps", container: app(1, 0, ""), verdict: Wrong, goes: GoSeen, first: "too-many-ps prometheus", text: "GOMAXPROCS is 16",
			history: &History{Container: "app", Procs: 16, GoVersion: "go1.24.3", CPU: new(0.8), Periods: 1000, ThrottledPeriods: 700},
			fix:     "set GOMAXPROCS to 2", command: patch + `{"name":"GOMAXPROCS","value":"2"}`,
		},
		{
			name: "counted: the container is not named", container: app(1, 0, ""), verdict: Wrong, goes: GoSeen, first: "too-many-ps prometheus",
			history: &History{Procs: 16, GoVersion: "go1.26.0", CPU: new(0.8)}, fix: "GOMAXPROCS=2",
		},
		{
			name: "counted: twice as many Ps, throttled", container: app(2, 0, ""), verdict: Wrong, goes: GoSeen, first: "too-many-ps prometheus", text: "GOMAXPROCS is 5 under a limit of 2 CPUs",
			history: &History{Container: "app", Procs: 5, CPU: new(1.2), Periods: 1000, ThrottledPeriods: 300}, fix: "GOMAXPROCS=2",
		},
		{
			name: "counted: left behind by a resize", container: app(2, 0, ""), verdict: Wrong, goes: GoSeen, first: "stale prometheus", text: "GOMAXPROCS is still 8, though its limit has changed",
			history: &History{Container: "app", Procs: 8, Limit: 2, Before: []float64{8}, CPU: new(0.5)}, fix: "restart",
		},
		{
			name: "counted: the limit was another one for another process", container: app(2, 0, ""), verdict: Fine, goes: GoSeen,
			history: &History{Container: "app", Procs: 3, Limit: 2, Before: []float64{3}, Moved: true, CPU: new(0.5)},
		},
		{
			name: "counted: a resize that the kubelet has not made yet", container: app(2, 0, ""), verdict: Fine, goes: GoSeen,
			history: &History{Container: "app", Procs: 3, Limit: 2, InForce: 3, Before: []float64{3}, CPU: new(0.5)},
		},
		{
			name: "counted: it was wrong before the resize", container: app(2, 0, ""), verdict: Fine, goes: GoSeen,
			history: &History{Container: "app", Procs: 6, Limit: 2, Before: []float64{3}, CPU: new(0.5)},
		},
		{
			name: "counted: it stands still at its limit, and nobody counted periods", container: app(1, 0, ""), verdict: Wrong, goes: GoSeen, first: "throttled prometheus", text: "its limit of 1 CPU stops it",
			history: &History{Container: "app", Procs: 2, CPU: new(0.97), Stalled: new(0.3), Waiting: new(0.5)}, fix: "higher limit",
		},
		{
			name: "counted: it stands still, and why is not known", container: app(1, 0, ""), verdict: Fine, goes: GoSeen, first: "throttled prometheus", text: "its threads could not run for 30 % of the time",
			history: &History{Container: "app", Procs: 2, CPU: new(0.2), Stalled: new(0.3)},
		},
		{
			name: "counted: GOGC=off without GOMEMLIMIT", container: remembering(256 << 20), verdict: Wrong, goes: GoSeen, first: "no-gomemlimit prometheus", text: "GOGC=off",
			history: &History{Container: "app", Procs: 2, GOGC: new(-1), GOMEMLIMIT: math.MaxInt64}, fix: "GOMEMLIMIT=230MiB",
		},
		{
			name: "counted: no GOMEMLIMIT, and a heap near the limit", container: app(0, 0, ""), verdict: Wrong, goes: GoSeen, first: "no-gomemlimit prometheus", text: "no more than 128 MiB may be alive",
			history: &History{Container: "app", Procs: 2, GOGC: new(100), GOMEMLIMIT: math.MaxInt64, MemoryLimit: 256 << 20, Goal: 240 << 20}, fix: "GOMEMLIMIT=230MiB",
		},
		{
			name: "counted: GOMEMLIMIT above the limit", container: remembering(256 << 20), verdict: Fine, goes: GoSeen, first: "gomemlimit-too-high prometheus",
			history: &History{Container: "app", Procs: 2, GOGC: new(100), GOMEMLIMIT: 512 << 20, Goal: 100 << 20},
		},
		{
			name: "counted: CPU alone is no Go program", container: app(1, 0, ""), verdict: Open, goes: GoOpen,
			history: &History{Container: "app", CPU: new(0.8), Periods: 1000, ThrottledPeriods: 700},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := start(max(1, len(c.programs)), deployment("api", c.container))
			for i, change := range c.programs {
				if got := a.Saw(a.found.Pods[i].Node, seen("api", i, change)); got != Taken {
					t.Fatalf("the program was not taken: %v", got)
				}
			}
			if c.answered {
				a.Answered("node-0")
			}
			if h := c.history; h != nil {
				h.Namespace, h.Pod = "shop", "api-0"
				if !a.History(*h) {
					t.Fatal("the history was not taken")
				}
			}
			w := only(t, a)
			first, text, command := "", "", ""
			if len(w.Findings) > 0 {
				first = w.Findings[0].Rule + " " + string(w.Findings[0].Source)
			}
			if w.Fix != nil {
				text, command = w.Fix.Text, w.Fix.Command
			}
			if w.Verdict != c.verdict || w.Go != c.goes || c.first != "" && first != c.first || !strings.Contains(w.Summary, c.text) ||
				!strings.Contains(text, c.fix) || (command == "") != (c.command == "") || !strings.HasPrefix(command, c.command) {
				t.Errorf("%s, Go %s, %q, %q\nfix %q: %s", w.Verdict, w.Go, first, w.Summary, text, command)
				for _, f := range w.Findings {
					t.Logf("%+v", f)
				}
				t.Logf("%+v", w.Fix)
			}
		})
	}
}

// remembering is a container with a memory limit and no other.
func remembering(bytes float64) workload.Container {
	c := app(0, 0, "")
	c.Memory = cpus(bytes)
	return c
}

func named(c workload.Container, image string) workload.Container {
	c.Image = image
	return c
}

// TestResizedLimit: where nothing was measured, the limit is that of the pods, and not of a template that they have been resized from.
func TestResizedLimit(t *testing.T) {
	template, resized := deployment("opa", app(0.5, 0.1, "")), deployment("opa", app(2, 0.1, ""))
	resized.Kind, resized.APIVersion, resized.Name, resized.Owner = "Pod", "v1", "opa-0", "Deployment/opa"
	found := running(1, template)
	found.Workloads = append(found.Workloads, resized)
	found.Pods[0].Of = resized
	if w := only(t, New(found, lint.Known{}, Options{})); w.Limit != 2 || w.Name != "opa" {
		t.Errorf("%+v", w)
	}
	found.Pods = nil
	if w := only(t, New(found, lint.Known{}, Options{})); w.Limit != 0.5 {
		t.Errorf("without pods: %+v", w)
	}
}

// TestOutcomes: what an agent says is taken only if the API server knows it there.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name   string
		node   string
		change func(*Program)
		want   Outcome
	}{
		{"as it is", "node-0", nil, Taken},
		{"another node's", "node-1", nil, Elsewhere},
		{"a static pod, known by its name", "node-0", func(p *Program) { p.UID = "0123456789abcdef" }, Taken},
		{"a pod that came or went", "node-0", func(p *Program) { p.UID, p.Pod = "other", "other-0" }, Unknown},
		{"a pod that was recreated on another node", "node-1", func(p *Program) { p.UID = "uid-before" }, Unknown},
		{"another namespace's", "node-0", func(p *Program) { p.UID, p.Namespace = "other", "far" }, Unknown},
		{"a container that is not there", "node-0", func(p *Program) { p.Container = "invented" }, Strange},
		{"a container without a name yet", "node-0", func(p *Program) { p.Container, p.Namespace, p.Pod = "", "", "" }, Unnamed},
		{"another node's without a name", "node-1", func(p *Program) { p.Container, p.Namespace, p.Pod = "", "", "" }, Elsewhere},
		{"nobody's without a name", "node-0", func(p *Program) { p.Container, p.Namespace, p.Pod, p.UID = "", "", "", "other" }, Unknown},
		{"an init container", "node-0", func(p *Program) { p.Container = "migrate" }, Passing},
		{"an ephemeral container", "node-0", func(p *Program) { p.Container = "debugger" }, Passing},
	} {
		migrate := app(0, 0, "")
		migrate.Name, migrate.Role = "migrate", workload.Init
		found := running(1, deployment("api", migrate, app(1, 0, "")))
		found.Pods[0].Ephemeral = []string{"debugger"}
		a := New(found, lint.Known{}, Options{})
		if got := a.Saw(c.node, seen("api", 0, c.change)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if got := a.Saw(c.node, seen("api", 0, c.change)); c.want == Taken && got != Twice {
			t.Errorf("%s, told again: %v", c.name, got)
		}
		otherwise := func(p *Program) {
			if c.change != nil {
				c.change(p)
			}
			p.Procs += 60
		}
		if got := a.Saw(c.node, seen("api", 0, otherwise)); c.want == Taken && got != Otherwise {
			t.Errorf("%s, told otherwise: %v", c.name, got)
		}
		if w := only(t, a); (w.Cost.Programs == 1) != (c.want == Taken) || (w.Go == GoSeen) != (c.want == Taken) || (len(w.Findings) > 0) != (c.want == Taken) {
			t.Errorf("%s: %d programs, %s, %d findings", c.name, w.Cost.Programs, w.Go, len(w.Findings))
		}
	}
}

// TestUnnamed: what has no name hides nothing and adds nothing. Its pod does not pass for one without Go programs, and what is
// reported about the same process by name counts as usual.
func TestUnnamed(t *testing.T) {
	nameless := func(p *Program) { p.Container, p.Namespace, p.Pod = "", "", "" }
	for name, c := range map[string]struct {
		saw  []func(*Program)
		want Verdict
	}{
		"nobody is told of":                 {nil, NoGo},
		"one without a name":                {[]func(*Program){nameless}, Open},
		"one without a name, then with one": {[]func(*Program){nameless, nil}, Wrong},
		"one with a name, then without":     {[]func(*Program){nil, nameless}, Wrong},
		"one in an init container":          {[]func(*Program){func(p *Program) { p.Container = "migrate" }}, NoGo},
	} {
		migrate := app(0, 0, "")
		migrate.Name, migrate.Role = "migrate", workload.Init
		a := start(1, deployment("api", migrate, app(1, 0, "")))
		for _, change := range c.saw {
			a.Saw("node-0", seen("api", 0, change))
		}
		a.Answered("node-0")
		if w := only(t, a); w.Verdict != c.want || w.Cost.Programs > 1 {
			t.Errorf("%s: %s, %d programs; want %s", name, w.Verdict, w.Cost.Programs, c.want)
		}
	}
}

// TestFold: pods that differ from their template are part of its row, and their patch is not the template's.
func TestFold(t *testing.T) {
	api := deployment("api", app(1, 0, ""))
	differs := deployment("api-0", app(1, 0, "16"))
	differs.Kind, differs.Owner, differs.APIVersion = "Pod", "Deployment/api", "v1"
	f := running(2, api)
	f.Workloads = append(f.Workloads, differs)
	f.Pods[0].Of = differs
	w := only(t, New(f, lint.Known{}, Options{}))
	if w.String() != "Deployment/api in shop" || w.Pods != 2 || w.Verdict != AsWritten || w.Fix.Command != "" || !strings.Contains(w.Fix.Without, "no template says so") {
		t.Errorf("%+v %+v", w, w.Fix)
	}
}

// TestGone: what Prometheus has about pods that are gone counts for their owner, and without an owner for none.
func TestGone(t *testing.T) {
	cron := deployment("report", app(1, 0, ""))
	cron.Kind, cron.APIVersion = "CronJob", "batch/v1"
	for _, c := range []struct {
		kind, name string
		want       bool
	}{
		{"ReplicaSet", "api-5d8f7", true}, {"Job", "report-28391", true}, {"Deployment", "api", true}, {"ReplicaSet", "apiary-5d8f7", false}, {"", "", false}, {"Job", "-", false},
	} {
		a := start(0, deployment("api", app(1, 0, "")), cron)
		h := History{Namespace: "shop", Pod: "gone-1", Container: "app", OwnerKind: c.kind, OwnerName: c.name, Procs: 16, GoVersion: "go1.24.3", CPU: new(0.8)}
		if got := a.History(h); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestSaved: never more than was measured, and nothing where nothing was measured.
func TestSaved(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Program)
		want   Range
	}{
		// 1.5 threads looked for work, one of them may stay: half a thread of two Ps that had work got a quarter of the 0.5 CPUs.
		{"more than may stay", nil, Range{Low: 0.125, High: 0.5, Measured: 1}},
		{"few enough to stay", func(p *Program) { p.Spinning = new(0.3) }, Range{Low: 0, High: 0.3, Measured: 1}},
		{"more threads than CPUs were used", func(p *Program) { p.Spinning, p.CPU = new(9.0), new(0.2) }, Range{Low: 0.2 * 8 / 9, High: 0.2, Measured: 1}},
		{"idle", func(p *Program) { p.Spinning, p.CPU = new(0.0), new(0.0) }, Range{Measured: 1}},
		{"not sampled", func(p *Program) { p.Spinning = nil }, Range{NotMeasured: 1}},
		{"CPU not known", func(p *Program) { p.CPU = nil }, Range{NotMeasured: 1}},
		{"the right number", func(p *Program) { p.Procs = 2 }, Range{}},
		{"what is right is not known", func(p *Program) { p.Expected = 0 }, Range{}},
		{"no finding about it", func(p *Program) { p.Findings = []finding.Finding{found("throttled", finding.Critical)} }, Range{}},
		{"nonsense", func(p *Program) { p.CPU = new(math.NaN()) }, Range{NotMeasured: 1}},
	} {
		got := saved(seen("api", 0, c.change))
		if math.Abs(got.Low-c.want.Low) > 1e-9 || math.Abs(got.High-c.want.High) > 1e-9 || got.Measured != c.want.Measured || got.NotMeasured != c.want.NotMeasured {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestCost: that of several pods, and that of two containers which stand still together, counted once.
func TestCost(t *testing.T) {
	side := app(1, 0, "")
	side.Name = "side"
	a := start(3, deployment("api", app(1, 0, ""), side))
	for i, name := range []string{"app", "side", "app"} {
		a.Saw([]string{"node-0", "node-0", "node-1"}[i], seen("api", i/2, func(p *Program) { p.Container = name }))
	}
	c := only(t, a).Cost
	if c.Programs != 3 || value(c.CPU) != 1.5 || value(c.Frozen) != 0.4 || math.Abs(c.FrozenPods-0.8) > 1e-9 || c.Save.Measured != 3 || c.Save.High != 1.5 || value(c.Throttled) != 0.9 {
		t.Errorf("%+v", c)
	}
	a = start(1, deployment("api", app(1, 0, ""), side))
	a.History(History{Namespace: "shop", Pod: "api-0", Periods: 141, ThrottledPeriods: 139})
	if c := only(t, a).Cost; c.Throttled != nil || value(c.PodThrottled) != 139.0/141 {
		t.Errorf("a limit of the pod: %+v", c)
	}
	for _, h := range []History{{Periods: 10, ThrottledPeriods: 11}, {Periods: -1}, {}, {Periods: 10, ThrottledPeriods: -1}} {
		if h.throttled() != nil {
			t.Errorf("%+v", h)
		}
	}
}

// TestOfPod: a program's series that name only the pod belong to none of several containers.
func TestOfPod(t *testing.T) {
	proxy := app(0, 0, "")
	proxy.Name = "proxy"
	for _, c := range []struct {
		containers []workload.Container
		want       int
	}{{[]workload.Container{app(1, 0, "")}, 1}, {[]workload.Container{app(1, 0, ""), proxy}, 0}} {
		a := start(1, deployment("api", c.containers...))
		a.History(History{Namespace: "shop", Pod: "api-0", Container: "app", OfPod: true, Procs: 16, GoVersion: "go1.24.3", CPU: new(0.8), Periods: 100, ThrottledPeriods: 70})
		if got := resultOf(t, a).Totals.Measured; got != c.want {
			t.Errorf("%d containers: %d were measured, want %d", len(c.containers), got, c.want)
		}
	}
}

// TestWorth: what is seen to cost most comes first, regardless of its name.
func TestWorth(t *testing.T) {
	names := []string{"a-fine", "b-note", "c-idle", "d-busy", "e-critical", "f-open"}
	var all []*workload.Workload
	for _, n := range names {
		all = append(all, deployment(n, app(1, 0, "")))
	}
	a := start(1, all...)
	warn := func(cpu float64) func(*Program) {
		return func(p *Program) {
			p.CPU, p.Spinning = &cpu, &cpu
			p.Findings = []finding.Finding{found("too-many-ps", finding.Warning)}
		}
	}
	fine := func(p *Program) { p.GoVersion, p.GoLine, p.Procs, p.Findings = "go1.26.0", "1.26 or later", 2, nil }
	for name, change := range map[string]func(*Program){
		"a-fine": fine, "b-note": func(p *Program) { fine(p); p.Findings = []finding.Finding{found("contended", finding.Info)} }, "c-idle": warn(0), "d-busy": warn(0.9), "e-critical": nil,
	} {
		a.Saw("node-0", seen(name, 0, change))
	}
	var got []string
	r := resultOf(t, a)
	for _, w := range r.Workloads {
		got = append(got, w.Name)
	}
	if want := []string{"e-critical", "d-busy", "c-idle", "f-open", "b-note", "a-fine"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	x := r.Totals
	if x.Verdicts[Wrong] != 3 || x.Verdicts[Open] != 1 || x.Verdicts[Fine] != 2 || x.Go[GoSeen] != 5 || x.Programs != 5 || x.Pods != 6 {
		t.Errorf("%+v", x)
	}
	// The limit is not read, say the objects once the program is known; and so there are too many Ps, say the agents.
	if want := []Cause{{"K013", "limit not read", HoldsNow, 3, 3}, {"too-many-ps", "too-many-ps", HoldsNow, 3, 3}}; !slices.Equal(x.Causes, want) {
		t.Errorf("%+v", x.Causes)
	}
	if x.Save.Measured != 3 || math.Abs(x.Save.High-1.4) > 1e-9 || x.Go126.Right != 3 {
		t.Errorf("%+v %+v", x.Save, x.Go126)
	}
}

// TestNamed: programs that were not seen are asked for, and once they are named the rules know them.
func TestNamed(t *testing.T) {
	other := deployment("web", named(app(1, 0, ""), "nginx:1"))
	a := start(1, deployment("api", app(1, 0, "")), deployment("seen", named(app(1, 0, ""), "registry.example.com/seen:1")), other)
	a.Saw("node-0", seen("seen", 0, nil))
	unseen := a.Unseen()
	if len(unseen) != 1 || len(unseen["registry.example.com/app:1"]) != 1 {
		t.Fatalf("%v", unseen)
	}
	a.Named("registry.example.com/app:1", binary.Binary{Known: true, Program: procs.Built("go1.24.0", "1.24 or later"), From: "the program in its image"})
	for _, w := range resultOf(t, a).Workloads {
		if w.Name == "api" && (w.Verdict != AsWritten || w.Go != GoSeen || w.Findings[0].Rule != "K013" || w.Fix.Command == "") {
			t.Errorf("%+v", w)
		}
	}
	if len(a.Unseen()) != 0 {
		t.Errorf("it is asked for again: %v", a.Unseen())
	}
	a = start(1, deployment("api", app(1, 0, "")))
	a.Named("registry.example.com/app:1", binary.Binary{Known: true, From: "its image"})
	if w := only(t, a); w.Verdict != NoGo || w.Go != GoNone {
		t.Errorf("%+v", w)
	}
}

// TestNever: no matter what agents and Prometheus say, the saving is at most what was used, and nothing is reported twice.
func TestNever(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	maybe := func(most float64) *float64 {
		if random.IntN(4) == 0 {
			return nil
		}
		return new(most * random.Float64())
	}
	for range 300 {
		var all []*workload.Workload
		for _, n := range []string{"a", "b", "c"} {
			number := []string{"", "1", "2", "16", "limits.cpu", "auto"}[random.IntN(6)]
			all = append(all, deployment(n, app([]float64{0, 0.5, 1, 2.5}[random.IntN(4)], []float64{0, 0.25, 1}[random.IntN(3)], number)))
		}
		a := start(3, all...)
		used := 0.0
		for range random.IntN(20) {
			p := seen([]string{"a", "b", "c", "d"}[random.IntN(4)], random.IntN(4), func(p *Program) {
				p.PID, p.Procs, p.Expected, p.CPUs = random.IntN(3), random.IntN(40), random.IntN(5), random.IntN(40)
				p.SetBy = []string{"spec", "default", "code", "automaxprocs", "unthrottle", "runtime", ""}[random.IntN(7)]
				p.GoVersion, p.GoLine = []string{"go1.24.1", "go1.26.0", "", "devel"}[random.IntN(4)], []string{"", "1.24", "1.26 or later"}[random.IntN(3)]
				p.CPU, p.Running, p.Spinning, p.Frozen, p.Throttled = maybe(4), maybe(30), maybe(30), maybe(1), maybe(1)
				p.Findings = []finding.Finding{found([]string{"too-many-ps", "throttled", "stale"}[random.IntN(3)], finding.Severity(random.IntN(3)))}
			})
			if a.Saw([]string{"node-0", "node-1", "node-2"}[random.IntN(3)], p) == Taken {
				used += value(p.CPU)
			}
		}
		for range random.IntN(5) {
			a.History(History{
				Namespace: "shop", Pod: []string{"a-0", "b-1", "x"}[random.IntN(3)], Container: []string{"app", "", "y"}[random.IntN(3)],
				Procs: random.IntN(40), GoVersion: "go1.24.1", CPU: maybe(4), Periods: int64(random.IntN(100)), ThrottledPeriods: int64(random.IntN(100)), Frozen: maybe(1),
				Stalled: maybe(1), Waiting: maybe(1), Limit: float64(random.IntN(4)), InForce: float64(random.IntN(4)), Before: []float64{float64(random.IntN(9))}, Moved: random.IntN(2) == 0,
				GOGC: []*int{nil, new(-1), new(0), new(100), new(900)}[random.IntN(5)], GOMEMLIMIT: []int64{0, 1, 1 << 28, math.MaxInt64}[random.IntN(4)],
				MemoryLimit: []int64{0, 1, 1 << 28}[random.IntN(3)], Goal: []int64{0, 1, 1 << 28, 1 << 50}[random.IntN(4)],
			})
		}
		r := resultOf(t, a)
		x := r.Totals
		verdicts := 0
		for _, n := range x.Verdicts {
			verdicts += n
		}
		if x.Save.Low > x.Save.High || x.Save.High > used+1e-9 || x.Save.Low < 0 || verdicts != 3 || x.Workloads != 3 || x.FrozenPods > 9 {
			t.Fatalf("%+v, used %v", x, used)
		}
		for _, w := range r.Workloads {
			if w.Verdict.Wrong() != (w.Fix != nil) || w.Summary == "" || w.Verdict.Wrong() && len(w.Findings) == 0 {
				t.Fatalf("%+v", w)
			}
		}
	}
}

func TestNodes(t *testing.T) {
	found := running(3, deployment("api", app(1, 1, "")), deployment("web", app(1, 1, "")))
	found.Pods[1].Node = "" // it waits for one
	if got := New(found, lint.Known{}, Options{}).Nodes(); !slices.Equal(got, []string{"node-0", "node-1", "node-2"}) {
		t.Errorf("%q", got)
	}
	found.Pods[4].Node = ""
	if got := New(found, lint.Known{}, Options{}).Nodes(); !slices.Equal(got, []string{"node-0", "node-2"}) {
		t.Errorf("%q", got)
	}
}
