package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/conduct"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/study/generator"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

const tuneHelp = `Find, by trial, the best GOMAXPROCS for a program under a CPU limit, and say how sure that is.

Usage:
  unthrottle tune [FLAGS]                                  a built-in server, to see how this works
  unthrottle tune [FLAGS] [--url URL] -- SERVER [ARGS]     a server, under load
  unthrottle tune [FLAGS] --url ADDR --load CMD -- SERVER  the same with another load generator, for any protocol
  unthrottle tune [FLAGS] --batch -- JOB [ARGS]            a program that runs to its end
  unthrottle tune [FLAGS] --gobench PKG [--run RE]         Go benchmarks
  unthrottle tune [FLAGS] --vary NAME=V,V -- PROGRAM       any variable or argument, for a program in any language
  unthrottle tune --cpus 0.5,1,2 --slo SLO --rate R -- SERVER    which limit does it need? Or --memory 64m,128m,256m
  unthrottle tune --resume FILE [--budget D]               continue an interrupted run, or extend a finished one

Each run starts the program fresh under the limit. Block by block, all candidates run in random order, until it is clear
which could be better. A setting is advised if it is better in p99 or CPU time and not worse in the other, and if two fresh
pairs of runs confirm that. A setting that is better in one and worse in the other is shown as a trade.

{{flags}}

Exit codes:
  0 there is a verdict, which may be "undecided"   1 failed   2 usage   3 see --fail-on   130 interrupted

Example:
  unthrottle tune --cpus 1.5 --url http://localhost:8080/api --slo p99=50ms -- ./server --port 8080
`

// tuner is one call of the verb.
type tuner struct {
	*study
	results *verb.Results[*report.Tune]
	asked   conduct.Tune
	limit   *limitOptions

	limits   []float64
	memories []int64
	server   serverOptions
	batch    bool
	any      bool // the program need not be Go's
	demo     bool // the program is the built-in server
	gobench  string
	regexp   string
	vary     []string

	goal  *tune.Reach // where --resume changes it
	file  string      // of the program
	isGo  bool        // that is known to be a Go program
	noGo  bool        // that is known not to be, where it must be one or start one
	soFar *tune.Study
	lab   tune.Lab
}

func newTune(stdio IO) (*cobra.Command, *tuner) {
	t := &tuner{results: verb.NewResults(stdio.IO, conduct.TuneFormats()), asked: conduct.Tune{Command: "unthrottle tune"}}
	const example = "unthrottle tune --resume FILE [--budget D | --pairs N | --blocks N]"
	t.study = newStudy(stdio, "tune", example, t.results.Drop)
	return verb.New("tune", tuneHelp, func(l *verb.Flags) func(context.Context, []string) error {
		t.Flags = l
		t.register(l)
		return func(ctx context.Context, args []string) error {
			return conduct.Run(ctx, t, args, func() (*cobra.Command, *tuner) { return newTune(stdio) })
		}
	}), t
}

