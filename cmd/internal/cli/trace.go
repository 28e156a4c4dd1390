package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/attach"
	"github.com/unthrottle/unthrottle/cmd/internal/exectrace"
	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/render"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/view"
)

const traceHelp = `When a Go program stood still though it could have run, and whether a CPU quota or other programs did that.

Usage:
  unthrottle trace [FLAGS] FILE     an execution trace, .gz too, or a flight recorder's snapshot; - is stdin
  unthrottle trace [FLAGS] URL      takes one from a program with net/http/pprof: host:port is enough
  unthrottle trace [FLAGS] PID      the same, of a process here
  unthrottle trace --record D [FLAGS] -- PROGRAM [ARGS]    starts the program, takes one for D, ends it

{{flags}}

--period is also that of a quota which nothing else tells.

Exit codes:
  0 done   1 could not do it   2 usage   3 as --fail-on or --fail-share asks   130 interrupted

Example:
  unthrottle trace localhost:6060 -o trace.html
`

type traceOptions struct {
	seconds   int
	save      string
	noSamples bool
	record    time.Duration
	limit     runner.Limit
	with      string
	stat      string
	failOn    *finding.Severity // nil: never
	share     float64           // 0: never
	outputs   []string
	format    string
}

// A tracer runs the verb.
type tracer struct {
	stdio IO
	o     traceOptions
	style render.Style

	source string
	pid    int      // 0: none was named
	url    *url.URL // nil: a file
	args   []string // of the program to record
	files  results[*report.Trace]
	saved  *output
	facts  report.TraceFacts
	how    exectrace.Options
	noCPU  error // why there was no CPU profile meanwhile
}

func newTrace(stdio IO) *cobra.Command {
	t := &tracer{stdio: stdio}
	o := &t.o
	cmd := &cobra.Command{Use: "trace", Long: traceHelp}
	cpus, asJSON := 0.0, false
	list := newFlagList(cmd)
	taking := list.section("Taking it:").FlagSet
	taking.IntVar(&o.seconds, "seconds", 5, "N\thow long (5)")
	taking.StringVar(&o.save, "save", "", "F\tkeep the trace as file F")
	taking.BoolVar(&o.noSamples, "no-samples", false, "no CPU profile meanwhile, which lets traces with few events be told")
	taking.DurationVar(&o.record, "record", 0, "D\tof a program that is started, under a limit if one is given")
	limited := list.like("run").FlagSet
	limited.Var(quantity.Value(&cpus, quantity.ParseCPUs, "0.5, or --cpus 500m"), "cpus", "N\tits limit")
	limit := limitFlags(limited, false)
	beside := list.section("Beside it:").FlagSet
	beside.StringVar(&o.stat, "cgroup-stat", "", "BEFORE,AFTER\tcpu.stat from before and after a trace in a file")
	results := list.section("Results:").FlagSet
	outputsFlag(results, &o.outputs, ".json, .html or .md")
	results.StringVar(&o.format, "format", "text", "F\ttext, json, html or md")
	jsonFlag(results, &asJSON)
	failOn := failOnFlag(results)
	failShareFlag(results, &o.share, "throttled")
	color := colorFlag(results, stdio)
	list.done()
	flags := cmd.Flags()
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if t.style, err = color(false); err != nil {
			return err
		}
		if o.format, err = screenFormat(sheetFormats(view.Trace), o.format, asJSON, flags.Changed("format")); err != nil {
			return err
		}
		if o.limit, o.with, err = limit(); err != nil {
			return err
		}
		o.limit.CPUs, o.failOn = cpus, failOn()
		if err := t.parse(args, flags.Changed); err != nil {
			return err
		}
		return t.run(cmd.Context())
	}
	return cmd
}

