package procs

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/unthrottle/unthrottle/internal/kerneltest"
)

// TestMain lets the test's own binary be the process to look at: it says that it runs, and waits until its input ends.
func TestMain(m *testing.M) {
	if os.Getenv("PROCS_TEST_WAIT") != "" {
		os.Stdout.WriteString("ready\n")
		io.Copy(io.Discard, os.Stdin)
		return
	}
	if what := os.Getenv("PROCS_TEST_BOUND"); what != "" {
		bind(what, os.Args[1])
		os.Stdout.WriteString("ready\n")
		io.Copy(io.Discard, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

// start starts a command and ends it with the test. With ready it has said that it runs.
func start(t *testing.T, cmd *exec.Cmd, ready bool) *exec.Cmd {
	t.Helper()
	_, out := kerneltest.Talk(t, cmd)
	if ready {
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return cmd
}

func TestReadSelf(t *testing.T) {
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Skip(err)
	}
	for _, pid := range []int{0, os.Getpid()} {
		for _, root := range []string{"", "/"} {
			p, err := Read(root, pid)
			if err != nil {
				t.Fatal(err)
			}
			if p.PID != os.Getpid() || p.Name+"\n" != string(comm) || !slices.Equal(p.Command, os.Args) {
				t.Errorf("pid %d: %d %q %q", pid, p.PID, p.Name, p.Command)
			}
			if p.EnvErr != nil || !maps.Equal(p.Env, Self().Env) {
				t.Errorf("environment %q, %v", p.Env, p.EnvErr)
			}
			if p.ProgramErr != nil || p.Program.GoVersion != runtime.Version() || p.Program.Path != reflect.TypeFor[Process]().PkgPath()+".test" {
				t.Errorf("program %+v, %v", p.Program, p.ProgramErr)
			}
		}
	}
}

// TestReadHostile reads a process that does its best to mislead: by its name, its arguments and its environment.
func TestReadHostile(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Skip(err)
	}
	const name = "a) S 1 (b\nc)"
	file := filepath.Join(t.TempDir(), name)
	if err := os.Link(self, file); err != nil {
		text, err := os.ReadFile(self)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(file, "-x", "", "line\nbreak", "")
	cmd.Env = []string{"PROCS_TEST_WAIT=1", "GOMAXPROCS=2", "GODEBUG=1\nGOMAXPROCS=9", "GOGC", "=Z"}
	start(t, cmd, true)
	p, err := Read("", cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if p.PID != cmd.Process.Pid || p.Name != name || !slices.Equal(p.Command, cmd.Args) {
		t.Errorf("%d %q %q", p.PID, p.Name, p.Command)
	}
	if want := map[string]string{"GOMAXPROCS": "2", "GODEBUG": "1\nGOMAXPROCS=9"}; !reflect.DeepEqual(p.Env, want) {
		t.Errorf("environment %q, want %q", p.Env, want)
	}
	if p.ProgramErr != nil || p.Program.GoVersion != runtime.Version() {
		t.Errorf("program %+v, %v", p.Program, p.ProgramErr)
	}
}

// TestReadDeletedProgram reads a process whose file is gone, as after an upgrade: the kernel keeps it.
func TestReadDeletedProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(file, text, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(file)
	cmd.Env = []string{"PROCS_TEST_WAIT=1"}
	start(t, cmd, true)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	p, err := Read("", cmd.Process.Pid)
	if err != nil || p.Program == nil || p.Program.GoVersion != runtime.Version() {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestReadNotGo(t *testing.T) {
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Skip(err)
	}
	cmd := start(t, exec.Command(cat), false)
	p, err := Read("", cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if p.Program != nil || p.ProgramErr != ErrNotGo {
		t.Errorf("program %+v, %v", p.Program, p.ProgramErr)
	}
}

func TestReadGone(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{"PROCS_TEST_WAIT=1"}
	if err := cmd.Run(); err != nil { // its input is empty
		t.Fatal(err)
	}
	for _, pid := range []int{cmd.Process.Pid, -1, 1 << 30} {
		if _, err := Read("", pid); err == nil || !strings.HasPrefix(err.Error(), "no process ") {
			t.Errorf("%d: %v", pid, err)
		}
	}
	if _, err := Read(t.TempDir(), 0); err == nil {
		t.Error("a root without /proc has a process")
	}
}

// TestReadZombie reads a process that has ended and has not been waited for.
func TestReadZombie(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{"PROCS_TEST_WAIT=1"}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	io.Copy(io.Discard, out)
	// Its output has ended, so it is about to end: wait for that, and leave it there.
	const waitExited, waitNoWait, byPID = 4, 0x1000000, 1
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(cmd.Process.Pid), 0, waitExited|waitNoWait, 0, 0)
		if errno == 0 {
			break
		}
		if errno != syscall.EINTR {
			t.Fatal(errno)
		}
	}
	p, err := Read("", cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if p.Name == "" || p.Command != nil || p.Program != nil || p.ProgramErr == nil || p.ProgramErr == ErrNotGo {
		t.Errorf("%+v", p)
	}
}

func TestReadKernelThread(t *testing.T) {
	if text, err := os.ReadFile("/proc/2/comm"); err != nil || string(text) != "kthreadd\n" {
		t.Skip("process 2 is no kernel thread here")
	}
	p, err := Read("", 2)
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "kthreadd" || p.Command != nil || p.Program != nil || p.ProgramErr == nil {
		t.Errorf("%+v", p)
	}
}

// TestReadSavedTree reads a tree that holds less than a live /proc.
func TestReadSavedTree(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "proc/7/stat"), "7 (server) S 1\n")
	p, err := Read(root, 7)
	if err != nil {
		t.Fatal(err)
	}
	if p.PID != 7 || p.Name != "server" || p.Command != nil || p.Env != nil || !errors.Is(p.EnvErr, fs.ErrNotExist) || !errors.Is(p.ProgramErr, fs.ErrNotExist) {
		t.Errorf("%+v", p)
	}
	write(t, filepath.Join(root, "proc/self/stat"), "9 (me) S 1\n")
	if p, err := Read(root+"/", 0); err != nil || p.PID != 9 || p.Name != "me" {
		t.Errorf("%+v, %v", p, err)
	}
	write(t, filepath.Join(root, "proc/8/stat"), "")
	if p, err := Read(root, 8); err != nil || p.Name != "" {
		t.Errorf("%+v, %v", p, err)
	}
}
