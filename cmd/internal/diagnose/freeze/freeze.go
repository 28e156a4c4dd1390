// Package freeze answers: do these standstills have the rhythm of a CPU quota? In go the gaps in which a program stood still although it
// had something to do; out come the period and the phase at which they end, and a verdict: throttled, contended, both, or unsure.
// [FullHost] is the other half of contended: are the CPUs in use? It is arithmetic; it reads no clock, trace or file, and does not know how
// a gap was found.
//
// The kernel's timer refills a group's quota at one phase of its period, for as long as the group lives: it keeps the phase when the group
// was idle (hrtimer_forward_now in start_cfs_bandwidth; measured over a minute of bursts with up to 1.8 s between them: 35 freezes ended
// within 0.5 ms). So all freezes of a quota end at that phase, give or take the time until the thread gets its CPU, and those of two quotas
// at two. A gap made by another program that had the CPU ends whenever the scheduler likes.
//
// Not found: a period that isn't a whole number of milliseconds, unless it is given, and one that was changed half-way.
package freeze

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// A Gap is a standstill. Its times are since the beginning of the observation.
type Gap struct {
	Start, End time.Duration
}

// Length is how long nothing moved.
func (g Gap) Length() time.Duration { return g.End - g.Start }

// weight is the length in the search for a rhythm: a few gaps of seconds, which no quota makes, must not outweigh all others.
func (g Gap) weight() float64 { return float64(min(g.Length(), longest)) }

// A Rhythm is what the ends of some gaps have in common.
type Rhythm struct {
	Period time.Duration // 0: there are no gaps
	Given  bool          // the period was known, not searched for
	Phase  time.Duration // the time within a period, since the beginning of the observation, at which most gap time ends
	Offset time.Duration `json:",omitempty"` // from there to the phase of a second quota; 0: there isn't one
	Window time.Duration // a gap ends at a phase if it ends at most this far from it

	R      float64 // mean resultant length of the ends, weighted with the length of the gaps: 1 is at the phases, 0 is anywhere
	Luck   float64 // the chance that gaps without a rhythm have such an R at one of the periods that were tried
	Locked float64 // the share of gap time that ends at a phase

	// The shares of the periods that a refill has ended in which a gap starts, and ends, at one phase: see Whose.
	StartsAtOne, EndsAtOne float64

	Levels int `json:"-"` // as in Quotas
	Gaps   int
	Time   time.Duration // of all gaps
	Weight float64       // the number of equally long gaps that would say as much
}

// Shortest and longest period that are searched for. The kernel allows 1 ms to 1 s; below 5 ms a window of the phase would be as wide as
// the jitter, none has been seen above 250 ms.
const (
	shortest = 5 * time.Millisecond
	longest  = 250 * time.Millisecond
	usual    = 100 * time.Millisecond // the default of the kernel, of Docker and of Kubernetes
)

// Quotas are the known ones that may hold a program up: its group's and those of the groups above it.
type Quotas struct {
	Period time.Duration // that they have in common; 0: it is not known, or they differ
	Levels int           // how many there are; 0: not known
}

// Seen are the quotas of a limit. Where the uppermost level has one, there are levels above that can't be seen, as from inside a
// container: no root has a quota.
func Seen(l cgroup.Limits) (q Quotas) {
	if l.State != cgroup.Limited {
		return q
	}
	for _, level := range l.Levels {
		p := level.Quota.Period()
		if level.Quota.QuotaMicros <= 0 || p <= 0 {
			continue
		}
		if q.Levels++; q.Levels == 1 {
			q.Period = p
		} else if p != q.Period {
			q.Period = 0 // any of them may be the cause
		}
	}
	if q.Levels == 1 && l.Levels[len(l.Levels)-1].Quota.QuotaMicros > 0 {
		q.Levels = 0
	}
	return q
}

