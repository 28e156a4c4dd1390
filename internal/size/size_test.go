package size

import (
	"math"
	"testing"
)

const mib = 1 << 20

func TestText(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 MiB", 32 * mib: "32 MiB", 3 * mib / 2: "1.5 MiB", 1000: "0.001 MiB", math.MaxInt64: "8796093022208 MiB"} {
		if got := Text(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"33554432": 32 * mib, "33554432B": 32 * mib, "32768KiB": 32 * mib, "32MiB": 32 * mib, "1GiB": 1 << 30, "1TiB": 1 << 40,
		"8388607TiB": 8388607 << 40, "8388608TiB": 0, "9223372036854775807": math.MaxInt64, "9223372036854775808": 0,
		"": 0, "0": 0, "-1": 0, "+1": 0, "32M": 0, "32Mi": 0, "32MB": 0, "MiB": 0, "1.5GiB": 0, "32 MiB": 0, "32MiBB": 0, "1KiBMiB": 0, "0x10": 0, "1_0": 0,
	} {
		if got := Parse(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"32MiB", "1TiB", "9223372036854775807", "B", "8388608TiB", "-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := Parse(text)
		if n < 0 || n > 0 && (text[0] < '0' || text[0] > '9') {
			t.Errorf("%q: %d", text, n)
		}
	})
}
