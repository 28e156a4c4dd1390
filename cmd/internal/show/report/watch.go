package report

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/heartbeat"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// Watch is the document of the verb watch.
type Watch struct {
	Header
	Command []string `json:"command"` // that was run
	Began   string   `json:"began"`   // RFC 3339

	PID   int    `json:"pid"` // whose group it is; 0: that of watch itself
	Name  string `json:"name,omitempty"`
	Group string `json:"group"`           // directory; "": not visible
	Moved bool   `json:"heartbeat_moved"` // into the group

	Planned float64 `json:"planned_seconds"` // 0: until it was stopped
	Elapsed float64 `json:"elapsed_seconds"`
	Stopped bool    `json:"stopped"`         // before the plan was done
	Ended   string  `json:"ended,omitempty"` // why it ended early on its own

	Cause         string   `json:"cause"`                // throttled, contended, none or unsure
	Why           []string `json:"why"`                  // in words
	FrozenShare   *float64 `json:"frozen_share"`         // of the time; null, as all of freezes: there was no heartbeat
	Throttled     *float64 `json:"throttled_time_share"` // of the time, frozen by a quota
	Contended     *float64 `json:"contended_share"`      // of the time, frozen without a quota's rhythm
	Neighbour     bool     `json:"neighbour"`            // contended at the rhythm of a quota, which is another group's
	PeriodSeconds *float64 `json:"period_seconds"`       // of the quota; null: none
	PeriodFrom    string   `json:"period_from"`          // limit, rhythm or ""

	FreezeCount *int64      `json:"freezes_counted"`
	Longest     *float64    `json:"longest_freeze_seconds"`
	Median      *float64    `json:"median_freeze_seconds"`
	Freezes     []Freeze    `json:"freezes"`         // the newest, if not all
	Dropped     int64       `json:"freezes_dropped"` // older ones
	Rhythm      WatchRhythm `json:"rhythm"`

	Limit      WatchLimit      `json:"limit"`
	Kernel     *WatchKernel    `json:"kernel"` // null: it counted nothing here
	Contention WatchContention `json:"contention"`
	Heartbeat  *WatchHeartbeat `json:"heartbeat"` // null: none, and the kernel's counts are all that is known
	Warnings   []string        `json:"warnings"`

	Findings []finding.Finding `json:"findings"` // by the rules of ps, those that a heartbeat can answer
}

// WatchRhythm is what the ends of freezes have in common.
type WatchRhythm struct {
	Period float64 `json:"period_seconds"` // that was looked at; 0: none
	Phase  float64 `json:"phase_seconds"`
	Offset float64 `json:"offset_seconds,omitempty"` // from there to the phase of a second quota
	Window float64 `json:"window_seconds"`           // around a phase
	R      float64 `json:"r"`                        // 1: all end at the phases; 0: at any
	Locked float64 `json:"locked_share"`             // of the frozen time, in freezes that end at a phase
}

// WatchLimit is the limit of the group.
type WatchLimit struct {
	State   string   `json:"state"`
	Reason  string   `json:"reason,omitempty"`
	CPUs    *float64 `json:"cpus"` // null: none, or not known
	Quota   float64  `json:"quota_seconds,omitempty"`
	Period  float64  `json:"period_seconds,omitempty"`
	From    string   `json:"from,omitempty"`
	Version string   `json:"cgroup_version,omitempty"`
}

// WatchKernel is what the kernel counted at the same time for the group with the limit.
type WatchKernel struct {
	PeriodCount
	// The share of the time in which nothing ran is between these: all CPUs were throttled each time, or one of them.
	AtLeast float64  `json:"frozen_at_least_share"`
	AtMost  float64  `json:"frozen_at_most_share"`
	CPUs    int      `json:"cpus"`           // that the group may run on
	PSIFull *float64 `json:"psi_full_share"` // of the time in which all of the group's tasks waited; null: not counted
	PSISome *float64 `json:"psi_some_share"`
	Local   *float64 `json:"own_throttled_seconds"` // of its own group, by any level; null: not counted
}

// WatchContention is the evidence for or against a busy host.
type WatchContention struct {
	WaitShare *float64 `json:"wait_share"` // of the time in which the group's threads could have run, what they waited; null: not known
	RunCPUs   float64  `json:"group_cpus"` // in use by it, as far as seen
	Threads   int      `json:"threads"`
	HostCPUs  int      `json:"host_cpus"` // 0: not known
	HostBusy  float64  `json:"host_busy_cpus"`
	Others    float64  `json:"other_cpus"` // in use by others
	Steal     float64  `json:"stolen_cpus"`
	PSISome   *float64 `json:"system_psi_some_share"`
}

