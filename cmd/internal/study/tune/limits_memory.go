package tune

import (
	"cmp"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/process/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
)

// besideWindows are those of each memory limit that are compared with the one that holds the SLO. Six pairs are the fewest of
// which there is an interval for 95 %.
const besideWindows = 6

// LimitsMemory reports whether the question is which of several memory limits is needed.
func (p *Plan) LimitsMemory() bool { return len(p.Memories) > 0 }

// GOMEMLIMITUnder is what runs under a memory limit have; "": unchanged.
func (p *Plan) GOMEMLIMITUnder(memory int64) string {
	if !p.GOMEMLIMIT {
		return ""
	}
	_, text := choice.GOMEMLIMIT(memory)
	return text
}

// A room is what is left of a memory limit.
type room struct {
	limit   int64 // 0: none
	elastic bool  // a GOMEMLIMIT holds the heap
	peaks   []float64
	files   []float64 // how much of the program's file was in memory
}

func (p *Plan) roomUnder(memory int64) room {
	return room{limit: memory, elastic: p.GOMEMLIMITUnder(memory) != ""}
}

// add counts a window. One that was killed has taken all.
func (r *room) add(w LimitWindow) {
	if peak := lab.PeakMemory.In(w.Metrics); peak > 0 && !w.Killed {
		r.peaks, r.files = append(r.peaks, peak), append(r.files, lab.ProgramFile.In(w.Metrics))
	}
}

// full reports whether a typical window leaves too little: a larger burst would take it, and pages of the program's file that find no room
// are read from disk repeatedly. A heap that is held comes near any limit, so that only the latter counts.
func (r *room) full() bool {
	if r.limit == 0 || len(r.peaks) < failWindows {
		return false
	}
	peak, file := sample.Summarise(r.peaks).Median, sample.Summarise(r.files).Median
	return peak > search.Fullest*float64(r.limit) && (!r.elastic || peak+file > float64(r.limit))
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
