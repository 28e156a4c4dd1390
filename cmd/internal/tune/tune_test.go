package tune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
	"github.com/unthrottle/unthrottle/cmd/internal/trial"
)

// because and by tell verdicts apart by their reason, and by what a change was advised for.
func because(r search.Reason) func(search.TuneVerdict) bool {
	return func(v search.TuneVerdict) bool { return v.Reason == r }
}

func by(m search.Metric) func(search.TuneVerdict) bool {
	return func(v search.TuneVerdict) bool { return v.Reason == search.Better && v.Basis == m }
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name  string
		plan  Plan
		world func(*world)
		kind  search.Verdict
		procs int
		is    func(search.TuneVerdict) bool
	}{
		{"another setting is better", Plan{}, nil, search.Change, 2, by(search.P99)},
		{"the current one is best", Plan{}, func(w *world) { w.byItself = 2 }, search.Keep, 2, because(search.Leads)},
		{"all equal", Plan{}, flat, search.Keep, 8, nil},
		{"nothing else to try", Plan{Procs: []int{8}}, nil, search.Keep, 8, because(search.Alone)},
		{"no setting holds the SLO", Plan{SLO: "p99=1ms"}, func(w *world) { w.slo = 0.001 }, search.Undecided, 8, because(search.NoneHolds)},
		{"one setting holds the SLO", Plan{SLO: "p99=50ms"}, func(w *world) { w.slo = 0.05 }, search.Change, 2, func(v search.TuneVerdict) bool { return v.Effect(search.SLO) != nil }},
		{"closed loop", Plan{Conns: 32}, nil, search.Change, 2, nil},
		{"a low rate", Plan{Rate: 0.2, Blocks: 3}, nil, search.Change, 2, by(search.P99)},
		{"a slow server", Plan{Blocks: 3}, func(w *world) { w.capacity = 0.4 }, search.Change, 2, nil},
		{"CPU not known", Plan{}, func(w *world) { w.noCPU = true }, search.Change, 2, nil},
		{"too little time", Plan{Budget: time.Nanosecond}, nil, search.Undecided, 8, func(v search.TuneVerdict) bool { return v.Reason == search.NoRoom && v.MaxRuns == 1 }},
		{"a job", Plan{Kind: JobKind}, nil, search.Change, 2, by(search.Time)},
		{"benchmarks", Plan{Kind: GoBenchKind}, nil, search.Change, 2, by(search.Time)},
		{"a job with a lever", Plan{Kind: JobKind, GOGC: []int{400}, Procs: []int{8}}, func(w *world) {
			w.jobTime = func(s lab.Setting) float64 { return 10 - float64(min(s.GOGC, 1)) }
		}, search.Change, 8, func(v search.TuneVerdict) bool { return v.GOGC == 400 }},
		{"the best one dies", Plan{}, func(w *world) {
			w.start = func(s lab.Setting, _ int) error {
				if s.Procs == 2 {
					return failed("exit code 2")
				}
				return nil
			}
		}, search.Change, 3, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.jobTime = func(s lab.Setting) float64 { return w.p99(s, 0) }
			if c.world != nil {
				c.world(w)
			}
			s := newStudy(c.plan)
			mustDo(t, s, w)
			v := verdict(t, s, 0)
			if v.Kind != c.kind || v.Procs != c.procs || c.is != nil && !c.is(v) || !v.Done {
				t.Errorf("got %+v", v)
			}
		})
	}
}

// The current setting is the program as it is, and all runs of a block have the same arrivals, in the warm-up others than in
// the window, and in another block others again.
func TestSettingsAndSeeds(t *testing.T) {
	w, s := newWorld(), newStudy(Plan{})
	mustDo(t, s, w)
	own := map[uint64]string{}
	pilot := len(w.shots) - 2*len(s.Runs)
	for i, r := range s.Runs {
		warm, main := w.shots[pilot+2*i], w.shots[pilot+2*i+1]
		if want := r.Search.Procs; want == 8 && main.setting.Procs != 0 || want != 8 && main.setting.Procs != want {
			t.Errorf("run %d of %d had the setting %+v", i, want, main.setting)
		}
		if main.Seed != r.Search.Seed || warm.Seed == main.Seed || warm.Lasting != s.Pilot.Loads[0].WarmUp || main.Lasting != s.Pilot.Loads[0].Window {
			t.Errorf("run %d: %+v, then %+v", i, warm, main)
		}
		name := fmt.Sprint(r.Search.Phase, r.Search.Block)
		for _, shot := range []shotAt{warm, main} {
			of := fmt.Sprint(name, shot.Lasting)
			if other, there := own[shot.Seed]; there && other != of {
				t.Errorf("%s and %s have the same seed", other, of)
			}
			own[shot.Seed] = of
		}
	}
	if want := 2 * (s.Runs[len(s.Runs)-1].Search.Block + slices.MaxFunc(s.Runs, func(a, b Run) int {
		return explored(a) - explored(b)
	}).Search.Block); len(own) != want {
		t.Errorf("%d seeds, want %d", len(own), want)
	}
}

