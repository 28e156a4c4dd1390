package audit

import (
	"cmp"
	"slices"
	"strings"
)

// Totals are what all workloads come to.
type Totals struct {
	Workloads int `json:"workloads"`
	Pods      int `json:"pods"`
	Programs  int `json:"go_programs_seen"` // by agents
	Measured  int `json:"measured"`         // workloads whose GOMAXPROCS was seen

	Go       map[Go]int      `json:"go"`       // workloads by what is known about their programs
	Verdicts map[Verdict]int `json:"verdicts"` // workloads
	Causes   []Cause         `json:"causes"`   // of what is wrong, the most frequent first
	Muted    int             `json:"muted"`    // findings

	Save       Range   `json:"cpus_to_save"`
	FrozenPods float64 `json:"frozen_pods"` // the time of that many pods was spent standing still, of those that were looked at

	Go126     Simulation `json:"under_go_1_26"`
	CRIO      Simulation `json:"under_crio_injection"`
	Floor     int        `json:"crio_floor"`
	Policy    Simulation `json:"under_policy"`
	Burstable Simulation `json:"burstable_unlimited_unset"` // changed: those that are
}

// A Cause is what is wrong, and how often.
type Cause struct {
	Rule      string `json:"rule"`
	Verdict   string `json:"verdict"`
	Holds     Holds  `json:"holds"`
	Workloads int    `json:"workloads"`
	Pods      int    `json:"pods"`
}

// A Simulation counts workloads by what would become of them.
type Simulation struct {
	Changed  int `json:"changed"`
	Right    int `json:"becomes_right"` // of them: they are wrong now, and would not be
	Scarce   int `json:"less_than_used"`
	Same     int `json:"same"`
	NotKnown int `json:"not_known"`
}

func (s *Simulation) add(c Change) {
	switch c.State {
	case Changed:
		s.Changed++
	case Same:
		s.Same++
	case NotKnown:
		s.NotKnown++
	}
	if c.Scarce {
		s.Scarce++
	}
}

func totals(all []*Workload, o Options) Totals {
	t := Totals{Workloads: len(all), Floor: o.Floor, Go: map[Go]int{}, Verdicts: map[Verdict]int{}, Causes: []Cause{}}
	type so struct {
		rule  string
		holds Holds
	}
	causes := map[so]*Cause{}
	for _, w := range all {
		t.Pods += w.Pods
		t.Programs += w.Cost.Programs
		t.Go[w.Go]++
		t.Verdicts[w.Verdict]++
		if len(w.GOMAXPROCS) > 0 {
			t.Measured++
		}
		t.Muted += w.Muted
		t.Save = t.Save.plus(w.Cost.Save)
		t.FrozenPods += w.Cost.FrozenPods
		t.Go126.add(w.Go126)
		if w.Go126.State == Changed && w.Verdict == Wrong && w.Expected > 0 && w.Go126.To == w.Expected {
			t.Go126.Right++
		}
		t.CRIO.add(w.CRIO)
		t.Policy.add(w.Policy)
		switch {
		case w.Burstable == nil:
			t.Burstable.NotKnown++
		case *w.Burstable:
			t.Burstable.Changed++
		default:
			t.Burstable.Same++
		}
		w.Summary = w.sentence()
		told := map[so]bool{}
		for _, f := range w.Findings {
			k := so{f.Rule, f.Holds}
			if w.Verdict == NoGo || !f.matters() && f.Holds != HoldsElsewhere || told[k] {
				continue
			}
			told[k] = true
			c := causes[k]
			if c == nil {
				c = &Cause{Rule: f.Rule, Verdict: f.Verdict, Holds: f.Holds}
				causes[k] = c
			}
			c.Workloads++
			c.Pods += cmp.Or(f.Pods, w.Pods)
		}
	}
	for _, c := range causes {
		t.Causes = append(t.Causes, *c)
	}
	slices.SortFunc(t.Causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(slices.Index(holding, a.Holds), slices.Index(holding, b.Holds)), cmp.Compare(b.Workloads, a.Workloads), cmp.Compare(b.Pods, a.Pods), strings.Compare(a.Rule, b.Rule))
	})
	return t
}
