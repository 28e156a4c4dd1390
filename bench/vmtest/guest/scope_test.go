//go:build linux

package guest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/bench/vmtest"
)

// A seat is where a command is started in the machine with systemd.
type seat struct {
	uid    uint32
	before []string // is put before the command
}

var (
	// service is root in the service that the tests are.
	service = seat{}
	// login is a user who has come in by ssh: in a scope of the system's, next to the user manager. Only the system's manager, which is
	// asked over the bus, can move another process of the user's from there to the manager's groups.
	login = seat{before: []string{"systemd-run", "--scope", "--quiet", "--collect", "--slice=user-1000.slice", "--uid=1000", "--gid=1000", "--"}}
	// desktop is a user in a group of the user manager's, as in a terminal window. With its weight the groups next to it have the cpu
	// controller for as long as it lives.
	desktop = seat{delegated, []string{"systemd-run", "--user", "--scope", "--quiet", "--collect", "--property=CPUWeight=100", "--"}}
	// stranger is a user whose manager has no cpu controller.
	stranger = seat{uid: bare}
	// nobody is a user without a manager.
	nobody = seat{uid: 65534}
)

// Users that vmtest has put into the machine.
const (
	delegated = 1000 // the user manager has the cpu controller
	bare      = 1001 // it has not
)

func (s seat) command(args ...string) *exec.Cmd {
	args = append(slices.Clone(s.before), args...)
	cmd := exec.Command(args[0], args[1:]...)
	owner := s.uid
	if slices.Contains(args, "--uid=1000") {
		owner = delegated
	}
	cmd.Env = []string{"HOME=/tmp", "PATH=/usr/bin"}
	if owner != 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("XDG_RUNTIME_DIR=/run/user/%d", owner))
	}
	if s.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: s.uid, Gid: s.uid}}
	}
	return cmd
}

