package host

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/hostile"
	"github.com/unthrottle/unthrottle/internal/foreign"
)

// hung starts this test's own program from a file system that can stop answering.
func hung(t *testing.T) (*hostile.Hung, int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	h, err := hostile.NewHung(t.TempDir(), text)
	if err != nil {
		if os.Getenv("UNTHROTTLE_REQUIRE_CGROUP") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	c := exec.Command(h.Path())
	c.Env = append(os.Environ(), "LOOKED_AT=1", "GOMAXPROCS=3")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, h.Start(c)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		c.Process.Kill()
		h.Close()
		c.Wait()
	})
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	return h, c.Process.Pid
}

// TestHung looks at a program whose file system stops answering, and answers again. All others are seen meanwhile.
func TestHung(t *testing.T) {
	h, pid := hung(t)
	other := start(t, "/proc/self/exe")
	other.ready()
	look := func(s *Survey) (r Result, seen *Process) {
		t.Helper()
		r, err := s.Read(context.Background(), Options{For: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		others := false
		for i := range r.Processes {
			switch r.Processes[i].PID {
			case pid:
				seen = &r.Processes[i]
			case other.Process.Pid:
				others = true
			}
		}
		if !others {
			t.Error("the other program is not seen")
		}
		return r, seen
	}
	var before Survey
	if r, seen := look(&before); seen == nil || seen.Live != 3 || r.Stuck != 0 {
		t.Fatalf("while it answers: %+v, %d stuck", seen, r.Stuck)
	}
	h.Hang()
	var s Survey
	for range 2 { // the second look does not touch it
		if r, seen := look(&s); seen != nil || r.Stuck != 1 {
			t.Errorf("while it hangs it is seen (%v), or not said to be stuck: %d", seen != nil, r.Stuck)
		}
		if n := foreign.Behind(); n != 1 {
			t.Errorf("%d are left behind", n)
		}
	}
	if _, seen := look(&before); seen == nil || seen.Live != 3 {
		t.Error("who has seen it before sees it no more")
	}
	if _, _, err := Read("", pid); !errors.Is(err, foreign.ErrStuck) {
		t.Errorf("it is read: %v", err)
	}
	h.Answer()
	for foreign.Behind() > 0 {
		time.Sleep(time.Millisecond)
	}
	if r, seen := look(&s); seen == nil || seen.Live != 3 || r.Stuck != 0 {
		t.Errorf("after it has answered: %+v, %d stuck", seen, r.Stuck)
	}
}
