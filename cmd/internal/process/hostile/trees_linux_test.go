package hostile

import (
	"bytes"
	"errors"
	"fmt"
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
	"github.com/unthrottle/unthrottle/cmd/internal/command/bug"
	"github.com/unthrottle/unthrottle/cmd/internal/process/host"
	"github.com/unthrottle/unthrottle/internal/foreign"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// memory is more than anything here needs, and less than what any of them would take.
const memory = 300 << 20

// TestTrees reads each tree by all that explain reads.
func TestTrees(t *testing.T) {
	for _, tree := range Trees() {
		t.Run(tree.Name, func(t *testing.T) {
			root, err := tree.Make(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				var before, after runtime.MemStats
				var p host.Process
				for range 3 { // a machine that is busy may look as if it did not answer
					runtime.ReadMemStats(&before)
					if p, _, err = host.Read(root, 7); !errors.Is(err, foreign.ErrStuck) {
						break
					}
				}
				if err != nil {
					t.Error(err)
				}
				l := p.System.Limits
				cgroup.ReadThrottling(cgroup.Source{Root: root, PID: 7}, l)
				cgroup.ReadMemory(cgroup.Source{Root: root, PID: 7})
				files := bug.Collect(root, 7)
				runtime.ReadMemStats(&after)
				said := fmt.Sprint(l.Reason, l.Warnings)
				if !strings.Contains(said, tree.Want) || l.CPUs == 9 {
					t.Errorf("%v CPUs, %s, want %q", l.CPUs, said, tree.Want)
				}
				if strings.Contains(fmt.Sprint(files), "900000") {
					t.Error("the reader's own file is in the report")
				}
				if used := after.TotalAlloc - before.TotalAlloc; used > memory {
					t.Errorf("it took %d MiB", used>>20)
				}
			}()
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Fatal("it does not end")
			}
		})
	}
}

// start starts a process as the user nobody.
func start(t *testing.T, p Process) int {
	t.Helper()
	l := cgroup.Read(cgroup.Source{})
	if os.Geteuid() != 0 || len(l.Levels) == 0 {
		skip(t, "needs root, to become nobody, and a cgroup")
	}
	dir, err := os.MkdirTemp("", "hostile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("unshare", "-Urm", "sh", "-c", p.Script)
	c.Env = append(os.Environ(), "point="+l.Mount.Point, "quota="+filepath.Base(l.Levels[0].File(l.Version)), "dir="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	c.Stderr = &stderr
	c.Dir = "/"
	if err := c.Start(); err != nil {
		skip(t, err.Error())
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) { // thousands of mounts, perhaps next to other tests
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.Process.Pid))
		if string(name) == "sleep\n" {
			return c.Process.Pid
		}
		if err != nil || len(name) == 0 || time.Now().After(end) {
			c.Process.Kill()
			c.Wait()
			skip(t, "it can't be made here: "+stderr.String())
		}
		if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid)); bytes.Contains(stat, []byte(") Z ")) {
			c.Wait()
			skip(t, "it can't be made here: "+stderr.String())
		}
	}
}

func skip(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("UNTHROTTLE_REQUIRE_CGROUP") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// TestProcesses has root look at each process with the real command.
func TestProcesses(t *testing.T) {
	slowtest.Plain(t)
	program := build(t, t.TempDir(), "unthrottle", "github.com/unthrottle/unthrottle/cmd/unthrottle")
	for _, p := range Processes() {
		t.Run(p.Name, func(t *testing.T) {
			pid := start(t, p)
			if out := look(t, program, "explain", strconv.Itoa(pid)); !strings.Contains(out, "imit") || strings.Contains(out, "9 CPUs") {
				t.Error(out)
			}
			look(t, program, "ps", "--for", "100ms")
		})
	}
}
