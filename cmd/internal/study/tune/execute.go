package tune

import (
	"context"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// Progress is reported at each step that no run shows, once when the pilot is done, and before each run and after the last.
type Progress struct {
	Doing string // such a step, as in the pilot; "": there is a run
	Short string // reported once: what is open takes longer than the budget has
	Pilot *Pilot // once, when it is done

	Load int
	Next search.TuneRun // what is being run
	Name string         // of its setting
	Last *Run           // that has just ended; nil: none
	Done int            // runs of this load
	Left int            // about
	Time time.Duration  // that these take, of this load and those after it
	Rank []search.Standing
	// Settled is the verdict at this load when it is there.
	Settled *search.TuneVerdict
}

// execution is Execute's state.
type execution struct {
	*Study
	lab   Lab
	begin time.Time
	spent float64 // seconds, before that
	until float64 // the load's part of the budget ends when this much is spent
	ahead ahead   // runs that were not asked for yet
}

// Execute does what is missing of a study. It ends early with ctx's error, or if going on would be pointless.
func (s *Study) Execute(ctx context.Context, l Lab) error {
	if err := s.checkPlan(); err != nil {
		return err
	}
	s.Failure = ""
	return s.ended(ctx, l, s.execute(ctx, l))
}

// ended keeps the error that ended a study of which there is something to show. That it was interrupted is none.
func (s *Study) ended(ctx context.Context, l Lab, err error) error {
	if err == nil || ctx.Err() != nil || s.Pilot == nil && len(s.Windows) == 0 {
		return err
	}
	s.Failure = trial.Why(err)
	l.Record(Record{Failure: s.Failure}) // where this fails as well, the error that came first is the one to tell
	return err
}

func (s *Study) execute(ctx context.Context, l Lab) error {
	x := &execution{Study: s, lab: l, begin: l.begin(), spent: s.Spent()}
	if s.Pilot == nil {
		p, err := x.pilot(ctx)
		if err != nil {
			return err
		}
		p.Bias = p.bias()
		if err := s.checkPilot(p); err != nil {
			return err
		}
		p.Late = x.late(p)
		if err := l.Record(Record{Pilot: p}); err != nil {
			return err
		}
		s.Pilot = p
	}
	if l.By != nil {
		l.By.Tail = s.Pilot.Loads[0].TailMeasure()
	}
	l.Tell(Progress{Pilot: s.Pilot})
	loads := len(s.Pilot.Loads)
	for load := range loads {
		x.until = x.share(load, loads-load)
		if err := x.search(ctx, load); err != nil {
			return err
		}
	}
	for load := range loads { // what the others have left over
		x.until = s.Plan.Budget.Seconds()
		t, err := x.Search(load)
		if err != nil {
			return err
		}
		if _, more := x.affordable(t, load); more {
			if err := x.search(ctx, load); err != nil {
				return err
			}
		}
	}
	return nil
}

// late reports whether the budget has no room for the first run after the pilot.
func (x *execution) late(p *Pilot) bool {
	study := *x.Study
	study.Pilot = p
	first := execution{Study: &study}
	return x.Plan.Budget > 0 && x.clock()+first.perRun(0, 1) > x.Plan.Budget.Seconds()
}

// OutOfTime reports whether a load's search ended because of the budget.
func (s *Study) OutOfTime(load int) bool {
	if s.Plan.Budget == 0 || s.Failure != "" {
		return false
	}
	for _, r := range slices.Backward(s.Runs) {
		if r.Load == load {
			return r.Room <= max(1, r.AtOnce) // those that were made at the same time take the time of one
		}
	}
	if load == 0 {
		return s.Pilot.Late
	}
	before, err := s.Search(load - 1) // a load's turn comes when the one before has what it can have
	return err == nil && before.Verdict().Done || s.OutOfTime(load-1)
}

// AnyFailed reports whether the program failed in a run or a window, be it that it did not when that was tried again.
func (s *Study) AnyFailed() bool {
	return slices.ContainsFunc(s.Runs, func(r Run) bool { return r.Error != "" || r.Attempt > 0 }) ||
		slices.ContainsFunc(s.Windows, func(w LimitWindow) bool { return w.Error != "" })
}

// begin is from when on the budget runs.
func (l Lab) begin() time.Time {
	if l.Begin.IsZero() {
		return l.Clock()
	}
	return l.Begin
}

func (x *execution) tell(doing string) { x.lab.Tell(Progress{Doing: doing}) }

// search does the runs of a load.
func (x *execution) search(ctx context.Context, load int) error {
	t, err := x.Search(load)
	if err != nil {
		return err
	}
	defer func() { x.ahead.end() }()
	var last *Run
	for told, short := false, false; ; {
		next, more := x.affordable(t, load)
		if text := x.tooLong(t, load, next); text != "" && !short {
			x.lab.Tell(Progress{Short: text})
			short = true
		}
		switch {
		case next.Phase == Explain:
			if !told { // the verdict is there
				x.lab.Tell(x.progress(t, load, search.TuneRun{Phase: search.Done}, last))
				told = true
			}
			x.tell("measuring its garbage collector with " + x.Plan.Setting(next.Candidate()))
		case more || !told:
			x.lab.Tell(x.progress(t, load, next, last))
		}
		if !more {
			return nil
		}
		x.lookAhead(ctx, t, load, next)
		lost, inTurn, err := x.wholeBlock(ctx, t, load, next)
		if err != nil {
			return err
		}
		run, early, err := x.ahead.take(ctx, next, x.shotOf(load, next))
		if err == nil && !early {
			run, err = x.run(ctx, load, next)
			run.Seconds, run.Lost, run.InTurn = run.Seconds+lost, run.Lost+lost, inTurn
		}
		if err != nil {
			return err
		}
		if x.Plan.Budget > 0 {
			run.Room = max(1, int((x.until-x.clock())/x.perRun(load, shortBlocks+1)*x.Pace()))
		}
		if run.InTurn == "" && x.InTurn() == "" {
			run.Abreast = x.Pilot.AtOnce.abreast()
		}
		if err := x.lab.Record(Record{Run: &run}); err != nil {
			return err
		}
		x.Runs = append(x.Runs, run)
		last = &run
		if next.Phase == Explain {
			continue
		}
		if err := t.Observe(x.observation(run)); err != nil {
			return err
		}
	}
}

// Spent is how long what was done took, in seconds.
func (s *Study) Spent() (seconds float64) {
	if s.Pilot != nil {
		seconds = s.Pilot.Seconds
	}
	for _, r := range s.Runs {
		seconds += (r.Lost + (r.Seconds-r.Lost)/float64(max(1, r.AtOnce))) / float64(s.Plan.places())
	}
	for _, w := range s.Windows {
		seconds += w.Seconds
	}
	return seconds
}

// affordable is the run that a load wants, if there is time for it.
func (x *execution) affordable(t *search.Tune, load int) (next search.TuneRun, more bool) {
	next, more = x.next(t, load)
	if more && x.Plan.Budget > 0 && x.clock()+x.perRun(load, x.raceBlock(load, next)) > x.until {
		return search.TuneRun{Phase: search.Done}, false
	}
	return next, more
}

// clock is what is spent of the budget, in seconds.
func (x *execution) clock() float64 { return x.spent + x.lab.Clock().Sub(x.begin).Seconds() }

// share is when a load's part of the budget ends, where that many loads share what is left: a study that goes on counts what
// the load has had.
func (x *execution) share(load, loads int) float64 {
	had := 0.0
	for _, r := range x.Runs {
		if r.Load == load {
			had += r.Seconds
		}
	}
	begin := x.clock() - had
	return begin + (x.Plan.Budget.Seconds()-begin)/float64(loads)
}

func (x *execution) progress(t *search.Tune, load int, next search.TuneRun, last *Run) Progress {
	likely, _ := t.Left()
	p := Progress{Load: load, Next: next, Name: x.Plan.Setting(next.Candidate()), Last: last, Done: len(t.Seen()), Left: likely, Rank: t.Standings()}
	if next.Phase == search.Done {
		v := t.Verdict()
		p.Settled = &v
	}
	runs := likely
	for range x.Pilot.Loads[load+1:] {
		runs += likely + p.Done
	}
	p.Time = time.Duration(float64(runs) * x.perRun(load, shortBlocks+1) / x.Pace() * float64(time.Second))
	return p
}

// perRun is how long a run of a block of the race takes, in seconds. What it takes besides its window, which is shorter at first, is what
// the last few runs took that did not fail, and until there are some, what the pilot estimated.
func (x *execution) perRun(load, block int) float64 {
	const few = 3
	window := func(load, block int) float64 { return x.windowOf(x.Pilot.Loads[load], block).Seconds() }
	beside, sum, n := x.Pilot.PerRun-x.Pilot.Loads[load].Window.Seconds(), 0.0, 0
	for _, r := range slices.Backward(x.Runs) {
		if r.Error != "" || r.Attempt > 0 {
			continue
		}
		sum += r.Seconds - r.Lost - window(r.Load, x.raceBlock(r.Load, r.Search))
		if n++; n == few {
			beside = sum / few
			break
		}
	}
	return max(1e-3, beside+window(load, block))
}

// run does one run. A program that fails gets a second chance: a port that is not free yet is not a property of a
// setting, and memory is. A disturbed run is made again, as long as that does not lose too much; so is one of which too little was seen.
func (x *execution) run(ctx context.Context, load int, next search.TuneRun) (Run, error) {
	var failed string
	var kills int
	var before, lost, missed float64 // seconds of all attempts, of those that were disturbed, and of those that were not seen
	var missing unseen
	for times := 0; ; {
		run, err := x.once(ctx, load, next, x.shotOf(load, next), x.at(next), nil)
		if ctx.Err() != nil {
			return Run{}, ctx.Err() // it was cut short: its figures are worth nothing
		}
		if missing.again(x, err) {
			missed += run.Seconds
			before += run.Seconds
			continue
		}
		if err != nil {
			return Run{}, err
		}
		took := run.Seconds
		if run.Killed {
			kills++
		}
		run.Seconds, run.Lost, run.Again, run.Kills = before+took, lost+missed, times, kills
		if missing.times > 0 {
			run.Marks = append(run.Marks, lab.MarkUnseen)
		}
		if failed != "" {
			run.Attempt = 1
			run.Marks = append(run.Marks, lab.MarkRetried+": "+failed)
		}
		if lost > 0 {
			run.Marks = append(run.Marks, lab.MarkAgain)
		}
		switch {
		case run.Error == "" && x.disturbed(run.Run, x.Plan.CPUs) && x.again(load, next, lost+took, times):
			lost += took
			times++
		case run.Error == "" || failed != "" || run.Killed && x.alone(load, next):
			return run, nil
		default:
			failed = run.Failure()
		}
		before = run.Seconds
	}
}

// alone reports whether a setting is not the current one, and that has never been killed for lack of memory: then one that is has no second
// chance, as its memory is what it takes.
func (x *execution) alone(load int, next search.TuneRun) bool {
	current := search.Candidate{Procs: x.Pilot.Procs}
	return next.Candidate() != current && x.Survives(load, current)
}

// Survives reports whether a setting was never killed for lack of memory, be it that it was not when that was tried again.
func (s *Study) Survives(load int, c search.Candidate) bool {
	return !slices.ContainsFunc(s.Runs, func(r Run) bool { return r.Load == load && r.Search.Candidate() == c && r.Kills > 0 })
}

// at is where a run is made.
func (x *execution) at(next search.TuneRun) Place {
	if n := len(x.lab.Places); n > 0 {
		return x.lab.Places[(next.Block-1)%n]
	}
	return Place{Server: x.lab.Server}
}

// setting is what a run has. The current one is the program unchanged.
func (x *execution) setting(next search.TuneRun) lab.Setting {
	s := x.asIs(x.Pilot)
	if next.Procs != x.Pilot.Procs {
		s.Procs = next.Procs
	}
	s.Vary = lab.NewPairs(x.Plan.Varied(next.Vary))
	if s.GOGC = next.GOGC; s.GOGC != 0 {
		s.GOMEMLIMIT = x.Pilot.GOMEMLIMIT
	}
	return s
}

// jobRun is a run of what has no load that may be another than the one that was asked for.
func jobRun(load int, next search.TuneRun) Run {
	return Run{Load: load, Search: next, Valid: true, SLOHeld: true}
}

// once does a run. It changes nothing of the execution, so that several may be done at the same time: their servers wait in line for each other.
func (x *execution) once(ctx context.Context, load int, next search.TuneRun, shot trial.Shot, at Place, line *line) (Run, error) {
	run := jobRun(load, next)
	run.Place = at.Name
	if x.Plan.Kind != ServerKind {
		var err error
		run.Run, err = x.lab.Job.Run(ctx, x.setting(next))
		return run, err
	}
	trace := x.Pilot.Trace || next.Phase == Explain
	var w trial.Window
	var err error
	open := func() (Session, error) { return at.Server.Open(ctx, x.setting(next), trace) }
	run.Run, w, err = trial.Once(ctx, x.lab.Clock, line.opened(open), shot)
	if err != nil || run.Error != "" {
		return run, err
	}
	run.Valid, run.Notes, run.SLOHeld, run.Curve, run.Axis = w.Valid, w.Notes, w.SLOHeld, w.Curve, w.Axis
	run.Waits = w.Waits
	if rate := lab.RequestRate.In(w.Metrics); x.Pilot.Loads[load].Tail == "" && rate > 0 {
		lab.OpTime.Set(run.Metrics, 1/rate)
	}
	if trace {
		run.GC = gcOf(w)
	}
	return run, nil
}

// shotOf is the load of a run: a warm-up and a window. All runs of a block have the same arrivals, in the warm-up others than in
// the window.
func (x *execution) shotOf(load int, next search.TuneRun) trial.Shot {
	l := x.Pilot.Loads[load]
	shot := x.shot(x.Pilot, l)
	shot.WarmUp, shot.Rush, shot.Lasting, shot.Seed, shot.SLO = l.WarmUp, l.Rush, x.windowOf(l, x.raceBlock(load, next)), next.Seed, x.Plan.SLO
	return shot
}
