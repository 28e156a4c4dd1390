package trial

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/workload"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
	"github.com/unthrottle/unthrottle/cmd/internal/process/golive"
	"github.com/unthrottle/unthrottle/cmd/internal/process/goself"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
)

// Served is a server of the user's, to put under load.
//
// The load comes from a process of its own: it must not be in the server's limited group, its CPU time is not the
// server's, and its real-time priority, which children inherit, must not become the server's.
type Served struct {
	Service service.Spec // without the setting: its limit's CPUs, GOMAXPROCS and GOGC

	// Generator begins the command line of a generator, such as that of the verb load with a URL. What to send is added as its flags.
	Generator []string

	// Metrics is where the server may tell figures of its Go runtime, in the text format of Prometheus; "": nowhere. Whether
	// it does is found out.
	Metrics string

	FindGo bool // look whether the server, or what it has started, is a Go program

	Builds map[Build][]string // its command line in each of several builds; nil: there is one
	Copy   string             // a directory, where each start has a copy of the file of its own; "": all have the file
}

// In is the server in a network of its own, where others like it may run at the same time.
func (s *Served) In(n *runner.Network) *Served {
	other := *s
	other.Service.Net = n
	return &other
}

// A Session is one start of the server.
type Session struct {
	server    *service.Server
	net       *runner.Network // nil: it is in ours
	generator []string
	metrics   string // "": it reports nothing
	log       goself.GCLog
	noGo      bool

	begin  time.Time
	before procs.HostMoment
	used   time.Duration // CPU time of generators
	procs  int
	limit  runner.Limit
	memory bool   // which memory limit it needs is asked
	done   func() // removes what was made for it
}

// A Shot is what to send to a server.
type Shot struct {
	Rate    float64       // requests a second, on average; 0: a closed loop of Conns
	From    float64       // with which it begins, where it changes evenly; 0: it stays the same
	Times   string        // a file of recorded arrivals, which have the Rate; "": they are made up
	Conns   int           // 0: as many as it takes
	Const   bool          // arrivals
	Burst   int           // that are due at once; 0: one
	WarmUp  time.Duration // the same load before, which opens the connections and is not counted
	Rush    int           // how many of the warm-up's first requests come at once
	Lasting time.Duration
	Seed    uint64
	SLO     string // "": none

	// Crowded makes it an overload: a thread of ours is busy on each CPU meanwhile, as a neighbour's may be. Then the load goes on at a rate
	// until the server has worked off what is left.
	Crowded bool
	Then    float64

	By *Foreign // what sends it instead, twice if there is a WarmUp; nil: our own generator
}

