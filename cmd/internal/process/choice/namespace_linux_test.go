package choice

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/kerneltest"
)

// TestContainedProcess reads a process that has a cgroup namespace and mounts of its own, as in a container: what
// ReadSystem takes for its view must be what it sees itself.
func TestContainedProcess(t *testing.T) {
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip(err)
	}
	group := kerneltest.New(t)
	group.EnableCPU()
	group.SetQuota(150000)
	child := group.Child("container")

	mount := "mount -t cgroup2 cgroup2 " + group.Dir
	if group.Version == cgroup.V1 {
		mount = "mount -t cgroup -o cpu cgroup " + group.Dir
	}
	seen := t.TempDir()
	// The new mount covers the test's own group: a directory that is sure to exist, and that no one else sees.
	script := mount + ` && cp /proc/self/cgroup /proc/self/mountinfo "$0" && echo ready && exec sleep 1000`
	cmd := child.Command("unshare", "-mC", "sh", "-c", script, seen)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Skipf("no namespaces or no mounts here: %v %q", err, line)
	}

	s := ReadSystem("", cmd.Process.Pid, unthrottle.Go)
	if s.Limits.CPUs != 1.5 || s.Limits.From != group.Dir {
		t.Errorf("limit %+v", s.Limits)
	}
	if want := readFile(t, seen, "cgroup"); cpuLine(s.cgroup) != cpuLine(want) {
		t.Errorf("cgroup: got %q, the process sees %q", cpuLine(s.cgroup), cpuLine(want))
	}
	if got, want := mountAt(s.mountinfo, group.Dir), mountAt(readFile(t, seen, "mountinfo"), group.Dir); got != want || got == "" {
		t.Errorf("mountinfo: got %q, the process sees %q", got, want)
	}
}

// TestOtherProcess reads a process that shares everything with the reader but its cgroup.
func TestOtherProcess(t *testing.T) {
	group := kerneltest.New(t)
	group.SetQuota(150000)
	cmd := group.Command("sh", "-c", "echo ready; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	s := ReadSystem("", cmd.Process.Pid, unthrottle.Go)
	if s.Limits.CPUs != 1.5 || s.Inside.CPUs != 1.5 {
		t.Errorf("limit %v, inside %v", s.Limits.CPUs, s.Inside.CPUs)
	}
	if b := s.goRuntime(Go126); b.limit != 1.5 {
		t.Errorf("Go 1.26 believes %+v", b)
	}
}

func readFile(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// cpuLine returns the line of /proc/PID/cgroup that has the CPU controller.
func cpuLine(text string) string {
	group, v1, _ := System{cgroup: text}.goGroup(Go126)
	return group + " v1=" + strconv.FormatBool(v1)
}

// mountAt returns the root of the last mount at a directory.
func mountAt(text, point string) (root string) {
	for _, line := range strings.Split(text, "\n") {
		if f := strings.Fields(line); len(f) > 5 && f[4] == point {
			root = f[3]
		}
	}
	return root
}
