package tune

import (
	"errors"
	"fmt"
	"time"
)

// A Reach is how far a study goes, where that was changed on the way. It is in the journal at the point of the change: the runs before it
// follow from what there was before.
type Reach struct {
	Budget time.Duration `json:"budget_ns"`
	Pairs  int           `json:"pairs"`
	Blocks int           `json:"blocks"`
}

// Reach is how far the study goes.
func (s *Study) Reach() Reach { return Reach{s.Plan.Budget, s.Plan.Pairs, s.Plan.Blocks} }

// Further changes how far the study goes. It fails, and changes nothing, where the runs so far would have been others, or where
// none would follow. The goal that it returns has the blocks that the runs so far need.
func (s *Study) Further(to Reach) (Reach, error) {
	if spent := time.Duration(s.Spent() * float64(time.Second)).Round(time.Second); to.Budget > 0 && to.Budget <= spent {
		return to, fmt.Errorf("the runs so far took %v of a budget of %v", spent, to.Budget)
	}
	before := s.Reach()
	choices := []Reach{to}
	if s.Pilot != nil && to.Blocks == 0 { // how many there are usually may follow from the budget
		same := to
		same.Blocks = s.mostBlocks()
		choices = append(choices, same)
	}
	var err error
	for _, goal := range choices {
		var more bool
		if more, err = s.take(goal); err == nil && !more {
			err = errors.New("the search has its verdict and needs no more runs")
		}
		if err == nil {
			return goal, nil
		}
	}
	s.setGoal(before)
	return to, err
}

func (s *Study) setGoal(g Reach) {
	s.Plan.Budget, s.Plan.Pairs, s.Plan.Blocks = g.Budget, g.Pairs, g.Blocks
}

// take changes the goal, and says whether a search goes on with it. An error: the runs so far would have been others.
func (s *Study) take(g Reach) (more bool, err error) {
	s.setGoal(g)
	if err := s.checkPlan(); err != nil || s.Pilot == nil {
		return true, err
	}
	for load := range s.Pilot.Loads {
		t, err := s.Search(load)
		if err != nil {
			return false, errors.New("with that, the runs so far would have been different")
		}
		_, next := s.next(t, load)
		more = more || next
	}
	return more, nil
}
