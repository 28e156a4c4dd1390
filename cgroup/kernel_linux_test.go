package cgroup_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/kerneltest"
)

// These tests ask the kernel that runs them. A child that burns CPU is this test binary again, with CGROUP_TEST_BURN set.

func TestMain(m *testing.M) {
	if d, err := time.ParseDuration(os.Getenv("CGROUP_TEST_BURN")); err == nil {
		for in := bufio.NewScanner(os.Stdin); ; {
			kerneltest.Burn(d)
			fmt.Println("burnt")
			if !in.Scan() { // the test has closed it
				return
			}
		}
	}
	os.Exit(m.Run())
}

// burn starts a child in g and returns its pid once it has used CPU for a while, and what lets it do so again. The child lives as long as the
// test.
func burn(t *testing.T, g *kerneltest.Group, d time.Duration) (pid int, again func()) {
	t.Helper()
	cmd := g.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CGROUP_TEST_BURN="+d.String())
	cmd.Stderr = os.Stderr
	stdin, stdout := kerneltest.Talk(t, cmd)
	out := bufio.NewReader(stdout)
	burnt := func() {
		if line, err := out.ReadString('\n'); err != nil || line != "burnt\n" {
			t.Fatalf("child said %q, %v", line, err)
		}
	}
	burnt()
	return cmd.Process.Pid, func() {
		if _, err := io.WriteString(stdin, "again\n"); err != nil {
			t.Fatal(err)
		}
		burnt()
	}
}

// throttled starts a child in g that burns until a limit has stopped it for a while. Next to other tests that may take long.
func throttled(t *testing.T, g *kerneltest.Group) (pid int) {
	t.Helper()
	pid, again := burn(t, g, time.Second)
	s := cgroup.Source{PID: pid}
	for i := 0; i < 60; i++ {
		if cgroup.ReadThrottling(s, cgroup.Read(s)).Owner.ThrottledTime >= 10*time.Millisecond {
			return pid
		}
		again()
	}
	t.Fatal("it was not throttled")
	return 0
}

func TestKernelOwnLimit(t *testing.T) {
	g := kerneltest.New(t)
	g.SetQuota(20000)
	s := cgroup.Source{PID: throttled(t, g)}
	l := cgroup.Read(s)
	if l.State != cgroup.Limited || l.CPUs != 0.2 || l.From != g.Dir || l.Version != g.Version {
		t.Fatalf("got %+v, want 0.2 CPUs from %s", l, g.Dir)
	}
	th := cgroup.ReadThrottling(s, l)
	if !th.Own.Known || th.Own.Throttled == 0 || th.Own.ThrottledTime == 0 || th.Owner != th.Own {
		t.Errorf("own level: %+v", th)
	}
	if th.Own.Throttled > th.Own.Periods {
		t.Errorf("more periods throttled than there were: %+v", th.Own)
	}
	// The group was throttled for part of a second or two on each CPU: a wrong unit is wrong by a thousand.
	if th.Own.ThrottledTime < 10*time.Millisecond || th.Own.ThrottledTime > time.Hour {
		t.Errorf("throttled time %v", th.Own.ThrottledTime)
	}
}

func TestKernelParentLimit(t *testing.T) {
	parent := kerneltest.New(t)
	parent.SetQuota(20000)
	parent.EnableCPU()
	leaf := parent.Child("leaf")
	s := cgroup.Source{PID: throttled(t, leaf)}
	l := cgroup.Read(s)
	if l.State != cgroup.Limited || l.CPUs != 0.2 || l.From != parent.Dir || l.Levels[0].Dir != leaf.Dir {
		t.Fatalf("got %+v, want 0.2 CPUs from %s", l, parent.Dir)
	}
	th := cgroup.ReadThrottling(s, l)
	if th.Own.Throttled != 0 {
		t.Errorf("the leaf counts throttled periods that are its parent's: %+v", th.Own)
	}
	if th.Owner.Dir != parent.Dir || th.Owner.Throttled == 0 {
		t.Errorf("the parent counts none: %+v", th.Owner)
	}
	if !th.LocalKnown {
		t.Skip("this kernel has no cpu.stat.local")
	}
	if th.Local == 0 {
		t.Error("cpu.stat.local of the leaf did not grow")
	}
}

