package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// A Watch follows a group for some time.
type Watch struct {
	PID     int           // of a process in the group; 0: this one
	Length  time.Duration // 0: until it is interrupted
	Command []string      // as in Options

	// Callbacks for a caller that wants to look on: once at the beginning, for each whole second that is over, and for what came after it.
	OnStart  func()
	OnSecond func(n int, since Evidence)
	OnPulse  func(n int)

	// What is known so far.
	*Heart
	Began    time.Time
	Name     string // of the process
	Seen     Observation
	Stopped  bool   // before Length was over
	Ended    string // why it ended early on its own
	Warnings []string

	sampler     *Sampler
	first, last Sample
}

// Run watches. If the heartbeat dies, died says why, and what was seen before still counts; err means that nothing was seen.
func (w *Watch) Run(ctx context.Context) (died, err error) {
	if err := w.start(); err != nil {
		return nil, err
	}
	w.follow(ctx)
	w.last = w.sampler.Sample()
	died = w.Stop()
	switch {
	case w.Seen.Beats == 0 && died != nil:
		return nil, died
	case w.Seen.Beats == 0 && ctx.Err() != nil:
		return nil, ctx.Err()
	case w.Seen.Beats == 0:
		return nil, hint.With(errors.New("the heartbeat was not heard once"), "is the cgroup frozen, or may it use hardly any CPU?")
	case died != nil:
		w.Ended = died.Error()
	}
	if now := cgroup.Read(cgroup.Source{PID: w.PID}); len(now.Levels) > 0 && (now.CPUs != w.Limit.CPUs || now.From != w.Limit.From) {
		w.Warnings = append(w.Warnings, "the limit was changed meanwhile")
	}
	return died, nil
}

// start starts the heartbeat.
func (w *Watch) start() error {
	if w.PID != 0 {
		p, err := procs.Read("", w.PID)
		if err != nil {
			return hint.With(err, "unthrottle watch without a PID watches its own cgroup")
		}
		w.Name = p.Name
	}
	heart, err := Start(Options{PID: w.PID, Command: w.Command})
	var move *MoveError
	switch {
	case errors.As(err, &move) && errors.Is(err, fs.ErrPermission):
		return hint.With(err, "run it as root, or inside the group: kubectl exec POD -- unthrottle watch")
	case errors.As(err, &move):
		return hint.With(err, "run it inside the group: kubectl exec POD -- unthrottle watch")
	case errors.Is(err, ErrNotSupported):
		return hint.With(err, "run it where the program runs: in its container")
	case err != nil:
		return err
	}
	w.Heart, w.Began = heart, time.Now()
	w.sampler = NewSampler("", w.PID, heart.Limit, heart.PID(), os.Getpid())
	w.first = w.sampler.Sample()
	w.last = w.first
	w.OnStart()
	return nil
}

// heartTimeout is how much longer than planned the heartbeat is waited for: nothing can run in a group that is frozen.
const heartTimeout = 5 * time.Second

// follow takes what the heartbeat reports until it is time to end.
func (w *Watch) follow(ctx context.Context) {
	var late <-chan time.Time
	if w.Length > 0 {
		late = time.After(w.Length + heartTimeout)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	second := 0
	for {
		select {
		case <-ctx.Done():
			w.Stopped = w.Length > 0
			return
		case <-late:
			w.Ended = fmt.Sprintf("the heartbeat has stood still since %.1f s", w.Seen.Wall.Seconds())
			return
		case p, ok := <-w.Pulses():
			if !ok {
				return // Stop knows why
			}
			w.Seen.Add(p)
			for ; w.Seen.Wall >= time.Duration(second+1)*time.Second; second++ {
				before := w.last
				w.last = w.sampler.Sample()
				w.OnSecond(second, Between(before, w.last, w.Limit, 0))
			}
			w.OnPulse(second)
			if w.Length > 0 && w.Seen.Wall >= w.Length {
				return
			}
		case <-tick.C:
			if _, err := foreign.Open("").Stat(procs.Dir("", w.PID)); w.PID != 0 && errors.Is(err, fs.ErrNotExist) {
				w.Ended = fmt.Sprintf("process %d has ended", w.PID)
				return
			}
		}
	}
}

// Evidence is what the kernel counted so far.
func (w *Watch) Evidence() Evidence {
	return Between(w.first, w.last, w.Limit, procs.OwnCPU()+w.Seen.CPU)
}
