package ci

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
)

// TestHostileNames: names of files and objects, which a pull request can add, break no format and reach no terminal unchanged.
func TestHostileNames(t *testing.T) {
	const evil = "a\nFAKE\x1b[2J\u202e\u009b\xff::error::x]]>.yaml"
	checks := []report.Check{
		{About: evil, Name: evil, Place: report.Place{File: evil, Line: 3}, Key: evil, Found: &finding.Finding{
			Rule: evil, Verdict: evil, Severity: finding.Critical, Summary: evil, Evidence: []string{evil}, Fix: evil,
		}},
		{About: evil, Name: evil},
		{About: evil, Name: evil, Place: report.Place{File: evil}, Unknown: evil},
		{About: evil, Name: evil, Place: report.Place{File: evil}, Found: &finding.Finding{Rule: evil, Summary: evil}},
	}
	for name, write := range map[string]func(io.Writer) error{
		"JUnit":  func(w io.Writer) error { return JUnit(w, "lint", evil, checks) },
		"SARIF":  func(w io.Writer) error { return SARIF(w, evil, checks) },
		"GitHub": func(w io.Writer) error { return GitHub(w, checks) },
		"GitLab": func(w io.Writer) error { return GitLab(w, checks) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for line := range strings.SplitSeq(b.String(), "\n") {
			if !plain.Printable(strings.ReplaceAll(line, "\t", "")) {
				t.Errorf("%s has the line %q", name, line)
			}
			if name == "GitHub" && line != "" && !strings.HasPrefix(line, "::error ") && !strings.HasPrefix(line, "::warning ") && !strings.HasPrefix(line, "::notice ") {
				t.Errorf("%s has a line that is not its own: %q", name, line)
			}
		}
		switch name {
		case "JUnit":
			for d := xml.NewDecoder(&b); ; {
				if _, err := d.Token(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		case "SARIF", "GitLab":
			if !json.Valid(b.Bytes()) {
				t.Errorf("%s is not JSON: %s", name, b.String())
			}
		}
	}
}
