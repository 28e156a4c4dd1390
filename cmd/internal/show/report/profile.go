package report

import (
	"fmt"
	"math"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/attach"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/cpuprofile"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/goself"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
)

// Profile is the document of the verb profile.
type Profile struct {
	Header
	Command   []string        `json:"command"`
	Source    string          `json:"source"`          // file or URL; "-": stdin
	Pod       string          `json:"pod,omitempty"`   // namespace/name of that in which the source is; "": none
	Saved     string          `json:"saved,omitempty"` // file that the profile was saved to
	Program   string          `json:"program"`         // "": not known
	Began     string          `json:"began"`           // RFC 3339; "": not known
	Seconds   *float64        `json:"seconds"`         // wall time; null: not known
	Samples   int64           `json:"samples"`
	Period    *float64        `json:"sample_period_seconds"` // CPU time a sample; null: not known
	CPU       float64         `json:"cpu_seconds"`           // of all samples
	CPUs      *float64        `json:"cpus_used"`             // the same a second; null: its wall time is not known
	Limit     ProfileLimit    `json:"limit"`
	Process   *ProfileProcess `json:"process"` // that runs here; null: not known, or not asked for
	Procs     *int            `json:"gomaxprocs"`
	ProcsFrom string          `json:"gomaxprocs_proof"` // live, metrics or ""
	Excess    ProfileExcess   `json:"excess"`
	Interrupt *float64        `json:"interrupted_share"` // of CPU time, in samples that were due while their thread was off the CPU; null: no samples
	Demand    *ProfileDemand  `json:"demand"`            // null: no metrics
	Classes   []ProfileClass  `json:"classes"`
	Base      *ProfileBase    `json:"base"`
	Frames    []ProfileFrame  `json:"frames"`
	Verdict   string          `json:"verdict"` // always none
	Why       []string        `json:"why_no_verdict"`
	Warnings  []string        `json:"warnings"`

	Findings []finding.Finding `json:"findings"` // by the rules of ps, those that a profile and what else is known can answer
}

// ProfileLimit is the CPU limit that the profile is compared with.
type ProfileLimit struct {
	State     string   `json:"state"` // limited, none, unknown or hidden; not given
	CPUs      *float64 `json:"cpus"`
	From      string   `json:"from"`               // --limit, or the directory of the cgroup
	Share     *float64 `json:"share"`              // of it that was used
	ShareBy   string   `json:"share_by,omitempty"` // kernel or profile: whose count of CPU time that is
	Saturated *bool    `json:"saturated"`          // the share is at least 0.95
}

// ProfileProcess is what the kernel counted of a process on this host while its profile was taken.
type ProfileProcess struct {
	PID              int      `json:"pid"`
	Name             string   `json:"name"`
	CPUs             *float64 `json:"cpus_used"` // of its group, where that has a limit
	Periods          *int64   `json:"periods"`
	ThrottledPeriods *int64   `json:"throttled_periods"`
	ThrottledShare   *float64 `json:"throttled_periods_share"`
}

// ProfileExcess is the CPU time of classes that grow with GOMAXPROCS.
type ProfileExcess struct {
	CPU    float64  `json:"cpu_seconds"`
	Share  *float64 `json:"share"`  // null: no samples
	Margin *float64 `json:"margin"` // of a 95 % interval, from the number of samples
	Amount string   `json:"amount"` // little, some, much; "": no samples
}

// ProfileDemand is how many Ps wanted a CPU for each CPU that they got, from /cpu/classes.
type ProfileDemand struct {
	Ratio   float64  `json:"ratio"` // (total − idle) ÷ CPU time
	Over    string   `json:"over"`  // profile; files: between two pages; start: since the program's start
	Wanted  *float64 `json:"running_ps"`
	Got     *float64 `json:"cpus_used"`
	Covered *float64 `json:"covered_seconds"` // from collection to collection; null: not known
}

