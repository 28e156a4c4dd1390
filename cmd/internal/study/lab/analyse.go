package lab

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
)

// An Analysis is what the runs of a study say together.
type Analysis struct {
	Groups []Group
	Missed int // runs without figures
}

// A Group holds settings that differ in one factor only, and are compared with the first of them.
type Group struct {
	Common Setting // what they have in common
	Figure Metric
	Cost   *Metric // the other one that they are compared by; nil: none
	Rows   []Row   // the first is the base
	Claim  Claim
}

// A Row is one setting. Its JSON is part of the document of bench.
type Row struct {
	Setting    int                       `json:"setting"`              // its number in the plan
	Name       string                    `json:"name"`                 // the compared factor's value: "2", or "default (2)"
	GOMAXPROCS int                       `json:"gomaxprocs,omitempty"` // that the program had; 0: unknown, or not always the same
	Runs       int                       `json:"run_count"`
	Failed     int                       `json:"failed,omitempty"`
	Metrics    map[string]sample.Summary `json:"metrics"`
	Front      bool                      `json:"on_front,omitempty"` // no other beats it in figure and cost, where there are both
	Comparison *sample.Comparison        `json:"-"`                  // with the base, by the figure; nil for the base itself
	Cost       *sample.Comparison        `json:"-"`                  // by the cost; nil: none
	Whole      *sample.Comparison        `json:"-"`                  // by the p99 of whole windows, of a ReadyTail
	Failing    bool                      `json:"-"`                  // more of its requests fail than of the base's
}

// A Claim is what may be said of a group.
type Claim struct {
	Kind  ClaimKind
	Row   int  // that it is about: the best, the trade, or the one that is in doubt
	Gain  Side // that it is better in, of a group with a cost
	Loss  Side // of a trade
	Shown bool // whether the loss is shown; false: it may not exist
}

// A ClaimKind is a kind of claim.
type ClaimKind string

const (
	Set       ClaimKind = "set"       // Row is better than the base
	Trade     ClaimKind = "trade"     // Row is better than the base in one metric, and worse in the other, or not shown not to be
	Keep      ClaimKind = "keep"      // none is better than the base, and that is sure
	Undecided ClaimKind = "undecided" // Row may be better than the base
	TooFew    ClaimKind = "too few"   // blocks
	Alone     ClaimKind = "alone"     // there is nothing to compare
	Failed    ClaimKind = "failed"    // there are no figures
)

// The kinds where builds are compared. A build isn't something to set: the question is whether the newer one is worse.
const (
	Worse   ClaimKind = "worse"    // Row is, in something
	Better  ClaimKind = "better"   // Row is, and in nothing worse
	NoWorse ClaimKind = "no worse" // none is, by more than the margin
)

// Analyse says what the runs of a study mean. The comparisons of all groups are one family: each that is added makes a
// claim harder.
func Analyse(s *Study) Analysis { return s.analyse(s.Plan.Looks) }

// analyse is Analyse at one of the plan's looks.
func (s *Study) analyse(look int) Analysis {
	var a Analysis
	var family []*sample.Comparison
	for _, g := range groups(s.Plan) {
		for i := range g.Rows {
			row := &g.Rows[i]
			s.summarise(row)
			row.Name = s.Plan.rowName(row)
			a.Missed += row.Failed
			if i > 0 && row.Runs > 0 && g.Rows[0].Runs > 0 {
				family = append(family, s.contrast(&g, row)...)
			}
		}
		a.Groups = append(a.Groups, g)
	}
	sample.Decide(family, sample.LookPart(look, s.Plan.Looks))
	for i := range a.Groups {
		g := &a.Groups[i]
		if s.Plan.Compare == ByBuild {
			g.Claim = g.change()
		} else {
			g.Claim = g.claim()
		}
		g.markFront()
	}
	return a
}

