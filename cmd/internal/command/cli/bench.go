package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/conduct"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/ours"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/plain"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/emulate"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/workload"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/view"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/sample"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

const benchHelp = `Measure what a change, GOMAXPROCS, a limit or a Go version costs a program, with statistics that hold up on a noisy machine.

Usage:
  unthrottle bench [FLAGS] WORKLOAD...               built-in programs; --list shows them
  unthrottle bench [FLAGS] -- PROGRAM [ARGS]         your own program, run to its end
  unthrottle bench [FLAGS] --rate R -- SERVER [ARGS] a server under load: its p99, and the CPU time per request
  unthrottle bench [FLAGS] --gobench PKG [--run RE]  Go benchmarks of a package, or of ./...
  unthrottle bench [FLAGS] --base main --gobench PKG is this change slower? Compares the working tree with a commit
  unthrottle bench [FLAGS] --base main -- ./cmd/PKG  the same for a program that it builds, a job or a server
  unthrottle bench [FLAGS] -- ./old --- ./new        two or more programs that are already built
  unthrottle bench --resume FILE                     continue an interrupted run

{{flags}}

Exit codes:
  0 done   1 failed, or a setting never worked   2 usage   3 see --fail-on   130 interrupted

Example:
  unthrottle bench fib --cpus 0.5 --procs 1,2,max --budget 1m -o fib.html
  unthrottle bench --base main --gobench ./... --budget 3m --fail-on warning
`

// Lab is what a bench depends on besides its plan. Tests replace it.
type Lab struct {
	Runner      lab.Runner
	Environment lab.Environment
	Clock       lab.Clock
	Lock        func(ctx context.Context, note func(string), busy func(holder string) error) (unlock func(), err error)
}

// bench is one call of the verb.
type bench struct {
	*study
	results *verb.Results[*report.Bench]
	options lab.Plan // what needs no parsing
	limit   *limitOptions

	procs          []int
	cpus           []float64
	builds         buildOptions
	budget, window time.Duration
	warmUp         time.Duration
	size           int
	metrics        []string
	unit           string
	better, figure string
	gobench        string
	regexp         string
	style          string
	list           bool
	server         serverOptions
	load           lab.Served // neither a rate nor a foreign load: the program is not a server
	rate           quantity.RateRange
	times          time.Duration // that recorded arrivals last
	tailMargin     float64

	lab    *Lab
	soFar  *lab.Study
	runner lab.Runner
}

func newBench(stdio IO) (*cobra.Command, *bench) {
	b := &bench{results: verb.NewResults(stdio.IO, benchFormats())}
	b.study = newStudy(stdio, "bench", "unthrottle bench --resume FILE [--blocks N | --budget D]", b.results.Drop)
	cmd := verb.New("bench", benchHelp, func(l *verb.Flags) func(context.Context, []string) error {
		b.Flags = l
		b.register(l)
		return func(ctx context.Context, args []string) error {
			if b.list {
				return render.Text(stdio.Out, view.Workloads(workload.List()), verb.StyleOf(b.results.Color, stdio.IO, false))
			}
			return conduct.Run(ctx, b, args, func() (*cobra.Command, *bench) { return newBench(stdio) })
		}
	})
	for _, w := range workload.List() {
		cmd.ValidArgs = append(cmd.ValidArgs, w.Name+"\t"+w.About)
	}
	return cmd, b
}

