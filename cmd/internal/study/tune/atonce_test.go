package tune

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// abreast executes a study of a world with room for several servers at the same time. beside changes what a window shows while that many
// run.
func abreast(t *testing.T, p Plan, sides int, change func(w *world), beside func(w *world, running int, got *trial.Window)) (s *Study, w *world, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, s = newWorld(), newStudy(p)
		w.bubble = true
		w.cpu = func(s lab.Setting) float64 { return 0.001 + 0.0001*float64(s.Procs) }
		if change != nil {
			change(w)
		}
		instead := w.shoot
		w.shoot = func(x *fakeSession, n int) (trial.Window, error, bool) {
			if instead != nil {
				if got, err, ok := instead(x, n); ok {
					return got, err, true
				}
			}
			got := x.answer(shotOf(w, n))
			got.Sliced, got.Sending, got.Waits = true, 0.1, 0.5
			if beside != nil {
				beside(w, x.beside, &got)
			}
			return got, nil, true
		}
		l := w.lab(&keeper{})
		for range sides {
			l.Sides = append(l.Sides, w)
		}
		begin := time.Now()
		if err := s.Execute(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		took = time.Since(begin)
		if w.open != 0 {
			t.Errorf("%d servers still run", w.open)
		}
	})
	return s, w, took
}

func shotOf(w *world, n int) trial.Shot { return w.shots[n-1].Shot }

func verdictOf(t *testing.T, s *Study) search.TuneVerdict {
	t.Helper()
	m, err := s.Search(0)
	if err != nil {
		t.Fatal(err)
	}
	return m.Verdict()
}

// TestAtOnce: where there is room all settings of a block run at the same time, with the same arrivals; the verdict is the same, and it takes
// half of the time at most.
func TestAtOnce(t *testing.T) {
	turns, w, inTurn := abreast(t, Plan{AtOnce: AtOnceNo}, 8, nil, nil)
	if w.most != 1 || turns.Pilot.AtOnce != nil {
		t.Errorf("not wanted, and %d ran at once: %+v", w.most, turns.Pilot.AtOnce)
	}
	s, w, took := abreast(t, Plan{}, 8, nil, nil)
	if s.Pilot.AtOnce.Most != 4 || s.Pilot.AtOnce.Why != "" || w.most < 2 { // 60 % of 8 CPUs, of which each takes 1.125
		t.Fatalf("%+v, %d at once", s.Pilot.AtOnce, w.most)
	}
	if got, want := verdictOf(t, s), verdictOf(t, turns); got.Kind != want.Kind || got.Procs != want.Procs || got.Kind != search.Change {
		t.Errorf("at once %s %d, in turn %s %d", got.Kind, got.Procs, want.Kind, want.Procs)
	}
	if took > inTurn/2 {
		t.Errorf("at once it took %v, in turn %v", took, inTurn)
	}
	// With room for two each block has the current setting and another, and all others take part.
	pairs, w, few := abreast(t, Plan{}, 2, nil, nil)
	if got, want := verdictOf(t, pairs), verdictOf(t, turns); got.Kind != want.Kind || got.Procs != want.Procs || w.most != 2 {
		t.Errorf("two at once, of at most %d: %s %d, in turn %s %d", w.most, got.Kind, got.Procs, want.Kind, want.Procs)
	}
	if few >= inTurn {
		t.Errorf("two at once it took %v, in turn %v", few, inTurn)
	}
	blocks, others := map[int]int{}, map[int]int{}
	for _, r := range pairs.Runs {
		switch {
		case r.Search.Phase == Explain:
		case r.AtOnce != 2:
			t.Errorf("%+v: %d at once", r.Search, r.AtOnce)
		case r.Search.Procs == pairs.Pilot.Procs:
			blocks[r.Search.Block]++
		case r.Search.Phase == search.Race:
			others[r.Search.Procs]++
		}
	}
	for block, n := range blocks {
		if n != 1 {
			t.Errorf("block %d has the current setting %d times", block, n)
		}
	}
	for _, procs := range pairs.Pilot.Candidates {
		if others[procs] == 0 {
			t.Errorf("%d never ran: %v", procs, others)
		}
	}
	for _, r := range s.Runs {
		same := func(o Run) bool { return o.Search.Block == r.Search.Block && o.Search.Phase == r.Search.Phase }
		n := 0
		for _, o := range s.Runs {
			if same(o) {
				if n++; o.Start != r.Start || o.Search.Seed != r.Search.Seed {
					t.Errorf("%+v and %+v are of one block", o.Search, r.Search)
				}
			}
		}
		if r.Search.Phase != Explain && r.AtOnce != n {
			t.Errorf("%+v: %d at once, and there are %d", r.Search, r.AtOnce, n)
		}
	}
	if spent := time.Duration(s.Spent() * float64(time.Second)); spent > took || spent < took*8/10 {
		t.Errorf("it spent %v, and took %v", spent, took)
	}
}