// ProfileClass is the CPU time of a class.
type ProfileClass struct {
	Name      string            `json:"name"`
	About     string            `json:"about"`
	Excess    bool              `json:"grows"`
	Samples   int64             `json:"samples"`
	CPU       float64           `json:"cpu_seconds"`
	Share     float64           `json:"share"`
	BaseShare *float64          `json:"base_share,omitempty"`
	PerUnit   *float64          `json:"per_unit_ratio,omitempty"` // CPU time a unit of work ÷ that of the base; null: the base has no such figure
	Top       []ProfileFunction `json:"top"`
}

// ProfileFunction is a function that was running.
type ProfileFunction struct {
	Name string  `json:"name"`
	CPU  float64 `json:"cpu_seconds"`
}

// ProfileBase is the profile that this one is compared with.
type ProfileBase struct {
	Source      string   `json:"source"`
	Program     string   `json:"program"`
	Seconds     *float64 `json:"seconds"`
	Samples     int64    `json:"samples"`
	CPU         float64  `json:"cpu_seconds"`
	ExcessShare *float64 `json:"excess_share"`
	UnitsBy     string   `json:"units_by"` // given, or program: a second of CPU time of the program's own code
	Units       float64  `json:"units"`
	BaseUnits   float64  `json:"base_units"`
	PerUnit     *float64 `json:"per_unit_ratio"`        // all CPU time
	ExcessAdded *float64 `json:"excess_added_per_unit"` // excess a unit less that of the base, as a share of the base's CPU time a unit
}

// ProfileFrame is a function in the tree of stacks. A frame comes after the one it is in, whose depth is one less.
type ProfileFrame struct {
	Depth    int     `json:"depth"`
	Function string  `json:"function"`
	Class    string  `json:"class"`
	CPU      float64 `json:"cpu_seconds"`
}

// ProfileFacts are what Profile is made from.
type ProfileFacts struct {
	Profile       *cpuprofile.Profile
	Source, Saved string
	Base          *cpuprofile.Profile
	BaseSource    string
	Units         float64 // 0: not given
	BaseUnits     float64
	LimitGiven    float64        // 0: not given
	Limits        *cgroup.Limits // of the process; nil: not known
	OutOfSight    bool           // from inside its container
	PID           int            // 0: not known
	Name          string         // of the process
	Readings      []host.Reading // while the profile was taken
	Live          int            // GOMAXPROCS from its memory; 0: not known
	Set           choice.Source  // its environment, if that has it
	MetricsProcs  int            // and from its metrics
	Demand        *goself.Demand
	DemandOver    string
	Warnings      []error
}

// Bounds of the tree that a document holds.
const (
	framesLeast = 0.001 // share of the CPU time
	framesMost  = 800
)

// saturated is the share of a limit above which it counts as used up, since counts are not exact.
const saturated = 0.95

// samplesFew is too few to say much: with fewer, a share of 10 % is uncertain by more than three points.
const samplesFew = 300

// whyNoVerdict are the reasons why a profile alone can't tell whether a program is throttled.
var whyNoVerdict = []string{
	"A CPU profile can't show throttling: its clock runs only while the program does, so time in which it was frozen is not in it.",
	"How much excess is too much depends on the program, since one that only passes messages had 14 % at GOMAXPROCS 1: compare it with itself (--base).",
}

// Beside takes over what was seen alongside the profile.
func (f *ProfileFacts) Beside(b attach.Beside) {
	f.PID, f.Name, f.Live, f.Set, f.Limits, f.OutOfSight, f.Readings, f.Warnings = b.PID, b.Name, b.Live, b.Set, b.Limits, b.OutOfSight, b.Readings, b.Warnings
}

