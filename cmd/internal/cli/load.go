package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/render"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/view"
)

const loadHelp = `Send an HTTP server requests at a rate, and tell how long users would wait: from when each request was due.

Usage:
  unthrottle load URL [FLAGS]
  unthrottle load --targets FILE [FLAGS]     several requests, by weight: JSON or vegeta's format
  unthrottle load URL --find-max --slo SLO   the highest rate that holds the SLO

{{flags}}

Exit codes:
  0 done   1 could not do it, or no request was answered   2 usage   3 the SLO was missed   130 interrupted

Example:
  unthrottle load http://localhost:8080/ --rate 500 --for 30s --slo p99=50ms,errors=0.1%
`

type loadOptions struct {
	plan                      load.Plan
	targets, method, data     string
	headers                   []string
	contentType, user, http2  string
	insecure                  bool
	cacert, cert, key, engine string
	slo                       string
	findMax                   bool
	window                    time.Duration
	serverPID                 int
	pidGiven, rateGiven       bool
	pin                       []int
	realtime                  bool
	outputs                   []string
	json, csv, hgrm           bool
}

func newLoad(stdio IO) *cobra.Command {
	var o loadOptions
	cmd := &cobra.Command{Use: "load", Long: loadHelp}
	flags := cmd.Flags()
	list := newFlagList(cmd)
	o.register(list)
	color := colorFlag(list.sections[len(list.sections)-1].FlagSet, stdio)
	list.done()
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		style, err := color(false)
		if err != nil {
			return err
		}
		o.pidGiven, o.rateGiven = flags.Changed("server-pid"), flags.Changed("rate")
		slo, err := o.parse(flags, args)
		if err != nil {
			return err
		}
		l := &loader{stdio: stdio, o: &o, slo: slo, style: style}
		return l.run(cmd.Context())
	}
	return cmd
}

func (o *loadOptions) register(list *flagList) {
	p := &o.plan
	flags := list.section("Load:")
	flags.Var(quantity.Value(&p.Rate, quantity.ParseRate, "500, or --rate 20K"), "rate", "R\trequests a second, whatever the server does (50); K, M: thousands, millions")
	flags.DurationVar(&p.Duration, "for", 0, "D\thow long (10s)")
	flags.Int64VarP(&p.Requests, "requests", "n", 0, "N\thow many, instead")
	arrivalsFlag(flags.FlagSet, &p.Arrivals)
	flags.Uint64Var(&p.Seed, "seed", 0, "N\tfor the arrivals and the choice of targets")
	flags.DurationVar(&p.WarmUp, "warmup", 0, "D\tthe same load before, not counted")
	flags.IntVarP(&p.Conns, "conns", "c", 0, "N\tmost connections (1000); without --rate a closed loop: N workers, each waits for its answer")
	flags.StringVar(&o.slo, "slo", "", "SLO\tp99=50ms,errors=0.1%: exit code 3 if it is missed")
	flags.BoolVar(&o.findMax, "find-max", false, "look for the highest rate that holds the SLO")
	flags.DurationVar(&o.window, "window", 5*time.Second, "D\tof --find-max (5s)")
	o.registerRequests(list.section("Requests:").FlagSet)
	flags = list.section("Measuring:")
	flags.IntVar(&o.serverPID, "server-pid", 0, "N\tshow this process's throttling beside (found unaided for a server on this host); 0: don't")
	flags.Var(quantity.Value(&o.pin, quantity.ParseCPUList, "0, or --pin 0-3"), "pin", "LIST\tCPUs for the generator: 1, 0-3")
	flags.BoolVar(&o.realtime, "realtime", true, "real-time priority for the generator of a --rate, where that is allowed (true)")
	flags.DurationVar(&p.Grace, "grace", 0, "D\thow long to wait at the end for open requests (the timeout)")
	flags = list.section("Results:")
	outputsFlag(flags.FlagSet, &o.outputs, ".json, .html, .md, .csv (a row a request) or .hgrm")
	jsonFlag(flags.FlagSet, &o.json)
	flags.BoolVar(&o.csv, "csv", false, "a row a request instead of text")
	flags.BoolVar(&o.hgrm, "hgrm", false, "HdrHistogram's percentiles instead of text")
}

