//go:build linux

package guest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/unthrottle/unthrottle/bench/vmtest"
)

// TestLoad loads the demo server under a limit on version 2: the load's document has what the kernel counted of the
// server's group, which it finds by the server's port.
func TestLoad(t *testing.T) {
	needVM(t)
	upLoopback(t)
	server := atRoot(t).command(nil, vmtest.Command, "run", "--quiet", "--limit-with=cgroup", "--cpus", "0.3", "--",
		vmtest.Command, "serve", "--listen", "127.0.0.1:0")
	server.Stderr = nil
	stderr, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	atRoot(t).start(t, server)
	defer server.Wait()
	defer server.Process.Signal(syscall.SIGTERM)
	line, err := bufio.NewReader(stderr).ReadString('\n')
	_, url, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", line, err)
	}
	var stdout, errs bytes.Buffer
	client := atRoot(t).command(nil, vmtest.Command, "load", url+"/work?cpu=5ms", "--rate", "100", "--for", "1s", "--timeout", "2m", "--json") // emulated CPUs can be slow
	client.Stdout, client.Stderr = &stdout, &errs
	atRoot(t).start(t, client)
	if err := client.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	var d struct {
		Requests int64 `json:"requests"`
		Failed   int64 `json:"failed"`
		Server   *struct {
			LimitCPUs     float64 `json:"limit_cpus"`
			Periods       int64   `json:"periods"`
			Throttled     int64   `json:"throttled_periods"`
			CPUPerRequest float64 `json:"cpu_seconds_per_request"`
		} `json:"server"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &d); err != nil {
		t.Fatalf("%v: %s", err, &stdout)
	}
	if d.Requests != 100 || d.Failed != 0 || d.Server == nil {
		t.Fatalf("%s", &stdout)
	}
	if s := *d.Server; s.LimitCPUs != 0.3 || s.Periods < 5 || s.Throttled < 1 || s.CPUPerRequest <= 0 {
		t.Errorf("the server: %+v", s)
	}
}

// upLoopback lets processes of the machine talk to each other by TCP.
func upLoopback(t *testing.T) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	var request struct { // struct ifreq
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = syscall.IFF_UP | syscall.IFF_RUNNING
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		t.Fatal(errno)
	}
}
