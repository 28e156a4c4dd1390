// What does the user see of work that goes on? On a terminal lines that are redrawn, elsewhere plain lines now and then.

package conduct

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// Progress says where the work is.
type Progress struct {
	w        io.Writer
	terminal *Terminal // nil: none
	silent   bool
	block    int           // the last one reported, -1: the warm-up
	at       time.Duration // when that was
}

// NewProgress says it on a verb's stderr, unless it is silent.
func NewProgress(stdio verb.IO, silent bool) *Progress {
	p := &Progress{w: stdio.Err, silent: silent}
	if stdio.Env("CI") == "" {
		p.terminal = TerminalOf(stdio.Err, stdio.Env)
	}
	return p
}

// Note says a step that takes a while.
func (p *Progress) Note(text string) {
	text = plain.Line(text) // before it is cut
	switch {
	case p.silent:
	case p.terminal != nil:
		p.terminal.Draw(p.terminal.Fit(text))
	default:
		p.Say(text)
	}
}

// Say writes a line that stays.
func (p *Progress) Say(text string) {
	p.Done()
	fmt.Fprintf(p.w, "unthrottle: %s\n", plain.Line(text))
}

// Done removes what was drawn.
func (p *Progress) Done() {
	if p != nil {
		p.terminal.Clear()
	}
}

// bar is how much of something is done, where there is room for it.
func (p *Progress) bar(done, all int) string {
	const size = 24
	if width, _ := p.terminal.Size(); all <= 0 || width <= 70 {
		return ""
	}
	full := min(size, size*done/all)
	return strings.Repeat("━", full) + strings.Repeat("─", size-full) + "  "
}

// everyLine is how often a line about blocks is written where there is no terminal: blocks may take a tenth of a second each.
const everyLine = time.Second

// Lab shows a lab's progress.
func (p *Progress) Lab(name string, at lab.Progress) {
	text := at.String()
	switch {
	case p.silent:
	case at.Short != "":
		p.Say(at.Short)
	case p.terminal != nil && at.Warmup:
		p.Note(text + ": " + name)
	case p.terminal != nil:
		p.Note(p.bar(at.Done, at.Runs) + text + "  " + name)
	case at.Warmup && p.block == 0:
		p.Say(text)
		p.block = -1
	case !at.Warmup && at.Block != p.block && (p.block <= 0 || at.Block == at.Blocks || at.Elapsed-p.at >= everyLine):
		p.Say(text)
		p.block, p.at = at.Block, at.Elapsed
	}
}

// Tune shows a tune's progress: what is being tried, the ranking so far and the time left. On a terminal that is in place,
// elsewhere there is a line a run, and the ranking after each block.
func (p *Progress) Tune(s *tune.Study, at tune.Progress) {
	switch {
	case p.silent:
	case at.Doing != "":
		p.Note(at.Doing)
	case at.Short != "":
		p.Say(at.Short)
	case at.Pilot != nil:
		for _, line := range s.PilotLines() {
			p.Say(line)
		}
	case p.terminal != nil:
		_, height := p.terminal.Size()
		lines := s.Ranking(at)
		doing := at.String()
		if at.Next.Phase != search.Done {
			doing = p.bar(at.Done, at.Done+at.Left) + doing
		}
		lines = append(lines[:min(len(lines), max(0, height-2))], doing)
		for i, line := range lines {
			lines[i] = p.terminal.Fit(plain.Line(line))
		}
		p.terminal.Draw(lines...)
	case at.Last != nil:
		p.Say(s.RunLine(at.Last))
		if run := at.Last.Search; run.Phase == search.Race && at.Next.Block != run.Block {
			p.Say(fmt.Sprintf("after block %d, %s left", run.Block, quantity.Countdown(at.Time)))
			for _, line := range s.Ranking(at) {
				fmt.Fprintf(p.w, "    %s\n", plain.Line(line))
			}
		}
	}
}

// Load shows how a load goes on.
func (p *Progress) Load(at load.Live, plan load.Plan) {
	if p.terminal != nil {
		p.Note(loadtest.LiveWords(at, plan))
	}
}

// Window says what came of a rate that was tried.
func (p *Progress) Window(w loadtest.Window, left int) {
	if p.silent {
		return
	}
	text := w.Words()
	if left > 0 {
		text += fmt.Sprintf("  (at most %d more)", left)
	}
	p.Say(text)
}
