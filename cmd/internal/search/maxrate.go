package search

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// How the highest rate is looked for.
const (
	rampFactor = 1.5  // from one rate of the ramp to the next
	precision  = 1.05 // the bisection ends where the lowest rate that failed is so much above the highest that held
	rounds     = 5    // of the confirmation, if nothing else is asked for
	margin     = 0.1  // what is confirmed are R, (1−margin)·R and (1+margin)·R
	attempts   = 3    // windows that may be invalid on end at one rate
	reopenings = 1    // how often the search goes on where the confirmation refutes it

	lowest, highest = 1e-3, 1e9 // rates that anybody may ask for
)

// A Config is where to look for the highest rate. The zero value is usable.
type Config struct {
	Start   float64 // the first rate, requests a second; 0: 10
	Ceiling float64 // no rate above this is tried; 0: ten million
	Floor   float64 // none below this; 0: 1, or Start where that is lower
	Rounds  int     // of the confirmation, at least 3; 0: 5; negative: none, and the answer is unconfirmed
	Seed    uint64  // of the order within the confirmation
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
	Left  int // about so many windows are left, this one included, if the limit is near
}

// An Observation is a window that was measured.
type Observation struct {
	Rate  float64
	Held  bool // the objective was met
	Valid bool // false: the generator failed, not the server; Held says nothing then
}

// A MaxRate looks for the highest rate at which a server holds its objective.
//
// It ramps up by half until a rate fails, bisects between the highest rate that held and the lowest that failed until they
// are 5 % apart, and then confirms: the highest that held, R, a tenth less and a tenth more, five times each, in mixed
// order. The confirmation is what the answer rests on, not the search, which has picked R because it looked good once.
// Where it shows that 1.1·R holds as well, a disturbance has misled the search, which goes on from there, once. Who only
// wants to know about where the limit is may do without it.
//
// A rate of the ramp fails when two windows in a row violate the objective, and the second look is at the same rate.
// A single violation may be chance: a neighbour, a garbage collection, the queue that the window before has left. Going
// on to the next rate instead would take as many windows and would leave open which of the two rates was too much.
// In the bisection a rate holds only if two windows in a row do, and the first violation ends it: near the limit windows
// hold or fail by chance, and what is looked for is a rate that holds always. Of four rules that were simulated this one
// ends undecided least often.
//
// The state follows from the Config and the observations alone: who keeps those can rebuild it by Replay.
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

	confirmed []Tally // by rate, highest first
	order     []int   // of the confirmation's windows that are left, indexes of confirmed
	reopened  int
}

// NewMaxRate begins a search.
func NewMaxRate(c Config) (*MaxRate, error) {
	for _, x := range []float64{c.Start, c.Ceiling, c.Floor} {
		if x != 0 && !(lowest <= x && x <= highest) { // NaN is neither
			return nil, fmt.Errorf("looking for the highest rate: bad rate %v", x)
		}
	}
	if 0 < c.Rounds && c.Rounds < enough || c.Rounds > 1000 {
		return nil, fmt.Errorf("looking for the highest rate: %d rounds: there must be %d to 1000, or none", c.Rounds, enough)
	}
	if c.Rounds == 0 {
		c.Rounds = rounds
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
		return nil, fmt.Errorf("looking for the highest rate: it cannot start at %s, outside %s to %s",
			perSecond(c.Start), perSecond(c.Floor), perSecond(c.Ceiling))
	}
	return &MaxRate{config: c, phase: Ramp, rate: c.Start}, nil
}

// Replay rebuilds a search from its observations.
func Replay(c Config, seen []Observation) (*MaxRate, error) {
	m, err := NewMaxRate(c)
	for _, o := range seen {
		if err == nil {
			err = m.Observe(o)
		}
	}
	return m, err
}

// Seen are the observations so far. With the Config they are the whole state.
func (m *MaxRate) Seen() []Observation { return append([]Observation(nil), m.seen...) }

// Next is the window to measure now. It stays the same until that is observed. False: the search is over.
func (m *MaxRate) Next() (Step, bool) {
	if m.phase == Done {
		return Step{Phase: Done}, false
	}
	return Step{Rate: m.rate, Phase: m.phase, Left: m.left()}, true
}

