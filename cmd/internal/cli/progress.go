package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
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