// A Window is what came of a Shot.
type Window struct {
	Metrics     map[string]float64
	Requests    int64
	SLOHeld     bool     // without the generator's own lateness; also true if there is no SLO
	Slower      []int64  // requests that took longer than each of the SLO's times, or failed; counted in the same way
	Valid       bool     // false: the generator did not send as planned, or see the answers in time, whatever those were
	Notes       []string // why it isn't valid, and whose fault that was, or what the server did not take
	Cause       string   // the most frequent error's; "": none
	Status      int      // of most answers; 0: they have several
	Bytes       float64  // of an answer that did not fail, on average
	Left        float64  // share of the requests that are not in the latencies: they were due while something else had the machine
	Stood       float64  // of these that because the machine itself stood still, again as a share of all
	Kept        float64  // share of the requests that were due while nothing else had it, even if the latencies are of all; 0: not known
	Others      float64  // CPUs that others used on average; 0: no more than noise, or not known
	OthersKnown bool     // 0 of these are none
	Sliced      bool     // other programs' time was seen in slices, so that what a neighbour did is not in the latencies
	Waits       float64  // seconds that the server's threads waited for a CPU, for each second that they had one; 0: not known
	Sending     float64  // CPUs that the generator, which runs alongside each server, used while it sent
	Curve       []Point  // of the percentiles
	Axis        []Step
	GC          goself.GCSummary // where it was asked for
	Procs       int              // GOMAXPROCS that it has; 0: not known
	Used        float64          // CPUs that the server used, of those that its limit gives; 0: not known
	Lasted      time.Duration    // that a foreign generator took
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

// Open starts the server fresh under a setting, and waits until it is ready. A server that fails is a *service.Error. With trace it is
// asked to report its garbage collections, if it is a Go program.
func (s *Served) Open(ctx context.Context, setting lab.Setting, trace bool) (*Session, error) {
	x := &Session{net: s.Service.Net, generator: s.Generator, procs: setting.Procs, metrics: s.Metrics}
	spec := s.Service
	spec.Limit = spec.Limit.WithCPUs(setting.CPUs)
	spec.Limit.Memory = cmp.Or(setting.Memory, spec.Limit.Memory)
	spec.Limit.CountMemory = true
	x.limit = spec.Limit
	if s.Builds != nil {
		spec.Args = s.Builds[BuildOf(setting)]
	}
	spec.Env = environ(setting, Program{Args: spec.Args, Env: spec.Env})
	spec.Args, _ = setting.Vary.Fill(spec.Args)
	var err error
	if spec.Args, x.done, err = ownCopy(spec.Args, s.Copy); err != nil {
		return nil, err
	}
	if trace {
		spec.Env = withGODEBUG(spec.Env, goself.GCTrace)
		spec.Each = x.log.Line
	}
	if x.memory = setting.Memory > 0; x.memory {
		workload.Warm(spec.Args[0])
	}
	x.before, x.begin = procs.HostNow(), time.Now()
	if x.server, err = service.Start(ctx, spec); err != nil {
		x.done()
		return nil, err
	}
	if s.FindGo {
		found, blind := new(procs.Programs).StartsGo("", x.server.PID())
		x.noGo = !found && !blind
	}
	return x, nil
}

// NoGo reports whether neither the server nor what it had started when it was ready is a Go program, where that was asked for.
func (x *Session) NoGo() bool { return x.noGo }

// Bound says what keeps another one from running alongside the server, in a network of its own, as far as can be seen now.
func (x *Session) Bound() string { return procs.Bound("", x.server.PID()) }

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

// Counters are what the kernel has counted for the server so far.
func (x *Session) Counters() cgroup.Counters { return x.server.Counters() }

// Kind is that of the limit.
func (x *Session) Kind() runner.Kind { return x.server.Kind() }

// Close ends the server, with what it has started, and returns what is known of the whole run.
func (x *Session) Close() lab.Run {
	dead := x.server.Check()
	kind, file := x.server.Kind(), x.programFile()
	res, obeyed := x.server.Stop()
	x.done()
	run := lab.Run{
		Start: x.begin.UTC().Round(time.Millisecond), Seconds: res.Wall.Seconds(), GOMAXPROCS: x.procs, LimitKind: string(kind),
		Metrics: ofProcess(res),
	}
	x.disturb(&run, res.CPU+x.used)
	switch {
	case res.OOMKills > 0: // of the server, or of one that it has started
		run.Error, run.Killed = x.limit.OutOfMemory(), true
	case dead != nil:
		run.Error, run.Why = dead.Error(), inShort(dead)
	case res.Escaped != nil: // its figures are not those of the limit
		run.Error = res.Escaped.Error()
	case !obeyed:
		run.Marks = append(run.Marks, lab.MarkKilled+", and was killed")
	}
	if res.PeakNeeded > 0 && !run.Killed {
		lab.PeakMemory.Set(run.Metrics, float64(res.PeakNeeded))
	}
	if file > 0 {
		lab.ProgramFile.Set(run.Metrics, float64(file))
	}
	return run
}

// programFile is how much of a program's file is in memory, where that is asked for: the most for any program among the server's and those
// that it has started.
func (x *Session) programFile() (most int64) {
	if !x.memory {
		return 0
	}
	for _, pid := range procs.Descendants("", x.server.PID()) {
		most = max(most, procs.ReadOfProgram("", pid))
	}
	return most
}

// disturb notes what else the host did during the run. If other runs go on at the same time, other programs' time is known only by slices.
func (x *Session) disturb(run *lab.Run, used time.Duration) {
	Disturb(run, x.before, procs.HostNow(), used)
	if x.net != nil {
		run.Others = 0
		run.Marks = slices.DeleteFunc(run.Marks, func(m string) bool { return strings.HasPrefix(m, lab.MarkOthers) })
	}
}

// Load sends a shot and measures what it does. If the server has died, Close says so.
func (x *Session) Load(ctx context.Context, s Shot) (Window, error) {
	if s.By != nil {
		return x.loadBy(ctx, s)
	}
	if s.Crowded {
		end := x.crowd()
		defer func() {
			end()
			x.settle(ctx, s)
		}()
	}
	host, begin, used := procs.HostNow(), x.server.Counters(), x.used
	g, before, err := x.generate(ctx, s)
	if err != nil {
		if x.server.Check() != nil && ctx.Err() == nil {
			return Window{Procs: x.log.Since(0).Procs}, nil
		}
		return Window{}, err
	}
	c, sched := x.counted(before)
	if g.Failed > 0 { // it may have died, and its end is seen a moment later
		const moment = 200 * time.Millisecond
		select {
		case <-x.server.Ended():
		case <-time.After(moment):
		}
	}
	window, seen := before.spans(g, s)
	sight := Sight{Counters: c, Lasted: window, Seen: seen, GC: x.log.Since(before.mark)}
	w, err := sight.Window(g)
	if err != nil {
		return Window{}, err
	}
	if ran, waited := sched.Run-before.sched.Run, sched.Waited-before.sched.Waited; ran > 0 && waited > 0 { // else it has started or ended others
		w.Waits = waited.Seconds() / ran.Seconds()
	}
	w.Sending = g.CPUShare * float64(g.GeneratorOf)
	if all := x.server.Counters().Since(begin); x.net == nil && !w.Sliced && w.Others == 0 && all.CPUKnown {
		_, w.Others = procs.HostNow().Since(host, all.CPU+x.used-used)
	}
	if before.told != nil {
		if now := x.read(ctx); now != nil {
			addRuntime(w.Metrics, now.Since(*before.told), seen.Seconds())
		}
	}
	// A program that was started by a shell, say, is not the process that we know.
	if v, err := golive.Read(x.server.PID()); err == nil {
		w.Procs = v.Procs
	} else if w.Procs = w.GC.Procs; w.Procs == 0 && before.told != nil {
		w.Procs = before.told.Procs
	}
	return w, nil
}

// settle sends what comes after an overload, until the server has worked the queue off and needs less than its limit allows, for some time
// at most.
func (x *Session) settle(ctx context.Context, s Shot) {
	const most = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _, _ = x.generate(ctx, Shot{Rate: s.Then, Const: s.Const, Burst: s.Burst, Seed: s.Seed, Lasting: most})
	}()
	slice := max(250*time.Millisecond, 2*x.limit.Period)
	all := cmp.Or(x.limit.CPUs, float64(runtime.NumCPU())) * slice.Seconds()
	for calm := 0; calm < 2; {
		before := x.server.Counters()
		select {
		case <-ended:
			return
		case <-time.After(slice):
		}
		if calm++; x.server.Counters().Since(before).CPU.Seconds() > 0.9*all {
			calm = 0
		}
	}
	cancel()
	<-ended
}

