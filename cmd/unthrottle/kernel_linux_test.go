package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/unthrottle/unthrottle/internal/kerneltest"
)

// explained is what the test looks at of explain's document.
type explained struct {
	Limit struct {
		State string
		CPUs  *float64
		From  string
	}
	GOMAXPROCS struct {
		Value     *int
		Source    string
		Predicted bool
	}
	Go *struct{ Version string }
}

// explain runs this test binary as the command.
func explain(t *testing.T, cmd *exec.Cmd) (e explained) {
	t.Helper()
	cmd.Env = append(os.Environ(), asCommand+"=1", "GOMAXPROCS=")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &e); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return e
}

// TestKernelExplain explains processes in a real cgroup whose parent has the limit, in all three ways.
func TestKernelExplain(t *testing.T) {
	parent := kerneltest.New(t)
	parent.SetQuota(70000)
	parent.EnableCPU()
	leaf := parent.Child("leaf")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sleep := leaf.Command("sleep", "300")
	leaf.Start(sleep)
	defer sleep.Wait()
	defer sleep.Process.Kill()

	check := func(name string, e explained) {
		if e.Limit.State != "limited" || e.Limit.CPUs == nil || *e.Limit.CPUs != 0.7 || e.Limit.From != parent.Dir {
			t.Errorf("%s: got %+v, want 0.7 CPUs from %s", name, e.Limit, parent.Dir)
		}
	}
	e := explain(t, exec.Command(self, "explain", "--json", strconv.Itoa(sleep.Process.Pid)))
	check("pid", e)
	if e.GOMAXPROCS.Value != nil || e.Go != nil {
		t.Errorf("sleep is not a Go program: %+v", e)
	}
	e = explain(t, leaf.Command(self, "explain", "--json"))
	check("this shell", e)
	if e.GOMAXPROCS.Value == nil || e.GOMAXPROCS.Predicted {
		t.Errorf("this shell: got %+v", e.GOMAXPROCS)
	}
	check("command", explain(t, leaf.Command(self, "explain", "--json", "--", "sleep", "0.5")))
}

// TestHiddenProc runs the command where there is neither /proc nor /sys: it knows its own GOMAXPROCS and says what it
// doesn't know.
func TestHiddenProc(t *testing.T) {
	root := t.TempDir()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(root+"/unthrottle", self, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("chroot", root, "/unthrottle", "explain", "--json")
	cmd.Env = append(os.Environ(), asCommand+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Skipf("can't run in a bare root (needs root, and a static binary): %v %s", err, out)
	}
	var e explained
	if err := json.Unmarshal(out, &e); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if e.Limit.State != "unknown" || e.Limit.CPUs != nil || e.GOMAXPROCS.Value == nil || e.Go == nil {
		t.Errorf("got %s", out)
	}
}
