package loadtest

import "testing"

// TestCompared: settings are compared by the requests that were due while the machine ran, where that is known of a third.
func TestCompared(t *testing.T) {
	all := Summary{Requests: 100, FromReady: Latencies{Count: 100, P99: 9}, FromReadyTail: 8}
	for calm, want := range map[int64]float64{-1: 9, 0: 9, 33: 9, 34: 1, 100: 1} {
		d := all
		if calm >= 0 {
			d.Machine = &Machine{Stood: (100 - calm) / 2, Others: &Others{Left: 100 - calm - (100-calm)/2}, Calm: Latencies{Count: calm, P99: 1}, CalmTail: 0.5}
		}
		if got, want := d.Kept(), float64(max(0, calm))/100; got != want {
			t.Errorf("%d calm: kept %v, want %v", calm, got, want)
		}
		l, tail, left := d.Compared()
		if want := float64(100-calm) / 100; d.Quiet() && left != want {
			t.Errorf("%d calm: left out %v, want %v", calm, left, want)
		}
		if l.P99 != want || (tail == 8) != (want == 9) || (left == 0) != (want == 9 || calm == 100) {
			t.Errorf("%d calm: p99 %v, tail %v, left out %v", calm, l.P99, tail, left)
		}
		d.SLO = &SLO{}
		if l, tail, left := d.Compared(); l.P99 != 9 || tail != 8 || left != 0 {
			t.Errorf("%d calm, with an SLO, which is of all: p99 %v, tail %v, left out %v", calm, l.P99, tail, left)
		}
	}
}