// crowd keeps a thread busy on each CPU until it is ended.
func (x *Session) crowd() (end func()) {
	var done atomic.Bool
	began := procs.OwnCPU()
	for range runtime.NumCPU() {
		go func() {
			for !done.Load() {
			}
		}()
	}
	return func() {
		done.Store(true)
		x.used += procs.OwnCPU() - began
	}
}

// A Sight is what was seen of a server while a load was sent to it.
type Sight struct {
	Lasted   time.Duration   // the window
	Seen     time.Duration   // for how long the server was seen: with the load going on, but not at the very moments of the window
	Counters cgroup.Counters // of the server's group, in that time
	GC       goself.GCSummary
	GCSeen   time.Duration // for how long its collections were counted, as the counters were; 0: Seen
	Procs    int           // GOMAXPROCS; 0: not known
}

// Window is what came of a load, as a generator's document reports it.
func (v Sight) Window(g loadtest.Summary) (Window, error) {
	perWindow, seen := v.Counters, v.Seen.Seconds()
	perWindow.CPU = time.Duration(float64(perWindow.CPU) * v.Lasted.Seconds() / seen)
	compared, _, left := g.Compared()
	w := Window{
		Metrics: served(g, perWindow), Requests: g.Requests, SLOHeld: g.SLO == nil || g.SLO.HeldFromReady, Valid: !g.OurFault, Notes: notes(g),
		Curve: compared.Curve, Left: left, Axis: steps(g.Axis), GC: v.GC, Procs: v.Procs, Used: v.Counters.CPU.Seconds() / seen, Cause: cause(g),
	}
	for _, s := range g.Statuses {
		if s.Count > g.Requests/2 {
			w.Status = s.Status
		}
	}
	w.addGC(v.Counters.CPU, cmp.Or(v.GCSeen, v.Seen))
	if good := g.Requests - g.Failed; good > 0 {
		w.Bytes = float64(g.Bytes) / float64(good)
	}
	w.Kept = g.Kept()
	if m := g.Machine; m != nil && m.Others != nil {
		w.Sliced = g.Quiet()
		if m.Others.CPUs > procs.NoisyOthers {
			w.Others = m.Others.CPUs
		}
	}
	if g.Quiet() {
		w.Stood = float64(g.Machine.Stood) / float64(max(1, g.Requests))
	}
	var err error
	w.Slower, err = slower(g)
	return w, err
}