func (t *tuner) register(l *verb.Flags) {
	in := l.Section("What is tuned:")
	in.BoolVar(&t.batch, "batch", false, "tune a program that runs to its end")
	in.StringVar(&t.gobench, "gobench", "", "PKG\ttune the Go benchmarks of a package")
	in.StringVar(&t.regexp, "run", ".", "RE\tonly the benchmarks that match")
	in.BoolVar(&t.any, "any", false, "also accept a program that is not Go and starts no Go program")
	in.StringVar(&t.Resume, "resume", "", "FILE\tcontinue an interrupted run")
	in = l.Section("The limit:")
	t.limits = []float64{1}
	in.Var(quantity.Value(&t.limits, conduct.ParseLimits, "1, or --cpus 0.5,1,2"), "cpus", "N\tCPUs (1); with a list, which of them is enough")
	in.Var(quantity.Value(&t.memories, conduct.ParseMemories, "512m, or --memory 128m,256m,none"), "memory", "SIZE\tmemory limit: 512m, 2g; with a list, which of them is enough")
	t.limit = limitFlags(l.Like("unthrottle run"), "cpus", "memory")
	in = l.Section("The server:")
	in.StringVar(&t.asked.Plan.URL, "url", "", "URL\tthe URL to load (the port that the server listens on); without a program, a path of the built-in server")
	t.server.register(l, in)
	t.server.otherwise = "--batch is for a program that runs to its end"
	in = l.Section("The load:")
	t.asked.Load(l, in)
	in.StringVar(&t.asked.Plan.Times, "rate-file", "", "FILE\treplay recorded arrivals: one time per line, as in an access log; each window uses the first of them")
	for _, other := range []string{"rate", "rates", "conns", "arrivals", "load-burst"} {
		l.Exclude("use one of them", "rate-file", other)
	}
	in.StringVar(&t.asked.Plan.Load, "load", "", "CMD\tuse this load generator instead of ours, for any protocol: 'ghz --insecure -n 2000 … {addr}'")
	in.StringVar(&t.asked.Plan.Units, "units", "", "URL#NAME\tthe server's Prometheus counter of work done, if CMD does not report it or, without --load, the work arrives by itself")
	in.StringArrayVar(&t.asked.Plan.Figures, "metric", nil, "RE\thow to find a figure in CMD's output, if CMD is not a known one: 'p99=ms:RE', 'units=RE'; may be repeated")
	in = l.Section("What is tried:")
	t.asked.Tried(l, in, runtime.NumCPU())
	in.StringArrayVar(&t.vary, "vary", nil, "N=V,V\tinstead of GOMAXPROCS vary the environment variable N, or {N} in the program's arguments; the first value is the current one; may be repeated")
	conduct.AtOnce(in, &t.atOnce, "if two instances of the server don't disturb each other")
	t.asked.Judged(l.Section("How it is judged:"))
	in = l.Section("Results:")
	t.Fail.FailOnVerdict(in, "a change is advised", "if there is a trade")
	t.results.FilesFlag(in)
	t.results.JSONFlag(in)
	in.StringVar(&t.Runs, "runs", "", "F\twrite each run to F as it finishes")
	t.results.ColorFlag(in)
}

func (t *tuner) Name() string { return "tune-" + t.soFar.Plan.Name }

func (t *tuner) Read(data []byte) (command []string, dir string, cut int, err error) {
	if t.soFar, cut, err = tune.Read(data); err != nil {
		return nil, "", 0, err
	}
	return t.soFar.Plan.Command, t.soFar.Plan.Dir, cut, nil
}

// Inherit takes what --resume goes with: where the results go to.
func (t *tuner) Inherit(from *tuner) {
	verb.Inherit(t.results, from.results)
	t.Fail = from.Fail
}

func (t *tuner) GoOn(from *tuner) error {
	old, own := from.soFar, t.soFar
	var err error
	if t.goal, err = from.asked.Goal(from.Flags, from.Resume, old); err != nil {
		return err
	}
	if own.Environment.CPUs != old.Environment.CPUs {
		return hint.With(fmt.Errorf("this machine has %d CPUs, but the tune was started with %d", own.Environment.CPUs, old.Environment.CPUs),
			"unthrottle report "+from.Resume+" shows the runs so far")
	}
	old.Environment = own.Environment
	t.soFar = old
	return nil
}

// Plan checks the command line, and opens the files of -o before anything runs.
func (t *tuner) Plan(ctx context.Context, args, command []string) (err error) {
	t.Progress = conduct.NewProgress(t.stdio.IO, t.results.JSON)
	if err := t.checkSubject(args, command); err != nil {
		return err
	}
	p := t.asked.Plan
	p.Kind, p.Program, p.Name = tune.ServerKind, command, "the built-in server"
	switch {
	case t.gobench != "":
		p.Kind, p.Name = tune.GoBenchKind, t.gobench
	case t.batch:
		p.Kind = tune.JobKind
	}
	if len(command) > 0 {
		p.Name = filepath.Base(command[0])
	}
	t.demo = len(command) == 0 && t.gobench == ""
	t.asked.Take(&p)
	if t.stdio.Env("GOGC") != "" {
		t.asked.KeepGOGC(&p)
	}
	if t.atOnce != "auto" {
		p.AtOnce = t.atOnce
	}
	if err := t.takeVary(&p); err != nil {
		return err
	}
	if p.Times != "" {
		if p.Rate, p.TimesLast, p.TimesSum, err = played(ctx, p.Times); err != nil {
			return err
		}
	}
	if p.CPUs = t.limits[0]; len(t.limits) > 1 {
		p.Limits = t.limits
	}
	if len(t.memories) > 1 {
		p.Memories = t.memories
	} else if len(t.memories) > 0 {
		t.limit.Memory = t.memories[0]
	}
	for _, check := range []func(tune.Plan) error{t.checkKind, t.checkLoad, t.asked.Check, t.checkLimits} {
		if err := check(p); err != nil {
			return err
		}
	}
	p.Redirects = t.Flags.Given("redirects")
	p.Seed, p.Command = t.Seeded(p.Seed)
	if p.Dir, err = conduct.WorkDir(); err != nil {
		return err
	}
	t.lab.Begin, t.Patience, t.Rehearse = time.Now(), p.Budget, t.rehearse
	e := trial.Environment()
	if n := len(t.limit.Cpuset); n > 0 {
		e.CPUs = min(e.CPUs, n)
	}
	t.soFar = &tune.Study{Version: report.Version, Verb: "tune", MadeBy: verb.MadeBy(), Time: verb.Now(), Plan: p, Environment: e}
	return t.results.Open()
}