// With are the quotas where the kernel counted that: what holds a program up besides the quota in force is another quota.
func (q Quotas) With(t cgroup.Throttling) Quotas {
	if HeldAbove(t) {
		q.Levels = max(q.Levels, 2)
	}
	return q
}

// HeldAbove reports whether by the kernel's count the quota in force held a program up, and all levels together did for at least half
// as long again.
func HeldAbove(t cgroup.Throttling) bool {
	own := t.Owner.ThrottledTime
	return own > 0 && t.Held()-own >= own/2
}

// Find looks for the rhythm of the gaps at the period of the quotas, or at every whole millisecond from 5 to 250 if that is not
// known. Gaps may be in any order.
func Find(gaps []Gap, q Quotas) Rhythm {
	// A gap that does not end after it starts isn't one. With such gaps, the weights might add up to 0.
	gaps = slices.DeleteFunc(slices.Clone(gaps), func(g Gap) bool { return g.Length() <= 0 })
	if len(gaps) == 0 {
		return Rhythm{Given: q.Period > 0, Luck: 1}
	}
	if q.Period > 0 {
		return at(gaps, q.Period, q)
	}
	r := at(gaps, search(gaps), q)
	if r.Period != usual {
		// Two quotas look as one of a fraction of their period, but their ends fit that less, or it is shorter than the gaps.
		two := at(gaps, usual, q)
		if two.Offset > 0 && (!r.likeQuota() || two.R > r.R+fits) || two.likeQuota() && r.outlasted(gaps) {
			return two
		}
	}
	return r
}

// fits is how much more of R a second phase has to bring than chance does.
const fits = 0.03

// outlasted reports whether most of the time is in gaps that take longer than the period, which is more than a quota does.
func (r Rhythm) outlasted(gaps []Gap) bool {
	var longer time.Duration
	for _, g := range gaps {
		if g.Length() > r.Period+r.Window {
			longer += g.Length()
		}
	}
	return longer > r.Time/2
}

// at is the rhythm at one period.
func at(gaps []Gap, period time.Duration, q Quotas) Rhythm {
	r := Rhythm{Period: period, Given: q.Period > 0, Levels: q.Levels, Window: window(period), Gaps: len(gaps), Weight: effective(gaps)}
	for _, g := range gaps {
		r.Time += g.Length()
	}
	trials := 1.0
	if !r.Given && period != usual {
		trials = float64((longest-shortest)/time.Millisecond) + 1
	}
	r.R = r.resultant(gaps)
	r.Luck = min(1, trials*math.Exp(-r.Weight*r.R*r.R)) // Rayleigh's p for each period that was tried
	r.Phase, r.Locked = densest(gaps, period, r.Window)
	// Where one phase explains the gaps and only one quota is known, a second phase is a neighbour's.
	two := r.withSecond(gaps)
	if r.Levels > 1 || !r.likeQuota() || r.Levels == 0 && two.R > r.R+fits {
		r = two
	}
	r.StartsAtOne, r.EndsAtOne = edges(gaps, r)
	return r
}

// search finds the period with the largest R. Fractions of the true period have almost its R, multiples of it none, and
// neighbours of it differ only when the observation is long: so of almost equal ones the rounder, then the longer wins.
func search(gaps []Gap) (best time.Duration) {
	rs := map[time.Duration]float64{}
	score := -1.0
	for period := shortest; period <= longest; period += time.Millisecond {
		rs[period] = Rhythm{Period: period}.resultant(gaps)
		if s := rs[period] + favour(period); s >= score {
			best, score = period, s
		}
	}
	// A program has rhythms of its own that divide that of its quota: Go checks every 10 ms which goroutine has run for too long.
	for period := longest / best * best; period > best; period -= best {
		if rs[period] >= 0.75*rs[best] {
			return period
		}
	}
	return best
}

// favour is what a period's R is raised by because people choose such periods.
func favour(period time.Duration) float64 {
	switch {
	case period == usual:
		return 0.03
	case round(period):
		return 0.015
	case period%(5*time.Millisecond) == 0:
		return 0.005
	}
	return 0
}

