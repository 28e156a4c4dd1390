package load

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// What a generator must keep to for its figures to count. That it is late does not matter in itself, for that is known of every request:
// what counts is whether the requests came as planned, and whether the answers were seen in time. The measure for both is how long an
// answer usually takes.
const (
	maxBurst     = 0.1 // of the requests may be sent late together, by more than an answer takes
	maxWait      = 0.5 // of what an answer takes may be the generator's waiting for a CPU
	maxCPUShare  = 0.8
	minSentShare = 0.995
)

// judge returns why a result must not be trusted, and whether that is the generator's fault: a plan that was not sent may also mean a
// server that is at its limit.
func judge(r *Result) (invalid []string, ourFault bool) {
	usual := Quantile(r.FromReady, 50)
	if share := r.BurstShare(); share > maxBurst {
		invalid = append(invalid, fmt.Sprintf("%.0f %% of the requests were sent in bursts, to catch up: the generator had stood still for longer than an answer takes (%v)",
			100*share, round(usual)))
	}
	if each := r.WaitEach(); usual > 0 && each > time.Duration(maxWait*float64(usual)) {
		invalid = append(invalid, fmt.Sprintf("the generator waited for a CPU for %v with each request, and half of the answers took %v: it saw them late",
			round(each), round(usual)))
	}
	if r.Exhausted > 0 {
		invalid = append(invalid, fmt.Sprintf("%d requests failed for want of descriptors or ports on this machine: ulimit -n raises the first, -c takes fewer", r.Exhausted))
	}
	if share := r.CPUShare(); share > maxCPUShare {
		invalid = append(invalid, fmt.Sprintf("the generator used %.0f %% of its %s: what it measured may be itself", 100*share, cpus(r.CPUs)))
	}
	ourFault = len(invalid) > 0
	if r.Plan.Rate > 0 {
		// A request that found no server to connect to counts as sent: the plan was kept.
		if share := 1 - float64(r.Unsent)/float64(max(1, r.Planned)); share < minSentShare {
			invalid = append(invalid, fmt.Sprintf("%.1f %% of the plan was sent, and it should be %.1f %%: all %d connections were busy",
				100*share, 100*minSentShare, r.Plan.Conns))
		}
	}
	return invalid, ourFault
}

// Overworked reports whether the generator was at its limit.
func (r *Result) Overworked() bool { return r.Exhausted > 0 || r.CPUShare() > maxCPUShare }

// BurstShare is how many of the requests were sent in bursts, in which the pacer made up for a time that is longer than an
// answer usually takes, or than it was given to send several at once: they came together, and were planned apart.
func (r *Result) BurstShare() float64 {
	if r.Requests == 0 {
		return 0
	}
	return float64(above(r.CaughtUp, max(r.Plan.Slack, Quantile(r.FromReady, 50)))) / float64(r.Requests)
}

// WaitEach is how long the generator waited for a CPU with each request: what it sent, and what it read, was that much late.
func (r *Result) WaitEach() time.Duration { return r.Waited / time.Duration(max(1, r.Requests)) }

// Late reports whether the generator's lateness shows in the responses: its own lateness was more than a tenth of what an answer usually
// takes, in one of a hundred requests, or on each. The time it was given to send several at once doesn't count.
func (r *Result) Late() bool {
	notable := Quantile(r.FromReady, 50) / 10
	return notable > 0 && (r.Plan.Rate > 0 && Quantile(r.PacerLate, 99) > r.Plan.Slack+notable || r.WaitEach() > notable)
}

// above counts what is longer.
func above(h *hdrhistogram.Histogram, d time.Duration) (n int64) {
	for _, b := range h.Distribution() {
		if b.From > int64(d) {
			n += b.Count
		}
	}
	return n
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
