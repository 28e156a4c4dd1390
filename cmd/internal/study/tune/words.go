package tune

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
)

// String is what is being run, and the time that is left.
func (p Progress) String() string {
	if p.Next.Phase == search.Done {
		return "done"
	}
	return fmt.Sprintf("%s %d: %s  %s left", phaseName(p.Next.Phase), p.Next.Block, p.Name, quantity.Countdown(p.Time))
}

func phaseName(phase search.Phase) string {
	switch phase {
	case search.Race:
		return "block"
	case search.Confirm:
		return "pair"
	}
	return string(phase)
}

// PilotLines tell what was found out, and what comes now.
func (s *Study) PilotLines() []string {
	p := s.Pilot
	var lines []string
	if s.Plan.ByGo() {
		lines = append(lines, fmt.Sprintf("it runs with GOMAXPROCS=%d by itself: %s", p.Procs, p.Why))
	}
	if p.Capacity > 0 {
		text := fmt.Sprintf("a closed loop gets about %s out of it", quantity.PerSecond(p.Capacity))
		if l := p.Loads[0]; l.Rate > 0 {
			text += "; it will be sent " + quantity.PerSecond(l.Rate)
			if l.Share > 0 {
				text += fmt.Sprintf(", which uses %s of its limit", quantity.WholeShare(l.Share))
			}
		}
		first, later := s.WindowsAt(0)
		text += ", in windows of " + quantity.Lasting(first.Seconds())
		if later != first {
			text += ", later " + quantity.Lasting(later.Seconds()) + ","
		}
		text += " after " + quantity.Lasting(p.Loads[0].WarmUp.Seconds()) + " of warm-up"
		lines = append(lines, text)
	}
	if l := p.Loads[0]; s.Plan.Foreign() {
		text := fmt.Sprintf("the load takes %s and tells its %s", quantity.Lasting(l.Window.Seconds()), l.Tail)
		if l.Tail == "" {
			text = fmt.Sprintf("the load takes %s and tells no percentile: settings are compared by the time and the CPU time of a unit of work", quantity.Lasting(l.Window.Seconds()))
		}
		if l.WarmUp > 0 && s.Plan.Load != "" {
			text += "; it runs twice, as the first time the server was not warm"
		}
		lines = append(lines, text)
	}
	if gc := p.GC; gc != nil && len(p.Levers) > 0 {
		lines = append(lines, fmt.Sprintf("it collects a heap of %d MB %.0f times a second: GOGC=%d is tried as well", max(1, gc.Live>>20), gc.PerSecond, p.Levers[0]))
	}
	if s.Plan.Floor {
		lines = append(lines, fmt.Sprintf("it links a heap floor, which is off: %s=%s is tried as well", HeapFloor, floor))
	}
	t, err := s.Search(0)
	if err != nil {
		return lines
	}
	likely, most := t.Left()
	if likely == 0 {
		return lines
	}
	var names []string
	for _, c := range t.Standings() {
		names = append(names, s.Plan.Short(c.Candidate))
	}
	_, window := s.WindowsAt(0) // a short budget has shorter ones than the pilot reckoned with
	each := p.PerRun - (p.Loads[0].Window - window).Seconds()
	lasts := func(runs int) float64 { return each * float64(runs*len(p.Loads)) }
	take := func(runs int) string {
		return quantity.Plural(runs*len(p.Loads), "run") + " in " + rough(lasts(runs))
	}
	left := math.Inf(1)
	if s.Plan.Budget > 0 {
		left = max(0, s.Plan.Budget.Seconds()-p.Seconds)
	}
	text, separator := "GOMAXPROCS to try", ", "
	if !s.Plan.ByProcs() {
		text, separator = "to try", "; "
	}
	text += fmt.Sprintf(": %s; about %s", strings.Join(names, separator), take(likely))
	switch {
	case lasts(likely) > left:
		text += ", of which the budget has " + rough(left)
	case lasts(most) > left:
		text += ", at most as many as the budget's " + rough(left) + " allow"
	case most > likely:
		text += ", at most " + take(most)
	}
	if lines = append(lines, text); s.TooShort() != "" {
		lines = append(lines, s.TooShort())
	}
	return lines
}

// TooShort says that the budget has no time for a verdict, and how much would have; "" if it has.
func (s *Study) TooShort() string {
	const least = 2 // blocks that a verdict takes
	if s.Plan.Budget == 0 || s.Pilot == nil || s.settings() == 1 || s.Plan.Budget >= s.budgetFor(least) {
		return ""
	}
	return fmt.Sprintf("a budget of %s is too short for a verdict, which takes about %s; try --budget %v",
		quantity.Lasting(s.Plan.Budget.Seconds()), quantity.Lasting(s.budgetFor(least).Seconds()), s.budgetFor(shortBlocks))
}