// TestNotAtOnce: what has no room, would do harm, or differs from itself, runs alone, and it is said why.
func TestNotAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		plan   Plan
		change func(*world)
		beside func(w *world, running int, got *trial.Window)
		why    string
	}{
		"it writes":          {change: func(w *world) { w.bound = "it writes /var/lib/data" }, why: "it writes /var/lib/data"},
		"a generator's need": {beside: func(_ *world, _ int, got *trial.Window) { got.Sending = 3 }, why: "two of them take 9.5 CPUs, which is more than 60 % of 8 CPUs"},
		"nobody sees others": {beside: func(_ *world, _ int, got *trial.Window) { got.Sliced = false }, why: "what others use can't be seen"},
		"the second won't start": {change: func(w *world) {
			w.start = func(lab.Setting, int) error {
				if w.beside > 1 {
					return &service.Error{Why: "the port is taken\nreally"}
				}
				return nil
			}
		}, why: "a second one failed next to it: the port is taken"},
		"nobody sees its waits": {beside: func(_ *world, _ int, got *trial.Window) { got.Waits = 0 }, why: waitsUnseen},
		"nor then": {beside: func(_ *world, running int, got *trial.Window) {
			if running > 1 {
				got.Waits = 0
			}
		}, why: waitsUnseen},
		"it waits for CPUs": {beside: func(_ *world, running int, got *trial.Window) {
			if running > 1 {
				got.Waits = 3
			}
		}, why: "next to others it waits 3.0 s for each second that it runs; alone, 0.5 s"},
		"another CPU time": {beside: func(_ *world, running int, got *trial.Window) {
			if running > 1 {
				lab.CPUPerRequest.Set(got.Metrics, 1.3*lab.CPUPerRequest.In(got.Metrics))
			}
		}, why: "next to a copy of itself its CPU per request differs by 3"},
		"another p50": {beside: func(_ *world, running int, got *trial.Window) {
			if running > 1 {
				lab.P50.Set(got.Metrics, 2*lab.P50.In(got.Metrics))
			}
		}, why: "next to a copy of itself its p50 differs by 1"},
		"failures": {beside: func(_ *world, running int, got *trial.Window) {
			if running > 1 {
				lab.ErrorShare.Set(got.Metrics, 0.5)
			}
		}, why: "next to a copy of itself its requests failed"},
	} {
		s, _, _ := abreast(t, c.plan, 8, c.change, c.beside)
		if a := s.Pilot.AtOnce; a.Most != 0 || !strings.HasPrefix(a.Why, c.why) || strings.Contains(a.Why, "\n") {
			t.Errorf("%s: %+v", name, a)
		}
		if slices.ContainsFunc(s.Runs, func(r Run) bool { return r.AtOnce > 0 }) {
			t.Errorf("%s: some ran at once", name)
		}
		if v := verdictOf(t, s); v.Kind != search.Change {
			t.Errorf("%s: %+v", name, v)
		}
	}
	// The server of the pilot costs more than those that are new: what counts is one that is new, too.
	used, _, _ := abreast(t, Plan{}, 8, nil, func(w *world, _ int, got *trial.Window) {
		if w.starts == 1 {
			lab.CPUPerRequest.Set(got.Metrics, 1.5*lab.CPUPerRequest.In(got.Metrics))
		}
	})
	if used.Pilot.AtOnce.Most < 2 {
		t.Errorf("one that has served for a while costs more: %+v", used.Pilot.AtOnce)
	}
	// What differs by chance differs once: the mean of two looks decides, and not the second. Then there may be room for half as many.
	for differs, most := range map[float64]int{1.4: 4, 2: 2} {
		looks := 0
		s, _, _ := abreast(t, Plan{}, 8, nil, func(_ *world, running int, got *trial.Window) {
			if running > 1 && looks < 2 { // both windows of the first look
				looks++
				lab.P50.Set(got.Metrics, differs*lab.P50.In(got.Metrics))
			}
		})
		if s.Pilot.AtOnce.Most != most {
			t.Errorf("once it differs by %v: %+v", differs, s.Pilot.AtOnce)
		}
	}
	// It comes to an end, regardless of what the second look meets.
	for name, meets := range map[string]func(got *trial.Window){
		"others":   func(got *trial.Window) { got.Sliced, got.Others = false, 5 },
		"not sent": func(got *trial.Window) { got.Valid = false },
	} {
		looks := 0
		s, _, _ := abreast(t, Plan{}, 2, nil, func(_ *world, running int, got *trial.Window) {
			if running < 2 {
				return
			}
			lab.P50.Set(got.Metrics, 2*lab.P50.In(got.Metrics))
			if looks++; looks > 2 {
				meets(got)
			}
		})
		if s.Pilot.AtOnce.Most != 0 {
			t.Errorf("%s: %+v", name, s.Pilot.AtOnce)
		}
	}
	// What the user says is safe is believed.
	s, _, _ := abreast(t, Plan{AtOnce: AtOnceYes}, 8, func(w *world) { w.bound = "it writes /var/lib/data" }, nil)
	if s.Pilot.AtOnce.Most < 2 || len(s.Pilot.Warnings) > 0 {
		t.Errorf("%+v, %q", s.Pilot.AtOnce, s.Pilot.Warnings)
	}
	// And where it can't be, that is said.
	for sides, why := range map[int]string{0: "two of it can't run here at once", 8: "two of them take 9.5 CPUs"} {
		s, _, _ = abreast(t, Plan{AtOnce: AtOnceYes}, sides, nil, func(_ *world, _ int, got *trial.Window) { got.Sending = 3 })
		if want := "settings take turns, though --at-once says yes: " + why; len(s.Pilot.Warnings) != 1 || !strings.HasPrefix(s.Pilot.Warnings[0], want) {
			t.Errorf("%d sides: %q", sides, s.Pilot.Warnings)
		}
	}
}

