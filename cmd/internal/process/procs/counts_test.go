package procs

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func TestParseCPUTime(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"42 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14", 3 * time.Second, true},
		{"42 (name) Z 1 2 3 4 5 6 7 8 9 10 250 50 13 14", 0, false},
		{"42 (name) S 1 2 3", 0, false},
		{"42 (name) S 1 2 3 4 5 6 7 8 9 10 9223372036854775807 50", 0, false},
		{"S 1 2 3 4 5 6 7 8 9 10 250 50 13 14", 0, false},
		{"", 0, false},
	} {
		if got, ok := ParseCPUTime(c.text); ok != c.ok || ok && got != c.want {
			t.Errorf("%q: %v, %v", c.text, got, ok)
		}
	}
}

func TestParseSchedstat(t *testing.T) {
	for _, c := range []struct {
		text string
		want Schedstat
		ok   bool
	}{
		{"868614 109654 2\n", Schedstat{868614, 109654}, true},
		{"1 2", Schedstat{1, 2}, true},
		{"0 0 0\n", Schedstat{}, true},
		{"1\n", Schedstat{}, false},
		{"a b c\n", Schedstat{}, false},
		{"-1 2 3\n", Schedstat{}, false},
	} {
		if got, ok := ParseSchedstat(c.text); ok != c.ok || ok && got != c.want {
			t.Errorf("%q: %+v, %v", c.text, got, ok)
		}
	}
}

func TestParseMapped(t *testing.T) {
	for text, want := range map[string]int64{
		"310034 11245 5500 4500 0 60000 0\n": 5500,
		"1 2 3":                              3,
		"1 2":                                0,
		"":                                   0,
		"1 2 -3 4":                           0,
		"1 2 x":                              0,
		"1 2 1099511627777":                  0,
	} {
		if got := parseMapped(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestReadOfProgram: this one is in memory.
func TestReadOfProgram(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(self)
	if err != nil {
		t.Fatal(err)
	}
	if n := ReadOfProgram("", os.Getpid()); n < 1<<20 || n > info.Size() {
		t.Errorf("%d bytes", n)
	}
	if n := ReadOfProgram(t.TempDir(), 1); n != 0 {
		t.Errorf("of no process: %d", n)
	}
}

func TestParsePressure(t *testing.T) {
	us := time.Microsecond
	for _, c := range []struct {
		text string
		want Pressure
	}{
		{
			"some avg10=0.00 avg60=0.00 avg300=0.00 total=157656722\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=12\n",
			Pressure{157656722 * us, 12 * us, true, true},
		},
		{"some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n", Pressure{Some: 5 * us, SomeKnown: true}},
		{"full avg10=0.00 total=x\nsome total=-1", Pressure{}},
		{"some total=9223372036854775807\nfull total=1", Pressure{Full: us, FullKnown: true}},
		{"", Pressure{}},
	} {
		if got := ParsePressure(c.text); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.text, got, c.want)
		}
	}
}

func TestParseHostTimes(t *testing.T) {
	s := time.Second
	got, ok := ParseHostTimes("cpu  100 100 500 10000 700 30 20 400 0 0\ncpu0 50 5 25 500 3 1 1 20 0 0\ncpu1 50 5 25 500 4 2 1 20 0 0\nintr 1 2\ncpufreq x\n")
	if want := (HostTimes{CPUs: 2, Busy: 75 * s / 10, Steal: 4 * s, Total: 1185 * s / 10}); got != want || !ok {
		t.Errorf("%+v, %v; want %+v", got, ok, want)
	}
	for _, text := range []string{"", "intr 1 2", "cpu 1 2 3\n", "cpu a b c d e f g h\n", "cpu 1 2 3 4 5 6 7 -8\n"} {
		if got, ok := ParseHostTimes(text); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzCounts(f *testing.F) {
	f.Add("some avg10=0.00 total=1\nfull total=2\n")
	f.Add("42 (a) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14")
	f.Add("cpu  100 10 50 1000 7 3 2 40 0 0\ncpu0 1\n")
	f.Add("123 456 7\n")
	f.Fuzz(func(t *testing.T, text string) {
		if p := ParsePressure(text); p.Some < 0 || p.Full < 0 {
			t.Errorf("pressure %+v", p)
		}
		if d, ok := ParseCPUTime(text); ok && d < 0 {
			t.Errorf("CPU time %v", d)
		}
		if h, ok := ParseHostTimes(text); ok && (h.Busy < 0 || h.Steal < 0 || h.Busy+h.Steal > h.Total) {
			t.Errorf("host %+v", h)
		}
		if s, ok := ParseSchedstat(text); ok && (s.Run < 0 || s.Waited < 0) {
			t.Errorf("threads %+v", s)
		}
		if n := parseMapped(text); n < 0 || n > 1<<40 {
			t.Errorf("%d pages", n)
		}
	})
}

// TestGroupCPUTime: all live processes of a group count, with what their ended children have used.
func TestGroupCPUTime(t *testing.T) {
	root := t.TempDir()
	for pid, stat := range map[string]string{
		"1":  "1 (init) S 0 1 1 0 -1 4194560 1 1 1 1 900 900 900 900 20",
		"20": "20 (a (b) c) S 1 20 1 0 -1 4194560 1 1 1 1 10 5 20 1 20",
		"21": "21 (sh) R 1 20 1 0 -1 4194560 1 1 1 1 3 0 0 0 20",
		"22": "22 (gone) Z 1 20 1 0 -1 4194560 1 1 1 1 700 0 0 0 20",
		"23": "23 (short) S 1 20 1 0 -1 4194560 1 1 1 1 700 1",
		"24": "no stat at all",
	} {
		dir := filepath.Join(root, "proc", pid)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for group, want := range map[int]time.Duration{20: 390 * time.Millisecond, 1: 36 * time.Second, 7: 0} {
		if got := GroupCPUTime(root, group); got != want {
			t.Errorf("group %d: %v, want %v", group, got, want)
		}
	}
}
