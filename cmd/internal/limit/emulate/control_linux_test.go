package emulate

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unthrottle/unthrottle/internal/slowtest"
)

var half = Limit{Quota: 25 * ms, Period: 50 * ms}

// TestMain is also the programs that tests start: "emulate-test PROGRAM …".
func TestMain(m *testing.M) {
	if program := os.Getenv("EMULATE_TEST"); program != "" {
		programs[program]()
		return
	}
	os.Exit(m.Run())
}

var programs = map[string]func(){
	"burn":  burn,
	"pool":  pool,
	"stops": stops,
	"holds": holds,
	"signal": func() {
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTSTP)
		fmt.Println("ready")
		go burn()
		<-c
		fmt.Println("stop signal seen")
		burn()
	},
}

func burn() {
	for n := uint(0); ; n++ {
		runtime.KeepAlive(n)
	}
}

// pool is a parent whose children each work for a while, over and over.
func pool() {
	done := make(chan bool)
	for range 4 {
		go func() {
			for {
				child := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
				child.Run()
			}
		}()
	}
	<-done
}

// stops has a child and reports every stop of it that waiting shows.
func stops() {
	child := self("burn")
	if err := child.Start(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ready")
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(child.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err == nil && status.Stopped() {
			fmt.Println("a child stood still")
		}
	}
}

// holds is a controller that will be killed. It holds a process until long after the test.
func holds() {
	pid, _ := strconv.Atoi(os.Getenv("EMULATE_PID"))
	c, err := Start(pid, Limit{Quota: 200 * ms, Period: time.Hour}) // enough to begin with
	if err != nil {
		fmt.Println(err)
		return
	}
	for !c.isHeld() {
		time.Sleep(ms)
	}
	fmt.Println("held", c.tree.guard.cmd.Process.Pid)
	io.Copy(io.Discard, os.Stdin)
}

func (c *Controller) isHeld() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.account.held
}

// self is this test's program as one of the above.
func self(program string, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), "EMULATE_TEST="+program, "GOMAXPROCS=1"), env...)
	return cmd
}

// start starts a program in a group of its own, of which nothing is left after the test.
func start(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	runtime.LockOSThread() // a thread that ends would end the process
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		runtime.UnlockOSThread()
	})
	return cmd.Process.Pid
}

