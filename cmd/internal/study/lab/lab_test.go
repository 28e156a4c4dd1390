package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// fake is a runner with set numbers and a clock of its own: each run takes a second.
type fake struct {
	now   time.Time
	order []Setting
	value func(s Setting, n int) float64 // NaN: the run fails
	stop  func()                         // called before run stopAt
	at    int
}

func (f *fake) Run(ctx context.Context, s Setting, _ int) (Run, error) {
	f.order = append(f.order, s)
	if f.stop != nil && len(f.order) == f.at {
		f.stop()
	}
	f.now = f.now.Add(time.Second)
	v := f.value(s, len(f.order))
	if math.IsNaN(v) {
		return Run{Error: "exit code 1"}, nil
	}
	return Run{Seconds: 1, GOMAXPROCS: max(s.Procs, 2), Metrics: map[string]float64{"ns/op": v}}, nil
}

func (f *fake) clock() time.Time { return f.now }

func flat(Setting, int) float64 { return 1 }

func plan(blocks int, procs ...int) Plan {
	return Plan{
		Settings: Cross([]string{"w"}, []Setting{{}}, []float64{1}, procs), Blocks: blocks, Seed: 1, Margin: 0.05, Compare: ByProcs,
		Figures: map[string]Metric{"w": {Unit: "ns/op", Better: "lower"}},
	}
}

func keep(Run) error { return nil }
func quiet(Progress) {}

func TestExecute(t *testing.T) {
	f := &fake{value: flat}
	s := &Study{Plan: plan(3, 0, 1, 2)}
	var recorded []Run
	var told []Progress
	err := s.Execute(context.Background(), f, f.clock, func(r Run) error { recorded = append(recorded, r); return nil },
		func(p Progress) { told = append(told, p) })
	if err != nil || len(s.Runs) != 9 || len(recorded) != 9 {
		t.Fatalf("got %d runs, %v", len(s.Runs), err)
	}
	if len(f.order) != 10 {
		t.Errorf("%d runs were done, want one more, for warming up", len(f.order))
	}
	for block := 1; block <= 3; block++ {
		seen := map[int]bool{}
		for _, r := range s.Runs[3*block-3 : 3*block] {
			if r.Block != block {
				t.Errorf("block %d among the runs of %d", r.Block, block)
			}
			seen[r.Setting] = true
		}
		if len(seen) != 3 {
			t.Errorf("block %d has not every setting: %v", block, seen)
		}
	}
	last := told[len(told)-1]
	if last.Done != 8 || last.Runs != 9 || last.Blocks != 3 || last.Left != time.Second {
		t.Errorf("before the last run it told %+v", last)
	}
	if !told[0].Warmup || told[1].Warmup {
		t.Errorf("told %+v", told[:2])
	}
}

// TestOrder holds that the order of a block depends on nothing but the seed and the block, and that it varies.
func TestOrder(t *testing.T) {
	p := plan(1, 1, 2, 3, 4)
	orders := map[string]bool{}
	for block := range 100 {
		if !slices.Equal(p.Order(block), p.Order(block)) {
			t.Fatal("the order is not the same the second time")
		}
		orders[fmt.Sprint(p.Order(block))] = true
	}
	if len(orders) < 20 {
		t.Errorf("only %d of 24 orders in 100 blocks", len(orders))
	}
}

// TestBudget: 3 settings of a second each, one for warming up. 10 s hold three whole blocks.
func TestBudget(t *testing.T) {
	for budget, want := range map[time.Duration]int{10 * time.Second: 3, 9 * time.Second: 2, time.Second: 1, 12 * time.Second: 3, 13 * time.Second: 4} {
		f := &fake{value: flat}
		s := &Study{Plan: plan(0, 0, 1, 2)}
		s.Plan.Budget = Seconds(budget)
		var last Progress
		if err := s.Execute(context.Background(), f, f.clock, keep, func(p Progress) { last = p }); err != nil {
			t.Fatal(err)
		}
		if len(s.Runs) != 3*want {
			t.Errorf("%v: %d runs, want %d blocks", budget, len(s.Runs), want)
		}
		if last.Blocks != want {
			t.Errorf("%v: in the last block it told of %d, want %d", budget, last.Blocks, want)
		}
	}
}

