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

// TestMissedWords: what was missed is never what was asked, to the last digit.
func TestMissedWords(t *testing.T) {
	for _, c := range []struct {
		m    Missed
		want string
	}{
		{Missed{"p99=50ms", "89.21ms"}, "p99 ≤ 50 ms: it was 89.2 ms"},
		{Missed{"p99=50ms", "50.02ms"}, "p99 ≤ 50 ms: it was a little more"},
		{Missed{"p50=1s", "1.01s"}, "p50 ≤ 1 s: it was 1.01 s"},
		{Missed{"errors=1%", "1 %"}, "errors ≤ 1 %: it was a little more"},
		{Missed{"errors=1%", "1.01 %"}, "errors ≤ 1 %: it was 1.01 %"},
		{Missed{"p99.9=50ms", "more than that failed"}, "p99.9 ≤ 50 ms: more than that failed"},
		{Missed{"nonsense", "5ms"}, "nonsense: it was 5.00 ms"},
	} {
		if got := c.m.Words(); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.m, got, c.want)
		}
	}
}