func hold(t *testing.T, pid int, l Limit) *Controller {
	t.Helper()
	c, err := Start(pid, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	return c
}

// wait waits until something is so. How long that takes is not tested.
func wait(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(ms) {
		if time.Now().After(deadline) {
			t.Fatalf("never came: %s", what)
		}
	}
}

func stateOf(pid int) byte {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	s, _ := parseStat(data)
	return s.state
}

func isStopped(pid int) bool { return stateOf(pid) == 'T' }
func isGone(pid int) bool    { s := stateOf(pid); return s == 0 || s == 'Z' || s == 'X' }

// groupOf are the living processes of a group.
func groupOf(group int) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if g, err := syscall.Getpgid(pid); err == nil && g == group && !isGone(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// share runs a program under a limit of half a CPU for a while, and returns what it used of one CPU.
func share(t *testing.T, cmd *exec.Cmd) (float64, Counters) {
	t.Helper()
	pid := start(t, cmd)
	defer syscall.Kill(-pid, syscall.SIGKILL) // or it competes with what the test tries next
	c := hold(t, pid, half)
	begin := time.Now()
	time.Sleep(time.Second)
	counters := c.Stop()
	return counters.CPU.Seconds() / time.Since(begin).Seconds(), counters
}

func TestBusyChild(t *testing.T) {
	used, c := share(t, self("burn"))
	for try := 0; try < 20 && c.Throttled == 0 && used < 0.45; try++ { // others left it less than its limit
		used, c = share(t, self("burn"))
	}
	t.Logf("%.3f CPUs, %+v", used, c)
	if c.Throttled == 0 && used < 0.45 {
		t.Skip("this machine is too busy to give a program half a CPU: there was nothing to hold")
	}
	// More than the limit is always wrong; less may be had on a busy machine.
	if used > 0.65 {
		t.Errorf("used %.2f CPUs", used)
	}
	if earned := time.Duration(c.Throttled) * half.Quota; c.CPU < earned*8/10 {
		t.Errorf("used %v, though held only after %v", c.CPU, earned)
	}
	if c.Throttled == 0 || c.Throttled > c.Periods || c.ThrottledTime <= 0 || c.LongestStandstill > c.ThrottledTime {
		t.Errorf("%+v", c)
	}
}

func TestChildrenCount(t *testing.T) {
	slowtest.Skip(t)
	t.Run("children that live on", func(t *testing.T) {
		used, c := share(t, exec.Command("/bin/sh", "-c", "for i in 1 2 3; do sh -c 'while :; do :; done' & done; wait"))
		t.Logf("%.3f CPUs, %+v", used, c)
		if used > 0.75 || used > 0.45 && c.Throttled == 0 { // on a busy machine it may not get what the limit allows
			t.Errorf("used %.2f CPUs, %+v", used, c)
		}
	})
	t.Run("children that come and go", func(t *testing.T) {
		used, c := share(t, exec.Command("/bin/sh", "-c", "while :; do /bin/true; done"))
		t.Logf("%.3f CPUs, %+v", used, c)
		if used > 0.75 || used > 0.45 && c.Throttled == 0 { // on a busy machine it may not get what the limit allows
			t.Errorf("used %.2f CPUs, %+v", used, c)
		}
	})
	t.Run("a pool of workers", func(t *testing.T) {
		used, c := share(t, self("pool"))
		t.Logf("%.3f CPUs, %+v", used, c)
		if used > 0.75 || used > 0.45 && c.Throttled == 0 {
			t.Errorf("used %.2f CPUs, %+v", used, c)
		}
	})
}

// TestCountsAsTheKernel compares with what the kernel says of all children when they have ended.
func TestCountsAsTheKernel(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `
		for i in 1 2 3 4 5 6 7 8; do
			/bin/true
			sh -c 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; /bin/true'
		done`)
	c := hold(t, start(t, cmd), Limit{Quota: 50 * ms, Period: 50 * ms})
	unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	got := c.Counters().CPU
	cmd.Wait()
	want := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if d := (got - want).Abs(); d > 3*unseen {
		t.Errorf("counted %v, the kernel %v", got, want)
	}
}

// TestStorm holds a tree that forks all the time: when it is held, all of it stands.
func TestStorm(t *testing.T) {
	pid := start(t, exec.Command("/bin/sh", "-c", "for i in 1 2 3 4; do (while :; do (:); done) & done; wait"))
	tree, err := newTree(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	for range 20 {
		if err := tree.hold(); err != nil {
			t.Fatal(err)
		}
		// A parent that waits for the end of a vfork is in state D and takes its stop later: it does not run.
		for _, pid := range groupOf(pid) {
			wait(t, fmt.Sprintf("the stop of process %d", pid), func() bool {
				s := stateOf(pid)
				return s != 'R' && s != 'S'
			})
		}
		tree.release()
		for _, pid := range groupOf(pid) {
			wait(t, fmt.Sprintf("the end of the stop of process %d", pid), func() bool { return !isStopped(pid) })
		}
	}
	tree.guard.stop()
}

// TestDaemons are found though their parents ended before the first look.
func TestDaemons(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "read x; (setsid sh -c 'sleep 1000 & exec sleep 1000' & ); read x")
	in, _ := cmd.StdinPipe()
	defer in.Close()
	pid := start(t, cmd)
	c := hold(t, pid, half)
	t.Cleanup(func() { c.Kill() })
	if c.tree.tag == 0 {
		t.Skip("RLIMIT_RTTIME can't be set here: daemons are found while their parents live")
	}
	fmt.Fprintln(in)
	wait(t, "the daemon and its child", func() bool {
		c.Counters()
		c.mu.Lock()
		defer c.mu.Unlock()
		sleeping := 0 // the shells that make them come and go
		for _, m := range c.tree.members {
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", m.pid)); string(name) == "sleep\n" {
				sleeping++
			}
		}
		return len(c.tree.members) == 3 && sleeping == 2 && c.tree.members[0].pid == pid
	})
	syscall.Kill(pid, syscall.SIGKILL)
	cmd.Wait()
	if left := c.Kill(); left != 2 {
		t.Errorf("%d processes were left, want 2", left)
	}
}

