//go:build linux

package guest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/unthrottle/unthrottle/bench/vmtest"
)

// ran is the part of run's document that these tests look at.
type ran struct {
	WallSeconds      float64  `json:"wall_seconds"`
	CPUSeconds       float64  `json:"cpu_seconds"`
	LimitKind        string   `json:"limit_kind"`
	LimitCPUs        float64  `json:"limit_cpus"`
	Periods          int64    `json:"periods"`
	ThrottledPeriods int64    `json:"throttled_periods"`
	Bursts           int64    `json:"bursts"`
	Standstill       float64  `json:"longest_standstill_seconds"`
	PeakMemory       int64    `json:"peak_memory_bytes"`
	PeakMemoryOf     string   `json:"peak_memory_of"`
	Needed           int64    `json:"needed_memory_bytes"`
	ExitCode         int      `json:"exit_code"`
	Notes            []string `json:"notes"`
	Warnings         []string `json:"warnings"`
}

// busy is a program that uses all the CPU time that it gets.
var busy = []string{"--", vmtest.Command, "workload", "fib", "--for", "1s"}

// limited lets "unthrottle run" do its work at p, as a user.
func (p place) limited(t *testing.T, uid uint32, args ...string) (r ran, stderr string, err error) {
	t.Helper()
	file := fileForAll(t, "run.json")
	var errs bytes.Buffer
	cmd := p.command(nil, vmtest.Command, append([]string{"run", "--json", "-o", file}, args...)...)
	cmd.Stdout, cmd.Stderr = nil, &errs
	if uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	p.start(t, cmd)
	err = cmd.Wait()
	return readRan(t, file), errs.String(), err
}

// fileForAll makes an empty file that every user may write to.
func fileForAll(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for path := file; path != "/tmp" && path != "/"; path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// readRan reads run's document. One that was not written is empty.
func readRan(t *testing.T, file string) (r ran) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
	}
	return r
}

// groupsBelow lists the groups that unthrottle has made.
func groupsBelow(dir string) []string {
	groups, _ := filepath.Glob(filepath.Join(dir, "unthrottle-run-*"))
	return groups
}

// TestRun holds a program to limits of its own group on version 2.
func TestRun(t *testing.T) {
	needVM(t)
	for _, c := range []struct {
		name string
		args []string
		cpus float64
	}{
		{"half a CPU", []string{"--cpus", "0.5"}, 0.5},
		{"a period of 20 ms", []string{"--cpus", "500m", "--period", "20ms"}, 0.5},
		{"two and a half CPUs", []string{"--cpus", "2.5", "--gomaxprocs", "4"}, 2.5},
		{"with a burst and memory", []string{"--cpus", "0.5", "--burst", "20ms", "--memory", "256m"}, 0.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, stderr, err := atRoot(t).limited(t, 0, append(append(c.args, "--limit-with", "cgroup"), busy...)...)
			if err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			if r.LimitKind != "cgroup-v2" || r.LimitCPUs != c.cpus || r.Periods < 1 || len(r.Warnings) > 0 {
				t.Errorf("got %+v", r)
			}
			if limited := slices.Contains(c.args, "--memory"); limited && (r.Needed < 1<<20 || r.Needed > r.PeakMemory) || !limited && r.Needed != 0 {
				t.Errorf("%d bytes of %d without files", r.Needed, r.PeakMemory)
			}
			// It isn't certain what the host leaves of two and a half CPUs; of half a CPU it leaves enough.
			if c.cpus < 1 && r.ThrottledPeriods < 1 {
				t.Errorf("it was not throttled: %+v", r)
			}
			if used := r.CPUSeconds / r.WallSeconds; used > 1.5*c.cpus+0.1 {
				t.Errorf("it used %.2f CPUs", used)
			}
			if strings.Contains(c.name, "memory") && (r.PeakMemoryOf != "group" && kernelHasPeak() || r.PeakMemory < 1<<20) {
				t.Errorf("memory: %+v", r)
			}
			t.Logf("%.2f CPUs of %v, throttled in %d of %d periods", r.CPUSeconds/r.WallSeconds, c.cpus, r.ThrottledPeriods, r.Periods)
		})
	}
	if left := groupsBelow(cgroupRoot); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// kernelHasPeak: memory.peak came with Linux 5.19.
func kernelHasPeak() bool {
	found, _ := filepath.Glob(cgroupRoot + "/*/memory.peak")
	return len(found) > 0
}

// TestRunInsideLimits starts the command where there are limits already. One above its group is in force if it is smaller; one that the
// group is not held to is reported as well.
func TestRunInsideLimits(t *testing.T) {
	above := newGroup(t)
	above.limit("50000 100000")
	leaf := above.child("leaf")
	r, stderr, err := place{group: leaf}.limited(t, 0, append([]string{"--cpus", "2"}, busy...)...)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if want := "a smaller limit of a group above is in force: " + above.dir + " has 0.5 CPUs"; len(r.Warnings) != 1 || r.Warnings[0] != want {
		t.Errorf("warnings %q, want %q", r.Warnings, want)
	}
	leaf.limit("30000 100000")
	r, _, _ = place{group: leaf}.limited(t, 0, "--cpus", "0.2", "--", vmtest.Command, "version")
	if want := "the command is not held to the 0.3 CPUs of " + leaf.dir + ", which this shell is in"; len(r.Warnings) != 1 || r.Warnings[0] != want {
		t.Errorf("warnings %q, want %q", r.Warnings, want)
	}
}

