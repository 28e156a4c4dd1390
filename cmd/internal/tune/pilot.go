package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
	"github.com/unthrottle/unthrottle/cmd/internal/trial"
)

// A Server starts a server under a setting.
type Server interface {
	Open(ctx context.Context, s lab.Setting, trace bool) (Session, error)
}

// A Session is a server that runs.
type Session interface {
	Load(ctx context.Context, s trial.Shot) (trial.Window, error)
	Close() lab.Run
}

// A Job is a program that runs to its end.
type Job interface {
	Run(ctx context.Context, s lab.Setting) (lab.Run, error)
}

// A Lab is where a study is done.
type Lab struct {
	Server  Server // of a plan of ServerKind
	Job     Job    // of the others
	Foresee func(cpus float64) Foresight
	Clock   func() time.Time
	Memory  int64 // that the program may use; 0: any

	Record func(Record) error // saves what was done
	Tell   func(Progress)
}

// What the pilot does.
const (
	step       = time.Second // of the warm-up
	settled    = 0.1         // it is over when CPU a request changes by less than this share from step to step
	mostWarmUp = 30 * time.Second
	probing    = 1500 * time.Millisecond // at each number of connections
	grows      = 1.1                     // the capacity is found when so many times the rate isn't reached by more connections
	mostConns  = 512
	looking    = 2 * time.Second        // at the garbage collector
	asking     = 500 * time.Millisecond // whether GOMAXPROCS counts
	usualShare = 0.65
	manyCycles = 10       // collections a second beyond which a small heap is a trap
	fewCycles  = 20       // below it a line of trace for each costs nothing that counts
	smallHeap  = 16 << 20 // live
	worthyGoal = 32 << 20
	leastGoal  = 4 << 20 // of Go's, with GOGC=100
	overhead   = 300 * time.Millisecond
)

// firstConns is how many connections the capacity is first looked for with.
const firstConns = 8

