package cli

import (
	"cmp"
	"fmt"
	"io"

	"github.com/unthrottle/unthrottle/cmd/internal/command/conduct"
	"github.com/unthrottle/unthrottle/cmd/internal/show/chart"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// A secondScreen draws when something stood still, a row a second.
type secondScreen struct {
	w        io.Writer
	terminal *conduct.Terminal // nil: none
	style    render.Style
	strip    chart.Second
}

func newSecondScreen(w io.Writer, env func(string) string, style render.Style) secondScreen {
	return secondScreen{w: w, terminal: conduct.TerminalOf(w, env), style: style}
}

// periods says how long those are that a row is divided into.
func (s *secondScreen) periods(seconds float64) {
	const usual = 100 // columns, where nothing says how wide the screen is
	s.strip = chart.NewSecond(seconds, cmp.Or(s.style.Width, usual))
}

// say writes a sentence.
func (s *secondScreen) say(tone sheet.Tone, text string) {
	lines := sheet.Lines{Tone: tone, Texts: []string{text}}
	render.Text(s.w, &sheet.Sheet{Sections: []sheet.Section{{Quiet: true, Blocks: []sheet.Block{lines}}}}, s.style)
}

func (s *secondScreen) row(second int, spans []sheet.Span, until float64) string {
	return s.strip.Row(second, spans, until, s.style.Paint)
}

// keep writes a second that is over, in place of what was drawn of it.
func (s *secondScreen) keep(second int, spans []sheet.Span, until float64) {
	s.terminal.Clear()
	fmt.Fprintln(s.w, s.row(second, spans, until))
}
