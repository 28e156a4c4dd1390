package agents

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/pods"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// An agent's sentences are not shown: anyone who has taken one over would write them. It reports numbers and the names of
// rules, and here the same rules make sentences from the numbers.

// Words that an agent may use, besides the names of rules.
var (
	sources = []string{
		"", result.FromSpec, result.FromEnvironment, result.FromImageOrRuntime, result.FromRuntime, result.FromCode, result.FromDefault,
		result.FromAutomaxprocs, result.FromUnthrottle,
	}
	levels   = []string{"", "container", "pod", "qos", "kubepods", "other"}
	versions = form{106, regexp.MustCompile(`^(go1|devel )[-+.:_ ()A-Za-z0-9]*$`)}
	lines    = form{32, regexp.MustCompile(`^[0-9]{1,3}(\.[0-9a-z]{1,8}){0,2}( or (later|earlier))?$`)}
	modules  = form{300, regexp.MustCompile(`^[-A-Za-z0-9._~/+()]+$`)}
	settings = form{256, regexp.MustCompile(`^[-A-Za-z0-9.,=_%#]+$`)}
	names    = form{64, regexp.MustCompile(`^[-A-Za-z0-9._+]+$`)}
	cpusets  = form{1000, regexp.MustCompile(`^[-0-9,]+$`)}
	groups   = form{mostText, regexp.MustCompile(`^/[-A-Za-z0-9._:@/\\]*$`)}
)

// A form is what a text must look like. Its length isn't part of the expression: that takes memory for each character, in every program
// that has this package.
type form struct {
	most int // bytes
	like *regexp.Regexp
}

// among is a text if it is one of some; "" if not.
func among(text string, some []string) string {
	if slices.Contains(some, text) {
		return text
	}
	return ""
}

// like is a text if it looks as it must; "" if not.
func like(text string, f form) string {
	if len(text) <= f.most && f.like.MatchString(text) {
		return text
	}
	return ""
}

// known reports whether there is a rule with a name.
func known(name string) bool {
	return slices.ContainsFunc(rule.Rules(), func(r rule.Rule) bool { return r.Name == name })
}

// judge is what the rules that an agent names say about its numbers, in our words. A finding that lacks a number has only its
// rule's name. strange is how many of its rules are not known here.
func judge(p *result.AgentProcess, system report.PsSystem, seconds float64) (found []finding.Finding, strange int) {
	told := map[string]finding.Severity{}
	for _, f := range p.Findings {
		if !known(f.Rule) {
			strange++
			continue
		}
		told[f.Rule] = max(told[f.Rule], f.Severity)
	}
	if len(told) == 0 {
		return nil, strange
	}
	for _, f := range rule.Check(facts(p, system, seconds)) {
		if _, ok := told[f.Rule]; ok {
			found = append(found, f)
			delete(told, f.Rule)
		}
	}
	for _, r := range rule.Rules() {
		if severity, ok := told[r.Name]; ok {
			found = append(found, finding.Finding{
				Rule: r.Name, Verdict: r.Verdict, Severity: severity, Summary: "its agent has found " + r.Verdict, Evidence: []string{},
				Fix: "kubectl unthrottle help " + r.Name,
			})
		}
	}
	slices.SortStableFunc(found, func(a, b finding.Finding) int { return int(b.Severity) - int(a.Severity) })
	return found, strange
}

