//go:build linux

// Command tune proves the verdicts of "unthrottle tune": for each program and limit it tunes, and then sweeps every setting that tune has
// tried through interleaved blocks, at the same rate, by the verbs run and load alone. It says whether the two agree. Its programs are the
// built-in server and workloads, and other people's programs, which are fetched and built by the go command. All of it takes some four
// hours; -only and -cpus take less.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/unthrottle/unthrottle/bench/internal/command"
	"github.com/unthrottle/unthrottle/bench/internal/neighbour"
)

func main() {
	b := &bench{}
	only := flag.String("only", "", "these programs, such as caddy,minify")
	limits := flag.String("cpus", "0.5,1,1.5", "the limits")
	flag.IntVar(&b.blocks, "blocks", 8, "of the sweep; each runs every setting once")
	flag.DurationVar(&b.budget, "budget", 2*time.Minute, "of tune")
	flag.DurationVar(&b.window, "for", 0, "the window of a run of a server (as tune has it)")
	flag.Uint64Var(&b.seed, "seed", 1, "")
	flag.StringVar(&b.neighbour, "neighbour", "none",
		"half: beside a process that wants one CPU half of the time; steal: beside real-time threads that take 10 % of each CPU; "+
			"pauses: beside such that take a CPU for 25 ms now and then; "+
			"bursts: tune alone runs beside a process that uses 0.3 to 1.5 CPUs for 2 to 60 s, and then nothing for some 30")
	flag.StringVar(&b.runs, "runs", "", "a directory to keep the runs of each tune in")
	flag.IntVar(&b.times, "times", 1, "how often each program is tuned; one sweep judges all of its verdicts")
	flag.BoolVar(&b.nobody, "nobody", false, "tune as the user nobody")
	flag.StringVar(&b.sweeps, "sweep", "all",
		"what is swept: all; changes: the two settings of a verdict that is a change, which tells a wrong one; none")
	flag.StringVar(&b.atOnce, "at-once", "auto",
		"whether tune runs several settings at the same time: auto, yes, no; both: auto and no take turns")
	flag.BoolVar(&b.itself, "itself", false,
		"tune has nothing to try but what is, under another name: GOGC=100, which is Go's own, where GOMAXPROCS is 2; a change is a wrong one")
	flag.IntVar(&b.pair, "pairs", 0, "tune nothing, and tell by so many pairs of runs how exact the p99 is, without the machine's pauses too")
	memory := flag.String("memory", "", "memory limits, such as 16m,32m,64m: tune which of them each server needs, and run it under that for the time of -hold")
	hold := flag.Duration("hold", 10*time.Minute, "of -memory: how long, beside the neighbour and with 1.3 times the load")
	flag.Parse()
	neighbour.Become()
	command.Main(func(ctx context.Context) error { return b.run(ctx, *only, *limits, *memory, *hold) })
}

type bench struct {
	blocks    int
	budget    time.Duration
	window    time.Duration // 0: tune's
	seed      uint64
	neighbour string
	nobody    bool
	sweeps    string
	times     int
	runs      string // directory; "": they are not kept
	atOnce    string
	itself    bool
	pair      int // 0: it tunes

	dir     string // private
	command string // unthrottle
	total   total
}

// total is what all rows say.
type total struct {
	rows, undecided, agree, unclear, wrong, failed int

	unswept     int // of a verdict that was not compared with all settings
	opposed     int // programs of which two verdicts contradict each other
	tune, sweep effort
}

// effort is what was spent on an answer.
type effort struct {
	lasted time.Duration
	runs   int
}

func (e effort) String() string { return fmt.Sprintf("%.0f s, %d runs", e.lasted.Seconds(), e.runs) }

