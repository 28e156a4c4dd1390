package host

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// BenchmarkSurvey looks at 100 processes of one ordinary Go program: each time as the first look, and as one more.
func BenchmarkSurvey(b *testing.B) {
	var pids []int
	for range 100 {
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), "LOOKED_AT=1")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		in, err := c.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		defer in.Close()
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
		defer func() { c.Process.Kill(); c.Wait() }()
		pids = append(pids, c.Process.Pid)
	}
	time.Sleep(time.Second) // until they run
	count := func(b *testing.B, s func() *Survey, pids []int) {
		before, n := OwnTime(), 0
		for b.Loop() {
			if r, err := s().Read(context.Background(), Options{PIDs: pids}); err != nil || len(r.Processes) < 100 {
				b.Fatal(len(r.Processes), err)
			}
			n++
		}
		b.ReportMetric(float64(OwnTime()-before)/float64(n)/1e3, "cpu-µs/op")
	}
	b.Run("first", func(b *testing.B) { count(b, func() *Survey { return new(Survey) }, pids) })
	b.Run("again", func(b *testing.B) {
		s := new(Survey)
		count(b, func() *Survey { return s }, nil)
	})
}