func (b *bench) register(l *verb.Flags) {
	what := l.Section("What is run:")
	what.BoolVar(&b.list, "list", false, "list the built-in programs")
	what.StringVar(&b.gobench, "gobench", "", "PKG\trun the Go benchmarks of a package, or of several: ./...")
	what.StringVar(&b.regexp, "run", ".", "RE\tonly the benchmarks that match")
	verb.Number(what, &b.size, "size", "", 0, "N\tthe size of the workload, if it is one with a fixed size")
	what.StringVar(&b.Resume, "resume", "", "FILE\tcontinue an interrupted run")
	in := l.Section("What is compared, all combinations:")
	b.procs, b.cpus = must(parseBenchProcs("default,1,2,4,max")), []float64{1}
	in.Var(quantity.Value(&b.procs, parseBenchProcs, "default,1,2,max"), "procs", "LIST\tGOMAXPROCS values: numbers, default or max (default,1,2,4,max)")
	in.Var(quantity.Value(&b.cpus, conduct.ParseLimits, "none,0.5,1"), "cpus", "LIST\tCPU limits: numbers, or none (1)")
	b.builds.register(in)
	in.Var(verb.OneOf(&b.options.Compare, lab.ByBuild, lab.ByProcs, lab.ByCPUs, lab.ByGo, lab.ByWorkload), "compare", "F\tthe factor to compare settings by: build, procs, cpus, go or workload")
	conduct.AtOnce(in, &b.atOnce, "for benchmarks and servers that don't disturb each other")
	b.limit = limitFlags(l.Like("unthrottle run"), "cpus")
	in = l.Section("A server under load:")
	in.Var(quantity.Value(&b.rate, quantity.ParseRateRange, "500, or 100..1000"), "rate", "R\trequests a second; unthrottle tune finds a rate; 100..1000 ramps evenly within each window")
	in.StringVar(&b.load.Times, "rate-file", "", "FILE\treplay recorded arrivals: one time per line, as in an access log; each window uses the first of them")
	for _, other := range []string{"rate", "load-burst", "load", "units"} {
		l.Exclude("use one of them", "rate-file", other)
	}
	in.StringVar(&b.load.By, "load", "", "CMD\tuse this load generator instead of ours, for any protocol: 'ghz --insecure -n 2000 … {addr}'")
	in.StringVar(&b.load.Units, "units", "", "URL#NAME\tthe server's Prometheus counter of work done, if CMD does not report it or the work arrives by itself")
	conduct.Burst(in, &b.load.Burst, "load-burst")
	in.StringVar(&b.load.URL, "url", "", "URL\tthe URL to load (the port that the server listens on)")
	verb.Duration(in, &b.warmUp, "warmup", 0, "D\thow long to load before each window (1s)")
	b.server.register(l, in)
	b.server.otherwise = "without --rate a program is run to its end"
	in = l.Section("How often and how long:")
	in.IntVar(&b.options.Blocks, "blocks", 10, "N\tblocks, each of which runs every combination once, in random order (10; benchmarks in several builds: 60)")
	verb.Duration(in, &b.budget, "budget", 0, "D\trun as many blocks as fit into this time")
	b.window = time.Second
	verb.Duration(in, &b.window, "for", time.Millisecond, "D\tthe window of a run (1s, or less to suit the budget; benchmarks in several builds: 100ms; a server: 5s, or 2,000 requests)")
	in.Uint64Var(&b.options.Seed, "seed", 0, "N\tseed for the order")
	in = l.Section("How it is judged:")
	conduct.Margin(in, &b.options.Margin)
	conduct.TailMargin(in, &b.tailMargin)
	in.StringArrayVar(&b.metrics, "metric", nil, "RE\ttake the figure from the program's output: what the group in RE matches; with --load 'p99=ms:RE', 'units=RE'")
	in.StringVar(&b.unit, "unit", "metric", "U\tthe unit of that figure")
	in.Var(verb.OneOf(&b.better, lab.Higher, lab.Lower), "better", "D\twhether higher or lower is better (lower)")
	in.StringVar(&b.figure, "figure", "", "UNIT\tcompare by another metric, such as cpu-sec")
	in = l.Section("Results:")
	b.Fail.FailOnVerdict(in, "a setting is worse than the base", "if it is not known whether one is")
	b.results.FilesFlag(in)
	b.style = "default"
	in.Var(verb.OneOf(&b.style, "default", "classic"), "style", "S\tthe style of the text: default or classic")
	b.results.JSONFlag(in)
	in.StringVar(&b.Runs, "runs", "", "F\twrite each run to F as it finishes")
	b.results.ColorFlag(in)
}

func (b *bench) Name() string {
	p := b.soFar.Plan
	if len(p.Settings) == 0 {
		return p.Same[0]
	}
	return p.Settings[0].Workload
}