func (x *execution) pilot(ctx context.Context) (*Pilot, error) {
	p := &Pilot{Foresight: x.lab.Foresee(x.Plan.CPUs)}
	if p.Pinned && p.Procs == 0 {
		p.Procs = max(p.GoDefault, 1)
	}
	begin := x.lab.Clock()
	tells := false
	var err error
	if x.Plan.Kind == ServerKind {
		tells, err = x.pilotServer(ctx, p)
	} else {
		err = x.pilotJob(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	if x.candidates(p); tells && len(p.Candidates) > 0 {
		if err := x.honoured(ctx, p); err != nil {
			return nil, err
		}
	}
	p.Seconds = x.lab.Clock().Sub(begin).Seconds()
	if x.Plan.Budget > 0 {
		left := x.Plan.Budget.Seconds() - p.Seconds
		if x.explains(p) {
			left -= explaining * p.PerRun
		}
		p.MaxRuns = max(1, int(left/float64(len(p.Loads))/p.PerRun))
	}
	return p, nil
}

// asIs is the setting that the program has by itself.
func (x *execution) asIs(p *Pilot) lab.Setting {
	s := lab.Setting{CPUs: x.Plan.CPUs}
	if p.Pinned {
		s.Procs = p.Procs
	}
	return s
}

// pilotServer finds the warm-up, the capacity, the rates, and what the garbage collector does, if the server tells.
func (x *execution) pilotServer(ctx context.Context, p *Pilot) (tells bool, err error) {
	begin := x.lab.Clock()
	x.tell("starting it with its current setting")
	session, err := x.lab.Server.Open(ctx, x.asIs(p), true)
	if err != nil {
		return false, cmp.Or(ctx.Err(), err)
	}
	ready := x.lab.Clock().Sub(begin)
	l := &look{execution: x, p: p, session: session, seed: x.Plan.Seed << 8}
	trouble := l.do(ctx)
	run := session.Close()
	p.LimitKind = run.LimitKind
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case run.Error != "":
		return false, &Hopeless{"the program failed with its current setting: " + run.Error}
	case trouble != nil:
		return false, trouble
	}
	for _, load := range p.Loads {
		p.PerRun = max(p.PerRun, (ready + load.WarmUp + load.Window + overhead).Seconds())
	}
	return l.procs > 0, nil
}

// Hopeless is a program that can't be tuned.
type Hopeless struct{ Why string }

func (h *Hopeless) Error() string { return h.Why }

// errEnded is the error of a server that has died; what Close tells of it is better.
var errEnded = errors.New("the server ended while it was looked at")

// look is a pilot's look at a server that runs.
type look struct {
	*execution
	p       *Pilot
	session Session
	seed    uint64 // of the last shot
	procs   int    // as it tells itself; 0: it has said nothing
}

func (l *look) do(ctx context.Context) error {
	warm, err := l.warmUp(ctx)
	if err != nil {
		return err
	}
	if err := l.capacity(ctx); err != nil {
		return err
	}
	l.loads(l.p, warm)
	return l.collections(ctx)
}

func (l *look) shoot(ctx context.Context, s trial.Shot) (trial.Window, error) {
	l.seed++
	s.Seed, s.Const = l.seed, l.Plan.Const
	w, err := l.session.Load(ctx, s)
	if err == nil && w.Metrics == nil {
		err = errEnded
	}
	if w.Procs > 0 {
		l.procs = w.Procs
	}
	return w, err
}

// warmUp loads the server in steps until CPU a request has settled. The last step is a first guess at its capacity.
func (l *look) warmUp(ctx context.Context) (warm time.Duration, err error) {
	l.tell("warming it up")
	l.p.Conns = cmp.Or(l.Plan.Conns, firstConns)
	each := max(step, l.Plan.WarmUp)
	for before := 0.0; ; {
		w, err := l.shoot(ctx, trial.Shot{Conns: l.p.Conns, Lasting: each})
		if err == nil {
			err = answered(w)
		}
		if err != nil {
			return 0, err
		}
		warm += each
		l.p.Capacity = lab.RequestRate.In(w.Metrics)
		if l.Plan.WarmUp > 0 {
			return l.Plan.WarmUp, nil
		}
		cost := lab.CPUPerRequest.In(w.Metrics)
		change := math.Abs(cost/before - 1)
		switch {
		case !(l.p.Capacity > 0) && warm < mostWarmUp: // no answer yet
		case warm == each: // nothing to compare it with
		case !(cost > 0) || change < settled: // where CPU isn't known, the least has to do
			return warm - each, nil // the last step has shown that it was warm before
		case warm >= mostWarmUp:
			if before > 0 {
				l.p.Warnings = append(l.p.Warnings, fmt.Sprintf("after %v CPU a request still changed by %.0f %% a second: --warmup gives it more time", warm, 100*change))
			}
			return warm, nil
		}
		before = cost
	}
}

// capacity looks for more connections that do more.
func (l *look) capacity(ctx context.Context) error {
	p := l.p
	for l.Plan.Conns == 0 && p.Conns < mostConns {
		l.tell(fmt.Sprintf("looking for its capacity: %.0f/s with %d connections", p.Capacity, p.Conns))
		w, err := l.shoot(ctx, trial.Shot{Conns: p.Conns * 4, Lasting: probing})
		if err != nil {
			return err
		}
		rate := lab.RequestRate.In(w.Metrics)
		more := rate > grows*p.Capacity
		if rate > p.Capacity {
			p.Capacity, p.Conns = rate, p.Conns*4
		}
		if !more {
			break
		}
	}
	if !(p.Capacity > 0) {
		return &Hopeless{"its capacity can't be measured: no request succeeded"}
	}
	return nil
}

// collections looks at the garbage collector at the main load.
func (l *look) collections(ctx context.Context) error {
	p, main := l.p, l.p.Loads[0]
	if main.Rate > 0 {
		l.tell(fmt.Sprintf("looking at it at %s/s", short(main.Rate)))
	}
	s := l.shot(p, main)
	s.Lasting = sending(looking, main.Rate)
	w, err := l.shoot(ctx, s)
	if err != nil {
		return err
	}
	p.GC = gcOf(w)
	p.Trace = p.GC != nil && p.GC.PerSecond <= fewCycles
	switch {
	case l.procs == 0 || l.procs == p.Procs:
		return nil
	case p.Pinned:
		return &Hopeless{setsItself(l.procs, p.Procs)}
	case p.Procs > 0:
		p.Why = fmt.Sprintf("that is what it runs with; expected was %d, as %s", p.Procs, p.Why)
	default:
		p.Why = "that is what it runs with"
	}
	p.Procs = l.procs
	return nil
}

// shot is what a load sends. Where it is a closed loop the number of its connections must be known, otherwise it is the most
// that there may be.
func (x *execution) shot(p *Pilot, l Load) trial.Shot {
	s := trial.Shot{Rate: l.Rate, Conns: x.Plan.Conns, Const: x.Plan.Const}
	if l.Rate == 0 {
		s.Conns = p.Conns
	}
	return s
}

// answered is the error of a server that answers nothing but errors. One that has not answered yet may be slow.
func answered(w trial.Window) error {
	if lab.RequestRate.In(w.Metrics) > 0 || w.Requests == 0 && w.Cause == "" {
		return nil
	}
	cause := w.Cause
	if cause == "" {
		cause = "no answer came back"
	}
	return &Hopeless{"all of its requests failed: " + cause}
}

// loads sets the rates, the main one first, and the windows.
func (x *execution) loads(p *Pilot, warm time.Duration) {
	plan := x.Plan
	add := func(rate, share float64) {
		l := Load{Rate: rate, Share: share, WarmUp: sending(warm, rate)}
		l.Window, l.Tail = window(cmp.Or(rate, p.Capacity), plan.Window)
		same := func(other Load) bool { return other.Rate == rate }
		if !slices.ContainsFunc(p.Loads, same) { // two shares may be rounded to one rate
			p.Loads = append(p.Loads, l)
		}
	}
	switch {
	case plan.closed():
		add(0, 0)
	case plan.Rate > 0:
		add(plan.Rate, plan.Rate/p.Capacity)
	default:
		for _, share := range sharesInOrder(plan.Shares) {
			add(roundRate(p.Capacity*share), share)
		}
	}
	if l := p.Loads[0]; l.Rate > 0.95*p.Capacity {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the rate of %s/s is %.0f %% of what it can do with its current setting (%.0f/s): a queue grows until the end of a run, and its length is what is measured",
			short(l.Rate), 100*l.Share, p.Capacity))
	}
}

