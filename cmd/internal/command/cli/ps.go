package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/conduct"
	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/view"
)

const psHelp = `Every Go program running here: its GOMAXPROCS, its CPU limit, and what that costs.

Usage:
  unthrottle ps [FLAGS] [PID | NAME | URL ...]

The programs need no preparation and don't notice. PIDs, NAMEs or URLs (host:port is enough) restrict the list to those
programs; a NAME may contain * and ?.

{{flags}}

Without root it reads the GOMAXPROCS of your own programs only. For others it shows a prediction, or nothing.

Verdicts:
  too many Ps, limit not seen, sweeper spin, too few Ps, throttled, contended, not following, fine, not known

Exit codes:
  0 done   1 a PID or NAME is not a Go program, or --fail-on had nothing to look at   2 usage   3 see --fail-on   130 interrupted

Example:
  unthrottle ps --fail-on warning api worker
`

type psOptions struct {
	host.Options
	verdicts []string
	sort     string
	watch    bool
	fail     verb.Threshold
	results  *verb.Results[*report.Ps]
}

func newPs(stdio IO) *cobra.Command {
	return verb.New("ps", psHelp, func(l *verb.Flags) func(context.Context, []string) error {
		o := psOptions{results: verb.NewResults(stdio.IO, verb.SheetFormats(view.Ps)), sort: "verdict"}
		flags := l.Section("Flags:")
		flags.DurationVar(&o.For, "for", 2*time.Second, "D\tobserve for this long (2s; 0: one reading, without usage)")
		flags.StringArrayVar(&o.verdicts, "verdict", nil, "V\tshow only this verdict, such as throttled or \"too many Ps\"; may be repeated")
		flags.Var(verb.OneOf(&o.sort, "verdict", "cpu", "throttled", "frozen", "procs", "name", "pid"), "sort", "BY\tsort by verdict, cpu, throttled, frozen, procs, name or pid (verdict)")
		flags.BoolVar(&o.watch, "watch", false, "show a live table until Ctrl-C")
		o.fail.FailOn(flags)
		o.results.JSONFlag(flags)
		o.results.FileFlag(flags)
		o.results.ColorFlag(flags)
		flags.StringVar(&o.Root, "root", "", "DIR\tread /proc and /sys below DIR: a host's, from within a container")
		l.Words["verdict"] = verdicts()
		l.Exclude("use one of them", "watch", "output")
		return func(ctx context.Context, args []string) error {
			if err := o.check(args); err != nil {
				return err
			}
			if err := o.results.Open(); err != nil {
				return err
			}
			if o.watch {
				return watchPs(ctx, stdio, o)
			}
			doc, err := lookPs(ctx, new(host.Survey), o)
			var unseen error
			if err == nil {
				unseen = o.unseen(ctx, doc)
				if len(doc.Processes) == 0 { // then the error says all
					err = unseen
				}
				o.choose(doc)
			}
			if err := o.results.Finish(doc, err); err != nil {
				return err
			}
			return cmp.Or(o.verdict(doc), unseen)
		}
	})
}

// psSorts are the orders of the table. What matters most comes first; what has none comes last.
var psSorts = map[string]func(a, b report.PsProcess) int{
	"verdict":   falling(func(p report.PsProcess) *finding.Severity { return p.Severity }),
	"cpu":       falling(func(p report.PsProcess) *float64 { return p.CPU }),
	"throttled": falling(func(p report.PsProcess) *float64 { return p.Share }),
	"frozen": falling(func(p report.PsProcess) *float64 {
		if p.Frozen == nil {
			return nil
		}
		return &p.Frozen.Share
	}),
	"procs": falling(func(p report.PsProcess) *int { return p.GOMAXPROCS.Value }),
	"name":  func(a, b report.PsProcess) int { return cmp.Compare(a.Name, b.Name) },
	"pid":   func(a, b report.PsProcess) int { return cmp.Compare(a.PID, b.PID) },
}

