package tune

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
)

// A Record is a line of a journal after its head: the pilot, or a run, or a window under one of several limits, or how far it
// goes from then on, or the error that ended it, after which it may go on all the same. The head is the study, whose JSON leaves these out.
type Record struct {
	Pilot  *Pilot       `json:"pilot,omitempty"`
	Run    *Run         `json:"tune_run,omitempty"`
	Window *LimitWindow `json:"window,omitempty"`
	Reach  *Reach       `json:"goal,omitempty"`

	Failure string `json:"failure,omitempty"` // the error that ended it
}

// ErrNoStudy is the error of a file that is not a journal of this package.
var ErrNoStudy = errors.New("this is not a file of runs of tune")

// Read reads a journal. A last line that was cut off, as by a full disk, is left out; cut is its length. What is left must be what Execute
// or ExecuteLimits would have done up to there.
func Read(data []byte) (s *Study, cut int, err error) {
	r := reader{Study: &Study{}, searches: map[int]*search.Tune{}}
	if cut, err = lab.ReadJournal(data, r.head, r.line); err != nil {
		return nil, 0, err
	}
	return r.Study, cut, nil
}

// reader follows the searches while it reads, so that each line is the one that was asked for.
type reader struct {
	*Study
	searches map[int]*search.Tune // of the loads that have runs
	limits   *Limits
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
	if r.Plan.AsksLimit() {
		limits, err := r.Limits()
		if err != nil {
			return fmt.Errorf("the plan of the runs: %w", err)
		}
		r.limits = limits
	}
	return nil
}

func (r *reader) line(line []byte) error {
	var record Record
	if err := json.Unmarshal(line, &record); err != nil {
		return err
	}
	r.Failure = ""
	kinds := 0
	for _, there := range []bool{record.Pilot != nil, record.Run != nil, record.Window != nil, record.Reach != nil, record.Failure != ""} {
		if there {
			kinds++
		}
	}
	switch limits := r.Plan.AsksLimit(); {
	case kinds != 1:
		return errors.New("want one of a pilot, a run, a window, a goal and a failure")
	case record.Failure != "":
		r.Failure = record.Failure
		return nil
	case limits != (record.Window != nil):
		return errors.New("a window, and not several limits; or the other way round")
	case limits:
		return r.window(*record.Window)
	case record.Pilot != nil:
		return r.pilot(record.Pilot)
	case record.Reach != nil:
		clear(r.searches)
		_, err := r.take(*record.Reach)
		return err
	}
	return r.run(*record.Run)
}

func (r *reader) pilot(p *Pilot) error {
	if r.Pilot != nil {
		return errors.New("a second pilot")
	}
	if err := r.checkPilot(p); err != nil {
		return err
	}
	r.Pilot = p
	return nil
}

// run takes a run that the search of its load asked for. Where the time was short a load's search may go on after another's.
func (r *reader) run(run Run) (err error) {
	switch {
	case r.Pilot == nil:
		return errors.New("a run before the pilot")
	case run.Load < 0 || run.Load >= len(r.Pilot.Loads):
		return fmt.Errorf("a run of load %d: there are %d", run.Load, len(r.Pilot.Loads))
	case run.Room < 0 || !(run.Seconds >= 0):
		return fmt.Errorf("a run of %v s, after which there was room for %d", run.Seconds, run.Room)
	}
	t := r.searches[run.Load]
	if t == nil {
		if t, err = r.Search(run.Load); err != nil {
			return err
		}
		r.searches[run.Load] = t
	}
	next, more := r.next(t, run.Load)
	switch {
	case !more:
		return errors.New("a run after the last")
	case run.Search != next:
		return fmt.Errorf("load %d, %+v: expected %+v", run.Load, run.Search, next)
	}
	if next.Phase != Explain {
		if err := t.Observe(r.observation(run)); err != nil {
			return err
		}
	}
	r.Runs = append(r.Runs, run)
	return nil
}

func (r *reader) window(w LimitWindow) error {
	if err := r.limits.observe(w); err != nil {
		return err
	}
	r.Windows = append(r.Windows, w)
	return nil
}