// round reports whether a period is one that someone may have written into a file.
func round(period time.Duration) bool {
	switch period / time.Millisecond {
	case 5, 10, 20, 25, 50, 100, 150, 200, 250:
		return period%time.Millisecond == 0
	}
	return false
}

// resultant is R = |Σ weight·exp(2πi·end/period)| ÷ Σ weight. With two refills in a period each has a circle of its own: the time
// from it to the next.
func (r Rhythm) resultant(gaps []Gap) float64 {
	var re, im, sum float64
	for _, g := range gaps {
		since, until := r.since(g.End)
		sin, cos := math.Sincos(2 * math.Pi * float64(since) / float64(since+until))
		w := g.weight()
		re, im, sum = re+w*cos, im+w*sin, sum+w
	}
	return math.Hypot(re, im) / sum
}

// since is how long before a time a refill was, and how long after it the next one is.
func (r Rhythm) since(t time.Duration) (since, until time.Duration) {
	since = phase(t-r.Phase, r.Period)
	switch {
	case r.Offset == 0:
		return since, r.Period - since
	case since < r.Offset:
		return since, r.Offset - since
	}
	return since - r.Offset, r.Period - since
}

// effective is (Σ weight)² ÷ Σ weight²: how many gaps there would be if all were equally long.
func effective(gaps []Gap) float64 {
	var sum, squares float64
	for _, g := range gaps {
		w := g.weight()
		sum, squares = sum+w, squares+w*w
	}
	return sum * sum / squares
}

// window is half the width of the phase: on a quiet machine ends are within 0.1 ms, on a busy one a thread waits for its CPU after the
// refill. A tenth of the period is the most that says something: a fifth of all ends is in it by chance.
func window(period time.Duration) time.Duration {
	return min(4*time.Millisecond, period/10)
}

// densest finds the window of the phase in which most gap time ends, and its share.
func densest(gaps []Gap, period, half time.Duration) (phase time.Duration, share float64) {
	type end struct {
		at     time.Duration
		weight float64
	}
	ends := make([]end, 0, 2*len(gaps))
	var sum float64
	for _, g := range gaps {
		w := float64(g.Length())
		ends, sum = append(ends, end{g.End % period, w}), sum+w
	}
	slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.at, b.at) })
	for _, e := range ends[:len(gaps)] { // once more, a period later: the window may lie across its edge
		ends = append(ends, end{e.at + period, e.weight})
	}
	var inside, most, moment, mostMoment float64 // moment: Σ weight·time, for the mean
	first := 0
	for _, e := range ends {
		inside, moment = inside+e.weight, moment+e.weight*float64(e.at)
		for e.at-ends[first].at > 2*half {
			inside -= ends[first].weight
			moment -= ends[first].weight * float64(ends[first].at)
			first++
		}
		if inside > most*(1+1e-9) {
			most, mostMoment = inside, moment
		}
	}
	return time.Duration(mostMoment/most) % period, min(1, most/sum)
}

// Ends says that a gap ends at a phase.
func (r Rhythm) Ends(g Gap) bool {
	if r.Period <= 0 {
		return false
	}
	since, until := r.since(g.End)
	return min(since, until) <= r.Window
}

// EndsFirst says that a gap ends at the phase of the first quota: one a period does.
func (r Rhythm) EndsFirst(g Gap) bool {
	r.Offset = 0
	return r.Ends(g)
}

// AtRefill is the rhythm with the phase of the refill. If most gaps run past it, and many of them by about as much, most end at a later
// phase. But most gap time is before a phase at the refill itself: none of a gap that ends before the phase is.
func (r Rhythm) AtRefill(gaps []Gap) Rhythm {
	const steps, clear = 50, 1.02
	frozen := func(r Rhythm) (sum float64) {
		for _, g := range r.CutAll(gaps) {
			sum += float64(g.Length())
		}
		return sum
	}
	best, most := r, clear*frozen(r)
	for step := range time.Duration(steps) {
		at := r
		at.Phase = phase(r.Phase+step*r.Period/steps, max(r.Period, 1))
		if sum := frozen(at); sum > most {
			best, most = at, sum
		}
	}
	return best
}

