package audit

import (
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// TestHolds: what was measured comes before what is written. A number that is right in all pods makes a finding of the objects one about
// elsewhere, which costs nothing here; one that is right in some, or according to an agent that is not believed, takes nothing back.
func TestHolds(t *testing.T) {
	right := func(p *Program) { p.Procs, p.Expected, p.CPUs, p.Limit, p.Findings = 2, 2, 2, 2, nil }
	here := func(p *Program) { p.Procs, p.Findings = 1, nil }
	wrong := func(p *Program) { p.Findings = nil }
	node := app(0, 0, "limits.cpu")
	node.Env[0].Divisor = "1"
	endless := app(2, 0, "")
	endless.Memory = cpus(1 << 30)
	endless.Env = []workload.Variable{{Name: "GOGC", Form: workload.Literal, Text: "off", Value: "off", State: workload.Known}}
	for _, c := range []struct {
		name      string
		container workload.Container
		repaired  bool // something changed all pods on their way
		programs  []func(*Program)
		pods      int // 0: one for each program
		history   *History
		doubted   bool

		verdict   Verdict
		rule      string
		holds     Holds
		severity  finding.Severity
		elsewhere string // its severity there
		text      string // in the row's summary
		right     string
	}{
		{
			name: "the limit is not read, on a node that is no larger", container: app(2, 0, ""), programs: []func(*Program){right},
			verdict: NotHere, rule: "K013", holds: HoldsElsewhere, elsewhere: "warning", right: "yes",
			text: "container app: GOMAXPROCS 2 is right here, but would be wrong on a larger node (the program does not read its limit: ",
		},
		{
			name: "the node's CPUs, without a limit", container: node, programs: []func(*Program){func(p *Program) { right(p); p.Limit, p.NoLimit = 0, true }},
			verdict: NotHere, rule: "K003", holds: HoldsElsewhere, elsewhere: "warning", right: "yes",
			text: "GOMAXPROCS 2 is right here, but would be wrong on a larger node (GOMAXPROCS comes from a CPU limit that does not exist",
		},
		{
			name: "all pods are repaired on their way", container: app(0.5, 0, "limits.cpu"), repaired: true, programs: []func(*Program){here, here},
			verdict: NotHere, rule: "K001", holds: HoldsElsewhere, elsewhere: "critical", right: "yes",
			text: "GOMAXPROCS 1 is right here, though the manifest says otherwise (GOMAXPROCS is 500 for 0.5 CPUs)",
		},
		{
			name: "as written, and not measured", container: app(1, 0, "16"), pods: 2,
			verdict: AsWritten, rule: "K005", holds: HoldsWritten, severity: finding.Warning, text: "container app: GOMAXPROCS is 16 under", right: "?",
		},
		{
			name: "as written, and so it was seen", container: app(1, 0, "16"), programs: []func(*Program){wrong},
			verdict: Wrong, rule: "K005", holds: HoldsNow, severity: finding.Warning, text: "container app: GOMAXPROCS is 16 under", right: "no",
		},
		{
			name: "right in one of two pods", container: app(2, 0, "16"), programs: []func(*Program){right}, pods: 2,
			verdict: AsWritten, rule: "K005", holds: HoldsWritten, severity: finding.Warning, text: "; it was measured in 1 of 2 pods, and is right there", right: "yes",
		},
		{
			name: "right in one pod, and wrong in the other", container: app(2, 0, "16"), programs: []func(*Program){right, wrong},
			verdict: Wrong, rule: "K005", holds: HoldsNow, severity: finding.Warning, right: "no",
		},
		{
			name: "right, by an agent that told what can't be", container: app(2, 0, "16"), programs: []func(*Program){right}, doubted: true,
			verdict: AsWritten, rule: "K005", holds: HoldsWritten, severity: finding.Warning, right: "yes",
		},
		{
			name: "the limit in force is not known", container: app(2, 0, "16"), programs: []func(*Program){func(p *Program) { right(p); p.Limit = 0 }},
			verdict: AsWritten, rule: "K005", holds: HoldsWritten, severity: finding.Warning, right: "?",
		},
		{
			name: "its number is not known", container: app(2, 0, "16"), programs: []func(*Program){func(p *Program) { right(p); p.Procs = 0 }},
			verdict: AsWritten, rule: "K005", holds: HoldsWritten, severity: finding.Warning, right: "?",
		},
		{
			name: "right, by its own metrics", container: app(2, 0, "16"), pods: 1, history: &History{Container: "app", Procs: 2, GoVersion: "go1.26.0"},
			verdict: NotHere, rule: "K005", holds: HoldsElsewhere, elsewhere: "warning", right: "yes", text: "GOMAXPROCS 2 is right here",
		},
		{
			name: "wrong, by its own metrics", container: app(2, 0, "16"), pods: 1, history: &History{Container: "app", Procs: 16, GoVersion: "go1.26.0"},
			verdict: Wrong, rule: "K005", holds: HoldsNow, severity: finding.Warning, right: "no",
		},
		{
			name: "memory is not measured by a number of Ps", container: endless, programs: []func(*Program){right},
			verdict: AsWritten, rule: "K014", holds: HoldsWritten, severity: finding.Warning, right: "yes",
		},
		{
			name: "throttled now, and a wrong number elsewhere", container: app(2, 0, ""),
			programs: []func(*Program){func(p *Program) {
				right(p)
				p.Findings = []finding.Finding{found("throttled", finding.Warning)}
			}},
			verdict: Wrong, rule: "K013", holds: HoldsElsewhere, elsewhere: "warning", right: "yes", text: "container app: throttled was found",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := deployment("api", c.container)
			f := running(max(c.pods, len(c.programs)), w)
			if c.repaired {
				two := app(c.container.Limit.Value, 0, "1")
				of := &workload.Workload{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "api-0", Owner: "Deployment/api", Copies: len(f.Pods)}
				of.Pod.Containers = []workload.Container{two}
				f.Workloads = append(f.Workloads, of)
				w.Copies = 0
				for i := range f.Pods {
					f.Pods[i].Of = of
				}
			}
			a := New(f, lint.Known{}, Options{})
			for i, change := range c.programs {
				if got := a.Saw(f.Pods[i].Node, seen("api", i, func(p *Program) { p.Limit = c.container.Limit.Value; change(p) })); got != Taken {
					t.Fatal(got)
				}
			}
			if c.doubted {
				a.Doubted("node-0")
			}
			if h := c.history; h != nil {
				h.Namespace, h.Pod = "shop", "api-0"
				a.History(*h)
			}
			r := resultOf(t, a)
			got := r.Workloads[0]
			at := "?"
			if got.Right != nil {
				at = map[bool]string{true: "yes", false: "no"}[*got.Right]
			}
			if got.Verdict != c.verdict || !strings.Contains(got.Summary, c.text) || at != c.right || got.Fix == nil {
				t.Errorf("%s, %q, right: %s, %+v", got.Verdict, got.Summary, at, got.Fix)
			}
			told := false
			for _, f := range got.Findings {
				elsewhere := ""
				if f.Elsewhere != nil {
					elsewhere = f.Elsewhere.String()
				}
				if f.Rule == c.rule {
					told = true
					if f.Holds != c.holds || f.Severity != c.severity || elsewhere != c.elsewhere {
						t.Errorf("%s: holds %s, %s, elsewhere %q", f.Rule, f.Holds, f.Severity, elsewhere)
					}
				}
			}
			if !told {
				t.Errorf("nothing of %s: %+v", c.rule, got.Findings)
			}
			if causes := r.Totals.Causes; len(causes) == 0 || c.verdict != Wrong && (causes[0].Rule != c.rule || causes[0].Holds != c.holds) {
				t.Errorf("%+v", causes)
			}
		})
	}
}