// TestTurns: where the CPUs get short half-way, what ran at the same time then does not count, and runs take turns from there on, also after an
// interruption.
func TestTurns(t *testing.T) {
	times := map[time.Time]bool{} // at which windows of several ended: a look before the search, a block, and another
	short := func(w *world, running int, got *trial.Window) {
		if running > 1 {
			times[w.clock()] = true
		}
		if running > 1 && len(times) > 2 {
			got.Waits = 3
			lab.P99.Set(got.Metrics, 100) // which must not be seen
			lab.ReadyTail.Set(got.Metrics, 100)
		}
	}
	s, w, _ := abreast(t, Plan{}, 8, nil, short)
	turned := slices.IndexFunc(s.Runs, func(r Run) bool { return r.InTurn != "" })
	if turned < 1 || w.most < 2 {
		t.Fatalf("run %d is the first alone, %d at once", turned, w.most)
	}
	if r := s.Runs[turned]; r.InTurn != "next to others it waits 3.0 s for each second that it runs; alone, 0.5 s" || r.Lost == 0 || r.Lost >= r.Seconds {
		t.Errorf("%q, %v of %v s lost", r.InTurn, r.Lost, r.Seconds)
	}
	for i, r := range s.Runs {
		if (r.AtOnce > 0) != (i < turned) && r.Search.Phase != Explain {
			t.Errorf("run %d of %d: %d at once", i, turned, r.AtOnce)
		}
		if s.Pilot.Loads[0].tailOf(r.Metrics) > 1 {
			t.Errorf("run %d counts, beside which the CPUs were short", i)
		}
		for _, o := range s.Runs {
			if o.Search.Block == r.Search.Block && o.Search.Phase == r.Search.Phase && (o.AtOnce > 0) != (r.AtOnce > 0) {
				t.Errorf("block %d: one ran beside others, and one alone", r.Search.Block)
			}
		}
	}
	if v := verdictOf(t, s); v.Kind != search.Change {
		t.Errorf("%+v", v)
	}
	again := &Study{Plan: s.Plan, Pilot: s.Pilot, Runs: s.Runs[:turned+1]}
	if again.InTurn() == "" {
		t.Error("one that goes on has forgotten it")
	}
}

