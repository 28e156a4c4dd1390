package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/render"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
	"github.com/unthrottle/unthrottle/cmd/internal/service"
	"github.com/unthrottle/unthrottle/cmd/internal/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/tune"
	"github.com/unthrottle/unthrottle/cmd/internal/view"
)

const tuneHelp = `Find the best GOMAXPROCS for a program under a CPU limit, by trying, and tell how sure that is.

Usage:
  unthrottle tune [FLAGS]                                  a built-in server, to see what this is
  unthrottle tune [FLAGS] [--url URL] -- SERVER [ARGS]     a server, under load
  unthrottle tune [FLAGS] --batch -- JOB [ARGS]            a program that runs to its end
  unthrottle tune [FLAGS] --gobench PKG [--run RE]         Go benchmarks
  unthrottle tune --cpus 0.5,1,2 --slo SLO --rate R -- SERVER    which limit does it need?
  unthrottle tune --resume FILE                            go on where it was interrupted

Each run starts the program fresh under the limit. First all candidates in random order, again and again; then fresh pairs
of the best one and of what the program does by itself. The verdict rests on these pairs.

{{flags}}

Exit codes:
  0 there is a verdict, be it to keep what is or that it is undecided   1 could not do it   2 usage   130 interrupted

Example:
  unthrottle tune --cpus 1.5 --url http://localhost:8080/api --slo p99=50ms -- ./server --port 8080
`

type tuneOptions struct {
	plan            tune.Plan // what needs no parsing
	resume          string
	limits          []float64
	ready           string
	readyTimeout    time.Duration
	batch           bool
	gobench, regexp string
	arrivals        load.Arrivals
	gogc            string
	outputs         []string
	json            bool
	runs            string
	request         loadOptions
}

// showBudget is the time that the built-in server gets: it is there to be looked at.
const showBudget = 200 * time.Second

// tuner is one call of the verb.
type tuner struct {
	o     tuneOptions
	stdio IO
	flags *pflag.FlagSet
	limit func() (runner.Limit, string, error)
	color func(bool) (render.Style, error)

	style    render.Style
	common   runner.Limit
	with     runner.With
	file     string // of the program
	study    *tune.Study
	lab      tune.Lab
	progress *tuneProgress
	files    results[*report.Tune]
	cleanup  []func()
}

// tuneFormats are what a tune's document can be written as.
func tuneFormats() map[string]writer[*report.Tune] {
	formats := sheetFormats(view.Tune)
	formats["csv"], formats["bench"] = plainly(report.TuneCSV), plainly(report.TuneGo)
	return formats
}

func newTune(stdio IO) *cobra.Command {
	cmd, _ := tuneCommand(stdio)
	return cmd
}

