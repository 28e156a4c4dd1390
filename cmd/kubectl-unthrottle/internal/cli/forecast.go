package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/page"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

const forecastHelp = `Which GOMAXPROCS each kind of Go program will get in the containers of manifests.

Usage:
  kubectl unthrottle forecast [FLAGS] FILE | DIRECTORY | - ...

A container whose program is named by --binary, --image, --inventory or --go gets one line. Without --node-cpus, a program
that follows no limit gets the node's CPUs, however many there are.

{{flags}}

Exit codes:
  0 done   1 something could not be read, or no workload was found   2 usage   130 interrupted

Example:
  kubectl unthrottle forecast --node-cpus 8,64 deploy/
`

type forecaster struct {
	stdio   verb.IO
	given   given
	charts  charts
	results *verb.Results[*result.Forecast]
}

func newForecast(stdio verb.IO) *cobra.Command {
	return verb.New("forecast", forecastHelp, func(l *verb.Flags) func(context.Context, []string) error {
		formats := verb.Shown(page.Forecast)
		o := &forecaster{stdio: stdio, results: verb.NewResults(stdio, formats)}
		likeKubectl(o.results, page.Forecast, nil)
		flags := l.Section("Flags:")
		o.given.flags(flags)
		o.results.FilesFlag(flags)
		o.results.JSONFlag(flags)
		o.results.ColorFlag(flags)
		o.charts.flags(l.Section("Charts:"))
		return func(ctx context.Context, args []string) error {
			if err := o.charts.check(l, append(o.given.files, args...)); err != nil {
				return err
			}
			return o.run(ctx, args)
		}
	})
}

func (o *forecaster) run(ctx context.Context, args []string) error {
	names := append(o.given.files, args...)
	if len(names) == 0 {
		return hint.Usage("kubectl unthrottle forecast FILE, or - for standard input", "no manifest given")
	}
	known, err := o.given.all(ctx, names)
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
	set, err := manifest.Read(ctx, manifest.Options{Stdin: o.stdio.In, Rendering: rendering, Exclude: o.given.project.excludes}, names...)
	if err != nil {
		return o.results.Drop(err)
	}
	doc, err := result.NewForecast(ctx, set, known)
	if err == nil {
		err = ctx.Err() // programs that were not read in time would look as if nothing were known of them
	}
	if err != nil {
		return o.results.Drop(err)
	}
	doc.Header, doc.Project = verb.NewHeader("forecast"), o.given.project.told(set.Excluded)
	if err := o.results.Finish(doc, nil); err != nil {
		return err
	}
	if n := doc.Unread(); n > 0 {
		return fmt.Errorf("%d of the problems above kept something from being read", n)
	}
	return o.given.looked(doc.Nothing(), inFiles)
}
