package tune

import (
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
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

// TestMadeAgain: what something else ran beside is made again, for at most half of the budget, and what stays so does not decide.
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
