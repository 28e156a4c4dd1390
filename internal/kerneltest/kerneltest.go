// Package kerneltest answers: can this machine give a test a real CPU limit, and where is it? In goes a test; out comes a cgroup of the
// test's own, which is removed with everything in it when the test ends. Where that is not possible, the test is skipped with the reason,
// or fails if UNTHROTTLE_REQUIRE_CGROUP=1 says that it must be possible. Talk is for all tests whose programs run alongside them.
package kerneltest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
)

// A Group is a cgroup of the CPU hierarchy.
type Group struct {
	Dir     string
	Version cgroup.Version
	t       testing.TB
}

// New makes a group just below the root of the CPU hierarchy.
func New(t testing.TB) *Group {
	t.Helper()
	l := cgroup.Read(cgroup.Source{})
	if len(l.Levels) == 0 {
		skip(t, fmt.Sprintf("no cgroup to work in: %v", l.Reason))
	}
	top := &Group{Dir: l.Levels[len(l.Levels)-1].Dir, Version: l.Version, t: t}
	if l.Version == cgroup.V2 {
		data, err := os.ReadFile(filepath.Join(top.Dir, "cgroup.subtree_control"))
		if err != nil || !strings.Contains(" "+strings.TrimSpace(string(data))+" ", " cpu ") {
			skip(t, fmt.Sprintf("the cpu controller is not enabled below %s", top.Dir))
		}
	}
	g, err := top.child("unthrottle-test-" + strconv.Itoa(os.Getpid()))
	if err != nil {
		skip(t, fmt.Sprintf("can't make a cgroup (needs root): %v", err))
	}
	return g
}

func skip(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("UNTHROTTLE_REQUIRE_CGROUP") == "1" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// Child makes a group below g.
func (g *Group) Child(name string) *Group {
	g.t.Helper()
	child, err := g.child(name)
	if err != nil {
		g.t.Fatal(err)
	}
	return child
}

func (g *Group) child(name string) (*Group, error) {
	child := &Group{Dir: filepath.Join(g.Dir, name), Version: g.Version, t: g.t}
	if err := os.Mkdir(child.Dir, 0o755); err != nil {
		return nil, err
	}
	g.t.Cleanup(child.remove)
	return child, nil
}

// EnableCPU gives the children of a v2 group the cpu controller. On v1 they already have it.
func (g *Group) EnableCPU() {
	g.t.Helper()
	if g.Version == cgroup.V2 {
		g.Write("cgroup.subtree_control", "+cpu")
	}
}

// remove removes the group once its processes are gone.
func (g *Group) remove() {
	err := syscall.Rmdir(g.Dir)
	for i := 0; err == syscall.EBUSY && i < 1000; i++ {
		time.Sleep(10 * time.Millisecond)
		err = syscall.Rmdir(g.Dir)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		g.t.Errorf("removing %s: %v", g.Dir, err)
	}
}

// Write writes one of the group's files.
func (g *Group) Write(file, value string) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.Dir, file), []byte(value), 0); err != nil {
		g.t.Fatal(err)
	}
}

// SetQuota limits the group, in microseconds of each 100 ms; a quota below zero removes the limit.
func (g *Group) SetQuota(micros int) {
	g.t.Helper()
	switch {
	case g.Version == cgroup.V1:
		g.Write("cpu.cfs_quota_us", strconv.Itoa(micros))
	case micros < 0:
		g.Write("cpu.max", "max 100000")
	default:
		g.Write("cpu.max", strconv.Itoa(micros)+" 100000")
	}
}

// First lets the group's processes run before everything outside of it, so that they use up their quota on a busy machine too.
func (g *Group) First() {
	g.t.Helper()
	if g.Version == cgroup.V1 {
		g.Write("cpu.shares", "262144")
	} else {
		g.Write("cpu.weight", "10000")
	}
}

// Add moves a process into the group.
func (g *Group) Add(pid int) {
	g.t.Helper()
	g.Write("cgroup.procs", strconv.Itoa(pid))
}

// Command returns a command that runs in the group from its first instruction on.
func (g *Group) Command(name string, args ...string) *exec.Cmd {
	sh := []string{"-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, g.Dir, name}
	return exec.Command("/bin/sh", append(sh, args...)...)
}

// Start starts what Command returned, and waits until it is in the group.
func (g *Group) Start(cmd *exec.Cmd) {
	g.t.Helper()
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	for i := 0; i < 1000; i++ {
		procs, err := os.ReadFile(filepath.Join(g.Dir, "cgroup.procs"))
		if err != nil {
			g.t.Fatal(err)
		}
		if strings.Contains("\n"+string(procs), "\n"+strconv.Itoa(cmd.Process.Pid)+"\n") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	g.t.Fatalf("process %d did not come into %s", cmd.Process.Pid, g.Dir)
}

// Talk starts a command that a test talks with. It ends with the test, or before.
func Talk(t testing.TB, cmd *exec.Cmd) (in io.WriteCloser, out io.Reader) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err = cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return in, out
}

// Burn uses CPU in all threads for d.
func Burn(d time.Duration) {
	done := make(chan struct{})
	for i := 0; i < runtime.NumCPU(); i++ {
		go func() {
			for start := time.Now(); time.Since(start) < d; {
			}
			done <- struct{}{}
		}()
	}
	for i := 0; i < runtime.NumCPU(); i++ {
		<-done
	}
}
