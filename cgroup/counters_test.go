package cgroup

import (
	"testing"
	"time"
)

func TestOwner(t *testing.T) {
	levels := []Level{{Dir: "/a/b"}, {Dir: "/a", Quota: Quota{150000, 50000}}, {Dir: "/", Quota: Quota{400000, 100000}}}
	tests := []struct {
		name   string
		l      Limits
		dir    string
		period time.Duration
		ok     bool
	}{
		{"a parent's", Limits{State: Limited, CPUs: 3, From: "/a", Levels: levels}, "/a", 50 * time.Millisecond, true},
		{"none", Limits{State: None, Levels: levels[:1]}, "", 0, false},
		{"unknown", Limits{State: Unknown, AtMost: 3, Levels: levels}, "", 0, false},
		{"hidden", Limits{State: Hidden, Levels: levels[:1]}, "", 0, false},
		{"without levels", Limits{State: Limited, CPUs: 3, From: "/a"}, "", 0, false},
		{"the zero value", Limits{}, "", 0, false},
	}
	for _, tt := range tests {
		owner, ok := tt.l.Owner()
		if ok != tt.ok || owner.Dir != tt.dir || owner.Quota.Period() != tt.period {
			t.Errorf("%s: %+v, %v", tt.name, owner, ok)
		}
	}
}

