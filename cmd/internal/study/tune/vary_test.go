package tune

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

func TestParseKnob(t *testing.T) {
	if k, err := ParseKnob("conc=1,a=b,"); err != nil || k.Name != "conc" || strings.Join(k.Values, "|") != "1|a=b|" {
		t.Errorf("%+v, %v", k, err)
	}
	for text, want := range map[string]string{
		"conc":                                  "no values",
		"":                                      "no values",
		"=1,2":                                  "neither the name of a variable",
		"a b=1,2":                               "neither the name of a variable",
		"conc=4":                                "has one value",
		"conc=":                                 "has one value",
		"conc=4,4":                              "twice",
		"conc=a\n,b":                            "several lines",
		"conc=a," + strings.Repeat("b", 1+1000): "more than 1000 bytes",
	} {
		if _, err := ParseKnob(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %q", text, err, want)
		}
	}
}

func TestCheckVary(t *testing.T) {
	many := Knob{"a", strings.Split("1,2,3,4,5,6", ",")}
	two := Knob{"b", []string{"1", "2"}}
	for want, p := range map[string]Plan{
		"":                      {Kind: ServerKind, Vary: []Knob{many, two}},
		"varied twice":          {Kind: ServerKind, Vary: []Knob{two, two}},
		"or by a flag":          {Kind: JobKind, Vary: []Knob{{"GOGC", []string{"1", "2"}}}},
		"more than 32":          {Kind: JobKind, Vary: []Knob{many, {"c", many.Values}, two}},
		"a program under one l": {Kind: GoBenchKind, Vary: []Knob{two}},
		"under one limit":       {Kind: ServerKind, Vary: []Knob{two}, Limits: []float64{1, 2}},
	} {
		if err := p.CheckVary(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestVaried: each combination is there once, the current one first.
func TestVaried(t *testing.T) {
	p := Plan{Vary: []Knob{{"a", []string{"x", "y"}}, {"b", []string{"1", "2", "3"}}}}
	var got []string
	for n := range p.combinations() {
		pairs := p.Varied(n)
		got = append(got, pairs[0].Value+pairs[1].Value)
	}
	if text := strings.Join(got, " "); text != "x1 x2 x3 y1 y2 y3" {
		t.Error(text)
	}
	if p := (Plan{}); p.combinations() != 1 || lab.NewPairs(p.Varied(0)) != "" {
		t.Errorf("nothing is varied: %d, %q", p.combinations(), p.Varied(0))
	}
}

func TestSettingNames(t *testing.T) {
	knobs := []Knob{{"WORKERS", []string{"1", "2"}}, {"MODE", []string{"a", ""}}}
	for _, test := range []struct {
		plan        Plan
		c           search.Candidate
		name, short string
	}{
		{Plan{}, search.Candidate{Procs: 2}, "GOMAXPROCS=2", "2"},
		{Plan{}, search.Candidate{Procs: 2, GOGC: 800}, "GOMAXPROCS=2 with GOGC=800", "2 with GOGC=800"},
		{Plan{Vary: knobs}, search.Candidate{Procs: 2}, "WORKERS=1 and MODE=a", "WORKERS=1 and MODE=a"},
		{Plan{Vary: knobs}, search.Candidate{Procs: 2, Vary: 3, GOGC: 400}, "GOGC=400, WORKERS=2 and MODE unset", "GOGC=400, WORKERS=2 and MODE unset"},
		{Plan{Vary: knobs, Procs: []int{1}}, search.Candidate{Procs: 2}, "GOMAXPROCS=2", "2"},
		{Plan{Vary: knobs, Procs: []int{1}}, search.Candidate{Procs: 2, Vary: 2}, "GOMAXPROCS=2 with WORKERS=2", "2 with WORKERS=2"},
		{Plan{Vary: knobs, All: true}, search.Candidate{Procs: 2, Vary: 1, GOGC: 400}, "GOMAXPROCS=2 with GOGC=400 and MODE unset", "2 with GOGC=400 and MODE unset"},
	} {
		if name, short := test.plan.Setting(test.c), test.plan.Short(test.c); name != test.name || short != test.short {
			t.Errorf("%+v: %q, %q; want %q, %q", test.c, name, short, test.name, test.short)
		}
	}
}

// TestTryFloor: a heap floor that a program links takes the place of a GOGC, next to every GOMAXPROCS.
func TestTryFloor(t *testing.T) {
	for name, test := range map[string]struct {
		plan   Plan
		memory int64
		want   bool
	}{
		"a server":       {Plan{Kind: ServerKind}, 0, true},
		"a job":          {Plan{Kind: JobKind}, 0, true},
		"enough memory":  {Plan{Kind: ServerKind}, 64 << 20, true},
		"too little":     {Plan{Kind: ServerKind}, 48 << 20, false},
		"benchmarks":     {Plan{Kind: GoBenchKind}, 0, false},
		"which limit":    {Plan{Kind: ServerKind, Limits: []float64{1, 2}}, 0, false},
		"the user's":     {Plan{Kind: ServerKind, Vary: []Knob{{"WORKERS", []string{"1", "2"}}}}, 0, false},
		"the user's own": {Plan{Kind: ServerKind, GOGC: []int{400}}, 0, false},
		"nothing":        {Plan{Kind: ServerKind, NoGOGC: true}, 0, false},
	} {
		if test.plan.TryFloor(test.memory); test.plan.Floor != test.want || test.plan.combinations() == 2 != (test.want || name == "the user's") {
			t.Errorf("%s: %+v", name, test.plan)
		}
	}

	w, s := newWorld(), newStudy(Plan{Kind: ServerKind})
	s.Plan.TryFloor(0)
	w.gc, w.live = 50, 4<<20 // which would make it try a GOGC
	flat(w)
	w.cpu = func(s lab.Setting) float64 {
		if s.Vary == lab.NewPairs([]lab.Pair{{Name: HeapFloor, Value: floor}}) {
			return 0.0005
		}
		return 0.001
	}
	mustDo(t, s, w)
	v := verdict(t, s, 0)
	if v.Kind != search.Change || v.Vary != 1 || v.Procs != 8 || s.Pilot.Levers != nil || len(s.Pilot.Candidates) == 0 {
		t.Errorf("%+v, of %+v", v, s.Pilot)
	}
	if name := s.Plan.Setting(search.Candidate{Procs: v.Procs, Vary: v.Vary}); name != "GOMAXPROCS=8 with UNTHROTTLE_HEAP_FLOOR=32MiB" {
		t.Error(name)
	}
	if text := strings.Join(s.PilotLines(), "\n"); !strings.Contains(text, "UNTHROTTLE_HEAP_FLOOR=32MiB is tried as well") || strings.Contains(text, "GOGC") {
		t.Error(text)
	}
}

// TestVary: the program runs with each combination, the current one included, and nothing of Go's is tried unless it is asked for.
func TestVary(t *testing.T) {
	plan := Plan{Kind: ServerKind, Vary: []Knob{{"WORKERS", []string{"1", "2"}}, {"conc", []string{"4", "8"}}}}
	best := lab.NewPairs(plan.Varied(3))
	better := func(w *world) {
		w.p99 = func(s lab.Setting, _ float64) float64 {
			if s.Vary == best {
				return 0.02
			}
			return 0.04
		}
	}
	w, s := newWorld(), newStudy(plan)
	better(w)
	w.gc, w.live = 50, 4<<20 // which would make it try a GOGC
	mustDo(t, s, w)
	if v := verdict(t, s, 0); v.Kind != search.Change || v.Vary != 3 || v.Procs != 8 || v.GOGC != 0 || v.Others != 3 {
		t.Errorf("%+v", v)
	}
	ran := map[lab.Pairs]bool{}
	for _, shot := range w.shots {
		ran[shot.setting.Vary] = true
		if shot.setting.Procs != 0 {
			t.Errorf("it ran with %+v", shot.setting)
		}
	}
	if len(ran) != 4 || !ran[lab.NewPairs(plan.Varied(0))] {
		t.Errorf("it ran with %v", ran)
	}

	plan.Procs = []int{2}
	w, s = newWorld(), newStudy(plan)
	better(w)
	w.cpu = func(s lab.Setting) float64 { return 0.001 * math.Sqrt(float64(s.Procs)) }
	mustDo(t, s, w)
	if v := verdict(t, s, 0); v.Kind != search.Change || v.Vary != 3 || v.Procs != 2 {
		t.Errorf("with GOMAXPROCS: %+v", v)
	}

	job := newStudy(Plan{Kind: JobKind, Vary: []Knob{{"MODE", []string{"", "fast"}}}})
	w = newWorld()
	w.jobTime = func(s lab.Setting) float64 { return 2 - min(1, float64(len(s.Vary)/8)) }
	mustDo(t, job, w)
	if v := verdict(t, job, 0); v.Kind != search.Change || v.Vary != 1 {
		t.Errorf("a job: %+v", v)
	}
}

// TestForeign: another program's load is sent unchanged, and what it reports decides.
func TestForeign(t *testing.T) {
	for _, c := range []struct {
		name   string
		world  func(*world)
		tail   string
		chain  []search.Metric
		warmUp bool
	}{
		{"it tells a p99", func(*world) {}, "p99", []search.Metric{search.P99, search.CPU}, false},
		{"it tells no percentile", func(w *world) { w.tailless = true }, "", []search.Metric{search.Time, search.CPU}, false},
		{"it is cold", func(w *world) {
			w.cold = func(_ time.Duration, step int) float64 { return 1 + 1/float64(step) }
		}, "p99", []search.Metric{search.P99, search.CPU}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, s, by := newWorld(), newStudy(Plan{Load: "somebody's {addr}"}), &trial.Foreign{}
			w.foreign = 300
			c.world(w)
			j := &keeper{}
			l := w.lab(j)
			l.By = by
			if err := s.Execute(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			p := s.Pilot.Loads[0]
			if len(s.Pilot.Loads) != 1 || p.Tail != c.tail || p.Window != foreignTakes || (p.WarmUp > 0) != c.warmUp || p.Rate != 0 || by.Tail != p.TailMeasure() {
				t.Errorf("%+v, which must tell %q", s.Pilot.Loads, by.Tail)
			}
			for i, shot := range w.shots {
				if shot.By != by || (shot.WarmUp > 0) != (c.warmUp && i > 1) {
					t.Errorf("shot %d: %+v", i, shot)
				}
			}
			v := verdict(t, s, 0)
			if v.Kind != search.Change || v.Procs != 2 || !slices.Equal(v.Chain, c.chain) {
				t.Errorf("%+v", v)
			}
		})
	}

	w, s := newWorld(), newStudy(Plan{Load: "false"})
	w.shoot = func(*fakeSession, int) (trial.Window, error, bool) {
		return trial.Window{}, errors.New("the load: exit status 1"), true
	}
	l := w.lab(&keeper{})
	l.By = &trial.Foreign{}
	hopeless(t, s.Execute(t.Context(), l), "the load: exit status 1")
	if w.open != 0 {
		t.Error("the server was left open")
	}
}
