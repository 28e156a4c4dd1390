package search

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestHardLimits: where windows hold up to a rate and never above, the answer is within 5 % of it, always.
func TestHardLimits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	most := 0
	for i := range 5000 {
		limit := math.Exp(random.Float64()*math.Log(1e5)) * 1.5 // 1.5 … 150 000
		c := Config{Seed: uint64(i)}
		if i%2 == 1 {
			c.Start = round(math.Exp(random.Float64() * math.Log(1e5)))
		}
		m := search(t, c, func(s Step) (bool, bool) { return s.Rate <= limit, random.Float64() < 0.95 })
		a := m.Answer()
		if a.Verdict == Generator && a.Invalid > 0 {
			continue // three invalid windows on end are that
		}
		if a.Verdict != Sustains || a.Sustained.Rate > limit || a.Sustained.Rate < limit/precision/1.001 || a.Failing.Rate <= limit {
			t.Fatalf("limit %.2f: %+v", limit, a)
		}
		most = max(most, a.Windows-a.Invalid)
	}
	t.Logf("at most %d valid windows", most)
	if most > 2*29+10+15 { // from 150 000 down to 1.5 in 29 steps, five halvings, the confirmation
		t.Errorf("up to %d windows", most)
	}
}

// TestNoisyLimits: where a window holds with a probability that falls with the rate as a logistic curve, the answer is
// near the rate at which nearly all hold. What is bounded here is what a user feels: how far off, how often undecided,
// how long. Width is the scale of the curve in logarithms: with 0.02 nine in ten windows hold 4 % below the middle.
func TestNoisyLimits(t *testing.T) {
	for _, s := range []struct {
		width, hiccup float64 // hiccup: probability that a window fails whatever the rate
		undecided     float64 // at most this share
		off           float64 // root mean square of the relative error of what is said to be sustained, at most
		held          float64 // mean probability that a window holds at what is said to be sustained, at least
	}{
		{0.005, 0, 0.01, 0.05, 0.93},
		{0.02, 0, 0.03, 0.09, 0.87},
		{0.05, 0, 0.32, 0.12, 0.78},
		{0.005, 0.02, 0.03, 0.06, 0.90},
		{0.02, 0.02, 0.08, 0.09, 0.85},
	} {
		random := rand.New(rand.NewPCG(5, 6))
		const searches = 3000
		var said, undecided, windows int
		var squares, bias, held float64
		for i := range searches {
			middle := math.Exp(4 + 6*random.Float64())
			holds := func(rate float64) float64 {
				return (1 - s.hiccup) / (1 + math.Exp(math.Log(rate/middle)/s.width))
			}
			m := search(t, Config{Seed: uint64(i)}, func(st Step) (bool, bool) {
				return random.Float64() < holds(st.Rate), true
			})
			a := m.Answer()
			windows += a.Windows
			switch a.Verdict {
			case Sustains, AtLeast:
				off := math.Log(a.Sustained.Rate / middle)
				said, bias, squares, held = said+1, bias+off, squares+off*off, held+holds(a.Sustained.Rate)
			case Undecided:
				undecided++
			}
		}
		n := float64(said)
		off := math.Sqrt(squares / n)
		t.Logf("width %.3f, hiccups %.2f: undecided %4.1f %%, off by %+.3f, root mean square %.3f; %.2f of its windows hold; %.1f windows a search",
			s.width, s.hiccup, 100*float64(undecided)/searches, bias/n, off, held/n, float64(windows)/searches)
		if float64(undecided) > s.undecided*searches || off > s.off || held/n < s.held {
			t.Errorf("width %v, hiccups %v: worse than promised", s.width, s.hiccup)
		}
		if float64(windows) > 50*searches {
			t.Errorf("width %v: %d windows", s.width, windows)
		}
	}
}

// FuzzMaxRate: whatever is observed, the search ends, and asks for sensible rates only.
func FuzzMaxRate(f *testing.F) {
	f.Add(10.0, 0.0, 0.0, uint64(1), 0, []byte{0})
	f.Add(0.0, 1e9, 1e-3, uint64(1), -1, []byte{1, 1, 1, 1, 1, 1, 0, 2, 2})
	f.Add(1.0, 5.0, 0.5, uint64(9), 3, []byte{2, 1, 0})
	f.Add(1e-3, 1e9, 1e-3, uint64(9), 10, []byte{2, 2, 0, 2, 2, 1})
	f.Fuzz(func(t *testing.T, start, ceiling, floor float64, seed uint64, asked int, script []byte) {
		c := Config{Start: start, Ceiling: ceiling, Floor: floor, Rounds: asked, Seed: seed}
		m, err := NewMaxRate(c)
		if err != nil || len(script) == 0 {
			t.Skip()
		}
		// The ramp has at most ln(1e12)/ln(1.5) = 69 rates with 2 valid windows, the bisection 5 (rounding may add one), the
		// confirmation 15 windows, or as many as were asked for; twice, if it is taken up again; up to 3 windows for a valid one.
		most := 2 * 3 * (2*70 + 2*6 + 3*max(rounds, asked))
		for i := 0; ; i++ {
			a := m.Answer()
			if a.Verdict == "" || a.Windows != i {
				t.Fatalf("after %d windows: %+v", i, a)
			}
			s, ok := m.Next()
			if !ok {
				if !a.Done || a.Verdict == Unknown {
					t.Fatalf("at the end: %+v", a)
				}
				return
			}
			if !(s.Rate >= lowest*0.999 && s.Rate <= highest) || s.Left < 1 ||
				ceiling > 0 && s.Rate > ceiling || floor > 0 && s.Rate < floor {
				t.Fatalf("%+v of %+v", s, c)
			}
			if i > most {
				t.Fatalf("no end after %d windows", i)
			}
			b := script[i%len(script)]
			if err := m.Observe(Observation{Rate: s.Rate, Held: b&1 == 1, Valid: b&2 == 0}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
