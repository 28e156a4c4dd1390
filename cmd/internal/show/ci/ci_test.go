package ci

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sarif "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
)

var checks = []report.Check{
	{About: "fine, pid 1", Name: "no rule finds anything wrong"},
	{About: "api, pid 2", Name: "too many Ps", Found: &finding.Finding{
		Rule: "too-many-ps", Verdict: "too many Ps", Severity: finding.Critical,
		Summary: "GOMAXPROCS is 16 <under> 1 CPU", Evidence: []string{"it waits", "]]> ends"}, Fix: "set it to 2",
	}},
	{About: "api, pid 2", Name: "not known", Found: &finding.Finding{Rule: "worse-than-base", Verdict: "not known", Summary: "who knows"}},
}

// TestUnknown: what is not known passes nowhere, whether it is worth a word or not.
func TestUnknown(t *testing.T) {
	unknown := []report.Check{
		{About: "api", Name: "the current setting is right", Unknown: "Undecided: too few blocks"},
		{About: "fib", Name: "2 is not worse than the base", Unknown: "2: +76 %, 5 more blocks needed", Found: &finding.Finding{Rule: "worse-than-base", Summary: "2: +76 %"}},
	}
	var b bytes.Buffer
	if err := JUnit(&b, "bench", "2026-11-22T10:00:00Z", unknown); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`skipped="2"`, `<skipped message="Undecided: too few blocks"></skipped>`, `<skipped message="2: +76 %, 5 more blocks needed"></skipped>`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in %s", want, &b)
		}
	}
	b.Reset()
	if err := SARIF(&b, "v1", unknown); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), `"kind": "open"`); n != 2 || strings.Contains(b.String(), `"pass"`) {
		t.Errorf("%d are open in %s", n, &b)
	}
	b.Reset()
	unknown[1].Place = report.Place{File: "a.yaml", Line: 3}
	if err := GitHub(&b, append([]report.Check{inFiles[0], inFiles[3]}, unknown...)); err != nil {
		t.Fatal(err)
	}
	var commands []string
	for line := range strings.Lines(b.String()) {
		command, _, _ := strings.Cut(line, "%0A")
		commands = append(commands, strings.TrimSpace(command))
	}
	if want := []string{ // after the warnings, before what is good to know
		"::warning file=near/api.yaml,line=1,title=K004 pinned::Deployment/api: 100 %25 of it,",
		"::warning title=not known::api: the current setting is right: not known: Undecided: too few blocks",
		"::warning file=a.yaml,line=3,title=not known::fib: 2 is not worse than the base: not known: 2: +76 %25, 5 more blocks needed",
		"::notice file=a b/api.yaml,line=3,endLine=7,title=K002 pinned::Deployment/api: 100 %25 of it,",
	}; !slices.Equal(commands, want) {
		t.Errorf("GitHub is told\n%q, want\n%q", commands, want)
	}
	b.Reset()
	if err := GitLab(&b, unknown); err != nil {
		t.Fatal(err)
	}
	var issues []struct {
		Description string
		CheckName   string `json:"check_name"`
		Severity    string
		Location    struct{ Path string }
	}
	if err := json.Unmarshal(b.Bytes(), &issues); err != nil || len(issues) != 2 || issues[0].Location.Path != "." || issues[1].Location.Path != "a.yaml" ||
		issues[0].Severity != "minor" || issues[0].CheckName != "not-known" || !strings.HasSuffix(issues[0].Description, "too few blocks") {
		t.Errorf("%v, %+v in %s", err, issues, &b)
	}
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

func placed(rule string, s finding.Severity, place report.Place, key string) report.Check {
	return report.Check{About: "Deployment/api", Name: rule, Place: place, Key: key, Found: &finding.Finding{
		Rule: rule, Verdict: "pinned", Severity: s, Summary: "100 % of it,\nor: more", Evidence: []string{"it waits"}, Fix: "take it out",
	}}
}

var inFiles = []report.Check{
	placed("K002", finding.Info, report.Place{File: "a b/api.yaml", Root: "/src/x y", Line: 3, Column: 5, EndLine: 7}, "one"),
	placed("K004", finding.Critical, report.Place{File: "a b/api.yaml", Root: "/src/x y", Line: 30, Column: 5}, "two"),
	placed("K004", finding.Warning, report.Place{File: "/elsewhere/ä,b:c.yaml"}, "three"),
	placed("K004", finding.Warning, report.Place{File: "near/api.yaml", Line: 1}, "three"),
	placed("K009", finding.Warning, report.Place{}, "four"), // from standard input, or a live object
}

