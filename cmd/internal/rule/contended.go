package rule

import (
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/freeze"
)

// contended finds a program that waits for CPUs because others use them, and not because of its limit. The run queues of
// its own threads say so, on a system whose CPUs are in use: threads that run for some microseconds at a time wait about as
// long for each start on an idle one. Ps of its own that outnumber the CPUs are another trouble.
func contended(f *facts) (finding.Finding, bool) {
	u := f.Usage
	if !f.busy() || u.DelayWall <= 0 || u.DelayCPU <= 0 || f.share > 0 || u.Local > 0 {
		return finding.Finding{}, false
	}
	if cpus := f.System.Limits.Affinity; cpus > 0 && f.procs > cpus {
		return finding.Finding{}, false
	}
	waiting := u.Delay.Seconds() / u.DelayWall.Seconds()
	lost := u.Delay.Seconds() / (u.Delay + u.DelayCPU).Seconds()
	if lost < 0.2 || waiting < 0.05 {
		return finding.Finding{}, false
	}
	s, cpus := f.system, f.System.Limits.Affinity
	if full := freeze.FullHost(s.Busy+s.Steal, s.CPUs); !s.Known || !full && (cpus == s.CPUs || waiting < 0.5) {
		return finding.Finding{}, false // of a part of the CPUs, as of a cpuset, it is not known how busy they are
	}
	found := finding.Finding{
		Severity: finding.Info,
		Summary:  "it waits for CPUs that others use; its limit has no part in it",
		Evidence: []string{fmt.Sprintf("its threads were ready and not running for %s of the time that they wanted to run", percent(lost))},
		Fix:      "move it or its neighbours, or give it a larger CPU request: a higher limit changes nothing",
	}
	if lost >= 0.3 {
		found.Severity = finding.Warning
	}
	found.Evidence = append(found.Evidence, fmt.Sprintf("%.1f of the system's %d CPUs were busy", s.Busy, s.CPUs))
	if s.Steal >= 0.05 {
		found.Evidence = append(found.Evidence, fmt.Sprintf("the machine's own host took %.1f CPUs away", s.Steal))
	}
	return found, true
}
