// Package ci answers: how does a system that runs builds read a result? In go the checks of a document; out come a JUnit report
// and a SARIF log. What is wrong was found elsewhere, and what a JUnit report calls a failure is a warning or worse.
package ci

import (
	"io"
	"strings"

	"github.com/chavacava/garif"
	"github.com/jstemmer/go-junit-report/v2/junit"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/docs"
)

// JUnit writes the checks of a verb as test cases.
func JUnit(w io.Writer, verb, made string, checks []report.Check) error {
	suite := junit.Testsuite{Name: "unthrottle " + verb, Timestamp: made, Time: "0"}
	for _, c := range checks {
		test := junit.Testcase{Classname: c.About, Name: c.Name}
		switch f := c.Found; {
		case f == nil:
		case f.Severity >= finding.Warning:
			test.Failure = &junit.Result{Message: f.Summary, Type: f.Rule, Data: details(f)}
		default:
			test.SystemOut = &junit.Output{Data: f.Summary + "\n" + details(f)}
		}
		suite.AddTestcase(test)
	}
	var suites junit.Testsuites
	suites.AddSuite(suite)
	return suites.WriteXML(w)
}

// details are the evidence and the fix.
func details(f *finding.Finding) string {
	lines := f.Evidence
	if f.Fix != "" {
		lines = append(lines[:len(lines):len(lines)], "fix: "+f.Fix)
	}
	return strings.Join(lines, "\n")
}

// Where a tool and its rules are described.
const (
	site  = "https://github.com/unthrottle/unthrottle"
	pages = site + "/blob/main/docs/rules/"

	schema = "https://json.schemastore.org/sarif-2.1.0.json"
)

var levels = map[finding.Severity]garif.ResultLevel{
	finding.Info: garif.ResultLevel_Note, finding.Warning: garif.ResultLevel_Warning, finding.Critical: garif.ResultLevel_Error,
}

// SARIF writes what the checks of a verb have found. A process is no place in a file: it is a logical location, and stands in the
// message too, for viewers that show files only.
func SARIF(w io.Writer, version string, checks []report.Check) error {
	driver := garif.NewDriver("unthrottle").WithInformationUri(site)
	driver.Version = version
	run := garif.NewRun(garif.NewTool(driver))
	known := map[string]bool{}
	for _, c := range checks {
		rule, result := resultOf(c)
		place := garif.NewLogicalLocation()
		place.FullyQualifiedName = c.About
		result.RuleId, result.Locations = rule.Id, []*garif.Location{{LogicalLocations: []*garif.LogicalLocation{place}}}
		run.Results = append(run.Results, result)
		if !known[rule.Id] {
			known[rule.Id] = true
			driver.Rules = append(driver.Rules, rule)
		}
	}
	log := garif.NewLogFile([]*garif.Run{run}, garif.Version210)
	log.Schema = schema
	return log.PrettyWrite(w)
}

// resultOf is a check, and the rule that it was made by. That nothing was found is a result too.
func resultOf(c report.Check) (*garif.ReportingDescriptor, *garif.Result) {
	f := c.Found
	if f == nil {
		result := garif.NewResult(garif.NewMessageFromText(c.About + ": " + c.Name))
		result.Kind, result.Level = garif.ResultKind_Pass, garif.ResultLevel_None
		return garif.NewRule("nothing-wrong"), result
	}
	rule := garif.NewRule(f.Rule)
	rule.Name, rule.ShortDescription = f.Verdict, garif.NewMultiformatMessageString(f.Verdict)
	if _, ok := docs.Page("docs/rules/" + f.Rule); ok {
		rule.WithHelpUri(pages + f.Rule + ".md")
	}
	text := c.About + ": " + f.Summary
	if more := details(f); more != "" {
		text += "\n" + more
	}
	result := garif.NewResult(garif.NewMessageFromText(text))
	result.Level = levels[f.Severity]
	return rule, result
}
