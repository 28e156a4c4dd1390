// Package loadtest answers: how long do users of a server wait under a load, and what did its CPU limit do meanwhile? In goes
// what is to be sent; out comes a summary, of the load and of what the kernel counted for the server, or of the search for
// the highest rate that holds an SLO. It writes nothing: who wants to watch is told.
package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/load"
	"github.com/unthrottle/unthrottle/cmd/internal/meter"
	"github.com/unthrottle/unthrottle/cmd/internal/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/search"
)

// Example is a load as it is asked for.
const Example = "unthrottle load http://localhost:8080/ --rate 500 --for 30s"

// A Session is what is to be sent, and who is told of it. Only the plan is needed.
type Session struct {
	Plan     load.Plan
	SLO      *load.SLO
	Realtime bool // the generator's threads have real-time priority
	PID      *int // of the server; nil: it is looked for, 0: it is not to be known

	Live  func(load.Live, load.Plan)      // is called now and then while requests are sent
	Tried func(w Window, windowsLeft int) // is called after each window of a search

	server   int // 0: not known
	name     string
	warnings []string
}

// Once sends the plan's requests.
func (s *Session) Once(ctx context.Context) (Summary, error) {
	s.findServer()
	sum, err := s.send(ctx, s.Plan)
	if err != nil {
		return Summary{}, err
	}
	return s.finish(sum), nil
}

// Found is what came of a search. The summary is that of the last window at the rate which is the answer.
type Found struct {
	Summary
	Answer  search.Answer
	Windows []Window
}

// FindMax looks for the highest rate that holds the SLO, in windows of this length, from the rate of start on; 0: from where
// the search starts by itself.
func (s *Session) FindMax(ctx context.Context, start float64, window time.Duration) (Found, error) {
	s.findServer()
	m, err := search.NewMaxRate(search.Config{Seed: s.Plan.Seed, Start: start})
	if err != nil {
		return Found{}, hint.Usage("--rate is where the search starts", "%w", err)
	}
	var windows []Window
	held := map[float64]Summary{} // the last window of each rate that held in it
	var best Summary              // the one with the highest rate
	for ctx.Err() == nil {
		step, more := m.Next()
		if !more {
			break
		}
		plan := s.Plan
		plan.Rate, plan.Duration, plan.Requests = step.Rate, window, 0
		plan.Seed += uint64(len(windows))
		sum, err := s.send(ctx, plan)
		if err != nil {
			return Found{}, err
		}
		if sum.Stopped {
			break
		}
		w := sum.window(string(step.Phase), step.Rate)
		windows = append(windows, w)
		if err := m.Observe(search.Observation{Rate: step.Rate, Held: w.Held, Valid: w.Valid}); err != nil {
			return Found{}, err
		}
		if w.Held {
			held[step.Rate] = sum
		}
		if best.RateAsked == nil || w.Held && step.Rate >= *best.RateAsked {
			best = sum
		}
		if s.Tried != nil {
			s.Tried(w, step.Left)
		}
	}
	if len(windows) == 0 {
		return Found{}, errors.New("interrupted before the first window was over")
	}
	answer := m.Answer()
	if sum, ok := held[answer.Sustained.Rate]; ok {
		best = sum
	}
	best.Stopped = !answer.Done
	return Found{s.finish(best), answer, windows}, nil
}

// finish adds what holds for the whole session.
func (s *Session) finish(sum Summary) Summary {
	sum.Realtime = s.Realtime
	sum.Warnings = append(sum.Warnings, s.warnings...)
	return sum
}

// send runs a plan to its end, with the server's counters read meanwhile.
func (s *Session) send(ctx context.Context, plan load.Plan) (Summary, error) {
	run, err := load.Start(ctx, plan)
	if err != nil {
		return Summary{}, hint.Usage(Example, "%w", err)
	}
	var m *meter.Meter
	if s.server != 0 {
		m = meter.Start("", s.server, 200*time.Millisecond)
	}
	s.watch(run, plan)
	var readings []meter.Reading
	var limit cgroup.Limits
	if m != nil {
		readings, limit = m.Stop(), m.Limit
	}
	res := run.Wait()
	res.Invalid = append(res.Invalid, ownLimit(limit)...)
	if res.OurFault && !s.Realtime && plan.Rate > 0 {
		s.warn("the generator had to wait for CPUs that others used: as root or with CAP_SYS_NICE it has real-time priority, and --pin gives it CPUs of its own")
	}
	sum := Summarise(res, s.SLO)
	if s.server != 0 {
		sum.addServer(s.server, s.name, limit, readings, res)
	}
	return sum, nil
}

// watch waits for the end of a load, and tells of it meanwhile.
func (s *Session) watch(run *load.Run, plan load.Plan) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-run.Ended():
			return
		case <-tick.C:
			if s.Live != nil {
				s.Live(run.Live(), plan)
			}
		}
	}
}

func (s *Session) warn(text string) {
	if !slices.Contains(s.warnings, text) {
		s.warnings = append(s.warnings, text)
	}
}

// ownLimit tells if the generator is in the group whose limit is the server's: then it has measured itself.
func ownLimit(server cgroup.Limits) []string {
	if own := cgroup.Read(cgroup.Source{}); server.State == cgroup.Limited && own.State == cgroup.Limited && own.From == server.From {
		return []string{"the generator is in the same limited group as the server: each takes the other's CPU time"}
	}
	return nil
}

// findServer looks for the process whose throttling is to be shown.
func (s *Session) findServer() {
	if s.PID != nil {
		s.setServer(*s.PID)
		return
	}
	if s.Plan.Client.Unix != "" || s.Plan.Client.Proxy != "" {
		return
	}
	for _, t := range s.Plan.Targets {
		u, err := url.Parse(t.URL)
		if err != nil {
			continue
		}
		if pid := procs.Serving("", u); pid != 0 {
			s.setServer(pid)
			return
		}
	}
}

// setServer notes the server, and its name while it lives.
func (s *Session) setServer(pid int) {
	if pid == 0 {
		return
	}
	p, err := procs.Read("", pid)
	if err != nil {
		s.warn(fmt.Sprintf("the server: %v: its throttling is not shown", err))
		return
	}
	s.server, s.name = pid, p.Name
}