// cause is what most failed requests failed of; "": none did.
func cause(g loadtest.Summary) (text string) {
	if text = g.HopelessWords(); text != "" || g.Failed == 0 {
		return text
	}
	most := int64(0)
	for _, c := range g.Causes {
		if c.Count > most {
			most, text = c.Count, c.Cause
		}
	}
	for _, s := range g.Statuses {
		if s.Status >= 400 && s.Count > most {
			most, text = s.Count, "status "+strconv.Itoa(s.Status)
		}
	}
	return text
}

// A beginning is what is known of a server when a window begins: as its warm-up ends.
type beginning struct {
	at       time.Time
	counters cgroup.Counters
	mark     int             // in the log of garbage collections
	told     *goself.Reading // nil: it reports nothing
	sched    procs.Schedstat
}

func (x *Session) begins(ctx context.Context) *beginning {
	b := &beginning{at: time.Now(), counters: x.server.Counters(), mark: x.log.Mark()}
	b.told, b.sched = x.read(ctx), x.schedstat()
	return b
}

// schedstat is that of the server and of what it has started.
func (x *Session) schedstat() (sum procs.Schedstat) {
	for _, pid := range procs.Descendants("", x.server.PID()) {
		if s, ok := procs.ReadSchedstat("", pid); ok {
			sum.Run, sum.Waited = sum.Run+s.Run, sum.Waited+s.Waited
		}
	}
	return sum
}

// counted is what the server's group has used since; without a limit it has none, and its threads tell how long they ran. What they have
// started, and has ended since, is not in that.
func (x *Session) counted(since *beginning) (cgroup.Counters, procs.Schedstat) {
	c, sched := x.server.Counters().Since(since.counters), x.schedstat()
	if ran := sched.Run - since.sched.Run; !c.CPUKnown && ran > 0 {
		c.CPU, c.CPUKnown = ran, true
	}
	return c, sched
}

// spans are how long a window lasted, and for how long of its load the server was seen: it is not at the very moment at which
// the window begins, in another process, that the counters are read, but with the load going on.
func (b *beginning) spans(g loadtest.Summary, s Shot) (window, seen time.Duration) {
	begin, end, known := g.Span()
	switch {
	case !known || !end.After(b.at):
		all := time.Since(b.at)
		return all, all
	case s.WarmUp == 0: // nothing was sent before
		return end.Sub(begin), end.Sub(begin)
	}
	return end.Sub(begin), end.Sub(b.at)
}

// slower counts the requests that took longer than each of the SLO's times. One that failed has the timeout as its time, or two
// hours, and is slower than any of them.
func slower(g loadtest.Summary) (counts []int64, err error) {
	if g.SLO == nil {
		return nil, nil
	}
	for _, o := range g.SLO.Latencies {
		limit := o.Seconds
		if g.Timeout > 0 {
			limit = min(limit, 0.99*g.Timeout)
		}
		n, err := g.FromReady.Above(limit)
		if err != nil {
			return nil, err
		}
		counts = append(counts, n)
	}
	return counts, nil
}

// notes say why a window isn't valid, and whose fault it was.
func notes(g loadtest.Summary) []string {
	if !g.OurFault {
		return g.Invalid
	}
	return append(slices.Clone(g.Invalid), g.LateBecause...)
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
			At: s.At, Length: s.Length, Sent: s.Sent, P99: s.FromReadyP99, Periods: count(s.Periods), Throttled: count(s.Throttled),
		})
	}
	return steps
}