// registerRequests adds the flags that say what a request is.
func (o *loadOptions) registerRequests(flags *pflag.FlagSet) {
	c := &o.plan.Client
	flags.StringVar(&o.targets, "targets", "", "FILE\tseveral requests, by weight: JSON lines, or vegeta's format")
	flags.StringVarP(&o.method, "method", "X", "", "M\tGET, or POST with --data")
	flags.StringArrayVarP(&o.headers, "header", "H", nil, "\"K: V\"\ta header; may be repeated")
	flags.StringVarP(&o.data, "data", "d", "", "TEXT\tthe body; @FILE reads it from a file")
	flags.StringVar(&o.contentType, "content-type", "", "T\tof the body")
	flags.StringVar(&o.user, "user", "", "NAME:PASSWORD\tfor basic authentication")
	flags.DurationVar(&c.Timeout, "timeout", 20*time.Second, "D\tafter which a request has failed (20s)")
	flags.IntVar(&c.Redirects, "redirects", 0, "N\tmost that are followed (0)")
	flags.BoolVar(&c.NoKeepAlive, "no-keepalive", false, "a new connection for each request")
	flags.BoolVar(&c.NoCompression, "no-compression", false, "don't ask for compressed answers")
	o.http2 = "auto"
	flags.Var(oneOf(&o.http2, "auto", "on", "off"), "http2", "WHEN\tauto, on or off (auto)")
	flags.StringVar(&c.Host, "host", "", "NAME\tthe Host header")
	flags.StringVar(&c.Unix, "unix", "", "SOCKET\tconnect to this socket")
	flags.StringVar(&c.Proxy, "proxy", "", "URL\tsend the requests through this proxy")
	flags.BoolVar(&o.insecure, "insecure", false, "don't check the server's certificate")
	flags.StringVar(&o.cacert, "cacert", "", "FILE\tcertificates that are trusted")
	flags.StringVar(&o.cert, "cert", "", "FILE\tthe client's certificate")
	flags.StringVar(&o.key, "key", "", "FILE\tand its key")
	o.engine = "auto"
	flags.Var(oneOf(&o.engine, "auto", "lean", "net/http"), "engine", "E\twhat sends: auto, lean or net/http (auto)")
}

// requestFlags are those of registerRequests.
var requestFlags = func() (names []string) {
	var o loadOptions
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.registerRequests(flags)
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}()

// Where the command line leaves it open.
const (
	defaultRate = 50
	defaultFor  = 10 * time.Second
)

// parse makes a plan of the flags.
func (o *loadOptions) parse(flags *pflag.FlagSet, args []string) (slo *load.SLO, err error) {
	p := &o.plan
	if err := o.parseLoad(flags); err != nil {
		return nil, err
	}
	if o.slo != "" {
		s, err := load.ParseSLO(o.slo)
		if err != nil {
			return nil, hint.Usage("--slo p99=50ms,errors=0.1%", "--slo: %w", err)
		}
		slo, p.Within = &s, s.Within()
	}
	if o.findMax && slo == nil {
		return nil, hint.Usage("unthrottle load URL --find-max --slo p99=50ms", "--find-max looks for the highest rate that holds an SLO, and there is none")
	}
	if o.json && o.csv || o.json && o.hgrm || o.csv && o.hgrm {
		return nil, hint.Usage("one of them, and -o FILE for the others", "--json, --csv and --hgrm exclude each other")
	}
	switch o.http2 {
	case "on":
		p.Client.HTTP2 = load.HTTP2Only
	case "off":
		p.Client.HTTP2 = load.HTTP2Never
	}
	if o.engine != "auto" {
		p.Client.Engine = load.Engine(o.engine)
	}
	if p.Client.TLS, err = o.tls(); err != nil {
		return nil, err
	}
	p.Targets, err = o.parseTargets(flags, args)
	return slo, err
}

// parseLoad reads how much is to be sent.
func (o *loadOptions) parseLoad(flags *pflag.FlagSet) error {
	p := &o.plan
	closed := flags.Changed("conns") && p.Rate == 0 && !o.findMax
	if p.Rate == 0 && !closed {
		p.Rate = defaultRate
	}
	if p.Duration == 0 && p.Requests == 0 {
		p.Duration = defaultFor
	}
	if closed && flags.Changed("arrivals") {
		return hint.Usage("add --rate", "--arrivals says how the requests of a rate are spread, and without --rate there is none")
	}
	for name, negative := range map[string]bool{
		"for": p.Duration < 0, "requests": p.Requests < 0, "warmup": p.WarmUp < 0, "conns": p.Conns < 0, "grace": p.Grace < 0,
		"timeout": p.Client.Timeout < 0, "redirects": p.Client.Redirects < 0, "window": o.window <= 0,
	} {
		if negative || flags.Changed(name) && (name == "for" && p.Duration == 0 || name == "requests" && p.Requests == 0 || name == "conns" && p.Conns == 0) {
			return hint.Usage(loadtest.Example, "--%s=%s makes no sense", name, flags.Lookup(name).Value)
		}
	}
	if !flags.Changed("seed") {
		p.Seed = rand.Uint64() >> 32 // short enough to be typed
	}
	return nil
}

