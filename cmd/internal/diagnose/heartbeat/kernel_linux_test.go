package heartbeat

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
	"github.com/unthrottle/unthrottle/internal/kerneltest"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// This test binary is the heartbeat, or a program with a number of busy threads, when HEARTBEAT_TEST says so.
func TestMain(m *testing.M) {
	switch role := os.Getenv("HEARTBEAT_TEST"); role {
	case "":
		os.Exit(m.Run())
	case "beat":
		if err := Beat(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
	default:
		threads, _ := strconv.Atoi(role)
		runtime.GOMAXPROCS(threads)
		for range threads {
			go func() {
				for began := time.Now(); time.Since(began) < time.Hour; {
				}
			}()
		}
		fmt.Println("busy")
		io.Copy(io.Discard, os.Stdin)
	}
}

// busy starts a program in g that is busy in that many threads until the test ends.
func busy(t *testing.T, g *kerneltest.Group, threads int) int {
	t.Helper()
	cmd := g.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HEARTBEAT_TEST="+strconv.Itoa(threads))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	g.Start(cmd)
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// watch watches a process's group until it has seen that much time.
func watch(t *testing.T, pid int, d time.Duration) (Observation, Evidence, Verdict) {
	t.Helper()
	h, err := Start(Options{PID: pid, Command: []string{os.Args[0]}, Env: []string{"HEARTBEAT_TEST=beat"}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Stop()
	s := NewSampler("", pid, h.Limit, h.PID(), os.Getpid())
	before := s.Sample()
	var o Observation
	for p := range h.Pulses() {
		if o.Add(p); o.Wall >= d {
			break
		}
	}
	e := Between(before, s.Sample(), h.Limit, o.CPU)
	if err := h.Stop(); err != nil {
		t.Error(err)
	}
	period := 100 * time.Millisecond
	return o, e, o.Judge(freeze.Quotas{Period: period}, e)
}

// TestKernelThrottled watches two busy threads that may use half a CPU, from outside their group.
func TestKernelThrottled(t *testing.T) {
	slowtest.Skip(t)
	g := kerneltest.New(t)
	g.SetQuota(50000)
	o, e, v := watch(t, busy(t, g, 2), 3*time.Second)
	if v.Cause != freeze.Throttled || o.Freezes == 0 || !e.Owner.Known || e.Owner.Throttled == 0 || e.Limit.String() != "limited" {
		t.Errorf("got %+v\n%+v\n%+v", v, o, e)
	}
	t.Logf("frozen %.1f %% in %d, longest %v; kernel %d of %d, %v of %v; heartbeat %v; %+v",
		100*o.Share(), o.Freezes, o.Longest, e.Owner.Throttled, e.Owner.Periods, e.Owner.ThrottledTime, e.Wall, o.CPU, v)
}

// TestKernelFree watches the same without a limit.
func TestKernelFree(t *testing.T) {
	g := kerneltest.New(t)
	o, e, v := watch(t, busy(t, g, 2), 2*time.Second)
	if v.Cause == freeze.Throttled || e.Owner.Throttled != 0 || !e.ThreadsKnown || e.Run == 0 {
		t.Errorf("got %+v\n%+v\n%+v", v, o, e)
	}
	t.Logf("frozen %.1f %%; waited %.1f %%, others %.2f; heartbeat %v; %+v", 100*o.Share(), 100*e.WaitShare(), e.Others(), o.CPU, v)
}
