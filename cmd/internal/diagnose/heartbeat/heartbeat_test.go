package heartbeat

import (
	"reflect"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
)

func TestPulse(t *testing.T) {
	want := Pulse{At: 100123456, Beats: 48, CPU: 812000, Freezes: []freeze.Gap{{Start: 20001000, End: 75400123}, {Start: 80000000, End: 84000000}}}
	line := string(want.append(nil))
	if line != "pulse 100123456 48 812000 20001000-75400123 80000000-84000000\n" {
		t.Errorf("wrote %q", line)
	}
	got, err := parsePulse(line)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v", got, err)
	}
	bad := []string{
		"", "pulse", "pulse 1 2", "heart 1 2 3", "pulse -1 2 3", "pulse 1 2 x", "pulse 9 2 3 1", "pulse 9 2 3 1-", "pulse 9 2 3 5-4",
		"pulse 9 2 3 5-10", "pulse 9 2 3 1-2-3", "pulse 99999999999999999999 2 3",
	}
	for _, line := range bad {
		if p, err := parsePulse(line); err == nil {
			t.Errorf("%q: read %+v", line, p)
		}
	}
}

func FuzzPulse(f *testing.F) {
	f.Add("pulse 100123456 48 812000 20001000-75400123")
	f.Add("pulse 1 2 3")
	f.Add("pulse 1 2 3 -")
	f.Fuzz(func(t *testing.T, line string) {
		p, err := parsePulse(line)
		if err != nil {
			return
		}
		again, err := parsePulse(string(p.append(nil)))
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%q: %+v, then %+v, %v", line, p, again, err)
		}
	})
}

func TestPacer(t *testing.T) {
	p := pacer{sleep: Interval}
	now, cpu := time.Duration(0), time.Duration(0)
	share := func(permille int, want time.Duration) {
		t.Helper()
		for range paceEvery / reportEvery {
			now += reportEvery
			cpu += reportEvery * time.Duration(permille) / 1000
			p.adjust(now, cpu)
		}
		if p.sleep != want {
			t.Errorf("after a while with %d ‰: sleeps %v, want %v", permille, p.sleep, want)
		}
	}
	share(5, Interval)
	share(7, Interval)
	share(9, Interval+sleepStep)
	share(25, Interval+4*sleepStep)
	share(90, longestSleep)
	share(7, longestSleep)
	share(5, longestSleep-sleepStep)
	for range 10 {
		share(0, max(p.sleep-sleepStep, Interval))
	}
}
