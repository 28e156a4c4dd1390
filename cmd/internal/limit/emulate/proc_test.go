package emulate

import (
	"testing"
	"time"
)

// From a real machine; the second is a program that gave itself a name of brackets and a newline.
const (
	realStat    = "2274 (unthrottle) S 2270 2274 2270 34816 2274 4194560 1171 3402 0 0 12 5 1 2 20 0 9 0 284432 1821245440 4301 18446744073709551615 4194304 7200213 140727371822720 0 0 0 0 0 2143420159 0 0 0 17 1 0 0 0 0 0 10530816 10767424 12165120 140727371826853 140727371826878 140727371826878 140727371829216 0\n"
	strangeStat = "31 (a) R 7 (\nb) T 1 31 31 0 -1 4194368 99 0 0 0 0 0 0 0 20 0 1 0 99 4096 1 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)

func TestParseStat(t *testing.T) {
	tests := []struct {
		text string
		want status
		ok   bool
	}{
		{realStat, status{2274, 2270, 'S', 30 * time.Millisecond, 284432}, true},
		{strangeStat, status{31, 1, 'T', 0, 99}, true},
		{"", status{}, false},
		{"12 (sh", status{}, false},
		{"12 sh) R 1", status{}, false},
		{") 12 ( R", status{}, false},
		{"12 (sh) R 1 2 3", status{}, false},
		{"x (sh) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99", status{}, false},
		{"9 (sh) R 1 1 1 0 -1 0 0 0 0 0 0 0 -5 0 20 0 1 0 99", status{}, false},
	}
	for _, tt := range tests {
		if got, ok := parseStat([]byte(tt.text)); got != tt.want || ok != tt.ok {
			t.Errorf("%q: %+v %v, want %+v %v", tt.text, got, ok, tt.want, tt.ok)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(realStat))
	f.Add([]byte(strangeStat))
	f.Add([]byte("1 () S 0 1 1 0 -1 0 0 0 0 0 0 0 99999999999 99999999999 20 0 1 0 0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, ok := parseStat(data)
		if !ok && s != (status{}) || ok && (s.pid < 1 || s.parent < 0 || s.reaped < 0 || s.state == 0) {
			t.Errorf("%q: %+v %v", data, s, ok)
		}
	})
}

func TestParseLastPID(t *testing.T) {
	tests := []struct {
		text string
		pid  int
		ok   bool
	}{
		{"0.51 0.58 0.48 1/86 9880\n", 9880, true},
		{"0.51 0.58 0.48 1/86\n", 0, false},
		{"0.51 0.58 0.48 1/86 -1\n", 0, false},
		{"", 0, false},
	}
	for _, tt := range tests {
		if pid, ok := parseLastPID([]byte(tt.text)); pid != tt.pid || ok != tt.ok {
			t.Errorf("%q: %d %v", tt.text, pid, ok)
		}
	}
}

func FuzzParseLastPID(f *testing.F) {
	f.Add([]byte("0.51 0.58 0.48 1/86 9880\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if pid, ok := parseLastPID(data); pid < 0 || !ok && pid != 0 {
			t.Errorf("%q: %d %v", data, pid, ok)
		}
	})
}

func TestParsePending(t *testing.T) {
	tests := []struct {
		text string
		set  uint64
		ok   bool
	}{
		{"Name:\tsh\nSigPnd:\t0000000000000001\nShdPnd:\t0000000000080000\nSigBlk:\t0000000000000000\n", 1 << 19, true},
		{"Name:\tShdPnd:\nSigPnd:\t0000000000000001\n", 0, false},
		{"Name:\tsh\nShdPnd:\tno\n", 0, false},
		{"", 0, false},
	}
	for _, tt := range tests {
		if set, ok := parsePending([]byte(tt.text)); set != tt.set || ok != tt.ok {
			t.Errorf("%q: %x %v", tt.text, set, ok)
		}
	}
}

func FuzzParsePending(f *testing.F) {
	f.Add([]byte("Name:\tsh\nSigPnd:\t0000000000000001\nShdPnd:\t0000000000080000\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if set, ok := parsePending(data); !ok && set != 0 {
			t.Errorf("%q: %x %v", data, set, ok)
		}
	})
}
