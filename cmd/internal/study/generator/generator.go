// Package generator answers: what did the user's load generator measure, judging by its output? In goes that output; out come the
// latencies, and how much work was done. Generators that many people use are recognised; for any other, or for more than is recognised, the
// user says what to look for.
package generator

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// A Reading is what a generator says. What it does not say is 0, or not among the latencies.
type Reading struct {
	By        string                  // which generator it was; "": none that is known
	Latencies map[lab.Measure]float64 // seconds
	Units     float64                 // of work that were asked for
	Failed    float64                 // of these
	Rate      float64                 // units that were done, a second
}

// A teller knows what one generator prints. If an expression matches several times, the last match counts.
type teller struct {
	name    string
	is      *regexp.Regexp
	percent *regexp.Regexp                 // a percent, and its time
	latency map[lab.Measure]*regexp.Regexp // a time each
	unit    float64                        // of times that have none, in seconds
	units   []*regexp.Regexp               // numbers, of which all matches are added up
	failed  []*regexp.Regexp               // the same
	rate    *regexp.Regexp
	good    *regexp.Regexp // what did not fail, in percent
}

func re(text string) *regexp.Regexp { return regexp.MustCompile("(?m)" + text) }

const (
	number = `([0-9][0-9,]*\.?[0-9]*)`
	span   = `([0-9.]+ ?(?:ns|us|µs|ms|secs|sec|s|m))`
	spans  = `([0-9][0-9.hmsµun]*)` // also such as 1m2.5s
	plain  = `([0-9.]+)`
)

// tellers are asked in their order.
var tellers = []teller{
	{
		name: "wrk2", is: re(`^ +Latency Distribution \(HdrHistogram`),
		percent: re(`^ +([0-9]+\.[0-9]+)% +` + span + `$`), units: []*regexp.Regexp{re(`^ +([0-9]+) requests in `)}, rate: re(`^Requests/sec: +` + number),
		failed: wrkErrors,
	},
	{
		name: "wrk", is: re(`^ +Thread Stats +Avg`),
		percent: re(`^ +([0-9]+)% +` + span + `$`), units: []*regexp.Regexp{re(`^ +([0-9]+) requests in `)}, rate: re(`^Requests/sec: +` + number),
		failed: wrkErrors,
	},
	{
		name: "ghz", is: re(`^ +Count:\s+[0-9]+$`),
		percent: re(`^ +([0-9]+) % in ` + span), units: []*regexp.Regexp{re(`^ +Count:\s+([0-9]+)`)}, rate: re(`^ +Requests/sec:\s+` + number),
		failed: []*regexp.Regexp{re(`^ +\[(?:[A-NP-Z]|OutOfRange)[A-Za-z]*\]\s+([0-9]+) responses`)},
	},
	{
		name: "hey", is: re(`^Latency distribution:$`),
		percent: re(`^ +([0-9]+)%+ in ` + span), rate: re(`^ +Requests/sec:\s+` + number),
		units:  []*regexp.Regexp{re(`^ +\[[1-5][0-9][0-9]\]\s+([0-9]+) responses`), heyErrors},
		failed: []*regexp.Regexp{re(`^ +\[[45][0-9][0-9]\]\s+([0-9]+) responses`), heyErrors},
	},
	{
		name: "vegeta", is: re(`^Requests +\[total, rate`),
		latency: map[lab.Measure]*regexp.Regexp{
			lab.P50: re(`^Latencies +\[min, mean, 50,[^\]]*\] +(?:[^,\n]+, ){2}` + spans),
			lab.P90: re(`^Latencies +\[min, mean, 50, 90,[^\]]*\] +(?:[^,\n]+, ){3}` + spans),
			lab.P99: re(`^Latencies +\[min, mean, 50, 90, 95, 99,[^\]]*\] +(?:[^,\n]+, ){5}` + spans),
		},
		units: []*regexp.Regexp{re(`^Requests +\[total, rate[^\]]*\] +([0-9]+)`)}, rate: re(`^Requests +\[total, rate, throughput\] +[0-9]+, [0-9.]+, ` + plain),
		good: re(`^Success +\[ratio\] +([0-9.]+)%`),
	},
	{
		name: "oha", is: re(`^  Success rate:\t`),
		percent: re(`^ +([0-9.]+)% in ` + span), rate: re(`^  Requests/sec:\t` + number),
		units:  []*regexp.Regexp{re(`^  \[[1-5][0-9][0-9]\] ([0-9]+) responses`), ohaErrors},
		failed: []*regexp.Regexp{re(`^  \[[45][0-9][0-9]\] ([0-9]+) responses`), ohaErrors},
	},
	{ // what publishers do not wait for isn't a latency of the server
		name: "nats bench", is: re(`^ *NATS .*(?:requester|synchronous publisher).* stats: [0-9,]+ msgs/sec`),
		percent: re(`P([0-9.]+):? ([0-9.,]+us)`), units: natsUnits, rate: natsRate,
	},
	{name: "nats bench", is: natsRate, units: natsUnits, rate: natsRate},
	{
		name: "k6", is: re(`^ +http_reqs\.+: `),
		latency: k6Latencies("http_req_duration"), units: []*regexp.Regexp{re(`^ +http_reqs\.+: +([0-9]+)`)}, rate: re(`^ +http_reqs\.+: +[0-9]+ +` + plain + `/s`),
		failed: []*regexp.Regexp{re(`^ +http_req_failed\.+: +[0-9.]+% +([0-9]+) out of`), re(`^ +http_req_failed\.+: +[0-9.]+% +✓ ([0-9]+)`)},
	},
	{
		name: "k6", is: re(`^ +iterations\.+: +[0-9]+ +[0-9.]+/s`),
		latency: k6Latencies("grpc_req_duration"), units: []*regexp.Regexp{re(`^ +iterations\.+: +([0-9]+)`)}, rate: re(`^ +iterations\.+: +[0-9]+ +` + plain + `/s`),
	},
	{
		name: "fortio", is: re(`^All done [0-9]+ calls`),
		percent: re(`^# target ([0-9.]+)% ([0-9.e-]+)$`), unit: 1,
		units: []*regexp.Regexp{re(`^All done ([0-9]+) calls`)}, rate: re(`^All done .* ` + plain + ` qps`),
		failed: []*regexp.Regexp{re(`^Code +(?:-1|[45][0-9][0-9]) : ([0-9]+)`)},
	},
	{
		name: "redis-benchmark", is: re(`^ +throughput summary: |^[A-Z].*: [0-9.]+ requests per second, p50=`), unit: 1e-3,
		latency: map[lab.Measure]*regexp.Regexp{
			lab.P50: re(`(?:^ +avg +min +p50 +p95 +p99 +max\n(?: +[0-9.]+){2} +|requests per second, p50=)` + plain), lab.P99: re(`^ +avg +min +p50 +p95 +p99 +max\n(?: +[0-9.]+){4} +` + plain),
		},
		units: []*regexp.Regexp{re(`^ +([0-9]+) requests completed in`)}, rate: re(`(?:^ +throughput summary: |^[A-Z].*: )([0-9.]+) requests per second`),
	},
	{
		name: "pgbench", is: re(`^number of transactions actually processed:`),
		units: []*regexp.Regexp{re(`^number of transactions actually processed: ([0-9]+)`)}, rate: re(`^tps = ` + number),
		failed: []*regexp.Regexp{re(`^number of failed transactions: ([0-9]+)`)},
	},
}