func explored(r Run) int {
	if r.Search.Phase == search.Explore {
		return r.Search.Block
	}
	return 0
}

func TestWarmUp(t *testing.T) {
	for _, c := range []struct {
		name    string
		plan    Plan
		world   func(*world)
		warm    time.Duration
		shots   int // until it is warm
		warning string
	}{
		{"at once", Plan{}, nil, time.Second, 2, ""},
		{"CPU not known", Plan{}, func(w *world) { w.noCPU = true }, time.Second, 2, ""},
		{"it takes a while", Plan{}, func(w *world) {
			w.cold = func(age time.Duration, _ int) float64 { return 1 + 4*math.Exp(-age.Seconds()) }
		}, 4 * time.Second, 5, ""},
		{"it never settles", Plan{}, func(w *world) { w.cold = func(_ time.Duration, step int) float64 { return float64(1 + step%2) } }, 30 * time.Second, 30, "still changed by 50 % a second"},
		{"it is NaN", Plan{}, func(w *world) { w.cold = func(time.Duration, int) float64 { return math.NaN() } }, time.Second, 2, ""},
		{"the user knows", Plan{WarmUp: 3 * time.Second}, nil, 3 * time.Second, 1, ""},
		{"the user wants next to none", Plan{WarmUp: time.Millisecond}, nil, time.Millisecond, 1, ""},
		{"it answers late", Plan{}, func(w *world) {
			w.shoot = func(x *fakeSession, n int) (trial.Window, error, bool) {
				return trial.Window{Valid: true, Metrics: map[string]float64{"req/s": 0}}, nil, n <= 5
			}
		}, 6 * time.Second, 7, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, j := newWorld(), &keeper{}
			w.noise = 0.001
			if c.world != nil {
				c.world(w)
			}
			x := &execution{Study: newStudy(c.plan), lab: w.lab(j)}
			session, _ := w.Open(context.Background(), lab.Setting{}, true)
			l := &look{execution: x, p: &Pilot{}, session: session}
			warm, err := l.warmUp(context.Background())
			if err != nil || warm != c.warm || w.loads != c.shots || !strings.Contains(strings.Join(l.p.Warnings, "\n"), c.warning) || c.warning == "" && len(l.p.Warnings) > 0 {
				t.Errorf("%v after %d shots, %q, %v; want %v after %d", warm, w.loads, l.p.Warnings, err, c.warm, c.shots)
			}
		})
	}
}

func TestPilot(t *testing.T) {
	w, s := newWorld(), newStudy(Plan{})
	mustDo(t, s, w)
	p := s.Pilot
	// 8 connections do 160/s, 32 do 640/s, 128 the 1000/s that there are, and 512 no more.
	if p.Capacity != 1000 || p.Conns != 128 || len(p.Loads) != 1 || p.Loads[0].Rate != 650 || p.Loads[0].Share != 0.65 {
		t.Errorf("got %+v", p)
	}
	if p.Procs != 8 || slices.Contains(p.Candidates, 8) || !slices.Contains(p.Candidates, 2) || p.LimitKind != "fake" || p.Trace || p.GC != nil {
		t.Errorf("got %+v", p)
	}
	if l := p.Loads[0]; l.Window != 5*time.Second || l.WarmUp != time.Second || l.Tail != "p99" || p.PerRun != 6.5 {
		t.Errorf("got %+v, %v a run", l, p.PerRun)
	}

	w, s = newWorld(), newStudy(Plan{Conns: 16, Rate: 310})
	mustDo(t, s, w)
	if p := s.Pilot; p.Capacity != 320 || p.Conns != 16 || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "310/s is 97 %") {
		t.Errorf("got %+v", p)
	}

	w, s = newWorld(), newStudy(Plan{Conns: 16})
	mustDo(t, s, w)
	if last := w.shots[len(w.shots)-1]; last.Rate != 0 || last.Conns != 16 || s.Pilot.Loads[0].Rate != 0 {
		t.Errorf("a closed loop sent %+v", last)
	}
}

