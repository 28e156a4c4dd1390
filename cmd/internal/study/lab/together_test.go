package lab

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// shared is a machine on which several runs take the time of one.
type shared struct {
	fake
	uses    float64                              // CPUs that a run uses alone
	loads   float64                              // and what sends it requests
	harm    string                               //
	beside  func(s []Setting, n int, runs []Run) // changes what those give that run for the nth time at the same time; nil: nothing
	batches [][]Setting                          // that ran at the same time
	after   func(r *Run)                         // changes each run; nil: nothing
	stopAt  int                                  // of them
}

func (m *shared) Run(ctx context.Context, s Setting, block int) (Run, error) {
	r, err := m.fake.Run(ctx, s, block)
	if r.Error == "" {
		CPUTime.Set(r.Metrics, m.uses)
	}
	if m.after != nil {
		m.after(&r)
	}
	return r, err
}

func (m *shared) Beside() (float64, string) { return m.loads, m.harm }

func (m *shared) Several(ctx context.Context, settings []Setting, block int) (runs []Run, err error) {
	m.batches = append(m.batches, settings)
	if len(m.batches) == m.stopAt {
		m.stop()
	}
	at := m.now
	for _, s := range settings {
		m.now = at
		r, err := m.Run(ctx, s, block)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	if m.beside != nil {
		m.beside(settings, len(m.batches), runs)
	}
	return runs, nil
}

// builds is a plan of two builds of some benchmarks.
func builds(blocks int, names ...string) Plan {
	p := Plan{
		Settings: Cross(names, []Setting{{Build: "old"}, {Build: "new"}}, []float64{0}, []int{0}),
		Blocks:   blocks, Seed: 1, Margin: 0.02, Compare: ByBuild, AtOnce: 8, Figures: map[string]Metric{},
	}
	for _, name := range names {
		p.Figures[name] = OpTime.Metric("time of an operation")
	}
	return p
}

// TestAtOnce: where there is room the builds of a benchmark run at the same time, each once in a block, and it takes little more than half
// of the time.
func TestAtOnce(t *testing.T) {
	const blocks = 20
	taken := map[int]time.Duration{}
	for _, most := range []int{0, 8} {
		m := &shared{fake: fake{value: flat}, uses: 1.1}
		p := builds(blocks, "A", "B", "C")
		p.AtOnce = most
		s := &Study{Plan: p, Environment: Environment{CPUs: 4}}
		if err := s.Execute(t.Context(), m, m.clock, keep, quiet); err != nil {
			t.Fatal(err)
		}
		taken[most] = m.now.Sub(time.Time{})
		times, places := map[[2]int]int{}, map[[2]int]int{}
		for _, r := range s.Runs {
			times[[2]int{r.Block, r.Setting}]++
			places[[2]int{r.Block, r.Place}]++
			if want := min(most, 2); r.AtOnce != want || r.InTurn != "" {
				t.Fatalf("%d at once: %+v", most, r)
			}
		}
		for _, n := range slices.Concat(slices.Collect(maps.Values(times)), slices.Collect(maps.Values(places))) {
			if n != 1 {
				t.Fatalf("%d at once: runs %v, places %v", most, times, places)
			}
		}
		if len(times) != blocks*len(p.Settings) {
			t.Errorf("%d at once: %d runs", most, len(times))
		}
	}
	if ratio := float64(taken[8]) / float64(taken[0]); ratio > 0.7 {
		t.Errorf("at the same time it takes %.2f of the time", ratio)
	}
}

// TestAtOnceGroups: only what is compared with each other runs at the same time, and no more than there is room for.
func TestAtOnceGroups(t *testing.T) {
	m := &shared{fake: fake{value: flat}, uses: 1}
	p := builds(3, "A", "B")
	p.Settings = Cross([]string{"A", "B"}, []Setting{{Build: "a"}, {Build: "b"}, {Build: "c"}, {Build: "d"}}, []float64{0}, []int{0})
	s := &Study{Plan: p, Environment: Environment{CPUs: 5}} // 60 % are room for three
	if err := s.Execute(t.Context(), m, m.clock, keep, quiet); err != nil {
		t.Fatal(err)
	}
	for _, batch := range m.batches {
		if n := len(batch); n > 3 || slices.ContainsFunc(batch, func(s Setting) bool { return s.Workload != batch[0].Workload }) {
			t.Errorf("%v", batch)
		}
	}
	alone := 0
	for _, r := range s.Runs {
		if r.AtOnce == 0 {
			alone++
		}
	}
	if len(s.Runs) != 24 || alone != 6 { // the fourth of each block
		t.Errorf("%d runs, %d alone", len(s.Runs), alone)
	}
}

// TestInTurn: what has no room, would do harm, fails alongside others, or behaves differently alongside itself than alone, takes turns, and
// the reason is given once.
func TestInTurn(t *testing.T) {
	for name, c := range map[string]struct {
		cpus   int
		uses   float64
		limit  float64
		loads  float64
		harm   string
		beside func(s []Setting, n int, runs []Run)
		why    string
		turned int // the run that says so
	}{
		"no room":           {cpus: 2, uses: 1, why: "two of them take 2 CPUs, which is more than 60 % of 2 CPUs"},
		"a limit is room":   {cpus: 2, uses: 0.5, limit: 0.5},
		"no room by limit":  {cpus: 2, uses: 0.1, limit: 1, why: "two of them take 2 CPUs, which is more than 60 % of 2 CPUs"},
		"what loads it":     {cpus: 4, uses: 1, loads: 0.5, why: "two of them take 3 CPUs, which is more than 60 % of 4 CPUs"},
		"not known":         {cpus: 4, why: "how many CPUs one of them needs is not known"},
		"harm":              {cpus: 8, uses: 1, harm: "it writes /var/lib/data", why: "it writes /var/lib/data"},
		"slower beside":     {cpus: 8, uses: 1, beside: func(_ []Setting, _ int, runs []Run) { times(runs, 1.3) }, why: "next to a copy of itself its time of an operation is 130 % of what it is alone"},
		"faster beside":     {cpus: 8, uses: 1, beside: func(_ []Setting, _ int, runs []Run) { times(runs, 0.8) }, why: "next to a copy of itself its time of an operation is 80 % of what it is alone"},
		"a little slower":   {cpus: 8, uses: 1, beside: func(_ []Setting, _ int, runs []Run) { times(runs, 1.1) }},
		"fails beside":      {cpus: 8, uses: 1, beside: func(_ []Setting, _ int, runs []Run) { runs[1].Error = "address already in use" }, why: "one failed next to the others: address already in use"},
		"others":            {cpus: 8, uses: 1, beside: func(_ []Setting, _ int, runs []Run) { runs[0].Others = 6 }, why: "with others 8 CPUs of 8 CPUs were used", turned: 4},
		"a load that fails": {cpus: 8, uses: 1, beside: func(_ []Setting, _ int, runs []Run) { runs[1].Marks = []string{MarkLoad + ": late"} }, why: "next to the others a load was not sent as planned"},
	} {
		m := &shared{fake: fake{value: flat}, uses: c.uses, loads: c.loads, harm: c.harm, beside: c.beside}
		p := builds(4, "A")
		for i := range p.Settings {
			p.Settings[i].CPUs = c.limit
		}
		s := &Study{Plan: p, Environment: Environment{CPUs: c.cpus}}
		if err := s.Execute(t.Context(), m, m.clock, keep, quiet); err != nil {
			t.Fatal(err)
		}
		for i, r := range s.Runs {
			if want := c.why; (i == c.turned && r.InTurn != want) || (i != c.turned && r.InTurn != "") || (r.AtOnce > 0) == (c.why != "") {
				t.Errorf("%s: run %d: %d at once, %q; want %q", name, i, r.AtOnce, r.InTurn, want)
			}
			if r.Others > 0 || len(r.Marks) > 0 || r.Error != "" {
				t.Errorf("%s: a run counts that did not fit: %+v", name, r)
			}
		}
		if why := reasons(s); !slices.Equal(why, slices.DeleteFunc([]string{c.why}, func(w string) bool { return w == "" })) || len(s.Runs) != 8 {
			t.Errorf("%s: %q, %d runs", name, why, len(s.Runs))
		}
	}
}

// TestLooksAgain: where others used the CPUs while it was looked whether there is room, it is looked again.
func TestLooksAgain(t *testing.T) {
	m := &shared{fake: fake{value: flat}, uses: 1}
	m.beside = func(_ []Setting, n int, runs []Run) {
		if n == 1 {
			runs[0].Others = 6
		}
	}
	s := &Study{Plan: builds(4, "A"), Environment: Environment{CPUs: 8}}
	if err := s.Execute(t.Context(), m, m.clock, keep, quiet); err != nil {
		t.Fatal(err)
	}
	for i, r := range s.Runs {
		if (r.AtOnce > 0) != (r.Block > 1) || r.InTurn != "" {
			t.Errorf("run %d of block %d: %d at once, %q", i, r.Block, r.AtOnce, r.InTurn)
		}
	}
}

// TestRoomIsSeen: how many CPUs a run needs can't be seen alongside others, which leave it fewer.
func TestRoomIsSeen(t *testing.T) {
	for quietFrom, want := range map[int]string{1: "two of them take 2 CPUs, which is more than 60 % of 2 CPUs", 100: BesideOthers, 4: "two of them take 2 CPUs, which is more than 60 % of 2 CPUs"} {
		n := 0
		m := &shared{fake: fake{value: flat}}
		m.uses = 1
		m.after = func(r *Run) {
			if n++; n < quietFrom {
				CPUTime.Set(r.Metrics, 0.4)
				r.Others = 1.5
			}
		}
		s := &Study{Plan: builds(6, "A"), Environment: Environment{CPUs: 2}}
		if err := s.Execute(t.Context(), m, m.clock, keep, quiet); err != nil {
			t.Fatal(err)
		}
		if why := reasons(s); !slices.Equal(why, []string{want}) || len(m.batches) > 0 {
			t.Errorf("quiet from run %d on: %q, %d ran at the same time; want %q", quietFrom, why, len(m.batches), want)
		}
	}
}

// reasons are those that a study gives for taking turns.
func reasons(s *Study) (why []string) {
	for _, r := range s.Runs {
		if r.InTurn != "" {
			why = append(why, r.InTurn)
		}
	}
	return why
}

// times makes runs slower by a ratio.
func times(runs []Run, ratio float64) {
	for _, r := range runs {
		r.Metrics[string(OpTime)] *= ratio
	}
}

// TestShortHalfWay: runs that were short of CPUs half-way don't count, and are made again one after the other; other benchmarks go on at
// the same time.
func TestShortHalfWay(t *testing.T) {
	var short []Setting
	m := &shared{fake: fake{value: flat}, uses: 1}
	m.beside = func(s []Setting, n int, runs []Run) {
		if n == 12 { // the first six see whether there is room
			short = s
			for i := range runs {
				runs[i].Others = 2
				runs[i].Metrics[string(OpTime)] = 99
			}
		}
	}
	s := &Study{Plan: builds(10, "A", "B"), Environment: Environment{CPUs: 4}}
	if err := s.Execute(t.Context(), m, m.clock, keep, quiet); err != nil {
		t.Fatal(err)
	}
	if len(short) != 2 || len(s.Runs) != 40 {
		t.Fatalf("%v were short; %d runs", short, len(s.Runs))
	}
	turned := false
	for i, r := range s.Runs {
		mine := s.Plan.Settings[r.Setting].Workload == short[0].Workload
		if mine && r.AtOnce == 0 && !turned {
			turned = true
			if want := "with others 4 CPUs of 4 CPUs were used"; r.InTurn != want || r.Block != 3 && r.Block != 4 {
				t.Errorf("run %d, block %d: %q, want %q", i, r.Block, r.InTurn, want)
			}
		} else if r.InTurn != "" {
			t.Errorf("run %d: %q", i, r.InTurn)
		}
		if (r.AtOnce > 0) == (mine && turned) {
			t.Errorf("run %d of %s: %d at once", i, s.Plan.Settings[r.Setting].Workload, r.AtOnce)
		}
		if OpTime.In(r.Metrics)*1e9 > 1.01 {
			t.Errorf("run %d counts: %v", i, r.Metrics)
		}
	}
}

// TestAtOnceGOMAXPROCS: without a limit a run may use as many CPUs as its GOMAXPROCS.
func TestAtOnceGOMAXPROCS(t *testing.T) {
	for procs, want := range map[int]int{1: 2, 4: 0, 0: 0} {
		m := &shared{fake: fake{value: flat}, uses: 0.1}
		p := plan(4, procs, 2)
		p.AtOnce = 8
		for i := range p.Settings {
			p.Settings[i].CPUs = 0
		}
		s := &Study{Plan: p, Environment: Environment{CPUs: 7}}
		if err := s.Execute(t.Context(), m, m.clock, keep, quiet); err != nil {
			t.Fatal(err)
		}
		if n := s.Runs[0].AtOnce; n != want {
			t.Errorf("GOMAXPROCS %d beside 2 on 7 CPUs: %d at once: %s", procs, n, s.Runs[0].InTurn)
		}
	}
}

// TestAtOnceInterrupted: what was under way when it was interrupted is not among the runs, be it that it sees whether there is room.
func TestAtOnceInterrupted(t *testing.T) {
	for _, at := range []int{2, 5} {
		ctx, stop := context.WithCancel(t.Context())
		m := &shared{fake: fake{value: flat, stop: stop}, uses: 1, stopAt: at}
		s := &Study{Plan: builds(10, "A"), Environment: Environment{CPUs: 4}}
		if err := s.Execute(ctx, m, m.clock, keep, quiet); !errors.Is(err, context.Canceled) || len(s.Runs) != 2*max(0, at-4) {
			t.Errorf("stopped at %d: %v, %d runs", at, err, len(s.Runs))
		}
	}
}

// TestAtOnceDecided: what is decided gets no further runs, and a run that is left of its group needs no company.
func TestAtOnceDecided(t *testing.T) {
	m := &shared{uses: 1}
	random := rand.New(rand.NewPCG(1, 1))
	m.value = func(s Setting, n int) float64 {
		switch {
		case s.Workload == "B":
			return math.Exp(0.3 * random.NormFloat64())
		case s.Build == "new":
			return 2
		}
		return 1 + 0.01*random.Float64()
	}
	p := builds(0, "A", "B")
	p.Budget, p.Looks = Seconds(100*time.Second), 4
	s := &Study{Plan: p, Environment: Environment{CPUs: 4}}
	if err := s.Execute(t.Context(), m, m.clock, keep, quiet); err != nil {
		t.Fatal(err)
	}
	runs := map[string]int{}
	for _, r := range s.Runs {
		runs[s.Plan.Settings[r.Setting].Workload]++
	}
	if runs["A"] == 0 || runs["B"] < 2*runs["A"] {
		t.Errorf("%v runs", runs)
	}
	if took := m.now.Sub(time.Time{}); took > 101*time.Second {
		t.Errorf("a budget of 100 s took %v", took)
	}
}
