package choice

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/cmd/internal/process/procs"
	"github.com/unthrottle/unthrottle/internal/fixture"
)

// system lays out a process with eight CPUs in cgroup /a/b of v2, with these texts of cpu.max; "" is no file.
func system(t *testing.T, parent, own string, policy unthrottle.Policy) System {
	t.Helper()
	tree := fixture.Tree{Files: []fixture.File{
		{Name: "proc/self/cgroup", Data: "0::/a/b\n"},
		{Name: "proc/self/mountinfo", Data: "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"},
		{Name: "proc/self/status", Data: "Name:\tserver\nCpus_allowed:\tff\n"},
		{Name: "sys/fs/cgroup/a/b/cgroup.procs"},
	}}
	if parent != "" {
		tree.SetFile("sys/fs/cgroup/a/cpu.max", parent+"\n")
	}
	if own != "" {
		tree.SetFile("sys/fs/cgroup/a/b/cpu.max", own+"\n")
	}
	root := t.TempDir()
	if err := tree.WriteTo(root); err != nil {
		t.Fatal(err)
	}
	return ReadSystem(root, 0, policy)
}

func TestPredict(t *testing.T) {
	const version = "go1.26.8"
	old := map[string]string{"containermaxprocs": "0"}
	for _, test := range []struct {
		name        string
		parent, own string
		policy      unthrottle.Policy
		program     *procs.Program
		programErr  error
		env         map[string]string
		procs       int
		source      Source
		rule        Rule
		why         string // what the reason holds
	}{
		{
			name: "runtime, own limit", own: "250000 100000", program: &procs.Program{GoVersion: version},
			procs: 3, source: FromLimit, rule: Go126, why: "rounds its limit up",
		},
		{
			name: "runtime, minimum", own: "50000 100000", program: &procs.Program{GoVersion: version},
			procs: 2, source: FromLimit, rule: Go126, why: "to 2 at least",
		},
		{
			name: "runtime, limit above the CPUs", own: "1000000 100000", program: &procs.Program{GoVersion: version},
			procs: 8, source: FromCPUs, rule: Go126, why: "affinity",
		},
		{
			name: "runtime, limit of the CPUs", own: "800000 100000", program: &procs.Program{GoVersion: version},
			procs: 8, source: FromCPUs, rule: Go126, why: "affinity",
		},
		{
			name: "runtime, parent's limit", parent: "200000 100000", own: "max 100000", program: &procs.Program{GoVersion: version},
			procs: 8, source: FromCPUs, rule: Go126, why: "own cgroup only",
		},
		{
			name: "runtime, no limit", own: "max 100000", program: &procs.Program{GoVersion: version},
			procs: 8, source: FromCPUs, rule: Go126, why: "affinity",
		},
		{
			name: "runtime, fatal error", own: "100000 0", program: &procs.Program{GoVersion: version},
			rule: Go126, why: "fatal error",
		},
		{
			name: "Go 1.27", own: "250000 100000", program: &procs.Program{GoVersion: "go1.27.3"},
			procs: 3, source: FromLimit, rule: Go126,
		},
		{
			name: "Go 1.25", own: "250000 100000", program: &procs.Program{GoVersion: "go1.25.14"},
			procs: 3, source: FromLimit, rule: Go125,
		},
		{
			name: "Go 1.24", own: "250000 100000", program: &procs.Program{GoVersion: "go1.24.13"},
			procs: 8, source: FromCPUs, rule: Go124, why: "its Go version",
		},
		{
			name: "development version", own: "250000 100000", program: &procs.Program{GoVersion: "devel go1.28-2f0c9a1 Thu"},
			procs: 3, source: FromLimit, rule: Go126,
		},
		{name: "unknown version", own: "250000 100000", program: &procs.Program{GoVersion: "weird"}, why: `unknown Go version "weird"`},
		{
			name: "old go line", own: "250000 100000", program: &procs.Program{GoVersion: version, Defaults: old},
			procs: 8, source: FromCPUs, rule: Go124, why: "containermaxprocs=0",
		},
		{
			name: "GODEBUG turns it off", own: "250000 100000", program: &procs.Program{GoVersion: version},
			env:   map[string]string{"GODEBUG": "x=1,containermaxprocs=0"},
			procs: 8, source: FromCPUs, rule: Go124, why: "containermaxprocs=0",
		},
		{
			name: "GODEBUG turns it on", own: "250000 100000", program: &procs.Program{GoVersion: version, Defaults: old},
			env:   map[string]string{"GODEBUG": "containermaxprocs=1"},
			procs: 3, source: FromLimit, rule: Go126,
		},

		{
			name: "environment", own: "250000 100000", program: &procs.Program{GoVersion: version, Unthrottle: procs.Imported, Automaxprocs: procs.Imported},
			env:   map[string]string{"GOMAXPROCS": "5"},
			procs: 5, source: FromEnvironment, why: "GOMAXPROCS=5",
		},
		{
			name: "environment above the CPUs", own: "250000 100000", program: &procs.Program{GoVersion: version},
			env:   map[string]string{"GOMAXPROCS": "64"},
			procs: 64, source: FromEnvironment,
		},
		{
			name: "environment, empty", own: "250000 100000", program: &procs.Program{GoVersion: version},
			env:   map[string]string{"GOMAXPROCS": ""},
			procs: 3, source: FromLimit, rule: Go126,
		},
		{
			name: "environment, no whole number", own: "250000 100000", program: &procs.Program{GoVersion: version},
			env:   map[string]string{"GOMAXPROCS": "2500m"},
			procs: 3, source: FromLimit, rule: Go126,
		},
		{
			name: "environment, zero", own: "250000 100000", program: &procs.Program{GoVersion: version},
			env:   map[string]string{"GOMAXPROCS": "0"},
			procs: 3, source: FromLimit, rule: Go126,
		},

		{
			name: "automaxprocs", own: "250000 100000", program: &procs.Program{GoVersion: version, Automaxprocs: procs.Imported},
			procs: 2, source: FromAutomaxprocs, rule: Automaxprocs, why: "down",
		},
		{
			name: "automaxprocs, called", own: "50000 100000", program: &procs.Program{GoVersion: "go1.24.13", Automaxprocs: procs.Linked},
			procs: 1, source: FromAutomaxprocs, rule: Automaxprocs,
		},
		{
			name: "automaxprocs does not clamp", own: "1000000 100000", program: &procs.Program{GoVersion: version, Automaxprocs: procs.Imported},
			procs: 10, source: FromAutomaxprocs, rule: Automaxprocs,
		},
		{
			name: "automaxprocs, required only", own: "250000 100000", program: &procs.Program{GoVersion: version, Automaxprocs: procs.Required},
			procs: 3, source: FromLimit, rule: Go126,
		},
		{
			name: "automaxprocs finds no limit", own: "max 100000", program: &procs.Program{GoVersion: "go1.24.13", Automaxprocs: procs.Imported},
			procs: 8, source: FromCPUs, rule: Go124,
		},
		{
			name: "automaxprocs takes any text in the environment for a choice", own: "250000 100000",
			program: &procs.Program{GoVersion: version, Automaxprocs: procs.Imported},
			env:     map[string]string{"GOMAXPROCS": ""},
			procs:   3, source: FromLimit, rule: Go126,
		},
		{
			name: "automaxprocs takes a quota below zero", own: "-1 100000", program: &procs.Program{GoVersion: "go1.24.13", Automaxprocs: procs.Imported},
			procs: 1, source: FromAutomaxprocs, rule: Automaxprocs,
		},

		{
			name: "unthrottle", parent: "200000 100000", own: "max 100000", program: &procs.Program{GoVersion: version, Unthrottle: procs.Imported},
			policy: unthrottle.Go,
			procs:  2, source: FromUnthrottle, rule: Unthrottle, why: "GOMAXPROCS=2",
		},
		{
			name: "unthrottle, called, rounding down", own: "350000 100000", program: &procs.Program{GoVersion: version, Unthrottle: procs.Linked},
			policy: unthrottle.Floor,
			procs:  3, source: FromUnthrottle, rule: Unthrottle,
		},
		{
			name: "unthrottle, required only", parent: "200000 100000", own: "max 100000",
			program: &procs.Program{GoVersion: version, Unthrottle: procs.Required},
			procs:   8, source: FromCPUs, rule: Go126,
		},
		{
			name: "unthrottle off leaves the runtime's choice", own: "350000 100000", program: &procs.Program{GoVersion: version, Unthrottle: procs.Imported},
			policy: unthrottle.Off,
			procs:  4, source: FromLimit, rule: Go126,
		},
		{
			name: "unthrottle off leaves automaxprocs'", own: "350000 100000",
			program: &procs.Program{GoVersion: version, Unthrottle: procs.Imported, Automaxprocs: procs.Imported},
			policy:  unthrottle.Off,
			procs:   3, source: FromAutomaxprocs, rule: Automaxprocs,
		},
		{
			name: "both: what automaxprocs has lowered stays low", own: "350000 100000",
			program: &procs.Program{GoVersion: version, Unthrottle: procs.Imported, Automaxprocs: procs.Imported},
			procs:   3, source: FromAutomaxprocs, rule: Automaxprocs,
		},
		{
			name: "both, under the parent's limit, which automaxprocs does not see", parent: "150000 100000", own: "350000 100000",
			program: &procs.Program{GoVersion: version, Unthrottle: procs.Imported, Automaxprocs: procs.Imported},
			procs:   2, source: FromUnthrottle, rule: Unthrottle,
		},
		{
			name: "unthrottle, limit not known", own: "garbage", program: &procs.Program{GoVersion: version, Unthrottle: procs.Imported},
			procs: 8, source: FromCPUs, rule: Go126,
		},

		{name: "no Go program", own: "250000 100000", programErr: procs.ErrNotGo, why: "not a Go program"},
		{name: "no program to read", own: "250000 100000", programErr: errors.New("no permission"), why: "no permission"},
		{name: "no program and no reason", own: "250000 100000", why: "no program was looked at"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := system(t, test.parent, test.own, test.policy)
			got := s.Predict(procs.Process{Program: test.program, ProgramErr: test.programErr, Env: test.env})
			if got.Procs != test.procs || got.Source != test.source || got.Rule != test.rule || !strings.Contains(got.Why, test.why) {
				t.Errorf("got %+v, want %d from %q by %q because %q", got, test.procs, test.source, test.rule, test.why)
			}
			if got.Why == "" {
				t.Error("no reason")
			}
		})
	}
}

