package disturbance

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asWatch makes the test's program the watch.
const asWatch = "UNTHROTTLE_TEST_WATCH"

func TestMain(m *testing.M) {
	if os.Getenv(asWatch) != "" {
		if err := WatchPauses(os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func start(t *testing.T) *Pauses {
	t.Helper()
	w, err := StartPauses([]string{"/proc/self/exe"}, asWatch+"=1")
	if err != nil {
		if os.Getenv("UNTHROTTLE_REQUIRE_CGROUP") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// TestKernelPause: what keeps the CPU from everything else is seen, for as long as it does, and a program that only uses it is not.
func TestKernelPause(t *testing.T) {
	w := start(t)
	hog := func(priority uint32, lasting time.Duration) (from, to time.Time) {
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends
			attr := unix.SchedAttr{Size: unix.SizeofSchedAttr}
			if priority > 0 {
				attr.Policy, attr.Priority = unix.SCHED_FIFO, priority
			}
			err := unix.SchedSetAttr(0, &attr, 0)
			for from = time.Now(); err == nil && time.Since(from) < lasting; {
			}
			to = time.Now()
			done <- err
		}()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		w.Await(to, 10*time.Second)
		return from, to
	}
	best := 1.0
	for range 10 { // this machine has pauses of its own
		from, to := hog(0, 30*time.Millisecond)
		best = min(best, w.Between(from, to).Lasted.Seconds()/to.Sub(from).Seconds())
	}
	if best > 0.5 {
		t.Errorf("a busy thread is a pause of %.0f %% of its time", 100*best)
	}
	from, to := hog(50, 30*time.Millisecond)
	if got := w.Between(from, to); got.Lasted < to.Sub(from)*7/10 { // it may go from one CPU to another
		t.Errorf("a thread above all others, for %v: %+v", to.Sub(from), got)
	}
	if ran, known := w.Ran(from.Add(10 * time.Millisecond)); ran || !known {
		t.Errorf("meanwhile the machine ran: %v, known: %v", ran, known)
	}
}

// TestKernelEnds: the watch ends with its reader.
func TestKernelEnds(t *testing.T) {
	w := start(t)
	w.process.Kill()
	<-w.done
	w.Await(time.Now().Add(time.Hour), time.Minute)
	if _, known := w.Ran(time.Now()); known {
		t.Error("it knows what it can't have seen")
	}
	for _, command := range [][]string{{"/nonexistent"}, {"true"}, {"echo", "no", "report"}, {"sh", "-c", "echo broken >&2; exit 3"}} {
		if w, err := StartPauses(command); err == nil {
			w.Stop()
			t.Errorf("%q: no error", command)
		}
	}
	if _, err := exec.LookPath("setpriv"); err != nil || os.Geteuid() != 0 {
		t.Skip("it takes root and setpriv to do without the right")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if w, err := StartPauses([]string{"setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice", self}, asWatch+"=1"); err == nil {
		w.Stop()
		t.Error("without CAP_SYS_NICE it has a priority")
	} else if !strings.Contains(err.Error(), "CAP_SYS_NICE") {
		t.Error(err)
	}
}

// TestKernelHeld: a program with a higher priority can keep a thread from ending. Nothing waits for the thread.
func TestKernelHeld(t *testing.T) {
	w := start(t)
	var release atomic.Bool
	defer release.Store(true)
	held := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 50}, 0)
		held <- err
		for err == nil && !release.Load() {
		}
	}()
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	stopped := make(chan bool)
	go func() {
		w.Stop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Error("it is still waited for")
	}
}
