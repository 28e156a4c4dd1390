package exectrace

import (
	"fmt"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
)

func TestParseStat(t *testing.T) {
	for in, want := range map[string]string{
		"nr_periods 60\nnr_throttled 20\nthrottled_time 1500000000\nnr_bursts 0\nburst_time 0\n": "60 20 1.5s",
		"usage_usec 7\nnr_periods 60\nnr_throttled 20\nthrottled_usec 1500000\nnr_bursts 0\n":    "60 20 1.5s",
		"usage_usec 7\nuser_usec 3\n":                                         "cpu.stat: no nr_periods, nr_throttled and throttled_usec (or throttled_time): is there a quota?",
		"nr_periods 60\nnr_throttled -1\nthrottled_usec 1\n":                  `line 2 of cpu.stat: bad number "-1" of nr_throttled`,
		"nr_periods 60\nnr_throttled 1\nthrottled_usec 9223372036854775807\n": `line 3 of cpu.stat: bad number "9223372036854775807" of throttled_usec`,
		"": "cpu.stat: no nr_periods, nr_throttled and throttled_usec (or throttled_time): is there a quota?",
	} {
		c, err := ParseStat(in)
		got := fmt.Sprint(c.Periods, " ", c.Throttled, " ", c.ThrottledTime)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("nr_periods 60\nnr_throttled 20\nthrottled_time 1500000000\n")
	f.Add("nr_periods 60\nnr_throttled 20\nthrottled_usec 1500000\n")
	f.Add("nr_periods x\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseStat(text)
		if err == nil && (c.Periods < 0 || c.Throttled < 0 || c.ThrottledTime < 0) {
			t.Errorf("%+v", c)
		}
	})
}

func TestCompare(t *testing.T) {
	trace := &Trace{Wall: 10 * time.Second, Procs: []Setting{{0, 2}}, Rhythm: freeze.Rhythm{Period: 100 * time.Millisecond}}
	before := cgroup.Counters{Known: true, Periods: 10, Throttled: 5, ThrottledTime: time.Second}
	after := cgroup.Counters{Known: true, Periods: 110, Throttled: 105, ThrottledTime: 16 * time.Second}
	k, err := trace.Compare(before, after, 0)
	if err != nil {
		t.Fatal(err)
	}
	// 15 s ÷ 2 CPUs ÷ 10 s
	if k.Periods != 100 || k.PeriodsShare != 1 || k.ThrottledShare != 0.75 || k.Wall != 10*time.Second {
		t.Errorf("%+v", k)
	}
	if k, err = trace.Compare(before, after, 4); err != nil || k.ThrottledShare != 0.375 {
		t.Errorf("%+v %v", k, err)
	}
	after.Periods = 210 // read some time before and after the trace: 15 s ÷ 2 ÷ 20 s
	if k, err = trace.Compare(before, after, 0); err != nil || k.ThrottledShare != 0.375 || k.Wall != 20*time.Second {
		t.Errorf("%+v %v", k, err)
	}
	if _, err := trace.Compare(after, before, 0); err == nil {
		t.Error("no error for a later one first")
	}
	if k, err := (&Trace{}).Compare(cgroup.Counters{Known: true}, cgroup.Counters{Known: true}, 0); err != nil || k.ThrottledShare != 0 {
		t.Errorf("%+v %v", k, err)
	}
}
