package search

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// search runs a search against a server: window tells of one window whether it held and was valid.
func search(t testing.TB, c Config, window func(s Step) (held, valid bool)) *MaxRate {
	t.Helper()
	m, err := NewMaxRate(c)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		s, ok := m.Next()
		if !ok {
			return m
		}
		held, valid := window(s)
		if err := m.Observe(Observation{Rate: s.Rate, Held: held, Valid: valid}); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the search has no end")
	return nil
}

// scripted are servers whose windows follow a rule that a reader can check by hand. nth counts the windows at a rate,
// from 1, over the whole search.
var scripted = []struct {
	name   string
	config Config
	window func(s Step, nth int) (held, valid bool)
	want   string
}{
	{
		// The ramp: 10 15 22.5 … 576 864 fails twice; bisection between 576 and 864: 705 and 780 and 821 hold, 842 fails.
		"a hard limit",
		Config{},
		func(s Step, _ int) (bool, bool) { return s.Rate <= 840, true },
		"sustains 821/s (5 of 5 windows), fails 903/s (5 of 5)",
	},
	{
		"the ceiling holds",
		Config{Start: 100, Ceiling: 1000},
		func(Step, int) (bool, bool) { return true, true },
		"sustains at least 1000/s (5 of 5 windows)",
	},
	{
		"one rate only",
		Config{Start: 100, Ceiling: 100, Floor: 100},
		func(Step, int) (bool, bool) { return true, true },
		"sustains at least 100/s (5 of 5 windows)",
	},
	{
		"one rate only, at times",
		Config{Start: 100, Ceiling: 100, Floor: 100},
		func(_ Step, nth int) (bool, bool) { return nth%2 == 1, true }, // 1st in the ramp, 3rd and 5th
		"undecided at 100/s (held 2 of 5 windows)",
	},
	{
		"nothing holds",
		Config{},
		func(Step, int) (bool, bool) { return false, true },
		"fails even 1/s (2 of 2 windows)",
	},
	{
		"a limit below the first rate",
		Config{Start: 1000},
		func(s Step, _ int) (bool, bool) { return s.Rate <= 50, true },
		"sustains 49.1/s (5 of 5 windows), fails 54/s (5 of 5)",
	},
	{
		"the generator's limit",
		Config{},
		func(s Step, _ int) (bool, bool) { return true, s.Rate <= 100 },
		"the generator's limit is reached at 114/s; the server holds at least 76.1/s (1 of 1 window)",
	},
	{
		"the generator can do nothing",
		Config{},
		func(Step, int) (bool, bool) { return true, false },
		"the generator's limit is reached at 10/s; no rate has held",
	},
	{
		"the generator fails now and then",
		Config{},
		func(s Step, nth int) (bool, bool) { return s.Rate <= 840, nth%3 == 0 },
		"sustains 821/s (5 of 5 windows), fails 903/s (5 of 5)",
	},
	{
		"the generator can't do a tenth more",
		Config{},
		func(s Step, _ int) (bool, bool) { return s.Rate <= 840, s.Phase != Confirm || s.Rate <= 840 },
		"sustains 821/s (5 of 5 windows), fails 842/s (1 of 1)",
	},
	{
		"the generator can't do again what it did",
		Config{},
		func(s Step, _ int) (bool, bool) { return s.Rate <= 840, s.Phase != Confirm || s.Rate < 800 },
		"the generator's limit is reached at 821/s; the server holds at least 739/s (5 of 5 windows)",
	},
	{
		"single violations in the ramp",
		Config{},
		func(s Step, nth int) (bool, bool) { return s.Rate <= 840 && (s.Phase != Ramp || nth == 2), true },
		"sustains 821/s (5 of 5 windows), fails 903/s (5 of 5)",
	},
	{
		"what was found fails in earnest",
		Config{},
		func(s Step, nth int) (bool, bool) { return s.Rate < 800 || s.Rate <= 840 && nth <= 4, true },
		"sustains 739/s (5 of 5 windows); the search had found 821/s, which fails (3 of 5)",
	},
	{
		"a tenth less fails as well",
		Config{},
		func(s Step, nth int) (bool, bool) {
			return s.Rate <= 840 && (s.Phase != Confirm || s.Rate > 800 && nth <= 4 || s.Rate <= 800 && nth != 2), true
		},
		"undecided between 739/s (held 4 of 5 windows) and 821/s (held 2 of 5 windows)",
	},
	{
		"a tenth more holds at times",
		Config{},
		func(s Step, nth int) (bool, bool) { return s.Rate <= 840 || s.Phase == Confirm && nth <= 3, true },
		"sustains at least 821/s (5 of 5 windows), and 903/s at times (3 of 5)",
	},
	{
		"two violations by chance early on; it goes on after the confirmation",
		Config{},
		func(s Step, nth int) (bool, bool) { return s.Rate <= 840 && (s.Rate != 33.8 || nth > 2), true },
		"sustains 835/s (5 of 5 windows), fails 919/s (5 of 5)",
	},
	{
		"three rounds",
		Config{Rounds: 3},
		func(s Step, _ int) (bool, bool) { return s.Rate <= 840, true },
		"sustains 821/s (3 of 3 windows), fails 903/s (3 of 3)",
	},
	{
		"no confirmation", // 821 has held twice and 842 failed once, as in the first of these
		Config{Rounds: -1},
		func(s Step, _ int) (bool, bool) { return s.Rate <= 840, s.Phase != Confirm },
		"the server holds at least 821/s (2 of 2 windows), fails 842/s (1 of 1); this was not confirmed",
	},
	{
		"no confirmation, and the ceiling holds",
		Config{Start: 100, Ceiling: 1000, Rounds: -1},
		func(Step, int) (bool, bool) { return true, true },
		"the server holds at least 1000/s (1 of 1 window); this was not confirmed",
	},
	{
		"no confirmation, and nothing holds",
		Config{Rounds: -1},
		func(Step, int) (bool, bool) { return false, true },
		"fails even 1/s (2 of 2 windows)",
	},
	{
		"no confirmation, and the generator's limit",
		Config{Rounds: -1},
		func(s Step, _ int) (bool, bool) { return true, s.Rate <= 100 },
		"the generator's limit is reached at 114/s; the server holds at least 76.1/s (1 of 1 window)",
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
			if got := m.Answer().String(); got != s.want {
				t.Errorf("got  %s\nwant %s\nsteps %v", got, s.want, m.Seen())
			}
			a := m.Answer()
			if !a.Done {
				t.Error("not done")
			}
			if unconfirmed := strings.HasSuffix(s.want, "not confirmed"); unconfirmed != (a.Verdict == Unconfirmed) || unconfirmed && len(a.Confirmed) > 0 {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestSteps shows the rates in their order, for one search.
func TestSteps(t *testing.T) {
	var got []string
	search(t, Config{Start: 100, Seed: 1}, func(s Step) (bool, bool) {
		got = append(got, string(s.Phase)+" "+perSecond(s.Rate))
		return s.Rate <= 200, true
	})
	want := []string{
		"ramp 100/s", "ramp 150/s", "ramp 225/s", "ramp 225/s",
		"bisect 184/s", "bisect 184/s", "bisect 203/s", "bisect 193/s", "bisect 193/s", "bisect 198/s", "bisect 198/s",
	}
	for i, w := range want {
		if got[i] != w {
			t.Fatalf("step %d is %s, want %s: %v", i, got[i], w, got)
		}
	}
	confirm := got[len(got)-15:]
	for round := range rounds {
		for _, rate := range []string{"198/s", "178/s", "218/s"} {
			if !strings.Contains(strings.Join(confirm[3*round:3*round+3], " "), rate) {
				t.Errorf("round %d does not have %s: %v", round, rate, confirm)
			}
		}
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
		{Rounds: 1},
		{Rounds: 2},
		{Rounds: 1001},
	} {
		if _, err := NewMaxRate(c); err == nil {
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

// TestReplay: the observations are the state, by way of JSON too, after every step.
func TestReplay(t *testing.T) {
	for _, c := range []Config{{Seed: 7}, {Seed: 7, Rounds: 3}, {Seed: 7, Rounds: -1}} {
		replay(t, c)
	}
}

func replay(t *testing.T, c Config) {
	random := rand.New(rand.NewPCG(3, 4))
	m, _ := NewMaxRate(c)
	for {
		saved, err := json.Marshal(m.Seen())
		if err != nil {
			t.Fatal(err)
		}
		var seen []Observation
		if err := json.Unmarshal(saved, &seen); err != nil {
			t.Fatal(err)
		}
		again, err := Replay(c, seen)
		if err != nil {
			t.Fatal(err)
		}
		step, ok := m.Next()
		if stepAgain, okAgain := again.Next(); step != stepAgain || ok != okAgain {
			t.Fatalf("after %d windows %v, replayed %v", len(seen), step, stepAgain)
		}
		if m.Answer().String() != again.Answer().String() {
			t.Fatalf("%s, replayed %s", m.Answer(), again.Answer())
		}
		if !ok {
			return
		}
		m.Observe(Observation{Rate: step.Rate, Held: random.Float64() < 0.8, Valid: random.Float64() < 0.9})
	}
}

// TestInterrupted: the answer is of use at any time, and promises nothing.
func TestInterrupted(t *testing.T) {
	m, _ := NewMaxRate(Config{Start: 100})
	want := []string{
		"interrupted after 0 windows; no rate has held, unconfirmed",
		"interrupted after 1 window; the server holds at least 100/s (1 of 1 window), unconfirmed",
		"interrupted after 2 windows; the server holds at least 100/s (1 of 1 window), unconfirmed",
		"interrupted after 3 windows; the server holds at least 100/s (1 of 1 window), fails 150/s (2 of 2), unconfirmed",
	}
	for i, w := range want {
		a := m.Answer()
		if a.String() != w || a.Done || a.Verdict != Unknown {
			t.Errorf("after %d: %s, want %s", i, a, w)
		}
		s, _ := m.Next()
		m.Observe(Observation{Rate: s.Rate, Held: s.Rate <= 120, Valid: true})
	}
}

// TestLeft: the guess of what is left is right for a limit that is met now.
func TestLeft(t *testing.T) {
	for _, c := range []Config{{Start: 100}, {Start: 100, Rounds: 10}, {Start: 100, Rounds: -1}} {
		m := search(t, c, func(s Step) (bool, bool) { return s.Rate <= 120, true })
		windows := len(m.Seen())
		n := 0
		search(t, c, func(s Step) (bool, bool) {
			if s.Left < 1 || math.Abs(float64(s.Left-(windows-n))) > 8 {
				t.Errorf("%d rounds: after %d of %d windows %d are said to be left", c.Rounds, n, windows, s.Left)
			}
			n++
			return s.Rate <= 120, true
		})
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
