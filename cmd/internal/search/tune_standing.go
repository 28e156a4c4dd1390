package search

import (
	"cmp"
	"math"
	"slices"
)

// A Standing is how a candidate stands beside the current setting, by the exploration so far. It is for a display while the
// search runs, and claims nothing.
type Standing struct {
	Candidate
	Current bool             // it is the current setting
	Runs    int              // of the exploration, those that were valid
	Broken  int              // of these, those that broke the SLO
	Effects []StandingEffect // of the metrics that are known
	Dropped *Drop            // nil: it is in the race
}

// A StandingEffect is a metric of a candidate.
type StandingEffect struct {
	Metric Metric
	Median float64
	Ratio  float64 // to the current setting, of a typical block that both have run in; 0: not known
	Lo     float64 // its 95 % interval if the noise is normal; both 0: fewer than three blocks
	Hi     float64
}

// Standings ranks the candidates: the leader first, then those in the race by the rules that have found the leader, then
// those that were dropped, the last of them first.
func (t *Tune) Standings() []Standing {
	leader := t.arm(t.leading())
	ranked := []*arm{leader}
	left := slices.DeleteFunc(t.alive(), func(a *arm) bool { return a == leader })
	for len(left) > 0 {
		next := t.best(left)
		if next == nil { // none of them has run
			slices.SortFunc(left, func(a, b *arm) int { return t.simpler(a.Candidate, b.Candidate) })
			ranked = append(ranked, left...)
			break
		}
		ranked = append(ranked, next)
		left = slices.DeleteFunc(left, func(a *arm) bool { return a == next })
	}
	var dropped []*arm
	for _, a := range t.arms {
		if a.dropped != nil {
			dropped = append(dropped, a)
		}
	}
	slices.SortFunc(dropped, func(a, b *arm) int { return cmp.Compare(b.nth, a.nth) })

	var standings []Standing
	for _, a := range append(ranked, dropped...) {
		broken, of := t.brokenRuns(a)
		standings = append(standings, Standing{
			Candidate: a.Candidate, Current: a.Candidate == t.current(), Runs: of, Broken: broken, Dropped: a.dropped,
			Effects: t.effects(a),
		})
	}
	return standings
}

func (t *Tune) effects(a *arm) []StandingEffect {
	var effects []StandingEffect
	for _, m := range deciding {
		values := a.values(m)
		if len(values) == 0 {
			continue
		}
		e := StandingEffect{Metric: m, Median: median(values)}
		if a.Candidate == t.current() {
			e.Ratio = 1
		} else {
			e.compare(logCosts(m, a, t.arm(t.current())))
		}
		effects = append(effects, e)
	}
	// No throttling at all is a figure as well, where another candidate has some.
	throttles := func(a *arm) bool { return len(a.values(Throttled)) > 0 }
	if len(a.runs) > 0 && slices.ContainsFunc(t.arms, throttles) {
		var shares []float64
		for _, o := range a.runs {
			shares = append(shares, o.Throttled)
		}
		effects = append(effects, StandingEffect{Metric: Throttled, Median: median(shares)})
	}
	return effects
}

// values are those of a metric that are known.
func (a *arm) values(m Metric) []float64 {
	var values []float64
	for _, o := range a.runs {
		if v := o.value(m); v > 0 {
			values = append(values, v)
		}
	}
	return values
}

// Two-sided 95 % quantiles of Student's distribution with 2 degrees of freedom and more; the last does for all above.
var student975 = []float64{4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179}

// compare sets the ratio and its interval. The ratio is the estimate that the race is run by, the interval that of the mean.
// Where the two are apart, as with a run that is far from the others, the interval is made to have both in it.
func (e *StandingEffect) compare(costs []float64) {
	typical, ok := estimate(costs)
	if !ok {
		return
	}
	e.Ratio = math.Exp(cost(e.Metric, typical))
	n := len(costs)
	if n < 3 {
		return
	}
	mean, sd := moments(costs)
	off := student975[min(n-3, len(student975)-1)] * sd / math.Sqrt(float64(n))
	lo, hi := math.Exp(cost(e.Metric, mean-off)), math.Exp(cost(e.Metric, mean+off))
	e.Lo, e.Hi = min(lo, hi, e.Ratio), max(lo, hi, e.Ratio)
}

// Noise is the standard deviation of the logarithm, from run to run of one setting within a block, of those deciding
// metrics of which it is known: from the pilot, or else from the runs so far.
func (t *Tune) Noise() map[Metric]float64 {
	noise := map[Metric]float64{}
	for _, m := range deciding {
		if sd := t.noise(m); sd > 0 {
			noise[m] = sd
		}
	}
	return noise
}