// falling is the order of a figure, the largest first.
func falling[T cmp.Ordered](figure func(report.PsProcess) *T) func(a, b report.PsProcess) int {
	return func(a, b report.PsProcess) int {
		x, y := figure(a), figure(b)
		switch {
		case x == nil && y == nil:
			return 0
		case x == nil:
			return 1
		case y == nil:
			return -1
		}
		return cmp.Compare(*y, *x)
	}
}

// unlooked is the error of a success that can't be known.
var unlooked = hint.Usage("leave --for out", "--fail-on needs a look: one reading, as with --for 0, does not say whether it is throttled")

// check completes the options.
func (o *psOptions) check(args []string) error {
	if runtime.GOOS != "linux" {
		return hint.With(errors.New("only Linux shows other processes"), "unthrottle explain says what is known here")
	}
	if o.For < 0 || o.For > time.Hour {
		return hint.Usage("write --for=2s", "--for=%v is not a time of up to an hour", o.For)
	}
	if o.For == 0 && o.fail.Severity != "" {
		return unlooked
	}
	if o.watch && o.For < 100*time.Millisecond {
		return hint.Usage("write --for=2s", "--for=%v is too short for --watch: it needs 100ms at least", o.For)
	}
	for _, v := range o.verdicts {
		if !slices.Contains(verdicts(), v) {
			return hint.Usage("the verdicts are "+strings.Join(verdicts(), ", "), "--verdict=%s is not one of them", v)
		}
	}
	for _, arg := range args {
		if procs.IsName(arg) {
			if err := procs.CheckName(arg); err != nil {
				return err
			}
			o.Names = append(o.Names, arg)
			continue
		}
		pids, err := procs.Find(o.Root, arg)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if !slices.Contains(o.PIDs, pid) {
				o.PIDs = append(o.PIDs, pid)
			}
		}
	}
	if len(o.PIDs) > 0 && len(o.Names) > 0 {
		return hint.Usage("unthrottle ps PID ..., or unthrottle ps NAME ...", "both pids and names given")
	}
	return nil
}

// lookPs looks once.
func lookPs(ctx context.Context, survey *host.Survey, o psOptions) (*report.Ps, error) {
	r, err := survey.Read(ctx, o.Options)
	if err != nil && o.Root != "" && ctx.Err() == nil {
		return nil, hint.With(err, "--root takes the directory that a system's /proc and /sys are mounted below")
	} else if err != nil {
		return nil, err
	}
	doc := report.NewPs(r)
	doc.Header = verb.NewHeader("ps")
	for _, pid := range o.PIDs {
		if !slices.ContainsFunc(doc.Processes, func(p report.PsProcess) bool { return p.PID == pid }) {
			return nil, o.notSeen(doc, pid)
		}
	}
	return doc, nil
}

// notSeen says why a process is not among those that were seen.
func (o *psOptions) notSeen(doc *report.Ps, pid int) error {
	if doc.Stuck > 0 && len(doc.Processes) == 0 {
		return fmt.Errorf("process %d: %w", pid, procs.ErrStuck)
	}
	p, err := procs.Read(o.Root, pid)
	switch {
	case errors.Is(err, procs.ErrStuck):
		return err
	case err != nil:
		return hint.With(err, "pgrep NAME finds a process's pid")
	case errors.Is(p.ProgramErr, procs.ErrOdd):
		return fmt.Errorf("process %d (%s) was %w", pid, p.Name, p.ProgramErr)
	case doc.Refused > 0:
		return hint.With(fmt.Errorf("process %d (%s) may not be looked into", pid, p.Name), asItsUser)
	}
	return hint.With(fmt.Errorf("process %d (%s) is not a Go program", pid, p.Name), fmt.Sprintf("unthrottle explain %d shows its limit", pid))
}

const asItsUser = "run it as root, or as their user"