func TestKernelNoLimit(t *testing.T) {
	g := kerneltest.New(t)
	pid, _ := burn(t, g, time.Millisecond)
	s := cgroup.Source{PID: pid}
	if l := cgroup.Read(s); l.State != cgroup.None || l.Affinity == 0 {
		t.Errorf("got %+v, want no limit", l)
	}
}

// TestKernelHidden mounts only the leaf, as a container runtime does, and removes the rest: the parent's quota can no longer be seen, but
// its effect can.
func TestKernelHidden(t *testing.T) {
	parent := kerneltest.New(t)
	parent.SetQuota(20000)
	parent.EnableCPU()
	leaf := parent.Child("leaf")
	pid := throttled(t, leaf)
	if l := cgroup.Read(cgroup.Source{PID: pid}); !cgroup.ReadThrottling(cgroup.Source{PID: pid}, l).LocalKnown {
		t.Skip("this kernel has no cpu.stat.local")
	}
	// A root of our own: the leaf's files, and a mountinfo that says so.
	root := t.TempDir()
	rel := strings.TrimPrefix(leaf.Dir, mountPoint(t, leaf.Dir))
	for _, name := range []string{"cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.stat", "cpu.stat.local"} {
		if data, err := os.ReadFile(leaf.Dir + "/" + name); err == nil {
			write(t, root+"/sys/fs/cgroup/"+name, string(data))
		}
	}
	if leaf.Version == cgroup.V1 {
		write(t, root+"/proc/self/cgroup", "1:cpu:"+rel+"\n")
		write(t, root+"/proc/self/mountinfo", "1 2 0:3 "+rel+" /sys/fs/cgroup ro - cgroup cgroup rw,cpu\n")
	} else {
		write(t, root+"/proc/self/cgroup", "0::/\n")
		write(t, root+"/proc/self/mountinfo", "1 2 0:3 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n")
	}
	if l := cgroup.Read(cgroup.Source{Root: root}); l.State != cgroup.Hidden {
		t.Errorf("got %+v, want hidden", l)
	}
}

func mountPoint(t *testing.T, dir string) string {
	t.Helper()
	m := cgroup.Read(cgroup.Source{}).Mount
	if !strings.HasPrefix(dir, m.Point+"/") {
		t.Fatalf("%s is not below %s", dir, m.Point)
	}
	return m.Point
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(path[:strings.LastIndexByte(path, '/')], 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestKernelCovered puts another file system over the cgroups in a mount namespace of its own: "no files" must not be
// taken for "no limit".
func TestKernelCovered(t *testing.T) {
	if os.Getenv("CGROUP_TEST_COVERED") == "1" {
		l := cgroup.Read(cgroup.Source{})
		fmt.Printf("%v %v\n", l.State, l.Reason)
		os.Exit(0)
	}
	top := cgroup.Read(cgroup.Source{})
	if len(top.Levels) == 0 {
		t.Skip("no cgroup to cover")
	}
	dir := top.Mount.Point
	cmd := exec.Command("unshare", "-m", "sh", "-c", `mount -t tmpfs none "$0" && exec "$1" -test.run '^TestKernelCovered$'`, dir, os.Args[0])
	cmd.Env = append(os.Environ(), "CGROUP_TEST_COVERED=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Skipf("can't mount over %s (needs root): %v %s", dir, err, out)
	}
	want := fmt.Sprintf("unknown reading CPU limit: %s: covered by another mount: the cgroup is not visible here\n", dir)
	if got := string(out); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestKernelAffinity(t *testing.T) {
	cmd := exec.Command("taskset", "-c", "0", "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skipf("needs taskset: %v", err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for i := 0; ; i++ { // taskset needs a moment
		l := cgroup.Read(cgroup.Source{PID: cmd.Process.Pid})
		if l.Affinity == 1 {
			break
		}
		if i == 1000 {
			t.Fatalf("affinity %d, want 1", l.Affinity)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestKernelNoSuchProcess(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	l := cgroup.Read(cgroup.Source{PID: cmd.Process.Pid})
	if l.State != cgroup.Unknown || !errors.Is(l.Reason, os.ErrNotExist) {
		t.Errorf("got %+v, want unknown because it does not exist", l)
	}
}

func TestKernelZombie(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	cmd.Process.Signal(syscall.SIGKILL)
	for i := 0; i < 50; i++ { // alive, dying and dead: none may panic
		cgroup.Read(cgroup.Source{PID: cmd.Process.Pid})
		time.Sleep(time.Millisecond)
	}
}
