package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// Claim is the answer in a word.
func (d *Watch) Claim() string {
	return causeWord(d.Cause, "throttled", d.Findings)
}

// Answer is the answer in few words, without the word.
func (d *Watch) Answer() string {
	if d.FrozenShare == nil {
		return d.counts()
	}
	switch freeze.Cause(d.Cause) {
	case freeze.Throttled:
		if of(d.FrozenShare) < heartbeatSees {
			return d.tooShort()
		}
		if of(d.Contended) > 0 {
			return frozenText(of(d.Throttled)) + " by a CPU quota"
		}
		return frozenText(of(d.FrozenShare)) + " by a CPU quota"
	case freeze.Contended:
		if quotaNamed(d.Findings) {
			return d.Contention.who() + "; its quota did less"
		}
		return d.Contention.who() + "; it was no quota"
	case freeze.None:
		return frozenText(of(d.FrozenShare))
	}
	if quotaNamed(d.Findings) {
		return frozenText(of(d.FrozenShare)) + ", some of it by its quota"
	}
	return frozenText(of(d.FrozenShare)) + ", for no clear reason"
}

// tooShort is the answer where the kernel has throttled it, and the heartbeat saw hardly any of that.
func (d *Watch) tooShort() string {
	const seen = ", too shortly for a heartbeat"
	if k := d.Kernel; k != nil && k.ThrottledPeriods > 0 {
		return fmt.Sprintf("in %s of %s", quantity.Count(k.ThrottledPeriods), quantity.Plural(k.Periods, "period")) + seen
	}
	return "by a CPU quota above it" + seen
}

// counts is the answer where only the kernel's counts are known.
func (d *Watch) counts() string {
	switch k := d.Kernel; {
	case d.Cause == string(freeze.Contended):
		return d.Contention.who() + "; it was no quota"
	case d.Cause == string(freeze.Unsure):
		return "the kernel counts nothing here that would tell"
	case k == nil || k.Periods == 0 && k.ThrottledSeconds == 0 && of(k.Local) == 0:
		if d.Limit.State == cgroup.None.String() {
			return "it has no CPU limit"
		}
		return "it hardly wanted to run: the kernel counted no period"
	case k.Periods == 0 || k.ThrottledPeriods == 0 && of(k.Local) > 0:
		return "by a CPU quota above it, for " + quantity.Seconds(of(k.Local)) + " summed over CPUs"
	case k.ThrottledPeriods == 0:
		return "in none of " + quantity.Plural(k.Periods, "period")
	case d.Cause == string(freeze.None):
		return fmt.Sprintf("in no more than %s of %s", quantity.Count(k.ThrottledPeriods), quantity.Plural(k.Periods, "period"))
	}
	text := fmt.Sprintf("in %s of %s, frozen ", quantity.Count(d.Kernel.ThrottledPeriods), quantity.Plural(d.Kernel.Periods, "period"))
	if d.Kernel.AtLeast < d.Kernel.AtMost {
		text += "at least "
	}
	return text + quantity.Share(d.Kernel.AtLeast) + " of the time by a CPU quota"
}

// of is a value, or 0 where it is not known.
func of[T any](v *T) (value T) {
	if v != nil {
		value = *v
	}
	return value
}

// who says who had the CPUs instead.
func (c WatchContention) who() string {
	switch {
	case c.Steal > c.Others:
		return "the hypervisor took the CPUs"
	case c.Others > 0 || c.WaitShare != nil && *c.WaitShare > 0:
		return "others had the CPUs"
	}
	return "something else took the CPUs"
}

// Also says what belongs to the answer.
func (d *Watch) Also() (texts []string) {
	switch freeze.Cause(d.Cause) {
	case freeze.Throttled:
		var quota []string
		if d.PeriodSeconds != nil {
			quota = append(quota, "its period is "+quantity.Seconds(*d.PeriodSeconds))
		}
		if of(d.FreezeCount) > 0 {
			quota = append(quota, "the longest freeze took "+quantity.Seconds(of(d.Longest)))
		}
		if len(quota) > 0 {
			texts = append(texts, capital(strings.Join(quota, ", "))+".")
		}
		if of(d.Contended) > 0 {
			by := "as on a busy host"
			if c := d.Contention; !freeze.FullHost(c.HostBusy+c.Steal, c.HostCPUs) {
				by = "as where a hypervisor takes CPUs away" // its CPUs are not in use
			}
			texts = append(texts, fmt.Sprintf("It stood still for %s more without that rhythm, %s.", quantity.Share(*d.Contended), by))
		}
	case freeze.Contended:
		if w := d.Contention.WaitShare; w != nil && *w > 0 {
			return []string{"Its threads waited for " + quantity.Share(*w) + " of the time in which they could have run."}
		}
		if d.FrozenShare != nil {
			return []string{capital(frozenText(*d.FrozenShare)) + "."}
		}
	}
	return texts
}

// Subject names what was watched.
func (d *Watch) Subject() string {
	text := "its own cgroup"
	if d.PID != 0 {
		text = fmt.Sprintf("the cgroup of process %d", d.PID)
		if d.Name != "" {
			text += " (" + d.Name + ")"
		}
	}
	if d.Group != "" {
		text += ", " + d.Group
	}
	return text
}

// Text says what the limit is. from is the directory of the group, which is not named again.
func (l WatchLimit) Text(from string) string {
	switch {
	case l.CPUs != nil:
		text := quantity.CPUs(*l.CPUs)
		if l.Period > 0 {
			text += fmt.Sprintf(", %s of each %s", quantity.Seconds(l.Quota), quantity.Seconds(l.Period))
		}
		if l.From != from {
			text += ", set by " + l.From
		}
		return text
	case l.State == "none":
		return "none can be seen"
	case l.State == "hidden":
		return "one that can't be seen from here"
	case l.Reason != "":
		return "unknown: " + l.Reason
	}
	return ""
}

// Folding is how the drawing cuts the time.
func (d *Watch) Folding() Folding { return folding(d.PeriodSeconds, d.Cause, d.Rhythm) }

// WatchSecond is what happened in a second.
type WatchSecond struct {
	Frozen  float64 // seconds
	Freezes int     // that ended in it
	Longest float64 // of these, in seconds
}

// Second is what happened in a second, counted from 0. The freezes are sorted by time.
func (d *Watch) Second(number int) (s WatchSecond) {
	from, to := float64(number), float64(number+1)
	for i := len(d.Freezes) - 1; i >= 0 && d.Freezes[i].End > from; i-- {
		f := d.Freezes[i]
		s.Frozen += max(0, min(f.End, to)-max(f.Start, from))
		if f.End <= to {
			s.Freezes++
			s.Longest = max(s.Longest, f.End-f.Start)
		}
	}
	return s
}

// LongestFreezes are the longest of the freezes, the longest first, no more than most.
func (d *Watch) LongestFreezes(most int) []Freeze {
	freezes := slices.Clone(d.Freezes)
	slices.SortStableFunc(freezes, func(a, b Freeze) int { return cmp.Compare(b.End-b.Start, a.End-a.Start) })
	return freezes[:min(len(freezes), most)]
}
