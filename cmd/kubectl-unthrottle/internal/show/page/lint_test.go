package page

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/config"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/fix"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

var update = flag.Bool("update", false, "write the golden files again")

// procs is a container with a limit of one CPU and a number.
func procs(name, value string) workload.Container {
	at := workload.Position{Path: "spec.template.spec.containers[0].env[0]"}
	return workload.Container{
		Name: name, Image: "registry.example.com/app:1", Role: workload.Main, At: at,
		Limit: workload.Amount{Value: 1, Text: "1", State: workload.Known},
		Env:   []workload.Variable{{Name: "GOMAXPROCS", At: at, Form: workload.Literal, Text: value, Value: value, State: workload.Known}},
	}
}

func of(kind, name, owner string, copies int, containers ...workload.Container) *workload.Workload {
	return &workload.Workload{Kind: kind, Namespace: "shop", Name: name, Owner: owner, Copies: copies, Pod: workload.Pod{Containers: containers}}
}

// TestCluster: what is wrong with a template is reported once, and for pods that differ from it only what is new.
func TestCluster(t *testing.T) {
	found := &cluster.Found{
		Context: "prod", Server: "https://10.0.0.1:6443", Namespace: "shop", Objects: 61,
		Workloads: []*workload.Workload{
			of("Deployment", "api", "", 50, procs("app", "16")),
			of("Pod", "api-5d8f7-x2x4z", "Deployment/api", 3, procs("app", "16"), procs("injected", "32")),
		},
		Problems: []manifest.Problem{{
			At: workload.Position{Path: "jobs.batch"}, Severity: manifest.Error,
			Text: "the verb list is missing in namespace shop: User \"me\" cannot list it", Hint: "kubectl auth can-i list jobs.batch -n shop",
		}},
		Differ: []string{"3 pods of Deployment/api in shop differ from its template, such as api-5d8f7-x2x4z: container injected: GOMAXPROCS=32"},
	}
	d, err := result.NewClusterLint(t.Context(), found, lint.Known{})
	if err != nil {
		t.Fatal(err)
	}
	d.Against("known.json", []config.BaselineFinding{
		{Rule: "K006", Workload: "Deployment/gone in shop", Container: "app", Variable: "GOMAXPROCS"}, {Rule: "K006", File: "a.yaml", Workload: "Pod/a"},
	}, func(f lint.Finding) config.BaselineFinding { return config.BaselineFinding{} }, func(f config.BaselineFinding) bool { return f.File == "" })
	if d.Unread() != 1 || len(d.Checks()) != 3 || d.Checks()[2].Unknown == "" || d.Checks()[0].Place.File != "" {
		t.Errorf("%+v", d.Checks())
	}
	var b strings.Builder
	if err := render.Text(&b, Lint(d), render.Style{}); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "cluster.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != strings.ReplaceAll(string(want), "\r\n", "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestTones: an answer is green only where all was read that was given, and there was something to look at.
func TestTones(t *testing.T) {
	const fine = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i, resources: {limits: {cpu: 2}}}]}\n"
	const note = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i, resources: {limits: {cpu: 2}}, env: [{name: GOMAXPROCS, value: '2'}]}]}\n"
	const broken = "apiVersion: v1\nkind: Pod\nspec: [}\n"
	for _, c := range []struct {
		text                string
		lint, fix, forecast sheet.Tone
	}{
		{fine, sheet.Good, sheet.Good, sheet.Warn}, // of a Go that is not known
		{note, sheet.ToneOf(finding.Info), sheet.Plain, sheet.Good},
		{"", sheet.Warn, sheet.Warn, sheet.Warn},
		{fine + "---\n" + broken, sheet.Warn, sheet.Warn, sheet.Warn},
		{note + "---\n" + broken, sheet.Warn, sheet.Warn, sheet.Warn},
	} {
		set, err := manifest.Read(t.Context(), manifest.Options{Stdin: strings.NewReader(c.text)}, "-")
		if err != nil {
			t.Fatal(err)
		}
		linted, err := result.NewLint(t.Context(), set, lint.Known{})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := fix.Make(t.Context(), set, lint.Known{})
		if err != nil {
			t.Fatal(err)
		}
		told, err := result.NewForecast(t.Context(), set, lint.Known{})
		if err != nil {
			t.Fatal(err)
		}
		got := []sheet.Tone{Lint(linted).Claims[0].Tone, Fix(result.NewFix(set, plan)).Claims[0].Tone, Forecast(told).Claims[0].Tone}
		if want := []sheet.Tone{c.lint, c.fix, c.forecast}; !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", c.text, got, want)
		}
	}
}