// TestInterrupt stops a lab in a run and goes on from its journal: the runs are those of a lab that was not interrupted.
func TestInterrupt(t *testing.T) {
	whole := &Study{Version: Version, Verb: "bench", Plan: plan(4, 0, 1, 2)}
	f := &fake{value: flat}
	if err := whole.Execute(context.Background(), f, f.clock, keep, quiet); err != nil {
		t.Fatal(err)
	}

	s := &Study{Version: Version, Verb: "bench", Plan: plan(4, 0, 1, 2)}
	ctx, cancel := context.WithCancel(context.Background())
	f = &fake{value: flat, stop: cancel, at: 7} // the first was for warming up, so five are whole
	var kept bytes.Buffer
	if err := WriteJournal(&kept, s.Head()); err != nil {
		t.Fatal(err)
	}
	record := func(r Run) error { return WriteJournal(&kept, r) }
	if err := s.Execute(ctx, f, f.clock, record, quiet); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	kept.WriteString(`{"block":2,"pla`) // and the disk was full
	again, cut, err := ReadStudy(kept.Bytes())
	if err != nil || cut != 15 || len(again.Runs) != 5 {
		t.Fatalf("got %d runs, cut %d, %v", len(again.Runs), cut, err)
	}
	f = &fake{value: flat}
	if err := again.Execute(context.Background(), f, f.clock, keep, quiet); err != nil {
		t.Fatal(err)
	}
	for i, r := range again.Runs {
		if w := whole.Runs[i]; r.Block != w.Block || r.Setting != w.Setting || r.Place != w.Place {
			t.Errorf("run %d is %+v, want %+v", i, r, w)
		}
	}
	if len(again.Runs) != len(whole.Runs) {
		t.Errorf("%d runs, want %d", len(again.Runs), len(whole.Runs))
	}
}

// TestFailures: a setting that never works ends the lab, one that fails now and then does not.
func TestFailures(t *testing.T) {
	f := &fake{value: func(s Setting, n int) float64 {
		if s.Procs == 2 {
			return math.NaN()
		}
		return 1
	}}
	s := &Study{Plan: plan(10, 1, 2)}
	err := s.Execute(context.Background(), f, f.clock, keep, quiet)
	if err == nil || !strings.Contains(err.Error(), "GOMAXPROCS 2 failed in all of its 3 runs: exit code 1") {
		t.Errorf("got %v", err)
	}
	f = &fake{value: func(s Setting, n int) float64 {
		if s.Procs == 2 && n%4 == 0 {
			return math.NaN()
		}
		return 1
	}}
	s = &Study{Plan: plan(10, 1, 2)}
	if err := s.Execute(context.Background(), f, f.clock, keep, quiet); err != nil {
		t.Fatal(err)
	}
	g := Analyse(s).Groups[0]
	if g.Rows[1].Failed == 0 || g.Rows[1].Comparison.Pairs != 10-g.Rows[1].Failed {
		t.Errorf("got %+v", g.Rows[1])
	}
	f = &fake{value: func(Setting, int) float64 { return math.NaN() }}
	if err := (&Study{Plan: plan(10, 1, 2)}).Execute(context.Background(), f, f.clock, keep, quiet); err == nil {
		t.Error("a program that fails while warming up gave no error")
	}
	full := errors.New("no space left on device")
	f = &fake{value: flat}
	if err := (&Study{Plan: plan(2, 1, 2)}).Execute(context.Background(), f, f.clock, func(Run) error { return full }, quiet); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

// TestClaims draws runs with 3 % noise and a machine that drifts by 30 % between blocks.
func TestClaims(t *testing.T) {
	for _, c := range []struct {
		name   string
		blocks int
		cost   map[int]float64 // by GOMAXPROCS; 0 is the base
		want   Claim
	}{
		{"one better", 12, map[int]float64{0: 1, 1: 0.8, 2: 1}, Claim{Kind: Set, Row: 1, Gain: InFigure}},
		{"the better of two", 12, map[int]float64{0: 1, 1: 0.8, 2: 0.6}, Claim{Kind: Set, Row: 2, Gain: InFigure}},
		{"all equal", 30, map[int]float64{0: 1, 1: 1, 2: 1}, Claim{Kind: Keep}},
		{"all worse", 12, map[int]float64{0: 1, 1: 1.3, 2: 1.5}, Claim{Kind: Keep}},
		{"few blocks", 5, map[int]float64{0: 1, 1: 0.8, 2: 1}, Claim{Kind: TooFew}},
		{"alone", 5, map[int]float64{0: 1}, Claim{Kind: Alone}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var procs []int
			for n := range len(c.cost) {
				procs = append(procs, n)
			}
			r := rand.New(rand.NewPCG(1, 2))
			s := &Study{Plan: plan(c.blocks, procs...)}
			drift, runs := 1.0, 0
			f := &fake{value: func(s Setting, n int) float64 {
				if runs%len(procs) == 0 {
					drift = math.Exp(0.3 * r.NormFloat64())
				}
				if n > 1 {
					runs++
				}
				return 1000 * drift * c.cost[s.Procs] * math.Exp(0.03*r.NormFloat64())
			}}
			if err := s.Execute(context.Background(), f, f.clock, keep, quiet); err != nil {
				t.Fatal(err)
			}
			a := Analyse(s)
			if len(a.Groups) != 1 || a.Groups[0].Claim != c.want {
				t.Errorf("got %+v, want %+v", a.Groups[0].Claim, c.want)
			}
		})
	}
}

