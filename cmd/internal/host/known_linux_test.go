package host

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
)

// TestMain is also a program to look at: at each line of its input it changes GOMAXPROCS, or becomes another program.
func TestMain(m *testing.M) {
	if os.Getenv("LOOKED_AT") == "" {
		os.Exit(m.Run())
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); fmt.Println("ready") {
		switch lines.Text() {
		case "call":
			runtime.GOMAXPROCS(5)
		case "exec":
			os.Setenv("GOMAXPROCS", "2")
			fmt.Fprintln(os.Stderr, syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
		}
	}
}

// TestKnownProgram looks again and again at a program that changes, and ends.
func TestKnownProgram(t *testing.T) {
	program := exec.Command("/proc/self/exe")
	program.Env = append(os.Environ(), "LOOKED_AT=1", "GOMAXPROCS=3")
	program.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	program.Stderr = os.Stderr
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer program.Wait()
	defer program.Process.Kill()
	lines := bufio.NewScanner(out)
	ready := func() {
		t.Helper()
		if !lines.Scan() {
			t.Fatal("the program ended")
		}
	}
	ready()
	var s Survey
	look := func() *Process {
		t.Helper()
		r, err := s.Read(context.Background(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(r.Processes, func(p Process) bool { return p.PID == program.Process.Pid })
		if i < 0 {
			return nil
		}
		return &r.Processes[i]
	}
	for _, c := range []struct {
		say  string
		live int
		env  string
	}{{"", 3, "3"}, {"", 3, "3"}, {"call", 5, "3"}, {"exec", 2, "2"}, {"", 2, "2"}} {
		if c.say != "" {
			io.WriteString(in, c.say+"\n")
			ready()
		}
		p := look()
		if p == nil {
			t.Fatalf("after %q it is not seen", c.say)
		}
		if p.Live != c.live || p.Env["GOMAXPROCS"] != c.env {
			t.Errorf("after %q GOMAXPROCS is %d (%v) with %q in its environment, want %d with %q", c.say, p.Live, p.LiveErr, p.Env["GOMAXPROCS"], c.live, c.env)
		}
		if s.known[p.PID] == nil {
			t.Errorf("after %q it is not remembered", c.say)
		}
	}
	program.Process.Kill()
	program.Wait()
	if look() != nil || s.known[program.Process.Pid] != nil {
		t.Error("it has ended, and is still there")
	}
}