// sharesInOrder puts the share first that is nearest to the usual one, the lower of two: the verdict rests on it.
func sharesInOrder(shares []float64) []float64 {
	if len(shares) == 0 {
		return []float64{usualShare}
	}
	sorted := slices.Clone(shares)
	away := func(share float64) float64 { return math.Round(1000 * math.Abs(share-usualShare)) }
	slices.SortFunc(sorted, func(a, b float64) int { return cmp.Or(cmp.Compare(away(a), away(b)), cmp.Compare(a, b)) })
	return sorted
}

// roundRate keeps two digits, so that the rate can be typed in again.
func roundRate(rate float64) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(rate, 'g', 2, 64), 64)
	if err != nil || v <= 0 {
		return rate
	}
	return v
}

func short(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// gcOf is what a window tells of the garbage collector; nil: nothing.
func gcOf(w trial.Window) *GC {
	if w.GC.Collections == 0 {
		return nil
	}
	return &GC{
		PerSecond: lab.GCRate.In(w.Metrics), CPUShare: lab.GCShare.In(w.Metrics), Live: w.GC.Live, Goal: w.GC.Goal, Procs: w.GC.Procs,
	}
}

// pilotJob runs it once, as a warm-up that also tells how long it takes.
func (x *execution) pilotJob(ctx context.Context, p *Pilot) error {
	x.tell("running it once with its current setting")
	run, err := x.lab.Job.Run(ctx, x.asIs(p))
	if ctx.Err() != nil || err != nil {
		return cmp.Or(ctx.Err(), err) // one that was cut short has failed as well
	}
	if run.Error != "" {
		return &Hopeless{"the program failed with its current setting: " + run.Error}
	}
	p.LimitKind, p.PerRun = run.LimitKind, run.Seconds+0.05
	if run.GOMAXPROCS > 0 && !p.Pinned && run.GOMAXPROCS != p.Procs {
		p.Procs, p.Why = run.GOMAXPROCS, "as it says itself"
	}
	p.Loads = []Load{{Tail: tails[0].name}}
	return nil
}

// candidates says what is to be tried.
func (x *execution) candidates(p *Pilot) {
	plan, cpus := x.Plan, x.Environment.CPUs
	if p.Procs == 0 { // a program that isn't Go's, perhaps a script that starts one
		p.Procs = max(p.GoDefault, 1)
		p.Why = "what Go would choose; that the program is a Go program can't be seen"
	}
	switch {
	case len(plan.Procs) > 0:
		p.Candidates = plan.Procs
	case plan.All:
		p.Candidates = search.AllCandidates(cpus, p.Procs)
	default:
		p.Candidates = search.Candidates(plan.CPUs, cpus, p.Procs, p.GoDefault)
	}
	p.Candidates = slices.DeleteFunc(slices.Clone(p.Candidates), func(n int) bool { return n == p.Procs })
	switch {
	case len(plan.GOGC) > 0:
		p.Levers = plan.GOGC
	case plan.NoGOGC || p.GC == nil || p.GC.PerSecond <= manyCycles || p.GC.Live > smallHeap:
	case x.lab.Memory > 0 && x.lab.Memory < p.GC.Live+2*worthyGoal:
	default:
		p.Levers = []int{lever(p.GC.Live)}
	}
}

// lever is the smallest usual GOGC that lets the heap grow to what is worth collecting.
func lever(live int64) int {
	for _, gogc := range []int{200, 400} {
		if goal := max(leastGoal*int64(gogc)/100, live*(100+int64(gogc))/100); goal >= worthyGoal {
			return gogc
		}
	}
	return 800
}

// honoured checks that the program runs with a GOMAXPROCS that its environment names. One that sets its own can't be tuned
// from outside, and would look as if nothing made a difference.
func (x *execution) honoured(ctx context.Context, p *Pilot) error {
	x.tell("does it take GOMAXPROCS from its environment?")
	setting := lab.Setting{CPUs: x.Plan.CPUs, Procs: p.Candidates[0]}
	session, err := x.lab.Server.Open(ctx, setting, true)
	if err != nil {
		if _, failed := trial.Failed(err); failed && ctx.Err() == nil {
			return nil // that is for the search to find
		}
		return cmp.Or(ctx.Err(), err)
	}
	// A closed loop, as at a low rate there may be no collection in that time.
	w, err := session.Load(ctx, trial.Shot{Conns: cmp.Or(x.Plan.Conns, firstConns), Lasting: asking, Seed: x.Plan.Seed})
	session.Close()
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	if got := w.Procs; got != 0 && got != setting.Procs {
		return &Hopeless{setsItself(got, setting.Procs)}
	}
	return nil
}

func setsItself(got, named int) string {
	return fmt.Sprintf("it runs with GOMAXPROCS=%d although its environment says %d: it sets the number itself, by a call of runtime.GOMAXPROCS or of a library. Let it leave the number alone where GOMAXPROCS is set, and tune it then", got, named)
}
