package tune

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
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

// limitsOf is the search of a study.
func limitsOf(t *testing.T, s *Study) *Limits {
	t.Helper()
	l, err := s.Limits()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// highest is the highest rate of a setting.
func highest(t *testing.T, s *Study, try LimitTry) float64 {
	t.Helper()
	return limitsOf(t, s).Highest(try).Sustained.Rate
}

func TestExecuteLimits(t *testing.T) {
	s, w := limitsWorld()
	j := mustDo(t, s, w)
	tries := s.Tries()
	if len(tries) != 6 || tries[0] != (LimitTry{Under{CPUs: 0.5}, 2, true}) || tries[1] != (LimitTry{Under{CPUs: 0.5}, 1, false}) || tries[5] != (LimitTry{Under{CPUs: 0}, 2, true}) {
		t.Errorf("tries %v", tries)
	}
	// 80 % of what it can do hold the SLO, so 0.5 CPUs hold 80/s, and 1 CPU 160/s.
	for i, want := range map[int]float64{0: 80, 1: 80, 2: 160, 4: 320, 5: 800} {
		if rate := highest(t, s, tries[i]); rate < 0.9*want || rate > 1.05*want {
			t.Errorf("%v: %v, want about %v", tries[i], rate, want)
		}
	}
	l := limitsOf(t, s)
	// What is too small is seen soon, with both settings; the answer takes enough windows; and what is larger is not tried.
	for i, want := range []Hold{
		{Answer: Fails, Of: failWindows + 1}, // once more after the larger one
		{Answer: Fails, Of: failWindows + 1},
		{Answer: Holds, Held: HoldWindows, Of: HoldWindows},
		{Answer: Open},
		{Answer: Open},
		{Answer: Open},
	} {
		if got := l.Hold(tries[i]); got.Answer != want.Answer || got.Held != want.Held || got.Of != want.Of {
			t.Errorf("%v: %+v", tries[i], got)
		}
	}
	if answer, anything := l.Unfinished(); answer || anything {
		t.Error("something is still wanted")
	}
	// Nothing is decided by the highest rates, so they come last.
	first := slices.IndexFunc(s.Windows, func(w LimitWindow) bool { return w.Phase == CurvePhase })
	if slices.ContainsFunc(s.Windows[first:], func(w LimitWindow) bool { return w.Phase == HoldPhase }) || s.Windows[first].CPUs != 1 {
		t.Errorf("the first of a curve is window %d, %+v", first, s.Windows[first])
	}
	for _, p := range j.told {
		if p.Doing == "" {
			t.Errorf("told %+v", p)
		}
	}
	// The generator warms the server up itself, with the load of the window.
	for _, shot := range w.shots {
		if shot.WarmUp < 200*time.Millisecond || shot.SLO == "" {
			t.Errorf("%+v", shot)
		}
	}
}

// A limit that fails while the machine is busy is looked at again when a larger one holds.
func TestLimitsBusyFirstMinutes(t *testing.T) {
	s, w := limitsWorld()
	s.Plan.Limits, s.Defaults = []float64{1, 4}, []int{2, 4}
	usual, windows := w.p99, 0
	w.p99 = func(set lab.Setting, rate float64) float64 {
		if windows++; windows <= 2*failWindows {
			return 0.2
		}
		return usual(set, rate)
	}
	mustDo(t, s, w)
	l := limitsOf(t, s)
	if h := l.Hold(LimitTry{Under{CPUs: 1}, 2, true}); h.Answer != Open || h.Of != 2*failWindows || h.Again != failWindows {
		t.Errorf("one CPU: %+v", h)
	}
	if h := l.Hold(LimitTry{Under{CPUs: 4}, 4, true}); h.Answer != Holds || h.Of != HoldWindows {
		t.Errorf("four CPUs: %+v", h)
	}
}

// Where Go's default does not hold the SLO and the limit rounded up does, both take turns, with the same arrivals.
func TestLimitsOtherSetting(t *testing.T) {
	s, w := limitsWorld()
	s.Plan.Limits, s.Defaults, s.Plan.Rate = []float64{1, 4}, []int{2, 4}, 150
	usual := w.p99
	w.p99 = func(set lab.Setting, rate float64) float64 {
		if set.CPUs == 1 && set.Procs == 2 {
			return 0.08
		}
		return usual(set, rate)
	}
	mustDo(t, s, w)
	l := limitsOf(t, s)
	byGo, other := LimitTry{Under{CPUs: 1}, 2, true}, LimitTry{Under{CPUs: 1}, 1, false}
	if a, b := l.Hold(byGo), l.Hold(other); a.Answer != Fails || b.Answer != Holds || a.Of != b.Of || b.Of != HoldWindows || l.Counts(Under{CPUs: 1}) != other {
		t.Errorf("%+v, %+v, %v", a, b, l.Counts(Under{CPUs: 1}))
	}
	if h := l.Hold(LimitTry{Under{CPUs: 4}, 4, true}); h.Of > 0 {
		t.Errorf("a larger limit was tried: %+v", h)
	}
	seeds, order := map[int][]uint64{}, ""
	for i, window := range s.Windows {
		if window.Phase == HoldPhase {
			seeds[window.Procs] = append(seeds[window.Procs], w.shots[i].Seed)
			order += strconv.Itoa(window.Procs)
		}
	}
	if !slices.Equal(seeds[1], seeds[2]) || !strings.HasPrefix(order, "222111"+"2121212121") {
		t.Errorf("%s: %v", order, seeds)
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
	l := limitsOf(t, s)
	for _, try := range s.Tries() {
		a := l.Highest(try)
		if none := a.Verdict == search.None; !a.Done || none != (try.CPUs == 0.5) {
			t.Errorf("%v: %v", try, a)
		}
	}
	if n := len(slices.DeleteFunc(slices.Clone(s.Windows), func(w LimitWindow) bool { return !w.NoStart })); n != 4 {
		t.Errorf("%d windows without a start, want one of each try for each phase", n)
	}
	if h := l.Hold(s.Tries()[0]); h.Answer != Fails || h.NoStart == "" {
		t.Errorf("half a CPU: %+v", h)
	}
	if h := l.Hold(s.Tries()[2]); h.Answer != Holds {
		t.Errorf("one CPU: %+v", h)
	}

	// One failed start doesn't count.
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
		if shot := w.shots[len(w.shots)-1]; shot.Rate > 150 || shot.setting.CPUs == 1 {
			x.died = "out of memory"
		}
		return trial.Window{}, nil, false
	}
	mustDo(t, s, w)
	if rate := highest(t, s, s.Tries()[4]); rate > 150 || rate < 130 {
		t.Errorf("highest rate %v", rate)
	}
	if h := limitsOf(t, s).Hold(s.Tries()[2]); h.Answer != Fails || h.Of != failWindows+1 || h.Share.Share != 1 {
		t.Errorf("where it dies: %+v", h)
	}
}

// A window that the generator spoils is repeated. If it spoils them all, that isn't an answer, and it ends all the same.
func TestVoidLimitWindows(t *testing.T) {
	void := func(which func(n int) bool) *Study {
		s, w := limitsWorld()
		w.shoot = func(x *fakeSession, n int) (trial.Window, error, bool) {
			got := x.answer(w.shots[len(w.shots)-1].Shot)
			got.Valid = !which(n)
			return got, nil, true
		}
		mustDo(t, s, w)
		return s
	}
	s := void(func(n int) bool { return n%2 == 0 })
	if h := limitsOf(t, s).Hold(s.Tries()[2]); h.Answer != Holds || h.Of != HoldWindows || h.Void < HoldWindows-1 {
		t.Errorf("every other one: %+v", h)
	}
	s = void(func(int) bool { return true })
	if len(s.Windows) > 6*(voidWindows+3) {
		t.Errorf("%d windows, of which none is valid", len(s.Windows))
	}
	l := limitsOf(t, s)
	if answer, anything := l.Unfinished(); answer || anything || l.Hold(s.Tries()[0]).Answer != Open {
		t.Errorf("all: %v, %v", answer, anything)
	}
}

// The clock is asked before each window.
func TestLimitsBudget(t *testing.T) {
	for _, budget := range []time.Duration{time.Second, 20 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, time.Hour} {
		s, w := limitsWorld()
		s.Plan.Budget = budget
		begin := w.now
		mustDo(t, s, w)
		l := limitsOf(t, s)
		took := w.now.Sub(begin)
		h := l.Hold(s.Tries()[2])
		answer, anything := l.Unfinished()
		t.Logf("%v: windows of %v, %d in %v; 1 CPU %s in %d, more wanted %v, %v", budget, s.LimitWindow(), len(s.Windows), took, h.Answer, h.Of, answer, anything)
		if took > budget || anything != (budget < time.Hour) || answer != (h.Answer == Open) || (h.Answer == Holds) != (budget >= 2*time.Minute) {
			t.Errorf("%v: took %v, %+v", budget, took, h)
		}
	}
}

// A SLO has a goal for each time, and one for failures where it does not follow.
func TestGoals(t *testing.T) {
	for slo, want := range map[string]string{
		"p99=50ms":                     "[{p99=50ms 0.01 false}]",
		"p99=50ms,errors=1%":           "[{p99=50ms 0.01 false}]",
		"p99=50ms,errors=0.1%":         "[{p99=50ms 0.01 false} {errors=0.1% 0.001 true}]",
		"p50=5ms,p99.9=1s":             "[{p50=5ms 0.5 false} {p99.9=1s 0.001 false}]",
		"max=1s":                       "[{max=1s 0 false}]",
		"errors=2%":                    "[{errors=2% 0.02 true}]",
		"p90=5ms,errors=0":             "[{p90=5ms 0.1 false} {errors=0% 0 true}]",
		"p99=50ms,p999=1s,errors=0.1%": "[{p99=50ms 0.01 false} {p99.9=1s 0.001 false}]",
	} {
		if got, err := Goals(slo); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v", slo, got, err)
		}
	}
	if _, err := Goals("soon"); err == nil {
		t.Error("no error")
	}
	goals, _ := Goals("p90=5ms,errors=0.1%")
	if got := beyond(goals, []int64{7}, 1000, map[string]float64{string(lab.ErrorShare): 0.3}); !slices.Equal(got, []int64{7, 3}) {
		t.Errorf("got %v", got)
	}
}

