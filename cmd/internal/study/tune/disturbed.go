package tune

import (
	"errors"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// This file says which runs say nothing about how long anything takes, as something else had the machine, and which of them are made again.
// If other programs' time was seen in slices, a run's latencies exclude those.

// muchStolen is the share of CPU time that a hypervisor may take.
const muchStolen = 0.04

// disturbed reports whether how long anything took in the run says nothing.
func (s *Study) disturbed(r lab.Run, limit float64) bool {
	return r.Stolen > muchStolen || s.shared(r, limit) && !r.Sliced
}

// shared reports whether CPU time in a run is not what it would be alone. Runs at the same time leave the less to others.
func (s *Study) shared(r lab.Run, limit float64) bool {
	return s.crowded(r.Others, limit*float64(max(1, r.AtOnce)))
}

// crowded reports whether others used too many CPUs. Where there are more than the program and the generator need, they may use half of
// those: a mark on every run of a large machine would say nothing.
func (s *Study) crowded(others, limit float64) bool {
	const generator = 1
	free := float64(s.Environment.CPUs) - limit - generator
	if limit == 0 {
		free = 0
	}
	return others > max(procs.NoisyOthers, free/2)
}

// Beside is what others used on average in the runs of a load that are disturbed, in CPUs; 0: nothing, or it was the hypervisor.
func (s *Study) Beside(load int) float64 {
	sum, n := 0.0, 0
	for _, r := range s.Runs {
		if r.Load == load && s.disturbed(r.Run, s.Plan.CPUs) && r.Others > 0 {
			sum += r.Others
			n++
		}
	}
	return sum / float64(max(1, n))
}

// again reports whether to make a run again that has lost this many seconds. At most half of the budget may be lost so; without a budget
// each run may be made again once.
func (x *execution) again(load int, next search.TuneRun, lost float64, times int) bool {
	budget := x.Plan.Budget.Seconds()
	switch {
	case next.Phase == Explain:
		return false
	case budget == 0:
		return times == 0
	}
	for _, r := range x.Runs {
		lost += r.Lost
	}
	return lost <= budget/2 && x.clock()+x.perRun(load, x.raceBlock(load, next)) <= x.until
}

// mostUnseen is how often in a row something is done again because too little of it was seen. Then that is the end: a meter that never sees
// it will not see the next run either.
const mostUnseen = 3

// unseen counts how often one thing that is done was not seen.
type unseen struct{ times int }

// again reports whether an error means that too little was seen, and not too many times yet. If so, it reports that.
func (u *unseen) again(x *execution, err error) bool {
	var missed *trial.Unseen
	if !errors.As(err, &missed) || u.times == mostUnseen {
		return false
	}
	u.times++
	x.tell("doing that again: " + missed.Why)
	return true
}

// untilSeen does something again if too little of it was seen.
func (x *execution) untilSeen(do func() error) error {
	for u := (unseen{}); ; {
		if err := do(); !u.again(x, err) {
			return err
		}
	}
}
