//go:build go1.25

package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/trace"
	"sync"
	"time"
)

// A Guard watches until it is stopped.
type Guard struct {
	o        Options
	take     func(time.Time) (look, error)
	detector detector
	recorder Recorder
	own      *trace.FlightRecorder // recorder, where it is the guard's own
	dir      *directory            // nil: Options.Save gets the snapshots
	before   look                  // the last one
	stormy   time.Time             // when a throttled period was last seen
	waiting  *Storm                // one that began before the recorder held enough
	recorded int                   // looks since the guard's own recorder was started
	saved    time.Time             // when the last snapshot was taken
	failing  bool                  // the recorder could not be started, and that was reported

	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
}

// Start begins to watch, in its own goroutine. The flight recorder wakes an idle program 60 times a second, so it is started when a period
// is throttled, and stopped after a minute without any: until then the guard costs one look a second and nothing more. If there is no limit
// yet, it waits for one, since a limit can be set while the program runs. If Start fails, the Guard is nil; Stop of a nil Guard does
// nothing.
func Start(o Options) (*Guard, error) {
	return start(o, take)
}

func start(o Options, take func(time.Time) (look, error)) (*Guard, error) {
	o = o.withDefaults()
	g := &Guard{o: o, take: take, detector: detector{minShare: o.MinShare}, recorder: o.Recorder, done: make(chan struct{})}
	k, err := take(time.Now())
	if err != nil {
		return nil, fmt.Errorf("starting the guard: %w: %w", ErrNothingToWatch, err)
	}
	if o.Save == nil {
		if g.dir, err = openDirectory(o.Dir, o.MaxFiles); err != nil {
			return nil, fmt.Errorf("starting the guard: %w", err)
		}
	}
	switch {
	case g.recorder == nil:
		g.own = trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: o.MinAge, MaxBytes: o.MaxBytes})
		g.recorder = g.own
	case !g.recorder.Enabled():
		return nil, errors.New("starting the guard: the flight recorder of Options.Recorder is not running: call its Start first")
	}
	if g.own != nil && k.limited {
		if err := g.own.Start(); err != nil {
			return nil, fmt.Errorf("starting the guard: %w (%w)", ErrRecorderInUse, err)
		}
		g.own.Stop()
	}
	g.detector.see(k)
	g.before = k
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	go g.run(ctx)
	return g, nil
}

// Stop ends the watching, and the guard's own recorder. It waits for a snapshot that is being written.
func (g *Guard) Stop() {
	if g == nil {
		return
	}
	g.cancel()
	<-g.done
	g.once.Do(func() {
		if g.own != nil {
			g.own.Stop()
		}
	})
}

func (g *Guard) run(ctx context.Context) {
	defer close(g.done)
	tick := time.NewTicker(g.o.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.look(ctx)
		}
	}
}

// look looks once, and saves what there is to save. Files that can't be read this time may be there the next.
func (g *Guard) look(ctx context.Context) {
	now := time.Now()
	k, err := g.take(now)
	if err != nil {
		return
	}
	g.record(k)
	note(k)
	storm, begins := g.detector.see(k)
	if g.waiting != nil {
		storm, begins = *g.waiting, true
	}
	if g.waiting = nil; begins && g.own != nil && g.own.Enabled() && g.recorded < enough {
		g.waiting = &storm
		return
	}
	if !begins || !g.recorder.Enabled() || !g.saved.IsZero() && now.Sub(g.saved) < g.o.Every {
		return
	}
	g.saved = now
	snapshot, err := g.save(ctx, storm)
	if err != nil {
		g.fail(fmt.Errorf("saving a snapshot: %w", err))
	}
	if g.o.OnSave != nil && (err == nil || snapshot.Path != "") {
		g.o.OnSave(snapshot)
	}
}

const (
	calm   = time.Minute // without a throttled period, and the guard's own recorder is stopped
	enough = 2           // looks, after which the recorder holds enough to be saved: twenty periods of a usual quota
)

// record starts the guard's own recorder where periods are throttled, and stops it where none are.
func (g *Guard) record(k look) {
	s, ok := between(g.before, k)
	if g.before = k; ok && s.Share > 0 {
		g.stormy = k.at
	}
	g.recorded++
	stormy := k.limited && !g.stormy.IsZero() && k.at.Sub(g.stormy) < calm
	switch {
	case g.own == nil || stormy == g.own.Enabled():
		return
	case !stormy:
		g.own.Stop()
		return
	}
	err := g.own.Start()
	if g.recorded = 0; err != nil && !g.failing {
		g.fail(fmt.Errorf("%w (%w)", ErrRecorderInUse, err))
	}
	g.failing = err != nil
}

// category is what the guard's lines in a trace are logged under: what the kernel has counted so far, as cpu.stat has it, and the quota's
// period. "unthrottle trace" compares them with the freezes that it sees.
const category = "unthrottle cpu.stat"

func note(k look) {
	if c := k.counts; c.Known && trace.IsEnabled() {
		trace.Logf(context.Background(), category, "nr_periods %d\nnr_throttled %d\nthrottled_usec %d\nperiod_usec %d\n",
			c.Periods, c.Throttled, c.ThrottledTime.Microseconds(), k.period.Microseconds())
	}
}

func (g *Guard) save(ctx context.Context, s Storm) (Snapshot, error) {
	if g.dir != nil {
		path, n, err := g.dir.write(s.To, g.recorder)
		return Snapshot{s, path, n}, err
	}
	c := &counted{from: g.recorder}
	err := g.o.Save(ctx, s, c)
	return Snapshot{Storm: s, Bytes: c.n}, err
}

func (g *Guard) fail(err error) {
	if g.o.OnError != nil {
		g.o.OnError(err)
	}
}

// counted counts what Options.Save takes.
type counted struct {
	from io.WriterTo
	n    int64
}

func (c *counted) WriteTo(w io.Writer) (int64, error) {
	n, err := c.from.WriteTo(w)
	c.n += n
	return n, err
}
