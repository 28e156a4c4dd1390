package rule

import (
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// contended finds a program that waits for CPUs because others use them, and not because of its limit: the run queues of
// its own threads say so, or it stands still without the rhythm of a quota.
func contended(f *Facts) (finding.Finding, bool) {
	lost, queued := f.queued()
	still := f.Still.Cause == freeze.Contended
	if !queued && !still {
		return finding.Finding{}, false
	}
	found := finding.Finding{
		Severity: finding.Info,
		Summary:  "it waits for CPUs that others use, not for its limit",
		Fix:      "move it or its neighbours, or give it a larger CPU request: a higher limit changes nothing",
	}
	if _, also := throttled(f); also {
		found.Summary = "it waits for CPUs that others use, more than for its limit"
		found.Fix = "move it or its neighbours, or give it a larger CPU request, before you raise its limit"
	}
	if max(lost, f.Still.Contended) >= 0.3 {
		found.Severity = finding.Warning
	}
	if still {
		found.Evidence = f.stillText()
	} else {
		found.Evidence = append(found.Evidence, fmt.Sprintf("its threads were ready and not running for %s of the time that they wanted to run", quantity.WholeShare(lost)))
	}
	s := f.Host
	if s.Known {
		were := "were"
		if s.CPUs == 1 {
			were = "was"
		}
		found.Evidence = append(found.Evidence, fmt.Sprintf("%.1f of the system's %s %s busy", s.Busy, quantity.CPUs(float64(s.CPUs)), were))
	}
	if s.Known && s.Steal >= 0.05 {
		found.Evidence = append(found.Evidence, fmt.Sprintf("the machine's own host took %.1f CPUs away", s.Steal))
	}
	return found, true
}

// queued reports whether the run queues say that others have the CPUs, and the share of the time in which its threads waited when they
// could have run. That counts only on a system whose CPUs are in use: threads that run for a few microseconds at a time wait about as long
// for each start on an idle one. More Ps of its own than CPUs are another problem, and so are threads of its group that no other program
// disturbs.
func (f *Facts) queued() (lost float64, ok bool) {
	q, s, cpus := f.Queue, f.Host, f.Limits.Affinity
	if q == nil || q.Ran <= 0 {
		return 0, false
	}
	lost = q.Waited / (q.Waited + q.Ran)
	switch {
	case !f.busy(), f.share() > 0, f.Counted.Local > 0, cpus > 0 && f.Procs > cpus, !s.Known:
		return lost, false
	case s.Others != nil && *s.Others+s.Steal < 0.1*float64(s.CPUs):
		return lost, false
	}
	full := freeze.FullHost(s.Busy+s.Steal, s.CPUs)
	if !full && (cpus == s.CPUs || q.Waited < 0.5) {
		return lost, false // how busy a part of the CPUs is, such as a cpuset, is not known
	}
	return lost, lost >= 0.2 && q.Waited >= 0.05
}