// NewProfile makes the document. The header and the command are the caller's to fill in.
func NewProfile(f ProfileFacts) *Profile {
	p := f.Profile
	d := &Profile{
		Source: f.Source, Saved: f.Saved, Program: p.Program, Verdict: "none", Why: whyNoVerdict,
		Samples: p.Samples, CPU: p.CPU.Seconds(),
		Seconds: positive(p.Duration.Seconds()), Period: positive(p.Period.Seconds()),
		CPUs:   known(p.Duration > 0, p.CPU.Seconds()/p.Duration.Seconds()),
		Excess: newProfileExcess(p), Interrupt: share(int64(p.Interrupted), int64(p.CPU)),
		Warnings: errorTexts(f.Warnings), Command: []string{}, Frames: []ProfileFrame{},
	}
	if !p.Began.IsZero() {
		d.Began = p.Began.UTC().Format(time.RFC3339)
	}
	switch {
	case f.Live > 0:
		d.Procs, d.ProcsFrom = &f.Live, "live"
	case f.MetricsProcs > 0:
		d.Procs, d.ProcsFrom = &f.MetricsProcs, "metrics"
	}
	d.addProcess(f)
	d.addLimit(f)
	if m := f.Demand; m != nil {
		during := f.DemandOver == "profile"
		d.Demand = &ProfileDemand{
			m.Ratio(), f.DemandOver, known(during, m.Wanted), known(during, m.Got), known(during && m.Covered > 0, m.Covered.Seconds()),
		}
	}
	for i, c := range cpuprofile.Classes() {
		d.Classes = append(d.Classes, newProfileClass(c, p.Classes[i], p.CPU))
	}
	if f.Base != nil {
		d.addBase(f)
	}
	d.addFrames(p.Prune(framesLeast, framesMost), 0)
	d.Findings = rule.Check(f.ofRules(d))
	d.addDoubts(f)
	return d
}

func newProfileExcess(p *cpuprofile.Profile) ProfileExcess {
	cpu := p.Excess()
	e := ProfileExcess{CPU: cpu.Seconds(), Share: share(int64(cpu), int64(p.CPU))}
	if e.Share == nil {
		return e
	}
	s, n := *e.Share, float64(p.Samples)
	margin := 1.96 * math.Sqrt(s*(1-s)/n)
	if s == 0 {
		margin = min(1, 3/n)
	}
	e.Margin = known(n > 0, margin)
	switch {
	case s < cpuprofile.LittleExcess:
		e.Amount = "little"
	case s < cpuprofile.MuchExcess:
		e.Amount = "some"
	default:
		e.Amount = "much"
	}
	return e
}

func newProfileClass(c cpuprofile.Class, u cpuprofile.Use, all time.Duration) ProfileClass {
	out := ProfileClass{
		Name: c.Name, About: c.About, Excess: c.Excess, Samples: u.Samples, CPU: u.CPU.Seconds(), Top: []ProfileFunction{},
	}
	if s := share(int64(u.CPU), int64(all)); s != nil {
		out.Share = *s
	}
	for _, t := range u.Top {
		out.Top = append(out.Top, ProfileFunction{t.Name, t.CPU.Seconds()})
	}
	return out
}

// counted is what the kernel counted while the profile was taken, and how long that took.
func (f *ProfileFacts) counted() (c cgroup.Counters, wall time.Duration) {
	n := len(f.Readings)
	if n < 2 {
		return c, 0
	}
	first, last := f.Readings[0], f.Readings[n-1]
	return last.Since(first.Counters), last.At.Sub(first.At)
}

func (d *Profile) addProcess(f ProfileFacts) {
	if f.PID == 0 {
		return
	}
	c, wall := f.counted()
	d.Process = &ProfileProcess{
		PID: f.PID, Name: f.Name, CPUs: known(c.CPUKnown && wall > 0, c.CPU.Seconds()/wall.Seconds()),
		Periods: known(c.Known, c.Periods), ThrottledPeriods: known(c.Known, c.Throttled),
	}
	if c.Known {
		d.Process.ThrottledShare = share(c.Throttled, c.Periods)
	}
}

// limits are those that the profile is compared with; ok is false if none were given.
func (f *ProfileFacts) limits() (l cgroup.Limits, ok bool) {
	switch {
	case f.LimitGiven > 0:
		return cgroup.Limits{State: cgroup.Limited, CPUs: f.LimitGiven, From: "--limit"}, true
	case f.Limits != nil:
		return *f.Limits, true
	}
	return l, false
}

