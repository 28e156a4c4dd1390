package tune

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
	"github.com/unthrottle/unthrottle/cmd/internal/trial"
)

// limitsWorld has a server whose p99 is 10 ms until its rate is near what its limit allows: 200/s a CPU.
func limitsWorld() (*Study, *world) {
	w := newWorld()
	w.slo = 0.05
	w.p99 = func(s lab.Setting, rate float64) float64 {
		can := 200 * s.CPUs
		if s.CPUs == 0 {
			can = 1600
		}
		return 0.01 / math.Max(0.01, 1-rate/can)
	}
	return newStudy(Plan{Limits: []float64{2, 0.5, 1, 2, 0}, Rate: 100, SLO: "p99=50ms"}), w
}

func TestExecuteLimits(t *testing.T) {
	s, w := limitsWorld()
	j := mustDo(t, s, w)
	tries := s.Tries()
	if len(tries) != 6 || tries[0] != (LimitTry{0.5, 2, true}) || tries[1] != (LimitTry{0.5, 1, false}) || tries[5] != (LimitTry{0, 2, true}) {
		t.Errorf("tries %v", tries)
	}
	// 80 % of what it can do hold the SLO, so 0.5 CPUs hold 80/s, and 1 CPU 160/s.
	for cpus, want := range map[float64]float64{0.5: 80, 1: 160, 2: 320, 0: 800} {
		if best, rate := s.Best(cpus); rate < 0.9*want || rate > 1.05*want || best.CPUs != cpus {
			t.Errorf("limit %v: %v at %+v, want about %v", cpus, rate, best, want)
		}
	}
	one, _ := s.Best(1)
	half, _ := s.Best(0.5)
	two, _ := s.Best(2)
	if held, of := s.Held(one); held != HoldWindows || of != HoldWindows {
		t.Errorf("1 CPU held in %d of %d", held, of)
	}
	if held, of := s.Held(half); held != 0 || of != HoldWindows {
		t.Errorf("half a CPU held in %d of %d", held, of)
	}
	if _, of := s.Held(two); of != 0 {
		t.Errorf("2 CPUs were tried in %d windows, and 1 is enough", of)
	}
	for _, p := range j.told {
		if p.Doing == "" {
			t.Errorf("told %+v", p)
		}
	}
}

func TestLimitsThatFail(t *testing.T) {
	s, w := limitsWorld()
	w.start = func(s lab.Setting, _ int) error {
		if s.CPUs == 0.5 {
			return failed("it was not ready within 1m0s")
		}
		return nil
	}
	mustDo(t, s, w)
	for _, try := range s.Tries() {
		m, err := s.MaxRate(try)
		if err != nil || !m.Answer().Done {
			t.Errorf("%v: %v, %v", try, m.Answer(), err)
		}
		if none := m.Answer().Verdict == search.None; none != (try.CPUs == 0.5) {
			t.Errorf("%v: %v", try, m.Answer())
		}
	}
	if n := len(slices.DeleteFunc(slices.Clone(s.Windows), func(w LimitWindow) bool { return !w.NoStart })); n != 2 {
		t.Errorf("%d windows without a start, want one of each try", n)
	}
	if best, _ := s.Best(1); best.Procs == 0 {
		t.Error("nothing holds")
	} else if held, of := s.Held(best); held != of || of != HoldWindows {
		t.Errorf("held %d of %d", held, of)
	}

	// One start in vain is none.
	s, w = limitsWorld()
	w.start = func(_ lab.Setting, n int) error {
		if n%2 == 1 {
			return failed("the port is in use")
		}
		return nil
	}
	mustDo(t, s, w)
	if slices.ContainsFunc(s.Windows, func(w LimitWindow) bool { return w.NoStart }) {
		t.Error("it was given up after one start in vain")
	}

	// A server that dies has not held it, and is started again.
	s, w = limitsWorld()
	w.shoot = func(x *fakeSession, _ int) (trial.Window, error, bool) {
		if shot := w.shots[len(w.shots)-1]; shot.SLO != "" && shot.Rate > 150 {
			x.died = "out of memory"
		}
		return trial.Window{}, nil, false
	}
	mustDo(t, s, w)
	if _, rate := s.Best(2); rate > 150 || rate < 130 {
		t.Errorf("highest rate %v", rate)
	}

	// None of its windows is valid.
	s, w = limitsWorld()
	w.shoot = func(x *fakeSession, _ int) (trial.Window, error, bool) {
		got := x.answer(w.shots[len(w.shots)-1].Shot)
		got.Valid = false
		return got, nil, true
	}
	mustDo(t, s, w)
	if len(s.Windows) > 6*3+HoldWindows+1 {
		t.Errorf("%d windows, of which none is valid", len(s.Windows))
	}
}

