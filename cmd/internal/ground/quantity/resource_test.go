package quantity

import (
	"math"
	"strings"
	"testing"
)

func TestParseResource(t *testing.T) {
	for _, c := range []struct {
		text  string
		value float64
		milli int64
		whole int64
	}{
		{"500m", 0.5, 500, 1},
		{"0.5", 0.5, 500, 1},
		{".5", 0.5, 500, 1},
		{"1.", 1, 1000, 1},
		{"1", 1, 1000, 1},
		{"+2", 2, 2000, 2},
		{"-2", -2, -2000, -2},
		{"-1500m", -1.5, -1500, -2},
		{"2k", 2000, 2e6, 2000},
		{"1e3", 1000, 1e6, 1000},
		{"1E3", 1000, 1e6, 1000},
		{"1E", 1e18, math.MaxInt64, 1e18},
		{"1e-3", 0.001, 1, 1},
		{"1e+1", 10, 10000, 10},
		{"100Ki", 102400, 102400000, 102400},
		{"1.5Gi", 1610612736, 1610612736000, 1610612736},
		{"0.1m", 0.0001, 1, 1}, // never less than what was asked for
		{"1n", 1e-9, 1, 1},
		{"0", 0, 0, 0},
		{"m", 0, 0, 0}, // the API server takes it, too
		{"-", 0, 0, 0},
		{"1e100", 1e100, math.MaxInt64, math.MaxInt64},
	} {
		got, err := ParseResource(c.text)
		if err != nil || got.Float() != c.value || got.Milli() != c.milli || got.Whole() != c.whole {
			t.Errorf("%s: %v, %d milli, %d, %v; want %v, %d, %d", c.text, got.Float(), got.Milli(), got.Whole(), err, c.value, c.milli, c.whole)
		}
	}
	for _, text := range []string{
		"", " 1", "1 ", "1e3m", "1mm", "1KI", "1ki", "1i", "0x10", "1,5", "1.5.2", "five", "1e", "1e1e1", "--1", "1e101", "²", "1_000",
		"{{ .Values.cpu }}", strings.Repeat("1", 200),
	} {
		if got, err := ParseResource(text); err == nil {
			t.Errorf("%q is read as %v", text, got.Float())
		} else if len(err.Error()) > 300 {
			t.Errorf("%q: a message of %d bytes", text[:20], len(err.Error()))
		}
	}
}

func FuzzParseResource(f *testing.F) {
	for _, text := range []string{"500m", "1.5Gi", "-0.1e-3", "1E", "1Ei", "9223372036854775808", "1e100"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseResource(text)
		if err != nil {
			return
		}
		v := r.Float()
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Fatalf("%q is %v", text, v)
		}
		if m, w := float64(r.Milli()), float64(r.Whole()); math.Abs(m) < 1e15 && (math.Abs(m) < math.Abs(v*1000)*(1-1e-12) || math.Abs(w) < math.Abs(v)*(1-1e-12)) {
			t.Fatalf("%q is %v, but %v milli and %v whole: less than was asked for", text, v, m, w)
		}
	})
}
