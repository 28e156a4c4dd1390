package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unthrottle/unthrottle/cmd/internal/cpuprofile"
	"github.com/unthrottle/unthrottle/cmd/internal/goself"
	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/meter"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/render"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
)

const profileHelp = `What of a Go program's CPU time grows with GOMAXPROCS, and how its CPU time compares with its limit.

Usage:
  unthrottle profile [FLAGS] FILE        a CPU profile as runtime/pprof writes it; - is stdin
  unthrottle profile [FLAGS] URL         takes one from a program with net/http/pprof: host:port is enough

Profile:
      --seconds N       how long to take it for (10)
      --save F          keep the profile as file F
      --base FILE       the profile to hold it against, for a unit of work
      --units N --base-units M    how much work was done; otherwise CPU time of the program's own code counts
Beside it:
      --limit CPUS      the limit: 0.5, 500m
      --pid PID         the process: its limit, GOMAXPROCS and throttling; found by itself for a URL on this host
      --metrics M       its page of metrics, a URL (that of the same host), FILE, or BEFORE,AFTER; none: don't ask
Results:
  -o, --output F        also write F: .json, .html or .md; may be repeated
      --format F        text, json, html or md
      --json            the document instead of text
      --color WHEN      auto, always or never

It gives no verdict: a CPU profile does not show when a program was frozen. unthrottle explain --watch PID does.

Example:
  unthrottle profile localhost:6060 --base before.pb.gz -o profile.html
`

const profileExample = "unthrottle profile cpu.pb.gz, or unthrottle profile http://localhost:6060/debug/pprof/profile"

type profileOptions struct {
	seconds          int
	save, base       string
	units, baseUnits float64
	limit            string
	pid              int
	metrics          string
	outputs          []string
	format           string
	json             bool
}

// A profiler runs the verb.
type profiler struct {
	stdio IO
	o     profileOptions
	style render.Style

	source string   // file or URL, as it is shown
	url    *url.URL // nil: a file
	limit  float64
	files  results[*report.Profile]
	saved  *output
	facts  report.ProfileFacts
}

// profileFormats are what a profile's document can be written as.
func profileFormats() map[string]writer[*report.Profile] {
	return map[string]writer[*report.Profile]{
		"text": render.ProfileText,
		"json": asJSON[*report.Profile],
		"html": plainly(render.ProfileHTML),
		"md":   wrapped(render.ProfileText, "md"),
	}
}

func newProfile(stdio IO) *cobra.Command {
	p := &profiler{stdio: stdio}
	o := &p.o
	cmd := &cobra.Command{Use: "profile", Long: profileHelp}
	flags := cmd.Flags()
	flags.IntVar(&o.seconds, "seconds", 10, "")
	flags.StringVar(&o.save, "save", "", "")
	flags.StringVar(&o.base, "base", "", "")
	flags.Float64Var(&o.units, "units", 0, "")
	flags.Float64Var(&o.baseUnits, "base-units", 0, "")
	flags.StringVar(&o.limit, "limit", "", "")
	flags.IntVar(&o.pid, "pid", 0, "")
	flags.StringVar(&o.metrics, "metrics", "", "")
	flags.StringArrayVarP(&o.outputs, "output", "o", nil, "")
	flags.StringVar(&o.format, "format", "text", "")
	flags.BoolVar(&o.json, "json", false, "")
	color := colorFlag(cmd.Flags(), stdio)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if p.style, err = color(false); err != nil {
			return err
		}
		if len(args) != 1 {
			return hint.Usage(profileExample, "profile wants one file or URL, got %d", len(args))
		}
		if err := p.parse(args[0], flags.Changed); err != nil {
			return err
		}
		return p.run(cmd.Context())
	}
	return cmd
}

// parse checks the command line.
func (p *profiler) parse(source string, changed func(string) bool) (err error) {
	o := &p.o
	p.source = source
	if p.url, err = profilePage.url(source, o.seconds, changed("seconds")); err != nil {
		return err
	}
	switch {
	case p.url != nil:
		p.source = p.url.Redacted()
	case changed("seconds"):
		return hint.Usage("leave it out", "--seconds is for a URL: a file was taken already")
	case o.save != "":
		return hint.Usage("leave it out", "--save is for a URL: this is a file already")
	}
	if o.seconds < 1 || o.seconds > 3600 {
		return hint.Usage("--seconds 10", "--seconds=%d is not within 1 and 3600", o.seconds)
	}
	if changed("limit") {
		if p.limit, err = quantity.ParseCPUs(o.limit); err != nil {
			return hint.Usage("--limit 0.5, or --limit 500m", "--limit: %w", err)
		}
	}
	if changed("pid") && o.pid <= 0 {
		return hint.Usage("pgrep NAME finds a process's pid", "--pid=%d is not a pid", o.pid)
	}
	switch {
	case changed("units") != changed("base-units"):
		return hint.Usage("give both", "--units and --base-units go together")
	case changed("units") && o.base == "":
		return hint.Usage("add --base FILE", "--units is for holding a profile against a base, and there is none")
	case changed("units") && !(o.units > 0 && o.baseUnits > 0 && o.units < 1e15 && o.baseUnits < 1e15):
		return hint.Usage("--units 68014 --base-units 36374", "--units=%g and --base-units=%g are no amounts of work", o.units, o.baseUnits)
	}
	o.format, err = screenFormat(profileFormats(), o.format, o.json, changed("format"))
	return err
}