func (b *bench) run(ctx context.Context, only, limits, memory string, hold time.Duration) error {
	if b.blocks < 1 || b.times < 1 || !slices.Contains(neighbour.Kinds, b.neighbour) ||
		!slices.Contains([]string{"all", "changes", "none"}, b.sweeps) || !slices.Contains([]string{"auto", "yes", "no", "both"}, b.atOnce) {
		return fmt.Errorf("-blocks=%d -times=%d -neighbour=%s -sweep=%s -at-once=%s makes no sense", b.blocks, b.times, b.neighbour, b.sweeps, b.atOnce)
	}
	var cpus []float64
	for _, text := range strings.Split(limits, ",") {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v > 0) {
			return fmt.Errorf("-cpus: bad number %q", text)
		}
		cpus = append(cpus, v)
	}
	subjects, err := chosen(only)
	if err != nil {
		return err
	}
	if b.runs != "" {
		if err := os.MkdirAll(b.runs, 0o755); err != nil {
			return err
		}
	}
	if b.dir, err = os.MkdirTemp("", "unthrottle-bench-tune-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := os.Chmod(b.dir, 0o755); err != nil { // the user nobody has to get in
		return err
	}
	b.command = filepath.Join(b.dir, "unthrottle")
	if err := command.Build(ctx, b.command, "cmd/unthrottle"); err != nil {
		return err
	}
	for _, s := range subjects { // before anything is measured
		if s.module != "" && ctx.Err() == nil {
			if err := b.install(ctx, s.module); err != nil {
				return err
			}
		}
	}
	if b.pair > 0 {
		return b.pairs(ctx, subjects, b.pair)
	}
	if memory != "" {
		return b.memory(ctx, subjects, memory, hold)
	}
	by := "root"
	if b.nobody {
		by = "nobody"
	}
	fmt.Printf("%d CPUs, tune --budget %v by %s, a sweep of %d blocks of %s, neighbour: %s\n\n",
		runtime.NumCPU(), b.budget, by, b.blocks, b.sweeps, b.neighbour)
	fmt.Println("| program | limit | load | verdict | agrees | why | the sweep's medians (* current) | tune | sweep | share |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	for _, s := range subjects {
		for _, limit := range cpus {
			if ctx.Err() != nil {
				break
			}
			b.row(ctx, s, limit)
		}
	}
	fmt.Printf("\n%s\n", b.total)
	if b.total.failed > 0 {
		return fmt.Errorf("%d rows failed", b.total.failed)
	}
	return nil
}

// chosen are the subjects that -only names.
func chosen(only string) (list []subject, err error) {
	if only == "" {
		return subjects, nil
	}
	for _, name := range strings.Split(only, ",") {
		i := slices.IndexFunc(subjects, func(s subject) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only: no program is named %q", name)
		}
		list = append(list, subjects[i])
	}
	return list, nil
}

// row does the rows of a program. One that fails does not take the others with it.
func (b *bench) row(ctx context.Context, s subject, limit float64) {
	rows, err := b.compare(ctx, s, limit)
	if ctx.Err() != nil {
		return // it was cut short
	}
	if err != nil {
		b.total.failed++
		fmt.Fprintf(os.Stderr, "%s at %v: %v\n", s.name, limit, err)
		rows = [][]string{{"", "failed", "", "", "", "", "", ""}}
	}
	for _, cells := range rows {
		fmt.Printf("| %s | %v | %s |\n", s.name, limit, strings.Join(cells, " | "))
	}
}

// A tuning is what tune said, and what that took.
type tuning struct {
	document
	verdict verdict
	effort  effort
}

