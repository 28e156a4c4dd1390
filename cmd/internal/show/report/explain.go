package report

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// Explain is the document of the verb explain.
type Explain struct {
	Header
	Subject    Subject    `json:"subject"`
	Limit      Limit      `json:"limit"`
	Affinity   Affinity   `json:"affinity"`
	Throttling Throttling `json:"throttling"`
	Memory     Memory     `json:"memory"`
	Collector  *Collector `json:"collector,omitempty"`
	Go         *Go        `json:"go"`               // null: not a Go program, or its file can't be read
	Unread     string     `json:"unread,omitempty"` // why its file can't be read, so that nothing is known of the program
	GOMAXPROCS GOMAXPROCS `json:"gomaxprocs"`
	Choices    []Choice   `json:"choices"`

	Unmeasured *Unmeasured `json:"unmeasured,omitempty"` // nil: the program was looked at

	Findings []finding.Finding `json:"findings"` // of a running Go program
	Warnings []string          `json:"warnings"`
}

// Subject is the process that was looked at.
type Subject struct {
	PID     int      `json:"pid"`
	Name    string   `json:"name"`
	Command []string `json:"command"`
	Self    bool     `json:"self"` // it is unthrottle itself, representing anything started from the same shell
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

// Inside is the limit as seen from inside the process's container, if that differs.
type Inside struct {
	State string   `json:"state"`
	CPUs  *float64 `json:"cpus"`
}

// Hides reports whether a limit that is in force can't be seen from inside.
func (in *Inside) Hides(l cgroup.Limits) bool {
	return in != nil && l.State == cgroup.Limited && (in.CPUs == nil || *in.CPUs != l.CPUs)
}

// Level is one cgroup on the way up.
type Level struct {
	Dir     string  `json:"dir"`
	File    string  `json:"file"` // that holds the quota; it may not exist
	CPUs    float64 `json:"cpus,omitempty"`
	Quota   float64 `json:"quota_seconds,omitempty"`
	Period  float64 `json:"period_seconds,omitempty"`
	Burst   float64 `json:"burst_limit_seconds,omitempty"`
	Weight  int64   `json:"cpu_weight,omitempty"`
	Cpuset  string  `json:"cpuset,omitempty"`
	Error   string  `json:"error,omitempty"`
	InForce bool    `json:"in_force"`
}

// Affinity is what sched_setaffinity and cpusets allow.
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
	Dir   string `json:"dir"`
	Known bool   `json:"known"`
	PeriodCount
	Bursts       int64    `json:"bursts,omitempty"`
	BurstSeconds float64  `json:"burst_seconds,omitempty"`
	CPU          *float64 `json:"cpu_seconds,omitempty"` // of the group; not there: not known
}

// Interval is what happened between two readings.
type Interval struct {
	Seconds      float64  `json:"seconds"`
	Periods      int64    `json:"periods"`
	Throttled    int64    `json:"throttled_periods"`
	Frozen       *Frozen  `json:"frozen"` // null: not known
	LocalSeconds *float64 `json:"own_throttled_seconds"`
	Active       *bool    `json:"throttled"` // it is being throttled; null: nothing is counted that would show it
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
	Value     *int   `json:"value"`  // null: not a Go program, or not known
	Source    string `json:"set_by"` // environment, limit, cpus, automaxprocs, unthrottle or ""
	Rule      string `json:"chosen_by,omitempty"`
	Why       string `json:"why"`
	Predicted bool   `json:"predicted"` // false: the program really has it, see Proof
	Proof     string `json:"proof"`     // live (read from its memory), asked (of our own runtime), predicted
	Expected  *int   `json:"expected"`  // from how the program was built and started; null: not known
}

// How a GOMAXPROCS is known.
const (
	ProofLive      = "live"
	ProofAsked     = "asked"
	ProofPredicted = "predicted"
)

