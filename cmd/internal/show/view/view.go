// Package view answers: what of a document does a screen show, and in which order? In goes a document of package report, out
// comes a sheet, which knows no width, no colour and no markup. One file a verb.
//
// It arranges, and writes numbers by package quantity. Sentences that answer, judge or advise are made in report; here is
// only what names a number: "50 ms of each 100 ms".
package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// Most texts name one number after another, some of which are not known or not worth saying. The functions below put such
// texts together: an empty part is left out with the words around it.

// when returns text if it holds, else "".
func when(holds bool, text string) string {
	if holds {
		return text
	}
	return ""
}

// around puts words around text, unless it is empty.
func around(before, text, after string) string {
	return when(text != "", before+text+after)
}

// known applies of to what a document may lack, and returns the zero value where it does.
func known[T, U any](v *T, of func(T) U) (u U) {
	if v != nil {
		u = of(*v)
	}
	return u
}

// joined joins texts that are not empty.
func joined(by string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), by)
}

// spent writes how long something took, if it took any time.
func spent(seconds *float64) string {
	return known(seconds, func(s float64) string { return when(s > 0, quantity.Seconds(s)) })
}

// quota is the CPU time that a limit gives.
func quota(quotaSeconds, periodSeconds float64) string {
	return quantity.Seconds(quotaSeconds) + " of each " + quantity.Seconds(periodSeconds)
}

// throttled says in how many of the kernel's periods something was throttled, and for how long.
func throttled(n, of int64, seconds float64) string {
	if n == 0 {
		return "none of " + quantity.Plural(of, "period")
	}
	return periods(n, of) + " (" + quantity.Part(n, of) + "), " + quantity.Seconds(seconds) + " summed over CPUs"
}

// limitDid says what a limit did, if there is one; share is that of the periods, if there were any.
func limitDid(limit, share *float64, n, of int64, seconds float64) string {
	if share == nil {
		return when(limit != nil, "no periods were counted")
	}
	return "in " + throttled(n, of, seconds)
}

func periods(n, of int64) string {
	return quantity.Count(n) + " of " + quantity.Plural(of, "period")
}

// dash stands for what is not known in a table.
const dash = "–"

func orDash(text string) string { return cmp.Or(text, dash) }

// tones says how the word of an answer is intended. One that is not here is not settled, or neither good nor bad.
var tones = map[string]sheet.Tone{
	string(lab.Set): sheet.Good, string(lab.Keep): sheet.Strong, string(lab.Failed): sheet.Bad, string(lab.Trade): sheet.Warn,
	string(lab.Better): sheet.Good, string(lab.NoWorse): sheet.Good, string(lab.Worse): sheet.Bad, "held": sheet.Good, "missed": sheet.Bad,
	string(freeze.None): sheet.Good, string(freeze.Throttled): sheet.Bad, string(freeze.Contended): sheet.Bad,
}

// A frontRow is a setting that no other beats in all that counts: what to call it, what it does to CPU time and to the tail compared with
// the base, a change and its interval each, and the flag that accepts it.
type frontRow struct {
	sheet.Row
	changes []sheet.Cell
	take    string
}

// frontTitle is above such settings.
const frontTitle = "Settings that no other beats in both"

// frontTable shows them if there are several to choose from.
func frontTable(factor, tail string, rows []frontRow) *sheet.Table {
	if len(rows) < 2 {
		return nil
	}
	cpu, tail := "CPU change", tail+" change"
	t := &sheet.Table{Name: "frontier", Columns: []sheet.Column{
		{Title: factor, Left: true},
		{Title: cpu},
		{Title: "interval", With: cpu, Rank: 3},
		{Title: tail},
		{Title: "interval", With: tail, Rank: 2},
		{Title: "to take it", Left: true, Rank: 1},
	}}
	for _, r := range rows {
		r.Cells = append(append(r.Cells, r.changes...), sheet.Cell{Text: r.take})
		t.Rows = append(t.Rows, r.Row)
	}
	return t
}

// limitKind says what kind of limit held a program.
func limitKind(kind string) string {
	return map[string]string{
		"cgroup-v1": "cgroup v1", "cgroup-v2": "cgroup v2", "systemd": "a systemd scope", "emulated": "emulated: not the kernel's own limit",
	}[kind]
}

// everyPeriod draws when a program stood still, cut into periods.
func everyPeriod(wall float64, f report.Folding, was string, spans []sheet.Span) sheet.Section {
	s := quiet("Every period", &sheet.Fold{Wall: wall, Period: f.Period, Phase: f.Phase, Refill: f.Refill, Second: f.Second, Was: was, Spans: spans})
	s.About = "Filled: " + was + ". From left to right " + quantity.Seconds(f.Period) + ", from top to bottom " + quantity.Lasting(wall)
	return s
}

// quiet is a section that a terminal shows without its title.
func quiet(title string, blocks ...sheet.Block) sheet.Section {
	return sheet.Section{Title: title, Quiet: true, Blocks: blocks}
}

// detail is a section for pages only.
func detail(title string, blocks ...sheet.Block) sheet.Section {
	return sheet.Section{Title: title, Detail: true, Blocks: blocks}
}

// folded is one that a page shows when it is asked for.
func folded(title string, blocks ...sheet.Block) sheet.Section {
	return sheet.Section{Title: title, Detail: true, Folded: true, Blocks: blocks}
}

// wrong is the section of what rules found.
func wrong(findings []finding.Finding) sheet.Section {
	return sheet.Section{Title: "What is wrong", Blocks: []sheet.Block{sheet.Findings(findings)}}
}

// next lists the commands to go on with.
func next(advice []report.Advice) sheet.Section {
	var commands sheet.Commands
	for _, a := range advice {
		commands = append(commands, sheet.Command{About: a.Text, Lines: a.Lines})
	}
	return quiet("Where to go from here", commands)
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

// bursts says how many requests arrive at once; "" for one.
func bursts(n int) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf("%d at once", n)
}

// arrivals says how requests are spread over time.
func arrivals(of string) string {
	words := map[load.Arrivals]string{load.Poisson: "Poisson arrivals", load.Constant: "evenly spaced", load.Recorded: "recorded arrivals"}
	return cmp.Or(words[load.Arrivals(of)], of)
}