// facts are what the rules ask for, from the numbers that an agent reports.
func facts(p *result.AgentProcess, system report.PsSystem, seconds float64) *rule.Facts {
	f := &rule.Facts{
		Limits: limits(p), Source: choice.Source(among(p.GOMAXPROCS.Source, choices)), Minor: (&procs.Program{GoVersion: like(p.GoVersion, versions)}).Minor(),
		CPU: p.CPU, Host: rule.Host{System: host.System{CPUs: system.CPUs}},
	}
	if p.GOMAXPROCS.Value != nil {
		f.Procs = *p.GOMAXPROCS.Value
	}
	if seconds > 0 && seconds < 1e6 {
		f.Wall = time.Duration(seconds * float64(time.Second))
	}
	if s := p.Starvation; s != nil && s.From == "threads" {
		f.Queue = &rule.Queue{Ran: s.CPU, Waited: max(0, s.Running-s.CPU)}
	} else if s != nil {
		f.Running = &s.Running
	}
	if p.Spinning != nil {
		f.Spinning = *p.Spinning
	}
	if p.Periods != nil && p.Throttled != nil && *p.Periods >= 0 && *p.Throttled >= 0 && *p.Throttled <= *p.Periods {
		f.Counted.Owner.Known, f.Counted.Owner.Periods, f.Counted.Owner.Throttled = true, *p.Periods, *p.Throttled
	}
	if p.Frozen != nil {
		f.Frozen = &rule.Frozen{Share: p.Frozen.Share, Exact: p.Frozen.Exact}
	}
	if p.Collected != nil && p.Switched != nil && p.Anonymous != nil {
		f.Heap = &rule.Heap{Collected: *p.Collected, Switched: *p.Switched, Memory: *p.Anonymous}
	}
	f.Memory = memory(p)
	if system.Busy != nil && system.Steal != nil {
		f.Host.Known, f.Host.Busy, f.Host.Steal = true, *system.Busy, *system.Steal
	}
	f.Stale = stale(p)
	f.OutOfSight = p.Limit.Inside.Hides(f.Limits)
	f.Alone = alone(f, p)
	f.Chosen = chosen(f, p)
	return f
}

// memory is what the rules ask of a program's memory; nil where a number can't be.
func memory(p *result.AgentProcess) *rule.Memory {
	c := p.Collector
	if c == nil {
		return nil
	}
	const most = 1 << 50
	m := &rule.Memory{Limit: cgroup.Memory{State: cgroup.Unknown}, Collecting: c.Collecting}
	for _, s := range []cgroup.State{cgroup.None, cgroup.Limited} {
		if s.String() == p.Memory.State {
			m.Limit.State = s
		}
	}
	m.Limit.Bytes, m.Limit.High = p.Memory.Bytes, p.Memory.High
	m.Percent, m.Collector.Limit, m.Goal = -1, math.MaxInt64, math.MaxUint64
	if c.GOGC != nil {
		m.Percent = *c.GOGC
	}
	if c.GOMEMLIMIT != nil {
		m.Collector.Limit = *c.GOMEMLIMIT
	}
	for _, n := range []int64{m.Limit.Bytes, c.Live, c.Roots, c.Other} {
		if n < 0 || n > most {
			return nil
		}
	}
	m.Live, m.Roots, m.Other = uint64(c.Live), uint64(c.Roots), uint64(c.Other)
	if c.Goal != nil {
		if *c.Goal < c.Live || *c.Goal > most {
			return nil
		}
		m.Goal = uint64(*c.Goal)
	}
	if m.Percent < -1 || m.Percent > math.MaxInt32 || m.Collector.Limit < 0 || c.Collecting != nil && !(*c.Collecting >= 0 && *c.Collecting <= 1) {
		return nil
	}
	return m
}

// choices are what may have set a GOMAXPROCS.
var choices = []string{
	"", string(choice.FromEnvironment), string(choice.FromLimit), string(choice.FromCPUs), string(choice.FromAutomaxprocs), string(choice.FromUnthrottle),
	string(host.FromCall),
}

func limits(p *result.AgentProcess) cgroup.Limits {
	l := cgroup.Limits{State: cgroup.Unknown, Affinity: p.CPUs, From: "a cgroup above it"}
	for _, s := range []cgroup.State{cgroup.None, cgroup.Limited, cgroup.Hidden} {
		if s.String() == p.Limit.State {
			l.State = s
		}
	}
	if l.State == cgroup.Limited {
		if p.Limit.CPUs == nil || *p.Limit.CPUs <= 0 {
			l.State = cgroup.Unknown
			return l
		}
		l.CPUs = *p.Limit.CPUs
		if at := owner(p); at != nil && among(at.Level, levels) != "" {
			l.From = "the cgroup of the " + at.Level
		}
	}
	return l
}