// Choice is what one rule would choose.
type Choice struct {
	Rule    string   `json:"chosen_by"`
	Procs   int      `json:"gomaxprocs"` // 0: not known
	Limit   *float64 `json:"limit_cpus"` // the limit it believes in; null: none
	Wrong   bool     `json:"wrong"`      // it would choose another number if it knew the limit in force and the CPUs
	Why     string   `json:"why,omitempty"`
	Fix     string   `json:"fix,omitempty"`
	Applies bool     `json:"applies"`       // it is the rule that the program follows
	All     bool     `json:"all,omitempty"` // all CPUs of a node that is not known
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
		Memory:     newMemory(&f.Process),
		Collector:  newCollector(&f.Process),
		Go:         newGo(f.Process.Process),
		GOMAXPROCS: newGOMAXPROCS(f),
		Findings:   append([]finding.Finding{}, f.Findings...),
		Warnings:   errorTexts(append(l.Warnings, f.Warnings...)),
	}
	for _, c := range f.Rules {
		e.Choices = append(e.Choices, Choice{
			Rule: string(c.Rule), Procs: c.Procs, Limit: positive(c.Limit), Wrong: c.Wrong, Why: c.Why, Fix: c.Fix,
			Applies: string(c.Rule) == e.GOMAXPROCS.Rule,
		})
	}
	if err := f.Process.ProgramErr; err != nil && !errors.Is(err, procs.ErrNotGo) {
		e.Unread = err.Error()
	}
	if l.State == cgroup.Unknown && len(l.Warnings) == 0 {
		e.Warnings = append(e.Warnings, l.Reason.Error())
	}
	e.Warnings = append(e.Warnings, doubts(f, l)...)
	return e
}

// Blind is the error for a program in which nothing could be found, as nothing of it could be seen: for --fail-on that is not a success.
func (e *Explain) Blind() error {
	if e.Unmeasured != nil {
		return fmt.Errorf("--fail-on: what is wrong with %s is not known, as nothing was measured: %s", e.Subject.Name, e.Unmeasured.Why)
	}
	if e.Unread == "" {
		return nil
	}
	return fmt.Errorf("--fail-on: what is wrong with process %d (%s) is not known: %s", e.Subject.PID, e.Subject.Name, e.Unread)
}

// ExplainVerdict is the answer.
type ExplainVerdict struct {
	Word  string
	Whole bool // the text says it all
	Text  string
	Also  []string // what belongs to it
}

// Verdict is the answer. What was found in a running Go program comes before what its number should be.
func (d *Explain) Verdict() ExplainVerdict {
	now := d.Throttling.Now
	switch {
	case len(d.Findings) > 0:
		var also []string
		word, text := d.Findings[0].Verdict, d.Findings[0].Summary
		if limit, procs := d.Limit.CPUs, d.GOMAXPROCS.Value; !fits(text) && limit != nil && procs != nil {
			also = []string{capital(text) + "."}
			text = fmt.Sprintf("GOMAXPROCS is %d under a limit of %s", *procs, quantity.UsedCPUs(*limit))
		}
		if now != nil && now.Frozen != nil && now.Frozen.Share > 0 {
			also = append(also, "It stood still for "+now.Frozen.Words()+" of the time.")
		}
		if d.Unmeasured != nil {
			also = append(also, notMeasured)
		}
		return ExplainVerdict{Word: word, Text: text, Also: also}
	case d.Unmeasured != nil:
		return d.asWritten()
	case now != nil && d.GOMAXPROCS.Proof == ProofLive && d.GOMAXPROCS.Value != nil:
		return ExplainVerdict{Word: rule.Fine, Text: fmt.Sprintf("no rule finds anything wrong with GOMAXPROCS %d here", *d.GOMAXPROCS.Value)}
	}
	v := d.number()
	v.Whole = true
	if now == nil && v.Word == "right" && d.Limit.State == "limited" && !d.Subject.Self {
		v.Word, v.Text = NotKnown, fmt.Sprintf("GOMAXPROCS %d fits a limit of %s; throttling was not measured.", *d.GOMAXPROCS.Value, quantity.UsedCPUs(*d.Limit.CPUs))
	}
	if now != nil && now.Active != nil && *now.Active {
		v.Also = append(v.Also, "It was throttled while it was looked at.")
	}
	return v
}