// CutAll takes from gaps what is after a refill in them: from then on the quota held nothing up. A gap without a refill in it is left out,
// since no quota ended it. In one with several of them, each period counts for as long as gaps mostly take.
func (r Rhythm) CutAll(gaps []Gap) (frozen []Gap) {
	if r.Period <= 0 {
		return gaps
	}
	var lengths []time.Duration
	for _, g := range gaps {
		if r.Ends(g) && g.Length() <= r.Period {
			lengths = append(lengths, g.Length())
		}
	}
	usual := r.Period
	if slices.Sort(lengths); len(lengths) > 0 {
		usual = lengths[len(lengths)/2]
	}
	for _, g := range gaps {
		end := g.End
		if !r.Ends(g) {
			since, _ := r.since(end)
			end -= since
		}
		from := len(frozen)
		for ; end-r.Period > g.Start && usual < r.Period; end -= r.Period {
			frozen = append(frozen, Gap{end - usual, end})
		}
		if end > g.Start {
			frozen = append(frozen, Gap{g.Start, end})
		}
		slices.Reverse(frozen[from:])
	}
	return frozen
}

// Chance is the share of gap time that ends at a phase if there is no rhythm.
func (r Rhythm) Chance() float64 {
	switch {
	case r.Period <= 0:
		return 0
	case r.Offset > 0:
		return float64(4*r.Window) / float64(r.Period)
	}
	return float64(2*r.Window) / float64(r.Period)
}

// Refills is the share of gap time that the refill of a quota ended: what ends at a phase, without what does so by
// chance.
func (r Rhythm) Refills() float64 {
	return max(0, (r.Locked-r.Chance())/(1-r.Chance()))
}

// A Cause is why a program stood still.
type Cause string

// The causes. Throttled is also said when other programs took a part of the time: see Verdict.Contended.
const (
	Throttled Cause = "throttled" // by a CPU quota
	Contended Cause = "contended" // other programs, or other machines on this host, had the CPU
	None      Cause = "none"      // it did not
	Unsure    Cause = "unsure"
)

// A Verdict is what the gaps of an observation come from. The shares are of its wall time; when the cause is unsure they
// are 0.
type Verdict struct {
	Cause     Cause
	Throttled float64
	Contended float64
	Neighbour bool   // contended at the rhythm of a quota, which is another group's
	Why       string // a sentence
	Doubt     string // why that is not sure; "": it is as sure as the observation
}

// The thresholds come from the simulations in freeze_test.go and from the traces and heartbeats of bench/trace on two
// CPUs: quotas had R from 0.85 to 0.99 on a quiet machine and from 0.57 on a busy one, other programs up to 0.17.
const (
	littleGap = 0.01  // of wall time: any machine stands still that much
	fewGaps   = 0.002 // of wall time: less is nothing, whatever its rhythm
	clearR    = 0.6   // a quota, and little else
	mixedR    = 0.4   // a quota and other programs
	rareLuck  = 1e-4
)

