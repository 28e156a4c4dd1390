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
	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
	"github.com/unthrottle/unthrottle/cmd/internal/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/tune"
	"github.com/unthrottle/unthrottle/cmd/internal/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/view"
)

const tuneHelp = `Find the best GOMAXPROCS for a program under a CPU limit, by trying, and say how sure that is.

Usage:
  unthrottle tune [FLAGS]                                  a built-in server, to see what this is
  unthrottle tune [FLAGS] [--url URL] -- SERVER [ARGS]     a server, under load
  unthrottle tune [FLAGS] --batch -- JOB [ARGS]            a program that runs to its end
  unthrottle tune [FLAGS] --gobench PKG [--run RE]         Go benchmarks
  unthrottle tune --cpus 0.5,1,2 --slo SLO --rate R -- SERVER    which limit does it need?
  unthrottle tune --resume FILE [--budget D]               continue an interrupted one, or go further

Each run starts the program fresh under the limit: all candidates in random order, block by block, until it is clear which
could be better. A setting is advised if it is better in p99 or CPU time, not worse in the other, and so in two fresh pairs
as well. One that is better in one and worse in the other is shown as a trade.

{{flags}}

Exit codes:
  0 there is a verdict, even if it is to change nothing or that it is undecided   1 could not do it   2 usage   130 interrupted

Example:
  unthrottle tune --cpus 1.5 --url http://localhost:8080/api --slo p99=50ms -- ./server --port 8080
`

// tuner is one call of the verb.
type tuner struct {
	*study
	results *verb.Results[*report.Tune]
	options tune.Plan // what needs no parsing
	limit   *limitOptions

	limits   []float64
	server   serverOptions
	batch    bool
	any      bool // the program need not be Go's
	demo     bool // the program is the built-in server
	gobench  string
	regexp   string
	arrivals load.Arrivals
	gogc     []int // empty: none

	goal  *tune.Reach // where --resume changes it
	file  string      // of the program
	noGo  bool        // that is known to be no Go program; it may start one
	soFar *tune.Study
	lab   tune.Lab
}

// tuneFormats are what a tune's document can be written as.
func tuneFormats() map[string]verb.Writer[*report.Tune] {
	formats := verb.SheetFormats(view.Tune)
	formats["csv"], formats["bench"] = verb.Plainly(report.TuneCSV), verb.Plainly(report.TuneGo)
	return formats
}

func newTune(stdio IO) (*cobra.Command, *tuner) {
	t := &tuner{results: verb.NewResults(stdio.IO, tuneFormats())}
	const example = "unthrottle tune --resume FILE [--budget D | --pairs N | --blocks N]"
	t.study = &study{verb: "tune", example: example, stdio: stdio, drop: t.results.Drop}
	return verb.New("tune", tuneHelp, func(l *verb.Flags) func(context.Context, []string) error {
		t.flags = l
		t.register(l)
		return func(ctx context.Context, args []string) error {
			return runStudy(ctx, t, args, func() (*cobra.Command, *tuner) { return newTune(stdio) })
		}
	}), t
}

func (t *tuner) register(l *verb.Flags) {
	p := &t.options
	in := l.Section("What is tuned:")
	in.BoolVar(&t.batch, "batch", false, "a program that runs to its end")
	in.StringVar(&t.gobench, "gobench", "", "PKG\tGo benchmarks of a package")
	in.StringVar(&t.regexp, "run", ".", "RE\tthose of them that match")
	in.BoolVar(&t.any, "any", false, "a program that is not Go, and does not start one that is, too")
	in.StringVar(&t.resume, "resume", "", "FILE\tcontinue an interrupted one")
	in = l.Section("The limit:")
	t.limits = []float64{1}
	in.Var(quantity.Value(&t.limits, parseLimits, "1, or --cpus 0.5,1,2"), "cpus", "N\tCPUs (1); a list asks which of them is enough")
	t.limit = limitFlags(l.Like("run"), false)
	in = l.Section("The server:")
	in.StringVar(&p.URL, "url", "", "URL\twhat to load (the port that it listens on); without a program a path of the built-in server")
	t.server.register(l, in)
	t.server.otherwise = "--batch is for a program that runs to its end"
	in = l.Section("The load:")
	in.Var(quantity.Value(&p.Rate, quantity.ParseRate, "500"), "rate", "R\trequests a second (as many as use 65% of the limit)")
	in.Var(quantity.Value(&p.Shares, parseShares, "40%,65%,90%"), "rates", "LIST\tseveral, as shares of the limit that its current setting uses: 40%,65%,90%")
	l.Exclude("use one of them", "rate", "rates")
	verb.Number(in, &p.Conns, "conns", "c", 1, "N\ta closed loop of N connections instead")
	arrivalsFlag(in, &t.arrivals)
	verb.Duration(in, &p.WarmUp, "warmup", 0, "D\tbefore each window (until the CPU time of a request has settled, at least 1s)")
	verb.Duration(in, &p.Window, "for", 100*time.Millisecond, "D\tthe window (5s, and longer for 2,000 requests)")
	in.Var(quantity.Value(&p.SLO, checkSLO, sloExample), "slo", "SLO\tp99=50ms,errors=0.1%: a setting that breaks it loses")
	in = l.Section("What is tried:")
	in.Var(quantity.Value(&p.Procs, parseProcNumbers, "1,2,4,max"), "procs", "LIST\tonly these GOMAXPROCS, besides the current one")
	in.BoolVar(&p.All, "all", false, "every GOMAXPROCS from 1 to all CPUs")
	l.Exclude("use one of them", "procs", "all")
	in.Var(quantity.Value(&t.gogc, parseGOGC, "400, or --gogc none"), "gogc", "LIST\tthese GOGC as well (400 or so if a small heap is collected many times a second); none")
	in = l.Section("How it is judged:")
	in.Var(verb.OneOf(&p.Objective, search.P99, search.CPU, search.Throughput, search.Time), "objective", "O\tp99, cpu, throughput or time alone (p99, or time, and cpu together)")
	marginFlag(in, &p.Margin)
	tailMarginFlag(in, &p.Tail)
	verb.Number(in, &p.Pairs, "pairs", "", 0, "N\tblocks with both settings that a change rests on at least (as many as show it)")
	verb.Number(in, &p.Blocks, "blocks", "", 0, "N\tmost blocks in which all settings run (12)")
	verb.Duration(in, &p.Budget, "budget", 0, "D\thow long it may take (as long as it needs)")
	in.Uint64Var(&p.Seed, "seed", 0, "N\tfor the order of the runs and the arrivals")
	in = l.Section("Results:")
	t.fail.FailOnVerdict(in, "a change is advised", "if there is a trade")
	t.results.FilesFlag(in)
	t.results.JSONFlag(in)
	in.StringVar(&t.runs, "runs", "", "F\twrite each run to F as it finishes")
	t.results.ColorFlag(in)
}

