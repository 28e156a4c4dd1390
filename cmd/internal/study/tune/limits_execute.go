package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/service"
	"github.com/unthrottle/unthrottle/cmd/internal/study/lab"
	"github.com/unthrottle/unthrottle/cmd/internal/study/trial"
)

// ExecuteLimits does what is missing of a study that asks which of several limits is needed.
func (s *Study) ExecuteLimits(ctx context.Context, l Lab) error {
	if err := s.checkPlan(); err != nil {
		return err
	}
	s.Failure = ""
	return s.ended(ctx, l, s.executeLimits(ctx, l))
}

func (s *Study) executeLimits(ctx context.Context, l Lab) error {
	limits, err := s.Limits()
	if err != nil {
		return err
	}
	x := &execution{Study: s, lab: l}
	var session Session
	defer func() {
		if session != nil {
			session.Close()
		}
	}()
	var last LimitWindow
	ended := l.begin()
	for {
		w, more := limits.Next()
		if !more {
			return nil
		}
		x.tell(limits.doing(w))
		if session != nil && !w.goesOn(last) {
			session.Close()
			session = nil
		}
		err := x.untilSeen(func() (err error) {
			session, err = x.window(ctx, session, &w)
			if err != nil && session != nil {
				session.Close()
				session = nil
			}
			return err
		})
		if err != nil {
			return err
		}
		if session != nil && w.Phase != CurvePhase {
			run := session.Close()
			if run.Killed {
				w.Held, w.Killed, w.Error = false, true, run.Error
			}
			for _, m := range []lab.Measure{lab.PeakMemory, lab.ProgramFile} {
				if v := m.In(run.Metrics); v > 0 {
					m.Set(w.Metrics, v)
				}
			}
			w.Marks, w.Disturbed = run.Marks, w.Error == "" && x.disturbed(run, w.CPUs)
			session = nil
		}
		now := l.Clock()
		w.Seconds, ended = now.Sub(ended).Round(time.Millisecond).Seconds(), now
		if err := x.lab.Record(Record{Window: &w}); err != nil {
			return err
		}
		s.Windows = append(s.Windows, w)
		if err := limits.observe(w); err != nil {
			return err
		}
		last = w
	}
}

// goesOn reports whether the server of the window before may serve this one, where the highest rate is looked for. After a window
// that broke the SLO it takes a fresh one, because of the queue that is left.
func (w LimitWindow) goesOn(last LimitWindow) bool {
	return w.Under == last.Under && w.Procs == last.Procs && last.Held && last.Error == ""
}

// doing is what a window is for, in words.
func (l *Limits) doing(w LimitWindow) string {
	try := l.find(w.Under, w.Procs)
	name, rate := l.study.Plan.name(try.LimitTry), short(w.Rate)+"/s"
	switch w.Phase {
	case CurvePhase:
		return name + ": " + rate
	case BesidePhase:
		return fmt.Sprintf("%s: what does a request cost at %s? window %d of %d", name, rate, try.beside+1, besideWindows)
	}
	return fmt.Sprintf("%s: does it hold the SLO at %s? window %d, so far %d of %d did", name, rate, try.of+1, try.held, try.of)
}