func (b *bench) Read(data []byte) (command []string, dir string, cut int, err error) {
	if b.soFar, cut, err = lab.ReadStudy(data); err != nil {
		return nil, "", 0, err
	}
	return b.soFar.Plan.Command, b.soFar.Plan.Dir, cut, nil
}

// Inherit takes what --resume goes with: more blocks or another budget, and where the results go to.
func (b *bench) Inherit(from *bench) {
	switch {
	case from.Flags.Given("blocks"):
		b.options.Blocks, b.budget = from.options.Blocks, 0
	case from.budget != 0:
		b.budget = from.budget
	}
	verb.Inherit(b.results, from.results)
	b.Fail = from.Fail
}

func (b *bench) GoOn(from *bench) error {
	old := from.soFar
	if !slices.Equal(b.soFar.Plan.Settings, old.Plan.Settings) {
		return hint.With(errors.New("the command gives different settings here than when the bench was started"),
			"was it started on another machine? unthrottle report "+from.Resume+" shows the runs so far")
	}
	if !sameBuilds(b.soFar.Plan.Builds, old.Plan.Builds) {
		return hint.With(errors.New("what is built now is not what was built when the bench was started"),
			"the commit or the working tree has changed: start again; unthrottle report "+from.Resume+" shows the runs so far")
	}
	if now, before := b.soFar.Plan.Served, old.Plan.Served; now != nil && before != nil && now.Sum != before.Sum {
		return fmt.Errorf("%s is not what it was when the bench was started", now.Times)
	}
	b.soFar.Runs, b.soFar.Time = old.Runs, old.Time
	b.soFar.Plan.Command = old.Plan.Command
	return nil
}

func (b *bench) Prepare(context.Context) error { return nil }

func (b *bench) Head() any { return b.soFar.Head() }

func (b *bench) Execute(ctx context.Context, record func(any) error) error {
	return b.soFar.Execute(ctx, b.lab.Runner, b.lab.Clock, func(r lab.Run) error { return record(r) }, func(p lab.Progress) {
		b.Progress.Lab(b.soFar.Plan.Name(p.Setting), p)
	})
}

// Measured reports whether there is anything to show. That nothing differs is something.
func (b *bench) Measured() bool { return len(b.soFar.Runs) > 0 || len(b.soFar.Plan.Settings) == 0 }

// benchFormats are what a bench's document can be written as.
func benchFormats() map[string]verb.Writer[*report.Bench] {
	formats := verb.SheetFormats(view.Bench)
	formats["classic"] = verb.SheetFormats(view.BenchClassic)["text"]
	formats["csv"] = verb.Plainly(report.BenchCSV)
	formats["bench"] = verb.Plainly(report.BenchGo)
	return formats
}

func (b *bench) Show(journal, next string, interrupted bool) error {
	doc := report.NewBench(b.soFar)
	doc.Header.MadeBy = verb.MadeBy()
	if interrupted || !doc.Finished {
		doc.Resume = next
	}
	err := b.results.Finish(doc, nil)
	if err == nil && !b.results.JSON && len(doc.Runs) > 0 {
		fmt.Fprintf(b.stdio.Err, "\nunthrottle: seed %d; the runs are in %s\n", b.soFar.Plan.Seed, plain.Line(journal))
	}
	b.Failed = b.Fail.Verdict(report.Found(doc.Checks()), 0)
	return err
}

// Plan checks all there is to check, and builds what must be built, before the first run.
func (b *bench) Plan(ctx context.Context, args, command []string) error {
	b.Progress = conduct.NewProgress(b.stdio.IO, b.results.JSON)
	plan, err := b.parse(ctx, args, command)
	if err != nil {
		return err
	}
	if b.style == "classic" && !b.results.JSON {
		b.results.Format = "classic"
	}
	if err := b.results.Open(); err != nil {
		return err
	}
	if b.lab = b.stdio.Lab; b.lab == nil {
		b.lab = &Lab{
			Runner: b.runner, Environment: trial.Environment(), Clock: time.Now,
		}
	}
	b.soFar = &lab.Study{
		Version: report.Version, Verb: "bench", MadeBy: verb.MadeBy(),
		Time: b.lab.Clock().UTC().Format(time.RFC3339), Plan: plan, Environment: b.lab.Environment,
	}
	if err := b.checkLimits(); err != nil {
		return err
	}
	b.allowForEmulation()
	return b.dropDefault(ctx)
}

