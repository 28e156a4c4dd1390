package lab

import (
	"github.com/unthrottle/unthrottle/cmd/internal/sample"
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
	Rows   []Row // the first is the base
	Claim  Claim
}

// A Row is one setting.
type Row struct {
	Setting    int
	Runs       int
	Failed     int
	GOMAXPROCS int // that the program had; 0: not told, or not always the same
	Summaries  map[string]sample.Summary
	Comparison *sample.Comparison // with the base, by the figure; nil for the base itself
	More       int                // about how many blocks more would settle it; 0: settled, or not to be told
}

// A Claim is what may be said of a group.
type Claim struct {
	Kind ClaimKind
	Row  int // that it is about: the best, or the one that is in doubt
}

// A ClaimKind is a kind of claim.
type ClaimKind string

const (
	Set       ClaimKind = "set"       // Row is better than the base
	Keep      ClaimKind = "keep"      // none is better than the base, and that is sure
	Undecided ClaimKind = "undecided" // Row may be better than the base
	TooFew    ClaimKind = "too few"   // blocks
	Alone     ClaimKind = "alone"     // there is nothing to compare
	Failed    ClaimKind = "failed"    // there are no figures
)

// Analyse says what the runs of a study mean. The comparisons of all groups are one family: each that is added makes a
// claim harder.
func Analyse(s *Study) Analysis {
	var a Analysis
	var family []*sample.Comparison
	for _, g := range groups(s.Plan) {
		for i := range g.Rows {
			row := &g.Rows[i]
			s.summarise(row)
			a.Missed += row.Failed
			if i > 0 && row.Runs > 0 && g.Rows[0].Runs > 0 {
				row.Comparison = s.compare(g.Rows[0].Setting, row.Setting, g.Figure)
				family = append(family, row.Comparison)
			}
		}
		a.Groups = append(a.Groups, g)
	}
	sample.Decide(family, s.Plan.Margin)
	for i := range a.Groups {
		g := &a.Groups[i]
		for j := range g.Rows {
			if c := g.Rows[j].Comparison; c != nil {
				g.Rows[j].More = sample.More(*c, s.Plan.Margin)
			}
		}
		g.Claim = g.claim()
	}
	return a
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
			groups = append(groups, Group{Common: common, Figure: p.Figures[s.Workload]})
		}
		groups[k].Rows = append(groups[k].Rows, Row{Setting: i})
	}
	return groups
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
	row.Summaries = map[string]sample.Summary{}
	for unit, v := range values {
		row.Summaries[unit] = sample.Summarise(v)
	}
}

// compare pairs the runs of two settings by their blocks. A block in which one of them failed has no pair.
func (s *Study) compare(base, other int, figure Metric) *sample.Comparison {
	blocks := map[int][2]float64{}
	var order []int
	for _, r := range s.Runs {
		if r.Error != "" || r.Setting != base && r.Setting != other {
			continue
		}
		pair, seen := blocks[r.Block]
		if !seen {
			order = append(order, r.Block)
		}
		if r.Setting == base {
			pair[0] = r.Metrics[figure.Unit]
		} else {
			pair[1] = r.Metrics[figure.Unit]
		}
		blocks[r.Block] = pair
	}
	var a, b []float64
	for _, block := range order {
		if pair := blocks[block]; pair[0] != 0 && pair[1] != 0 {
			a, b = append(a, pair[0]), append(b, pair[1])
		}
	}
	c := sample.Compare(a, b)
	if figure.Better == Higher {
		c.Better = sample.Higher
	}
	return &c
}

// claim says what may be said of a group once its comparisons are decided.
func (g *Group) claim() Claim {
	if g.Rows[0].Runs == 0 {
		return Claim{Kind: Failed}
	}
	if len(g.Rows) == 1 {
		return Claim{Kind: Alone}
	}
	best, doubtful := 0, 0
	var few bool
	for i, row := range g.Rows {
		c := row.Comparison
		if c == nil {
			continue
		}
		few = few || c.Verdict == sample.VerdictTooFew
		switch {
		case c.Verdict == sample.VerdictBetter && (best == 0 || ahead(c, g.Rows[best].Comparison)):
			best = i
		case c.Verdict == sample.VerdictUndecided && (doubtful == 0 || ahead(c, g.Rows[doubtful].Comparison)):
			doubtful = i
		}
	}
	switch {
	case best > 0:
		return Claim{Set, best}
	case few:
		return Claim{Kind: TooFew}
	case doubtful > 0:
		return Claim{Undecided, doubtful}
	}
	return Claim{Kind: Keep}
}

// ahead reports whether a's estimate is better than b's.
func ahead(a, b *sample.Comparison) bool {
	if a.Better == sample.Higher {
		return a.Ratio > b.Ratio
	}
	return a.Ratio < b.Ratio
}
