package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/heartbeat"
	"github.com/unthrottle/unthrottle/cmd/internal/rule"
)

// Watch is the document of the verb watch.
type Watch struct {
	Header
	Command []string `json:"command"` // that repeats it
	Began   string   `json:"began"`   // RFC 3339

	PID   int    `json:"pid"` // whose group it is; 0: that of watch itself
	Name  string `json:"name,omitempty"`
	Group string `json:"group"`           // directory; "": not visible
	Moved bool   `json:"heartbeat_moved"` // into the group

	Planned float64 `json:"planned_seconds"` // 0: until it was stopped
	Elapsed float64 `json:"elapsed_seconds"`
	Stopped bool    `json:"stopped"`         // before the plan was done
	Ended   string  `json:"ended,omitempty"` // why it ended by itself before

	Cause         string   `json:"cause"`                // throttled, contended, none or unsure
	Why           []string `json:"why"`                  // in words
	FrozenShare   float64  `json:"frozen_share"`         // of the time
	Throttled     float64  `json:"throttled_time_share"` // of the time, frozen by a quota
	Contended     float64  `json:"contended_share"`      // of the time, frozen without a quota's rhythm
	PeriodSeconds *float64 `json:"period_seconds"`       // of the quota; null: there is none
	PeriodFrom    string   `json:"period_from"`          // limit, rhythm or ""

	FreezeCount int64         `json:"freezes_counted"`
	Longest     float64       `json:"longest_freeze_seconds"`
	Median      float64       `json:"median_freeze_seconds"`
	Freezes     []WatchFreeze `json:"freezes"`         // the newest, if not all
	Dropped     int64         `json:"freezes_dropped"` // older ones
	Rhythm      WatchRhythm   `json:"rhythm"`

	Limit      WatchLimit      `json:"limit"`
	Kernel     *WatchKernel    `json:"kernel"` // null: it counts nothing here
	Contention WatchContention `json:"contention"`
	Heartbeat  WatchHeartbeat  `json:"heartbeat"`
	Warnings   []string        `json:"warnings"`

	Findings []finding.Finding `json:"findings"` // by the rules of ps, as far as they can be asked here
}

// WatchFreeze is a time in which nothing ran.
type WatchFreeze struct {
	Start   float64 `json:"start_seconds"` // since the beginning
	End     float64 `json:"end_seconds"`
	AtPhase bool    `json:"at_refill"` // it ended as the quota was refilled
}

// WatchRhythm is what the ends of freezes have in common.
type WatchRhythm struct {
	Period float64 `json:"period_seconds"` // that was looked at; 0: none
	Phase  float64 `json:"phase_seconds"`
	Window float64 `json:"window_seconds"` // around the phase
	R      float64 `json:"r"`              // 1: all ends at one phase; 0: at any
	Locked float64 `json:"locked_share"`   // of the frozen time, what ends at the phase
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

// WatchKernel is what the kernel counted meanwhile of the group with the limit.
type WatchKernel struct {
	Periods          int64    `json:"periods"`
	ThrottledPeriods int64    `json:"throttled_periods"`
	ThrottledShare   *float64 `json:"throttled_periods_share"` // null: no periods
	ThrottledSeconds float64  `json:"throttled_seconds"`       // summed over CPUs
	// The part of the time in which nothing ran lies between these: all CPUs took part in each throttling, or one did.
	AtLeast float64  `json:"frozen_at_least_share"`
	AtMost  float64  `json:"frozen_at_most_share"`
	CPUs    int      `json:"cpus"`           // that the group may run on
	PSIFull *float64 `json:"psi_full_share"` // of the time in which all of the group's tasks waited; null: not counted
	PSISome *float64 `json:"psi_some_share"`
	Local   *float64 `json:"own_throttled_seconds"` // of the own group, by any level; null: not counted
}

// WatchContention is what speaks for or against a busy host.
type WatchContention struct {
	WaitShare *float64 `json:"wait_share"` // of the time in which the group's threads could run, what they waited; null: not known
	RunCPUs   float64  `json:"group_cpus"` // in use by it, as far as seen
	Threads   int      `json:"threads"`
	HostCPUs  int      `json:"host_cpus"` // 0: not known
	HostBusy  float64  `json:"host_busy_cpus"`
	Others    float64  `json:"other_cpus"` // in use by others
	Steal     float64  `json:"stolen_cpus"`
	PSISome   *float64 `json:"system_psi_some_share"`
}

// WatchHeartbeat is what the measuring was and cost.
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
	Seen     *heartbeat.Observation
	Evidence heartbeat.Evidence
	Warnings []string
}