// allowForEmulation raises the margin of a comparison of GOMAXPROCS to what an emulated limit may do to it on its own.
func (b *bench) allowForEmulation() {
	p := &b.soFar.Plan
	if b.soFar.Environment.LimitKind != string(runner.Emulated) || p.Compare != lab.ByProcs || len(p.Settings) == 0 {
		return
	}
	for _, s := range p.Settings {
		cpu, tail := emulate.Bias(p.Settings[0].Procs, s.Procs)
		p.Margin = max(p.Margin, cpu, tail)
		if p.Served != nil {
			p.Tail = max(p.Tail, tail)
		}
	}
}

// dropDefault takes the number that the runtime chooses on its own out of the settings, unless the user has asked for it: measuring it
// twice is no use.
func (b *bench) dropDefault(ctx context.Context) error {
	p := &b.soFar.Plan
	if b.builds.several {
		return nil
	}
	first := p.Settings[0]
	if b.Flags.Given("procs") || first.Procs != 0 || slices.ContainsFunc(p.Settings, func(s lab.Setting) bool { return s.CPUs != first.CPUs }) {
		return nil
	}
	run, err := b.lab.Runner.Run(ctx, first, 0)
	if err != nil {
		return err
	}
	p.Settings = slices.DeleteFunc(p.Settings, func(s lab.Setting) bool { return s.Procs != 0 && s.Procs == run.GOMAXPROCS })
	return nil
}

// checkLimits finds out which kind of limit there can be, and whether each that is asked for is possible.
func (b *bench) checkLimits() error {
	e := &b.soFar.Environment
	if e.LimitKind != "" {
		return nil // a test's
	}
	e.LimitKind = string(runner.None)
	for _, cpus := range b.cpus {
		kind, notes, err := runner.Check(b.limit.WithCPUs(cpus), b.limit.with, b.stdio.Self, "version")
		if err != nil {
			return startError(err)
		}
		if kind != runner.None {
			e.LimitKind, e.Notes = string(kind), notes
		}
	}
	return nil
}

// parse makes the plan, and what runs its settings.
func (b *bench) parse(ctx context.Context, workloads, command []string) (p lab.Plan, err error) {
	const example = "unthrottle bench fib; --list shows the workloads, unthrottle bench --help all there is"
	asked := 0
	for _, is := range []bool{len(workloads) > 0, len(command) > 0, b.gobench != ""} {
		if is {
			asked++
		}
	}
	switch {
	case asked == 0:
		return p, hint.Usage(example, "nothing to run")
	case asked > 1:
		return p, hint.Usage(example, "name either workloads, or a program after --, or --gobench")
	}
	if err := b.takeRates(ctx); err != nil {
		return p, err
	}
	if err := b.checkServer(command); err != nil {
		return p, err
	}
	if err := b.checkBuilds(workloads, command); err != nil {
		return p, err
	}
	p = b.options
	if b.budget != 0 {
		p.Blocks, p.Budget = 0, lab.Seconds(b.budget)
	}
	p.Seed, p.Command = b.Seeded(p.Seed)
	if p.Dir, err = conduct.WorkDir(); err != nil {
		return p, err
	}
	if err := b.fill(ctx, &p, workloads, command); err != nil {
		return p, err
	}
	switch {
	case b.builds.several:
		p.Compare = lab.ByBuild
	case p.Compare == "":
		p.Compare = lab.Varied(p.Settings)
	}
	if err := p.Check(); err != nil {
		return p, hint.Usage("unthrottle bench --help", "%w", err)
	}
	return p, nil
}

