package report

import (
	"fmt"
	"strconv"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/host"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
)

// Explain is the document of the verb explain.
type Explain struct {
	Header
	Subject    Subject    `json:"subject"`
	Limit      Limit      `json:"limit"`
	Affinity   Affinity   `json:"affinity"`
	Throttling Throttling `json:"throttling"`
	Memory     Memory     `json:"memory"`
	Go         *Go        `json:"go"` // null: no Go program, or its file can't be read
	GOMAXPROCS GOMAXPROCS `json:"gomaxprocs"`
	Choices    []Choice   `json:"choices"`

	Findings []finding.Finding `json:"findings"` // of a running Go program
	Warnings []string          `json:"warnings"`
}

// Subject is the process that was looked at.
type Subject struct {
	PID     int      `json:"pid"`
	Name    string   `json:"name"`
	Command []string `json:"command"`
	Self    bool     `json:"self"` // it is the command itself, standing for what is started from the same shell
}

// Limit is the CPU limit in force.
type Limit struct {
	State  string   `json:"state"` // limited, none, unknown or hidden
	CPUs   *float64 `json:"cpus"`  // before the clamp to the affinity; null unless limited
	From   string   `json:"from"`  // directory of the cgroup that sets it
	Reason string   `json:"reason,omitempty"`
	AtMost float64  `json:"at_most_cpus,omitempty"`
	Cgroup string   `json:"cgroup_version"` // v1, v2 or ""
	Hybrid bool     `json:"hybrid"`
	Path   string   `json:"path"`
	Levels []Level  `json:"levels"` // the process's own first
	Inside *Inside  `json:"inside,omitempty"`
}

// Inside is what can be seen from inside of the process's container, where that is something else.
type Inside struct {
	State string   `json:"state"`
	CPUs  *float64 `json:"cpus"`
}

// Level is one cgroup on the way up.
type Level struct {
	Dir     string  `json:"dir"`
	File    string  `json:"file"` // that holds the quota; it need not exist
	CPUs    float64 `json:"cpus,omitempty"`
	Quota   float64 `json:"quota_seconds,omitempty"`
	Period  float64 `json:"period_seconds,omitempty"`
	Burst   float64 `json:"burst_limit_seconds,omitempty"`
	Weight  int64   `json:"cpu_weight,omitempty"`
	Cpuset  string  `json:"cpuset,omitempty"`
	Error   string  `json:"error,omitempty"`
	InForce bool    `json:"in_force"`
}

// Affinity is what sched_setaffinity and cpusets leave.
type Affinity struct {
	CPUs int `json:"cpus"` // 0: not known
}

// Throttling is what the limit has done.
type Throttling struct {
	Own          Counters  `json:"own"`
	Owner        Counters  `json:"owner"`
	LocalSeconds *float64  `json:"own_throttled_seconds"` // null: the kernel doesn't say
	Now          *Interval `json:"now,omitempty"`
}

// Counters are counts since the group was made.
type Counters struct {
	Dir              string   `json:"dir"`
	Known            bool     `json:"known"`
	Periods          int64    `json:"periods"`
	Throttled        int64    `json:"throttled_periods"`
	Share            *float64 `json:"throttled_periods_share"` // of the periods; null: there were none
	ThrottledSeconds float64  `json:"throttled_seconds"`       // summed over CPUs
	Bursts           int64    `json:"bursts,omitempty"`
	BurstSeconds     float64  `json:"burst_seconds,omitempty"`
}

// Interval is what happened between two readings.
type Interval struct {
	Seconds      float64  `json:"seconds"`
	Periods      int64    `json:"periods"`
	Throttled    int64    `json:"throttled_periods"`
	LocalSeconds *float64 `json:"own_throttled_seconds"`
	Active       *bool    `json:"throttled"` // it is being throttled; null: nothing is counted that could tell
}

// Memory is the memory limit beside what the runtime was told.
type Memory struct {
	State      string `json:"state"`
	Bytes      int64  `json:"bytes,omitempty"`
	From       string `json:"from,omitempty"`
	Reason     string `json:"reason,omitempty"`
	GOMEMLIMIT string `json:"gomemlimit_env,omitempty"`
	GOGC       string `json:"gogc_env,omitempty"`
}

// Go is what a Go program's file and environment say.
type Go struct {
	Version           string  `json:"go_version"`
	GoLine            string  `json:"go_line"`
	Path              string  `json:"main_package"`
	Module            string  `json:"module"`
	ModuleVersion     string  `json:"module_version"`
	Containermaxprocs Setting `json:"containermaxprocs"`
	Updatemaxprocs    Setting `json:"updatemaxprocs"`
	Automaxprocs      string  `json:"automaxprocs"`
	Unthrottle        string  `json:"unthrottle"`
	GOMAXPROCS        *string `json:"gomaxprocs_env"` // null: not set
	GODEBUG           *string `json:"godebug_env"`
}