func tuneCommand(stdio IO) (*cobra.Command, *tuner) {
	t := &tuner{stdio: stdio}
	o := &t.o
	cmd := &cobra.Command{Use: "tune", Long: tuneHelp}
	flags := cmd.Flags()
	t.flags = flags
	list := newFlagList(cmd)
	in := list.section("What is tuned:")
	in.BoolVar(&o.batch, "batch", false, "a program that runs to its end")
	in.StringVar(&o.gobench, "gobench", "", "PKG\tGo benchmarks of a package")
	in.StringVar(&o.regexp, "run", ".", "RE\tthose of them that match")
	in.StringVar(&o.resume, "resume", "", "FILE\tgo on where it was interrupted")
	in = list.section("The limit:")
	o.limits = []float64{1}
	in.Var(quantity.Value(&o.limits, parseLimits, "1, or --cpus 0.5,1,2"), "cpus", "N\tCPUs (1); a list asks which of them is enough")
	t.limit = limitFlags(list.like("run").FlagSet, false)
	in = list.section("The server:")
	in.StringVar(&o.plan.URL, "url", "", "URL\twhat to load (the port that it listens on); without a program a path of the built-in server")
	in.StringVar(&o.ready, "ready", "", "R\tit is ready when this URL answers, this port listens, a line matches, or after a time (the URL)")
	in.DurationVar(&o.readyTimeout, "ready-timeout", time.Minute, "D\tthe time that it gets for that (1m)")
	o.request.registerRequests(list.like("load").FlagSet)
	in = list.section("The load:")
	in.Var(quantity.Value(&o.plan.Rate, quantity.ParseRate, "500"), "rate", "R\trequests a second (65% of what it can do)")
	in.Var(quantity.Value(&o.plan.Shares, parseShares, "40%,65%,90%"), "rates", "LIST\tseveral: 40%,65%,90%")
	in.IntVarP(&o.plan.Conns, "conns", "c", 0, "N\ta closed loop of N connections instead")
	arrivalsFlag(in.FlagSet, &o.arrivals)
	in.DurationVar(&o.plan.WarmUp, "warmup", 0, "D\tbefore each window (until CPU a request has settled, 1s at least)")
	in.DurationVar(&o.plan.Window, "for", 0, "D\tthe window (5s, and longer for 2,000 requests)")
	in.StringVar(&o.plan.SLO, "slo", "", "SLO\tp99=50ms,errors=0.1%: a setting that breaks it loses")
	in = list.section("What is tried:")
	in.Var(quantity.Value(&o.plan.Procs, parseProcNumbers, "1,2,4,max"), "procs", "LIST\tthese GOMAXPROCS only, beside the current one")
	in.BoolVar(&o.plan.All, "all", false, "every GOMAXPROCS from 1 to all CPUs")
	in.Var(quantity.Value(&o.gogc, parseGOGC, "400, or --gogc none"), "gogc", "LIST\tthese GOGC as well (400 or so where a small heap is collected many times a second); none")
	in = list.section("How it is judged:")
	in.Var(oneOf(&o.plan.Objective, search.P99, search.CPU, search.Throughput, search.Time), "objective", "O\tp99, cpu, throughput or time (p99 or time where it differs, else cpu)")
	marginFlag(in.FlagSet, &o.plan.Margin)
	in.IntVar(&o.plan.Pairs, "pairs", 0, "N\tof the confirmation (6 to 24, by the noise)")
	in.IntVar(&o.plan.Blocks, "blocks", 0, "N\tof the exploration at most (6)")
	in.DurationVar(&o.plan.Budget, "budget", 0, "D\tstop in time (200s for the built-in server)")
	in.Uint64Var(&o.plan.Seed, "seed", 0, "N\tfor the order of the runs and the arrivals")
	in = list.section("Results:")
	outputsFlag(in.FlagSet, &o.outputs, ".json, .html, .md, .csv, or .txt for benchstat")
	jsonFlag(in.FlagSet, &o.json)
	in.StringVar(&o.runs, "runs", "", "F\twhere each run is written as it finishes")
	t.color = colorFlag(in.FlagSet, stdio)
	list.done()
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if t.style, err = t.color(false); err != nil {
			return err
		}
		if o.resume == "" {
			return begin(cmd.Context(), t, args, cmd.ArgsLenAtDash())
		}
		if len(args) > 0 {
			return hint.Usage("unthrottle tune --resume FILE", "--resume takes its plan from the file")
		}
		return resume(cmd.Context(), t, o.resume, func() (*cobra.Command, *tuner) { return tuneCommand(stdio) })
	}
	return cmd, t
}

func (t *tuner) verb() string { return "tune" }

func (t *tuner) read(data []byte) (command []string, dir string, cut int, err error) {
	if t.study, cut, err = tune.Read(data); err != nil {
		return nil, "", 0, err
	}
	return t.study.Plan.Command, t.study.Plan.Dir, cut, nil
}

// inherit takes what --resume goes with: where the results go to.
func (t *tuner) inherit(from *tuner) (err error) {
	t.o.json = from.o.json
	if len(from.o.outputs) > 0 {
		t.o.outputs = from.o.outputs
	}
	t.style, err = t.color(false)
	return err
}

