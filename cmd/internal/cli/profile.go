package cli

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/attach"
	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/render"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/view"
)

const profileHelp = `What of a Go program's CPU time grows with GOMAXPROCS, and how its CPU time compares with its limit.

Usage:
  unthrottle profile [FLAGS] FILE        a CPU profile as runtime/pprof writes it; - is stdin
  unthrottle profile [FLAGS] URL         takes one from a program with net/http/pprof: host:port is enough

{{flags}}

It gives no verdict: a CPU profile does not show when a program was frozen. unthrottle explain --watch PID does. What is
known beside the profile is held against the rules of unthrottle ps.

Exit codes:
  0 done   1 could not do it   2 usage   3 as --fail-on asks   130 interrupted

Example:
  unthrottle profile localhost:6060 --base before.pb.gz -o profile.html
`

type profileOptions struct {
	seconds          int
	save, base       string
	units, baseUnits float64
	pid              int
	failOn           *finding.Severity // nil: never
	metrics          string
	outputs          []string
	format           string
	json             bool
}

// A profiler runs the verb.
type profiler struct {
	stdio IO
	o     profileOptions
	style render.Style

	source string   // file or URL, as it is shown
	url    *url.URL // nil: a file
	limit  float64
	files  results[*report.Profile]
	saved  *output
	facts  report.ProfileFacts
}

func newProfile(stdio IO) *cobra.Command {
	p := &profiler{stdio: stdio}
	o := &p.o
	cmd := &cobra.Command{Use: "profile", Long: profileHelp}
	list := newFlagList(cmd)
	taken := list.section("Profile:").FlagSet
	taken.IntVar(&o.seconds, "seconds", 10, "N\thow long to take it for (10)")
	taken.StringVar(&o.save, "save", "", "F\tkeep the profile as file F")
	taken.StringVar(&o.base, "base", "", "FILE\tthe profile to hold it against, for a unit of work")
	taken.Float64Var(&o.units, "units", 0, "N\thow much work was done; otherwise CPU time of the program's own code counts")
	taken.Float64Var(&o.baseUnits, "base-units", 0, "M\thow much was done in the base")
	beside := list.section("Beside it:").FlagSet
	beside.Var(quantity.Value(&p.limit, quantity.ParseCPUs, "0.5, or --limit 500m"), "limit", "CPUS\tthe limit: 0.5, 500m")
	beside.IntVar(&o.pid, "pid", 0, "PID\tthe process: its limit, GOMAXPROCS and throttling; found by itself for a URL on this host")
	beside.StringVar(&o.metrics, "metrics", "", "M\tits page of metrics, a URL (that of the same host), FILE, or BEFORE,AFTER; none: don't ask")
	results := list.section("Results:").FlagSet
	outputsFlag(results, &o.outputs, ".json, .html or .md")
	results.StringVar(&o.format, "format", "text", "F\ttext, json, html or md")
	jsonFlag(results, &o.json)
	failOn := failOnFlag(results)
	color := colorFlag(results, stdio)
	list.done()
	flags := cmd.Flags()
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if p.style, err = color(false); err != nil {
			return err
		}
		if len(args) != 1 {
			return hint.Usage(attach.CPUProfile.Example, "profile wants one file or URL, got %d", len(args))
		}
		if err := p.parse(args[0], flags.Changed); err != nil {
			return err
		}
		o.failOn = failOn()
		return p.run(cmd.Context())
	}
	return cmd
}