// unseen says what was asked about and could not be answered: a name that nothing has, and with --fail-on also that nothing may be looked
// into. To find nothing where nothing could be seen is not a success.
func (o *psOptions) unseen(ctx context.Context, doc *report.Ps) error {
	if doc.Refused > 0 && (len(o.Names) > 0 || len(doc.Processes) == 0 && o.fail.Severity != "") {
		what := quantity.Plural(doc.Refused, "process")
		if len(o.Names) > 0 {
			what += " called " + quantity.Either(o.Names)
		}
		return hint.With(fmt.Errorf("%s may not be looked into", what), asItsUser)
	}
	if doc.Stuck > 0 && len(doc.Processes) == 0 && (len(o.Names) > 0 || o.fail.Severity != "") {
		return fmt.Errorf("%s: %w", quantity.Plural(doc.Stuck, "process"), procs.ErrStuck)
	}
	for _, name := range o.Names {
		if !slices.ContainsFunc(doc.Processes, func(p report.PsProcess) bool {
			return procs.Named(name, procs.Process{Name: p.Name, Command: p.Command})
		}) {
			return hint.With(fmt.Errorf("no Go program is called %q", name), o.others(ctx))
		}
	}
	return nil
}

// others says which Go programs there are.
func (o *psOptions) others(ctx context.Context) string {
	all, err := new(host.Survey).Read(ctx, host.Options{Root: o.Root})
	var names []string
	for _, p := range all.Processes {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	switch names = slices.Compact(names); {
	case err == nil && len(names) == 0 && all.Refused == 0:
		return "no Go program runs here"
	case err != nil || len(names) == 0:
		return "this user sees no Go programs here"
	}
	const most = 8
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += ", …"
	}
	return "the Go programs here: " + text
}

// choose keeps what to show, in its order.
func (o *psOptions) choose(doc *report.Ps) {
	if len(o.verdicts) > 0 {
		doc.Processes = slices.DeleteFunc(doc.Processes, func(p report.PsProcess) bool { return !slices.Contains(o.verdicts, p.Verdict) })
	}
	slices.SortStableFunc(doc.Processes, func(a, b report.PsProcess) int {
		return cmp.Or(psSorts[o.sort](a, b), psSorts["cpu"](a, b), cmp.Compare(a.PID, b.PID))
	})
}

// verdict is the exit code that --fail-on asks for.
func (o *psOptions) verdict(doc *report.Ps) error {
	n := 0
	for _, p := range doc.Processes {
		if p.Severity != nil && o.fail.Reached(*p.Severity) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return verb.ExitCode{Code: verb.Findings, Err: fmt.Errorf("%d of %d Go programs have findings of severity %s or above", n, len(doc.Processes), o.fail.Severity)}
}

// watchPs looks repeatedly until it is interrupted, which is its ordinary end.
func watchPs(ctx context.Context, stdio IO, o psOptions) error {
	screen := conduct.TerminalOf(stdio.Out, stdio.Env)
	var survey host.Survey
	var last *report.Ps
	for {
		doc, err := lookPs(ctx, &survey, o)
		switch {
		case ctx.Err() != nil && last == nil:
			return nil
		case ctx.Err() != nil:
			return o.verdict(last)
		case err != nil:
			return err
		}
		o.choose(doc)
		last = doc
		if err := drawPs(stdio.Out, screen, doc, o); err != nil {
			return err
		}
	}
}

// drawPs shows one look of many: in the place of the one before on a terminal, elsewhere below it.
func drawPs(w io.Writer, screen *conduct.Terminal, doc *report.Ps, o psOptions) error {
	if o.results.JSON {
		return report.WriteJSONLine(w, doc)
	}
	style := o.results.Style
	if screen == nil {
		if _, err := fmt.Fprintln(w, doc.Time); err != nil {
			return err
		}
		return render.Text(w, view.PsLook(doc, 0), style)
	}
	const besides = 6 // the titles, what is left out, an empty line, and what was looked at
	width, height := screen.Size()
	style.Width = width
	var b strings.Builder
	if err := render.Text(&b, view.PsLook(doc, max(2, height-besides)), style); err != nil {
		return err
	}
	text := strings.ReplaceAll(b.String(), "\n", "\x1b[K\n")
	_, err := io.WriteString(w, "\x1b[H"+text+"\x1b[J")
	return err
}

func verdicts() []string {
	var all []string
	for _, r := range rule.Rules() {
		if r.Name != "stale" { // it takes someone who saw the limit before
			all = append(all, r.Verdict)
		}
	}
	return append(all, rule.Fine, report.NotKnown)
}