// parse checks the command line.
func (t *tracer) parse(args []string, changed func(string) bool) error {
	o := &t.o
	if changed("record") {
		return t.parseRecord(args, changed)
	}
	if len(args) != 1 {
		return hint.Usage(attach.Trace.Example, "trace wants one file, URL or PID, got %d", len(args))
	}
	for _, name := range []string{"cpus", "burst", "memory", "cpuset", "limit-with"} {
		if changed(name) {
			return hint.Usage("unthrottle trace --record 5s --cpus 0.5 -- PROGRAM", "--%s is for a program that --record starts", name)
		}
	}
	if o.limit.Period < 0 || o.limit.Period > time.Second || changed("period") && o.limit.Period < time.Millisecond {
		return hint.Usage("--period 100ms", "--period=%v: the kernel has periods from 1ms to 1s", o.limit.Period)
	}
	if t.how.Period = o.limit.Period; t.how.Period > 0 {
		t.facts.PeriodFrom = "given"
	}
	return t.parseSource(args[0], changed)
}

// parseSource finds out what a source is: a file that exists, a process, a URL, or a file that does not exist.
func (t *tracer) parseSource(source string, changed func(string) bool) (err error) {
	o := &t.o
	t.source = source
	if o.seconds < 1 || o.seconds > 3600 {
		return hint.Usage("--seconds 5", "--seconds=%d is not within 1 and 3600", o.seconds)
	}
	if pid, err := strconv.Atoi(source); err == nil {
		if _, err := os.Stat(source); err != nil {
			if t.pid = pid; pid <= 0 {
				return hint.Usage("pgrep NAME finds a process's pid", "%d is no pid", pid)
			}
		}
	}
	if t.pid == 0 {
		if t.url, err = attach.Trace.URL(source, o.seconds, changed("seconds")); err != nil {
			return err
		}
	}
	taken := t.pid != 0 || t.url != nil
	if t.url != nil {
		t.source = t.url.Redacted()
		if _, err := attach.Trace.Time(t.url); err != nil {
			return err
		}
	}
	for _, name := range []string{"seconds", "save", "no-samples"} {
		if !taken && changed(name) {
			return hint.Usage("leave it out", "--%s is for a trace that is to be taken: %s is a file", name, source)
		}
	}
	if taken && o.stat != "" {
		return hint.Usage("leave it out: of a process here the kernel's count is read without it", "--cgroup-stat is for a trace in a file")
	}
	return nil
}

// parseRecord checks the command line of --record.
func (t *tracer) parseRecord(args []string, changed func(string) bool) error {
	const example = "unthrottle trace --record 5s --cpus 0.5 -- PROGRAM"
	o := &t.o
	switch {
	case len(args) == 0:
		return hint.Usage(example, "--record wants a program to start")
	case o.record < time.Second || o.record > time.Hour || o.record%time.Second != 0:
		return hint.Usage("--record 5s", "--record=%v: whole seconds, at most an hour", o.record)
	case changed("seconds"):
		return hint.Usage("leave it out", "--record tells how long the trace is: --seconds is for a program that runs")
	case o.stat != "":
		return hint.Usage("leave it out: the kernel's count is read without it", "--cgroup-stat is for a trace in a file")
	}
	if err := o.limit.Check(); err != nil {
		return hint.Usage(example, "%w", err)
	}
	t.args, t.source, t.facts.Recorded = args, args[0], args
	t.o.seconds = int(o.record / time.Second)
	return nil
}

func (t *tracer) run(ctx context.Context) error {
	if err := t.open(); err != nil {
		return t.finish(err)
	}
	doc, err := t.document(ctx)
	if err == nil {
		err = t.files.write(doc, t.style)
	}
	if err = t.finish(err); err != nil {
		return err
	}
	if exceeds(doc.Findings, t.o.failOn) || t.o.share > 0 && doc.Throttled >= t.o.share {
		return exitCode{exitFindings, nil}
	}
	return nil
}

// open reads and opens all files before anything is measured.
func (t *tracer) open() error {
	if t.o.stat != "" {
		stat, err := readStat(t.o.stat)
		if err != nil {
			return err
		}
		t.facts.Stat = stat
	}
	if err := t.files.open(sheetFormats(view.Trace), t.o.outputs, t.o.format, t.stdio.Out); err != nil {
		return err
	}
	if t.o.save != "" {
		var err error
		if t.saved, err = newOutput(t.o.save, nil); err != nil {
			return err
		}
	}
	return nil
}

