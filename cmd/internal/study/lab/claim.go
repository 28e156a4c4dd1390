package lab

import (
	"math"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
)

// A Side is one of those that a setting may be better or worse in.
type Side string

// The sides. Errors only ever speak against a setting.
const (
	InFigure Side = "figure"
	InCost   Side = "cost"
	InErrors Side = "errors"
)

// margin is the difference in a metric that is worth something. A tail is known less well, and has a margin of its own.
func (p Plan) margin(m Metric) float64 {
	if p.Tail > 0 && Measure(m.Unit).Kind() == ResponseTime {
		return p.Tail
	}
	return p.Margin
}

// of is the row's comparison by one side; nil: none.
func (r *Row) of(s Side) *sample.Comparison {
	if s == InCost {
		return r.Cost
	}
	return r.Comparison
}

// contradicted reports whether the p99 of whole windows is shown to be worse by more than the margin, though the tail of their
// seconds is not: there are rare, long delays that typical seconds have not.
func (r *Row) contradicted() bool {
	return r.Whole != nil && r.Whole.Ratio > 1+r.Whole.Margin && r.Whole.Low > 1 && r.Comparison.Ratio < 1+r.Comparison.Margin
}

// Disagree reports whether the tail of typical seconds and the p99 of whole windows tell different things: they went in
// opposite directions, each by more than a margin, or their changes are far apart.
func (r *Row) Disagree(margin float64) bool {
	const apart = 1.5
	if r.Whole == nil || r.Whole.Ratio <= 0 || r.Comparison.Ratio <= 0 {
		return false
	}
	tail, whole := math.Log(r.Comparison.Ratio), math.Log(r.Whole.Ratio)
	opposite := tail*whole < 0 && min(math.Abs(tail), math.Abs(whole)) > math.Log1p(margin)
	return opposite || math.Abs(tail-whole) >= math.Log(apart)
}

// better reports whether a row is shown to be better on a side. A tail is not, where whole windows are shown to be worse.
func (r *Row) better(s Side) bool {
	worse := s == InFigure && r.Whole != nil && r.Whole.Low > 1
	return r.of(s).Verdict == sample.VerdictBetter && !worse
}

// notWorse reports whether a row is shown not to be worse on a side: by up to the margin of a tail, and twice that of a cost.
func (r *Row) notWorse(s Side) bool {
	c := r.of(s)
	allowed := c.Margin
	if s == InCost {
		allowed *= 2
	}
	worst := c.High
	if c.Better == sample.Higher && c.Low > 0 {
		worst = 1 / c.Low
	}
	return c.Confidence > 0 && worst < 1+allowed && !(s == InFigure && r.contradicted())
}

// weigh says what a row is better in and worse in, compared with the base. A loss that is not shown is not ruled out either.
func (r *Row) weigh() (gain, loss Side, shown bool) {
	other := InCost
	switch {
	case r.better(InFigure):
		gain = InFigure
	case r.Cost != nil && r.better(InCost):
		gain, other = InCost, InFigure
	default:
		return "", "", false
	}
	switch {
	case r.Failing:
		return gain, InErrors, true
	case r.of(other) == nil || r.better(other):
		return gain, "", false
	case r.of(other).Verdict == sample.VerdictWorse:
		return gain, other, true
	case r.notWorse(other):
		return gain, "", false
	}
	return gain, other, false
}

// doubtful reports whether more blocks may show that a row is better. They may, too, where its tail is and whole windows say otherwise.
func (r *Row) doubtful() bool {
	may := func(c *sample.Comparison) bool { return c.Verdict == sample.VerdictUndecided }
	switch {
	case r.Cost == nil:
		return may(r.Comparison)
	case r.Comparison.Verdict == sample.VerdictWorse || r.Cost.Verdict == sample.VerdictWorse:
		return false
	}
	return may(r.Comparison) || may(r.Cost) || r.Comparison.Verdict == sample.VerdictBetter && !r.better(InFigure)
}

// costs are a row's, as logarithms of ratios to the base's: what distinguishes settings.
func (r *Row) costs() (costs []float64) {
	for _, c := range []*sample.Comparison{r.Comparison, r.Cost} {
		switch {
		case c == nil:
		case c.Better == sample.Higher:
			costs = append(costs, -math.Log(c.Ratio))
		default:
			costs = append(costs, math.Log(c.Ratio))
		}
	}
	return costs
}

// ahead reports whether a's estimates are better than b's, all in all.
func (a *Row) ahead(b *Row) bool {
	sum := func(costs []float64) (sum float64) {
		for _, c := range costs {
			sum += c
		}
		return sum
	}
	return sum(a.costs()) < sum(b.costs())
}