func (o *loadOptions) parseTargets(flags *pflag.FlagSet, args []string) ([]load.Target, error) {
	switch {
	case len(args) > 1:
		return nil, hint.Usage(loadtest.Example, "load wants one URL, got %d; --targets takes a file of several", len(args))
	case len(args) == 0 && o.targets == "":
		return nil, hint.Usage(loadtest.Example, "no URL given")
	case len(args) == 1 && o.targets != "":
		return nil, hint.Usage("leave out one of them", "a URL and --targets exclude each other")
	}
	common, err := o.parseHeaders()
	if err != nil {
		return nil, err
	}
	if o.targets != "" {
		if o.method != "" || o.data != "" {
			return nil, hint.Usage("write them into the file", "--method and --data don't go with --targets")
		}
		data, err := readInput(o.targets, os.Stdin)
		if err != nil {
			return nil, hint.With(fmt.Errorf("reading the targets: %w", err), "--targets wants a file such as: GET http://localhost:8080/")
		}
		dir := filepath.Dir(o.targets)
		targets, err := load.ParseTargets(data, func(name string) ([]byte, error) {
			if !filepath.IsAbs(name) {
				name = filepath.Join(dir, name)
			}
			return os.ReadFile(name)
		})
		if err != nil {
			return nil, hint.Usage("each line a JSON object with a url, or as vegeta has it: GET http://localhost:8080/", "%s: %w", o.targets, err)
		}
		for i := range targets {
			targets[i].Header = append(slices.Clone(common), targets[i].Header...)
		}
		return targets, nil
	}
	t := load.Target{Method: strings.ToUpper(o.method), URL: args[0], Header: common, Body: []byte(o.data)}
	if !strings.Contains(t.URL, "://") {
		t.URL = "http://" + t.URL
	}
	if name, isFile := strings.CutPrefix(o.data, "@"); isFile {
		if t.Body, err = readInput(name, os.Stdin); err != nil {
			return nil, hint.With(fmt.Errorf("reading the body: %w", err), "--data @FILE reads it from a file")
		}
	}
	if t.Method == "" && flags.Changed("data") {
		t.Method = "POST"
	}
	return []load.Target{t}, nil
}

// readInput reads a file, or stdin for "-".
func readInput(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}

func (o *loadOptions) parseHeaders() (fields [][2]string, err error) {
	if o.contentType != "" {
		fields = append(fields, [2]string{"Content-Type", o.contentType})
	}
	if o.user != "" {
		if !strings.Contains(o.user, ":") {
			return nil, hint.Usage("--user name:password", "--user has no colon between name and password")
		}
		fields = append(fields, [2]string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(o.user))})
	}
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" || strings.ContainsAny(h, "\r\n") {
			return nil, hint.Usage(`--header "Accept: text/plain"`, "--header %q is no header field", h)
		}
		fields = append(fields, [2]string{strings.TrimSpace(name), strings.TrimSpace(value)})
	}
	return fields, nil
}

