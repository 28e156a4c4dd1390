package rule

import (
	"cmp"
	"fmt"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// throttled finds a program that its limit stops: the kernel has counted it, or its standstills have the rhythm of a quota.
// That is a symptom and not yet a loss: a burst that runs at once and pays with a short stall may be served sooner than one
// that queues. How much it matters depends on how long it stands still.
func throttled(f *Facts) (finding.Finding, bool) {
	hidden := f.Limits.State == cgroup.Hidden && f.Counted.Local > 0
	rhythm := f.Still.Cause == freeze.Throttled
	if !rhythm && !hidden && f.pressed() {
		return f.stands(), true
	}
	if !rhythm && f.idle() {
		return f.usedUp()
	}
	if !rhythm && !hidden && f.share() < f.worthSaying() {
		return finding.Finding{}, false
	}
	found := finding.Finding{Severity: finding.Info, Fix: "unthrottle tune measures which GOMAXPROCS serves it best under this limit"}
	switch frozen := f.frozen(); {
	case frozen >= 0.25:
		found.Severity = finding.Critical
	case frozen >= 0.05 || f.share() >= 0.25:
		found.Severity = finding.Warning
	}
	if hidden {
		found.Severity = max(found.Severity, finding.Warning)
		found.Evidence = []string{fmt.Sprintf("its group stood still for %.2f CPU seconds in %.1f s", f.Counted.Local.Seconds(), f.Wall.Seconds())}
	}
	found.Evidence = append(found.Evidence, f.throttledText()...)
	if rhythm {
		found.Evidence = append(found.Evidence, f.stillText()...)
	}
	stops := " stops it"
	if found.Severity == finding.Info {
		stops += " at times"
	}
	switch {
	case hidden, rhythm && f.unseen():
		found.Summary = "a limit that can't be seen from here" + stops
		found.Fix = "look for the quota on the host, above the container's cgroup"
	case f.limited():
		found.Summary = "its limit of " + quantity.UsedCPUs(f.Limits.CPUs) + stops
		f.ofLimit(&found)
	default:
		found.Summary = "a CPU quota" + stops
	}
	return found, true
}

// usedUp finds an idle program whose limit is used up by something else under it, such as another container of its pod: it would have to
// wait if it had something to do. A program that is idle may use up a period now and then, but not most of them.
func (f *Facts) usedUp() (finding.Finding, bool) {
	owner, _ := f.Limits.Owner()
	period := cmp.Or(owner.Quota.Period(), 100*time.Millisecond) // of limits given as one number, as Kubernetes sets them
	if !f.limited() || f.Wall <= 0 || time.Duration(f.Counted.Owner.Throttled)*period < f.Wall/2 {
		return finding.Finding{}, false
	}
	return finding.Finding{
		Severity: finding.Warning,
		Summary:  "others use up the limit of " + quantity.UsedCPUs(f.Limits.CPUs) + " that it shares",
		Evidence: []string{f.periodsText(), "it used hardly any CPU time itself"},
		Fix:      "find out what else runs under this limit, and give that a limit of its own, or raise this one",
	}, true
}

// stands is a program under pressure whose throttling wasn't counted. That its limit stops it is known if it used all of the limit.
func (f *Facts) stands() finding.Finding {
	if !f.atLimit() {
		return finding.Finding{
			Severity: finding.Info,
			Summary:  "its threads could not run for " + quantity.Share(f.Pressure.All) + " of the time",
			Evidence: append(f.pressureText(), "its limit may stop it in bursts, or others use the CPUs: it used "+quantity.UsedCPUs(*f.CPU)+" on average, and its limit is "+quantity.UsedCPUs(f.Limits.CPUs)),
			Fix:      "scrape cAdvisor's container_cpu_cfs_throttled_periods_total, which tells a limit from neighbours",
		}
	}
	found := finding.Finding{Severity: finding.Warning, Summary: "its limit of " + quantity.UsedCPUs(f.Limits.CPUs) + " stops it", Evidence: f.pressureText()}
	if f.Pressure.All >= 0.25 {
		found.Severity = finding.Critical
	}
	f.ofLimit(&found)
	return found
}

// worthSaying is the share of throttled periods from which the limit is named. Where it is seen that others had the CPUs, a few periods
// aren't a second cause.
func (f *Facts) worthSaying() float64 {
	if f.Still.Cause == freeze.Contended {
		return 0.05
	}
	return 0.01
}

// unseen reports whether the quota that stops it was looked for, and none was found, or one that does not throttle.
func (f *Facts) unseen() bool {
	o := f.Counted.Owner
	switch f.Limits.State {
	case cgroup.Limited:
		return o.Known && o.Periods > 0 && o.Throttled == 0
	case cgroup.Unknown:
		return f.Limits.Reason != nil
	}
	return true
}

// ofLimit adds how much of the limit it used, and what follows from that.
func (f *Facts) ofLimit(found *finding.Finding) {
	if f.CPU == nil {
		return
	}
	used, share := "it used "+quantity.UsedCPUs(*f.CPU), *f.CPU/f.Limits.CPUs
	if share >= 0.9 {
		found.Fix = "it needs a higher limit or less work; unthrottle tune tells what GOMAXPROCS can do about it"
	}
	switch wanting, ok := f.wanting(); {
	case share >= 0.97:
		used += ", all that the limit allows"
	case share >= 0.9:
		used += ", nearly all that the limit allows"
	case share < 0.5 && ok && wanting < f.Limits.CPUs:
		used += ", far below its limit: it comes in bursts, or others in the same group use the rest"
	}
	found.Evidence = append(found.Evidence, used)
}
