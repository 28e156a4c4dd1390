package disturbance

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Pauses knows when the machine itself stood still since it was started, whatever its programs did. A process of its own has a thread for
// each CPU, at a priority above all that is measured, that sleeps for a millisecond again and again. Neither the program under test nor
// a neighbour can make it late: if it is, the host, its hypervisor or an interrupt had the CPU. Stolen time shows next to nothing of that.
//
// Such pauses are nearly all of the noise of a p99. A request counts or not by the time at which it was due, and by nothing that came
// of it: to leave out those that were under way would leave out more of the slow ones, whatever made them slow.
//
// Linux only, and it takes the right to a real-time priority: a thread without one waits behind the program too.
type Pauses struct {
	Record // by the machine's monotonic clock
	cmd    *exec.Cmd
	done   chan struct{}
	first  chan error // nil: it watches; and how it ended
}

// StartPauses starts a process that calls WatchPauses with its stdin and stdout, and waits until it watches, for a second at most. It ends at Stop, or
// a moment after this process has died.
func StartPauses(command []string, env ...string) (*Pauses, error) {
	if !supported {
		return nil, errNotSupported
	}
	w := &Pauses{done: make(chan struct{}), first: make(chan error, 2)}
	w.Zero = time.Now().Add(-time.Duration(now()))
	w.cmd = exec.Command(command[0], command[1:]...)
	w.cmd.Env = append(append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(runtime.NumCPU()+1), "GOGC=off", "GODEBUG=asyncpreemptoff=1"), env...)
	w.cmd.SysProcAttr = ownGroup() // Ctrl-C is for us
	var stderr strings.Builder
	w.cmd.Stderr = &stderr
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the watch for pauses: %w", err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the watch for pauses: %w", err)
	}
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the watch for pauses: %w", err)
	}
	go func() {
		defer close(w.done)
		err := w.read(out)
		w.cmd.Process.Kill()
		if ended := w.cmd.Wait(); err == nil {
			err = cmp.Or(said(stderr.String()), ended, errEnded)
		}
		w.End()
		w.first <- err
	}()
	if _, err = io.WriteString(in, "begin\n"); err == nil {
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

// patience is for a thread that something above it keeps from running, or from ending: nobody waits for it longer.
const patience = time.Second

var errSilent = errors.New("the watch for pauses is kept from running")

var errEnded = errors.New("the watch for pauses has ended by itself")

// said is the error that it wrote.
func said(text string) error {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	return errors.New(text)
}

// read reads reports until they end.
func (w *Pauses) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for first := true; lines.Scan(); first = false {
		got, err := parse(lines.Text())
		if err != nil {
			return err
		}
		w.Add(got.until, got.pauses...)
		if first {
			w.first <- nil
		}
	}
	return lines.Err()
}

// PID is the process that watches. What it uses is part of measuring.
func (w *Pauses) PID() int { return w.cmd.Process.Pid }

// Stop ends it. What it knows stays known.
func (w *Pauses) Stop() {
	w.cmd.Process.Kill()
	select {
	case <-w.done:
	case <-time.After(patience):
	}
}
