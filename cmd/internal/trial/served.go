package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/golive"
	"github.com/unthrottle/unthrottle/cmd/internal/goself"
	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/service"
)

// Served is a server of the user's, which is to be put under load.
//
// The load comes from a process of its own: it must not be in the server's limited group, its CPU time is not the
// server's, and its real-time priority, which children inherit, must not become the server's.
type Served struct {
	Service service.Spec // without the setting: its limit's CPUs, GOMAXPROCS and GOGC

	// Generator begins the command line of a generator, such as that of the verb load with a URL. What is to be sent is
	// added as its flags.
	Generator []string

	// Metrics is where the server may tell figures of its Go runtime, in the text format of Prometheus; "": nowhere. Whether
	// it does is found out.
	Metrics string
}

// A Session is one start of the server.
type Session struct {
	server    *service.Server
	generator []string
	metrics   string // "": it tells nothing
	log       goself.GCLog

	begin  time.Time
	before host
	used   time.Duration // CPU time of generators
	procs  int
}

// A Shot is what is to be sent to a server.
type Shot struct {
	Rate    float64 // requests a second; 0: a closed loop of Conns
	Conns   int     // 0: as many as it takes
	Const   bool    // arrivals
	Lasting time.Duration
	Seed    uint64
	SLO     string // "": none
}

// A Window is what came of a Shot.
type Window struct {
	Metrics  map[string]float64
	Requests int64
	SLOHeld  bool     // true as well where there is none
	Valid    bool     // false: the generator is at fault, and the rest says little
	Late     bool     // the generator was late, and latencies that this may have made are left out: the rest counts
	Notes    []string // why it isn't valid, or what the server did not take
	Cause    string   // the most frequent error's; "": none
	Curve    []Point  // of the response's percentiles
	Axis     []Step
	GC       goself.GCSummary // where it was asked for
	Procs    int              // GOMAXPROCS that it has; 0: not known
	Used     float64          // CPUs that the server used; 0: not known
}

// A Point of a curve of percentiles.
type Point = loadtest.CurvePoint

// A Step is a piece of a window.
type Step struct {
	At        float64 `json:"at_seconds"`
	Length    float64 `json:"length_seconds"`
	Sent      int64   `json:"sent"`
	P99       float64 `json:"p99"`
	Periods   int64   `json:"periods"`
	Throttled int64   `json:"throttled_periods"`
}

// Open starts the server fresh under a setting, and waits until it is ready. A server that fails is a *service.Error. With
// trace it is asked to tell its garbage collections, as far as it is a Go program.
func (s *Served) Open(ctx context.Context, setting lab.Setting, trace bool) (*Session, error) {
	x := &Session{generator: s.Generator, procs: setting.Procs, metrics: s.Metrics}
	spec := s.Service
	spec.Limit = spec.Limit.WithCPUs(setting.CPUs)
	spec.Limit.CountMemory = true
	spec.Env = environ(setting, Program{Env: spec.Env})
	if trace {
		spec.Env = withGODEBUG(spec.Env, goself.GCTrace)
		spec.Each = x.log.Line
	}
	x.before, x.begin = readHost(), time.Now()
	var err error
	if x.server, err = service.Start(ctx, spec); err != nil {
		return nil, err
	}
	return x, nil
}

// withGODEBUG adds a setting to those of the environment.
func withGODEBUG(env []string, setting string) []string {
	value := setting
	for _, e := range env {
		if old, ok := strings.CutPrefix(e, "GODEBUG="); ok && old != "" {
			value = old + "," + setting // the last one counts
		}
	}
	return append(env, "GODEBUG="+value)
}

// Kind is that of the limit.
func (x *Session) Kind() runner.Kind { return x.server.Kind() }

