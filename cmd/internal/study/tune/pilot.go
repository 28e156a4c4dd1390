package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
	"github.com/unthrottle/unthrottle/internal/size"
)

// A Server starts a server under a setting.
type Server interface {
	Open(ctx context.Context, s lab.Setting, trace bool) (Session, error)
}

// A Session is a server that runs.
type Session interface {
	Load(ctx context.Context, s trial.Shot) (trial.Window, error)
	Close() lab.Run
	NoGo() bool    // it is known not to be a Go program, nor to have started one
	Bound() string // what keeps another one from running alongside it, as far as can be seen; "": nothing
}

// Served lets a trial.Served be a Server.
type Served struct{ *trial.Served }

// Open starts the server.
func (s Served) Open(ctx context.Context, setting lab.Setting, trace bool) (Session, error) {
	x, err := s.Served.Open(ctx, setting, trace)
	if err != nil {
		return nil, err // not a nil *trial.Session, which would not be nil
	}
	return x, nil
}

// A Job is a program that runs to its end.
type Job interface {
	Run(ctx context.Context, s lab.Setting) (lab.Run, error)
}

// A Lab is where a study is done.
type Lab struct {
	Server  Server         // of a plan of ServerKind
	By      *trial.Foreign // what loads it; nil: our own generator
	Sides   []Server       // the server, once for each that can run at the same time; none: they can't
	Places  []Place        // where there is a server, Server's own place first: blocks take turns at them; none: there is one place
	Job     Job            // of the others
	Jobs    lab.Several    // it, if several can run at the same time; nil: they can't
	Foresee func(cpus float64) Foresight
	Clock   func() time.Time
	Begin   time.Time // from which on the budget runs, by that clock; zero: from when it is executed
	Memory  int64     // that the program may use; 0: any

	OwnGOMEMLIMIT bool // the program has one already

	Record func(Record) error // saves what was done
	Tell   func(Progress)
}

// What the pilot does.
const (
	step         = time.Second // of the warm-up
	settled      = 0.1         // it is over when CPU per request changes by less than this share from step to step
	mostWarmUp   = 30 * time.Second
	probing      = 1500 * time.Millisecond // at each number of connections
	full         = 0.9                     // of its limit is used: more connections won't do more
	grows        = 1.1                     // the capacity is found when more connections don't reach this many times the rate
	mostConns    = 512
	looking      = 2 * time.Second        // at the server under a load
	openLoop     = 1.25                   // times the CPU per request of a closed loop is a first guess at that of an open one
	corrections  = 3                      // looks at most, until the rate takes the share that is wanted
	near         = 0.08                   // of it
	mostOfClosed = 0.9                    // of what a closed loop gets out of it is the highest rate: beyond it a queue grows
	asking       = 500 * time.Millisecond // whether GOMAXPROCS counts
	usualShare   = 0.65
	manyCycles   = 10       // collections a second beyond which a small heap is a trap
	fewCycles    = 20       // below it a line of trace for each costs nothing that counts
	smallHeap    = 16 << 20 // live
	worthyGoal   = 32 << 20
	leastGoal    = 4 << 20 // of Go's, with GOGC=100
	beside       = 8 << 20 // what a Go program takes besides its heap, at least
	mostFull     = 0.8     // of its memory limit, with twice the heap that it has: a busy hour is not an ordinary one
	overhead     = 300 * time.Millisecond

	pilotShare = 0.3              // of a budget is what the pilot may take of it
	waitShare  = 0.15             // and of that for looks while others use the CPUs
	mostWait   = 30 * time.Second // of such looks
	unhurried  = 45 * time.Second // with a smaller budget its steps are shorter, by as much
	briefest   = 100 * time.Millisecond
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
	if a := p.AtOnce; x.Plan.AtOnce == AtOnceYes && (a == nil || a.Most == 0) {
		why := "two of it can't run here at once"
		if a != nil {
			why = a.Why
		}
		p.Warnings = append(p.Warnings, "settings take turns, though --at-once says yes: "+why)
	}
	if x.candidates(p); tells && len(p.Candidates) > 0 && x.fits(p.PerRun, 1) {
		if err := x.honoured(ctx, p); err != nil {
			return nil, err
		}
	}
	p.Seconds = x.lab.Clock().Sub(begin).Seconds()
	return p, nil
}

