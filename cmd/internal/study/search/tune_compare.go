package search

import (
	"iter"
	"math"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
)

// This file compares two settings in a metric: by the log-ratios of their runs in the blocks that both ran in, and the
// noise of all settings together.

// The levels, one-sided. They were chosen by simulation; see TestTuneTruths, TestTuneShapes and TestTuneWorlds.
const (
	trigger  = 0.05   // of a gain that is worth a guard; shared by the candidates
	claim    = 0.0025 // of a gain after the guard; shared by the candidates
	trading  = 0.01   // at which a setting is said to be better or worse than another
	unlikely = 0.002  // at which one that is worse in a metric leaves the race as a trade
	hopeless = 0.2    // at which one that can no longer be better leaves the race
	unharmed = 0.013  // at which one that is advised is shown not to be worse
	safely   = 0.05   // at which one is said not to be worse
	perhaps  = 0.1    // at which one that is being guarded may go on
	interval = 0.018  // of each end of an interval that is called one of 95 %: looking repeatedly, and at the best, costs the rest
)

// fewestFreedom are the degrees of freedom without which nothing is dropped.
const fewestFreedom = 2

// A neighbour that was not seen moves a few pairs far: that shows from this many pairs on, as this much of the standard error.
const (
	strayPairs = 8
	strayed    = 0.5
)

// chain are the metrics that decide: the declared one alone, or those of Auto that are known, the tail first.
func (t *Tune) chain() []Metric {
	if t.config.Objective != Auto {
		return []Metric{t.config.Objective}
	}
	known := func(m Metric) bool {
		return slices.ContainsFunc(t.seen, func(o TuneObservation) bool { return o.Valid && o.measured(m) > 0 })
	}
	var chain []Metric
	for _, m := range []Metric{P99, Time, Throughput} {
		if known(m) {
			chain = append(chain, m)
			break
		}
	}
	// At a set rate all settings have the same throughput as long as they keep up, so it decides only where there is
	// nothing else.
	if known(CPU) {
		if len(chain) > 0 && chain[0] == Throughput {
			return []Metric{CPU}
		}
		chain = append(chain, CPU)
	}
	return chain
}

// last is the metric that decides where none before it does.
func (t *Tune) last() Metric {
	chain := t.chain()
	if len(chain) == 0 {
		return t.config.Objective
	}
	return chain[len(chain)-1]
}

// blind reports whether CPU time would decide alone because nothing is known of the tail. A user who has not declared CPU the objective
// must not be advised to trade an unknown latency for it.
func (t *Tune) blind() bool {
	return t.config.Objective == Auto && !t.config.Batch && !slices.Contains(t.chain(), P99)
}

// worth is the logarithm of the ratio from which on a difference in a metric counts.
func (t *Tune) worth(m Metric) float64 {
	if m == P99 {
		return math.Log1p(t.config.TailMargin)
	}
	return math.Log1p(t.config.Margin)
}

// allowed is the logarithm of the ratio up to which a setting is not worse: the tail's margin, and for metrics that are known much better
// twice the margin.
func (t *Tune) allowed(m Metric) float64 {
	return math.Log1p(allowed(m, t.config.Margin, t.config.TailMargin))
}

func allowed(m Metric, margin, tailMargin float64) float64 {
	if m == P99 {
		return tailMargin
	}
	return 2 * margin
}

// Allowed is by how much a setting may be worse in a metric and still be called not worse.
func (v *TuneVerdict) Allowed(m Metric) float64 { return allowed(m, v.Margin, v.TailMargin) }

// cost turns a log-ratio such that above 0 is worse.
func cost(m Metric, logRatio float64) float64 {
	if m == Throughput {
		return -logRatio
	}
	return logRatio
}

// both are the runs of two settings in the blocks that both ran in, in their order.
func both(a, b *arm) iter.Seq2[TuneObservation, TuneObservation] {
	return func(yield func(TuneObservation, TuneObservation) bool) {
		others := b.runs
		for _, o := range a.runs {
			for len(others) > 0 && others[0].Run.Block < o.Run.Block {
				others = others[1:]
			}
			if len(others) > 0 && others[0].Run.Block == o.Run.Block && !yield(o, others[0]) {
				return
			}
		}
	}
}

// common counts the blocks that both ran in.
func common(a, b *arm) (n int) {
	for range both(a, b) {
		n++
	}
	return n
}

// A spread is the noise of a metric: the standard deviation of its logarithm, from run to run of one setting within a
// block.
type spread struct {
	sd      float64
	freedom int // degrees of freedom; 0: nothing is known
}

