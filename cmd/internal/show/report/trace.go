package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/attach"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/exectrace"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
)

// Trace is the document of the verb trace. Times within the trace are in seconds since its first event.
type Trace struct {
	Header
	Command  []string `json:"command"`
	Source   string   `json:"source"`             // file or URL; "-": stdin
	Pod      string   `json:"pod,omitempty"`      // namespace/name of that in which the source is; "": none
	Saved    string   `json:"saved,omitempty"`    // file that the trace was saved to
	Recorded []string `json:"recorded,omitempty"` // program that was started to take it

	Format string  `json:"trace_format"` // Go version that the format is named after: 1.26
	Began  string  `json:"began"`        // RFC 3339; "": not known
	Wall   float64 `json:"seconds"`
	Bytes  int64   `json:"bytes"`
	Events int64   `json:"events"`

	Cause       string        `json:"cause"` // throttled, contended, none or unsure
	Why         string        `json:"why"`
	Confidence  string        `json:"confidence"`              // high or low
	Doubt       string        `json:"doubt"`                   // why it is low
	FrozenShare float64       `json:"frozen_share"`            // of the time
	Throttled   float64       `json:"throttled_time_share"`    // of the time, by a quota; Hidden is a part of it
	Hidden      float64       `json:"hidden_share"`            // of the time before a refill, in which there was nothing to do as far as is known
	Contended   float64       `json:"contended_share"`         // of the time, by other programs
	Neighbour   bool          `json:"neighbour"`               // at the rhythm of a quota, which is another group's
	Period      *float64      `json:"period_seconds"`          // of the quota; null: none is seen or known
	PeriodFrom  string        `json:"period_from"`             // given, limit, rhythm or ""
	ImpliedCPUs *float64      `json:"implied_cpus"`            // that the quota let it have; null: it is not throttled, or not known
	ImpliedBy   string        `json:"implied_cpus_by"`         // samples; or Ps, whose time is CPU time on a host that is not busy
	BusyPs      float64       `json:"busy_ps"`                 // on average, outside freezes
	Shortest    float64       `json:"freeze_at_least_seconds"` // seconds; shorter silences don't count
	FreezeCount int64         `json:"freezes_counted"`         // Dropped ones too
	Dropped     int64         `json:"freezes_dropped"`         // the shortest
	Freezes     []TraceFreeze `json:"freezes"`

	Rhythm   WatchRhythm    `json:"rhythm"`
	Longest  []TraceMoment  `json:"longest"`
	Handlers *TraceHandlers `json:"handlers"` // null: none was seen
	GC       TraceGC        `json:"gc"`
	Samples  *TraceSamples  `json:"cpu_samples"` // null: there are no CPU samples in it
	Density  TraceDensity   `json:"density"`

	Procs        *int           `json:"gomaxprocs"` // at the end; null: not known
	ProcsChanges []TraceSetting `json:"gomaxprocs_changes"`
	ProcsLeft    int            `json:"gomaxprocs_changes_left,omitempty"`
	Process      *TraceProcess  `json:"process"` // that runs here; null: not known
	Limit        *WatchLimit    `json:"limit"`   // of that process, or of its container as its pod's spec says; null: not known
	Kernel       *TraceKernel   `json:"kernel"`  // null: it was not asked, or counted nothing
	Warnings     []string       `json:"warnings"`

	Findings []finding.Finding `json:"findings"` // by the rules of ps, those that a trace can answer
}

// Lengths are how long the freezes in the list took: the median and the longest; 0 if the list is empty.
func (d *Trace) Lengths() (half, longest float64) {
	if len(d.Freezes) == 0 {
		return 0, 0
	}
	var lengths []float64
	for _, f := range d.Freezes {
		lengths = append(lengths, max(0, f.End-f.Start))
	}
	slices.Sort(lengths)
	return lengths[len(lengths)/2], lengths[len(lengths)-1]
}

// TraceFreeze is a stretch in which the program stood still.
type TraceFreeze struct {
	Freeze
	Hidden bool `json:"hidden"` // there was nothing to do, as far as is known
}

// last is 1 for a freeze that the recording ended with, which says little of the program: what ran then was ending the recording.
func (d *Trace) last(m TraceMoment) int {
	const atOnce = 0.001 // seconds
	if d.Wall-m.End < atOnce {
		return 1
	}
	return 0
}

