package loadtest

import "testing"

// TestCompared: settings are compared by the requests that were due while the machine ran, where that is known of most.
func TestCompared(t *testing.T) {
	all := Summary{FromReady: Latencies{Count: 100, P99: 9}, FromReadyTail: 8}
	for calm, want := range map[int64]float64{-1: 9, 0: 9, 49: 9, 50: 1, 100: 1} {
		d := all
		if calm >= 0 {
			d.Machine = &Machine{Calm: Latencies{Count: calm, P99: 1}, CalmTail: 0.5}
		}
		l, tail := d.Compared()
		if l.P99 != want || (tail == 8) != (want == 9) {
			t.Errorf("%d calm: p99 %v, tail %v", calm, l.P99, tail)
		}
	}
}