// hurry is how long a step of the pilot lasts that usually lasts so long.
func (x *execution) hurry(usual time.Duration) time.Duration {
	if b := x.Plan.Budget; b > 0 && b < unhurried {
		return max(briefest, time.Duration(float64(usual)*b.Seconds()/unhurried.Seconds()))
	}
	return usual
}

// fits reports whether a step of that many seconds ends within a share of the budget.
func (x *execution) fits(seconds, share float64) bool {
	return x.Plan.Budget == 0 || x.clock()+seconds <= share*x.Plan.Budget.Seconds()
}

// spare reports whether the pilot has the time for one more step that it can do without.
func (x *execution) spare(step time.Duration) bool { return x.fits(step.Seconds(), pilotShare) }

// asIs is the program's current setting.
func (x *execution) asIs(p *Pilot) lab.Setting {
	s := lab.Setting{CPUs: x.Plan.CPUs, Vary: lab.NewPairs(x.Plan.Varied(0))}
	if p.Pinned {
		s.Procs = p.Procs
	}
	return s
}

// Looked is the setting that the pilot has looked at.
func (p *Pilot) Looked() search.Candidate { return search.Candidate{Procs: cmp.Or(p.Base, p.Procs)} }

// looked is the same as the program has it.
func (x *execution) looked(p *Pilot) lab.Setting {
	s := x.asIs(p)
	s.Procs = cmp.Or(p.Base, s.Procs)
	return s
}

// pilotServer looks at the server with its current setting. If it dies with that, another one shows what load it takes, and what its
// current one does under that load is for the search to find: looking for a load is harder on a server than the load that is found.
func (x *execution) pilotServer(ctx context.Context, p *Pilot) (tells bool, err error) {
	tells, err = x.lookAt(ctx, p)
	var died *Hopeless
	if !errors.As(err, &died) || !died.Failed {
		return tells, err
	}
	base := x.standIn(p)
	if base == 0 {
		return tells, err
	}
	again := &Pilot{Foresight: p.Foresight, Base: base}
	again.Warnings = []string{fmt.Sprintf("while its load was being found, the program failed with GOMAXPROCS=%d, its current setting (%s): GOMAXPROCS=%d was used instead", p.Procs, died.run.Failure(), base)}
	x.tell(again.Warnings[0])
	tells, err = x.lookAt(ctx, again)
	*p = *again
	if errors.As(err, &died) && died.Failed {
		died.Why = fmt.Sprintf("the program failed with its current setting, and with GOMAXPROCS=%d: %s", base, died.run.Error)
	}
	return tells, err
}

// standIn is the GOMAXPROCS that shows what load a server takes if it dies with its current one: the candidate nearest to what Go would
// choose. 0: none, or it is not known which one it died with.
func (x *execution) standIn(p *Pilot) (base int) {
	if p.Procs == 0 || !x.Plan.ByProcs() {
		return 0
	}
	tried := *p
	x.candidates(&tried)
	far := func(n int) float64 { return math.Abs(math.Log(float64(n) / float64(max(1, p.GoDefault)))) }
	for _, n := range tried.Candidates {
		if base == 0 || far(n) < far(base) {
			base = n
		}
	}
	return base
}

// lookAt finds the warm-up, the capacity, the rates, and what the garbage collector does, if that is reported.
func (x *execution) lookAt(ctx context.Context, p *Pilot) (tells bool, err error) {
	begin := x.lab.Clock()
	if p.Base == 0 {
		x.tell("starting it with its current setting")
	}
	session, err := x.lab.Server.Open(ctx, x.looked(p), true)
	if why, failed := trial.Failed(err); failed && trial.Killed(err) { // memory is a property of a setting, and a port is not
		return false, cmp.Or(ctx.Err(), failsAsItIs(lab.Run{Error: why, Killed: true}))
	}
	if err != nil {
		return false, cmp.Or(ctx.Err(), err)
	}
	if session.NoGo() {
		session.Close()
		return false, x.noGo()
	}
	l := &look{execution: x, p: p, session: session, ready: x.lab.Clock().Sub(begin), seed: x.Plan.Seed << 8}
	trouble := l.do(ctx)
	if trouble == nil {
		p.AtOnce = l.mayShare()
	}
	run := session.Close()
	p.LimitKind = run.LimitKind
	for _, mark := range run.Marks {
		if strings.HasPrefix(mark, lab.MarkKilled) {
			p.Warnings = append(p.Warnings, "the program did not end on SIGTERM and was killed")
		}
	}
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case run.Error != "":
		if p.Procs == 0 && l.procs > 0 {
			p.Procs, p.Why = l.procs, saysSo
		}
		return false, failsAsItIs(run)
	case trouble != nil:
		return false, trouble
	}
	if err := l.calibrate(ctx); err != nil {
		return false, err
	}
	for _, load := range p.Loads {
		p.PerRun = max(p.PerRun, (l.ready + load.WarmUp + load.Window + overhead).Seconds())
	}
	return l.procs > 0, nil
}

