package movetest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/internal/kerneltest"
)

const (
	theirImport = "go.uber.org/automaxprocs/maxprocs"
	ourImport   = "github.com/unthrottle/unthrottle/maxprocs"
)

var theirs, ours string // the programs, built

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "movetest")
		if err == nil {
			defer os.RemoveAll(dir)
			theirs, ours, err = buildBoth(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		os.Unsetenv("GOMAXPROCS")
		return m.Run()
	}())
}

// buildBoth builds the program unchanged, and with the one import path changed, through an overlay.
func buildBoth(dir string) (theirs, ours string, err error) {
	source, err := filepath.Abs("program/main.go")
	if err != nil {
		return "", "", err
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return "", "", err
	}
	if n := strings.Count(string(text), strconv.Quote(theirImport)); n != 1 {
		return "", "", fmt.Errorf("%s imports %s %d times, want once", source, theirImport, n)
	}
	moved := filepath.Join(dir, "moved.go")
	text = []byte(strings.Replace(string(text), strconv.Quote(theirImport), strconv.Quote(ourImport), 1))
	if err := os.WriteFile(moved, text, 0o644); err != nil {
		return "", "", err
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{source: moved}})
	if err != nil {
		return "", "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, replace, 0o644); err != nil {
		return "", "", err
	}
	theirs, ours = filepath.Join(dir, "theirs"), filepath.Join(dir, "ours")
	for path, flags := range map[string][]string{theirs: nil, ours: {"-overlay", overlay}} {
		args := append(append([]string{"build"}, flags...), "-o", path, "./program")
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			return "", "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return theirs, ours, nil
}

// A result is what program prints.
type result struct {
	Before, After, AfterUndo int
	SetLog, UndoLog          []string
	Error                    string
}

// A condition is what the programs find. With a quota they run in a group of their own, and with one on the parent in a
// group below that.
type condition struct {
	quota       float64
	parentQuota float64
	env         string // NAME=VALUE
	args        []string
	oddMount    bool // the hierarchy is mounted elsewhere, below a name with a space
}

const (
	leaving    = "maxprocs: Leaving GOMAXPROCS=%d: CPU quota undefined"
	updating   = "maxprocs: Updating GOMAXPROCS=%d: determined from CPU quota"
	minimum    = "maxprocs: Updating GOMAXPROCS=%d: using minimum allowed GOMAXPROCS"
	affinity   = "maxprocs: Updating GOMAXPROCS=%d: determined from CPU affinity, which allows less than the CPU quota"
	resetting  = "maxprocs: Resetting GOMAXPROCS to %d"
	nothing    = "maxprocs: No GOMAXPROCS change to reset"
	keepBefore = -1 // GOMAXPROCS stays what it was
)

// honoring is the line for a GOMAXPROCS that is set.
func honoring(value string) string {
	return fmt.Sprintf("maxprocs: Honoring GOMAXPROCS=%q as set in environment", value)
}

// TestSame has the conditions under which both must do and say the same.
func TestSame(t *testing.T) {
	for _, tt := range []struct {
		name string
		condition
		after int
		line  string
	}{
		{"no limit", condition{}, keepBefore, leaving},
		{"no limit, minimum", condition{args: []string{"-min=5"}}, keepBefore, leaving},
		{"no limit, set by the program before", condition{args: []string{"-first=1"}}, 1, leaving},
		{"quota 1.5", condition{quota: 1.5}, 1, updating},
		{"quota 1.5, rounded up", condition{quota: 1.5, args: []string{"-ceil"}}, 2, updating},
		{"quota 0.5", condition{quota: 0.5}, 1, minimum},
		{"quota 0.5, minimum 2", condition{quota: 0.5, args: []string{"-min=2"}}, 2, minimum},
		{"quota 0.5, invalid minimum", condition{quota: 0.5, args: []string{"-min=-3"}}, 1, minimum},
		{"quota 1, set by the program before", condition{quota: 1, args: []string{"-first=3"}}, 1, updating},
		{"quota 2", condition{quota: 2}, 2, updating},
		{"GOMAXPROCS=3", condition{env: "GOMAXPROCS=3"}, 3, honoring("3")},
		{"GOMAXPROCS=3, quota 1", condition{quota: 1, env: "GOMAXPROCS=3"}, 3, honoring("3")},
		{"GOMAXPROCS=3, set by the program before", condition{env: "GOMAXPROCS=3", args: []string{"-first=1"}}, 1, honoring("3")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			needCPUs(t, 2)
			their, our := runBoth(t, tt.condition)
			our.check(t, tt.after, tt.line)
			if our.Before == our.After {
				// Nothing changed: we have nothing to undo, automaxprocs sets the same number again.
				our.UndoLog, their.UndoLog = nil, nil
			}
			if !reflect.DeepEqual(our, their) {
				t.Errorf("unthrottle:\n%+v\nautomaxprocs:\n%+v", our, their)
			}
		})
	}
}

