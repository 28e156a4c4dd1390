package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/unthrottle/unthrottle/cmd/internal/finding"
	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/host"
	"github.com/unthrottle/unthrottle/cmd/internal/render"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/rule"
	"github.com/unthrottle/unthrottle/cmd/internal/view"
)

const psHelp = `Every Go program that runs here: its GOMAXPROCS, its CPU limit, and what that costs.

Usage:
  unthrottle ps [FLAGS] [PID | NAME ...]

The programs need no preparation and do not notice. With PIDs or NAMEs only those are shown; a NAME may have * and ?.

{{flags}}

Without root it reads the GOMAXPROCS of your own programs. Of others it shows a prediction, or nothing.

Verdicts:
  too many Ps, limit not seen, sweeper spin, too few Ps, throttled, contended, not following, fine

Example:
  unthrottle ps --fail-on warning api worker
`

type psOptions struct {
	host.Options
	names    []string
	verdicts []string
	sort     string
	watch    bool
	failOn   *finding.Severity
	json     bool
	style    render.Style
}

func newPs(stdio IO) *cobra.Command {
	var o psOptions
	cmd := &cobra.Command{Use: "ps", Long: psHelp}
	list := newFlagList(cmd)
	flags := list.section("Flags:").FlagSet
	path := ""
	flags.DurationVar(&o.For, "for", 2*time.Second, "D\tlook for this long (2s; 0: one reading, no usage)")
	flags.StringArrayVar(&o.verdicts, "verdict", nil, "V\tonly these verdicts, such as throttled or \"too many Ps\"; may be given more than once")
	o.sort = "verdict"
	flags.Var(oneOf(&o.sort, "verdict", "cpu", "throttled", "frozen", "procs", "name", "pid"), "sort", "BY\tverdict, cpu, throttled, frozen, procs, name or pid (verdict)")
	flags.BoolVar(&o.watch, "watch", false, "again and again, on a live table, until Ctrl-C")
	failOn := failOnFlag(flags)
	jsonFlag(flags, &o.json)
	outputFlag(flags, &path)
	color := colorFlag(flags, stdio)
	flags.StringVar(&o.Root, "root", "", "DIR\tread /proc and /sys below DIR: a host's, from within a container")
	list.done()
	list.complete("verdict", verdicts()...)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if o.style, err = color(path != ""); err != nil {
			return err
		}
		if err := o.check(args); err != nil {
			return err
		}
		o.failOn = failOn()
		if o.watch {
			if path != "" {
				return hint.Usage("leave out one of them", "--watch and -o exclude each other")
			}
			return watchPs(cmd.Context(), stdio, o)
		}
		to, err := openOne(sheetFormats(view.Ps), path, o.json, stdio.Out)
		if err != nil {
			return err
		}
		doc, err := lookPs(cmd.Context(), new(host.Survey), o)
		if err == nil {
			err = to.write(to.out.w, doc, o.style)
		}
		if err = to.out.finish(err); err != nil {
			return err
		}
		return o.verdict(doc)
	}
	return cmd
}

// psSorts are the orders of the table. What matters most comes first.
var psSorts = map[string]func(a, b report.PsProcess) int{
	"verdict":   func(a, b report.PsProcess) int { return cmp.Compare(rank(b), rank(a)) },
	"cpu":       func(a, b report.PsProcess) int { return cmp.Compare(value(b.CPU), value(a.CPU)) },
	"throttled": func(a, b report.PsProcess) int { return cmp.Compare(value(b.Share), value(a.Share)) },
	"frozen":    func(a, b report.PsProcess) int { return cmp.Compare(frozen(b), frozen(a)) },
	"procs":     func(a, b report.PsProcess) int { return cmp.Compare(procsOf(b), procsOf(a)) },
	"name":      func(a, b report.PsProcess) int { return cmp.Compare(a.Name, b.Name) },
	"pid":       func(a, b report.PsProcess) int { return cmp.Compare(a.PID, b.PID) },
}

func rank(p report.PsProcess) int {
	if p.Severity == nil {
		return -1
	}
	return int(*p.Severity)
}

func value(v *float64) float64 {
	if v == nil {
		return -1
	}
	return *v
}

func frozen(p report.PsProcess) float64 {
	if p.Frozen == nil {
		return -1
	}
	return p.Frozen.Share
}

func procsOf(p report.PsProcess) int {
	if p.GOMAXPROCS.Value == nil {
		return -1
	}
	return *p.GOMAXPROCS.Value
}

