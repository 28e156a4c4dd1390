package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// TestKernelLoadPauses takes the CPUs away from everything now and then, as a hypervisor does. The load reports it, and which requests it
// leaves out.
func TestKernelLoadPauses(t *testing.T) {
	slowtest.Skip(t)
	if os.Getenv("UNTHROTTLE_REQUIRE_CGROUP") != "1" && os.Geteuid() != 0 {
		t.Skip("it takes root to have a real-time priority")
	}
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	const pauses, each = 10, 10 * time.Millisecond
	cmd := command(t, nil, "load", s.URL, "--rate", "500", "--for", "3s", "--json")
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 50}
		err := unix.SchedSetAttr(0, &attr, 0)
		for range pauses {
			time.Sleep(each)
			for began := time.Now(); err == nil && time.Since(began) < each; {
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	var d report.Load
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	m := d.Machine
	if m == nil {
		t.Fatal("nothing is known of the machine")
	}
	if m.Pauses == 0 || m.Paused < 0.5*(pauses*each).Seconds() || m.Stood == 0 || m.Stood+m.Calm.Count != d.Requests {
		t.Errorf("of %d requests: %+v", d.Requests, m)
	}
}
