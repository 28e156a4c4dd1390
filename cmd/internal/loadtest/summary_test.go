package loadtest

import "testing"

func TestNeeds(t *testing.T) {
	for p, want := range map[float64]int64{50: 1, 75: 1, 90: 100, 95: 200, 99: 1000, 99.9: 10_000, 99.99: 100_000} {
		if got := Needs(p); got != want {
			t.Errorf("p%v needs %d, want %d", p, got, want)
		}
		if l := (Latencies{Count: want - 1}); l.Tell(p) {
			t.Errorf("p%v is told of %d", p, l.Count)
		}
		if l := (Latencies{Count: want}); !l.Tell(p) {
			t.Errorf("p%v is not told of %d", p, l.Count)
		}
	}
}

func TestCarried(t *testing.T) {
	for count, want := range map[int64]float64{0: 0, 5: 0, 10: 0, 100: 90, 10_000: 99.9} {
		if got := (Latencies{Count: count}).Carried(); got != want {
			t.Errorf("%d carry p%v, want p%v", count, got, want)
		}
	}
}