// Setting is a GODEBUG setting.
type Setting struct {
	Built string `json:"built,omitempty"`
	Env   string `json:"env,omitempty"`
	On    bool   `json:"on"`
}

// GOMAXPROCS is the number that the program runs with.
type GOMAXPROCS struct {
	Value     *int   `json:"value"`  // null: no Go program, or it can't be told
	Source    string `json:"set_by"` // environment, limit, cpus, automaxprocs, unthrottle or ""
	Rule      string `json:"chosen_by,omitempty"`
	Why       string `json:"why"`
	Predicted bool   `json:"predicted"` // false: it is what the program has, see Proof
	Proof     string `json:"proof"`     // live (read from its memory), asked (of our own runtime), predicted
	Expected  *int   `json:"expected"`  // by how the program was built and started; null: it can't be told
}

// Proofs of a GOMAXPROCS.
const (
	ProofLive      = "live"
	ProofAsked     = "asked"
	ProofPredicted = "predicted"
)

// Choice is what one rule would choose.
type Choice struct {
	Rule    string   `json:"chosen_by"`
	Procs   int      `json:"gomaxprocs"` // 0: it can't be told
	Limit   *float64 `json:"limit_cpus"` // the limit it believes in; null: none
	Wrong   bool     `json:"wrong"`      // it would choose otherwise if it knew the limit in force and the CPUs
	Why     string   `json:"why,omitempty"`
	Fix     string   `json:"fix,omitempty"`
	Applies bool     `json:"applies"` // it is the rule of the program looked at
}

// Facts is what Explain is made from.
type Facts struct {
	Self       bool
	Procs      int             // GOMAXPROCS as the runtime says, for Self
	Process    host.Process    // with its limit, and its GOMAXPROCS as predicted and as found
	Rules      []choice.Choice // what each rule makes of its system
	Throttling cgroup.Throttling
	Before     *cgroup.Throttling // an earlier reading
	Between    time.Duration
	Memory     cgroup.Memory
	Findings   []finding.Finding
	Warnings   []error
}

// NewExplain makes the document from the facts. The header is the caller's to fill in.
func NewExplain(f Facts) *Explain {
	l := f.Process.System.Limits
	if f.Before != nil {
		l = l.Observed(*f.Before, f.Throttling)
	}
	e := &Explain{
		Subject:    Subject{PID: f.Process.PID, Name: f.Process.Name, Command: f.Process.Command, Self: f.Self},
		Limit:      newLimit(l, f.Process.System.Inside),
		Affinity:   Affinity{CPUs: l.Affinity},
		Throttling: newThrottling(f),
		Memory:     newMemory(f),
		Go:         newGo(f.Process.Process),
		GOMAXPROCS: newGOMAXPROCS(f),
		Findings:   append([]finding.Finding{}, f.Findings...),
		Warnings:   []string{},
	}
	for _, c := range f.Rules {
		e.Choices = append(e.Choices, Choice{
			Rule: string(c.Rule), Procs: c.Procs, Limit: positive(c.Limit), Wrong: c.Wrong, Why: c.Why, Fix: c.Fix,
			Applies: string(c.Rule) == e.GOMAXPROCS.Rule,
		})
	}
	for _, w := range append(l.Warnings, f.Warnings...) {
		e.Warnings = append(e.Warnings, w.Error())
	}
	if l.State == cgroup.Unknown && len(l.Warnings) == 0 {
		e.Warnings = append(e.Warnings, l.Reason.Error())
	}
	e.Warnings = append(e.Warnings, doubts(f, l)...)
	return e
}

func newLimit(l, inside cgroup.Limits) Limit {
	limit := Limit{
		State: l.State.String(), CPUs: positive(l.CPUs), From: l.From, AtMost: l.AtMost,
		Cgroup: l.Version.String(), Hybrid: l.Hybrid, Path: l.Path, Levels: []Level{},
	}
	if l.Reason != nil {
		limit.Reason = l.Reason.Error()
	}
	if inside.State != l.State || inside.CPUs != l.CPUs {
		limit.Inside = &Inside{State: inside.State.String(), CPUs: positive(inside.CPUs)}
	}
	owner, limited := l.Owner()
	for _, level := range l.Levels {
		v := Level{
			Dir: level.Dir, File: level.File(l.Version), CPUs: level.Quota.CPUs(), Quota: seconds(level.Quota.QuotaMicros), Period: seconds(level.Quota.PeriodMicros),
			Burst: seconds(level.BurstMicros), Weight: level.Weight, Cpuset: level.Cpuset,
			InForce: limited && level.Dir == owner.Dir,
		}
		if level.Err != nil {
			v.Error = level.Err.Error()
		}
		limit.Levels = append(limit.Levels, v)
	}
	return limit
}

// seconds makes seconds of the kernel's microseconds.
func seconds(micros int64) float64 { return float64(micros) / 1e6 }

// positive makes a number that is zero for "none" null.
func positive(v float64) *float64 {
	if v <= 0 {
		return nil
	}
	return &v
}