// A rate that is so low that nothing would be sent in a window of the usual length.
func TestLimitsAtLowRates(t *testing.T) {
	for _, rate := range []float64{0.01, 0.1, 1, 3} {
		s, w := limitsWorld()
		s.Plan.Rate = rate
		w.p99 = func(lab.Setting, float64) float64 { return 1 } // it always breaks it
		mustDo(t, s, w)
		for _, window := range s.Windows {
			if window.Held || window.Rate > rate {
				t.Errorf("%v/s: %+v", rate, window)
			}
		}
	}
}

func TestBadPlans(t *testing.T) {
	for name, change := range map[string]func(*Study){
		"no kind":         func(s *Study) { s.Plan.Kind = "" },
		"unknown kind":    func(s *Study) { s.Plan.Kind = "cron" },
		"negative limit":  func(s *Study) { s.Plan.CPUs = -1 },
		"no number":       func(s *Study) { s.Plan.CPUs = math.NaN() },
		"negative rate":   func(s *Study) { s.Plan.Rate = -1 },
		"huge rate":       func(s *Study) { s.Plan.Rate = 1e300 },
		"tiny rate":       func(s *Study) { s.Plan.Rate, s.Plan.Limits, s.Defaults = 1e-9, []float64{1}, []int{1} },
		"negative window": func(s *Study) { s.Plan.Window = -time.Second },
		"negative share":  func(s *Study) { s.Plan.Shares = []float64{-1} },
		"many shares":     func(s *Study) { s.Plan.Shares = slices.Repeat([]float64{1}, 1000) },
		"limits, no rate": func(s *Study) { s.Plan.Limits, s.Defaults = []float64{1, 2}, []int{1, 2} },
		"limits of a job": func(s *Study) {
			s.Plan.Kind, s.Plan.Rate, s.Plan.Limits, s.Defaults = JobKind, 1, []float64{1}, []int{1}
		},
		"no defaults":        func(s *Study) { s.Plan.Rate, s.Plan.Limits = 1, []float64{1, 2} },
		"bad defaults":       func(s *Study) { s.Plan.Rate, s.Plan.Limits, s.Defaults = 1, []float64{1, 2}, []int{1, 0} },
		"one limit negative": func(s *Study) { s.Plan.Rate, s.Plan.Limits, s.Defaults = 1, []float64{1, -2}, []int{1, 2} },
		"bad margin":         func(s *Study) { s.Plan.Margin = 7 },
		"huge pairs":         func(s *Study) { s.Plan.Pairs = 1e9 },
		"huge blocks":        func(s *Study) { s.Plan.Blocks = 1e9 },
		"bad candidate":      func(s *Study) { s.Plan.Procs = []int{0} },
		"bad lever":          func(s *Study) { s.Plan.GOGC = []int{-5} },
		"bad objective":      func(s *Study) { s.Plan.Objective = "joy" },
	} {
		s, w, j := newStudy(Plan{}), newWorld(), &keeper{}
		change(s)
		execute := s.Execute
		if len(s.Plan.Limits) > 0 {
			execute = s.ExecuteLimits
		}
		if err := execute(context.Background(), w.lab(j)); err == nil || len(j.lines) > 0 || w.open > 0 {
			t.Errorf("%s: %v, %d lines", name, err, len(j.lines))
		}
	}
	if got := (LimitTry{0, 2, true}).String() + "; " + (LimitTry{0.5, 1, false}).String(); !strings.HasPrefix(got, "no limit, GOMAXPROCS=2; limit 0.5,") {
		t.Error(got)
	}
}