// Without the number of CPUs only the rules that do not ask for it have an answer.
func TestPredictWithoutCPUs(t *testing.T) {
	s := system(t, "", "250000 100000", unthrottle.Go)
	s.Limits.Affinity, s.Inside.Affinity = 0, 0
	for _, test := range []struct {
		program procs.Program
		procs   int
	}{
		{procs.Program{GoVersion: "go1.26.8"}, 0},
		{procs.Program{GoVersion: "go1.26.8", Automaxprocs: procs.Imported}, 2},
		{procs.Program{GoVersion: "go1.26.8", Unthrottle: procs.Imported}, 3},
	} {
		if got := s.Predict(procs.Process{Program: &test.program}); got.Procs != test.procs || got.Why == "" {
			t.Errorf("%+v: got %+v, want %d", test.program, got, test.procs)
		}
	}
}

// Where the limit can't be seen from inside, importing a library would not help.
func TestOutOfSight(t *testing.T) {
	s := system(t, "200000 100000", "max 100000", unthrottle.Go)
	s.Inside = system(t, "", "max 100000", unthrottle.Go).Limits
	for _, c := range s.Rules() {
		if !c.Wrong || !strings.Contains(c.Fix, "on the container itself") {
			t.Errorf("%+v", c)
		}
	}
}

