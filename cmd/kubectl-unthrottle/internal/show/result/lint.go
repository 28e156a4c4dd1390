// Package result answers: what did a verb of the cluster's command find? Each verb makes one document, a plain value with JSON
// tags, as package report has them for the other command. It computes what a document needs and writes its sentences; it reads
// and prints nothing.
package result

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/config"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
)

// Lint is what the rules found in manifests, or in a cluster.
type Lint struct {
	report.Header
	Project
	Verdict   string         `json:"verdict"` // one sentence
	Files     int            `json:"files"`
	Workloads int            `json:"workloads"`
	Findings  []lint.Finding `json:"findings"`
	Problems  []Problem      `json:"problems"`           // what could not be read, or not whole
	Cluster   *Cluster       `json:"cluster,omitempty"`  // null: they are files
	Baseline  *Baseline      `json:"baseline,omitempty"` // null: none

	nothing string                                // what had no workload in it
	below   func(file string) (name, root string) // nil: a file is called as it was named
	named   map[string]string                     // workloads as findings call them, to what kubectl calls them
}

// Cluster is where live objects were read.
type Cluster struct {
	Context   string   `json:"context,omitempty"` // "": we are in a pod of it
	Server    string   `json:"server"`
	Namespace string   `json:"namespace,omitempty"` // "": all
	Objects   int      `json:"objects"`
	Differ    []string `json:"differ"` // which pods are not as their template says, and how
	About     string   `json:"-"`
}

// Baseline is what was held against findings that are known.
type Baseline struct {
	File  string                   `json:"file"`
	Known int                      `json:"known"` // findings that are in it, and are left out here
	Gone  []config.BaselineFinding `json:"gone"`  // that are in it, and are no longer found
}

// A Problem is what could not be read, or not whole.
type Problem struct {
	At       string `json:"at"`       // file:line:column
	Severity string `json:"severity"` // error, warning or note
	Text     string `json:"text"`
	Hint     string `json:"hint,omitempty"`

	position workload.Position // that At shows
}

// NewLint looks at what was read. The error is the context's, or lint.ErrTooMany.
func NewLint(ctx context.Context, set *manifest.Set, known lint.Known) (*Lint, error) {
	d := &Lint{Files: set.Named(), Workloads: len(set.Workloads), Findings: []lint.Finding{}, Problems: problems(set), nothing: nothing(set)}
	told := map[string]bool{}
	d.named = map[string]string{}
	for _, w := range set.Workloads {
		d.named[w.String()] = named(w.APIVersion, w.Kind, w.Name)
		findings, err := lint.Check(ctx, w, known)
		if err != nil {
			return nil, err
		}
		name := w.String()
		for _, f := range findings {
			f.At = w.Made.Place(f.At)
			if w.Made != nil && f.At.Line > 0 {
				// Several overlays may take one file, and call what is in it as they like; several charts, one chart.
				key := strings.Join([]string{f.At.String(), w.Kind, same(f)}, "\n")
				if w.Made.Chart != "" {
					key += "\n" + name
				}
				if told[key] {
					continue
				}
				told[key] = true
			}
			if w.Owner != "" && told[w.Namespace+"\n"+w.Owner+"\n"+same(f)] {
				continue // pods that differ from their template, and not in this
			}
			told[w.Namespace+"\n"+w.Kind+"/"+w.Name+"\n"+same(f)] = true
			if w.Copies > 0 {
				f.Evidence = append(f.Evidence, "it is so in "+quantity.Plural(w.Copies, "pod"))
			}
			d.Findings = append(d.Findings, f)
		}
		if len(d.Findings) > lint.MostFindings {
			return nil, lint.ErrTooMany
		}
	}
	d.Verdict = d.verdict()
	return d, nil
}

// nothing says where no workload was found; "" if there is one. For files and directories one is enough, as many hold other
// objects; standard input must have one of its own: nothing comes where the command before the pipe has failed.
func nothing(set *manifest.Set) string {
	in := func(f *manifest.File) bool {
		return slices.ContainsFunc(set.Workloads, func(w *workload.Workload) bool { return w.At.File == f.Name })
	}
	for _, f := range set.Files {
		if f.Name == manifest.Stdin && !in(f) {
			return "no workload was found in standard input"
		}
	}
	switch {
	case len(set.Workloads) > 0:
		return ""
	case set.Named() == 1:
		return "no workload was found in " + set.Files[0].Name
	}
	return "no workload was found in " + quantity.Plural(set.Named(), "file")
}

// problems are those of what was read.
func problems(set *manifest.Set) []Problem {
	list := []Problem{}
	for _, p := range set.Problems {
		list = append(list, Problem{p.At.String(), string(p.Severity), p.Text, p.Hint, p.At})
	}
	return list
}

// same is what makes findings of an owner and its pods one.
func same(f lint.Finding) string {
	return strings.Join([]string{f.Rule, f.Container, f.Variable, f.Summary}, "\n")
}

// NewClusterLint looks at what was read from a cluster.
func NewClusterLint(ctx context.Context, found *cluster.Found, known lint.Known) (*Lint, error) {
	d, err := NewLint(ctx, &manifest.Set{Workloads: found.Workloads, Problems: found.Problems}, known)
	if err != nil {
		return nil, err
	}
	d.Cluster, d.nothing = clusterOf(found), nothingIn(found, len(found.Workloads))
	d.Workloads -= len(found.Differ) // pods that differ are of a workload that is counted
	d.Verdict = d.verdict()
	return d, nil
}