// TraceMoment is one of the longest freezes, with the goroutines in it.
type TraceMoment struct {
	TraceFreeze
	Running []TraceGoroutine `json:"running"`
	Waiting []TraceGoroutine `json:"waiting"` // those that waited longest
	Waited  int              `json:"waiting_count"`
	Ps      int              `json:"busy_ps"`
	Serving bool             `json:"serving"` // a goroutine of it served a network request
	GC      bool             `json:"in_gc"`   // the collector was marking
}

// TraceGoroutine is a goroutine that was running, or could have run.
type TraceGoroutine struct {
	ID       int64   `json:"id"`
	Function string  `json:"function"` // where it was seen last; "": not known
	Started  string  `json:"started"`  // what it was started with
	Label    string  `json:"label,omitempty"`
	For      float64 `json:"for_seconds"` // it had been running or waiting when the freeze ended
	Serves   bool    `json:"serves"`      // network requests
}

// TraceHandlers are goroutines that serve requests: from the moment that the network woke them until they waited for it
// again.
type TraceHandlers struct {
	What    string       `json:"what"` // net/http, or network: all goroutines that waited for the network
	Count   int64        `json:"count"`
	Frozen  int64        `json:"frozen_count"` // that were caught in a freeze
	Lost    int          `json:"lost_count"`   // too many to keep
	Took    TraceLatency `json:"took"`
	Added   TraceLatency `json:"added"` // by freezes
	Without TraceLatency `json:"without"`
}

// TraceLatency is a few quantiles, in seconds.
type TraceLatency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// TraceGC is the collector.
type TraceGC struct {
	Cycles  int     `json:"cycles"`
	Marking float64 `json:"marking_share"`           // of the time
	Frozen  float64 `json:"marking_of_frozen_share"` // of frozen time, in which it was marking
}

// TraceSamples are the CPU samples in the trace.
type TraceSamples struct {
	Count   int64   `json:"count"`
	CPU     float64 `json:"cpu_seconds"`
	Running float64 `json:"running_seconds"` // of all goroutines while samples were taken
	Starved float64 `json:"starved_share"`   // of that, in which the goroutine had no CPU
}

// TraceDensity is how close together the events are.
type TraceDensity struct {
	PerSecond float64 `json:"events_per_second"`
	P99       float64 `json:"p99_silence_seconds"`
	Ordinary  float64 `json:"ordinary_silence_seconds"`
	Sparse    bool    `json:"sparse"` // so few that a freeze looks like computing
}

// TraceSetting is a GOMAXPROCS, and since when.
type TraceSetting struct {
	At    float64 `json:"at_seconds"`
	Procs int     `json:"gomaxprocs"`
}

// TraceProcess is the process that the trace is of.
type TraceProcess struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
	Live *int   `json:"gomaxprocs"` // read from its memory; null: it could not be
}

// TraceKernel is what the kernel counted at the same time.
type TraceKernel struct {
	From string `json:"counted_by"` // meter: while the trace was taken; files; or program: it has logged it
	PeriodCount
	Local          *float64 `json:"own_throttled_seconds,omitempty"` // of its own group, by any level; null: not counted
	CPUs           int      `json:"cpus"`                            // that the seconds are divided by
	ThrottledShare float64  `json:"throttled_time_share"`            // of the time, by any level if that is counted, and if all CPUs stood still together: to compare with the trace's
}

// TraceFacts are what a Trace is made from.
type TraceFacts struct {
	Trace         *exectrace.Trace
	Source, Saved string
	Recorded      []string
	Asked, Took   time.Duration // how long it was wanted, and until the server had handed it over; 0: of a file
	PeriodFrom    string        // of the period that exectrace was given: given or limit; "": none
	PID           int           // 0: not known
	Name          string
	Live          int           // GOMAXPROCS from its memory; 0: not known
	Set           choice.Source // its environment, if that has it
	Limits        *cgroup.Limits
	OutOfSight    bool           // from inside its container
	Readings      []host.Reading // while the trace was taken
	Stat          *[2]cgroup.Counters
	Warnings      []error
}

// Beside takes over what was seen alongside the trace.
func (f *TraceFacts) Beside(b attach.Beside) {
	f.PID, f.Name, f.Live, f.Set, f.Limits, f.OutOfSight, f.Readings, f.Warnings = b.PID, b.Name, b.Live, b.Set, b.Limits, b.OutOfSight, b.Readings, b.Warnings
}

