package cli

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/command/conduct"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/disturbance"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/input"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/show/render"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/show/view"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

const loadHelp = `Send HTTP or gRPC requests at a given rate, and report how long users would wait, counted from when each request was due.

Usage:
  unthrottle load URL [FLAGS]
  unthrottle load --targets FILE [FLAGS]     several requests with weights: JSON or vegeta's format
  unthrottle load --grpc pkg.Service/Method -d JSON HOST:PORT    unary gRPC calls
  unthrottle load URL --find-max --slo SLO   the highest rate that meets the SLO

{{flags}}

Exit codes:
  0 done   1 failed, no request was answered, or all with 404   2 usage   3 the SLO was missed   130 interrupted

Example:
  unthrottle load http://localhost:8080/ --rate 500 --for 30s --slo p99=50ms,errors=0.1%
`

// A loader runs the verb.
type loader struct {
	stdio    IO
	flags    *verb.Flags
	results  *verb.Results[*report.Load]
	plan     load.Plan
	rate     quantity.RateRange
	rateFile string
	rateSum  string // of that file
	requests loadtest.Requests
	slo      string
	findMax  bool
	window   time.Duration
	server   int // pid
	pin      []int
	realtime bool
	csv      bool
	hgrm     bool
}

func newLoad(stdio IO) *cobra.Command {
	return verb.New("load", loadHelp, func(l *verb.Flags) func(context.Context, []string) error {
		o := &loader{stdio: stdio, flags: l, results: verb.NewResults(stdio.IO, loadFormats())}
		o.register(l)
		return o.run
	})
}

func (o *loader) register(l *verb.Flags) {
	p := &o.plan
	flags := l.Section("Load:")
	flags.Var(quantity.Value(&o.rate, quantity.ParseRateRange, "500, 20K, or 100..1000"), "rate", "R\trequests a second, whatever the server does (50): 500, 20K; 100..1000 ramps evenly")
	flags.StringVar(&o.rateFile, "rate-file", "", "FILE\treplay recorded arrivals: one time per line, as in an access log; - is stdin")
	l.Exclude("use one of them", "rate", "rate-file")
	l.Exclude("use one of them", "rate-file", "find-max")
	verb.Duration(flags, &p.Duration, "for", time.Millisecond, "D\thow long (10s; with --find-max at most 40s in all)")
	verb.Number(flags, &p.Requests, "requests", "n", 1, "N\thow many requests, instead of how long")
	conduct.Arrivals(flags, &p.Arrivals)
	conduct.Burst(flags, &p.Burst, "burst")
	flags.Uint64Var(&p.Seed, "seed", 0, "N\tseed for the arrivals and the choice of targets")
	verb.Duration(flags, &p.WarmUp, "warmup", 0, "D\tsend the same load for this long first, not counted")
	verb.Number(flags, &p.Rush, "rush", "", 1, "N\tthe warm-up begins with N requests at once, as after a pause")
	verb.Number(flags, &p.Conns, "conns", "c", 1, "N\tat most N connections (1000); without --rate a closed loop of N workers, each waiting for its response")
	flags.Var(quantity.Value(&o.slo, conduct.CheckSLO, conduct.SLOExample), "slo", "SLO\tp99=50ms,errors=0.1%: exit code 3 if it is missed")
	flags.BoolVar(&o.findMax, "find-max", false, "find the highest rate that meets the SLO")
	verb.Duration(flags, &o.window, "window", time.Millisecond, "D\tthe windows of --find-max (1.5s to 3s, depending on the rate and the SLO)")
	conduct.Requests(l, l.Section("Requests:"), &o.requests)
	flags = l.Section("Measuring:")
	verb.Number(flags, &o.server, "server-pid", "", 0, "N\talso show this process's throttling (found automatically for a server on this host); 0: don't")
	flags.Var(quantity.Value(&o.pin, quantity.ParseCPUList, "0, or --pin 0-3"), "pin", "LIST\tCPUs for the generator: 1, 0-3")
	flags.BoolVar(&o.realtime, "realtime", true, "give the generator of a --rate real-time priority, if allowed (true)")
	verb.Duration(flags, &p.Grace, "grace", 0, "D\thow long to wait for open requests at the end (the timeout)")
	flags = l.Section("Results:")
	o.results.FilesFlag(flags, ".csv (one row per request)")
	o.results.JSONFlag(flags)
	flags.BoolVar(&o.csv, "csv", false, "print one row per request instead of text")
	flags.BoolVar(&o.hgrm, "hgrm", false, "print HdrHistogram's percentiles instead of text")
	l.Exclude("one of them, and -o FILE for the others", "json", "csv", "hgrm")
	o.results.ColorFlag(flags)
}

// Where the command line leaves it open.
const (
	defaultRate = 50
	defaultFor  = 10 * time.Second
)

