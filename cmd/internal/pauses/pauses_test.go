package pauses

import (
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

// TestRecord: pauses of several CPUs come in any order; those that overlap are one, and a time is known when all CPUs have seen it.
func TestRecord(t *testing.T) {
	var r record
	r.add(report{100 * ms, []span{{50 * ms, 52 * ms}}})
	r.add(report{120 * ms, []span{{110 * ms, 111 * ms}, {51 * ms, 55 * ms}, {20 * ms, 21 * ms}}})
	r.add(report{110 * ms, []span{{105 * ms, 130 * ms}}}) // told late
	if want := []span{{20 * ms, 21 * ms}, {50 * ms, 55 * ms}, {105 * ms, 130 * ms}}; !slices.Equal(r.pauses, want) {
		t.Fatalf("got %v, want %v", r.pauses, want)
	}
	for at, want := range map[time.Duration]string{
		0: "ran", 9 * ms: "ran", 10 * ms: "stood", 15 * ms: "stood", 31 * ms: "stood", 32 * ms: "ran", 39 * ms: "ran", 40 * ms: "stood",
		52 * ms: "stood", 65 * ms: "stood", 66 * ms: "ran", 94 * ms: "ran", 95 * ms: "stood", 110 * ms: "stood", 111 * ms: "unknown", 300 * ms: "unknown",
	} {
		got := "unknown"
		switch ran, known := r.ran(at); {
		case ran && known:
			got = "ran"
		case known:
			got = "stood"
		}
		if got != want {
			t.Errorf("%v: got %s, want %s", at, got, want)
		}
	}
	if got, want := r.between(53*ms, 106*ms), (Total{2, 3 * ms, 2 * ms}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "1", "100 20-30 50-60", "100 30-20", "100 x-30", "-1", "9223372036854775808", "5 9-10 9-12 1-20"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parse(text)
		if err != nil {
			return
		}
		again, err := parse(string(got.append(nil)))
		if err != nil || again.until != got.until || !slices.Equal(again.pauses, got.pauses) {
			t.Fatalf("%q: %+v, written and read %+v, %v", text, got, again, err)
		}
		var r record
		r.add(got)
		for i, p := range r.pauses {
			if p.from >= p.to || i > 0 && r.pauses[i-1].to >= p.from {
				t.Errorf("%q: %v", text, r.pauses)
			}
			if ran, known := r.ran(p.from); known && ran {
				t.Errorf("%q: it ran in %v", text, p)
			}
		}
	})
}