func (p *profiler) run(ctx context.Context) error {
	if err := p.readBase(); err != nil {
		return err
	}
	if err := p.open(); err != nil {
		return p.finish(err)
	}
	p.findProcess()
	data, err := p.take(ctx)
	if err != nil {
		return p.finish(err)
	}
	if p.saved != nil {
		if _, err := p.saved.w.Write(data); err != nil {
			return p.finish(fmt.Errorf("saving the profile: %w", err))
		}
	}
	f := &p.facts
	if f.Profile, err = cpuprofile.Read(bytes.NewReader(data)); err != nil {
		return p.finish(profileHinted(fmt.Errorf("%s: %w", p.source, err)))
	}
	f.Source, f.Saved, f.LimitGiven = p.source, p.o.save, p.limit
	f.Units, f.BaseUnits, f.BaseSource = p.o.units, p.o.baseUnits, p.o.base
	doc := report.NewProfile(*f)
	doc.Header = newHeader("profile")
	doc.Command = append([]string{"unthrottle"}, p.stdio.Args...)
	return p.finish(p.files.write(doc, p.style))
}

// readBase reads the base before anything is measured.
func (p *profiler) readBase() error {
	if p.o.base == "" {
		return nil
	}
	data, err := readFileMost(p.o.base, p.stdio.In)
	if err != nil {
		return hint.With(fmt.Errorf("reading the base: %w", err), "--base wants a file that --save has written, or curl")
	}
	if p.facts.Base, err = cpuprofile.Read(bytes.NewReader(data)); err != nil {
		return profileHinted(fmt.Errorf("reading the base: %s: %w", p.o.base, err))
	}
	return nil
}

// profileMost is more than a profile has; cpuprofile says so of one that is as large.
const profileMost = 65 << 20

// readFileMost reads a file, or stdin for "-", but no more of it than a profile has.
func readFileMost(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(stdin, profileMost))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, profileMost))
}

// profileHinted adds to what is no CPU profile what can be done with it.
func profileHinted(err error) error {
	const take = "curl -o cpu.pb.gz 'http://HOST:PORT/debug/pprof/profile?seconds=10' takes a CPU profile, and so does go test -cpuprofile"
	var kind *cpuprofile.KindError
	if !errors.As(err, &kind) {
		return hint.With(err, take)
	}
	switch kind.Kind {
	case cpuprofile.Trace:
		return hint.With(err, "unthrottle trace reads it")
	case cpuprofile.JSON:
		return hint.With(err, "unthrottle report shows a document of unthrottle again")
	case cpuprofile.Text:
		return hint.With(err, "without debug=1 in its URL a profile is in the form that is needed")
	case cpuprofile.Program:
		return hint.With(err, "unthrottle explain -- PROGRAM explains a program", take)
	}
	return hint.With(err, take)
}

// open opens all files before anything is measured.
func (p *profiler) open() error {
	if err := p.files.open(profileFormats(), p.o.outputs, p.o.format, p.stdio.Out); err != nil {
		return err
	}
	if p.o.save != "" {
		var err error
		if p.saved, err = newOutput(p.o.save, nil); err != nil {
			return err
		}
	}
	return nil
}

// finish closes all files. A profile that could be taken is saved, whatever came then.
func (p *profiler) finish(err error) error {
	err = p.files.finish(err)
	if p.saved != nil {
		kept := err
		if p.facts.Profile != nil {
			kept = nil
		}
		if saveErr := p.saved.finish(kept); err == nil {
			err = saveErr
		}
	}
	return err
}

// findProcess looks for the process that the profile is of.
func (p *profiler) findProcess() {
	f := &p.facts
	pid := p.o.pid
	if pid == 0 && p.url != nil {
		pid = procs.Serving("", p.url)
	}
	if pid == 0 {
		return
	}
	process, err := readDebugged(pid)
	if err != nil {
		f.Warnings = append(f.Warnings, err)
		return
	}
	f.PID, f.Name, f.Limits, f.Live = pid, process.name, &process.limits, process.live
}

// take reads the profile, and for a URL all that is read beside it.
func (p *profiler) take(ctx context.Context) ([]byte, error) {
	if p.url == nil {
		data, err := readFileMost(p.source, p.stdio.In)
		if err != nil {
			return nil, hint.With(fmt.Errorf("reading the profile: %w", err), profileExample)
		}
		p.readMetricsFiles()
		return data, nil
	}
	first, began := p.readMetrics(ctx), time.Now()
	var m *meter.Meter
	if p.facts.PID != 0 {
		m = meter.Start("", p.facts.PID, time.Second)
	}
	progress := newProgress(p.stdio, p.o.format == "json")
	progress.note(fmt.Sprintf("taking a CPU profile of %s for %s s", p.url.Host, p.url.Query().Get("seconds")))
	data, err := p.fetch(ctx)
	progress.done()
	if m != nil {
		p.facts.Readings = m.Stop()
	}
	if err != nil {
		return nil, err
	}
	if p.o.metrics != "" && !strings.Contains(p.o.metrics, "://") {
		p.readMetricsFiles()
		return data, nil
	}
	p.demand(first, p.readMetrics(ctx), time.Since(began))
	return data, nil
}

