package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// nobody is the user without rights of its own.
const nobody = 65534

// asNobody runs a shell script as that user.
func asNobody(t *testing.T, script string, env ...string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir, cmd.Env = "/", append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// sharedTemp is a directory like /tmp, for this test alone.
func sharedTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "unthrottle-shared-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// command is unthrottle with another environment, and a bound on how long it may take, for a hang.
func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(append([]string{"PATH=" + os.Getenv("PATH")}, env...), asCommand+"=1")
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// withoutHome is the environment of a user who has no home, as under systemd or env -i.
func withoutHome(tmp string) []string { return []string{"TMPDIR=" + tmp} }

// TestForeignPrograms: a program that another user has put where ours would be is not run.
func TestForeignPrograms(t *testing.T) {
	slowtest.Skip(t)
	tmp := sharedTemp(t)
	asked := strings.TrimSpace(workloadName(t))
	script := fmt.Sprintf(`umask 0; mkdir -p %[1]s/unthrottle-0/programs && cd %[1]s/unthrottle-0/programs &&
		printf '#!/bin/sh\nid >%[1]s/evil\n' >%[2]s && chmod 755 %[2]s`, tmp, asked)
	if out, err := asNobody(t, script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := command(t, append(withoutHome(tmp), buildCache(t)), "bench", "--go", "1.24.13", "--procs", "1", "--cpus", "none", "--blocks", "1", "--for", "10ms", "fib").CombinedOutput()
	if _, ran := os.Stat(filepath.Join(tmp, "evil")); ran == nil {
		t.Error("root has run another user's program")
	}
	if !bytes.Contains(out, []byte("unthrottle-0 belongs to another user")) {
		t.Errorf("%v; it does not say why: %s", err, out)
	}
}

// buildCache has the standard library already, which takes long to build.
func buildCache(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return "GOCACHE=" + strings.TrimSpace(string(out))
}

// workloadName is the name that a built workload has, which is the same for all users who have this source.
func workloadName(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	if out, err := command(t, []string{"HOME=" + home, "GOTOOLCHAIN=local", "GOFLAGS=", "GOPROXY=off", buildCache(t)},
		"bench", "--go", "go", "--procs", "1", "--cpus", "none", "--blocks", "1", "--for", "10ms", "fib").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found, _ := filepath.Glob(filepath.Join(home, ".cache/unthrottle/programs/workload-*"))
	if len(found) != 1 {
		t.Fatalf("there is %v", found)
	}
	name := filepath.Base(found[0])
	return "workload-go1.24.13" + name[strings.LastIndex(name, "-"):]
}

// TestForeignJournals: where another user was first, runs go elsewhere, and to a file for this user alone.
func TestForeignJournals(t *testing.T) {
	tmp := sharedTemp(t)
	if out, err := asNobody(t, "umask 0; mkdir -p "+tmp+"/unthrottle-0/runs").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := command(t, withoutHome(tmp), "bench", "--procs", "1", "--cpus", "none", "--blocks", "1", "--", "true").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if left, _ := os.ReadDir(filepath.Join(tmp, "unthrottle-0/runs")); len(left) > 0 {
		t.Errorf("another user has %v", left)
	}
	found, _ := filepath.Glob(filepath.Join(tmp, "unthrottle-runs-*/*.jsonl"))
	if len(found) != 1 {
		t.Fatalf("the runs are in %v: %s", found, out)
	}
	if info, err := os.Stat(found[0]); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestForeignLock: neither a pipe nor a lock of another user's holds up a bench.
func TestForeignLock(t *testing.T) {
	for name, script := range map[string]string{
		"a pipe":      "mkfifo unthrottle-bench.lock",
		"a lock":      "exec flock unthrottle-bench.lock sleep 1000",
		"a directory": "mkdir unthrottle-0 && cd unthrottle-0 && mkfifo bench.lock",
	} {
		t.Run(name, func(t *testing.T) {
			tmp := sharedTemp(t)
			holder := asNobody(t, "cd "+tmp+" && "+script)
			if err := holder.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- holder.Wait() }()
			t.Cleanup(func() { holder.Process.Kill() })
			for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
				if left, _ := os.ReadDir(tmp); len(left) > 0 && (name == "a lock" || len(ended) > 0) {
					break
				}
			}
			out, err := command(t, withoutHome(tmp), "bench", "--procs", "1", "--cpus", "none", "--blocks", "1", "--", "true").CombinedOutput()
			if err != nil || bytes.Contains(out, []byte("waiting for another")) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestForeignDirectory: only root can change the result of root in another user's directory, and the other user can't make anything else of
// it.
func TestForeignDirectory(t *testing.T) {
	slowtest.Skip(t)
	tmp := sharedTemp(t)
	precious := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(precious, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := asNobody(t, "mkdir "+tmp+"/project").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	attack := asNobody(t, `cd `+tmp+`/project && while :; do
		for f in .unthrottle-unfinished-*; do [ -e "$f" ] && rm -f "$f" && ln -s `+precious+` "$f"; done; done`)
	if err := attack.Start(); err != nil {
		t.Fatal(err)
	}
	defer attack.Wait()
	defer attack.Process.Kill()
	out, err := command(t, withoutHome(tmp), "watch", "--for", "1s", "-o", tmp+"/project/out.json").CombinedOutput()
	info, statErr := os.Stat(precious)
	if statErr != nil || info.Mode() != 0o600 {
		t.Errorf("the other file is %v now", info.Mode())
	}
	if err != nil { // it may say that something was at its name
		t.Logf("%v: %s", err, out)
		return
	}
	if info, err := os.Lstat(tmp + "/project/out.json"); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the result is %v, %v", info.Mode(), err)
	}
}