// Judge says what gaps with this rhythm come from. Trace and watch judge alike because both ask here. What the kernel has
// counted has the last word.
func (r Rhythm) Judge(wall time.Duration, k Kernel) Verdict {
	share := 0.0
	if wall > 0 {
		share = float64(r.Time) / float64(wall)
	}
	rhythm := fmt.Sprintf("%.0f %% of the time in %s ends at %s of %s (R %.2f)",
		100*r.Locked, quantity.Plural(r.Gaps, "standstill"), r.phases(), quantity.Duration(r.Period), r.R)
	rare := r.Luck < rareLuck
	switch {
	case share < fewGaps || share < littleGap && !rare:
		return Verdict{Cause: None, Why: fmt.Sprintf("it stood still for %.1f %% of the time", 100*share)}
	case rare && r.R >= mixedR && r.odd() && !k.Never():
		return Verdict{Cause: Unsure, Why: rhythm + ", which is an odd period for a quota: name the period if it is one"}
	case r.LikeQuota(wall):
		return r.judgeQuota(wall, share, k, rhythm)
	case !r.couldTell():
		return Verdict{Cause: Unsure, Why: rhythm + ": they are too few, or too unequal, to tell a rhythm from chance"}
	case rare && r.R >= mixedR/2 && !k.Never():
		return Verdict{Cause: Unsure, Why: rhythm + ": too much for chance and too little for a quota"}
	}
	return Verdict{Cause: Contended, Contended: share, Why: "the standstills have no rhythm: " + rhythm}
}

// LikeQuota reports whether gaps have the rhythm of a quota, no matter whose.
func (r Rhythm) LikeQuota(wall time.Duration) bool {
	return float64(r.Time) >= fewGaps*float64(wall) && r.likeQuota()
}

func (r Rhythm) likeQuota() bool {
	return r.Luck < rareLuck && r.R >= mixedR && r.Refills() >= 0.3 && !r.odd()
}

// phases says where standstills end.
func (r Rhythm) phases() string {
	if r.Offset > 0 {
		return "two phases, " + quantity.Duration(r.Offset) + " apart,"
	}
	return "one phase"
}

// odd: two programs that take turns on a CPU, a tick or a slice each, have a rhythm too: 8 ms at HZ=250. No one chooses such a period for a
// quota.
func (r Rhythm) odd() bool { return !r.Given && !round(r.Period) }

// judgeQuota says whose quota's rhythm the gaps have: the program's own, or that of a neighbour that it has to wait for.
func (r Rhythm) judgeQuota(wall time.Duration, share float64, k Kernel, rhythm string) Verdict {
	own := share * r.Refills()
	beside := Verdict{Cause: Contended, Contended: share, Neighbour: true, Why: rhythm}
	most, whose := k.Share(wall), r.Whose()
	switch {
	case k.Far:
		beside.Why += ", but its own limit is far above what it used: it waits for another group, which has a quota"
		return beside
	case k.Never():
		beside.Why += ", but it was throttled in no period: it waits for another group, which has a quota"
		return beside
	case most < littleGap:
		beside.Why += fmt.Sprintf(", but it was throttled for %.1f %% of the time at most: it waits for another group, which has a quota", 100*most)
		return beside
	case !k.Counts && whose == Neighbour:
		beside.Why += ", but they begin closer to one phase than they end, as beside another group that runs until it has used up its quota"
		beside.Doubt = "what the kernel counted, which would tell for sure, is not known"
		return beside
	case !k.Counts && whose == Either:
		return Verdict{Cause: Unsure, Why: rhythm + ", which may be that of its own quota, or of a neighbour's for which it has to wait"}
	}
	own = min(own, most)
	v := Verdict{Cause: Throttled, Throttled: own, Why: rhythm}
	if !k.Counts && r.lead() < sureLead {
		v.Doubt = "by their edges alone it may be the quota of a neighbour that is late itself; what the kernel counted is not known"
	}
	if r.Offset > 0 && r.Levels < 2 {
		v.Doubt = "they end as with two quotas, and no more than one is seen: the other may be a neighbour's"
	}
	if rest := share - v.Throttled; rest >= littleGap && own < 0.9*share {
		v.Contended = rest // less would be a busy loop's silence, or a thread that was late
	}
	return v
}

// couldTell: with that many gaps a quota would have been seen.
func (r Rhythm) couldTell() bool {
	return r.Luck < rareLuck || r.Weight*clearR*clearR > -math.Log(rareLuck)
}
