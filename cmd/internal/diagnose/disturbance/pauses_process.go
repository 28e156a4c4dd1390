package disturbance

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/watcher"
)

// Pauses knows when the machine itself stood still since it was started, regardless of its programs. A process of its own has a thread for
// each CPU, at a priority above everything that is measured, that repeatedly sleeps for a millisecond. Neither the program under test nor a
// neighbour can make it late: if it is, the host, its hypervisor or an interrupt had the CPU. Stolen time shows next to nothing of that.
//
// Such pauses are nearly all of the noise of a p99. Only the time at which a request was due decides whether it counts, not what came of
// it: leaving out those that were under way would leave out more of the slow ones, regardless of what made them slow.
//
// Linux only, and it takes the right to a real-time priority: a thread without one waits behind the program too.
type Pauses struct {
	Record // by the machine's monotonic clock

	process *watcher.Process
	begun   bool // there was a report
	done    chan struct{}
	first   chan error // nil: it watches; and how it ended
}

// StartPauses starts a process that calls WatchPauses with its stdin and stdout, and waits until it watches, for at most a second. It ends
// at Stop, or a moment after this process has died.
func StartPauses(command []string, env ...string) (*Pauses, error) {
	if runtime.GOOS != "linux" {
		return nil, errNotSupported
	}
	w := &Pauses{done: make(chan struct{}), first: make(chan error, 2)}
	w.Zero = time.Now().Add(-time.Duration(now()))
	var err error
	if w.process, err = watcher.Start(command, runtime.NumCPU()+1, env); err != nil {
		return nil, fmt.Errorf("starting the watch for pauses: %w", err)
	}
	go func() {
		defer close(w.done)
		err := w.process.Lines(w.read)
		w.process.Kill()
		if said, ended := w.process.Wait(); err == nil {
			err = cmp.Or(said, ended, errEnded)
		}
		w.End()
		w.first <- err
	}()
	if err = w.process.Begin(); err == nil {
		select {
		case err = <-w.first:
		case <-time.After(patience):
			err = errSilent
		}
	}
	if err != nil {
		w.Stop()
		return nil, err
	}
	return w, nil
}

// patience is for a thread that something above it keeps from running, or from ending: nothing waits for it longer.
const patience = time.Second

var errSilent = errors.New("the watch for pauses is kept from running")

var errEnded = errors.New("the watch for pauses has ended by itself")

// read takes a report.
func (w *Pauses) read(line string) error {
	got, err := parse(line)
	if err != nil {
		return err
	}
	w.Add(got.until, got.pauses...)
	if !w.begun {
		w.begun = true
		w.first <- nil
	}
	return nil
}

// PID is the process that watches. What it uses is part of measuring.
func (w *Pauses) PID() int { return w.process.PID() }

// Stop ends it. What it knows stays known.
func (w *Pauses) Stop() {
	w.process.Kill()
	select {
	case <-w.done:
	case <-time.After(patience):
	}
}
