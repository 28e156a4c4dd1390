package hey

import (
	"errors"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

func readFile(name string) ([]byte, error) {
	if name == "body.json" {
		return []byte(`{"a": 1}`), nil
	}
	return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
}

const target8080 = "http://localhost:8080/"

// want is a plan in the few words that a test needs.
type want struct {
	requests          int64
	conns             int
	each              float64
	duration, timeout time.Duration
	method, host      string
	redirects         int
	http2             load.HTTP2
	proxy, body       string
	output            string
	strict            bool
	cpus              int
	noAlive, noGzip   bool
	header            string // "Name: value" in order, separated by |
	warnings          string
	serverName        string
}

const (
	plainHeader = "Content-Type: text/html|User-Agent: hey/0.0.1 (unthrottle)"
	agentField  = "|User-Agent: hey/0.0.1 (unthrottle)"
)

func TestParse(t *testing.T) {
	normal := func(change func(*want)) want {
		w := want{
			requests: 200, conns: 50, timeout: 20 * time.Second, method: "GET", redirects: 10, http2: load.HTTP2Never, header: plainHeader,
		}
		change(&w)
		return w
	}
	for _, c := range []struct {
		args string // separated by two blanks
		want want
	}{
		{target8080, normal(func(*want) {})},
		{"-n  205  -c  10  " + target8080, normal(func(w *want) { w.requests, w.conns = 205, 10 })},
		{"--n=205  --c=10  " + target8080, normal(func(w *want) { w.requests, w.conns = 205, 10 })},
		{"-z  3m  -n  0  -c  1  " + target8080, normal(func(w *want) { w.requests, w.duration, w.conns = 0, 3*time.Minute, 1 })},
		{"-z  -3s  " + target8080, normal(func(*want) {})},
		{"-q  2.5  " + target8080, normal(func(w *want) { w.each = 2.5 })},
		{"-q  -1  " + target8080, normal(func(*want) {})},
		{"-t  0  " + target8080, normal(func(w *want) { w.timeout = 0 })},
		{"-t  -1  " + target8080, normal(func(w *want) { w.timeout = 0 })},
		{"-t  9223372036854775807  " + target8080, normal(func(w *want) { w.timeout = 0 })},
		{"-m  post  -d  hello  " + target8080, normal(func(w *want) { w.method, w.body = "POST", "hello" })},
		{"-d  hello  -D  body.json  " + target8080, normal(func(w *want) { w.body = `{"a": 1}` })},
		{"-T  text/plain  -A  */*  " + target8080, normal(func(w *want) { w.header = "Accept: */*|Content-Type: text/plain" + agentField })},
		{"-T    " + target8080, normal(func(w *want) { w.header = agentField[1:] })},
		{"-H  content-type: a/b  " + target8080, normal(func(w *want) { w.header = "Content-Type: a/b" + agentField })},
		{"-H  X-A: 1  -H  x-a: 2  " + target8080, normal(func(w *want) { w.header = plainHeaderWith("X-A: 2") })},
		{"-H  User-Agent: me  " + target8080, normal(func(w *want) { w.header = "Content-Type: text/html|User-Agent: me hey/0.0.1 (unthrottle)" })},
		{"-H  User-Agent: me  -U  you  " + target8080, normal(func(w *want) { w.header = "Content-Type: text/html|User-Agent: you hey/0.0.1 (unthrottle)" })},
		{"-H  Accept: a  -A  b  " + target8080, normal(func(w *want) { w.header = "Accept: b|" + plainHeader })},
		{"-H  Host: a.example:1  " + target8080, normal(func(w *want) { w.host, w.serverName = "a.example:1", "a.example" })},
		{"-H  Host: a  -host  b  " + target8080, normal(func(w *want) { w.host, w.serverName = "b", "b" })},
		{"-H  Content-Length: 5  " + target8080, normal(func(w *want) { w.warnings = `-H "Content-Length" is ignored: it follows from the body` })},
		{"-a  user:pass  " + target8080, normal(func(w *want) { w.header = "Authorization: Basic dXNlcjpwYXNz|" + plainHeader })},
		{"-a  user:p  " + target8080, normal(func(w *want) { w.header = "Authorization: Basic dXNlcjpw|" + plainHeader })},
		{"http://user:pass@localhost/", normal(func(w *want) { w.header = "Authorization: Basic dXNlcjpwYXNz|" + plainHeader })},
		{"-H  Authorization: x  http://user:pass@localhost/", normal(func(w *want) { w.header = "Authorization: x|" + plainHeader })},
		{"-a  user:pass  -H  Authorization: x  " + target8080, normal(func(w *want) { w.header = "Authorization: Basic dXNlcjpwYXNz|" + plainHeader })},
		{"-x  proxy:3128  " + target8080, normal(func(w *want) { w.proxy = "http://proxy:3128" })},
		{"-x  127.0.0.1:3128  " + target8080, normal(func(w *want) { w.proxy = "http://127.0.0.1:3128" })},
		{"-x  https://proxy  " + target8080, normal(func(w *want) { w.proxy = "https://proxy" })},
		{"-h2  " + target8080, normal(func(w *want) { w.http2 = load.HTTP2Auto })},
		{"-disable-redirects  " + target8080, normal(func(w *want) { w.redirects = 0 })},
		{"-disable-keepalive  -disable-compression  " + target8080, normal(func(w *want) { w.noAlive, w.noGzip = true, true })},
		{"-cpus  3  -strict  " + target8080, normal(func(w *want) { w.cpus, w.strict = 3, true })},
		{"-cpus  -3  --strict  " + target8080, normal(func(w *want) { w.strict = true })},
		{"-o  csv  " + target8080, normal(func(w *want) { w.output = "csv" })},
		{"-o  {{ jsonify . }}  " + target8080, normal(func(w *want) { w.output = "{{ jsonify . }}" })},
		{"-o  {{ index .Lats 100 }}  " + target8080, normal(func(w *want) { w.output = "{{ index .Lats 100 }}" })},
		{"-o  json  " + target8080, normal(func(w *want) { w.output = "json" })}, // as with hey: a template without any field
		{"-c  5  " + target8080 + "  -n  10", normal(func(w *want) { w.conns, w.warnings = 5, "ignored, for it comes after the URL: -n 10" })},
	} {
		o, err := Parse(strings.Split(c.args, "  "), readFile)
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		if got := words(o); got != c.want {
			t.Errorf("%s: got\n%+v\nwant\n%+v", c.args, got, c.want)
		}
		if !o.Plan.Client.TLS.InsecureSkipVerify || o.Plan.Rate != 0 || o.Plan.Client.Engine != load.Any {
			t.Errorf("%s: %+v", c.args, o.Plan)
		}
	}
}

func plainHeaderWith(field string) string { return plainHeader + "|" + field }

func words(o Options) want {
	p, target := &o.Plan, &o.Plan.Targets[0]
	var fields []string
	for _, f := range target.Header {
		fields = append(fields, f[0]+": "+f[1])
	}
	return want{
		requests: p.Requests, conns: p.Conns, each: p.EachRate, duration: p.Duration, timeout: p.Client.Timeout,
		method: target.Method, host: p.Client.Host, redirects: p.Client.Redirects, http2: p.Client.HTTP2, proxy: p.Client.Proxy,
		body: string(target.Body), output: o.Output, strict: o.Strict, cpus: o.CPUs,
		noAlive: p.Client.NoKeepAlive, noGzip: p.Client.NoCompression,
		header: strings.Join(fields, "|"), warnings: strings.Join(o.Warnings, "\n"), serverName: p.Client.TLS.ServerName,
	}
}

func TestParseBad(t *testing.T) {
	for _, c := range []struct {
		args string
		want string // in the error
		exit int    // hey's
	}{
		{"-c  5", "no URL given", 1},
		{"-n  5  " + target8080, "-n cannot be less than -c.", 1},
		{"-n  0  " + target8080, "-n and -c cannot be smaller than 1.", 1},
		{"-c  0  " + target8080, "-n and -c cannot be smaller than 1.", 1},
		{"-z  1s  -c  0  " + target8080, "-c cannot be smaller than 1.", 1},
		{"-q  NaN  " + target8080, "-q cannot be NaN.", 1},
		{"-q  +Inf  " + target8080, "-q cannot be +Inf.", 1},
		{"-h  X: y  " + target8080, "Flag '-h' is deprecated, please use '-H' instead.", 1},
		{"-H  nonsense  " + target8080, "could not parse the provided input; input = nonsense", 1},
		{"-H  a b: c  " + target8080, "could not parse the provided input; input = a b: c", 1},
		{"-H  X-A:  " + target8080, "could not parse the provided input; input = X-A:", 1},
		{"-H  : c  " + target8080, "could not parse", 1},
		{"-H  A: x\r\nB: y  " + target8080, "could not parse", 1},
		{"-U  x\ny  " + target8080, "could not parse", 1},
		{"-a  user  " + target8080, "could not parse the provided input; input = user", 1},
		{"-a  :pass  " + target8080, "could not parse", 1},
		{"-m  A B  " + target8080, `net/http: invalid method "A B"`, 1},
		{"http://[::1", "missing ']'", 1},
		{"localhost:8080", "does not begin with http", 1},
		{"ftp://localhost/", "does not begin with http", 1},
		{"http:///x", "names no host", 1},
		{"-x  ://  " + target8080, "missing protocol scheme", 1},
		{"-x  http://  " + target8080, "names no host", 1},
		{"-D  nowhere  " + target8080, "reading the body: open nowhere", 1},
		{"-o  {{ .Foo }}  " + target8080, "can't evaluate field Foo", 1},
		{"-o  {{  " + target8080, "neither csv nor a template", 1},
		{"-n  x  " + target8080, `invalid value "x" for flag -n`, 2},
		{"-foo  " + target8080, "flag provided but not defined: -foo", 2},
		{"-n", "flag needs an argument: -n", 2},
	} {
		_, err := Parse(strings.Split(c.args, "  "), readFile)
		if err == nil || !strings.Contains(err.Error(), c.want) || ExitCode(err) != c.exit {
			t.Errorf("%s: %v, exit code %d", c.args, err, ExitCode(err))
		}
	}
	for _, arg := range []string{"-h", "--h", "-help", "--help"} {
		if _, err := Parse([]string{arg}, readFile); !errors.Is(err, flag.ErrHelp) || ExitCode(err) != 0 {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

// TestHelp: every flag is in the manual, and that fits a screen.
func TestHelp(t *testing.T) {
	for _, name := range strings.Fields(`n c q z t m H A T U a d D host x h2 disable-compression disable-keepalive
		disable-redirects cpus o strict`) {
		if !strings.Contains(Help, "-"+name) {
			t.Errorf("the help does not know -%s", name)
		}
	}
	if n := strings.Count(Help, "\n"); n > 50 {
		t.Errorf("the help has %d lines", n)
	}
}

// TestReportFields: the names that templates use are hey's, in hey's order.
func TestReportFields(t *testing.T) {
	var got []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(Report{})) {
		if f.IsExported() {
			got = append(got, f.Name)
		}
	}
	want := `AvgTotal Fastest Slowest Average Rps AvgConn AvgDNS AvgReq AvgRes AvgDelay ConnMax ConnMin DnsMax DnsMin ReqMax
		ReqMin ResMax ResMin DelayMax DelayMin Lats ConnLats DnsLats ReqLats ResLats DelayLats Offsets StatusCodes Total ErrorDist
		StatusCodeDist SizeTotal SizeReq NumRes LatencyDistribution Histogram`
	if strings.Join(got, " ") != strings.Join(strings.Fields(want), " ") {
		t.Error(got)
	}
}

// FuzzParse: a command line is taken or refused, and a plan that comes of it makes sense.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		target8080, "-n\x00205\x00-c\x0010\x00" + target8080, "-q\x001e9\x00" + target8080, "-H\x00A: b\x00-a\x00u:p\x00" + target8080, "-z\x001h\x00-h2\x00" + target8080,
		"-x\x00a:1\x00-host\x00[::1]:2\x00" + target8080, "-o\x00csv\x00" + target8080, "-o\x00{{ .Lats }}\x00" + target8080, "-t\x0099999999999\x00" + target8080,
		"-m\x00\x00" + target8080, "-T\x00\x00" + target8080, "-h", "--", "-d\x00x\x00-D\x00body.json\x00http://u:p@[::1]:80/",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		for _, a := range args {
			if strings.Contains(a, "{{") && costly.MatchString(a) {
				t.Skip()
			}
		}
		o, err := Parse(args, readFile)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a text")
			}
			return
		}
		p := o.Plan
		if p.Conns < 1 || p.Requests < 0 || (p.Requests == 0) == (p.Duration <= 0) || !(p.EachRate >= 0 && p.EachRate <= 1e7) ||
			p.Client.Timeout < 0 || len(p.Targets) != 1 || o.CPUs < 0 {
			t.Errorf("%q: %+v", args, o)
		}
		for _, h := range p.Targets[0].Header {
			if h[0] == "" || strings.ContainsAny(h[1], "\r\n\x00") {
				t.Errorf("%q: header %q", args, h)
			}
		}
	})
}
