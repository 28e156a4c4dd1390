package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// A fakeLoad is a load that sends nothing. It ends when its context does, or when it is asked to.
type fakeLoad struct {
	ctx  context.Context
	plan load.Plan
	over chan struct{}
	live load.Live
}

func (f *fakeLoad) Live() load.Live { return f.live }

func (f *fakeLoad) Wait() *load.Result {
	select {
	case <-f.ctx.Done():
	case <-f.over:
	}
	return &load.Result{}
}

// faked lets a server start such loads, and returns those that it has started.
func faked(s *Server) func() []*fakeLoad {
	var mu sync.Mutex
	var all []*fakeLoad
	s.dial.start = func(ctx context.Context, p load.Plan) (running, error) {
		mu.Lock()
		defer mu.Unlock()
		f := &fakeLoad{ctx: ctx, plan: p, over: make(chan struct{})}
		all = append(all, f)
		return f, nil
	}
	return func() []*fakeLoad {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func TestDial(t *testing.T) {
	s, server := serve(t, Options{MaxOpen: 7, MaxLoad: time.Minute})
	loads := faked(s)
	for i, body := range []string{`{"rate":20,"path":"/work?cpu=1ms&alloc=1k"}`, `{"rate":0.5,"path":"/isPrime/97"}`} {
		if status, text := ask(t, "POST", server.URL+"/load", body); status != 200 || text != strings.ReplaceAll(body, "&", `\u0026`) {
			t.Fatalf("%d %s", status, text)
		}
		if n := len(loads()); n != i+1 {
			t.Fatalf("%d loads were started, want %d", n, i+1)
		}
	}
	first, second := loads()[0], loads()[1]
	if first.ctx.Err() == nil || second.ctx.Err() != nil {
		t.Error("there is not one load, the second")
	}
	p := first.plan
	if got := fmt.Sprint(p.Targets[0].URL, " ", p.Rate, " ", p.Duration, " ", p.Conns); got != server.URL+"/work?cpu=1ms&alloc=1k 20 1m0s 7" {
		t.Errorf("the plan is %s", got)
	}
	if _, text := ask(t, "GET", server.URL+"/load", ""); !strings.Contains(text, `"rate":0.5,"path":"/isPrime/97"`) {
		t.Errorf("GET /load: %s", text)
	}
	if status, text := ask(t, "POST", server.URL+"/load", `{"rate":0}`); status != 200 || second.ctx.Err() == nil {
		t.Errorf("it was not stopped: %d %s", status, text)
	}
	if _, text := ask(t, "GET", server.URL+"/load", ""); text != `{"load":null,"note":""}` {
		t.Errorf("GET /load: %s", text)
	}
}

func TestDialLooks(t *testing.T) {
	s, server := serve(t, Options{})
	loads := faked(s)
	s.watch.each = func() {} // it is looked at here only
	if status, text := ask(t, "POST", server.URL+"/load", `{"rate":20,"path":"/work"}`); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	f := loads()[0]
	f.plan.Each(&load.Sample{Intended: 5 * ms, Ready: 12 * ms, Sent: 13 * ms, Done: 18 * ms})
	f.plan.Each(&load.Sample{Intended: 6 * ms, Ready: 8 * ms, Sent: 16 * ms, Done: 86 * ms})
	f.plan.Each(&load.Sample{Done: time.Hour, Err: errors.New("no answer")})
	f.live = load.Live{Elapsed: 2 * time.Second, Done: 40, Failed: 1, Open: 2, Rate: 19.5}
	s.dial.look()
	got, note := s.dial.figures()
	if got.CPUPerRequest <= 0 && procs.OwnCPU() > 0 { // this test did use some
		t.Error("a request cost no CPU time")
	}
	got.CPUPerRequest = 0
	want := figures{
		wish: wish{20, "/work"}, Elapsed: 2, DoneRate: 19.5, Done: 40, Failed: 1, Open: 2,
		ResponseP50: .013, ResponseP99: .08, ServiceP50: .005, ServiceP99: .07, PacerLate: .007,
	}
	if *got != want || note != "" {
		t.Errorf("%+v %q, want %+v", *got, note, want)
	}
	s.dial.look()
	if got, _ := s.dial.figures(); got.PacerLate != 0 || got.ResponseP99 != 0 || got.CPUPerRequest != 0 {
		t.Errorf("at the next look: %+v, with nothing done since", got)
	}
}

func TestDialEndsByItself(t *testing.T) {
	s, server := serve(t, Options{MaxLoad: time.Minute})
	loads := faked(s)
	if status, text := ask(t, "POST", server.URL+"/load", `{"rate":20,"path":"/work"}`); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	g := s.dial.now
	close(loads()[0].over)
	<-g.done
	if f, note := s.dial.figures(); f != nil || !strings.Contains(note, "after 1m0s") {
		t.Errorf("%v, %q", f, note)
	}
}

// A load that no one watches ends, and so does the sampler.
func TestDesertedLoadEnds(t *testing.T) {
	s, server := serve(t, Options{Linger: time.Millisecond})
	loads := faked(s)
	if !s.watch.enter(1) {
		t.Fatal("nobody may watch")
	}
	if status, text := ask(t, "POST", server.URL+"/load", `{"rate":20,"path":"/work"}`); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	s.watch.mu.Lock()
	sampled := s.watch.done
	s.watch.mu.Unlock()
	if s.dial.desert(); loads()[0].ctx.Err() != nil {
		t.Error("it has ended though somebody watches")
	}
	s.watch.leave()
	<-sampled
	<-loads()[0].ctx.Done()
	if f, note := s.dial.figures(); f != nil || !strings.Contains(note, "no one was watching") {
		t.Errorf("%v, %q", f, note)
	}
	if !s.watch.enter(1) { // and it can be watched again
		t.Error("nobody may watch any more")
	}
	s.watch.leave()
}

func TestLoadThatCantStart(t *testing.T) {
	s, server := serve(t, Options{})
	s.dial.start = func(context.Context, load.Plan) (running, error) { return nil, errors.New("no such plan") }
	if status, text := ask(t, "POST", server.URL+"/load", `{"rate":20,"path":"/work"}`); status != 503 || !strings.Contains(text, "no such plan") {
		t.Errorf("%d %s", status, text)
	}
	s.dial.end()
	if status, text := ask(t, "POST", server.URL+"/load", `{"rate":20,"path":"/work"}`); status != 503 || !strings.Contains(text, "about to end") {
		t.Errorf("after the end: %d %s", status, text)
	}
}

func TestMedianAndP99(t *testing.T) {
	var all []time.Duration
	for i := range 200 {
		all = append(all, time.Duration(200-i)*time.Second)
	}
	tests := []struct {
		all         []time.Duration
		median, p99 float64
	}{
		{nil, 0, 0},
		{[]time.Duration{time.Second}, 1, 1},
		{[]time.Duration{2 * time.Second, time.Second}, 1, 2},
		{[]time.Duration{3 * time.Second, 2 * time.Second, time.Second}, 2, 3},
		{all, 100, 198},
	}
	for _, test := range tests {
		n := len(test.all)
		if median, p99 := medianAndP99(test.all); median != test.median || p99 != test.p99 {
			t.Errorf("of %d: %v and %v, want %v and %v", n, median, p99, test.median, test.p99)
		}
	}
}