// WatchHeartbeat is how it was measured, and what that cost.
type WatchHeartbeat struct {
	Interval float64 `json:"interval_seconds"`
	Late     float64 `json:"late_seconds"` // for a freeze
	Beats    int64   `json:"beats"`
	CPUShare float64 `json:"cpu_share"`       // of a CPU
	AllShare float64 `json:"total_cpu_share"` // with what showed and counted it
}

// WatchFacts are what the document is made from.
type WatchFacts struct {
	Began    time.Time
	PID      int
	Name     string
	Group    string
	Moved    bool
	Planned  time.Duration
	Stopped  bool
	Ended    string
	Limit    cgroup.Limits
	Seen     *heartbeat.Observation // nil: there was no heartbeat
	Evidence heartbeat.Evidence
	Warnings []string
}

// NewWatch makes the document of what was watched.
func NewWatch(f WatchFacts) Watch {
	if f.Seen == nil {
		return f.counted()
	}
	o, e := f.Seen, &f.Evidence
	owner, _ := f.Limit.Owner()
	period := owner.Quota.Period()
	quotas := freeze.Seen(f.Limit)
	quotas.Period = period // of the smallest, if they differ
	v := o.Judge(quotas, *e)
	d := Watch{
		Began: f.Began.Format(time.RFC3339), PID: f.PID, Name: f.Name, Group: f.Group, Moved: f.Moved,
		Planned: f.Planned.Seconds(), Elapsed: o.Wall.Seconds(), Stopped: f.Stopped, Ended: f.Ended,
		Cause: string(v.Cause), Why: v.Why, FrozenShare: &v.Frozen, Throttled: &v.Throttled, Contended: &v.Contended, Neighbour: v.Neighbour,
		FreezeCount: new(int64(len(v.Freezes)) + o.Dropped), Longest: new(0.0), Median: new(0.0), Dropped: o.Dropped,
		Rhythm: newRhythm(v.Rhythm), Limit: newWatchLimit(f.Limit, e.Limit),
		Kernel: newWatchKernel(e, f.Limit.Affinity), Contention: newWatchContention(e),
		Heartbeat: &WatchHeartbeat{Interval: heartbeat.Interval.Seconds(), Late: heartbeat.Late.Seconds(), Beats: o.Beats},
		Warnings:  append([]string{}, f.Warnings...),
		Findings:  rule.Check(f.ofRules(v)),
	}
	d.Freezes = NewFreezes(v.Freezes)
	var lengths []time.Duration
	for i, g := range v.Freezes {
		d.Freezes[i].Refill = v.Rhythm.Ends(g)
		lengths = append(lengths, g.Length())
	}
	if slices.Sort(lengths); len(lengths) > 0 {
		*d.Median, *d.Longest = lengths[len(lengths)/2].Seconds(), lengths[len(lengths)-1].Seconds()
	}
	if o.Dropped > 0 {
		*d.Longest = o.Longest.Seconds()
	}
	switch {
	case v.Cause == freeze.Throttled && !v.Rhythm.Given && v.Rhythm.Period > 0:
		d.PeriodSeconds, d.PeriodFrom = new(v.Rhythm.Period.Seconds()), "rhythm"
	case period > 0:
		d.PeriodSeconds, d.PeriodFrom = new(period.Seconds()), "limit"
	}
	if o.Wall > 0 {
		d.Heartbeat.CPUShare = o.CPU.Seconds() / o.Wall.Seconds()
		d.Heartbeat.AllShare = e.OurCPU.Seconds() / o.Wall.Seconds()
	}
	d.Warnings = append(d.Warnings, d.doubts(e)...)
	return d
}

// counted makes the document of a group in which there was no heartbeat. Nothing in it is about single freezes.
func (f *WatchFacts) counted() Watch {
	e := &f.Evidence
	v := e.JudgeCounts()
	d := Watch{
		Began: f.Began.Format(time.RFC3339), PID: f.PID, Name: f.Name, Group: f.Group,
		Planned: f.Planned.Seconds(), Elapsed: e.Wall.Seconds(), Stopped: f.Stopped, Ended: f.Ended,
		Cause: string(v.Cause), Why: v.Why, Limit: newWatchLimit(f.Limit, e.Limit),
		Kernel: newWatchKernel(e, f.Limit.Affinity), Contention: newWatchContention(e),
		Warnings: append([]string{}, f.Warnings...), Findings: rule.Check(f.ofRules(v)),
	}
	if owner, ok := f.Limit.Owner(); ok && owner.Quota.Period() > 0 {
		d.PeriodSeconds, d.PeriodFrom = new(owner.Quota.Period().Seconds()), "limit"
	}
	d.Warnings = append(d.Warnings, d.doubts(e)...)
	return d
}

