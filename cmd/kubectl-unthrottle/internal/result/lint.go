// Package result answers: what did a verb of the cluster's command find? Each verb makes one document, a plain value with JSON
// tags, as package report has them for the other command. It computes what a document needs and writes its sentences; it reads
// and prints nothing.
package result

import (
	"cmp"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/lint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/manifest"
)

// Lint is what the rules found in manifests.
type Lint struct {
	report.Header
	Verdict   string         `json:"verdict"` // one sentence
	Files     int            `json:"files"`
	Workloads int            `json:"workloads"`
	Findings  []lint.Finding `json:"findings"`
	Problems  []Problem      `json:"problems"` // what could not be read, or not whole
}

// A Problem is what could not be read, or not whole.
type Problem struct {
	At       string `json:"at"`       // file:line:column
	Severity string `json:"severity"` // error, warning or note
	Text     string `json:"text"`
	Hint     string `json:"hint,omitempty"`
}

// NewLint looks at what was read.
func NewLint(set *manifest.Set, known lint.Known) *Lint {
	d := &Lint{Files: len(set.Files), Workloads: len(set.Workloads), Findings: []lint.Finding{}, Problems: []Problem{}}
	for _, w := range set.Workloads {
		d.Findings = append(d.Findings, lint.Check(w, known)...)
	}
	for _, p := range set.Problems {
		d.Problems = append(d.Problems, Problem{p.At.String(), string(p.Severity), p.Text, p.Hint})
	}
	d.Verdict = d.verdict()
	return d
}

// verdict is the answer in a sentence.
func (d *Lint) verdict() string {
	in := " in " + quantity.Plural(d.Workloads, "workload")
	switch {
	case d.Workloads == 0:
		return "No workload was found."
	case len(d.Findings) == 0:
		return "Nothing is wrong with GOMAXPROCS" + in + "."
	}
	counts := map[finding.Severity]int{}
	for _, f := range d.Findings {
		counts[f.Severity]++
	}
	var parts []string
	for _, kind := range []struct {
		severity finding.Severity
		word     string
	}{{finding.Critical, "critical finding"}, {finding.Warning, "warning"}, {finding.Info, "note"}} {
		if n := counts[kind.severity]; n > 0 {
			parts = append(parts, quantity.Plural(n, kind.word))
		}
	}
	return quantity.List(parts) + in + "."
}

// Unread is how many problems took something away.
func (d *Lint) Unread() (n int) {
	for _, p := range d.Problems {
		if p.Severity == string(manifest.Error) {
			n++
		}
	}
	return n
}

// Checks are one for each finding, or a single one that found nothing.
func (d *Lint) Checks() (checks []report.Check) {
	for _, f := range d.Findings {
		checks = append(checks, report.Check{About: Place(f), Name: f.Rule + ": " + f.Verdict, Found: &f.Finding})
	}
	if len(checks) == 0 {
		checks = []report.Check{{About: quantity.Plural(d.Workloads, "workload"), Name: "no rule finds anything wrong"}}
	}
	return checks
}

// Place is where a finding is: in a file, and in which container of what.
func Place(f lint.Finding) string {
	place := f.Workload
	if f.Container != "" {
		place += ", container " + f.Container
	}
	return cmp.Or(f.At.String(), "?") + "  " + place
}
