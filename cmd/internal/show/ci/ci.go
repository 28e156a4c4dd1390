// Package ci answers: how does a system that runs builds read a result? In go the checks of a document; out come a JUnit report,
// a SARIF log, annotations for GitHub's runners and a Code Quality report for GitLab's. What is wrong was found elsewhere, and
// what a JUnit report calls a failure is a warning or worse. What is not known is skipped there, and passes nowhere.
package ci

import (
	"fmt"
	"io"
	"strings"

	"github.com/chavacava/garif"
	"github.com/jstemmer/go-junit-report/v2/junit"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/docs"
)

// JUnit writes the checks of a verb as test cases.
func JUnit(w io.Writer, verb, made string, checks []report.Check) error {
	suite := junit.Testsuite{Name: "unthrottle " + verb, Timestamp: plain.Line(made), Time: "0"}
	for _, c := range printable(checks) {
		test := junit.Testcase{Classname: c.About, Name: c.Name}
		switch f := c.Found; {
		case c.Unknown != "":
			test.Skipped = &junit.Result{Message: c.Unknown}
		case f == nil:
		case f.Severity >= finding.Warning:
			test.Failure = &junit.Result{Message: f.Summary, Type: f.Rule, Data: at(c.Place) + details(f)}
		default:
			test.SystemOut = &junit.Output{Data: f.Summary + "\n" + at(c.Place) + details(f)}
		}
		suite.AddTestcase(test)
	}
	var suites junit.Testsuites
	suites.AddSuite(suite)
	return suites.WriteXML(w)
}

// at is a line that says where something is, as compilers write it; "" if it is not in a file.
func at(p report.Place) string {
	switch {
	case p.File == "":
		return ""
	case p.Line == 0:
		return "at " + plain.Line(p.File) + "\n"
	}
	return fmt.Sprintf("at %s:%d:%d\n", plain.Line(p.File), p.Line, p.Column)
}

// details are the evidence and the fix.
func details(f *finding.Finding) string {
	lines := f.Evidence
	if f.Fix != "" {
		lines = append(lines[:len(lines):len(lines)], "fix: "+f.Fix)
	}
	return strings.Join(lines, "\n")
}

// unknownRule serves as the rule of a check that is neither right nor wrong.
const unknownRule = "not-known"

// Where a tool and its rules are described.
const (
	site  = "https://github.com/unthrottle/unthrottle"
	pages = site + "/blob/main/docs/rules/"

	schema = "https://json.schemastore.org/sarif-2.1.0.json"
)

var levels = map[finding.Severity]garif.ResultLevel{
	finding.Info: garif.ResultLevel_Note, finding.Warning: garif.ResultLevel_Warning, finding.Critical: garif.ResultLevel_Error,
}

// SARIF writes what the checks of a verb have found, each in its file if it is in one. A process is not a place in a file: it is a logical
// location, and is in the message too, for viewers that show files only.
//
// Files are below %SRCROOT%, which viewers replace by wherever they have the repository. The fingerprint is under a name of ours: GitHub's
// upload action makes the one that it uses, primaryLocationLineHash, from the text of the line, and warns of any other.
func SARIF(w io.Writer, version string, checks []report.Check) error {
	driver := garif.NewDriver("unthrottle").WithInformationUri(site)
	driver.Version = plain.Line(version)
	run := garif.NewRun(garif.NewTool(driver))
	known := map[string]bool{}
	for _, c := range printable(checks) {
		rule, result := resultOf(c)
		logical := garif.NewLogicalLocation()
		logical.FullyQualifiedName = c.About
		at := &garif.Location{LogicalLocations: []*garif.LogicalLocation{logical}, PhysicalLocation: physical(c.Place)}
		result.RuleId, result.Locations = rule.Id, []*garif.Location{at}
		if c.Key != "" {
			result.PartialFingerprints = map[string]string{fingerprint: hashed(c.Key)}
		}
		if root := c.Place.Root; root != "" {
			run.OriginalUriBaseIds = map[string]*garif.ArtifactLocation{sourceRoot: {Uri: fileURI(root) + "/"}}
		}
		run.Results = append(run.Results, result)
		if !known[rule.Id] {
			known[rule.Id] = true
			driver.Rules = append(driver.Rules, rule)
		}
	}
	log := garif.NewLogFile([]*garif.Run{run}, garif.Version210)
	log.Schema = schema
	return jsonTo(w, log.PrettyWrite)
}

// resultOf is a check, and the rule that it was made by. That nothing was found is a result too.
func resultOf(c report.Check) (*garif.ReportingDescriptor, *garif.Result) {
	f := c.Found
	switch {
	case c.Unknown != "":
		result := garif.NewResult(garif.NewMessageFromText(notKnown(c)))
		result.Kind, result.Level = garif.ResultKind_Open, garif.ResultLevel_None
		return garif.NewRule(unknownRule), result
	case f == nil:
		result := garif.NewResult(garif.NewMessageFromText(c.About + ": " + c.Name))
		result.Kind, result.Level = garif.ResultKind_Pass, garif.ResultLevel_None
		return garif.NewRule("nothing-wrong"), result
	}
	rule := garif.NewRule(f.Rule)
	rule.Name, rule.ShortDescription = f.Verdict, garif.NewMultiformatMessageString(f.Verdict)
	if page := strings.ToLower(f.Rule); hasPage(page) {
		rule.WithHelpUri(pages + page + ".md")
	}
	text := c.About + ": " + f.Summary
	if more := details(f); more != "" {
		text += "\n" + more
	}
	result := garif.NewResult(garif.NewMessageFromText(text))
	result.Level = levels[f.Severity]
	return rule, result
}

func hasPage(name string) bool {
	_, ok := docs.Page("docs/rules/" + name)
	return ok
}
