package lab

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
)

// This file runs the settings of a group at the same time where there is room: what the machine does meanwhile affects them all alike, and
// they take the time of one. Where CPUs run short, or are shared by two threads of a core, differences shrink: so the base must behave
// alongside itself as it does alone, and runs that were short of CPUs are made again, one after the other.

// Several is a Runner that can do a run of each of some settings at the same time.
type Several interface {
	Runner
	Several(ctx context.Context, s []Setting, block int) ([]Run, error)
	// Beside says, once there was a run, how many CPUs what loads each takes, and why two must not run at the same time; "": they may.
	Beside() (cpus float64, harm string)
}

// MostAtOnce is how many settings run at the same time at most, even if the machine has room for more.
const MostAtOnce = 8

const (
	mostTaken = 0.6  // of the CPUs may be used by those that run at the same time
	mostUsed  = 0.8  // of the CPUs may be used by them and by others
	alike     = 0.15 // how much the base alongside itself may differ from the base alone
	looked    = 3    // times it is run alone and alongside itself, to see that
	mostTries = 3    // blocks in which that may be, as long as others use the CPUs
)

// Room is how many runs there may be at the same time, up to a most, where each needs some of the CPUs. If it is one, why says why.
func Room(cpus int, each float64, most int) (n int, why string) {
	if each == 0 {
		return 1, "how many CPUs one of them needs is not known"
	}
	if n = min(int(mostTaken*float64(cpus)/each), most); n < 2 {
		return 1, fmt.Sprintf("two of them take %s, which is more than %s of %s",
			quantity.UsedCPUs(2*each), quantity.WholeShare(mostTaken), quantity.CPUs(float64(cpus)))
	}
	return n, ""
}

// BesideOthers is why several must not run at the same time for now.
const BesideOthers = "others used the CPUs while it was looked at"

// A company is a group whose settings may run at the same time.
type company struct {
	settings []int
	uses     float64 // CPUs that one of them needs at most, as far as is known
	hidden   bool    // whether a run did not show it, as others used the CPUs
	tries    int     // how often it was looked whether they may; mostTries: it is known
	most     int
	why      string // there are not more
	told     bool
}

// companies are the groups of a plan, by setting. Where GOMAXPROCS differs, a run may use that many CPUs, regardless of what the warm-up
// saw.
func companies(p Plan, cpus int) map[int]*company {
	of := map[int]*company{}
	for _, g := range groups(p) {
		c := &company{most: 1}
		for _, row := range g.Rows {
			c.settings = append(c.settings, row.Setting)
			of[row.Setting] = c
			switch s := p.Settings[row.Setting]; {
			case s.CPUs > 0:
				c.uses = max(c.uses, s.CPUs)
			case p.Compare == ByProcs:
				c.uses = max(c.uses, float64(cmp.Or(s.Procs, cpus)))
			}
		}
	}
	return of
}

// used notes how many CPUs a run without a limit has used. Beside others it may have got fewer than it needs.
func (c *company) used(s Setting, r Run) {
	switch {
	case s.CPUs > 0 || r.Seconds == 0:
	case r.Others > 0:
		c.hidden = true
	default:
		c.uses = max(c.uses, CPUTime.In(r.Metrics)/r.Seconds)
	}
}

// beside are the settings that run together with the first of an order, which is among them.
func (x *execution) beside(order []int, block int) ([]int, error) {
	first := order[0]
	c := x.companies[first]
	if _, can := x.runner.(Several); !can || x.Plan.AtOnce < 2 || len(c.settings) < 2 {
		return order[:1], nil
	}
	var together []int
	for _, i := range order {
		if x.companies[i] == c && !x.skips(i, block) && !x.has(block, i) {
			together = append(together, i)
		}
	}
	if len(together) < 2 {
		return together, nil
	}
	if c.tries < mostTries {
		if err := x.calibrate(c); err != nil {
			return nil, err
		}
	}
	return together[:min(c.most, len(together))], nil
}