func (t *tuner) goOn(from *tuner) error {
	old, own := from.study, t.study
	if own.Environment.CPUs != old.Environment.CPUs {
		return hint.With(fmt.Errorf("this machine has %d CPUs, and where the tune was begun there were %d", own.Environment.CPUs, old.Environment.CPUs),
			"unthrottle report "+from.o.resume+" shows what there is")
	}
	if old.Plan.Kind == tune.ServerKind && len(own.Plan.Program) == 0 { // the built-in server: on another port
		old.Plan.Program, old.Plan.URL = nil, own.Plan.URL
	}
	old.Environment = own.Environment
	t.study = old
	return nil
}

// plan checks the command line, and opens the files of -o before anything runs.
func (t *tuner) plan(_ context.Context, args []string, dash int) error {
	t.progress = newTuneProgress(t.stdio, t.o.json)
	if err := t.parse(args, dash); err != nil {
		return err
	}
	return t.files.open(tuneFormats(), t.o.outputs, "", t.stdio.Out)
}

// parse makes the study's plan of the command line.
func (t *tuner) parse(args []string, dash int) (err error) {
	o := &t.o
	command := []string(nil)
	if dash >= 0 {
		args, command = args[:dash], args[dash:]
	}
	switch {
	case len(args) > 0:
		return hint.Usage("unthrottle tune -- "+strings.Join(args, " "), "what is to be tuned stands after --: %q", args[0])
	case o.gobench != "" && (len(command) > 0 || o.batch):
		return hint.Usage("leave out one of them", "--gobench and a program exclude each other")
	case o.batch && len(command) == 0:
		return hint.Usage("unthrottle tune --batch -- JOB", "--batch wants a program after --")
	case dash >= 0 && len(command) == 0:
		return hint.Usage("unthrottle tune -- SERVER", "no program after --")
	case o.regexp != "." && o.gobench == "":
		return hint.Usage("unthrottle tune --gobench PKG --run RE", "--run names benchmarks of --gobench")
	case len(command) == 0 && o.gobench == "" && o.request.targets != "":
		return hint.Usage("unthrottle tune --targets "+o.request.targets+" -- SERVER", "--targets says what to send to a server of yours: which program is it?")
	case o.request.targets == "-" || o.request.data == "@-":
		return hint.Usage("write it to a file, and name that", "tune sends it again and again, and can't read it from stdin each time")
	case len(command) == 0 && o.gobench == "" && strings.Contains(o.plan.URL, "://"):
		return hint.Usage("unthrottle tune --url "+o.plan.URL+" -- SERVER", "tune starts the server itself, again and again: which program is it?")
	}
	p := o.plan
	p.Kind, p.Program, p.Command = tune.ServerKind, command, append([]string{"unthrottle"}, t.stdio.Args...)
	p.NoGOGC = o.gogc == "none" || o.gogc == "" && t.stdio.Env("GOGC") != ""
	switch {
	case o.batch:
		p.Kind = tune.JobKind
	case o.gobench != "":
		p.Kind, p.Name = tune.GoBenchKind, o.gobench
	}
	if err := t.checkFlags(p.Kind); err != nil {
		return err
	}
	if len(command) > 0 {
		p.Name = filepath.Base(command[0])
	} else if p.Kind == tune.ServerKind {
		p.Name = "the built-in server"
	}
	limits := o.limits
	if _, err := service.ParseReady(o.ready); err != nil && t.flags.Changed("ready") {
		return hint.Usage(readyExample, "--ready: %w", err)
	}
	if p.CPUs = limits[0]; len(limits) > 1 {
		p.Limits = limits
	}
	if err := t.parseLoad(&p); err != nil {
		return err
	}
	if err := t.parseSearch(&p); err != nil {
		return err
	}
	if err := t.parseLimit(limits); err != nil {
		return err
	}
	if len(p.Limits) > 0 && (p.Kind != tune.ServerKind || p.SLO == "" || p.Rate == 0) {
		return hint.Usage("unthrottle tune --cpus 0.5,1,2 --slo p99=50ms --rate 200 -- SERVER", "which of several limits is enough can be told of a server with an --slo and a --rate only")
	}
	if len(p.Limits) > 0 {
		for _, name := range []string{"conns", "procs", "all", "gogc", "objective", "pairs", "blocks", "budget"} {
			if t.flags.Changed(name) {
				return hint.Usage("leave it out, or name one limit", "--%s is for one limit; of several the question is which one is enough", name)
			}
		}
	}
	if len(command) == 0 && p.Kind == tune.ServerKind && !t.flags.Changed("budget") {
		p.Budget = showBudget
	}
	if p.Seed == 0 {
		p.Seed = uint64(rand.IntN(1_000_000) + 1)
		p.Command = slices.Insert(p.Command, 2, "--seed", strconv.FormatUint(p.Seed, 10)) // so that it does the same again
	}
	if p.Dir, err = os.Getwd(); err != nil {
		return err
	}
	e := trial.Environment()
	if n := len(t.common.Cpuset); n > 0 {
		e.CPUs = min(e.CPUs, n)
	}
	t.study = &tune.Study{
		Version: report.Version, Verb: "tune", MadeBy: "unthrottle " + buildVersion(), Time: time.Now().UTC().Format(time.RFC3339),
		Plan: p, Environment: e,
	}
	return nil
}