// session turns the flags into what to send.
func (o *loader) session(ctx context.Context, args []string) (*loadtest.Session, error) {
	p := &o.plan
	p.Rate = o.rate.Mean()
	if o.rate.From != o.rate.To {
		p.From = o.rate.From
	}
	closed := o.flags.Given("conns") && p.Rate == 0 && o.rateFile == "" && !o.findMax
	switch {
	case len(args) > 1:
		return nil, hint.Usage(loadtest.Example, "load takes one URL, got %d; --targets takes a file of several", len(args))
	case len(args) == 0 && o.requests.File == "":
		return nil, hint.Usage(loadtest.Example, "no URL given")
	case len(args) == 1 && o.requests.File != "":
		return nil, hint.Usage("use one of them", "a URL and --targets cannot be used together")
	case closed && p.Burst > 0:
		return nil, hint.Usage("add --rate", "--burst says how the requests of a rate are spread, and needs --rate")
	case p.Rush > 0 && (closed || p.WarmUp == 0):
		return nil, hint.Usage("add --rate and --warmup", "--rush says how the warm-up of a rate begins, and needs --rate and --warmup")
	case o.rateFile == "-" && (o.requests.Data == "@-" || o.requests.File == "-"):
		return nil, hint.Usage("name a file for one of them", "stdin can't be both the arrivals and what is sent")
	case o.rateFile != "" && (o.flags.Given("arrivals") || p.Burst > 0):
		return nil, hint.Usage("leave --arrivals and --burst out", "--rate-file says when each request arrives")
	case o.findMax && p.From > 0:
		return nil, hint.Usage("--rate 500 begins with that rate", "--find-max looks for one rate, and %v/s to %v/s are many", o.rate.From, o.rate.To)
	case closed && o.flags.Given("arrivals"):
		return nil, hint.Usage("add --rate", "--arrivals says how the requests of a rate are spread, and needs --rate")
	case o.findMax && o.slo == "":
		return nil, hint.Usage("unthrottle load URL --find-max --slo p99=50ms", "--find-max looks for the highest rate that holds an SLO, and needs --slo")
	}
	if !o.flags.Given("seed") {
		p.Seed = rand.Uint64() >> 32 // short enough to be typed
	}
	if o.rateFile != "" {
		var err error
		if o.rateSum, err = recorded(ctx, o.rateFile, o.stdio.In, p.Seed, p); err != nil {
			return nil, err
		}
	}
	if p.Rate == 0 && !closed {
		p.Rate = defaultRate
	}
	if p.Duration == 0 && p.Requests == 0 {
		p.Duration = defaultFor
	}
	if o.requests.Method == "" && o.flags.Given("data") {
		o.requests.Method = "POST"
	}
	s := &loadtest.Session{Realtime: o.prompt() && load.Prompt()}
	if o.slo != "" {
		slo, err := load.ParseSLO(o.slo)
		if err != nil {
			return nil, err
		}
		s.SLO, p.Within = &slo, slo.Within()
	}
	if o.flags.Given("server-pid") {
		s.PID = &o.server
	}
	var err error
	if p.Targets, p.Client, err = o.requests.Read(ctx, strings.Join(args, ""), o.stdio.In); err != nil {
		return nil, err
	}
	s.Plan = *p
	return s, nil
}

// recorded reads when requests should arrive, and the file's sum. They take as long as they took, or as the plan says.
func recorded(ctx context.Context, file string, stdin io.Reader, seed uint64, p *load.Plan) (sum string, err error) {
	const example = "awk '{print $4 $5}' access.log writes one from a log in the common format"
	in, err := input.Open(ctx, file, stdin)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", hint.With(fmt.Errorf("--rate-file: %w", err), "it is a text with a time in each line: "+example)
	}
	defer in.Close()
	times, sum, err := load.ReadTimes(in, seed)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", hint.With(fmt.Errorf("--rate-file %s: %w", file, err), example)
	}
	p.Record(times)
	return sum, nil
}

const pausesVerb = "pauses"

// newPauses is the verb that sees when the machine stands still. It is not for users: load calls it.
func newPauses(stdio IO) *cobra.Command {
	return &cobra.Command{
		Use: pausesVerb, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return disturbance.WatchPauses(stdio.In, stdio.Out) },
	}
}

// loadFormats are what a load's document can be written as.
func loadFormats() map[string]verb.Writer[*report.Load] {
	formats := verb.SheetFormats(view.Load)
	formats["hgrm"] = verb.Plainly(report.LoadHGRM)
	return formats
}

func (o *loader) run(ctx context.Context, args []string) error {
	s, err := o.session(ctx, args)
	if err != nil {
		return err
	}
	if err := o.open(s); err != nil {
		return err
	}
	if len(o.pin) > 0 {
		if err := load.Pin(o.pin); err != nil {
			return o.results.Drop(hint.With(fmt.Errorf("--pin: %w", err), "it takes CPUs that this process may use: unthrottle explain shows them"))
		}
	}
	relaxGC(o.stdio)
	if o.onOneP() {
		runtime.GOMAXPROCS(1)
	}
	if s.Realtime { // a user who may have that may have the other, too
		if w, err := disturbance.StartPauses([]string{o.stdio.Self, pausesVerb}); err == nil {
			defer w.Stop()
			s.Witness = w
		}
	}
	doc, err := o.send(ctx, s)
	if err == nil {
		doc.Header, doc.Command = verb.NewHeader("load"), o.stdio.command()
		if !o.flags.Given("seed") { // so that it does the same again
			doc.Command = append(doc.Command, "--seed", strconv.FormatUint(o.plan.Seed, 10))
		}
	}
	if err := o.results.Finish(&doc, err); err != nil {
		return err
	}
	return outcomeOf(&doc)
}