// Observe takes what came of the window that Next asked for. An error is an observation that nobody asked for; it changes
// nothing.
func (m *MaxRate) Observe(o Observation) error {
	switch {
	case m.phase == Done:
		return fmt.Errorf("observing %s: the search is over", perSecond(o.Rate))
	case o.Rate != m.rate:
		return fmt.Errorf("observing %s: asked for was %s", perSecond(o.Rate), perSecond(m.rate))
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
	case m.phase == Confirm:
		m.confirm(o)
	case m.invalid >= attempts:
		m.beyond = m.rate
		m.phase = Done
	case !o.Valid: // again
	default:
		m.judge()
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
		m.startConfirm()
	case m.worst == 0:
		m.look(Ramp, min(round(m.best*rampFactor), m.config.Ceiling))
	case m.best == 0 && m.worst <= m.config.Floor:
		m.phase = Done
	case m.best == 0:
		m.look(Descend, max(round(m.worst/rampFactor), m.config.Floor))
	case m.worst/m.best > precision:
		m.look(Bisect, round(math.Sqrt(m.worst*m.best)))
	default:
		m.startConfirm()
	}
}

func (m *MaxRate) look(p Phase, rate float64) {
	m.phase, m.rate = p, rate
	m.held, m.violated, m.invalid = 0, 0, 0
}

// startConfirm lays out the windows of the confirmation: every round has every rate once, in an order of its own, so that
// a disturbance or a trend does not meet one rate only. Without a confirmation the search is over.
func (m *MaxRate) startConfirm() {
	if m.config.Rounds < 0 {
		m.phase = Done
		return
	}
	m.confirmed = nil
	for _, rate := range []float64{
		min(round(m.best*(1+margin)), m.config.Ceiling),
		m.best,
		max(round(m.best*(1-margin)), m.config.Floor),
	} {
		if n := len(m.confirmed); n == 0 || rate < m.confirmed[n-1].Rate {
			m.confirmed = append(m.confirmed, Tally{Rate: rate})
		}
	}
	random := rand.New(rand.NewPCG(m.config.Seed, uint64(m.reopened)))
	for range m.config.Rounds {
		m.order = append(m.order, random.Perm(len(m.confirmed))...)
	}
	m.look(Confirm, m.confirmed[m.order[0]].Rate)
}

// confirm counts a window of the confirmation. A rate that the generator can't keep up is dropped: the others may do.
func (m *MaxRate) confirm(o Observation) {
	at := m.order[0]
	switch {
	case o.Valid:
		m.confirmed[at].add(o.Held)
		m.order = m.order[1:]
	case m.invalid < attempts:
		return
	default:
		if m.beyond == 0 || m.rate < m.beyond {
			m.beyond = m.rate
		}
		left := m.order[:0]
		for _, i := range m.order {
			if i != at {
				left = append(left, i)
			}
		}
		m.order = left
	}
	if len(m.order) > 0 {
		m.look(Confirm, m.confirmed[m.order[0]].Rate)
		return
	}
	m.phase = Done
	if _, found, upper := m.tallies(); found.sustained() && upper.sustained() && m.reopened < reopenings {
		m.reopened++
		m.best, m.worst = upper.Rate, 0
		m.advance()
	}
}

// tallies are the confirmation's: of a tenth less, of what was found, and of a tenth more.
func (m *MaxRate) tallies() (lower, found, upper Tally) {
	for _, t := range m.confirmed {
		switch {
		case t.Rate > m.best:
			upper = t
		case t.Rate == m.best:
			found = t
		default:
			lower = t
		}
	}
	return lower, found, upper
}

// left guesses how many windows are still to come, as if the limit were met now.
func (m *MaxRate) left() int {
	confirming := 3 * max(0, m.config.Rounds)
	switch m.phase {
	case Confirm:
		return len(m.order)
	case Bisect:
		return 2*halvings(m.worst/m.best) - m.held + confirming
	default:
		return 2 - m.violated + 2*halvings(rampFactor) + confirming
	}
}

// halvings counts the steps of a bisection until two rates that are apart by this factor are near enough.
func halvings(apart float64) int {
	steps := math.Ceil(math.Log2(math.Log(apart) / math.Log(precision)))
	return max(0, int(steps))
}
