package attach

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/web"
	"github.com/unthrottle/unthrottle/cmd/internal/process/goself"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// A Profiler takes a CPU profile from a URL, or reads one, and with it what the program's metrics say about its demand.
type Profiler struct {
	Source  string   // a file; - is In
	URL     *url.URL // of the page; nil: there is the file, or the process
	Far     *Far     // nil: what answers at the URL may run here
	Seconds int      // to take it for
	Process int      // pid that was given; 0: it is searched for. Without a Source the profile is taken of it
	Metrics string   // a URL, FILE, or BEFORE,AFTER; "": where the URL is, none: not at all
	In      io.Reader
	Note    func(text string) // is called with what takes a while; may be nil

	// Take sets these, even if it fails.
	Beside
	MetricsProcs int // GOMAXPROCS; 0: not known
	Demand       *goself.Demand
	DemandOver   string // profile, files or start: since when
}

// Take takes the profile, or reads it.
func (p *Profiler) Take(ctx context.Context) ([]byte, error) {
	if p.URL == nil && p.Source == "" {
		base, err := CPUProfile.find(ctx, p.Process)
		if err != nil {
			return nil, err
		}
		p.URL = CPUProfile.At(base, p.Seconds)
		p.Source = p.URL.Redacted()
	}
	if p.URL == nil {
		p.find(p.Process)
		data, err := ReadFile(ctx, p.Source, p.In)
		if err != nil {
			return nil, hint.With(fmt.Errorf("reading the profile: %w", err), CPUProfile.Example)
		}
		p.readMetricsFiles(ctx)
		return data, nil
	}
	p.findProcess(ctx)
	first, began := p.readMetrics(ctx), time.Now()
	if p.Note != nil {
		p.Note(fmt.Sprintf("taking a CPU profile of %s for %s s", p.URL.Host, p.URL.Query().Get("seconds")))
	}
	var data []byte
	err := p.while(ctx, p.Far, func() (err error) {
		data, err = p.fetch(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	if p.Metrics != "" && !strings.Contains(p.Metrics, "://") {
		p.readMetricsFiles(ctx)
		return data, nil
	}
	p.demand(first, p.readMetrics(ctx), time.Since(began))
	return data, nil
}

// findProcess looks for the process that the profile is of.
func (p *Profiler) findProcess(ctx context.Context) {
	pid := p.Process
	switch {
	case p.Far != nil:
		p.findFar(ctx, p.Far)
		return
	case pid == 0:
		pid = procs.Serving("", p.URL)
	}
	p.find(pid)
}

// fetch takes the profile from the URL.
func (p *Profiler) fetch(ctx context.Context) ([]byte, error) {
	body, err := CPUProfile.open(ctx, p.Far, p.URL)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, profileMost))
	if err != nil {
		return nil, CPUProfile.failed(ctx, p.URL, err)
	}
	return data, nil
}

// readMetrics reads the program's page of metrics; nil if no page has the classes.
func (p *Profiler) readMetrics(ctx context.Context) *goself.Classes {
	from := p.Metrics
	switch {
	case from == "none" || from != "" && !strings.Contains(from, "://"):
		return nil
	case from == "":
		from = (&url.URL{Scheme: p.URL.Scheme, Host: p.URL.Host, User: p.URL.User, Path: "/metrics"}).String()
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	page, err := p.metricsPage(ctx, from)
	if err != nil {
		if p.Metrics != "" {
			p.warn("reading the metrics: %w", err)
		}
		return nil
	}
	return p.classes(page, from)
}

// metricsMost is how large a page of metrics may be, in bytes: one of a program with thousands of its own has 1 MB.
const metricsMost = 8 << 20

// metricsPage reads a page of metrics, but no more of it than such a page has.
func (p *Profiler) metricsPage(ctx context.Context, from string) ([]byte, error) {
	u, err := url.Parse(from)
	if err != nil {
		return nil, err
	}
	res, err := p.Far.get(ctx, u, metricsMost)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", u.Redacted(), web.Said(res.Status))
	}
	return io.ReadAll(res.Body)
}

// classes reads a page. If a page that was asked for has none, it says so.
func (p *Profiler) classes(page []byte, from string) *goself.Classes {
	c, ok := goself.ParseClasses(page)
	if !ok {
		if p.Metrics != "" {
			p.warn("%s has no go_cpu_classes_…: Prometheus' Go client has them with collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)", from)
		}
		return nil
	}
	if p.MetricsProcs == 0 || c.Procs != 0 {
		p.MetricsProcs = c.Procs
	}
	return &c
}

func (p *Profiler) warn(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if !slices.ContainsFunc(p.Warnings, func(e error) bool { return e.Error() == err.Error() }) {
		p.Warnings = append(p.Warnings, err)
	}
}

// demand works out what the metrics say, from two readings.
func (p *Profiler) demand(first, last *goself.Classes, between time.Duration) {
	if first == nil || last == nil {
		return
	}
	var cpu time.Duration
	switch readings := p.Readings; {
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
		p.Demand, p.DemandOver = &d, "profile"
	}
}

// idleBelow is the number of CPUs below which a program hardly does more than wake up and sleep.
const idleBelow = 0.05

// readMetricsFiles reads one saved page, or two with a comma between them.
func (p *Profiler) readMetricsFiles(ctx context.Context) {
	if p.Metrics == "" || p.Metrics == "none" {
		return
	}
	if strings.Contains(p.Metrics, "://") {
		p.warn("--metrics %s was not read: it would tell of another time than the file", p.Metrics)
		return
	}
	var pages []*goself.Classes
	for name := range strings.SplitSeq(p.Metrics, ",") {
		data, err := ReadFile(ctx, name, p.In)
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
	p.Demand, p.DemandOver = &d, over
}
