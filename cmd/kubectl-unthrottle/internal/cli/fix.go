package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/fix"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/page"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

const fixHelp = `Fix what lint finds: show a diff, or write the manifests.

Usage:
  kubectl unthrottle fix [FLAGS] FILE | DIRECTORY | - ...

Fix makes the changes that are right for any program, says which others would be right for which programs, and leaves alone
what it does not understand. The rest of a file stays unchanged. If you name the programs, it can do more: --binary, --image,
--inventory, --go.

{{flags}}

Exit codes:
  0 done   1 something could not be read or written, or no workload was found   2 usage   3 --check: something would change   130 interrupted

Examples:
  kubectl unthrottle fix --go 1.25 deploy/ | patch -p0
  helm template ./chart | kubectl unthrottle fix --stdout - | kubectl apply -f -
`

type fixer struct {
	stdio   verb.IO
	given   given
	results *verb.Results[*result.Fix]
	rules   []string
	write   bool
	stdout  bool
	check   bool
	as      string
	charts  charts
}

func newFix(stdio verb.IO) *cobra.Command {
	return verb.New("fix", fixHelp, func(l *verb.Flags) func(context.Context, []string) error {
		o := &fixer{stdio: stdio}
		o.results = verb.NewResults(stdio, o.formats())
		flags := l.Section("Flags:")
		flags.BoolVarP(&o.write, "write", "w", false, "write the files, each completely or not at all")
		flags.BoolVar(&o.stdout, "stdout", false, "print the one file, or standard input, with the changes")
		flags.Var(verb.OneOf(&o.as, "strategic", "json6902", "kustomize", "values"), "as",
			"KIND\tprint patches (strategic, json6902), a Component (kustomize), or a hint for a Helm chart's values (values)")
		flags.BoolVar(&o.check, "check", false, "exit with 3 if something would change")
		flags.StringSliceVar(&o.rules, "rule", nil, "K001,…\tfix only what these rules find")
		o.given.flags(flags)
		o.results.FilesFlag(flags)
		o.results.JSONFlag(flags)
		o.results.ColorFlag(flags)
		l.Exclude("choose one of them", "write", "stdout", "as", "check")
		l.Exclude("choose one of them", "stdout", "json")
		o.charts.flags(l.Section("Charts:"))
		return func(ctx context.Context, args []string) error {
			if err := o.charts.check(l, append(o.given.files, args...)); err != nil {
				return err
			}
			return o.run(ctx, args)
		}
	})
}

// formats are those of any document, but text is a diff that patch takes, unless the files are written.
func (o *fixer) formats() map[string]verb.Writer[*result.Fix] {
	formats := verb.SheetFormats(page.Fix)
	sheet := formats["text"]
	formats["text"] = func(w io.Writer, d *result.Fix, style render.Style) error {
		if o.write {
			return sheet(w, d, style)
		}
		_, err := io.WriteString(w, d.Text())
		return err
	}
	return formats
}

func (o *fixer) run(ctx context.Context, args []string) error {
	names := append(o.given.files, args...)
	known, err := o.prepare(ctx, names)
	if err != nil {
		return err
	}
	if err := o.results.Open(); err != nil {
		return err
	}
	rendering, end, err := o.charts.rendering(ctx, o.stdio.In)
	if err != nil {
		return o.results.Drop(err)
	}
	defer end()
	rendering.Keep = true // the files that kustomizations take are what can be changed
	options := manifest.Options{Stdin: o.stdio.In, Whole: o.stdout, Rendering: rendering}
	if !o.stdout { // which is of the one file that is named
		options.Exclude = o.given.project.excludes
	}
	set, err := manifest.Read(ctx, options, names...)
	if err != nil {
		return o.results.Drop(err)
	}
	plan, err := fix.Make(ctx, set, known, o.rules...)
	if err = cmp.Or(err, ctx.Err()); err != nil { // what was not read in time is not known, and must not decide
		return o.results.Drop(err)
	}
	if o.as == "" {
		plan.LeaveMade()
	}
	doc := result.NewFix(set, plan)
	doc.Header, doc.Project = verb.NewHeader("fix"), o.given.project.told(set.Excluded)
	if o.as != "" {
		doc.Patches(plan, o.as)
	}
	if o.write && len(plan.Files) > 0 {
		if err := writeFiles(plan.Files); err != nil {
			return o.results.Drop(hint.With(err, "nothing else is written; without --write it prints a diff"))
		}
		doc.Wrote()
	}
	if o.stdout {
		if err := o.stream(set.Files[0].Whole, plan, doc); err != nil {
			return o.results.Drop(err)
		}
	}
	if err := o.results.Finish(doc, nil); err != nil {
		return err
	}
	if o.check && len(plan.Files) > 0 {
		return verb.ExitCode{Code: verb.Findings}
	}
	if n := doc.Unread(); n > 0 {
		return fmt.Errorf("%d of the problems above kept something from being read", n)
	}
	if o.stdout && set.Files[0].Data != nil { // objects of other kinds pass through: charts have none else, too
		return nil
	}
	return o.given.looked(doc.Nothing(), inFiles)
}

// prepare checks what the flags say, and reads what they name.
func (o *fixer) prepare(ctx context.Context, names []string) (lint.Known, error) {
	stdin := slices.Contains(names, "-")
	switch {
	case len(names) == 0:
		return lint.Known{}, hint.Usage("kubectl unthrottle fix FILE, or - for standard input", "no manifest given")
	case o.write && stdin:
		return lint.Known{}, hint.Usage("take --stdout for a pipe", "--write: standard input is not a file")
	case o.stdout && len(names) > 1:
		return lint.Known{}, hint.Usage("name one, or take --write", "--stdout is for one file, and there are %d", len(names))
	}
	for i, rule := range o.rules {
		o.rules[i] = strings.ToUpper(rule)
		if !slices.ContainsFunc(lint.Rules(), func(r lint.Rule) bool { return r.ID == o.rules[i] }) {
			last := slices.MaxFunc(lint.Rules(), func(a, b lint.Rule) int { return strings.Compare(a.ID, b.ID) })
			return lint.Known{}, hint.Usage("the rules are K001 to "+last.ID, "--rule %s: there is no such rule", rule)
		}
	}
	if o.stdout && !stdin {
		info, err := os.Stat(names[0])
		if err == nil && manifest.IsPacked(names[0]) {
			err = fmt.Errorf("%s is a packed chart", names[0])
		}
		if err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a directory", names[0])
		}
		if err != nil {
			return lint.Known{}, hint.With(err, "--stdout is for one file, or - for standard input")
		}
	}
	return o.given.all(ctx, names)
}

// stream prints the only file with its changes. What was decided goes to stderr, as comments.
func (o *fixer) stream(data []byte, p *fix.Plan, doc *result.Fix) error {
	o.results.Silence()
	if len(p.Files) > 0 {
		data = p.Files[0].New
	}
	if _, err := io.WriteString(o.stdio.Err, doc.Brief()); err != nil {
		return err
	}
	_, err := o.stdio.Out.Write(data)
	return err
}
