package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/service"
)

// Served is a server of the user's, under load. One run starts it fresh, waits until it is ready, warms it up, measures a
// window and ends it.
//
// The load comes from a process of its own: it must not be in the server's limited group, its CPU time is not the
// server's, and its real-time priority, which children inherit, must not become the server's.
type Served struct {
	Service service.Spec // without the setting: its limit's CPUs and GOMAXPROCS

	// Generator is the command line of a generator that loads for a time and writes the document of the verb load.
	Generator      func(lasting time.Duration, seed uint64) []string
	WarmUp, Window time.Duration
}

// generated is what is needed of the generator's document.
type generated struct {
	Requests int64    `json:"requests"`
	Failed   int64    `json:"failed"`
	Good     int64    `json:"good"`
	Elapsed  float64  `json:"elapsed_seconds"`
	Goodput  float64  `json:"goodput"`
	Valid    bool     `json:"valid"`
	Invalid  []string `json:"invalid"`
	Stopped  bool     `json:"stopped"`
	Response struct {
		P50  float64 `json:"p50"`
		P90  float64 `json:"p90"`
		P99  float64 `json:"p99"`
		P999 float64 `json:"p999"`
	} `json:"response"`
}

// NotValid begins the mark of a run whose generator did not keep its own promises.
const NotValid = "the load is not valid: "

// Run does one run. The same seed gives the same arrivals. A server that fails is a run with an Error; an error is what
// makes no sense to go on with.
func (s *Served) Run(ctx context.Context, setting lab.Setting, seed uint64) (lab.Run, error) {
	spec := s.Service
	spec.Limit.CPUs = setting.CPUs
	if setting.CPUs == 0 {
		spec.Limit.Period, spec.Limit.Burst = 0, 0
	}
	spec.Limit.CountMemory = true
	spec.Env = environ(setting, Program{Env: spec.Env})
	before, begin := readHost(), time.Now()
	server, err := service.Start(ctx, spec)
	out := lab.Run{Start: begin.UTC().Round(time.Millisecond), GOMAXPROCS: setting.Procs, Metrics: map[string]float64{}}
	var failed *service.Error
	if errors.As(err, &failed) {
		out.Error = failed.Error()
		return out, nil
	}
	if err != nil {
		return lab.Run{}, err
	}
	out.LimitKind = string(server.Kind())
	figures, counted, err := s.measure(ctx, server, seed)
	dead := server.Check()
	res, obeyed := server.Stop()
	out.Seconds = res.Wall.Seconds()
	out.Marks = marks(before, readHost(), res)
	switch {
	case ctx.Err() != nil:
		return lab.Run{}, ctx.Err()
	case dead != nil:
		out.Error = dead.Error()
		return out, nil
	case err != nil:
		return lab.Run{}, err
	}
	if !obeyed {
		out.Marks = append(out.Marks, "it did not end when it was told to, and was killed")
	}
	for _, why := range figures.Invalid {
		out.Marks = append(out.Marks, NotValid+why)
	}
	out.Ops = figures.Requests
	out.Metrics = served(figures, counted)
	if res.PeakMemory > 0 && res.PeakOf != runner.AtMost {
		out.Metrics["peak-RSS-bytes"] = float64(res.PeakMemory)
	}
	return out, nil
}

// measure warms the server up and measures a window.
func (s *Served) measure(ctx context.Context, server *service.Server, seed uint64) (generated, runner.Counters, error) {
	if s.WarmUp > 0 {
		if _, err := s.generate(ctx, s.WarmUp, seed+1); err != nil {
			return generated{}, runner.Counters{}, err
		}
	}
	before, _ := server.Counters()
	figures, err := s.generate(ctx, s.Window, seed)
	after, known := server.Counters()
	if !known {
		return figures, runner.Counters{}, err
	}
	return figures, runner.Counters{
		CPU: after.CPU - before.CPU, Periods: after.Periods - before.Periods, Throttled: after.Throttled - before.Throttled,
		ThrottledTime: after.ThrottledTime - before.ThrottledTime,
	}, err
}

// generate runs the generator. Its exit code says whether an SLO was held, which is not asked here.
func (s *Served) generate(ctx context.Context, lasting time.Duration, seed uint64) (g generated, err error) {
	args := s.Generator(lasting, seed)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	ran := cmd.Run()
	if ctx.Err() != nil {
		return g, ctx.Err()
	}
	if err := json.Unmarshal(stdout.Bytes(), &g); err != nil {
		if ran == nil {
			ran = err
		}
		return g, fmt.Errorf("generating load: %w: %s", ran, bytes.TrimSpace(stderr.Bytes()))
	}
	return g, nil
}

// served are the figures of a window, by the names that the Go project's own benchmarks have for them.
func served(g generated, c runner.Counters) map[string]float64 {
	m := map[string]float64{"req/s": g.Goodput}
	if g.Requests > 0 {
		m["errors-%"] = 100 * float64(g.Failed) / float64(g.Requests)
		if c.CPU > 0 {
			m["cpu-ns/req"] = float64(c.CPU) / float64(g.Requests)
		}
	}
	if g.Response.P50 > 0 {
		m["p50-latency-ns"], m["p90-latency-ns"] = g.Response.P50*1e9, g.Response.P90*1e9
		m["p99-latency-ns"], m["p999-latency-ns"] = g.Response.P99*1e9, g.Response.P999*1e9
	}
	if c.Periods > 0 {
		m["throttled-%"] = 100 * float64(c.Throttled) / float64(c.Periods)
		m["throttled-sec"] = c.ThrottledTime.Seconds()
	}
	return m
}