// Hopeless is a program that can't be tuned.
type Hopeless struct {
	Why  string
	NoGo bool   // it doesn't seem to be a Go program
	Next string // what to do about it; "": try it by hand

	Failed bool    // the program itself failed, and what it wrote may say more
	run    lab.Run // in which it did
}

func (x *execution) noGo() error {
	return &Hopeless{Why: x.Plan.Name + " is not a Go program, and does not seem to start one: GOMAXPROCS means nothing to it", NoGo: true}
}

func (h *Hopeless) Error() string { return h.Why }

// failsAsItIs is a program that fails with its current setting.
func failsAsItIs(run lab.Run) error {
	h := &Hopeless{Why: "the program failed with its current setting: " + run.Error, Failed: true, run: run}
	if run.Killed {
		h.Next = "give it more memory"
	}
	return h
}

// look is a pilot's look at a server that runs.
type look struct {
	*execution
	p       *Pilot
	session Session
	ready   time.Duration // that it took to start
	seed    uint64        // of the last shot
	procs   int           // as it reports itself; 0: it has reported nothing
	main    trial.Window  // at the main load
	short   answers       // where they were shortest
	long    answers       // and longest
	full    bool          // a closed loop with the first number of connections has used up its limit

	lost   time.Duration // of looks that were made again, as others used the CPUs
	others float64       // CPUs that others used at most in those that were not
}

// answers are how long those at a load are, in bytes on average.
type answers struct {
	bytes float64 // 0: not known
	shot  trial.Shot
}

func (a answers) String() string {
	if a.shot.Rate > 0 {
		return fmt.Sprintf("%s at %s", quantity.Bytes(int64(a.bytes)), quantity.PerSecond(a.shot.Rate))
	}
	return fmt.Sprintf("%s in a closed loop with %s", quantity.Bytes(int64(a.bytes)), quantity.Plural(a.shot.Conns, "connection"))
}

func (l *look) do(ctx context.Context) error {
	if l.lab.By != nil {
		return l.foreign(ctx)
	}
	warm, err := l.warmUp(ctx)
	if err != nil {
		return err
	}
	if err := l.capacity(ctx); err != nil {
		return err
	}
	if err := l.rates(ctx, warm); err != nil {
		return err
	}
	l.high()
	l.work()
	if l.others > 0 && l.Plan.Rate == 0 && !l.Plan.closed() {
		l.p.Warnings = append(l.p.Warnings, fmt.Sprintf("others used %s while its rate was being found: alone it may take a higher one, which --rate names",
			quantity.UsedCPUs(l.others)))
	}
	l.p.Capacity = roundRate(l.p.Capacity) // it is known to some 5 %
	return nil
}

// shoot sends a load, and again while others use the CPUs: what a server does meanwhile is not what it can do.
func (l *look) shoot(ctx context.Context, s trial.Shot) (trial.Window, error) {
	s.Const, s.Burst = l.Plan.Const, l.Plan.Burst
	for {
		l.seed++
		s.Seed = l.seed
		began := l.lab.Clock()
		w, err := l.seen(ctx, l.session, s)
		if err == nil && w.Metrics == nil {
			err = trial.ErrEnded
		}
		if w.Procs > 0 {
			l.procs = w.Procs
		}
		if err == nil {
			l.sized(s, w.Bytes)
		}
		if err != nil || !l.crowded(w.Others, l.Plan.CPUs) {
			return w, err
		}
		if !l.waits(l.lab.Clock().Sub(began)) {
			l.others = max(l.others, w.Others)
			return w, nil
		}
		l.tell(fmt.Sprintf("others use %s: looking again", quantity.UsedCPUs(w.Others)))
	}
}

// sized notes how long answers were.
func (l *look) sized(s trial.Shot, bytes float64) {
	if bytes <= 0 {
		return
	}
	if l.short.bytes == 0 || bytes < l.short.bytes {
		l.short = answers{bytes, s}
	}
	if bytes > l.long.bytes {
		l.long = answers{bytes, s}
	}
}