func TestCollector(t *testing.T) {
	w, s := newWorld(), newStudy(Plan{})
	w.gc, w.live = 50, 4<<20
	mustDo(t, s, w)
	p := s.Pilot
	if !slices.Equal(p.Levers, []int{800}) || p.Trace || p.GC == nil || p.GC.PerSecond != 50 || p.GC.CPUShare != 0.3 {
		t.Fatalf("got %+v", p)
	}
	// The two runs that explain are of the current setting and the leader, after the verdict.
	n := len(s.Runs)
	for i, procs := range []int{8, 2} {
		if r := s.Runs[n-2+i]; r.Search.Phase != Explain || r.Search.Procs != procs || r.GC == nil || r.GC.Procs != procs {
			t.Errorf("explaining: %+v", r)
		}
	}
	if r := s.Runs[n-3]; r.Search.Phase != search.Confirm || r.GC != nil {
		t.Errorf("before: %+v", r)
	}

	for _, c := range []struct {
		name   string
		plan   Plan
		gc     float64
		live   int64
		memory int64
		want   []int
		trace  bool
	}{
		{"many", Plan{}, 50, 4 << 20, 0, []int{800}, false},
		{"many, of a larger heap", Plan{}, 50, 8 << 20, 0, []int{400}, false},
		{"not so many", Plan{}, 15, 12 << 20, 0, []int{200}, true},
		{"few", Plan{}, 5, 4 << 20, 0, nil, true},
		{"none", Plan{}, 0.1, 4 << 20, 0, nil, false},
		{"a large heap", Plan{}, 50, 40 << 20, 0, nil, false},
		{"no memory", Plan{}, 50, 4 << 20, 64 << 20, nil, false},
		{"enough memory", Plan{}, 50, 4 << 20, 128 << 20, []int{800}, false},
		{"not wanted", Plan{NoGOGC: true}, 50, 4 << 20, 0, nil, false},
		{"the user's", Plan{GOGC: []int{300, 50}}, 0, 0, 0, []int{300, 50}, false},
	} {
		w, s, j := newWorld(), newStudy(c.plan), &keeper{}
		w.gc, w.live = c.gc, c.live
		l := w.lab(j)
		l.Memory = c.memory
		p, err := (&execution{Study: s, lab: l}).pilot(context.Background())
		if err != nil || !slices.Equal(p.Levers, c.want) || p.Trace != c.trace {
			t.Errorf("%s: levers %v, trace %v, %v", c.name, p.Levers, p.Trace, err)
		}
	}
}

func TestSetsItself(t *testing.T) {
	w := newWorld()
	w.gc, w.ignores = 5, true
	_, err := do(t, context.Background(), newStudy(Plan{}), w)
	hopeless(t, err, "GOMAXPROCS=8 although its environment says 2")

	// Where the environment names the current setting, it shows at once.
	w = newWorld()
	w.gc, w.ignores = 5, true
	l := w.lab(&keeper{})
	l.Foresee = func(float64) Foresight { return Foresight{Procs: 4, Pinned: true, GoDefault: 2} }
	hopeless(t, newStudy(Plan{}).Execute(context.Background(), l), "GOMAXPROCS=8 although its environment says 4")

	// It collects too seldom to be seen at the rate, but says what it is in the warm-up, in a closed loop.
	w = newWorld()
	w.ignores = true
	w.shoot = func(x *fakeSession, _ int) (trial.Window, error, bool) {
		s := w.shots[len(w.shots)-1].Shot
		got := x.answer(s)
		if s.Rate == 0 {
			got.GC.Collections, got.GC.Procs, got.Procs = 1, w.byItself, w.byItself
		}
		return got, nil, true
	}
	_, err = do(t, context.Background(), newStudy(Plan{}), w)
	hopeless(t, err, "GOMAXPROCS=8 although its environment says 2")

	// What it says of itself is better than what was expected of it.
	w = newWorld()
	w.gc = 5
	l = w.lab(&keeper{})
	l.Foresee = func(float64) Foresight { return Foresight{Procs: 3, Why: "a guess", GoDefault: 2} }
	s := newStudy(Plan{})
	if err := s.Execute(context.Background(), l); err != nil || s.Pilot.Procs != 8 || !strings.Contains(s.Pilot.Why, "expected was 3") {
		t.Errorf("%+v, %v", s.Pilot, err)
	}
}