// fill says what is run, and fills in the plan's settings and figures.
func (b *bench) fill(ctx context.Context, p *lab.Plan, workloads, command []string) error {
	subject, err := b.subject(ctx, workloads, command, p.Seed)
	if err != nil {
		return err
	}
	p.Metrics, p.Figures, p.Costs = append([]lab.Metric{}, subject.Metrics...), subject.Figures, subject.Costs
	p.Builds, p.Same = subject.About, subject.Same
	if b.underLoad() {
		p.Served, p.Tail = &b.load, b.tailMargin
	} else if b.runner == nil {
		b.runner = trial.Alike{Runner: b.alone(subject.Programs)}
	}
	p.AtOnce = b.mayShare(len(command) > 0)
	for name, f := range p.Figures {
		if b.figure != "" {
			if f, err = b.otherFigure(p, f); err != nil {
				return err
			}
			if !b.underLoad() { // one figure is what was asked for
				delete(p.Costs, name)
			}
		}
		if b.better != "" {
			f.Better = b.better
		}
		p.Figures[name] = f
	}
	p.Settings = lab.Cross(subject.Workloads, settings(subject.Builds), b.cpus, b.procs)
	b.allowBlocks(p)
	return nil
}

// allowBlocks raises the usual number of blocks to what this many comparisons at once take.
func (b *bench) allowBlocks(p *lab.Plan) {
	if !b.builds.several {
		return
	}
	const spare = 2
	switch {
	case p.Blocks == 0 && b.gobench != "": // the budget is for those that are open
		p.Looks = looks
	case p.Blocks > 0 && !b.Flags.Given("blocks"):
		if b.gobench != "" && !b.Flags.Given("for") {
			p.Blocks = shortBlocks
		}
		p.Blocks = max(p.Blocks, sample.Needed(2*len(p.Settings), 1)+spare)
	}
}

// Benchmarks in several builds are looked at this often, have this many blocks unless the user says how many, and run no longer than this:
// a machine's speed changes within a second, so many short pairs show more than a few long ones.
const (
	looks       = 4
	shortBlocks = 60
	shortRun    = 100 * time.Millisecond
)

// alone runs what is run to its end.
func (b *bench) alone(programs func(lab.Setting) (trial.Program, error)) *trial.Runner {
	return &trial.Runner{Limit: b.limit.Limit, With: b.limit.with, Programs: programs}
}

// subject is what to run. What must be built is built.
func (b *bench) subject(ctx context.Context, workloads, command []string, seed uint64) (s trial.Subject, err error) {
	if len(command) > 0 {
		l, err := b.lineUp(ctx, command)
		switch {
		case err != nil:
			return s, err
		case l == nil:
			l = &lineup{name: filepath.Base(command[0]), order: []trial.Build{{}}, args: map[trial.Build][]string{{}: command}}
		}
		switch {
		case b.load.Foreign():
			s, err = b.servedBy(l)
		case b.load.Rate > 0:
			s, err = b.served(ctx, l, seed)
		default:
			s, err = b.job(l)
		}
		s.Builds, s.About = l.order, l.about
		if l.same {
			s.Same, s.Workloads = s.Workloads, nil
		}
		return s, err
	}
	dir, err := b.tempDir()
	if err != nil {
		return s, err
	}
	if b.gobench != "" {
		return b.goBench(ctx, dir)
	}
	return b.builtin(ctx, dir, workloads)
}

// job is a program that runs to its end as what is run.
func (b *bench) job(l *lineup) (trial.Subject, error) {
	c := trial.Command{Name: l.name, Builds: l.args, Copy: l.copy, Unit: b.unit}
	if len(b.metrics) > 0 {
		var err error
		if c.Metric, err = trial.ParseMetric(b.metrics[0]); err != nil || len(b.metrics) > 1 {
			return trial.Subject{}, hint.Usage("--metric 'rate: ([0-9.]+)'", "--metric: %w", cmp.Or(err, errors.New("a program has one figure")))
		}
	}
	return c.Subject(len(l.order) > 1), nil
}