// seen sends a load, and again where too little of it was seen.
func (x *execution) seen(ctx context.Context, session Session, s trial.Shot) (w trial.Window, err error) {
	err = x.untilSeen(func() error {
		w, err = session.Load(ctx, s)
		return err
	})
	return w, err
}

// waits notes a look that is lost, as others used the CPUs, if there is time for another.
func (l *look) waits(lost time.Duration) bool {
	most := mostWait
	switch b := l.Plan.Budget; {
	case b == 0:
	case b < unhurried: // its runs need the time
		return false
	default:
		most = min(most, time.Duration(waitShare*float64(b)))
	}
	if l.lost+lost > most {
		return false
	}
	l.lost += lost
	return true
}

// warmUp loads the server in steps until CPU per request has settled. The last step is a first guess at its capacity.
func (l *look) warmUp(ctx context.Context) (warm time.Duration, err error) {
	l.tell("warming it up")
	l.p.Conns = cmp.Or(l.Plan.Conns, firstConns)
	each := max(l.hurry(step), l.Plan.WarmUp)
	for before := 0.0; ; {
		w, err := l.shoot(ctx, trial.Shot{Conns: l.p.Conns, Lasting: each})
		if err == nil {
			err = answered(w, l.Plan.Redirects)
		}
		if err != nil {
			return 0, err
		}
		warm += each
		l.p.Capacity, l.full = lab.RequestRate.In(w.Metrics), w.Used > full*l.limit()
		if l.Plan.WarmUp > 0 {
			return l.Plan.WarmUp, nil
		}
		cost := lab.CPUPerRequest.In(w.Metrics)
		change := math.Abs(cost/before - 1)
		switch {
		case !(l.p.Capacity > 0) && warm < mostWarmUp && l.fits(each.Seconds(), 1): // no answer yet
		case warm == each && l.spare(each): // nothing to compare it with
		case !(cost > 0) || change < settled: // where CPU isn't known, the least has to do
			return warm - each, nil // the last step has shown that it was warm before
		case warm >= mostWarmUp || !l.spare(each):
			if before > 0 {
				l.p.Warnings = append(l.p.Warnings, fmt.Sprintf("after a warm-up of %s CPU per request still changed by %s within %s: --warmup gives it more time",
					quantity.Lasting(warm.Seconds()), quantity.WholeShare(change), quantity.Lasting(each.Seconds())))
			} else {
				l.p.Warnings = append(l.p.Warnings, fmt.Sprintf("the budget left no time to see whether the program was warm after %s", quantity.Lasting(warm.Seconds())))
			}
			return warm, nil
		}
		before = cost
	}
}

// foreign looks at what a foreign generator reports, and whether the server does the same when it is loaded again: if not, each run loads
// it twice, and the second time counts.
func (l *look) foreign(ctx context.Context) error {
	load := Load{WarmUp: l.Plan.WarmUp}
	for again := false; ; again = true {
		l.tell(when(again, "looking again, to see whether it was warm", "loading it once, to see what the load tells"))
		w, err := l.shoot(ctx, l.shot(l.p, load))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return &Hopeless{Why: err.Error(), Next: "try by hand what loads it, beside the server"}
		}
		cost, before := lab.CPUPerRequest.In(w.Metrics), lab.CPUPerRequest.In(l.main.Metrics)
		l.main = w
		load.Window, load.Share = max(w.Lasted, time.Millisecond), w.Used/l.limit()
		switch {
		case again && math.Abs(cost/before-1) >= settled:
			load.WarmUp = load.Window
		case !again && l.Plan.WarmUp == 0 && cost > 0 && l.spare(w.Lasted):
			continue
		}
		break
	}
	for _, t := range tails {
		if load.Tail == "" && t.measure.In(l.main.Metrics) > 0 {
			load.Tail = t.name
		}
	}
	l.p.Loads = []Load{load}
	return l.tells(l.main)
}

// capacity looks for more connections that do more.
func (l *look) capacity(ctx context.Context) error {
	p := l.p
	lasting := l.hurry(probing)
	for l.Plan.Conns == 0 && !l.full && p.Conns < mostConns && (l.spare(lasting) || p.Capacity == 0) {
		l.tell(fmt.Sprintf("looking for its capacity: %s with %s", quantity.PerSecond(p.Capacity), quantity.Plural(p.Conns, "connection")))
		w, err := l.shoot(ctx, trial.Shot{Conns: p.Conns * 4, Lasting: lasting})
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
		return &Hopeless{Why: "its capacity can't be measured: no request succeeded"}
	}
	return nil
}

