// What do flags that several verbs have ask for? A load and its requests, and how a tune searches. A flag's name and what is said of it are
// here, so that they are the same wherever the flag is.

package conduct

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/unthrottle/unthrottle/cmd/internal/command/verb"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// Arrivals adds --arrivals.
func Arrivals(flags *pflag.FlagSet, to *load.Arrivals) {
	*to = load.Poisson
	flags.Var(verb.OneOf(to, load.Poisson, load.Constant), "arrivals", "A\tpoisson, as users arrive, or const (poisson)")
}

// Burst adds a flag for how many requests arrive at once. Where --burst is that of a limit, it has another name.
func Burst(flags *pflag.FlagSet, to *int, name string) {
	verb.Number(flags, to, name, "", 1, "N\tsend requests N at a time, as when a page or a queue asks for all of them (1)")
}

// Margin adds --margin.
func Margin(flags *pflag.FlagSet, to *float64) {
	*to = 0.05
	parse := func(text string) (float64, error) {
		v, err := quantity.ParseShare(text)
		if err == nil && v >= 1 {
			err = fmt.Errorf("%q is too much: a margin is below 100%%", text)
		}
		return v, err
	}
	flags.Var(quantity.Value(to, parse, "5%"), "margin", "P\tignore differences smaller than this (5%; for builds 2%)")
}

// TailMargin adds the margin of a tail, which is known less well.
func TailMargin(flags *pflag.FlagSet, margin *float64) {
	*margin = 0.25
	flags.Var(quantity.Value(margin, quantity.ParseShare, "25%"), "tail-margin", "S\thow much higher p99 may be with an advised setting, and how much lower it must be to count (25%)")
}

// Requests adds the flags that say what a request is.
func Requests(l *verb.Flags, flags *pflag.FlagSet, r *loadtest.Requests) {
	c := &r.Client
	flags.StringVar(&r.File, "targets", "", "FILE\tseveral requests with weights: JSON lines, or vegeta's format")
	flags.StringVarP(&r.Method, "method", "X", "", "M\tGET, or POST with --data")
	flags.StringVar(&r.GRPC, "grpc", "", "METHOD\ta unary call: pkg.Service/Method, with --data as JSON; the server describes it by reflection")
	flags.StringVar(&r.Descriptors, "descriptors", "", "FILE\tfor --grpc, if the server has no reflection: from protoc --include_imports --descriptor_set_out=FILE")
	flags.StringArrayVarP(&r.Headers, "header", "H", nil, "\"K: V\"\ta header; may be repeated")
	flags.StringVarP(&r.Data, "data", "d", "", "TEXT\tthe body; @FILE reads it from a file")
	flags.StringVar(&r.ContentType, "content-type", "", "T\tthe content type of the body")
	flags.StringVar(&r.User, "user", "", "NAME:PASSWORD\tfor basic authentication")
	c.Timeout = 20 * time.Second
	verb.Duration(flags, &c.Timeout, "timeout", 0, "D\ta request fails after this long (20s)")
	verb.Number(flags, &c.Redirects, "redirects", "", 0, "N\tfollow at most N redirects, to the same host (0)")
	flags.BoolVar(&c.NoKeepAlive, "no-keepalive", false, "open a new connection for each request")
	flags.BoolVar(&c.NoCompression, "no-compression", false, "don't ask for compressed responses")
	flags.Var(verb.OneOf(&c.HTTP2, "auto", load.HTTP2Only, load.HTTP2Never), "http2", "WHEN\tauto, on or off (auto)")
	verb.Number(flags, &c.Shared, "http2-conns", "", 1, "N\tconnections that HTTP/2 requests share, like those of N clients (1)")
	flags.StringVar(&c.Host, "host", "", "NAME\tthe Host header")
	flags.StringVar(&c.Unix, "unix", "", "SOCKET\tconnect to this socket")
	flags.StringVar(&c.Proxy, "proxy", "", "URL\tsend the requests through this proxy")
	flags.BoolVar(&r.Insecure, "insecure", false, "don't check the server's certificate")
	flags.StringVar(&r.CACert, "cacert", "", "FILE\ttrust these certificates")
	flags.StringVar(&r.Cert, "cert", "", "FILE\tthe client's certificate")
	flags.StringVar(&r.Key, "key", "", "FILE\tthe key of that certificate")
	flags.Var(verb.OneOf(&c.Engine, "auto", load.Lean, load.NetHTTP), "engine", "E\twhat sends the requests: auto, lean or net/http (auto)")
	l.Exclude("write it into the file", "targets", "method")
	l.Exclude("write it into the file", "targets", "data")
	for _, other := range []string{"targets", "method", "content-type", "http2"} {
		l.Exclude("leave it out", "grpc", other)
	}
}

// SLOExample is one.
const SLOExample = "p99=50ms,errors=0.1%"

// CheckSLO reads an SLO, and keeps its text.
func CheckSLO(text string) (string, error) {
	_, err := load.ParseSLO(text)
	return text, err
}

// ParseLimits reads numbers of CPUs; none is 0.
func ParseLimits(text string) ([]float64, error) {
	return quantity.ParseList(text, orNone(quantity.ParseCPUs))
}

// ParseMemories reads memory limits; none is 0.
func ParseMemories(text string) ([]int64, error) {
	return quantity.ParseList(text, orNone(quantity.ParseBytes))
}

func orNone[T int64 | float64](parse func(string) (T, error)) func(string) (T, error) {
	return func(part string) (T, error) {
		if part == "none" {
			return 0, nil
		}
		return parse(part)
	}
}

// RequestArgs are the flags of the command line that say what a request is, for the generator.
func RequestArgs(flags *pflag.FlagSet) (args []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		switch values, list := f.Value.(pflag.SliceValue); {
		case !f.Changed:
		case list:
			for _, v := range values.GetSlice() {
				args = append(args, "--"+f.Name+"="+v)
			}
		default:
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return args
}