// owner is the level whose limit is in force; nil: unknown. If two have the same quota, as the kubelet writes them where a pod
// has a limit and its container has none, it is the one that the agent names.
func owner(p *result.AgentProcess) (at *result.AgentLevel) {
	for i := range p.Levels {
		l := &p.Levels[i]
		if l.Limit == nil || p.Limit.CPUs == nil || *l.Limit != *p.Limit.CPUs {
			continue
		}
		if l.Dir == p.Limit.From {
			return l
		}
		if at == nil {
			at = l
		}
	}
	return at
}

// stale is a change of the limit, in our words.
func stale(p *result.AgentProcess) *rule.Stale {
	if p.Stale == nil {
		return nil
	}
	s := &rule.Stale{
		Why:     "its limit was changed while the same process ran",
		Written: p.Container != nil && p.Container.Spec.Form == string(pods.Literal) && p.GOMAXPROCS.Source == string(choice.FromEnvironment),
	}
	if p.Stale.Then != nil {
		s.Then = *p.Stale.Then
	}
	if p.Stale.Now != nil {
		s.Now = *p.Stale.Now
	}
	if since, err := time.Parse(time.RFC3339, p.Stale.Since); err == nil {
		s.Since = since
		s.Why += ", on " + since.UTC().Format(time.RFC3339)
	}
	if s.Then > 0 {
		s.Why += "; it was " + quantity.UsedCPUs(s.Then)
	}
	return s
}

// alone is what a program does if no GOMAXPROCS is in its environment, by its version and the settings that its agent reports.
func alone(f *rule.Facts, p *result.AgentProcess) choice.Alone {
	program := &procs.Program{GoVersion: like(p.GoVersion, versions), Defaults: map[string]string{}}
	if g := p.Go; g != nil {
		program.Unthrottle = procs.ParseLink(g.Unthrottle)
		for name, on := range map[string]bool{"containermaxprocs": g.Containermaxprocs.On, "updatemaxprocs": g.Updatemaxprocs.On} {
			if !on {
				program.Defaults[name] = "0"
			}
		}
	} else {
		program.SetGoLine(like(p.GoLine, lines))
	}
	own := f.Limits.State != cgroup.Limited || len(p.Levels) > 0 && p.Levels[0].Limit != nil && *p.Levels[0].Limit == f.Limits.CPUs
	return choice.AloneUnder(program, nil, own, !f.OutOfSight)
}

// chosen is the rule that chose a GOMAXPROCS without the limit, where the agent says so.
func chosen(f *rule.Facts, p *result.AgentProcess) *choice.Choice {
	if !slices.ContainsFunc(p.Findings, func(f finding.Finding) bool { return f.Rule == "limit-not-seen" }) {
		return nil
	}
	by := choice.Rule("")
	line := (&procs.Program{GoVersion: "go" + like(p.GoLine, lines)}).Minor()
	switch {
	case f.Source == choice.FromAutomaxprocs:
		by = choice.Automaxprocs
	case f.Source == choice.FromUnthrottle:
		by = choice.Unthrottle
	case f.Source != choice.FromLimit && f.Source != choice.FromCPUs || f.Minor == 0:
		return nil
	case f.Minor < 25 || line > 0 && line < 25:
		by = choice.Go124
	case f.Minor == 25:
		by = choice.Go125
	default:
		by = choice.Go126
	}
	if f.OutOfSight {
		return &choice.Choice{Rule: by, Procs: f.Procs, Wrong: true, Fix: fix(choice.Unthrottle)}
	}
	return &choice.Choice{Rule: by, Procs: f.Procs, Wrong: true, Fix: fix(by)}
}

// fix is how a rule is helped that does not see the limit.
func fix(by choice.Rule) string {
	switch by {
	case choice.Automaxprocs:
		return `import "github.com/unthrottle/unthrottle/maxprocs" in its place`
	case choice.Go124:
		return "build with Go 1.26 and a go line of 1.25 or later, or import unthrottle/auto"
	case choice.Downward:
		return "leave GOMAXPROCS out of the pod and import unthrottle/auto"
	case choice.Unthrottle:
		return "set the limit on the container itself, or GOMAXPROCS in its environment"
	}
	return `import _ "github.com/unthrottle/unthrottle/auto", or set the limit on the container itself`
}