// rush is how many requests come at once to a server that has a memory limit: those of a pause at a rate, or some more where that is
// few. It is in bursts that memory runs out. 0: there is no rate.
func rush(rate float64, pause time.Duration) int {
	const least = 10 // requests
	if rate <= 0 {
		return 0
	}
	return min(max(least, int(pause.Seconds()*rate)), load.MostBurst)
}

// rates sets the loads, the main one first. A share is that of the limit's CPU which the current setting uses under that very load: a
// closed loop is cheaper per request, so how much a rate takes must be measured.
func (l *look) rates(ctx context.Context, warm time.Duration) error {
	p, plan := l.p, l.Plan
	add := func(rate, used float64) {
		load := Load{Rate: rate, Share: used / l.limit(), Closed: rate / p.Capacity, WarmUp: sending(warm, rate)}
		wanted := plan.Window
		if usual, _ := Window(cmp.Or(rate, p.Capacity), 0); wanted == 0 && plan.Times != "" && plan.TimesLast < usual {
			wanted = plan.TimesLast
		}
		load.Window, load.Tail = Window(cmp.Or(rate, p.Capacity), wanted)
		if l.lab.Memory > 0 {
			load.Rush = rush(rate, time.Second/4) // more would not be worked off in the warm-up
		}
		same := func(other Load) bool { return other.Rate == rate }
		if !slices.ContainsFunc(p.Loads, same) { // two shares may be rounded to one rate
			p.Loads = append(p.Loads, load)
		}
	}
	if plan.closed() || plan.Rate > 0 {
		w, err := l.at(ctx, plan.Rate)
		if err != nil {
			return err
		}
		l.main = w
		add(plan.Rate, w.Used)
		return l.tells(w)
	}
	cost := l.limit() / p.Capacity * openLoop
	for i, share := range sharesInOrder(plan.Shares) {
		rate, used := 0.0, 0.0
		for range corrections {
			rate = roundRate(min(share*l.limit()/cost, mostOfClosed*p.Capacity))
			w, err := l.at(ctx, rate)
			if err != nil {
				return err
			}
			// What was not answered was not paid for: where the machine is full it would seem that more could be sent.
			if used = w.Used; used > 0 {
				cost = used / cmp.Or(min(rate, lab.RequestRate.In(w.Metrics)), rate)
			}
			if i == 0 {
				l.main = w
				if err := l.tells(w); err != nil {
					return err
				}
			}
			next := share * l.limit() / cost
			if used == 0 || math.Abs(next/rate-1) < near || min(next, rate) >= mostOfClosed*p.Capacity || !l.spare(l.looks(next)) {
				break
			}
		}
		add(rate, used)
	}
	return nil
}

// limit is how many CPUs the server may use with its current setting.
func (l *look) limit() float64 {
	cpus := float64(l.Environment.CPUs)
	if ps := float64(cmp.Or(l.procs, l.p.Looked().Procs)); ps > 0 {
		cpus = min(cpus, ps)
	}
	if l.Plan.CPUs > 0 {
		cpus = min(cpus, l.Plan.CPUs)
	}
	return max(cpus, 0.001)
}

// at looks at the server at a rate; 0: in a closed loop.
func (l *look) at(ctx context.Context, rate float64) (trial.Window, error) {
	if rate > 0 {
		l.tell("measuring it at " + quantity.PerSecond(rate))
	}
	s := l.shot(l.p, Load{Rate: rate})
	s.Lasting = l.looks(rate)
	return l.shoot(ctx, s)
}

// looks is how long a look at a rate lasts.
func (l *look) looks(rate float64) time.Duration { return sending(l.hurry(looking), rate) }

// tells takes from a look what the program says about its garbage collector and its GOMAXPROCS.
func (l *look) tells(w trial.Window) error {
	p := l.p
	p.GC = gcOf(w)
	p.Trace = p.GC != nil && p.GC.PerSecond <= fewCycles
	switch {
	case l.procs == 0 || l.procs == p.Looked().Procs:
		return nil
	case p.Base > 0 && l.Plan.ByProcs():
		return &Hopeless{Why: setsItself(l.procs, p.Base)}
	case p.Pinned && l.Plan.ByProcs():
		return &Hopeless{Why: setsItself(l.procs, p.Procs)}
	case p.Procs > 0:
		p.Why = fmt.Sprintf("it says so itself, though %d was expected: %s", p.Procs, p.Why)
	default:
		p.Why = saysSo
	}
	p.Procs = l.procs
	return nil
}

