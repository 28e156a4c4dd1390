package tune

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// TestDisturbed: which runs say nothing of how long anything takes, and of which CPU time may be off.
func TestDisturbed(t *testing.T) {
	for _, c := range []struct {
		name              string
		cpus              int
		limit             float64
		run               lab.Run
		disturbed, shared bool
	}{
		{"quiet", 2, 1, lab.Run{}, false, false},
		{"a neighbour", 2, 1, lab.Run{Others: 0.3}, true, true},
		{"a neighbour that is not in the latencies", 2, 1, lab.Run{Others: 0.3, Sliced: true}, false, true},
		{"stolen", 2, 1, lab.Run{Stolen: 0.05}, true, false},
		{"stolen, and slices can't tell", 2, 1, lab.Run{Stolen: 0.05, Sliced: true}, true, false},
		{"a little stolen", 2, 1, lab.Run{Stolen: 0.035}, false, false},
		{"room for both", 16, 2, lab.Run{Others: 6}, false, false},
		{"hardly room", 16, 2, lab.Run{Others: 7}, true, true},
		{"no limit", 16, 0, lab.Run{Others: 0.3}, true, true},
		{"a limit of all CPUs", 4, 4, lab.Run{Others: 0.3}, true, true},
	} {
		s := &Study{Environment: lab.Environment{CPUs: c.cpus}}
		if d, shared := s.disturbed(c.run, c.limit), s.shared(c.run, c.limit); d != c.disturbed || shared != c.shared {
			t.Errorf("%s: disturbed %v, shared %v", c.name, d, shared)
		}
	}
}

// TestMadeAgain: disturbed runs are made again, for at most half of the budget, and those that stay disturbed don't decide.
func TestMadeAgain(t *testing.T) {
	jobs := func(budget time.Duration, others func(nth int) float64) *Study {
		w, s := newWorld(), newStudy(Plan{Kind: JobKind, Budget: budget})
		w.others, w.jobTime = others, func(s lab.Setting) float64 { return w.p99(s, 0) }
		mustDo(t, s, w)
		return s
	}
	marked := func(s *Study) (n int) {
		for _, r := range s.Runs {
			for _, m := range r.Marks {
				if strings.HasPrefix(m, lab.MarkAgain) {
					n++
				}
			}
			if (r.Lost > 0) != (len(r.Marks) > 0) || (r.Lost > 0) != (r.Again > 0) || r.Lost >= r.Seconds {
				t.Errorf("lost %v of %v s in %d attempts, and it is marked %q", r.Lost, r.Seconds, r.Again, r.Marks)
			}
		}
		return n
	}
	verdict := func(s *Study) search.TuneVerdict {
		m, err := s.Search(0)
		if err != nil {
			t.Fatal(err)
		}
		return m.Verdict()
	}
	burst := jobs(3*time.Minute, func(nth int) float64 { return []float64{0, 0, 0, 3.5}[nth%4] })
	if v := verdict(burst); marked(burst) == 0 || v.Disturbed > 0 || v.Kind == search.Undecided {
		t.Errorf("bursts: %d made again, %+v", marked(burst), v)
	}
	always := jobs(3*time.Minute, func(int) float64 { return 3.5 })
	lost := 0.0
	for _, r := range always.Runs {
		lost += r.Lost
	}
	if v := verdict(always); lost == 0 || lost > 90 || v.Reason != search.Disturbed || v.Disturbed != v.Runs || always.Beside(0) != 3.5 {
		t.Errorf("always: %v s lost, %+v", lost, v)
	}
	unhurried := jobs(0, func(int) float64 { return 3.5 })
	for _, r := range unhurried.Runs {
		if r.Lost == 0 || r.Lost > r.Seconds/2 {
			t.Fatalf("without a budget: lost %v of %v s", r.Lost, r.Seconds)
		}
	}
}

// TestLooksAgain: the pilot looks again while others use the CPUs, for a part of the budget that is time and not the looks' own length: in
// a pod each takes seconds to begin.
func TestLooksAgain(t *testing.T) {
	for _, begins := range []time.Duration{0, 5 * time.Second} {
		w, s := newWorld(), newStudy(Plan{Budget: 100 * time.Second, Conns: 4})
		w.shoot = func(x *fakeSession, _ int) (trial.Window, error, bool) {
			w.pass(begins)
			got := x.answer(w.shots[len(w.shots)-1].Shot)
			got.Others = 7
			return got, nil, true
		}
		j := mustDo(t, s, w)
		again := 0
		for _, p := range j.told {
			if strings.HasSuffix(p.Doing, ": looking again") {
				again++
			}
		}
		if most := time.Duration(waitShare * float64(s.Plan.Budget)); again == 0 || time.Duration(again)*begins > most {
			t.Errorf("a look that begins %v later: %d again, of %v", begins, again, most)
		}
	}
}

