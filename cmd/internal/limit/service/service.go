// Package service answers: how is a server started under a limit, when is it ready, and how does it end? In goes a command
// and how it shows that it is ready; out comes a server that runs, and what its limit did to it when it has ended.
//
// A server that never gets ready, or ends on its own, is an error with the last lines that it has written: they usually
// say why.
package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/runner"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
)

// A Spec is what to start.
type Spec struct {
	Args  []string
	Env   []string // instead of ours; nil: ours
	Dir   string
	Limit runner.Limit
	With  runner.With
	Net   *runner.Network // where it is started; nil: in ours

	Each    func(line []byte) bool // takes a line of its output that was asked for; nil: none was
	Late    func(text string)      // gets what a server that is slow to get ready is waited for; nil: not reported
	Ready   Ready
	Timeout time.Duration // to get ready (0: a minute)
	Patient bool          // it gets that time, even where it is seen that it makes no use of it
	Grace   time.Duration // to end after SIGTERM (0: 5 s)
}

const (
	defaultTimeout = time.Minute
	defaultGrace   = 5 * time.Second
)

// A Server runs.
type Server struct {
	*runner.Run
	spec   Spec
	output *tail
}

// An Error is a server that did not do what it should, with the last lines of its output.
type Error struct {
	Why    string
	Output []string
	Killed bool // for lack of memory: what it wrote says nothing about that
	Apart  bool // what it wrote is not reported with it: it may hold secrets, and is kept elsewhere or not at all
}

func (e *Error) Error() string {
	if e.Killed || e.Apart {
		return e.Why
	}
	if len(e.Output) == 0 {
		return e.Why + "; it has written nothing"
	}
	return e.Why + "; it wrote last:\n    " + strings.Join(e.Output, "\n    ")
}

// Start starts a server and waits until it is ready. When it returns an error, nothing is left of the server.
func Start(ctx context.Context, spec Spec) (*Server, error) {
	if spec.Timeout == 0 {
		spec.Timeout = defaultTimeout
	}
	if spec.Grace == 0 {
		spec.Grace = defaultGrace
	}
	if err := spec.Ready.free(ctx, spec.Net); err != nil {
		return nil, err
	}
	output := newTail(spec.Ready.line, spec.Each)
	run, err := runner.Start(spec.Limit, spec.With, runner.Command{Args: spec.Args, Env: spec.Env, Dir: spec.Dir, Net: spec.Net, Stdout: output, Stderr: output})
	if err != nil {
		return nil, err
	}
	s := &Server{Run: run, spec: spec, output: output}
	if err := s.awaitReady(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// poll is how often a server is asked whether it is ready.
const poll = 20 * time.Millisecond

func (s *Server) awaitReady(ctx context.Context) error {
	limit := time.NewTimer(s.spec.Timeout)
	defer limit.Stop()
	late := time.NewTimer(lateAfter)
	defer late.Stop()
	vain := time.NewTimer(vainAfter)
	defer vain.Stop()
	ready := make(chan struct{})
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var seen answer
	go func() {
		if s.spec.Ready.await(asking, s.spec.Net, s.output, &seen) {
			close(ready)
		}
	}()
	for {
		select {
		case <-ready:
			// It may have ended just then, and another have answered in its place.
			if s.over() {
				return s.ended("at once")
			}
			return nil
		case <-late.C:
			elsewhere := s.elsewhere()
			if elsewhere != "" && !s.spec.Patient {
				return s.failure(s.spec.Ready.missing(&seen) + elsewhere)
			}
			s.late(s.spec.Ready.missing(&seen) + " so far" + elsewhere)
		case <-vain.C:
			if seen.fails() && !s.spec.Patient {
				return s.failure(s.spec.Ready.missing(&seen))
			}
		case <-s.Ended():
			return s.ended("before it was ready")
		case <-limit.C:
			return s.failure(fmt.Sprintf("it was not ready within %v (%s%s)", s.spec.Timeout, s.spec.Ready.missing(&seen), s.elsewhere()))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lateAfter is how long a server may take to get ready without a word. vainAfter is how long one is waited for that answers nothing but
// errors of its own, or listens nowhere.
const (
	lateAfter = 2 * time.Second
	vainAfter = 10 * time.Second
)

func (s *Server) late(why string) {
	if s.spec.Late != nil {
		s.spec.Late(fmt.Sprintf("%s: waiting for it, for %v at most", why, s.spec.Timeout))
	}
}

// elsewhere says where a server listens that is not where it was expected; "": nowhere else, or that can't be seen.
func (s *Server) elsewhere() string {
	if s.spec.Ready.Line != nil || s.spec.Ready.After > 0 {
		return ""
	}
	ports, _ := procs.Ports("", s.PID())
	if len(ports) == 0 || slices.Contains(ports, s.spec.Ready.port()) {
		return ""
	}
	return ", and it listens on " + inWords(ports) + " instead"
}

// inWords lists ports.
func inWords(ports []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(ports), "[]"), " ", ", ")
}

func (s *Server) over() bool {
	select {
	case <-s.Ended():
		return true
	default:
		return false
	}
}

// ended is the error of a server that has ended on its own.
func (s *Server) ended(when string) error {
	r := s.Wait()
	how := fmt.Sprintf("exit code %d", r.ExitCode)
	switch {
	case r.OOMKills > 0:
		return &Error{Why: s.spec.Limit.OutOfMemory(), Killed: true}
	case r.Signal != "":
		how = "ended by " + r.Signal
	}
	return s.failure("it ended " + when + ": " + how)
}

func (s *Server) failure(why string) error {
	return &Error{Why: strings.Join(s.spec.Args, " ") + ": " + why, Output: s.output.last()}
}

// Check returns an error if the server has ended on its own, while it was measured.
func (s *Server) Check() error { return s.CheckThat("while it was measured") }

// CheckThat returns an error if the server has ended on its own, with when that was.
func (s *Server) CheckThat(when string) error {
	if s.over() {
		return s.ended(when)
	}
	return nil
}

// Get asks the server where it is, as Get does.
func (s *Server) Get(ctx context.Context, url string) (*http.Response, error) {
	return get(ctx, s.spec.Net, url)
}

// Output returns the last lines that the server has written.
func (s *Server) Output() []string { return s.output.last() }

// Stop ends the server: it is asked to by SIGTERM, and killed if it does not obey. What it has started goes with it.
func (s *Server) Stop() (r runner.Result, obeyed bool) {
	grace := time.NewTimer(s.spec.Grace)
	defer grace.Stop()
	obeyed = true
	if err := s.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.Signal(syscall.SIGKILL) // a system without SIGTERM
	}
	select {
	case <-s.Ended():
	case <-grace.C:
		obeyed = false
		s.Signal(syscall.SIGKILL)
	}
	return s.Wait(), obeyed
}