const saysSo = "it says so itself"

// high warns of a load at which a queue, and not a setting, is measured.
func (l *look) high() {
	switch main := l.p.Loads[0]; {
	case main.Rate == 0:
	case main.Closed > 0.95:
		l.p.Warnings = append(l.p.Warnings, fmt.Sprintf("the rate of %s is %s of the %s that a closed loop gets: a queue grows until a run ends, and its length is what is measured",
			quantity.PerSecond(main.Rate), quantity.WholeShare(main.Closed), quantity.PerSecond(l.p.Capacity)))
	case main.Share > 0.85:
		l.p.Warnings = append(l.p.Warnings, fmt.Sprintf("at %s the current setting uses %s of its limit: latencies are mostly those of a queue, and differ much from run to run",
			quantity.PerSecond(main.Rate), quantity.WholeShare(main.Share)))
	}
}

// work warns of answers that may not be the work: some that fail (if all did, that would have been an error), a path that is there for
// probes, and answers that are short under one load and long under another.
func (l *look) work() {
	const few = 0.01
	warn := func(format string, args ...any) { l.p.Warnings = append(l.p.Warnings, fmt.Sprintf(format, args...)) }
	if share := lab.ErrorShare.In(l.main.Metrics); share >= few {
		warn("%s of its requests failed while its rate was being found (%s): what fails may cost less than the work", quantity.WholeShare(share), cmp.Or(l.main.Cause, "no cause is known"))
	}
	if at, err := url.Parse(l.Plan.URL); err == nil && slices.Contains(probed, path.Base(at.Path)) {
		warn("%s is a path for probes, and its answers have %s: if that is not the work, --url names another path", at.Path, quantity.Plural(int(l.main.Bytes), "byte"))
	}
	if l.long.bytes > 2*l.short.bytes {
		warn("on average its answers had %v and %v: where they are short it may do less work", l.short, l.long)
	}
}

// probed are the usual names of what asks whether a server lives.
var probed = []string{"health", "healthz", "healthy", "healthcheck", "live", "livez", "ready", "readyz", "ping", "status"}

// shot is what a load sends. Where it is a closed loop the number of its connections must be known, otherwise it is the most
// that there may be.
func (x *execution) shot(p *Pilot, l Load) trial.Shot {
	s := trial.Shot{Rate: l.Rate, Conns: x.Plan.Conns, Const: x.Plan.Const, Burst: x.Plan.Burst, By: x.lab.By}
	if l.Rate > 0 { // which is the plan's, where one of these is
		s.From, s.Times = x.Plan.From, x.Plan.Times
	} else {
		s.Conns = p.Conns
	}
	return s
}

func when(it bool, so, otherwise string) string {
	if it {
		return so
	}
	return otherwise
}

// answered is the error of a server that answers nothing but errors, or redirects that aren't wanted. One that has not answered yet may be
// slow.
func answered(w trial.Window, redirects bool) error {
	if w.Status > 300 && w.Status < 400 && w.Status != http.StatusNotModified && !redirects {
		return &Hopeless{
			Why:  fmt.Sprintf("its answers are redirects (status %d), and not the work", w.Status),
			Next: "--redirects 3 follows them to the same host; --redirects 0 measures them; or name the path where they lead",
		}
	}
	if lab.RequestRate.In(w.Metrics) > 0 || w.Requests == 0 && w.Cause == "" {
		return nil
	}
	cause := w.Cause
	if cause == "" {
		cause = "no answer came back"
	}
	return &Hopeless{Why: "all of its requests failed: " + cause, Next: mends[w.Status]}
}