var heyErrors = re(`^ +\[([0-9]+)\]\s+(?:Get|Post|Put|Patch|Delete|Head|Options) `)

var (
	natsUnits = []*regexp.Regexp{re(` benchmark \[.*\bmsgs=([0-9,]+)`)}
	natsRate  = re(`^ *NATS .* stats: ([0-9,]+) msgs/sec`)
)

// k6Latencies are those that k6 reports for a metric; p(99) only if --summary-trend-stats asks for it.
func k6Latencies(metric string) map[lab.Measure]*regexp.Regexp {
	all := map[lab.Measure]*regexp.Regexp{}
	for name, measure := range map[string]lab.Measure{"med": lab.P50, `p\(90\)`: lab.P90, `p\(99\)`: lab.P99, `p\(99\.9\)`: lab.P999} {
		all[measure] = re(`^ +` + metric + `\.+: .*` + name + `=` + spans)
	}
	return all
}

// ohaErrors are those listed next to the statuses; requests that a deadline has cut off were not done, and don't count.
var ohaErrors = re(`^  \[([0-9]+)\] (?:[^0-9a\n]|a[^b\n])`)

var wrkErrors = []*regexp.Regexp{
	re(`^ +Non-2xx or 3xx responses: ([0-9]+)`), re(`^ +Socket errors: connect ([0-9]+)`), re(`^ +Socket errors:.* read ([0-9]+)`),
	re(`^ +Socket errors:.* write ([0-9]+)`), re(`^ +Socket errors:.* timeout ([0-9]+)`),
}