// read reads the server's own figures; nil if it reports none. A server that has no such page is not asked again.
func (x *Session) read(ctx context.Context) *goself.Reading {
	if x.metrics == "" {
		return nil
	}
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	page, err := x.page(ctx, x.metrics)
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

// page is one of the server's.
func (x *Session) page(ctx context.Context, url string) ([]byte, error) {
	res, err := x.server.Get(ctx, url)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with status %d", url, res.StatusCode)
	}
	return io.ReadAll(res.Body)
}

// generate runs the generator, on a thread that starts nothing else: it is in the server's network, and the generator ends with it. Else it
// would go on to load the server of the next tune.
func (x *Session) generate(ctx context.Context, s Shot) (g loadtest.Summary, before *beginning, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err = x.net.Enter(); err == nil {
			g, before, err = x.generateHere(ctx, s)
		}
	}()
	<-done
	return g, before, err
}

// generateHere runs the generator, and looks at the server when the warm-up ends. Its exit code says whether an SLO was held, which
// its document says as well.
func (x *Session) generateHere(ctx context.Context, s Shot) (g loadtest.Summary, before *beginning, err error) {
	args := append(append([]string{}, x.generator...), s.Flags()...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	cmd.SysProcAttr = endWithUs()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	before = x.begins(ctx)
	ran := cmd.Start()
	if ran == nil && s.WarmUp > 0 {
		warm := make(chan *beginning, 1)
		timer := time.AfterFunc(s.WarmUp, func() { warm <- x.begins(ctx) })
		if ran = cmd.Wait(); !timer.Stop() {
			before = <-warm
		}
	} else if ran == nil {
		ran = cmd.Wait()
	}
	if cmd.ProcessState != nil {
		x.used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if ctx.Err() != nil {
		return g, before, ctx.Err()
	}
	if err := json.Unmarshal(stdout.Bytes(), &g); err != nil {
		if ran == nil {
			ran = err
		}
		return g, before, fmt.Errorf("generating load: %w: %s", ran, bytes.TrimSpace(stderr.Bytes()))
	}
	return g, before, nil
}

// Flags are those that ask the verb load for it, and for its document.
func (s Shot) Flags() []string {
	flags := []string{"--json", "--for", s.Lasting.String(), "--seed", strconv.FormatUint(s.Seed, 10)}
	if s.WarmUp > 0 {
		flags = append(flags, "--warmup", s.WarmUp.String())
		if s.Rush > 0 && s.Rate > 0 {
			flags = append(flags, "--rush", strconv.Itoa(s.Rush))
		}
	}
	rate := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	switch {
	case s.Rate <= 0:
	case s.Times != "":
		flags = append(flags, "--rate-file", s.Times)
	case s.From > 0:
		flags = append(flags, "--rate", rate(s.From)+".."+rate(quantity.EndRate(s.Rate, s.From)))
	default:
		flags = append(flags, "--rate", rate(s.Rate))
	}
	if s.Conns > 0 {
		flags = append(flags, "--conns", strconv.Itoa(s.Conns))
	}
	if s.Const && s.Rate > 0 { // the generator refuses it for a closed loop
		flags = append(flags, "--arrivals", "const")
	}
	if s.Burst > 1 && s.Rate > 0 {
		flags = append(flags, "--burst", strconv.Itoa(s.Burst))
	}
	if s.SLO != "" {
		flags = append(flags, "--slo", s.SLO)
	}
	return flags
}

// Unseen is the error of a load of which too little was seen, as by a meter that stood still on a busy machine. Nothing is wrong with the
// program or its setting: the load must be sent again.
type Unseen struct{ Why string }

func (e *Unseen) Error() string { return e.Why }

// Why is an error in one line: for a server's error, what it did, without what it wrote.
func Why(err error) string {
	var failed *service.Error
	if errors.As(err, &failed) {
		return failed.Why
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// Killed reports whether an error is that of a server that was killed for lack of memory.
func Killed(err error) bool {
	var failed *service.Error
	return errors.As(err, &failed) && failed.Killed
}

// inShort is an error in one line, where it has several; else "".
func inShort(err error) string {
	if why := Why(err); why != err.Error() {
		return why
	}
	return ""
}

// Failed is the error of a server that did not do what it should, if that is what err is.
func Failed(err error) (why string, ok bool) {
	var failed *service.Error
	if errors.As(err, &failed) {
		return failed.Error(), true
	}
	return "", false
}