// TestAtOnceFails: if one fails alongside others, whichever it is, all of the block take turns, and each runs once in it.
func TestAtOnceFails(t *testing.T) {
	for _, procs := range []int{1, 2, 8} {
		starts := 0
		s, _, _ := abreast(t, Plan{}, 8, func(w *world) {
			w.start = func(s lab.Setting, _ int) error {
				if w.effective(s).Procs == procs && w.beside > 1 {
					starts++
				}
				if starts > 4 && w.effective(s).Procs == procs && w.beside > 1 { // not yet while the current setting runs alongside itself
					return &service.Error{Why: "no such luck"}
				}
				return nil
			}
		}, nil)
		blocks := map[int][]Run{}
		for _, r := range s.Runs {
			if r.Search.Phase != Explain {
				blocks[r.Search.Block] = append(blocks[r.Search.Block], r)
			}
		}
		for n, runs := range blocks {
			for _, r := range runs {
				if (r.AtOnce > 0) != (runs[0].AtOnce > 0) || r.Error != "" {
					t.Errorf("%d fails: block %d: %d at once, and %d: %s", procs, n, r.AtOnce, runs[0].AtOnce, r.Error)
				}
			}
		}
		if !strings.HasPrefix(s.InTurn(), "one failed next to the others: no such luck") {
			t.Errorf("%d fails: %q", procs, s.InTurn())
		}
	}
}

// TestAtOnceAgain: a block during which others used the CPUs is made again as a whole.
func TestAtOnceAgain(t *testing.T) {
	s, _, _ := abreast(t, Plan{}, 8, nil, func(w *world, running int, got *trial.Window) {
		if running > 1 && 20 <= w.loads && w.loads <= 23 {
			got.Sliced, got.Others = false, 5
		}
	})
	again := 0
	for _, r := range s.Runs {
		if r.Again > 0 {
			again++
			if r.Lost == 0 || r.Lost >= r.Seconds || r.AtOnce < 2 || r.Others > 0 {
				t.Errorf("%+v", r)
			}
		}
	}
	if again != 1 {
		t.Errorf("%d blocks were made again", again)
	}
}

// TestAtOnceByWindow: where other programs' time is known only for each window as a whole, not by slices, as in pods, that is enough. A
// window during which others used the CPUs is made again; so is one that was not seen; and anything else that keeps one from running
// alongside others makes them take turns.
func TestAtOnceByWindow(t *testing.T) {
	known := func(_ *world, _ int, got *trial.Window) { got.Sliced, got.OthersKnown = false, true }
	s, w, _ := abreast(t, Plan{}, 8, nil, known)
	if s.Pilot.AtOnce.Most != 4 || w.most < 2 || verdictOf(t, s).Kind != search.Change {
		t.Errorf("%+v, %d at once", s.Pilot.AtOnce, w.most)
	}
	beside := func(others float64, from, to int) func(w *world, running int, got *trial.Window) {
		return func(w *world, running int, got *trial.Window) {
			known(w, running, got)
			if running > 1 && from <= w.loads && w.loads <= to {
				got.Others = others
			}
		}
	}
	if s, _, _ := abreast(t, Plan{}, 8, nil, beside(5, 0, 1<<30)); s.Pilot.AtOnce.Why != besideOthers {
		t.Errorf("beside others all the time: %+v", s.Pilot.AtOnce)
	}
	for _, others := range []float64{5, 2} { // of two CPUs one run alone would say nothing: it leaves six
		if s, _, _ := abreast(t, Plan{}, 8, nil, beside(others, 20, 23)); s.InTurn() != "" || again(s) != 1 {
			t.Errorf("beside %v CPUs for a while: %q, %d blocks were made again", others, s.InTurn(), again(s))
		}
	}
	for name, c := range map[string]struct {
		err error
		n   int // of them in a row
		why string
	}{
		"unseen":        {&trial.Unseen{Why: "the meter stood still"}, 1, ""},
		"always unseen": {&trial.Unseen{Why: "the meter stood still"}, 100, "one could not be run next to the others: the meter stood still"},
		"no room":       {errors.New("no node took the pod\nreally"), 1, "one could not be run next to the others: no node took the pod"},
	} {
		left := c.n
		s, _, _ := abreast(t, Plan{}, 8, func(w *world) {
			w.shoot = func(x *fakeSession, n int) (trial.Window, error, bool) {
				if x.beside > 1 && n > 20 && left > 0 {
					left--
					return trial.Window{}, c.err, true
				}
				return trial.Window{}, nil, false
			}
		}, known)
		if s.InTurn() != c.why || verdictOf(t, s).Kind != search.Change {
			t.Errorf("%s: %q, %s", name, s.InTurn(), verdictOf(t, s).Kind)
		}
		if lost := slices.ContainsFunc(s.Runs, func(r Run) bool { return r.Lost > 0 }); !lost {
			t.Errorf("%s: nothing was lost", name)
		}
	}
}

