package search

import (
	"fmt"
	"math"
	"slices"
)

// How the highest rate is looked for.
const (
	rampFactor = 1.5 // from one rate of the ramp to the next
	attempts   = 3   // windows that may be invalid in a row at one rate

	lowest, highest = 1e-3, 1e9 // rates that may be asked for
)

// A Config is where to look for the highest rate. The zero value is usable.
type Config struct {
	Start   float64 // the first rate, requests a second; 0: 10
	Ceiling float64 // no rate above this is tried; 0: ten million
	Floor   float64 // none below this; 0: 1, or Start where that is lower
}

// complete checks a Config and fills in what it leaves open.
func (c *Config) complete() error {
	for _, x := range []float64{c.Start, c.Ceiling, c.Floor} {
		if x != 0 && !(lowest <= x && x <= highest) { // NaN is neither
			return fmt.Errorf("looking for the highest rate: bad rate %v", x)
		}
	}
	if c.Start == 0 {
		c.Start = 10
		if c.Ceiling > 0 {
			c.Start = min(c.Start, c.Ceiling)
		}
		c.Start = max(c.Start, c.Floor)
	}
	if c.Ceiling == 0 {
		c.Ceiling = max(1e7, c.Start)
	}
	if c.Floor == 0 {
		c.Floor = min(1, c.Start)
	}
	if c.Start > c.Ceiling || c.Start < c.Floor {
		return fmt.Errorf("looking for the highest rate: can't start at %s, outside %s to %s",
			perSecond(c.Start), perSecond(c.Floor), perSecond(c.Ceiling))
	}
	return nil
}

// A Phase is what a step is for.
type Phase string

// The phases, in the order in which they come. Descend comes only where the first rate fails, and then in place of Ramp.
const (
	Ramp    Phase = "ramp"
	Descend Phase = "descend"
	Bisect  Phase = "bisect"
	Confirm Phase = "confirm"
	Done    Phase = "done"
)

// A Step is a window to be measured.
type Step struct {
	Rate  float64
	Phase Phase
}

// An Observation is a window that was measured.
type Observation struct {
	Rate  float64
	Held  bool // the objective was met
	Valid bool // false: the generator failed, not the server; Held says nothing then
}

// What is assumed of a window: how likely it holds falls with the rate as a logistic curve, around the limit that is looked for.
// Well below it some miss, by a neighbour or a hypervisor, and well above it a few hold.
const (
	blur     = 0.03 // the curve's scale, in logarithms: of the windows 6 % below the limit 88 % hold, but for badLuck
	badLuck  = 0.15
	goodLuck = 0.03
	memory   = 0.9 // what a window counts, with each that comes after it: the machine gets faster and slower
)

// How it goes on.
const (
	nearFactor  = 1.2  // from the first to the second rate, the first being a guess that rests on something
	apart       = 1.05 // the rates that are tried, once one has held and one missed
	narrow      = 1.15 // from where the limit is with 10 % to where it is with 90 %: what is left is to confirm that
	mostWindows = 60
)

// A Highest looks for the highest rate at which a server holds its objective. It can be stopped at any time, and has an answer
// then: between which rates the limit is.
//
// It ramps up until a window misses, or down until one holds. From then on it knows of each rate how likely that is the limit,
// given all windows so far, the last ones counting most, and tries the one of which it is even odds that the limit is above. So a
// window that misses by chance sets it back by one or two windows and misleads it no further, nor does a machine that was slower
// for a while. When it knows the limit to within some 15 % it takes turns between a rate that the server likely sustains and one
// that it likely does not, until three windows have held at the one and two missed at the other, and most of them.
//
// The state follows from the Config and the observations alone.
type Highest struct {
	config Config
	near   bool
	seen   []Observation
	step   Step
	beyond float64 // the rate at which the generator gave up; 0: it did not
}