// number is the answer where no rule was asked: whether the number suits the limit, as far as that is known, or else the limit.
func (d *Explain) number() ExplainVerdict {
	procs := d.GOMAXPROCS.Value
	if procs == nil {
		switch d.Limit.State {
		case "limited":
			return ExplainVerdict{Word: "limited", Text: "The CPU limit is " + quantity.UsedCPUs(*d.Limit.CPUs) + "."}
		case "none":
			return ExplainVerdict{Word: "no limit", Text: "No CPU limit is in force."}
		case "hidden":
			return ExplainVerdict{Word: "hidden", Text: "A CPU limit that can't be seen from here throttles it."}
		}
		return ExplainVerdict{Word: "not known", Text: "The CPU limit is not known."}
	}
	under := "with no CPU limit"
	switch d.Limit.State {
	case "limited":
		under = "under a limit of " + quantity.UsedCPUs(*d.Limit.CPUs)
	case "none":
	case "hidden":
		return ExplainVerdict{Word: "hidden", Text: fmt.Sprintf("GOMAXPROCS is %d; the CPU limit can't be seen from here.", *procs)}
	default:
		return ExplainVerdict{Word: "not known", Text: fmt.Sprintf("GOMAXPROCS is %d; the CPU limit is not known.", *procs)}
	}
	for _, c := range d.Choices {
		switch {
		case !c.Applies || c.Procs != *procs:
		case c.Wrong:
			return ExplainVerdict{Word: "wrong", Text: fmt.Sprintf("GOMAXPROCS %d is wrong %s.", *procs, under)}
		default:
			return ExplainVerdict{Word: "right", Text: fmt.Sprintf("GOMAXPROCS %d is right %s.", *procs, under)}
		}
	}
	return ExplainVerdict{Word: "not judged", Text: fmt.Sprintf("GOMAXPROCS is %d %s.", *procs, under)} // the user set it
}

func newLimit(l, inside cgroup.Limits) Limit {
	limit := Limit{
		State: l.State.String(), CPUs: positive(l.CPUs), From: l.From, AtMost: l.AtMost,
		Reason: errorText(l.Reason), Cgroup: l.Version.String(), Hybrid: l.Hybrid, Path: l.Path, Levels: make([]Level, 0, len(l.Levels)),
	}
	if inside.State != l.State || inside.CPUs != l.CPUs {
		limit.Inside = &Inside{State: inside.State.String(), CPUs: positive(inside.CPUs)}
	}
	owner, limited := l.Owner()
	for _, level := range l.Levels {
		limit.Levels = append(limit.Levels, Level{
			Dir: level.Dir, File: level.File(l.Version), CPUs: level.Quota.CPUs(),
			Quota: seconds(level.Quota.QuotaMicros), Period: seconds(level.Quota.PeriodMicros), Burst: seconds(level.BurstMicros),
			Weight: level.Weight, Cpuset: level.Cpuset, Error: errorText(level.Err), InForce: limited && level.Dir == owner.Dir,
		})
	}
	return limit
}

// seconds converts the kernel's microseconds.
func seconds(micros int64) float64 { return float64(micros) / 1e6 }

func newThrottling(f Facts) Throttling {
	now := f.Throttling
	t := Throttling{
		Own: newCounters(now.Own), Owner: newCounters(now.Owner), LocalSeconds: known(now.LocalKnown, now.Local.Seconds()),
	}
	if f.Before == nil {
		return t
	}
	since := now.Since(*f.Before)
	seen := f.Process.Usage
	if seen.Wall == 0 { // it isn't a Go program, or may not be looked into
		seen = host.Usage{Wall: f.Between, Throttling: since}
	}
	t.Now = &Interval{
		Seconds: f.Between.Seconds(), Periods: since.Owner.Periods, Throttled: since.Owner.Throttled,
		Frozen:       newFrozen(seen, f.Process.System.Limits.Affinity),
		LocalSeconds: known(since.LocalKnown, since.Local.Seconds()),
		Active:       known(since.LocalKnown || since.Owner.Known, since.Owner.Throttled > 0 || since.Local > 0),
	}
	return t
}