// tooLong says, after the first blocks, that what is open takes longer than the budget has; "" if it doesn't, or if that is not known.
func (x *execution) tooLong(t *search.Tune, load int, next search.TuneRun) string {
	if x.Plan.Budget == 0 || next.Phase != search.Race || next.Block <= shortBlocks {
		return ""
	}
	needs, has := float64(t.Verdict().More)*x.perRun(load, next.Block)/x.Pace(), x.until-x.clock()
	if needs <= has {
		return ""
	}
	return fmt.Sprintf("what is still open takes about %s, and the budget has %s: --budget %ds has the time",
		rough(needs), rough(has), int(math.Ceil(x.clock()+needs)))
}

func rough(seconds float64) string {
	if seconds < 100 {
		return fmt.Sprintf("%.0f s", seconds)
	}
	return fmt.Sprintf("%.0f minutes", math.Ceil(seconds/60))
}

// RunLine describes a run in a line.
func (s *Study) RunLine(r *Run) string {
	text := fmt.Sprintf("%-5s %2d  %-14s", phaseName(r.Search.Phase), r.Search.Block, s.Plan.Setting(r.Search.Candidate()))
	if r.Error != "" {
		why, _, _ := strings.Cut(r.Error, "\n")
		return text + "  failed: " + why
	}
	if !r.Valid {
		return text + "  not valid: " + strings.Join(r.Notes, "; ")
	}
	m := r.Metrics
	switch s.Plan.Kind {
	case JobKind:
		text += fmt.Sprintf("  time %s  CPU %s", span(lab.WallTime.In(m)), span(lab.CPUTime.In(m)))
	case GoBenchKind:
		text += fmt.Sprintf("  time %s  CPU %s an operation", span(lab.OpTime.In(m)), span(lab.CPUPerOp.In(m)))
	default:
		load, latency := s.Pilot.Loads[r.Load], "–"
		if v := load.tailOf(m); v > 0 {
			latency = span(v)
		} else if load.Tail == "" {
			latency = span(lab.OpTime.In(m))
		}
		text += fmt.Sprintf("  %s %-8s CPU %s per %s", cmp.Or(load.Tail, "time"), latency, span(lab.CPUPerRequest.In(m)), s.Plan.Unit())
	}
	if v, ok := lab.ThrottledShare.Of(m); ok {
		text += fmt.Sprintf("  throttled %.0f %%", 100*v)
	}
	if !r.SLOHeld {
		text += "  SLO missed"
	}
	return text
}

// span writes a time in seconds; that of an operation may be less than a nanosecond.
func span(v float64) string {
	if v < 1e-6 {
		return fmt.Sprintf("%.3g ns", v*1e9)
	}
	return quantity.Brief(v)
}

// Ranking is a line for each candidate, the best first.
func (s *Study) Ranking(at Progress) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.DiscardEmptyColumns)
	for i, c := range at.Rank {
		mark := " "
		if i == 0 && c.Runs > 0 {
			mark = "→"
		}
		fmt.Fprintf(w, "%s %s", mark, s.Plan.Short(c.Candidate))
		switch own := (search.Candidate{Procs: s.Pilot.Procs}); {
		case c.Candidate == own:
			fmt.Fprint(w, " (current)")
		case c.Current: // in its place
			fmt.Fprint(w, " (base)")
		}
		if c.Runs == 0 {
			fmt.Fprint(w, "\t–")
		}
		for _, e := range c.Effects {
			name := ""
			switch e.Metric {
			case search.P99:
				name = s.Pilot.Loads[at.Load].Tail
			case search.CPU:
				name = "CPU"
			case search.Time:
				name = "time"
			case search.Throttled:
				fmt.Fprintf(w, "\tthrottled %2.0f %%", 100*e.To)
				continue
			default:
				continue
			}
			fmt.Fprintf(w, "\t%s %s\t%s", name, span(e.To), versus(e, c.Current))
		}
		if c.Dropped != nil {
			fmt.Fprint(w, "\tdropped")
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return lines
}

// versus is such as −58 % (−70 to −41).
func versus(e search.Effect, current bool) string {
	if e.Ratio == 0 || current {
		return ""
	}
	text := signed(e.Ratio) + " %"
	if e.Hi > 0 {
		text += " (" + signed(e.Lo) + " to " + signed(e.Hi) + ")"
	}
	return text
}

func signed(ratio float64) string {
	text := fmt.Sprintf("%+.0f", 100*(ratio-1))
	return strings.Replace(text, "-", "−", 1)
}