func TestRebase(t *testing.T) {
	for _, test := range []struct {
		name, base     string
		cgroup, mounts string
		wantC, wantM   string
	}{
		{
			name: "own root", base: "/kubepods/pod1/c",
			cgroup: "0::/kubepods/pod1/c\n", wantC: "0::/\n",
			mounts: "1 2 0:3 /kubepods/pod1/c /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
			wantM:  "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
		},
		{
			name: "below the root", base: "/pod",
			cgroup: "4:cpu,cpuacct:/pod/init\n0::/pod\n", wantC: "4:cpu,cpuacct:/init\n0::/\n",
			mounts: "1 2 0:3 /pod/init /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
			wantM:  "1 2 0:3 /init /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
		},
		{
			name: "a name that only begins the same", base: "/pod1",
			cgroup: "0::/pod10/c\n", wantC: "0::/pod10/c\n",
			mounts: "1 2 0:3 /pod10 /x rw - cgroup2 cgroup rw\n", wantM: "1 2 0:3 /pod10 /x rw - cgroup2 cgroup rw\n",
		},
		{
			name: "outside of the reader's namespace", base: "/../pod/c",
			cgroup: "0::/../pod/c/d\n", wantC: "0::/d\n",
			mounts: "1 2 0:3 /../pod/c /x rw - cgroup2 cgroup rw\n", wantM: "1 2 0:3 / /x rw - cgroup2 cgroup rw\n",
		},
		{
			name: "escapes", base: "/my app",
			cgroup: "0::/my app/x:y\n", wantC: "0::/x:y\n",
			mounts: "1 2 0:3 /my\\040app /my\\040app rw - cgroup2 cgroup rw\n", wantM: "1 2 0:3 / /my\\040app rw - cgroup2 cgroup rw\n",
		},
		{
			name: "other file systems and odd lines stay", base: "/pod",
			cgroup: "x\n\n0:/pod\n", wantC: "x\n\n0:/pod\n",
			mounts: "1 2 0:3 /pod /pod rw - ext4 /dev/x rw\nx\n\n", wantM: "1 2 0:3 /pod /pod rw - ext4 /dev/x rw\nx\n\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := System{cgroup: test.cgroup, mountinfo: test.mounts}
			s.rebase(test.base)
			if s.cgroup != test.wantC || s.mountinfo != test.wantM {
				t.Errorf("got\n%s%s\nwant\n%s%s", s.cgroup, s.mountinfo, test.wantC, test.wantM)
			}
		})
	}
}

