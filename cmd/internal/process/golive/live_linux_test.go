package golive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/kerneltest"
	"github.com/unthrottle/unthrottle/internal/slowtest"
)

// versions are the Go versions of the matrix: the last patch release of each that was there when it was written.
var versions = []string{"go1.21.13", "go1.22.12", "go1.23.12", "go1.24.13", "go1.25.14", "go1.26.8", "go1.27.3"}

// A flavour is a way to build a program.
type flavour struct {
	name  string
	args  []string
	cgo   bool
	strip bool
	fast  bool // part of the ordinary test run
}

var static = "-ldflags=-s -w -linkmode external -extldflags -static"

var flavours = []flavour{
	{name: "plain", fast: true},
	{name: "s-w", args: []string{"-ldflags=-s -w"}},
	{name: "strip", strip: true, fast: true},
	{name: "pie", args: []string{"-buildmode=pie"}},
	{name: "pie-stripped", args: []string{"-buildmode=pie", "-ldflags=-s -w"}, strip: true, fast: true},
	{name: "cgo", args: []string{"-tags=usecgo"}, cgo: true},
	{name: "cgo-pie", args: []string{"-tags=usecgo", "-buildmode=pie"}, cgo: true},
	{name: "cgo-pie-stripped", args: []string{"-tags=usecgo", "-buildmode=pie"}, cgo: true, strip: true, fast: true},
	{name: "cgo-static", args: []string{"-tags=usecgo", static}, cgo: true},
	{name: "trimpath", args: []string{"-trimpath", "-ldflags=-s -w"}},
	{name: "unoptimised", args: []string{"-gcflags=all=-N -l", "-ldflags=-s -w"}},
}

