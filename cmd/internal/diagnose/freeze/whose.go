package freeze

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

// A Kernel is what the kernel says about a group for exactly the time of an observation. The zero value says nothing.
type Kernel struct {
	Counts bool
	Most   time.Duration // that quotas held it up, its own and those above it, summed over CPUs: it stood still for no longer because of them
	Far    bool          // not counted: its limit is too far above what it used to have held it up
}

// Counted is what the kernel says of a group with limits on that many levels, for which it counted t in that time.
func Counted(state cgroup.State, levels int, t cgroup.Throttling) Kernel {
	switch {
	case t.LocalKnown: // by any level
		return Kernel{Counts: true, Most: t.Held()}
	case state == cgroup.Limited && t.Owner.Throttled > 0 && levels > 1: // of one of them
		return Kernel{Counts: true, Most: math.MaxInt64}
	case state == cgroup.Limited && t.Owner.Throttled > 0:
		return Kernel{Counts: true, Most: t.Held()}
	}
	return Kernel{} // a group above, whose counts can't be seen, may do it
}

// Never reports whether no quota can have held the group up.
func (k Kernel) Never() bool { return k.Far || k.Counts && k.Most == 0 }

// Share is the most of the time that a quota can have taken.
func (k Kernel) Share(wall time.Duration) float64 {
	switch {
	case k.Never():
		return 0
	case !k.Counts || wall <= 0:
		return 1
	}
	return min(1, float64(k.Most)/float64(wall))
}

// Whose quota a rhythm is of.
type Whose string

// A neighbour with a quota has a rhythm, too: it runs from its refill until it has used up its quota, always at one phase, and a program
// that has to wait for it stands still meanwhile. Such standstills begin with a timer, and end when some CPU time has been used, which the
// scheduler notices at one of its ticks. With the program's own quota it is the other way round.
const (
	Own       Whose = "own"
	Neighbour Whose = "neighbour"
	Either    Whose = "either"
)

// clearLead is how many more edges of one kind than of the other must be at one phase. In traces of bench/trace the ends of a program's own
// freezes led by 0.24 to 0.75, also on a busy host; next to a neighbour the starts led by up to 0.47, or the ends by 0.07 at most. Where a
// trace has so few events that both edges are those of the runtime's monitor, they show nothing.
//
// But a neighbour that has to wait for its own start, 2 ms on the mean, and whose quota ends at a tick, begins at no phase and
// ends at one: in a simulation of that the ends led by up to 0.33. Only a sharper lead is sure.
const (
	clearLead = 0.2
	sureLead  = 0.34
)

// lead is how much more often standstills end at one phase than they begin at one.
func (r Rhythm) lead() float64 { return r.EndsAtOne - r.StartsAtOne }

// Whose says, from the edges of the standstills, whose quota it is.
func (r Rhythm) Whose() Whose {
	switch lead := r.lead(); {
	case lead >= clearLead:
		return Own
	case lead <= -clearLead:
		return Neighbour
	}
	return Either
}

// edges says how many of the refills with a standstill before them have a start, and an end, at one time before or after a refill. A few
// more standstills may be before one, because of other programs.
func edges(gaps []Gap, r Rhythm) (starts, ends float64) {
	var first, last []edge
	refills := map[time.Duration]bool{}
	for _, g := range gaps {
		if g.Length() > r.Period {
			continue
		}
		since, _ := r.since(g.End - r.Window)
		refill := g.End - r.Window - since
		refills[refill] = true
		first = append(first, edge{r.place(g.Start), refill})
		last = append(last, edge{r.place(g.End), refill})
	}
	if len(refills) == 0 {
		return 0, 0
	}
	n := float64(len(refills))
	for _, half := range []time.Duration{r.Window / 7, r.Window / 2} { // 0.6 and 2 ms of 100: a timer, and one on a busy host
		starts += float64(together(first, r.Period, half)) / n / 2
		ends += float64(together(last, r.Period, half)) / n / 2
	}
	return starts, ends
}

// place is where a time is around the refill that is nearest: after it, or at the end of a period.
func (r Rhythm) place(t time.Duration) time.Duration {
	since, until := r.since(t)
	if since > until {
		return r.Period - until
	}
	return since
}

// An edge is a start or an end of a standstill, and the refill before its end.
type edge struct{ phase, refill time.Duration }

// together is the most refills that have an edge in one window of the phase.
func together(edges []edge, period, half time.Duration) (most int) {
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.phase, b.phase) })
	n := len(edges)
	for _, e := range edges[:n:n] { // once more, a period later: the window may lie across its edge
		edges = append(edges, edge{e.phase + period, e.refill})
	}
	inside := map[time.Duration]int{}
	first := 0
	for _, e := range edges {
		inside[e.refill]++
		for e.phase-edges[first].phase > 2*half {
			if inside[edges[first].refill]--; inside[edges[first].refill] == 0 {
				delete(inside, edges[first].refill)
			}
			first++
		}
		most = max(most, len(inside))
	}
	return most
}

// phase is where in its period a time is.
func phase(t, period time.Duration) time.Duration {
	if t %= period; t < 0 {
		t += period
	}
	return t
}