// limited lets "unthrottle run" do its work at s.
func (s seat) limited(t *testing.T, args ...string) (r ran, stderr string, err error) {
	t.Helper()
	file := fileForAll(t, "run.json")
	cmd := s.command(append([]string{vmtest.Command, "run", "--json", "-o", file}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	err = cmd.Run()
	return readRan(t, file), errs.String(), err
}

// scoped is limited with --limit-with=systemd and half a CPU.
func (s seat) scoped(t *testing.T, args ...string) (r ran, stderr string, err error) {
	t.Helper()
	return s.limited(t, append([]string{"--limit-with=systemd", "--cpus", "0.5"}, args...)...)
}

// startManager starts a user's manager as a login would.
func startManager(t *testing.T, uid int) {
	t.Helper()
	unit := fmt.Sprintf("user@%d.service", uid)
	if out, err := exec.Command("systemctl", "start", unit).CombinedOutput(); err != nil {
		t.Fatalf("starting %s: %v: %s", unit, err, out)
	}
}

// checkThrottled checks a document against half a CPU.
func checkThrottled(t *testing.T, r ran, kind string) {
	t.Helper()
	used := r.CPUSeconds / r.WallSeconds
	if r.LimitKind != kind || r.LimitCPUs != 0.5 || r.Periods < 1 || r.ThrottledPeriods < 1 {
		t.Errorf("it was not held by %s: %+v", kind, r)
	}
	if len(r.Warnings) > 0 {
		t.Errorf("warnings: %q", r.Warnings)
	}
	// Below it may be by far: the host may be busy.
	if used > 0.85 || used <= 0 {
		t.Errorf("it used %.2f CPUs of 0.5", used)
	}
	t.Logf("%.2f CPUs of 0.5, throttled in %d of %d periods", used, r.ThrottledPeriods, r.Periods)
}

// checkGone waits until nothing of ours is among the cgroups. systemd removes a scope
// in its own time.
func checkGone(t *testing.T) {
	t.Helper()
	var left []string
	if !poll(func() bool {
		left = ownScopes()
		return len(left) == 0
	}) {
		t.Errorf("left behind: %v", left)
	}
}

func ownScopes() (dirs []string) {
	filepath.WalkDir(cgroupRoot, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), "unthrottle-run-") {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}

// TestScopeRoot holds root's programs to limits of a scope of the system's.
func TestScopeRoot(t *testing.T) {
	needSystemd(t)
	for name, args := range map[string][]string{
		"half a CPU":        nil,
		"a period of 20 ms": {"--period", "20ms"},
	} {
		t.Run(name, func(t *testing.T) {
			r, stderr, err := service.scoped(t, append(args, busy...)...)
			if err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			checkThrottled(t, r, "systemd")
			if len(r.Notes) > 0 {
				t.Errorf("notes: %q", r.Notes)
			}
			checkGone(t)
		})
	}
}

// TestScopeMemory has a limit on memory, with one on CPU and without.
func TestScopeMemory(t *testing.T) {
	needSystemd(t)
	for name, args := range map[string][]string{
		"and CPU": {"--cpus", "0.5"},
		"alone":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			r, stderr, err := service.limited(t, append(append(args, "--limit-with=systemd", "--memory", "256m"), busy...)...)
			if err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			if r.LimitKind != "systemd" || r.PeakMemoryOf != "group" || r.PeakMemory < 1<<20 || r.PeakMemory > 256<<20 || r.Needed < 1<<20 || r.Needed > r.PeakMemory || len(r.Warnings) > 0 {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// TestScopeEnds has programs that end in several ways.
func TestScopeEnds(t *testing.T) {
	needSystemd(t)
	for _, c := range []struct {
		script string
		code   int
	}{
		{"exit 0", 0},
		{"sleep 0.3; exit 7", 7},
		{"sleep 0.3; kill -KILL $$", 137},
	} {
		t.Run(c.script, func(t *testing.T) {
			r, stderr, err := service.scoped(t, "--", "sh", "-c", c.script)
			if code := exitCodeOf(err); code != c.code || r.ExitCode != c.code {
				t.Errorf("exit code %d and %d in the document, want %d: %s", code, r.ExitCode, c.code, stderr)
			}
		})
	}
	checkGone(t)
}

func exitCodeOf(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

// TestScopeQuick has a program that may be gone, and its scope with it, before anyone could look.
func TestScopeQuick(t *testing.T) {
	needSystemd(t)
	seen := 0
	for range 5 {
		r, stderr, err := service.scoped(t, "--", "true")
		if err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
		if r.LimitKind != "systemd" || r.WallSeconds <= 0 || r.CPUSeconds <= 0 || len(r.Notes) > 0 || len(r.Warnings) > 1 {
			t.Errorf("got %+v", r)
		}
		seen += 1 - len(r.Warnings)
	}
	t.Logf("the scope was read in %d of 5 runs", seen)
	checkGone(t)
}

// TestScopeSignal sends the command a signal, which is the program's.
func TestScopeSignal(t *testing.T) {
	needSystemd(t)
	file := fileForAll(t, "run.json")
	cmd := service.command(vmtest.Command, "run", "--json", "-o", file, "--limit-with=systemd", "--cpus", "0.5", "--",
		"sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	service.start(t, cmd)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if code := exitCodeOf(cmd.Wait()); code != 7 {
		t.Errorf("exit code %d", code)
	}
	if r := readRan(t, file); r.ExitCode != 7 || r.LimitKind != "systemd" {
		t.Errorf("got %+v", r)
	}
	checkGone(t)
}

// start starts a command that the test waits for on its own; it is ended with the test.
func (seat) start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
}

// forever is a program that does not end on its own.
var forever = []string{vmtest.Command, "workload", "fib", "--for", "10m"}

// TestScopeKilled kills the command itself, while the program runs and at moments before. Its program ends with it.
func TestScopeKilled(t *testing.T) {
	needSystemd(t)
	startManager(t, delegated)
	for name, s := range map[string]seat{"root": service, "user": {uid: delegated}} {
		t.Run(name, func(t *testing.T) {
			for i := range 6 {
				cmd := s.command(append([]string{vmtest.Command, "run", "--limit-with=systemd", "--cpus", "0.5", "--"}, forever...)...)
				s.start(t, cmd)
				if i == 0 {
					if !poll(func() bool { return len(running(forever)) > 0 }) {
						t.Fatal("the program did not start")
					}
				} else {
					time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				}
				cmd.Process.Kill()
				cmd.Wait()
				if !poll(func() bool { return len(running(forever)) == 0 }) {
					t.Errorf("%d: the program outlived the command", i)
				}
			}
			// systemd misses the end of a process that it is about to move. What is left then is swept by the next run.
			if _, stderr, err := s.scoped(t, "--", "true"); err != nil {
				t.Errorf("%v: %s", err, stderr)
			}
			checkGone(t)
		})
	}
}

// running finds processes by their arguments.
func running(args []string) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		text, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if string(text) == strings.Join(args, "\x00")+"\x00" {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestScopeAbandoned has a scope of a runner that is gone. The next one removes it.
func TestScopeAbandoned(t *testing.T) {
	needSystemd(t)
	startManager(t, delegated)
	for name, s := range map[string]seat{"root": service, "user": {uid: delegated}} {
		t.Run(name, func(t *testing.T) {
			namespace, err := os.Readlink("/proc/self/ns/pid")
			if err != nil {
				t.Fatal(err)
			}
			unit := fmt.Sprintf("unthrottle-run-%s-999999999-1-1.scope", strings.Trim(namespace, "pid:[]"))
			args := []string{"systemd-run", "--scope", "--quiet", "--collect", "--unit=" + unit}
			if s.uid != 0 {
				args = append(args, "--user")
			}
			cmd := s.command(append(args, "--", "sleep", "1000")...)
			s.start(t, cmd)
			if !poll(func() bool { return len(ownScopes()) == 1 }) {
				t.Fatal("there is no scope")
			}
			if _, stderr, err := s.scoped(t, "--", "true"); err != nil {
				t.Errorf("%v: %s", err, stderr)
			}
			cmd.Wait()
			checkGone(t)
		})
	}
}

// TestScopeLeft has a program that leaves another one behind. That is killed.
func TestScopeLeft(t *testing.T) {
	needSystemd(t)
	left := []string{"sleep", "1000"}
	_, stderr, err := service.scoped(t, "--", "sh", "-c", "sleep 1000 & sleep 0.5")
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if len(running(left)) > 0 {
		t.Error("what the program left behind runs on")
	}
	checkGone(t)
}

// TestScopeBurst: systemd has no name for a burst.
func TestScopeBurst(t *testing.T) {
	needSystemd(t)
	_, stderr, err := service.scoped(t, append([]string{"--burst", "20ms"}, busy...)...)
	if want := "only a cgroup can save unused quota for a burst"; exitCodeOf(err) != 1 || !strings.Contains(stderr, want) {
		t.Errorf("got %v: %s", err, stderr)
	}
}

// TestScopeAuto prefers a scope where systemd is at home, though root may make a group of its own.
func TestScopeAuto(t *testing.T) {
	needSystemd(t)
	r, stderr, err := service.limited(t, append([]string{"--cpus", "0.5"}, busy...)...)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	checkThrottled(t, r, "systemd")
	if len(r.Notes) != 0 {
		t.Errorf("notes: %q", r.Notes)
	}
	checkGone(t)
}

// TestScopeUser is a user without privileges whose manager has the cpu controller.
func TestScopeUser(t *testing.T) {
	needSystemd(t)
	startManager(t, delegated)
	for _, c := range []struct {
		name string
		seat seat
		with string
		kind string
	}{
		{"login", login, "systemd", "systemd"},
		{"login, auto", login, "auto", "systemd"},
		{"desktop", desktop, "systemd", "systemd"},
		{"desktop, auto", desktop, "auto", "systemd"},
		{"desktop, cgroup", desktop, "cgroup", "cgroup-v2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, stderr, err := c.seat.limited(t, append([]string{"--limit-with", c.with, "--cpus", "0.5", "--memory", "256m"}, busy...)...)
			if err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			checkThrottled(t, r, c.kind)
			t.Logf("notes: %q", r.Notes)
			checkGone(t)
		})
	}
}

// TestScopeEmulated has users for whom systemd can do nothing: the manager does not have the controller, though it takes
// the property, or there is no manager. The limit is emulated, and the document says why.
func TestScopeEmulated(t *testing.T) {
	needSystemd(t)
	startManager(t, bare)
	for name, s := range map[string]seat{"no controller": stranger, "no manager": nobody} {
		t.Run(name, func(t *testing.T) {
			r, stderr, err := s.limited(t, append([]string{"--cpus", "0.5"}, busy...)...)
			if err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			if r.LimitKind != "emulated" || r.ThrottledPeriods < 1 || len(r.Notes) != 2 || !strings.HasPrefix(r.Notes[0], "systemd: ") {
				t.Errorf("got %+v", r)
			}
			t.Logf("notes: %q", r.Notes)
			if _, stderr, err = s.scoped(t, busy...); exitCodeOf(err) != 1 {
				t.Errorf("--limit-with=systemd: got %v: %s", err, stderr)
			}
			checkGone(t)
		})
	}
}

// TestScopeAbove: a limit above the scope's is in force if it is smaller.
func TestScopeAbove(t *testing.T) {
	needSystemd(t)
	set := func(value string) {
		if out, err := exec.Command("systemctl", "set-property", "--runtime", "user-1000.slice", "CPUQuota="+value).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	startManager(t, delegated)
	set("30%")
	defer set("")
	r, stderr, err := login.scoped(t, busy...)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	want := "a smaller limit of a group above is in force: " + cgroupRoot + "/user.slice/user-1000.slice has 0.3 CPUs"
	if len(r.Warnings) != 1 || r.Warnings[0] != want {
		t.Errorf("warnings %q, want %q", r.Warnings, want)
	}
}

// TestScopeBench runs a small lab with scopes.
func TestScopeBench(t *testing.T) {
	needSystemd(t)
	cmd := service.command(vmtest.Command, "bench", "fib", "--procs", "1,2", "--cpus", "0.5", "--blocks", "1", "--for", "200ms",
		"--limit-with", "systemd", "--json")
	runs := labRuns(t, cmd)
	if len(runs) != 2 || runs[0].LimitKind != "systemd" || runs[1].LimitKind != "systemd" {
		t.Errorf("got %+v, want 2 runs in scopes", runs)
	}
	checkGone(t)
}
