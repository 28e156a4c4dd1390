package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
	"github.com/unthrottle/unthrottle/cmd/internal/tune"
)

// tuneProgress shows on a terminal what is being tried, the ranking so far and the time left, in place; elsewhere it writes
// a line a run, and the ranking after each block.
type tuneProgress struct {
	*progress
	lines int // that are on the screen
}

func newTuneProgress(stdio IO, silent bool) *tuneProgress {
	return &tuneProgress{progress: newProgress(stdio, silent)}
}

// done takes the lines away.
func (p *tuneProgress) done() {
	if p.lines > 0 {
		fmt.Fprintf(p.w, "\r\x1b[%dA\x1b[J", p.lines)
		p.lines = 0
	}
	p.progress.done()
}

// note says a step that takes a while.
func (p *tuneProgress) note(text string) {
	p.done()
	p.progress.note(text)
}

func (p *tuneProgress) tell(s *tune.Study, at tune.Progress) {
	if p.silent {
		return
	}
	switch {
	case at.Doing != "":
		p.note(at.Doing)
	case at.Pilot != nil:
		p.done()
		for _, line := range pilotLines(s, at.Pilot) {
			fmt.Fprintf(p.w, "unthrottle: %s\n", line)
		}
	case p.terminal != nil:
		p.board(s, at)
	default:
		p.plain(s, at)
	}
}

// pilotLines tell what was found out, and what comes now.
func pilotLines(s *tune.Study, p *tune.Pilot) (lines []string) {
	lines = append(lines, fmt.Sprintf("by itself it runs with GOMAXPROCS=%d: %s", p.Procs, p.Why))
	if p.Capacity > 0 {
		text := fmt.Sprintf("it can do about %.0f/s", p.Capacity)
		if l := p.Loads[0]; l.Rate > 0 {
			text += fmt.Sprintf("; it gets %s/s", strconv.FormatFloat(l.Rate, 'f', -1, 64))
		}
		text += fmt.Sprintf(", in windows of %v after %v of warm-up", p.Loads[0].Window, p.Loads[0].WarmUp)
		lines = append(lines, text)
	}
	if gc := p.GC; gc != nil && len(p.Levers) > 0 {
		lines = append(lines, fmt.Sprintf("it collects garbage %.0f times a second, of a heap of %d MB: GOGC=%d is tried as well", gc.PerSecond, max(1, gc.Live>>20), p.Levers[0]))
	}
	t, err := s.Search(0)
	if err != nil {
		return lines
	}
	likely, most := t.Left()
	if likely > 0 {
		likely, most = likely*len(p.Loads), most*len(p.Loads)
		var names []string
		for _, c := range t.Standings() {
			names = append(names, c.Candidate.String())
		}
		each := time.Duration(p.PerRun * float64(time.Second))
		text := fmt.Sprintf("tried are %s: about %s and %s", strings.Join(names, ", "), quantity.Plural(likely, "run"), roughly(each*time.Duration(likely)))
		if most > likely {
			text += fmt.Sprintf(", at most %s and %s", quantity.Plural(most, "run"), roughly(each*time.Duration(most)))
		}
		lines = append(lines, text)
	}
	return lines
}

func roughly(d time.Duration) string {
	switch {
	case d < 100*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	default:
		return fmt.Sprintf("%.0f minutes", math.Ceil(d.Minutes()))
	}
}

// plain writes what has happened.
func (p *tuneProgress) plain(s *tune.Study, at tune.Progress) {
	if at.Last != nil {
		fmt.Fprintf(p.w, "unthrottle: %s\n", runLine(s, at.Last))
	}
	if at.Last != nil && at.Last.Search.Phase == search.Explore && (at.Next.Phase != search.Explore || at.Next.Block != at.Last.Search.Block) {
		fmt.Fprintf(p.w, "unthrottle: after block %d, %s left\n", at.Last.Search.Block, shortTime(at.Time))
		for _, line := range ranking(s, at) {
			fmt.Fprintf(p.w, "    %s\n", line)
		}
	}
}

// board draws the ranking and what is being tried in the place of the one before.
func (p *tuneProgress) board(s *tune.Study, at tune.Progress) {
	lines, width, doing := ranking(s, at), p.width(), ""
	if at.Next.Phase == search.Done {
		doing = "done"
	} else {
		doing = fmt.Sprintf("%s %d: GOMAXPROCS=%v  %s left", phaseName(at.Next.Phase), at.Next.Block, at.Next.Candidate(), shortTime(at.Time))
		if full := 24 * at.Done / max(1, at.Done+at.Left); width > 70 {
			doing = strings.Repeat("━", full) + strings.Repeat("─", 24-full) + "  " + doing
		}
	}
	lines = append(lines, doing)
	p.done()
	if room := p.height() - 1; len(lines) > room { // what has left the screen can't be taken away
		lines = append(lines[:max(0, room-1)], doing)
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) >= width {
			line = string([]rune(line)[:max(0, width-2)]) + "…"
		}
		fmt.Fprintln(p.w, line)
	}
	p.lines = len(lines)
}

func (p *tuneProgress) height() int {
	if _, height, err := term.GetSize(int(p.terminal.Fd())); err == nil && height > 0 {
		return height
	}
	return 24
}

func phaseName(phase search.Phase) string {
	switch phase {
	case search.Explore:
		return "block"
	case search.Confirm:
		return "pair"
	}
	return string(phase)
}

// runLine tells a run.
func runLine(s *tune.Study, r *tune.Run) string {
	text := fmt.Sprintf("%-5s %2d  GOMAXPROCS=%-3v", phaseName(r.Search.Phase), r.Search.Block, r.Search.Candidate())
	if r.Error != "" {
		why, _, _ := strings.Cut(r.Error, "\n")
		return text + "  failed: " + why
	}
	if !r.Valid {
		return text + "  not valid: " + strings.Join(r.Notes, "; ")
	}
	m := r.Metrics
	switch s.Plan.Kind {
	case tune.JobKind:
		text += fmt.Sprintf("  time %s  CPU %s", span(lab.WallTime.In(m)), span(lab.CPUTime.In(m)))
	case tune.GoBenchKind:
		text += fmt.Sprintf("  time %s  CPU %s an operation", span(lab.OpTime.In(m)), span(lab.CPUPerOp.In(m)))
	default:
		load := s.Pilot.Loads[r.Load]
		latency := "–" // the generator was late
		if v, known := load.TailMeasure().Of(m); known {
			latency = span(v)
		}
		text += fmt.Sprintf("  %s %-8s CPU %s a request", load.Tail, latency, span(lab.CPUPerRequest.In(m)))
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

// ranking is a line for each candidate, the best first.
func ranking(s *tune.Study, at tune.Progress) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.DiscardEmptyColumns)
	for i, c := range at.Rank {
		mark := " "
		if i == 0 && c.Runs > 0 {
			mark = "→"
		}
		fmt.Fprintf(w, "%s %s", mark, c.Candidate)
		if c.Current {
			fmt.Fprint(w, " (current)")
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
				fmt.Fprintf(w, "\tthrottled %2.0f %%", 100*e.Median)
				continue
			default:
				continue
			}
			fmt.Fprintf(w, "\t%s %s\t%s", name, span(e.Median), versus(e, c.Current))
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
func versus(e search.StandingEffect, current bool) string {
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