// Files are below the root of the repository, and regions are lines; a rule's page is found, however its name is written.
func TestSARIFPlaces(t *testing.T) {
	var b bytes.Buffer
	if err := SARIF(&b, "v1.2.3", inFiles); err != nil {
		t.Fatal(err)
	}
	run := valid(t, b.Bytes())
	if base := run.OriginalUriBaseIds["%SRCROOT%"]; base.URI == nil || *base.URI != "file:///src/x%20y/" {
		t.Errorf("the base is %+v in %s", base, &b)
	}
	if help := run.Tool.Driver.Rules[1].HelpURI; help == nil || *help != pages+"k004.md" {
		t.Errorf("the page of K004 is %v", help)
	}
	var got []string
	prints := map[string]bool{}
	for _, r := range run.Results {
		text := "none"
		if p := r.Locations[0].PhysicalLocation; p != nil {
			text = *p.ArtifactLocation.URI
			if p.ArtifactLocation.URIBaseID != nil {
				text = *p.ArtifactLocation.URIBaseID + " " + text
			}
			if g := p.Region; g != nil {
				for _, n := range []*int{g.StartLine, g.StartColumn, g.EndLine} {
					if n != nil {
						text += fmt.Sprintf(" %d", *n)
					}
				}
			}
		}
		got = append(got, text)
		prints[r.PartialFingerprints["unthrottle/v1"]] = true
	}
	want := []string{"%SRCROOT% a%20b/api.yaml 3 5 7", "%SRCROOT% a%20b/api.yaml 30 5", "file:///elsewhere/%C3%A4,b:c.yaml", "near/api.yaml 1", "none"}
	if !slices.Equal(got, want) {
		t.Errorf("places are\n%q, want\n%q", got, want)
	}
	if len(prints) != 4 || prints[""] {
		t.Errorf("fingerprints are %v", prints)
	}
}

func TestGitHub(t *testing.T) {
	var b bytes.Buffer
	if err := GitHub(&b, append(inFiles, checks[0])); err != nil {
		t.Fatal(err)
	}
	const text = "title=%s pinned::Deployment/api: 100 %%25 of it,%%0Aor: more%%0Ait waits%%0Afix: take it out\n"
	want := fmt.Sprintf("::error file=a b/api.yaml,line=30,col=5,"+text, "K004") +
		fmt.Sprintf("::warning file=/elsewhere/ä%%2Cb%%3Ac.yaml,"+text, "K004") +
		fmt.Sprintf("::warning file=near/api.yaml,line=1,"+text, "K004") +
		fmt.Sprintf("::warning "+text, "K009") +
		fmt.Sprintf("::notice file=a b/api.yaml,line=3,endLine=7,"+text, "K002")
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}

// Which fields there must be: https://docs.gitlab.com/ci/testing/code_quality.
func TestGitLab(t *testing.T) {
	var b bytes.Buffer
	if err := GitLab(&b, append(inFiles, checks...)); err != nil {
		t.Fatal(err)
	}
	var issues []struct {
		Description, Fingerprint, Severity string
		Check                              string `json:"check_name"`
		Location                           struct {
			Path  string
			Lines struct{ Begin int }
		}
	}
	if err := json.Unmarshal(b.Bytes(), &issues); err != nil || len(issues) != 4 {
		t.Fatalf("%v in %s", err, &b)
	}
	prints := map[string]bool{}
	for _, i := range issues {
		prints[i.Fingerprint] = true
		if i.Description == "" || i.Location.Path == "" || i.Location.Lines.Begin < 1 || !slices.Contains([]string{"info", "minor", "major", "critical", "blocker"}, i.Severity) {
			t.Errorf("%+v", i)
		}
	}
	if len(prints) != 4 {
		t.Errorf("fingerprints are %v", prints)
	}
	b.Reset()
	if err := GitLab(&b, nil); err != nil || b.String() != "[]\n" {
		t.Errorf("nothing found: %q, %v", &b, err)
	}
}

func TestRepository(t *testing.T) {
	root := t.TempDir()
	in := filepath.Join(root, "repo", "a", "b")
	if err := os.MkdirAll(in, 0o755); err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(root, "repo")
	if err := os.WriteFile(filepath.Join(repo, ".git"), []byte("gitdir: elsewhere\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := Repository(in); got != filepath.ToSlash(repo) {
		t.Errorf("the repository of %s is %q", in, got)
	}
	t.Chdir(in)
	for file, want := range map[string]string{
		"c.yaml": "a/b/c.yaml", "../c.yaml": "a/c.yaml", filepath.Join(repo, "c.yaml"): "c.yaml", "../../..c.yaml": "..c.yaml",
	} {
		if got, in := Below(filepath.ToSlash(repo), file); got != want || in == "" {
			t.Errorf("%s is %q in %q, want %q", file, got, in, want)
		}
	}
	if got, in := Below(filepath.ToSlash(repo), "../../../c.yaml"); got != "../../../c.yaml" || in != "" {
		t.Errorf("a file outside is %q in %q", got, in)
	}
}
