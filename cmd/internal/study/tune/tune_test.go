package tune

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/internal/slowtest"
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
		{"the current one is best", Plan{}, func(w *world) { w.byItself = 2 }, search.Keep, 2, because(search.NoneBetter)},
		{"cheaper, with a longer tail", Plan{Procs: []int{1}}, func(w *world) {
			w.byItself = 2
			w.cpu = func(s lab.Setting) float64 { return 0.0007 * math.Sqrt(float64(s.Procs)) }
		}, search.Trade, 2, because(search.Worsens)},
		{"all equal", Plan{}, flat, search.Keep, 8, nil},
		{"nothing else to try", Plan{Procs: []int{8}}, nil, search.Keep, 8, because(search.Alone)},
		{"no setting holds the SLO", Plan{SLO: "p99=1ms"}, func(w *world) { w.slo = 0.001 }, search.Change, 2, func(v search.TuneVerdict) bool { return v.NoneOK && v.Held == [2]int{} }},
		{"one setting holds the SLO", Plan{SLO: "p99=50ms"}, func(w *world) { w.slo = 0.05 }, search.Change, 2, func(v search.TuneVerdict) bool { return v.Held[0] == 0 && v.Held[1] == v.Pairs }},
		{"closed loop", Plan{Conns: 32}, nil, search.Change, 2, nil},
		{"a low rate", Plan{Rate: 0.2, Blocks: 3}, nil, search.Change, 2, by(search.P99)},
		{"a slow server", Plan{Blocks: 3}, func(w *world) { w.capacity = 0.4 }, search.Change, 2, nil},
		{"CPU not known", Plan{}, func(w *world) { w.noCPU = true }, search.Change, 2, nil},
		{"too little time", Plan{Budget: time.Nanosecond}, nil, search.Undecided, 8, because(search.NothingYet)},
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
			if v.Kind != c.kind || v.Procs != c.procs || c.is != nil && !c.is(v) || v.Done != (c.plan.Budget == 0) {
				t.Errorf("got %+v", v)
			}
		})
	}
}

// What an emulated limit may do on its own isn't a difference between settings, and a study that was saved keeps to that.
func TestEmulatedBias(t *testing.T) {
	for _, c := range []struct {
		limit  string
		saved  float64 // share of the CPU time, with one P
		margin float64 // in force
		kind   search.Verdict
	}{
		{"cgroup-v2", 0.12, 0.05, search.Change},
		{"emulated", 0.08, 0.10, search.Keep},
		{"emulated", 0.4, 0.10, search.Change},
	} {
		w, s := newWorld(), newStudy(Plan{Procs: []int{1}})
		flat(w)
		w.limit, w.byItself, w.noise = c.limit, 2, 0.005
		w.cpu = func(s lab.Setting) float64 {
			if s.Procs == 1 {
				return 0.001 * (1 - c.saved)
			}
			return 0.001
		}
		mustDo(t, s, w)
		if v := verdict(t, s, 0); v.Kind != c.kind {
			t.Errorf("%s, %v: %+v", c.limit, c.saved, v)
		}
		if margin, tail := s.Margins(); margin != c.margin || tail != 0.25 {
			t.Errorf("%s: margins %v and %v", c.limit, margin, tail)
		}
	}
	p := Pilot{LimitKind: "emulated", Foresight: Foresight{Procs: 2}, Candidates: []int{2}, Levers: []int{800}}
	if b := p.bias(); b != (Bias{}) {
		t.Errorf("GOGC alone: %+v", b)
	}
}

// The current setting is the program unchanged, and all runs of a block have the same arrivals; those of the warm-up differ from the
// window's, and each block has its own.
func TestSettingsAndSeeds(t *testing.T) {
	w, s := newWorld(), newStudy(Plan{})
	mustDo(t, s, w)
	own := map[uint64]string{}
	pilot := len(w.shots) - len(s.Runs)
	for i, r := range s.Runs {
		main := w.shots[pilot+i]
		if want := r.Search.Procs; want == 8 && main.setting.Procs != 0 || want != 8 && main.setting.Procs != want {
			t.Errorf("run %d of %d had the setting %+v", i, want, main.setting)
		}
		if main.Seed != r.Search.Seed || main.WarmUp != s.Pilot.Loads[0].WarmUp || main.Lasting != s.windowOf(s.Pilot.Loads[0], s.raceBlock(r.Load, r.Search)) {
			t.Errorf("run %d: %+v", i, main)
		}
		name := fmt.Sprint(r.Search.Phase, r.Search.Block)
		for more := range uint64(2) { // the generator's warm-up has the seed that follows
			of := fmt.Sprint(name, more)
			if other, there := own[main.Seed+more]; there && other != of {
				t.Errorf("%s and %s have the same seed", other, of)
			}
			own[main.Seed+more] = of
		}
	}
	if want := 2 * s.Runs[len(s.Runs)-1].Search.Block; len(own) != want {
		t.Errorf("%d seeds, want %d", len(own), want)
	}
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
		{"it never settles", Plan{}, func(w *world) { w.cold = func(_ time.Duration, step int) float64 { return float64(1 + step%2) } }, 30 * time.Second, 30, "still changed by 50 % within 1 s"},
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
	w.noise = 0.001
	mustDo(t, s, w)
	p := s.Pilot
	// 8 connections do 160/s, 32 do 640/s, 128 the 1000/s that there are, and 512 no more.
	if p.Capacity != 1000 || p.Conns != 128 || len(p.Loads) != 1 || p.Loads[0].Rate != 650 || math.Abs(p.Loads[0].Share-0.65) > 0.01 || p.Loads[0].Closed != 0.65 {
		t.Errorf("got %+v", p)
	}
	if p.Procs != 8 || slices.Contains(p.Candidates, 8) || !slices.Contains(p.Candidates, 2) || p.LimitKind != "fake" || p.Trace || p.GC != nil {
		t.Errorf("got %+v", p)
	}
	if l := p.Loads[0]; l.Window != 5*time.Second || l.WarmUp != time.Second || l.Tail != "p99" || p.PerRun != 6.5 {
		t.Errorf("got %+v, %v a run", l, p.PerRun)
	}

	w, s = newWorld(), newStudy(Plan{})
	w.noise, w.cpu = 0.001, func(lab.Setting) float64 { return 1.0 / 160 }
	mustDo(t, s, w)
	if p := s.Pilot; p.Capacity != 160 || p.Conns != 8 {
		t.Errorf("8 connections have used up its limit, and %+v", p)
	}

	w, s = newWorld(), newStudy(Plan{Conns: 16, Rate: 310})
	mustDo(t, s, w)
	if p := s.Pilot; p.Capacity != 320 || p.Conns != 16 || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "310/s is 97 % of the 320/s that a closed loop gets") {
		t.Errorf("got %+v", p)
	}

	w, s = newWorld(), newStudy(Plan{Rate: 700})
	w.openLoop, w.noise = 1.3, 0.001
	mustDo(t, s, w)
	if p := s.Pilot; len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "at 700/s the current setting uses 91 % of its limit") || p.Loads[0].Closed != 0.7 {
		t.Errorf("got %+v", p)
	}

	w, s = newWorld(), newStudy(Plan{Conns: 16})
	mustDo(t, s, w)
	if last := w.shots[len(w.shots)-1]; last.Rate != 0 || last.Conns != 16 || s.Pilot.Loads[0].Rate != 0 {
		t.Errorf("a closed loop sent %+v", last)
	}
}