// parse checks the command line.
func (p *profiler) parse(source string, changed func(string) bool) (err error) {
	o := &p.o
	p.source = source
	if p.url, err = attach.CPUProfile.URL(source, o.seconds, changed("seconds")); err != nil {
		return err
	}
	switch {
	case p.url != nil:
		p.source = p.url.Redacted()
	case changed("seconds"):
		return hint.Usage("leave it out", "--seconds is for a URL: a file was taken already")
	case o.save != "":
		return hint.Usage("leave it out", "--save is for a URL: this is a file already")
	}
	if o.seconds < 1 || o.seconds > 3600 {
		return hint.Usage("--seconds 10", "--seconds=%d is not within 1 and 3600", o.seconds)
	}
	if changed("pid") && o.pid <= 0 {
		return hint.Usage("pgrep NAME finds a process's pid", "--pid=%d is not a pid", o.pid)
	}
	switch {
	case changed("units") != changed("base-units"):
		return hint.Usage("give both", "--units and --base-units go together")
	case changed("units") && o.base == "":
		return hint.Usage("add --base FILE", "--units is for holding a profile against a base, and there is none")
	case changed("units") && !(o.units > 0 && o.baseUnits > 0 && o.units < 1e15 && o.baseUnits < 1e15):
		return hint.Usage("--units 68014 --base-units 36374", "--units=%g and --base-units=%g are no amounts of work", o.units, o.baseUnits)
	}
	o.format, err = screenFormat(sheetFormats(view.Profile), o.format, o.json, changed("format"))
	return err
}

func (p *profiler) run(ctx context.Context) error {
	if err := p.readBase(); err != nil {
		return err
	}
	if err := p.open(); err != nil {
		return p.finish(err)
	}
	data, err := p.take(ctx)
	if err != nil {
		return p.finish(err)
	}
	if p.saved != nil {
		if _, err := p.saved.w.Write(data); err != nil {
			return p.finish(fmt.Errorf("saving the profile: %w", err))
		}
	}
	f := &p.facts
	if f.Profile, err = attach.ReadProfile(p.source, data); err != nil {
		return p.finish(err)
	}
	f.Source, f.Saved, f.LimitGiven = p.source, p.o.save, p.limit
	f.Units, f.BaseUnits, f.BaseSource = p.o.units, p.o.baseUnits, p.o.base
	doc := report.NewProfile(*f)
	doc.Header = newHeader("profile")
	doc.Command = append([]string{"unthrottle"}, p.stdio.Args...)
	if err := p.finish(p.files.write(doc, p.style)); err != nil {
		return err
	}
	if exceeds(doc.Findings, p.o.failOn) {
		return exitCode{exitFindings, nil}
	}
	return nil
}

// readBase reads the base before anything is measured.
func (p *profiler) readBase() error {
	if p.o.base == "" {
		return nil
	}
	data, err := attach.ReadFile(p.o.base, p.stdio.In)
	if err != nil {
		return hint.With(fmt.Errorf("reading the base: %w", err), "--base wants a file that --save has written, or curl")
	}
	if p.facts.Base, err = attach.ReadProfile(p.o.base, data); err != nil {
		return fmt.Errorf("reading the base: %w", err)
	}
	return nil
}

// open opens all files before anything is measured.
func (p *profiler) open() error {
	if err := p.files.open(sheetFormats(view.Profile), p.o.outputs, p.o.format, p.stdio.Out); err != nil {
		return err
	}
	if p.o.save != "" {
		var err error
		if p.saved, err = newOutput(p.o.save, nil); err != nil {
			return err
		}
	}
	return nil
}

// finish closes all files. A profile that could be taken is saved, whatever came then.
func (p *profiler) finish(err error) error {
	err = p.files.finish(err)
	if p.saved != nil {
		kept := err
		if p.facts.Profile != nil {
			kept = nil
		}
		if saveErr := p.saved.finish(kept); err == nil {
			err = saveErr
		}
	}
	return err
}

// take takes the profile, or reads it, and notes what was seen beside.
func (p *profiler) take(ctx context.Context) ([]byte, error) {
	progress := newProgress(p.stdio, p.o.format == "json")
	a := &attach.Profiler{Source: p.source, URL: p.url, Process: p.o.pid, Metrics: p.o.metrics, In: p.stdio.In, Note: progress.note}
	data, err := a.Take(ctx)
	progress.done()
	f := &p.facts
	f.PID, f.Name, f.Live, f.Limits, f.Readings, f.Warnings = a.PID, a.Name, a.Live, a.Limits, a.Readings, a.Warnings
	f.MetricsProcs, f.Demand, f.DemandOver = a.MetricsProcs, a.Demand, a.DemandOver
	return data, err
}