// A process in a container, with the namespaces that ReadSystem recognises it by: the kernel shows its paths as the reader sees them, and
// Go 1.25, which trips over them, sees others.
func TestReadSystemNamespaces(t *testing.T) {
	tree := fixture.Tree{Files: []fixture.File{
		{Name: "proc/self/mountinfo", Data: "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"},
		{Name: "proc/42/cgroup", Data: "0::/pod/c\n"},
		{Name: "proc/42/mountinfo", Data: "700 500 0:28 /pod/c /sys/fs/cgroup ro - cgroup2 cgroup rw\n"},
		{Name: "proc/42/status", Data: "Name:\tserver\nCpus_allowed:\tff\n"},
		{Name: "proc/42/root/proc/uptime"},
		{Name: "proc/42/root/sys/fs/cgroup/cpu.max", Data: "300000 100000\n"},
		{Name: "sys/fs/cgroup/pod/c/cpu.max", Data: "300000 100000\n"},
		{Name: "sys/fs/cgroup/pod/cpu.max", Data: "150000 100000\n"},
	}}
	for _, test := range []struct {
		name   string
		cgroup string // the process's cgroup namespace
		go125  int
	}{
		{"own cgroup namespace", "cgroup:[2]", 3},
		{"the reader's cgroup namespace", "cgroup:[1]", 8},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			if err := tree.WriteTo(root); err != nil {
				t.Fatal(err)
			}
			for file, target := range map[string]string{
				"self/ns/mnt": "mnt:[1]", "42/ns/mnt": "mnt:[2]", "self/ns/cgroup": "cgroup:[1]", "42/ns/cgroup": test.cgroup,
			} {
				link(t, filepath.Join(root, "proc", file), target)
			}
			s := ReadSystem(root, 42, unthrottle.Go)
			if s.Limits.CPUs != 1.5 || s.Inside.CPUs != 3 {
				t.Errorf("limit %v, inside %v, want 1.5 and 3", s.Limits.CPUs, s.Inside.CPUs)
			}
			if got := s.Of(Go125); got.Procs != test.go125 {
				t.Errorf("Go 1.25: %+v, want %d", got, test.go125)
			}
			if got := s.Of(Go126); got.Procs != 3 || !got.Wrong || !strings.Contains(got.Fix, "container itself") {
				t.Errorf("Go 1.26: %+v", got)
			}
		})
	}
}