// compare tunes one program under one limit, as often as is asked for, and sweeps it.
func (b *bench) compare(ctx context.Context, s subject, limit float64) (rows [][]string, err error) {
	p, err := b.prepare(s, limit)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(p.dir)
	quiet, err := neighbour.Start(ctx, b.neighbour, b.seed<<16+uint64(b.total.rows))
	if err != nil {
		return nil, err
	}
	defer quiet()
	var tunings []tuning
	for n := range b.times {
		begin := time.Now()
		d, err := b.tune(ctx, p, n)
		if err != nil {
			return nil, err
		}
		t := tuning{d, d.verdict(), effort{time.Since(begin), len(d.Runs)}}
		tunings = append(tunings, t)
		said := append([]string{d.Verdict.Text}, d.Verdict.Also...)
		fmt.Fprintf(os.Stderr, "%s at %v, %v, of which %d beside others, and %s: %s\n", s.name, limit, t.effort, d.besideOthers(), d.atOnce(), strings.Join(said, " "))
	}
	if b.neighbour == "bursts" {
		quiet() // what comes and goes isn't part of the truth
	}
	b.total.opposed += opposed(tunings)
	var settings []setting
	for _, t := range tunings {
		for _, c := range b.swept(t.verdict, t.document) {
			if !slices.Contains(settings, c) {
				settings = append(settings, c)
			}
		}
	}
	var found sweep
	var swept effort
	if len(settings) > 0 {
		begin, late := time.Now(), 0
		if found, late, err = b.sweep(ctx, p, tunings[0].document, settings); err != nil {
			return nil, err
		}
		swept = effort{time.Since(begin), b.blocks * len(found)}
		if late > 0 {
			fmt.Fprintf(os.Stderr, "    in %d of %d runs of the sweep the generator was late\n", late, swept.runs)
		}
	}
	for _, t := range tunings {
		rows = append(rows, b.judged(t, found, swept))
	}
	return rows, nil
}

// judged is the row that compares a verdict with the sweep, and counts it.
func (b *bench) judged(t tuning, found sweep, swept effort) []string {
	load := "a run"
	if l := t.load(); l.Rate > 0 {
		load = fmt.Sprintf("%v/s, %.0f %%; tail is %s", l.Rate, 100*l.Share, l.Tail)
	}
	if len(b.swept(t.verdict, t.document)) == 0 {
		b.total.add(t.verdict, judgement{wrong: b.itself && t.verdict.kind == "change"}, t.effort, effort{}, false)
		return []string{load, t.verdict.String(), "–", "not swept", "", t.effort.String(), "", ""}
	}
	j := judge(t.verdict, found)
	b.total.add(t.verdict, j, t.effort, swept, b.sweeps == "all")
	share := fmt.Sprintf("%.0f %%", 100*t.effort.lasted.Seconds()/swept.lasted.Seconds())
	return []string{
		load, t.verdict.String(), agrees(t.verdict, j, b.sweeps == "all"), j.why, found.medians(t.verdict.current), t.effort.String(), swept.String(), share,
	}
}

// opposed is 1 if two verdicts of a program contradict each other: one advises what another advises against.
func opposed(tunings []tuning) int {
	for i, a := range tunings {
		for _, b := range tunings[:i] {
			if a.verdict.opposes(b.verdict) || b.verdict.opposes(a.verdict) {
				return 1
			}
		}
	}
	return 0
}

// opposes says whether a change contradicts the other verdict: that one keeps the current setting, or moves GOMAXPROCS the other way.
func (v verdict) opposes(other verdict) bool {
	if v.kind != "change" || other.kind == "undecided" {
		return false
	}
	is, was := v.advised.procs-v.current.procs, other.advised.procs-other.current.procs
	return other.kind != "change" && (other.kind == "keep" || other.advised == v.advised) || other.kind == "change" && is*was < 0
}

// swept are the settings that a verdict's sweep is of.
func (b *bench) swept(v verdict, d document) []setting {
	switch {
	case b.sweeps == "all":
		return d.settings()
	case b.sweeps == "changes" && v.kind == "change":
		return []setting{v.current, v.advised}
	}
	return nil
}

// String is what a verdict says, in short.
func (v verdict) String() string {
	switch v.kind {
	case "change":
		return fmt.Sprintf("change %v → %v", v.current, v.advised)
	case "trade":
		return fmt.Sprintf("keep %v, trade %v", v.current, v.advised)
	case "keep":
		return fmt.Sprintf("keep %v", v.current)
	}
	return v.kind
}

// agrees is the cell of the table. Where not all settings were swept, all that can be said of a change is that it is not a wrong one.
func agrees(v verdict, j judgement, all bool) string {
	switch {
	case v.kind == "undecided":
		return "–"
	case j.wrong:
		return "**no: a wrong change**"
	case !all:
		return "no wrong change"
	}
	return map[answer]string{holds: "yes", unclear: "yes, within the sweep's noise", fails: "**no**"}[j.answer]
}

