package hostile

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// TestPrograms has root look at programs of the user nobody, at each and at all together: each costs little, and the others are reported.
func TestPrograms(t *testing.T) {
	slowtest.Plain(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the programs are for linux/amd64")
	}
	dir, err := os.MkdirTemp("", "hostile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	command := build(t, dir, "unthrottle", "github.com/unthrottle/unthrottle/cmd/unthrottle")
	source := filepath.Join(dir, "good.go")
	if err := os.WriteFile(source, []byte("package main\n\nimport \"time\"\n\nfunc main() { time.Sleep(time.Hour) }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	good := build(t, dir, "good", source)
	file, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	run(t, good, nil, nil)
	t.Run("explain", func(t *testing.T) {
		for _, p := range Programs() {
			path := filepath.Join(dir, p.Name)
			if err := p.Make(file, path); err != nil {
				t.Fatal(err)
			}
			pid := run(t, path, p.Args, p.Env)
			if p.After != nil {
				if err := p.After(path); err != nil {
					t.Fatal(err)
				}
			}
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				if out := look(t, command, "explain", strconv.Itoa(pid)); !strings.Contains(out, p.Want) || strings.ContainsAny(out, "\x1b\u202e") {
					t.Errorf("want %q:\n%s", p.Want, out)
				}
			})
		}
		// Among all of them, ps reports the good one.
		if out := look(t, command, "ps", "--for", "100ms"); !strings.Contains(out, " good ") {
			t.Errorf("the others are not told:\n%s", out)
		}
	})
}

func build(t *testing.T, dir, name, what string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	c := exec.Command("go", "build", "-o", path, what)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// run starts a program, as the user nobody if possible, for as long as the test.
func run(t *testing.T, path string, args, env []string) int {
	t.Helper()
	c := exec.Command(path, args...)
	c.Env, c.Dir = append([]string{"PATH=/bin"}, env...), "/"
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c.Process.Pid
}

// look runs the command, which ends and keeps to its memory.
func look(t *testing.T, command string, args ...string) string {
	t.Helper()
	c := exec.Command(command, args...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(30*time.Second, func() { c.Process.Kill() })
	err := c.Wait()
	late.Stop()
	if err != nil {
		t.Fatalf("%s: %v\n%s", args[0], err, &out)
	}
	if used := c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; used > memory {
		t.Errorf("%s took %d MiB", args[0], used>>20)
	}
	return out.String()
}