// NewHighest begins a search. near says that Config.Start is believed to be near the limit: then the first step from it is a small one.
func NewHighest(c Config, near bool) (*Highest, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	return &Highest{config: c, near: near, step: Step{c.Start, Ramp}}, nil
}

// Next is the window to measure now. It stays the same until that is observed. False: the search is over.
func (h *Highest) Next() (Step, bool) { return h.step, h.step.Phase != Done }

// Left is how many windows there are at most.
func (h *Highest) Left() int {
	if h.step.Phase == Done {
		return 0
	}
	return mostWindows - len(h.seen)
}

// Stop ends the search: there is no time for more.
func (h *Highest) Stop() { h.step = Step{Phase: Done} }

// Observe takes what came of the window that Next asked for. An error means an observation that was not asked for; it changes nothing.
func (h *Highest) Observe(o Observation) error {
	if err := h.asked(o); err != nil {
		return err
	}
	h.seen = append(h.seen, o)
	h.step = h.following(o)
	return nil
}

// asked refuses an observation that was not asked for.
func (h *Highest) asked(o Observation) error {
	switch step, more := h.Next(); {
	case !more:
		return fmt.Errorf("observing %s: the search is over", perSecond(o.Rate))
	case o.Rate != step.Rate:
		return fmt.Errorf("observing %s: expected %s", perSecond(o.Rate), perSecond(step.Rate))
	}
	return nil
}

// following is the step after an observation.
func (h *Highest) following(last Observation) Step {
	held, missed := h.extremes()
	failed := tallyAt(h.seen, last.Rate).Failed()
	factor := rampFactor
	if h.near && last.Rate == h.config.Start {
		factor = nearFactor
	}
	switch {
	case len(h.seen) == mostWindows:
		return Step{Phase: Done}
	case h.inVain():
		h.beyond = last.Rate
		return Step{Phase: Done}
	case !last.Valid:
		return h.step
	case held > 0 && missed > 0:
		return h.between(held)
	case missed == 0 && held < h.config.Ceiling:
		return Step{min(round(held*factor), h.config.Ceiling), Ramp}
	case missed == 0:
		return h.confirm(held, 0)
	case failed < 2: // by chance, perhaps
		return h.step
	case missed > h.config.Floor:
		return Step{max(round(missed/factor), h.config.Floor), Descend}
	}
	return Step{Phase: Done}
}

// inVain reports whether the last windows, all at one rate, say nothing about the server.
func (h *Highest) inVain() bool {
	if len(h.seen) < attempts {
		return false
	}
	last := h.seen[len(h.seen)-attempts:]
	return !slices.ContainsFunc(last, func(o Observation) bool { return o.Valid || o.Rate != last[0].Rate })
}

// extremes are the highest rate at which a window held, and the lowest at which one missed. 0: none.
func (h *Highest) extremes() (held, missed float64) {
	for _, o := range h.seen {
		switch {
		case !o.Valid:
		case o.Held:
			held = max(held, o.Rate)
		case missed == 0:
			missed = o.Rate
		default:
			missed = min(missed, o.Rate)
		}
	}
	return held, missed
}

// between is the step once a window has held and one has missed.
func (h *Highest) between(held float64) Step {
	b := beliefIn(h.seen)
	if b.below(0.9)/b.below(0.1) > narrow {
		return Step{h.onGrid(min(b.below(0.5), held*rampFactor), math.Round), Bisect}
	}
	lower, upper := h.onGrid(b.below(0.25), math.Floor), h.onGrid(b.below(0.75), math.Ceil)
	if lower == upper {
		upper = 0
	}
	return h.confirm(lower, upper)
}

// confirm is a step at one of two rates, the lower of which must hold and the upper miss, until they do; upper 0: none.
func (h *Highest) confirm(lower, upper float64) Step {
	l, u := tallyAt(h.seen, lower), tallyAt(h.seen, upper)
	switch {
	case l.Held < enough && (upper == 0 || l.Of <= u.Of || u.Failed() >= 2):
		return Step{lower, Confirm}
	case l.Held < enough || upper > 0 && (u.Failed() < 2 || u.Failed() <= u.Held):
		return Step{upper, Confirm}
	}
	return Step{Phase: Done}
}

