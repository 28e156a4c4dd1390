package heartbeat

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/unthrottle/unthrottle/cgroup"
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

	cmd    *exec.Cmd
	pulses chan Pulse
	done   sync.WaitGroup
	err    error
	once   sync.Once
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
	if !supported {
		return nil, ErrNotSupported
	}
	h := &Heart{Limit: cgroup.Read(cgroup.Source{PID: o.PID}), pulses: make(chan Pulse, ahead)}
	if len(h.Limit.Levels) > 0 {
		h.Group = h.Limit.Levels[0].Dir
	}
	h.cmd = exec.Command(o.Command[0], o.Command[1:]...)
	// One P that is never taken away, and no garbage collection: the heartbeat allocates next to nothing.
	h.cmd.Env = append(append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1"), o.Env...)
	h.cmd.SysProcAttr = ownGroup() // Ctrl-C is for us; the heartbeat ends when we say so
	var stderr strings.Builder
	h.cmd.Stderr = &stderr
	stdin, err := h.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the heartbeat: %w", err)
	}
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the heartbeat: %w", err)
	}
	if err := h.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the heartbeat: %w", err)
	}
	if err = h.join(o.PID); err == nil {
		_, err = io.WriteString(stdin, "begin\n")
	}
	if err != nil {
		h.cmd.Process.Kill()
		h.cmd.Wait()
		return nil, err
	}
	h.done.Go(func() {
		defer close(h.pulses)
		h.err = h.read(stdout)
		if err := h.cmd.Wait(); h.err == nil && err != nil {
			h.err = fmt.Errorf("the heartbeat has ended: %w", errors.Join(err, text(stderr.String())))
		}
	})
	return h, nil
}

func text(s string) error {
	if s = strings.TrimSpace(s); s == "" {
		return nil
	}
	return errors.New(s)
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
	beat := []byte(strconv.Itoa(h.cmd.Process.Pid))
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

// read reads pulses until the heartbeat ends.
func (h *Heart) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p, err := parsePulse(lines.Text())
		if err != nil {
			h.cmd.Process.Kill()
			return fmt.Errorf("reading the heartbeat: %w", err)
		}
		h.pulses <- p
	}
	return lines.Err()
}

// Pulses delivers what the heartbeat reports, ten times a second while the group runs. It must be read until it is closed, which
// is at Stop, or because the heartbeat has ended by itself.
func (h *Heart) Pulses() <-chan Pulse { return h.pulses }

// PID is the heartbeat's process.
func (h *Heart) PID() int { return h.cmd.Process.Pid }

// Stop ends the heartbeat. It returns an error if the heartbeat had ended by itself.
func (h *Heart) Stop() error {
	var ended error
	h.once.Do(func() {
		if err := h.cmd.Process.Kill(); errors.Is(err, os.ErrProcessDone) {
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
