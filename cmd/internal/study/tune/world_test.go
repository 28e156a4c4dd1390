package tune

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
	"github.com/unthrottle/unthrottle/cmd/internal/process/goself"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// A world is a simulated program with a clock of its own. What a run gives follows from its setting, rate and seed alone, so
// that a study that goes on in another world finds what it would have found in the first.
type world struct {
	now      time.Time
	noGo     bool                  // it isn't a Go program
	others   func(nth int) float64 // CPUs that others use during a job
	starting time.Duration         // how long it takes until it is ready

	byItself int                                                     // GOMAXPROCS without an environment that names one
	bound    string                                                  // what keeps another one from running alongside it
	ignores  bool                                                    // it takes no GOMAXPROCS from its environment
	capacity float64                                                 // requests a second
	p99      func(s lab.Setting, rate float64) float64               // seconds
	cpu      func(s lab.Setting) float64                             // seconds a request, in a closed loop
	rushed   func(x *fakeSession)                                    // by an overload; nil: nothing happens
	rushes   []int                                                   // requests under way in each
	peak     func(s lab.Setting) float64                             // bytes; nil: a MiB
	file     float64                                                 // bytes of the program's that are in memory
	openLoop float64                                                 // times that in an open one
	noise    float64                                                 // standard deviation of the logarithms
	cold     func(age time.Duration, step int) float64               // what CPU per request is multiplied by
	noCPU    bool                                                    // CPU time can't be known
	gc       float64                                                 // collections a second, where they are reported
	live     int64                                                   // heap
	slo      float64                                                 // p99 in seconds; 0: none
	foreign  float64                                                 // requests a second of a foreign load, which takes foreignTakes
	tailless bool                                                    // it reports no percentiles
	start    func(s lab.Setting, n int) error                        // of the nth start, from 1
	shoot    func(x *fakeSession, n int) (trial.Window, error, bool) // instead of a shot, if true
	jobTime  func(s lab.Setting) float64
	endless  bool // a job does not end on its own
	job      func(n int) (lab.Run, error, bool)
	limit    string // its kind

	starts, open, loads, jobs int
	shots                     []shotAt

	mu     sync.Mutex // of a world in which several servers run at the same time: its time is that of a bubble, see abreast
	bubble bool
	began  map[time.Time]int // how many servers were started at a time
	beside int               // how many were started with the one that is being started, it among them
	most   int               // servers that ran at the same time
}

type shotAt struct {
	setting lab.Setting
	trial.Shot
}

func newWorld() *world {
	return &world{
		starting: 200 * time.Millisecond,
		limit:    "fake", byItself: 8, capacity: 1000, noise: 0.02, slo: 0, openLoop: 1,
		p99: func(s lab.Setting, _ float64) float64 { return 0.04 * (1 + math.Abs(math.Log2(float64(s.Procs)/2))) },
		cpu: func(lab.Setting) float64 { return 0.001 },
	}
}

// flat is a program that doesn't care.
func flat(w *world) { w.p99 = func(lab.Setting, float64) float64 { return 0.04 } }

func (w *world) lab(j *keeper) Lab {
	return Lab{
		Server: w, Job: (*worldJob)(w), Clock: w.clock, Record: j.record, Tell: j.tell,
		Foresee: func(float64) Foresight { return Foresight{Procs: w.byItself, Why: "a test", GoDefault: 2} },
	}
}

func (w *world) clock() time.Time {
	if w.bubble {
		return time.Now()
	}
	return w.now
}

// pass lets time pass, in which others may do something too.
func (w *world) pass(d time.Duration) {
	if !w.bubble {
		w.now = w.now.Add(d)
		return
	}
	w.mu.Unlock()
	time.Sleep(d)
	w.mu.Lock()
}

// effective is the setting that the program really has.
func (w *world) effective(s lab.Setting) lab.Setting {
	if s.Procs == 0 || w.ignores {
		s.Procs = w.byItself
	}
	return s
}

func noisy(v, sd float64, s lab.Setting, seed, what uint64) float64 {
	r := rand.New(rand.NewPCG(seed, uint64(s.Procs)<<32|uint64(s.GOGC)<<8|what))
	return v * math.Exp(sd*r.NormFloat64())
}

type fakeSession struct {
	w       *world
	setting lab.Setting
	trace   bool
	age     time.Duration
	steps   int
	died    string
	killed  bool // for lack of memory
	closed  bool
	begin   time.Time
	beside  int // how many were started with it, it among them
}

func (w *world) Open(ctx context.Context, s lab.Setting, trace bool) (Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	begin := w.clock()
	w.starts++
	if w.began == nil {
		w.began = map[time.Time]int{}
	}
	w.began[begin]++
	w.pass(w.starting)
	w.beside = w.began[begin]
	if w.start != nil {
		if err := w.start(s, w.starts); err != nil {
			return nil, err
		}
	}
	w.open++
	w.most = max(w.most, w.open)
	return &fakeSession{w: w, setting: s, trace: trace, begin: begin, beside: w.beside}, nil
}

func (x *fakeSession) NoGo() bool { return x.w.noGo }

