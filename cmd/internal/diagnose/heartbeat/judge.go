package heartbeat

import (
	"fmt"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// keptMost is how many freezes are kept, the newest: at ten a second those of half an hour.
const keptMost = 20000

// An Observation is what a heartbeat has reported so far. The zero value is one that has not begun.
type Observation struct {
	Wall    time.Duration
	Beats   int64
	CPU     time.Duration // of the heartbeat
	Frozen  time.Duration // of all freezes
	Freezes int64
	Longest time.Duration

	Kept    []freeze.Gap // the newest freezes
	Dropped int64        // those that were not kept
}

// Add takes the next pulse.
func (o *Observation) Add(p Pulse) {
	o.Wall, o.Beats, o.CPU = p.At, p.Beats, p.CPU
	for _, f := range p.Freezes {
		o.Freezes++
		o.Frozen += f.Length()
		o.Longest = max(o.Longest, f.Length())
	}
	o.Kept = append(o.Kept, p.Freezes...)
	if n := len(o.Kept) - keptMost; n >= keptMost/10 { // not at each pulse: it is copied
		o.Kept = append([]freeze.Gap(nil), o.Kept[n:]...)
		o.Dropped += int64(n)
	}
}

// Share is the frozen part of the time.
func (o *Observation) Share() float64 { return ratio(o.Frozen, o.Wall) }

// since is where the kept freezes begin.
func (o *Observation) since() time.Duration {
	if o.Dropped == 0 || len(o.Kept) == 0 {
		return 0
	}
	return o.Kept[0].Start
}

// Newest is the observation of the last n freezes only, for a quick verdict.
func (o *Observation) Newest(n int) *Observation {
	if len(o.Kept) <= n {
		return o
	}
	out := *o
	out.Dropped += int64(len(o.Kept) - n)
	out.Kept = o.Kept[len(o.Kept)-n:]
	return &out
}

// Evidence is what the kernel has counted between two samples.
type Evidence struct {
	Wall time.Duration

	cgroup.Throttling // between them
	Limit             cgroup.State
	ThreadsKnown      bool
	Threads, Unread   int
	Run, Waited       time.Duration // of the group's threads that were seen twice
	Used              time.Duration // CPU time of the group; of these threads only, if nothing else is counted
	Group, System     procs.Pressure
	Affinity          int           // CPUs that the group may run on; 0: not known
	Busy, Steal       time.Duration // of the host, summed over CPUs
	CPUs              int           // of the host; 0: not known
	OurCPU            time.Duration // of this process and the heartbeat
}

// Between says what was counted from a to b. ours is the CPU time that the watching took.
func Between(a, b Sample, limit cgroup.Limits, ours time.Duration) Evidence {
	e := Evidence{
		Throttling: b.Throttling.Since(a.Throttling),
		Wall:       b.At.Sub(a.At), Limit: limit.Observed(a.Throttling, b.Throttling).State, OurCPU: ours,
		ThreadsKnown: b.ThreadsKnown, Threads: b.Threads, Unread: b.Unread, Run: b.Run - a.Run, Waited: b.Waited - a.Waited,
		Group: b.Group.Since(a.Group), System: b.System.Since(a.System), Affinity: limit.Affinity,
	}
	e.Used = e.Run
	if e.Own.CPUKnown {
		e.Used = max(e.Run, e.Own.CPU)
	}
	if a.CPUs > 0 && b.CPUs > 0 {
		e.Busy, e.Steal, e.CPUs = b.Busy-a.Busy, b.Steal-a.Steal, b.CPUs
	}
	return e
}

// WaitShare is the part of the time in which the group's threads could have run and waited. A quota makes them wait too.
func (e *Evidence) WaitShare() float64 { return ratio(e.Waited, e.Run+e.Waited) }

// Others is how many CPUs were in use by others: not by the group, and not by us.
func (e *Evidence) Others() float64 { return max(0, ratio(e.Busy-e.Used-e.OurCPU, e.Wall)) }

// ThrottledShare is the part of the periods that were throttled.
func (e *Evidence) ThrottledShare() float64 {
	if e.Owner.Periods <= 0 {
		return 0
	}
	return float64(e.Owner.Throttled) / float64(e.Owner.Periods)
}

func ratio(part, whole time.Duration) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// Where evidence begins. Two busy threads alone on two CPUs waited for 1 % of their time; next to three spinners, for 50 %.
const (
	seldomThrottled = 0.01 // of the periods, or of the time: less is not worth a word
	oftenThrottled  = 0.1  // of the periods, and
	fewThrottled    = 3    // periods
	mostThrottled   = 0.5  // of the periods: most freezes are of the limit
	longWait        = 0.1  // of the time in which threads could run
	longestWait     = 0.5  // then others may be in the way on a host that has CPUs free, but not for this group
	manyWait        = 0.2  // threads that wait on average: those that run for microseconds wait about as long for each start
	othersUse       = 0.1  // of the host's CPUs
	muchSteal       = 0.02 // of the host's CPUs
	littleLate      = 0.05 // of the time: a heartbeat that is late no more than that, where that much is stolen, says nothing about the group
)

// A Verdict is what stood in the way of the group.
type Verdict struct {
	Cause     freeze.Cause
	Throttled float64 // of the wall time, by a quota
	Contended float64 // of the wall time: freezes of the heartbeat without the quota's rhythm
	Frozen    float64 // of the wall time; without the time in which it ran, and the heartbeat waited for its turn
	Neighbour bool    // contended at the rhythm of a quota, which is another group's
	Why       []string
	Rhythm    freeze.Rhythm
	Freezes   []freeze.Gap // those that are kept, cut where the group ran again
}

// Judge says why the group stood still. The heartbeat's freezes show a quota by their rhythm; what the kernel has counted
// confirms it, contradicts it, or shows what a heartbeat can't see.
func (o *Observation) Judge(q freeze.Quotas, e Evidence) Verdict {
	q = q.With(e.Throttling)
	wall, k := o.Wall-o.since(), freeze.Counted(e.Limit, q.Levels, e.Throttling)
	r := freeze.Find(o.Kept, q)
	j := r.Judge(wall, k)
	if q.Period > 0 && j.Cause != freeze.Throttled {
		// The quota that freezes it may not be the one that is seen.
		if searched := freeze.Find(o.Kept, freeze.Quotas{}); searched.Judge(wall, k).Cause == freeze.Throttled {
			r, j = searched, searched.Judge(wall, k)
		}
	}
	v := Verdict{Cause: j.Cause, Throttled: j.Throttled, Frozen: o.Share(), Neighbour: j.Neighbour, Why: []string{j.Why}, Rhythm: r, Freezes: o.Kept}
	throttledOften := e.Owner.Throttled >= fewThrottled && e.ThrottledShare() >= oftenThrottled
	switch {
	case j.Cause == freeze.Throttled && e.uncounted():
		j.Cause = freeze.Unsure
		v.Cause, v.Throttled = freeze.Unsure, 0
		v.Why = append(v.Why, "but its limit has throttled it in no period, and what groups above did is not counted here")
		v.contention(j, e, o.Share())
	case j.Cause == freeze.Throttled && e.hidden():
		v.Why = append(v.Why, "the kernel says that a group above throttles it, whose limit can't be seen from here")
	case j.Cause == freeze.Throttled && e.aboveToo():
		v.Why = append(v.Why, fmt.Sprintf("the kernel says that a group above throttles it as well: it was held up for %s, summed over CPUs, for %s of that by its limit's own group",
			quantity.Duration(e.Held()), quantity.Duration(e.Owner.ThrottledTime)))
	case j.Cause == freeze.Throttled:
	case throttledOften:
		v.Cause, v.Throttled = freeze.Throttled, o.Share()
		v.Why = append(v.Why, fmt.Sprintf("but the kernel has throttled it in %d of %d periods%s", e.Owner.Throttled, e.Owner.Periods, o.tooShort()))
	case e.hidden() && ratio(e.Local, e.Wall) >= oftenThrottled:
		v.Cause, v.Throttled, v.Rhythm = freeze.Throttled, min(o.Share(), ratio(e.Local, e.Wall)), freeze.Rhythm{}
		v.Why = append(v.Why, fmt.Sprintf("but the kernel says that a group above held it up for %s, summed over CPUs%s", quantity.Duration(e.Local), o.tooShort()))
	default:
		v.contention(j, e, o.Share())
	}
	if v.Cause == freeze.Throttled {
		// There may be so many threads of the group in the heartbeat's way that its ends hardly have the rhythm of the limit's period.
		known := r.Given && e.Owner.Throttled >= fewThrottled && e.ThrottledShare() >= mostThrottled
		v.cut((j.Cause == freeze.Throttled || known) && (r.Offset > 0 || !e.aboveToo()), o, e, k) // two groups refill at two phases
	}
	return v
}

// JudgeCounts says what stood in the way of a group in which there was no heartbeat, from what the kernel has counted alone.
func (e *Evidence) JudgeCounts() Verdict {
	v := Verdict{Cause: freeze.None, Why: []string{}}
	say := func(format string, args ...any) { v.Why = append(v.Why, fmt.Sprintf(format, args...)) }
	switch {
	case e.Owner.Throttled > 0 && e.ThrottledShare() >= seldomThrottled:
		v.Cause = freeze.Throttled
		say("the kernel has throttled it in %d of %d periods", e.Owner.Throttled, e.Owner.Periods)
		if e.aboveToo() {
			say("the kernel says that a group above throttles it as well")
		}
		return v
	case e.hidden() && ratio(e.Local, e.Wall) >= seldomThrottled:
		v.Cause = freeze.Throttled
		say("the kernel says that a group above throttles it, whose periods can't be seen")
		return v
	}
	switch v.contention(freeze.Verdict{Cause: freeze.None}, *e, 0); {
	case v.Cause != freeze.None:
	case e.Owner.Known && e.Limit == cgroup.Limited, e.LocalKnown:
		if e.Owner.Periods > 0 {
			say("the kernel has throttled it in %d of %d periods", e.Owner.Throttled, e.Owner.Periods)
		}
	case e.Limit == cgroup.None:
		say("it has no limit that can be seen")
	default:
		v.Cause = freeze.Unsure
		say("its limit is not known, or the kernel counts no periods of it")
	}
	return v
}

// hidden reports whether a group above throttles it, whose limit can't be seen.
func (e *Evidence) hidden() bool { return e.LocalKnown && e.Local > 0 && e.Owner.Throttled == 0 }

// aboveToo reports whether its limit's group throttles it, and a group above for at least half as long again.
func (e *Evidence) aboveToo() bool {
	return freeze.HeldAbove(e.Throttling) && ratio(e.Held()-e.Owner.ThrottledTime, e.Wall) >= littleLate
}

// uncounted reports whether the visible limit has throttled nothing, and it is not known what those above did.
func (e *Evidence) uncounted() bool {
	return !e.LocalKnown && e.Limit == cgroup.Limited && e.Owner.Known && e.Owner.Throttled == 0
}

// unthrottled reports whether the kernel counts what groups of all levels do to it, and they did nothing.
func (e *Evidence) unthrottled() bool { return e.LocalKnown && e.Local == 0 && e.Owner.Throttled == 0 }

// cut ends freezes at the refill that they ran past. From then on the group ran again, and the heartbeat waited for its turn:
// behind others on a host whose CPUs others use, or that a hypervisor took, which is contention, else behind the group's own
// threads, which is neither.
func (v *Verdict) cut(rhythm bool, o *Observation, e Evidence, k freeze.Kernel) {
	if rhythm {
		v.Rhythm = v.Rhythm.AtRefill(o.Kept)
		v.Freezes = v.Rhythm.CutAll(o.Kept)
		var kept, left time.Duration
		for _, g := range o.Kept {
			kept += g.Length()
		}
		for _, g := range v.Freezes {
			left += g.Length()
		}
		v.Throttled = o.Share() * ratio(left, kept)
	}
	v.Throttled = min(v.Throttled, k.Share(e.Wall)) // no more than the kernel counted can be throttling, whatever the rhythm
	rest := o.Share() - v.Throttled
	switch {
	case e.fullOfOthers():
		v.Freezes, v.Contended, v.Frozen = o.Kept, rest, o.Share()
		return
	case e.stolen(): // which holds it up for no longer than that
		v.Contended = min(rest, ratio(e.Steal, e.Wall))
	}
	v.Frozen = v.Throttled + v.Contended
	if ran := rest - v.Contended; ran >= littleLate {
		v.Why = append(v.Why, fmt.Sprintf("for %.0f %% of the time more it ran, and the heartbeat waited for its turn", 100*ran))
	}
}

// tooShort says why the heartbeat may have missed what the kernel has counted.
func (o *Observation) tooShort() string {
	if o.Share() < 0.01 {
		return fmt.Sprintf(": each time for less than the %s that a heartbeat sees, or on some CPUs only", quantity.Duration(Late))
	}
	return ""
}

// fullOfOthers reports whether the host's CPUs are in use, in part by programs outside the group.
func (e *Evidence) fullOfOthers() bool {
	return freeze.FullHost(ratio(e.Busy+e.Steal, e.Wall), e.CPUs) && e.Others() >= othersUse*float64(e.CPUs)
}

// stolen reports whether a hypervisor took CPUs away.
func (e *Evidence) stolen() bool {
	return e.CPUs > 0 && ratio(e.Steal, e.Wall) >= muchSteal*float64(e.CPUs)
}

// keptFrom reports whether other programs had CPUs that the group's threads waited for, whatever the mean over the host says: the group may
// use only some of the host's CPUs, or they were in use only part of the time. The group did not use up its own CPUs itself.
func (e *Evidence) keptFrom() bool {
	cpus := e.CPUs
	if e.Affinity > 0 {
		cpus = min(cpus, e.Affinity)
	}
	return e.ThreadsKnown && e.WaitShare() >= longestWait && ratio(e.Waited, e.Wall) >= manyWait &&
		!freeze.FullHost(ratio(e.Used, e.Wall), cpus) && e.Others() >= othersUse*float64(e.CPUs)
}

// contention looks for evidence of contention, where there is no sign of a quota. share is the frozen part of the time.
func (v *Verdict) contention(j freeze.Verdict, e Evidence, share float64) {
	waited := e.ThreadsKnown && e.WaitShare() >= longWait
	full := freeze.FullHost(ratio(e.Busy+e.Steal, e.Wall), e.CPUs)
	beside, stolen, kept := e.fullOfOthers(), e.stolen(), e.keptFrom()
	cpus := quantity.CPUs(float64(e.CPUs))
	if waited {
		v.Why = append(v.Why, fmt.Sprintf("its threads waited for %.0f %% of the time in which they could have run", 100*e.WaitShare()))
	}
	if stolen {
		v.Why = append(v.Why, fmt.Sprintf("the hypervisor took %.2f of %s", ratio(e.Steal, e.Wall), cpus))
	}
	late := j.Cause != freeze.None && share >= littleLate
	others := beside && (waited || late && e.unthrottled())
	switch {
	case others:
		v.Why = append(v.Why, fmt.Sprintf("others used %.2f of the host's %s, and hardly one was free", e.Others(), cpus))
	case kept:
		v.Why = append(v.Why, fmt.Sprintf("others used %.2f of the host's %s, and those had what these threads waited for", e.Others(), cpus))
	}
	switch {
	case stolen && (waited && full || late), others, beside && j.Cause == freeze.Contended, kept:
		v.Cause = freeze.Contended
	case waited && full:
		v.Why = append(v.Why, "they wait for each other: nothing else uses much")
	case stolen && !late:
		v.Cause = freeze.None
	case j.Cause == freeze.Contended:
		v.Cause = freeze.Unsure
		v.Why = append(v.Why, "and nothing else tells what took the CPU")
	}
	if v.Contended, v.Neighbour = 0, v.Neighbour && v.Cause == freeze.Contended; v.Cause == freeze.Contended {
		v.Contended = share
	}
}