// NewWatch makes the document of what was watched.
func NewWatch(f WatchFacts) Watch {
	o, e := f.Seen, &f.Evidence
	limit, period := newWatchLimit(f.Limit, e.Limit)
	v := o.Judge(period, *e)
	d := Watch{
		Began: f.Began.Format(time.RFC3339), PID: f.PID, Name: f.Name, Group: f.Group, Moved: f.Moved,
		Planned: f.Planned.Seconds(), Elapsed: o.Wall.Seconds(), Stopped: f.Stopped, Ended: f.Ended,
		Cause: string(v.Cause), Why: v.Why, FrozenShare: o.Share(), Throttled: v.Throttled, Contended: v.Contended,
		FreezeCount: o.Freezes, Longest: o.Longest.Seconds(), Dropped: o.Dropped,
		Rhythm: newRhythm(v.Rhythm), Limit: limit, Kernel: newWatchKernel(e, f.Limit.Affinity), Contention: newWatchContention(e),
		Heartbeat: WatchHeartbeat{Interval: heartbeat.Interval.Seconds(), Late: heartbeat.Late.Seconds(), Beats: o.Beats},
		Warnings:  append([]string{}, f.Warnings...),
		Findings:  rule.Check(f.ofRules(v)),
	}
	d.Freezes = NewWatchFreezes(o.Kept)
	var lengths []time.Duration
	for i, g := range o.Kept {
		d.Freezes[i].AtPhase = v.Rhythm.Ends(g)
		lengths = append(lengths, g.Length())
	}
	if slices.Sort(lengths); len(lengths) > 0 {
		d.Median = lengths[len(lengths)/2].Seconds()
	}
	switch p := v.Rhythm.Period.Seconds(); {
	case v.Cause == freeze.Throttled && !v.Rhythm.Given && p > 0:
		d.PeriodSeconds, d.PeriodFrom = &p, "rhythm"
	case period > 0:
		p := period.Seconds()
		d.PeriodSeconds, d.PeriodFrom = &p, "limit"
	}
	if o.Wall > 0 {
		d.Heartbeat.CPUShare = o.CPU.Seconds() / o.Wall.Seconds()
		d.Heartbeat.AllShare = e.OurCPU.Seconds() / o.Wall.Seconds()
	}
	d.Warnings = append(d.Warnings, d.doubts(e)...)
	return d
}

// NewWatchFreezes are freezes of which it is not known yet why they ended.
func NewWatchFreezes(gaps []freeze.Gap) []WatchFreeze {
	freezes := make([]WatchFreeze, len(gaps))
	for i, g := range gaps {
		freezes[i] = WatchFreeze{Start: g.Start.Seconds(), End: g.End.Seconds()}
	}
	return freezes
}

// newWatchLimit describes the limit, and returns the period in which it is counted, 0 if that is not known.
func newWatchLimit(l cgroup.Limits, state cgroup.State) (w WatchLimit, period time.Duration) {
	w = WatchLimit{State: state.String(), From: l.From, Version: l.Version.String()}
	if l.Reason != nil {
		w.Reason = l.Reason.Error()
	}
	if l.State != cgroup.Limited {
		return w, 0
	}
	w.CPUs = &l.CPUs
	if owner, ok := l.Owner(); ok {
		period = owner.Quota.Period()
		w.Quota, w.Period = float64(owner.Quota.QuotaMicros)/1e6, period.Seconds()
	}
	return w, period
}