// onGrid makes of a rate one of those that are tried, so that windows gather at few of them.
func (h *Highest) onGrid(rate float64, to func(float64) float64) float64 {
	steps := to(math.Log(rate/h.config.Start)/math.Log(apart) + 1e-9)
	return min(max(round(h.config.Start*math.Pow(apart, steps)), h.config.Floor), h.config.Ceiling)
}

// Answer says what is known by now: the highest rate at which half of the windows held, if possible of enough, and that the limit is likely
// above; and the lowest rate above it at which half missed.
func (h *Highest) Answer() Answer {
	a := newAnswer(h.seen, h.step.Phase == Done)
	a.Beyond = h.beyond
	b := beliefIn(h.seen)
	for _, o := range h.seen {
		t := tallyAt(h.seen, o.Rate)
		was := a.Sustained
		better := t.Held >= enough && was.Held < enough || (t.Held >= enough) == (was.Held >= enough) && t.Rate > was.Rate
		if better && t.Held > 0 && t.Held >= t.Failed() && b.above(t.Rate) > 0.5 {
			a.Sustained = t
		}
	}
	for _, o := range h.seen {
		t := tallyAt(h.seen, o.Rate)
		if t.Rate > a.Sustained.Rate && t.Of > 0 && t.Failed() >= t.Held && (a.Failing.Rate == 0 || t.Rate < a.Failing.Rate) {
			a.Failing = t
		}
	}
	switch {
	case !a.Done:
		a.Verdict = Unknown
	case a.Sustained.Held >= enough && a.Failing.Rate > 0:
		a.Verdict = Sustains
	case h.beyond > 0:
		a.Verdict = Generator
	case a.Sustained.Held >= enough:
		a.Verdict = AtLeast
	case a.Sustained.Rate > 0 || a.Failing.Rate == 0:
		a.Verdict = Unconfirmed
	default:
		a.Verdict = None
	}
	return a
}

// A belief is how likely each rate is the limit. Its points are apart by the same factor.
type belief struct {
	from    float64 // logarithm
	weights []float64
}

const fine = 0.01 // in logarithms

// beliefIn begins with all rates equally likely, up to where the ramp could have gone from those that were tried.
func beliefIn(seen []Observation) belief {
	var b belief
	low, high := math.Inf(+1), math.Inf(-1)
	for _, o := range seen {
		low, high = min(low, math.Log(o.Rate)), max(high, math.Log(o.Rate))
	}
	b.from = low - math.Log(rampFactor)
	for at := b.from; at <= high+math.Log(rampFactor); at += fine {
		weight, counts := 0.0, 1.0
		for _, o := range slices.Backward(seen) {
			holds := goodLuck + (1-badLuck-goodLuck)/(1+math.Exp((math.Log(o.Rate)-at)/blur))
			switch {
			case !o.Valid:
			case o.Held:
				weight += counts * math.Log(holds)
			default:
				weight += counts * math.Log(1-holds)
			}
			counts *= memory
		}
		b.weights = append(b.weights, math.Exp(weight))
	}
	sum := 0.0
	for _, w := range b.weights {
		sum += w
	}
	for i := range b.weights {
		b.weights[i] /= sum
	}
	return b
}

// below is the rate below which the limit is, with a probability.
func (b belief) below(probability float64) float64 {
	for i, w := range b.weights {
		if probability -= w; probability <= 0 {
			return math.Exp(b.from + float64(i)*fine)
		}
	}
	return math.Exp(b.from + float64(len(b.weights))*fine)
}

// above is the probability that the limit is above a rate.
func (b belief) above(rate float64) (probability float64) {
	for i, w := range b.weights {
		if b.from+float64(i)*fine >= math.Log(rate) {
			probability += w
		}
	}
	return probability
}
