package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/kerneltest"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// ran is what the tests look at of run's document.
type ran struct {
	WallSeconds      float64 `json:"wall_seconds"`
	CPUSeconds       float64 `json:"cpu_seconds"`
	LimitCPUs        float64 `json:"limit_cpus"`
	LimitKind        string  `json:"limit_kind"`
	Periods          int64   `json:"periods"`
	ThrottledPeriods int64   `json:"throttled_periods"`
	Standstill       float64 `json:"longest_standstill_seconds"`
	PeakMemory       int64   `json:"peak_memory_bytes"`
	Needed           int64   `json:"needed_memory_bytes"`
	OOMKills         int64   `json:"oom_kills"`
	Left             int     `json:"left_processes"`
	ExitCode         int     `json:"exit_code"`
}

// unthrottle returns a command that runs this test binary as unthrottle, in a group of the test's own.
func unthrottle(t *testing.T, g *kerneltest.Group, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := g.Command(self, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// runIn runs "unthrottle run" with the kernel's own limit and returns its document.
func runIn(t *testing.T, g *kerneltest.Group, args ...string) (r ran, stdout string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.json")
	cmd := unthrottle(t, g, append([]string{"run", "--limit-with=cgroup", "--json", "-o", file}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; stderr: %s", err, stderr.Bytes())
	}
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return r, string(out)
}

// leftover lists the groups that unthrottle has made below g.
func leftover(g *kerneltest.Group) []string {
	groups, _ := filepath.Glob(filepath.Join(g.Dir, "unthrottle-run-*"))
	return groups
}

const burn = "while :; do :; done"

func TestKernelRun(t *testing.T) {
	g := kerneltest.New(t)
	r, _ := runIn(t, g, "--cpus", "0.3", "--", "timeout", "1", "sh", "-c", burn)
	if r.LimitKind != "cgroup-"+g.Version.String() || r.LimitCPUs != 0.3 || r.ExitCode != 124 {
		t.Errorf("got %+v", r)
	}
	// A standstill is seen only when we look, so there may be none on a busy machine.
	if r.Periods < 2 || r.ThrottledPeriods < 1 || r.ThrottledPeriods > r.Periods || r.Standstill > r.WallSeconds {
		t.Errorf("it was not throttled: %+v", r)
	}
	if used := r.CPUSeconds / r.WallSeconds; used <= 0 || used > 0.6 {
		t.Errorf("it used %v CPUs under a limit of 0.3", used)
	}
	if left := leftover(g); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestKernelRunPassesThrough(t *testing.T) {
	g := kerneltest.New(t)
	cmd := unthrottle(t, g, "run", "--limit-with=cgroup", "--cpus", "1", "sh", "-c", "cat; echo aside >&2; exit 7")
	cmd.Stdin = strings.NewReader("through\n")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if string(out) != "through\n" || !strings.HasPrefix(stderr.String(), "aside\n") || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("got %q, %q, %v", out, stderr.Bytes(), err)
	}
	if _, out := runIn(t, g, "--cpus", "1", "--cpuset", "0", "nproc"); out != "1\n" {
		t.Errorf("nproc says %q on one CPU", out)
	}
}

// TestKernelRunSignals sends signals to run: they are the program's, and the group is gone when it has ended by them.
func TestKernelRunSignals(t *testing.T) {
	g := kerneltest.New(t)
	for sig, script := range map[os.Signal]string{
		syscall.SIGTERM: "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done",
		os.Interrupt:    "trap 'exit 9' INT; echo ready; while :; do sleep 0.01; done",
	} {
		cmd := unthrottle(t, g, "run", "--limit-with=cgroup", "--cpus", "1", "sh", "-c", script)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.Read(make([]byte, 10))
		cmd.Process.Signal(sig)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 9 {
			t.Errorf("%v: exit code %d, want the program's own 9", sig, code)
		}
	}
	if left := leftover(g); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// TestKernelRunKilled kills run itself, which can't remove its group then: the program ends with it, and the next run
// removes the group. A group whose owner lives stays.
func TestKernelRunKilled(t *testing.T) {
	slowtest.Skip(t)
	g := kerneltest.New(t)
	start := func() (*exec.Cmd, int) {
		cmd := unthrottle(t, g, "run", "--limit-with=cgroup", "--cpus", "1", "sh", "-c", "sleep 100 & echo $$; wait")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 20)
		n, _ := out.Read(buf)
		pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
		if err != nil {
			t.Fatal(err)
		}
		return cmd, pid
	}
	alive, _ := start()
	defer alive.Wait()
	defer alive.Process.Signal(syscall.SIGTERM)
	killed, pid := start()
	killed.Process.Kill()
	killed.Process.Wait() // not for its output: the orphaned sleep holds it open
	for i := 0; syscall.Kill(pid, 0) == nil && i < 1000; i++ {
		time.Sleep(10 * time.Millisecond) // the kernel ends it with its parent, and its reaper reaps it
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("the program outlived run")
	}
	if n := len(leftover(g)); n != 2 {
		t.Fatalf("%d groups before the next run, want 2", n)
	}
	runIn(t, g, "--cpus", "1", "true")
	if n := len(leftover(g)); n != 1 {
		t.Errorf("%d groups after the next run, want only the one whose owner lives", n)
	}
}

func TestKernelRunLeftBehind(t *testing.T) {
	g := kerneltest.New(t)
	if r, _ := runIn(t, g, "--cpus", "1", "sh", "-c", "sleep 100 >/dev/null 2>&1 &"); r.Left != 1 || r.ExitCode != 0 {
		t.Errorf("got %+v", r)
	}
	if left := leftover(g); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// TestKernelRunGroups: groups that the program has made in its own, and what runs in them, do not stay either.
func TestKernelRunGroups(t *testing.T) {
	g := kerneltest.New(t)
	const service = `sleep 100 >/dev/null 2>&1 &
		part=$(echo $0/unthrottle-run-*)/service/part
		mkdir -p $part && echo $! >$part/cgroup.procs`
	if r, _ := runIn(t, g, "--cpus", "1", "sh", "-c", service, g.Dir); r.Left != 1 {
		t.Errorf("got %+v", r)
	}
	if left := leftover(g); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// TestKernelRunRefused asks for more than a parent has, which v1 refuses. The error names the rule and the parent's limit.
func TestKernelRunRefused(t *testing.T) {
	g := kerneltest.New(t)
	g.SetQuota(50000)
	g.EnableCPU()
	cmd := unthrottle(t, g, "run", "--limit-with=cgroup", "--cpus", "2", "true")
	out, _ := cmd.CombinedOutput()
	if g.Version.String() != "v1" {
		t.Skip("cgroup v2 allows it")
	}
	for _, want := range []string{"refuses 2 CPUs", "can't be above", g.Dir + " has 0.5 CPUs"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in: %s", want, out)
		}
	}
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if left := leftover(g); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestKernelRunMemory(t *testing.T) {
	g := kerneltest.New(t)
	r, _ := runIn(t, g, "--memory", "32m", "sh", "-c", "head -c 100000000 /dev/zero | tail | wc -c")
	if r.OOMKills < 1 || r.PeakMemory < 16<<20 || r.PeakMemory > 33<<20 {
		t.Errorf("got %+v", r)
	}
}

// TestKernelRunNeeded: the kernel gives up pages of files where memory is short, and none that are only in memory.
func TestKernelRunNeeded(t *testing.T) {
	const size, rest = 48 << 20, 16 << 20
	g := kerneltest.New(t)
	for _, dir := range []string{t.TempDir(), "/dev/shm"} {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "unthrottle-test-"+strconv.Itoa(os.Getpid()))
		defer os.Remove(file)
		r, _ := runIn(t, g, "--memory", "256m", "sh", "-c", "head -c "+strconv.Itoa(size)+" /dev/zero >"+file+" && sleep 0.3")
		inMemory := fs.Type == unix.TMPFS_MAGIC
		if r.PeakMemory < size || inMemory && r.Needed < size || !inMemory && (r.Needed == 0 || r.Needed > rest) {
			t.Errorf("in %s: %+v", dir, r)
		}
	}
}

// TestRunShort: a command that ends before it can be held needs no limit, and is not an error.
func TestRunShort(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		cmd := exec.Command(self, "run", "--quiet", "--limit-with=emulate", "--cpus=1", "true")
		cmd.Env = append(os.Environ(), asCommand+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// TestKernelRunEscapes: a program that leaves its limit, or changes it, is reported as such.
func TestKernelRunEscapes(t *testing.T) {
	slowtest.Skip(t)
	g := kerneltest.New(t)
	if g.Version != cgroup.V1 {
		t.Skip("the script writes files of cgroup v1")
	}
	memory, _, _, err := cgroup.Locate(cgroup.Source{}, "memory")
	if err != nil {
		t.Fatal(err)
	}
	move := func(to string) string { return "echo $$ >" + to + "/tasks; " }
	own := g.Dir + "/unthrottle-run-*"
	for _, c := range []struct{ script, want string }{
		{move(g.Dir) + "exec timeout 1 sh -c '" + burn + "'", "the program left its limit: "},
		{move(g.Dir) + "sleep 0.5", "the program left its limit: its cpu group is "},
		{move(memory) + "sleep 0.5", "the program left its limit: its memory group is "},
		{"for f in " + own + "/cpu.cfs_quota_us; do echo -1 >$f; done", "its limit was changed while it ran: "},
		{"mkdir " + own + "/own; cd " + own + "/own && " + move(".") + "sleep 0.5", ""},
	} {
		cmd := unthrottle(t, g, "run", "--limit-with=cgroup", "--cpus", "0.05", "--memory", "64MB", "--", "sh", "-c", c.script)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		cmd.Run()
		told := strings.Join(strings.Fields(stderr.String()), " ")
		if c.want == "" && strings.Contains(told, "it left") || !strings.Contains(told, c.want) {
			t.Errorf("%s: want %q: %s", c.script, c.want, stderr.Bytes())
		}
	}
}
