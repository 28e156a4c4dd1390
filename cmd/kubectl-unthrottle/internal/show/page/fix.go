package page

import (
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// Fix shows the answer, what is done about each finding and why, and the changes.
func Fix(d *result.Fix) *sheet.Sheet {
	tone := nothingWrong(d.Nothing(), d.Unread())
	s := &sheet.Sheet{Program: program, Verb: "fix", Document: d}
	for _, x := range d.Decisions {
		if !x.Changes && tone == sheet.Good {
			tone = sheet.Plain
		}
		s.Add(sheet.Section{Title: title(x.Finding), Blocks: []sheet.Block{sheet.Findings{decided(x)}}})
	}
	s.Claims = []sheet.Claim{{Word: "fix", Whole: true, Tone: tone, Text: d.Verdict}}
	var changes sheet.Commands
	if d.Output != "" {
		changes = append(changes, sheet.Command{About: "as " + d.As, Lines: lines(d.Output)})
	} else {
		for _, f := range d.Changed {
			changes = append(changes, sheet.Command{About: f.Name, Lines: lines(f.Diff)})
		}
	}
	if len(changes) > 0 && !d.Written {
		s.Add(sheet.Section{Title: "Changes", Blocks: []sheet.Block{changes}})
	}
	var unread sheet.Listed
	for _, p := range d.Problems {
		if p.Severity != string(manifest.Note) {
			unread = append(unread, p.At+": "+p.Text)
		}
	}
	s.Add(sheet.Section{Title: "Not read, or not whole", Blocks: []sheet.Block{unread}})
	s.Add(sheet.Section{Quiet: true, Blocks: []sheet.Block{sheet.Lines{Tone: sheet.Soft, Texts: []string{d.Looked()}}}})
	return s
}

func lines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

// decided is a finding with what is done in place of what could be.
func decided(x result.Decision) finding.Finding {
	f := named(x.Finding)
	f.Evidence, f.Fix = x.Others(), x.Outcome()
	return f
}
