//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest/node/setup"
)

// commands are the programs that a node can be asked to start.
var commands = map[string][]string{
	"containerd": {"/usr/bin/containerd", "--config", setup.ContainerdConfig, "--log-level", "warn"},
	"kubelet":    {setup.Programs + "/kubelet", "--config", setup.KubeletConfig, "--kubeconfig", setup.Kubeconfig, "-v=2"},
}

// A supervisor starts and ends programs, and reaps all of its children, those that others have left it too.
type supervisor struct {
	mu       sync.Mutex
	programs map[string]*program
	failed   chan error
}

// A program runs. As the first process reaps everything, nothing else may wait for it.
type program struct {
	pid     int
	stopped bool // it was asked to end
	ended   chan struct{}
}

func newSupervisor() *supervisor {
	return &supervisor{programs: map[string]*program{}, failed: make(chan error, 1)}
}

// serve handles requests until the other end is gone or a program ends on its own.
func (s *supervisor) serve(in io.Reader, out io.Writer) error {
	go s.reap()
	go func() {
		requests, replies := json.NewDecoder(in), json.NewEncoder(out)
		for {
			var r setup.Request
			if err := requests.Decode(&r); err != nil {
				s.failed <- fmt.Errorf("the test is gone: %w", err)
				return
			}
			var reply setup.Reply
			if err := s.do(r); err != nil {
				reply.Error = err.Error()
			}
			replies.Encode(reply)
		}
	}()
	return <-s.failed
}

func (s *supervisor) do(r setup.Request) error {
	switch r.Do {
	case setup.Start:
		return s.start(r.Program)
	case setup.Stop:
		return s.stop(r.Program)
	}
	return fmt.Errorf("there is nothing called %q to do", r.Do)
}

func (s *supervisor) start(name string) error {
	command, ok := commands[name]
	if !ok {
		return fmt.Errorf("there is no program called %q", name)
	}
	s.mu.Lock() // until the program is noted, so that it is not reaped unknown
	defer s.mu.Unlock()
	if s.programs[name] != nil {
		return fmt.Errorf("%s is running already", name)
	}
	if err := os.MkdirAll(setup.Logs, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(setup.Logs, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	started, err := os.StartProcess(command[0], command, &os.ProcAttr{
		Dir: "/", Env: []string{"PATH=" + searchPath, "HOME=/root"}, Files: []*os.File{null, log, log},
	})
	if err != nil {
		return err
	}
	s.programs[name] = &program{pid: started.Pid, ended: make(chan struct{})}
	return started.Release()
}

func (s *supervisor) stop(name string) error {
	s.mu.Lock()
	p := s.programs[name]
	if p != nil {
		p.stopped = true
	}
	s.mu.Unlock()
	if p == nil {
		return fmt.Errorf("%s is not running", name)
	}
	if err := syscall.Kill(p.pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("ending %s: %w", name, err)
	}
	<-p.ended
	return nil
}

func (s *supervisor) reap() {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for ; ; <-children {
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if pid <= 0 {
				break
			}
			s.gone(pid, status)
		}
	}
}

func (s *supervisor) gone(pid int, status syscall.WaitStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.programs {
		if p.pid != pid {
			continue
		}
		delete(s.programs, name)
		close(p.ended)
		if !p.stopped {
			select {
			case s.failed <- fmt.Errorf("%s has ended: %s", name, describe(status)):
			default:
			}
		}
	}
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal: " + status.Signal().String()
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}
