package search

import (
	"fmt"
	"math"
)

// How the highest rate is looked for.
const (
	rampFactor = 1.5  // from one rate of the ramp to the next
	precision  = 1.05 // the bisection ends when the lowest rate that failed is within this factor of the highest that held
	attempts   = 3    // windows that may be invalid in a row at one rate

	lowest, highest = 1e-3, 1e9 // rates that anybody may ask for
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
		return fmt.Errorf("looking for the highest rate: it cannot start at %s, outside %s to %s",
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

// A MaxRate finds roughly the highest rate at which a server holds its objective, in few windows.
//
// It ramps up by half until a rate fails, and bisects between the highest rate that held and the lowest that failed until they
// are 5 % apart. That is not confirmed: a Highest takes longer and is sure.
//
// A rate of the ramp fails when two windows in a row violate the objective, and the second look is at the same rate.
// A single violation may be chance: a neighbour, a garbage collection, the queue that the window before has left. Going
// on to the next rate instead would take as many windows and would leave open which of the two rates was too much.
// In the bisection a rate holds only if two windows in a row do, and the first violation ends it: near the limit windows
// hold or fail by chance, and what is looked for is a rate that holds always.
//
// The state follows from the Config and the observations alone.
type MaxRate struct {
	config Config
	seen   []Observation

	phase Phase
	rate  float64 // that is asked for now

	// Of the windows at rate, since it was asked for.
	held, violated, invalid int

	best   float64 // the highest rate that held; 0: none
	worst  float64 // the lowest that failed; 0: none
	beyond float64 // the lowest rate at which the generator gave up; 0: it did not
}

// NewMaxRate begins a search.
func NewMaxRate(c Config) (*MaxRate, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	return &MaxRate{config: c, phase: Ramp, rate: c.Start}, nil
}

// Seen are the observations so far. With the Config they are the whole state.
func (m *MaxRate) Seen() []Observation { return append([]Observation(nil), m.seen...) }

// Next is the window to measure now. It stays the same until that is observed. False: the search is over.
func (m *MaxRate) Next() (Step, bool) {
	if m.phase == Done {
		return Step{Phase: Done}, false
	}
	return Step{Rate: m.rate, Phase: m.phase}, true
}

// Observe takes what came of the window that Next asked for. An error is an observation that nobody asked for; it changes
// nothing.
func (m *MaxRate) Observe(o Observation) error {
	if err := asked(m, o); err != nil {
		return err
	}
	m.seen = append(m.seen, o)
	switch {
	case !o.Valid:
		m.invalid++
	case o.Held:
		m.invalid = 0
		m.held++
	default:
		m.invalid = 0
		m.violated++
	}
	switch {
	case m.invalid >= attempts:
		m.beyond = m.rate
		m.phase = Done
	case !o.Valid: // again
	default:
		m.judge()
	}
	return nil
}

// asked refuses an observation that a search has not asked for.
func asked(s interface{ Next() (Step, bool) }, o Observation) error {
	switch step, more := s.Next(); {
	case !more:
		return fmt.Errorf("observing %s: the search is over", perSecond(o.Rate))
	case o.Rate != step.Rate:
		return fmt.Errorf("observing %s: asked for was %s", perSecond(o.Rate), perSecond(step.Rate))
	}
	return nil
}

// judge ends the look at a rate if it has seen enough, and goes on to the next.
func (m *MaxRate) judge() {
	switch {
	case m.phase == Bisect && m.violated == 1, m.violated == 2:
		m.worst = m.rate
	case m.phase == Bisect && m.held < 2:
		return
	case m.held > 0:
		m.best = m.rate
	default:
		return
	}
	m.advance()
}

// advance goes to the next rate, given the highest that held and the lowest that failed.
func (m *MaxRate) advance() {
	switch {
	case m.worst == 0 && m.best >= m.config.Ceiling:
		m.phase = Done
	case m.worst == 0:
		m.look(Ramp, min(round(m.best*rampFactor), m.config.Ceiling))
	case m.best == 0 && m.worst <= m.config.Floor:
		m.phase = Done
	case m.best == 0:
		m.look(Descend, max(round(m.worst/rampFactor), m.config.Floor))
	case m.worst/m.best > precision:
		m.look(Bisect, round(math.Sqrt(m.worst*m.best)))
	default:
		m.phase = Done
	}
}

func (m *MaxRate) look(p Phase, rate float64) {
	m.phase, m.rate = p, rate
	m.held, m.violated, m.invalid = 0, 0, 0
}

// Answer says what is known by now.
func (m *MaxRate) Answer() Answer {
	a := newAnswer(m.seen, m.phase == Done)
	a.Beyond, a.Sustained, a.Failing = m.beyond, tallyAt(m.seen, m.best), tallyAt(m.seen, m.worst)
	switch {
	case m.beyond > 0:
		a.Verdict = Generator
	case a.Done && m.best == 0:
		a.Verdict = None
	case a.Done:
		a.Verdict = Unconfirmed
	default:
		a.Verdict = Unknown
	}
	return a
}
