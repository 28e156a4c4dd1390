package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/chart"
	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/heartbeat"
	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/render"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/sheet"
	"github.com/unthrottle/unthrottle/cmd/internal/view"
)

const watchHelp = `Throttling as it happens: a heartbeat inside the cgroup shows when nothing in it could run.

Usage:
  unthrottle watch [FLAGS]        the own cgroup: in a container, that of the container
  unthrottle watch [FLAGS] PID    the cgroup of a process; as root

{{flags}}

On a terminal each row is a second, drawn as it passes; elsewhere there is a line a second. At the end it says whether a
CPU quota was the cause or a busy host, the period of the quota, how much of the time was frozen, what the kernel counted,
and what is wrong, by the rules of unthrottle ps.

The heartbeat sleeps for 2 ms again and again, which takes less than 1 % of a CPU. For the own cgroup it needs no privilege.

Exit codes:
  0 done, also by Ctrl-C   1 could not do it   2 usage   3 as --fail-on or --fail-share asks   130 interrupted before D was over

Example:
  kubectl exec mypod -- unthrottle watch --for 10s
`

type watchOptions struct {
	pid     int
	length  time.Duration     // 0: until Ctrl-C
	failOn  *finding.Severity // nil: never
	share   float64           // 0: never
	json    bool
	outputs []string
}

func newWatch(stdio IO) *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{Use: "watch", Long: watchHelp}
	list := newFlagList(cmd)
	flags := list.section("Flags:").FlagSet
	flags.DurationVar(&o.length, "for", 0, "D\thow long; without it until Ctrl-C")
	failOn := failOnFlag(flags)
	failShareFlag(flags, &o.share, "frozen")
	jsonFlag(flags, &o.json)
	outputsFlag(flags, &o.outputs, ".json, .html or .md")
	color := colorFlag(flags, stdio)
	list.done()
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		style, err := color(false)
		if err != nil {
			return err
		}
		if err := o.parse(cmd, args); err != nil {
			return err
		}
		o.failOn = failOn()
		w := &watcher{stdio: stdio, o: &o, style: style}
		return w.run(cmd.Context())
	}
	return cmd
}

// newHeartbeat is the verb that is the heartbeat. It is not for people: watch calls it.
func newHeartbeat(stdio IO) *cobra.Command {
	return &cobra.Command{
		Use: "heartbeat", Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return heartbeat.Beat(stdio.In, stdio.Out) },
	}
}

func (o *watchOptions) parse(cmd *cobra.Command, args []string) (err error) {
	const example = "unthrottle watch --for 10s $(pgrep -o myserver)"
	if len(args) > 1 {
		return hint.Usage(example, "watch wants one PID, got %d arguments", len(args))
	}
	if len(args) == 1 {
		if o.pid, err = strconv.Atoi(args[0]); err != nil || o.pid <= 0 {
			return hint.Usage(example, "%q is no PID", args[0])
		}
	}
	if o.length < 0 || cmd.Flags().Changed("for") && o.length == 0 {
		return hint.Usage(example, "--for=%v makes no sense", o.length)
	}
	return nil
}

// A watcher runs the verb.
type watcher struct {
	stdio IO
	o     *watchOptions
	style render.Style
	files results[*report.Watch]

	began   time.Time
	name    string // of the process
	heart   *heartbeat.Heart
	sampler *heartbeat.Sampler
	first   heartbeat.Sample
	last    heartbeat.Sample
	seen    heartbeat.Observation
	warn    []string

	show watchScreen
}

func (w *watcher) run(ctx context.Context) error {
	err := w.open()
	var doc report.Watch
	var died error // of the heartbeat: what was seen before is shown all the same
	if err == nil {
		doc, died, err = w.watch(ctx)
	}
	if err == nil {
		err = w.files.write(&doc, w.style)
	}
	switch err = w.files.finish(err); {
	case err != nil:
		return err
	case died != nil:
		return died
	case doc.Stopped:
		return exitCode{exitInterrupted, nil}
	case exceeds(doc.Findings, w.o.failOn), w.o.share > 0 && doc.FrozenShare >= w.o.share:
		return exitCode{exitFindings, nil}
	}
	return nil
}

