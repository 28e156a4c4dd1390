package watch

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/internal/kerneltest"
)

// TestMain prints each new GOMAXPROCS, for a minute at most, when a test below has started this binary again in a cgroup.
func TestMain(m *testing.M) {
	if os.Getenv("WATCH_TEST") == "" {
		os.Exit(m.Run())
	}
	d, _ := unthrottle.Last()
	fmt.Println(runtime.NumGoroutine(), d.Now, d.Policy.Name)
	last := d.Now
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if now := runtime.GOMAXPROCS(0); now != last {
			fmt.Println(now)
			last = now
		}
	}
}

// child starts this binary in the group and returns a function that reads its next line.
func child(t *testing.T, g *kerneltest.Group, env ...string) (line func() string) {
	t.Helper()
	cmd := g.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "WATCH_TEST=1", "GOMAXPROCS="), env...)
	_, stdout := kerneltest.Talk(t, cmd)
	lines := bufio.NewScanner(stdout)
	return func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the child ended: %v", lines.Err())
		}
		return lines.Text()
	}
}

// TestKernel: the import alone follows the limit of a group above the program's own.
func TestKernel(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs 2 CPUs")
	}
	parent := kerneltest.New(t)
	parent.EnableCPU()
	leaf := parent.Child("leaf")
	parent.SetQuota(80000)
	line := child(t, leaf, "UNTHROTTLE=ceil")
	if got := line(); !strings.HasSuffix(got, " 1 ceil") {
		t.Fatalf("at first: %s, want a GOMAXPROCS of 1", got)
	}
	parent.SetQuota(200000)
	if got, want := line(), strconv.Itoa(2); got != want {
		t.Fatalf("after the boost GOMAXPROCS is %s, want %s", got, want)
	}
	parent.SetQuota(80000)
	if got := line(); got != "1" {
		t.Fatalf("after it GOMAXPROCS is %s, want 1", got)
	}
}

// TestOff: the user who runs the program can switch it off, the goroutine too.
func TestOff(t *testing.T) {
	parent := kerneltest.New(t)
	parent.SetQuota(50000)
	off, on := child(t, parent, "UNTHROTTLE=off")(), child(t, parent, "UNTHROTTLE=go")()
	a, b := strings.Fields(off), strings.Fields(on)
	if a[2] != "off" || b[2] != "go" {
		t.Errorf("policies: %s, %s", off, on)
	}
	before, _ := strconv.Atoi(a[0])
	after, _ := strconv.Atoi(b[0])
	if before == 0 || after != before+1 {
		t.Errorf("goroutines: %s when it is off, %s with it", off, on)
	}
}