// window measures, with a server that runs or a fresh one. It returns the server that runs then, also with an error; nil: none. The
// generator warms the server up over the connections that it then measures; those of a server that runs need only be opened.
func (x *execution) window(ctx context.Context, session Session, w *LimitWindow) (Session, error) {
	const opening = 200 * time.Millisecond
	w.Valid, w.Metrics = true, map[string]float64{}
	warm := opening
	if session == nil {
		var why string
		var err error
		if session, why, err = x.openUnder(ctx, w); err != nil {
			return nil, err
		}
		if session == nil {
			w.Error, w.NoStart = why, true
			return nil, nil
		}
		if err := x.rush(ctx, session, w); err != nil {
			return session, err
		}
		warm = x.LimitWarmUp()
	}
	shot := trial.Shot{
		Rate: w.Rate, Conns: x.Plan.Conns, Const: x.Plan.Const, Burst: x.Plan.Burst, SLO: x.Plan.SLO, Seed: x.seed(w),
		WarmUp: sending(warm, w.Rate), Lasting: sending(x.LimitWindow(), w.Rate),
	}
	got, err := session.Load(ctx, shot)
	switch {
	case ctx.Err() != nil:
		return session, ctx.Err() // it was cut short: its figures are worth nothing
	case err != nil:
		return session, err
	case got.Metrics == nil:
		w.Error = "the server ended"
		return session, nil
	}
	w.Held, w.Valid, w.Requests, w.Metrics = got.SLOHeld, got.Valid, got.Requests, got.Metrics
	if goals, err := Goals(x.Plan.SLO); err == nil && w.Phase != CurvePhase {
		w.Beyond = beyond(goals, got.Slower, got.Requests, got.Metrics)
	}
	return session, nil
}

// rush keeps a fresh server overloaded for some time, with as many requests under way as arrive before clients give up, and with a busy
// thread on each CPU. Those that come at once and are answered one after the other don't show what it takes: Caddy, which answered 1,000
// of them under 48 MiB, was killed there by 1,000 connections that all sent again. And a collection that has to wait for CPUs lets more
// requests begin: go-httpbin under 128 MiB lived through all of eight overloads with the CPUs to itself, and was killed in two of four
// without.
//
// Then the load goes on, and the server has to work off what is left meanwhile. gofakes3 under 32 MiB did so whenever nothing else arrived,
// in 21 of 21 windows, and was killed within seconds where requests went on coming: a heap at its limit is collected all the time, which
// leaves too little CPU time for what arrives. What came of it is seen by whether the server lives, and by the window that follows.
func (x *execution) rush(ctx context.Context, session Session, w *LimitWindow) error {
	n := x.LimitRush(w.Rate)
	if n == 0 {
		return nil
	}
	_, err := session.Load(ctx, trial.Shot{
		Conns: n, Seed: x.seed(w), Lasting: overload, Crowded: true, Then: w.Rate, Const: x.Plan.Const, Burst: x.Plan.Burst,
	})
	return cmp.Or(ctx.Err(), err)
}

// seed is that of a window's arrivals. At the user's rate the nth window of one setting has those of the nth of another.
func (x *execution) seed(w *LimitWindow) uint64 {
	n := uint64(1)
	switch w.Phase {
	case CurvePhase:
		return x.Plan.Seed + 10*mostWindows + uint64(len(x.Windows)) + n
	case BesidePhase:
		n += mostWindows
	}
	for _, before := range x.Windows {
		if before.Phase == w.Phase && before.Under == w.Under && before.Procs == w.Procs && before.Valid && !before.Disturbed {
			n++
		}
	}
	return x.Plan.Seed + n
}

// openUnder starts the server. One that fails soon gets a second chance, for the port may not be free yet, unless it was killed for
// lack of memory; then it says why.
func (x *execution) openUnder(ctx context.Context, w *LimitWindow) (session Session, why string, err error) {
	const soon = 10 * time.Second
	setting := lab.Setting{CPUs: w.CPUs, Procs: w.Procs, Memory: w.Memory, GOMEMLIMIT: x.Plan.GOMEMLIMITUnder(w.Memory)}
	for range 2 {
		begin := x.lab.Clock()
		session, err = x.lab.Server.Open(ctx, setting, false)
		if err == nil {
			return session, "", nil
		}
		var failed *service.Error
		if !errors.As(err, &failed) || ctx.Err() != nil {
			return nil, "", cmp.Or(ctx.Err(), err)
		}
		why, w.Killed = failed.Error(), failed.Killed
		if failed.Killed || x.lab.Clock().Sub(begin) > soon {
			break
		}
	}
	return nil, why, nil
}
