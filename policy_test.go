package unthrottle

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestParsePolicy(t *testing.T) {
	tests := []struct {
		env  string // NAME=value, separated by spaces
		want Policy
		err  string
	}{
		{"", Go, ""},
		{"UNTHROTTLE=go", Go, ""},
		{"UNTHROTTLE=floor", Floor, ""},
		{"UNTHROTTLE=CEIL", Go, "UNTHROTTLE=CEIL: want off, go, floor, ceil or exact"},
		{"UNTHROTTLE=exact", Exact, ""},
		{"UNTHROTTLE=off", Off, ""},
		{"UNTHROTTLE=flor", Go, "UNTHROTTLE=flor: want off, go, floor, ceil or exact"},
		{"UNTHROTTLE_MIN=3 UNTHROTTLE_MAX=6", Policy{Name: "go", Min: 3, Max: 6}, ""},
		{"UNTHROTTLE_MIN=0", Go, "UNTHROTTLE_MIN=0: want a whole number above zero"},
		{"UNTHROTTLE_MAX=two UNTHROTTLE_MIN=1", Policy{Name: "go", Min: 1}, "UNTHROTTLE_MAX=two: want a whole number above zero"},
		{"UNTHROTTLE_HEADROOM=250m", Policy{Name: "go", Min: 2, Headroom: 0.25}, ""},
		{"UNTHROTTLE_REQUEST=1500m UNTHROTTLE_REQUEST_FACTOR=2", Policy{Name: "go", Min: 2, Request: 1.5, RequestFactor: 2}, ""},
		{"UNTHROTTLE_REQUEST=much", Go, "UNTHROTTLE_REQUEST=much: want a number such as 0.5 or 500m"},
		{"UNTHROTTLE_REQUEST=-1", Go, "UNTHROTTLE_REQUEST=-1: want a number such as 0.5 or 500m"},
		{
			"UNTHROTTLE=x UNTHROTTLE_MIN=y", Go,
			"UNTHROTTLE=x: want off, go, floor, ceil or exact; UNTHROTTLE_MIN=y: want a whole number above zero",
		},
	}
	for _, tt := range tests {
		env := map[string]string{}
		for _, kv := range strings.Fields(tt.env) {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
		got, errs := ParsePolicy(func(name string) string { return env[name] })
		if !samePolicy(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.env, got, tt.want)
		}
		var texts []string
		for _, err := range errs {
			texts = append(texts, err.Error())
		}
		if text := strings.Join(texts, "; "); text != tt.err {
			t.Errorf("%s: errors %q, want %q", tt.env, text, tt.err)
		}
	}
}

func samePolicy(a, b Policy) bool {
	return a.Name == b.Name && a.Off == b.Off && a.Rounding == b.Rounding && a.Min == b.Min && a.Max == b.Max &&
		a.Headroom == b.Headroom && a.Request == b.Request && a.RequestFactor == b.RequestFactor
}

func TestParseCPUs(t *testing.T) {
	tests := []struct {
		text string
		want float64
	}{
		{"2", 2},
		{"0.5", 0.5},
		{"500m", 0.5},
		{"1m", 0.001},
		{".5", 0.5},
		{"5.", 5},
		{"0.125", 0.125},
		{"1500m", 1.5},
		{"16", 16},
		{"", 0},
		{"m", 0},
		{"0", 0},
		{"-1", 0},
		{"NaN", 0},
		{"Inf", 0},
		{"1 ", 0},
		{"2cpu", 0},
		{"1k", 0},
		{"1e1", 0},
		{".", 0},
		{".m", 0},
		{"1.2.3", 0},
		{"99999999999999999999", 0},
	}
	for _, tt := range tests {
		got, ok := parseCPUs(tt.text)
		if got != tt.want || ok != (tt.want > 0) {
			t.Errorf("parseCPUs(%q) = %v, %v, want %v", tt.text, got, ok, tt.want)
		}
	}
}

func FuzzParseCPUs(f *testing.F) {
	for _, s := range []string{"2", "0.5", "500m", "1e400", "0x1p-2", "NaN"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, ok := parseCPUs(s)
		if ok != (v > 0) || v != v {
			t.Errorf("parseCPUs(%q) = %v, %v", s, v, ok)
		}
		// The standard library accepts everything that it accepts, and reads it as the same number.
		if std, err := strconv.ParseFloat(strings.TrimSuffix(s, "m"), 64); ok {
			if strings.HasSuffix(s, "m") {
				std /= 1000
			}
			if err != nil || math.Abs(v-std) > 1e-9*std {
				t.Errorf("parseCPUs(%q) = %v, strconv says %v, %v", s, v, std, err)
			}
		}
	})
}

func TestUserProcs(t *testing.T) {
	tests := map[string]int{
		"": 0, "0": 0, "-1": 0, "4": 4, "004": 4, "2147483647": 2147483647, "2147483648": 0, "2500m": 0, " 4": 0, "4 ": 0,
		"4.0": 0, "1e1": 0, "0x4": 0, "1_0": 0, "max": 0,
	}
	for env, want := range tests {
		if got := userProcs(env); got != want {
			t.Errorf("userProcs(%q) = %d, want %d", env, got, want)
		}
	}
}
