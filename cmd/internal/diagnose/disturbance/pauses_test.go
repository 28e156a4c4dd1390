package disturbance

import (
	"slices"
	"testing"
	"time"
)

// TestPrice: a watch that takes much of the machine ends. What its process used before the first look does not count, and neither does what
// is seen in less than a second.
func TestPrice(t *testing.T) {
	const ms = time.Millisecond
	type look struct{ now, used time.Duration }
	for _, test := range []struct {
		name  string
		cpus  int
		looks []look
		dear  bool // at the last look
	}{
		{"a hundredth of each", 2, []look{{5000 * ms, 900 * ms}, {6000 * ms, 920 * ms}, {7000 * ms, 940 * ms}}, false},
		{"a fifth of each", 2, []look{{5000 * ms, 0}, {6000 * ms, 20 * ms}, {7000 * ms, 420 * ms}}, true},
		{"of many CPUs it is less", 16, []look{{5000 * ms, 0}, {6000 * ms, 400 * ms}}, false},
		{"too early to tell", 1, []look{{5000 * ms, 0}, {5020 * ms, 20 * ms}, {5999 * ms, 999 * ms}}, false},
		{"a second that was late", 1, []look{{5000 * ms, 0}, {9000 * ms, 400 * ms}}, false},
	} {
		p := price{cpus: test.cpus}
		for i, l := range test.looks {
			err := p.check(l.now, l.used)
			if want := test.dear && i == len(test.looks)-1; (err != nil) != want {
				t.Errorf("%s, look %d: %v", test.name, i, err)
			}
		}
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
		for _, p := range got.pauses {
			if p.From >= p.To {
				t.Errorf("%q: %v", text, p)
			}
		}
	})
}
