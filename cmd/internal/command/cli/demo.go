package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/sheet"
	"github.com/unthrottle/unthrottle/cmd/internal/show/view"

	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

const demoHelp = `What GOMAXPROCS does to a server under a CPU limit, in twenty seconds.

Usage:
  unthrottle demo [FLAGS]

{{flags}}

It starts its own server under a limit of 1 CPU, sends it the same requests with GOMAXPROCS=16, 2 and 1, and draws when the
server stood still. It needs neither root nor docker: if it can't create a cgroup, it emulates the limit.

Exit codes:
  0 done, also if the machine was too busy to show it   1 failed   2 usage   130 interrupted
`

// What the demo shows. The server makes garbage, which costs the more the more Ps collect it.
const (
	demoCPUs  = 1
	demoWork  = "/work?cpu=20us&alloc=64k"
	demoShare = 0.75 // of the limit, with the last setting
)

var demoProcs = []int{16, 2, 1}

func newDemo(stdio IO) *cobra.Command {
	return verb.New("demo", demoHelp, func(l *verb.Flags) func(context.Context, []string) error {
		each, color, picture := 5*time.Second, "", ""
		limit := runner.Limit{CPUs: demoCPUs}
		with := runner.Auto
		flags := l.Section("Flags:")
		verb.Duration(flags, &each, "for", time.Second, "D\thow long to show each setting (5s)")
		limitWithFlag(flags, &with)
		flags.StringVarP(&picture, "output", "o", "", "F\talso draw two seconds of each setting into F.svg")
		verb.ColorFlag(flags, &color)
		return func(ctx context.Context, args []string) (err error) {
			if err := verb.NoArgs(l.Cmd, args); err != nil {
				return err
			}
			if picture != "" && verb.EndingOf(picture) != "svg" {
				return hint.Usage("unthrottle demo -o demo.svg", "-o %s: the picture is an .svg", picture)
			}
			drawn, err := verb.NewOutput(picture, io.Discard)
			if err != nil {
				return err
			}
			defer func() { err = drawn.Finish(err) }()
			kind, _, err := runner.Check(limit, with, stdio.Self, "version")
			if err != nil {
				return startError(err)
			}
			program, url, err := demoServer(stdio.Self, demoWork)
			if err != nil {
				return err
			}
			screen := newDemoScreen(stdio, color)
			screen.say(sheet.Plain, view.DemoHead(demoCPUs, string(kind)))
			screen.say(sheet.Soft, "First, for some five seconds: how much can it take?")
			rate := 0.0
			t := trial.Tour{
				Server: trial.Served{
					Service:   service.Spec{Args: program, Limit: limit, With: with, Ready: service.Ready{URL: url}},
					Generator: []string{stdio.Self, "load", url, "--grace", "1s", "--realtime=true"},
				},
				CPUs: demoCPUs, Procs: demoProcs, Load: demoShare, Each: each,
				OnRate: func(perSecond float64) {
					rate = perSecond
					screen.say(sheet.Plain, view.DemoRate(rate))
					screen.say(sheet.Soft, screen.strip.Legend("stood still"))
				},
				OnBegin: screen.begin, OnLook: screen.look, OnEnd: screen.end,
			}
			legs, err := t.Run(ctx)
			screen.terminal.Clear()
			if err != nil {
				return hint.With(err, "unthrottle run --cpus 1 -- unthrottle serve shows it on a page")
			}
			d := &report.Demo{CPUs: demoCPUs, Rate: rate, Legs: legs}
			if err := render.Text(stdio.Out, view.Demo(d), screen.style); err != nil || picture == "" {
				return err
			}
			return view.DemoPicture(d).SVG(drawn.W)
		}
	})
}

// limitWithFlag adds the flag that says what sets a limit.
func limitWithFlag(flags *pflag.FlagSet, with *runner.With) {
	flags.Var(verb.OneOf(with, runner.Auto, runner.Cgroup, runner.Systemd, runner.Emulate), "limit-with", "K\thow to set the limit: auto, cgroup, systemd or emulate (auto)")
}

// demoServer is the built-in server at a free port, and the URL of one of its paths.
func demoServer(self, path string) (program []string, url string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	address := l.Addr().String()
	l.Close()
	return []string{self, "serve", "--listen", address}, "http://" + address + "/" + strings.TrimPrefix(path, "/"), nil
}

// A demoScreen draws a row for each second, on a terminal while it passes.
type demoScreen struct {
	secondScreen
	drawn int // seconds of this setting that are over
}

func newDemoScreen(stdio IO, color string) *demoScreen {
	s := &demoScreen{secondScreen: newSecondScreen(stdio.Out, stdio.Env, verb.StyleOf(color, stdio.IO, false))}
	s.periods(runner.Limit{}.PeriodInForce().Seconds())
	return s
}

func (s *demoScreen) begin(procs int) {
	s.drawn = 0
	s.say(sheet.Strong, fmt.Sprintf("GOMAXPROCS=%d", procs))
}

// look draws what is known: seconds that are over stay.
func (s *demoScreen) look(still []trial.Span, until float64) {
	spans := view.DemoSpans(still)
	for ; until >= float64(s.drawn+1); s.drawn++ {
		s.keep(s.drawn, spans, until)
	}
	if s.terminal != nil && until > float64(s.drawn) {
		s.terminal.Draw(s.row(s.drawn, spans, until))
	}
}

func (s *demoScreen) end(leg trial.Leg) {
	s.terminal.Clear()
	s.say(sheet.Plain, report.DemoLeg(leg))
}
