package heartbeat

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

// tree writes files below a directory of the test's own.
func tree(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSampler reads a made-up cgroup v2 with two processes besides the heartbeat.
func TestSampler(t *testing.T) {
	root := t.TempDir()
	tree(t, root, map[string]string{
		"proc/self/cgroup":               "0::/app\n",
		"proc/self/mountinfo":            "1 2 0:3 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
		"proc/stat":                      "cpu  100 0 50 800 20 0 5 3 0 0\ncpu0 1\ncpu1 1\nintr 5\n",
		"proc/pressure/cpu":              "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"sys/fs/cgroup/cgroup.procs":     "1\n",
		"sys/fs/cgroup/app/cpu.max":      "50000 100000\n",
		"sys/fs/cgroup/app/cgroup.procs": "0\n10\n20\n99\n",
		"sys/fs/cgroup/app/cpu.stat":     "usage_usec 5000000\nnr_periods 10\nnr_throttled 4\nthrottled_usec 600000\n",
		"sys/fs/cgroup/app/cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1500\n",
		"proc/10/task/10/schedstat":      "1000000000 200000000 7\n",
		"proc/10/task/11/schedstat":      "5 5 1\n",
		"proc/20/task/20/schedstat":      "1 1 1\n",
		"proc/99/task/99/schedstat":      "9 9 9\n",
	})
	limit := cgroup.Read(cgroup.Source{Root: root})
	if limit.State != cgroup.Limited {
		t.Fatalf("%+v", limit)
	}
	s := NewSampler(root, 0, limit, 99)
	a := s.Sample()
	if a.Run != 0 || a.Threads != 3 || !a.ThreadsKnown {
		t.Errorf("the first sample: %+v", a)
	}
	tree(t, root, map[string]string{
		"proc/stat":                      "cpu  250 0 100 850 20 0 5 23 0 0\ncpu0 1\ncpu1 1\n",
		"proc/pressure/cpu":              "some avg10=0.00 avg60=0.00 avg300=0.00 total=701000\n",
		"sys/fs/cgroup/app/cpu.stat":     "usage_usec 5900000\nnr_periods 20\nnr_throttled 13\nthrottled_usec 1600000\n",
		"sys/fs/cgroup/app/cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=802000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=501500\n",
		"proc/10/task/10/schedstat":      "1600000000 500000000 9\n",
		"proc/20/task/20/schedstat":      "0 0 0\n", // another thread by this name
		"proc/20/task/21/schedstat":      "700000000 1 1\n",
	})
	b := s.Sample()
	b.At = a.At.Add(time.Second)
	e := Between(a, b, limit, 10*time.Millisecond)
	if e.Run != 600*time.Millisecond || e.Waited != 300*time.Millisecond || e.Threads != 4 || e.Used != 900*time.Millisecond {
		t.Errorf("threads: %+v", e)
	}
	if !e.Owner.Known || e.Owner.Periods != 10 || e.Owner.Throttled != 9 || e.Owner.ThrottledTime != time.Second || e.ThrottledShare() != 0.9 {
		t.Errorf("throttling: %+v", e)
	}
	if !e.Group.FullKnown || e.Group.Some != 800*time.Millisecond || e.Group.Full != 500*time.Millisecond || e.System.Some != 700*time.Millisecond {
		t.Errorf("pressure: %+v", e)
	}
	if e.Busy != 2*time.Second || e.Steal != 200*time.Millisecond || e.CPUs != 2 {
		t.Errorf("host: %+v", e)
	}
	if got := e.Others(); got < 1.08 || got > 1.1 {
		t.Errorf("others used %v CPUs, want 2 without the group's 0.9 and our 0.01", got)
	}
}

// TestSamplerBlind has nothing to read.
func TestSamplerBlind(t *testing.T) {
	s := NewSampler(t.TempDir(), 0, cgroup.Limits{})
	a, b := s.Sample(), s.Sample()
	if e := Between(a, b, cgroup.Limits{}, 0); e.Owner.Known || e.LocalKnown || e.ThreadsKnown || e.CPUs != 0 || e.Group.SomeKnown || e.WaitShare() != 0 || e.Others() != 0 {
		t.Errorf("%+v", e)
	}
}