// TestHoldsWhere: if there are several pods, those count that the object speaks for and that run.
func TestHoldsWhere(t *testing.T) {
	right := func(p *Program) { p.Procs, p.Expected, p.CPUs, p.Limit, p.Findings = 2, 2, 2, 2, nil }
	wrong := func(p *Program) { right(p); p.Procs = 16 }
	for _, c := range []struct {
		name     string
		pods     string // r: repaired on its way, t: as the template says, p: as the template says, and on no node yet
		programs map[int]func(*Program)
		want     Verdict
	}{
		{"all are repaired", "rr", map[int]func(*Program){0: right, 1: right}, NotHere},
		{"one is as the template says, and wrong", "rt", map[int]func(*Program){0: right, 1: wrong}, Wrong},
		{"one is as the template says, and was not seen", "rt", map[int]func(*Program){0: right}, AsWritten},
		{"one is as the template says, and right all the same", "rt", map[int]func(*Program){0: right, 1: right}, NotHere},
		{"one is repaired, and was not seen", "rt", map[int]func(*Program){1: right}, NotHere},
		{"one is on no node yet", "tp", map[int]func(*Program){0: right}, NotHere},
		{"none is on a node", "pp", nil, AsWritten},
		{"there are none", "", nil, AsWritten},
	} {
		w := deployment("api", app(2, 0, "16"))
		of := &workload.Workload{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "api-0", Owner: "Deployment/api", Pod: workload.Pod{Containers: []workload.Container{app(2, 0, "2")}}}
		f := running(len(c.pods), w)
		for i, kind := range c.pods {
			switch kind {
			case 'r':
				f.Pods[i].Of = of
				of.Copies++
			case 'p':
				f.Pods[i].Node = ""
			}
		}
		if of.Copies > 0 {
			f.Workloads = append(f.Workloads, of)
		}
		a := New(f, lint.Known{}, Options{})
		for i, change := range c.programs {
			if got := a.Saw(f.Pods[i].Node, seen("api", i, change)); got != Taken {
				t.Fatalf("%s: %d", c.name, got)
			}
		}
		if got := only(t, a); got.Verdict != c.want {
			t.Errorf("%s: %s, want %s: %s", c.name, got.Verdict, c.want, got.Summary)
		}
	}

	// An agent comes before Prometheus, and what is only worth knowing stays what it is.
	a := start(1, deployment("api", app(2, 0, "16")))
	a.Saw("node-0", seen("api", 0, right))
	a.History(History{Namespace: "shop", Pod: "api-0", Container: "app", Procs: 16, GoVersion: "go1.24.3"})
	if got := only(t, a); got.Verdict != NotHere || got.Right == nil || !*got.Right {
		t.Errorf("%s: %s", got.Verdict, got.Summary)
	}
	a = start(1, deployment("api", app(2, 0, "4")))
	a.Saw("node-0", seen("api", 0, right))
	if got := only(t, a); got.Verdict != Fine || len(got.Findings) == 0 || got.Findings[0].Holds != HoldsWritten || got.Findings[0].Elsewhere != nil {
		t.Errorf("%s: %s, %+v", got.Verdict, got.Summary, got.Findings)
	}
}

