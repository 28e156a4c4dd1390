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

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/render"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/view"
	"github.com/unthrottle/unthrottle/cmd/internal/workload"
)

const benchHelp = `What GOMAXPROCS, a limit or a Go version costs a program, with statistics that hold on a noisy machine.

Usage:
  unthrottle bench [FLAGS] WORKLOAD...               built-in programs; --list shows them
  unthrottle bench [FLAGS] -- PROGRAM [ARGS]         your own, run to its end
  unthrottle bench [FLAGS] --gobench PKG [--run RE]  the Go benchmarks of a package
  unthrottle bench --resume FILE                     go on where it was interrupted

{{flags}}

Example:
  unthrottle bench fib --cpus 0.5 --procs 1,2,max --budget 1m -o fib.html
`

type benchOptions struct {
	resume         string
	procs          []int
	cpus           []float64
	goes           string
	compare        lab.Factor
	blocks         int
	budget, window time.Duration
	size           int
	seed           uint64
	margin         float64
	metric, unit   string
	better         string
	figure         string
	gobench        string
	regexp         string
	outputs        []string
	style          string
	json           bool
	runs           string
	listAll        bool
}

// Lab is what a bench depends on beside its plan. Tests put another in its place.
type Lab struct {
	Runner      lab.Runner
	Environment lab.Environment
	Clock       lab.Clock
	Lock        func(ctx context.Context, waiting func()) (unlock func(), err error)
}

func newBench(stdio IO) *cobra.Command {
	cmd, _ := benchCommand(stdio)
	return cmd
}

// bench is one call of the verb.
type bench struct {
	o      benchOptions
	stdio  IO
	limit  func() (runner.Limit, string, error)
	color  func(bool) (render.Style, error)
	window func(settings int) time.Duration

	procsGiven, blocksGiven func() bool

	style    render.Style
	common   runner.Limit
	with     string
	study    *lab.Study
	programs func(lab.Setting) (trial.Program, error)
	progress *progress
	files    results[*report.Bench]
	cleanup  []func()
}

func benchCommand(stdio IO) (*cobra.Command, *bench) {
	b := &bench{stdio: stdio}
	o := &b.o
	cmd := &cobra.Command{Use: "bench", Long: benchHelp}
	flags := cmd.Flags()
	list := newFlagList(cmd)
	in := list.section("What is run:")
	in.BoolVar(&o.listAll, "list", false, "the built-in programs")
	in.StringVar(&o.gobench, "gobench", "", "PKG\tthe Go benchmarks of a package")
	in.StringVar(&o.regexp, "run", ".", "RE\tthose of them that match")
	in.IntVar(&o.size, "size", 0, "N\tthe size of a workload of a fixed size")
	in.StringVar(&o.resume, "resume", "", "FILE\tgo on where it was interrupted")
	in = list.section("What is compared, all combinations:")
	o.procs, o.cpus = must(parseBenchProcs("default,1,2,4,max")), []float64{1}
	in.Var(quantity.Value(&o.procs, parseBenchProcs, "default,1,2,max"), "procs", "LIST\tGOMAXPROCS: numbers, default or max (default,1,2,4,max)")
	in.Var(quantity.Value(&o.cpus, parseLimits, "none,0.5,1"), "cpus", "LIST\tlimits: numbers or none (1)")
	in.StringVar(&o.goes, "go", "", "LIST\tGo versions that build it: 1.18,1.24.13")
	in.Var(oneOf(&o.compare, lab.ByProcs, lab.ByCPUs, lab.ByGo, lab.ByWorkload), "compare", "F\tthe factor that settings are compared by: procs, cpus, go or workload")
	b.limit = limitFlags(list.like("run").FlagSet, false)
	in = list.section("How often and how long:")
	in.IntVar(&o.blocks, "blocks", 10, "N\teach runs every combination once, in random order (10)")
	in.DurationVar(&o.budget, "budget", 0, "D\tas many blocks as fit into this time")
	in.DurationVar(&o.window, "for", time.Second, "D\tthe window of a run (1s, or less to suit the budget)")
	in.Uint64Var(&o.seed, "seed", 0, "N\tfor the order")
	in = list.section("How it is judged:")
	marginFlag(in.FlagSet, &o.margin)
	in.StringVar(&o.metric, "metric", "", "RE\tthe figure is what the group in RE matches in the program's output")
	in.StringVar(&o.unit, "unit", "metric", "U\tits name")
	in.Var(oneOf(&o.better, lab.Higher, lab.Lower), "better", "D\twhich is better, higher or lower (lower)")
	in.StringVar(&o.figure, "figure", "", "UNIT\tcompare by another of the metrics, such as cpu-sec")
	in = list.section("Results:")
	outputsFlag(in.FlagSet, &o.outputs, ".json, .html, .md, .csv, or .txt for benchstat")
	o.style = "default"
	in.Var(oneOf(&o.style, "default", "classic"), "style", "S\tdefault or classic")
	jsonFlag(in.FlagSet, &o.json)
	in.StringVar(&o.runs, "runs", "", "F\twhere each run is written as it finishes")
	b.color = colorFlag(in.FlagSet, stdio)
	list.done()
	for _, w := range workload.List() {
		cmd.ValidArgs = append(cmd.ValidArgs, w.Name+"\t"+w.About)
	}
	b.window = func(settings int) time.Duration {
		if flags.Changed("for") || o.budget == 0 {
			return o.window
		}
		return windowFor(o.budget, settings)
	}
	b.procsGiven = func() bool { return flags.Changed("procs") }
	b.blocksGiven = func() bool { return flags.Changed("blocks") }
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if b.style, err = b.color(false); err != nil {
			return err
		}
		if o.listAll {
			return render.Text(stdio.Out, view.Workloads(workload.List()), b.style)
		}
		if o.resume == "" {
			return begin(cmd.Context(), b, args, cmd.ArgsLenAtDash())
		}
		if len(args) > 0 {
			return hint.Usage("unthrottle bench --resume FILE [--blocks N | --budget D]", "--resume takes its plan from the file")
		}
		return resume(cmd.Context(), b, o.resume, func() (*cobra.Command, *bench) { return benchCommand(stdio) })
	}
	return cmd, b
}