// skip skips a test for a reason that must not be one where the matrix is required.
func skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("UNTHROTTLE_REQUIRE_MATRIX") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// cached makes a file once for all test runs. key says all that it depends on.
func cached(t testing.TB, name, key string, make func(path string) error) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = t.TempDir()
	}
	dir = filepath.Join(dir, "unthrottle-test", "golive")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%x", name, sha256.Sum256([]byte(key)))[:len(name)+13])
	if _, err := os.Stat(path); err == nil {
		return path
	}
	temp := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(temp)
	if err := make(temp); err != nil {
		skip(t, "building %s: %v", name, err)
	}
	if err := os.Rename(temp, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func command(env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// goBuild builds the files of a directory in testdata with a toolchain.
func goBuild(version, out, dir string, env, args []string) error {
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.go"))
	if err != nil {
		return err
	}
	if !slices.Contains(args, "-tags=usecgo") && dir == "target" {
		files = files[len(files)-1:]
	}
	// Outside of modules the go command does not change to another toolchain, so it is asked where that is.
	root := exec.Command("go", "env", "GOROOT")
	root.Env = append(os.Environ(), "GOTOOLCHAIN="+version, "GOWORK=off", "GOFLAGS=")
	path, err := root.Output()
	if err != nil {
		return fmt.Errorf("toolchain %s: %w", version, err)
	}
	env = append([]string{"GOTOOLCHAIN=local", "GOROOT=", "GOWORK=off", "GO111MODULE=off", "GOFLAGS="}, env...)
	tool := filepath.Join(strings.TrimSpace(string(path)), "bin/go")
	return command(env, tool, append(append([]string{"build", "-o", out}, args...), files...)...)
}

func sources(t testing.TB, dir string) string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join("testdata", dir, "*"))
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// target builds the program of testdata/target.
func target(t testing.TB, version string, f flavour) string {
	t.Helper()
	if f.cgo {
		if _, err := exec.LookPath("gcc"); err != nil {
			skip(t, "no C compiler: %v", err)
		}
	}
	if _, err := exec.LookPath("strip"); err != nil && f.strip {
		skip(t, "no strip: %v", err)
	}
	key := fmt.Sprint(version, f.args, f.cgo, f.strip, sources(t, "target"))
	return cached(t, version+"-"+f.name, key, func(path string) error {
		cgo := "CGO_ENABLED=0"
		if f.cgo {
			cgo = "CGO_ENABLED=1"
		}
		if err := goBuild(version, path, "target", []string{cgo}, f.args); err != nil {
			return err
		}
		if f.strip {
			return command(nil, "strip", "--strip-all", path)
		}
		return nil
	})
}

// A child is a program that a test started.
type child struct {
	*exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

// start starts a program and waits for its first line. It ends with the test.
func start(t testing.TB, env []string, name string, args ...string) *child {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	in, out := kerneltest.Talk(t, cmd)
	c := &child{cmd, in, bufio.NewReader(out)}
	c.line(t)
	return c
}

func (c *child) line(t testing.TB) {
	t.Helper()
	if _, err := c.out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, pid int) *Process {
	t.Helper()
	p, err := Open("", pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func check(t *testing.T, p *Process, want int) Value {
	t.Helper()
	v, err := p.GOMAXPROCS()
	if err != nil || v.Procs != want {
		t.Errorf("GOMAXPROCS is %+v, %v; want %d", v, err, want)
	}
	return v
}

// ofMatrix are the versions to test, by UNTHROTTLE_MATRIX: all of them for 1; for sample those of matrix, where each flavour
// is built once, and the oldest and the newest elsewhere; else the one that this test is built with.
func ofMatrix(matrix []string) []string {
	switch os.Getenv("UNTHROTTLE_MATRIX") {
	case "1":
		return versions
	case "sample":
		return matrix
	}
	return []string{runtime.Version()}
}

var oldestAndNewest = []string{versions[0], versions[len(versions)-1]}

func TestMatrix(t *testing.T) {
	kind := os.Getenv("UNTHROTTLE_MATRIX")
	if runtime.GOARCH != "amd64" {
		t.Skip("the matrix is built for amd64")
	}
	for i, version := range ofMatrix(versions) {
		for j, f := range flavours {
			if kind == "" && !f.fast || kind == "sample" && (i+j)%len(versions) != 0 {
				continue
			}
			t.Run(version+"/"+f.name, func(t *testing.T) {
				path := target(t, version, f)
				for _, n := range []int{1, 2, 7, 192} {
					testTarget(t, version, f, path, n)
				}
			})
		}
	}
}

func testTarget(t *testing.T, version string, f flavour, path string, n int) {
	c := start(t, []string{fmt.Sprint("PROCS=", n), fmt.Sprint("NEXT=", n%7+2), "GOGC=150", "GOMEMLIMIT=90MiB"}, path)
	p := open(t, c.Process.Pid)
	v := check(t, p, n)
	if v.How != "decoded" {
		t.Errorf("the value was found by %q", v.How)
	}
	if got := p.runtime.m.version; got != version {
		t.Errorf("the program was built by %q", got)
	}
	checkSymbols(t, p, path)
	searched(t, p, n)
	checkSched(t, p, version, f, n)
	checkCollector(t, p, f)
	if err := c.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	c.line(t)
	check(t, p, n%7+2)
	check(t, open(t, c.Process.Pid), n%7+2)
	p.Close()
	c.Process.Kill()
	c.Wait()
}

// checkSymbols compares the addresses from code with the symbols of a program that has them.
func checkSymbols(t *testing.T, p *Process, path string) {
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return
	}
	bias := uint64(0)
	for _, s := range symbols {
		if s.Name == "runtime.gomaxprocs" {
			bias = p.runtime.v.gomaxprocs - s.Value
			if f.Type == elf.ET_EXEC && bias != 0 || bias%pageSize != 0 {
				t.Errorf("gomaxprocs is at %#x, its symbol at %#x", p.runtime.v.gomaxprocs, s.Value)
			}
		}
	}
	for _, s := range symbols {
		if s.Name == "runtime.allp" && p.runtime.v.allp[0] != s.Value+bias {
			t.Errorf("allp is at %#x, its symbol at %#x", p.runtime.v.allp[0], s.Value+bias)
		}
		if s.Name == "runtime.gcController" && !slices.Contains(p.runtime.v.collector, s.Value+bias) {
			t.Errorf("gcController is at one of %#x, its symbol at %#x", p.runtime.v.collector, s.Value+bias)
		}
		if s.Name == "runtime.sched" && p.runtime.v.sched != 0 && p.runtime.v.sched != s.Value+bias {
			t.Errorf("sched is at %#x, its symbol at %#x", p.runtime.v.sched, s.Value+bias)
		}
	}
}

// searched tries the search of the data on a program that does not need it.
func searched(t *testing.T, p *Process, n int) {
	t.Helper()
	c := &code{m: p.runtime.m.on(strings.NewReader(""))} // without code and symbols
	bias := uint64(0)
	if !c.m.Fixed {
		maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", p.pid))
		if err != nil {
			t.Fatal(err)
		}
		defer maps.Close()
		all, err := parseMaps(maps)
		if err != nil {
			t.Fatal(err)
		}
		path, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid))
		all = slices.DeleteFunc(all, func(m mapping) bool { return m.path != path })
		bias, _ = c.m.bias(all, uint64(os.Getpagesize()))
	}
	r, err := newReader(c, p, bias)
	if err != nil {
		t.Errorf("by search: %v", err)
		return
	}
	if r.v.how != "scan" || len(r.procs) != n || r.v.allp[0] != p.runtime.v.allp[0] {
		t.Errorf("by search: %d Ps, allp at %#x, in truth %#x", len(r.procs), r.v.allp[0], p.runtime.v.allp[0])
	}
}

func checkSched(t *testing.T, p *Process, version string, f flavour, n int) {
	t.Helper()
	s, err := p.Sched()
	if f.name == "unoptimised" {
		if !errors.Is(err, ErrNoSched) {
			t.Errorf("Sched without inlined atomics: %v", err)
		}
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	since25 := minor(version) >= 25
	if s.Procs != n || s.Idle+s.Running+s.Syscall+s.GCStop != n || s.Custom != since25 || s.CustomKnown != since25 ||
		s.Collections != 3 || !s.CollectionsKnown || s.Waits == 0 || s.Waits > 1e6 {
		t.Errorf("Sched is %+v", s)
	}
}

// A program that did not set GOMAXPROCS is not custom; neither is the calling process, which has pid 0 too.
func TestNotCustom(t *testing.T) {
	c := start(t, []string{"GOMAXPROCS="}, target(t, runtime.Version(), flavours[0]))
	s, err := open(t, c.Process.Pid).Sched()
	if err != nil || s.Custom || !s.CustomKnown {
		t.Errorf("Sched is %+v, %v", s, err)
	}
	check(t, open(t, 0), runtime.GOMAXPROCS(0))
}

// Where process_vm_readv is refused, /proc/PID/mem does.
func TestWithoutVector(t *testing.T) {
	c := start(t, []string{"PROCS=5"}, target(t, runtime.Version(), flavours[0]))
	p, err := Open("//", c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.noVM = true
	check(t, p, 5)
	c.Process.Kill()
	c.Wait()
	if _, err := p.GOMAXPROCS(); !errors.Is(err, ErrExited) {
		t.Errorf("after the end: %v", err)
	}
}

// Many processes are read with what was learned about their file from one of them, wherever each was loaded.
func TestFiles(t *testing.T) {
	path := target(t, runtime.Version(), flavours[4]) // position-independent
	var files Files
	for n := 1; n <= 4; n++ {
		c := start(t, []string{fmt.Sprint("PROCS=", n)}, path)
		p, err := files.Open("", c.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		check(t, p, n)
		if s, err := p.Sched(); err != nil || s.Collections != 3 {
			t.Errorf("process %d: %d collections, %v", n, s.Collections, err)
		}
	}
	if n := files.memo.Len(); n != 1 {
		t.Errorf("%d files are known", n)
	}
	sleep := exec.Command("sleep", "100")
	if err := sleep.Start(); err != nil {
		t.Skip(err)
	}
	defer sleep.Wait()
	defer sleep.Process.Kill()
	for range 2 {
		if _, err := files.Open("", sleep.Process.Pid); !errors.Is(err, ErrNotGo) {
			t.Errorf("sleep: %v", err)
		}
	}
}

func TestLibraryInC(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		skip(t, "no C compiler: %v", err)
	}
	host := cached(t, "host", sources(t, "library"), func(path string) error {
		return command(nil, "gcc", "-x", "c", "-o", path, "testdata/library/host.c.txt", "-ldl")
	})
	for _, version := range ofMatrix(oldestAndNewest) {
		t.Run(version, func(t *testing.T) {
			library := cached(t, version+"-library", sources(t, "library"), func(path string) error {
				err := goBuild(version, path, "library", []string{"CGO_ENABLED=1"}, []string{"-buildmode=c-shared", "-ldflags=-s -w"})
				os.Remove(path + ".h")
				os.Remove(strings.TrimSuffix(path, filepath.Ext(path)) + ".h")
				return err
			})
			c := start(t, []string{"PROCS=6"}, host, library)
			p := open(t, c.Process.Pid)
			check(t, p, 6)
			if p.GoVersion() != version {
				t.Errorf("the library was built by %q", p.GoVersion())
			}
		})
	}
}

func TestNotGo(t *testing.T) {
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	// Before its exec the child is a copy of this test, which is a Go program; exec.Cmd waits for that.
	if _, err := Open("", cmd.Process.Pid); !errors.Is(err, ErrNotGo) {
		t.Errorf("sleep: %v", err)
	}
	if os.Getuid() == 0 {
		if _, err := Open("", 2); err == nil || !errors.Is(err, ErrNotGo) && !errors.Is(err, ErrExited) {
			t.Errorf("pid 2, often a kernel thread: %v", err)
		}
	}
}

func TestExit(t *testing.T) {
	path := target(t, runtime.Version(), flavours[0])
	c := start(t, []string{"PROCS=3"}, path)
	p := open(t, c.Process.Pid)
	check(t, p, 3)
	c.Process.Kill()
	c.Process.Wait()
	if _, err := p.GOMAXPROCS(); !errors.Is(err, ErrExited) {
		t.Errorf("GOMAXPROCS of a dead process: %v", err)
	}
	if _, err := p.Sched(); !errors.Is(err, ErrExited) {
		t.Errorf("Sched of a dead process: %v", err)
	}
	if _, err := Open("", c.Process.Pid); !errors.Is(err, ErrExited) {
		t.Errorf("opening a dead process: %v", err)
	}
}

func TestZombie(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	stat := fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid)
	for {
		text, err := os.ReadFile(stat)
		if err != nil {
			t.Skip(err)
		}
		if strings.Contains(string(text), ") Z ") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := Open("", cmd.Process.Pid); !errors.Is(err, ErrExited) {
		t.Errorf("a zombie: %v", err)
	}
}

// Processes that start and end while they are read give the value or a clean error, never another number.
func TestRace(t *testing.T) {
	slowtest.Skip(t)
	path := target(t, runtime.Version(), flavours[0])
	for i := range 60 {
		cmd := exec.Command(path)
		cmd.Env = append(os.Environ(), "GOMAXPROCS=11", "PROCS=11")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			time.Sleep(time.Duration(i) * 100 * time.Microsecond)
			in.Close()
			cmd.Wait()
			close(done)
		}()
		for ended := false; !ended; {
			select {
			case <-done:
				ended = true
			default:
			}
			p, err := Open("", cmd.Process.Pid)
			for err == nil {
				var v Value
				if v, err = p.GOMAXPROCS(); err == nil && v.Procs != 11 {
					t.Errorf("read %d", v.Procs)
				}
			}
			if !errors.Is(err, ErrExited) && !errors.Is(err, errUnproven) {
				t.Errorf("error %v", err)
			}
			p.Close()
		}
	}
}

// After an exec the memory is another program's, also when it is the same file.
func TestExec(t *testing.T) {
	path := target(t, runtime.Version(), flavours[0])
	sh := start(t, []string{"PROCS=4"}, "sh", "-c", `echo go; read go; exec "$0"`, path)
	if _, err := Open("", sh.Process.Pid); !errors.Is(err, ErrNotGo) {
		t.Errorf("a shell: %v", err)
	}
	before, err := os.Open(fmt.Sprintf("/proc/%d/mem", sh.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(sh.in, "go\n")
	sh.line(t)
	p := open(t, sh.Process.Pid)
	check(t, p, 4)
	p.mem.Close()
	p.mem = before // as if it had been opened before the exec, with the same addresses
	for _, p.noVM = range []bool{false, true} {
		if _, err := p.GOMAXPROCS(); !errors.Is(err, ErrExited) {
			t.Errorf("after an exec: %v", err)
		}
	}
}

// A program without section headers is searched for its tables.
func TestNoSections(t *testing.T) {
	for _, f := range []flavour{flavours[2], flavours[4]} {
		text, err := os.ReadFile(target(t, runtime.Version(), f))
		if err != nil {
			t.Fatal(err)
		}
		clear(text[40:48]) // e_shoff
		clear(text[60:64]) // e_shnum, e_shstrndx
		path := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(path, text, 0o755); err != nil {
			t.Fatal(err)
		}
		c := start(t, []string{"PROCS=8"}, path)
		p := open(t, c.Process.Pid)
		if v := check(t, p, 8); v.How != "decoded" {
			t.Errorf("%s: found by %q", f.name, v.How)
		}
		if _, err := p.Sched(); !errors.Is(err, ErrNoSched) { // the version is in a section
			t.Errorf("%s: Sched: %v", f.name, err)
		}
	}
}

func TestDeletedProgram(t *testing.T) {
	text, err := os.ReadFile(target(t, runtime.Version(), flavours[2]))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	c := start(t, []string{"PROCS=9"}, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("another program"), 0o755); err != nil {
		t.Fatal(err)
	}
	check(t, open(t, c.Process.Pid), 9)
}

// TestAnotherUser starts this test again as a user without rights.
func TestAnotherUser(t *testing.T) {
	if pid := os.Getenv("GOLIVE_TEST_PID"); pid != "" {
		var n int
		fmt.Sscan(pid, &n)
		if _, err := Open("", n); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("another user's process: %v", err)
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip(err)
	}
	c := start(t, nil, target(t, runtime.Version(), flavours[0]))
	dir, err := os.MkdirTemp("/tmp", "golive")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	test := filepath.Join(dir, "test")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(test, self, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", test, "-test.run=^TestAnotherUser$", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), fmt.Sprint("GOLIVE_TEST_PID=", c.Process.Pid))
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestAnotherUser")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestARM64 decodes programs for another processor from their files, and compares with the symbols.
func TestARM64(t *testing.T) {
	for _, version := range ofMatrix(oldestAndNewest) {
		for _, args := range [][]string{nil, {"-ldflags=-s -w"}} {
			t.Run(fmt.Sprint(version, args), func(t *testing.T) {
				key := fmt.Sprint("arm64", version, args, sources(t, "target"))
				path := cached(t, version+"-arm64", key, func(path string) error {
					return goBuild(version, path, "target", []string{"GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0"}, args)
				})
				testARM64(t, path)
			})
		}
	}
}

func testARM64(t *testing.T, path string) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := imageOf(f)
	if err != nil {
		t.Fatal(err)
	}
	c, err := readCode(m)
	if err != nil {
		t.Fatal(err)
	}
	v, ok := c.byCode(m, 0)
	text, _ := c.tab.text(m, 0)
	u, _ := c.usesOf(procresize, text)
	if !ok || len(u.stores) == 0 || c.layout.npidle == 0 || v.sched == 0 {
		t.Fatalf("decoded %+v, %v, stores %#x", v, ok, u.stores)
	}
	symbols := m.symbols("runtime.gomaxprocs", "runtime.allp", "runtime.sched")
	if len(symbols) == 0 {
		return // stripped: it was decoded, and load and store agree
	}
	if v.gomaxprocs != symbols["runtime.gomaxprocs"] || !slices.Contains(v.allp, symbols["runtime.allp"]) || v.sched != symbols["runtime.sched"] {
		t.Errorf("decoded %+v, the symbols are %#x", v, symbols)
	}
	if collector := c.symbol("runtime.gcController", 0); collector == 0 || !slices.Contains(v.collector, collector) {
		t.Errorf("gcController is at one of %#x, its symbol at %#x", v.collector, collector)
	}
}

// imageOf is that of a file that stays open.
func imageOf(f *os.File) (*image, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return readImage(f, info.Size())
}

// Without a decoder for a processor the symbols are used, where a program has them.
func TestSymbols(t *testing.T) {
	c := start(t, []string{"PROCS=12"}, target(t, runtime.Version(), flavours[0]))
	p := open(t, c.Process.Pid)
	f, err := os.Open(fmt.Sprintf("/proc/%d/exe", c.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := imageOf(f)
	if err != nil {
		t.Fatal(err)
	}
	m.Machine = elf.EM_RISCV
	code, err := readCode(m)
	if err != nil {
		t.Fatal(err)
	}
	p.runtime, err = newReader(code, p, 0)
	if err != nil {
		t.Fatal(err)
	}
	if v := check(t, p, 12); v.How != "symbol" {
		t.Errorf("found by %q", v.How)
	}
	if s, err := p.Sched(); err != nil || s.Procs != 12 {
		t.Errorf("Sched is %+v, %v", s, err)
	}
	if c, err := p.Collector(); err != nil || c.Percent != 100 || c.Known {
		t.Errorf("Collector is %+v, %v", c, err)
	}
}

// BenchmarkOpen reads a program once. UNTHROTTLE_LARGE is the pid of a large one that runs.
func BenchmarkOpen(b *testing.B) {
	c := start(b, []string{"PROCS=7"}, target(b, runtime.Version(), flavours[2]))
	pids := map[string]int{"small": c.Process.Pid}
	if pid := os.Getenv("UNTHROTTLE_LARGE"); pid != "" {
		n, err := strconv.Atoi(pid)
		if err != nil {
			b.Fatal(err)
		}
		pids["large"] = n
	}
	for name, pid := range pids {
		b.Run(name, func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				start := time.Now()
				p, err := Open("", pid)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := p.GOMAXPROCS(); err != nil {
					b.Fatal(err)
				}
				p.Close()
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "median-ns")
		})
	}
}

// BenchmarkSample reads an open program.
func BenchmarkSample(b *testing.B) {
	for _, n := range []int{2, 192} {
		c := start(b, []string{fmt.Sprint("PROCS=", n)}, target(b, runtime.Version(), flavours[2]))
		p := open(b, c.Process.Pid)
		b.Run(fmt.Sprint("GOMAXPROCS=", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := p.GOMAXPROCS(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint("Sched=", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := p.Sched(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