// watch starts the heartbeat, follows it, and makes the document of what was seen.
func (w *watcher) watch(ctx context.Context) (doc report.Watch, died, err error) {
	if err := w.start(); err != nil {
		return doc, nil, err
	}
	stopped, ended := w.follow(ctx)
	w.last = w.sampler.Sample()
	died = w.heart.Stop()
	w.show.end()
	switch {
	case w.seen.Beats == 0 && died != nil:
		return doc, nil, died
	case w.seen.Beats == 0 && ctx.Err() != nil:
		return doc, nil, ctx.Err()
	case w.seen.Beats == 0:
		return doc, nil, hint.With(errors.New("the heartbeat was not heard once"), "is the cgroup frozen, or may it use hardly any CPU?")
	case died != nil:
		ended = died.Error()
	}
	if now := cgroup.Read(cgroup.Source{PID: w.o.pid}); len(now.Levels) > 0 && (now.CPUs != w.heart.Limit.CPUs || now.From != w.heart.Limit.From) {
		w.warn = append(w.warn, "the limit was changed meanwhile")
	}
	doc = w.document(&w.seen, w.last)
	doc.Stopped, doc.Ended = stopped, ended
	return doc, died, nil
}

// open opens all files before anything is measured. What goes to the screen is what was not shown as it happened.
func (w *watcher) open() error {
	screen := ""
	if w.o.json {
		screen = "json"
	}
	if err := w.files.open(sheetFormats(view.Watch), w.o.outputs, screen, w.stdio.Out); err != nil {
		return err
	}
	if screen == "" {
		w.files = append(w.files, result[*report.Watch]{out: &output{w: w.stdio.Out}, write: sheetFormats(view.WatchSummary)["text"]})
	}
	w.show = watchScreen{w: w.stdio.Out, style: w.style, silent: w.o.json}
	if f, ok := w.stdio.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && w.stdio.Env("TERM") != "dumb" {
		w.show.terminal = f
	}
	return nil
}

// start starts the heartbeat.
func (w *watcher) start() error {
	if w.o.pid != 0 {
		p, err := procs.Read("", w.o.pid)
		if err != nil {
			return hint.With(err, "unthrottle watch without a PID watches the own cgroup")
		}
		w.name = p.Name
	}
	heart, err := heartbeat.Start(heartbeat.Options{PID: w.o.pid, Command: []string{w.stdio.Self, "heartbeat"}})
	var move *heartbeat.MoveError
	switch {
	case errors.As(err, &move) && errors.Is(err, fs.ErrPermission):
		return hint.With(err, "run it as root, or inside of the group: kubectl exec POD -- unthrottle watch")
	case errors.As(err, &move):
		return hint.With(err, "run it inside of the group: kubectl exec POD -- unthrottle watch")
	case errors.Is(err, heartbeat.ErrNotSupported):
		return hint.With(err, "run it where the program runs: in its container")
	case err != nil:
		return err
	}
	w.heart, w.began = heart, time.Now()
	w.sampler = heartbeat.NewSampler("", w.o.pid, heart.Limit, heart.PID(), os.Getpid())
	w.first = w.sampler.Sample()
	w.last = w.first
	doc := w.document(&w.seen, w.first)
	w.show.head(&doc)
	return nil
}

// heartTimeout is how much longer than planned the heartbeat is waited for: nothing can run in a group that is frozen.
const heartTimeout = 5 * time.Second

