package lab

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
)

// This file makes sure that a few long benchmarks don't take the whole budget of a suite. Fewer pairs than a family needs show nothing at
// all: so those that can't get that many are run once, and the others get the rest of the time. That is decided by how long they take,
// before there are any figures to look at.

// A need is what the settings of a group take.
type need struct {
	name     string
	settings []int
	blocks   int     // that it has
	block    float64 // seconds of runs for another one
}

// needs are those of all groups, by the mean of their runs, or by how long they took in the warm-up. What is around each run takes some
// time, too. Some settings are left out. Settings that run at the same time take the time of one.
func (s *Study) needs(warm map[int]float64, around float64, but map[int]bool) (needs []need) {
	sum, n := map[int]float64{}, map[int]int{}
	for _, r := range s.Runs {
		sum[r.Setting] += r.Seconds / float64(max(1, r.AtOnce))
		n[r.Setting]++
	}
	for _, g := range groups(s.Plan) {
		d := need{name: g.Common.Workload, blocks: math.MaxInt}
		for _, row := range g.Rows {
			i := row.Setting
			d.settings = append(d.settings, i)
			d.blocks = min(d.blocks, n[i])
			if d.block += around; n[i] > 0 {
				d.block += sum[i] / float64(n[i])
			} else {
				d.block += warm[i]
			}
		}
		if !but[d.settings[0]] {
			needs = append(needs, d)
		}
	}
	return needs
}

// least is the number of blocks without which nothing can be shown of any benchmark.
func (p Plan) least() int {
	family := 0
	for _, g := range groups(p) {
		each := 1
		if g.Cost != nil {
			each = 2
		}
		family += each * (len(g.Rows) - 1)
	}
	return sample.Needed(family, sample.LookPart(p.Looks, p.Looks))
}

// seconds are what the groups take until each has that many blocks.
func seconds(needs []need, blocks int) (all float64) {
	for _, d := range needs {
		all += d.block * float64(max(0, blocks-d.blocks))
	}
	return all
}

// block is what a block of all takes.
func block(needs []need) (all float64) {
	for _, d := range needs {
		all += d.block
	}
	return all
}

// afford decides, after the warm-up and before each block, which settings get no further runs for now. The first time, it reports what the
// budget is too short for.
func (x *execution) afford(first int) {
	clear(x.dear)
	spent, ran := x.clock().Sub(x.begin).Seconds(), block(x.Study.needs(x.warm, 0, nil))
	for _, r := range x.Runs[first:] {
		ran += r.Seconds / float64(max(1, r.AtOnce))
	}
	if x.Plan.Looks == 0 || ran == 0 {
		return
	}
	around := max(0, spent-ran) / float64(len(x.Plan.Settings)+len(x.Runs)-first)
	needs, least, left := x.needs(x.warm, around, x.decided), x.Plan.least(), time.Duration(x.Plan.Budget).Seconds()-spent
	if seconds(needs, least) <= left {
		return
	}
	dear := dearest(needs, least, left)
	for _, d := range dear {
		for _, i := range d.settings {
			x.dear[i] = true
		}
	}
	if !x.told {
		x.told = true
		x.progress(Progress{Short: tooShort(x.Plan, needs, dear, least, spent+seconds(needs, least))})
	}
}

// dearest are the needs to leave out so that the others get that many blocks within some seconds: as few as possible, those that need the
// most first. Each is still run once. If not even the shortest gets them, the result is nil, as leaving others out would not help.
func dearest(needs []need, blocks int, within float64) (dear []need) {
	rest := slices.Clone(needs)
	slices.SortStableFunc(rest, func(a, b need) int { return cmp.Compare(seconds([]need{a}, blocks), seconds([]need{b}, blocks)) })
	for len(rest) > 0 && seconds(rest, blocks)+seconds(dear, 1) > within {
		last := len(rest) - 1
		dear, rest = append(dear, rest[last]), rest[:last]
	}
	if len(rest) == 0 {
		return nil
	}
	return dear
}

// tooShort says what a budget is too short for: for the dear ones, or for all if there aren't any. takes is how many seconds would be
// enough.
func tooShort(p Plan, all, dear []need, least int, takes float64) string {
	who, of := "all "+quantity.Plural(len(all), "benchmark"), all
	if len(dear) > 0 {
		var names []string
		for _, d := range dear {
			names = append(names, d.name)
		}
		const most = 3
		if n := len(names); n > most {
			names = append(names[:most-1:most-1], quantity.Plural(n-most+1, "other"))
		}
		who, of = quantity.List(names), dear
	}
	return fmt.Sprintf("a budget of %s is too short for %s: a block takes %s, and fewer than %d show nothing; --budget %s is long enough for all, and --run selects some",
		quantity.Lasting(time.Duration(p.Budget).Seconds()), who, quantity.Lasting(block(of)), least, enough(takes))
}

// enough is a budget for that many seconds, with some to spare, as one writes it.
func enough(seconds float64) string {
	const spare = 1.2
	d, step := time.Duration(spare*seconds*float64(time.Second)), 5*time.Second
	switch {
	case d > 2*time.Hour:
		step = 10 * time.Minute
	case d > 2*time.Minute:
		step = time.Minute
	}
	if d = (d + step - 1).Truncate(step); step == 5*time.Second {
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dm", d/time.Minute)
}

// Longer says what a suite's budget was too short for or, if all have enough blocks, which budget is likely to settle what is open; "":
// nothing, or it is not known.
func (s *Study) Longer(a Analysis) string {
	budget, done := time.Duration(s.Plan.Budget).Seconds(), block(s.needs(nil, 0, nil)) // the warm-up took a block's time
	for _, r := range s.Runs {
		done += r.Seconds / float64(max(1, r.AtOnce))
	}
	if s.Plan.Looks == 0 || budget == 0 || done == 0 {
		return ""
	}
	needs, least := s.needs(nil, max(0, budget-done)/float64(len(s.Runs)+len(s.Plan.Settings)), nil), s.Plan.least()
	var dear []need
	open, most, hopeless := 0.0, 0, false // seconds, and blocks
	for i, g := range a.Groups {
		more := g.more()
		switch {
		case g.Claim.Kind == TooFew:
			dear = append(dear, needs[i])
		case g.Claim.Kind == Undecided && (more == 0 || more >= sample.Many):
			hopeless = true
		case g.Claim.Kind == Undecided:
			open, most = open+float64(more)*needs[i].block, max(most, more)
		}
	}
	switch takes := budget + seconds(dear, least); {
	case len(dear) == len(needs):
		return tooShort(s.Plan, needs, nil, least, takes)
	case len(dear) > 0:
		return tooShort(s.Plan, needs, dear, least, takes)
	case open > 0 && !hopeless:
		return fmt.Sprintf("what is undecided takes up to %s: --budget %s is likely to settle it", quantity.Plural(most, "more block"), enough(budget+open))
	}
	return ""
}

// more is about how many more blocks would settle a group.
func (g *Group) more() (more int) {
	for _, row := range g.Rows {
		for _, c := range []*sample.Comparison{row.Comparison, row.Cost} {
			if c != nil {
				more = max(more, sample.More(*c))
			}
		}
	}
	return more
}