// calibrate sees whether there is room for several runs of a group. Where others use the CPUs it is seen again in the next block.
func (x *execution) calibrate(c *company) error {
	loads, harm := x.runner.(Several).Beside()
	n, why := Room(x.Environment.CPUs, c.uses+loads, min(x.Plan.AtOnce, len(c.settings)))
	if c.uses == 0 && c.hidden {
		why = BesideOthers
	}
	c.tries++
	if c.why = cmp.Or(harm, why); c.why != "" {
		if c.why != BesideOthers {
			c.tries = mostTries
		}
		return nil
	}
	base := x.Plan.Settings[c.settings[0]]
	var alone, beside []Run
	for range looked {
		run, err := x.run(base, 0)
		if err != nil {
			return err
		}
		runs, err := x.several(slices.Repeat([]Setting{base}, n), 0)
		if err != nil {
			return err
		}
		alone, beside = append(alone, run), append(beside, runs...)
		if c.why = x.unfit(c, runs); c.why != "" {
			break
		}
	}
	if c.why == "" {
		c.why = x.unlike(base, alone, beside)
	}
	if disturbed := func(r Run) bool { return r.Others > 0 }; !slices.ContainsFunc(slices.Concat(alone, beside), disturbed) {
		c.tries = mostTries
	}
	if c.why == "" {
		c.tries, c.most = mostTries, n
	}
	return nil
}

// unlike says how the base alongside itself differs from the base alone; "": it doesn't.
func (x *execution) unlike(base Setting, alone, beside []Run) string {
	metrics := []Metric{x.Plan.Figures[base.Workload]}
	if x.Plan.Served != nil { // whose tail differs by more than that anyway
		metrics[0] = P50.Metric("p50")
	}
	if cost, has := x.Plan.Costs[base.Workload]; has {
		metrics = append(metrics, cost)
	}
	for _, m := range metrics {
		median := func(runs []Run) float64 {
			var values []float64
			for _, r := range runs {
				if v, known := r.Metrics[m.Unit]; known {
					values = append(values, v)
				}
			}
			return sample.Summarise(values).Median
		}
		if is := median(beside) / median(alone); !(is < 1+alike && is > 1/(1+alike)) {
			if is > 0 && !math.IsInf(is, 0) {
				return fmt.Sprintf("next to a copy of itself its %s is %s of what it is alone", cmp.Or(m.About, m.Unit), quantity.WholeShare(is))
			}
			return fmt.Sprintf("next to a copy of itself its %s is not known", cmp.Or(m.About, m.Unit))
		}
	}
	return ""
}

// unfit says why runs that were made at the same time don't count; "": they do.
func (x *execution) unfit(c *company, runs []Run) string {
	return Unfit(runs, c.uses, x.Environment.CPUs)
}

// Unfit says why runs that were made at the same time on that many CPUs don't count; "": they do. uses is for one that does not report its
// CPU time.
func Unfit(runs []Run, uses float64, cpus int) string {
	used, others := 0.0, 0.0
	for _, r := range runs {
		if r.Error != "" {
			return "one failed next to the others: " + r.Error
		}
		if slices.ContainsFunc(r.Marks, func(m string) bool { return strings.HasPrefix(m, MarkLoad) }) {
			return "next to the others a load was not sent as planned"
		}
		if cpu, known := CPUTime.Of(r.Metrics); known && r.Seconds > 0 {
			used += cpu / r.Seconds
		} else {
			used += uses
		}
		others = max(others, r.Others)
	}
	if used+others > mostUsed*float64(cpus) {
		return fmt.Sprintf("with others %s of %s were used", quantity.UsedCPUs(used+others), quantity.CPUs(float64(cpus)))
	}
	return ""
}

// runAll does a run of each of some settings, at the same time if there are several. None of them: they did not fit, and take turns from
// now on.
func (x *execution) runAll(settings []int, block int) ([]Run, error) {
	c := x.companies[settings[0]]
	if len(settings) == 1 {
		run, err := x.run(x.Plan.Settings[settings[0]], block)
		c.used(x.Plan.Settings[settings[0]], run)
		if c.tries == mostTries && !c.told && c.most < 2 {
			c.told, run.InTurn = true, c.why
		}
		return []Run{run}, err
	}
	list := make([]Setting, len(settings))
	for i, setting := range settings {
		list[i] = x.Plan.Settings[setting]
	}
	runs, err := x.several(list, block)
	if err != nil {
		return nil, err
	}
	if c.why = x.unfit(c, runs); c.why != "" {
		c.most = 1
		return nil, nil
	}
	for i := range runs {
		runs[i].AtOnce = len(runs)
	}
	return runs, nil
}

func (x *execution) several(settings []Setting, block int) ([]Run, error) {
	if err := x.ctx.Err(); err != nil {
		return nil, err
	}
	runs, err := x.runner.(Several).Several(x.ctx, settings, block)
	if x.ctx.Err() != nil { // as in run
		return nil, x.ctx.Err()
	}
	return runs, err
}