// follow takes what the heartbeat tells until it is time to end. It returns why that was.
func (w *watcher) follow(ctx context.Context) (stopped bool, ended string) {
	var late <-chan time.Time
	if w.o.length > 0 {
		late = time.After(w.o.length + heartTimeout)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	second := 0 // that is drawn
	for {
		select {
		case <-ctx.Done():
			return w.o.length > 0, ""
		case <-late:
			return false, fmt.Sprintf("the heartbeat has stood still since %.1f s", w.seen.Wall.Seconds())
		case p, ok := <-w.heart.Pulses():
			if !ok {
				return false, "" // Stop knows why
			}
			w.seen.Add(p)
			for ; w.seen.Wall >= time.Duration(second+1)*time.Second; second++ {
				w.second(second)
			}
			w.show.now(second, &w.seen)
			if w.o.length > 0 && w.seen.Wall >= w.o.length {
				return false, ""
			}
		case <-tick.C:
			if _, err := os.Stat(procs.Dir("", w.o.pid)); w.o.pid != 0 && errors.Is(err, fs.ErrNotExist) {
				return false, fmt.Sprintf("process %d has ended", w.o.pid)
			}
		}
	}
}

// second shows a second that is over.
func (w *watcher) second(second int) {
	before := w.last
	w.last = w.sampler.Sample()
	if w.show.silent {
		return
	}
	// The verdict so far, by the newest freezes: all of them would be a search that grows longer and longer.
	doc := w.document(w.seen.Newest(watchNewest), w.last)
	since := heartbeat.Between(before, w.last, w.heart.Limit, 0)
	w.show.second(second, &doc, since.Owner.Periods, since.Owner.Throttled)
}

// watchNewest is how many freezes the running verdict is from: those of ten seconds of a usual period.
const watchNewest = 100

func (w *watcher) document(seen *heartbeat.Observation, last heartbeat.Sample) report.Watch {
	doc := report.NewWatch(report.WatchFacts{
		Began: w.began, PID: w.o.pid, Name: w.name, Group: w.heart.Group, Moved: w.heart.Moved, Planned: w.o.length,
		Limit: w.heart.Limit, Seen: seen, Evidence: heartbeat.Between(w.first, last, w.heart.Limit, heartbeat.OwnCPU()+seen.CPU), Warnings: w.warn,
	})
	doc.Header = newHeader("watch")
	doc.Command = append([]string{"unthrottle"}, w.stdio.Args...)
	return doc
}

// A watchScreen shows what happens: on a terminal the row of this second, and below it what is known so far; elsewhere a
// line for each second.
type watchScreen struct {
	w        io.Writer
	terminal *os.File // nil: none
	silent   bool
	style    render.Style
	strip    chart.Second
	status   string
	drawn    bool // the two lines are there
}

// watchWidth is how wide a second is drawn where nothing says how wide the screen is.
const watchWidth = 100

func (s *watchScreen) head(d *report.Watch) {
	if s.silent {
		return
	}
	s.say(sheet.Plain, view.WatchHead(d))
	s.strip = chart.NewSecond(d.Folding().Period, cmp.Or(s.style.Width, watchWidth))
	if s.terminal != nil {
		s.say(sheet.Soft, s.strip.Legend("frozen"))
	}
}

// say writes a sentence.
func (s *watchScreen) say(tone sheet.Tone, text string) {
	lines := sheet.Lines{Tone: tone, Texts: []string{text}}
	render.Text(s.w, &sheet.Sheet{Sections: []sheet.Section{{Quiet: true, Blocks: []sheet.Block{lines}}}}, s.style)
}

// now draws the second that goes on.
func (s *watchScreen) now(second int, seen *heartbeat.Observation) {
	if s.silent || s.terminal == nil {
		return
	}
	s.draw(s.row(second, report.NewWatchFreezes(seen.Newest(watchNewest).Kept), seen.Wall.Seconds()), s.status)
}

func (s *watchScreen) row(second int, freezes []report.WatchFreeze, until float64) string {
	return s.strip.Row(second, view.WatchSpans(freezes), until, s.style.Paint)
}

// second writes one that is over.
func (s *watchScreen) second(second int, d *report.Watch, periods, throttled int64) {
	if s.terminal == nil {
		fmt.Fprintln(s.w, view.WatchLine(second, d, periods, throttled))
		return
	}
	s.status = view.WatchStatus(d)
	s.clear()
	fmt.Fprintln(s.w, s.row(second, d.Freezes, float64(second+1)))
}

// draw puts two lines in the place of those before.
func (s *watchScreen) draw(row, status string) {
	if width, _, err := term.GetSize(int(s.terminal.Fd())); err == nil && width > 0 && len([]rune(status)) >= width {
		status = string([]rune(status)[:width-1])
	}
	fmt.Fprintf(s.w, "\r%s\x1b[K\n%s\x1b[K\x1b[A\r", row, status)
	s.drawn = true
}

// end leaves an empty line before what comes then.
func (s *watchScreen) end() {
	s.clear()
	if !s.silent {
		fmt.Fprintln(s.w)
	}
}

// clear takes the two lines away.
func (s *watchScreen) clear() {
	if s.drawn {
		fmt.Fprint(s.w, "\r\x1b[J")
		s.drawn = false
	}
}