func newCounters(c cgroup.Counters) Counters {
	return Counters{c.Dir, c.Known, newPeriodCount(c), c.Bursts, c.BurstTime.Seconds(), known(c.CPUKnown, c.CPU.Seconds())}
}

func newGo(p procs.Process) *Go {
	program := p.Program
	if program == nil {
		return nil
	}
	env := func(name string) *string {
		v, set := p.Env[name]
		return known(set, v)
	}
	return &Go{
		Version: program.GoVersion, GoLine: program.GoLine(), Path: program.Path,
		Module: program.Module, ModuleVersion: program.Version,
		Containermaxprocs: Setting(program.Setting("containermaxprocs", p.Env)),
		Updatemaxprocs:    Setting(program.Setting("updatemaxprocs", p.Env)),
		Automaxprocs:      program.Automaxprocs.String(), Unthrottle: program.Unthrottle.String(),
		GOMAXPROCS: env("GOMAXPROCS"), GODEBUG: env("GODEBUG"),
	}
}

func newGOMAXPROCS(f Facts) GOMAXPROCS {
	p := f.Process.Prediction
	g := GOMAXPROCS{Source: string(p.Source), Rule: string(p.Rule), Why: p.Why, Proof: ProofPredicted, Expected: positive(p.Procs)}
	value := p.Procs
	switch {
	case f.Self:
		g.Proof, value = ProofAsked, f.Procs
	case f.Process.Live > 0:
		g.Proof, value = ProofLive, f.Process.Live
	}
	g.Predicted, g.Value = g.Proof == ProofPredicted, positive(value)
	if g.Proof == ProofLive && p.Procs > 0 && value != p.Procs {
		g.Source, g.Rule = "", ""
		g.Why = fmt.Sprintf("set by a call in the program, or it was changed since: expected was %d (%s)", p.Procs, p.Why)
	}
	return g
}

// doubts are warnings about how the program was built and started.
func doubts(f Facts, l cgroup.Limits) (warnings []string) {
	p := f.Process
	warn := func(text string) { warnings = append(warnings, text) }
	if p.EnvErr != nil {
		warn("its environment can't be read, so GOMAXPROCS and GODEBUG in it are not known: " + p.EnvErr.Error())
	}
	program := p.Program
	if program == nil {
		return warnings
	}
	env, set := p.Env["GOMAXPROCS"]
	if env != "" && choice.UserProcs(env, program) == 0 {
		warn("GOMAXPROCS=" + strconv.Quote(env) + " in its environment is ignored by the runtime, which wants a whole number above zero")
	}
	aware := program.Minor() >= 25                 // its runtime reads the limit
	called := !set && (!p.CustomKnown || p.Custom) // by automaxprocs, as far as is known: it leaves alone what the environment names
	if aware && called && program.Automaxprocs >= procs.Linked && program.Setting("updatemaxprocs", p.Env).On {
		warn("automaxprocs ends the runtime's automatic updates where it finds a limit: later changes of the limit are not followed")
	}
	if program.Automaxprocs >= procs.Linked && program.Unthrottle >= procs.Linked {
		warn("automaxprocs and unthrottle are both linked: what automaxprocs has set is not raised; remove automaxprocs")
	}
	if s := program.Setting("containermaxprocs", p.Env); l.State == cgroup.Limited && aware && s.Built == "0" && !s.On {
		warn("its go line is " + program.GoLine() +
			", which turns off the runtime's reading of the limit; a go line of 1.25 or later turns it on")
	}
	return warnings
}