// open opens all files before anything is sent. The rows of requests are written as they are done, and not from the document.
func (o *loader) open(s *loadtest.Session) error {
	switch {
	case o.csv:
		o.results.Format = "csv"
	case o.hgrm:
		o.results.Format = "hgrm"
	}
	o.results.Also("csv", func(io.Writer, *report.Load, render.Style) error { return nil })
	if err := o.results.Open(); err != nil {
		return err
	}
	var rows []*loadtest.Rows
	o.results.Stream("csv", func(w io.Writer) verb.Writer[*report.Load] {
		r := loadtest.NewRows(w)
		rows = append(rows, r)
		return func(io.Writer, *report.Load, render.Style) error { return r.Flush() }
	})
	if len(rows) > 0 {
		s.Plan.Each = func(sample *load.Sample) {
			for _, r := range rows {
				r.Add(sample)
			}
		}
	}
	return nil
}

// send does what was asked for.
func (o *loader) send(ctx context.Context, s *loadtest.Session) (doc report.Load, err error) {
	p := conduct.NewProgress(o.stdio.IO, o.results.JSON || o.hgrm || o.csv && !o.findMax)
	defer p.Done()
	s.Live, s.Tried = p.Load, p.Window
	if !o.findMax {
		doc.Summary, err = s.Once(ctx)
		doc.RateFile, doc.RateSum = o.rateFile, o.rateSum
		return doc, err
	}
	s.Plan.Each = nil
	h := loadtest.Hunt{Window: o.window}
	if o.flags.Given("rate") {
		h.Start = o.plan.Rate
	}
	if o.flags.Given("for") {
		h.For = o.plan.Duration
	}
	found, err := s.FindMax(ctx, h)
	return report.Load{Summary: found.Summary, Search: report.NewLoadSearch(found.Answer, found.Windows)}, err
}

// prompt reports whether the generator should have real-time priority. The search for the highest rate goes to where the CPUs are used up:
// there a generator that comes before the server takes some of the rate away, and its lateness is in the responses.
func (o *loader) prompt() bool {
	return o.plan.Rate > 0 && o.realtime && (!o.findMax || o.flags.Given("realtime"))
}

// outcomeOf is how the verb ends when everything has been written.
func outcomeOf(d *report.Load) error {
	switch {
	case d.Hopeless != "":
		return d.HopelessError()
	case d.Stopped:
		return verb.ExitCode{Code: verb.Interrupted}
	case d.SLO != nil && d.Search == nil && !d.SLO.Held:
		return verb.ExitCode{Code: verb.Findings}
	case d.Search != nil && d.Search.Sustains == 0:
		return verb.ExitCode{Code: verb.Findings}
	case d.Search == nil && d.Requests > 0 && len(d.Statuses) == 0:
		cause := "nothing came back"
		if len(d.Causes) > 0 {
			cause = d.Causes[0].Cause
		}
		return hint.With(fmt.Errorf("no request was answered: %s", cause), "is the server running, and is the URL right?")
	}
	return nil
}

// played says of recorded arrivals that are played in each window how many there are a second, how long they last, and the file's sum.
func played(ctx context.Context, file string) (rate float64, lasts time.Duration, sum string, err error) {
	if file == "-" {
		return 0, 0, "", hint.Usage("write it to a file, and name that", "the arrivals are played several times, and can't be read from stdin each time")
	}
	var p load.Plan
	sum, err = recorded(ctx, file, nil, 0, &p)
	return quantity.Significant(p.Rate, 3), p.Duration, sum, err
}

// onOneP reports whether one P is enough for the generator: over HTTP/2 it is net/http's, in which threads wake each other for each answer.
// With one, a request costs 12 to 20 % less CPU time, and more is left to a server on the same machine. Calls of gRPC, which are not
// net/http's affair, get a second one from the engine.
func (o *loader) onOneP() bool {
	const most = 5000 // requests a second, which take some 60 % of a CPU
	p := o.plan
	return p.Client.HTTP2 == load.HTTP2Only && p.Rate > 0 && p.Highest() <= most && !o.findMax && o.stdio.Env("GOMAXPROCS") == ""
}

// relaxGC lets a generator collect garbage less often: its heap is small, and would be collected many times a second.
func relaxGC(stdio IO) {
	if stdio.Env("GOGC") == "" {
		debug.SetGCPercent(800) // 4 MB of live heap grow to 36
	}
}
