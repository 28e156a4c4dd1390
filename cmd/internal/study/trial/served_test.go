package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
	"github.com/unthrottle/unthrottle/cmd/internal/process/goself"
	"github.com/unthrottle/unthrottle/cmd/internal/study/generator"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// The first argument makes the test binary a server, or a generator.
const (
	asServer    = "TRIAL_TEST_SERVER"
	asGenerator = "TRIAL_TEST_GENERATOR"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == asServer:
		serve(os.Args[2])
	case len(os.Args) > 1 && os.Args[1] == asGenerator:
		generateFor(os.Args[2], os.Args[3]) // and flags
	default:
		os.Exit(m.Run())
	}
}

var eaten []byte

// burn takes some 20 ms of CPU time, which are seen on a busy machine too.
func burn() {
	x := uint64(1)
	for range 20_000_000 {
		x ^= x << 13
		x ^= x >> 7
	}
	burnt.Store(x)
}

var burnt atomic.Uint64 // or the loop would be none

func serve(address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var asked atomic.Int64
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			page := fmt.Sprintf("done_total{kind=\"a\"} %d\nstill_total 5\n", 10*asked.Add(1))
			w.Header().Set("Content-Length", strconv.Itoa(len(page)))
			io.WriteString(w, page)
			w.(http.Flusher).Flush() // what follows is done after the answer
		case "/eat":
			eaten = bytes.Repeat([]byte("much "), 20<<20)
		case "/die":
			fmt.Println("it was asked to die")
			os.Exit(5)
		}
		runtime.GC()
		burn()
	}))
}

// flagsFile names a file to which the generator adds its flags.
const flagsFile = "TRIAL_TEST_FLAGS"

// generateFor asks the server a few times, or until it is interrupted if its flags ask for that, and writes a document.
func generateFor(url, document string) {
	times, flags := 5, strings.Join(os.Args[4:], " ")
	if f, err := os.OpenFile(os.Getenv(flagsFile), os.O_APPEND|os.O_WRONLY, 0); err == nil {
		fmt.Fprintln(f, flags)
		f.Close()
	}
	pause := time.Duration(0)
	if strings.Contains(flags, "--rate 7") {
		times, pause = math.MaxInt, time.Second/7
	}
	for range times {
		res, err := http.Get(url)
		if err != nil {
			break
		}
		res.Body.Close()
		time.Sleep(pause)
	}
	fmt.Println(document)
}

func newServed(t *testing.T, path, document string) *Served {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Served{
		Service:   service.Spec{Args: []string{self, asServer, address}, With: runner.Auto, Ready: service.Ready{Address: address}},
		Generator: []string{self, asGenerator, "http://" + address + path, document},
	}
}

const document = `{"requests": 10, "failed": 2, "goodput": 3.5, "invalid": ["late", "and more"], "pacer_late": {"p99": 0.01}, "generator_at_fault": true, "statuses": [{"status": 200, "count": 8}, {"status": 503, "count": 2}],
"response": {"p50": 0.011, "p90": 0.012, "p99": 0.013, "p999": 0.014},
"from_ready": {"p50": 0.001, "p90": 0.002, "p99": 0.003, "p999": 0.004, "curve": [{"percentile": 50, "seconds": 0.001, "count": 5}]}, "from_ready_tail": 0.0025,
"slo": {"held": false}, "axis": [{"at_seconds": 0, "length_seconds": 1, "sent": 10, "p99": 0.013, "from_ready_p99": 0.003, "periods": 10, "throttled_periods": 3}]}`