func TestStopContinues(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "sh -c 'while :; do :; done' & while :; do :; done")
	pid := start(t, cmd)
	c := hold(t, pid, Limit{Quota: ms, Period: time.Hour})
	wait(t, "the hold", func() bool { return len(groupOf(pid)) == 2 && isStopped(pid) })
	first := c.Stop()
	if again := c.Stop(); again != first || c.Counters() != first {
		t.Errorf("%+v, and then %+v", first, again)
	}
	for _, pid := range groupOf(pid) {
		wait(t, "the end of the stop", func() bool { return !isStopped(pid) })
	}
	if first.ThrottledTime == 0 || first.LongestStandstill != first.ThrottledTime {
		t.Errorf("a hold that Stop ended does not count: %+v", first)
	}
}

// TestLeavesOthersStops: a process that something else stopped stays stopped.
func TestLeavesOthersStops(t *testing.T) {
	t.Run("before", func(t *testing.T) {
		pid := start(t, self("burn"))
		syscall.Kill(pid, syscall.SIGSTOP)
		wait(t, "the stop", func() bool { return isStopped(pid) })
		tree, err := newTree(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer tree.close()
		if err := tree.hold(); err != nil {
			t.Fatal(err)
		}
		tree.release()
		if tree.members[0].told || tree.guard.cmd != nil || !isStopped(pid) {
			t.Error("it was taken for ours")
		}
	})
	t.Run("during a hold", func(t *testing.T) {
		pid := start(t, self("burn"))
		c := hold(t, pid, Limit{Quota: ms, Period: time.Hour})
		wait(t, "the hold", func() bool { return isStopped(pid) })
		syscall.Kill(pid, syscall.SIGSTOP)
		c.Stop()
		if !isStopped(pid) {
			t.Error("it was continued")
		}
	})
	t.Run("a key during a hold", func(t *testing.T) {
		cmd := self("signal")
		out, _ := cmd.StdoutPipe()
		pid := start(t, cmd)
		lines := bufio.NewReader(out)
		lines.ReadString('\n')
		c := hold(t, pid, Limit{Quota: ms, Period: time.Hour})
		wait(t, "the hold", func() bool { return isStopped(pid) })
		syscall.Kill(pid, syscall.SIGTSTP)
		c.Stop()
		if line, _ := lines.ReadString('\n'); line != "stop signal seen\n" {
			t.Errorf("%q: the signal got lost", line)
		}
	})
}

// TestParentSeesNoStop: waiting with WUNTRACED does not show our stops.
func TestParentSeesNoStop(t *testing.T) {
	cmd := self("stops")
	out, _ := cmd.StdoutPipe()
	pid := start(t, cmd)
	lines := bufio.NewReader(out)
	lines.ReadString('\n')
	c := hold(t, pid, Limit{Quota: 5 * ms, Period: 10 * ms})
	wait(t, "20 holds", func() bool { return c.Counters().Throttled >= 20 })
	c.Stop()
	syscall.Kill(-pid, syscall.SIGKILL)
	if rest, _ := io.ReadAll(lines); len(rest) > 0 {
		t.Errorf("%q", rest)
	}
}

// TestKilled kills a controller while it holds: the guard ends what it held, and a daemon that sleeps, and ends itself.
func TestKilled(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "read x; (setsid sh -c 'echo $$; exec sleep 1000' &); read x; sh -c 'while :; do :; done' & while :; do :; done")
	stdin, _ := cmd.StdinPipe()
	stdout, _ := cmd.StdoutPipe()
	defer stdin.Close()
	pid := start(t, cmd)
	controller := self("holds", "EMULATE_PID="+strconv.Itoa(pid))
	in, _ := controller.StdinPipe()
	defer in.Close()
	out, _ := controller.StdoutPipe()
	start(t, controller)
	wait(t, "the tag", func() bool {
		var l unix.Rlimit
		return unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &l) == nil && l.Cur != unix.RLIM_INFINITY
	})
	fmt.Fprintln(stdin)
	var daemon, guard int
	if _, err := fmt.Fscan(stdout, &daemon); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(stdin) // and now it uses its quota up: before, the daemon might have been held while it began
	line, _ := bufio.NewReader(out).ReadString('\n')
	if _, err := fmt.Sscanf(line, "held %d", &guard); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	group := groupOf(pid)
	for _, pid := range group {
		wait(t, "the hold", func() bool { return isStopped(pid) })
	}
	controller.Process.Signal(syscall.SIGKILL)
	controller.Wait()
	for _, pid := range group {
		wait(t, "the end of what it held", func() bool { return isGone(pid) })
	}
	wait(t, "the daemon's end", func() bool { return isGone(daemon) })
	wait(t, "the guard's end", func() bool { return isGone(guard) })
}

