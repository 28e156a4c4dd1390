package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// A BenchPoint is a run that has a figure.
type BenchPoint struct {
	Row     int // of the group
	Block   int
	Place   int // of the block among those that the group's points are in, from 0
	Value   float64
	Outlier bool // it is far from the others of its row
	Marks   []string
}

// Points are the runs of a group that have a figure, and the number of blocks that they are in.
func (b *Bench) Points(g *BenchGroup) (points []BenchPoint, blocks int) {
	var numbers []int
	for i, s := range g.Settings {
		outliers := s.Metrics[g.Figure.Unit].Outliers
		n := 0 // index among the setting's runs that have the figure: outliers are indexes of these
		for _, r := range b.Runs {
			v, ok := r.Metrics[g.Figure.Unit]
			if r.Setting != s.Setting || r.Error != "" || !ok {
				continue
			}
			points = append(points, BenchPoint{Row: i, Block: r.Block, Value: v, Outlier: slices.Contains(outliers, n), Marks: r.Marks})
			numbers = append(numbers, r.Block)
			n++
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	for i := range points {
		points[i].Place, _ = slices.BinarySearch(numbers, points[i].Block)
	}
	return points, len(numbers)
}

// A BenchActivity says when the last run of a setting was on a CPU, in a window from its middle. Times are in seconds, since the
// window began.
type BenchActivity struct {
	Row   int
	Block int
	From  float64 // when the window begins, in the run
	Ran   []struct{ From, To float64 }
}

const (
	windowMost = 1.  // s: in more of it the periods could not be distinguished on a phone
	roundTime  = 0.1 // s: a window begins at a multiple of the usual period
)

// Activity says when the last run of each of a group's settings was on a CPU, if the program records that. All windows have the
// same length.
func (b *Bench) Activity(g *BenchGroup) (all []BenchActivity, window float64) {
	last := make([]*lab.Run, len(g.Settings))
	width := 0.
	for i, s := range g.Settings {
		for j := range b.Runs {
			if r := &b.Runs[j]; r.Setting == s.Setting && len(r.Activity) > 0 {
				last[i] = r
			}
		}
		if last[i] != nil {
			width = max(width, end(last[i]))
		}
	}
	width = min(width, windowMost)
	for i, r := range last {
		if r != nil && width > 0 {
			all = append(all, middle(i, r, width))
		}
	}
	return all, width
}

// middle is a window from the middle of a run.
func middle(row int, r *lab.Run, width float64) BenchActivity {
	from := max(0, roundTime*math.Floor((end(r)-width)/2/roundTime+1e-9))
	a := BenchActivity{Row: row, Block: r.Block, From: micros(from)}
	for _, ran := range r.Activity {
		if left, right := max(ran[0]-from, 0), min(ran[1]-from, width); left < right {
			a.Ran = append(a.Ran, struct{ From, To float64 }{micros(left), micros(right)})
		}
	}
	return a
}

// micros rounds to microseconds, the resolution of the records.
func micros(seconds float64) float64 { return math.Round(seconds*1e6) / 1e6 }

// end is when a run was last on a CPU.
func end(r *lab.Run) float64 { return r.Activity[len(r.Activity)-1][1] }

// AtOnce is how many runs were made at the same time as others, and in how many groups settings took turns though they might have run at
// the same time; why is the first one's reason.
func (b *Bench) AtOnce() (runs int, why string, groups int) {
	for _, r := range b.Runs {
		if r.AtOnce > 0 {
			runs++
		}
		if r.InTurn != "" {
			why, groups = cmp.Or(why, r.InTurn), groups+1
		}
	}
	return runs, why, groups
}
