package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/cluster"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/manifest"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/judge/lint"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/page"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// explain is lint --explain: which GOMAXPROCS each kind of program will have, and why. It says what will be, for programs that may
// be of any kind, so there is no verdict that a build could pass or fail by.
func (o *linter) explain(ctx context.Context, l *verb.Flags, names []string) error {
	if given := l.FirstGiven("fail-on", "github", "baseline", "write-baseline", "recommended"); given != "" {
		return hint.Usage("lint without --explain has findings", "--%s is about findings, and --explain has none", given)
	}
	results := verb.NewResults(o.stdio, verb.Shown(page.Forecast))
	likeKubectl(results, page.Forecast, nil)
	verb.Inherit(results, o.results)
	known, err := o.all(ctx, names)
	if err != nil {
		return err
	}
	if err := results.Open(); err != nil {
		return err
	}
	doc, err := o.foresee(ctx, names, known)
	if err == nil {
		err = ctx.Err() // programs that were not read in time would look as if nothing were known about them
	}
	if err := results.Finish(doc, err); err != nil {
		return err
	}
	return o.read(doc)
}

// foresee reads files, or a cluster, and says what each container will have.
func (o *linter) foresee(ctx context.Context, names []string, known lint.Known) (doc *result.Forecast, err error) {
	excluded := 0
	if o.live.on {
		found, err := cluster.Read(ctx, o.live.Options)
		if err != nil {
			return nil, err
		}
		if doc, err = result.NewClusterForecast(ctx, found, known); err != nil {
			return nil, err
		}
	} else {
		set, err := o.manifests(ctx, names)
		if err != nil {
			return nil, err
		}
		if doc, err = result.NewForecast(ctx, set, known); err != nil {
			return nil, err
		}
		excluded = set.Excluded
	}
	// Documents have the name that this had as a verb, so that their readers keep working.
	doc.Header, doc.Project = verb.NewHeader("forecast"), o.project.told(excluded)
	return doc, nil
}

// manifests reads what is named, and renders charts and kustomizations.
func (o *linter) manifests(ctx context.Context, names []string) (*manifest.Set, error) {
	rendering, end, err := o.charts.rendering(ctx, o.stdio.In)
	if err != nil {
		return nil, err
	}
	defer end()
	return manifest.Read(ctx, manifest.Options{Stdin: o.stdio.In, Rendering: rendering, Exclude: o.project.excludes}, names...)
}

// renamed is a verb under the name that it had before, which says what it is called now. It is in no help, and goes with the next release.
func renamed(stdio verb.IO, cmd *cobra.Command, now string) *cobra.Command {
	cmd.Hidden = true
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := io.WriteString(stdio.Err, fmt.Sprintf("kubectl-unthrottle: %s is now called %s, and goes with the next release\n", cmd.Name(), now)); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}
