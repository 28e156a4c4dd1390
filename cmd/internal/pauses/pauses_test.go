package pauses

import (
	"slices"
	"testing"
)

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
