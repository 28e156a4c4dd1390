// Package hey answers: what would hey say? It reads hey's command line and writes hey's report, so that scripts and habits
// go on working, while our own engine sends the load. In go arguments, out comes a load.Plan; in go the samples of the
// run, out comes the report, and below it three lines on what a report of this kind can't show. It sends nothing itself.
//
// The model is hey 0.1.5. Where hey is wrong, this is right instead:
//
//   - -n 205 -c 10 sends 205 requests. hey sends 200: every worker the same number.
//   - Averages, the fastest, the slowest and the status codes are of all results. hey divides sums over all of them by the
//     million whose times it keeps. Beyond that million, percentiles and the histogram are of all, to 0.2 %.
//   - A percent sign is one. hey 0.1.5 writes two, and 0.1.4 takes those in URLs for verbs.
//   - Percentiles are there for fewer than 100 results too. hey writes "0% in 0.0000 secs" for those it has not found.
//   - Averages of nothing are 0, not NaN, so that jsonify gives JSON.
//   - A template with a mistake is refused before the run. hey panics after it.
//   - -a is sent. hey makes the header and then replaces all headers by others. -H "Host: …" is sent as well.
//   - -x takes host:port, as hey's help says.
//   - An answer that breaks off is an error. hey counts it as if it were whole.
//   - The bytes of answers are counted as they come. hey adds up what was announced: of chunked answers nothing, of
//     HEAD what is not sent.
//   - Errors that differ by a port of ours only are counted together, and the most frequent is first.
//   - Offsets count from the start of the load, not of the process.
//
// -q is as there: for each worker, and a worker that a slow answer holds up does not catch up.
package hey

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// agent is what hey calls itself, with a remark on what it really is. Anything that looks for hey finds it.
const agent = "hey/0.0.1 (unthrottle)"

// Options are a command line.
type Options struct {
	Plan     load.Plan
	Output   string   // "": the report; csv; or the text of a template
	Strict   bool     // the exit code shows if every request failed
	CPUs     int      // GOMAXPROCS of the generator; 0: leave it
	Warnings []string // what hey would ignore silently
}

// A UsageError is a wrong command line. Its texts are hey's where hey has one.
type UsageError struct {
	Text string
	flag bool // Go's flag package found it
}

func (e *UsageError) Error() string { return e.Text }

// ExitCode is what hey exits with for an error of Parse.
func ExitCode(err error) int {
	var u *UsageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &u) && u.flag:
		return 2
	default:
		return 1
	}
}

func usage(format string, args ...any) error {
	return &UsageError{Text: fmt.Sprintf(format, args...)}
}

// flags are the command line as it stands.
type flags struct {
	n, c, t, cpus                                       int
	q                                                   float64
	z                                                   time.Duration
	method, accept, body, bodyFile, contentType, agent  string
	auth, proxy, host, output, deprecated               string
	headers                                             list
	h2, noCompression, noKeepAlive, noRedirects, strict bool
	args                                                []string
}

// A list is a flag that may be repeated.
type list []string

