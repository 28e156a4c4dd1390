package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/disturbance"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

func ok(http.ResponseWriter, *http.Request) {}

func plan(t *testing.T, answer http.HandlerFunc) load.Plan {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return load.Plan{Targets: []load.Target{{URL: server.URL}}, Rate: 500, Duration: 100 * time.Millisecond, Arrivals: load.Constant, Seed: 1}
}

func slo(t *testing.T, text string) *load.SLO {
	t.Helper()
	s, err := load.ParseSLO(text)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

func TestOnce(t *testing.T) {
	s := &Session{Plan: plan(t, ok), SLO: slo(t, "p99=10s"), Realtime: true}
	sum, err := s.Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if sum.Requests != 50 || sum.Response.Count != 50 || sum.RateAsked == nil || *sum.RateAsked != 500 || !sum.SLO.Held || !sum.Realtime || sum.Stopped {
		t.Errorf("%+v", sum)
	}
	if len(sum.Statuses) != 1 || sum.Statuses[0] != (StatusCount{200, 50}) {
		t.Errorf("statuses %v", sum.Statuses)
	}
	if runtime.GOOS == "linux" && (sum.Server == nil || sum.Server.PID != os.Getpid()) {
		t.Errorf("the server is this process, got %+v", sum.Server)
	}
}

// TestWitnessEnds: nothing is reported about a machine that was watched only part of the time.
func TestWitnessEnds(t *testing.T) {
	for name, ends := range map[string]bool{"watched to the end": false, "watched for a part": true} {
		w := &disturbance.Pauses{Record: disturbance.Record{Zero: time.Now()}}
		w.Add(time.Hour, disturbance.Span{From: 0, To: time.Minute})
		if ends {
			w.End()
		}
		nobody := 0
		sum, err := (&Session{Plan: plan(t, ok), PID: &nobody, Witness: w}).Once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if known := sum.Machine != nil; known == ends || known && sum.Machine.Pauses != 1 {
			t.Errorf("%s: %+v", name, sum.Machine)
		}
		if sum.Quiet() && ends {
			t.Errorf("%s: settings are compared by what is not known", name)
		}
	}
}

// TestServer holds whose counters are read.
func TestServer(t *testing.T) {
	none, missing := 0, 1<<30
	p := plan(t, ok)
	for name, c := range map[string]struct {
		pid     *int
		warning string
	}{"not wanted": {&none, ""}, "not there": {&missing, "the server: "}} {
		sum, err := (&Session{Plan: p, PID: c.pid}).Once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if sum.Server != nil || (c.warning != "") != strings.HasPrefix(strings.Join(sum.Warnings, ""), "the server: ") {
			t.Errorf("%s: %+v, warnings %q", name, sum.Server, sum.Warnings)
		}
	}
}

// TestFindMax searches a server that answers thirty requests of a window, which are 300 a second. How near to that the search
// comes is up to the machine that the test runs on: search has tests of that.
func TestFindMax(t *testing.T) {
	slowtest.Skip(t)
	var answered atomic.Int64
	p := plan(t, func(w http.ResponseWriter, _ *http.Request) {
		if answered.Add(1) > 30 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	var told []Window
	before := math.MaxInt
	s := &Session{Plan: p, SLO: slo(t, "errors=0.1%"), Tried: func(w Window, left int) {
		if answered.Store(0); left < 0 || left > before {
			t.Errorf("%d windows left, and %d before", left, before)
		}
		before = left
		told = append(told, w)
	}}
	f, err := s.FindMax(t.Context(), Hunt{Start: 100, Window: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	sustained := f.Answer.Sustained.Rate
	if sustained > 310 || !f.Answer.Done || len(f.Windows) == 0 || f.Stopped {
		t.Fatalf("%+v", f)
	}
	if sustained > 0 && (*f.RateAsked != sustained || !f.SLO.Held) {
		t.Errorf("the summary is of %v/s, held %v, and the answer %v/s", *f.RateAsked, f.SLO.Held, sustained)
	}
	if len(told) != len(f.Windows) || told[0] != f.Windows[0] || told[0].Rate != 100 {
		t.Errorf("told of %+v", told)
	}
	for _, w := range f.Windows {
		if w.Held != (w.Missed == "") || w.Held != (w.Failed == 0) || w.Held && w.Rate > 310 || !w.Held && w.Rate < 300 {
			t.Errorf("%+v", w)
		}
	}
}

// TestFindMaxInterrupted: what there is of an interrupted search is shown, unless it is nothing.
func TestFindMaxInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &Session{Plan: plan(t, ok), SLO: slo(t, "p99=1m"), Tried: func(Window, int) { cancel() }}
	f, err := s.FindMax(ctx, Hunt{Start: 50, Window: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if !f.Stopped || len(f.Windows) != 1 || f.RateAsked == nil || *f.RateAsked != 50 {
		t.Errorf("stopped %v after %+v", f.Stopped, f.Windows)
	}
	if _, err := s.FindMax(ctx, Hunt{Start: 50, Window: 50 * time.Millisecond}); err == nil || !strings.Contains(err.Error(), "before the first window") {
		t.Errorf("interrupted at once: %v", err)
	}
}

// TestFindMaxUnanswered: where nothing answers there is no rate to look for.
func TestFindMaxUnanswered(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(ok))
	server.Close()
	s := &Session{Plan: load.Plan{Targets: []load.Target{{URL: server.URL}}}, SLO: slo(t, "p99=1s")}
	if _, err := s.FindMax(t.Context(), Hunt{}); err == nil || !strings.Contains(err.Error(), "nothing listens there: dial") {
		t.Errorf("got %v", err)
	}
}

func TestRefused(t *testing.T) {
	if _, err := (&Session{Plan: load.Plan{Rate: 1, Duration: 1}}).Once(t.Context()); !hint.IsUsage(err) {
		t.Errorf("a load of nothing: %v", err)
	}
	if _, err := (&Session{Plan: plan(t, ok), SLO: slo(t, "p99=1s")}).FindMax(t.Context(), Hunt{Start: -1, Window: time.Second}); !hint.IsUsage(err) {
		t.Errorf("a search from below nothing: %v", err)
	}
}

// TestSummaryAgain holds that a process that reads a summary has what the one that wrote it had.
func TestSummaryAgain(t *testing.T) {
	var asked atomic.Int64
	p := plan(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	p.Requests = 20
	res := send(t, p)
	wrote := Summarise(res, slo(t, "p99=1ns,errors=0%"))
	limit := cgroup.Limits{State: cgroup.Limited, CPUs: 0.5, From: "/a", Levels: []cgroup.Level{{Dir: "/a", Quota: cgroup.Quota{QuotaMicros: 50_000, PeriodMicros: 100_000}}}}
	wrote.addServer(7, "shop", limit, []host.Reading{
		{At: res.Began, Counters: cgroup.Counters{Known: true, Periods: 10, Throttled: 1, ThrottledTime: time.Second, CPU: time.Second, CPUKnown: true}},
		{At: res.Began.Add(res.Took()), Counters: cgroup.Counters{Known: true, Periods: 20, Throttled: 6, ThrottledTime: 3 * time.Second, CPU: 2 * time.Second, CPUKnown: true}},
	}, res)
	srv := wrote.Server
	if srv == nil || *srv.LimitCPUs != 0.5 || srv.PeriodSeconds != 0.1 || srv.Periods != 10 || *srv.ThrottledShare != 0.5 || srv.ThrottledSeconds != 2 || *srv.CPUSeconds != 1 || *srv.CPUPerRequest != 0.1 {
		t.Errorf("server: %+v", srv)
	}
	if wrote.Failed != 10 || wrote.SLO.Held || len(wrote.SLO.Missed) != 2 {
		t.Errorf("%d failed, SLO %+v", wrote.Failed, wrote.SLO)
	}
	data, err := json.Marshal(wrote)
	if err != nil {
		t.Fatal(err)
	}
	var read Summary
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(read)
	if err != nil || string(again) != string(data) {
		t.Errorf("%v: wrote %s\nread %s", err, data, again)
	}
}

func send(t *testing.T, p load.Plan) *load.Result {
	t.Helper()
	run, err := load.Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	res := run.Wait()
	if errors.Is(t.Context().Err(), context.Canceled) {
		t.Fatal("interrupted")
	}
	return res
}

// TestFindMaxBegins: the search begins a little below what closed loops do.
func TestFindMaxBegins(t *testing.T) {
	slowtest.Skip(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &Session{Plan: plan(t, ok), SLO: slo(t, "p99=1m"), Tried: func(w Window, _ int) {
		if w.Phase != closedPhase {
			cancel()
		}
	}}
	f, err := s.FindMax(ctx, Hunt{Window: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	highest, last := 0.0, len(f.Windows)-1
	for _, w := range f.Windows[:last] {
		if highest = max(highest, w.Rate); w.Phase != closedPhase || !w.Held || w.Rate == 0 {
			t.Errorf("%+v", w)
		}
	}
	if w := f.Windows[last]; w.Phase != "ramp" || w.Rate != roundRate(beginAt*highest) {
		t.Errorf("after %v/s in closed loops: %+v", highest, w)
	}
}

func TestWindowAt(t *testing.T) {
	for _, c := range []struct {
		slo  string
		rate float64
		want time.Duration
	}{
		{"p99=50ms", 10_000, shortest},
		{"p99=50ms", 500, 2 * time.Second},
		{"p99=50ms", 10, longest},
		{"p50=10ms,p99=100ms", 10_000, 2 * time.Second},
		{"errors=1%", 10_000, shortest},
	} {
		if got := (&Session{SLO: slo(t, c.slo)}).windowAt(c.rate); got != c.want {
			t.Errorf("%s at %v/s: %v, want %v", c.slo, c.rate, got, c.want)
		}
	}
}

// TestFindMaxEnds: a search takes no longer than it has, and its windows don't wait for a server that does not answer.
func TestFindMaxEnds(t *testing.T) {
	slowtest.Skip(t)
	p := plan(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p.Client.Timeout = time.Hour
	began := time.Now()
	f, err := (&Session{Plan: p, SLO: slo(t, "p99=1ms")}).FindMax(t.Context(), Hunt{Start: 50, Window: 100 * time.Millisecond, For: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if f.Stopped || len(f.Windows) == 0 || f.Answer.Sustained.Rate != 0 {
		t.Errorf("after %v: %+v", time.Since(began), f.Answer)
	}
	_, err = (&Session{Plan: p, SLO: slo(t, "errors=1%")}).FindMax(t.Context(), Hunt{Start: 50, Window: time.Second, For: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "too short") {
		t.Errorf("a millisecond is taken: %v", err)
	}
}

func TestLasting(t *testing.T) {
	for _, c := range []struct {
		hunt Hunt
		want time.Duration
	}{
		{Hunt{}, 40 * time.Second},
		{Hunt{Window: time.Second}, 40 * time.Second},
		{Hunt{Window: 10 * time.Second}, 160 * time.Second},
		{Hunt{Window: 10 * time.Second, For: time.Minute}, time.Minute},
	} {
		if got := c.hunt.lasting(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.hunt, got, c.want)
		}
	}
}
