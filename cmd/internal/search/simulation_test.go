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
	for range 5000 {
		limit := math.Exp(random.Float64()*math.Log(1e5)) * 1.5 // 1.5 … 150 000
		var c Config
		if random.IntN(2) == 1 {
			c.Start = round(math.Exp(random.Float64() * math.Log(1e5)))
		}
		m := search(t, c, func(s Step) (bool, bool) { return s.Rate <= limit, random.Float64() < 0.95 })
		a := m.Answer()
		if a.Verdict == Generator && a.Invalid > 0 {
			continue // three invalid windows on end are that
		}
		if a.Verdict != Unconfirmed || a.Sustained.Rate > limit || a.Sustained.Rate < limit/precision/1.001 || a.Failing.Rate <= limit {
			t.Fatalf("limit %.2f: %+v", limit, a)
		}
		most = max(most, a.Windows-a.Invalid)
	}
	t.Logf("at most %d valid windows", most)
	if most > 2*29+10 { // from 150 000 down to 1.5 in 29 steps, five halvings
		t.Errorf("up to %d windows", most)
	}
}

// FuzzMaxRate: whatever is observed, both searches end, and ask for sensible rates only.
func FuzzMaxRate(f *testing.F) {
	f.Add(10.0, 0.0, 0.0, []byte{0})
	f.Add(0.0, 1e9, 1e-3, []byte{1, 1, 1, 1, 1, 1, 0, 2, 2})
	f.Add(1.0, 5.0, 0.5, []byte{2, 1, 0})
	f.Add(1e-3, 1e9, 1e-3, []byte{2, 2, 0, 2, 2, 1})
	f.Fuzz(func(t *testing.T, start, ceiling, floor float64, script []byte) {
		c := Config{Start: start, Ceiling: ceiling, Floor: floor}
		m, err := NewMaxRate(c)
		if err != nil || len(script) == 0 {
			t.Skip()
		}
		h, err := NewHighest(c, len(script)%2 == 0)
		if err != nil {
			t.Fatal(err)
		}
		for most, s := range map[int]interface {
			Next() (Step, bool)
			Observe(o Observation) error
			Answer() Answer
		}{
			// The ramp has at most ln(1e12)/ln(1.5) = 69 rates with 2 valid windows, the bisection 5 (rounding may add one); up to 3
			// windows for a valid one.
			3 * (2*70 + 2*6): m,
			mostWindows:      h,
		} {
			for i := 0; ; i++ {
				a := s.Answer()
				if a.Verdict == "" || a.Windows != i || a.Failing.Rate > 0 && a.Failing.Rate <= a.Sustained.Rate {
					t.Fatalf("after %d windows: %+v", i, a)
				}
				step, ok := s.Next()
				if !ok {
					if !a.Done || a.Verdict == Unknown {
						t.Fatalf("at the end: %+v", a)
					}
					break
				}
				if !(step.Rate >= lowest*0.999 && step.Rate <= highest) || ceiling > 0 && step.Rate > ceiling || floor > 0 && step.Rate < floor {
					t.Fatalf("%+v of %+v", step, c)
				}
				if i > most {
					t.Fatalf("no end after %d windows", i)
				}
				b := script[i%len(script)]
				if err := s.Observe(Observation{Rate: step.Rate, Held: b&1 == 1, Valid: b&2 == 0}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