// contrast compares a row with the base, and returns the comparisons that decide.
func (s *Study) contrast(g *Group, row *Row) (decide []*sample.Comparison) {
	base := g.Rows[0].Setting
	row.Comparison = s.compare(base, row.Setting, g.Figure)
	if g.Figure.Unit == string(ReadyTail) {
		row.Whole = s.compare(base, row.Setting, P99.Metric(""))
	}
	row.Failing = failsMore(s.pairs(base, row.Setting, string(ErrorShare)))
	if g.Cost == nil {
		return []*sample.Comparison{row.Comparison}
	}
	row.Cost = s.compare(base, row.Setting, *g.Cost)
	if s.Plan.Compare == ByBuild && row.Cost.Pairs == 0 { // what can't be known is not required
		row.Cost = nil
		return []*sample.Comparison{row.Comparison}
	}
	return []*sample.Comparison{row.Comparison, row.Cost}
}

// groups puts settings together that differ in the compared factor only, in the plan's order.
func groups(p Plan) (groups []Group) {
	at := map[Setting]int{}
	for i, s := range p.Settings {
		common := s.Without(p.Compare)
		k, ok := at[common]
		if !ok {
			k = len(groups)
			at[common] = k
			g := Group{Common: common, Figure: p.Figures[s.Workload]}
			if cost, ok := p.Costs[s.Workload]; ok {
				g.Cost = &cost
			}
			groups = append(groups, g)
		}
		groups[k].Rows = append(groups[k].Rows, Row{Setting: i})
	}
	return groups
}

// rowName is what distinguishes a setting from the others in its group.
func (p Plan) rowName(row *Row) string {
	s := p.Settings[row.Setting]
	if p.Compare == ByProcs && s.Procs == 0 && row.GOMAXPROCS > 0 {
		return fmt.Sprintf("default (%d)", row.GOMAXPROCS)
	}
	return cmp.Or(s.Value(p.Compare), "this")
}

// summarise fills in a row from its setting's runs.
func (s *Study) summarise(row *Row) {
	values := map[string][]float64{}
	procs := -1
	for _, r := range s.Runs {
		if r.Setting != row.Setting {
			continue
		}
		if r.Error != "" {
			row.Failed++
			continue
		}
		row.Runs++
		if procs == -1 {
			procs = r.GOMAXPROCS
		} else if procs != r.GOMAXPROCS {
			procs = 0
		}
		for unit, v := range r.Metrics {
			values[unit] = append(values[unit], v)
		}
	}
	row.GOMAXPROCS = max(procs, 0)
	row.Metrics = map[string]sample.Summary{}
	for unit, v := range values {
		row.Metrics[unit] = sample.Summarise(v)
	}
}

// pairs are the values that two settings have of a metric in the blocks in which both have one. A block in which one of
// them failed has no pair.
func (s *Study) pairs(base, other int, unit string) (of, to []float64) {
	values := map[int]map[int]float64{base: {}, other: {}} // by setting and block
	var blocks []int
	for _, r := range s.Runs {
		v, known := r.Metrics[unit]
		if own := values[r.Setting]; own != nil && known && r.Error == "" {
			own[r.Block] = v
			blocks = append(blocks, r.Block)
		}
	}
	slices.Sort(blocks)
	for _, block := range slices.Compact(blocks) {
		a, ran := values[base][block]
		if b, both := values[other][block]; ran && both {
			of, to = append(of, a), append(to, b)
		}
	}
	return of, to
}

// compare pairs the runs of two settings by their blocks.
func (s *Study) compare(base, other int, m Metric) *sample.Comparison {
	var a, b []float64
	of, to := s.pairs(base, other, m.Unit)
	for i := range of {
		if of[i] != 0 && to[i] != 0 {
			a, b = append(a, of[i]), append(b, to[i])
		}
	}
	c := sample.Compare(a, b)
	c.Margin = s.Plan.margin(m)
	if m.Better == Higher {
		c.Better = sample.Higher
	}
	c.Inferior = inferior(a, b, c)
	return &c
}

// inferior is the P of being worse than the base by the margin or more: what the test says against a base that is worse by the margin.
func inferior(base, other []float64, of sample.Comparison) float64 {
	allowed := make([]float64, len(base))
	for i, v := range base {
		if allowed[i] = v * (1 + of.Margin); of.Better == sample.Higher {
			allowed[i] = v / (1 + of.Margin)
		}
	}
	c := sample.Compare(allowed, other)
	if of.Better == sample.Lower == (c.Ratio < 1) {
		return c.P / 2
	}
	return 1 - c.P/2
}