// Close ends the server, with what it has started, and tells what is known of the whole run.
func (x *Session) Close() lab.Run {
	dead := x.server.Check()
	kind := x.server.Kind()
	res, obeyed := x.server.Stop()
	run := lab.Run{
		Start: x.begin.UTC().Round(time.Millisecond), Seconds: res.Wall.Seconds(), GOMAXPROCS: x.procs, LimitKind: string(kind),
		Metrics: map[string]float64{}, Marks: marks(x.before, readHost(), res.CPU+x.used),
	}
	switch {
	case dead != nil:
		run.Error = dead.Error()
	case !obeyed:
		run.Marks = append(run.Marks, lab.MarkKilled+", and was killed")
	}
	if res.PeakMemory > 0 && res.PeakOf != runner.AtMost {
		lab.PeakMemory.Set(run.Metrics, float64(res.PeakMemory))
	}
	return run
}

// Load sends a shot and measures what it does. That the server has died is told by Close.
func (x *Session) Load(ctx context.Context, s Shot) (Window, error) {
	told := x.read(ctx)
	before := x.server.Counters()
	mark, begin := x.log.Mark(), time.Now()
	g, err := x.generate(ctx, s)
	wall := time.Since(begin).Seconds()
	if err != nil {
		if x.server.Check() != nil && ctx.Err() == nil {
			return Window{}, nil
		}
		return Window{}, err
	}
	c := x.server.Counters().Since(before)
	if g.Failed > 0 { // it may have died, and its end is seen a moment later
		const moment = 200 * time.Millisecond
		select {
		case <-x.server.Ended():
		case <-time.After(moment):
		}
	}
	w := Window{
		Metrics: served(g, c), Requests: g.Requests, SLOHeld: g.SLO == nil || g.SLO.Held, Valid: !g.OurFault, Notes: g.Invalid,
		Curve: g.Response.Curve, Axis: steps(g.Axis), GC: x.log.Since(mark), Used: c.CPU.Seconds() / wall,
	}
	w.judge(g)
	if told != nil {
		if now := x.read(ctx); now != nil {
			addRuntime(w.Metrics, now.Since(*told), wall)
		}
	}
	// A program that was started by a shell, say, is not the process that we know.
	if v, err := golive.Read(x.server.PID()); err == nil {
		w.Procs = v.Procs
	} else if w.Procs = w.GC.Procs; w.Procs == 0 && told != nil {
		w.Procs = told.Procs
	}
	if w.GC.Collections > 0 {
		lab.GCRate.Set(w.Metrics, float64(w.GC.Collections)/wall)
		if c.CPU > 0 {
			lab.GCShare.Set(w.Metrics, float64(w.GC.CPU)/float64(c.CPU))
		}
	}
	switch {
	case len(g.Causes) > 0:
		w.Cause = g.Causes[0].Cause
	case g.Failed > 0:
		most := int64(0)
		for _, status := range g.Statuses {
			if status.Status >= 400 && status.Count > most {
				most, w.Cause = status.Count, "status "+strconv.Itoa(status.Status)
			}
		}
	}
	return w, nil
}

// steps are what is kept of a summary's axis.
func steps(axis []loadtest.Step) (steps []Step) {
	count := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	for _, s := range axis {
		steps = append(steps, Step{
			At: s.At, Length: s.Length, Sent: s.Sent, P99: s.P99, Periods: count(s.Periods), Throttled: count(s.Throttled),
		})
	}
	return steps
}

// judge keeps what a late generator leaves of a window. That requests were sent late, by so much at p99, makes latencies longer
// that are not far longer themselves; of those it is not known what the server's part is. CPU time and throughput are
// what they are. An SLO that was missed may have been missed because of it.
func (w *Window) judge(g loadtest.Summary) {
	late := g.Pacer.P99
	if !g.OurFault || len(g.Invalid) > 1 || late <= max(0.001, g.Response.P50/10) {
		return // valid, or not for another reason
	}
	w.Valid = w.SLOHeld
	const far = 5
	for name := range w.Metrics {
		if m := lab.Measure(name); m.Kind() == lab.ResponseTime && m.In(w.Metrics) < far*late {
			delete(w.Metrics, name)
			w.Late = true
		}
	}
}

