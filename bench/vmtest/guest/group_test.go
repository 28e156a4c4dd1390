//go:build linux

package guest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/bench/vmtest"
)

const cgroupRoot = "/sys/fs/cgroup"

// A group is a cgroup that a test made. It is removed when the test ends.
type group struct {
	t   *testing.T
	dir string
}

// newGroup makes a cgroup below the root for the test and skips the test when it
// is not in the virtual machine.
func newGroup(t *testing.T) group {
	t.Helper()
	needVM(t)
	return group{t, cgroupRoot}.bareChild(strings.ReplaceAll(t.Name(), "/", "."))
}

// child makes a cgroup below g that has the cpu and cpuset controllers.
func (g group) child(name string) group {
	g.t.Helper()
	g.write("cgroup.subtree_control", "+cpu +cpuset")
	return g.bareChild(name)
}

// bareChild makes a cgroup below g that has the controllers of g's other children,
// if any.
func (g group) bareChild(name string) group {
	g.t.Helper()
	child := group{g.t, filepath.Join(g.dir, name)}
	if err := os.Mkdir(child.dir, 0o755); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(child.remove)
	return child
}

// remove polls: a group stays busy for a moment after its last process.
func (g group) remove() {
	if !poll(func() bool {
		err := os.Remove(g.dir)
		return err == nil || os.IsNotExist(err)
	}) {
		g.t.Errorf("%s stays busy", g.dir)
	}
}

func (g group) write(file, value string) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, file), []byte(value), 0); err != nil {
		g.t.Fatalf("writing %q: %v", value, err)
	}
}

// limit sets cpu.max: "150000 100000" or "max".
func (g group) limit(value string) {
	g.t.Helper()
	g.write("cpu.max", value)
}

func (g group) has(file string) bool {
	_, err := os.Stat(filepath.Join(g.dir, file))
	return err == nil
}

// move brings a running process into g.
func (g group) move(a *agent) {
	g.t.Helper()
	g.write("cgroup.procs", strconv.Itoa(a.pid))
}

// start runs an agent in g, from its first instruction on.
func (g group) start(change ...func(*exec.Cmd)) *agent {
	g.t.Helper()
	cmd := g.command(vmtest.TestBinary)
	cmd.Env = append(os.Environ(), agentEnv+"=1")
	for _, f := range change {
		f(cmd)
	}
	return startAgent(g.t, cmd)
}

// command makes a command that will be in g from its first instruction on.
func (g group) command(path string, args ...string) *exec.Cmd {
	g.t.Helper()
	dir, err := os.Open(g.dir)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { dir.Close() })
	cmd := exec.Command(path, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	return cmd
}

// poll waits until ok, and reports whether that happened.
func poll(ok func() bool) bool {
	for deadline := time.Now().Add(patience); ; time.Sleep(pause) {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}
