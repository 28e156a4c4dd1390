package load

import (
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// A schedule tells when requests are due. It depends on the plan alone, not on the server, and the same plan gives the
// same times.
//
// A number of Poisson arrivals in a given time are that many independent points, sorted: so the plan is kept exactly, 500
// requests a second for 30 seconds being 15,000, and the gaps are still those of users who know nothing of each other.
// The points are made in order by adding up exponential gaps, and scaled so that their sum comes out right.
type schedule struct {
	arrivals Arrivals
	rate     float64
	left     int64 // -1: no end
	sent     int64
	at       float64 // seconds
	scale    float64
	gaps     *rand.Rand
}

const arrivalStream = 1

// newSchedule spreads n requests over n/rate seconds; n < 0: without end.
func newSchedule(arrivals Arrivals, rate float64, n int64, seed uint64) *schedule {
	s := &schedule{arrivals: arrivals, rate: rate, left: n, scale: 1 / rate, gaps: rand.New(rand.NewPCG(seed, arrivalStream))}
	if arrivals != Constant && n >= 0 {
		sum := 0.0
		for range n + 1 {
			sum += s.gaps.ExpFloat64()
		}
		s.scale = float64(n) / rate / sum
		s.gaps = rand.New(rand.NewPCG(seed, arrivalStream))
	}
	return s
}

// next returns when the next request is due, from the start.
func (s *schedule) next() (at time.Duration, ok bool) {
	if s.left == 0 {
		return 0, false
	}
	if s.left > 0 {
		s.left--
	}
	if s.arrivals == Constant {
		s.at = float64(s.sent) / s.rate
	} else {
		s.at += s.gaps.ExpFloat64() * s.scale
	}
	s.sent++
	return time.Duration(s.at * float64(time.Second)), true
}

// planned is how many requests an open loop sends; -1: no end.
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