func TestServed(t *testing.T) {
	s := newServed(t, "/", document)
	x, err := s.Open(t.Context(), lab.Setting{Procs: 3, CPUs: 0.9}, true)
	if err != nil {
		t.Fatal(err)
	}
	w, err := x.Load(t.Context(), Shot{Rate: 5, Lasting: 2 * time.Second, Seed: 10})
	if err != nil {
		t.Fatal(err)
	}
	run := x.Close()
	if run.Error != "" || run.GOMAXPROCS != 3 || run.LimitKind == "" || run.LimitKind == "none" || run.Seconds <= 0 {
		t.Errorf("%+v", run)
	}
	m := w.Metrics
	if m["req/s"] != 3.5 || m["errors-%"] != 20 || m["p50-latency-ns"] != 1e6 || m["p999-latency-ns"] != 4e6 || m["tail-latency-ns"] != 2.5e6 {
		t.Errorf("%v", m)
	}
	if m["cpu-ns/req"] <= 0 || w.Used <= 0 {
		t.Errorf("%v ns of CPU per request, %v CPUs", m["cpu-ns/req"], w.Used)
	}
	if w.Requests != 10 || w.Valid || w.SLOHeld || len(w.Notes) != 2 || w.Notes[0] != "late" || w.Cause != "status 503" || len(w.Curve) != 1 || w.Axis[0].Throttled != 3 || w.Axis[0].P99 != 0.003 {
		t.Errorf("%+v", w)
	}
	if w.GC.Collections < 1 || w.GC.Procs != 3 || w.Procs != 3 { // the server collects garbage at each request
		t.Errorf("garbage collection: %+v, GOMAXPROCS %d", w.GC, w.Procs)
	}
}

// TestOverload: after an overload the load goes on at its rate, until the server has worked off what was left.
func TestOverload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "flags")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(flagsFile, file)
	s := newServed(t, "/", document)
	x, err := s.Open(t.Context(), lab.Setting{CPUs: 0.9}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if _, err := x.Load(t.Context(), Shot{Conns: 50, Lasting: time.Second, Crowded: true, Then: 7}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); len(lines) != 2 || !strings.Contains(lines[0], "--conns 50") ||
		strings.Contains(lines[0], "--rate") || !strings.Contains(lines[1], "--rate 7") || strings.Contains(lines[1], "--conns") {
		t.Errorf("its generators had the flags\n%s", text)
	}
	if x.used == 0 {
		t.Error("the CPU time of its generators is taken for a neighbour's")
	}
}