// again is how many blocks of a study were made again.
func again(s *Study) (n int) {
	for _, r := range s.Runs {
		if r.Again > 0 {
			n++
		}
	}
	return n
}

// TestAtOnceWaits: if others use the CPUs while the current setting runs alongside itself, it does so again, for some time.
func TestAtOnceWaits(t *testing.T) {
	for name, c := range map[string]struct {
		plan Plan
		busy int // windows
		why  string
	}{
		"a burst":     {Plan{}, 4, ""},
		"never quiet": {Plan{}, 1 << 30, besideOthers},
		"a budget":    {Plan{Budget: 2 * time.Minute}, 4, ""},
		"a short one": {Plan{Budget: 10 * time.Second}, 1 << 30, "the budget left no time to see whether there is room"},
	} {
		left := c.busy
		s, _, _ := abreast(t, c.plan, 8, nil, func(w *world, running int, got *trial.Window) {
			if running > 1 && left > 0 {
				left--
				got.Sliced, got.Others = false, 5
			}
		})
		if a := s.Pilot.AtOnce; a.Why != c.why || (a.Most > 0) != (c.why == "") {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// TestAtOnceEnds: an interruption ends all that run.
func TestAtOnceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(), newStudy(Plan{})
		w.bubble = true
		ctx, cancel := context.WithCancel(t.Context())
		w.shoot = func(x *fakeSession, n int) (trial.Window, error, bool) {
			got := x.answer(shotOf(w, n))
			got.Sliced, got.Sending, got.Waits = true, 0.1, 0.5
			if w.open > 2 {
				cancel()
			}
			return got, nil, true
		}
		l := w.lab(&keeper{})
		l.Sides = []Server{w, w, w, w}
		if err := s.Execute(ctx, l); err != context.Canceled || w.open != 0 || w.most < 3 {
			t.Errorf("%v, %d still run, %d ran at once", err, w.open, w.most)
		}
	})
}

// jobsTogether are jobs of a world that run at the same time: they take the time of one.
type jobsTogether struct {
	*world
	beside func(nth int, runs []lab.Run) // changes what those give that run for the nth time at the same time; nil: nothing
	nth    int
}

func (j *jobsTogether) Run(ctx context.Context, s lab.Setting, _ int) (lab.Run, error) {
	return (*worldJob)(j.world).Run(ctx, s)
}

func (j *jobsTogether) Beside() (float64, string) { return 0, "" }