// read reads the server's own figures; nil if it tells none. A server that has no such page is not asked again.
func (x *Session) read(ctx context.Context) *goself.Reading {
	if x.metrics == "" {
		return nil
	}
	const patience, most = 2 * time.Second, 8 << 20
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	res, err := service.Get(ctx, x.metrics)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	page, err := io.ReadAll(io.LimitReader(res.Body, most))
	if err != nil {
		return nil
	}
	r, ok := goself.ParseReading(page)
	if !ok {
		x.metrics = ""
		return nil
	}
	return &r
}

// addRuntime adds what a server tells of its Go runtime.
func addRuntime(m map[string]float64, f goself.Figures, seconds float64) {
	for measure, v := range map[lab.Measure]float64{
		lab.GCRate: f.Collections / seconds, lab.GCShare: f.GCShare, lab.WaitP50: f.SchedP50, lab.WaitP99: f.SchedP99,
	} {
		if v >= 0 {
			measure.Set(m, v)
		}
	}
}

// generate runs the generator. Its exit code says whether an SLO was held, which its document says as well.
func (x *Session) generate(ctx context.Context, s Shot) (g loadtest.Summary, err error) {
	args := append(append([]string{}, x.generator...), s.flags()...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	cmd.SysProcAttr = endWithUs() // it would go on to load the server of the next tune
	runtime.LockOSThread()        // whose end it ends with
	defer runtime.UnlockOSThread()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	ran := cmd.Run()
	if ctx.Err() != nil {
		return g, ctx.Err()
	}
	if cmd.ProcessState != nil {
		x.used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if err := json.Unmarshal(stdout.Bytes(), &g); err != nil {
		if ran == nil {
			ran = err
		}
		return g, fmt.Errorf("generating load: %w: %s", ran, bytes.TrimSpace(stderr.Bytes()))
	}
	return g, nil
}

func (s Shot) flags() []string {
	flags := []string{"--json", "--for", s.Lasting.String(), "--seed", strconv.FormatUint(s.Seed, 10)}
	if s.Rate > 0 {
		flags = append(flags, "--rate", strconv.FormatFloat(s.Rate, 'f', -1, 64))
	}
	if s.Conns > 0 {
		flags = append(flags, "--conns", strconv.Itoa(s.Conns))
	}
	if s.Const && s.Rate > 0 { // the generator refuses it for a closed loop
		flags = append(flags, "--arrivals", "const")
	}
	if s.SLO != "" {
		flags = append(flags, "--slo", s.SLO)
	}
	return flags
}

// served are the figures of a window.
func served(g loadtest.Summary, c cgroup.Counters) map[string]float64 {
	m := map[string]float64{}
	lab.RequestRate.Set(m, g.Goodput)
	if g.Requests > 0 {
		lab.ErrorShare.Set(m, float64(g.Failed)/float64(g.Requests))
		if c.CPU > 0 {
			lab.CPUPerRequest.Set(m, c.CPU.Seconds()/float64(g.Requests))
		}
	}
	if g.Response.P50 > 0 {
		lab.P50.Set(m, g.Response.P50)
		lab.P90.Set(m, g.Response.P90)
		lab.P99.Set(m, g.Response.P99)
		lab.P999.Set(m, g.Response.P999)
	}
	if c.Periods > 0 {
		lab.ThrottledShare.Set(m, float64(c.Throttled)/float64(c.Periods))
		lab.ThrottledTime.Set(m, c.ThrottledTime.Seconds())
	}
	return m
}

// Failed is the error of a server that did not do what it should, if that is what err is.
func Failed(err error) (why string, ok bool) {
	var failed *service.Error
	if errors.As(err, &failed) {
		return failed.Error(), true
	}
	return "", false
}
