package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/kerneltest"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// tracedDoc is what the tests look at of trace's document.
type tracedDoc struct {
	Source     string
	Recorded   []string
	Cause      string
	Why        string
	Confidence string
	Frozen     float64  `json:"frozen_share"`
	Throttled  float64  `json:"throttled_time_share"`
	Period     *float64 `json:"period_seconds"`
	From       string   `json:"period_from"`
	Implied    *float64 `json:"implied_cpus"`
	Freezes    []struct {
		Start float64 `json:"start_seconds"`
		End   float64 `json:"end_seconds"`
	}
	Longest []struct{}
	Samples *struct{ Count int64 } `json:"cpu_samples"`
	Procs   *int                   `json:"gomaxprocs"`
	Process *struct {
		PID  int
		Live *int `json:"gomaxprocs"`
	}
	Limit  *struct{ CPUs *float64 }
	Kernel *struct {
		Periods   int64
		Throttled int64 `json:"throttled_periods"`
	}
	Warnings []string
}

// traceOf runs "unthrottle trace", and fails unless it exits with a code.
func traceOf(t *testing.T, code int, args ...string) tracedDoc {
	t.Helper()
	d, got := runTrace(t, args...)
	if got != code {
		t.Fatalf("trace %q exits with %d, want %d: the cause is %s: %s", args, got, code, d.Cause, d.Why)
	}
	return d
}

func runTrace(t *testing.T, args ...string) (d tracedDoc, code int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"trace", "--json"}, args...)...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return traced(t, cmd)
}

// traced runs a trace that prints its document.
func traced(t *testing.T, cmd *exec.Cmd) (d tracedDoc, code int) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr.Bytes())
	}
	return d, cmd.ProcessState.ExitCode()
}

// startServer starts "unthrottle serve" in a group and returns where it listens. It ends with the test.
func startServer(t *testing.T, g *kerneltest.Group, procs int) (url string) {
	t.Helper()
	cmd := unthrottle(t, g, "serve", "--listen", "127.0.0.1:0")
	cmd.Env = append(cmd.Env, fmt.Sprint("GOMAXPROCS=", procs))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line := make([]byte, 200)
	n, err := stderr.Read(line)
	found := regexp.MustCompile(`listening on (\S+)`).FindSubmatch(line[:n])
	if found == nil {
		t.Fatalf("it wrote %q, %v", line[:n], err)
	}
	go io.Copy(io.Discard, stderr) // ends with the server
	return string(found[1])
}