// Retell makes an agent's explanation of a process one of our own: its numbers, its paths and names as far as they look like such,
// and our sentences. p is what else the agent says about the process.
func Retell(d *report.Explain, told *Answer, p *result.AgentProcess) error {
	if p == nil || d.Subject.PID != p.PID {
		return fmt.Errorf("%w: explains another process", errDocument)
	}
	program, ok := programOf(p, told)
	if !ok {
		return fmt.Errorf("%w: its figures for a program are impossible", errDocument)
	}
	numbers := []*float64{d.Limit.CPUs, &d.Limit.AtMost}
	if in := d.Limit.Inside; in != nil {
		numbers = append(numbers, in.CPUs)
		in.State = state(in.State)
	}
	d.Unmeasured = nil // it is asked for what it has seen
	d.Subject.Name, d.Subject.Command, d.Subject.Self = like(d.Subject.Name, names), nil, false
	d.Limit.State, d.Limit.Reason, d.Limit.From, d.Limit.Path = state(d.Limit.State), "", place(d.Limit.From), place(d.Limit.Path)
	d.Limit.Cgroup = among(d.Limit.Cgroup, []string{"v1", "v2"})
	if len(d.Limit.Levels) > mostLevels || len(d.Choices) > mostFound {
		return fmt.Errorf("%w: its figures for a program are impossible", errDocument)
	}
	for i := range d.Limit.Levels {
		l := &d.Limit.Levels[i]
		l.Dir, l.File, l.Cpuset = place(l.Dir), place(l.File), like(l.Cpuset, cpusets)
		if l.Error != "" {
			l.Error = "its agent could not read it"
		}
		numbers = append(numbers, &l.CPUs)
	}
	for _, c := range []*report.Counters{&d.Throttling.Own, &d.Throttling.Owner} {
		c.Dir = place(c.Dir)
		if c.CPU != nil && !(*c.CPU >= 0) || c.Periods < 0 || c.ThrottledPeriods < 0 || c.ThrottledPeriods > c.Periods {
			return fmt.Errorf("%w: its figures for a program are impossible", errDocument)
		}
	}
	if now := d.Throttling.Now; now != nil {
		fits := now.LocalSeconds == nil || *now.LocalSeconds >= 0
		if now.Frozen != nil {
			fits = fits && between([]*float64{&now.Frozen.Share}, 1)
		}
		if !fits || !(now.Seconds >= 0) || now.Periods < 0 || now.Throttled < 0 || now.Throttled > now.Periods {
			return fmt.Errorf("%w: its figures for a program are impossible", errDocument)
		}
	}
	if c := d.Collector; c != nil && memory(&result.AgentProcess{PsProcess: report.PsProcess{Memory: d.Memory, Collector: c}}) == nil {
		return fmt.Errorf("%w: its figures for a program are impossible", errDocument)
	}
	m := &d.Memory
	m.State, m.From, m.Reason, m.GOMEMLIMIT, m.GOGC = state(m.State), place(m.From), "", like(m.GOMEMLIMIT, settings), like(m.GOGC, settings)
	if g := d.Go; g != nil {
		g.Version, g.GoLine = like(g.Version, versions), like(g.GoLine, lines)
		g.Path, g.Module, g.ModuleVersion = like(g.Path, modules), like(g.Module, modules), like(g.ModuleVersion, modules)
		for _, s := range []*report.Setting{&g.Containermaxprocs, &g.Updatemaxprocs} {
			s.Built, s.Env = like(s.Built, settings), like(s.Env, settings)
		}
		g.Automaxprocs, g.Unthrottle = procs.ParseLink(g.Automaxprocs).String(), procs.ParseLink(g.Unthrottle).String()
		for _, v := range []**string{&g.GOMAXPROCS, &g.GODEBUG} {
			if *v != nil {
				*v = new(like(**v, settings))
			}
		}
	}
	g := &d.GOMAXPROCS
	g.Source, g.Rule = among(g.Source, choices), among(g.Rule, rules)
	g.Proof = among(g.Proof, []string{report.ProofLive, report.ProofPredicted})
	g.Why = why(g)
	for i := range d.Choices {
		c := &d.Choices[i]
		c.Rule, c.Why, c.Fix, c.All = among(c.Rule, rules), "", "", false
		if c.Rule == "" || c.Procs < 0 || c.Procs > mostProcs {
			return fmt.Errorf("%w: its figures for a program are impossible", errDocument)
		}
		if c.Wrong {
			c.Why, c.Fix = "it does not find the limit that is in force", fix(choice.Rule(c.Rule))
		}
		numbers = append(numbers, c.Limit)
	}
	for _, v := range []*int{g.Value, g.Expected} {
		if v != nil && (*v < 0 || *v > mostProcs) {
			return fmt.Errorf("%w: its figures for a program are impossible", errDocument)
		}
	}
	if !between(numbers, mostQuota) || d.Affinity.CPUs < 0 || d.Affinity.CPUs > mostCPUs {
		return fmt.Errorf("%w: its figures for a program are impossible", errDocument)
	}
	seconds := told.Seconds
	if now := d.Throttling.Now; now != nil {
		seconds = now.Seconds
	}
	found, _ := judge(meanwhile(p, d), told.System, seconds)
	d.Findings = append([]finding.Finding{}, found...)
	doubts := len(d.Warnings)
	d.Warnings = []string{}
	if len(program.Muted) > 0 {
		d.Warnings = append(d.Warnings, "its pod mutes "+strings.Join(program.Muted, ", ")+": that is not looked for")
	}
	if doubts > 0 {
		d.Warnings = append(d.Warnings, "its agent has "+quantity.Plural(doubts, "doubt")+" about this: --way exec or --way ephemeral tells them")
	}
	return nil
}