// takeVary reads what is varied.
func (t *tuner) takeVary(p *tune.Plan) error {
	const example = "unthrottle tune --vary 'conc=1,2,4' -- envoy --concurrency {conc}, or --vary WORKERS=1,2,4 -- SERVER"
	if len(t.vary) == 0 {
		return nil
	}
	if len(p.Program) == 0 {
		return hint.Usage(example, "--vary is for a program after --")
	}
	for _, text := range t.vary {
		k, err := tune.ParseKnob(text)
		if err != nil {
			return hint.Usage(example, "--vary %s: %w", text, err)
		}
		p.Vary = append(p.Vary, k)
	}
	if err := p.CheckVary(); err != nil {
		return hint.Usage(example, "--vary: %w", err)
	}
	return nil
}

// checkTimes makes sure that a tune that goes on has the arrivals that it began with.
func (t *tuner) checkTimes(ctx context.Context) error {
	p := t.soFar.Plan
	if p.Times == "" {
		return nil
	}
	_, _, sum, err := played(ctx, p.Times)
	if err == nil && sum != p.TimesSum {
		err = fmt.Errorf("%s is not what it was when the tune was started", p.Times)
	}
	return err
}

// checkSubject checks what to tune.
func (t *tuner) checkSubject(args, command []string) error {
	builtin, url := len(command) == 0 && t.gobench == "", t.asked.Plan.URL
	switch {
	case len(args) > 0:
		return hint.Usage("unthrottle tune -- "+strings.Join(args, " "), "the program to tune goes after --: %q", args[0])
	case t.gobench != "" && (len(command) > 0 || t.batch):
		return hint.Usage("use one of them", "--gobench and a program cannot be used together")
	case t.batch && len(command) == 0:
		return hint.Usage("unthrottle tune --batch -- JOB", "--batch needs a program after --")
	case command != nil && len(command) == 0:
		return hint.Usage("unthrottle tune -- SERVER", "no program after --")
	case t.regexp != "." && t.gobench == "":
		return hint.Usage("unthrottle tune --gobench PKG --run RE", "--run names benchmarks of --gobench")
	case t.any && len(command) == 0:
		return hint.Usage("unthrottle tune --any -- PROGRAM", "--any is for a program after --")
	case builtin && t.server.requests.File != "":
		return hint.Usage("unthrottle tune --targets "+t.server.requests.File+" -- SERVER", "--targets says what to send to a server of yours: which program is it?")
	case builtin && strings.Contains(url, "://"):
		return hint.Usage("unthrottle tune --url "+url+" -- SERVER", "tune starts the server itself, many times: which program is it?")
	}
	return t.server.readsStdin("tune")
}

// checkKind refuses flags that this kind of program has no use for.
func (t *tuner) checkKind(p tune.Plan) error {
	if p.Kind == tune.ServerKind {
		return nil
	}
	server := append(t.server.names(), "url", "rate", "rates", "conns", "arrivals", "slo", "warmup", "load", "metric", "units", "rate-file")
	if p.Kind == tune.JobKind {
		server = append(server, "for")
	}
	if name := t.Flags.FirstGiven(server...); name != "" {
		return hint.Usage("leave it out, or leave out --batch or --gobench", "--%s is for a server under load", name)
	}
	return nil
}