func TestSince(t *testing.T) {
	early := Counters{
		Dir: "/a", Known: true, Periods: 10, Throttled: 4, ThrottledTime: 3 * time.Second, Bursts: 1, BurstTime: time.Second,
		CPUKnown: true, CPU: 2 * time.Second,
	}
	late := Counters{
		Dir: "/a", Known: true, Periods: 30, Throttled: 5, ThrottledTime: 4 * time.Second, Bursts: 3, BurstTime: 5 * time.Second,
		CPUKnown: true, CPU: 9 * time.Second,
	}
	with := func(c Counters, change func(*Counters)) Counters {
		change(&c)
		return c
	}
	cpu := Counters{Dir: "/a", CPUKnown: true, CPU: 7 * time.Second}
	tests := []struct {
		name           string
		earlier, later Counters
		want           Counters
	}{
		{"all", early, late, Counters{
			Dir: "/a", Known: true, Periods: 20, Throttled: 1, ThrottledTime: time.Second, Bursts: 2, BurstTime: 4 * time.Second,
			CPUKnown: true, CPU: 7 * time.Second,
		}},
		{"nothing happened", early, early, Counters{Dir: "/a", Known: true, CPUKnown: true}},
		{"another group", early, with(late, func(c *Counters) { c.Dir = "/b" }), Counters{Dir: "/b"}},
		{"recreated", late, early, Counters{Dir: "/a"}},
		{"one count went back", early, with(late, func(c *Counters) { c.Throttled = 3 }), cpu},
		{"throttled time went back", early, with(late, func(c *Counters) { c.ThrottledTime = 0 }), cpu},
		{"bursts went back", early, with(late, func(c *Counters) { c.Bursts = 0 }), cpu},
		{"burst time went back", early, with(late, func(c *Counters) { c.BurstTime = 0 }), cpu},
		{"periods were not counted before", with(early, func(c *Counters) { c.Known = false }), late, cpu},
		{"nor after", early, with(late, func(c *Counters) { c.Known = false }), cpu},
		{"no CPU time", early, with(late, func(c *Counters) { c.CPUKnown = false }), Counters{
			Dir: "/a", Known: true, Periods: 20, Throttled: 1, ThrottledTime: time.Second, Bursts: 2, BurstTime: 4 * time.Second,
		}},
		{"nothing known", Counters{}, Counters{}, Counters{}},
	}
	for _, tt := range tests {
		if got := tt.later.Since(tt.earlier); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestThrottlingSince(t *testing.T) {
	own, owner := Counters{Dir: "/a/b", Known: true, Periods: 5}, Counters{Dir: "/a", Known: true, Periods: 10, Throttled: 4}
	early := Throttling{Own: own, Owner: owner, Local: time.Second, LocalKnown: true}
	late := early
	late.Owner.Periods, late.Owner.Throttled, late.Local = 20, 9, 3*time.Second
	d := late.Since(early)
	if d.Held() != 2*time.Second || early.Held() != time.Second || (Throttling{Owner: Counters{ThrottledTime: 3}, Local: 2, LocalKnown: true}).Held() != 3 {
		t.Errorf("held up for %v and %v", d.Held(), early.Held())
	}
	if d.Own.Periods != 0 || d.Owner.Periods != 10 || d.Owner.Throttled != 5 || !d.LocalKnown || d.Local != 2*time.Second {
		t.Errorf("%+v", d)
	}
	if d := early.Since(late); d.Owner.Known || d.LocalKnown || d.Local != 0 {
		t.Errorf("backwards: %+v", d)
	}
	late.Own.Dir = "/c"
	if d := late.Since(early); d.LocalKnown || d.Own.Known || !d.Owner.Known {
		t.Errorf("another own group: %+v", d)
	}
	late.Own.Dir, late.LocalKnown = "/a/b", false
	if d := late.Since(early); d.LocalKnown {
		t.Errorf("the kernel does not say: %+v", d)
	}
}

func TestParseStat(t *testing.T) {
	tests := []struct {
		name, text string
		want       Counters
		err        string
	}{
		{
			"v1", "nr_periods 60\nnr_throttled 20\nthrottled_time 1500000001\nnr_bursts 2\nburst_time 7\n",
			Counters{Known: true, Periods: 60, Throttled: 20, ThrottledTime: 1500000001, Bursts: 2, BurstTime: 7},
			"",
		},
		{
			"v2", "usage_usec 123\nuser_usec 100\nsystem_usec 23\nnr_periods 60\nnr_throttled 20\nthrottled_usec 1500000\nnr_bursts 2\nburst_usec 7\n",
			Counters{
				Known: true, Periods: 60, Throttled: 20, ThrottledTime: 1500 * time.Millisecond, Bursts: 2, BurstTime: 7 * time.Microsecond,
				CPUKnown: true, CPU: 123 * time.Microsecond,
			},
			"",
		},
		{"before 5.14", "nr_periods 1\nnr_throttled 0\nthrottled_time 0\n", Counters{Known: true, Periods: 1}, ""},
		{"v2 without the controller", "usage_usec 7\nuser_usec 7\n", Counters{CPUKnown: true, CPU: 7 * time.Microsecond}, ""},
		{"a part of it", "usage_usec 7\nnr_periods 3\nnr_throttled 1\n", Counters{CPUKnown: true, CPU: 7 * time.Microsecond}, ""},
		{"saved elsewhere", "nr_periods 3\r\nnr_throttled 1\r\nthrottled_usec 2", Counters{Known: true, Periods: 3, Throttled: 1, ThrottledTime: 2000}, ""},
		{"names that begin alike", "xnr_periods 1\nnr_periods_x 1\nusage_usec_x 5\n", Counters{}, ""},
		{"empty", "", Counters{}, ""},
		{"below zero", "nr_periods 60\nnr_throttled -1\n", Counters{}, `line 2 of cpu.stat: bad number "-1" of nr_throttled`},
		{"no number", "usage_usec x\n", Counters{}, `line 1 of cpu.stat: bad number "x" of usage_usec`},
		{"usage below zero", "usage_usec -5\n", Counters{}, `line 1 of cpu.stat: bad number "-5" of usage_usec`},
		{"nothing", "nr_periods\n", Counters{}, `line 1 of cpu.stat: bad number "" of nr_periods`},
		{
			"more than fits", "usage_usec 1\nthrottled_usec 9223372036854775807\n",
			Counters{},
			`line 2 of cpu.stat: bad number "9223372036854775807" of throttled_usec`,
		},
	}
	for _, tt := range tests {
		got, err := ParseStat(tt.text)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != tt.want || text != tt.err {
			t.Errorf("%s: %+v, %q\nwant %+v, %q", tt.name, got, text, tt.want, tt.err)
		}
	}
}
