package report

import (
	"math"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
)

// A BenchPoint is a run that has a figure.
type BenchPoint struct {
	Row     int // of the group
	Block   int
	Place   int // of the block among those of the group's points, from 0
	Value   float64
	Outlier bool // it is far from the others of its row
	Marks   []string
}

// Points are the runs of a group that have a figure, and how many blocks they are of.
func (b *Bench) Points(g *BenchGroup) (points []BenchPoint, blocks int) {
	var numbers []int
	for i, s := range g.Settings {
		outliers := s.Metrics[g.Figure.Unit].Outliers
		n := 0 // number among the setting's runs that have the figure, which is what outliers are told by
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

// A BenchActivity is when a setting's last run ran, in a window from the middle of it. Times are seconds of the window.
type BenchActivity struct {
	Row   int
	Block int
	From  float64 // where the window begins in the run
	Ran   []struct{ From, To float64 }
}

// Activity: a window of at most a second, for in more the single periods can't be seen on a phone. It begins at a round
// time.
const (
	windowMost = 1.  // s
	roundTime  = 0.1 // s: the usual period
)

// Activity is when the last runs of a group's settings ran, as far as a program writes that down, in windows of the same
// length.
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

// middle is the middle of a run.
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

// micros rounds to microseconds, in which runs are written down.
func micros(seconds float64) float64 { return math.Round(seconds*1e6) / 1e6 }

// end is when a run was last seen to run.
func end(r *lab.Run) float64 { return r.Activity[len(r.Activity)-1][1] }
