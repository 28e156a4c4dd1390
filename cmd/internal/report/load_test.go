package report

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

func TestWorst(t *testing.T) {
	periods, throttled := int64(10), int64(4)
	for _, c := range []struct {
		steps []LoadStep
		want  LoadWorst
	}{
		{nil, LoadWorst{-1, -1, -1}},
		{[]LoadStep{{Sent: 0}}, LoadWorst{-1, -1, -1}},
		{[]LoadStep{{Sent: 100, P99: 0.2}, {Sent: 100, Failed: 50, P99: 0.1}}, LoadWorst{0.2, -1, 0.25}},
		{[]LoadStep{{Sent: 10, P99: 0.2, Periods: &periods, Throttled: &throttled}, {Periods: &periods, Throttled: new(int64)}}, LoadWorst{0.2, 0.2, 0}},
	} {
		if got := Worst(c.steps); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.steps, got, c.want)
		}
	}
}
