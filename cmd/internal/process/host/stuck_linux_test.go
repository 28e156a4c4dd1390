package host

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/process/hostile"
	"github.com/unthrottle/unthrottle/internal/foreign"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// hung starts this test's own program from a file system that can stop answering.
func hung(t *testing.T) (*hostile.Hung, int) {
	t.Helper()
	var out io.Reader
	h, c := hostile.StartHung(t, "/proc/self/exe", func(c *exec.Cmd) {
		c.Env = append(os.Environ(), "LOOKED_AT=1", "GOMAXPROCS=3")
		var err1, err2 error
		_, err1 = c.StdinPipe()
		out, err2 = c.StdoutPipe()
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	return h, c.Process.Pid
}

// TestHung looks at a program whose file system stops answering, and answers again. All others are seen meanwhile.
func TestHung(t *testing.T) {
	slowtest.Skip(t)
	t.Run("takes no requests", func(t *testing.T) { testHung(t, (*hostile.Hung).Stop) })
	t.Run("answers none", func(t *testing.T) { testHung(t, (*hostile.Hung).Keep) })
}

func testHung(t *testing.T, hang func(*hostile.Hung)) {
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
	if r, seen := look(&before); seen == nil || seen.Live != 3 {
		t.Fatalf("while it answers it is not seen; %d are stuck", r.Stuck)
	}
	hang(h)
	var s Survey
	for range 2 { // the second look does not touch it
		if r, seen := look(&s); seen != nil || r.Stuck < 1 { // another test may have one, too
			t.Errorf("while it hangs it is seen (%v), or not said to be stuck: %d", seen != nil, r.Stuck)
		}
		if n := foreign.Behind(); n > 2 {
			t.Errorf("%d are left behind", n)
		}
	}
	if _, seen := look(&before); seen == nil || seen.Live != 3 {
		t.Error("who has seen it before sees it no more")
	}
	if p, _, err := Read("", pid); err != nil || !errors.Is(p.ProgramErr, foreign.ErrStuck) {
		t.Errorf("its program is read: %v, %v", p.ProgramErr, err)
	}
	h.Answer()
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		r, seen := look(&s)
		if seen != nil && seen.Live == 3 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after it has answered it is not seen; %d are stuck, %d left behind", r.Stuck, foreign.Behind())
		}
	}
}
