package page

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/golive"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	goprogram "github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/audit"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// A fleet draws clusters.
type fleet struct {
	*rand.Rand
	cpus map[string]int // of nodes
}

func (f *fleet) pick(of ...float64) float64 { return of[f.IntN(len(of))] }
func (f *fleet) word(of ...string) string   { return of[f.IntN(len(of))] }

// workload is one whose manifest says anything about its CPUs and memory.
func (f *fleet) workload(name string) *workload.Workload {
	w := &workload.Workload{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: name}
	known := func(v float64) workload.Amount {
		return workload.Amount{Text: strconv.FormatFloat(v, 'f', -1, 64), Value: v, State: workload.Known}
	}
	for i := range 1 + f.IntN(4)/3 {
		c := workload.Container{
			Name: []string{"app", "proxy"}[i], Image: "registry.example.com/" + name + f.word("", "", "-x") + ":1", Role: workload.Main,
			At: workload.Position{Path: fmt.Sprintf("spec.template.spec.containers[%d]", i)},
		}
		if limit := f.pick(0, 0.5, 1, 2, 2.5, 8); limit > 0 {
			c.Limit = known(limit)
			c.Request = known(limit)
		}
		if request := f.pick(0, 0.1, 0.5); request > 0 {
			c.Request = known(request)
		}
		if memory := f.pick(0, 128, 512); memory > 0 {
			c.Memory = known(memory * (1 << 20))
		}
		variable := func(name, value string) {
			c.Env = append(c.Env, workload.Variable{
				Name: name, At: workload.Position{Path: fmt.Sprintf("%s.env[%d]", c.At.Path, len(c.Env))}, Form: workload.Literal, Text: value, Value: value, State: workload.Known,
			})
		}
		switch f.IntN(6) {
		case 0:
			variable("GOMAXPROCS", f.word("1", "2", "8", "16", "2500m"))
		case 1:
			c.Env = append(c.Env, workload.Variable{
				Name: "GOMAXPROCS", At: workload.Position{Path: c.At.Path + ".env[0]"}, Form: workload.ResourceRef, Text: "limits.cpu", Resource: "limits.cpu", Divisor: f.word("1", "1m"),
			})
		}
		if f.IntN(4) == 0 {
			variable("GOMEMLIMIT", f.word("115MiB", "128MiB", "460MiB"))
		}
		w.Pod.Containers = append(w.Pod.Containers, c)
	}
	return w
}

// program is what an agent says about one that runs in a container of a pod on a node: as that was made, or with another limit since.
func (f *fleet) program(p cluster.Pod, c *workload.Container, version, line string, limit float64, called int) audit.Program {
	cores := float64(f.cpus[p.Node])
	s := choice.Under(limit, int(cores), unthrottle.Go)
	read := goprogram.Process{PID: 1, Name: "server", Program: goprogram.Built(version, line), Env: map[string]string{}}
	if v, ok := c.Var("GOMAXPROCS"); ok {
		read.Env["GOMAXPROCS"] = v.Value
		if v.Form == workload.ResourceRef {
			per := map[string]float64{"1": 1, "1m": 0.001}[v.Divisor]
			read.Env["GOMAXPROCS"] = fmt.Sprint(math.Ceil((c.Limit.Value + map[bool]float64{true: cores}[c.Limit.Value == 0]) / per))
		}
	}
	one := host.Process{Process: read, System: s, Prediction: s.Predict(read), Version: version}
	one.Live = one.Prediction.Procs
	if called > 0 {
		one.Live = called
	}
	wants := f.pick(0, 0.3, 1, 4)
	used := min(wants, cores, float64(max(1, one.Live)))
	var now cgroup.Throttling
	const wall = 10
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	if limit > 0 {
		now.Owner = cgroup.Counters{Dir: s.Limits.From, Known: true, Periods: int64(10 * wall * min(1, 20*used))}
		if used > limit {
			now.Owner.Throttled = now.Owner.Periods * 9 / 10
			now.Owner.ThrottledTime = seconds(0.1 * (used - limit) * float64(now.Owner.Throttled))
		}
		used = min(used, limit)
	}
	u := host.Usage{Wall: seconds(wall), CPU: seconds(used * wall), Throttling: now, Samples: 1000, Running: max(used, min(wants, float64(one.Live)))}
	u.Parallel = max(1, u.Running)
	if now.Owner.Throttled > 0 {
		u.FrozenKnown, u.Frozen = true, min(1, now.Owner.ThrottledTime.Seconds()/wall/u.Parallel)
	}
	if one.Live > 2 && used > 0 {
		u.Spinning = f.pick(0, 0.2, 1)
	}
	if memory := int64(c.Memory.Value); memory > 0 && f.IntN(2) == 0 {
		one.System.Memory = cgroup.Memory{State: cgroup.Limited, Bytes: memory, From: s.Limits.From}
		of := golive.Collector{Percent: int(f.pick(50, 100, 400)), Limit: math.MaxInt64, Live: uint64(f.pick(1, 40, 90) * (1 << 20)), Roots: 1 << 20, Other: 5 << 20}
		of.Goal = of.Live + uint64(float64(of.Live+of.Roots)*float64(of.Percent)/100)
		if f.IntN(2) == 0 {
			of.Limit = int64(f.pick(0.5, 0.9, 1) * float64(memory))
			of.Goal = max(of.Live, min(of.Goal, uint64(of.Limit)-of.Other))
		}
		collecting := f.pick(0.01, 0.6)
		one.Collector = &of
		u.Collecting, u.GCKnown, u.Collected, u.Switched, u.AnonMemory = &collecting, true, f.pick(0.1, 5, 200), 1e4, int64(of.Live+of.Other+of.Roots)
	}
	one.Usage = u
	out := audit.Program{
		Namespace: p.Namespace, Pod: p.Name, UID: p.UID, Container: c.Name, PID: 1, GoVersion: version, GoLine: line, Procs: one.Live,
		Expected: unthrottle.Decide(s.Limits, unthrottle.Policy{}).Procs, SetBy: result.FromDefault, Limit: limit, NoLimit: limit == 0, CPUs: int(cores),
		CPU: &used, Running: &u.Running, Spinning: &u.Spinning, Findings: rule.Check(rule.OfProcess(&one, host.System{CPUs: int(cores), Wall: seconds(wall), Busy: used, Known: true})),
	}
	switch one.Source() {
	case host.FromCall:
		out.SetBy = result.FromCode
	case choice.FromEnvironment:
		out.SetBy = result.FromSpec
	}
	if limit > 0 {
		out.Level = "container"
		if now.Owner.Periods > 0 {
			out.Throttled = new(float64(now.Owner.Throttled) / float64(now.Owner.Periods))
		}
		share, _ := u.FrozenShare(int(cores))
		out.Frozen = &share
	}
	return out
}

