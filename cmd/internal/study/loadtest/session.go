// Package loadtest answers: how long do users of a server wait under a load, and what did its CPU limit do meanwhile? In goes what to send;
// out comes a summary, of the load and of what the kernel counted for the server, or of the search for the highest rate that holds an SLO.
// It writes nothing: callers who want to watch are called back.
package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/disturbance"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/quantity"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/cmd/internal/study/search"
	"github.com/unthrottle/unthrottle/cmd/internal/traffic/load"
)

// Example is a load as one asks for it.
const Example = "unthrottle load http://localhost:8080/ --rate 500 --for 30s"

// A Session is what to send, and what to call meanwhile. Only the plan is needed.
type Session struct {
	Plan     load.Plan
	SLO      *load.SLO
	Realtime bool // the generator's threads have real-time priority
	PID      *int // of the server; nil: it is looked for, 0: don't look for it

	Witness *disturbance.Pauses // of when the machine stood still; nil: none

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

// A Hunt is how the highest rate is looked for. The zero value is usable.
type Hunt struct {
	Start  float64       // the first rate; 0: from what closed loops show
	Window time.Duration // at each rate; 0: as long as it must be
	For    time.Duration // in all, at most, regardless of the machine; 0: 40 s, or some windows where these were given
}

// lasting is how long a search may take.
func (h Hunt) lasting() time.Duration {
	if h.For > 0 {
		return h.For
	}
	return max(inAll, someWindows*h.Window)
}

// FindMax looks for the highest rate that holds the SLO.
func (s *Session) FindMax(ctx context.Context, h Hunt) (Found, error) {
	s.findServer()
	ends := time.Now().Add(h.lasting())
	within, cancel := context.WithDeadline(ctx, ends) // a window that the machine makes last longer is cut off
	defer cancel()
	var f finding
	plan, config, near := s.Plan, search.Config{Start: h.Start}, false
	if h.Start == 0 {
		capacity, conns, err := s.capacity(within, ends, &f)
		if err != nil {
			return Found{}, err
		}
		config.Start, near = roundRate(beginAt*capacity), capacity > 0
		if plan.Conns == 0 {
			plan.Conns = conns
		}
	}
	m, err := search.NewHighest(config, near)
	if err != nil {
		return Found{}, hint.Usage("--rate is where the search starts", "%w", err)
	}
	for ctx.Err() == nil {
		step, more := m.Next()
		if !more {
			break
		}
		s.at(&plan, step.Rate, h.Window)
		plan.Seed = s.Plan.Seed + uint64(len(f.windows))
		each := plan.WarmUp + plan.Duration + between
		if time.Until(ends) < each {
			if m.Stop(); m.Answer().Verdict == search.Unconfirmed {
				s.warn("the time was up before the highest rate was confirmed: --for gives it more")
			}
			break
		}
		sum, err := s.send(within, plan)
		if err == nil {
			err = sum.HopelessError()
		}
		if err != nil {
			return Found{}, err
		}
		if sum.Stopped {
			continue // it was interrupted, or there is no time for another
		}
		w := sum.window(string(step.Phase), step.Rate)
		if err := m.Observe(search.Observation{Rate: step.Rate, Held: w.Held, Valid: w.Valid}); err != nil {
			return Found{}, err
		}
		f.add(sum, w)
		if s.Tried != nil {
			s.Tried(w, max(0, min(m.Left(), int(time.Until(ends)/each))))
		}
	}
	if len(f.windows) == 0 {
		if ctx.Err() == nil {
			return Found{}, fmt.Errorf("%v is too short for a window", h.lasting())
		}
		return Found{}, errors.New("interrupted before the first window was over")
	}
	answer := m.Answer()
	best := f.summary(answer.Sustained.Rate)
	best.Stopped = !answer.Done
	return Found{s.finish(best), answer, f.windows}, nil
}

// at makes of a plan that of a window at a rate.
func (s *Session) at(p *load.Plan, rate float64, window time.Duration) {
	p.Rate, p.Duration, p.WarmUp, p.Requests = rate, window, s.Plan.WarmUp, 0
	if window == 0 {
		p.Duration = s.windowAt(rate)
		if rate*opening.Seconds() >= 1 {
			p.WarmUp = max(p.WarmUp, opening)
		}
	}
	p.Slack, p.Grace = mostSlack, s.grace()
	for _, l := range s.SLO.Latencies {
		p.Slack = min(p.Slack, l.Limit/slackOf)
	}
}

// grace is how long answers are waited for after a window, unless the user has said it. What is not there by then has missed.
func (s *Session) grace() time.Duration {
	most := time.Duration(0)
	for _, l := range s.SLO.Latencies {
		most = max(most, l.Limit)
	}
	if s.Plan.Grace > 0 || most == 0 {
		return s.Plan.Grace
	}
	return max(2*most, leastGrace)
}

// A finding is what a search has seen.
type finding struct {
	windows []Window
	held    map[float64]Summary // the last window of each rate that held in it
	best    *Summary            // of those that held the one with the highest rate; the last where none did
}

func (f *finding) add(sum Summary, w Window) {
	f.windows = append(f.windows, w)
	if w.Held && w.Phase != closedPhase {
		if f.held == nil {
			f.held = map[float64]Summary{}
		}
		f.held[w.Rate] = sum
	}
	if f.best == nil || f.best.RateAsked == nil || w.Held && w.Rate >= *f.best.RateAsked {
		f.best = &sum
	}
}

// summary is of the last window that held at a rate, or of the best that there is.
func (f *finding) summary(rate float64) Summary {
	if sum, ok := f.held[rate]; ok {
		return sum
	}
	return *f.best
}

// How the search is begun, and how long its windows are.
const (
	inAll       = 40 * time.Second
	someWindows = 16
	between     = 100 * time.Millisecond // two windows
	probing     = 750 * time.Millisecond // each number of connections
	probeWarm   = 250 * time.Millisecond
	fewest      = 16                     // connections
	most        = 256                    // of those that are tried
	grows       = 1.1                    // more connections are tried where they do this many times as much
	plenty      = 4                      // times as many connections as closed loops had use for are enough
	beginAt     = 0.9                    // of what a closed loop does: it sends when the server has time, users do not
	inDoubt     = 0.5                    // where the SLO is missed even so
	opening     = 200 * time.Millisecond // of connections, before each window
	shortest    = 1500 * time.Millisecond
	longest     = 3 * time.Second
	forTail     = 1000 // requests: ten are beyond p99
	longerThan  = 20   // times what the SLO allows: at a rate that is a twentieth too high the queue is that long by then
	slackOf     = 100  // of what the SLO allows is the generator's, to do several things at once
	mostSlack   = 500 * time.Microsecond
	leastGrace  = time.Second
)

// capacity is what closed loops do, of which none is at fault for being late: the most that held the SLO, or a part of the
// most of all. With it comes how many connections are enough for any rate; 0: not known.
//
// More than that would do harm: a server that is short of CPU time for a moment would get a thousand connections at once, each
// of which costs it many times as much as a request. The requests wait here instead of there, and that counts as well.
func (s *Session) capacity(ctx context.Context, ends time.Time, f *finding) (rate float64, conns int, err error) {
	var highest, held float64
	for try := fewest; try <= most && time.Until(ends) > probeWarm+probing; try *= 4 {
		plan := s.Plan
		plan.Rate, plan.Burst, plan.Requests, plan.Duration, plan.WarmUp, plan.Grace, plan.Conns = 0, 0, 0, probing, probeWarm, s.grace(), try
		if s.Plan.Conns > 0 {
			plan.Conns = min(try, s.Plan.Conns)
		}
		sum, err := s.send(ctx, plan)
		if err == nil {
			err = sum.HopelessError()
		}
		if err != nil || sum.Stopped {
			return 0, 0, err
		}
		if len(sum.Statuses) == 0 && len(sum.Causes) > 0 {
			err := fmt.Errorf("no request was answered: %s", sum.Causes[0].Cause)
			return 0, 0, hint.With(err, "is the server running, and is the URL right?")
		}
		rate := roundRate(sum.Rate * float64(sum.Requests-sum.Failed) / float64(max(1, sum.Requests)))
		w := sum.window(closedPhase, rate)
		f.add(sum, w)
		if s.Tried != nil {
			s.Tried(w, 0)
		}
		if w.Held {
			held = max(held, rate)
		}
		enough := rate < grows*highest || plan.Conns < try
		if highest = max(highest, rate); enough {
			conns = plenty * try / 4 // those before had done as much
			break
		}
	}
	if held > 0 {
		return held, conns, nil
	}
	return inDoubt * highest, conns, nil
}

// closedPhase is that of the windows in which closed loops showed what the server can do.
const closedPhase = "closed"

// roundRate is for rates shown next to those of the search, which have as many digits.
func roundRate(rate float64) float64 { return quantity.Significant(rate, 3) }

// windowAt is how long a window must be at a rate: for enough requests, and for a queue that grows to be seen.
func (s *Session) windowAt(rate float64) time.Duration {
	need := time.Duration(forTail / rate * float64(time.Second))
	for _, l := range s.SLO.Latencies {
		need = max(need, longerThan*l.Limit)
	}
	return min(max(need.Round(100*time.Millisecond), shortest), longest)
}

// finish adds what concerns the whole session.
func (s *Session) finish(sum Summary) Summary {
	sum.Realtime = s.Realtime
	sum.Warnings = append(sum.Warnings, s.warnings...)
	return sum
}

// send runs a plan to its end, with the server's counters read meanwhile.
func (s *Session) send(ctx context.Context, plan load.Plan) (Summary, error) {
	before := procs.HostNow()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var others *disturbance.Neighbours
	if s.Witness != nil {
		plan.Witnesses = []load.Witness{s.Witness}
		if others = s.neighbours(); others != nil {
			defer others.Stop()
			plan.Witnesses = append(plan.Witnesses, others)
		}
	}
	run, err := load.Start(ctx, plan)
	if err != nil {
		return Summary{}, hint.Usage(Example, "%w", err)
	}
	var m *host.Meter
	if s.server != 0 {
		m = host.StartMeter("", s.server, 200*time.Millisecond)
	}
	s.watch(run, plan, cancel)
	var readings []host.Reading
	var limit cgroup.Limits
	if m != nil {
		readings, limit = m.Stop(), m.Limit
	}
	res := run.Wait()
	after := procs.HostNow()
	res.Invalid = append(res.Invalid, ownLimit(limit)...)
	sum := Summarise(res, s.SLO)
	if s.Witness != nil && s.Witness.Ended() { // what it saw in part of the time, itself perhaps, would be reported for all of it
		sum.Machine, others = nil, nil
	}
	if m := sum.Machine; m != nil {
		end := res.Began.Add(res.Elapsed)
		t := s.Witness.Between(res.Began, end)
		m.Pauses, m.Paused, m.Longest = t.Count, t.Lasted.Seconds(), t.Longest.Seconds()
		if others != nil {
			m.Others = &Others{others.CPUs(res.Began, end), others.Between(res.Began, end).Lasted.Seconds(), res.LeftOut[1]}
		}
	}
	if res.Elsewhere != "" {
		s.warn("redirects lead to " + res.Elsewhere + ": not followed, and counted as answers")
	}
	if s.server != 0 {
		sum.addServer(s.server, s.name, limit, readings, res)
	}
	server := time.Duration(0)
	if n := len(readings); n > 0 {
		server = readings[n-1].CPU - readings[0].CPU
	}
	blamed := false // for being late, with what else ran
	if res.Late() && res.Hopeless == "" {
		sum.LateBecause = append(sum.LateBecause, lateBecause(before, after, res, server, s.Realtime, root())...)
		if blamed = res.OurFault && len(sum.LateBecause) > 0; blamed {
			s.warn("the generator was late: " + strings.Join(sum.LateBecause, ", and "))
		}
	}
	if text := besideIt(before, after, res, server, server > 0 || s.elsewhere()); text != "" && others == nil && !blamed {
		sum.Warnings = append(sum.Warnings, text)
	}
	return sum, nil
}

// neighbours looks at what others use besides the server; nil: it can't be seen.
func (s *Session) neighbours() *disturbance.Neighbours {
	if s.server == 0 {
		return nil
	}
	w, err := disturbance.StartNeighbours(s.server, s.Witness.PID())
	if err != nil {
		return nil // the server has no limit, or it is that of everything here: it is no one's fault
	}
	return w
}

// patience is how long a load may come to nothing before it is ended.
const patience = time.Second

// watch waits for the end of a load, and reports on it meanwhile. It ends one that is hopeless.
func (s *Session) watch(run *load.Run, plan load.Plan, end func()) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-run.Ended():
			return
		case <-tick.C:
			live := run.Live()
			if live.Elapsed >= patience && run.Hopeless() != "" {
				end()
			}
			if s.Live != nil {
				s.Live(live, plan)
			}
		}
	}
}

func (s *Session) warn(text string) {
	if !slices.Contains(s.warnings, text) {
		s.warnings = append(s.warnings, text)
	}
}

// ownLimit warns if the generator is in the group whose limit is the server's: then it has measured itself.
func ownLimit(server cgroup.Limits) []string {
	if own := cgroup.Read(cgroup.Source{}); server.State == cgroup.Limited && own.State == cgroup.Limited && own.From == server.From {
		return []string{"the generator is in the same limited group as the server: each takes the other's CPU time"}
	}
	return nil
}

// findServer looks for the process whose throttling to show.
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

// elsewhere reports whether the server is known to be on another machine.
func (s *Session) elsewhere() bool {
	return s.Plan.Client.Unix == "" && s.Plan.Client.Proxy == "" && !slices.ContainsFunc(s.Plan.Targets, func(t load.Target) bool {
		u, err := url.Parse(t.URL)
		return err != nil || procs.IsLocal(u.Hostname())
	})
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
