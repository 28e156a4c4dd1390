package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cmd/internal/choice"
	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/render"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
	"github.com/unthrottle/unthrottle/cmd/internal/service"
	"github.com/unthrottle/unthrottle/cmd/internal/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/tune"
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

The limit:
      --cpus N        CPUs (1); a list asks which of them is enough
      --period, --burst, --memory, --cpuset and --limit-with, as of unthrottle run
The server:
      --url URL       what to load (the port that it listens on); without a program a path of the built-in server
      --ready R       it is ready when this URL answers, this port listens, a line matches, or after a time (the URL)
      --ready-timeout D   (1m)
      -X, -H, -d, --targets, --timeout, --http2, --insecure and so on, as of unthrottle load
The load:
      --rate R        requests a second (65% of what it can do)
      --rates LIST    several: 40%,65%,90%
  -c, --conns N       a closed loop of N connections instead
      --arrivals A    poisson or const (poisson)
      --warmup D      before each window (until CPU a request has settled, 1s at least)
      --for D         the window (5s, and longer for 2,000 requests)
      --slo SLO       p99=50ms,errors=0.1%: a setting that breaks it loses
What is tried:
      --procs LIST    these GOMAXPROCS only, beside the current one; --all: 1 to all CPUs
      --gogc LIST     these GOGC as well (400 or so where a small heap is collected many times a second); none
How it is judged:
      --objective O   p99, cpu, throughput or time (p99 or time where it differs, else cpu)
      --margin P      a smaller difference is not worth while (5%)
      --pairs N       of the confirmation (6 to 24, by the noise)
      --blocks N      of the exploration at most (6)
      --budget D      stop in time (200s for the built-in server)
      --seed N
Results:
  -o, --output F      also write F: .json, .html, .md, .csv, or .txt for benchstat; may be repeated
      --json          the document instead of text
      --runs F        where each run is written as it finishes
      --color WHEN    auto, always or never

Exit codes:
  0 there is a verdict, be it to keep what is or that it is undecided   1 could not do it   2 usage   130 interrupted

Example:
  unthrottle tune --cpus 1.5 --url http://localhost:8080/api --slo p99=50ms -- ./server --port 8080