// spread takes it from what is left of the runs' logarithms without that of their setting and that of their block.
func (t *Tune) spread(m Metric) spread {
	if s, ok := t.spreads[m]; ok {
		return s
	}
	type cell struct {
		arm, block int
		value      float64
	}
	var cells []cell
	for i, a := range t.arms {
		for _, o := range a.runs {
			if v := o.value(m); v > 0 {
				cells = append(cells, cell{i, o.Run.Block, math.Log(v)})
			}
		}
	}
	arms, blocks := make([]float64, len(t.arms)), make([]float64, t.block+1)
	ofArm, ofBlock := make([]float64, len(arms)), make([]float64, len(blocks)) // cells
	for _, c := range cells {
		ofArm[c.arm]++
		ofBlock[c.block]++
	}
	// The two are fitted in turns. With all cells there one turn is enough; with some missing it converges quickly.
	for range 30 {
		clear(arms)
		for _, c := range cells {
			arms[c.arm] += (c.value - blocks[c.block]) / ofArm[c.arm]
		}
		clear(blocks)
		for _, c := range cells {
			blocks[c.block] += (c.value - arms[c.arm]) / ofBlock[c.block]
		}
	}
	squares := 0.0
	for _, c := range cells {
		rest := c.value - arms[c.arm] - blocks[c.block]
		squares += rest * rest
	}
	used := func(counts []float64) (n int) {
		for _, count := range counts {
			n += int(min(count, 1))
		}
		return n
	}
	var s spread
	if len(cells) > 0 {
		s.freedom = max(0, len(cells)-used(ofArm)-used(ofBlock)+1)
	}
	if s.freedom > 0 {
		s.sd = math.Sqrt(squares / float64(s.freedom))
	}
	if t.spreads == nil {
		t.spreads = map[Metric]spread{}
	}
	t.spreads[m] = s
	return s
}

// A contrast is what a setting costs relative to another.
type contrast struct {
	pairs   int
	mean    float64 // logarithm of the typical ratio; above 0 it is worse
	error   float64 // its standard error
	freedom int
}

// contrast compares two settings: by the blocks that both ran in or, if there are too few, by those in which each ran with the current
// setting.
func (t *Tune) contrast(m Metric, a, b *arm) contrast {
	c := t.direct(m, a, b)
	if current := t.arm(t.current()); t.config.Abreast > 0 && !c.known() && a != b && a != current && b != current {
		if x, y := t.direct(m, a, current), t.direct(m, b, current); x.known() && y.known() {
			return contrast{min(x.pairs, y.pairs), x.mean - y.mean, math.Hypot(x.error, y.error), min(x.freedom, y.freedom)}
		}
	}
	return c
}

// direct compares two settings by the blocks that both ran in. The noise is that of all settings, or that of these two if it is clearly
// larger. Pairs that strayed move the mean, and hardly that of the middle half: what these two differ by is not known either.
func (t *Tune) direct(m Metric, a, b *arm) contrast {
	costs := logCosts(m, a, b)
	s := t.spread(m)
	c := contrast{pairs: len(costs), freedom: s.freedom}
	if c.pairs == 0 {
		return c
	}
	mean, own := sample.Moments(costs)
	sd := s.sd * math.Sqrt2
	if n := c.pairs - 1; n >= 3 && own > 1.5*sd {
		sd, c.freedom = own, n
	}
	c.mean, c.error = mean, sd/math.Sqrt(float64(c.pairs))
	if far := math.Abs(mean - sample.MiddleHalf(costs)); c.pairs >= strayPairs && far > strayed*c.error {
		c.error = math.Hypot(c.error, far)
	}
	return c
}

// logCosts are the log-ratios a ÷ b of the blocks in which both have a value, such that above 0 a is worse.
func logCosts(m Metric, a, b *arm) []float64 {
	var costs []float64
	for o, other := range both(a, b) {
		if x, y := o.value(m), other.value(m); x > 0 && y > 0 {
			costs = append(costs, cost(m, math.Log(x)-math.Log(y)))
		}
	}
	return costs
}

// known reports whether there is an interval at all.
func (c contrast) known() bool { return c.pairs >= 2 && c.freedom > 0 }

// below is the lower bound of the mean at a one-sided level, and above the upper one.
func (c contrast) below(level float64) float64 {
	if !c.known() {
		return math.Inf(-1)
	}
	return c.mean - sample.StudentQuantile(level, c.freedom)*c.error
}

func (c contrast) above(level float64) float64 {
	if !c.known() {
		return math.Inf(+1)
	}
	return c.mean + sample.StudentQuantile(level, c.freedom)*c.error
}