func (t *tuner) name() string { return "tune-" + t.soFar.Plan.Name }

func (t *tuner) read(data []byte) (command []string, dir string, cut int, err error) {
	if t.soFar, cut, err = tune.Read(data); err != nil {
		return nil, "", 0, err
	}
	return t.soFar.Plan.Command, t.soFar.Plan.Dir, cut, nil
}

// inherit takes what --resume goes with: where the results go to.
func (t *tuner) inherit(from *tuner) {
	t.results.Inherit(from.results)
	t.fail = from.fail
}

func (t *tuner) goOn(from *tuner) error {
	old, own := from.soFar, t.soFar
	if err := t.changeGoal(from, old); err != nil {
		return err
	}
	if own.Environment.CPUs != old.Environment.CPUs {
		return hint.With(fmt.Errorf("this machine has %d CPUs, but the tune was started with %d", own.Environment.CPUs, old.Environment.CPUs),
			"unthrottle report "+from.resume+" shows the runs so far")
	}
	old.Environment = own.Environment
	t.soFar = old
	return nil
}

// changeGoal takes from the command line of --resume how far the tune goes, and refuses all that is planned already.
func (t *tuner) changeGoal(from *tuner, old *tune.Study) error {
	goal, fixed := old.Reach(), ""
	from.flags.Cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "resume", "output", "json", "color", "fail-on":
		case "budget", "pairs", "blocks":
			t.goal = &goal
			if len(old.Plan.Limits) > 0 {
				fixed = f.Name
			}
		default:
			fixed = f.Name
		}
	})
	if fixed != "" {
		return hint.Usage("leave it out, or start a new tune", "--resume takes its plan from the file, and no --%s", fixed)
	}
	if t.goal == nil {
		return nil
	}
	if err := from.checkSearch(from.options); err != nil {
		return err
	}
	for name, change := range map[string]func(){
		"budget": func() { goal.Budget = from.options.Budget },
		"pairs":  func() { goal.Pairs = from.options.Pairs },
		"blocks": func() { goal.Blocks = from.options.Blocks },
	} {
		if from.flags.Given(name) {
			change()
		}
	}
	var err error
	if *t.goal, err = old.Further(goal); err != nil {
		return hint.With(fmt.Errorf("going on with %s: %w", from.resume, err),
			"unthrottle report "+from.resume+" shows what it has", "a larger --budget, --pairs or --blocks may go on with it")
	}
	return nil
}

// plan checks the command line, and opens the files of -o before anything runs.
func (t *tuner) plan(_ context.Context, args, command []string) (err error) {
	t.progress = newProgress(t.stdio, t.results.JSON)
	if err := t.checkSubject(args, command); err != nil {
		return err
	}
	p := t.options
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
	p.Const = t.arrivals == load.Constant
	p.GOGC, p.NoGOGC = t.gogc, t.gogc != nil && len(t.gogc) == 0 || t.gogc == nil && t.stdio.Env("GOGC") != ""
	if p.CPUs = t.limits[0]; len(t.limits) > 1 {
		p.Limits = t.limits
	}
	for _, check := range []func(tune.Plan) error{t.checkKind, t.checkSearch, t.checkLimits} {
		if err := check(p); err != nil {
			return err
		}
	}
	p.Seed, p.Command = t.seeded(p.Seed)
	if p.Dir, err = workDir(); err != nil {
		return err
	}
	e := trial.Environment()
	if n := len(t.limit.Cpuset); n > 0 {
		e.CPUs = min(e.CPUs, n)
	}
	t.soFar = &tune.Study{Version: report.Version, Verb: "tune", MadeBy: verb.MadeBy(), Time: verb.Now(), Plan: p, Environment: e}
	return t.results.Open()
}

