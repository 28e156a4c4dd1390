package view

import (
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
)

// Ps shows a line a process, and below what is wrong and how to fix it.
func Ps(d *report.Ps) *sheet.Sheet {
	s := &sheet.Sheet{Verb: "ps", Document: d}
	s.Add(psPrograms(psTable(d.Processes)))
	for _, p := range d.Processes {
		s.Add(sheet.Section{Title: p.Name + ", pid " + strconv.Itoa(p.PID), Blocks: []sheet.Block{sheet.Findings(p.Findings)}})
	}
	s.Add(psLooked(d))
	return s
}

// PsLook shows the table alone, for a screen that is drawn again and again: of so many rows at most, 0 for all.
func PsLook(d *report.Ps, rows int) *sheet.Sheet {
	s := &sheet.Sheet{Verb: "ps", Document: d}
	shown := d.Processes
	if rows > 1 && len(shown) > rows {
		shown = shown[:rows-1]
	}
	t := psTable(shown)
	if more := len(d.Processes) - len(shown); more > 0 {
		t.Notes = []sheet.Note{{Text: "… " + quantity.Plural(more, "more process")}}
	}
	s.Add(psPrograms(t))
	s.Add(psLooked(d))
	return s
}

func psPrograms(t *sheet.Table) sheet.Section {
	return sheet.Section{Title: "Go programs", Quiet: true, Blocks: []sheet.Block{t}}
}

func psTable(processes []report.PsProcess) *sheet.Table {
	t := &sheet.Table{Columns: []sheet.Column{
		{Title: "PID"},
		{Title: "NAME", Left: true, Cut: true},
		{Title: "GO", Left: true, Rank: 4},
		{Title: "GOMAXPROCS", Left: true},
		{Title: "LIMIT"},
		{Title: "CPUS", Rank: 5},
		{Title: "THROTTLED", Rank: 3},
		{Title: "FROZEN", Rank: 1},
		{Title: "CPU", Rank: 2},
		{Title: "VERDICT", Left: true},
	}}
	for _, p := range processes {
		row := sheet.Row{}
		for _, text := range []string{
			strconv.Itoa(p.PID), p.Name, orDash(strings.TrimPrefix(p.GoVersion, "go")), psProcs(p.GOMAXPROCS), psLimit(p.Limit), psCPUs(p.CPUs),
			psShare(p.Share), psFrozen(p.Frozen), psUsed(p.CPU),
		} {
			row.Cells = append(row.Cells, sheet.Cell{Text: text})
		}
		row.Cells = append(row.Cells, sheet.Cell{Text: p.Verdict, Tone: severity(p.Severity)})
		t.Rows = append(t.Rows, row)
	}
	return t
}

// severity is the tone of a verdict.
func severity(s *finding.Severity) sheet.Tone {
	if s == nil {
		return sheet.Good
	}
	return sheet.ToneOf(*s)
}

func psProcs(g report.PsGOMAXPROCS) string {
	if g.Value == nil {
		return dash
	}
	text := strconv.Itoa(*g.Value)
	if g.Proof != report.ProofLive {
		text += "?"
	}
	if g.Source != "" {
		text += " " + psSources[g.Source]
	}
	return text
}

// psSources are short words for where a GOMAXPROCS comes from.
var psSources = map[string]string{
	"environment": "env", "limit": "limit", "cpus": "cpus", "automaxprocs": "automaxprocs", "unthrottle": "unthrottle", "call": "call",
}

func psLimit(l report.Limit) string {
	if l.CPUs != nil {
		return quantity.Hundredths(*l.CPUs)
	}
	return l.State
}

func psCPUs(n int) string {
	if n <= 0 {
		return dash
	}
	return strconv.Itoa(n)
}

func psShare(share *float64) string {
	if share == nil {
		return dash
	}
	return quantity.WholeShare(*share)
}

func psFrozen(f *report.Frozen) string {
	switch {
	case f == nil:
		return dash
	case !f.Exact:
		return "≥" + quantity.WholeShare(f.Share)
	}
	return quantity.WholeShare(f.Share)
}

func psUsed(cpus *float64) string {
	if cpus == nil {
		return dash
	}
	return strconv.FormatFloat(*cpus, 'f', 2, 64)
}

// psLooked says what was looked at.
func psLooked(d *report.Ps) sheet.Section {
	text := quantity.Plural(len(d.Processes), "Go program") + " among " + quantity.Plural(d.Looked, "process")
	if len(d.Processes) == 0 {
		text = "no Go programs among " + quantity.Plural(d.Looked, "process")
	}
	if d.Seconds > 0 {
		text += ", looked at for " + quantity.Seconds(d.Seconds)
	}
	if d.System.Busy != nil {
		text += "; " + quantity.Hundredths(*d.System.Busy) + " of " + quantity.CPUs(float64(d.System.CPUs)) + " busy"
	}
	if d.Refused > 0 {
		text += "; this user may not look into " + quantity.Plural(d.Refused, "process")
	}
	if slices.ContainsFunc(d.Processes, func(p report.PsProcess) bool {
		return p.GOMAXPROCS.Value != nil && p.GOMAXPROCS.Proof != report.ProofLive
	}) {
		text += "; a GOMAXPROCS with ? is predicted, as the process's memory can't be read"
	}
	return sheet.Section{Quiet: true, Blocks: []sheet.Block{sheet.Lines{Tone: sheet.Soft, Texts: []string{text}}}}
}