func (b *bench) verb() string { return "bench" }

func (b *bench) read(data []byte) (command []string, dir string, cut int, err error) {
	if b.study, cut, err = lab.ReadStudy(data); err != nil {
		return nil, "", 0, err
	}
	return b.study.Plan.Command, b.study.Plan.Dir, cut, nil
}

// inherit takes what --resume goes with: more blocks or another budget, and where the results go to.
func (b *bench) inherit(from *bench) (err error) {
	switch {
	case from.blocksGiven():
		b.o.blocks, b.o.budget = from.o.blocks, 0
	case from.o.budget != 0:
		b.o.budget = from.o.budget
	}
	b.o.json, b.o.seed = from.o.json, from.study.Plan.Seed
	if len(from.o.outputs) > 0 {
		b.o.outputs = from.o.outputs
	}
	b.style, err = b.color(false)
	return err
}

func (b *bench) goOn(from *bench) error {
	old := from.study
	if !slices.Equal(b.study.Plan.Settings, old.Plan.Settings) {
		return hint.With(errors.New("the command gives other settings here than it did when the bench was begun"),
			"was it begun on another machine? unthrottle report "+from.o.resume+" shows what there is")
	}
	b.study.Runs, b.study.Time = old.Runs, old.Time
	b.study.Plan.Command = old.Plan.Command
	return nil
}

func (b *bench) lock(ctx context.Context) (unlock func(), err error) {
	return b.lab().Lock(ctx, func() { b.progress.note("waiting for another bench on this machine to end") })
}

func (b *bench) prepare(context.Context) error { return nil }

func (b *bench) head() any { return b.study.Head() }

func (b *bench) execute(ctx context.Context, record func(any) error) error {
	defer b.progress.done()
	l := b.lab()
	return b.study.Execute(ctx, l.Runner, l.Clock, func(r lab.Run) error { return record(r) }, func(p lab.Progress) {
		b.progress.tell(b.study.Plan.Name(p.Setting), p)
	})
}

func (b *bench) measured() bool { return len(b.study.Runs) > 0 }

// benchFormats are what a bench's document can be written as.
func benchFormats() map[string]writer[*report.Bench] {
	formats := sheetFormats(view.Bench)
	formats["classic"] = sheetFormats(view.BenchClassic)["text"]
	formats["csv"] = plainly(report.BenchCSV)
	formats["bench"] = plainly(report.BenchGo)
	return formats
}

// show writes the document to stdout and to each file of -o.
func (b *bench) show(journal, next string, interrupted bool) error {
	doc := report.NewBench(b.study)
	doc.Header.MadeBy = "unthrottle " + buildVersion()
	if interrupted || !doc.Finished {
		doc.Resume = next
	}
	format := "text"
	switch {
	case b.o.json:
		format = "json"
	case b.o.style == "classic":
		format = "classic"
	}
	err := benchFormats()[format](b.stdio.Out, doc, b.style)
	if saveErr := b.files.save(doc); err == nil {
		err = saveErr
	}
	b.files = nil
	if err == nil && !b.o.json {
		fmt.Fprintf(b.stdio.Err, "\nunthrottle: seed %d; the runs are in %s\n", b.study.Plan.Seed, journal)
	}
	return err
}

