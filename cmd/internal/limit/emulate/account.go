package emulate

import "time"

// account decides when a program is held. It is pure: times go in, a decision comes out.
//
// It is the kernel's struct cfs_bandwidth with one runqueue: that draws quota from the pool in slices and may keep the rest
// of a slice into the next period, though the pool never holds more than one quota. So a program that needs a little more
// than its quota once is not held for that. One thing is not imitated: each CPU has a slice of its own, and stands still
// when it finds the pool empty though another CPU has some left. Which CPU a thread ran on can't be seen from outside at a
// bearable cost.
type account struct {
	limit Limit
	steps steps

	pool   time.Duration // of this period's quota
	local  time.Duration // drawn and not used; below zero is a debt
	next   time.Duration // when the next period begins
	used   time.Duration // as last reported
	active bool          // periods are counted
	idle   bool          // nothing was drawn since the period began
	held   bool
	since  time.Duration // held since

	counters Counters // the finished part
}

// The kernel's sched_cfs_bandwidth_slice_us, which is hardly ever changed, and what a CPU that goes idle keeps of a
// slice (min_cfs_rq_runtime).
const (
	slice = 5 * time.Millisecond
	kept  = time.Millisecond
	tick  = 2 * time.Millisecond // on average, of a kernel that looks each 4 ms
)

// steps bound how often the program is looked at.
type steps struct {
	busy time.Duration // least time between two looks while quota is being used
	idle time.Duration // and while it is not
}

// newAccount begins a grid of periods at a time. Times are those of any clock that never goes back.
func newAccount(l Limit, s steps, now time.Duration) *account {
	return &account{limit: l, steps: s, pool: l.Quota, next: now + l.Period}
}

// A decision is what to do now, and when to decide again.
type decision struct {
	hold bool
	wait time.Duration
}

// step takes the CPU time that was used in all, and on how many CPUs it can be used.
func (a *account) step(now, used time.Duration, cpus int) decision {
	quiet := used <= a.used
	if quiet {
		a.giveBack()
	} else {
		a.local -= used - a.used
		a.used = used
		a.draw()
	}
	for now >= a.next {
		a.begin(a.next)
	}
	if !a.held && a.pool+a.local <= 0 && a.next-now > a.unseen() {
		a.held, a.since = true, now
	}
	return decision{a.held, a.wait(now, cpus, quiet)}
}

// unseen is how little before the end of a period quota may run out without a hold. The kernel looks at a tick, and by
// then the next period may have begun and pays for what was overdrawn: so it is a debt here too.
func (a *account) unseen() time.Duration { return min(tick, a.limit.Period/20) }

// draw takes a slice from the pool when the last one is used up: __assign_cfs_rq_runtime in the kernel.
func (a *account) draw() {
	if a.local > 0 {
		return
	}
	a.active, a.idle = true, false
	amount := min(a.pool, slice-a.local)
	a.pool -= amount
	a.local += amount
}

// giveBack returns most of a slice while nothing runs: __return_cfs_rq_runtime.
func (a *account) giveBack() {
	if rest := a.local - kept; rest > 0 {
		a.pool += rest
		a.local = kept
	}
}

// begin begins a period: do_sched_cfs_period_timer in the kernel.
func (a *account) begin(at time.Duration) {
	a.next += a.limit.Period
	a.pool = a.limit.Quota
	if !a.active {
		return
	}
	a.counters.Periods++
	switch {
	case a.held:
		a.counters.Throttled++
		if a.draw(); a.local > 0 {
			a.release(at)
		}
	case a.idle:
		a.active = false // the timer stops
	default:
		a.idle = true
	}
}

func (a *account) release(at time.Duration) {
	held := at - a.since
	a.held = false
	a.counters.ThrottledTime += held
	a.counters.LongestStandstill = max(a.counters.LongestStandstill, held)
}

// wait is how long nothing can happen that we would have to see. Quota can't be spent sooner than by all CPUs together.
func (a *account) wait(now time.Duration, cpus int, quiet bool) time.Duration {
	period := a.next - now
	if a.held {
		return period
	}
	safe := (a.pool + a.local) / time.Duration(max(cpus, 1))
	if quiet && !a.active {
		return max(min(safe, period), a.steps.idle)
	}
	return min(max(safe, a.steps.busy), period)
}

// at gives the counters, with a hold that goes on.
func (a *account) at(now time.Duration) Counters {
	c := a.counters
	c.CPU = a.used
	if a.held && now > a.since {
		c.ThrottledTime += now - a.since
		c.LongestStandstill = max(c.LongestStandstill, now-a.since)
	}
	return c
}