func TestServedFailures(t *testing.T) {
	s := newServed(t, "/die", document)
	x, err := s.Open(t.Context(), lab.Setting{CPUs: 1}, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Load(t.Context(), Shot{Lasting: time.Second, Conns: 1}); err != nil {
		t.Error(err)
	}
	if run := x.Close(); !strings.Contains(run.Error, "ended while it was measured: exit code 5") || !strings.Contains(run.Error, "it was asked to die") {
		t.Errorf("a server that dies: %+v", run)
	}
	s = newServed(t, "/", document)
	s.Service.Args = []string{"sh", "-c", "echo no port; exit 4"}
	_, err = s.Open(t.Context(), lab.Setting{CPUs: 1}, false)
	if why, failed := Failed(err); !failed || !strings.Contains(why, "exit code 4") || !strings.Contains(why, "no port") {
		t.Errorf("a server that does not start: %v", err)
	}
	s = newServed(t, "/", "no document")
	if x, err = s.Open(t.Context(), lab.Setting{CPUs: 1}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Load(t.Context(), Shot{Lasting: time.Second}); err == nil || !strings.Contains(err.Error(), "generating load") {
		t.Errorf("a generator that fails: %v", err)
	}
	x.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Open(ctx, lab.Setting{CPUs: 1}, false); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// TestOutOfMemory: what the kernel kills at its limit is reported in one line, wherever that happens.
func TestOutOfMemory(t *testing.T) {
	const want = "out of memory: limit 32 MiB"
	s := newServed(t, "/eat", document)
	s.Service.Limit.Memory = 32 << 20
	x, err := s.Open(t.Context(), lab.Setting{CPUs: 1}, true)
	if err != nil && os.Getenv("UNTHROTTLE_REQUIRE_CGROUP") != "1" {
		t.Skip("memory can't be limited here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Load(t.Context(), Shot{Lasting: time.Second, Conns: 1}); err != nil {
		t.Error(err)
	}
	if run := x.Close(); run.Error != want || !run.Killed {
		t.Errorf("while it is measured: %q", run.Error)
	}
	const eats = "head -c 200000000 /dev/zero | tail >/dev/null"
	s.Service.Args = []string{"sh", "-c", "exec tail /dev/zero"}
	_, err = s.Open(t.Context(), lab.Setting{CPUs: 1}, false)
	if why, failed := Failed(err); !failed || why != want || !Killed(err) {
		t.Errorf("before it is ready: %v", err)
	}
	for _, end := range []string{"", "; true"} { // of one that goes on although something else of it was killed
		r := &Runner{Limit: runner.Limit{Memory: 32 << 20}, With: runner.Auto, Programs: One("sh", "-c", eats+end).Program}
		run, err := r.Run(t.Context(), lab.Setting{CPUs: 1})
		if err != nil || run.Error != want || !run.Killed {
			t.Errorf("a job: %q, %v", run.Error, err)
		}
	}
}

// TestCause: what most requests failed of, and not the few that were open when the time was up.
func TestCause(t *testing.T) {
	for _, c := range []struct {
		g    loadtest.Summary
		want string
	}{
		{loadtest.Summary{}, ""},
		{loadtest.Summary{Failed: 9, Hopeless: "not found", Causes: []loadtest.CauseCount{{Cause: "unfinished at the end", Count: 1}}}, "every answer was a 404: there is no such page"},
		{loadtest.Summary{Failed: 9, Statuses: []loadtest.StatusCount{{Status: 200, Count: 50}, {Status: 500, Count: 8}}, Causes: []loadtest.CauseCount{{Cause: "timeout", Count: 1}}}, "status 500"},
		{loadtest.Summary{Failed: 9, Statuses: []loadtest.StatusCount{{Status: 500, Count: 2}}, Causes: []loadtest.CauseCount{{Cause: "timeout", Count: 7}}}, "timeout"},
	} {
		if got := cause(c.g); got != c.want {
			t.Errorf("%+v: %q, want %q", c.g, got, c.want)
		}
	}
}

// TestLateness: a late generator deletes nothing, and whose fault it was is reported where it counts.
func TestLateness(t *testing.T) {
	g := loadtest.Summary{Requests: 10, LateBecause: []string{"the hypervisor took 9 % of the CPU time"}}
	g.Pacer.P99, g.FromReady.P50, g.FromReady.P99 = 0.02, 0.002, 0.005
	if m := served(g, cgroup.Counters{}); m["p99-latency-ns"] != 5e6 || len(notes(g)) != 0 {
		t.Errorf("late: %v, %q", m, notes(g))
	}
	g.OurFault, g.Invalid = true, []string{"in bursts"}
	if got := strings.Join(notes(g), "; "); got != "in bursts; the hypervisor took 9 % of the CPU time" {
		t.Errorf("in bursts: %q", got)
	}
}

// TestSlower: a request that failed is slower than any of the SLO's times, also one that is longer than the timeout.
func TestSlower(t *testing.T) {
	r := &load.Result{Plan: load.Plan{}, Requests: 10}
	for _, h := range []**hdrhistogram.Histogram{
		&r.Response, &r.Service, &r.Lag, &r.PacerLate, &r.NoConnection, &r.Successes, &r.FromReady, &r.CaughtUp,
	} {
		*h = hdrhistogram.New(1, int64(2*time.Hour), 3)
	}
	for _, took := range []time.Duration{5, 5, 5, 5, 5, 5, 20, 20, 1000, 1000} { // the last two failed, by a timeout of a second
		r.FromReady.RecordValue(int64(took * time.Millisecond))
	}
	slo, err := load.ParseSLO("p50=10ms,p99=2s")
	if err != nil {
		t.Fatal(err)
	}
	g := loadtest.Summarise(r, &slo)
	g.Timeout = 1
	if got, err := slower(g); err != nil || !slices.Equal(got, []int64{4, 2}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := slower(loadtest.Summary{}); err != nil || got != nil {
		t.Errorf("without an SLO: %v, %v", got, err)
	}
}

// TestSpans: the server is seen from when its counters were read, which is with the load going on if there is a warm-up.
func TestSpans(t *testing.T) {
	g := loadtest.Summary{Began: "2026-11-22T06:00:01.250Z", Planned: 5, Elapsed: 5.5}
	at := time.Date(2026, 11, 22, 6, 0, 1, 50e6, time.UTC)
	for _, c := range []struct {
		warm         time.Duration
		window, seen time.Duration
	}{
		{time.Second, 5500 * time.Millisecond, 5700 * time.Millisecond},
		{0, 5500 * time.Millisecond, 5500 * time.Millisecond},
	} {
		b := beginning{at: at}
		if window, seen := b.spans(g, Shot{WarmUp: c.warm}); window != c.window || seen != c.seen {
			t.Errorf("after a warm-up of %v: %v and %v", c.warm, window, seen)
		}
	}
	b := beginning{at: time.Now().Add(-time.Second)}
	if window, seen := b.spans(loadtest.Summary{}, Shot{}); window != seen || window < time.Second {
		t.Errorf("a generator that tells no times: %v and %v", window, seen)
	}
}

func TestShotFlags(t *testing.T) {
	for want, s := range map[string]Shot{
		"--json --for 2s --seed 7 --warmup 1s --rate 5":                    {Rate: 5, WarmUp: time.Second, Lasting: 2 * time.Second, Seed: 7},
		"--json --for 2s --seed 7 --rate 100..300":                         {Rate: 200, From: 100, Lasting: 2 * time.Second, Seed: 7},
		"--json --for 2s --seed 7 --rate 300..100":                         {Rate: 200, From: 300, Lasting: 2 * time.Second, Seed: 7},
		"--json --for 2s --seed 7 --rate-file a.txt":                       {Rate: 200, Times: "a.txt", Lasting: 2 * time.Second, Seed: 7},
		"--json --for 2s --seed 7 --rate 0.5":                              {Rate: 0.5, Lasting: 2 * time.Second, Seed: 7},
		"--json --for 1.5s --seed 0 --conns 8":                             {Conns: 8, Const: true, Lasting: 1500 * time.Millisecond}, // a closed loop has no arrivals
		"--json --for 1s --seed 1 --rate 20 --burst 5":                     {Rate: 20, Burst: 5, Lasting: time.Second, Seed: 1},
		"--json --for 1s --seed 2 --conns 8":                               {Conns: 8, Burst: 5, Lasting: time.Second, Seed: 2},
		"--json --for 1s --seed 1 --rate 20 --arrivals const --slo p99=1s": {Rate: 20, Const: true, Lasting: time.Second, Seed: 1, SLO: "p99=1s"},
	} {
		if got := strings.Join(s.Flags(), " "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestWithGODEBUG(t *testing.T) {
	if got := withGODEBUG([]string{"A=b"}, "x=1"); got[1] != "GODEBUG=x=1" {
		t.Errorf("%q", got)
	}
	if got := withGODEBUG([]string{"GODEBUG=x=0,y=2", "A=b"}, "x=1"); got[2] != "GODEBUG=x=0,y=2,x=1" {
		t.Errorf("%q", got)
	}
}

// TestLeftRunning: what a load has started and not waited for used its CPU time, and not others.
func TestLeftRunning(t *testing.T) {
	s := newServed(t, "/", "")
	x, err := s.Open(t.Context(), lab.Setting{CPUs: 1}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	busy := filepath.Join(t.TempDir(), "busy")
	const load = `(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; touch %[1]s; exec sleep 1000) & while [ ! -e %[1]s ]; do sleep 0.02; done; echo p99 3 ms, 10 requests`
	m, err := generator.ParseMetric("units=([0-9]+) requests")
	if err != nil {
		t.Fatal(err)
	}
	if w, err := x.Load(t.Context(), Shot{By: &Foreign{Command: fmt.Sprintf(load, busy), Metrics: []generator.Metric{m}}}); err != nil || w.Requests != 10 {
		t.Fatalf("%+v, %v", w, err)
	}
	if x.used < 30*time.Millisecond { // 200,000 rounds of a shell
		t.Errorf("it used %v", x.used)
	}
}

// TestCounted: what was done is what the server's counter says, whether a command loads it or not.
func TestCounted(t *testing.T) {
	s := newServed(t, "/", "")
	at := "http://" + s.Service.Ready.Address + "/metrics"
	for _, c := range []struct {
		by   Foreign
		want string // of an error; "": it has figures
	}{
		{Foreign{Lasting: 200 * time.Millisecond, Counter: Counter{at, "done_total"}}, ""},
		{Foreign{Command: "echo p99 3 ms", Counter: Counter{at, "done_total"}}, ""},
		{Foreign{Lasting: time.Millisecond, Counter: Counter{at, "still_total"}}, "still_total has not grown in "},
		{Foreign{Lasting: time.Millisecond, Counter: Counter{at, "nosuch_total"}}, "has no nosuch_total"},
		{Foreign{Command: "exit 3", Counter: Counter{at, "done_total"}}, "the load: exit status 3"},
	} {
		x, err := s.Open(t.Context(), lab.Setting{CPUs: 1}, false)
		if err != nil {
			t.Fatal(err)
		}
		w, err := x.Load(t.Context(), Shot{By: &c.by, WarmUp: time.Millisecond})
		x.Close()
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v", c.by, err)
			}
			continue
		}
		if err != nil || w.Requests != 10 || c.by.Command == "" && lab.CPUPerRequest.In(w.Metrics) <= 0 || w.Lasted < c.by.Lasting {
			t.Errorf("%+v: %+v, %v", c.by, w, err)
		}
	}
	for text, ok := range map[string]bool{"": true, "http://localhost:1/metrics#x": true, "http://localhost:1/metrics": false, "localhost:1#x": false, "http://localhost/#": false} {
		if _, err := ParseCounter(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestVaried: a program has the values of its setting, in its arguments or its environment.
func TestVaried(t *testing.T) {
	t.Setenv("MODE", "ours")
	r := command("sh", "-c", "echo rate: {n}${MODE:-0}")
	for values, want := range map[string]float64{"1": 51, "": 50} {
		run, err := r.Run(t.Context(), lab.Setting{Vary: lab.NewPairs([]lab.Pair{{Name: "n", Value: "5"}, {Name: "MODE", Value: values}})})
		if err != nil || run.Error != "" || run.Metrics["req/s"] != want {
			t.Errorf("MODE=%s: %+v, %v", values, run, err)
		}
	}
}

// TestLoadLeavesNothing: what the command of a load has started ends with it, and is waited for no longer.
func TestLoadLeavesNothing(t *testing.T) {
	s := newServed(t, "/", "")
	x, err := s.Open(t.Context(), lab.Setting{}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	file := filepath.Join(t.TempDir(), "pid")
	by := &Foreign{Command: "sleep 3344 & echo $! >" + file + "; echo done 5", Metrics: []generator.Metric{{Name: "units", RE: regexp.MustCompile("done (.)")}}}
	w, err := x.Load(t.Context(), Shot{By: by})
	if err != nil || w.Requests != 5 {
		t.Fatalf("%+v, %v", w, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		cmdline, err := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/cmdline")
		if err != nil || !strings.HasPrefix(string(cmdline), "sleep") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("its sleep is still there")
}

// TestCollectorsShare: it is of what was seen in the same time, and where the collector reports more than there was it is not known.
func TestCollectorsShare(t *testing.T) {
	gc := func(cpu time.Duration) goself.GCSummary {
		return goself.GCSummary{Collections: 6, CPU: cpu, Procs: 500}
	}
	for name, c := range map[string]struct {
		sight       Sight
		rate, share float64
		known       bool
	}{
		"a third":               {Sight{Lasted: 2 * time.Second, Seen: 2 * time.Second, GC: gc(time.Second), Counters: cgroup.Counters{CPU: 3 * time.Second}}, 3, 1. / 3, true},
		"all of it":             {Sight{Lasted: 2 * time.Second, Seen: 2 * time.Second, GC: gc(time.Second), Counters: cgroup.Counters{CPU: time.Second}}, 3, 1, true},
		"counted for longer":    {Sight{Lasted: 2 * time.Second, Seen: 2 * time.Second, GCSeen: 3 * time.Second, GC: gc(time.Second), Counters: cgroup.Counters{CPU: 2 * time.Second}}, 2, 0.5, true},
		"more than there was":   {Sight{Lasted: 2 * time.Second, Seen: 2 * time.Second, GC: gc(time.Second), Counters: cgroup.Counters{CPU: 480 * time.Millisecond}}, 3, 0, false},
		"how much is not known": {Sight{Lasted: 2 * time.Second, Seen: 2 * time.Second, GC: gc(time.Second)}, 3, 0, false},
	} {
		w, err := c.sight.Window(loadtest.Summary{})
		if err != nil {
			t.Fatal(err)
		}
		share, known := lab.GCShare.Of(w.Metrics)
		if rate := lab.GCRate.In(w.Metrics); rate != c.rate || known != c.known || math.Abs(share-c.share) > 1e-9 {
			t.Errorf("%s: %v a second, %v, %v", name, rate, share, known)
		}
	}
}