func (b *bench) clean() {
	b.progress.done()
	b.files.finish(errors.New("not written"))
	for _, f := range b.cleanup {
		f()
	}
}

// plan checks all there is to check, and builds what has to be built, before the first run.
func (b *bench) plan(ctx context.Context, args []string, dash int) error {
	b.progress = newProgress(b.stdio, b.o.json)
	plan, err := b.parse(ctx, args, dash)
	if err != nil {
		return err
	}
	if b.common, b.with, err = b.limit(); err != nil {
		return err
	}
	if err := b.files.open(benchFormats(), b.o.outputs, "", b.stdio.Out); err != nil {
		return err
	}
	b.study = &lab.Study{
		Version: report.Version, Verb: "bench", MadeBy: "unthrottle " + buildVersion(),
		Time: b.lab().Clock().UTC().Format(time.RFC3339), Plan: plan, Environment: b.lab().Environment,
	}
	if err := b.checkLimits(); err != nil {
		return err
	}
	return b.dropDefault(ctx)
}

// dropDefault takes the number that the runtime chooses by itself out of the settings, unless the user has asked for it:
// to measure it twice helps nobody.
func (b *bench) dropDefault(ctx context.Context) error {
	p := &b.study.Plan
	first := p.Settings[0]
	if b.procsGiven() || first.Procs != 0 || slices.ContainsFunc(p.Settings, func(s lab.Setting) bool { return s.CPUs != first.CPUs }) {
		return nil
	}
	run, err := b.lab().Runner.Run(ctx, first)
	if err != nil {
		return err
	}
	p.Settings = slices.DeleteFunc(p.Settings, func(s lab.Setting) bool { return s.Procs != 0 && s.Procs == run.GOMAXPROCS })
	return nil
}

// lab is the real lab, or the one that a test has put in its place.
func (b *bench) lab() *Lab {
	if b.stdio.Lab == nil {
		b.stdio.Lab = &Lab{
			Runner:      &trial.Runner{Limit: b.common, With: runner.With(b.with), Programs: b.programs},
			Environment: trial.Environment(), Clock: time.Now, Lock: trial.Lock,
		}
	}
	return b.stdio.Lab
}

// checkLimits finds out which kind of limit can be had, and whether each that is asked for can be.
func (b *bench) checkLimits() error {
	if b.study.Environment.LimitKind != "" {
		return nil // a test's
	}
	b.study.Environment.LimitKind = string(runner.None)
	seen := map[float64]bool{}
	for _, s := range b.study.Plan.Settings {
		if seen[s.CPUs] {
			continue
		}
		seen[s.CPUs] = true
		kind, notes, err := runner.Check(b.common.WithCPUs(s.CPUs), runner.With(b.with), b.stdio.Self, "version")
		if err != nil {
			return startError(err)
		}
		if kind != runner.None {
			b.study.Environment.LimitKind, b.study.Environment.Notes = string(kind), notes
		}
	}
	return nil
}

// parse makes the plan, and what runs its settings.
func (b *bench) parse(ctx context.Context, args []string, dash int) (p lab.Plan, err error) {
	o := b.o
	command := args
	if dash >= 0 {
		args, command = args[:dash], args[dash:]
	} else {
		command = nil
	}
	if n := btoi(len(args) > 0) + btoi(len(command) > 0) + btoi(o.gobench != ""); n != 1 {
		const example = "unthrottle bench fib; --list shows the workloads, unthrottle bench --help all there is"
		if n == 0 {
			return p, hint.Usage(example, "nothing to run")
		}
		return p, hint.Usage(example, "name either workloads, or a program after --, or --gobench")
	}
	p = lab.Plan{Blocks: o.blocks, Seed: o.seed, Margin: o.margin, Command: append([]string{"unthrottle"}, b.stdio.Args...)}
	if o.budget != 0 {
		p.Blocks, p.Budget = 0, lab.Seconds(o.budget)
	}
	if p.Seed == 0 {
		p.Seed = uint64(rand.IntN(1_000_000) + 1)
		p.Command = slices.Insert(p.Command, 2, "--seed", strconv.FormatUint(p.Seed, 10)) // so that it does the same again
	}
	if p.Dir, err = os.Getwd(); err != nil {
		return p, err
	}
	if err := b.subjects(ctx, &p, args, command, o.procs, o.cpus); err != nil {
		return p, err
	}
	if p.Compare = o.compare; p.Compare == "" {
		p.Compare = lab.Varied(p.Settings)
	}
	if err := p.Check(); err != nil {
		return p, hint.Usage("unthrottle bench --help", "%w", err)
	}
	return p, nil
}

