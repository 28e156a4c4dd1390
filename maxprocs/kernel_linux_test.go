package maxprocs_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/internal/kerneltest"
	"github.com/unthrottle/unthrottle/maxprocs"
)

// These tests run this test binary again, in a cgroup where a quota is needed. MAXPROCS_TEST then holds a JSON script.

func TestMain(m *testing.M) {
	os.Unsetenv("GOMAXPROCS") // this runtime has read it already; the tests set one for the children
	if text := os.Getenv("MAXPROCS_TEST"); text != "" {
		var s script
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			panic(err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(s.run()); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// A script is what the child does.
type script struct {
	First int    // call runtime.GOMAXPROCS before all else; 0: don't
	Env   string // GOMAXPROCS, set in the program itself; "-": don't
	Min   int    // 0: no option Min
	Ceil  bool
}

// A result is what it then saw.
type result struct {
	Before, Set, Undone, UndoneTwice int
	Log                              []string
	Err                              string
}

func (s script) run() (r result) {
	if s.Env != "-" {
		os.Setenv("GOMAXPROCS", s.Env)
	}
	runtime.GOMAXPROCS(s.First)
	options := []maxprocs.Option{maxprocs.Logger(func(format string, args ...interface{}) {
		r.Log = append(r.Log, strings.TrimPrefix(fmt.Sprintf(format, args...), "maxprocs: "))
	})}
	if s.Min != 0 {
		options = append(options, maxprocs.Min(s.Min))
	}
	if s.Ceil {
		options = append(options, maxprocs.RoundQuotaFunc(func(v float64) int { return int(math.Ceil(v)) }))
	}
	r.Before = maxprocs.CurrentProcs()
	undo, err := maxprocs.Set(options...)
	if err != nil {
		r.Err = err.Error()
	}
	r.Set = maxprocs.CurrentProcs()
	undo()
	r.Undone = maxprocs.CurrentProcs()
	undo()
	r.UndoneTwice = maxprocs.CurrentProcs()
	return r
}

// child runs a script in a command that makes programs' commands.
func child(t *testing.T, command func(string, ...string) *exec.Cmd, s script) (r result) {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(os.Args[0])
	cmd.Env = append(os.Environ(), "MAXPROCS_TEST="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

func needTwoCPUs(t *testing.T) {
	t.Helper()
	if runtime.NumCPU() < 2 {
		t.Skip("needs 2 CPUs, has 1")
	}
}

const (
	fromQuota = "Updating GOMAXPROCS=%d: determined from CPU quota"
	fromCPUs  = "Updating GOMAXPROCS=%d: determined from CPU affinity, which allows less than the CPU quota"
	fromMin   = "Updating GOMAXPROCS=%d: using minimum allowed GOMAXPROCS"
	leaving   = "Leaving GOMAXPROCS=%d: CPU quota undefined"
	resetting = "Resetting GOMAXPROCS to %d"
	nothing   = "No GOMAXPROCS change to reset"
)

// expect says what Set should have made of GOMAXPROCS, and in which words. Without a change there is nothing to undo.
func (r result) expect(t *testing.T, procs int, line string) {
	t.Helper()
	if strings.Contains(line, "%d") {
		line = fmt.Sprintf(line, procs)
	}
	want := result{Before: r.Before, Set: procs, Undone: r.Before, UndoneTwice: r.Before, Log: []string{line, nothing, nothing}}
	if procs != r.Before {
		want.Log[1] = fmt.Sprintf(resetting, r.Before)
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
}

func TestKernelQuota(t *testing.T) {
	needTwoCPUs(t)
	all := runtime.NumCPU()
	g := kerneltest.New(t)
	for _, tt := range []struct {
		name   string
		micros int // of each 100 ms
		script script
		procs  int
		line   string
	}{
		{"1.5", 150000, script{Env: "-"}, 1, fromQuota},
		{"1.5 rounded up", 150000, script{Env: "-", Ceil: true}, 2, fromQuota},
		{"0.5", 50000, script{Env: "-"}, 1, fromMin},
		{"0.5 with a minimum", 50000, script{Env: "-", Min: 2}, 2, fromMin},
		{"0.5 with a minimum below 1", 50000, script{Env: "-", Min: -1}, 1, fromMin},
		{"minimum above the CPUs", 50000, script{Env: "-", Min: all + 1}, all, fromCPUs},
		{"quota above the CPUs", (all + 1) * 100000, script{Env: "-"}, all, fromCPUs},
		{"2, right already", 200000, script{Env: "-", First: 2}, 2, fromQuota},
		{"1, other number set before", 100000, script{Env: "-", First: all + 1}, 1, fromQuota},
		{"GOMAXPROCS empty", 100000, script{Env: ""}, 1, fromQuota},
		{"GOMAXPROCS=0", 100000, script{Env: "0"}, 1, fromQuota},
		{"GOMAXPROCS=-2", 100000, script{Env: "-2"}, 1, fromQuota},
		{"GOMAXPROCS=2500m", 100000, script{Env: "2500m"}, 1, fromQuota},
		{"GOMAXPROCS=3", 100000, script{Env: "3", First: 2}, 2, `Honoring GOMAXPROCS="3" as set in environment`},
		{"none", -1, script{Env: "-", First: 1}, 1, leaving},
		{"none, minimum", -1, script{Env: "-", First: 1, Min: 2}, 1, leaving},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g.SetQuota(tt.micros)
			child(t, g.Command, tt.script).expect(t, tt.procs, tt.line)
		})
	}
}

func TestKernelQuotaOnParent(t *testing.T) {
	needTwoCPUs(t)
	parent := kerneltest.New(t)
	parent.EnableCPU()
	parent.SetQuota(100000)
	child(t, parent.Child("own").Command, script{Env: "-"}).expect(t, 1, fromQuota)
}

// remounted returns commands that run a shell line in a mount namespace of their own first, with the group's directory and
// an empty one as $1 and $2.
func remounted(t *testing.T, g *kerneltest.Group, line string) func(string, ...string) *exec.Cmd {
	t.Helper()
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		t.Skipf("no mount namespace can be made: %v", err)
	}
	empty := filepath.Join(t.TempDir(), "odd place")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	return func(name string, args ...string) *exec.Cmd {
		script := line + ` && shift 2 && exec "$@"`
		return g.Command("unshare", append([]string{"-m", "/bin/sh", "-c", script, "sh", g.Dir, empty, name}, args...)...)
	}
}

func TestKernelMounts(t *testing.T) {
	needTwoCPUs(t)
	g := kerneltest.New(t)
	g.SetQuota(100000)
	t.Run("odd place", func(t *testing.T) {
		command := remounted(t, g, `mount --bind "${1%/*}" "$2" && umount -l "${1%/*}"`)
		child(t, command, script{Env: "-"}).expect(t, 1, fromQuota)
	})
	t.Run("not visible", func(t *testing.T) {
		command := remounted(t, g, `umount -l "${1%/*}"`)
		r := child(t, command, script{Env: "-"})
		if r.Err != "" || r.Set != r.Before || len(r.Log) == 0 || !strings.HasPrefix(r.Log[0], fmt.Sprintf(leaving, r.Before)+": ") {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("unreadable", func(t *testing.T) {
		// A file that no kernel would write is mounted over the quota. GOMAXPROCS must stay and there must be an error.
		line := `echo many > "$2/file" && for f in "$1"/cpu.max "$1"/cpu.cfs_quota_us; do [ ! -e "$f" ] || mount --bind "$2/file" "$f"; done`
		r := child(t, remounted(t, g, line), script{Env: "-"})
		want := result{Before: r.Before, Set: r.Before, Undone: r.Before, UndoneTwice: r.Before, Log: []string{nothing, nothing}, Err: r.Err}
		if r.Err == "" || !strings.Contains(r.Err, "many") || !reflect.DeepEqual(r, want) {
			t.Errorf("got  %+v\nwant %+v with an error about %q", r, want, "many")
		}
	})
}
