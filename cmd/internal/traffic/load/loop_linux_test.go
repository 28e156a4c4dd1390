package load

import (
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestLoopsShare: however many loops there are, together they send what one would, at the same times.
func TestLoopsShare(t *testing.T) {
	p := Plan{Targets: []Target{{URL: "http://a/"}}, Rate: 1000, Duration: 100 * time.Millisecond, WarmUp: 31 * time.Millisecond, Conns: 7, Seed: 5}
	due := func(of int) (all []time.Duration) {
		conns := 0
		s := &loops{run: &Run{plan: p, began: time.Now()}}
		s.sending.Store(int64(of) + 1) // so that none of them is the last
		for i := range of {
			l, err := newLoop(s, i, of)
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			for l.advance(); l.more; l.advance() {
				all = append(all, l.next)
			}
			conns += l.maxConns
		}
		if conns != p.Conns {
			t.Errorf("%d loops may have %d connections", of, conns)
		}
		slices.Sort(all)
		return all
	}
	alone := due(1)
	if len(alone) != 131 || alone[0] >= 0 || alone[30] >= 0 || alone[31] < 0 {
		t.Fatalf("%d are due, from %v: %v", len(alone), alone[0], alone)
	}
	for of := 2; of <= 7; of++ {
		if got := due(of); !slices.Equal(got, alone) {
			t.Errorf("%d loops have %d requests that are due, from %v to %v, and not those of one", of, len(got), got[0], got[len(got)-1])
		}
	}
}

// TestManyLoops sends with more than one loop, if there are enough CPUs, and with one if there is just one P.
func TestManyLoops(t *testing.T) {
	for _, ps := range []int{1, 3} {
		before := runtime.GOMAXPROCS(ps)
		var got atomic.Int64
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) { got.Add(1) })
		r := do(t, Plan{Targets: []Target{{URL: url}}, Requests: 5005, Conns: 100, Client: Client{Timeout: time.Minute}})
		if r.Good != 5005 || r.Planned != 5005 || got.Load() != 5005 || r.MostConns != 100 || r.Opened != 100 {
			t.Errorf("%d Ps, closed loop: %d good, %d planned, %d seen, %d connections", ps, r.Good, r.Planned, got.Load(), r.MostConns)
		}
		got.Store(0)
		r = do(t, Plan{Targets: []Target{{URL: url}}, Rate: 70_000, Duration: 50 * time.Millisecond, WarmUp: 10 * time.Millisecond, Conns: 90, Client: Client{Timeout: time.Minute}})
		if r.Good != 3500 || r.Planned != 3500 || got.Load() != 4200 || r.MostConns > 90 {
			t.Errorf("%d Ps, open loop: %d good, %d planned, %d seen, %d connections", ps, r.Good, r.Planned, got.Load(), r.MostConns)
		}
		if now := runtime.GOMAXPROCS(before); now != ps {
			t.Errorf("it leaves GOMAXPROCS=%d, and it was %d", now, ps)
		}
	}
}

// TestLoopsLive looks at a load while it goes on.
func TestLoopsLive(t *testing.T) {
	var gate sync.WaitGroup
	gate.Add(1)
	url := serve(t, func(http.ResponseWriter, *http.Request) { gate.Wait() })
	run, err := Start(t.Context(), Plan{Targets: []Target{{URL: url}}, Requests: 20, Conns: 5, Client: Client{Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	for l := run.Live(); l.Open != 5; l = run.Live() {
		if l.Open > 5 || l.Conns > 5 || l.Planned > 5 || l.Done != 0 {
			t.Fatalf("%+v", l)
		}
		time.Sleep(time.Millisecond)
	}
	gate.Done()
	run.Wait()
	if l := run.Live(); l.Open != 0 || l.Conns != 0 || l.Planned != 20 || l.Done != 20 {
		t.Errorf("at the end %+v", l)
	}
}

// TestConnectsForAll: requests that are due together get a connection each, though few are opened at once: the server answers none
// of them until it has them all.
func TestConnectsForAll(t *testing.T) {
	const n = 60
	var asked atomic.Int64
	all := make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == n {
			close(all)
		}
		select {
		case <-all:
		case <-r.Context().Done():
		}
	})
	r := do(t, Plan{Targets: []Target{{URL: url}}, Rate: 1e6, Requests: n, Conns: n, Client: Client{Timeout: 5 * time.Second}})
	if r.Good != n || r.MostConns != n {
		t.Errorf("%d good, %d connections, %v", r.Good, r.MostConns, r.Errors)
	}
}

// TestSlack: requests that may be late are sent together, none before it is due, and how late they were is reported.
func TestSlack(t *testing.T) {
	const slack = 20 * time.Millisecond
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	ticks := map[time.Duration]int{}
	r := do(t, Plan{
		Targets: []Target{{URL: url}}, Rate: 1000, Duration: 500 * time.Millisecond, Slack: slack, Client: Client{Timeout: time.Minute},
		Each: func(s *Sample) {
			if ticks[s.Ready.Truncate(slack)]++; s.Ready < s.Intended {
				t.Errorf("due at %v, and sent at %v", s.Intended, s.Ready)
			}
		},
	})
	if r.Good != 500 || len(ticks) > 30 {
		t.Errorf("%d good, sent at %d times", r.Good, len(ticks))
	}
	if late := Quantile(r.PacerLate, 50); late < slack/10 || Quantile(r.Response, 50) < late {
		t.Errorf("late by %v, responses take %v", late, Quantile(r.Response, 50))
	}
}