// TestFromGit: what is made from Git is reported where there is something to change, and its patch is still there for anyone who needs it
// now.
func TestFromGit(t *testing.T) {
	pinned, fine, pods := deployment("pinned", app(1, 0, "16")), deployment("fine", app(1, 0, "2")), deployment("loose", app(1, 0, "16"))
	for _, w := range []*workload.Workload{pinned, fine, pods} {
		w.Labels = map[string]string{"argocd.argoproj.io/instance": "web"}
	}
	pods.Kind, pods.Owner = "Pod", "Deployment/else" // labels of a pod are its own
	r := resultOf(t, start(1, pinned, fine, pods))
	made := r.FromGit()
	if len(made) != 1 || made[0].Called != "pinned" || made[0].Owner.Name != "web" {
		t.Fatalf("%+v", made)
	}
	for _, w := range r.Workloads {
		if (w.Git != nil) != (w.Name != "else") {
			t.Errorf("%s: %+v", w, w.Git)
		}
		if w.Name == "pinned" && (!strings.HasSuffix(w.Advice(), "; "+w.Git.Advice()) || !strings.HasPrefix(w.Fix.Command, "kubectl patch deployment pinned")) {
			t.Errorf("%q, %q", w.Advice(), w.Fix.Command)
		}
	}
}

// TestFit: a number is right by Go's own rule, or rounded as a user may have chosen it. If a pod has several programs, the worst counts.
func TestFit(t *testing.T) {
	limited := func(cpus float64, affinity int) cgroup.Limits {
		return cgroup.Limits{State: cgroup.Limited, CPUs: cpus, Affinity: affinity}
	}
	for _, c := range []struct {
		procs int
		in    cgroup.Limits
		want  fit
	}{
		{0, limited(2, 16), notSeen},
		{2, limited(2, 16), fits},
		{2, limited(1, 16), fits},
		{1, limited(0.5, 16), fits},
		{2, limited(2.5, 16), fits},
		{3, limited(2.5, 16), fits},
		{4, limited(2.5, 16), misfit},
		{1, limited(4, 16), misfit},
		{16, limited(1, 0), misfit},
		{2, limited(0, 16), unsure},
		{2, cgroup.Limits{State: cgroup.None, Affinity: 16}, fits},
		{17, cgroup.Limits{State: cgroup.None, Affinity: 16}, misfit},
		{2, cgroup.Limits{State: cgroup.None}, unsure},
		{2, cgroup.Limits{State: cgroup.Unknown, Affinity: 2}, unsure},
	} {
		if got := fitOf(c.procs, c.in); got != c.want {
			t.Errorf("%d under %+v: %d, want %d", c.procs, c.in, got, c.want)
		}
	}
	for _, c := range []struct {
		all  []fit
		want fit
	}{{[]fit{fits, misfit, unsure}, misfit}, {[]fit{fits, unsure}, unsure}, {[]fit{notSeen, fits}, fits}, {[]fit{fits, notSeen}, fits}, {[]fit{notSeen}, notSeen}} {
		var x container
		at := &pod{}
		for _, f := range c.all {
			x.fitted(at, f)
		}
		if x.fits[at] != c.want {
			t.Errorf("%v: %d", c.all, x.fits[at])
		}
	}
}

// TestOwnNumber: a program that sets its GOMAXPROCS by a call has another one than its runtime would choose, here and on a larger node.
func TestOwnNumber(t *testing.T) {
	for setBy, want := range map[string]Verdict{"code": Fine, "default": NotHere} {
		a := start(1, deployment("api", app(2, 0, "")))
		own := func(p *Program) {
			p.Procs, p.Expected, p.CPUs, p.Limit, p.Findings, p.SetBy = 2, 2, 2, 2, nil, setBy
		}
		if got := a.Saw("node-0", seen("api", 0, own)); got != Taken {
			t.Fatal(got)
		}
		if got := only(t, a); got.Verdict != want {
			t.Errorf("%s: %s, want %s: %s", setBy, got.Verdict, want, got.Summary)
		}
	}
}