// meanwhile is what an agent says about a process, with the numbers and findings of its explanation, which is a later look: a
// sentence is about the numbers next to it. What only a scan knows, such as a changed limit, stays.
func meanwhile(p *result.AgentProcess, d *report.Explain) *result.AgentProcess {
	q := *p
	q.Findings = d.Findings[:min(len(d.Findings), mostFound)]
	q.GOMAXPROCS.Value, q.Limit.State, q.Limit.CPUs, q.Limit.From = d.GOMAXPROCS.Value, d.Limit.State, d.Limit.CPUs, d.Limit.From
	if now := d.Throttling.Now; now != nil {
		q.Periods, q.Throttled, q.Frozen = &now.Periods, &now.Throttled, now.Frozen
	}
	return &q
}

const (
	mostText   = 4096    // bytes of a name or a path, as PATH_MAX has it
	mostLevels = 64      // cgroups above each other; a pod's container has some six
	mostQuota  = 1 << 20 // CPUs of a quota, which may be more than there are
)

// rules are the names of those that choose a GOMAXPROCS.
var rules = []string{
	"", string(choice.Go124), string(choice.Go125), string(choice.Go126), string(choice.Automaxprocs), string(choice.Downward), string(choice.Unthrottle),
}

func state(text string) string {
	if text = among(text, []string{"limited", "none", "hidden"}); text != "" {
		return text
	}
	return "unknown"
}

// place is a path of a cgroup as it must look.
func place(text string) string {
	if text = like(text, groups); text != "" && (path.Clean(text) == text || strings.HasPrefix(text, "/..")) {
		return text
	}
	return ""
}

// why says what a GOMAXPROCS comes from.
func why(g *report.GOMAXPROCS) string {
	switch g.Source {
	case string(choice.FromEnvironment):
		return "GOMAXPROCS in its environment"
	case string(choice.FromLimit):
		return "the Go runtime, from its limit"
	case string(choice.FromCPUs):
		return "the CPUs that the affinity mask allows"
	case string(choice.FromAutomaxprocs), string(choice.FromUnthrottle):
		return g.Source
	}
	if g.Proof == report.ProofLive && g.Expected != nil {
		return fmt.Sprintf("set by a call in the program, or it was changed since: expected was %d", *g.Expected)
	}
	return "what set it is not known"
}