func TestLoads(t *testing.T) {
	w, s := newWorld(), newStudy(Plan{Shares: []float64{0.4, 0.9, 0.65, 0.651}})
	j := mustDo(t, s, w)
	var rates []float64
	for i, l := range s.Pilot.Loads {
		rates = append(rates, l.Rate)
		if v := verdict(t, s, i); v.Kind != search.Change || v.Procs != 2 {
			t.Errorf("at %v: %+v", l.Rate, v)
		}
	}
	if !slices.Equal(rates, []float64{650, 400, 900}) {
		t.Errorf("rates %v", rates)
	}
	// What is told: steps of the pilot, the pilot, and then for each load each run, with the one before it, and the verdict.
	i := slices.IndexFunc(j.told, func(p Progress) bool { return p.Pilot != nil })
	if i < 1 || j.told[i].Pilot != s.Pilot {
		t.Fatalf("the pilot was told at %d", i)
	}
	for _, p := range j.told[:i] {
		if p.Doing == "" {
			t.Errorf("in the pilot it told %+v", p)
		}
	}
	load, done := 0, 0
	var last *search.TuneRun
	for _, p := range j.told[i+1:] {
		if p.Load != load || p.Done != done || p.Doing != "" || (p.Last == nil) != (last == nil) || last != nil && p.Last.Search != *last || len(p.Rank) == 0 {
			t.Fatalf("told %+v, want load %d, %d done", p, load, done)
		}
		if p.Settled != nil {
			if p.Next.Phase != search.Done || p.Left != 0 || !p.Settled.Done {
				t.Errorf("at the end it told %+v", p)
			}
			load, done, last = load+1, 0, nil
			continue
		}
		if p.Left <= 0 || p.Time <= 0 {
			t.Errorf("told that %d runs and %v are left", p.Left, p.Time)
		}
		done, last = done+1, &p.Next
	}
	if load != 3 {
		t.Errorf("%d verdicts were told", load)
	}
}

func TestBudget(t *testing.T) {
	for _, budget := range []time.Duration{time.Second, time.Minute, 5 * time.Minute, 10*time.Minute + 3*time.Second, time.Hour} {
		for _, gc := range []float64{0, 50} {
			w, s := newWorld(), newStudy(Plan{Budget: budget, Shares: []float64{0.65, 0.3}})
			w.gc, w.live = gc, 30<<20
			begin := w.now
			mustDo(t, s, w)
			if s.Pilot.MaxRuns < 1 {
				t.Errorf("%v: %d runs", budget, s.Pilot.MaxRuns)
			}
			if took := w.now.Sub(begin); took > budget && s.Pilot.MaxRuns > 1 {
				t.Errorf("%v: it took %v", budget, took)
			}
			most := float64(2 * s.Pilot.MaxRuns) // and those that explain
			if gc > 0 {
				most += 2
			}
			if seconds := s.Pilot.Seconds + most*s.Pilot.PerRun; seconds > budget.Seconds() && s.Pilot.MaxRuns > 1 {
				t.Errorf("%v: it may take %v s", budget, seconds)
			}
		}
	}
}

// plans are studies that have all kinds of runs in them.
func plans() map[string]func() (*Study, *world) {
	return map[string]func() (*Study, *world){
		"server": func() (*Study, *world) {
			w := newWorld()
			w.gc, w.live = 50, 4<<20
			return newStudy(Plan{Shares: []float64{0.65, 0.4}, Pairs: 8}), w
		},
		"failures": func() (*Study, *world) {
			w := newWorld()
			w.start = func(s lab.Setting, _ int) error {
				if s.Procs == 1 {
					return failed("exit code 1")
				}
				return nil
			}
			w.shoot = func(x *fakeSession, _ int) (trial.Window, error, bool) {
				shot := w.shots[len(w.shots)-1]
				got := x.answer(shot.Shot)
				got.Valid = shot.Seed%5 != 0 || x.setting.Procs == 0
				return got, nil, true
			}
			return newStudy(Plan{SLO: "p99=50ms"}), w
		},
		"budget": func() (*Study, *world) { return newStudy(Plan{Budget: 3 * time.Minute}), newWorld() },
		"limits": limitsWorld,
	}
}

