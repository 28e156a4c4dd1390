package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/heartbeat"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/internal/show/view"
)

const watchHelp = `Throttling as it happens: a heartbeat inside the cgroup shows when nothing in it could run.

Usage:
  unthrottle watch [FLAGS]        its own cgroup: in a container, the container's
  unthrottle watch [FLAGS] PID    the cgroup of a process, given by pid, name or where it listens; needs root

{{flags}}

On a terminal it draws one row per second, as the second passes; elsewhere it prints one line per second. At the end it
reports whether a CPU quota or a busy host was the cause, the period of the quota, the share of time frozen, what the kernel
counted, and what is wrong by the rules of unthrottle ps.

The heartbeat sleeps for 2 ms over and over, which takes about 1 % of a CPU. Watching its own cgroup needs no privilege.

Exit codes:
  0 done, also by Ctrl-C   1 failed   2 usage   3 see --fail-on and --fail-share   130 interrupted before D was over

Example:
  kubectl exec mypod -- unthrottle watch --for 10s
`

func newWatch(stdio IO) *cobra.Command {
	return verb.New("watch", watchHelp, func(l *verb.Flags) func(context.Context, []string) error {
		formats := verb.SheetFormats(view.Watch)
		formats["text"] = verb.SheetFormats(view.WatchSummary)["text"] // what was not shown as it happened
		w := &watcher{stdio: stdio, results: verb.NewResults(stdio.IO, formats)}
		flags := l.Section("Flags:")
		verb.Duration(flags, &w.Length, "for", time.Millisecond, "D\thow long (until Ctrl-C)")
		w.fail.FailOn(flags)
		w.fail.FailShare(flags, "frozen")
		w.results.JSONFlag(flags)
		w.results.FilesFlag(flags)
		w.results.ColorFlag(flags)
		return w.run
	})
}

// newHeartbeat is the verb that is the heartbeat. It is not for people: watch calls it.
func newHeartbeat(stdio IO) *cobra.Command {
	return &cobra.Command{
		Use: "heartbeat", Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return heartbeat.Beat(stdio.In, stdio.Out) },
	}
}

// A watcher runs the verb.
type watcher struct {
	heartbeat.Watch
	stdio   IO
	results *verb.Results[*report.Watch]
	fail    verb.Threshold
}

func (w *watcher) run(ctx context.Context, args []string) (err error) {
	const example = "unthrottle watch --for 10s myserver"
	if len(args) > 1 {
		return hint.Usage(example, "watch takes one process, got %d arguments", len(args))
	}
	if len(args) == 1 {
		if w.PID, err = procs.FindOne("", args[0]); err != nil {
			return err
		}
	}
	if err := w.results.Open(); err != nil {
		return err
	}
	show := &watchScreen{secondScreen: newSecondScreen(w.stdio.Out, w.stdio.Env, w.results.Style), silent: w.results.JSON}
	w.Command = []string{w.stdio.Self, "heartbeat"}
	w.OnStart = func() { show.head(w.document(&w.Seen)) }
	w.OnSecond = func(n int, since heartbeat.Evidence) {
		if !show.silent { // all freezes would be a search that grows longer and longer
			show.second(n, w.document(w.Seen.Newest(watchNewest)), since.Owner.Periods, since.Owner.Throttled)
		}
	}
	w.OnPulse = func(n int) { show.now(n, &w.Seen) }
	died, err := w.Run(ctx)
	var doc *report.Watch
	if err == nil {
		show.end()
		doc = w.document(&w.Seen)
	}
	switch err = w.results.Finish(doc, err); {
	case err != nil:
		return err
	case died != nil:
		return died
	case doc.Stopped:
		return verb.ExitCode{Code: verb.Interrupted}
	}
	frozen, _ := doc.Frozen()
	return w.fail.Verdict(doc.Findings, frozen)
}

// watchNewest is how many freezes the running verdict is from: those of ten seconds of a usual period.
const watchNewest = 100

func (w *watcher) document(seen *heartbeat.Observation) *report.Watch {
	doc := report.NewWatch(report.WatchFacts{
		Began: w.Began, PID: w.PID, Name: w.Name, Group: w.Group, Moved: w.Moved, Planned: w.Length, Stopped: w.Stopped, Ended: w.Ended,
		Limit: w.Limit, Seen: seen, Evidence: w.Evidence(), Warnings: w.Warnings,
	})
	doc.Header, doc.Command = verb.NewHeader("watch"), w.stdio.command()
	return &doc
}

// A watchScreen shows what happens: on a terminal the row of this second, and below it what is known so far; elsewhere a
// line for each second.
type watchScreen struct {
	secondScreen
	silent bool
	status string
}

func (s *watchScreen) head(d *report.Watch) {
	if s.silent {
		return
	}
	s.say(sheet.Plain, view.WatchHead(d))
	s.periods(d.Folding().Period)
	if s.terminal != nil {
		s.say(sheet.Soft, s.strip.Legend("frozen"))
	}
}

// now draws the second that goes on.
func (s *watchScreen) now(second int, seen *heartbeat.Observation) {
	if s.silent || s.terminal == nil {
		return
	}
	row := s.row(second, view.WatchSpans(report.NewFreezes(seen.Newest(watchNewest).Kept)), seen.Wall.Seconds())
	s.terminal.Draw(row, s.terminal.Fit(s.status))
}

// second writes one that is over.
func (s *watchScreen) second(second int, d *report.Watch, periods, throttled int64) {
	if s.terminal == nil {
		fmt.Fprintln(s.w, view.WatchLine(second, d, periods, throttled))
		return
	}
	s.status = view.WatchStatus(d)
	s.keep(second, view.WatchSpans(d.Freezes), float64(second+1))
}

// end leaves an empty line before what comes then.
func (s *watchScreen) end() {
	s.terminal.Clear()
	if !s.silent {
		fmt.Fprintln(s.w)
	}
}