// claim says what may be said of a group once its comparisons are decided.
func (g *Group) claim() Claim {
	if g.Rows[0].Runs == 0 {
		return Claim{Kind: Failed}
	}
	if len(g.Rows) == 1 {
		return Claim{Kind: Alone}
	}
	var best, trade, doubt Claim
	few := false
	lead := func(lead *Claim, c Claim) {
		if lead.Row == 0 || g.Rows[c.Row].ahead(&g.Rows[lead.Row]) {
			*lead = c
		}
	}
	for i := range g.Rows {
		row := &g.Rows[i]
		if row.Comparison == nil {
			continue
		}
		few = few || row.Comparison.Verdict == sample.VerdictTooFew || row.Cost != nil && row.Cost.Verdict == sample.VerdictTooFew
		switch gain, loss, shown := row.weigh(); {
		case gain != "" && loss == "":
			lead(&best, Claim{Kind: Set, Row: i, Gain: gain})
		case gain != "":
			lead(&trade, Claim{Trade, i, gain, loss, shown})
		case row.doubtful():
			lead(&doubt, Claim{Kind: Undecided, Row: i})
		}
	}
	switch {
	case best.Row > 0:
		return best
	case trade.Row > 0:
		return trade
	case few:
		return Claim{Kind: TooFew}
	case doubt.Row > 0:
		return doubt
	}
	return Claim{Kind: Keep}
}

// Beside is how a build compares with the base in one metric. Not worse must be shown: all of the interval is inside the margin.
func Beside(c *sample.Comparison) ClaimKind {
	switch {
	case c.Verdict == sample.VerdictWorse:
		return Worse
	case c.Verdict == sample.VerdictBetter:
		return Better
	case c.Verdict == sample.VerdictTooFew:
		return TooFew
	case c.NotWorse:
		return NoWorse
	}
	return Undecided
}

// change is how a build compares with the base in everything: worse if it is worse in anything, and not known as long as anything is not.
func (r *Row) change() ClaimKind {
	if r.Failing {
		return Worse
	}
	kinds := []ClaimKind{Beside(r.Comparison)}
	if r.Cost != nil {
		kinds = append(kinds, Beside(r.Cost))
	}
	for _, first := range []ClaimKind{Worse, TooFew, Undecided, Better} {
		if slices.Contains(kinds, first) {
			return first
		}
	}
	return NoWorse
}

// change says what may be said of a group of builds: the worst news first.
func (g *Group) change() Claim {
	if g.Rows[0].Runs == 0 {
		return Claim{Kind: Failed}
	}
	if len(g.Rows) == 1 {
		return Claim{Kind: Alone}
	}
	of := map[ClaimKind]int{} // a row of each kind
	for i := range g.Rows {
		row := &g.Rows[i]
		if row.Comparison == nil {
			continue
		}
		kind := row.change()
		if other, has := of[kind]; !has || kind == Worse && g.Rows[other].ahead(row) {
			of[kind] = i
		}
	}
	for _, kind := range []ClaimKind{Worse, TooFew, Undecided, Better, NoWorse} {
		if row, has := of[kind]; has {
			return Claim{Kind: kind, Row: row}
		}
	}
	return Claim{Kind: Failed, Row: len(g.Rows) - 1}
}

// markFront marks the rows that no other beats, where there are two things to be better in.
func (g *Group) markFront() {
	if g.Cost == nil || g.Rows[0].Runs == 0 {
		return
	}
	costs := [][]float64{{0, 0}} // of the base
	for i := range g.Rows[1:] {
		row := &g.Rows[i+1]
		own := []float64{math.NaN(), math.NaN()} // no other is said to beat what is not known
		if row.Comparison != nil && row.Comparison.Ratio > 0 && row.Cost != nil && row.Cost.Ratio > 0 {
			own = row.costs()
		}
		costs = append(costs, own)
	}
	for i := range g.Rows {
		g.Rows[i].Front = !math.IsNaN(costs[i][0]) &&
			!slices.ContainsFunc(costs, func(other []float64) bool { return sample.Beats(other, costs[i]) })
	}
}

// failsMore reports whether more requests fail with another setting, by their shares in percent, than chance explains.
func failsMore(base, other []float64) bool {
	const tells, level = 0.05, 0.05 // percent of the requests; one-sided
	more := make([]float64, len(base))
	for i := range base {
		more[i] = other[i] - base[i]
	}
	return sample.ShownAbove(more, tells, level)
}