// checkFlags refuses flags that this kind of program has no use for.
func (t *tuner) checkFlags(kind string) (err error) {
	if kind == tune.ServerKind {
		return nil
	}
	t.flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "url", "ready", "ready-timeout", "rate", "rates", "conns", "arrivals", "slo", "warmup", "for":
			if f.Name != "for" || kind == tune.JobKind {
				err = hint.Usage("leave it out, or leave out --batch or --gobench", "--%s is for a server under load", f.Name)
			}
		}
		if slices.Contains(requestFlags, f.Name) {
			err = hint.Usage("leave it out, or leave out --batch or --gobench", "--%s is for a server under load", f.Name)
		}
	})
	return err
}

// parseLimit reads what all runs' limits have in common.
func (t *tuner) parseLimit(limits []float64) error {
	common, with, err := t.limit()
	if err != nil {
		return err
	}
	t.common, t.with = common, runner.With(with)
	for _, cpus := range limits {
		if err := common.WithCPUs(cpus).Check(); err != nil {
			return hint.Usage("unthrottle tune --cpus 1", "%w", err)
		}
	}
	return nil
}

func (t *tuner) parseLoad(p *tune.Plan) (err error) {
	o := &t.o
	if p.Rate > 0 && len(p.Shares) > 0 {
		return hint.Usage("leave out one of them", "--rate and --rates exclude each other")
	}
	p.Const = o.arrivals == load.Constant
	if p.SLO != "" {
		if _, err := load.ParseSLO(p.SLO); err != nil {
			return hint.Usage("--slo p99=50ms,errors=0.1%", "--slo: %w", err)
		}
	}
	const shortest = 100 * time.Millisecond
	if t.flags.Changed("for") && p.Window < shortest {
		return hint.Usage("--for 5s", "--for=%v is too short: %v is the least", p.Window, shortest)
	}
	for name, bad := range map[string]bool{
		"conns": p.Conns < 0 || t.flags.Changed("conns") && p.Conns == 0, "warmup": p.WarmUp < 0,
		"budget": p.Budget < 0, "ready-timeout": o.readyTimeout <= 0, "blocks": p.Blocks < 0, "pairs": p.Pairs < 0,
	} {
		if bad {
			return hint.Usage("unthrottle tune --help", "--%s=%s makes no sense", name, t.flags.Lookup(name).Value)
		}
	}
	return nil
}

