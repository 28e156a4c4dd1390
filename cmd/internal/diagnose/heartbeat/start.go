package heartbeat

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"

	"github.com/unthrottle/unthrottle/cgroup"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/watcher"
)

// ahead is how many pulses may wait to be read, ten minutes of them: a terminal that stands still must not stop the heart.
const ahead = 6000

// Options of Start.
type Options struct {
	PID     int      // a process in the group to be watched; 0 means this one
	Command []string // a command that calls Beat with its stdin and stdout
	Env     []string // for Command, besides what makes a Go program small and quiet
}

// A Heart is a running heartbeat.
type Heart struct {
	Limit cgroup.Limits // of the group at the beginning
	Group string        // its directory; "": not visible
	Moved bool          // the heartbeat was moved there

	process *watcher.Process
	pulses  chan Pulse
	done    sync.WaitGroup
	err     error
	once    sync.Once
}

// A MoveError means that the heartbeat could not be moved into the group.
type MoveError struct {
	PID int
	Err error
}

func (e *MoveError) Error() string {
	return fmt.Sprintf("joining the cgroup of process %d: %v", e.PID, e.Err)
}

func (e *MoveError) Unwrap() error { return e.Err }

// Start starts a heartbeat in the group of a process. If that is not our own group, it moves the heartbeat there, which
// takes root or a group that was delegated to this user. Nothing else is moved, and the heartbeat leaves the group by
// ending: at Stop, or a moment after this process has died.
func Start(o Options) (*Heart, error) {
	if runtime.GOOS != "linux" {
		return nil, ErrNotSupported
	}
	h := &Heart{Limit: cgroup.Read(cgroup.Source{PID: o.PID}), pulses: make(chan Pulse, ahead)}
	if len(h.Limit.Levels) > 0 {
		h.Group = h.Limit.Levels[0].Dir
	}
	var err error
	if h.process, err = watcher.Start(o.Command, 1, o.Env); err != nil {
		return nil, fmt.Errorf("starting the heartbeat: %w", err)
	}
	if err = h.join(o.PID); err == nil {
		err = h.process.Begin()
	}
	if err != nil {
		h.process.Kill()
		h.process.Wait()
		return nil, err
	}
	h.done.Go(func() {
		defer close(h.pulses)
		h.err = h.process.Lines(h.read)
		if said, ended := h.process.Wait(); h.err == nil && ended != nil {
			h.err = fmt.Errorf("the heartbeat has ended: %w", errors.Join(ended, said))
		}
	})
	return h, nil
}

// join moves the heartbeat into the group of a process, unless that is our own group.
func (h *Heart) join(pid int) error {
	if pid == 0 {
		return nil
	}
	if h.Group == "" {
		return &MoveError{pid, h.Limit.Reason}
	}
	if own := cgroup.Self(); len(own.Levels) > 0 && own.Levels[0].Dir == h.Group {
		return nil
	}
	beat := []byte(strconv.Itoa(h.process.PID()))
	err := os.WriteFile(filepath.Join(h.Group, "cgroup.procs"), beat, 0)
	if errors.Is(err, readOnly) && joinUnmounted(h.Limit, pid, beat) == nil {
		err = nil
	}
	if err != nil {
		return &MoveError{pid, err}
	}
	h.Moved = true
	return nil
}

// read takes a pulse.
func (h *Heart) read(line string) error {
	p, err := parsePulse(line)
	if err != nil {
		h.process.Kill()
		return fmt.Errorf("reading the heartbeat: %w", err)
	}
	h.pulses <- p
	return nil
}

// Pulses delivers what the heartbeat reports, ten times a second while the group runs. It must be read until it is closed, which is at
// Stop, or because the heartbeat has ended on its own.
func (h *Heart) Pulses() <-chan Pulse { return h.pulses }

// PID is the heartbeat's process.
func (h *Heart) PID() int { return h.process.PID() }

// Stop ends the heartbeat. It returns an error if the heartbeat had ended on its own.
func (h *Heart) Stop() error {
	var ended error
	h.once.Do(func() {
		if err := h.process.Kill(); errors.Is(err, os.ErrProcessDone) {
			ended = err
		}
		for range h.pulses {
		}
	})
	h.done.Wait()
	if ended != nil {
		return h.err
	}
	return nil
}
