package emulate

import (
	"testing"
	"time"
)

const ms = time.Millisecond

func TestAccount(t *testing.T) {
	// A look is one step: what has been used by then in all, and what should come of it.
	type look struct {
		now, used time.Duration
		hold      bool
		wait      time.Duration
	}
	tests := []struct {
		name  string
		limit Limit
		cpus  int
		looks []look
		want  Counters // at the last look
	}{
		{
			"one thread spends the quota on two CPUs",
			Limit{50 * ms, 100 * ms},
			2,
			[]look{
				{0, 0, false, 25 * ms},
				{25 * ms, 25 * ms, false, 12500 * time.Microsecond}, // 25 ms left for 2 CPUs
				{49 * ms, 49 * ms, false, ms},                       // half a millisecond would be safe
				{50 * ms, 50 * ms, true, 50 * ms},
				{100 * ms, 50 * ms, false, 25 * ms},
			},
			Counters{CPU: 50 * ms, Periods: 1, Throttled: 1, ThrottledTime: 50 * ms, LongestStandstill: 50 * ms},
		},
		{
			"an overrun is taken from the next period",
			Limit{50 * ms, 100 * ms},
			1,
			[]look{
				{60 * ms, 60 * ms, true, 40 * ms},
				{100 * ms, 60 * ms, false, 40 * ms}, // 50 less 10
				{140 * ms, 100 * ms, true, 60 * ms},
				{200 * ms, 101 * ms, false, 49 * ms}, // 1 ms was used while the signal was under way
			},
			Counters{CPU: 101 * ms, Periods: 2, Throttled: 2, ThrottledTime: 100 * ms, LongestStandstill: 60 * ms},
		},
		{
			"what runs out just before a period ends is a debt, and no hold",
			Limit{50 * ms, 100 * ms},
			1,
			[]look{
				{97 * ms, 49 * ms, false, ms},
				{99 * ms, 51 * ms, false, ms}, // the kernel would not have looked
				{100 * ms, 52 * ms, false, 48 * ms},
				{148 * ms, 100 * ms, true, 52 * ms},
			},
			Counters{CPU: 100 * ms, Periods: 1},
		},
		{
			"a debt of more than a quota is one hold over several periods",
			Limit{10 * ms, 100 * ms},
			4,
			[]look{
				{50 * ms, 35 * ms, true, 50 * ms}, // 25 below
				{100 * ms, 35 * ms, true, 100 * ms},
				{200 * ms, 35 * ms, true, 100 * ms},
				{300 * ms, 35 * ms, false, 1250 * time.Microsecond}, // 5 ms
			},
			Counters{CPU: 35 * ms, Periods: 3, Throttled: 3, ThrottledTime: 250 * ms, LongestStandstill: 250 * ms},
		},
		{
			"unused quota is lost, but for a millisecond of the last slice",
			Limit{50 * ms, 100 * ms},
			1,
			[]look{
				{10 * ms, 5 * ms, false, 45 * ms},
				{100 * ms, 5 * ms, false, 51 * ms},
				{150 * ms, 55 * ms, false, ms},
				{151 * ms, 56 * ms, true, 49 * ms},
			},
			Counters{CPU: 56 * ms, Periods: 1},
		},
		{
			"a program that runs on keeps its slice", // so that little more than a quota is not held
			Limit{50 * ms, 100 * ms},
			1,
			[]look{
				{98 * ms, 46 * ms, false, 2 * ms},    // 45 and 1 of another slice: 4 are left, and the pool is empty
				{100 * ms, 48 * ms, false, 52 * ms},  // 2 are left
				{152 * ms, 99 * ms, false, ms},       // a quota and 1 ms
				{154 * ms, 100 * ms, true, 46 * ms},  // all
				{200 * ms, 100 * ms, false, 50 * ms}, // no debt, no rest
			},
			Counters{CPU: 100 * ms, Periods: 2, Throttled: 1, ThrottledTime: 46 * ms, LongestStandstill: 46 * ms},
		},
		{
			"periods are counted while the program is active, and one after", // nr_periods too
			Limit{50 * ms, 100 * ms},
			1,
			[]look{
				{10 * ms, ms, false, 49 * ms},
				{1000 * ms, ms, false, 51 * ms},
				{2000 * ms, ms, false, 51 * ms},
				{2050 * ms, 2 * ms, false, 50 * ms}, // active again
				{2100 * ms, 2 * ms, false, 51 * ms},
				{2500 * ms, 2 * ms, false, 51 * ms},
				{2550 * ms, 2*ms + ms/2, false, 50 * ms}, // what was kept is enough: no quota is drawn
				{2600 * ms, 2*ms + ms/2, false, 50*ms + ms/2},
			},
			Counters{CPU: 2*ms + ms/2, Periods: 4},
		},
		{
			"periods stay on their grid after a pause",
			Limit{50 * ms, 100 * ms},
			1,
			[]look{
				{0, 0, false, 50 * ms},
				{1030 * ms, 0, false, 50 * ms},
				{1090 * ms, 49 * ms, false, ms},
				{1100 * ms, 49 * ms, false, 51 * ms}, // a new quota
			},
			Counters{CPU: 49 * ms, Periods: 1},
		},
		{
			"more quota than CPUs never holds",
			Limit{400 * ms, 100 * ms},
			2,
			[]look{
				{0, 0, false, 100 * ms},
				{100 * ms, 200 * ms, false, 100 * ms},
				{200 * ms, 400 * ms, false, 100 * ms},
			},
			Counters{CPU: 400 * ms, Periods: 2},
		},
		{
			"a tiny quota is not looked at more often than steps allow",
			Limit{ms, 10 * ms},
			64,
			[]look{
				{0, 0, false, 4 * ms},                                                              // idle
				{4 * ms, 500 * time.Microsecond, false, ms},                                        // busy
				{5 * ms, 1500 * time.Microsecond, true, 5 * ms},                                    // half a millisecond over
				{10 * ms, 1500 * time.Microsecond, false, ms},                                      // paid
				{19500 * time.Microsecond, 1600 * time.Microsecond, false, 500 * time.Microsecond}, // the period ends sooner
			},
			Counters{CPU: 1600 * time.Microsecond, Periods: 1, Throttled: 1, ThrottledTime: 5 * ms, LongestStandstill: 5 * ms},
		},
		{
			"a clock that is read late holds all the periods that passed",
			Limit{50 * ms, 100 * ms},
			1,
			[]look{
				{50 * ms, 120 * ms, true, 50 * ms},   // 70 below
				{450 * ms, 120 * ms, false, 50 * ms}, // −20 at 100, 30 at 200: continued then, though late
			},
			Counters{CPU: 120 * ms, Periods: 4, Throttled: 2, ThrottledTime: 150 * ms, LongestStandstill: 150 * ms},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAccount(tt.limit, steps{busy: ms, idle: 4 * ms}, 0)
			var end time.Duration
			for _, l := range tt.looks {
				if got := a.step(l.now, l.used, tt.cpus); got != (decision{l.hold, l.wait}) {
					t.Fatalf("at %v with %v used: %+v, want hold %v wait %v", l.now, l.used, got, l.hold, l.wait)
				}
				end = l.now
			}
			if got := a.at(end); got != tt.want {
				t.Errorf("%+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// TestAccountHoldsToLimit lets programs of many kinds use what they may, with readings that are late as the kernel's are:
// in the long run none gets more than the limit.
func TestAccountHoldsToLimit(t *testing.T) {
	const end = 20 * time.Second
	for _, limit := range []Limit{{50 * ms, 100 * ms}, {100 * ms, 100 * ms}, {ms, 10 * ms}, {3 * ms, 5 * ms}, {150 * ms, 100 * ms}} {
		for _, threads := range []time.Duration{1, 2, 16} {
			a := newAccount(limit, steps{busy: ms, idle: 4 * ms}, 0)
			var used time.Duration
			for now := time.Duration(0); now < end; {
				d := a.step(now, used, int(threads))
				if d.wait <= 0 {
					t.Fatalf("limit %v: a wait of %v", limit, d.wait)
				}
				if !d.hold {
					used += threads * d.wait
				}
				now += d.wait
			}
			// Never more than the quota of each period and the last overrun, and never much less than it or than is wanted.
			periods := end / limit.Period
			most := limit.Quota*(periods+1) + threads*4*ms
			least := min(limit.Quota*periods, threads*end) * 9 / 10
			if used > most || used < least {
				t.Errorf("limit %v, %d threads: used %v, want %v to %v", limit, threads, used, least, most)
			}
		}
	}
}

func TestAtDuringHold(t *testing.T) {
	a := newAccount(Limit{50 * ms, 100 * ms}, steps{ms, ms}, 0)
	a.step(60*ms, 50*ms, 1)
	want := Counters{CPU: 50 * ms, ThrottledTime: 20 * ms, LongestStandstill: 20 * ms}
	if got := a.at(80 * ms); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