// judged are windows in which that many of a thousand requests were beyond the goals.
func judged(t *testing.T, slo string, windows ...[]int64) *holding {
	t.Helper()
	goals, err := Goals(slo)
	if err != nil {
		t.Fatal(err)
	}
	h := &holding{goals: goals, parts: make([][]sample.Part, len(goals)), most: mostWindows}
	for _, beyond := range windows {
		h.add(LimitWindow{Valid: true, Requests: 1000, Beyond: beyond}, 1000)
	}
	return h
}

func TestJudge(t *testing.T) {
	all := func(n int, beyond ...int64) [][]int64 { return slices.Repeat([][]int64{beyond}, n) }
	for _, c := range []struct {
		name, slo string
		windows   [][]int64
		want      Answer
		goal      string
		wants     bool
	}{
		{"nothing yet", "p99=50ms", nil, Open, "p99=50ms", true},
		{"too few", "p99=50ms", all(HoldWindows-1, 1), Open, "p99=50ms", true},
		{"enough", "p99=50ms", all(HoldWindows, 1), Holds, "p99=50ms", false},
		{"all slow, twice", "p99=50ms", all(failWindows-1, 900), Open, "p99=50ms", true},
		{"all slow", "p99=50ms", all(failWindows, 900), Fails, "p99=50ms", false},
		{"one bad window", "p99=50ms", append(all(HoldWindows-1, 0), []int64{75}), Open, "p99=50ms", true},
		{"two", "p99=50ms", append(all(HoldWindows-2, 0), []int64{80}, []int64{75}), Open, "p99=50ms", false},
		{"just above", "p99=50ms", all(HoldWindows, 10), Open, "p99=50ms", true},
		{"too few requests beyond p99.9", "p99.9=50ms", all(4, 0), Open, "p99.9=50ms", true},
		{"the stricter one fails", "p50=5ms,p99=50ms", all(3, 450, 300), Fails, "p99=50ms", false},
		{"the looser one fails", "p50=5ms,p99=50ms", all(3, 950, 0), Fails, "p50=5ms", false},
		{"one of two is open", "p50=5ms,p99=50ms", append(all(14, 10, 0), []int64{10, 70}), Open, "p99=50ms", true},
		{"failures", "p99=50ms,errors=0.1%", all(20, 4, 4), Fails, "errors=0.1%", false},
		{"none may be slower", "max=1s", all(HoldWindows, 0), Holds, "max=1s", false},
		{"none may be, and a few were", "max=1s", append(all(3, 1), []int64{0}), Fails, "max=1s", false},
		{"an older file", "p99=50ms", all(20), Open, "p99=50ms", true},
	} {
		h := judged(t, c.slo, c.windows...)
		if got := h.judge(); got.Answer != c.want || got.Goal.Text != c.goal || h.wants() != c.wants {
			t.Errorf("%s: %+v, wants %v", c.name, got, h.wants())
		}
	}
	// What more would take.
	if n := judged(t, "p99=50ms", all(5, 1)...).judge().More; n != HoldWindows-5 {
		t.Errorf("after five: %d", n)
	}
	if n := judged(t, "p99=50ms", append(all(HoldWindows-1, 0), []int64{75})...).judge().More; n < 10 || n > 200 {
		t.Errorf("after a bad one: %d", n)
	}
	if n := judged(t, "p99=50ms", all(HoldWindows, 10)...).judge().More; n != 0 {
		t.Errorf("at the limit: %d", n)
	}
}