// Dots in a path do not lead out of the root.
func TestReadStaysInside(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	for _, d := range []string{filepath.Join(dir, "out"), root} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "out/cpu.max"), []byte("100000 100000\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	s := ReadSystem(root, 0, unthrottle.Go)
	if text, err := s.read("/sys/fs/cgroup/../../../../out/cpu.max"); err == nil {
		t.Errorf("read %q from outside", text)
	}
}

// What real programs do with these texts, of Go 1.23.12, 1.24.13, 1.25.14, 1.26.11 and 1.27.3: from 1.26 on the runtime reads
// them as strconv.ParseInt does, which takes a sign.
func TestUserProcs(t *testing.T) {
	tests := map[string]int{
		"": 0, "0": 0, "-1": 0, "-4": 0, "4": 4, "004": 4, "2147483647": 2147483647, "2147483648": 0, "2500m": 0, " 4": 0, "4 ": 0,
		"4.0": 0, "0x4": 0, "1_0": 0, "+": 0, "+0": 0, "++4": 0,
	}
	old := []*procs.Program{nil, {GoVersion: "go1.23.12"}, {GoVersion: "go1.25.14"}}
	young := []*procs.Program{{GoVersion: "go1.26.11"}, {GoVersion: "go1.27.3"}}
	check := func(env string, want int, programs ...*procs.Program) {
		for _, p := range programs {
			if got := UserProcs(env, p); got != want {
				t.Errorf("UserProcs(%q) of %+v = %d, want %d", env, p, got, want)
			}
		}
	}
	for env, want := range tests {
		check(env, want, old...)
		check(env, want, young...)
	}
	for env, want := range map[string]int{"+4": 4, "+04": 4, "+2147483648": 0} {
		check(env, 0, old...)
		check(env, want, young...)
	}
}

// TestUserProcsReal asks the runtime that runs this test.
func TestUserProcsReal(t *testing.T) {
	if os.Getenv("UNTHROTTLE_TEST_PROCS") != "" {
		fmt.Println("GOMAXPROCS is", runtime.GOMAXPROCS(0))
		return
	}
	const many = 37 // no machine has as many CPUs
	own := &procs.Program{GoVersion: runtime.Version()}
	for _, env := range []string{"37", "0037", "+37", "37.0", " 37", "-37", "0x25", "3_7", "+", "max"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestUserProcsReal$")
		cmd.Env = append(os.Environ(), "UNTHROTTLE_TEST_PROCS=1", "GOMAXPROCS="+env)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		taken := strings.Contains(string(out), fmt.Sprintf("GOMAXPROCS is %d\n", many))
		if got := UserProcs(env, own); taken != (got == many) {
			t.Errorf("%s and GOMAXPROCS=%q: taken is %v, UserProcs says %d", own.GoVersion, env, taken, got)
		}
	}
}