// check completes the options.
func (o *psOptions) check(args []string) error {
	if runtime.GOOS != "linux" {
		return hint.With(errors.New("only Linux shows other processes"), "unthrottle explain says what is known here")
	}
	if o.For < 0 || o.For > time.Hour {
		return hint.Usage("write --for=2s", "--for=%v: it wants a time of up to an hour", o.For)
	}
	if o.watch && o.For < 100*time.Millisecond {
		return hint.Usage("write --for=2s", "--for=%v is too short for --watch: it wants 100ms at least", o.For)
	}
	for _, v := range o.verdicts {
		if !slices.Contains(verdicts(), v) {
			return hint.Usage("the verdicts are "+strings.Join(verdicts(), ", "), "--verdict=%s is none of them", v)
		}
	}
	for _, arg := range args {
		if pid, err := strconv.Atoi(arg); err == nil && pid > 0 {
			o.PIDs = append(o.PIDs, pid)
			continue
		}
		if _, err := filepath.Match(arg, ""); err != nil {
			return hint.Usage("* stands for any text and ? for one character", "%q is no name", arg)
		}
		o.names = append(o.names, arg)
	}
	if len(o.PIDs) > 0 && len(o.names) > 0 {
		return hint.Usage("unthrottle ps PID ..., or unthrottle ps NAME ...", "both pids and names given")
	}
	return nil
}

// lookPs looks once.
func lookPs(ctx context.Context, survey *host.Survey, o psOptions) (*report.Ps, error) {
	o.Options.Only = o.wanted
	r, err := survey.Read(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	doc := report.NewPs(r)
	doc.Header = newHeader("ps")
	for _, pid := range o.PIDs {
		if !slices.ContainsFunc(doc.Processes, func(p report.PsProcess) bool { return p.PID == pid }) {
			return nil, hint.With(fmt.Errorf("process %d is no Go program that can be looked into, or has ended", pid), fmt.Sprintf("unthrottle explain %d tells what can be seen of it", pid))
		}
	}
	if len(o.verdicts) > 0 {
		doc.Processes = slices.DeleteFunc(doc.Processes, func(p report.PsProcess) bool { return !slices.Contains(o.verdicts, p.Verdict) })
	}
	slices.SortStableFunc(doc.Processes, func(a, b report.PsProcess) int {
		return cmp.Or(psSorts[o.sort](a, b), cmp.Compare(value(b.CPU), value(a.CPU)), cmp.Compare(a.PID, b.PID))
	})
	return doc, nil
}

// wanted reports whether a process has one of the names: its own, or that of its program.
func (o *psOptions) wanted(name string, command []string) bool {
	names := []string{name}
	if len(command) > 0 {
		names = append(names, filepath.Base(command[0]))
	}
	return len(o.names) == 0 || slices.ContainsFunc(o.names, func(pattern string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			ok, _ := filepath.Match(pattern, name)
			return ok
		})
	})
}

// verdict is the exit code that --fail-on asks for.
func (o *psOptions) verdict(doc *report.Ps) error {
	if o.failOn == nil {
		return nil
	}
	n := 0
	for _, p := range doc.Processes {
		if p.Severity != nil && *p.Severity >= *o.failOn {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return exitCode{exitFindings, fmt.Errorf("%d of %d Go programs have findings of severity %v or above", n, len(doc.Processes), *o.failOn)}
}

// watchPs looks again and again until it is interrupted, which is its ordinary end.
func watchPs(ctx context.Context, stdio IO, o psOptions) error {
	screen, _ := stdio.Out.(*os.File)
	if screen != nil && (!term.IsTerminal(int(screen.Fd())) || stdio.Env("TERM") == "dumb") {
		screen = nil
	}
	var survey host.Survey
	var last *report.Ps
	for {
		doc, err := lookPs(ctx, &survey, o)
		if ctx.Err() != nil {
			if last == nil {
				return nil
			}
			return o.verdict(last)
		}
		if err != nil {
			return err
		}
		last = doc
		if err := drawPs(stdio.Out, screen, doc, o); err != nil {
			return err
		}
	}
}

// drawPs shows one look of many: in the place of the one before on a terminal, elsewhere below it.
func drawPs(w io.Writer, screen *os.File, doc *report.Ps, o psOptions) error {
	if o.json {
		return report.WriteJSONLine(w, doc)
	}
	if screen == nil {
		if _, err := fmt.Fprintln(w, doc.Time); err != nil {
			return err
		}
		return render.Text(w, view.PsLook(doc, 0), o.style)
	}
	rows := 0
	if width, height, err := term.GetSize(int(screen.Fd())); err == nil {
		const besides = 6 // the titles, what is left out, an empty line, and what was looked at
		o.style.Width, rows = width, max(2, height-besides)
	}
	var b strings.Builder
	if err := render.Text(&b, view.PsLook(doc, rows), o.style); err != nil {
		return err
	}
	text := strings.ReplaceAll(b.String(), "\n", "\x1b[K\n")
	_, err := io.WriteString(w, "\x1b[H"+text+"\x1b[J")
	return err
}

func verdicts() []string {
	var all []string
	for _, r := range rule.Rules() {
		all = append(all, r.Verdict)
	}
	return append(all, rule.Fine)
}