// subjects says what is run, and fills in the plan's settings and figures.
func (b *bench) subjects(ctx context.Context, p *lab.Plan, workloads, command []string, procs []int, cpus []float64) error {
	toolchains := []string{""}
	if b.o.goes != "" {
		if len(command) > 0 {
			return hint.Usage("build it by hand, and bench each program", "--go can't build a program after --")
		}
		toolchains = nil
		for _, v := range strings.Split(b.o.goes, ",") {
			t, err := workload.Resolve(ctx, v)
			if err != nil {
				return err
			}
			toolchains = append(toolchains, t)
		}
	}
	dir, remove, err := trial.TempDir()
	if err != nil {
		return err
	}
	b.cleanup = append(b.cleanup, remove)
	figures := map[string]lab.Metric{}
	switch {
	case len(command) > 0:
		name := filepath.Base(command[0])
		c := trial.Command{Args: command, Unit: b.o.unit}
		figures[name] = lab.WallTime.Metric("wall time")
		if b.o.metric != "" {
			if c.Metric, err = trial.ParseMetric(b.o.metric); err != nil {
				return hint.Usage(`--metric 'rate: ([0-9.]+)'`, "--metric: %w", err)
			}
			figures[name] = lab.Metric{Unit: b.o.unit, Better: lab.Lower}
		}
		b.programs, workloads = c.Program, []string{name}
	case b.o.gobench != "":
		g := &trial.GoBench{Package: b.o.gobench, Regexp: b.o.regexp, For: b.window(1).String(), Dir: dir}
		if err := g.Prepare(ctx, toolchains, b.progress.note); err != nil {
			return err
		}
		b.programs, workloads = g.Program, g.Names
		for _, name := range g.Names {
			figures[name] = lab.OpTime.Metric("time for an operation")
		}
	default:
		cache, err := cacheDir("programs")
		if err != nil {
			return err
		}
		builtin := &trial.Builtin{Self: []string{b.stdio.Self, "workload"}, CacheDir: cache, Size: b.o.size, Dir: dir}
		for _, name := range workloads {
			figure, more, ok := builtin.Figure(name)
			if !ok {
				return hint.Usage("unthrottle bench --list shows them", "no workload %q", name)
			}
			figures[name] = figure
			p.Metrics = append(p.Metrics, more...)
		}
		settings := lab.Cross(workloads, toolchains, cpus, procs)
		builtin.For = b.window(len(settings))
		if b.stdio.Lab == nil { // not a test's
			if err := builtin.Prepare(ctx, settings, b.progress.note); err != nil {
				return err
			}
		}
		b.programs = builtin.Program
	}
	for name, f := range figures {
		if b.o.figure != "" {
			f = b.otherFigure(p, f)
		}
		if b.o.better != "" {
			f.Better = b.o.better
		}
		figures[name] = f
	}
	p.Settings, p.Figures = lab.Cross(workloads, toolchains, cpus, procs), figures
	return nil
}

// otherFigure is the metric of --figure.
func (b *bench) otherFigure(p *lab.Plan, own lab.Metric) lab.Metric {
	for _, m := range append(append([]lab.Metric{own}, p.Metrics...), report.CommonMetrics...) {
		if m.Unit == b.o.figure {
			return m
		}
	}
	return lab.Metric{Unit: b.o.figure, Better: lab.Lower}
}

// windowFor is how long a run measures such that ten blocks are likely to fit into a budget.
func windowFor(budget time.Duration, settings int) time.Duration {
	const least, most, overhead, blocks = 300 * time.Millisecond, time.Second, 200 * time.Millisecond, 10
	each := budget/time.Duration(settings*blocks) - overhead
	return min(max(each, least), most).Round(10 * time.Millisecond)
}

// parseBenchProcs reads values of GOMAXPROCS; the default is 0.
func parseBenchProcs(text string) ([]int, error) {
	return quantity.ParseWholes(text, map[string]int{"default": 0, "max": runtime.NumCPU()})
}

// parseLimits reads numbers of CPUs; none is 0.
func parseLimits(text string) ([]float64, error) {
	return quantity.ParseList(text, func(part string) (float64, error) {
		if part == "none" {
			return 0, nil
		}
		return quantity.ParseCPUs(part)
	})
}

// must is the value of a text that we have written ourselves.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// journalPath is where the runs are written.
func (b *bench) journalPath() (string, error) {
	if b.o.runs != "" {
		return b.o.runs, nil
	}
	return runsPath(b.lab().Clock(), b.study.Plan.Settings[0].Workload)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
