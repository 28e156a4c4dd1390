package result

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/show/ci"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/fix"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

const (
	finePod   = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i, resources: {limits: {cpu: 2}}}]}\n"
	wrongPod  = "apiVersion: v1\nkind: Pod\nmetadata: {name: w}\nspec: {containers: [{name: c, image: i, resources: {limits: {cpu: 1}}, env: [{name: GOMAXPROCS, value: '16'}]}]}\n"
	pinnedPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: w}\nspec: {containers: [{name: c, image: i, resources: {limits: {cpu: 2}}, env: [{name: GOMAXPROCS, value: '2'}]}]}\n"
	brokenPod = "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: tab\n"
	template  = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  {{ if .Values.on }}\n  containers: []\n  {{ end }}\n"
	configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: b}\n"
)

// TestOutcomes: what each outcome is in each of the formats that CI systems read. Only what was looked at and found in order passes;
// what is not known never does, and is reported with its reason.
func TestOutcomes(t *testing.T) {
	// What of a verb's checks each format has, as a number of things that it calls by that name.
	type told struct {
		passed, failed, skipped int // JUnit; a note passes there
		pass, open, results     int // SARIF
		annotated, unknown      int // GitHub
		issues                  int // GitLab
	}
	for _, test := range []struct {
		name   string
		files  map[string]string // none: a cluster
		stdin  string
		found  *cluster.Found
		names  []string // what is read; none: all files
		want   told
		reason string // why it is not known; "": it is
	}{
		{name: "all is well", files: map[string]string{"a.yaml": finePod}, want: told{passed: 1, pass: 1, results: 1}},
		{name: "a warning", files: map[string]string{"a.yaml": wrongPod}, want: told{failed: 1, results: 1, annotated: 1, issues: 1}},
		{name: "a note", files: map[string]string{"a.yaml": pinnedPod}, want: told{passed: 1, results: 1, annotated: 1, issues: 1}},
		{
			name: "an empty pipe", names: []string{"-"}, want: told{skipped: 1, open: 1, results: 1, annotated: 1, unknown: 1, issues: 1},
			reason: "no workload was found in standard input",
		},
		{
			name: "an empty pipe beside a file", names: []string{"-", "a.yaml"}, files: map[string]string{"a.yaml": finePod},
			want: told{passed: 1, skipped: 1, pass: 1, open: 1, results: 2, annotated: 1, unknown: 1, issues: 1}, reason: "no workload was found in standard input",
		},
		{
			name: "other objects", files: map[string]string{"a.yaml": configMap},
			want: told{skipped: 1, open: 1, results: 1, annotated: 1, unknown: 1, issues: 1}, reason: "no workload was found in a.yaml",
		},
		{
			name: "one file not read", files: map[string]string{"a.yaml": finePod, "b.yaml": brokenPod},
			want:   told{passed: 1, skipped: 1, pass: 1, open: 1, results: 2, annotated: 1, unknown: 1, issues: 1},
			reason: "found character that cannot start any token (a line is indented with a tab here: YAML wants spaces)",
		},
		{
			name: "one file not there, and a warning", files: map[string]string{"a.yaml": wrongPod}, names: []string{"a.yaml", "none.yaml"},
			want: told{failed: 1, skipped: 1, open: 1, results: 2, annotated: 2, unknown: 1, issues: 2}, reason: "reading it: ",
		},
		{
			name: "a chart not rendered", names: []string{"."},
			files: map[string]string{"Chart.yaml": "name: c\nversion: 1\n", "templates/a.yaml": template, "b.yaml": finePod},
			want:  told{passed: 1, skipped: 1, pass: 1, open: 1, results: 2, annotated: 1, unknown: 1, issues: 1}, reason: "the templates of the chart . are not rendered",
		},
		{
			name: "an empty namespace", found: &cluster.Found{Namespace: "shop"},
			want: told{skipped: 1, open: 1, results: 1, annotated: 1, unknown: 1, issues: 1}, reason: "no workload was found in namespace shop",
		},
		{
			name: "a right missing", found: &cluster.Found{
				Workloads: []*workload.Workload{{Kind: "Deployment", Name: "api", Pod: workload.Pod{Containers: []workload.Container{{Name: "c", Image: "i"}}}}},
				Problems:  []manifest.Problem{{At: workload.Position{Path: "jobs.batch"}, Severity: manifest.Error, Text: "the verb list is missing"}},
			},
			want: told{passed: 1, skipped: 1, pass: 1, open: 1, results: 2, annotated: 1, unknown: 1, issues: 1}, reason: "the verb list is missing",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			names := test.names
			for name, text := range test.files {
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				if test.names == nil {
					names = append(names, name)
				}
			}
			documents := map[string][]report.Check{}
			if test.found != nil {
				d, err := NewClusterLint(t.Context(), test.found, lint.Known{})
				if err != nil {
					t.Fatal(err)
				}
				documents["lint"] = d.Checks()
			} else {
				set, err := manifest.Read(t.Context(), manifest.Options{Stdin: strings.NewReader(test.stdin)}, names...)
				if err != nil {
					t.Fatal(err)
				}
				d, err := NewLint(t.Context(), set, lint.Known{})
				if err != nil {
					t.Fatal(err)
				}
				plan, err := fix.Make(t.Context(), set, lint.Known{})
				if err != nil {
					t.Fatal(err)
				}
				documents["lint"], documents["fix"] = d.Checks(), NewFix(set, plan).Checks()
			}
			for verb, checks := range documents {
				text := map[string]string{}
				for format, write := range map[string]func(io.Writer) error{
					"JUnit":  func(w io.Writer) error { return ci.JUnit(w, verb, "2026-11-22T10:00:00Z", checks) },
					"SARIF":  func(w io.Writer) error { return ci.SARIF(w, "v1", checks) },
					"GitHub": func(w io.Writer) error { return ci.GitHub(w, checks) },
					"GitLab": func(w io.Writer) error { return ci.GitLab(w, checks) },
				} {
					var b bytes.Buffer
					if err := write(&b); err != nil {
						t.Fatal(err)
					}
					text[format] = b.String()
					if !strings.Contains(b.String(), test.reason) {
						t.Errorf("%s of %s does not say %q:\n%s", format, verb, test.reason, &b)
					}
				}
				count := func(format, part string) int { return strings.Count(text[format], part) }
				cases, failed, skipped := count("JUnit", "<testcase"), count("JUnit", "<failure"), count("JUnit", "<skipped")
				got := told{
					passed: cases - failed - skipped, failed: failed, skipped: skipped,
					pass: count("SARIF", `"kind": "pass"`), open: count("SARIF", `"kind": "open"`), results: count("SARIF", `"ruleId"`),
					annotated: count("GitHub", "\n"), unknown: count("GitHub", "title=not known"),
					issues: count("GitLab", `"fingerprint"`),
				}
				if got != test.want {
					t.Errorf("%s:\ngot  %+v\nwant %+v\n%v", verb, got, test.want, text)
				}
			}
		})
	}
}
