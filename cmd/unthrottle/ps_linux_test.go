package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/kerneltest"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// A psLine is what the tests look at of a process in ps's document.
type psLine struct {
	PID        int    `json:"pid"`
	GoVersion  string `json:"go_version"`
	GOMAXPROCS struct {
		Value  int
		Proof  string
		Source string `json:"set_by"`
	}
	Limit struct {
		State string
		CPUs  float64
	}
	CPU     *float64 `json:"cpus_used"`
	Share   *float64 `json:"throttled_periods_share"`
	Frozen  *struct{ Share float64 }
	Verdict string
}

// psOf runs "unthrottle ps" for some processes.
func psOf(t *testing.T, pids ...int) []psLine {
	t.Helper()
	args := []string{"ps", "--json", "--for", "1s", "--sort", "pid"}
	for _, pid := range pids {
		args = append(args, strconv.Itoa(pid))
	}
	var stderr bytes.Buffer
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	var doc struct{ Processes []psLine }
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(doc.Processes) != len(pids) {
		t.Fatalf("%d processes, want %d: %s", len(doc.Processes), len(pids), out)
	}
	return doc.Processes
}

// startWorkload starts a built-in workload in a group. It ends with the test.
func startWorkload(t *testing.T, g *kerneltest.Group, procs int, name string) int {
	t.Helper()
	cmd := unthrottle(t, g, "workload", name, "--for", "1m")
	cmd.Env = append(cmd.Env, fmt.Sprint("GOMAXPROCS=", procs))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	self, err := os.Executable()
	for deadline := time.Now().Add(time.Minute); err == nil; time.Sleep(time.Millisecond) {
		dir := fmt.Sprintf("/proc/%d", cmd.Process.Pid)
		exe, err := os.Readlink(dir + "/exe")
		env, _ := os.ReadFile(dir + "/environ")
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("it runs %s, %v", exe, err)
		}
		if exe == self && len(env) > 0 { // before that it is the shell that moved into the group
			break
		}
	}
	return cmd.Process.Pid
}

// TestKernelPs looks at programs under real limits.
func TestKernelPs(t *testing.T) {
	g := kerneltest.New(t)
	g.First()
	g.EnableCPU()
	own, parent := g.Child("own"), g.Child("parent")
	own.SetQuota(10_000)
	parent.SetQuota(10_000)
	parent.EnableCPU()
	// So little that a busy machine can give it.
	limited := startWorkload(t, own, 2, "fib")
	above := startWorkload(t, parent.Child("leaf"), 2, "fib")
	free := startWorkload(t, g.Child("free"), 2, "agent")
	lines := psOf(t, limited, above, free)
	byPID := func(pid int) psLine {
		i := slices.IndexFunc(lines, func(l psLine) bool { return l.PID == pid })
		if i < 0 {
			t.Fatalf("process %d is not there", pid)
		}
		return lines[i]
	}
	for name, pid := range map[string]int{"own limit": limited, "parent's limit": above, "no limit": free} {
		l := byPID(pid)
		if g := l.GOMAXPROCS; g.Value != 2 || g.Proof != "live" && decodes() || g.Source != "environment" || l.GoVersion != runtime.Version() {
			t.Errorf("%s: %+v", name, l)
		}
	}
	for name, pid := range map[string]int{"own limit": limited, "parent's limit": above} {
		l := byPID(pid)
		if l.Limit.State != "limited" || l.Limit.CPUs != 0.1 || l.Share == nil || *l.Share < 0.5 || l.Frozen == nil || l.Frozen.Share < 0.1 ||
			l.CPU == nil || *l.CPU > 0.5 || l.Verdict != "throttled" {
			t.Errorf("%s: %+v", name, l)
		}
	}
	if l := byPID(free); l.Limit.State != "none" && l.Limit.CPUs == 0.1 || l.Share != nil && *l.Share > 0 || l.Verdict == "throttled" {
		t.Errorf("no limit: %+v", l)
	}
}

// decodes reports whether a live value can be read here.
func decodes() bool { return runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" }

// working waits until a workload has used more CPU time than it takes to start, which alongside others may be seconds later.
func working(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%v: %s", err, data)
		}
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if ticks, _ := strconv.Atoi(fields[11]); ticks > 50 {
			return
		}
	}
}

// TestKernelPsContended lets two programs want twice the CPUs that there are: that is not called throttling.
func TestKernelPsContended(t *testing.T) {
	slowtest.Skip(t)
	g := kerneltest.New(t)
	pids := []int{startWorkload(t, g, runtime.NumCPU(), "chain"), startWorkload(t, g, runtime.NumCPU(), "fib")}
	pids = append(pids, startWorkload(t, g, runtime.NumCPU(), "fib"))
	for _, pid := range pids {
		working(t, pid)
	}
	for i, l := range psOf(t, pids...) {
		if l.Verdict == "throttled" || i > 0 && l.Verdict != "contended" {
			t.Errorf("%+v", l)
		}
	}
}

func TestKernelPsFailOn(t *testing.T) {
	slowtest.Skip(t)
	g := kerneltest.New(t)
	g.SetQuota(10_000)
	pid := strconv.Itoa(startWorkload(t, g, 64, "fib"))
	for args, want := range map[string]int{
		"--fail-on=critical " + pid:                      3,
		"--fail-on=warning --verdict=fine " + pid:        0,
		"--fail-on=info no-such-name":                    1,
		"--fail-on=info --for=1ms --root=/ *unthrottle*": -1, // anything else that runs here
	} {
		cmd := exec.Command(os.Args[0], append([]string{"ps"}, strings.Fields(args)...)...)
		cmd.Env = append(os.Environ(), asCommand+"=1")
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != want && want >= 0 || code == 1 && want != 1 || code == 2 {
			t.Errorf("ps %s: exit code %d, want %d: %s", args, code, want, out)
		}
	}
}