func (j *jobsTogether) Several(ctx context.Context, settings []lab.Setting, block int) (runs []lab.Run, err error) {
	at := j.now
	for _, s := range settings {
		j.now = at
		r, err := j.Run(ctx, s, block)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	if j.nth++; j.beside != nil {
		j.beside(j.nth, runs)
	}
	return runs, nil
}

// jobs executes a study of a job.
func jobs(t *testing.T, p Plan, cpus int, together *jobsTogether) (s *Study, took time.Duration) {
	t.Helper()
	w := newWorld()
	w.jobTime = func(s lab.Setting) float64 { return w.p99(s, 0) }
	s = newStudy(p)
	s.Environment.CPUs = cpus
	l := w.lab(&keeper{})
	if together != nil {
		together.world = w
		l.Jobs = together
	}
	begin := w.now
	if err := s.Execute(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	return s, w.now.Sub(begin)
}

// TestJobsAtOnce: so do jobs and benchmarks.
func TestJobsAtOnce(t *testing.T) {
	for _, kind := range []string{JobKind, GoBenchKind} {
		turns, inTurn := jobs(t, Plan{Kind: kind}, 16, nil)
		s, took := jobs(t, Plan{Kind: kind}, 16, &jobsTogether{})
		if s.Pilot.AtOnce == nil || s.Pilot.AtOnce.Most != 8 || s.Pilot.AtOnce.Why != "" || turns.Pilot.AtOnce != nil {
			t.Fatalf("%s: %+v; in turn %+v", kind, s.Pilot.AtOnce, turns.Pilot.AtOnce)
		}
		if got, want := verdictOf(t, s), verdictOf(t, turns); got.Kind != want.Kind || got.Procs != want.Procs || got.Kind != search.Change {
			t.Errorf("%s: at once %s %d, in turn %s %d", kind, got.Kind, got.Procs, want.Kind, want.Procs)
		}
		if took > inTurn*6/10 {
			t.Errorf("%s: at once it took %v, in turn %v", kind, took, inTurn)
		}
		for _, r := range s.Runs {
			if r.AtOnce < 2 {
				t.Errorf("%s: %+v: alone", kind, r.Search)
			}
		}
	}
}

// TestJobsInTurn: what has no room, fails alongside others, or behaves differently alongside itself than alone, takes turns, and the reason
// is given.
func TestJobsInTurn(t *testing.T) {
	slower := func(runs []lab.Run, m lab.Measure) {
		for _, r := range runs {
			m.Set(r.Metrics, 1.4*m.In(r.Metrics))
		}
	}
	for name, c := range map[string]struct {
		cpus   int
		beside func(nth int, runs []lab.Run)
		why    string
		from   int // the call at the same time that turns it
	}{
		"no room":      {cpus: 3, why: "two of them take 2 CPUs, which is more than 60 % of 3 CPUs"},
		"slower":       {cpus: 8, beside: func(_ int, runs []lab.Run) { slower(runs, lab.WallTime) }, why: "next to a copy of itself its time differs by "},
		"dearer":       {cpus: 8, beside: func(_ int, runs []lab.Run) { slower(runs, lab.CPUTime) }, why: "next to a copy of itself its CPU time differs by "},
		"fails":        {cpus: 8, beside: func(_ int, runs []lab.Run) { runs[1].Error = "taken\nreally" }, why: "one failed next to the others: taken"},
		"always short": {cpus: 8, beside: func(_ int, runs []lab.Run) { runs[0].Others = 7 }, why: "with others 7."},
		"short later": {cpus: 8, beside: func(nth int, runs []lab.Run) {
			if nth == 3 {
				runs[0].Others = 7
			}
		}, why: "with others 7.", from: 3},
	} {
		s, _ := jobs(t, Plan{Kind: JobKind, AtOnce: AtOnceYes}, c.cpus, &jobsTogether{beside: c.beside})
		if got := s.InTurn(); !strings.HasPrefix(got, c.why) || strings.Contains(got, "\n") {
			t.Errorf("%s: %q, want %q", name, got, c.why)
		}
		turned := false
		for i, r := range s.Runs {
			turned = turned || r.InTurn != "" || c.from == 0
			if (r.AtOnce > 0) == turned || r.Others > 0 || r.Error != "" {
				t.Errorf("%s: run %d: %+v", name, i, r)
			}
		}
		if warned := len(s.Pilot.Warnings) > 0; warned != (c.from == 0) {
			t.Errorf("%s: warnings %q", name, s.Pilot.Warnings)
		}
	}
}