// TestDifferent has the conditions under which automaxprocs is wrong. Its side is asserted too: if that changes, so must the list of
// differences.
func TestDifferent(t *testing.T) {
	cpus := runtime.NumCPU()
	for _, tt := range []struct {
		name string
		why  string
		condition
		theirAfter int
		theirLine  string
		theirError bool
		ourAfter   int
		ourLine    string
	}{
		{
			name: "quota on the parent", why: "the kernel enforces every level, automaxprocs reads the lowest",
			condition:  condition{parentQuota: 1},
			theirAfter: keepBefore, theirLine: leaving, ourAfter: 1, ourLine: updating,
		},
		{
			name: "smaller quota on the parent", why: "the smallest of all levels is what counts",
			condition:  condition{parentQuota: 1, quota: 3},
			theirAfter: 3, theirLine: updating, ourAfter: 1, ourLine: updating,
		},
		{
			name: "GOMAXPROCS empty", why: "the runtime takes it as not set",
			condition:  condition{quota: 1, env: "GOMAXPROCS="},
			theirAfter: keepBefore, theirLine: honoring(""), ourAfter: 1, ourLine: updating,
		},
		{
			name: "GOMAXPROCS=0", why: "the runtime takes it as not set",
			condition:  condition{quota: 1, env: "GOMAXPROCS=0"},
			theirAfter: keepBefore, theirLine: honoring("0"), ourAfter: 1, ourLine: updating,
		},
		{
			name: "GOMAXPROCS=2500m", why: "the runtime takes it as not set; Kubernetes' downward API can produce it",
			condition:  condition{quota: 1, env: "GOMAXPROCS=2500m"},
			theirAfter: keepBefore, theirLine: honoring("2500m"), ourAfter: 1, ourLine: updating,
		},
		{
			name: "quota of 64 CPUs", why: "more than the CPUs that there are can never run at once",
			condition:  condition{quota: 64},
			theirAfter: 64, theirLine: updating, ourAfter: cpus, ourLine: affinity,
		},
		{
			name: "minimum above the CPUs", why: "more than the CPUs that there are can never run at once",
			condition:  condition{quota: 1, args: []string{"-min=60"}},
			theirAfter: 60, theirLine: minimum, ourAfter: cpus, ourLine: affinity,
		},
		{
			name: "mount point with a space", why: "mountinfo writes a space as \\040, which automaxprocs doesn't undo",
			condition:  condition{quota: 1, oddMount: true},
			theirAfter: keepBefore, theirError: true, ourAfter: 1, ourLine: updating,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			needCPUs(t, 2)
			if cpus >= 60 {
				t.Skip("the numbers of this table are for fewer than 60 CPUs")
			}
			their, our := runBoth(t, tt.condition)
			our.check(t, tt.ourAfter, tt.ourLine)
			if tt.theirError {
				if their.Error == "" || their.After != their.Before {
					t.Errorf("automaxprocs no longer fails: %+v (%s)", their, tt.why)
				}
				return
			}
			their.check(t, tt.theirAfter, tt.theirLine)
		})
	}
}

// check says whether r is what a change to after, or none, should look like.
func (r result) check(t *testing.T, after int, line string) {
	t.Helper()
	if after == keepBefore {
		after = r.Before
	}
	if strings.Contains(line, "%d") {
		line = fmt.Sprintf(line, after)
	}
	if r.Error != "" || r.After != after || len(r.SetLog) != 1 || r.SetLog[0] != line {
		t.Errorf("got %+v, want After %d and the line %q", r, after, line)
	}
	undone := nothing
	if r.After != r.Before {
		undone = fmt.Sprintf(resetting, r.Before)
	}
	if r.AfterUndo != r.Before || len(r.UndoLog) != 1 || r.UndoLog[0] != undone && r.After != r.Before {
		t.Errorf("got %+v, want AfterUndo %d and the line %q", r, r.Before, undone)
	}
}

// TestUpdates looks whether the runtime's own updates, which Go has from 1.25 on, are back after undo.
func TestUpdates(t *testing.T) {
	t.Run("quota", func(t *testing.T) {
		needCPUs(t, 3) // the runtime never goes below 2, so a third CPU is needed to see a change
		group := newGroup(t, condition{quota: 1})
		testUpdates(t, group, func(int) error { group.SetQuota(micros(3)); return nil }, 3)
	})
	t.Run("affinity", func(t *testing.T) {
		needCPUs(t, 2)
		group := newGroup(t, condition{quota: 1})
		testUpdates(t, group, pinToOneCPU, 1)
	})
}

