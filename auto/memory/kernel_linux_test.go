package memory

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/cgroup"
	"github.com/unthrottle/unthrottle/memory"
)

// TestMain prints each new GOMEMLIMIT in MiB, for a minute at most, when a test below has started this binary again in a cgroup.
func TestMain(m *testing.M) {
	if os.Getenv("MEMORY_TEST") == "" {
		os.Exit(m.Run())
	}
	last := int64(0)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		runtime.GC()
		if now := debug.SetMemoryLimit(-1); now != last {
			d, _ := memory.Last()
			fmt.Println(now>>20, d)
			last = now
		}
	}
}

// group makes a group of the memory hierarchy, just below its root, or skips the test.
func group(t *testing.T) (dir, limit string) {
	t.Helper()
	skip := func(reason string) {
		t.Helper()
		if os.Getenv("UNTHROTTLE_REQUIRE_CGROUP") == "1" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	_, version, mount, err := cgroup.Locate(cgroup.Source{}, "memory")
	if err != nil {
		skip(fmt.Sprintf("no memory controller: %v", err))
	}
	dir, limit = filepath.Join(mount.Point, "unthrottle-test-"+strconv.Itoa(os.Getpid())), "memory.max"
	if version == cgroup.V1 {
		limit = "memory.limit_in_bytes"
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		skip(fmt.Sprintf("can't make a cgroup (needs root): %v", err))
	}
	t.Cleanup(func() {
		for i := 0; os.Remove(dir) != nil && i < 1000; i++ {
			time.Sleep(10 * time.Millisecond)
		}
	})
	if _, err := os.Stat(filepath.Join(dir, limit)); err != nil {
		skip(fmt.Sprintf("the memory controller is not enabled below %s", mount.Point))
	}
	return dir, limit
}

// TestKernel: the import alone takes a share of the kernel's limit, and follows it up and down.
func TestKernel(t *testing.T) {
	dir, file := group(t)
	set := func(mib int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(mib<<20)), 0); err != nil {
			t.Fatal(err)
		}
	}
	set(200)
	cmd := exec.Command("/bin/sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$1"`, dir, os.Args[0])
	cmd.Env = append(os.Environ(), "MEMORY_TEST=1", "GOMEMLIMIT=", "UNTHROTTLE=", "UNTHROTTLE_MEMORY=80%")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(stdout)
	expect := func(mib int) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the child ended: %v", lines.Err())
		}
		var got int
		if fmt.Sscan(lines.Text(), &got); got != mib {
			t.Fatalf("got %q, want %d MiB", lines.Text(), mib)
		}
	}
	expect(160)
	set(400)
	expect(320)
	set(100)
	expect(80)
}
