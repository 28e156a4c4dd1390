package load

import (
	"fmt"
	"time"
)

// What a generator must keep to for its figures to count.
const (
	maxLate      = time.Millisecond // the pacer, at p99; or a tenth of the median response, if that is more
	maxCPUShare  = 0.8
	minSentShare = 0.995
)

// judge tells why a result is not to be trusted, and whether that is the generator's fault: a plan that was not sent may
// also be a server's that takes no more.
func judge(r *Result) (invalid []string, ourFault bool) {
	if r.Plan.Rate > 0 {
		late := Quantile(r.PacerLate, 99)
		if bound := max(maxLate, Quantile(r.Response, 50)/10); late > bound {
			invalid = append(invalid, fmt.Sprintf("the generator was late by itself: %v at p99, where %v are allowed", round(late), round(bound)))
		}
		ourFault = len(invalid) > 0
		// A request that found no server to connect to counts as sent: the plan was kept.
		if share := 1 - float64(r.Unsent)/float64(max(1, r.Planned)); share < minSentShare {
			invalid = append(invalid, fmt.Sprintf("%.1f %% of the plan was sent, and it should be %.1f %%: all %d connections were busy",
				100*share, 100*minSentShare, r.Plan.Conns))
		}
	}
	if r.Exhausted > 0 {
		invalid = append(invalid, fmt.Sprintf("%d requests failed for want of descriptors or ports on this machine: ulimit -n raises the first, -c takes fewer", r.Exhausted))
		ourFault = true
	}
	if share := r.CPUShare(); share > maxCPUShare {
		invalid = append(invalid, fmt.Sprintf("the generator used %.0f %% of its %s: what it measured may be itself", 100*share, cpus(r.CPUs)))
		ourFault = true
	}
	return invalid, ourFault
}

// CPUShare is how much of its CPUs the generator used.
func (r *Result) CPUShare() float64 {
	if r.CPUs == 0 || r.Sending <= 0 {
		return 0
	}
	return r.CPU.Seconds() / r.Sending.Seconds() / float64(r.CPUs)
}

func cpus(n int) string {
	if n == 1 {
		return "CPU"
	}
	return fmt.Sprintf("%d CPUs", n)
}

func round(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
