//go:build linux

package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/kerneltest"
	"github.com/unthrottle/unthrottle/memory"
)

// A request is one line from a test to an agent, a reply the line that it answers
// with. An agent lives until its input ends.
type (
	request struct {
		Op     string // see perform
		PID    int    // look: another process
		N      int
		Policy string
	}
	reply struct {
		Err       string
		Procs     int   // GOMAXPROCS now
		Memory    int64 // GOMEMLIMIT now
		Seen      view
		Decisions []decision // all that Watch has reported so far
	}
	decision struct {
		Procs   int
		Changed bool
		Seen    view
	}
)

// A view is cgroup.Limits with errors as text, and the counters that go with it.
type view struct {
	State, Reason string
	CPUs          float64
	From          string
	Version       cgroup.Version
	Path          string
	Levels        []level
	Affinity      int
	Warnings      []string
	Throttling    cgroup.Throttling
}

type level struct {
	Dir    string
	Quota  cgroup.Quota
	Cpuset string
	Err    string
}

func viewOf(l cgroup.Limits) view {
	v := view{
		State: l.State.String(), Reason: text(l.Reason), CPUs: l.CPUs, From: l.From,
		Version: l.Version, Path: l.Path, Affinity: l.Affinity,
	}
	for _, x := range l.Levels {
		v.Levels = append(v.Levels, level{x.Dir, x.Quota, x.Cpuset, text(x.Err)})
	}
	for _, w := range l.Warnings {
		v.Warnings = append(v.Warnings, text(w))
	}
	return v
}

// look reads everything about a process, 0 being this one.
func look(pid int) view {
	s := cgroup.Source{PID: pid}
	l := cgroup.Read(s)
	v := viewOf(l)
	v.Throttling = cgroup.ReadThrottling(s, l)
	return v
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// ---- the agent's side

// agentState is what requests leave behind in an agent.
type agentState struct {
	undo func()

	stopWatch context.CancelFunc
	watched   chan struct{} // closed when Watch has returned
	mu        sync.Mutex
	decisions []decision

	stopSpin context.CancelFunc
	spinning sync.WaitGroup
}

func runAgent(in io.Reader, out io.Writer) {
	var s agentState
	requests, replies := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var req request
		if err := requests.Decode(&req); err != nil {
			return // the test has closed the pipe, or is gone
		}
		r := reply{}
		seen, err := s.perform(req)
		r.Err, r.Seen, r.Procs, r.Memory = text(err), seen, runtime.GOMAXPROCS(0), debug.SetMemoryLimit(-1)
		s.mu.Lock()
		r.Decisions = s.decisions
		s.mu.Unlock()
		if err := replies.Encode(r); err != nil {
			return
		}
	}
}

func (s *agentState) perform(req request) (view, error) {
	switch req.Op {
	case "look":
		return look(req.PID), nil
	case "set":
		d, undo := unthrottle.Set(unthrottle.Options{Policy: policies[req.Policy]})
		s.undo = undo
		return viewOf(d.Limits), nil
	case "undo":
		s.undo()
	case "memory":
		_, s.undo = memory.Set(memory.Options{})
	case "collect":
		runtime.GC()
	case "watch":
		s.watch(time.Duration(req.N)*time.Millisecond, policies[req.Policy])
	case "unwatch":
		s.stopWatch()
		<-s.watched
	case "spin":
		s.spin(req.N)
	case "rest":
		s.stopSpin()
		s.spinning.Wait()
	case "remount":
		return view{}, remountCgroups()
	default:
		return view{}, fmt.Errorf("no operation %q", req.Op)
	}
	return view{}, nil
}

var policies = map[string]unthrottle.Policy{"": {}, "go": unthrottle.Go, "floor": unthrottle.Floor}

func (s *agentState) watch(interval time.Duration, p unthrottle.Policy) {
	ctx, cancel := context.WithCancel(context.Background())
	s.stopWatch, s.watched = cancel, make(chan struct{})
	go func() {
		defer close(s.watched)
		unthrottle.Watch(ctx, unthrottle.Options{Policy: p, Interval: interval}, func(d unthrottle.Decision) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.decisions = append(s.decisions, decision{d.Procs, d.Changed, viewOf(d.Limits)})
		})
	}()
}

// spin uses CPU time in n goroutines until "rest".
func (s *agentState) spin(n int) {
	ctx, cancel := context.WithCancel(context.Background())
	s.stopSpin = cancel
	for range n {
		s.spinning.Go(func() {
			for i := 0; i%1024 != 0 || ctx.Err() == nil; i++ {
			}
		})
	}
}

// remountCgroups does what a container runtime does: in a new cgroup namespace it mounts the cgroups again, so that the process's own group
// becomes the root. The old mount has to go, since it still shows the whole tree.
func remountCgroups() error {
	if err := syscall.Unmount(cgroupRoot, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting %s: %w", cgroupRoot, err)
	}
	if err := syscall.Mount("cgroup2", cgroupRoot, "cgroup2", 0, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", cgroupRoot, err)
	}
	return nil
}

// ---- the test's side

// An agent is a running process that answers requests.
type agent struct {
	t        *testing.T
	pid      int
	requests *json.Encoder
	replies  *json.Decoder
	stop     func() // ends the process and waits for it
	hangUp   func() // ends the process and leaves it a zombie
}

// startAgent runs cmd, and ends it before the test's groups are removed.
func startAgent(t *testing.T, cmd *exec.Cmd) *agent {
	t.Helper()
	in, out := kerneltest.Talk(t, cmd)
	a := &agent{
		t: t, pid: cmd.Process.Pid,
		requests: json.NewEncoder(in), replies: json.NewDecoder(out),
		hangUp: func() { in.Close() },
	}
	a.stop = sync.OnceFunc(func() {
		in.Close()
		cmd.Process.Kill() // it may spin, or be throttled for a long time
		if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Errorf("waiting for an agent: %v", err)
		}
	})
	t.Cleanup(a.stop)
	return a
}

// ask sends a request and waits for the answer, without a limit: the test
// binary's own timeout covers a hang.
func (a *agent) ask(req request) reply {
	a.t.Helper()
	var r reply
	if err := a.requests.Encode(req); err != nil {
		a.t.Fatalf("asking an agent for %q: %v", req.Op, err)
	}
	if err := a.replies.Decode(&r); err != nil {
		a.t.Fatalf("asking an agent for %q: %v", req.Op, err)
	}
	if r.Err != "" {
		a.t.Fatalf("asking an agent for %q: %s", req.Op, r.Err)
	}
	return r
}

func (a *agent) do(op string) reply {
	a.t.Helper()
	return a.ask(request{Op: op})
}

// until asks the agent what it sees until that is ok.
func (a *agent) until(what string, ok func(reply) bool) reply {
	a.t.Helper()
	var r reply
	if !poll(func() bool {
		r = a.do("look")
		return ok(r)
	}) {
		a.t.Fatalf("waited in vain until %s; the agent's last answer: %s", what, dump(r))
	}
	return r
}

func (a *agent) untilProcs(n int, why string) {
	a.t.Helper()
	a.until(fmt.Sprintf("GOMAXPROCS is %d (%s)", n, why), func(r reply) bool { return r.Procs == n })
}

// zombie ends the agent without waiting for it.
func (a *agent) zombie() {
	a.t.Helper()
	a.hangUp()
	if !poll(func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.pid))
		return err == nil && strings.Contains(string(stat), ") Z ")
	}) {
		a.t.Fatal("the agent does not end")
	}
}

func dump(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
