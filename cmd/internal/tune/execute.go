package tune

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
	"github.com/unthrottle/unthrottle/cmd/internal/trial"
)

// Progress is told at each step that no run shows, once when the pilot is done, and before each run and after the last.
type Progress struct {
	Doing string // such a step, as in the pilot; "": there is a run
	Pilot *Pilot // once, when it is done

	Load int
	Next search.TuneRun // what is being run
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
	lab Lab
}

// Execute does what is missing of a study. It ends early with ctx's error, or where it makes no sense to go on.
func (s *Study) Execute(ctx context.Context, l Lab) error {
	if err := s.checkPlan(); err != nil {
		return err
	}
	x := &execution{Study: s, lab: l}
	if s.Pilot == nil {
		p, err := x.pilot(ctx)
		if err != nil {
			return err
		}
		if err := s.checkPilot(p); err != nil {
			return err
		}
		if err := l.Record(Record{Pilot: p}); err != nil {
			return err
		}
		s.Pilot = p
	}
	l.Tell(Progress{Pilot: s.Pilot})
	for load := range s.Pilot.Loads {
		if err := x.search(ctx, load); err != nil {
			return err
		}
	}
	return nil
}

func (x *execution) tell(doing string) { x.lab.Tell(Progress{Doing: doing}) }

// search does the runs of a load.
func (x *execution) search(ctx context.Context, load int) error {
	t, err := x.Search(load)
	if err != nil {
		return err
	}
	var last *Run
	for told := false; ; {
		next, more := x.next(t, load)
		switch {
		case next.Phase == Explain:
			if !told { // the verdict is there
				x.lab.Tell(x.progress(t, load, search.TuneRun{Phase: search.Done}, last))
				told = true
			}
			x.tell(fmt.Sprintf("looking at the garbage collector with GOMAXPROCS=%v", next.Candidate()))
		case more || !told:
			x.lab.Tell(x.progress(t, load, next, last))
		}
		if !more {
			return nil
		}
		run, err := x.run(ctx, load, next)
		if err != nil {
			return err
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

func (x *execution) progress(t *search.Tune, load int, next search.TuneRun, last *Run) Progress {
	likely, _ := t.Left()
	p := Progress{Load: load, Next: next, Last: last, Done: len(t.Seen()), Left: likely, Rank: t.Standings()}
	if next.Phase == search.Done {
		v := t.Verdict()
		p.Settled = &v
	}
	runs := likely
	for range x.Pilot.Loads[load+1:] {
		runs += likely + p.Done
	}
	p.Time = time.Duration(float64(runs) * x.perRun() * float64(time.Second))
	return p
}

// perRun is how long a run takes, in seconds: what the pilot thought, until there are a few.
func (x *execution) perRun() float64 {
	const enough = 3
	if len(x.Runs) < enough {
		return x.Pilot.PerRun
	}
	sum := 0.0
	for _, r := range x.Runs[len(x.Runs)-enough:] {
		sum += r.Seconds
	}
	return sum / enough
}

// run does one run. A program that fails gets a second chance: a port that is not free yet is no property of a setting.
func (x *execution) run(ctx context.Context, load int, next search.TuneRun) (Run, error) {
	var first string
	for attempt := 0; ; attempt++ {
		run, err := x.once(ctx, load, next)
		if ctx.Err() != nil {
			return Run{}, ctx.Err() // it was cut short: its figures are worth nothing
		}
		if err != nil {
			return Run{}, err
		}
		run.Attempt = attempt
		if first != "" {
			run.Marks = append(run.Marks, lab.MarkRetried+": "+first)
		}
		if run.Error == "" || attempt > 0 {
			return run, nil
		}
		first = run.Error
	}
}

// setting is what a run has. The current one is the program as it is.
func (x *execution) setting(next search.TuneRun) lab.Setting {
	s := x.asIs(x.Pilot)
	if next.Procs != x.Pilot.Procs {
		s.Procs = next.Procs
	}
	s.GOGC = next.GOGC
	return s
}

func (x *execution) once(ctx context.Context, load int, next search.TuneRun) (Run, error) {
	run := Run{Load: load, Search: next, Valid: true, SLOHeld: true}
	if x.Plan.Kind != ServerKind {
		var err error
		run.Run, err = x.lab.Job.Run(ctx, x.setting(next))
		return run, err
	}
	trace := x.Pilot.Trace || next.Phase == Explain
	begin := x.lab.Clock()
	session, err := x.lab.Server.Open(ctx, x.setting(next), trace)
	if why, failed := trial.Failed(err); failed {
		run.Run = lab.Run{Start: begin.UTC().Round(time.Millisecond), Seconds: x.lab.Clock().Sub(begin).Seconds(), Error: why, Metrics: map[string]float64{}}
		return run, nil
	}
	if err != nil {
		return run, err
	}
	w, err := x.measure(ctx, session, load, next.Seed)
	run.Run = session.Close()
	if err == nil && w.Metrics == nil && run.Error == "" {
		run.Error = errEnded.Error()
	}
	if err != nil || run.Error != "" {
		return run, err
	}
	maps.Copy(run.Metrics, w.Metrics)
	run.Ops, run.Valid, run.Late, run.Notes, run.SLOHeld, run.Curve, run.Axis = w.Requests, w.Valid, w.Late, w.Notes, w.SLOHeld, w.Curve, w.Axis
	if w.Late {
		run.Curve = nil // whose they are is not known
	}
	if trace {
		run.GC = gcOf(w)
	}
	return run, nil
}

// measure warms a server up and measures a window. All runs of a block have the same arrivals, in the warm-up others than
// in the window. Without metrics the server has died.
func (x *execution) measure(ctx context.Context, session Session, load int, seed uint64) (trial.Window, error) {
	l := x.Pilot.Loads[load]
	shot := x.shot(x.Pilot, l)
	if l.WarmUp > 0 {
		shot.Lasting, shot.Seed = l.WarmUp, seed+1
		if w, err := session.Load(ctx, shot); err != nil || w.Metrics == nil {
			return w, err
		}
	}
	shot.Lasting, shot.Seed, shot.SLO = l.Window, seed, x.Plan.SLO
	return session.Load(ctx, shot)
}
