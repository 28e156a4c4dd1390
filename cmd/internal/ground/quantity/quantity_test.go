package quantity

import (
	"math"
	"testing"
	"time"
)

func TestText(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Number(0), "0"},
		{Number(0.5), "0.5"},
		{Number(1.23456), "1.235"},
		{Number(-2), "−2"},
		{Number(0.00012), "0.00012"},
		{Number(-0.00049), "−0.00049"},
		{Hundredths(0.999), "1"},
		{Three(5.6), "5.60"},
		{Three(99.96), "100"},
		{Three(12.34), "12.3"},
		{Three(-0.5), "−0.50"},
		{Three(-0.00001), "−1e-05"},
		{CPUs(1), "1 CPU"},
		{CPUs(0.25), "0.25 CPUs"},
		{UsedCPUs(0.999), "1 CPU"},
		{Share(0.1234), "12.3 %"},
		{Share(1), "100 %"},
		{WholeShare(0.004), "<1 %"},
		{WholeShare(0), "0 %"},
		{WholeShare(0.126), "13 %"},
		{RoughShare(0.0213), "2.1 %"},
		{RoughShare(0.142), "14 %"},
		{Margin(0.0123), "± 1.2 points"},
		{Part(1, 100000), "<0.01 %"},
		{Part(4, 10000), "0.04 %"},
		{Part(99999, 100000), "99.999 %"},
		{Part(1, 4), "25 %"},
		{Part(1, 0), ""},
		{Points(0.03), "+3 points"},
		{Points(-0.01), "−1 point"},
		{Points(0.004), "0 points"},
		{Change(1), "0 %"},
		{Change(1.0004), "0 %"},
		{Change(1.12), "+12 %"},
		{Change(0.927), "−7.3 %"},
		{Change(12), "12.0×"},
		{Changes(0.34, 0.53), "−66 to −47 %"},
		{Changes(0.9, 12), "−10 % to 12.0×"},
		{Times(1.254), "×1.25"},
		{Times(12.34), "×12.3"},
		{Times(1234), "×1,234"},
		{Seconds(0), "0 s"},
		{Seconds(0.1), "100 ms"},
		{Seconds(0.0000253), "25 µs"},
		{Seconds(1.234), "1.23 s"},
		{Seconds(1234), "1234 s"},
		{Duration(1500 * time.Millisecond), "1.5 s"},
		{Latency(0.0056), "5.60 ms"},
		{Latency(313e-3), "313 ms"},
		{Lasting(12), "12 s"},
		{Lasting(97.41), "97.4 s"},
		{Lasting(9.87), "9.87 s"},
		{Lasting(99.6), "1 min 40 s"},
		{Lasting(200), "3 min 20 s"},
		{Lasting(7500), "2 h 5 min"},
		{Lasting(180), "3 min"},
		{Lasting(3600), "1 h"},
		{Lasting(3660), "61 min"},
		{Lasting(7200), "2 h"},
		{Lasting(7230), "2 h"},
		{Lasting(-1), "0 s"},
		{Lasting(math.NaN()), "0 s"},
		{PerSecond(840), "840/s"},
		{PerSecond(12000), "12,000/s"},
		{PerSecond(0.5), "0.5/s"},
		{Bytes(512 << 20), "512 MiB"},
		{Bytes(1536), "1.5 KiB"},
		{Count(1234567), "1,234,567"},
		{Count(-123456), "−123,456"},
		{Count(999), "999"},
		{Plural(1, "process"), "1 process"},
		{Plural(2, "process"), "2 processes"},
		{Plural(12000, "request"), "12,000 requests"},
		{List([]string{"1", "2", "4"}), "1, 2 and 4"},
		{List([]string{"1"}), "1"},
		{List(nil), ""},
		{Either([]string{"1", "2", "4"}), "1, 2 or 4"},
		{Brief(0.0056), "5.6 ms"},
		{Brief(0.31312), "313 ms"},
		{Brief(0.1), "100 ms"},
		{Brief(12), "12 s"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestUnits(t *testing.T) {
	for _, tt := range []struct {
		metric string
		v      float64
		want   string
	}{
		{"ns/op", 27100, "27.1 µs"},
		{"p99-latency-ns", 5.6e6, "5.60 ms"},
		{"sched-p99-ns", 0, "0 s"},
		{"cpu-ns/req", 618e3, "618 µs"},
		{"sec/op", 0.0271, "27.1 ms"},
		{"cpu-sec", 12345, "12345 s"},
		{"on-ms", 25, "25.0 ms"},
		{"peak-RSS-bytes", 12 << 20, "12 MiB"},
		{"throttled-%", 12.34, "12.3 %"},
		{"req/s", 12345, "12.3 k"},
		{"B/op", 96, "96.0"},
		{"frobs", 0.5, "0.50"},
	} {
		u := UnitOf(tt.metric)
		if got := u.Text(tt.v); got != tt.want {
			t.Errorf("%s: %v is written %q, want %q", tt.metric, tt.v, got, tt.want)
		}
		// Scale is what Text uses.
		if one, _ := u.Scale(tt.v); tt.v != 0 && u.kind != bare {
			if shown := tt.v / one; shown < 0.99 || u.kind != ofTime && shown >= 1024 {
				t.Errorf("%s: %v is shown as %v", tt.metric, tt.v, shown)
			}
		}
	}
	if got := Of1.Text(0.25); got != "25.0 %" {
		t.Errorf("a share is written %q", got)
	}
}

func TestTick(t *testing.T) {
	for _, tt := range []struct {
		unit    Unit
		v, step float64
		want    string
	}{
		{Second, 0, 0.01, "0"},
		{Second, 0.02, 0.01, "20 ms"},
		{Second, 0.0125, 0.0005, "12.5 ms"},
		{Second, 0.05, 0, "50 ms"},
		{Rate, 2000, 500, "2.0 k"},
		{Byte, 1 << 20, 1 << 19, "1.0 MiB"},
		{Of1, 0.5, 0.25, "50 %"},
	} {
		one, name := tt.unit.Scale(tt.v)
		if got := Tick(tt.v, tt.step, one, name); got != tt.want {
			t.Errorf("tick at %v: %q, want %q", tt.v, got, tt.want)
		}
	}
}

func TestGlued(t *testing.T) {
	for _, tt := range []struct {
		left, right string
		want        bool
	}{
		{"95", "%", true},
		{"(−13", "%),", true},
		{"5.6", "ms.", true},
		{"the", "s", false},
		{"0.5", "CPUs", true},
		{"2", "runs", false},
		{"", "%", false},
		{"±14", "%", true},
		{"4", "MB,", true},
		{"≤", "50", true},
		{"(R", "0.97)", true},
		{"Go", "1.26", true},
		{"Go", "programs", false},
		{"R", "", false},
	} {
		if got := Glued(tt.left, tt.right); got != tt.want {
			t.Errorf("%q %q: glued is %v", tt.left, tt.right, got)
		}
	}
}

func TestParseShare(t *testing.T) {
	for _, tt := range []struct {
		text string
		want float64
		err  string
	}{
		{"5%", 0.05, ""},
		{"0.1 %", 0.001, ""},
		{"0.05%", 0.0005, ""},
		{"5", 0.05, ""},
		{"0", 0, ""},
		{"150%", 1.5, ""},
		{"0.05", 0, `"0.05" could be 0.05% or 5%: write the one you mean`},
		{"1", 0, `"1" could be 1% or 100%: write the one you mean`},
		{"", 0, `"" is not a share such as 5%`},
		{"x%", 0, `"x%" is not a share such as 5%`},
		{"-1%", 0, `"-1%" is not a share such as 5%`},
		{"NaN%", 0, `"NaN%" is not a share such as 5%`},
		{"Inf", 0, `"Inf" is not a share such as 5%`},
	} {
		got, err := ParseShare(tt.text)
		if text := errText(err); text != tt.err || math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%q: %v, %q; want %v, %q", tt.text, got, text, tt.want, tt.err)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// good is whether a text is read as the value; NaN: it is refused.
func check[T float64 | int64](t *testing.T, parse func(string) (T, error), cases map[string]float64) {
	t.Helper()
	for text, want := range cases {
		got, err := parse(text)
		switch {
		case math.IsNaN(want):
			if err == nil {
				t.Errorf("%q is read as %v", text, got)
			}
		case err != nil || math.Abs(float64(got)-want) > 1e-9*want:
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParse(t *testing.T) {
	no := math.NaN()
	check(t, ParseCPUs, map[string]float64{"0.5": 0.5, "500m": 0.5, "2": 2, "": no, "0": no, "-1": no, "nan": no, "inf": no, "m": no, "2000000": no, "1e30": no, "1500m": 1.5})
	check(t, ParseBytes, map[string]float64{"512m": 512 << 20, "512MiB": 512 << 20, "2g": 2 << 30, "1.5k": 1536, "10": 10, "": no, "x": no, "0": no, "-1": no, "99999999t": no, "100b": 100, "m": no, "-1m": no, "1x": no})
	for text, want := range map[string]RateRange{
		"500": {500, 500}, "100..1k": {100, 1000}, "1000..100": {1000, 100}, "5/s..7/s": {5, 7}, "": {}, "..": {}, "5..": {}, "..5": {}, "0..5": {}, "5..6..7": {}, "5-7": {},
	} {
		got, err := ParseRateRange(text)
		if (err == nil) != (want != RateRange{}) || err == nil && (got != want || got.Mean() != (want.From+want.To)/2) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	check(t, ParseRate, map[string]float64{"500": 500, "0.5": 0.5, "20k": 20000, "20K/s": 20000, "500/s": 500, "": no, "0": no, "-1": no, "1e9": no, "/s": no})
}

func TestParseLists(t *testing.T) {
	if got, err := ParseCPUList("0-2,8"); err != nil || len(got) != 4 || got[3] != 8 {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "3-1", "-1", "x", "0-2000", "1,,2", "0,", "0-99999"} {
		if got, err := ParseCPUList(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
	if got, err := ParseWholes("1,2,max,1", map[string]int{"max": 8}); err != nil || len(got) != 3 || got[2] != 8 {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "0", "-1", "1.5", "100000", "max"} {
		if got, err := ParseWholes(bad, nil); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
	if got, err := ParseList("40%,65%", ParseShare); err != nil || len(got) != 2 || got[1] != 0.65 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := ParseList("40%,0.65", ParseShare); err == nil {
		t.Error("a list with a doubtful share is read")
	}
}

func TestValue(t *testing.T) {
	var cpus float64
	v := Value(&cpus, ParseCPUs, "0.5")
	if err := v.Set("500m"); err != nil || cpus != 0.5 || v.String() != "500m" || v.Example() != "0.5" {
		t.Errorf("%v, %v, %q", cpus, err, v)
	}
	if err := v.Set("x"); err == nil || cpus != 0.5 {
		t.Errorf("%v, %v", cpus, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"5%", "0.05", "500m", "512MiB", "20k/s", "0-3,8", "1,2,max", "−1", "1e309", "%"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := ParseShare(text); err == nil && !(v >= 0 && v <= 1e4) {
			t.Errorf("%q is the share %v", text, v)
		}
		if v, err := ParseCPUs(text); err == nil && !(v > 0 && v <= 1<<20) {
			t.Errorf("%q is %v CPUs", text, v)
		}
		if v, err := ParseBytes(text); err == nil && v < 1 {
			t.Errorf("%q is %v bytes", text, v)
		}
		if v, err := ParseRate(text); err == nil && !(v > 0 && v <= 1e7) {
			t.Errorf("%q is %v a second", text, v)
		}
		if list, err := ParseCPUList(text); err == nil && len(list) == 0 {
			t.Errorf("%q is an empty list of CPUs", text)
		}
		if list, err := ParseWholes(text, nil); err == nil && len(list) == 0 {
			t.Errorf("%q is an empty list", text)
		}
	})
}
