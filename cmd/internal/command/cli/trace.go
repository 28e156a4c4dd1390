package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/conduct"
	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/attach"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/exectrace"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/input"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/view"
)

const traceHelp = `When a Go program stood still although it had work to do, and whether a CPU quota or other programs were the cause.

Usage:
  unthrottle trace [FLAGS] FILE          an execution trace, also .gz, or a flight recorder's snapshot; - is stdin
  unthrottle trace [FLAGS] URL           take one from a program with net/http/pprof: host:port is enough
  unthrottle trace [FLAGS] PID | NAME    the same, from a process here
  unthrottle trace --record D [FLAGS] -- PROGRAM [ARGS]    start the program, trace it for D, and end it

{{flags}}

--period also gives the period of a quota when nothing else shows it.

Exit codes:
  0 done   1 failed   2 usage   3 see --fail-on and --fail-share   130 interrupted

Example:
  unthrottle trace localhost:6060 -o trace.html
`

// A tracer runs the verb.
type tracer struct {
	stdio   IO
	flags   *verb.Flags
	results *verb.Results[*report.Trace]
	fail    verb.Threshold
	save    string
	record  time.Duration
	limit   *limitOptions
	stat    string
	source  string
	take    attach.Tracer
	facts   report.TraceFacts
	how     exectrace.Options
}

func newTrace(stdio IO) *cobra.Command {
	return verb.New("trace", traceHelp, func(l *verb.Flags) func(context.Context, []string) error {
		t := &tracer{stdio: stdio, flags: l, results: verb.NewResults(stdio.IO, verb.SheetFormats(view.Trace))}
		taking := l.Section("Taking it:")
		t.take.Seconds = 5
		verb.Seconds(taking, &t.take.Seconds, "D\thow long to trace, in whole seconds (5s)")
		taking.StringVar(&t.save, "save", "", "F\tkeep the trace as file F")
		taking.BoolVar(&t.take.NoSamples, "no-samples", false, "take no CPU profile during the trace (its samples help to judge a trace with few events)")
		taking.DurationVar(&t.record, "record", 0, "D\tstart a program, under a limit if one is given, and trace it for D")
		t.limit = limitFlags(l.Like("unthrottle run"))
		beside := l.Section("Context:")
		beside.StringVar(&t.stat, "cgroup-stat", "", "BEFORE,AFTER\tcpu.stat from before and after the trace, for a trace in a file")
		t.results.TakenFlags(l.Section("Results:"), &t.fail, "throttled")
		return t.run
	})
}

func (t *tracer) run(ctx context.Context, args []string) error {
	parse := t.parseSource
	if t.flags.Given("record") {
		parse = t.parseRecord
	}
	if err := parse(args); err != nil {
		return err
	}
	if err := t.results.Open(); err != nil {
		return err
	}
	doc, err := t.document(ctx)
	if err := t.results.Finish(doc, err); err != nil {
		return err
	}
	return t.fail.Verdict(doc.Findings, doc.Throttled)
}

// parseSource finds out what a source is: a file that exists, a process, a URL, or a file that does not exist.
func (t *tracer) parseSource(args []string) (err error) {
	a, l := &t.take, t.flags
	if len(args) != 1 {
		return hint.Usage(attach.Trace.Example, "trace takes one file, URL, PID or NAME, got %d", len(args))
	}
	if name := l.FirstGiven("cpus", "burst", "memory", "cpuset", "limit-with"); name != "" {
		return hint.Usage("unthrottle trace --record 5s --cpus 0.5 -- PROGRAM", "--%s is for a program that --record starts", name)
	}
	period := t.limit.Period
	if period < 0 || period > time.Second || l.Given("period") && period < time.Millisecond {
		return hint.Usage("--period 100ms", "--period=%v: the kernel has periods from 1ms to 1s", period)
	}
	if t.how.Quotas.Period = period; period > 0 {
		t.facts.PeriodFrom = "given"
	}
	t.source = args[0]
	if a.Process, a.URL, err = attach.Trace.Place(t.source, a.Seconds, l.FirstGiven("for", "seconds") != ""); err != nil {
		return err
	}
	if a.URL != nil {
		t.source = a.URL.Redacted()
	}
	name := l.FirstGiven("for", "seconds", "save", "no-samples")
	switch {
	case !t.taken() && name != "":
		return hint.Usage("leave it out", "--%s is for taking a trace: %s is a file", name, t.source)
	case t.taken() && t.stat != "":
		return hint.Usage("leave it out: for a process on this machine the kernel's counts are read anyway", "--cgroup-stat is for a trace in a file")
	}
	return nil
}

