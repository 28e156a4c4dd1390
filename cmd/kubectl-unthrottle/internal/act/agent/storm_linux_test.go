package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unthrottle/unthrottle/cmd/internal/process/hostile"
	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/show/result"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), "\n")
}

// TestStorm: processes that end while they are looked at are no trouble, and leave nothing behind.
func TestStorm(t *testing.T) {
	for range 4 {
		storm := exec.Command("sh", "-c", "while :; do sleep 0 & sleep 0; done")
		storm.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := storm.Start(); err != nil {
			t.Fatal(err)
		}
		defer storm.Wait()
		defer syscall.Kill(-storm.Process.Pid, syscall.SIGKILL)
	}
	files := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	var log lines
	a := New(Options{Interval: 20 * time.Second, For: 100 * time.Millisecond, MaxContainers: 5, Log: slog.New(slog.NewTextHandler(&log, nil))})
	before, known := files(), 0
	for range 5 {
		s, err := a.Scan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(a.memory.processes) > len(s.Doc.Processes) {
			t.Errorf("it remembers %d processes and sees %d", len(a.memory.processes), len(s.Doc.Processes))
		}
		known = len(s.Doc.Processes) // one file each, which stays open
	}
	if now := files(); now > before+known+2 {
		t.Errorf("%d files are open, before there were %d; it knows %d programs", now, before, known)
	}
	if n := log.count(); n > 0 {
		t.Errorf("%d lines of log: %s", n, log.text.String())
	}
}

// TestLate: a scan that can't be done in time is given up and reported once.
func TestLate(t *testing.T) {
	var log lines
	a := New(Options{Interval: 20 * time.Millisecond, For: time.Hour, MaxContainers: 5, Log: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.Run(ctx)
	}()
	for a.late.Load() < 3 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
	if n := log.count(); n != 1 || a.Latest() != nil {
		t.Errorf("%d lines of log: %s", n, log.text.String())
	}
}

// TestReduced: without SYS_PTRACE it says what it does not see. A scan runs on several threads, so that the right is taken from
// a process.
func TestReduced(t *testing.T) {
	const reduced = "UNTHROTTLE_TEST_REDUCED"
	if os.Getenv(reduced) == "" {
		if os.Geteuid() != 0 {
			t.Skip("only root has SYS_PTRACE to lose")
		}
		if _, err := os.ReadFile("/proc/1/environ"); err != nil {
			t.Skip("this system refuses it with all rights, too")
		}
		out := make(chan string)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread, which has lost a right, ends
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_PTRACE, 0, 0, 0); err != nil {
				out <- err.Error()
				return
			}
			c := exec.Command("/proc/self/exe", "-test.run", "^TestReduced$", "-test.v")
			c.Env = append(os.Environ(), reduced+"=1")
			text, err := c.CombinedOutput()
			if err != nil || !strings.Contains(string(text), "PASS: TestReduced") && !strings.Contains(string(text), "SKIP: TestReduced") {
				out <- string(text) + fmt.Sprint(err)
			}
			close(out)
		}()
		if text := <-out; text != "" {
			t.Error(text)
		}
		return
	}
	s, err := New(Options{Interval: time.Minute, MaxContainers: 5}).Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile("/proc/1/environ"); err == nil {
		t.Skip("this system refuses nothing without SYS_PTRACE")
	}
	if s.Doc.Refused == 0 || !strings.Contains(strings.Join(s.Doc.Problems, "\n"), "SYS_PTRACE") {
		t.Errorf("%d are refused; problems: %q", s.Doc.Refused, s.Doc.Problems)
	}
}

// TestHung: a program whose file system has stopped answering is counted, and all others are reported.
func TestHung(t *testing.T) {
	h, _ := hostile.StartHung(t, "sleep", func(*exec.Cmd) {}, "1000")
	other := exec.Command("/proc/self/exe", "-test.run", "^TestLookedAt$")
	other.Env = append(os.Environ(), "LOOKED_AT=1")
	other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	h.Keep()
	a := New(Options{Interval: time.Minute, For: 50 * time.Millisecond, MaxContainers: 5})
	for range 2 {
		s, err := a.Scan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Doc.Stuck < 1 || !strings.Contains(strings.Join(s.Doc.Problems, "\n"), "of which the kernel tells nothing") { // another test may have one, too
			t.Errorf("%d are stuck; problems: %q", s.Doc.Stuck, s.Doc.Problems)
		}
		if !slices.ContainsFunc(s.Doc.Processes, func(p result.AgentProcess) bool { return p.PID == other.Process.Pid }) {
			t.Error("the other program is not told of")
		}
	}
	if text := gathered(t, a); strings.Contains(text, `unthrottle_agent_processes{kind="stuck"} 0`) {
		t.Error(text)
	}
}

// TestLookedAt is a program that TestHung looks at.
func TestLookedAt(t *testing.T) {
	if os.Getenv("LOOKED_AT") == "" {
		t.Skip("it is for another test")
	}
	os.Stdout.WriteString("ready\n")
	select {}
}