// NewTrace makes the document. The header and the command are the caller's to fill in.
func NewTrace(f TraceFacts) (*Trace, error) {
	t := f.Trace
	d := &Trace{
		Command: []string{}, Source: f.Source, Saved: f.Saved, Recorded: f.Recorded,
		Format: t.Go, Wall: t.Wall.Seconds(), Bytes: t.Bytes, Events: t.Events,
		Cause: string(t.Cause), Why: t.Why, Confidence: "high", Doubt: t.Doubt,
		FrozenShare: t.Frozen, Throttled: t.Throttled, Hidden: t.Hidden, Contended: t.Contended, Neighbour: t.Neighbour,
		BusyPs: t.Busy, Shortest: t.Threshold.Seconds(),
		FreezeCount: int64(len(t.Freezes) + t.Left), Dropped: int64(t.Left), Freezes: []TraceFreeze{},
		Rhythm: newRhythm(t.Rhythm), Longest: []TraceMoment{},
		GC:           TraceGC(t.GC),
		Density:      TraceDensity{t.Silence.EventsPerSecond, t.Silence.P99.Seconds(), t.Silence.Ordinary.Seconds(), t.Silence.Sparse},
		ProcsChanges: []TraceSetting{}, Warnings: append([]string{}, t.Warnings...),
	}
	if !t.Sure {
		d.Confidence = "low"
	}
	if !t.Start.IsZero() {
		d.Began = t.Start.UTC().Format(time.RFC3339)
	}
	for _, f := range t.Freezes {
		d.Freezes = append(d.Freezes, newTraceFreeze(f))
	}
	for _, m := range t.Longest {
		d.Longest = append(d.Longest, newTraceMoment(m))
	}
	slices.SortStableFunc(d.Longest, func(a, b TraceMoment) int { return cmp.Compare(d.last(a), d.last(b)) })
	d.ProcsLeft = t.Changes
	for _, s := range t.Procs {
		d.ProcsChanges = append(d.ProcsChanges, TraceSetting{s.At.Seconds(), s.Procs})
		d.Procs = &s.Procs
	}
	d.addQuota(f)
	if h := t.Handlers; h != nil {
		d.Handlers = &TraceHandlers{h.What, h.Count, h.Frozen, h.Lost, newLatency(h.Took), newLatency(h.Added), newLatency(h.Rest)}
	}
	if s := t.Samples; s != nil {
		d.Samples = &TraceSamples{s.Count, s.CPU.Seconds(), s.Running.Seconds(), s.Starved}
	}
	if f.PID != 0 {
		d.Process = &TraceProcess{f.PID, f.Name, positive(f.Live)}
	}
	if f.Limits != nil {
		d.Limit = new(newWatchLimit(*f.Limits, f.Limits.State))
	}
	if err := d.addKernel(f); err != nil {
		return nil, err
	}
	d.Findings = rule.Check(f.ofRules(d))
	d.Warnings = append(d.Warnings, errorTexts(f.Warnings)...)
	d.addDelay(f.Asked, f.Took)
	d.addDoubts()
	return d, nil
}

func newTraceFreeze(f exectrace.Freeze) TraceFreeze {
	return TraceFreeze{Freeze{f.Start.Seconds(), f.End.Seconds(), f.Refill}, f.Idle}
}

func newTraceMoment(m exectrace.Moment) TraceMoment {
	goroutines := func(list []exectrace.Goroutine) []TraceGoroutine {
		out := []TraceGoroutine{}
		for _, g := range list {
			out = append(out, TraceGoroutine{g.ID, g.Function, g.Started, g.Label, g.For.Seconds(), g.Serves})
		}
		return out
	}
	return TraceMoment{
		TraceFreeze: newTraceFreeze(m.Freeze), Running: goroutines(m.Running), Waiting: goroutines(m.Runnable),
		Waited: m.Waiting, Ps: m.Procs, Serving: m.Serving, GC: m.GC,
	}
}

// addQuota adds the period, if one is known or was found, and the CPUs that the quota gave.
func (d *Trace) addQuota(f TraceFacts) {
	t := f.Trace
	throttled := t.Cause == freeze.Throttled
	if d.PeriodFrom = f.PeriodFrom; d.PeriodFrom == "" && throttled {
		d.PeriodFrom = "rhythm"
	}
	d.Period = known(d.PeriodFrom != "" && t.Rhythm.Period > 0, t.Rhythm.Period.Seconds())
	switch {
	case !throttled || t.CPUs <= 0 || !f.agrees(t.CPUs):
	case t.CPUsBy == "samples":
		d.ImpliedCPUs, d.ImpliedBy = &t.CPUs, "samples"
	case !t.Silence.Sparse: // otherwise it is known only to a few ms when its Ps stopped
		d.ImpliedCPUs, d.ImpliedBy = &t.CPUs, "Ps"
	}
}