// medians are those of a sweep, by setting.
func (s sweep) medians(current setting) string {
	var parts []string
	for _, c := range s.settings() {
		mark := ""
		if c == current {
			mark = "*"
		}
		var costs []string
		for _, m := range s.metrics() {
			costs = append(costs, fmt.Sprintf("%s %s", m, lasting(s.median(m, c))))
		}
		text := fmt.Sprintf("%v%s: %s", c, mark, strings.Join(costs, ", "))
		if f := s.failed(c); f > 0 {
			text += fmt.Sprintf(", errors %.2g %%", 100*f)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// lasting writes seconds with three digits.
func lasting(seconds float64) string {
	switch {
	case seconds >= 1:
		return fmt.Sprintf("%.3g s", seconds)
	case seconds >= 1e-3:
		return fmt.Sprintf("%.3g ms", 1e3*seconds)
	}
	return fmt.Sprintf("%.3g µs", 1e6*seconds)
}

func (t *total) add(v verdict, j judgement, tuned, swept effort, all bool) {
	t.rows++
	t.tune.lasted, t.tune.runs = t.tune.lasted+tuned.lasted, t.tune.runs+tuned.runs
	t.sweep.lasted, t.sweep.runs = t.sweep.lasted+swept.lasted, t.sweep.runs+swept.runs
	if j.wrong {
		t.wrong++
	}
	switch {
	case v.kind == "undecided":
		t.undecided++
	case !all:
		t.unswept++
	case j.answer == holds:
		t.agree++
	case j.answer == unclear:
		t.agree, t.unclear = t.agree+1, t.unclear+1
	}
}

func (t total) String() string {
	text := fmt.Sprintf("%d of %d agree (%d of them within the sweep's noise only), %d undecided, %d wrong changes.",
		t.agree, t.rows, t.unclear, t.undecided, t.wrong)
	if t.unswept > 0 { // then none was compared with all settings
		text = fmt.Sprintf("Of %d verdicts, %d undecided, %d wrong changes.", t.rows, t.undecided, t.wrong)
	}
	if t.sweep.runs > 0 {
		text += fmt.Sprintf(" tune: %v; the sweep: %v; tune took %.0f %% of its time and %.0f %% of its runs.", t.tune, t.sweep,
			100*t.tune.lasted.Seconds()/t.sweep.lasted.Seconds(), 100*float64(t.tune.runs)/float64(t.sweep.runs))
	}
	if t.opposed > 0 {
		text += fmt.Sprintf(" Two verdicts contradict each other for %d programs.", t.opposed)
	}
	if t.failed > 0 {
		text += fmt.Sprintf(" %d rows failed.", t.failed)
	}
	return text
}

// document is what is needed of tune's.
type document struct {
	Verdict struct {
		Kind  string   `json:"kind"`
		Procs int      `json:"gomaxprocs"`
		GOGC  int      `json:"gogc"`
		Text  string   `json:"text"`
		Also  []string `json:"also"`
		Load  int      `json:"load"`
	} `json:"verdict"`
	Current struct {
		Procs int `json:"gomaxprocs"`
	} `json:"current"`
	Loads    []load   `json:"loads"`
	Settings []tried  `json:"settings"`
	Runs     []marked `json:"runs"`
	AtOnce   *struct {
		Runs   int    `json:"runs"`
		InTurn string `json:"in_turn"`
	} `json:"at_once"`
}

// atOnce says how many runs were made at the same time, and why not all.
func (d *document) atOnce() string {
	if d.AtOnce == nil {
		return "none at the same time"
	}
	return strings.TrimSuffix(fmt.Sprintf("%d at the same time; %s", d.AtOnce.Runs, d.AtOnce.InTurn), "; ")
}

type marked struct {
	Marks []string `json:"marks"`
}

// besideOthers counts the runs that are marked because of other processes.
func (d *document) besideOthers() (n int) {
	for _, r := range d.Runs {
		if slices.ContainsFunc(r.Marks, func(mark string) bool { return strings.HasPrefix(mark, "other processes") }) {
			n++
		}
	}
	return n
}

type tried struct {
	Load  int  `json:"load"`
	Procs int  `json:"gomaxprocs"`
	GOGC  int  `json:"gogc"`
	Best  bool `json:"is_best"` // of a trade, what it offers
}

// A load is what a server is sent.
type load struct {
	Rate    float64  `json:"rate"` // 0: it is a job
	Share   float64  `json:"share_of_limit"`
	Window  float64  `json:"window_seconds"`
	WarmUp  float64  `json:"warm_up_seconds"`
	Tail    string   `json:"tail"`    // the percentile that a window can carry
	Effects []effect `json:"effects"` // of what is advised, or of the trade
}

type effect struct {
	Metric metric `json:"metric"` // the tail is p99 there, whatever a window can carry
	Says   string `json:"says"`
}

func (d *document) load() load { return d.Loads[d.Verdict.Load] }

// verdict is what the document says.
func (d *document) verdict() verdict {
	current := setting{d.Current.Procs, 0}
	v := verdict{kind: d.Verdict.Kind, current: current, advised: setting{d.Verdict.Procs, d.Verdict.GOGC}}
	if v.kind == "trade" {
		for _, s := range d.Settings {
			if s.Load == d.Verdict.Load && s.Best {
				v.advised = setting{s.Procs, s.GOGC}
			}
		}
	}
	for _, e := range d.load().Effects {
		switch {
		case e.Says != "better":
		case e.Metric == "p99":
			v.named = append(v.named, tail)
		default:
			v.named = append(v.named, e.Metric)
		}
	}
	return v
}

// settings are those that tune has tried.
func (d *document) settings() (all []setting) {
	for _, s := range d.Settings {
		if s.Load == d.Verdict.Load {
			all = append(all, setting{s.Procs, s.GOGC})
		}
	}
	return all
}

// tune asks for the nth verdict.
func (b *bench) tune(ctx context.Context, p *program, n int) (d document, err error) {
	runs := filepath.Join(cmp.Or(b.runs, p.home), fmt.Sprintf("%s-%v-%d.jsonl", p.name, p.limit, n+1))
	args := []string{
		"tune", "--json", "--cpus", fmt.Sprint(p.limit), "--budget", b.budget.String(), "--seed", fmt.Sprint(b.seed + uint64(n)),
		"--runs", runs,
	}
	if b.itself {
		args = append(args, "--procs", "2", "--gogc", "100")
	}
	if p.url == "" {
		args = append(args, "--batch")
	} else {
		how := b.atOnce
		if how == "both" {
			how = []string{"auto", "no"}[n%2]
		}
		args = append(args, "--url", p.url, "--at-once", how)
		if b.window > 0 {
			args = append(args, "--for", b.window.String())
		}
	}
	cmd := b.process(ctx, p, append(append(args, "--"), p.args...)...)
	if b.nobody {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	out, err := command.Output(cmd)
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(out, &d); err != nil {
		return d, err
	}
	if len(d.Loads) == 0 || len(d.Settings) == 0 {
		return d, errors.New(cmp.Or(d.Verdict.Text, "tune tried nothing"))
	}
	return d, nil
}

const nobody = 65534

// process is unthrottle, in the environment of a program. Asked to end, it ends what it has started and removes its groups. It is not in
// the terminal's foreground: a key pressed there is for us, and we pass it on.
func (b *bench) process(ctx context.Context, p *program, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.command, args...)
	cmd.Dir = p.home
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); name != "GOMAXPROCS" && name != "GOGC" && name != "GOMEMLIMIT" {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+p.home, "TMPDIR="+p.home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	return cmd
}

// install fetches and builds a program. Go keeps what it has built, so that only the first time is long.
func (b *bench) install(ctx context.Context, module string) error {
	fmt.Fprintf(os.Stderr, "building %s\n", module)
	cmd := exec.CommandContext(ctx, "go", "install", module)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "GOBIN="+b.dir, "GOFLAGS=", "GOWORK=off")
	_, err := command.Output(cmd)
	return err
}