// taken reports whether there is no file with the trace yet.
func (t *tracer) taken() bool {
	return t.take.Program != nil || t.take.Process != 0 || t.take.URL != nil
}

// parseRecord checks the command line of --record.
func (t *tracer) parseRecord(args []string) error {
	const example = "unthrottle trace --record 5s --cpus 0.5 -- PROGRAM"
	switch {
	case len(args) == 0:
		return hint.Usage(example, "--record needs a program to start")
	case t.record < time.Second || t.record > time.Hour || t.record%time.Second != 0:
		return hint.Usage("--record 5s", "--record=%v is not a whole number of seconds, at most an hour", t.record)
	case t.flags.FirstGiven("for", "seconds") != "":
		return hint.Usage("leave it out", "--record tells how long the trace is: --for is for a program that is already running")
	case t.stat != "":
		return hint.Usage("leave it out: the kernel's counts are read anyway", "--cgroup-stat is for a trace in a file")
	}
	if err := t.limit.Check(); err != nil {
		return hint.Usage(example, "%w", err)
	}
	a := &t.take
	t.source, t.facts.Recorded = args[0], args
	a.Program, a.Limit, a.With, a.Output, a.Seconds = args, t.limit.Limit, t.limit.with, t.stdio.Err, int(t.record/time.Second)
	return nil
}

// document reads the trace, or takes it before, and makes the document.
func (t *tracer) document(ctx context.Context) (_ *report.Trace, err error) {
	a, f := &t.take, &t.facts
	if t.stat != "" {
		if f.Stat, err = attach.ReadStat(ctx, t.stat); err != nil {
			return nil, err
		}
		before, after := f.Stat[0], f.Stat[1]
		t.how.Kernel, t.how.Unseen = exectrace.ByStat(before, after), before.Throttled == after.Throttled
	}
	file, err := t.file(ctx)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if f.Trace, err = attach.ReadTrace(ctx, t.source, file, t.how); err != nil {
		return nil, err
	}
	if a.NoCPU != nil && f.Trace.Samples == nil {
		f.Warnings = append(f.Warnings, fmt.Errorf("there are no CPU samples in it: %w", a.NoCPU))
	}
	f.Source = t.source
	doc, err := report.NewTrace(*f)
	if err != nil {
		return nil, hint.With(fmt.Errorf("comparing the trace with cpu.stat: %w", err), "--cgroup-stat takes the file from before the trace first")
	}
	doc.Header, doc.Command = verb.NewHeader("trace"), t.stdio.command()
	return doc, nil
}

// file is where to read the trace: a file that was named, or one that it is taken into.
func (t *tracer) file(ctx context.Context) (io.ReadCloser, error) {
	if t.taken() {
		return t.takeTrace(ctx)
	}
	f, err := input.Open(ctx, t.source, t.stdio.In)
	if err != nil {
		return nil, hint.With(fmt.Errorf("reading the trace: %w", err), attach.Trace.Example)
	}
	return f, nil
}

// takeTrace takes the trace, and notes what was seen alongside. A trace that could be taken is saved, whatever comes next.
func (t *tracer) takeTrace(ctx context.Context) (io.ReadCloser, error) {
	saved, err := verb.NewOutput(t.save, io.Discard)
	if err != nil {
		return nil, err
	}
	a, f := &t.take, &t.facts
	tell := conduct.NewProgress(t.stdio.IO, t.results.Format == "json")
	a.Note = tell.Note
	if t.results.Format != "json" {
		a.Late = tell.Say
	}
	if t.save != "" {
		a.Save = saved.W
	}
	byPID := a.Process != 0
	file, err := a.Take(ctx)
	tell.Done()
	kept := err
	if a.Saved {
		f.Saved, kept = t.save, nil
	}
	if saveErr := saved.Finish(kept); err == nil && saveErr != nil {
		file.Close()
		return nil, saveErr
	}
	f.Asked, f.Took = a.Asked, a.Took
	f.Beside(a.Beside)
	t.how.Kernel = a.Kernel
	switch n := len(a.Readings); {
	case a.Limits == nil:
	case n == 0:
		t.how.Limit = a.Limits.CPUs // emulated, so that nothing counts
	default:
		t.how.Unseen = a.Readings[n-1].Throttled == a.Readings[0].Throttled
	}
	if a.Quotas.Period > 0 && f.PeriodFrom == "" {
		t.how.Quotas, f.PeriodFrom = a.Quotas, "limit"
	}
	if byPID && a.URL != nil {
		t.source = a.URL.Redacted()
	}
	return file, err
}