// TestUnseen: what was not seen is done again, at any point, and leads to the same result. What is never seen ends the study, and the
// journal says of what; the study can be continued.
func TestUnseen(t *testing.T) {
	still := &trial.Unseen{Why: "the meter stood still"}
	plans := map[string]Plan{"one limit": {}, "several": {Limits: []float64{0.5, 1}, SLO: "p99=50ms", Rate: 100}}
	for name, plan := range plans {
		t.Run(name, func(t *testing.T) {
			begin := func() (*Study, *world) {
				w := newWorld()
				w.slo = 0.05
				return newStudy(plan), w
			}
			whole, w := begin()
			mustDo(t, whole, w)
			loads := w.loads
			for at := 1; at <= loads; at += 1 + loads/20 {
				s, w := begin()
				w.insert(at, func(*fakeSession) (trial.Window, error) { return trial.Window{}, still })
				j := mustDo(t, s, w)
				if len(s.Runs) != len(whole.Runs) || len(s.Windows) != len(whole.Windows) || w.loads != loads+1 {
					t.Fatalf("unseen at %d: %d runs, %d windows, %d loads", at, len(s.Runs), len(s.Windows), w.loads)
				}
				if !slices.ContainsFunc(j.told, func(p Progress) bool { return p.Doing == "doing that again: the meter stood still" }) {
					t.Fatalf("unseen at %d, and that is not told", at)
				}
				for i, r := range s.Runs {
					again := slices.Contains(r.Marks, lab.MarkUnseen)
					if r.Search != whole.Runs[i].Search || again != (r.Lost > 0) || r.Again > 0 || again && r.Seconds <= r.Lost {
						t.Fatalf("unseen at %d: %+v", at, r)
					}
				}

				s, w = begin()
				blind := true
				w.shoot = func(_ *fakeSession, n int) (trial.Window, error, bool) {
					return trial.Window{}, still, blind && n >= at
				}
				j, err := do(t, context.Background(), s, w)
				if !errors.Is(err, still) || w.loads != at+mostUnseen {
					t.Fatalf("never seen from %d on: %v after %d loads", at, err, w.loads)
				}
				measured := s.Pilot != nil || len(s.Windows) > 0
				if (s.Failure == still.Why) != measured {
					t.Fatalf("never seen from %d on: it failed by %q", at, s.Failure)
				}
				if !measured {
					continue
				}
				again, _, err := Read(j.all())
				if err != nil || again.Failure != still.Why {
					t.Fatalf("the journal: %v, %q", err, again.Failure)
				}
				blind = false
				if mustDo(t, again, w); again.Failure != "" || len(again.Runs) < len(s.Runs) {
					t.Fatalf("gone on with: %d runs, %q", len(again.Runs), again.Failure)
				}
			}
		})
	}
}

// TestOutOfTime: the budget is what ended a load's search only where it was.
func TestOutOfTime(t *testing.T) {
	run := func(load, room int) Run { return Run{Load: load, Room: room} }
	two := &Pilot{Foresight: Foresight{Procs: 2}, Candidates: []int{1}, Loads: []Load{{Rate: 10, Window: time.Second, Tail: "p99"}, {Rate: 20, Window: time.Second, Tail: "p99"}}}
	for name, c := range map[string]struct {
		change func(*Study)
		want   [2]bool
	}{
		"no budget":            {func(s *Study) { s.Plan.Budget = 0; s.Pilot.Late = true }, [2]bool{}},
		"no run yet":           {func(*Study) {}, [2]bool{}},
		"the pilot took it":    {func(s *Study) { s.Pilot.Late = true }, [2]bool{true, true}},
		"room is left":         {func(s *Study) { s.Runs = []Run{run(0, 5)} }, [2]bool{}},
		"none is left":         {func(s *Study) { s.Runs = []Run{run(0, 5), run(0, 1)} }, [2]bool{true, true}},
		"an error":             {func(s *Study) { s.Runs, s.Failure = []Run{run(0, 1)}, "x" }, [2]bool{}},
		"an error, and no run": {func(s *Study) { s.Pilot.Late, s.Failure = true, "x" }, [2]bool{}},
	} {
		s := newStudy(Plan{Budget: time.Minute})
		p := *two
		s.Pilot = &p
		c.change(s)
		if got := [2]bool{s.OutOfTime(0), s.OutOfTime(1)}; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