// testUpdates starts each program in a group with a quota of one CPU, lets it set and undo, changes something and looks
// whether the runtime comes to the number that is wanted then.
func testUpdates(t *testing.T, group *kerneltest.Group, change func(pid int) error, want int) {
	for _, program := range []string{ours, theirs} {
		// A pipe that each side of the conversation waits for: no sleeping, and the program is awake while it is asked.
		cmd := group.Command(program, "-follow")
		in, out := kerneltest.Talk(t, cmd)
		lines := bufio.NewScanner(out)
		lines.Scan()
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if r.After != 1 || r.AfterUndo != r.Before {
			t.Errorf("got %+v, want 1 and then %d again", r, r.Before)
		}
		if err := change(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		deadline := 60 * time.Second
		if program == theirs {
			deadline = 3 * time.Second // three of the runtime's intervals: it must not follow
		}
		got, took := pollProcs(t, in, lines, want, deadline)
		switch {
		case program == ours && got != want:
			t.Errorf("unthrottle: GOMAXPROCS is still %d after %v, want the runtime to follow to %d", got, took, want)
		case program == ours:
			t.Logf("unthrottle: the runtime followed to %d after %v", got, took)
		case got == want:
			t.Errorf("automaxprocs: the runtime followed to %d: the list of differences has to change", got)
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		group.SetQuota(micros(1))
	}
}

// pollProcs asks a program for its GOMAXPROCS until it is what is wanted or the time is up.
func pollProcs(t *testing.T, in io.Writer, lines *bufio.Scanner, want int, deadline time.Duration) (got int, took time.Duration) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
		lines.Scan()
		got, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); got == want || took > deadline {
			return got, took
		}
	}
}

// pinToOneCPU leaves every thread of a process the first CPU that it may run on.
func pinToOneCPU(pid int) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			return err
		}
		var mask [1024]byte
		n, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, uintptr(tid), uintptr(len(mask)), uintptr(unsafe.Pointer(&mask)))
		if errno != 0 {
			return errno
		}
		found := false
		for i := range mask[:n] {
			if found {
				mask[i] = 0
			}
			if mask[i] != 0 {
				found = true
				mask[i] &= -mask[i]
			}
		}
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(tid), n, uintptr(unsafe.Pointer(&mask))); errno != 0 {
			return errno
		}
	}
	return nil
}

func needCPUs(t *testing.T, n int) {
	t.Helper()
	if runtime.NumCPU() < n {
		t.Skipf("needs %d CPUs, there are %d", n, runtime.NumCPU())
	}
}

func runBoth(t *testing.T, c condition) (their, our result) {
	t.Helper()
	command := exec.Command
	if c.quota != 0 || c.parentQuota != 0 {
		command = newGroup(t, c).Command
	}
	if c.oddMount {
		command = remounted(t, command)
	}
	run := func(path string) (r result) {
		cmd := command(path, c.args...)
		cmd.Env = os.Environ()
		if c.env != "" {
			cmd.Env = append(cmd.Env, c.env)
		}
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatalf("%s: %v: %q", path, err, out)
		}
		return r
	}
	return run(theirs), run(ours)
}

// newGroup makes the group that a condition asks for.
func newGroup(t *testing.T, c condition) *kerneltest.Group {
	t.Helper()
	g := kerneltest.New(t)
	if c.parentQuota > 0 {
		if c.quota > c.parentQuota && g.Version == cgroup.V1 {
			t.Skip("cgroup v1 allows no quota above the parent's")
		}
		g.EnableCPU()
		g.SetQuota(micros(c.parentQuota))
		g = g.Child("own")
	}
	if c.quota > 0 {
		g.SetQuota(micros(c.quota))
	}
	return g
}

func micros(cpus float64) int { return int(cpus * 100000) }

// remounted returns commands that see the CPU hierarchy at another place, in a mount namespace of their own.
func remounted(t *testing.T, command func(string, ...string) *exec.Cmd) func(string, ...string) *exec.Cmd {
	t.Helper()
	const from = "/sys/fs/cgroup/cpu"
	if _, err := os.Stat(from + "/cpu.cfs_quota_us"); err != nil {
		t.Skipf("needs the CPU hierarchy of cgroup v1: %v", err)
	}
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		t.Skipf("no mount namespace can be made: %v", err)
	}
	to := filepath.Join(t.TempDir(), "odd place")
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	const script = `mount --bind "$1" "$2" && umount -l "$1" && shift 2 && exec "$@"`
	return func(name string, args ...string) *exec.Cmd {
		return command("unshare", append([]string{"-m", "/bin/sh", "-c", script, "sh", from, to, name}, args...)...)
	}
}
