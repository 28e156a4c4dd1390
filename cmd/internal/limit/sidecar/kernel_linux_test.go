package sidecar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/kerneltest"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// asMeter makes the test binary a meter.
const asMeter = "PODMETER_TEST_METER"

func TestMain(m *testing.M) {
	if os.Getenv(asMeter) == "" {
		os.Exit(m.Run())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := Become(ctx)
	if err == nil {
		err = Watch(ctx, os.Stdout, Interval)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestKernelWatch looks from one container at another: two groups with the names of containers, in one process namespace. A meter that
// begins as root becomes the server's user; one that runs as another user says so.
func TestKernelWatch(t *testing.T) {
	slowtest.Skip(t)
	for _, program := range []string{"unshare", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	self := forAll(t)
	for name, test := range map[string]struct {
		server, meter uint32
		refused       string
	}{
		"both are root":         {0, 0, ""},
		"it becomes the user":   {1000, 0, ""},
		"the same user":         {1000, 1000, ""},
		"another user":          {1000, 1001, "it runs as user 1000 of group 1000, and what looks at it as user 1001 of group 1001: securityContext.runAsUser"},
		"root, and may not see": {0, 1001, "it runs as user 0 of group 0, and what looks at it as user 1001"},
	} {
		t.Run(name, func(t *testing.T) {
			g := kerneltest.New(t)
			g.EnableCPU()
			server := g.Child(idA)
			server.SetQuota(20_000)
			join := "echo 0 >" + server.Dir + "/cgroup.procs; " + joinAccounting(t, g, idA)
			as := func(uid uint32, command string) string {
				return fmt.Sprintf("exec setpriv --reuid=%d --regid=%d --clear-groups sh -c '%s'", uid, uid, command)
			}
			script := fmt.Sprintf(`(%s %s) & pid=$!; sleep 0.3; (%s); kill -9 $pid`,
				join, as(test.server, "while :; do :; done"), as(test.meter, `exec "$0"`)+" "+self)
			cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script)
			cmd.Env = append(os.Environ(), asMeter+"=1")
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil && strings.Contains(stderr.String(), "unshare failed") {
				t.Skip(stderr.String())
			}
			lines, err := Read(&stdout)
			if err != nil || len(lines) < 3 || stderr.Len() > 0 {
				t.Fatalf("%d lines, %v, %s", len(lines), err, &stderr)
			}
			begin, end := lines[0].At, lines[len(lines)-1].At
			s, err := Between(lines, idA, begin, end)
			if test.refused != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.refused) {
					t.Errorf("got %+v, %v, want %s", s, err, test.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c := s.Counters; !c.Known || c.Periods < 3 || c.Throttled < 1 || !c.CPUKnown || c.CPU <= 0 || s.Last.CPUs != 0.2 {
				t.Errorf("got %+v, a limit of %v", c, s.Last.CPUs)
			}
			if s.Last.Ran <= 0 || s.Last.Waited <= 0 {
				t.Errorf("its threads ran for %v and waited for %v", s.Last.Ran, s.Last.Waited)
			}
			if used := s.Counters.CPU.Seconds() / s.Between.Seconds(); used > 0.4 {
				t.Errorf("it used %v CPUs under a limit of 0.2", used)
			}
		})
	}
}

// forAll is a copy of the test's program that everybody may run.
func forAll(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "sidecar-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "meter")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(path, data, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// joinAccounting makes the group of the same name where CPU time is counted in a hierarchy of its own, as a container's runtime does,
// and is what joins it.
func joinAccounting(t *testing.T, g *kerneltest.Group, name string) string {
	t.Helper()
	_, v, m, err := cgroup.Locate(cgroup.Source{}, "cpuacct")
	if v != cgroup.V1 || err != nil || strings.HasPrefix(g.Dir, m.Point+"/") {
		return ""
	}
	parent := filepath.Join(m.Point, filepath.Base(g.Dir))
	dir := filepath.Join(parent, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		for range 500 {
			if syscall.Rmdir(dir) != syscall.EBUSY {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		syscall.Rmdir(parent)
	})
	return "echo 0 >" + dir + "/cgroup.procs;"
}
