package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/conduct"
	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/attach"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/view"
)

const profileHelp = `Which part of a Go program's CPU time grows with GOMAXPROCS, and how its CPU time compares with its limit.

Usage:
  unthrottle profile [FLAGS] FILE        a CPU profile as runtime/pprof writes it; - is stdin
  unthrottle profile [FLAGS] URL         take one from a program with net/http/pprof: host:port is enough
  unthrottle profile [FLAGS] PID | NAME  the same, from a process here

{{flags}}

It gives no verdict, because a CPU profile does not show when a program was frozen; unthrottle explain PID does. Whatever
else it knows about the program is checked against the rules of unthrottle ps.

Exit codes:
  0 done   1 failed   2 usage   3 see --fail-on   130 interrupted

Example:
  unthrottle profile localhost:6060 --base before.pb.gz -o profile.html
`

// A profiler runs the verb.
type profiler struct {
	stdio            IO
	flags            *verb.Flags
	results          *verb.Results[*report.Profile]
	fail             verb.Threshold
	seconds          int
	save, base       string
	units, baseUnits float64
	take             attach.Profiler
	facts            report.ProfileFacts
}

func newProfile(stdio IO) *cobra.Command {
	return verb.New("profile", profileHelp, func(l *verb.Flags) func(context.Context, []string) error {
		p := &profiler{stdio: stdio, flags: l, results: verb.NewResults(stdio.IO, verb.SheetFormats(view.Profile))}
		taken := l.Section("Profile:")
		p.seconds = 10
		verb.Seconds(taken, &p.seconds, "D\thow long to profile, in whole seconds (10s)")
		taken.StringVar(&p.save, "save", "", "F\tkeep the profile as file F")
		taken.StringVar(&p.base, "base", "", "FILE\tthe profile to compare it with, per unit of work")
		taken.Float64Var(&p.units, "units", 0, "N\thow much work was done (if not given, the CPU time of the program's own code)")
		taken.Float64Var(&p.baseUnits, "base-units", 0, "M\thow much work was done in the base")
		beside := l.Section("Context:")
		beside.Var(quantity.Value(&p.facts.LimitGiven, quantity.ParseCPUs, "0.5, or --limit 500m"), "limit", "CPUS\tthe CPU limit: 0.5, 500m")
		beside.IntVar(&p.take.Process, "pid", 0, "PID\tread limit, GOMAXPROCS and throttling of this process; found automatically for a URL on this host")
		beside.StringVar(&p.take.Metrics, "metrics", "", "M\tthe program's metrics page: a URL (the same host's), FILE, or BEFORE,AFTER; none: don't ask")
		p.results.TakenFlags(l.Section("Results:"), &p.fail, "")
		return p.run
	})
}

// parse checks the command line.
func (p *profiler) parse(args []string) (err error) {
	if len(args) != 1 {
		return hint.Usage(attach.CPUProfile.Example, "profile takes one file, URL, PID or NAME, got %d", len(args))
	}
	t, given := &p.take, p.flags.Given
	t.Source, t.In, t.Seconds = args[0], p.stdio.In, p.seconds
	var process int
	if process, t.URL, err = attach.CPUProfile.Place(t.Source, p.seconds, p.flags.FirstGiven("for", "seconds") != ""); err != nil {
		return err
	}
	if t.URL != nil {
		t.Source = t.URL.Redacted()
	} else if process != 0 {
		if given("pid") {
			return hint.Usage("leave it out", "--pid is for a profile in a file: %s is a process", t.Source)
		}
		t.Source, t.Process = "", process
	} else if name := p.flags.FirstGiven("for", "seconds", "save"); name != "" {
		return hint.Usage("leave it out", "--%s is for a URL: this profile was taken already", name)
	}
	switch {
	case given("pid") && t.Process <= 0:
		return hint.Usage("pgrep NAME finds a process's pid", "--pid=%d is not a pid", t.Process)
	case given("units") != given("base-units"):
		return hint.Usage("give both", "--units and --base-units go together")
	case given("units") && p.base == "":
		return hint.Usage("add --base FILE", "--units is for comparing with a base, and needs --base")
	case given("units") && !(p.units > 0 && p.baseUnits > 0 && p.units < 1e15 && p.baseUnits < 1e15):
		return hint.Usage("--units 68014 --base-units 36374", "--units=%g and --base-units=%g are not amounts of work", p.units, p.baseUnits)
	}
	return nil
}

func (p *profiler) run(ctx context.Context, args []string) error {
	if err := p.parse(args); err != nil {
		return err
	}
	if err := p.readBase(ctx); err != nil {
		return err
	}
	if err := p.results.Open(); err != nil {
		return err
	}
	doc, err := p.document(ctx)
	if err := p.results.Finish(doc, err); err != nil {
		return err
	}
	return p.fail.Verdict(doc.Findings, 0)
}

// readBase reads the base before anything is measured.
func (p *profiler) readBase(ctx context.Context) error {
	if p.base == "" {
		return nil
	}
	data, err := attach.ReadFile(ctx, p.base, p.stdio.In)
	if err != nil {
		return hint.With(fmt.Errorf("reading the base: %w", err), "--base takes a file that --save or curl has written")
	}
	if p.facts.Base, err = attach.ReadProfile(p.base, data); err != nil {
		return fmt.Errorf("reading the base: %w", err)
	}
	return nil
}

// document takes the profile, or reads it, and makes the document. A profile that could be taken is saved, whatever comes next.
func (p *profiler) document(ctx context.Context) (*report.Profile, error) {
	saved, err := verb.NewOutput(p.save, io.Discard)
	if err != nil {
		return nil, err
	}
	a, f := &p.take, &p.facts
	tell := conduct.NewProgress(p.stdio.IO, p.results.Format == "json")
	a.Note = tell.Note
	data, err := a.Take(ctx)
	tell.Done()
	if err == nil {
		f.Profile, err = attach.ReadProfile(a.Source, data)
	}
	if err == nil && f.Profile.Samples == 0 {
		err = hint.With(fmt.Errorf("%s: the program used no CPU time while the profile was taken", a.Source), "put it under load: unthrottle load URL")
	}
	if err == nil {
		if _, err = saved.W.Write(data); err != nil {
			err = fmt.Errorf("saving the profile: %w", err)
		}
	}
	if err = saved.Finish(err); err != nil {
		return nil, err
	}
	f.Beside(a.Beside)
	f.MetricsProcs, f.Demand, f.DemandOver = a.MetricsProcs, a.Demand, a.DemandOver
	f.Source, f.Saved, f.Units, f.BaseUnits, f.BaseSource = a.Source, p.save, p.units, p.baseUnits, p.base
	doc := report.NewProfile(*f)
	doc.Header, doc.Command = verb.NewHeader("profile"), p.stdio.command()
	return doc, nil
}
