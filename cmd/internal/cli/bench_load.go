package cli

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/unthrottle/unthrottle/cmd/internal/generator"
	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/report"
	"github.com/unthrottle/unthrottle/cmd/internal/service"
	"github.com/unthrottle/unthrottle/cmd/internal/trial"
)

const foreignExample = "unthrottle bench --load 'redis-benchmark -p {port} -t get' --ready 6379 -- redis-server"

// checkForeign refuses flags that are for our own generator.
func (b *bench) checkForeign() error {
	own := slices.DeleteFunc(b.server.names(), func(name string) bool { return strings.HasPrefix(name, "ready") })
	if name := b.Flags.FirstGiven(append(own, "rate", "load-burst", "warmup", "for", "unit", "size")...); name != "" {
		return hint.Usage("say it in the command of --load", "--%s is for our own generator, and --load is another", name)
	}
	return nil
}

// servedBy is a server as what is run, under the load of somebody else's generator. It is compared by the latency that was named, or the
// highest percentile that --metric takes from the output, or p99.
func (b *bench) servedBy(servers *lineup) (trial.Subject, error) {
	by := &trial.Foreign{Command: b.load.By, Tail: lab.P99}
	var told []lab.Measure
	for _, text := range b.metrics {
		m, err := generator.ParseMetric(text)
		if err != nil {
			return trial.Subject{}, hint.Usage("--metric "+generator.Example, "--metric %q: %w", text, err)
		}
		by.Metrics = append(by.Metrics, m)
		if m.Measure() != "" {
			told = append(told, m.Measure())
		}
	}
	switch figure := lab.Measure(b.figure); {
	case figure == lab.CPUPerRequest:
		by.Tail = ""
	case figure.Kind() == lab.ResponseTime:
		by.Tail = figure
	case len(told) > 0:
		by.Tail = slices.MaxFunc(told, func(a, c lab.Measure) int { return cmp.Compare(percent(a), percent(c)) })
	}
	loaded := &trial.Loaded{Shot: trial.Shot{By: by}}
	b.runner = loaded
	cpu := lab.CPUPerRequest.Metric("CPU per unit of work")
	figure := cpu
	if by.Tail != "" {
		figure = by.Tail.Metric(report.MetricName(lab.Metric{Unit: string(by.Tail)}) + " as the load tells it")
	}
	subject := loaded.Subject(servers.name, figure)
	if subject.Costs[servers.name] = cpu; by.Tail == "" {
		subject.Costs = nil
	}
	if b.stdio.Lab != nil || servers.same { // a test's, or nothing is run
		return subject, nil
	}
	if _, err := findProgram(servers.first()[0]); err != nil {
		return subject, err
	}
	ready, address, err := b.listens()
	by.Address = address
	loaded.Served = &trial.Served{
		Service: service.Spec{
			Args: servers.first(), Limit: b.limit.Limit, With: b.limit.with, Timeout: b.server.readyTimeout,
			Patient: b.Flags.Given("ready-timeout"), Ready: ready,
		},
		Builds: servers.args, Copy: servers.copy,
	}
	return subject, err
}

// listens says when a server is ready and where it listens, by --url or by --ready.
func (b *bench) listens() (ready service.Ready, address string, err error) {
	ready, address = b.server.ready, b.server.ready.Address
	if text := cmp.Or(b.load.URL, ready.URL); text != "" {
		if !strings.Contains(text, "://") {
			text = "tcp://" + text
		}
		u, err := url.Parse(text)
		if err != nil || u.Port() == "" {
			return ready, "", hint.Usage("--url localhost:6379", "--url: %q does not say which port it listens on", text)
		}
		address = net.JoinHostPort(cmp.Or(u.Hostname(), "localhost"), u.Port())
	}
	if address == "" {
		return ready, "", hint.Usage(foreignExample, "nothing says where the server listens")
	}
	if ready == (service.Ready{}) {
		ready.Address = address
	}
	return ready, address, nil
}

// percent is the order of percentiles.
func percent(m lab.Measure) int {
	return slices.Index([]lab.Measure{lab.P50, lab.P90, lab.P99, lab.P999}, m)
}