func (t *tuner) parseSearch(p *tune.Plan) (err error) {
	o := &t.o
	if p.Margin < 0.001 {
		return hint.Usage("--margin 1% takes smaller differences than the usual 5%", "--margin=%s: no number of runs would be enough for that", t.flags.Lookup("margin").Value)
	}
	if p.Kind == tune.ServerKind && p.Objective == search.Time || p.Kind != tune.ServerKind && (p.Objective == search.P99 || p.Objective == search.Throughput) {
		return hint.Usage("a server has p99, cpu and throughput, a job or benchmark time and cpu", "--objective=%s can't be measured here", p.Objective)
	}
	if p.All && len(p.Procs) > 0 {
		return hint.Usage("leave out one of them", "--procs and --all exclude each other")
	}
	if o.gogc != "" && o.gogc != "none" {
		if p.GOGC, err = quantity.ParseWholes(o.gogc, nil); err != nil {
			return err
		}
	}
	check := search.TuneConfig{Current: 1, Candidates: p.Procs, Objective: p.Objective, Margin: p.Margin, Pairs: p.Pairs, MaxBlocks: p.Blocks}
	if _, err := search.NewTune(check); err != nil {
		return hint.Usage("unthrottle tune --help", "%w", err)
	}
	return nil
}

// parseShares reads shares of what a server can do.
func parseShares(text string) ([]float64, error) {
	shares, err := quantity.ParseList(text, quantity.ParseShare)
	for _, s := range shares {
		if s < 0.01 || s > 2 {
			return nil, fmt.Errorf("%s is out of range: a share of what the server can do is from 1%% to 200%%", quantity.Share(s))
		}
	}
	return shares, err
}

func parseProcNumbers(text string) ([]int, error) {
	return quantity.ParseWholes(text, map[string]int{"max": runtime.NumCPU()})
}

// parseGOGC checks values of GOGC; none is one, and means that none is tried.
func parseGOGC(text string) (string, error) {
	if text == "none" {
		return text, nil
	}
	_, err := quantity.ParseWholes(text, nil)
	return text, err
}

func (t *tuner) clean() {
	t.progress.done()
	t.files.finish(errors.New("not written"))
	for _, f := range t.cleanup {
		f()
	}
}

func (t *tuner) lock(ctx context.Context) (unlock func(), err error) {
	return trial.Lock(ctx, func() { t.progress.note("waiting for another lab on this machine to end") })
}

func (t *tuner) head() any { return t.study }

func (t *tuner) execute(ctx context.Context, record func(any) error) error {
	defer t.progress.done()
	t.lab.Record = func(r tune.Record) error { return record(r) }
	t.lab.Tell = func(p tune.Progress) { t.progress.tell(t.study, p) }
	if len(t.study.Plan.Limits) > 0 {
		return t.explain(t.study.ExecuteLimits(ctx, t.lab))
	}
	return t.explain(t.study.Execute(ctx, t.lab))
}

func (t *tuner) measured() bool { return t.study.Pilot != nil || len(t.study.Windows) > 0 }

// explain says what to do about a program that can't be tuned.
func (t *tuner) explain(err error) error {
	var hopeless *tune.Hopeless
	switch isHopeless := errors.As(err, &hopeless); {
	case isHopeless && t.study.Plan.Kind == tune.ServerKind:
		return hint.With(err, "try it by hand: unthrottle run --cpus 1 PROGRAM; unthrottle load URL")
	case isHopeless:
		return hint.With(err, "try it by hand: unthrottle run --cpus 1 PROGRAM")
	}
	if _, failed := trial.Failed(err); failed {
		return hint.With(err, "--ready says how to tell that it is ready, --ready-timeout how long to wait, --url what to load")
	}
	return err
}

func (t *tuner) show(journal, next string, interrupted bool) error {
	doc, err := report.NewTune(t.study)
	if err != nil {
		return err
	}
	doc.Header.MadeBy = "unthrottle " + buildVersion()
	if interrupted {
		doc.Resume = next
	}
	format := "text"
	if t.o.json {
		format = "json"
	}
	err = tuneFormats()[format](t.stdio.Out, doc, t.style)
	if saveErr := t.files.save(doc); err == nil {
		err = saveErr
	}
	t.files = nil
	if err == nil && !t.o.json {
		fmt.Fprintf(t.stdio.Err, "\nunthrottle: the runs are in %s\n", journal)
	}
	return err
}

func (t *tuner) journalPath() (string, error) {
	if t.o.runs != "" {
		return filepath.Abs(t.o.runs)
	}
	return runsPath(time.Now(), "tune-"+t.study.Plan.Name)
}