// checkLoad refuses what another generator's load has no use for.
func (t *tuner) checkLoad(p tune.Plan) error {
	switch {
	case p.Load == "" && len(p.Figures) > 0:
		return hint.Usage(foreignTuned, "--metric says what is to be found in what the command of --load prints")
	case !p.Foreign():
		return nil
	case len(p.Program) == 0:
		return hint.Usage(foreignTuned, "--load and --units are for a server of yours: which program is it?")
	}
	if _, err := trial.NewForeign(p.Load, "", p.Figures); err != nil {
		return hint.Usage("--metric "+generator.Example, "%w", err)
	}
	if _, err := trial.ParseCounter(p.Units); err != nil {
		return hint.Usage("--units http://localhost:9090/metrics#jobs_done_total", "--units %s: %w", p.Units, err)
	}
	if err := t.checkTurns(t.Flags); err != nil {
		return err
	}
	own := []string{"rate", "rate-file", "rates", "conns", "arrivals", "load-burst", "slo"}
	if p.Load != "" {
		own = append(own, "warmup", "for")
	}
	if err := t.server.checkForeign(t.Flags, own...); err != nil {
		return err
	}
	_, _, err := t.foreignAt(p)
	return err
}

// foreignAt says when the server is ready that others load, and where it listens.
func (t *tuner) foreignAt(p tune.Plan) (ready service.Ready, address string, err error) {
	return t.server.listens(foreignURL(p.URL, p.Load, p.Units), foreignTuned)
}

const foreignTuned = "unthrottle tune --url localhost:6379 --load 'redis-benchmark -p {port} -t get' -- redis-server"

// checkLimits checks the limit, or several.
func (t *tuner) checkLimits(p tune.Plan) error {
	const ofMemory = "unthrottle tune --memory 64m,128m,256m --slo p99=50ms --rate 200 -- SERVER"
	for _, cpus := range t.limits {
		if err := t.limit.WithCPUs(cpus).Check(); err != nil {
			return hint.Usage("unthrottle tune --cpus 1", "%w", err)
		}
	}
	for _, bytes := range t.memories {
		if err := (runner.Limit{Memory: bytes}).Check(); err != nil {
			return hint.Usage(ofMemory, "%w", err)
		}
	}
	switch {
	case !p.AsksLimit():
		return nil
	case p.LimitsMemory() && len(p.Limits) > 0:
		return hint.Usage(ofMemory, "name several limits of CPUs or of memory, not of both")
	case p.LimitsMemory() && (p.Kind != tune.ServerKind || p.SLO == "" || p.Rate == 0):
		return hint.Usage(ofMemory, "which of several limits is enough is only known for a server with an --slo and a --rate")
	}
	if p.From > 0 || p.Times != "" {
		return hint.Usage("name one rate, or one limit", "which of several limits is enough is asked for one rate")
	}
	others := []string{"load", "units", "vary"}
	if !p.LimitsMemory() { // which is filled by as many requests as there are connections
		others = append(others, "conns")
	}
	return t.asked.CheckLimits(t.Flags, p, "-- SERVER", others...)
}

func (t *tuner) Head() any { return t.soFar }

func (t *tuner) Execute(ctx context.Context, record func(any) error) error {
	t.lab.Record = func(r tune.Record) error { return record(r) }
	t.lab.Tell = func(p tune.Progress) { t.Progress.Tune(t.soFar, p) }
	if t.goal != nil {
		if err := t.lab.Record(tune.Record{Reach: t.goal}); err != nil {
			return err
		}
	}
	if t.soFar.Plan.AsksLimit() {
		return t.explain(t.soFar.ExecuteLimits(ctx, t.lab))
	}
	return t.explain(t.soFar.Execute(ctx, t.lab))
}

func (t *tuner) Measured() bool { return t.soFar.Pilot != nil || len(t.soFar.Windows) > 0 }

// explain says what to do about a program that can't be tuned.
func (t *tuner) explain(err error) error {
	var hopeless *tune.Hopeless
	switch isHopeless := errors.As(err, &hopeless); {
	case isHopeless && hopeless.NoGo:
		return hint.With(err, "--any tunes it all the same")
	case isHopeless && hopeless.Next != "":
		return hint.With(err, hopeless.Next)
	case isHopeless && t.soFar.Plan.Kind == tune.ServerKind:
		return hint.With(err, "try it by hand: unthrottle run --cpus 1 PROGRAM; unthrottle load URL")
	case isHopeless:
		return hint.With(err, "try it by hand: unthrottle run --cpus 1 PROGRAM")
	}
	if _, failed := trial.Failed(err); failed {
		return hint.With(err, "--ready says how to tell that it is ready, --ready-timeout how long to wait, --url what to load")
	}
	return err
}

func (t *tuner) Show(journal, next string, interrupted bool) error {
	return t.ShowTune(t.results, t.soFar, journal, next, interrupted)
}
