package tune

import (
	"cmp"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
)

// besideWindows are those of each memory limit that are compared with the one that holds the SLO. Six pairs are the fewest of
// which there is an interval for 95 %.
const besideWindows = 6

// LimitsMemory reports whether the question is which of several memory limits is needed.
func (p *Plan) LimitsMemory() bool { return len(p.Memories) > 0 }

// GOMEMLIMITUnder is what runs under a memory limit have; "": it is left as it is.
func (p *Plan) GOMEMLIMITUnder(memory int64) string {
	if !p.GOMEMLIMIT {
		return ""
	}
	_, text := choice.GOMEMLIMIT(memory)
	return text
}

// memoryTries are under one limit of CPUs.
func (s *Study) memoryTries() (tries []LimitTry) {
	if len(s.Defaults) != 1 {
		return nil
	}
	limits := slices.Clone(s.Plan.Memories)
	slices.SortFunc(limits, func(a, b int64) int { return cmp.Compare(orEndless(float64(a)), orEndless(float64(b))) })
	for _, bytes := range slices.Compact(limits) {
		tries = append(tries, LimitTry{Under{s.Plan.CPUs, bytes}, s.Defaults[0], true})
	}
	return tries
}

// beside takes turns between the smallest limit that holds the SLO and the larger ones.
func (l *Limits) beside(from []*limit) (LimitWindow, bool) {
	var next *limitTry
	for _, under := range from {
		try := under.tries[0]
		if spoilt := try.lost >= voidWindows && try.lost > 2*try.beside; !spoilt && (next == nil || try.beside < next.beside) {
			next = try
		}
	}
	if len(from) < 2 || next == nil || next.beside == besideWindows {
		return LimitWindow{}, false
	}
	return LimitWindow{Under: next.Under, Procs: next.Procs, Phase: BesidePhase, Rate: l.study.Plan.Rate}, true
}