func (o *loadOptions) tls() (*tls.Config, error) {
	if !o.insecure && o.cacert == "" && o.cert == "" && o.key == "" {
		return nil, nil
	}
	c := &tls.Config{InsecureSkipVerify: o.insecure}
	if o.cacert != "" {
		data, err := os.ReadFile(o.cacert)
		if err != nil {
			return nil, hint.With(fmt.Errorf("reading --cacert: %w", err), "it wants a file of certificates in PEM form, those of the authority that has signed the server's")
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(data) {
			return nil, hint.With(fmt.Errorf("reading --cacert: %s holds no certificate in PEM form", o.cacert), "openssl x509 -in FILE -out FILE.pem changes the form")
		}
	}
	if o.cert != "" || o.key != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, hint.With(fmt.Errorf("reading --cert and --key: %w", err), "both are needed, in PEM form")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// A loader runs the verb.
type loader struct {
	stdio IO
	o     *loadOptions
	slo   *load.SLO
	style render.Style
	files results[*report.Load]
	rows  []*csv.Writer // of requests, to be written as they are done
}

// loadFormats are what a load's document can be written as.
func loadFormats() map[string]writer[*report.Load] {
	formats := sheetFormats(view.Load)
	formats["hgrm"] = plainly(report.LoadHGRM)
	return formats
}

func (l *loader) run(ctx context.Context) error {
	if err := l.open(); err != nil {
		return l.finish(err)
	}
	if err := pin(l.o.pin); err != nil {
		return l.finish(err)
	}
	relaxGC(l.stdio)
	doc, err := l.send(ctx)
	if err != nil {
		return l.finish(err)
	}
	doc.Header, doc.Command = newHeader("load"), l.command()
	if err := l.finish(l.files.write(&doc, l.style)); err != nil {
		return err
	}
	return outcomeOf(&doc)
}

// send does what was asked for.
func (l *loader) send(ctx context.Context) (doc report.Load, err error) {
	o := l.o
	p := newProgress(l.stdio, o.json || o.hgrm || o.csv && !o.findMax)
	defer p.done()
	s := &loadtest.Session{
		Plan: o.plan, SLO: l.slo, Realtime: o.plan.Rate > 0 && o.realtime && load.Prompt(), Live: p.live, Tried: p.window,
	}
	if o.pidGiven {
		s.PID = &o.serverPID
	}
	if !o.findMax {
		s.Plan.Each = l.each()
		doc.Summary, err = s.Once(ctx)
		return doc, err
	}
	start := 0.0
	if o.rateGiven {
		start = o.plan.Rate
	}
	found, err := s.FindMax(ctx, start, o.window)
	return report.Load{Summary: found.Summary, Search: report.NewLoadSearch(found.Answer, found.Windows)}, err
}

// each writes the rows of a request; nil if there are none to be written.
func (l *loader) each() func(*load.Sample) {
	if len(l.rows) == 0 {
		return nil
	}
	return func(s *load.Sample) {
		for _, w := range l.rows {
			w.Write(row(s)) // an error stays with the writer
		}
	}
}

// outcomeOf is how the verb ends when everything has been written.
func outcomeOf(d *report.Load) error {
	switch {
	case d.Stopped:
		return exitCode{exitInterrupted, nil}
	case d.SLO != nil && d.Search == nil && !d.SLO.Held:
		return exitCode{exitFindings, nil}
	case d.Search != nil && d.Search.Sustains == 0:
		return exitCode{exitFindings, nil}
	case d.Search == nil && d.Requests > 0 && len(d.Statuses) == 0:
		cause := "nothing came back"
		if len(d.Causes) > 0 {
			cause = d.Causes[0].Cause
		}
		return hint.With(fmt.Errorf("no request was answered: %s", cause), "does the server run, and is the URL right?")
	}
	return nil
}

// command is the command line that repeats it.
func (l *loader) command() []string {
	command := append([]string{"unthrottle"}, l.stdio.Args...)
	if !slices.ContainsFunc(command, func(s string) bool { return strings.HasPrefix(s, "--seed") }) {
		command = append(command, "--seed", strconv.FormatUint(l.o.plan.Seed, 10))
	}
	return command
}

// open opens all files before anything is sent. That of a row a request is written to at once, and not from the document.
func (l *loader) open() error {
	screen := "text"
	switch {
	case l.o.json:
		screen = "json"
	case l.o.csv:
		screen = "csv"
	case l.o.hgrm:
		screen = "hgrm"
	}
	formats := loadFormats()
	formats["csv"] = func(io.Writer, *report.Load, render.Style) error { return nil }
	if err := l.files.open(formats, l.o.outputs, screen, l.stdio.Out); err != nil {
		return err
	}
	for _, f := range l.files {
		if f.format == "csv" {
			w := csv.NewWriter(f.out.w)
			l.rows = append(l.rows, w)
			w.Write(rowNames) // an error stays with the writer
		}
	}
	return nil
}

// finish closes all files.
func (l *loader) finish(err error) error {
	for _, w := range l.rows {
		if w.Flush(); err == nil {
			err = w.Error()
		}
	}
	return l.files.finish(err)
}

var rowNames = []string{"target", "due", "sent", "done", "response", "service", "lag", "pacer_late", "status", "bytes", "error"}

// row is a request, with its times in seconds.
func row(s *load.Sample) []string {
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 9, 64) }
	sent, service, lag, text := "", "", s.Done-s.Intended, ""
	if s.Sent >= 0 {
		sent, service, lag = seconds(s.Sent), seconds(s.Service()), s.Sent-s.Intended
	}
	if s.Err != nil {
		text = s.Err.Error()
	}
	return []string{
		strconv.Itoa(s.Target), seconds(s.Intended), sent, seconds(s.Done), seconds(s.Response()), service, seconds(lag),
		seconds(s.Ready - s.Intended), strconv.Itoa(s.Status), strconv.FormatInt(s.Bytes, 10), text,
	}
}

// relaxGC lets a generator collect garbage less often: its heap is small, and would be collected many times a second.
func relaxGC(stdio IO) {
	if stdio.Env("GOGC") == "" {
		debug.SetGCPercent(800) // 4 MB of live heap grow to 36
	}
}

// pin binds the generator to CPUs.
func pin(cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	if err := load.Pin(cpus); err != nil {
		return fmt.Errorf("--pin: %w", err)
	}
	return nil
}