// agrees reports whether a program can have got this many CPUs while it was throttled: those of its limit, where that is known and
// throttled it. A profile loses samples in a program that stands still a lot, and Ps that are busy may wait for a CPU.
func (f *TraceFacts) agrees(cpus float64) bool {
	const apart = 0.2
	l := f.Limits
	return l == nil || l.State != cgroup.Limited || math.Abs(cpus-l.CPUs) <= apart*l.CPUs
}

func newLatency(l exectrace.Latency) TraceLatency {
	return TraceLatency{l.P50.Seconds(), l.P99.Seconds(), l.Max.Seconds()}
}

// addKernel adds what was counted before and after the trace.
func (d *Trace) addKernel(f TraceFacts) error {
	from, cpus := "files", 0
	var before, after cgroup.Counters
	switch n := len(f.Readings); {
	case f.Stat != nil:
		before, after = f.Stat[0], f.Stat[1]
	case n > 1 && f.Readings[0].Known && f.Readings[n-1].Known:
		from, before, after = "meter", f.Readings[0].Counters, f.Readings[n-1].Counters
	case f.Trace.Heard != nil:
		from, before, after = "program", f.Trace.Heard.Before, f.Trace.Heard.After
	default:
		return nil
	}
	if f.Limits != nil && f.Limits.Affinity > 0 {
		for _, s := range f.Trace.Procs {
			cpus = max(cpus, min(s.Procs, f.Limits.Affinity))
		}
	}
	k, err := f.Trace.Compare(before, after, cpus)
	if err != nil {
		return err
	}
	d.Kernel = &TraceKernel{From: from, PeriodCount: newPeriodCount(k.Counters), CPUs: k.CPUs, ThrottledShare: k.ThrottledShare}
	if from != "meter" {
		return nil
	}
	if t := f.Readings[len(f.Readings)-1].Groups.Since(f.Readings[0].Groups); t.LocalKnown && k.CPUs > 0 && k.Wall > 0 {
		d.Kernel.Local = new(t.Local.Seconds())
		d.Kernel.ThrottledShare = max(k.ThrottledShare, t.Local.Seconds()/float64(k.CPUs)/k.Wall.Seconds())
	}
	return nil
}

// addDelay says that a server took longer than it was asked to, and why if that is seen.
func (d *Trace) addDelay(asked, took time.Duration) {
	if asked <= 0 || took < asked+traceLate {
		return
	}
	text := fmt.Sprintf("it was asked for %s; the server took %s to hand it over", quantity.Lasting(asked.Seconds()), quantity.Lasting(took.Seconds()))
	if d.FrozenShare*took.Seconds() >= (took-asked).Seconds()/2 {
		text += ", as it was frozen"
	}
	d.Warnings = append(d.Warnings, text)
}

// traceLate is how much longer than asked for a trace usually takes at most.
const traceLate = time.Second

// Thresholds of doubts.
const (
	traceShort   = 2    // seconds: twenty periods of a usual quota
	traceApart   = 0.15 // of the time, between the trace and the kernel
	traceFewHits = 3    // periods that may have been throttled before or after the trace
)

// addDoubts adds what the reader should know about the numbers.
func (d *Trace) addDoubts() {
	warn := func(format string, args ...any) { d.Warnings = append(d.Warnings, fmt.Sprintf(format, args...)) }
	if d.Wall < traceShort {
		warn("%.2f s is short: take it for 5 s, as a rhythm only shows over many periods", d.Wall)
	}
	if d.Dropped > 0 {
		warn("%d of %d freezes, the shortest, are not in the list", d.Dropped, d.FreezeCount)
	}
	if h := d.Handlers; h != nil && h.Lost > 0 {
		warn("%d requests are not counted: there are too many", h.Lost)
	}
	k := d.Kernel
	switch throttled := d.Cause == string(freeze.Throttled); {
	case k == nil:
	case throttled && k.Periods > 0 && k.ThrottledPeriods == 0:
		warn("the kernel counted no throttled period meanwhile: a quota on a parent, or that of another group, may be the cause")
	case !throttled && k.ThrottledPeriods > traceFewHits && k.ThrottledShare > d.FrozenShare+traceApart,
		throttled && k.ThrottledShare > d.Throttled+traceApart:
		warn("the kernel counted more: if all %d CPUs stood still together, it was frozen %.0f %% of the time", k.CPUs, 100*k.ThrottledShare)
	}
}
