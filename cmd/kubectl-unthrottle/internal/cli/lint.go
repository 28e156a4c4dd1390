package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/show/ci"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/advice"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/config"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/page"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

const lintHelp = `What is wrong with CPU limits, GOMAXPROCS, GOGC and GOMEMLIMIT in manifests before they are applied, or in a cluster.

Usage:
  kubectl unthrottle lint [FLAGS] FILE | DIRECTORY | - ...
  kubectl unthrottle lint --cluster [FLAGS]
  kubectl unthrottle lint --explain [FLAGS] FILE | DIRECTORY | - ...

FILE is YAML or JSON with any objects that create pods, or a packed chart; - is standard input. Helm charts and
kustomizations are rendered; what can't be is an error. What a manifest leaves open is not a finding. In a cluster, a
finding is reported once for a Deployment and all its pods. --explain says what will be in each container instead: a
line for each kind of Go program, or one for that which --binary, --image, --inventory or --go names.

{{flags}}

To suppress a finding, add a comment: # unthrottle:ignore K004 the pod is never resized

Exit codes:
  0 done   1 something could not be read, or no workload was found   2 usage   3 see --fail-on   130 interrupted

Examples:
  kubectl unthrottle lint --values prod.yaml ./chart
  kubectl unthrottle lint --cluster -A --fail-on critical
  kubectl unthrottle lint --explain --node-cpus 8,64 deploy/
`

type linter struct {
	stdio   verb.IO
	results *verb.Results[*result.Lint]
	fail    verb.Threshold
	given
	explains bool
	github   bool
	baseline known
	live     live
	charts   charts
	advised  string // a file of KRR
	annotate func(*result.Lint) error
}

func newLint(stdio verb.IO) *cobra.Command { return lintAs(stdio, "lint", false) }

// newForecast is lint --explain by its old name.
func newForecast(stdio verb.IO) *cobra.Command {
	return renamed(stdio, lintAs(stdio, "forecast", true), "lint --explain")
}

func lintAs(stdio verb.IO, name string, explains bool) *cobra.Command {
	return verb.New(name, lintHelp, func(l *verb.Flags) func(context.Context, []string) error {
		o := &linter{stdio: stdio, results: verb.NewResults(stdio, verb.SheetFormats(page.Lint))}
		o.fail.Severity = finding.Warning.String()
		likeKubectl(o.results, page.Lint, (*result.Lint).Names)
		flags := l.Section("Flags:")
		o.given.flags(flags)
		flags.BoolVar(&o.explains, "explain", explains, "which GOMAXPROCS each container's program will have and why, instead of findings")
		o.fail.FailOn(flags)
		o.annotate = verb.Annotates(o.results)
		o.results.FilesFlag(flags, "gl-code-quality-report.json (GitLab)")
		flags.StringVar(&o.advised, "recommended", "", "F\tjudge the CPU limits that KRR recommends in file F (krr simple -f json), too")
		flags.BoolVar(&o.github, "github", false, "also write annotations for GitHub's runner, to stderr")
		o.results.JSONFlag(flags)
		o.results.ColorFlag(flags)
		o.charts.flags(l.Section("Charts:"))
		o.baseline.flags(l.Section("Findings that are known:"))
		o.live.flags(l, l.Section("Live objects:"))
		return func(ctx context.Context, args []string) error {
			names := append(o.files, args...)
			if err := o.live.check(l, names); err != nil {
				return err
			}
			if err := o.charts.check(l, names); err != nil {
				return err
			}
			if len(names) == 0 && !o.live.on {
				return hint.Usage("kubectl unthrottle lint FILE, or - for standard input, or --cluster", "no manifest given")
			}
			if o.explains {
				return o.explain(ctx, l, names)
			}
			return o.run(ctx, names)
		}
	})
}

func (o *linter) run(ctx context.Context, names []string) error {
	known, err := o.all(ctx, names)
	if err != nil {
		return err
	}
	if err := o.baseline.open(ctx); err != nil {
		return err
	}
	if err := o.results.Open(); err != nil {
		return err
	}
	recommended, err := o.recommended(ctx, names)
	if err != nil {
		return err
	}
	doc, err := o.look(ctx, names, known, recommended)
	if err := o.results.Finish(doc, err); err != nil {
		return err
	}
	if o.github {
		if err := o.annotate(doc); err != nil {
			return err
		}
	}
	if o.baseline.write == "" {
		findings := make([]finding.Finding, len(doc.Findings))
		for i, f := range doc.Findings {
			findings[i] = f.Finding
		}
		if err := o.fail.Verdict(findings, 0); err != nil {
			return err
		}
	}
	return o.read(doc)
}

// read is an error where something was not read, or nothing was there.
func (o *linter) read(doc interface {
	Unread() int
	Nothing() string
},
) error {
	if n := doc.Unread(); n > 0 {
		return fmt.Errorf("%d of the problems above kept something from being read", n)
	}
	if o.live.on {
		return o.looked(doc.Nothing(), "-A looks at all namespaces, -n NAME at another one")
	}
	return o.looked(doc.Nothing(), inFiles)
}

// recommended reads the file of --recommended.
func (o *linter) recommended(ctx context.Context, names []string) (*advice.Set, error) {
	if o.advised == "" {
		return nil, nil
	}
	if o.advised == "-" && slices.Contains(names, "-") {
		return nil, hint.Usage("krr simple -q -f json >krr.json", "--recommended - and a manifest of - are both standard input")
	}
	set, err := advice.Read(ctx, o.advised, o.stdio.In)
	if err != nil {
		return nil, fmt.Errorf("--recommended %s: %w", o.advised, err)
	}
	return set, nil
}

// advise gives workloads what is recommended for them, and reports what is for none of them.
func (o *linter) advise(recommended *advice.Set, workloads []*workload.Workload, problems *[]manifest.Problem) {
	if recommended == nil {
		return
	}
	for _, w := range workloads {
		recommended.To(w)
	}
	if text := recommended.Unmet(); text != "" {
		*problems = append(*problems, manifest.Problem{At: workload.Position{File: o.advised}, Severity: manifest.Warning, Text: text})
	}
}

// look reads files, or a cluster, and asks the rules.
func (o *linter) look(ctx context.Context, names []string, known lint.Known, recommended *advice.Set) (doc *result.Lint, err error) {
	var covered func(config.BaselineFinding) bool
	if o.live.on {
		found, err := cluster.Read(ctx, o.live.Options)
		if err != nil {
			return nil, err
		}
		o.advise(recommended, found.Workloads, &found.Problems)
		if doc, err = result.NewClusterLint(ctx, found, known); err != nil {
			return nil, err
		}
		doc.Project = o.project.told(0)
		covered = readLive(found.Namespace, o.live.Selector != "" || doc.Unread() > 0)
	} else {
		set, err := o.manifests(ctx, names)
		if err != nil {
			return nil, err
		}
		for _, f := range set.Files {
			f.Data = nil // rules use facts
		}
		o.advise(recommended, set.Workloads, &set.Problems)
		if doc, err = result.NewLint(ctx, set, known); err != nil {
			return nil, err
		}
		doc.Project = o.project.told(set.Excluded)
		root := ci.Repository(".")
		doc.In(func(file string) (string, string) { return ci.Below(root, file) })
		covered = o.baseline.readOf(set)
	}
	if ctx.Err() != nil { // programs that were not read in time would look as if nothing were known about them
		return nil, ctx.Err()
	}
	doc.Header = verb.NewHeader("lint")
	return doc, o.baseline.hold(doc, func(f config.BaselineFinding) bool { return covered(f) && !slices.Contains(doc.RulesOff, f.Rule) })
}
