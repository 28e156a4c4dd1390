package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/foreign"
	"github.com/unthrottle/unthrottle/internal/slowtest"
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
		case "hold":
			hold()
		case "exec":
			os.Setenv("GOMAXPROCS", "2")
			fmt.Fprintln(os.Stderr, syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
		}
	}
}

var held [][]byte

// hold keeps 40 MB in pieces, and goes on allocating what isn't kept.
func hold() {
	for range 40 << 10 {
		held = append(held, make([]byte, 1<<10))
	}
	go func() {
		for {
			held[0] = make([]byte, 1<<10)
		}
	}()
}

// A subject is a program that is looked at. It says when it is ready.
type subject struct {
	*exec.Cmd
	t     *testing.T
	in    io.Writer
	lines *bufio.Scanner
}

func start(t *testing.T, command ...string) *subject {
	t.Helper()
	s := &subject{exec.Command(command[0], command[1:]...), t, nil, nil}
	s.Env = append(os.Environ(), "LOOKED_AT=1", "GOMAXPROCS=3")
	s.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.Stderr = os.Stderr
	in, err1 := s.StdinPipe()
	out, err2 := s.StdoutPipe()
	if err := errors.Join(err1, err2, s.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	s.in, s.lines = in, bufio.NewScanner(out)
	return s
}

func (s *subject) ready() {
	s.t.Helper()
	if !s.lines.Scan() {
		s.t.Fatal("the program ended")
	}
}

func (s *subject) say(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
	s.ready()
}

func (s *subject) end() {
	s.Process.Kill()
	s.Wait()
}

// seen is what a survey of all processes sees of the subject; nil: it isn't among the Go programs.
func (s *subject) seen(by *Survey, lasting time.Duration) *Process {
	s.t.Helper()
	r, err := by.Read(context.Background(), Options{For: lasting})
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range r.Processes {
		if r.Processes[i].PID == s.Process.Pid {
			return &r.Processes[i]
		}
	}
	return nil
}

// TestKnownProgram looks repeatedly at a program that changes, and ends.
func TestKnownProgram(t *testing.T) {
	t.Run("at once", func(t *testing.T) { knownProgram(t, 0) })
	t.Run("for a while", func(t *testing.T) { knownProgram(t, 20*time.Millisecond) })
}

func knownProgram(t *testing.T, lasting time.Duration) {
	program := start(t, "/proc/self/exe")
	program.ready()
	var s Survey
	for _, c := range []struct {
		say  string
		live int
		env  string
	}{{"", 3, "3"}, {"", 3, "3"}, {"call", 5, "3"}, {"exec", 2, "2"}, {"", 2, "2"}} {
		if c.say != "" {
			program.say(c.say)
		}
		p := program.seen(&s, lasting)
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
	program.end()
	if program.seen(&s, lasting) != nil || s.known[program.Process.Pid] != nil {
		t.Error("it has ended, and is still there")
	}
}

// TestOther looks at a shell that becomes a Go program.
func TestOther(t *testing.T) {
	program := start(t, "/bin/sh", "-c", `echo ready; read line; exec "$0"`, os.Args[0])
	program.ready()
	pid := program.Process.Pid
	var s Survey
	for look := range 2*lookAgain + 1 {
		if program.seen(&s, 0) != nil || s.others[pid] == nil {
			t.Fatalf("look %d: a shell is a Go program, or not remembered", look)
		}
	}
	program.say("now")
	if p := program.seen(&s, 0); p == nil || p.Live != 3 || s.others[pid] != nil {
		t.Errorf("what it has become is not seen: %+v", p)
	}
	program.end()
	program.seen(&s, 0)
	if s.known[pid] != nil || s.others[pid] != nil {
		t.Error("it has ended, and is remembered")
	}
}

// TestStillProgram reads a program that has used no CPU since an earlier reading: its memory is not looked at.
func TestStillProgram(t *testing.T) {
	slowtest.Skip(t)
	program := start(t, "/proc/self/exe")
	program.ready()
	if err := program.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var s Survey
	if program.seen(&s, time.Millisecond) == nil {
		t.Fatal("it is not seen")
	}
	k := s.known[program.Process.Pid]
	w := &watch{p: &k.facts, live: k.live}
	tree := foreign.Open("")
	defer tree.Close()
	earlier := w.read(tree, new(glance))
	if !earlier.schedKnown || earlier.sched.procs != 3 {
		t.Fatalf("GOMAXPROCS is %d", earlier.sched.procs)
	}
	for _, c := range []struct {
		name string
		root string
		cpu  time.Duration
		want int
	}{{"still", "", 0, 99}, {"it ran", "", -1, 3}, {"by a clock of hundredths", "/proc/self/root", 0, 3}} {
		before := earlier.glance
		before.sched.procs = 99
		w.root = c.root
		if before.cpu += c.cpu; c.root != "" {
			before.cpu, _ = cpuTime(c.root, program.Process.Pid)
		}
		if r := w.read(tree, &before); !r.schedKnown || r.sched.procs != c.want {
			t.Errorf("%s: GOMAXPROCS is %d, want %d", c.name, r.sched.procs, c.want)
		}
	}
}

// TestKnownCollector: for a program that does little but collect, what its collector uses and what it costs are seen.
func TestKnownCollector(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "50MiB")
	t.Setenv("GOGC", "200")
	program := start(t, "/proc/self/exe")
	program.ready()
	program.say("hold")
	var s Survey
	if p := program.seen(&s, 0); p == nil || p.Collector == nil || p.Usage.Collecting != nil {
		t.Fatalf("at a look at its memory: %+v", p)
	}
	p := program.seen(&s, time.Second)
	if p == nil || p.Collector == nil || p.Usage.Collecting == nil {
		t.Fatalf("it was not seen: %+v", p)
	}
	if c := p.Collector; c.Percent != 200 || c.Limit != 50<<20 || c.Live < 40<<20 || c.Goal > max(50<<20, c.Live) || c.Room() > 25 {
		t.Errorf("%+v", c)
	}
	if share := *p.Usage.Collecting; share <= 0 || share > 1 {
		t.Errorf("collections take %.2f of the time", share)
	}
}