func clusterOf(found *cluster.Found) *Cluster {
	return &Cluster{
		Context: found.Context, Server: found.Server, Namespace: found.Namespace, Objects: found.Objects,
		Differ: slices.Concat([]string{}, found.Differ), About: found.String(),
	}
}

// nothingIn says where no workload was found; "" if there is one.
func nothingIn(found *cluster.Found, workloads int) string {
	text := "no workload was found in "
	if found.Selector != "" {
		text = "no workload that -l " + strconv.Quote(found.Selector) + " selects was found in "
	}
	switch {
	case workloads > 0:
		return ""
	case found.Namespace == "":
		return text + "the cluster"
	}
	return text + "namespace " + found.Namespace
}

// Names are the workloads with findings, as kubectl names objects: deployment.apps/api.
func (d *Lint) Names() (names []string) {
	told := map[string]bool{}
	for _, f := range d.Findings {
		if name := d.named[f.Workload]; name != "" && !told[f.Workload] {
			told[f.Workload] = true
			names = append(names, name)
		}
	}
	return names
}

// named is an object as kubectl names it.
func named(apiVersion, kind, name string) string {
	group, _, grouped := strings.Cut(apiVersion, "/")
	if grouped {
		kind += "." + group
	}
	return strings.ToLower(kind) + "/" + name
}

// In says how a file is called in the repository that it is in, and where that is.
func (d *Lint) In(below func(file string) (name, root string)) { d.below = below }

// Against leaves out the findings that are in a baseline. called is how a finding is called there, and covered says whether
// what is there was looked at.
func (d *Lint) Against(file string, standing []config.BaselineFinding, called func(lint.Finding) config.BaselineFinding, covered func(config.BaselineFinding) bool) {
	known, gone := config.CompareBaseline(Called(d.Findings, called), standing)
	d.Baseline = &Baseline{File: file, Gone: []config.BaselineFinding{}}
	left := []lint.Finding{}
	for i, f := range d.Findings {
		if known[i] {
			d.Baseline.Known++
		} else {
			left = append(left, f)
		}
	}
	d.Findings = left
	for _, f := range gone {
		if covered(f) {
			d.Baseline.Gone = append(d.Baseline.Gone, f)
		}
	}
	d.Verdict = d.verdict()
}

// Called are findings as a baseline has them.
func Called(findings []lint.Finding, called func(lint.Finding) config.BaselineFinding) []config.BaselineFinding {
	all := make([]config.BaselineFinding, len(findings))
	for i, f := range findings {
		all[i] = called(f)
	}
	return all
}

// verdict is the answer in a sentence.
func (d *Lint) verdict() string {
	in := " in " + quantity.Plural(d.Workloads, "workload")
	if d.Baseline != nil && d.Baseline.Known > 0 {
		in += fmt.Sprintf("; %s in %s", plural(d.Baseline.Known, "finding stands", "findings stand"), d.Baseline.File)
	}
	switch {
	case d.Workloads == 0 && d.Cluster != nil && d.Cluster.Namespace != "":
		return "No workload was found in namespace " + d.Cluster.Namespace + "."
	case d.Workloads == 0:
		return "No workload was found" + butUnread(d.Problems) + "."
	case len(d.Findings) == 0 && d.Baseline != nil && d.Baseline.Known > 0:
		return "No new findings" + in + "."
	case len(d.Findings) == 0:
		return "No findings" + in + butUnread(d.Problems) + "."
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

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// butUnread says what nothing is known about, after an answer that would look like all is well.
func butUnread(problems []Problem) string {
	switch n := unread(problems); n {
	case 0:
		return ""
	case 1:
		return ", but 1 thing was not read"
	default:
		return fmt.Sprintf(", but %d things were not read", n)
	}
}

// Nothing says where no workload was found; "" if there is one.
func (d *Lint) Nothing() string { return d.nothing }

// Unread is how many problems took something away.
func (d *Lint) Unread() int { return unread(d.Problems) }

func unread(problems []Problem) (n int) {
	for _, p := range problems {
		if p.Severity == string(manifest.Error) {
			n++
		}
	}
	return n
}

// Checks are one for each finding, or a single one that found nothing, and what is not known.
func (d *Lint) Checks() []report.Check {
	var findings []report.Check
	for _, f := range d.Findings {
		findings = append(findings, check(f, d.below))
	}
	return checksOf(findings, d.Workloads, d.nothing, d.Problems, d.below)
}

// check is a finding as a system that runs builds reads it.
func check(f lint.Finding, below func(file string) (path, root string)) report.Check {
	c := report.Check{About: Place(f), Name: f.Rule + ": " + f.Verdict, Found: &f.Finding, Place: placeOf(f.At, below)}
	c.Key = strings.Join([]string{f.Rule, c.Place.File, f.Workload, f.Container, f.Variable}, "\n")
	return c
}

// placeOf is a position in a file, as it is called in its repository. Standard input and live objects are in none.
func placeOf(at workload.Position, below func(file string) (path, root string)) (p report.Place) {
	if at.File == "" || at.File == manifest.Stdin {
		return p
	}
	p = report.Place{File: at.File, Line: at.Line, Column: at.Column, EndLine: at.EndLine}
	if below != nil {
		p.File, p.Root = below(at.File)
	}
	return p
}

// Place is which container of what a finding is about.
func Place(f lint.Finding) string {
	if f.Container != "" {
		return f.Workload + ", container " + f.Container
	}
	return f.Workload
}
