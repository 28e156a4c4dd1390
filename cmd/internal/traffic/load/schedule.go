package load

import (
	"math"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
)

// A shape is how the requests of an open loop are spread over time.
type shape struct {
	arrivals Arrivals
	rate     float64 // on average
	from     float64 // the rate at the beginning, from which it changes evenly to 2*rate-from; 0: it does not change
	burst    int     // how many are due at once; 0: one
	rush     int64   // how many of the first come at once, at the start, as after a pause
	times    []time.Duration
}

// A schedule says when requests are due. It depends on the plan alone, not on the server, and the same plan gives the
// same times.
//
// A number of Poisson arrivals in a given time are that many independent points, sorted: so the plan is kept exactly, 500
// requests a second for 30 seconds being 15,000, and the gaps are still those of users who know nothing of each other.
// The points are made in order by adding up exponential gaps, and scaled so that their sum comes out right.
type schedule struct {
	shape
	left   int64 // -1: no end
	sent   int64
	at     float64 // seconds, as if the rate did not change
	length float64 // seconds, where there is an end
	scale  float64
	gaps   *rand.Rand
}

const arrivalStream = 1

// newSchedule spreads n requests over n/rate seconds; n < 0: without end, and so at one rate.
func newSchedule(s shape, n int64, seed uint64) *schedule {
	s.burst = max(1, s.burst)
	d := &schedule{shape: s, left: n, length: float64(n) / s.rate, scale: float64(s.burst) / s.rate, gaps: rand.New(rand.NewPCG(seed, arrivalStream))}
	if s.arrivals != Constant && s.arrivals != Recorded && n >= 0 {
		sum := 0.0
		for range (n+int64(s.burst)-1)/int64(s.burst) + 1 {
			sum += d.gaps.ExpFloat64()
		}
		d.scale = d.length / sum
		d.gaps = rand.New(rand.NewPCG(seed, arrivalStream))
	}
	return d
}

// next returns when the next request is due, from the start.
func (s *schedule) next() (at time.Duration, ok bool) {
	if s.left == 0 {
		return 0, false
	}
	if s.left > 0 {
		s.left--
	}
	switch {
	case s.arrivals == Recorded:
		at = s.times[s.sent]
		s.sent++
		return at, true
	case s.sent%int64(s.burst) > 0: // with the one before
	case s.arrivals == Constant:
		s.at = float64(s.sent) / s.rate
	default:
		s.at += s.gaps.ExpFloat64() * s.scale
	}
	if s.sent++; s.sent <= s.rush {
		return 0, true
	}
	return time.Duration(s.changed(s.at) * float64(time.Second)), true
}

// changed is when as many requests are due at a rate that changes as at the average rate are at a time.
func (s *schedule) changed(at float64) float64 {
	if s.from == 0 || s.from == s.rate {
		return at
	}
	more := 2 * (s.rate - s.from)
	return s.length * (math.Sqrt(s.from*s.from+2*more*s.rate*at/s.length) - s.from) / more
}

// main is the schedule of what is measured, warmUp that of the same load before: as it begins.
func (p *Plan) main() *schedule {
	return newSchedule(shape{p.Arrivals, p.Rate, p.From, p.Burst, 0, p.Times}, p.planned(), p.Seed)
}

func (p *Plan) warmUp() *schedule {
	s := shape{arrivals: p.Arrivals, rate: p.Rate, burst: p.Burst, rush: p.Rush}
	if p.From > 0 {
		s.rate = p.From
	}
	if s.arrivals == Recorded {
		s.arrivals = Poisson
	}
	return newSchedule(s, planned(s.rate, p.WarmUp, 0), p.Seed+1)
}

// Record has the requests arrive as they once did, at times that are not all the same: for as long as that took, unless the plan says how
// long, or how many. The rate is what that comes to.
func (p *Plan) Record(times []time.Duration) {
	p.Arrivals, p.Times = Recorded, times
	last := times[len(times)-1]
	gap := last / time.Duration(len(times)-1)
	if p.Duration == 0 && p.Requests == 0 {
		p.Duration = last + gap
	}
	n, length := p.planned(), p.Duration
	if ends := times[n-1] + gap; length == 0 || p.Requests > 0 && ends < length {
		length = ends
	}
	p.Rate = float64(n) / max(length, time.Millisecond).Seconds()
}

// planned is how many requests are sent.
func (p *Plan) planned() int64 {
	n := planned(p.Rate, p.Duration, p.Requests)
	if p.Arrivals != Recorded {
		return n
	}
	n = int64(len(p.Times))
	if p.Duration > 0 {
		n = int64(sort.Search(len(p.Times), func(i int) bool { return p.Times[i] >= p.Duration }))
	}
	if p.Requests > 0 {
		n = min(n, p.Requests)
	}
	return n
}

// Highest is the highest rate that the load comes to.
func (p *Plan) Highest() float64 {
	if p.From > 0 {
		return max(p.From, quantity.EndRate(p.Rate, p.From))
	}
	return p.Rate
}

// planned is how many requests an open loop of a rate sends; -1: no end.
func planned(rate float64, duration time.Duration, requests int64) int64 {
	n := int64(-1)
	if duration > 0 {
		n = int64(math.Round(rate * duration.Seconds()))
	}
	if requests > 0 && (n < 0 || requests < n) {
		n = requests
	}
	return n
}

// A choice picks targets by their weights.
type choice struct {
	upTo []float64 // weights, added up
	rand *rand.Rand
}

const targetStream = 2

func newChoice(targets []Target, seed uint64) *choice {
	c := &choice{rand: rand.New(rand.NewPCG(seed, targetStream))}
	sum := 0.0
	for _, t := range targets {
		sum += weight(t)
		c.upTo = append(c.upTo, sum)
	}
	return c
}

func weight(t Target) float64 {
	if t.Weight == 0 {
		return 1
	}
	return t.Weight
}

func (c *choice) next() int {
	last := len(c.upTo) - 1
	if last == 0 {
		return 0
	}
	x := c.rand.Float64() * c.upTo[last]
	return min(last, sort.Search(last, func(i int) bool { return c.upTo[i] > x }))
}
