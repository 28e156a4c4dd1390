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
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/runner"
)

// A Spec is what to start.
type Spec struct {
	Args  []string
	Env   []string // instead of ours; nil: ours
	Dir   string
	Limit runner.Limit
	With  runner.With

	Each    func(line []byte) // is told each line of its output; nil: nobody
	Ready   Ready
	Timeout time.Duration // to get ready (0: a minute)
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
}

func (e *Error) Error() string {
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
	if err := spec.Ready.free(ctx); err != nil {
		return nil, err
	}
	output := newTail(spec.Ready.line, spec.Each)
	run, err := runner.Start(spec.Limit, spec.With, runner.Command{Args: spec.Args, Env: spec.Env, Dir: spec.Dir, Stdout: output, Stderr: output})
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
	ready := make(chan struct{})
	asking, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if s.spec.Ready.await(asking, s.output) {
			close(ready)
		}
	}()
	select {
	case <-ready:
		// It may have ended just then, and another have answered in its place.
		if s.over() {
			return s.failure("it ended at once: " + s.how())
		}
		return nil
	case <-s.Ended():
		return s.failure("it ended before it was ready: " + s.how())
	case <-limit.C:
		return s.failure(fmt.Sprintf("it was not ready within %v (%s)", s.spec.Timeout, s.spec.Ready))
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) over() bool {
	select {
	case <-s.Ended():
		return true
	default:
		return false
	}
}

// how says how a server has ended.
func (s *Server) how() string {
	r := s.Wait()
	switch {
	case r.OOMKills > 0:
		return "it was out of memory"
	case r.Signal != "":
		return "ended by " + r.Signal
	}
	return fmt.Sprintf("exit code %d", r.ExitCode)
}

func (s *Server) failure(why string) error {
	return &Error{strings.Join(s.spec.Args, " ") + ": " + why, s.output.last()}
}

// Check returns an error if the server has ended on its own.
func (s *Server) Check() error {
	if s.over() {
		return s.failure("it ended while it was measured: " + s.how())
	}
	return nil
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
