package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/internal/show/report"
	"github.com/unthrottle/unthrottle/internal/kerneltest"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// TestKernelLoad loads the demo server under a limit: the load's document has what the kernel counted of the server.
func TestKernelLoad(t *testing.T) {
	slowtest.Skip(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g := kerneltest.New(t)
	g.First()
	url := listening(t, unthrottle(t, g, limited(self)...))
	client := exec.Command(self, "load", url+"/work?cpu=5ms", "--rate", "100", "--for", "2s", "--json")
	client.Env = append(os.Environ(), asCommand+"=1")
	out, err := client.Output()
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Requests int64 `json:"requests"`
		Failed   int64 `json:"failed"`
		Server   *struct {
			LimitCPUs     float64 `json:"limit_cpus"`
			Period        float64 `json:"period_seconds"`
			Periods       int64   `json:"periods"`
			Throttled     int64   `json:"throttled_periods"`
			CPUPerRequest float64 `json:"cpu_seconds_per_request"`
		} `json:"server"`
		Response struct {
			P50 float64 `json:"p50"`
		} `json:"response"`
		Axis []struct {
			Throttled *int64 `json:"throttled_periods"`
		} `json:"axis"`
	}
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// 100 requests of 5 ms a second want 0.5 CPU: with 0.3 the server falls behind, and is throttled in nearly every period.
	if d.Requests != 200 || d.Failed != 0 || d.Server == nil {
		t.Fatalf("%s", out)
	}
	if s := d.Server; s.LimitCPUs != 0.3 || s.Period != 0.1 || s.Periods < 15 || s.Throttled < s.Periods/2 || s.CPUPerRequest < 0.002 {
		t.Errorf("the server: %+v", *s)
	}
	if d.Response.P50 < 0.05 {
		t.Errorf("half of the requests took less than %v s, with a server that falls behind", d.Response.P50)
	}
	counted := false
	for _, step := range d.Axis {
		counted = counted || step.Throttled != nil && *step.Throttled > 0
	}
	if !counted {
		t.Error("no step of the axis has throttled periods")
	}
}

// limited runs the demo server under a limit of its own.
func limited(self string) []string {
	return []string{"run", "--quiet", "--limit-with=cgroup", "--cpus", "0.3", "--", self, "serve", "--listen", "127.0.0.1:0"}
}

// listening starts a demo server, and returns where it listens.
func listening(t *testing.T, server *exec.Cmd) (url string) {
	t.Helper()
	stderr, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGTERM)
		server.Wait()
	})
	line, err := bufio.NewReader(stderr).ReadString('\n')
	_, url, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", line, err)
	}
	return url
}

// TestKernelLoadNeighbour: while another program uses a CPU for a while, a load reports for how long, and what it leaves out for that. For
// a server without a group of its own it can't.
func TestKernelLoadNeighbour(t *testing.T) {
	slowtest.Plain(t) // with the detector, what watches the machine can take too long to begin
	if os.Geteuid() != 0 {
		t.Skip("it takes root to have a real-time priority")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	free := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer free.Close()
	kerneltest.New(t) // or it is skipped
	// A child of this process, which is of the program that sends, would be taken for another server of the same lab.
	started, err := exec.Command("/bin/sh", "-c", "(sleep 1; while :; do :; done) >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		t.Fatal(err)
	}
	neighbour, err := strconv.Atoi(strings.TrimSpace(string(started)))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(neighbour, syscall.SIGKILL)
	server := command(t, nil, limited(self)...)
	for url, known := range map[string]bool{listening(t, server): true, free.URL: false} {
		cmd := command(t, nil, "load", url, "--rate", "200", "--for", "3s", "--json")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var d report.Load
		if err := json.Unmarshal(out, &d); err != nil {
			t.Fatal(err)
		}
		m := d.Machine
		if m == nil {
			t.Fatalf("%s: nobody watched the machine: %q", url, d.Warnings)
		}
		if (m.Others != nil) != known {
			t.Fatalf("%s: known: %v, want %v", url, m.Others != nil, known)
		}
		if known && (m.Others.Busy <= 0 || m.Others.CPUs <= 0 || m.Others.Left == 0) || m.LeftOut()+m.Calm.Count != d.Requests {
			t.Errorf("of %d requests: %+v, %+v", d.Requests, m, m.Others)
		}
	}
}
