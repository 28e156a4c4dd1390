// Package page answers: what does a screen show of a document of the cluster's command? One file a verb, as package view has it
// for the other command.
package page

import (
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// program is what people type.
const program = "kubectl unthrottle"

// Lint shows the answer, each finding below its place, and what could not be read.
func Lint(d *result.Lint) *sheet.Sheet {
	s := &sheet.Sheet{Program: program, Verb: "lint", Document: d, Claims: []sheet.Claim{{Word: "lint", Whole: true, Tone: lintTone(d), Text: d.Verdict}}}
	for _, f := range d.Findings {
		s.Add(sheet.Section{Title: title(f), Blocks: []sheet.Block{sheet.Findings{named(f)}}})
	}
	s.Add(unread(d.Problems))
	s.Add(differ(d.Cluster))
	s.Add(sheet.Section{Title: gone(d), Blocks: []sheet.Block{goneList(d)}})
	s.Add(sheet.Section{Quiet: true, Blocks: []sheet.Block{sheet.Lines{Tone: sheet.Soft, Texts: []string{d.Looked()}}}})
	return s
}

// differ says which pods of a cluster are unlike what they were made of.
func differ(c *result.Cluster) (s sheet.Section) {
	if c != nil {
		s = sheet.Section{Title: "Pods that are not as their template says", Blocks: []sheet.Block{sheet.Listed(c.Differ)}}
	}
	return s
}

// unread says what could not be read, or not completely.
func unread(problems []result.Problem) sheet.Section {
	var list sheet.Listed
	for _, p := range problems {
		if p.Severity == string(manifest.Note) { // the document has it
			continue
		}
		text := p.At + ": " + p.Text
		if p.Hint != "" {
			text += " (" + p.Hint + ")"
		}
		list = append(list, text)
	}
	return sheet.Section{Title: "Not read, or not whole", Blocks: []sheet.Block{list}}
}

func gone(d *result.Lint) string {
	if d.Baseline == nil {
		return ""
	}
	return "Fixed, but still in " + d.Baseline.File + " (--write-baseline rewrites it)"
}

func goneList(d *result.Lint) (list sheet.Listed) {
	if d.Baseline == nil {
		return nil
	}
	for _, f := range d.Baseline.Gone {
		text := f.Rule + " " + f.Workload
		if f.Container != "" {
			text += ", container " + f.Container
		}
		if f.File != "" {
			text += ", in " + f.File
		}
		list = append(list, text)
	}
	return list
}

// title says where a finding is. In a file people use the line, in a cluster the name.
func title(f lint.Finding) string {
	if f.At.File == "" {
		return strings.TrimRight(result.Place(f)+"  "+f.At.String(), " ")
	}
	return f.At.String() + "  " + result.Place(f)
}

// named is a finding whose verdict begins with its rule's id, as people search for it.
func named(f lint.Finding) finding.Finding {
	found := f.Finding
	found.Verdict = f.Rule + " " + f.Verdict
	return found
}

func lintTone(d *result.Lint) sheet.Tone {
	whole := nothingWrong(d.Nothing(), d.Unread())
	if len(d.Findings) == 0 {
		return whole
	}
	worst := finding.Info
	for _, f := range d.Findings {
		worst = max(worst, f.Severity)
	}
	if worst == finding.Info && whole != sheet.Good {
		return whole
	}
	return sheet.ToneOf(worst)
}

// nothingWrong is the tone of an answer that finds nothing wrong: good, if all was read that was given, and there was something.
func nothingWrong(nothing string, unread int) sheet.Tone {
	if nothing != "" || unread > 0 {
		return sheet.Warn
	}
	return sheet.Good
}
