package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/kerneltest"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// killsVariable says how often commands are killed.
const killsVariable = "UNTHROTTLE_KILLS"

// TestKernelKills ends commands at random moments. After the next command of another kind nothing is left of them: no process, no
// group in any hierarchy, no temporary file, no unfinished result.
func TestKernelKills(t *testing.T) {
	slowtest.Skip(t)
	kills := 10
	if n, err := strconv.Atoi(os.Getenv(killsVariable)); err == nil {
		kills = n
	}
	g := kerneltest.New(t)
	cache := buildCache(t)
	const daemons = `for i in 1 2; do setsid sleep 2233 & done; exec timeout 20 sh -c 'while :; do :; done'`
	commands := [][]string{
		{"run", "--cpus", "0.3", "--", "sh", "-c", daemons},
		{"run", "--cpus", "0.3", "--memory", "100m", "--", "sh", "-c", daemons},
		{"run", "--cpus", "0.1", "--limit-with", "emulate", "--", "sh", "-c", daemons},
		{"bench", "--cpus", "0.5", "--procs", "1,2", "--blocks", "20", "--for", "50ms", "-o", "out.html", "fib"},
		{"tune", "--batch", "--any", "--cpus", "0.5", "-o", "out.html", "--", "sh", "-c", "sleep 2233 & sleep 0.1"},
		{"tune", "--vary", "X=1,2", "--cpus", "0.5", "--load", "sleep 2233 & sleep 0.2; echo done 5", "--metric", "units=done ([0-9]+)", "--ready", "50ms", "--url", "localhost:1", "--", "sleep", "2233"},
		{"watch", "--for", "20s", "-o", "out.json"},
		{"bench", "--base", "HEAD", "--blocks", "20", "--for", "50ms", "-o", "out.html", "--gobench", "."},
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	counted := map[string]int{}
	defer func() { t.Logf("%v", counted) }()
	for i := range kills {
		args := commands[i%len(commands)]
		sig := []syscall.Signal{syscall.SIGKILL, syscall.SIGKILL, syscall.SIGINT, syscall.SIGTERM}[random.IntN(4)]
		if args[0] == "run" && sig == syscall.SIGINT {
			sig = syscall.SIGTERM // SIGINT is the program's, and a shell waits for what it has started
		}
		dir := t.TempDir()
		start := func(args ...string) *exec.Cmd {
			cmd := unthrottle(t, g, args...)
			cmd.Dir = dir
			cmd.Env = append(cmd.Env, "TMPDIR="+dir, "HOME="+dir, "XDG_CACHE_HOME=", cache, "GOWORK=off", "GOFLAGS=")
			return cmd
		}
		if slices.Contains(args, "--base") {
			commitBenchmark(t, dir)
		}
		cmd := start(args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		after := time.Duration(random.Int64N(int64(1500 * time.Millisecond)))
		time.Sleep(after)
		cmd.Process.Signal(sig)
		cmd.Wait()
		counted[sig.String()+", "+args[0]]++
		if out, err := start("version").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		what := strings.Join(args[:min(len(args), 5)], " ") + " " + sig.String() + " after " + after.String()
		left := func() (all []string) {
			all = append(groupsOf(cmd.Process.Pid), sleepers()...)
			for _, pattern := range []string{"unthrottle-temp-*", ".unthrottle-unfinished-*"} {
				found, _ := filepath.Glob(filepath.Join(dir, pattern))
				all = append(all, found...)
			}
			return all
		}
		for deadline := time.Now().Add(20 * time.Second); len(left()) > 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			// a guard, or a group that is being left, takes its moment
		}
		if all := left(); len(all) > 0 {
			t.Errorf("%s: left: %v", what, all)
			return
		}
	}
}

// commitBenchmark makes a repository of a module with a benchmark, whose working tree has another.
func commitBenchmark(t *testing.T, dir string) {
	t.Helper()
	file := func(n int) {
		text := fmt.Sprintf("package b\n\nimport \"testing\"\n\nvar sink int\n\nfunc BenchmarkB(b *testing.B) {\n\tfor i := 0; i < b.N; i++ {\n\t\tsink += %d\n\t}\n}\n", n)
		if err := os.WriteFile(filepath.Join(dir, "b_test.go"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file(1)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/b\n\ngo 1.21\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Skipf("git %v: %v: %s", args, err, out)
		}
	}
	file(2)
}

// groupsOf are the groups that a process has made for what it runs, in all hierarchies.
func groupsOf(pid int) (all []string) {
	for _, depth := range []string{"", "*", "*/*", "*/*/*", "*/*/*/*"} {
		found, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", depth, "unthrottle-run-*-"+strconv.Itoa(pid)+"-*"))
		all = append(all, found...)
	}
	return all
}

// sleepers are the daemons of this test that live.
func sleepers() (all []string) {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range found {
		if text, err := os.ReadFile(file); err == nil && string(text) == "sleep\x002233\x00" {
			all = append(all, file)
		}
	}
	return all
}