// cluster is one with some workloads, whose agents and Prometheus say something, or nothing.
func (f *fleet) cluster(t *testing.T) *result.Audit {
	f.cpus = map[string]int{"node-1": int(f.pick(2, 4, 16)), "node-2": int(f.pick(4, 64))}
	found := &cluster.Found{Context: "prod", Server: "https://10.0.0.1:6443", Objects: 61}
	for i := range 1 + f.IntN(4) {
		w := f.workload([]string{"api", "web", "cart", "mail"}[i])
		found.Workloads = append(found.Workloads, w)
		for n := range f.IntN(4) {
			name := fmt.Sprintf("%s-%d", w.Name, n)
			found.Pods = append(found.Pods, cluster.Pod{Namespace: "shop", Name: name, UID: name, Node: f.word("node-1", "node-1", "node-2", ""), Of: w})
			w.Copies++
		}
	}
	a := audit.New(found, lint.Known{}, audit.Options{})
	agents := result.AuditAgents{Asked: true}
	answered := map[string]bool{}
	for _, node := range []string{"node-1", "node-2"} {
		agents.Found++
		if answered[node] = f.IntN(4) > 0; answered[node] {
			agents.Answered++
			a.Answered(node)
		} else {
			agents.Failed = append(agents.Failed, result.AuditFailure{Agent: "unthrottle/agent", Node: node, Why: "timed out"})
		}
	}
	var counted *result.AuditPrometheus
	if f.IntN(2) == 0 {
		counted = &result.AuditPrometheus{URL: "http://prometheus:9090", Since: 86400, Empty: []string{}}
	}
	for _, w := range found.Workloads {
		isGo := f.IntN(4) > 0
		version := f.word("go1.21.3", "go1.24.13", "go1.25.1", "go1.26.8")
		line := f.word("1.24 or older", "1.25", "1.26")
		if !isGo {
			continue
		}
		called, app := 0, &w.Pod.Containers[0]
		if f.IntN(6) == 0 {
			called = int(f.pick(1, 2, 16))
		}
		for _, p := range found.Pods {
			if p.Of != w || p.Node == "" {
				continue
			}
			limit := app.Limit.Value
			if f.IntN(6) == 0 {
				limit = f.pick(0.5, 1, 3) // a resize, or a level above
			}
			one := f.program(p, app, version, line, limit, called)
			if answered[p.Node] {
				agents.Programs++
				if out := a.Saw(p.Node, one); out != audit.Taken {
					t.Fatalf("%+v: %v", one, out)
				}
			}
			if counted != nil {
				counted.Series += 3
				h := audit.History{Namespace: "shop", Pod: p.Name, Container: "app", CPU: one.CPU, Limit: one.Limit}
				if f.IntN(2) == 0 {
					h.GoVersion = version
				}
				if f.IntN(2) == 0 {
					h.Procs = one.Procs
				}
				if one.Throttled != nil {
					h.Periods, h.ThrottledPeriods = 10000, int64(10000**one.Throttled)
				}
				if a.History(h) {
					counted.Joined++
				}
			}
		}
	}
	joined, err := a.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := result.NewAudit(found, joined, agents, counted, nil)
	d.WhatIf = f.IntN(2) == 0
	return d
}