// mends is what helps where all answers have a status.
var mends = map[int]string{
	http.StatusBadRequest:           "-d sends a body, -H a header, --content-type what kind of body it is",
	http.StatusUnauthorized:         "-H 'Authorization: …' or --user sends what it asks for",
	http.StatusForbidden:            "-H 'Authorization: …' or --user sends what it asks for",
	http.StatusNotFound:             "load a path that exists",
	http.StatusMethodNotAllowed:     "-X POST sends another method, -d a body with it",
	http.StatusLengthRequired:       "-d sends a body",
	http.StatusUnsupportedMediaType: "--content-type says what kind of body it is",
	http.StatusUnprocessableEntity:  "-d sends a body, --content-type what kind of body it is",
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

// roundRate keeps as many digits as a pilot can know.
func roundRate(rate float64) float64 { return quantity.Significant(rate, 2) }

func short(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// gcOf is what a window shows of the garbage collector; nil: nothing.
func gcOf(w trial.Window) *GC {
	if w.GC.Collections == 0 {
		return nil
	}
	gc := &GC{
		PerSecond: lab.GCRate.In(w.Metrics), CPUShare: lab.GCShare.In(w.Metrics), Live: w.GC.Live, Goal: w.GC.Goal, Procs: w.GC.Procs,
	}
	if gc.CPUShare == 0 && gc.Procs > 0 {
		gc.Least = min(1, w.GC.CPU.Seconds()*gc.PerSecond/float64(w.GC.Collections)/float64(gc.Procs))
	}
	return gc
}

// pilotJob runs it once, as a warm-up that also shows how long it takes.
func (x *execution) pilotJob(ctx context.Context, p *Pilot) error {
	x.tell("running it once with its current setting")
	endWait := x.tellAfter(patience, "waiting for its end: a job has to end by itself, so give it less to do, or stop this with Ctrl-C")
	within, cancel := x.withinBudget(ctx)
	defer cancel()
	run, err := x.lab.Job.Run(within, x.asIs(p))
	endWait()
	switch { // one that was cut short has failed as well
	case ctx.Err() != nil:
		return ctx.Err()
	case within.Err() != nil:
		return &Hopeless{Why: fmt.Sprintf("it ran for %s, the whole budget, and did not end: a job has to end by itself, and a verdict takes several runs; "+
			"give it less to do, or a longer budget; if it is a server, tune it as one", quantity.Lasting(x.Plan.Budget.Seconds()))}
	case err != nil:
		return err
	}
	if run.Error != "" {
		return failsAsItIs(run)
	}
	if slices.Contains(run.Marks, lab.MarkNoGo) {
		return x.noGo()
	}
	p.LimitKind, p.PerRun = run.LimitKind, run.Seconds+0.05
	if run.GOMAXPROCS > 0 && !p.Pinned && run.GOMAXPROCS != p.Procs {
		p.Procs, p.Why = run.GOMAXPROCS, saysSo
	}
	p.Loads = []Load{{Tail: tails[0].name}}
	return x.besideItself(ctx, p)
}

// withinBudget is ctx, which ends with the budget where there is one.
func (x *execution) withinBudget(ctx context.Context) (context.Context, context.CancelFunc) {
	if x.Plan.Budget > 0 {
		return context.WithTimeout(ctx, x.Plan.Budget)
	}
	return ctx, func() {}
}

// patience is how long the first run of a job may take before the user learns what the wait is for.
const patience = 10 * time.Second

// tellAfter reports what is waited for, unless the wait has ended by then.
func (x *execution) tellAfter(d time.Duration, doing string) (endWait func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ended:
		case <-time.After(d):
			x.tell(doing)
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}

// candidates says what to try.
func (x *execution) candidates(p *Pilot) {
	plan, cpus := x.Plan, x.Environment.CPUs
	if p.Procs == 0 { // a program that isn't Go's, perhaps a script that starts one
		p.Procs = max(p.GoDefault, 1)
		p.Why = "what Go would choose; its file does not say what the program does"
	}
	switch {
	case len(plan.Procs) > 0:
		p.Candidates = plan.Procs
	case plan.All:
		p.Candidates = search.AllCandidates(cpus, p.Procs)
	case !plan.ByProcs():
	default:
		p.Candidates = search.Candidates(plan.CPUs, cpus, p.Procs, p.GoDefault)
	}
	p.Candidates = slices.DeleteFunc(slices.Clone(p.Candidates), func(n int) bool { return n == p.Procs })
	switch {
	case len(plan.GOGC) > 0:
		p.Levers = slices.Clone(plan.GOGC)
	case plan.NoGOGC || plan.Floor || !plan.ByProcs() || p.GC == nil || p.GC.PerSecond <= manyCycles || p.GC.Live > smallHeap:
	default:
		p.Levers = []int{lever(p.GC.Live)}
	}
	if tight := x.tight(p.GC); tight != "" {
		p.Levers = nil
		p.Warnings = append(p.Warnings, tight)
	}
	if p.Memory = x.lab.Memory; p.Memory == 0 {
		return
	}
	p.Levers = slices.DeleteFunc(p.Levers, func(gogc int) bool {
		if p.GC == nil {
			return false
		}
		needs := goal(2*p.GC.Live, gogc) + beside
		if float64(needs) <= mostFull*float64(x.lab.Memory) {
			return false
		}
		p.Warnings = append(p.Warnings, fmt.Sprintf("GOGC=%d is not tried: with twice the %s that are alive now the program would take %s, more than %s of its limit of %s",
			gogc, quantity.Bytes(p.GC.Live), quantity.Bytes(needs), quantity.WholeShare(mostFull), quantity.Bytes(x.lab.Memory)))
		return true
	})
	if len(p.Levers) > 0 && !x.lab.OwnGOMEMLIMIT {
		_, p.GOMEMLIMIT = choice.GOMEMLIMIT(x.lab.Memory)
	}
}

// tight says that the collector has too little memory, as GOMEMLIMIT makes it run before there is a limit to hit; "": it has enough, as far
// as is known.
func (x *execution) tight(gc *GC) string {
	limited := x.lab.Memory > 0 || x.lab.OwnGOMEMLIMIT && !x.Plan.NoGOGC
	low := x.Plan.NoGOGC && !x.lab.OwnGOMEMLIMIT // it is the user's GOGC that is low
	if gc == nil || !limited || low || gc.Live == 0 {
		return ""
	}
	takes := quantity.Share(gc.CPUShare)
	if gc.CPUShare == 0 {
		takes = "at least " + quantity.Share(gc.Least)
	}
	if max(gc.CPUShare, gc.Least) < choice.TightShare {
		return ""
	}
	room := float64(gc.Goal-gc.Live) / float64(gc.Live)
	wanted, limit := choice.Roomy(float64(gc.Live), beside)
	if 100*room >= choice.TightRoom || x.lab.Memory > 0 && limit <= float64(x.lab.Memory) {
		return ""
	}
	needs := "a memory limit of at least " + choice.Mebibytes(limit)
	if x.lab.Memory == 0 {
		needs = "GOMEMLIMIT=" + choice.Mebibytes(wanted) + " at least"
	}
	return fmt.Sprintf("it needs more memory, not another GOGC: %s; collections take %s of its CPU time, as with %s alive the heap may grow by only %s before the next one",
		needs, takes, quantity.Bytes(gc.Live), quantity.WholeShare(max(0, room)))
}

// Holds is how much of a heap may be alive so that a GOGC takes it no farther than the memory limit's GOMEMLIMIT; 0: no such limit.
func (p *Pilot) Holds(gogc int) int64 {
	if p.Memory == 0 || p.GOMEMLIMIT == "" {
		return 0
	}
	return max(0, size.Parse(p.GOMEMLIMIT)-beside) * 100 / (100 + int64(gogc))
}

// goal is how far a heap grows with a GOGC before it is collected.
func goal(live int64, gogc int) int64 {
	return max(leastGoal*int64(gogc)/100, live*(100+int64(gogc))/100)
}

// lever is the smallest usual GOGC that lets the heap grow to what is worth collecting.
func lever(live int64) int {
	for _, gogc := range []int{200, 400} {
		if goal(live, gogc) >= worthyGoal {
			return gogc
		}
	}
	return 800
}

// honoured checks that the program runs with a GOMAXPROCS that its environment names. One that sets its own can't be tuned
// from outside, and would look as if nothing made a difference.
func (x *execution) honoured(ctx context.Context, p *Pilot) error {
	x.tell("checking that it takes GOMAXPROCS from its environment")
	setting := x.asIs(p)
	setting.Procs = p.Candidates[0]
	session, err := x.lab.Server.Open(ctx, setting, true)
	if err != nil {
		if _, failed := trial.Failed(err); failed && ctx.Err() == nil {
			return nil // that is for the search to find
		}
		return cmp.Or(ctx.Err(), err)
	}
	// A closed loop, as at a low rate there may be no collection in that time.
	w, err := x.seen(ctx, session, trial.Shot{Conns: cmp.Or(x.Plan.Conns, firstConns), Lasting: x.hurry(asking), Seed: x.Plan.Seed, By: x.lab.By})
	session.Close()
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	if got := w.Procs; got != 0 && got != setting.Procs {
		return &Hopeless{Why: setsItself(got, setting.Procs)}
	}
	return nil
}

func setsItself(got, named int) string {
	return fmt.Sprintf("it runs with GOMAXPROCS=%d although its environment says %d: it sets the number itself, by a call of runtime.GOMAXPROCS or of a library. Let it leave the number alone where GOMAXPROCS is set, and tune it then", got, named)
}
