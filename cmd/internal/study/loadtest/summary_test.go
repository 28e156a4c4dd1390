package loadtest

import (
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

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

func TestAbove(t *testing.T) {
	h := hdrhistogram.New(1, 1e13, 3)
	for ms := range int64(100) {
		h.RecordValue((ms + 1) * 1e6)
	}
	l := newLatencies(h)
	for limit, want := range map[float64]int64{0: 100, 0.0005: 100, 0.0505: 50, 0.0995: 1, 0.1005: 0, 7200: 0} {
		if got, err := l.Above(limit); err != nil || got != want {
			t.Errorf("above %v s: %d, %v, want %d", limit, got, err, want)
		}
	}
	if n, err := (Latencies{}).Above(1); n != 0 || err != nil {
		t.Errorf("of nothing: %d, %v", n, err)
	}
	if _, err := (Latencies{Count: 1, Hist: "x"}).Above(1); err == nil {
		t.Error("no error of what is no histogram")
	}
}
