package trial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/loadtest"
	"github.com/unthrottle/unthrottle/cmd/internal/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/service"
)

// The environment makes the test binary a server, or a generator that says what it is told to.
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

func serve(address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/die":
			fmt.Println("it was asked to die")
			os.Exit(5)
		}
		runtime.GC()
		for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); { // CPU time to be seen
		}
	}))
}

// generateFor asks the server a few times and writes a document.
func generateFor(url, document string) {
	for range 5 {
		res, err := http.Get(url)
		if err != nil {
			break
		}
		res.Body.Close()
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
"response": {"p50": 0.001, "p90": 0.002, "p99": 0.003, "p999": 0.004, "curve": [{"percentile": 50, "seconds": 0.001, "count": 5}]},
"slo": {"held": false}, "axis": [{"at_seconds": 0, "length_seconds": 1, "sent": 10, "p99": 0.003, "periods": 10, "throttled_periods": 3}]}`

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
	if m["req/s"] != 3.5 || m["errors-%"] != 20 || m["p50-latency-ns"] != 1e6 || m["p999-latency-ns"] != 4e6 {
		t.Errorf("%v", m)
	}
	if m["cpu-ns/req"] <= 0 || w.Used <= 0 {
		t.Errorf("%v ns of CPU a request, %v CPUs", m["cpu-ns/req"], w.Used)
	}
	if w.Requests != 10 || w.Valid || w.SLOHeld || len(w.Notes) != 2 || w.Notes[0] != "late" || w.Cause != "status 503" || len(w.Curve) != 1 || w.Axis[0].Throttled != 3 {
		t.Errorf("%+v", w)
	}
	if w.GC.Collections < 1 || w.GC.Procs != 3 || w.Procs != 3 { // the server collects garbage at each request
		t.Errorf("garbage collection: %+v, GOMAXPROCS %d", w.GC, w.Procs)
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

func TestLateGenerator(t *testing.T) {
	for _, c := range []struct {
		name                string
		late                float64
		invalid             int
		held                bool
		valid, wasLate, p99 bool
	}{
		{"in time", 0.0005, 0, true, true, false, true},
		{"a little late beside the p99", 0.002, 1, true, true, true, true},
		{"late", 0.02, 1, true, true, true, false},
		{"late, and the SLO missed", 0.02, 1, false, false, true, false},
		{"late, and something else", 0.02, 2, true, false, false, true},
		{"something else", 0.0005, 1, true, false, false, true},
	} {
		g := loadtest.Summary{OurFault: c.invalid > 0, Invalid: make([]string, c.invalid)}
		g.Pacer.P99, g.Response.P50, g.Response.P99 = c.late, 0.002, 0.05
		w := Window{Metrics: map[string]float64{"p50-latency-ns": 2e6, "p99-latency-ns": 50e6, "cpu-ns/req": 1e6}, SLOHeld: c.held, Valid: !g.OurFault}
		w.judge(g)
		_, p99 := w.Metrics["p99-latency-ns"]
		if w.Valid != c.valid || w.Late != c.wasLate || p99 != c.p99 || w.Metrics["cpu-ns/req"] == 0 {
			t.Errorf("%s: %+v", c.name, w)
		}
	}
}

func TestShotFlags(t *testing.T) {
	for want, s := range map[string]Shot{
		"--json --for 2s --seed 7 --rate 0.5":                              {Rate: 0.5, Lasting: 2 * time.Second, Seed: 7},
		"--json --for 1.5s --seed 0 --conns 8":                             {Conns: 8, Const: true, Lasting: 1500 * time.Millisecond}, // a closed loop has no arrivals
		"--json --for 1s --seed 1 --rate 20 --arrivals const --slo p99=1s": {Rate: 20, Const: true, Lasting: time.Second, Seed: 1, SLO: "p99=1s"},
	} {
		if got := strings.Join(s.flags(), " "); got != want {
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