// Frozen is for how much of the time nothing ran, at least and at most. A heartbeat knows it; the kernel's counts of throttling leave
// it open where several CPUs may have been throttled together, or one after the other.
func (d *Watch) Frozen() (least, most float64) {
	switch {
	case d.FrozenShare != nil:
		return *d.FrozenShare, *d.FrozenShare
	case d.Kernel != nil:
		return d.Kernel.AtLeast, d.Kernel.AtMost
	}
	return 0, 1
}

// Blind is the error of a watch in which nothing was counted that would answer it.
func (d *Watch) Blind() error {
	if d.Cause != string(freeze.Unsure) || d.Heartbeat != nil {
		return nil
	}
	return hint.With(errors.New("nothing was measured: "+d.Answer()), "a heartbeat in its cgroup tells: --way exec, or --way ephemeral --privileged")
}

// newWatchLimit describes a limit. Its state may differ from what the files say: a hidden limit shows in the counters.
func newWatchLimit(l cgroup.Limits, state cgroup.State) WatchLimit {
	w := WatchLimit{
		State: state.String(), Reason: errorText(l.Reason), CPUs: known(l.State == cgroup.Limited, l.CPUs),
		From: l.From, Version: l.Version.String(),
	}
	if owner, ok := l.Owner(); ok {
		w.Quota, w.Period = seconds(owner.Quota.QuotaMicros), seconds(owner.Quota.PeriodMicros)
	}
	return w
}

func newRhythm(r freeze.Rhythm) WatchRhythm {
	return WatchRhythm{r.Period.Seconds(), r.Phase.Seconds(), r.Offset.Seconds(), r.Window.Seconds(), r.R, r.Locked}
}

func newWatchKernel(e *heartbeat.Evidence, cpus int) *WatchKernel {
	if !e.Owner.Known && !e.LocalKnown && !e.Group.SomeKnown || e.Wall <= 0 {
		return nil
	}
	wall := e.Wall.Seconds()
	throttled := e.Held().Seconds() / wall
	return &WatchKernel{
		PeriodCount: newPeriodCount(e.Owner), AtLeast: min(1, throttled/float64(max(cpus, 1))), AtMost: min(1, throttled), CPUs: cpus,
		PSIFull: known(e.Group.FullKnown, e.Group.Full.Seconds()/wall), PSISome: known(e.Group.SomeKnown, e.Group.Some.Seconds()/wall),
		Local: known(e.LocalKnown, e.Local.Seconds()),
	}
}

func newWatchContention(e *heartbeat.Evidence) WatchContention {
	if e.Wall <= 0 {
		return WatchContention{Threads: e.Threads, HostCPUs: e.CPUs}
	}
	wall := e.Wall.Seconds()
	return WatchContention{
		WaitShare: known(e.ThreadsKnown && e.Run+e.Waited > 0, e.WaitShare()), RunCPUs: e.Used.Seconds() / wall, Threads: e.Threads,
		HostCPUs: e.CPUs, HostBusy: e.Busy.Seconds() / wall, Others: e.Others(), Steal: e.Steal.Seconds() / wall,
		PSISome: known(e.System.SomeKnown, e.System.Some.Seconds()/wall),
	}
}

// Thresholds of doubts.
const (
	apart     = 0.05 // of the time, between the heartbeat and the kernel
	dear      = 0.05 // of what the group may use, or of a CPU if that is more
	shortView = 2    // seconds
)

// doubts are what the reader should know before relying on the answer.
func (d *Watch) doubts(e *heartbeat.Evidence) (texts []string) {
	add := func(format string, args ...any) { texts = append(texts, fmt.Sprintf(format, args...)) }
	if d.Elapsed < shortView {
		add("%.1f s is short: rare freezes may be missed", d.Elapsed)
	}
	if e.Unread > 0 {
		add("%d threads of the group were not read: how long they waited is not counted", e.Unread)
	}
	if d.Heartbeat == nil {
		return texts
	}
	if k := d.Kernel; k != nil && k.Periods > 0 && d.Cause == string(freeze.Throttled) &&
		(*d.FrozenShare < k.AtLeast-apart || *d.FrozenShare > k.AtMost+apart) {
		add("the heartbeat and the kernel's count do not agree: %.1f %% of the time, and between %.1f and %.1f %%",
			100**d.FrozenShare, 100*k.AtLeast, 100*k.AtMost)
	}
	allowed := 1.0 // or more
	if d.Limit.CPUs != nil {
		allowed = min(allowed, *d.Limit.CPUs)
	}
	if d.Heartbeat.CPUShare > dear*allowed {
		add("the heartbeat used %.1f %% of a CPU, which the group misses: it may use %s", 100*d.Heartbeat.CPUShare, quantity.UsedCPUs(allowed))
	}
	if d.Dropped > 0 {
		add("only the last %d of %d freezes are kept; the causes are judged by these", len(d.Freezes), *d.FreezeCount)
	}
	return texts
}
