package trial

import (
	"context"
	"errors"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
)

// A Tour runs a server with one GOMAXPROCS after the other under the same load, while one looks on: how long users waited, what a request
// cost, and when the server stood still, the latter while it happens. It advises nothing: how one run of each looks proves nothing, and
// what is shown of one server need not hold for another.
type Tour struct {
	Server Served
	CPUs   float64 // the limit
	Procs  []int
	Load   float64       // how much of the limit the requests take with the last of them
	Each   time.Duration // how long each is looked at

	// These are called with the rate, once; and for each setting when it begins, with what is known so far, and with what came of it.
	OnRate  func(perSecond float64)
	OnBegin func(procs int)
	OnLook  func(still []Span, until float64)
	OnEnd   func(Leg)
}

// A Leg is what one setting did.
type Leg struct {
	Procs     int
	P99       float64  // seconds
	CPU       float64  // seconds, a request that was answered well
	Failed    float64  // share of the requests
	Throttled float64  // share of the periods
	Still     []Span   // when it did, from the beginning of its load on
	Doubts    []string // what the host did meanwhile, and what the generator did not
}

const (
	warmUp = 1500 * time.Millisecond
	look   = 5 * time.Millisecond // from one reading of the counters to the next
	news   = 100 * time.Millisecond
	seed   = 1 // the same requests at the same times for all
)

// Run goes through them.
func (t *Tour) Run(ctx context.Context) (legs []Leg, err error) {
	rate, err := t.rate(ctx)
	if err != nil {
		return nil, err
	}
	t.OnRate(rate)
	for _, procs := range t.Procs {
		t.OnBegin(procs)
		leg, err := t.leg(ctx, procs, rate)
		if err != nil {
			return nil, err
		}
		t.OnEnd(leg)
		legs = append(legs, leg)
	}
	return legs, nil
}

// rate is how many requests take the wanted part of the limit, with the setting that costs least. A single connection gives a
// first guess, and a look at that rate a better one: requests that come when they like cost more than those of a closed loop.
func (t *Tour) rate(ctx context.Context) (float64, error) {
	session, err := t.Server.Open(ctx, lab.Setting{CPUs: t.CPUs, Procs: t.Procs[len(t.Procs)-1]}, false)
	if err != nil {
		return 0, err
	}
	defer session.Close()
	shot := Shot{Conns: 1, WarmUp: warmUp, Lasting: time.Second, Seed: seed}
	for range 2 {
		w, err := session.Load(ctx, shot)
		if err != nil {
			return 0, err
		}
		cpu := lab.CPUPerRequest.In(w.Metrics)
		if !(cpu > 0) {
			return 0, hint.With(errors.New("the server's CPU time is not known"), "unthrottle run --cpus 1 -- unthrottle serve shows its limit on a page")
		}
		shot.Conns, shot.Rate, shot.WarmUp = 0, quantity.Significant(t.Load*t.CPUs/cpu, 2), warmUp/3
	}
	return shot.Rate, nil
}

// leg looks at one setting.
func (t *Tour) leg(ctx context.Context, procs int, rate float64) (Leg, error) {
	session, err := t.Server.Open(ctx, lab.Setting{CPUs: t.CPUs, Procs: procs}, false)
	if err != nil {
		return Leg{}, err
	}
	var w Window
	done := make(chan error, 1)
	go func() {
		var err error
		w, err = session.Load(ctx, Shot{Rate: rate, WarmUp: warmUp, Lasting: t.Each, Seed: seed})
		done <- err
	}()
	s := newStill(time.Now(), session.Counters())
	looks := time.NewTicker(look)
	defer looks.Stop()
	end, told := (warmUp + t.Each).Seconds(), 0.0
	for loading := true; loading; {
		select {
		case err = <-done:
			loading = false
		case now := <-looks.C:
			if s.see(now, session.Counters()); s.until-told >= news.Seconds() && s.until < end {
				told = s.until
				t.OnLook(s.spans, s.until)
			}
		}
	}
	run := session.Close()
	switch {
	case err != nil:
		return Leg{}, err
	case run.Error != "":
		return Leg{}, errors.New(run.Error)
	}
	t.OnLook(s.spans, min(s.until, end))
	leg := Leg{
		Procs: procs, P99: lab.P99.In(w.Metrics), CPU: lab.CPUPerRequest.In(w.Metrics), Failed: lab.ErrorShare.In(w.Metrics),
		Throttled: lab.ThrottledShare.In(w.Metrics), Still: s.spans, Doubts: run.Marks,
	}
	if !w.Valid {
		leg.Doubts = append(leg.Doubts, w.Notes...)
	}
	return leg, nil
}
