package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
)

// progress is one line on a terminal that says where the work is; elsewhere it is a plain line now and then.
type progress struct {
	w        io.Writer
	terminal *os.File // nil: none
	silent   bool
	block    int // that was last told of
	shown    bool
}

func newProgress(stdio IO, silent bool) *progress {
	p := &progress{w: stdio.Err, silent: silent}
	if f, ok := stdio.Err.(*os.File); ok && term.IsTerminal(int(f.Fd())) && stdio.Env("TERM") != "dumb" && stdio.Env("CI") == "" {
		p.terminal = f
	}
	return p
}

// note says a step that takes a while.
func (p *progress) note(text string) {
	switch {
	case p.silent:
	case p.terminal != nil:
		p.line(text)
	default:
		fmt.Fprintf(p.w, "unthrottle: %s\n", text)
	}
}

// tell shows a lab's progress.
func (p *progress) tell(name string, at lab.Progress) {
	switch {
	case p.silent:
	case p.terminal != nil:
		p.line(progressText(name, at, p.width()))
	case at.Warmup && p.block == 0:
		fmt.Fprintln(p.w, "unthrottle: warming up")
		p.block = -1
	case !at.Warmup && at.Block != p.block:
		p.block = at.Block
		text := fmt.Sprintf("unthrottle: block %d", at.Block)
		if at.Blocks > 0 {
			text += fmt.Sprintf(" of %d", at.Blocks)
		}
		if at.Left > 0 {
			text += ", " + shortTime(at.Left) + " left"
		}
		fmt.Fprintln(p.w, text)
	}
}

func (p *progress) width() int {
	if width, _, err := term.GetSize(int(p.terminal.Fd())); err == nil && width > 0 {
		return width
	}
	return 80
}

// line puts a text in the place of the one before.
func (p *progress) line(text string) {
	if width := p.width(); utf8.RuneCountInString(text) >= width {
		text = string([]rune(text)[:width-1])
	}
	fmt.Fprintf(p.w, "\r%s\x1b[K", text)
	p.shown = true
}

// done takes the line away.
func (p *progress) done() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// progressText is the line: a bar, where the lab is, and the time that is left.
func progressText(name string, at lab.Progress, width int) string {
	if at.Warmup {
		return "warming up: " + name
	}
	text := fmt.Sprintf("block %d", at.Block)
	if at.Blocks > 0 {
		text += fmt.Sprintf(" of %d", at.Blocks)
	}
	left := ""
	if at.Left > 0 {
		left = "  " + shortTime(at.Left) + " left"
	}
	const bar = 24
	if at.Runs > 0 && width > 70 {
		full := min(bar, bar*at.Done/at.Runs)
		text = strings.Repeat("━", full) + strings.Repeat("─", bar-full) + "  " + text
	}
	return text + "  " + name + left
}

// shortTime writes a time for a line of progress.
func shortTime(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	}
	d = d.Round(time.Second)
	return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
}

// live shows how a load goes on.
func (p *progress) live(at load.Live, plan load.Plan) {
	if p.silent || p.terminal == nil {
		return
	}
	text := "warming up"
	if at.Elapsed >= 0 {
		text = shortTime(at.Elapsed)
		if plan.Duration > 0 {
			text += " of " + shortTime(plan.Duration)
		}
	}
	text += fmt.Sprintf("  %.0f/s", at.Rate)
	if plan.Rate > 0 {
		text += fmt.Sprintf(" of %.0f/s", plan.Rate)
	}
	if at.Last.Sent > 0 {
		text += fmt.Sprintf("  p50 %s  p99 %s", quantity.Brief(at.Last.P50.Seconds()), quantity.Brief(at.Last.P99.Seconds()))
	}
	text += fmt.Sprintf("  open %d", at.Open)
	if at.Failed > 0 {
		text += fmt.Sprintf("  failed %d", at.Failed)
	}
	p.line(text)
}

// window tells what came of a rate that was tried.
func (p *progress) window(w loadtest.Window, left int) {
	if p.silent {
		return
	}
	p.done()
	verdict := "held"
	switch {
	case !w.Valid:
		verdict = "not valid: the generator could not keep up"
	case !w.Held:
		verdict = "failed: " + w.Missed
	}
	fmt.Fprintf(p.w, "unthrottle: %-7s %6s/s  p99 %-8s %s", w.Phase, strconv.FormatFloat(w.Rate, 'f', -1, 64), quantity.Brief(w.P99), verdict)
	if left > 1 {
		fmt.Fprintf(p.w, "  (about %d more)", left-1)
	}
	fmt.Fprintln(p.w)
}