// denials are what can't be said about a workload.
func denials(w *audit.Workload) (bad []string) {
	say := func(format string, args ...any) {
		bad = append(bad, fmt.Sprintf("%s: ", w)+fmt.Sprintf(format, args...))
	}
	worst, now := finding.Info, false
	for _, f := range w.Findings {
		worst = max(worst, f.Severity)
		now = now || f.Holds == audit.HoldsNow && (f.Severity >= finding.Warning || slices.Contains(rule.OfNumber, f.Rule))
	}
	if now != (w.Verdict == audit.Wrong) && w.Verdict != audit.NoGo {
		say("%s, and a finding that holds now: %v", w.Verdict, now)
	}
	if w.Verdict == audit.Fine && worst >= finding.Warning {
		say("fine, with a finding of %v", worst)
	}
	right := w.Right != nil && *w.Right
	if w.Verdict == audit.Fine && w.Right != nil && !right && w.Expected > 0 && w.GOMAXPROCS[1] >= w.Expected+4 && w.GOMAXPROCS[1] >= 4*w.Expected {
		say("fine, with a GOMAXPROCS that is not right")
	}
	if text := numbers(w); strings.Contains(text, "not") && !w.Verdict.Wrong() {
		say("%s, and GOMAXPROCS is %s", w.Verdict, text)
	}
	for _, f := range w.Findings {
		ofPs := f.Rule == "too-many-ps" || f.Rule == "limit-not-seen" || f.Rule == "stale"
		if ofPs && f.Severity >= finding.Warning && right && len(w.Findings) == 1 {
			say("%s, and its GOMAXPROCS is right", f.Summary)
		}
	}
	if strings.Contains(w.Summary, "is right") && w.Right != nil && !right && w.Verdict == audit.NotHere {
		say("%s, and its GOMAXPROCS is not", w.Summary)
	}
	if w.Cost.Save.High > 0 && right {
		say("its GOMAXPROCS is right, and CPUs are to be saved")
	}
	for _, m := range regexp.MustCompile(`(?:a limit of|its limit of|the limit of|under a limit of) ([0-9.]+) CPU`).FindAllStringSubmatch(w.Summary, -1) {
		if limit, _ := strconv.ParseFloat(m[1], 64); w.Limit > 0 && w.Findings[0].Source != audit.FromSpec && limit != w.Limit && ofContainer(w) == "" {
			say("%s, and the limit is %v", w.Summary, w.Limit)
		}
	}
	if share := throttledMost(w); share != nil && *share > 0.3 && w.Go == audit.GoSeen && !w.Verdict.Wrong() {
		say("%s, and throttled in %.0f %% of the periods", w.Verdict, 100**share)
	}
	if w.Verdict == audit.NoGo && (len(w.Versions) > 0 || len(w.GOMAXPROCS) > 0) {
		say("no Go, and a Go program was seen")
	}
	if w.Verdict.Wrong() != (w.Fix != nil) {
		say("%s, with the fix %+v", w.Verdict, w.Fix)
	} else if w.Fix != nil && w.Fix.Text == "" {
		say("nothing is said of what to do")
	}
	if f := w.Findings; len(f) > 0 && f[0].Rule == "sweeper-spin" && w.Fix != nil && !strings.HasPrefix(w.Fix.Text, f[0].Fix) {
		say("%s, and the fix is %s", f[0].Summary, w.Fix.Text)
	}
	return bad
}

// TestAuditAgrees draws random clusters: no sentence about one contradicts another, or the figures next to it.
func TestAuditAgrees(t *testing.T) {
	f := fleet{Rand: rand.New(rand.NewPCG(15, 16))}
	verdicts, shown := map[audit.Verdict]int{}, 0
	for range 3000 {
		d := f.cluster(t)
		var bad []string
		for _, w := range d.Workloads {
			verdicts[w.Verdict]++
			bad = append(bad, denials(w)...)
		}
		good := auditTone(d) == sheet.Good
		if good && !strings.HasPrefix(d.Verdict, "Nothing wrong was found in ") {
			bad = append(bad, fmt.Sprintf("%q, and all is well", d.Verdict))
		}
		for _, c := range d.Checks() {
			if good && (c.Unknown != "" || c.Found != nil && c.Found.Severity >= finding.Warning) {
				bad = append(bad, fmt.Sprintf("all is well, and %+v", c))
			}
		}
		if len(bad) > 0 {
			var b strings.Builder
			if err := render.Text(&b, Audit(d), render.Style{}); err != nil {
				t.Fatal(err)
			}
			t.Errorf("%q\n%s", bad, &b)
			if shown++; shown == 5 {
				t.FailNow()
			}
		}
	}
	for _, v := range audit.Verdicts {
		if verdicts[v] == 0 {
			t.Errorf("never %s: %v", v, verdicts)
		}
	}
}
