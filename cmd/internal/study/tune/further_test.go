package tune

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// TestFurther: a study that was done, or ended with its budget, goes on with another goal where the runs so far fit. Its journal says
// where, and can be read, and cut, like any other.
func TestFurther(t *testing.T) {
	alike := func(w *world) {
		flat(w)
		w.noisy(0.4, func(s trial.Shot) bool { return s.WarmUp > 0 })
	}
	for _, c := range []struct {
		name  string
		plan  Plan
		world func(*world)
		to    func(*Reach)
		err   string
		is    func(search.TuneVerdict) bool
	}{
		{"more time", Plan{Budget: 20 * time.Second}, nil, func(g *Reach) { g.Budget = 3 * time.Minute }, "", func(v search.TuneVerdict) bool { return v.Done && v.Procs == 2 }},
		{"no budget", Plan{Budget: 20 * time.Second}, nil, func(g *Reach) { g.Budget = 0 }, "", func(v search.TuneVerdict) bool { return v.Done && v.Procs == 2 }},
		{"a budget with room for more blocks", Plan{Budget: 3 * time.Minute, Blocks: 0}, alike, func(g *Reach) { g.Budget = 20 * time.Minute }, "", nil},
		{"two rates", Plan{Budget: 40 * time.Second, Shares: []float64{0.65, 0.3}}, nil, func(g *Reach) { g.Budget = 5 * time.Minute }, "", func(v search.TuneVerdict) bool { return v.Done }},
		{"more blocks", Plan{Blocks: 3}, alike, func(g *Reach) { g.Blocks = 6 }, "", func(v search.TuneVerdict) bool { return v.Blocks > 3 }},
		{"more pairs", Plan{}, nil, func(g *Reach) { g.Pairs = 12 }, "", func(v search.TuneVerdict) bool { return v.Done && v.Pairs == 12 }},
		{"a budget that is spent", Plan{Budget: 20 * time.Second}, nil, func(g *Reach) { g.Budget = 15 * time.Second }, "of a budget of 15s", nil},
		{"it has its verdict", Plan{}, nil, func(g *Reach) { g.Budget = time.Hour }, "has its verdict", nil},
		{"other runs", Plan{Blocks: 6}, alike, func(g *Reach) { g.Blocks = 3 }, "would have been different", nil},
		{"too few blocks", Plan{Blocks: 6}, alike, func(g *Reach) { g.Blocks = 1 }, "would have been different", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, s := newWorld(), newStudy(c.plan)
			if c.world != nil {
				c.world(w)
			}
			j := mustDo(t, s, w)
			before, goal := len(s.Runs), s.Reach()
			c.to(&goal)
			taken, err := s.Further(goal)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || s.Reach() != (Reach{c.plan.Budget, c.plan.Pairs, c.plan.Blocks}) {
					t.Errorf("%v, and the goal is %+v", err, s.Reach())
				}
				return
			}
			if err != nil || taken != s.Reach() {
				t.Fatalf("%+v, %v", taken, err)
			}
			if err := j.record(Record{Reach: &taken}); err != nil {
				t.Fatal(err)
			}
			if err := s.Execute(context.Background(), w.lab(j)); err != nil {
				t.Fatal(err)
			}
			v := verdict(t, s, 0)
			if len(s.Runs) <= before || c.is != nil && !c.is(v) {
				t.Errorf("%d runs and then %d: %+v", before, len(s.Runs), v)
			}
			for left := 0; left <= len(j.lines); left += 1 + len(j.lines)/10 {
				lines := len(j.lines) - left
				again, _, err := Read(j.first(lines))
				if err != nil {
					t.Fatalf("%d lines: %v", lines, err)
				}
				if left == 0 && (len(again.Runs) != len(s.Runs) || again.Reach() != s.Reach()) {
					t.Errorf("read again: %d runs, %+v", len(again.Runs), again.Reach())
				}
			}
		})
	}
	// Before the pilot there is nothing that it has to fit.
	s := newStudy(Plan{Budget: 20 * time.Second})
	if _, err := s.Further(Reach{Blocks: 4}); err != nil || s.Plan.Blocks != 4 || s.Plan.Budget != 0 {
		t.Errorf("%+v, %v", s.Reach(), err)
	}
}

// A journal with a goal that the runs before it do not fit isn't ours.
func TestReadGoal(t *testing.T) {
	server, _, limits := small(t)
	goal := func(g Reach) []byte {
		var b bytes.Buffer
		if err := lab.WriteJournal(&b, Record{Reach: &g}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	if _, _, err := Read(append(server.all(), goal(Reach{Blocks: 3, Pairs: 7})...)); err != nil {
		t.Error(err)
	}
	for name, data := range map[string][]byte{
		"other runs": append(server.all(), goal(Reach{Blocks: 3, Pairs: 1})...),
		"a limit":    append(limits.all(), goal(Reach{})...),
		"no budget":  append(server.all(), goal(Reach{Budget: -1})...),
	} {
		if _, _, err := Read(data); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
