package cli

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/cmd/internal/study/generator"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
	"github.com/unthrottle/unthrottle/cmd/internal/study/tune"
)

const foreignExample = "unthrottle bench --load 'redis-benchmark -p {port} -t get' --ready 6379 -- redis-server"

// checkForeign refuses flags that are for our own generator.
func (b *bench) checkForeign() error {
	if err := b.checkTurns(b.Flags); err != nil {
		return err
	}
	own := []string{"rate", "load-burst", "unit", "size"}
	if b.load.By != "" {
		own = append(own, "warmup", "for")
	}
	return b.server.checkForeign(b.Flags, own...)
}

// servedBy is a server as what is run, under the load of another generator. It is compared by the latency that was named, or the highest
// percentile that --metric takes from the output, or p99.
func (b *bench) servedBy(servers *lineup) (trial.Subject, error) {
	by, err := trial.NewForeign(b.load.By, "", b.metrics)
	if err != nil {
		return trial.Subject{}, hint.Usage("--metric "+generator.Example, "%w", err)
	}
	if by.Counter, err = trial.ParseCounter(b.load.Units); err != nil {
		return trial.Subject{}, hint.Usage("--units http://localhost:9090/metrics#jobs_done_total", "--units %s: %w", b.load.Units, err)
	}
	by.Tail, by.Else = lab.P99, fmt.Sprintf(", or --figure %s what else is compared", lab.CPUPerRequest)
	shot := trial.Shot{By: by}
	if b.load.By == "" {
		by.Tail, by.Lasting, shot.WarmUp = "", tune.UsualWindow, b.warmUp
		if b.Flags.Given("for") {
			by.Lasting = b.window
		}
		b.load.Window, b.load.WarmUp = lab.Seconds(by.Lasting), lab.Seconds(b.warmUp)
	}
	var told []lab.Measure
	for _, m := range by.Metrics {
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
	loaded := &trial.Loaded{Shot: shot}
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
	ready, address, err := b.server.listens(foreignURL(b.load.URL, b.load.By, b.load.Units), foreignExample)
	by.Address = address
	loaded.Served = &trial.Served{
		Service: b.server.spec(servers.first(), ready, b.limit, b.Flags), Builds: servers.args, Copy: servers.copy,
	}
	return subject, err
}

// percent is the order of percentiles.
func percent(m lab.Measure) int {
	return slices.Index([]lab.Measure{lab.P50, lab.P90, lab.P99, lab.P999}, m)
}