func (x *fakeSession) Bound() string { return x.w.bound }

func (x *fakeSession) Close() lab.Run {
	if x.closed {
		panic("closed twice")
	}
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	x.closed = true
	x.w.open--
	metrics := map[string]float64{"peak-RSS-bytes": 1 << 20}
	if x.w.peak != nil {
		metrics["peak-RSS-bytes"], metrics["program-file-bytes"] = x.w.peak(x.setting), x.w.file
	}
	return lab.Run{Seconds: x.w.clock().Sub(x.begin).Seconds(), LimitKind: x.w.limit, Metrics: metrics, Error: x.died, Killed: x.killed}
}

func (x *fakeSession) Load(ctx context.Context, s trial.Shot) (trial.Window, error) {
	w := x.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loads++
	nth := w.loads
	switch {
	case x.closed:
		return trial.Window{}, errors.New("it is closed")
	case s.Crowded: // an overload
		w.rushes = append(w.rushes, s.Conns)
		if w.pass(s.Lasting); w.rushed != nil {
			w.rushed(x)
		}
		return trial.Window{}, nil
	}
	w.shots = append(w.shots, shotAt{x.setting, s})
	switch {
	case s.By != nil:
		s.Rate, s.Lasting = w.foreign, foreignTakes
		if s.WarmUp > 0 {
			s.WarmUp = foreignTakes
		}
	case s.Rate == 0 && s.Conns == 0:
		return trial.Window{}, errors.New("neither a rate nor connections")
	case s.Rate > 0 && math.Round(s.Rate*s.Lasting.Seconds()) == 0, s.Lasting <= 0, s.Rate > 0 && s.WarmUp > 0 && math.Round(s.Rate*s.WarmUp.Seconds()) == 0:
		return trial.Window{}, fmt.Errorf("nothing would be sent: %v a second for %v", s.Rate, s.Lasting)
	}
	w.pass(s.WarmUp + s.Lasting)
	x.age += s.WarmUp + s.Lasting
	x.steps++
	if w.shoot != nil {
		if got, err, instead := w.shoot(x, nth); instead {
			return got, err
		}
	}
	if ctx.Err() != nil {
		return trial.Window{}, ctx.Err()
	}
	if x.died != "" {
		return trial.Window{}, nil
	}
	return x.answer(s), nil
}

func (x *fakeSession) answer(s trial.Shot) trial.Window {
	w, e := x.w, x.w.effective(x.setting)
	rate, dearer := s.Rate, w.openLoop
	if rate == 0 {
		rate, dearer = min(w.capacity, 20*float64(s.Conns)), 1
	}
	p99, cpu := noisy(w.p99(e, rate), w.noise, e, s.Seed, 1), noisy(w.cpu(e)*dearer, w.noise, e, s.Seed, 2)
	if w.cold != nil {
		cpu *= w.cold(x.age, x.steps)
	}
	got := trial.Window{
		Valid: true, SLOHeld: s.SLO == "" || p99 <= w.slo, Requests: int64(min(rate, w.capacity) * s.Lasting.Seconds()),
		Metrics: map[string]float64{
			"req/s": min(rate, w.capacity), "errors-%": 0, "cpu-ns/req": cpu * 1e9,
			"p50-latency-ns": p99 * 0.2e9, "p90-latency-ns": p99 * 0.6e9, "p99-latency-ns": p99 * 1e9, "tail-latency-ns": p99 * 0.8e9,
		},
		Used: min(rate, w.capacity) * cpu,
	}
	if s.SLO != "" && w.slo > 0 { // where p99 is what the SLO allows, one in a hundred is slower
		got.Slower = []int64{int64(float64(got.Requests) * min(1, 0.01*math.Pow(p99/w.slo, 3)))}
	}
	if s.By != nil {
		got.Lasted = foreignTakes
		delete(got.Metrics, string(lab.ReadyTail))
		if w.tailless {
			for _, m := range []lab.Measure{lab.P50, lab.P90, lab.P99} {
				delete(got.Metrics, string(m))
			}
			lab.RequestRate.Set(got.Metrics, rate*0.04/p99)
		}
	}
	if w.noCPU {
		delete(got.Metrics, "cpu-ns/req")
		got.Used = 0
	}
	if n := int(w.gc * s.Lasting.Seconds()); x.trace && n > 0 {
		got.GC = goself.GCSummary{Collections: n, Live: w.live, Goal: 2 * w.live, Procs: e.Procs}
		got.Procs = e.Procs
		got.Metrics["gc/s"], got.Metrics["gc-cpu-%"] = w.gc, 30
	}
	return got
}

const foreignTakes = 4 * time.Second

// noisy makes some shots noisier.
func (w *world) noisy(sd float64, which func(trial.Shot) bool) {
	usual := w.noise
	w.shoot = func(x *fakeSession, _ int) (trial.Window, error, bool) {
		s := w.shots[len(w.shots)-1].Shot
		if w.noise = usual; which(s) {
			w.noise = sd
		}
		return x.answer(s), nil, true
	}
}

