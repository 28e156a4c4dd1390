package tune

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/journal"
	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
)

// A Record is a line of a journal after its head: the pilot, or a run, or a window under one of several limits. The head is
// the study, whose JSON leaves these out.
type Record struct {
	Pilot  *Pilot       `json:"pilot,omitempty"`
	Run    *Run         `json:"tune_run,omitempty"`
	Window *LimitWindow `json:"window,omitempty"`
}

// ErrNoStudy is the error of a file that is no journal of this package.
var ErrNoStudy = errors.New("this is no file of runs of tune")

// Read reads a journal. A last line that was cut off, as by a full disk, is left out; cut tells its length. What is left must
// be what Execute or ExecuteLimits would have done, as far as it goes.
func Read(data []byte) (s *Study, cut int, err error) {
	r := reader{Study: &Study{}, holds: map[LimitTry]held{}}
	if cut, err = journal.Read(data, r.head, r.line); err != nil {
		return nil, 0, err
	}
	return r.Study, cut, nil
}

// reader follows the searches while it reads, so that each line is the one that was asked for.
type reader struct {
	*Study
	load int
	tune *search.Tune // of the load; nil: before the pilot

	tries []LimitTry // whose highest rate is not known yet
	curve *search.MaxRate
	holds map[LimitTry]held
}

func (r *reader) head(line []byte) error {
	if err := json.Unmarshal(line, r.Study); err != nil || r.Verb != "tune" || r.Plan.Kind == "" {
		return ErrNoStudy
	}
	if r.Version != lab.Version {
		return fmt.Errorf("the file is of format %d, and this unthrottle reads format %d", r.Version, lab.Version)
	}
	if err := r.checkPlan(); err != nil {
		return fmt.Errorf("the plan of the runs: %w", err)
	}
	r.tries = r.Tries()
	return nil
}

func (r *reader) line(line []byte) error {
	var record Record
	if err := json.Unmarshal(line, &record); err != nil {
		return err
	}
	kinds := 0
	for _, there := range []bool{record.Pilot != nil, record.Run != nil, record.Window != nil} {
		if there {
			kinds++
		}
	}
	switch limits := len(r.Plan.Limits) > 0; {
	case kinds != 1:
		return errors.New("it is not one of a pilot, a run and a window")
	case limits != (record.Window != nil):
		return errors.New("a window, and not several limits; or the other way round")
	case limits:
		return r.window(*record.Window)
	case record.Pilot != nil:
		return r.pilot(record.Pilot)
	}
	return r.run(*record.Run)
}

func (r *reader) pilot(p *Pilot) (err error) {
	if r.Pilot != nil {
		return errors.New("a second pilot")
	}
	if err := r.checkPilot(p); err != nil {
		return err
	}
	r.Pilot = p
	r.tune, err = r.Search(0)
	return err
}

func (r *reader) run(run Run) error {
	if r.Pilot == nil {
		return errors.New("a run before the pilot")
	}
	next, more := r.next(r.tune, r.load)
	for !more {
		if r.load++; r.load >= len(r.Pilot.Loads) {
			return errors.New("a run after the last")
		}
		var err error
		if r.tune, err = r.Search(r.load); err != nil {
			return err
		}
		next, more = r.next(r.tune, r.load)
	}
	if run.Load != r.load || run.Search != next {
		return fmt.Errorf("load %d, %+v: asked for was load %d, %+v", run.Load, run.Search, r.load, next)
	}
	if next.Phase != Explain {
		if err := r.tune.Observe(r.observation(run)); err != nil {
			return err
		}
	}
	r.Runs = append(r.Runs, run)
	return nil
}

func (r *reader) window(w LimitWindow) error {
	if w.Seconds < 0 {
		return fmt.Errorf("a window of %v s", w.Seconds)
	}
	if err := r.skipKnown(); err != nil {
		return err
	}
	switch w.Phase {
	case CurvePhase:
		if len(r.tries) == 0 || !r.tries[0].has(w) {
			return fmt.Errorf("a limit of %v CPUs with GOMAXPROCS=%d, whose turn it is not", w.CPUs, w.Procs)
		}
		if err := r.curve.Observe(search.Observation{Rate: w.Rate, Held: w.Held, Valid: w.Valid}); err != nil {
			return err
		}
		if w.NoStart {
			giveUp(r.curve)
		}
	case HoldPhase:
		try, known := r.tryOf(w)
		h := r.holds[try]
		if !known || len(r.tries) > 0 || w.Rate != r.Plan.Rate || h.enough() {
			return fmt.Errorf("%v/s under a limit of %v CPUs with GOMAXPROCS=%d were not to be held", w.Rate, w.CPUs, w.Procs)
		}
		r.holds[try] = h.and(w)
	default:
		return fmt.Errorf("there is no phase %q of windows", w.Phase)
	}
	r.Windows = append(r.Windows, w)
	return nil
}

// skipKnown goes on to the first try whose highest rate is not known.
func (r *reader) skipKnown() (err error) {
	for len(r.tries) > 0 {
		if r.curve == nil {
			if r.curve, err = r.MaxRate(r.tries[0]); err != nil {
				return err
			}
		}
		if _, more := r.curve.Next(); more {
			return nil
		}
		r.tries, r.curve = r.tries[1:], nil
	}
	return nil
}