// checkSubject checks what is to be tuned.
func (t *tuner) checkSubject(args, command []string) error {
	builtin, url := len(command) == 0 && t.gobench == "", t.options.URL
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
		return hint.Usage("unthrottle tune --url "+url+" -- SERVER", "tune starts the server itself, again and again: which program is it?")
	}
	return t.server.readsStdin("tune")
}

// checkKind refuses flags that this kind of program has no use for.
func (t *tuner) checkKind(p tune.Plan) error {
	if p.Kind == tune.ServerKind {
		return nil
	}
	server := append(t.server.names(), "url", "rate", "rates", "conns", "arrivals", "slo", "warmup")
	if p.Kind == tune.JobKind {
		server = append(server, "for")
	}
	if name := t.flags.FirstGiven(server...); name != "" {
		return hint.Usage("leave it out, or leave out --batch or --gobench", "--%s is for a server under load", name)
	}
	return nil
}

// checkSearch checks what is tried, and how it is judged.
func (t *tuner) checkSearch(p tune.Plan) error {
	if p.Margin < 0.001 {
		return hint.Usage("--margin 1% takes smaller differences than the usual 5%", "--margin=%s: no number of runs would be enough for that", quantity.Number(100*p.Margin)+"%")
	}
	if p.Kind == tune.ServerKind && p.Objective == search.Time || p.Kind != tune.ServerKind && (p.Objective == search.P99 || p.Objective == search.Throughput) {
		return hint.Usage("a server has p99, cpu and throughput, a job or benchmark time and cpu", "--objective=%s can't be measured here", p.Objective)
	}
	check := search.TuneConfig{Current: 1, Candidates: p.Procs, Objective: p.Objective, Margin: p.Margin, TailMargin: p.Tail, Pairs: p.Pairs, MaxBlocks: p.Blocks}
	if _, err := search.NewTune(check); err != nil {
		return hint.Usage("unthrottle tune --help", "%w", err)
	}
	return nil
}

// checkLimits checks the limit, or several.
func (t *tuner) checkLimits(p tune.Plan) error {
	for _, cpus := range t.limits {
		if err := t.limit.WithCPUs(cpus).Check(); err != nil {
			return hint.Usage("unthrottle tune --cpus 1", "%w", err)
		}
	}
	if len(p.Limits) == 0 {
		return nil
	}
	if p.Kind != tune.ServerKind || p.SLO == "" || p.Rate == 0 {
		return hint.Usage("unthrottle tune --cpus 0.5,1,2 --slo p99=50ms --rate 200 -- SERVER", "which of several limits is enough can only be told for a server with an --slo and a --rate")
	}
	if name := t.flags.FirstGiven("conns", "procs", "all", "gogc", "objective", "pairs", "blocks"); name != "" {
		return hint.Usage("leave it out, or name one limit", "--%s is for one limit; with several the question is which one is enough", name)
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

// parseGOGC reads values of GOGC; none is an empty list.
func parseGOGC(text string) ([]int, error) {
	if text == "none" {
		return []int{}, nil
	}
	return quantity.ParseWholes(text, nil)
}

func (t *tuner) head() any { return t.soFar }

func (t *tuner) execute(ctx context.Context, record func(any) error) error {
	t.lab.Record = func(r tune.Record) error { return record(r) }
	t.lab.Tell = func(p tune.Progress) { t.progress.tuned(t.soFar, p) }
	if t.goal != nil {
		if err := t.lab.Record(tune.Record{Reach: t.goal}); err != nil {
			return err
		}
	}
	if len(t.soFar.Plan.Limits) > 0 {
		return t.explain(t.soFar.ExecuteLimits(ctx, t.lab))
	}
	return t.explain(t.soFar.Execute(ctx, t.lab))
}

func (t *tuner) measured() bool { return t.soFar.Pilot != nil || len(t.soFar.Windows) > 0 }

// explain says what to do about a program that can't be tuned.
func (t *tuner) explain(err error) error {
	var hopeless *tune.Hopeless
	switch isHopeless := errors.As(err, &hopeless); {
	case isHopeless && hopeless.NoGo:
		return hint.With(err, "--any tunes it all the same")
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

func (t *tuner) show(journal, next string, interrupted bool) error {
	doc, err := report.NewTune(t.soFar)
	if err != nil {
		return err
	}
	doc.Header.MadeBy = verb.MadeBy()
	if interrupted {
		doc.Resume = next
	}
	err = t.results.Finish(doc, nil)
	if err == nil && !t.results.JSON {
		fmt.Fprintf(t.stdio.Err, "\nunthrottle: the runs are in %s\n", journal)
	}
	t.failed = t.fail.Verdict(report.Found(doc.Checks()), 0)
	return err
}