// goBench are Go benchmarks as what is run.
func (b *bench) goBench(ctx context.Context, dir string) (s trial.Subject, err error) {
	variants, about, err := b.variants(ctx, dir)
	if err != nil {
		return s, err
	}
	g := &trial.GoBench{Package: b.gobench, Regexp: b.regexp, Dir: dir, Variants: variants}
	if err := g.Prepare(ctx, b.Progress.Note); err != nil {
		return s, err
	}
	lasting := b.lastingFor
	if b.builds.several {
		lasting = b.lastingForBuilds
	}
	g.For = lasting(len(g.Names) * len(variants) * len(b.cpus) * len(b.procs)).String()
	if n := len(g.Alone); n > 0 {
		b.Progress.Say(fmt.Sprintf("not compared, as not all builds have them: %s", quantity.List(g.Alone)))
	}
	s = g.Subject()
	for _, v := range variants {
		s.Builds = append(s.Builds, v.Build)
	}
	if len(variants) > 1 {
		for i := range about {
			about[i].Sum = g.Sums[i]
		}
		s.About, s.Same = about, g.Same
	}
	if b.builds.several {
		s.Costs = map[string]lab.Metric{}
		for _, name := range s.Workloads {
			s.Costs[name] = lab.CPUPerOp.Metric("CPU time of an operation")
		}
		b.runner = trial.EqualWork{Runner: b.alone(s.Programs), Once: b.alone(g.Once), Of: g}
	}
	return s, nil
}

// builtin are built-in programs as what is run.
func (b *bench) builtin(ctx context.Context, dir string, workloads []string) (s trial.Subject, err error) {
	goes, err := b.toolchains(ctx)
	if err != nil {
		return s, err
	}
	cache, err := ours.Cache("programs")
	if err != nil {
		cache = filepath.Join(dir, "programs")
		if b.builds.goes != "" {
			b.Progress.Say(fmt.Sprintf("the programs are built for this bench alone: %v", err))
		}
	}
	var builds []trial.Build
	for _, version := range goes {
		builds = append(builds, trial.Build{Go: version})
	}
	all := lab.Cross(workloads, settings(builds), b.cpus, b.procs)
	builtin := &trial.Builtin{
		Self: []string{b.stdio.Self, "workload"}, CacheDir: cache, Size: b.size, Dir: dir, For: b.lastingFor(len(all)),
	}
	if s, err = builtin.Subject(workloads); err == nil && b.stdio.Lab == nil { // not a test's
		err = builtin.Prepare(ctx, all, b.Progress.Note)
	}
	s.Builds = builds
	return s, err
}

// underLoad reports whether what is run is a server.
func (b *bench) underLoad() bool { return b.load.Rate > 0 || b.load.Foreign() }

// takeRates says how many requests there are a second.
func (b *bench) takeRates(ctx context.Context) (err error) {
	l := &b.load
	if l.Rate = b.rate.Mean(); b.rate.From != b.rate.To {
		l.From = b.rate.From
	}
	if l.Times != "" {
		l.Rate, b.times, l.Sum, err = played(ctx, l.Times)
	}
	return err
}

// checkServer refuses flags that what is run has no use for.
func (b *bench) checkServer(command []string) error {
	if !b.underLoad() {
		if name := b.Flags.FirstGiven(append(b.server.names(), "url", "load-burst", "warmup", "tail-margin")...); name != "" {
			return hint.Usage("unthrottle bench --rate 500 -- SERVER; unthrottle tune finds a rate",
				"--%s is for a server under load, and there is no --rate", name)
		}
		return nil
	}
	if len(command) == 0 {
		return hint.Usage("unthrottle bench --rate 500 -- SERVER", "--rate is for a server after --")
	}
	if b.load.Foreign() {
		return b.checkForeign()
	}
	if n := b.load.Burst; n > load.MostBurst {
		return hint.Usage("--load-burst 20", "--load-burst=%d: %d requests at once are the most", n, load.MostBurst)
	}
	if name := b.Flags.FirstGiven("metric", "unit", "size"); name != "" {
		return hint.Usage("leave it out, or --rate", "--%s is for a program that runs to its end", name)
	}
	return b.server.readsStdin("bench")
}