// user is a user without privileges.
const user = 1000

// TestRunDelegated gives a user a subtree, as systemd does with Delegate=. The user's command makes its group there.
func TestRunDelegated(t *testing.T) {
	top := newGroup(t)
	leaf := top.bareChild("leaf")
	for _, dir := range []string{top.dir, leaf.dir} {
		for _, file := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
			if err := os.Chown(filepath.Join(dir, file), user, user); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, stderr, err := place{group: leaf}.limited(t, user, append([]string{"--cpus", "0.5"}, busy...)...)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if r.LimitKind != "cgroup-v2" || r.ThrottledPeriods < 1 || len(r.Notes) > 0 {
		t.Errorf("got %+v", r)
	}
	if left := groupsBelow(top.dir); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// TestRunUnprivileged has nothing delegated: the limit is emulated, and the document says so and why.
func TestRunUnprivileged(t *testing.T) {
	needVM(t)
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skipf("an emulated limit takes a shell: %v; setup.sh fetches one", err)
	}
	g := newGroup(t)
	r, stderr, err := place{group: g}.limited(t, user, append([]string{"--cpus", "0.5"}, busy...)...)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if r.LimitKind != "emulated" || r.ThrottledPeriods < 1 || len(r.Notes) != 2 || !strings.HasPrefix(r.Notes[0], "cgroup: ") {
		t.Errorf("got %+v", r)
	}
	if used := r.CPUSeconds / r.WallSeconds; used > 0.85 {
		t.Errorf("it used %.2f CPUs", used)
	}
	_, stderr, err = place{group: g}.limited(t, user, append([]string{"--cpus", "0.5", "--limit-with", "cgroup"}, busy...)...)
	if err == nil || !strings.Contains(stderr, "hint: --limit-with=emulate needs no privilege") {
		t.Errorf("got %v: %s", err, stderr)
	}
}

// TestRunKilled kills the command itself. Its program ends with it, and the next one removes the group.
func TestRunKilled(t *testing.T) {
	g := newGroup(t)
	leaf := g.child("leaf")
	cmd := place{group: leaf}.command(nil, vmtest.Command, "run", "--cpus", "0.5", "--", vmtest.Command, "workload", "fib", "--for", "10m")
	place{group: leaf}.start(t, cmd)
	if !poll(func() bool {
		groups := groupsBelow(g.dir)
		return len(groups) == 1 && len(processes(groups[0])) > 0
	}) {
		t.Fatal("no group was made")
	}
	cmd.Process.Kill()
	cmd.Wait()
	if !poll(func() bool { return len(processes(groupsBelow(g.dir)[0])) == 0 }) {
		t.Error("the program outlived the command")
	}
	if _, stderr, err := (place{group: leaf}).limited(t, 0, "--cpus", "0.5", "--", vmtest.Command, "version"); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	if left := groupsBelow(g.dir); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// TestRunLost removes the controller from the group while the command runs, as systemd does when nothing of its own needs it. The limit
// goes with it, and that must be said. The command stays below its limit: Linux 6.1 can forget to wake what is throttled at this moment,
// for good.
func TestRunLost(t *testing.T) {
	g := newGroup(t)
	leaf := g.child("leaf")
	var stderr bytes.Buffer
	cmd := place{group: leaf}.command(nil, vmtest.Command, append([]string{"run", "--cpus", "2", "--gomaxprocs", "1"}, busy...)...)
	cmd.Stderr = &stderr
	place{group: leaf}.start(t, cmd)
	if !poll(func() bool {
		groups := groupsBelow(g.dir)
		return len(groups) == 1 && len(processes(groups[0])) > 0
	}) {
		t.Fatal("no group was made")
	}
	g.write("cgroup.subtree_control", "-cpu")
	cmd.Wait()
	if !strings.Contains(stderr.String(), "the limit was lost") {
		t.Errorf("it does not say that the limit was lost: %s", &stderr)
	}
}

func processes(group string) []string {
	data, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	return strings.Fields(string(data))
}

// A labRun is a run in a document of bench.
type labRun struct {
	GOMAXPROCS int                `json:"gomaxprocs"`
	LimitKind  string             `json:"limit_kind"`
	Error      string             `json:"error"`
	Metrics    map[string]float64 `json:"metrics"`
}

// labRuns are those of a bench, each of which has to have gone well.
func labRuns(t *testing.T, cmd *exec.Cmd) []labRun {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	var doc struct{ Runs []labRun }
	if err := json.Unmarshal(stdout.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	for _, r := range doc.Runs {
		if r.Error != "" || r.Metrics["ops/s"] <= 0 {
			t.Errorf("got %+v", r)
		}
	}
	return doc.Runs
}

// TestBench runs a small lab on all of the machine's CPUs.
func TestBench(t *testing.T) {
	needVM(t)
	cmd := exec.Command(vmtest.Command, "bench", "fib", "--procs", "1,max", "--cpus", "0.5,none", "--blocks", "2", "--for", "200ms", "--json")
	cmd.Env = []string{"HOME=/tmp", "PATH=/"}
	kinds, procs := map[string]int{}, map[int]int{}
	for _, r := range labRuns(t, cmd) {
		kinds[r.LimitKind]++
		procs[r.GOMAXPROCS]++
	}
	if kinds["cgroup-v2"] != 4 || kinds["none"] != 4 || procs[1] != 4 || procs[runtime.NumCPU()] != 4 {
		t.Errorf("kinds %v, GOMAXPROCS %v", kinds, procs)
	}
}