func (l *list) String() string     { return strings.Join(*l, ", ") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

// Parse reads hey's command line, without the name of the program. readFile reads what -D names. The error is
// flag.ErrHelp where help is asked for, a *UsageError, or that of readFile.
func Parse(args []string, readFile func(string) ([]byte, error)) (Options, error) {
	f, err := parseFlags(args)
	if err != nil {
		return Options{}, err
	}
	o := Options{Output: f.output, Strict: f.strict, CPUs: max(0, f.cpus)}
	for _, step := range []func(*flags, *Options) error{amount, target, client, checkTemplate} {
		if err := step(f, &o); err != nil {
			return Options{}, err
		}
	}
	if f.bodyFile != "" {
		body, err := readFile(f.bodyFile)
		if err != nil {
			return Options{}, fmt.Errorf("reading the body: %w", err)
		}
		o.Plan.Targets[0].Body = body
	}
	if rest := f.args[1:]; len(rest) > 0 {
		o.Warnings = append(o.Warnings,
			fmt.Sprintf("ignored, for it comes after the URL: %s", strings.Join(rest, " ")))
	}
	return o, nil
}

func parseFlags(args []string) (*flags, error) {
	if len(args) == 1 && strings.TrimLeft(args[0], "-") == "h" && args[0] != "h" {
		return nil, flag.ErrHelp // -h had a value once
	}
	var f flags
	set := flag.NewFlagSet("hey", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.IntVar(&f.n, "n", 200, "")
	set.IntVar(&f.c, "c", 50, "")
	set.Float64Var(&f.q, "q", 0, "")
	set.DurationVar(&f.z, "z", 0, "")
	set.IntVar(&f.t, "t", 20, "")
	set.StringVar(&f.output, "o", "", "")
	set.StringVar(&f.method, "m", http.MethodGet, "")
	set.Var(&f.headers, "H", "")
	set.StringVar(&f.deprecated, "h", "", "")
	set.StringVar(&f.accept, "A", "", "")
	set.StringVar(&f.body, "d", "", "")
	set.StringVar(&f.bodyFile, "D", "", "")
	set.StringVar(&f.contentType, "T", "text/html", "")
	set.StringVar(&f.agent, "U", "", "")
	set.StringVar(&f.auth, "a", "", "")
	set.StringVar(&f.proxy, "x", "", "")
	set.StringVar(&f.host, "host", "", "")
	set.BoolVar(&f.h2, "h2", false, "")
	set.BoolVar(&f.noCompression, "disable-compression", false, "")
	set.BoolVar(&f.noKeepAlive, "disable-keepalive", false, "")
	set.BoolVar(&f.noRedirects, "disable-redirects", false, "")
	set.IntVar(&f.cpus, "cpus", 0, "")
	set.BoolVar(&f.strict, "strict", false, "")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, &UsageError{Text: err.Error(), flag: true}
	}
	if f.args = set.Args(); len(f.args) == 0 {
		return nil, usage("no URL given")
	}
	return &f, nil
}

// amount is how much is sent. -z takes the place of -n.
func amount(f *flags, o *Options) error {
	switch {
	case f.z > 0 && f.c <= 0:
		return usage("-c cannot be smaller than 1.")
	case f.z > 0:
		o.Plan.Duration = f.z
	case f.n <= 0 || f.c <= 0:
		return usage("-n and -c cannot be smaller than 1.")
	case f.n < f.c:
		return usage("-n cannot be less than -c.")
	default:
		o.Plan.Requests = int64(f.n)
	}
	if math.IsNaN(f.q) || f.q > 1e7 { // the engine takes no more
		return usage("-q cannot be %v.", f.q)
	}
	o.Plan.Conns, o.Plan.EachRate = f.c, max(0, f.q)
	return nil
}

// target is what is sent, its body from a file aside.
func target(f *flags, o *Options) error {
	if f.deprecated != "" {
		return usage("Flag '-h' is deprecated, please use '-H' instead.")
	}
	method := strings.ToUpper(f.method)
	req, err := http.NewRequest(method, f.args[0], nil)
	switch {
	case err != nil:
		return usage("%v", err)
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return usage("the URL %q does not begin with http:// or https://", f.args[0])
	case req.URL.Hostname() == "":
		return usage("the URL %q names no host", f.args[0])
	}
	header, err := headers(f, req.URL)
	if err != nil {
		return err
	}
	o.Plan.Client.Host = f.host
	if o.Plan.Client.Host == "" {
		o.Plan.Client.Host = header.Get("Host")
	}
	header.Del("Host")
	for _, name := range []string{"Content-Length", "Transfer-Encoding", "Trailer"} {
		if header.Get(name) != "" {
			o.Warnings = append(o.Warnings, fmt.Sprintf("-H %q is ignored: it follows from the body", name))
			header.Del(name)
		}
	}
	o.Plan.Targets = []load.Target{{Method: method, URL: f.args[0], Header: sorted(header), Body: []byte(f.body)}}
	return nil
}

// headers are in the order in which hey sets them: what comes later replaces what came before.
func headers(f *flags, u *url.URL) (http.Header, error) {
	h := http.Header{}
	if f.contentType != "" {
		h.Set("Content-Type", f.contentType)
	}
	for _, text := range f.headers {
		name, value, err := parseHeader(text)
		if err != nil {
			return nil, err
		}
		h.Set(name, value)
	}
	if f.accept != "" {
		h.Set("Accept", f.accept)
	}
	switch auth, err := authorization(f.auth, u); {
	case err != nil:
		return nil, err
	case auth != "" && (f.auth != "" || h.Get("Authorization") == ""):
		h.Set("Authorization", auth)
	}
	if f.agent != "" {
		h.Set("User-Agent", f.agent)
	}
	h.Set("User-Agent", strings.TrimSpace(h.Get("User-Agent")+" "+agent))
	for _, values := range h {
		if strings.ContainsFunc(values[0], control) {
			return nil, unreadable(values[0])
		}
	}
	return h, nil
}

// parseHeader reads "Name: value". Names are of letters, digits, _ and -, as hey has it.
func parseHeader(text string) (name, value string, err error) {
	name, value, ok := strings.Cut(text, ":")
	if !ok || name == "" || value == "" || strings.Trim(name, headerName) != "" {
		return "", "", unreadable(text)
	}
	return textproto.CanonicalMIMEHeaderKey(name), strings.TrimSpace(value), nil
}

const headerName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// authorization is that of -a, user:password, or else the URL's own.
func authorization(auth string, u *url.URL) (string, error) {
	if auth == "" && u.User != nil {
		password, _ := u.User.Password()
		auth = u.User.Username() + ":" + password
	} else if user, password, ok := strings.Cut(auth, ":"); auth != "" && (!ok || user == "" || password == "") {
		return "", unreadable(auth)
	}
	if auth == "" {
		return "", nil
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(auth)), nil
}

func unreadable(text string) error {
	return usage("could not parse the provided input; input = %v", text)
}

// control reports whether no header field can have this character.
func control(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

func sorted(h http.Header) (fields [][2]string) {
	for name, values := range h {
		fields = append(fields, [2]string{name, values[0]})
	}
	slices.SortFunc(fields, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return fields
}

// client is how it is sent.
func client(f *flags, o *Options) error {
	c := &o.Plan.Client
	if f.t > 0 && int64(f.t) <= math.MaxInt64/int64(time.Second) {
		c.Timeout = time.Duration(f.t) * time.Second
	}
	if !f.noRedirects {
		c.Redirects = 10
	}
	c.NoKeepAlive, c.NoCompression = f.noKeepAlive, f.noCompression
	if !f.h2 {
		c.HTTP2 = load.HTTP2Never
	}
	c.TLS = &tls.Config{InsecureSkipVerify: true} // as hey: whatever certificate there is
	if c.Host != "" {
		c.TLS.ServerName = (&url.URL{Host: c.Host}).Hostname()
	}
	if f.proxy == "" {
		return nil
	}
	if !strings.Contains(f.proxy, "://") {
		f.proxy = "http://" + f.proxy
	}
	u, err := url.Parse(f.proxy)
	if err != nil {
		return usage("%v", err)
	}
	if u.Hostname() == "" {
		return usage("the proxy %q names no host", f.proxy)
	}
	c.Proxy = f.proxy
	return nil
}

func checkTemplate(f *flags, _ *Options) error {
	if f.output == "" || f.output == csv {
		return nil
	}
	if err := tryTemplate(f.output); err != nil {
		return usage("-o is neither csv nor a template: %v", err)
	}
	return nil
}