func newRhythm(r freeze.Rhythm) WatchRhythm {
	return WatchRhythm{r.Period.Seconds(), r.Phase.Seconds(), r.Window.Seconds(), r.R, r.Locked}
}

func newWatchKernel(e *heartbeat.Evidence, cpus int) *WatchKernel {
	if !e.Owner.Known && !e.LocalKnown && !e.Group.SomeKnown || e.Wall <= 0 {
		return nil
	}
	k := &WatchKernel{
		Periods: e.Owner.Periods, ThrottledPeriods: e.Owner.Throttled, ThrottledShare: share(e.Owner.Throttled, e.Owner.Periods),
		ThrottledSeconds: e.Owner.ThrottledTime.Seconds(), CPUs: cpus,
	}
	of := e.Owner.ThrottledTime.Seconds() / e.Wall.Seconds()
	k.AtLeast, k.AtMost = of/float64(max(cpus, 1)), math.Min(1, of)
	if e.Group.SomeKnown {
		k.PSISome = timeShare(e.Group.Some, e.Wall)
	}
	if e.Group.FullKnown {
		k.PSIFull = timeShare(e.Group.Full, e.Wall)
	}
	if e.LocalKnown {
		local := e.Local.Seconds()
		k.Local = &local
	}
	return k
}

func newWatchContention(e *heartbeat.Evidence) WatchContention {
	c := WatchContention{Threads: e.Threads, HostCPUs: e.CPUs}
	if e.Wall <= 0 {
		return c
	}
	wall := e.Wall.Seconds()
	if e.ThreadsKnown && e.Run+e.Waited > 0 {
		waited := e.WaitShare()
		c.WaitShare = &waited
	}
	c.RunCPUs, c.HostBusy, c.Others, c.Steal = e.Used.Seconds()/wall, e.Busy.Seconds()/wall, e.Others(), e.Steal.Seconds()/wall
	if e.System.SomeKnown {
		c.PSISome = timeShare(e.System.Some, e.Wall)
	}
	return c
}

func timeShare(part, whole time.Duration) *float64 {
	s := part.Seconds() / whole.Seconds()
	return &s
}

// Where doubts begin.
const (
	apart     = 0.05 // of the time, between the heartbeat and the kernel
	dear      = 0.02 // of a CPU
	shortView = 2    // seconds
)

// doubts are what the reader should know before relying on it.
func (d *Watch) doubts(e *heartbeat.Evidence) (texts []string) {
	add := func(format string, args ...any) { texts = append(texts, fmt.Sprintf(format, args...)) }
	if d.Elapsed < shortView {
		add("%.1f s is short: a freeze now and then is missed", d.Elapsed)
	}
	if k := d.Kernel; k != nil && k.Periods > 0 && d.Cause == string(freeze.Throttled) &&
		(d.FrozenShare < k.AtLeast-apart || d.FrozenShare > k.AtMost+apart) {
		add("the heartbeat and the kernel's count do not agree: %.1f %% of the time, and between %.1f and %.1f %%",
			100*d.FrozenShare, 100*k.AtLeast, 100*k.AtMost)
	}
	if e.Unread > 0 {
		add("%d threads of the group were not read: how long they waited is not counted", e.Unread)
	}
	if d.Heartbeat.CPUShare > dear {
		add("the heartbeat used %.1f %% of a CPU, which is more than it should", 100*d.Heartbeat.CPUShare)
	}
	if d.Dropped > 0 {
		add("only the last %d of %d freezes are kept; the causes are judged by these", len(d.Freezes), d.FreezeCount)
	}
	return texts
}
