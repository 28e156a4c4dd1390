package search

import (
	"math"
	"reflect"
	"slices"
	"testing"
)

// search runs a search against a server: window tells of one window whether it held and was valid.
func search(t testing.TB, c Config, window func(s Step) (held, valid bool)) *MaxRate {
	t.Helper()
	m, err := NewMaxRate(c)
	if err != nil {
		t.Fatal(err)
	}
	follow(t, m, window)
	return m
}

// follow does what a search asks for, to its end.
func follow(t testing.TB, m interface {
	Next() (Step, bool)
	Observe(o Observation) error
}, window func(s Step) (held, valid bool),
) {
	t.Helper()
	for range 1000 {
		s, ok := m.Next()
		if !ok {
			return
		}
		held, valid := window(s)
		if err := m.Observe(Observation{Rate: s.Rate, Held: held, Valid: valid}); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the search has no end")
}

// scripted are servers whose windows follow a rule that a reader can check by hand. nth counts the windows at a rate,
// from 1, over the whole search.
var scripted = []struct {
	name   string
	config Config
	window func(s Step, nth int) (held, valid bool)
	want   Answer // less what is told of the way to it
}{
	{
		// The ramp: 10 15 22.5 … 576 864 fails twice; bisection between 576 and 864: 705 and 780 and 821 hold, 842 fails.
		"a hard limit",
		Config{},
		func(s Step, _ int) (bool, bool) { return s.Rate <= 840, true },
		Answer{Verdict: Unconfirmed, Sustained: Tally{821, 2, 2}, Failing: Tally{842, 0, 1}},
	},
	{
		"the ceiling holds",
		Config{Start: 100, Ceiling: 1000},
		func(Step, int) (bool, bool) { return true, true },
		Answer{Verdict: Unconfirmed, Sustained: Tally{1000, 1, 1}},
	},
	{
		"one rate only",
		Config{Start: 100, Ceiling: 100, Floor: 100},
		func(Step, int) (bool, bool) { return true, true },
		Answer{Verdict: Unconfirmed, Sustained: Tally{100, 1, 1}},
	},
	{
		"nothing holds",
		Config{},
		func(Step, int) (bool, bool) { return false, true },
		Answer{Verdict: None, Failing: Tally{1, 0, 2}},
	},
	{
		"a limit below the first rate",
		Config{Start: 1000},
		func(s Step, _ int) (bool, bool) { return s.Rate <= 50, true },
		Answer{Verdict: Unconfirmed, Sustained: Tally{49.1, 2, 2}, Failing: Tally{50.4, 0, 1}},
	},
	{
		"the generator's limit",
		Config{},
		func(s Step, _ int) (bool, bool) { return true, s.Rate <= 100 },
		Answer{Verdict: Generator, Beyond: 114, Sustained: Tally{76.1, 1, 1}},
	},
	{
		"the generator can do nothing",
		Config{},
		func(Step, int) (bool, bool) { return true, false },
		Answer{Verdict: Generator, Beyond: 10},
	},
	{
		"a window that is not valid is tried again",
		Config{},
		func(s Step, nth int) (bool, bool) { return s.Rate <= 840, nth > 1 },
		Answer{Verdict: Unconfirmed, Sustained: Tally{821, 2, 2}, Failing: Tally{842, 0, 1}},
	},
	{
		"a violation by chance in the ramp",
		Config{},
		func(s Step, nth int) (bool, bool) { return s.Rate <= 840 && (s.Phase != Ramp || nth > 1), true },
		Answer{Verdict: Unconfirmed, Sustained: Tally{821, 2, 2}, Failing: Tally{842, 0, 1}},
	},
}

func TestScripted(t *testing.T) {
	for _, s := range scripted {
		t.Run(s.name, func(t *testing.T) {
			nth := map[float64]int{}
			m := search(t, s.config, func(step Step) (bool, bool) {
				nth[step.Rate]++
				return s.window(step, nth[step.Rate])
			})
			a := m.Answer()
			if !a.Done || a.Windows != len(m.Seen()) {
				t.Errorf("%+v", a)
			}
			got := Answer{Verdict: a.Verdict, Sustained: a.Sustained, Failing: a.Failing, Beyond: a.Beyond}
			if !reflect.DeepEqual(got, s.want) {
				t.Errorf("got  %+v\nwant %+v\nsteps %v", got, s.want, m.Seen())
			}
		})
	}
}

// TestSteps shows the rates in their order, for one search.
func TestSteps(t *testing.T) {
	var got []string
	search(t, Config{Start: 100}, func(s Step) (bool, bool) {
		got = append(got, string(s.Phase)+" "+perSecond(s.Rate))
		return s.Rate <= 200, true
	})
	want := []string{
		"ramp 100/s", "ramp 150/s", "ramp 225/s", "ramp 225/s",
		"bisect 184/s", "bisect 184/s", "bisect 203/s", "bisect 193/s", "bisect 193/s", "bisect 198/s", "bisect 198/s",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []Config{
		{Start: -1},
		{Start: math.NaN()},
		{Ceiling: math.Inf(1)},
		{Floor: 1e-9},
		{Start: 100, Ceiling: 50},
		{Start: 100, Floor: 200},
		{Floor: 20, Ceiling: 10},
	} {
		if _, err := NewMaxRate(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
		if _, err := NewHighest(c, true); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

func TestObserveWhatNobodyAskedFor(t *testing.T) {
	m, _ := NewMaxRate(Config{})
	if err := m.Observe(Observation{Rate: 11, Held: true, Valid: true}); err == nil {
		t.Error("another rate is taken")
	}
	if len(m.Seen()) != 0 {
		t.Error("and kept")
	}
	m = search(t, Config{}, func(Step) (bool, bool) { return false, true })
	if err := m.Observe(Observation{Rate: 1, Valid: true}); err == nil {
		t.Error("an observation after the end is taken")
	}
}

// TestInterrupted: the answer is of use at any time, and promises nothing.
func TestInterrupted(t *testing.T) {
	m, _ := NewMaxRate(Config{Start: 100})
	want := []Answer{
		{Verdict: Unknown},
		{Verdict: Unknown, Sustained: Tally{100, 1, 1}, Windows: 1},
		{Verdict: Unknown, Sustained: Tally{100, 1, 1}, Windows: 2},
		{Verdict: Unknown, Sustained: Tally{100, 1, 1}, Failing: Tally{150, 0, 2}, Windows: 3},
	}
	for i, w := range want {
		a := m.Answer()
		if !reflect.DeepEqual(a, w) {
			t.Errorf("after %d: %+v, want %+v", i, a, w)
		}
		s, _ := m.Next()
		m.Observe(Observation{Rate: s.Rate, Held: s.Rate <= 120, Valid: true})
	}
}

func TestRound(t *testing.T) {
	for _, r := range []struct{ in, want float64 }{{865.5, 866}, {22.5, 22.5}, {33.75, 33.8}, {12345, 12300}, {1.5, 1.5}, {0.0012345, 0.00123}} {
		if got := round(r.in); got != r.want {
			t.Errorf("round(%v) = %v", r.in, got)
		}
	}
	if got := perSecond(1e7); got != "10000000/s" {
		t.Error(got)
	}
}