// TestChangingRate: what the windows have, and the looks at the rate before them; a closed loop has neither.
func TestChangingRate(t *testing.T) {
	for _, plan := range []Plan{{Rate: 300, From: 100}, {Rate: 300, Times: "a.txt", TimesLast: 3 * time.Second}} {
		w, s := newWorld(), newStudy(plan)
		mustDo(t, s, w)
		for _, shot := range w.shots {
			if open := shot.Rate > 0; open && (shot.From != plan.From || shot.Times != plan.Times) || !open && (shot.From > 0 || shot.Times != "") {
				t.Errorf("%+v", shot)
			}
		}
		if l := s.Pilot.Loads[0]; l.Rate != 300 || plan.Times != "" && l.Window != plan.TimesLast || plan.Times == "" && l.Window != 7*time.Second {
			t.Errorf("%+v", l)
		}
	}
	for _, plan := range []Plan{{Rate: 300, From: 700}, {Rate: 300, From: -1}, {Kind: JobKind, Times: "x"}} {
		if s := newStudy(plan); s.checkPlan() == nil {
			t.Errorf("%+v", plan)
		}
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
	if r := s.Runs[n-3]; r.Search.Phase == Explain || r.GC != nil {
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
		{"enough as it is, and not for twice as much", Plan{}, 50, 12 << 20, 64 << 20, nil, false},
		{"the user's, of which one needs too much", Plan{GOGC: []int{300, 25}}, 50, 16 << 20, 64 << 20, []int{25}, false},
		{"enough, and too near to the limit", Plan{GOGC: []int{50}}, 50, 16 << 20, 64 << 20, nil, false},
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
		limit := map[int64]string{64 << 20: "56MiB", 128 << 20: "115MiB"}[c.memory]
		if len(c.want) == 0 {
			limit = ""
		}
		x := &execution{Study: s, lab: l}
		s.Pilot = p
		with, without := x.setting(search.TuneRun{Procs: p.Procs, GOGC: 800}), x.setting(search.TuneRun{Procs: p.Procs})
		if p.GOMEMLIMIT != limit || with.GOMEMLIMIT != limit || without.GOMEMLIMIT != "" {
			t.Errorf("%s: GOMEMLIMIT %q, in a setting with a GOGC %q, in others %q; want %q", c.name, p.GOMEMLIMIT, with.GOMEMLIMIT, without.GOMEMLIMIT, limit)
		}
		if l.OwnGOMEMLIMIT = true; limit != "" {
			if p, err := (&execution{Study: newStudy(c.plan), lab: l}).pilot(context.Background()); err != nil || p.GOMEMLIMIT != "" {
				t.Errorf("%s: the program has one, and gets %q, %v", c.name, p.GOMEMLIMIT, err)
			}
		}
		if told := strings.Contains(strings.Join(p.Warnings, " "), "is not tried: with twice the"); told != (c.memory == 64<<20) {
			t.Errorf("%s: %q", c.name, p.Warnings)
		}
	}
}

// TestRush: under a memory limit every run's warm-up begins with requests at once, and nothing else does. A setting that dies of them is
// out.
func TestRush(t *testing.T) {
	if got := []int{rush(0, time.Second), rush(2, time.Second), rush(490, time.Second), rush(1e9, time.Second)}; !slices.Equal(got, []int{0, 10, 490, 100_000}) {
		t.Errorf("at once: %v", got)
	}
	for _, memory := range []int64{0, 256 << 20} {
		w, s, j := newWorld(), newStudy(Plan{}), &keeper{}
		w.shoot = func(x *fakeSession, _ int) (trial.Window, error, bool) {
			if x.killed = x.setting.Procs == 4 && w.shots[len(w.shots)-1].Rush > 0; x.killed {
				x.died = "out of memory: limit 256 MiB"
			}
			return trial.Window{}, nil, false
		}
		l := w.lab(j)
		l.Memory = memory
		if err := s.Execute(context.Background(), l); err != nil {
			t.Fatal(err)
		}
		want := 0
		if memory > 0 {
			want = rush(s.Pilot.Loads[0].Rate, time.Second/4)
		}
		runs := w.shots[len(w.shots)-len(s.Runs):]
		for i, shot := range runs {
			if shot.Rush != want || shot.WarmUp == 0 {
				t.Errorf("%d MiB: run %d has %d at once, want %d", memory>>20, i, shot.Rush, want)
			}
		}
		for _, shot := range w.shots[:len(w.shots)-len(s.Runs)] {
			if shot.Rush != 0 {
				t.Errorf("%d MiB: the pilot sends %d at once", memory>>20, shot.Rush)
			}
		}
		if died := slices.ContainsFunc(s.Runs, func(r Run) bool { return r.Killed }); died != (memory > 0) {
			t.Errorf("%d MiB: died %v", memory>>20, died)
		}
	}
}

// TestWork: of answers that may not be the work it warns at once, and of no others.
func TestWork(t *testing.T) {
	for _, c := range []struct {
		url    string
		failed float64
		closed float64 // bytes of an answer in a closed loop; 3 at a rate
		want   []string
	}{
		{"http://localhost:8080/api", 0, 3, nil},
		{"http://localhost:8080/api", 0, 5.9, nil},
		{"http://localhost:8080/api", 0, 31 << 10, []string{"on average its answers had 3 B at 520/s and 31 KiB in a closed loop with 8 connections: where they are short it may do less work"}},
		{"http://localhost:8080/api", 0.5, 3, nil}, // percent
		{"http://localhost:8080/api?x=/healthz", 30, 3, []string{"30 % of its requests failed while its rate was being found (status 404): what fails may cost less than the work"}},
		{"http://localhost:8080/live/healthz", 0, 3, []string{"/live/healthz is a path for probes, and its answers have 3 bytes: if that is not the work, --url names another path"}},
	} {
		w, s := newWorld(), newStudy(Plan{URL: c.url})
		w.shoot = func(x *fakeSession, _ int) (trial.Window, error, bool) {
			shot := w.shots[len(w.shots)-1].Shot
			got := x.answer(shot)
			got.Bytes, got.Metrics["errors-%"] = 3, c.failed
			if shot.Rate == 0 {
				got.Bytes = c.closed
			}
			if c.failed > 0 {
				got.Cause = "status 404"
			}
			return got, nil, true
		}
		p, err := (&execution{Study: s, lab: w.lab(&keeper{})}).pilot(context.Background())
		if err != nil || !slices.Equal(p.Warnings, c.want) {
			t.Errorf("%s, %v %%: %q, %v", c.url, c.failed, p.Warnings, err)
		}
	}
}

// TestTight: where GOMEMLIMIT leaves the collector no room, another GOGC is not what helps.
func TestTight(t *testing.T) {
	const told = "it needs more memory, not another GOGC: "
	for _, c := range []struct {
		name   string
		plan   Plan
		gc     GC
		memory int64
		own    bool // GOMEMLIMIT
		want   string
	}{
		{"a spiral", Plan{}, GC{CPUShare: 0.61, Live: 97 << 20, Goal: 106 << 20}, 128 << 20, true, told + "a memory limit of at least 171MiB; collections take 61 % of its CPU time, as with 97 MiB alive the heap may grow by only 9 % before the next one"},
		{"a spiral that takes more than it gets", Plan{}, GC{Least: 0.9, Live: 97 << 20, Goal: 106 << 20}, 128 << 20, true, told + "a memory limit of at least 171MiB; collections take at least 90 % of its CPU time, as with 97 MiB alive the heap may grow by only 9 % before the next one"},
		{"its own limit alone", Plan{}, GC{CPUShare: 0.61, Live: 97 << 20, Goal: 106 << 20}, 0, true, told + "GOMEMLIMIT=154MiB at least; collections take 61 % of its CPU time, as with 97 MiB alive the heap may grow by only 9 % before the next one"},
		{"a goal below what is alive", Plan{}, GC{CPUShare: 0.61, Live: 97 << 20, Goal: 90 << 20}, 128 << 20, true, told + "a memory limit of at least 171MiB; collections take 61 % of its CPU time, as with 97 MiB alive the heap may grow by only 0 % before the next one"},
		{"room", Plan{}, GC{CPUShare: 0.61, Live: 50 << 20, Goal: 100 << 20}, 128 << 20, true, ""},
		{"cheap", Plan{}, GC{CPUShare: 0.2, Live: 97 << 20, Goal: 106 << 20}, 128 << 20, true, ""},
		{"a low GOGC of the user's", Plan{NoGOGC: true}, GC{CPUShare: 0.61, Live: 97 << 20, Goal: 106 << 20}, 128 << 20, false, ""},
		{"no limit at all, and a low GOGC of its own", Plan{}, GC{CPUShare: 0.61, Live: 97 << 20, Goal: 106 << 20}, 0, false, ""},
		{"a GOMEMLIMIT that is not known, and a GOGC of the user's", Plan{NoGOGC: true}, GC{CPUShare: 0.61, Live: 97 << 20, Goal: 106 << 20}, 0, true, ""},
		{"memory enough", Plan{}, GC{CPUShare: 0.61, Live: 20 << 20, Goal: 22 << 20}, 128 << 20, true, ""},
	} {
		x := &execution{Study: newStudy(c.plan), lab: Lab{Memory: c.memory, OwnGOMEMLIMIT: c.own}}
		if got := x.tight(&c.gc); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := (&execution{Study: newStudy(Plan{})}).tight(nil); got != "" {
		t.Errorf("of no collections: %q", got)
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

	// It collects too rarely to be seen at the rate, but says what it is in the warm-up, in a closed loop.
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

	// What it says about itself counts more than what was expected.
	w = newWorld()
	w.gc = 5
	l = w.lab(&keeper{})
	l.Foresee = func(float64) Foresight { return Foresight{Procs: 3, Why: "a guess", GoDefault: 2} }
	s := newStudy(Plan{})
	if err := s.Execute(context.Background(), l); err != nil || s.Pilot.Procs != 8 || !strings.Contains(s.Pilot.Why, "3 was expected") {
		t.Errorf("%+v, %v", s.Pilot, err)
	}
}

// A program that is known not to be a Go program, nor to start one, is not tuned.
func TestNoGo(t *testing.T) {
	for _, kind := range []string{ServerKind, JobKind} {
		w, s := newWorld(), newStudy(Plan{Kind: kind, Name: "python3"})
		w.noGo, w.jobTime = true, func(lab.Setting) float64 { return 1 }
		_, err := do(t, context.Background(), s, w)
		hopeless(t, err, "python3 is not a Go program, and does not seem to start one")
		var h *Hopeless
		if !errors.As(err, &h) || !h.NoGo || w.loads > 0 || w.jobs > 1 {
			t.Errorf("%s: %v, after %d loads and %d jobs", kind, err, w.loads, w.jobs)
		}
	}
}

// A job that does not end is ended with the budget.
func TestEndlessJob(t *testing.T) {
	w := newWorld()
	w.endless, w.jobTime = true, func(lab.Setting) float64 { return 1 }
	_, err := do(t, context.Background(), newStudy(Plan{Kind: JobKind, Budget: time.Millisecond}), w)
	hopeless(t, err, "the whole budget, and did not end")
	if w.jobs != 1 {
		t.Errorf("%d runs", w.jobs)
	}
}

func TestLoads(t *testing.T) {
	w, s := newWorld(), newStudy(Plan{Shares: []float64{0.4, 0.9, 0.65, 0.651}})
	w.noise = 0.001
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
	// What is reported: steps of the pilot, the pilot, and then for each load each run, with the one before it, and the verdict.
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

// TestRates: 65 % are of the limit's CPU as the current setting uses it at that very rate, and not of what a closed loop,
// which is cheaper a request, gets out of it.
func TestRates(t *testing.T) {
	for _, c := range []struct {
		name     string
		openLoop float64
		noise    float64
		shares   []float64
		closed   float64 // the main rate, of the capacity
		looks    int     // at rates
	}{
		{"as cheap", 1, 0.001, nil, 0.65, 2},
		{"as was guessed", openLoop, 0.001, nil, 0.52, 1},
		{"dearer", 1.6, 0.001, nil, 0.41, 2},
		{"noisy", 1.4, 0.03, nil, 0.46, 2},
		{"two of them", 1.6, 0.001, []float64{0.3, 0.65}, 0.41, 3}, // what was seen of the first predicts the second
	} {
		w, s := newWorld(), newStudy(Plan{Shares: c.shares})
		w.openLoop, w.noise = c.openLoop, c.noise
		p, err := (&execution{Study: s, lab: w.lab(&keeper{})}).pilot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		looks := 0
		for _, shot := range w.shots {
			if shot.Rate > 0 {
				looks++
			}
		}
		main := p.Loads[0]
		if math.Abs(main.Share/usualShare-1) > near || math.Abs(main.Closed/c.closed-1) > 0.06 || looks != c.looks {
			t.Errorf("%s: %+v after %d looks", c.name, main, looks)
		}
		if used := main.Rate * 0.001 * c.openLoop; math.Abs(used/usualShare-1) > near {
			t.Errorf("%s: %v/s take %v CPUs", c.name, main.Rate, used)
		}
	}
	// One whose CPU use jumps is looked at three times, and what was seen is reported.
	w := newWorld()
	n := 0
	w.shoot = func(x *fakeSession, _ int) (trial.Window, error, bool) {
		shot := w.shots[len(w.shots)-1].Shot
		got := x.answer(shot)
		if shot.Rate > 0 {
			n++
			got.Used *= 1 + float64(n%2)
		}
		return got, nil, true
	}
	s := newStudy(Plan{})
	p, err := (&execution{Study: s, lab: w.lab(&keeper{})}).pilot(context.Background())
	if err != nil || n != 3 || math.Abs(p.Loads[0].Share/usualShare-1) < near {
		t.Errorf("%d looks: %+v, %v", n, p.Loads, err)
	}
	// Where CPU time can't be known it is a guess, and no share is reported.
	w, s = newWorld(), newStudy(Plan{})
	w.noCPU = true
	p, err = (&execution{Study: s, lab: w.lab(&keeper{})}).pilot(context.Background())
	if err != nil || p.Loads[0].Rate != 520 || p.Loads[0].Share != 0 || p.Loads[0].Closed != 0.52 {
		t.Errorf("%+v, %v", p.Loads, err)
	}
}

// TestPilotBeside: what a server does while others use the CPUs is looked at again, and if they never rest that is reported.
func TestPilotBeside(t *testing.T) {
	pilot := func(p Plan, busy func(at time.Duration) bool) *Pilot {
		w, s := newWorld(), newStudy(p)
		begin := w.now
		w.shoot = func(x *fakeSession, _ int) (trial.Window, error, bool) {
			whole := w.capacity
			defer func() { w.capacity = whole }()
			beside := busy(w.now.Sub(begin))
			if beside {
				w.capacity /= 4
			}
			got := x.answer(w.shots[len(w.shots)-1].Shot)
			if beside {
				got.Others = 3.5
			}
			return got, nil, true
		}
		found, err := (&execution{Study: s, lab: w.lab(&keeper{}), begin: w.now}).pilot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	never := func(time.Duration) bool { return false }
	always := func(time.Duration) bool { return true }
	burst := func(from, to time.Duration) func(time.Duration) bool {
		return func(at time.Duration) bool { return from < at && at < to }
	}
	want := pilot(Plan{Budget: 3 * time.Minute}, never)
	for name, p := range map[string]*Pilot{
		"at the start": pilot(Plan{Budget: 3 * time.Minute}, burst(0, 20*time.Second)),
		"later":        pilot(Plan{Budget: 3 * time.Minute}, burst(4*time.Second, 20*time.Second)),
		"no budget":    pilot(Plan{}, burst(2*time.Second, 25*time.Second)),
	} {
		if math.Abs(p.Loads[0].Rate/want.Loads[0].Rate-1) > near || math.Abs(p.Capacity/want.Capacity-1) > 0.2 || len(p.Warnings) > 0 {
			t.Errorf("%s: %+v of %v/s, and alone %+v of %v/s; %q", name, p.Loads[0], p.Capacity, want.Loads[0], want.Capacity, p.Warnings)
		}
	}
	for name, c := range map[string]struct {
		plan Plan
		warn bool
	}{
		"a budget":       {Plan{Budget: time.Minute}, true},
		"none":           {Plan{}, true},
		"a rate":         {Plan{Rate: 100}, false},
		"a short budget": {Plan{Budget: 10 * time.Second}, true},
	} {
		p := pilot(c.plan, always)
		if b := c.plan.Budget.Seconds(); b > 0 && p.Seconds > (pilotShare+waitShare)*b || p.Seconds > 60 {
			t.Errorf("%s: beside others that never rest it took %v s", name, p.Seconds)
		}
		warned := slices.ContainsFunc(p.Warnings, func(w string) bool {
			return w == "others used 3.5 CPUs while its rate was being found: alone it may take a higher one, which --rate names"
		})
		if warned != c.warn {
			t.Errorf("%s: %q", name, p.Warnings)
		}
	}
}

// TestLimit: how many CPUs a server can use is the least of the machine's, the limit, and its GOMAXPROCS.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		limit  float64
		procs  int
		itself int
		want   float64
	}{{1, 8, 0, 1}, {0, 8, 0, 8}, {0, 4, 0, 4}, {0, 4, 2, 2}, {2.5, 2, 0, 2}, {2.5, 0, 0, 2.5}, {64, 0, 0, 8}} {
		s := newStudy(Plan{})
		s.Plan.CPUs = c.limit
		l := &look{execution: &execution{Study: s}, p: &Pilot{Foresight: Foresight{Procs: c.procs}}, procs: c.itself}
		if got := l.limit(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestBudget: a study ends within its budget, by one run at most, and not while there is no verdict and a run would fit.
func TestBudget(t *testing.T) {
	alike := func(w *world) { // all settings, in much noise, of which the pilot sees nothing
		flat(w)
		w.noisy(0.4, func(s trial.Shot) bool { return s.WarmUp > 0 })
	}
	dying := func(w *world) {
		alike(w)
		w.start = func(s lab.Setting, _ int) error {
			if s.Procs > 0 && s.Procs < 8 {
				return failed("exit code 2")
			}
			return nil
		}
	}
	// What makes a pilot long: a warm-up that never ends, a slow start, and a rate that must be corrected repeatedly.
	cold := func(w *world) { w.cold = func(_ time.Duration, step int) float64 { return float64(1 + step%2) } }
	slow := func(w *world) { w.starting = 3 * time.Second }
	jumps := func(w *world) {
		n := 0
		w.shoot = func(x *fakeSession, _ int) (trial.Window, error, bool) {
			got := x.answer(w.shots[len(w.shots)-1].Shot)
			n++
			got.Used *= 1 + float64(n%2)
			return got, nil, true
		}
	}
	for _, c := range []struct {
		plan    Plan
		world   func(*world)
		settled bool // at all loads
	}{
		{Plan{Budget: 2 * time.Minute, Procs: []int{1, 2, 3, 4, 5, 6, 9}}, dying, true},
		{Plan{Budget: time.Second}, nil, false},
		{Plan{Budget: 10 * time.Second}, nil, false},
		{Plan{Budget: 10 * time.Second}, cold, false},
		{Plan{Budget: 20 * time.Second}, cold, false},
		{Plan{Budget: 10 * time.Second}, slow, false},
		{Plan{Budget: 10 * time.Second}, jumps, false},
		{Plan{Budget: 10 * time.Second, Shares: []float64{0.65, 0.3, 0.4}}, jumps, false},
		{Plan{Budget: time.Minute}, cold, false},
		{Plan{Budget: 30 * time.Second}, nil, false},
		{Plan{Budget: time.Minute}, nil, true},
		{Plan{Budget: time.Minute}, alike, false},
		{Plan{Budget: 10*time.Minute + 3*time.Second}, alike, true},
		{Plan{Budget: time.Minute, Window: 3 * time.Second}, alike, false},
		{Plan{Budget: 3 * time.Minute, Shares: []float64{0.65, 0.3}}, nil, true},
		{Plan{Budget: 2 * time.Minute, Shares: []float64{0.65, 0.3, 0.4}}, alike, false},
		{Plan{Budget: 3 * time.Minute, GOGC: []int{100, 200}}, nil, true},
		{Plan{Budget: 5 * time.Second, Kind: JobKind}, nil, false},
		{Plan{Budget: time.Minute, Kind: JobKind}, nil, true},
	} {
		w, s := newWorld(), newStudy(c.plan)
		w.jobTime = func(s lab.Setting) float64 { return w.p99(s, 0) }
		if c.world != nil {
			c.world(w)
		}
		w.now = time.Unix(0, 0)
		begin := w.now
		mustDo(t, s, w)
		took := w.now.Sub(begin)
		one := time.Duration(s.Pilot.PerRun * float64(time.Second))
		if took > c.plan.Budget+one {
			t.Errorf("%+v: it took %v, %v s of it the pilot, and a run takes %v", c.plan, took, s.Pilot.Seconds, one)
		}
		if pilot := s.Pilot.Seconds; c.plan.Budget >= 10*time.Second && pilot > c.plan.Budget.Seconds()/2+w.starting.Seconds() {
			t.Errorf("%+v: the pilot took %v s", c.plan, pilot)
		}
		settled, counts := true, map[int]int{}
		for load := range s.Pilot.Loads {
			v := verdict(t, s, load)
			settled = settled && v.Done
			counts[load] = v.Runs
			if !v.Done && took+one < c.plan.Budget {
				t.Errorf("%+v: after %v of %v load %d has %+v", c.plan, took, c.plan.Budget, load, v)
			}
		}
		if settled != c.settled {
			t.Errorf("%+v: settled is %v", c.plan, settled)
		}
		if n := len(counts); n > 1 && !settled && slices.Max(slices.Collect(maps.Values(counts))) > 2+slices.Min(slices.Collect(maps.Values(counts))) {
			t.Errorf("%+v: the loads have %v runs", c.plan, counts)
		}
		for _, r := range s.Runs {
			// A run has 0.4 s besides its window, of 2.5 s at least; and one of a job takes a second.
			if short := map[string]float64{JobKind: 1}[c.plan.Kind]; r.Room < 1 || float64(r.Room) > c.plan.Budget.Seconds()/cmp.Or(short, 2.9) {
				t.Errorf("%+v: room for %d", c.plan, r.Room)
			}
		}
	}
}

// TestTooShort: a budget that has no time for a verdict is said to be too short, and with the one that is named there is a
// verdict, where the noise allows it.
func TestTooShort(t *testing.T) {
	for _, c := range []struct {
		plan  Plan
		short bool
	}{
		{Plan{}, false},
		{Plan{Budget: 10 * time.Second}, true},
		{Plan{Budget: 30 * time.Second}, true},
		{Plan{Budget: 10 * time.Second, Procs: []int{8}}, false}, // there is nothing to compare
		{Plan{Budget: 10 * time.Minute}, false},
		{Plan{Budget: 10 * time.Second, Kind: JobKind}, true},
		{Plan{Budget: time.Minute, Kind: JobKind}, false},
	} {
		w, s := newWorld(), newStudy(c.plan)
		w.jobTime = func(s lab.Setting) float64 { return w.p99(s, 0) }
		mustDo(t, s, w)
		text := s.TooShort()
		if (text != "") != c.short || (text != "") != slices.Contains(s.PilotLines(), text) {
			t.Errorf("%+v: %q", c.plan, text)
			continue
		}
		_, enough, short := strings.Cut(text, "--budget ")
		if !short {
			continue
		}
		var err error
		if c.plan.Budget, err = time.ParseDuration(enough); err != nil {
			t.Fatal(err)
		}
		w, s = newWorld(), newStudy(c.plan)
		w.noise, w.jobTime = 0.001, func(s lab.Setting) float64 { return w.p99(s, 0) }
		mustDo(t, s, w)
		if v := verdict(t, s, 0); !v.Done {
			t.Errorf("%+v: with %v there is no verdict: %+v", c.plan, c.plan.Budget, v)
		}
	}
}

// TestLeftOver: what one load does not need of its share of the time is another's, one that was before it as well.
func TestLeftOver(t *testing.T) {
	w, s := newWorld(), newStudy(Plan{Budget: 4 * time.Minute, Shares: []float64{0.65, 0.3}})
	w.noisy(0.4, func(s trial.Shot) bool { return s.WarmUp > 0 && s.Rate > 400 })
	begin := w.now
	j := mustDo(t, s, w)
	if v := verdict(t, s, 1); v.Kind != search.Change {
		t.Errorf("%+v", v)
	}
	last := s.Runs[len(s.Runs)-1]
	first := slices.IndexFunc(s.Runs, func(r Run) bool { return r.Load == 1 })
	if last.Load != 0 || first < 0 || s.Runs[0].Load != 0 {
		t.Errorf("the last run was of load %d, after %v", last.Load, w.now.Sub(begin))
	}
	if took := w.now.Sub(begin); took < s.Plan.Budget-7*time.Second && !verdict(t, s, 0).Done {
		t.Errorf("it ended after %v", took)
	}
	if again, _, err := Read(j.all()); err != nil || len(again.Runs) != len(s.Runs) {
		t.Errorf("read again: %v", err)
	}
}

// TestWindowOf: the first three blocks have half of the window, or all where time is short, but where the user has said how
// long it is.
func TestWindowOf(t *testing.T) {
	for _, c := range []struct {
		plan        Plan
		load        Load
		first, then time.Duration
	}{
		{Plan{}, Load{Rate: 650, Window: 5 * time.Second}, 2500 * time.Millisecond, 5 * time.Second},
		{Plan{}, Load{Rate: 100, Window: 20 * time.Second}, 10 * time.Second, 20 * time.Second},
		{Plan{}, Load{Window: 5 * time.Second}, 2500 * time.Millisecond, 5 * time.Second},
		{Plan{}, Load{Rate: 0.1, Window: 20 * time.Second}, 10 * time.Second, 20 * time.Second},
		{Plan{}, Load{Rate: 0.05, Window: 20 * time.Second}, 20 * time.Second, 20 * time.Second}, // one request at least
		{Plan{Window: 3 * time.Second}, Load{Rate: 650, Window: 3 * time.Second}, 3 * time.Second, 3 * time.Second},
		{Plan{Kind: JobKind}, Load{}, 0, 0},
		{Plan{Budget: 2 * time.Minute}, Load{Rate: 650, Window: 5 * time.Second}, 2500 * time.Millisecond, 5 * time.Second},
		{Plan{Budget: time.Minute}, Load{Rate: 650, Window: 5 * time.Second}, 2500 * time.Millisecond, 2500 * time.Millisecond},
	} {
		s := newStudy(c.plan)
		s.Pilot = &Pilot{Candidates: []int{1, 2, 4}, PerRun: 6.5, Seconds: 12, Loads: make([]Load, 1)} // it wants 16 runs
		for block, want := range map[int]time.Duration{1: c.first, 3: c.first, 4: c.then, 9: c.then} {
			if got := s.windowOf(c.load, block); got != want {
				t.Errorf("%+v, block %d: %v, want %v", c.load, block, got, want)
			}
		}
	}
}

// TestBlocks: a search has as many blocks as fit into a minute or into its budget.
func TestBlocks(t *testing.T) {
	for _, c := range []struct {
		plan   Plan
		perRun float64
		want   int // 0: the usual ones
	}{
		{Plan{}, 6.5, 0},
		{Plan{}, 0.5, 30},
		{Plan{}, 0.001, 60},
		{Plan{}, 0, 60},
		{Plan{Budget: 10 * time.Minute}, 6.5, 46},
		{Plan{Budget: time.Minute}, 6.5, 0},
		{Plan{Blocks: 4, Budget: time.Hour}, 6.5, 4},
	} {
		s := newStudy(c.plan)
		s.Pilot = &Pilot{Candidates: []int{1, 2}, Levers: []int{800}, PerRun: c.perRun}
		if got := s.blocks(); got != c.want {
			t.Errorf("%+v, %v s a run: %d, want %d", c.plan, c.perRun, got, c.want)
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
		"budget": func() (*Study, *world) { return newStudy(Plan{Budget: time.Minute}), newWorld() },
		"shared budget": func() (*Study, *world) {
			return newStudy(Plan{Budget: 100 * time.Second, Shares: []float64{0.65, 0.3}}), newWorld()
		},
		"limits": limitsWorld,
		"varied": func() (*Study, *world) {
			return newStudy(Plan{Vary: []Knob{{"a", []string{"1", "2"}}}, Procs: []int{2}, GOGC: []int{400}}), newWorld()
		},
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
	slowtest.Skip(t)
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
	slowtest.Skip(t)
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
					x.died = "ended by terminated" // the terminal has signalled it as well
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

// TestJobThatGoesOn is issue 14's: a user whose program does not end learns that, and a user whose program ends does not.
func TestJobThatGoesOn(t *testing.T) {
	for took, want := range map[time.Duration]bool{patience - time.Second: false, patience + time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.jobTime = func(s lab.Setting) float64 { return w.p99(s, 0) }
			w.job = func(n int) (lab.Run, error, bool) {
				if n == 1 {
					time.Sleep(took)
				}
				return lab.Run{}, nil, false
			}
			j, err := do(t, t.Context(), newStudy(Plan{Kind: JobKind}), w)
			if err != nil {
				t.Fatal(err)
			}
			told := slices.ContainsFunc(j.told, func(p Progress) bool { return strings.HasPrefix(p.Doing, "waiting for its end: ") })
			if told != want {
				t.Errorf("a first run of %v: told %v", took, told)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	none := trial.Window{Valid: true, Requests: 10, Metrics: map[string]float64{"req/s": 0, "errors-%": 100}, Cause: "status 500"}
	silent := trial.Window{Valid: true, Metrics: map[string]float64{"req/s": 0}}
	moved := trial.Window{Valid: true, Requests: 10, Metrics: map[string]float64{"req/s": 1000}, Status: 302}
	for _, c := range []struct {
		name  string
		world func(*world)
		want  string
	}{
		{"it dies in the warm-up", func(w *world) { w.shoot = diesFrom(2) }, "failed with its current setting, and with GOMAXPROCS=2: out of memory"},
		{"it dies in the search for its capacity", func(w *world) { w.shoot = diesFrom(4) }, "failed with its current setting, and with GOMAXPROCS=2: out of memory"},
		{"it dies at its rate", func(w *world) { w.shoot = diesFrom(6) }, "failed with its current setting, and with GOMAXPROCS=2: out of memory"},
		{"all requests fail", func(w *world) {
			w.shoot = func(*fakeSession, int) (trial.Window, error, bool) { return none, nil, true }
		}, "all of its requests failed: status 500"},
		{"all requests are sent elsewhere", func(w *world) {
			w.shoot = func(*fakeSession, int) (trial.Window, error, bool) { return moved, nil, true }
		}, "its answers are redirects (status 302), and not the work"},
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

// diesFrom lets all servers die from a shot on.
func diesFrom(first int) func(*fakeSession, int) (trial.Window, error, bool) {
	return func(x *fakeSession, n int) (trial.Window, error, bool) {
		if n >= first {
			x.died = "out of memory"
		}
		return trial.Window{}, nil, false
	}
}

// TestStandIn: a server that dies with its current setting while its load is looked for is looked at with another, and what the current one
// does under that load is found by the search: it dies there as well, and the others are compared with another in its place, or it does not.
func TestStandIn(t *testing.T) {
	for name, c := range map[string]struct {
		plan     Plan
		survives bool // the load that was found
		starts   bool
		base     int
	}{
		"it never survives":                     {Plan{}, false, true, 2},
		"it survives a load that is not full":   {Plan{}, true, true, 2},
		"other settings are named":              {Plan{Procs: []int{1, 6}}, false, true, 1},
		"it does not survive its own beginning": {Plan{}, false, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newWorld(), newStudy(c.plan)
			w.shoot = func(x *fakeSession, _ int) (trial.Window, error, bool) {
				full := w.shots[len(w.shots)-1].Rate == 0
				if w.effective(x.setting).Procs == 8 && (full || !c.survives) {
					x.died, x.killed = "out of memory: limit 256 MiB", true
				}
				return trial.Window{}, nil, false
			}
			if !c.starts {
				w.start = func(is lab.Setting, _ int) error {
					if w.effective(is).Procs == 8 {
						return &service.Error{Why: "out of memory: limit 256 MiB", Killed: true}
					}
					return nil
				}
			}
			j := mustDo(t, s, w)
			p := s.Pilot
			if p.Base != c.base || p.Procs != 8 || slices.Contains(p.Candidates, 8) || !slices.Contains(p.Candidates, c.base) || p.Loads[0].Rate < 600 {
				t.Errorf("the pilot: %+v", p)
			}
			want := fmt.Sprintf("while its load was being found, the program failed with GOMAXPROCS=8, its current setting (out of memory: limit 256 MiB): GOMAXPROCS=%d was used instead", c.base)
			if !slices.Contains(p.Warnings, want) {
				t.Errorf("it warns %q, want %q", p.Warnings, want)
			}
			v := verdict(t, s, 0)
			if c.survives {
				if len(v.Fallen) > 0 || v.Current.Procs != 8 || v.Leader.Procs != 2 || v.Kind != search.Change {
					t.Errorf("%+v", v)
				}
			} else if len(v.Fallen) != 1 || v.Fallen[0].Procs != 8 || !v.Fallen[0].Killed || !v.Stands || v.Current.Procs != c.base {
				t.Errorf("%+v", v)
			}
			again, _, err := Read(j.all())
			if err != nil || again.Pilot.Base != c.base {
				t.Fatal(err)
			}
			if got := verdict(t, again, 0); !reflect.DeepEqual(got, v) {
				t.Errorf("read again: %+v, want %+v", got, v)
			}
		})
	}

	// Which setting it died with is not known: nothing can be said of it.
	w, s := newWorld(), newStudy(Plan{})
	w.shoot = diesFrom(1)
	l := w.lab(&keeper{})
	l.Foresee = func(float64) Foresight { return Foresight{GoDefault: 2} }
	err := s.Execute(t.Context(), l)
	hopeless(t, err, "failed with its current setting: out of memory")
	if strings.Contains(err.Error(), "and with") {
		t.Error(err)
	}
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

// TestKilled: a setting that takes more memory than there is is out at once where the current one never did; else it has its second chance, as
// the current one has.
func TestKilled(t *testing.T) {
	for name, c := range map[string]struct {
		kills func(x *fakeSession, nth int) bool // nth load
		most  int                                // loads that GOMAXPROCS=4 had in the search
		other bool                               // it is out where the current setting is not
	}{
		"a candidate": {func(x *fakeSession, _ int) bool { return x.setting.Procs == 4 }, 1, true},
		"a candidate, and the current setting once": {nil, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newWorld(), newStudy(Plan{Procs: []int{2, 4}})
			pilot, current, other := true, 0, 0
			w.shoot = func(x *fakeSession, n int) (trial.Window, error, bool) {
				if w.shots[len(w.shots)-1].SLO == "" && w.shots[len(w.shots)-1].WarmUp == 0 { // of the pilot
					return trial.Window{}, nil, false
				}
				pilot = false
				dies := false
				switch e := w.effective(x.setting); e.Procs {
				case 8:
					current++
					dies = c.kills == nil && current == 1
				case 4:
					if c.kills == nil && current == 0 {
						break // the current setting comes first
					}
					other++
					dies = true
				}
				if dies {
					x.died, x.killed = "out of memory: limit 64 MiB", true
				}
				return trial.Window{}, nil, false
			}
			j := mustDo(t, s, w)
			if pilot || other != c.most {
				t.Errorf("GOMAXPROCS=4 had %d chances, want %d", other, c.most)
			}
			if s.Survives(0, search.Candidate{Procs: 8}) != c.other {
				t.Errorf("the current setting survives: %v", !c.other)
			}
			m, err := s.Search(0)
			if err != nil {
				t.Fatal(err)
			}
			out := slices.ContainsFunc(m.Standings(), func(x search.Standing) bool {
				return x.Procs == 4 && x.Dropped != nil && x.Dropped.Killed && x.Dropped.Reason == search.ProgramFails
			})
			if v := m.Verdict(); !out || v.Leader.Procs != 2 {
				t.Errorf("%+v; it is out: %v", v, out)
			}
			if _, _, err := Read(j.all()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A run that fails is done once more; one that fails again is recorded as such.
func TestSecondChance(t *testing.T) {
	w, s := newWorld(), newStudy(Plan{})
	mustDo(t, s, w)
	first := w.loads - len(s.Runs) + 1 // that of the first run

	for _, c := range []struct {
		name  string
		world func(*world)
	}{
		{"under load", func(w *world) { w.shoot = dies(first) }},
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
		if spent, took := s.Spent(), w.now.Sub(newWorld().now).Seconds(); math.Abs(spent-took) > 0.001 { // the first attempt counts
			t.Errorf("%s: %v s were spent, of %v s", c.name, spent, took)
		}
		if v := verdict(t, s, 0); v.Kind != search.Change {
			t.Errorf("%s: %+v", c.name, v)
		}
	}

	w, s = newWorld(), newStudy(Plan{})
	w.shoot = dies(first, first+1)
	mustDo(t, s, w)
	if r := s.Runs[0]; r.Error != "out of memory" || r.Attempt != 1 || len(r.Metrics) != 1 {
		t.Errorf("got %+v", r)
	}

	// A server that is gone without a word is not the generator's fault.
	w, s = newWorld(), newStudy(Plan{})
	w.shoot = func(_ *fakeSession, n int) (trial.Window, error, bool) {
		return trial.Window{}, nil, n == first || n == first+1
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
		{99, 0, 20 * time.Second, "p99"},        // 1980 are 1 % less than 2000
		{98, 0, 5500 * time.Millisecond, "p90"}, // a p99 is out of reach
		{71, 0, 7500 * time.Millisecond, "p90"},
		{25, 0, 20 * time.Second, "p90"},
		{10, 0, 20 * time.Second, "p90"},
		{9, 0, 20 * time.Second, "p50"},
		{0.04, 0, 25 * time.Second, "p50"}, // one request at least
		{1e-9, 0, 1e6 * time.Second, "p50"},
		{0, 0, 20 * time.Second, "p50"},
		{1e9, 0, 5 * time.Second, "p99"},
		{1000, time.Second, time.Second, "p90"},
		{1000, 40 * time.Second, 40 * time.Second, "p99"},
	} {
		if got, tail := Window(c.rate, c.wanted); got != c.want || tail != c.tail {
			t.Errorf("%v/s, %v: got %v and %s, want %v and %s", c.rate, c.wanted, got, tail, c.want, c.tail)
		}
	}
	// No rate is left with a window that is a little too short for its p99.
	for rate := 100.0; rate < 500; rate++ {
		if got, tail := Window(rate, 0); tail != "p99" {
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

// TestTooLong: what will not be settled within the budget is reported once, after the first blocks, with a budget that is long enough. With
// such a budget nothing is reported.
func TestTooLong(t *testing.T) {
	told := func(budget time.Duration) (texts []string) {
		w, s := newWorld(), newStudy(Plan{Budget: budget, Procs: []int{1}})
		w.byItself, w.noise = 2, 0.3
		w.p99 = func(lab.Setting, float64) float64 { return 0.04 }
		w.cpu = func(s lab.Setting) float64 { return 0.001 * math.Sqrt(float64(s.Procs)) }
		for _, p := range mustDo(t, s, w).told {
			if p.Short != "" {
				texts = append(texts, p.Short)
			}
		}
		return texts
	}
	if got := told(100 * time.Second); len(got) != 1 || !regexp.MustCompile(`^what is still open takes about .*, and the budget has .*: --budget \d{3,4}s has the time$`).MatchString(got[0]) {
		t.Errorf("told %q", got)
	}
	if got := told(time.Hour); len(got) != 0 {
		t.Errorf("told %q", got)
	}
}

// TestBegin: the time before a study is executed, as it waits for another, is part of its budget.
func TestBegin(t *testing.T) {
	spent := func(waited time.Duration) time.Duration {
		w, s := newWorld(), newStudy(Plan{Budget: 100 * time.Second})
		w.noise = 0.3
		w.now = time.Unix(0, 0)
		begin := w.now
		w.now = w.now.Add(waited)
		l := w.lab(&keeper{})
		l.Begin = begin
		if err := s.Execute(context.Background(), l); err != nil {
			t.Fatal(err)
		}
		return w.now.Sub(begin)
	}
	for _, waited := range []time.Duration{0, 40 * time.Second} {
		if all := spent(waited); all > 101*time.Second {
			t.Errorf("after %v of waiting it ended after %v in all", waited, all)
		}
	}
}