// withoutTimes are lines without when they were and how long they took.
func withoutTimes(lines [][]byte) []byte {
	var out []byte
	for _, line := range lines {
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			panic(err)
		}
		if r.Window != nil {
			r.Window.Seconds = 0
		}
		if r.Run != nil {
			r.Run.Start, r.Run.Seconds = time.Time{}, 0
		}
		line, _ := json.Marshal(r)
		out = append(append(out, line...), '\n')
	}
	return out
}

// A study that was cut anywhere goes on as if it had not been: between two lines, in a line, or just before its end.
func TestResume(t *testing.T) {
	for name, begin := range plans() {
		t.Run(name, func(t *testing.T) {
			whole, w := begin()
			full := mustDo(t, whole, w)
			for lines := range len(full.lines) + 1 {
				parts := []int{0}
				if lines < len(full.lines) {
					n := len(full.lines[lines])
					parts = append(parts, 1, n/2, n-1)
				}
				for _, part := range parts {
					data := full.first(lines)
					if part > 0 {
						data = append(data, full.lines[lines][:part]...)
					}
					s, cut, err := Read(data)
					if err != nil || cut != part {
						t.Fatalf("%d lines and %d bytes: cut %d, %v", lines, part, cut, err)
					}
					if part > 0 {
						if done := len(s.Runs) + len(s.Windows); done != max(0, lines-1) && done != lines {
							t.Fatalf("%d lines and %d bytes: %d runs", lines, part, done)
						}
						continue
					}
					_, w := begin()
					rest, err := do(t, context.Background(), s, w)
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(withoutTimes(append(slices.Clone(full.lines[:lines]), rest.lines...)), withoutTimes(full.lines)) {
						t.Fatalf("after %d lines it went on otherwise", lines)
					}
				}
			}
		})
	}
}

// An interrupt, a generator that fails and a disk that is full end a study at any place; what is kept is what was complete.
func TestEndsEarly(t *testing.T) {
	errGenerator := errors.New("generating load: bad address")
	for name, begin := range plans() {
		t.Run(name, func(t *testing.T) {
			whole, w := begin()
			full := mustDo(t, whole, w)
			loads := w.loads
			for at := 1; at <= loads; at += 1 + loads/40 {
				ctx, cancel := context.WithCancel(context.Background())
				s, w := begin()
				w.insert(at, func(x *fakeSession) (trial.Window, error) {
					cancel()
					x.died = "ended by terminated" // the terminal has told it as well
					return x.answer(w.shots[len(w.shots)-1].Shot), nil
				})
				j, err := do(t, ctx, s, w)
				cancel()
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("interrupted at %d: %v", at, err)
				}
				if !bytes.Equal(withoutTimes(j.lines), withoutTimes(full.lines[:len(j.lines)])) {
					t.Fatalf("interrupted at %d it has kept what it had not finished", at)
				}

				s, w = begin()
				w.insert(at, func(*fakeSession) (trial.Window, error) { return trial.Window{}, errGenerator })
				if _, err := do(t, context.Background(), s, w); !errors.Is(err, errGenerator) {
					t.Fatalf("the generator failed at %d: %v", at, err)
				}
			}
			for at := range full.lines {
				s, w := begin()
				j, err := doWith(t, context.Background(), s, w, &keeper{fail: at + 1})
				if !errors.Is(err, errFull) || len(j.lines) != at {
					t.Fatalf("with a full disk after %d: %v", at, err)
				}
			}
		})
	}
}

func TestInterruptedJob(t *testing.T) {
	for at := 1; at < 20; at++ {
		w, s := newWorld(), newStudy(Plan{Kind: JobKind})
		w.jobTime = func(s lab.Setting) float64 { return w.p99(s, 0) }
		ctx, cancel := context.WithCancel(context.Background())
		w.job = func(n int) (lab.Run, error, bool) {
			if n == at {
				cancel()
			}
			return lab.Run{}, nil, false
		}
		if j, err := do(t, ctx, s, w); !errors.Is(err, context.Canceled) || len(j.lines) != at-1 {
			t.Errorf("interrupted in run %d: %d lines, %v", at, len(j.lines), err)
		}
	}
}

