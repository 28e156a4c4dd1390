package view

import (
	"fmt"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// causeTone is the tone of what a program's standstills come from.
func causeTone(cause string) sheet.Tone {
	switch freeze.Cause(cause) {
	case freeze.Throttled, freeze.Contended:
		return sheet.Bad
	case freeze.None:
		return sheet.Good
	}
	return sheet.Unsure
}

// fold draws spans of time. was is what it was in them.
func fold(wall float64, f report.Folding, was string, spans []sheet.Span) *sheet.Fold {
	return &sheet.Fold{Wall: wall, Period: f.Period, Phase: f.Phase, Refill: f.Refill, Was: was, Spans: spans}
}

// folded says where is what in a drawing of all periods.
func folded(wall float64, f report.Folding, was string) string {
	return "Filled: " + was + ". From left to right " + quantity.Seconds(f.Period) + ", from top to bottom " + quantity.Lasting(wall)
}

// rests is the section of what an answer rests on.
func rests(f sheet.Facts) sheet.Section {
	return sheet.Section{Title: "What it rests on", Quiet: true, Blocks: []sheet.Block{f}}
}

// next are commands that lead on.
func next(advice []report.Advice) sheet.Section {
	var commands sheet.Commands
	for _, a := range advice {
		commands = append(commands, sheet.Command{About: a.Text, Lines: a.Lines})
	}
	return sheet.Section{Title: "Where to go from here", Quiet: true, Blocks: []sheet.Block{commands}}
}

// moment is a time within what was watched, to the millisecond.
func moment(seconds float64) string { return fmt.Sprintf("%.3f s", seconds) }

// shortFunction leaves out the directories of a function's package.
func shortFunction(name string) string {
	head, rest, generic := strings.Cut(name, "[")
	if generic {
		rest = "[" + rest
	}
	return head[strings.LastIndexByte(head, '/')+1:] + rest
}
