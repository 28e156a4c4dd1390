package agent

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// TestLate: a scan that can't be done in time is given up and told once.
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

// TestReduced: without SYS_PTRACE it says what it does not see.
func TestReduced(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has SYS_PTRACE to lose")
	}
	other := exec.Command("sleep", "100")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	type outcome struct {
		s   *Scan
		err error
	}
	done := make(chan outcome)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread, which has lost a right, ends
		var data [2]unix.CapUserData
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		err := unix.Capget(&head, &data[0])
		if err == nil {
			data[0].Effective &^= 1 << unix.CAP_SYS_PTRACE
			err = unix.Capset(&head, &data[0])
		}
		if err != nil {
			done <- outcome{nil, err}
			return
		}
		s, err := New(Options{Interval: time.Minute, MaxContainers: 5}).Scan(t.Context())
		done <- outcome{s, err}
	}()
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	doc := got.s.Doc
	if _, err := os.ReadFile("/proc/1/environ"); err != nil {
		t.Skip("this system refuses it with all rights, too")
	}
	if doc.Refused == 0 {
		t.Skip("this system refuses nothing without SYS_PTRACE")
	}
	if !strings.Contains(strings.Join(doc.Problems, "\n"), "SYS_PTRACE") {
		t.Errorf("%d are refused; problems: %q", doc.Refused, doc.Problems)
	}
}