// How often does the answer mislead, with a look after each window? Slow requests come in bad windows, of which there are few or many, and
// which differ: by how much is the standard deviation of the logarithm of their share. One in a hundred may be slow.
func TestHoldErrors(t *testing.T) {
	const (
		tries    = 400
		requests = 750
		goal     = 0.01
	)
	t.Logf("%6s %12s %8s %8s %8s %8s %8s", "slow", "bad windows", "differ", "holds", "fails", "open", "windows")
	for _, c := range []struct{ slow, bad, differ, wrong, windows float64 }{ // of a wrong answer, and of windows, the most
		{0.3, 1, 0.3, 0.05, 3},
		{0.015, 1, 0.3, 0.05, 10},
		{0.015, 0.5, 0.3, 0.05, 15},
		{0.015, 0.2, 0.3, 0.05, 18},
		{0.015, 1, 1, 0.05, 16},
		{0.02, 0.2, 0.3, 0.05, 16},
		{0.012, 0.2, 0.3, 0.05, 20},
		{0.012, 1, 1, 0.08, 20},
		{0.01, 0.2, 0.3, 0.1, 22},
		{0.01, 1, 0.3, 0.1, 22},
		{0.007, 1, 0.3, 0.05, 20},
		{0.005, 0.2, 0.3, 0.05, 27},
		{0.003, 0.2, 0.3, 0.05, 20},
		{0.003, 1, 1, 0.05, 17},
		{0.003, 1, 0.3, 0.05, 15.5},
		{0, 1, 0.3, 0, 15},
	} {
		r := rand.New(rand.NewPCG(uint64(1e6*c.slow), uint64(100*c.bad)))
		count, windows := map[Answer]float64{}, 0.0
		for range tries {
			h := judged(t, "p99=50ms")
			for h.wants() {
				slow := int64(0)
				if r.Float64() < c.bad {
					share := min(1, c.slow/c.bad*math.Exp(c.differ*r.NormFloat64()-c.differ*c.differ/2))
					for range requests {
						if r.Float64() < share {
							slow++
						}
					}
				}
				h.add(LimitWindow{Valid: true, Requests: requests, Beyond: []int64{slow}}, requests)
			}
			count[h.judge().Answer] += 1. / tries
			windows += float64(h.of) / tries
		}
		t.Logf("%5.1f%% %11.0f%% %8.1f %7.1f%% %7.1f%% %7.1f%% %8.1f", 100*c.slow, 100*c.bad, c.differ, 100*count[Holds], 100*count[Fails], 100*count[Open], windows)
		wrong := Holds
		if c.slow < goal {
			wrong = Fails
		}
		if count[wrong] > c.wrong || windows > c.windows {
			t.Errorf("%+v", c)
		}
		if c.slow <= goal/3 && count[Holds] < 0.95 {
			t.Errorf("%v are found in %v", c.slow, count[Holds])
		}
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
	cpus, memory := new(Plan), &Plan{Memories: []int64{1 << 27, 0}}
	if got := cpus.name(LimitTry{Under{CPUs: 0}, 2, true}) + "; " + cpus.name(LimitTry{Under{CPUs: 0.5}, 1, false}) + "; " + memory.name(LimitTry{Under{1, 1 << 27}, 2, true}) + "; " + memory.name(LimitTry{Under{1, 0}, 2, true}); !strings.HasPrefix(got, "no limit, GOMAXPROCS=2; limit 0.5, GOMAXPROCS=1; memory limit 128 MiB; no memory limit") {
		t.Error(got)
	}
}