// statMost is more than a cpu.stat has.
const statMost = 64 << 10

// readStat reads the two files of --cgroup-stat.
func readStat(names string) (*[2]cgroup.Counters, error) {
	const example = "--cgroup-stat before.txt,after.txt: two copies of the cpu.stat of its cgroup"
	both := strings.Split(names, ",")
	if len(both) != 2 {
		return nil, hint.Usage(example, "--cgroup-stat=%s is not two files with a comma between them", names)
	}
	var stat [2]cgroup.Counters
	for i, name := range both {
		f, err := os.Open(name)
		if err != nil {
			return nil, hint.With(fmt.Errorf("reading cpu.stat: %w", err), example)
		}
		data, err := io.ReadAll(io.LimitReader(f, statMost))
		f.Close()
		if err == nil {
			stat[i], err = exectrace.ParseStat(string(data))
		}
		if err != nil {
			return nil, hint.With(fmt.Errorf("reading %s: %w", name, err), example)
		}
	}
	return &stat, nil
}

// finish closes all files. A trace that could be taken is saved, whatever came then.
func (t *tracer) finish(err error) error {
	err = t.files.finish(err)
	if t.saved != nil {
		kept := err
		if t.facts.Saved != "" {
			kept = nil
		}
		if saveErr := t.saved.finish(kept); err == nil {
			err = saveErr
		}
	}
	return err
}

// document reads the trace, or takes it before, and makes the document.
func (t *tracer) document(ctx context.Context) (*report.Trace, error) {
	file, err := t.file(ctx)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f := &t.facts
	if f.Trace, err = attach.ReadTrace(ctx, t.source, file, t.how); err != nil {
		return nil, err
	}
	if t.noCPU != nil && f.Trace.Samples == nil {
		f.Warnings = append(f.Warnings, fmt.Errorf("there are no CPU samples in it: %w", t.noCPU))
	}
	f.Source = t.source
	doc, err := report.NewTrace(*f)
	if err != nil {
		return nil, hint.With(fmt.Errorf("holding the trace against cpu.stat: %w", err), "--cgroup-stat wants the file from before the trace first")
	}
	doc.Header = newHeader("trace")
	doc.Command = append([]string{"unthrottle"}, t.stdio.Args...)
	return doc, nil
}

// file is where the trace is to be read: a file that was named, or one that it is taken into.
func (t *tracer) file(ctx context.Context) (io.ReadCloser, error) {
	switch {
	case t.args != nil, t.pid != 0, t.url != nil:
		return t.take(ctx)
	case t.source == "-":
		return io.NopCloser(t.stdio.In), nil
	}
	f, err := os.Open(t.source)
	if err != nil {
		return nil, hint.With(fmt.Errorf("reading the trace: %w", err), attach.Trace.Example)
	}
	return f, nil
}

// take takes the trace, and notes what was seen beside.
func (t *tracer) take(ctx context.Context) (io.ReadCloser, error) {
	progress := newProgress(t.stdio, t.o.format == "json")
	a := &attach.Tracer{
		Program: t.args, Limit: t.o.limit, With: runner.With(t.o.with), Output: t.stdio.Err,
		Process: t.pid, URL: t.url, Seconds: t.o.seconds, NoSamples: t.o.noSamples, Note: progress.note,
	}
	if t.saved != nil {
		a.Save = t.saved.w
	}
	file, err := a.Take(ctx)
	progress.done()
	f := &t.facts
	f.PID, f.Name, f.Live, f.Limits, f.Readings, f.Warnings = a.PID, a.Name, a.Live, a.Limits, a.Readings, a.Warnings
	t.noCPU = a.NoCPU
	if a.Saved {
		f.Saved = t.o.save
	}
	if a.Period > 0 && f.PeriodFrom == "" {
		t.how.Period, f.PeriodFrom = a.Period, "limit"
	}
	if t.pid != 0 && a.URL != nil {
		t.source = a.URL.Redacted()
	}
	return file, err
}