// ask keeps a server busy until the test ends, whether it is there or not.
func ask(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	asker := func(end chan<- struct{}) {
		defer func() { end <- struct{}{} }()
		for ctx.Err() == nil {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}
	const askers = 4
	end := make(chan struct{}, askers)
	for range askers {
		go asker(end)
	}
	go func() {
		for range askers {
			<-end
		}
		close(done)
	}()
}

// attempts: other programs of the host, tests among them, may take enough CPU time that the cause of a freeze can't be known, which the
// trace says. That lasts for some of these at most.
const attempts = 8

// check holds what is true of any trace of a program that is throttled at half a CPU.
func (d tracedDoc) check(procs int) error {
	switch {
	case d.Cause != "throttled":
		return fmt.Errorf("the cause is %s: %s", d.Cause, d.Why)
	case d.Throttled <= 0 || d.Frozen < d.Throttled || d.Frozen > 1 || len(d.Freezes) == 0 || len(d.Longest) == 0:
		return fmt.Errorf("frozen %v, throttled %v, %d freezes, %d of them the longest", d.Frozen, d.Throttled, len(d.Freezes), len(d.Longest))
	case d.Period == nil || *d.Period != 0.1 || d.From != "limit":
		return fmt.Errorf("period %v from %q", d.Period, d.From)
	case d.Implied == nil || *d.Implied <= 0 || d.Samples == nil || d.Samples.Count == 0:
		return fmt.Errorf("implied %v, samples %v", d.Implied, d.Samples)
	case d.Limit == nil || d.Limit.CPUs == nil || *d.Limit.CPUs != 0.5:
		return fmt.Errorf("limit %+v", d.Limit)
	case d.Kernel == nil || d.Kernel.Throttled == 0 || d.Kernel.Throttled > d.Kernel.Periods:
		return fmt.Errorf("kernel %+v", d.Kernel)
	case d.Procs == nil || *d.Procs != procs:
		return fmt.Errorf("GOMAXPROCS %v", d.Procs)
	}
	for _, f := range d.Freezes {
		if !(f.Start >= 0 && f.End > f.Start) {
			return fmt.Errorf("a freeze from %v to %v", f.Start, f.End)
		}
	}
	return nil
}

// TestKernelTrace takes traces of a server under a real quota, by its URL and by its PID.
func TestKernelTrace(t *testing.T) {
	slowtest.Skip(t)
	g := kerneltest.New(t)
	g.First()
	g.SetQuota(50_000)
	url := startServer(t, g, 2)
	ask(t, url+"/work?cpu=1ms")
	var d tracedDoc
	var wrong error
	for range attempts {
		d = traceOf(t, 0, "--for", "3s", url)
		if wrong = d.check(2); wrong == nil {
			break
		}
	}
	if wrong != nil {
		t.Fatal(wrong)
	}
	if d.Process == nil || decodes() && (d.Process.Live == nil || *d.Process.Live != 2) {
		t.Fatalf("the process: %+v", d.Process)
	}
	pid := d.Process.PID
	for range attempts {
		d = traceOf(t, 0, "--for", "3s", strconv.Itoa(pid))
		if wrong = d.check(2); wrong == nil {
			break
		}
	}
	if wrong != nil || d.Process.PID != pid || !strings.HasPrefix(d.Source, "http://localhost:") {
		t.Fatalf("by its PID: %v; %+v of %s", wrong, d.Process, d.Source)
	}
	code := 0
	for range attempts {
		if d, code = runTrace(t, "--for", "3s", "--fail-share", "0.1%", url); code == 3 {
			return
		}
	}
	t.Fatalf("--fail-share 0.1%%: exit code %d; the cause is %s: %s", code, d.Cause, d.Why)
}

// TestKernelTraceRecord starts the server itself.
func TestKernelTraceRecord(t *testing.T) {
	slowtest.Skip(t)
	g := kerneltest.New(t)
	g.First()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	ask(t, "http://"+address+"/work?cpu=1ms")
	t.Setenv("GOMAXPROCS", "2")
	var wrong error
	for range attempts {
		d, code := traced(t, unthrottle(t, g, "trace", "--json", "--record", "3s", "--cpus", "0.5", "--limit-with", "cgroup", "--", os.Args[0], "serve", "--listen", address))
		if code != 0 || len(d.Recorded) != 4 {
			t.Errorf("exit code %d, recorded %q", code, d.Recorded)
		}
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			t.Fatal("the program was not ended")
		}
		if wrong = d.check(2); wrong == nil {
			return
		}
	}
	t.Error(wrong)
}

// TestTraceNoPprof names processes that can't be traced.
func TestTraceNoPprof(t *testing.T) {
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Skip(err)
	}
	defer sleep.Wait()
	defer sleep.Process.Kill()
	failing := func(want string, args ...string) {
		t.Helper()
		cmd := exec.Command(os.Args[0], append([]string{"trace"}, args...)...)
		cmd.Env = append(os.Environ(), asCommand+"=1")
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
	pid := strconv.Itoa(sleep.Process.Pid)
	failing("(sleep) listens on no TCP port", pid)
	failing(`import _ "net/http/pprof"`, pid)
	failing("unthrottle/guard", pid)
	failing("pgrep", "4194305") // more than a pid can be
	failing("it ended", "--record", "1s", "--", "true")
	failing("--record wants a program that goes on running", "--record", "1s", "--", "true")
	failing("nosuchprogram", "--record", "1s", "--", "nosuchprogram")
}

// TestTraceRecordInterrupted holds that nothing is left of a program whose trace was interrupted.
func TestTraceRecordInterrupted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	cmd := exec.Command(os.Args[0], "trace", "--record", "60s", "--", os.Args[0], "serve", "--listen", address)
	temp := t.TempDir()
	cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+temp)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("the program runs on")
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}
