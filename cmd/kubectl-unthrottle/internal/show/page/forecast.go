package page

import (
	"slices"
	"strconv"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// Forecast shows the answer, and for each container what each kind of program will have there.
func Forecast(d *result.Forecast) *sheet.Sheet {
	tone := nothingWrong(d.Nothing(), d.Unread())
	s := &sheet.Sheet{Program: program, Verb: "forecast", Document: d}
	for _, c := range d.Containers {
		title := c.Workload + ", container " + c.Name + ": " + c.Limit
		if c.At.File != "" { // else it is a live object
			title = c.At.String() + "  " + title
		}
		if c.Other {
			s.Add(sheet.Section{Title: title, Blocks: []sheet.Block{sheet.Lines{Tone: sheet.Soft, Texts: []string{"Its program is not a Go program."}}}})
			continue
		}
		table, wrong := programs(d.Nodes, c)
		switch {
		case wrong:
			tone = sheet.Warn
		case c.Open() && tone == sheet.Good:
			tone = sheet.Unsure
		}
		s.Add(sheet.Section{Title: title, Blocks: []sheet.Block{table}})
	}
	s.Add(unread(d.Problems))
	s.Add(differ(d.Cluster))
	if at := d.Looked(); at != "" {
		s.Add(sheet.Section{Quiet: true, Blocks: []sheet.Block{sheet.Lines{Tone: sheet.Soft, Texts: []string{at}}}})
	}
	s.Claims = []sheet.Claim{{Word: "forecast", Whole: true, Tone: tone, Text: d.Verdict}}
	return s
}

// programs is a row for each kind of program, and a column for each node.
func programs(nodes []int, c result.Container) (table *sheet.Table, wrong bool) {
	table = &sheet.Table{Name: "GOMAXPROCS by program", Columns: []sheet.Column{{Title: "program", Left: true, Wrap: true}}}
	for _, n := range nodes {
		table.Columns = append(table.Columns, sheet.Column{Title: "on " + quantity.CPUs(float64(n)), Short: "on " + strconv.Itoa(n)})
	}
	if len(nodes) == 0 {
		table.Columns = append(table.Columns, sheet.Column{Title: "GOMAXPROCS"})
	}
	table.Columns = append(table.Columns, sheet.Column{Left: true, Wrap: true, Under: true}, sheet.Column{Title: "fix", Left: true, Wrap: true, Under: true})
	for _, p := range alike(c.Programs) {
		texts, why, fix := []string{p.Kind}, "", ""
		var tones []sheet.Tone
		for _, ps := range p.OnNode {
			text, tone := number(ps), sheet.Plain
			if ps.Wrong {
				wrong, tone, why, fix = true, sheet.Bad, "wrong: "+ps.Why, ps.Fix
			} else if text == "?" && why == "" {
				why = ps.Why
			}
			texts, tones = append(texts, text), append(tones, tone)
		}
		row := table.Add(append(texts, why, fix)...)
		for i, tone := range tones {
			row.Cells[1+i].Tone = tone
		}
		if fix != "" {
			row.Cells[len(texts)].Tone = sheet.Bad
		}
	}
	return table, wrong
}

// alike is one line where all programs have the same.
func alike(programs []result.Program) []result.Program {
	if len(programs) < 2 {
		return programs
	}
	for _, p := range programs[1:] {
		if !slices.EqualFunc(p.OnNode, programs[0].OnNode, same) {
			return programs
		}
	}
	return []result.Program{{Kind: "any Go program", OnNode: programs[0].OnNode}}
}

// same reports whether there is nothing to tell apart: why a number is right does not matter.
func same(a, b result.Ps) bool {
	return number(a) == number(b) && a.Wrong == b.Wrong && a.Fix == b.Fix && (a.Why == b.Why || number(a) != "?" && !a.Wrong)
}

func number(ps result.Ps) string {
	switch {
	case ps.Unknown():
		return "?"
	case ps.Procs > 0:
		return strconv.Itoa(ps.Procs)
	}
	return "the node's"
}