// TestGuardLost kills the guard: the next hold starts another.
func TestGuardLost(t *testing.T) {
	pid := start(t, exec.Command("sleep", "1000"))
	tree, err := newTree(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	if err := tree.hold(); err != nil {
		t.Fatal(err)
	}
	tree.release()
	first := tree.guard.cmd.Process.Pid
	syscall.Kill(first, syscall.SIGKILL)
	wait(t, "the guard's end", func() bool { return isGone(first) })
	tree.drop(tree.members[0])
	if err := tree.hold(); err != nil {
		t.Fatal(err)
	}
	tree.release()
	if tree.guard.cmd == nil || tree.guard.cmd.Process.Pid == first {
		t.Error("there is no other guard")
	}
	tree.guard.stop()
}

func TestGuardForgets(t *testing.T) {
	var g guard
	if err := g.start(0); err != nil {
		t.Fatal(err)
	}
	// One of two stopped processes is dropped again: the guard ends the other when its pipe ends.
	var pids []int
	for i := range 2 {
		pid := start(t, exec.Command("sleep", "1000"))
		syscall.Kill(pid, syscall.SIGSTOP)
		wait(t, "the stop", func() bool { return isStopped(pid) })
		tree, err := newTree(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer tree.close()
		g.hold(tree.members[0])
		if i == 0 {
			defer g.drop(tree.members[0])
			g.hold(tree.members[0])
			g.drop(tree.members[0])
			g.drop(tree.members[0])
		}
		pids = append(pids, pid)
	}
	fmt.Fprintf(g.pipe, "hold %d 1\n", pids[0]) // another process with that number, which has ended
	g.pipe.Close()
	g.cmd.Wait()
	g.cmd = nil
	wait(t, "the end of what it held", func() bool { return isGone(pids[1]) })
	if !isStopped(pids[0]) {
		t.Error("a process that was dropped was ended")
	}
}

func TestNoSuchProcess(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{cmd.Process.Pid, -1, 0, 1, os.Getpid()} {
		if c, err := Start(pid, half); err == nil {
			c.Stop()
			t.Errorf("process %d is held", pid)
		} else if !strings.Contains(err.Error(), strconv.Itoa(pid)) {
			t.Errorf("%v: it doesn't tell which", err)
		}
	}
	if _, err := Start(os.Getppid(), Limit{Period: time.Second}); err == nil {
		t.Error("no quota at all gave no error")
	}
}

// TestProcessEnds: a program that ends leaves counters and nothing to do.
func TestProcessEnds(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done")
	c := hold(t, start(t, cmd), half)
	cmd.Wait()
	wait(t, "the end to be seen", func() bool {
		c.Counters()
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.tree.members) == 0
	})
	if left := c.Kill(); left != 0 {
		t.Errorf("%d were left", left)
	}
	if c.Counters().CPU == 0 {
		t.Error("nothing was counted")
	}
	if c.Kill() != 0 || c.Stop() != c.Counters() {
		t.Error("a second end differs")
	}
}

// TestNoLeaks: files and the guard are gone when the controller is.
func TestNoLeaks(t *testing.T) {
	before := openFiles(t)
	for range 3 {
		pid := start(t, exec.Command("/bin/sh", "-c", "while :; do :; done"))
		c := hold(t, pid, Limit{Quota: ms, Period: 5 * ms})
		wait(t, "a hold", func() bool { return c.Counters().Throttled > 0 })
		guard := c.tree.guard.cmd.Process.Pid
		c.Stop()
		if !isGone(guard) {
			t.Error("the guard is left")
		}
		syscall.Kill(-pid, syscall.SIGKILL)
	}
	// Go keeps a pidfd for each child until it was waited for.
	if after := openFiles(t); after > before+3 {
		t.Errorf("%d files are open, %d were", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