func TestGroups(t *testing.T) {
	p := Plan{
		Settings: Cross([]string{"a", "b"}, []Setting{{Go: "go1.18.10"}, {Go: "go1.26.8"}}, []float64{0, 0.5}, []int{1, 2, 2}),
		Figures:  map[string]Metric{"a": {Unit: "ns/op"}, "b": {Unit: "ops/s"}},
	}
	if len(p.Settings) != 16 {
		t.Errorf("%d settings, want 16 without doubles", len(p.Settings))
	}
	for by, want := range map[Factor]int{ByProcs: 8, ByCPUs: 8, ByGo: 8, ByWorkload: 8} {
		p.Compare = by
		groups := groups(p)
		if len(groups) != want {
			t.Errorf("%s: %d groups, want %d", by, len(groups), want)
		}
		for _, g := range groups {
			if len(g.Rows) != 2 {
				t.Errorf("%s: %d rows", by, len(g.Rows))
			}
		}
	}
	if got := Varied(p.Settings); got != ByProcs {
		t.Errorf("got %s", got)
	}
	if got := Varied(Cross([]string{"a"}, []Setting{{Go: "x"}, {Go: "y"}}, []float64{1}, []int{1})); got != ByGo {
		t.Errorf("got %s", got)
	}
	if got := Varied(Cross([]string{"a", "b"}, []Setting{{Build: "x", Go: "x"}, {Build: "y", Go: "y"}}, []float64{1}, []int{1, 2})); got != ByBuild {
		t.Errorf("got %s", got)
	}
	if got := p.Name(p.Settings[5]); got != "a, go1.26.8, limit none, GOMAXPROCS 2" {
		t.Errorf("got %q", got)
	}
}

func FuzzReadStudy(f *testing.F) {
	s := &Study{Version: Version, Verb: "bench", Plan: plan(4, 0, 1)}
	var b bytes.Buffer
	if err := errors.Join(WriteJournal(&b, s.Head()), WriteJournal(&b, Run{Block: 1, Setting: 1, Metrics: map[string]float64{"ns/op": 1}}), WriteJournal(&b, Run{Block: 1})); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:b.Len()-5])
	f.Add([]byte(`{"version":2,"verb":"explain"}`))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, cut, err := ReadStudy(data)
		if err != nil {
			return
		}
		if cut < 0 || cut > len(data) {
			t.Errorf("cut %d of %d", cut, len(data))
		}
		Analyse(s) // any study can be analysed
	})
}