// fetch takes the profile from the URL.
func (p *profiler) fetch(ctx context.Context) ([]byte, error) {
	body, err := profilePage.open(ctx, p.url)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, profileMost))
	if err != nil {
		return nil, profilePage.failed(ctx, p.url, err)
	}
	return data, nil
}

// readMetrics reads the program's page of metrics; nil if there is none with the classes.
func (p *profiler) readMetrics(ctx context.Context) *goself.Classes {
	from := p.o.metrics
	switch {
	case from == "none" || from != "" && !strings.Contains(from, "://"):
		return nil
	case from == "":
		from = (&url.URL{Scheme: p.url.Scheme, Host: p.url.Host, User: p.url.User, Path: "/metrics"}).String()
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	page, err := func() ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
		if err != nil {
			return nil, err
		}
		res, err := (&http.Client{}).Do(req)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s answered %s", from, res.Status)
		}
		return io.ReadAll(io.LimitReader(res.Body, 8<<20))
	}()
	if err != nil {
		if p.o.metrics != "" {
			p.warn("reading the metrics: %w", err)
		}
		return nil
	}
	return p.classes(page, from)
}

// classes reads a page. That one without them was asked for is said.
func (p *profiler) classes(page []byte, from string) *goself.Classes {
	c, ok := goself.ParseClasses(page)
	if !ok {
		if p.o.metrics != "" {
			p.warn("%s has no go_cpu_classes_…: Prometheus' Go client has them with collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)", from)
		}
		return nil
	}
	if p.facts.MetricsProcs == 0 || c.Procs != 0 {
		p.facts.MetricsProcs = c.Procs
	}
	return &c
}

func (p *profiler) warn(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if !slices.ContainsFunc(p.facts.Warnings, func(e error) bool { return e.Error() == err.Error() }) {
		p.facts.Warnings = append(p.facts.Warnings, err)
	}
}

// demand works out what the metrics say, from two readings.
func (p *profiler) demand(first, last *goself.Classes, between time.Duration) {
	if first == nil || last == nil {
		return
	}
	var cpu time.Duration
	switch readings := p.facts.Readings; {
	case first.CPU >= 0 && last.CPU > first.CPU:
		cpu = time.Duration((last.CPU - first.CPU) * float64(time.Second))
	case len(readings) > 1 && readings[0].CPUKnown:
		cpu = readings[len(readings)-1].CPU - readings[0].CPU
	default:
		p.warn("the metrics don't tell the process's CPU time (process_cpu_seconds_total)")
		return
	}
	d, ok := last.Since(*first, between, cpu)
	if !ok {
		p.warn("the metrics did not change while the profile was taken: the runtime brings /cpu/classes up to date when a garbage collection ends; take it for longer")
		return
	}
	switch {
	case d.Covered > 0 && d.Covered < between/2:
		p.warn("the metrics cover %v of the %v between their readings, from collection to collection: too little to tell the demand", d.Covered.Round(time.Millisecond), between.Round(time.Millisecond))
	case d.Got < idleBelow:
		p.warn("the program used %.3f CPUs: too little to tell the demand", d.Got)
	default:
		p.facts.Demand, p.facts.DemandOver = &d, "profile"
	}
}

// idleBelow is a number of CPUs below which a program does hardly anything but wake and sleep.
const idleBelow = 0.05

// readMetricsFiles reads one saved page, or two with a comma between them.
func (p *profiler) readMetricsFiles() {
	if p.o.metrics == "" || p.o.metrics == "none" {
		return
	}
	if strings.Contains(p.o.metrics, "://") {
		p.warn("--metrics %s was not read: it would tell of another time than the file", p.o.metrics)
		return
	}
	var pages []*goself.Classes
	for name := range strings.SplitSeq(p.o.metrics, ",") {
		data, err := readFileMost(name, p.stdio.In)
		if err != nil {
			p.warn("reading the metrics: %w", err)
			return
		}
		c := p.classes(data, name)
		if c == nil {
			return
		}
		pages = append(pages, c)
	}
	c, over := pages[len(pages)-1], "start"
	if first := pages[0]; first != c {
		over = "files"
		if first.CPU < 0 {
			c.CPU = -1
		}
		c.Total, c.Idle, c.CPU = c.Total-first.Total, c.Idle-first.Idle, c.CPU-first.CPU
	}
	d, ok := c.Start()
	if !ok {
		p.warn("the metrics tell no CPU time (process_cpu_seconds_total), or there was no garbage collection in it, at whose end the runtime brings /cpu/classes up to date")
		return
	}
	p.facts.Demand, p.facts.DemandOver = &d, over
}