func (d *Profile) addLimit(f ProfileFacts) {
	limits, ok := f.limits()
	d.Limit = ProfileLimit{State: "not given", CPUs: positive(limits.CPUs), From: limits.From}
	l := &d.Limit
	if ok {
		l.State = limits.State.String()
	}
	if l.CPUs == nil {
		return
	}
	used, by := d.CPUs, "profile"
	if d.Process != nil && d.Process.CPUs != nil { // a profile misses the CPU time of threads that lived for less than its period
		used, by = d.Process.CPUs, "kernel"
	}
	if used == nil {
		return
	}
	of := *used / *l.CPUs
	l.Share, l.ShareBy, l.Saturated = &of, by, new(of >= saturated)
}

// addBase compares each class with that of the base, for a unit of work.
func (d *Profile) addBase(f ProfileFacts) {
	p, base := f.Profile, f.Base
	excess := p.Excess()
	baseExcess := base.Excess()
	b := &ProfileBase{
		Source: f.BaseSource, Program: base.Program, Seconds: positive(base.Duration.Seconds()),
		Samples: base.Samples, CPU: base.CPU.Seconds(), ExcessShare: share(int64(baseExcess), int64(base.CPU)),
		UnitsBy: "given", Units: f.Units, BaseUnits: f.BaseUnits,
	}
	if f.Units == 0 {
		b.UnitsBy, b.Units, b.BaseUnits = "program", p.Work().Seconds(), base.Work().Seconds()
	}
	d.Base = b
	perUnit := func(now, before time.Duration) *float64 {
		return known(before > 0 && b.Units > 0 && b.BaseUnits > 0, now.Seconds()/b.Units/(before.Seconds()/b.BaseUnits))
	}
	b.PerUnit = perUnit(p.CPU, base.CPU)
	added := excess.Seconds()/b.Units - baseExcess.Seconds()/b.BaseUnits
	b.ExcessAdded = known(b.PerUnit != nil, added/(base.CPU.Seconds()/b.BaseUnits))
	for i := range d.Classes {
		c := &d.Classes[i]
		c.BaseShare = share(int64(base.Classes[i].CPU), int64(base.CPU))
		c.PerUnit = perUnit(p.Classes[i].CPU, base.Classes[i].CPU)
	}
}

func (d *Profile) addFrames(f *cpuprofile.Frame, depth int) {
	if depth > 0 {
		d.Frames = append(d.Frames, ProfileFrame{depth, f.Name, cpuprofile.Classes()[f.Class].Name, f.CPU.Seconds()})
	}
	for _, child := range f.Children {
		d.addFrames(child, depth+1)
	}
}

// addDoubts adds what the reader should know about the numbers.
func (d *Profile) addDoubts(f ProfileFacts) {
	warn := func(format string, args ...any) { d.Warnings = append(d.Warnings, fmt.Sprintf(format, args...)) }
	switch {
	case d.Samples == 0:
		warn("it has no samples: the program used no CPU time")
	case d.Samples < samplesFew:
		warn("it has only %d samples: take it for longer, or while there is more to do", d.Samples)
	}
	if f.Profile.NoIdle {
		warn("it is from Go 1.21 or older, where garbage collection on idle Ps can't be separated from the rest: the excess is larger than shown")
	}
	if d.Seconds == nil && d.CPU > 0 {
		warn("it does not say how long it took, so its CPU time can't be compared with a limit")
	}
	if d.Process != nil && d.Process.CPUs != nil && d.CPUs != nil && *d.CPUs < 0.9**d.Process.CPUs {
		warn("it has samples for %.2f of the %.2f CPUs that the kernel counted: it misses threads that run for a short time, or there are other programs in the group", *d.CPUs, *d.Process.CPUs)
	}
	if f.Base == nil {
		return
	}
	switch {
	case d.Base.Program != d.Program:
		warn("the base is a profile of %q, not of %q", d.Base.Program, d.Program)
	case f.Base.NoIdle != f.Profile.NoIdle:
		warn("the base is from another version of Go, which names garbage collection on idle Ps differently")
	}
	if d.Base.Samples < samplesFew {
		warn("the base has only %d samples", d.Base.Samples)
	}
	if d.Base.UnitsBy == "program" {
		warn("work is taken to be CPU time of the program's own code. That costs more with more Ps too, so what a unit costs is understated: say how much was done with --units and --base-units")
	}
}
