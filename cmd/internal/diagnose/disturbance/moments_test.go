package disturbance

import (
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

// TestRecord: spans come in any order; those that overlap are one, and a time is known when everything around it is.
func TestRecord(t *testing.T) {
	r := Record{Zero: time.Now()}
	r.Add(100*ms, Span{50 * ms, 52 * ms})
	r.Add(120*ms, Span{110 * ms, 111 * ms}, Span{51 * ms, 55 * ms}, Span{20 * ms, 21 * ms})
	r.Add(110*ms, Span{105 * ms, 130 * ms}) // reported late
	if want := []Span{{20 * ms, 21 * ms}, {50 * ms, 55 * ms}, {105 * ms, 130 * ms}}; !slices.Equal(r.spans, want) {
		t.Fatalf("got %v, want %v", r.spans, want)
	}
	for at, want := range map[time.Duration]string{
		0: "ran", 9 * ms: "ran", 10 * ms: "stood", 15 * ms: "stood", 31 * ms: "stood", 32 * ms: "ran", 39 * ms: "ran", 40 * ms: "stood",
		52 * ms: "stood", 65 * ms: "stood", 66 * ms: "ran", 94 * ms: "ran", 95 * ms: "stood", 110 * ms: "stood", 111 * ms: "unknown", 300 * ms: "unknown",
	} {
		got := "unknown"
		switch ran, known := r.Ran(r.Zero.Add(at)); {
		case ran && known:
			got = "ran"
		case known:
			got = "stood"
		}
		if got != want {
			t.Errorf("%v: got %s, want %s", at, got, want)
		}
	}
	if got, want := r.Between(r.Zero.Add(53*ms), r.Zero.Add(106*ms)), (Total{2, 3 * ms, 2 * ms}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// FuzzRecord: spans stay in order and apart, and no moment in one is clear of it.
func FuzzRecord(f *testing.F) {
	f.Add([]byte{}, byte(0))
	f.Add([]byte{10, 5, 40, 1, 12, 30}, byte(90))
	f.Fuzz(func(t *testing.T, spans []byte, until byte) {
		var r Record
		for i := 0; i+1 < len(spans); i += 2 {
			from := time.Duration(spans[i]) * ms
			s := Span{from, from + (time.Duration(spans[i+1])+1)*ms}
			r.Add(time.Duration(until)*ms, s)
			if ran, known := r.Ran(r.Zero.Add(s.From)); known && ran {
				t.Errorf("it ran in %v", s)
			}
		}
		for i, s := range r.spans {
			if s.From >= s.To || i > 0 && r.spans[i-1].To >= s.From {
				t.Errorf("%v", r.spans)
			}
		}
	})
}