func newThrottling(f Facts) Throttling {
	now := f.Throttling
	t := Throttling{Own: newCounters(now.Own), Owner: newCounters(now.Owner)}
	if now.LocalKnown {
		s := now.Local.Seconds()
		t.LocalSeconds = &s
	}
	if f.Before == nil {
		return t
	}
	since := now.Since(*f.Before)
	t.Now = &Interval{Seconds: f.Between.Seconds(), Periods: since.Owner.Periods, Throttled: since.Owner.Throttled}
	active := since.Owner.Throttled > 0 || since.Local > 0
	if since.LocalKnown {
		s := since.Local.Seconds()
		t.Now.LocalSeconds = &s
	}
	if since.LocalKnown || since.Owner.Known {
		t.Now.Active = &active
	}
	return t
}

func newCounters(c cgroup.Counters) Counters {
	return Counters{
		Share: share(c.Throttled, c.Periods),
		Dir:   c.Dir, Known: c.Known, Periods: c.Periods, Throttled: c.Throttled, ThrottledSeconds: c.ThrottledTime.Seconds(),
		Bursts: c.Bursts, BurstSeconds: c.BurstTime.Seconds(),
	}
}

func newMemory(f Facts) Memory {
	m := Memory{
		State: f.Memory.State.String(), Bytes: f.Memory.Bytes, From: f.Memory.From,
		GOMEMLIMIT: f.Process.Env["GOMEMLIMIT"], GOGC: f.Process.Env["GOGC"],
	}
	if f.Memory.Reason != nil {
		m.Reason = f.Memory.Reason.Error()
	}
	return m
}

func newGo(p procs.Process) *Go {
	program := p.Program
	if program == nil {
		return nil
	}
	setting := func(name string) Setting {
		s := program.Setting(name, p.Env)
		return Setting{Built: s.Built, Env: s.Env, On: s.On}
	}
	env := func(name string) *string {
		if v, ok := p.Env[name]; ok {
			return &v
		}
		return nil
	}
	return &Go{
		Version: program.GoVersion, GoLine: program.GoLine(), Path: program.Path,
		Module: program.Module, ModuleVersion: program.Version,
		Containermaxprocs: setting("containermaxprocs"), Updatemaxprocs: setting("updatemaxprocs"),
		Automaxprocs: program.Automaxprocs.String(), Unthrottle: program.Unthrottle.String(),
		GOMAXPROCS: env("GOMAXPROCS"), GODEBUG: env("GODEBUG"),
	}
}

func newGOMAXPROCS(f Facts) GOMAXPROCS {
	p := f.Process.Prediction
	g := GOMAXPROCS{Source: string(p.Source), Rule: string(p.Rule), Why: p.Why, Proof: ProofPredicted}
	value := p.Procs
	switch {
	case f.Self:
		g.Proof, value = ProofAsked, f.Procs
	case f.Process.Live > 0:
		g.Proof, value = ProofLive, f.Process.Live
	}
	g.Predicted = g.Proof == ProofPredicted
	if p.Procs > 0 {
		expected := p.Procs
		g.Expected = &expected
	}
	if value > 0 {
		g.Value = &value
	}
	if g.Proof == ProofLive && p.Procs > 0 && value != p.Procs {
		g.Source, g.Rule = "", ""
		g.Why = fmt.Sprintf("set by a call in the program, or it was changed since: expected was %d (%s)", p.Procs, p.Why)
	}
	return g
}

// doubts are warnings about how the program was built and started.
func doubts(f Facts, l cgroup.Limits) (warnings []string) {
	p := f.Process
	if p.EnvErr != nil {
		warnings = append(warnings, "its environment can't be read, so GOMAXPROCS and GODEBUG in it are not known: "+p.EnvErr.Error())
	}
	program := p.Program
	if program == nil {
		return warnings
	}
	if env, set := p.Env["GOMAXPROCS"]; set && env != "" && unthrottle.UserProcs(env) == 0 {
		warnings = append(warnings, "GOMAXPROCS="+strconv.Quote(env)+" in its environment is passed over by the runtime: it wants a whole number above zero")
	}
	if program.Minor() >= 25 && program.Automaxprocs >= procs.Linked && program.Setting("updatemaxprocs", p.Env).On {
		warnings = append(warnings, "automaxprocs ends the runtime's automatic updates where it finds a limit: a later change of the limit is not followed")
	}
	if program.Automaxprocs >= procs.Linked && program.Unthrottle >= procs.Linked {
		warnings = append(warnings, "automaxprocs and unthrottle are both linked: the one that comes last decides; remove automaxprocs")
	}
	if s := program.Setting("containermaxprocs", p.Env); l.State == cgroup.Limited && program.Minor() >= 25 && s.Built == "0" && !s.On {
		warnings = append(warnings, "its go line is "+program.GoLine()+", which turns off the runtime's reading of the limit; a go line of 1.25 or later turns it on")
	}
	return warnings
}
