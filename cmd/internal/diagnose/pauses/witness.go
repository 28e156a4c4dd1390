package pauses

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

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/moments"
)

// A Witness knows when the machine stood still since it was started.
type Witness struct {
	moments.Record // by the machine's monotonic clock
	cmd            *exec.Cmd
	done           chan struct{}
	first          chan error // nil: it watches; and how it ended
}

// Start starts a process that calls Watch with its stdin and stdout, and waits until it watches, for a second at most. It ends at Stop, or
// a moment after this process has died.
func Start(command []string, env ...string) (*Witness, error) {
	if !supported {
		return nil, errNotSupported
	}
	w := &Witness{done: make(chan struct{}), first: make(chan error, 2)}
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
func (w *Witness) read(r io.Reader) error {
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
func (w *Witness) PID() int { return w.cmd.Process.Pid }

// Stop ends it. What it knows stays known.
func (w *Witness) Stop() {
	w.cmd.Process.Kill()
	select {
	case <-w.done:
	case <-time.After(patience):
	}
}
