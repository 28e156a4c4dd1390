package ci

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"

	sarif "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

var checks = []report.Check{
	{About: "fine, pid 1", Name: "no rule finds anything wrong"},
	{About: "api, pid 2", Name: "too many Ps", Found: &finding.Finding{
		Rule: "too-many-ps", Verdict: "too many Ps", Severity: finding.Critical,
		Summary: "GOMAXPROCS is 16 <under> 1 CPU", Evidence: []string{"it waits", "]]> ends"}, Fix: "set it to 2",
	}},
	{About: "api, pid 2", Name: "not known", Found: &finding.Finding{Rule: "worse-than-base", Verdict: "not known", Summary: "who knows"}},
}

func TestJUnit(t *testing.T) {
	var b bytes.Buffer
	if err := JUnit(&b, "ps", "2026-11-22T10:00:00Z", checks); err != nil {
		t.Fatal(err)
	}
	var read struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Suite    struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Class   string `xml:"classname,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
					Data    string `xml:",chardata"`
				} `xml:"failure"`
				Out string `xml:"system-out"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b.Bytes(), &read); err != nil {
		t.Fatalf("%v in %s", err, &b)
	}
	cases := read.Suite.Cases
	if read.Tests != 3 || read.Failures != 1 || read.Suite.Name != "unthrottle ps" || len(cases) != 3 || cases[0].Failure != nil || cases[2].Failure != nil {
		t.Fatalf("%+v", read)
	}
	if f := cases[1].Failure; cases[1].Class != "api, pid 2" || f == nil || f.Message != "GOMAXPROCS is 16 <under> 1 CPU" || f.Data != "it waits\n]]> ends\nfix: set it to 2" {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(cases[2].Out, "who knows") {
		t.Errorf("%+v", cases[2])
	}
}

// valid reads a log and holds it to SARIF's schema.
func valid(t *testing.T, data []byte) *sarif.Run {
	t.Helper()
	log, err := sarif.FromBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	run, language := log.Runs[0], "en-US" // what is left out is written empty here, which the schema forbids
	run.Language, run.Tool.Driver.Language, run.NewlineSequences = language, language, []string{"\n"}
	if err := log.Validate(); err != nil {
		t.Errorf("by its schema: %v", err)
	}
	return run
}

func TestSARIF(t *testing.T) {
	var b bytes.Buffer
	if err := SARIF(&b, "v1.2.3", checks); err != nil {
		t.Fatal(err)
	}
	run := valid(t, b.Bytes())
	rules := run.Tool.Driver.Rules
	if len(run.Results) != 3 || len(rules) != 3 || *run.Tool.Driver.Version != "v1.2.3" {
		t.Fatalf("%s", &b)
	}
	if none := run.Results[0]; none.Kind != "pass" || none.Level != "none" {
		t.Errorf("%+v", none)
	}
	first := run.Results[1]
	if *first.RuleID != "too-many-ps" || first.Level != "error" || !strings.HasPrefix(*first.Message.Text, "api, pid 2: GOMAXPROCS is 16") ||
		*rules[1].HelpURI != pages+"too-many-ps.md" || rules[2].HelpURI != nil {
		t.Errorf("%s", &b)
	}
	b.Reset()
	if err := SARIF(&b, "v1.2.3", checks[:1]); err != nil {
		t.Fatal(err)
	}
	if run := valid(t, b.Bytes()); len(run.Results) != 1 {
		t.Errorf("nothing found: %s", &b)
	}
}