`

type tuneOptions struct {
	resume, cpus, url, ready string
	readyTimeout             time.Duration
	batch                    bool
	gobench, regexp          string
	rate, rates              string
	conns                    int
	arrivals, slo            string
	warmUp, window           time.Duration
	procs, gogc              string
	all                      bool
	objective, margin        string
	pairs, blocks            int
	budget                   time.Duration
	seed                     uint64
	outputs                  []string
	json                     bool
	runs                     string
	request                  loadOptions
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
	return map[string]writer[*report.Tune]{
		"text":  render.TuneText,
		"json":  asJSON[*report.Tune],
		"html":  plainly(render.TuneHTML),
		"md":    plainly(render.TuneMarkdown),
		"csv":   plainly(render.TuneCSV),
		"bench": plainly(render.TuneGo),
	}
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
	flags.StringVar(&o.resume, "resume", "", "")
	flags.StringVar(&o.cpus, "cpus", "1", "")
	flags.StringVar(&o.url, "url", "", "")
	flags.StringVar(&o.ready, "ready", "", "")
	flags.DurationVar(&o.readyTimeout, "ready-timeout", time.Minute, "")
	flags.BoolVar(&o.batch, "batch", false, "")
	flags.StringVar(&o.gobench, "gobench", "", "")
	flags.StringVar(&o.regexp, "run", ".", "")
	flags.StringVar(&o.rate, "rate", "", "")
	flags.StringVar(&o.rates, "rates", "", "")
	flags.IntVarP(&o.conns, "conns", "c", 0, "")
	flags.StringVar(&o.arrivals, "arrivals", string(load.Poisson), "")
	flags.StringVar(&o.slo, "slo", "", "")
	flags.DurationVar(&o.warmUp, "warmup", 0, "")
	flags.DurationVar(&o.window, "for", 0, "")
	flags.StringVar(&o.procs, "procs", "", "")
	flags.BoolVar(&o.all, "all", false, "")
	flags.StringVar(&o.gogc, "gogc", "", "")
	flags.StringVar(&o.objective, "objective", "", "")
	flags.StringVar(&o.margin, "margin", "5%", "")
	flags.IntVar(&o.pairs, "pairs", 0, "")
	flags.IntVar(&o.blocks, "blocks", 0, "")
	flags.DurationVar(&o.budget, "budget", 0, "")
	flags.Uint64Var(&o.seed, "seed", 0, "")
	flags.StringArrayVarP(&o.outputs, "output", "o", nil, "")
	flags.BoolVar(&o.json, "json", false, "")
	flags.StringVar(&o.runs, "runs", "", "")
	o.request.registerRequests(flags)
	t.limit = limitFlags(cmd.Flags(), false)
	t.color = colorFlag(cmd.Flags(), stdio)
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
	case len(command) == 0 && o.gobench == "" && strings.Contains(o.url, "://"):
		return hint.Usage("unthrottle tune --url "+o.url+" -- SERVER", "tune starts the server itself, again and again: which program is it?")
	}
	p := tune.Plan{
		Kind: tune.ServerKind, Program: command, URL: o.url, All: o.all, Conns: o.conns,
		SLO: o.slo, WarmUp: o.warmUp, Window: o.window, Budget: o.budget, Pairs: o.pairs, Blocks: o.blocks, Seed: o.seed,
		NoGOGC: o.gogc == "none" || o.gogc == "" && t.stdio.Env("GOGC") != "", Command: append([]string{"unthrottle"}, t.stdio.Args...),
	}
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
	limits, err := parseLimits(o.cpus)
	if err != nil {
		return err
	}
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
	if o.rate != "" && o.rates != "" {
		return hint.Usage("leave out one of them", "--rate and --rates exclude each other")
	}
	if o.rate != "" {
		if p.Rate, err = parseRate(o.rate); err != nil {
			return hint.Usage("--rate 500", "--rate: %w", err)
		}
	}
	if o.rates != "" {
		for _, text := range strings.Split(o.rates, ",") {
			share, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
			if err != nil || !strings.HasSuffix(text, "%") || !(share >= 1 && share <= 200) {
				return hint.Usage("--rates 40%,65%,90%", "--rates: %q is no share of what the server can do", text)
			}
			p.Shares = append(p.Shares, share/100)
		}
	}
	switch load.Arrivals(o.arrivals) {
	case load.Poisson:
	case load.Constant:
		p.Const = true
	default:
		return hint.Usage("write --arrivals=poisson or const", "--arrivals=%s is none of its values", o.arrivals)
	}
	if o.slo != "" {
		if _, err := load.ParseSLO(o.slo); err != nil {
			return hint.Usage("--slo p99=50ms,errors=0.1%", "--slo: %w", err)
		}
	}
	const shortest = 100 * time.Millisecond
	if t.flags.Changed("for") && o.window < shortest {
		return hint.Usage("--for 5s", "--for=%v is too short: %v is the least", o.window, shortest)
	}
	for name, bad := range map[string]bool{
		"conns": o.conns < 0 || t.flags.Changed("conns") && o.conns == 0, "warmup": o.warmUp < 0,
		"budget": o.budget < 0, "ready-timeout": o.readyTimeout <= 0, "blocks": o.blocks < 0, "pairs": o.pairs < 0,
	} {
		if bad {
			return hint.Usage("unthrottle tune --help", "--%s=%s makes no sense", name, t.flags.Lookup(name).Value)
		}
	}
	return nil
}

func (t *tuner) parseSearch(p *tune.Plan) (err error) {
	o := &t.o
	if p.Margin, err = parsePercent(o.margin); err != nil {
		return hint.Usage("--margin 5%", "--margin: %w", err)
	}
	if p.Margin < 0.001 {
		return hint.Usage("--margin 1% takes smaller differences than the usual 5%", "--margin=%s: no number of runs would be enough for that", o.margin)
	}
	switch p.Objective = search.Metric(o.objective); p.Objective {
	case search.Auto, search.P99, search.CPU, search.Throughput, search.Time:
	default:
		return hint.Usage("write --objective=p99, cpu, throughput or time", "--objective=%s is none of its values", o.objective)
	}
	if p.Kind == tune.ServerKind && p.Objective == search.Time || p.Kind != tune.ServerKind && (p.Objective == search.P99 || p.Objective == search.Throughput) {
		return hint.Usage("a server has p99, cpu and throughput, a job or benchmark time and cpu", "--objective=%s can't be measured here", o.objective)
	}
	if p.Procs, err = parseNumbers("procs", o.procs); err != nil {
		return err
	}
	if o.all && len(p.Procs) > 0 {
		return hint.Usage("leave out one of them", "--procs and --all exclude each other")
	}
	if o.gogc != "none" {
		if p.GOGC, err = parseNumbers("gogc", o.gogc); err != nil {
			return err
		}
	}
	check := search.TuneConfig{Current: 1, Candidates: p.Procs, Objective: p.Objective, Margin: p.Margin, Pairs: p.Pairs, MaxBlocks: p.Blocks}
	if _, err := search.NewTune(check); err != nil {
		return hint.Usage("unthrottle tune --help", "%w", err)
	}
	return nil
}

func parseNumbers(flag, text string) (numbers []int, err error) {
	if text == "" {
		return nil, nil
	}
	for _, v := range strings.Split(text, ",") {
		n, err := strconv.Atoi(v)
		if v == "max" && flag == "procs" {
			n, err = runtime.NumCPU(), nil
		}
		if err != nil || n < 1 || n > 1<<16 {
			return nil, hint.Usage("--procs 1,2,4; --gogc 400", "--%s: %q is none of its values", flag, v)
		}
		if !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
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

// prepare finds out which limit can be had and what the program will do under it, and makes ready what runs it.
func (t *tuner) prepare(ctx context.Context) error {
	p, e := &t.study.Plan, &t.study.Environment
	limit := t.common.WithCPUs(p.CPUs)
	kind, notes, err := runner.Check(limit, t.with, t.stdio.Self, "version")
	if err != nil {
		return startError(err)
	}
	e.LimitKind, e.Notes = string(kind), notes
	for _, busy := range trial.Busy(ctx, time.Second/2) {
		t.progress.note("this machine is not idle: " + busy)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.lab.Clock, t.lab.Memory = time.Now, t.common.Memory
	switch p.Kind {
	case tune.ServerKind:
		err = t.prepareServer(ctx, limit)
	case tune.JobKind:
		err = t.findFile()
		t.lab.Job = &trial.Runner{Limit: t.common, With: t.with, Programs: trial.Command{Args: p.Program}.Program}
	default:
		err = t.prepareGoBench(ctx)
	}
	if err != nil {
		return err
	}
	t.lab.Foresee = func(cpus float64) tune.Foresight { return t.foresee(cpus, kind) }
	if t.study.Defaults != nil { // it goes on
		return nil
	}
	for _, cpus := range p.Limits {
		t.study.Defaults = append(t.study.Defaults, t.foresee(cpus, kind).GoDefault)
	}
	return nil
}

func (t *tuner) prepareGoBench(ctx context.Context) error {
	dir, remove, err := trial.TempDir()
	if err != nil {
		return err
	}
	t.cleanup = append(t.cleanup, remove)
	lasting := t.o.window
	if lasting == 0 {
		lasting = time.Second
	}
	g := &trial.GoBench{Package: t.o.gobench, Regexp: t.o.regexp, For: lasting.String(), Dir: dir}
	if err := g.Prepare(ctx, []string{""}, t.progress.note); err != nil {
		return hint.With(err, "--gobench wants a package, --run the name of a benchmark")
	}
	t.lab.Job = &trial.Benchmarks{GoBench: g, Limit: t.common, With: t.with}
	t.file = g.Command()[0]
	t.study.Plan.Name = g.Path
	t.study.Plan.Program = []string{"go", "test", "-run=^$", "-bench=" + t.o.regexp, g.Path}
	return nil
}

// findFile finds the program's file, before anything is started.
func (t *tuner) findFile() (err error) {
	name := t.study.Plan.Program[0]
	if t.file, err = exec.LookPath(name); err != nil {
		return hint.With(&runner.CommandError{Name: name, Err: trimExec(err)}, "is it in the PATH, and may it be executed?")
	}
	return nil
}

const readyExample = "--ready http://localhost:8080/healthz, --ready 8080, --ready 'listening on', --ready 3s"

// prepareServer says how the server is started and how it is loaded.
func (t *tuner) prepareServer(ctx context.Context, limit runner.Limit) (err error) {
	p, r := &t.study.Plan, &t.o.request
	if len(p.Program) == 0 {
		if err := t.builtin(); err != nil {
			return err
		}
	}
	if err := t.findFile(); err != nil {
		return err
	}
	spec := service.Spec{Args: p.Program, Limit: t.common, With: t.with, Timeout: t.o.readyTimeout}
	if t.o.ready != "" {
		if spec.Ready, err = service.ParseReady(t.o.ready); err != nil {
			return hint.Usage(readyExample, "--ready: %w", err)
		}
	}
	if p.URL == "" && r.targets == "" {
		t.progress.note("starting it to see where it listens; --url says it")
		look := spec
		look.Limit = limit
		switch p.URL, err = service.FindURL(ctx, look); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return hint.With(err, "--url http://localhost:8080/ says what to load; --batch is for a program that runs to its end")
		}
		t.progress.note("it listens on " + p.URL)
	}
	args := []string{t.stdio.Self, "load"}
	if p.URL != "" {
		if !strings.Contains(p.URL, "://") {
			p.URL = "http://" + p.URL
		}
		args = append(args, p.URL)
	}
	args = append(args, requestArgs(t.flags)...)
	args = append(args, "--grace", "3s", "--realtime=true")
	if !t.flags.Changed("timeout") {
		args = append(args, "--timeout", "10s")
	}
	targets, err := checkRequests(args[2:])
	if err != nil {
		return err
	}
	if spec.Ready == (service.Ready{}) {
		if spec.Ready, err = readyBy(targets[0].URL, r); err != nil {
			return err
		}
	}
	t.lab.Server = servers{&trial.Served{Service: spec, Generator: args, Metrics: metricsURL(targets[0].URL, r)}}
	return nil
}

// checkRequests reads the generator's flags as it will, so that what is wrong is said before anything is started.
func checkRequests(args []string) ([]load.Target, error) {
	var o loadOptions
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.register(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	_, err := o.parse(flags, flags.Args())
	return o.plan.Targets, err
}

// requestArgs are the flags of the command line that say what a request is, for the generator.
func requestArgs(flags *pflag.FlagSet) (args []string) {
	flags.Visit(func(f *pflag.Flag) {
		switch values, list := f.Value.(pflag.SliceValue); {
		case !slices.Contains(requestFlags, f.Name):
		case list:
			for _, v := range values.GetSlice() {
				args = append(args, "--"+f.Name+"="+v)
			}
		default:
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return args
}

// servers lets a Served be a tune.Server.
type servers struct{ *trial.Served }

func (s servers) Open(ctx context.Context, setting lab.Setting, trace bool) (tune.Session, error) {
	x, err := s.Served.Open(ctx, setting, trace)
	if err != nil {
		return nil, err // not a nil *Session, which would be no nil
	}
	return x, nil
}

// readyBy is how a server is asked whether it is ready, where --ready does not say.
func readyBy(target string, r *loadOptions) (service.Ready, error) {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return service.Ready{}, hint.Usage("--url http://localhost:8080/", "--url: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return service.Ready{}, hint.Usage("--url http://localhost:8080/", "the URL %q does not begin with http:// or https://", target)
	case r.plan.Client.Unix != "":
		return service.Ready{}, hint.Usage("--ready 1s, or --ready 'a line that it writes'", "with --unix there is no port to ask whether the server is ready")
	case u.Scheme == "https": // its certificate is the generator's affair
		return service.Ready{Address: net.JoinHostPort(u.Hostname(), strconv.Itoa(procs.Port(u)))}, nil
	}
	return service.Ready{URL: target}, nil
}

// metricsURL is where the server may tell figures of its runtime; "" where that can't be asked.
func metricsURL(target string, r *loadOptions) string {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" || r.plan.Client.Unix != "" || r.plan.Client.Proxy != "" {
		return ""
	}
	return "http://" + u.Host + "/metrics"
}

// builtin makes the demo server what is tuned.
func (t *tuner) builtin() error {
	p := &t.study.Plan
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	l.Close()
	path := p.URL
	if path == "" {
		path = "/work?cpu=1ms"
	}
	p.Program = []string{t.stdio.Self, "serve", "--listen", address}
	p.URL = "http://" + address + "/" + strings.TrimPrefix(path, "/")
	return nil
}

// foresee says what the program has by itself, as far as its file and our environment tell.
func (t *tuner) foresee(limit float64, kind runner.Kind) (f tune.Foresight) {
	p := procs.Process{Env: map[string]string{}}
	for _, e := range os.Environ() {
		if name, value, ok := strings.Cut(e, "="); ok {
			p.Env[name] = value
		}
	}
	p.Program, p.ProgramErr = procs.ReadProgram(t.file)
	policy, _ := unthrottle.ParsePolicy(func(name string) string { return p.Env[name] })
	s := choice.Under(limit, t.study.Environment.CPUs, policy)
	own := s.Predict(p)
	f = tune.Foresight{
		Procs: own.Procs, Why: own.Why, GoDefault: s.GoDefault(p).Procs,
		Pinned: own.Source == choice.FromEnvironment, // which runs do not inherit
	}
	if f.GoDefault == 0 { // a script, say: then what it starts is likely to be of now
		f.GoDefault = s.Of(choice.Go126).Procs
	}
	if limit > 0 && (kind == runner.Emulated || kind == runner.None) {
		if f.Pinned = true; f.Procs == 0 {
			f.Procs, f.Why = f.GoDefault, "what Go chooses under such a limit"
		}
	}
	return f
}