// Read reads an output, using what is known about generators and what the user says, which takes precedence.
func Read(output []byte, own []Metric) (r Reading, err error) {
	text := strings.ReplaceAll(string(output), "\r", "\n")
	r.Latencies = map[lab.Measure]float64{}
	for _, t := range tellers {
		if t.is.MatchString(text) {
			t.read(text, &r)
			break
		}
	}
	for _, m := range own {
		if err := m.read(text, &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// percentiles are those that are kept.
var percentiles = map[float64]lab.Measure{50: lab.P50, 90: lab.P90, 99: lab.P99, 99.9: lab.P999}

func (t *teller) read(text string, r *Reading) {
	r.By = t.name
	if t.percent != nil {
		for _, m := range t.percent.FindAllStringSubmatch(text, -1) {
			percent, _ := strconv.ParseFloat(m[1], 64)
			if measure, kept := percentiles[percent]; kept {
				r.set(measure, m[2], t.unit)
			}
		}
	}
	for measure, expression := range t.latency {
		if value, ok := last(expression, text); ok {
			r.set(measure, value, t.unit)
		}
	}
	r.Units, r.Failed = sum(t.units, text), sum(t.failed, text)
	if t.rate != nil {
		rate, _ := last(t.rate, text)
		r.Rate = float(rate)
	}
	if t.good != nil && r.Units > 0 {
		if text, ok := last(t.good, text); ok {
			if good := float(text); good <= 100 { // or it isn't a share
				r.Failed = r.Units * (1 - good/100)
			}
		}
	}
}

// set keeps a time that is above 0: no reported time is faster than that.
func (r *Reading) set(m lab.Measure, text string, unit float64) {
	if v, err := seconds(strings.ReplaceAll(text, ",", ""), unit); err == nil && v > 0 {
		r.Latencies[m] = v
	}
}

// sum adds up all that matches.
func sum(expressions []*regexp.Regexp, text string) (sum float64) {
	for _, expression := range expressions {
		for _, m := range expression.FindAllStringSubmatch(text, -1) {
			sum += float(m[1])
		}
	}
	return sum
}

// last is the group of the last match.
func last(expression *regexp.Regexp, text string) (value string, ok bool) {
	for _, m := range expression.FindAllStringSubmatch(text, -1) {
		value, ok = m[1], true
	}
	return value, ok
}

func float(text string) float64 {
	v, _ := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	return v
}

var part = regexp.MustCompile(`^([0-9.]+) ?(ns|us|µs|ms|secs|sec|s|m|h)`)

var units = map[string]float64{"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "secs": 1, "sec": 1, "s": 1, "m": 60, "h": 3600}

// seconds reads a time, which has a unit of its own or else that which is given.
func seconds(text string, unit float64) (sum float64, err error) {
	if v, err := strconv.ParseFloat(text, 64); err == nil && unit > 0 {
		return v * unit, nil
	}
	for rest := text; rest != ""; {
		m := part.FindStringSubmatch(rest)
		if m == nil {
			return 0, fmt.Errorf("%q is not a time", text)
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a time", text)
		}
		sum, rest = sum+v*units[m[2]], rest[len(m[0]):]
	}
	return sum, nil
}

// A Metric is something that the user wants to find in the output.
type Metric struct {
	Name string
	Unit float64 // of a time, in seconds; 0: it has one of its own
	RE   *regexp.Regexp
	path path // in place of RE
}

// names are those of metrics, with the measure that each latency is.
var names = map[string]lab.Measure{
	"p50": lab.P50, "p90": lab.P90, "p99": lab.P99, "p99.9": lab.P999, "units": "", "failed": "", "rate": "",
}

// Example is a metric as one writes it.
const Example = `'p99=ms:"p99": ([0-9.]+)', 'p99=s:$.latencies.p99', 'units=Count: +([0-9]+)'`

// ParseMetric reads NAME=UNIT:RE; the unit is left out if there isn't one or if the output has it. Instead of an expression there may be a
// path into JSON, which begins with $ and a dot or a bracket.
func ParseMetric(text string) (m Metric, err error) {
	name, expression, ok := strings.Cut(text, "=")
	measure, known := names[name]
	if !ok || !known {
		return m, errors.New("want p50=, p90=, p99=, p99.9=, units=, failed= or rate=")
	}
	m.Name = name
	if unit, rest, ok := strings.Cut(expression, ":"); ok && measure != "" && units[unit] > 0 {
		m.Unit, expression = units[unit], rest
	}
	if strings.HasPrefix(expression, "$.") || strings.HasPrefix(expression, "$[") {
		m.path, err = parsePath(expression)
		return m, err
	}
	if m.RE, err = regexp.Compile(expression); err == nil && m.RE.NumSubexp() != 1 {
		err = errors.New("want one group in brackets, for the number")
	}
	return m, err
}

// Measure is the latency that it is; "": it is none.
func (m Metric) Measure() lab.Measure { return names[m.Name] }

// find is the number as it was printed.
func (m Metric) find(text string) (value string, err error) {
	if m.path != nil {
		if value, err = m.path.in(text); err != nil {
			return "", fmt.Errorf("--metric %s of the load: %w", m.Name, err)
		}
		return value, nil
	}
	value, ok := last(m.RE, text)
	if !ok {
		return "", fmt.Errorf("nothing in what the load printed matches %q", m.RE)
	}
	return value, nil
}

func (m Metric) read(text string, r *Reading) error {
	value, err := m.find(text)
	if err != nil {
		return err
	}
	if measure := names[m.Name]; measure != "" {
		v, err := seconds(value, m.Unit)
		if err != nil {
			return fmt.Errorf("%s: %w: its unit is missing, as in %s", m.Name, err, Example)
		}
		r.Latencies[measure] = v
		return nil
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(value, ",", ""), 64)
	if err != nil {
		return fmt.Errorf("%s: %q is not a number", m.Name, value)
	}
	switch m.Name {
	case "units":
		r.Units = v
	case "failed":
		r.Failed = v
	case "rate":
		r.Rate = v
	}
	return nil
}
