package view

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
)

// Ps shows a line a process, and below what is wrong and how to fix it.
func Ps(d *report.Ps) *sheet.Sheet {
	s := &sheet.Sheet{Verb: "ps", Document: d}
	v := d.Verdict()
	c := sheet.Claim{Word: v.Word, Tone: sheet.Good, Whole: true, Text: v.Text, More: v.Also}
	switch {
	case v.Worst != nil:
		c.Tone = cmp.Or(sheet.ToneOf(*v.Worst), sheet.Strong)
	case len(d.Processes) == 0:
		c.Tone = sheet.Strong
	case v.Word == report.NotKnown:
		c.Tone = sheet.Unsure
	}
	s.Claims = []sheet.Claim{c}
	s.Add(quiet("Go programs", psTable(d.Processes)))
	for _, p := range d.Processes {
		s.Add(sheet.Section{Title: p.Name + ", pid " + strconv.Itoa(p.PID), Blocks: psFindings(p.Findings)})
	}
	s.Add(quiet("", psLooked(d)))
	return s
}

// psFindings are what is wrong with a process. What costs nothing now is a line each, without its evidence, which explain shows.
func psFindings(findings []finding.Finding) []sheet.Block {
	var wrong sheet.Findings
	var noted sheet.Facts
	for _, f := range findings {
		if f.Severity > finding.Info {
			wrong = append(wrong, f)
		} else {
			noted.Add(f.Verdict+":", f.Summary+"; fix: "+f.Fix)
		}
	}
	return []sheet.Block{wrong, noted}
}

// PsLook shows the table alone, for a screen that is redrawn: of rows rows at most, 0 for all.
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
	s.Add(quiet("Go programs", t))
	s.Add(quiet("", psLooked(d)))
	return s
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
		row := t.Add(strconv.Itoa(p.PID), p.Name, orDash(strings.TrimPrefix(p.GoVersion, "go")), psProcs(p.GOMAXPROCS),
			cmp.Or(known(p.Limit.CPUs, quantity.Hundredths), p.Limit.State),
			orDash(when(p.CPUs > 0, strconv.Itoa(p.CPUs))),
			orDash(known(p.Share, quantity.WholeShare)),
			orDash(known(p.Frozen, func(f report.Frozen) string { return when(!f.Exact, "≥") + quantity.WholeShare(f.Share) })),
			orDash(known(p.CPU, func(cpus float64) string { return strconv.FormatFloat(cpus, 'f', 2, 64) })),
			p.Verdict)
		tone := &row.Cells[len(row.Cells)-1].Tone
		if *tone = sheet.Good; p.Severity != nil {
			*tone = sheet.ToneOf(*p.Severity)
		}
	}
	return t
}

func psProcs(g report.PsGOMAXPROCS) string {
	if g.Value == nil {
		return dash
	}
	from := cmp.Or(when(g.Source == "environment", "env"), g.Source)
	return strconv.Itoa(*g.Value) + when(g.Proof != report.ProofLive, "?") + around(" ", from, "")
}

// psLooked says what was looked at.
func psLooked(d *report.Ps) sheet.Lines {
	n := len(d.Processes)
	count := cmp.Or(when(n > 0, quantity.Plural(n, "Go program")), "no Go programs")
	busy := known(d.System.Busy, func(cpus float64) string {
		return "; " + quantity.Hundredths(cpus) + " of " + quantity.CPUs(float64(d.System.CPUs)) + " busy"
	})
	predicted := slices.ContainsFunc(d.Processes, func(p report.PsProcess) bool {
		return p.GOMAXPROCS.Value != nil && p.GOMAXPROCS.Proof != report.ProofLive
	})
	text := count + " among " + quantity.Plural(d.Looked, "process") + when(d.Seconds > 0, ", looked at for "+quantity.Seconds(d.Seconds)) + busy +
		when(d.Refused > 0, "; this user may not look into "+quantity.Plural(d.Refused, "process")) +
		when(d.Odd > 0, "; not looked into: "+quantity.Plural(d.Odd, "process")+" whose file is not one that Go's linker makes") +
		when(d.Stuck > 0, "; left out: "+quantity.Plural(d.Stuck, "process")+" of which the kernel tells nothing, as where a file system has stopped answering") +
		when(predicted, "; a GOMAXPROCS with ? is predicted, as the process's memory can't be read")
	return sheet.Lines{Tone: sheet.Soft, Texts: []string{text}}
}