// insert lets a shot go otherwise.
func (w *world) insert(at int, other func(*fakeSession) (trial.Window, error)) {
	inner := w.shoot
	w.shoot = func(x *fakeSession, n int) (trial.Window, error, bool) {
		if n == at {
			got, err := other(x)
			return got, err, true
		}
		if inner == nil {
			return trial.Window{}, nil, false
		}
		return inner(x, n)
	}
}

type worldJob world

func (j *worldJob) Run(ctx context.Context, s lab.Setting) (lab.Run, error) {
	w := (*world)(j)
	w.jobs++
	w.now = w.now.Add(time.Second)
	if w.endless {
		<-ctx.Done()
	}
	if w.job != nil {
		if got, err, instead := w.job(w.jobs); instead {
			return got, err
		}
	}
	if ctx.Err() != nil {
		return lab.Run{Error: "ended by terminated"}, nil // as trial has it
	}
	e := w.effective(s)
	seed := uint64(w.jobs) // a job has no arrivals that a seed could be of
	t := noisy(w.jobTime(e), w.noise, e, seed, 3)
	var marks []string
	if w.noGo {
		marks = []string{lab.MarkNoGo}
	}
	others := 0.0
	if w.others != nil {
		others = w.others(w.jobs)
	}
	return lab.Run{Seconds: 1, Marks: marks, Others: others, Metrics: map[string]float64{"wall-sec": t, "cpu-sec": 2 * t, "ns/op": 1e9 * t, "cpu-ns/op": 2e9 * t}}, nil
}

// A keeper keeps what a study records and reports.
type keeper struct {
	head  []byte
	lines [][]byte
	fail  int // the record that fails, from 1; 0: none
	told  []Progress
	after func(lines int)
}

var errFull = errors.New("no space left on device")

func (j *keeper) record(r Record) error {
	if j.fail > 0 && len(j.lines)+1 == j.fail {
		return errFull
	}
	var b bytes.Buffer
	if err := lab.WriteJournal(&b, r); err != nil {
		return err
	}
	j.lines = append(j.lines, b.Bytes())
	if j.after != nil {
		j.after(len(j.lines))
	}
	return nil
}

func (j *keeper) tell(p Progress) { j.told = append(j.told, p) }

// first are the head and that many lines.
func (j *keeper) first(lines int) []byte {
	return append(slices.Clone(j.head), bytes.Join(j.lines[:lines], nil)...)
}

func (j *keeper) all() []byte { return j.first(len(j.lines)) }

func newStudy(p Plan) *Study {
	if p.Kind == "" {
		p.Kind = ServerKind
	}
	p.Margin, p.Tail, p.CPUs, p.Seed = 0.05, 0.25, 1, 7
	s := &Study{Version: 2, Verb: "tune", Plan: p, Environment: lab.Environment{CPUs: 8}}
	for range p.Limits {
		s.Defaults = append(s.Defaults, 2)
	}
	if p.LimitsMemory() {
		s.Defaults = []int{2}
	}
	return s
}

// do executes a study, and checks what must hold however it ends: all servers are closed, and the journal can be read and has what the
// study has.
func do(t *testing.T, ctx context.Context, s *Study, w *world) (*keeper, error) {
	t.Helper()
	return doWith(t, ctx, s, w, &keeper{})
}

func doWith(t *testing.T, ctx context.Context, s *Study, w *world, j *keeper) (*keeper, error) {
	t.Helper()
	var b bytes.Buffer
	if err := lab.WriteJournal(&b, s); err != nil {
		t.Fatal(err)
	}
	j.head = b.Bytes()
	before := len(s.Runs) + len(s.Windows)
	if s.Pilot != nil {
		before++
	}
	execute := s.Execute
	if s.Plan.AsksLimit() {
		execute = s.ExecuteLimits
	}
	err := execute(ctx, w.lab(j))
	if w.open != 0 {
		t.Errorf("%d servers were left open", w.open)
	}
	after := len(s.Runs) + len(s.Windows)
	if s.Pilot != nil {
		after++
	}
	records := len(j.lines)
	if s.Failure != "" && records > 0 && bytes.HasPrefix(j.lines[records-1], []byte(`{"failure":`)) {
		records--
	}
	if after-before != records {
		t.Errorf("%d records, and the study has %d more", len(j.lines), after-before)
	}
	if before == 0 {
		if _, cut, err := Read(j.all()); err != nil && !errors.Is(err, ErrNoStudy) || cut != 0 {
			t.Errorf("the journal can't be read: cut %d, %v", cut, err)
		}
	}
	return j, err
}

func mustDo(t *testing.T, s *Study, w *world) *keeper {
	t.Helper()
	j, err := do(t, context.Background(), s, w)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func verdict(t *testing.T, s *Study, load int) search.TuneVerdict {
	t.Helper()
	m, err := s.Search(load)
	if err != nil {
		t.Fatal(err)
	}
	return m.Verdict()
}

func failed(why string) error { return &service.Error{Why: why} }

func hopeless(t *testing.T, err error, why string) {
	t.Helper()
	var h *Hopeless
	if !errors.As(err, &h) || !strings.Contains(h.Why, why) {
		t.Errorf("got %v, want a Hopeless with %q", err, why)
	}
}