func TestFailures(t *testing.T) {
	none := trial.Window{Valid: true, Requests: 10, Metrics: map[string]float64{"req/s": 0, "errors-%": 100}, Cause: "status 500"}
	silent := trial.Window{Valid: true, Metrics: map[string]float64{"req/s": 0}}
	for _, c := range []struct {
		name  string
		world func(*world)
		want  string
	}{
		{"it dies in the warm-up", func(w *world) { w.shoot = dies(2) }, "failed with its current setting: out of memory"},
		{"it dies in the search for its capacity", func(w *world) { w.shoot = dies(4) }, "failed with its current setting: out of memory"},
		{"it dies at its rate", func(w *world) { w.shoot = dies(6) }, "failed with its current setting: out of memory"},
		{"all requests fail", func(w *world) {
			w.shoot = func(*fakeSession, int) (trial.Window, error, bool) { return none, nil, true }
		}, "all of its requests failed: status 500"},
		{"it never answers", func(w *world) {
			w.shoot = func(*fakeSession, int) (trial.Window, error, bool) { return silent, nil, true }
		}, "no request succeeded"},
		{"its capacity is NaN", func(w *world) {
			w.shoot = func(*fakeSession, int) (trial.Window, error, bool) {
				return trial.Window{Metrics: map[string]float64{"req/s": math.NaN()}}, nil, true
			}
		}, "no request succeeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.world(w)
			_, err := do(t, context.Background(), newStudy(Plan{}), w)
			hopeless(t, err, c.want)
		})
	}

	w := newWorld()
	w.start = func(lab.Setting, int) error { return failed("exit code 1") }
	if _, err := do(t, context.Background(), newStudy(Plan{}), w); err == nil || !strings.Contains(err.Error(), "exit code 1") {
		t.Errorf("it does not start: %v", err)
	}

	w = newWorld()
	w.job = func(int) (lab.Run, error, bool) { return lab.Run{Error: "exit code 1"}, nil, true }
	_, err := do(t, context.Background(), newStudy(Plan{Kind: JobKind}), w)
	hopeless(t, err, "exit code 1")
}

// dies lets the server die in a shot.
func dies(at ...int) func(*fakeSession, int) (trial.Window, error, bool) {
	return func(x *fakeSession, n int) (trial.Window, error, bool) {
		if slices.Contains(at, n) {
			x.died = "out of memory"
		}
		return trial.Window{}, nil, false
	}
}

// A run that fails is done once more; one that fails again is recorded as such.
func TestSecondChance(t *testing.T) {
	w, s := newWorld(), newStudy(Plan{})
	mustDo(t, s, w)
	first := w.loads - 2*len(s.Runs) + 1 // the warm-up of the first run

	for _, c := range []struct {
		name  string
		world func(*world)
	}{
		{"in the warm-up", func(w *world) { w.shoot = dies(first) }},
		{"in the window", func(w *world) { w.shoot = dies(first + 1) }},
		{"at the start", func(w *world) {
			w.start = func(_ lab.Setting, n int) error {
				if n == 2 {
					return failed("the port is in use")
				}
				return nil
			}
		}},
	} {
		w, s := newWorld(), newStudy(Plan{})
		c.world(w)
		mustDo(t, s, w)
		if r := s.Runs[0]; r.Error != "" || r.Attempt != 1 || len(r.Marks) != 1 || !strings.HasPrefix(r.Marks[0], "the first attempt failed: ") {
			t.Errorf("%s: %+v", c.name, r)
		}
		if v := verdict(t, s, 0); v.Kind != search.Change {
			t.Errorf("%s: %+v", c.name, v)
		}
	}

	w, s = newWorld(), newStudy(Plan{})
	w.shoot = dies(first+1, first+3)
	mustDo(t, s, w)
	if r := s.Runs[0]; r.Error != "out of memory" || r.Attempt != 1 || len(r.Metrics) != 1 {
		t.Errorf("got %+v", r)
	}

	// A server that is gone without a word is not the generator's fault.
	w, s = newWorld(), newStudy(Plan{})
	w.shoot = func(_ *fakeSession, n int) (trial.Window, error, bool) {
		return trial.Window{}, nil, n == first+1 || n == first+3
	}
	mustDo(t, s, w)
	if r := s.Runs[0]; r.Error == "" || !r.Valid {
		t.Errorf("got %+v", r)
	}
}