// served is a server as what is run, under the load of the command line.
func (b *bench) served(ctx context.Context, servers *lineup, seed uint64) (trial.Subject, error) {
	l := &b.load
	wanted := time.Duration(0)
	if b.Flags.Given("for") {
		wanted = b.window
	}
	if !b.Flags.Given("warmup") {
		b.warmUp = time.Second
	}
	var look tune.Load
	if usual, _ := tune.Window(l.Rate, 0); wanted == 0 && b.times > 0 {
		wanted = min(usual, b.times)
	}
	look.Window, look.Tail = tune.Window(l.Rate, wanted)
	figure := look.TailMeasure().Metric(look.Tail + " of the response times")
	if look.TailMeasure() == lab.P99 {
		figure = lab.ReadyTail.Metric("tail of typical seconds")
	}
	l.WarmUp, l.Window = lab.Seconds(b.warmUp), lab.Seconds(look.Window)
	loaded := &trial.Loaded{Shot: trial.Shot{Rate: l.Rate, From: l.From, Times: l.Times, Burst: l.Burst, WarmUp: b.warmUp, Lasting: look.Window, Seed: seed}}
	b.runner = loaded
	subject := loaded.Subject(servers.name, figure)
	if b.stdio.Lab != nil || servers.same { // a test's, or nothing is run
		return subject, nil
	}
	first := servers.first()
	if _, err := findProgram(first[0]); err != nil {
		return subject, err
	}
	var err error
	if loaded.Served, l.URL, err = b.serve(ctx, &b.server, first, l.URL, b.limit, b.limit.WithCPUs(b.cpus[0])); err == nil {
		loaded.Served.Builds, loaded.Served.Copy = servers.args, servers.copy
		err = b.serverSides(loaded)
	}
	return subject, err
}

// otherFigure is the metric of --figure. Go benchmarks may report any.
func (b *bench) otherFigure(p *lab.Plan, own lab.Metric) (lab.Metric, error) {
	var units []string
	for _, m := range slices.Concat([]lab.Metric{own}, p.Metrics, report.CommonMetrics) {
		if m.Unit == b.figure {
			return m, nil
		}
		if !slices.Contains(units, m.Unit) {
			units = append(units, m.Unit)
		}
	}
	if b.gobench == "" {
		return lab.Metric{}, hint.Usage("write --figure="+quantity.Either(units), "--figure=%s is not one of the metrics", b.figure)
	}
	return lab.Metric{Unit: b.figure, Better: lab.Lower}, nil
}

// lastingFor is the window of a run; of --budget alone such that ten blocks are likely to fit into it.
func (b *bench) lastingFor(settings int) time.Duration {
	const least, most, overhead, blocks = 300 * time.Millisecond, time.Second, 200 * time.Millisecond, 10
	return b.lastingIn(settings, blocks, overhead, least, most)
}

// lastingForBuilds is that of benchmarks in several builds, of which there may be hundreds: short runs are enough, as long as there are
// enough blocks for something to be shown.
func (b *bench) lastingForBuilds(settings int) time.Duration {
	const least, overhead, blocks = 20 * time.Millisecond, 20 * time.Millisecond, 24
	if b.budget == 0 && !b.Flags.Given("for") {
		return shortRun
	}
	return b.lastingIn(settings, max(blocks, sample.Needed(2*settings, sample.LookPart(looks, looks))+blocks/4), overhead, least, shortRun)
}

func (b *bench) lastingIn(settings, blocks int, overhead, least, most time.Duration) time.Duration {
	if b.Flags.Given("for") || b.budget == 0 {
		return b.window
	}
	each := b.budget/time.Duration(max(1, settings*blocks)) - overhead
	return min(max(each, least), most).Round(time.Millisecond)
}

// parseBenchProcs reads values of GOMAXPROCS; the default is 0.
func parseBenchProcs(text string) ([]int, error) {
	return quantity.ParseWholes(text, map[string]int{"default": 0, "max": runtime.NumCPU()})
}

// must is the value of a text that we have written ourselves.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