func TestWindow(t *testing.T) {
	for _, c := range []struct {
		rate   float64
		wanted time.Duration
		want   time.Duration
		tail   string
	}{
		{1000, 0, 5 * time.Second, "p99"},
		{400, 0, 5 * time.Second, "p99"},
		{277, 0, 7500 * time.Millisecond, "p99"}, // 2000 ÷ 277 is 7.2 s
		{100, 0, 20 * time.Second, "p99"},
		{99, 0, 20 * time.Second, "p99"}, // 1980 are 1 % less than 2000
		{98, 0, 20 * time.Second, "p90"},
		{10, 0, 20 * time.Second, "p90"},
		{9, 0, 20 * time.Second, "p50"},
		{0.04, 0, 25 * time.Second, "p50"}, // one request at least
		{1e-9, 0, 1e6 * time.Second, "p50"},
		{0, 0, 20 * time.Second, "p50"},
		{1e9, 0, 5 * time.Second, "p99"},
		{1000, time.Second, time.Second, "p90"},
		{1000, 40 * time.Second, 40 * time.Second, "p99"},
	} {
		if got, tail := window(c.rate, c.wanted); got != c.want || tail != c.tail {
			t.Errorf("%v/s, %v: got %v and %s, want %v and %s", c.rate, c.wanted, got, tail, c.want, c.tail)
		}
	}
	// No rate is left with a window that is a little too short for its p99.
	for rate := 100.0; rate < 500; rate++ {
		if got, tail := window(rate, 0); tail != "p99" {
			t.Errorf("%v/s: %v and %s", rate, got, tail)
		}
	}
}

func TestSharesInOrder(t *testing.T) {
	for _, c := range []struct{ in, want []float64 }{
		{nil, []float64{0.65}},
		{[]float64{0.4, 0.65, 0.9}, []float64{0.65, 0.4, 0.9}},
		{[]float64{0.9, 0.4}, []float64{0.4, 0.9}},
		{[]float64{0.7, 0.6}, []float64{0.6, 0.7}}, // as near as each other
		{[]float64{0.6, 0.7}, []float64{0.6, 0.7}},
		{[]float64{0.5, 0.5, 0.5}, []float64{0.5, 0.5, 0.5}},
	} {
		if got := sharesInOrder(c.in); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.in, got, c.want)
		}
	}
}

func TestRoundRate(t *testing.T) {
	for in, want := range map[float64]float64{650: 650, 654: 650, 12345: 12000, 0.26: 0.26, 0.264: 0.26, 996: 1000, 0: 0} {
		if got := roundRate(in); got != want {
			t.Errorf("%v: got %v, want %v", in, got, want)
		}
	}
}

func TestCandidates(t *testing.T) {
	for _, c := range []struct {
		name       string
		plan       Plan
		pilot      Pilot
		candidates []int
		procs      int
	}{
		{"the usual ones", Plan{}, Pilot{Foresight: Foresight{Procs: 8, GoDefault: 2}}, []int{2, 1, 4}, 8},
		{"all", Plan{All: true}, Pilot{Foresight: Foresight{Procs: 3}}, []int{1, 2, 4, 5, 6, 7, 8}, 3},
		{"the user's", Plan{Procs: []int{5, 3, 9}}, Pilot{Foresight: Foresight{Procs: 3}}, []int{5, 9}, 3},
		{"only what it has", Plan{Procs: []int{3}}, Pilot{Foresight: Foresight{Procs: 3}}, []int{}, 3},
		{"not known", Plan{Procs: []int{1, 2}}, Pilot{Foresight: Foresight{GoDefault: 2}}, []int{1}, 2},
		{"nothing is known", Plan{Procs: []int{2}}, Pilot{}, []int{2}, 1},
	} {
		s, p := newStudy(c.plan), c.pilot
		(&execution{Study: s}).candidates(&p)
		if !slices.Equal(p.Candidates, c.candidates) || p.Procs != c.procs {
			t.Errorf("%s: got %v and %d", c.name, p.Candidates, p.Procs)
		}
		if !reflect.DeepEqual(s.Plan.Procs, c.plan.Procs) {
			t.Errorf("%s: the plan is %v now", c.name, s.Plan.Procs)
		}
	}
}
