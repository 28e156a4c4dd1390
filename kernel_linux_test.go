package unthrottle_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle"
	"github.com/unthrottle/unthrottle/internal/kerneltest"
)

// These tests run this test binary again inside a cgroup, with UNTHROTTLE_TEST saying what to do there. The policy is Ceil
// where the machine may have two CPUs only, so that numbers can differ.

func TestMain(m *testing.M) {
	switch os.Getenv("UNTHROTTLE_TEST") {
	case "":
		os.Exit(m.Run())
	case "set":
		before := runtime.GOMAXPROCS(0)
		d, undo := unthrottle.Set(unthrottle.Options{Policy: unthrottle.Ceil})
		set := runtime.GOMAXPROCS(0)
		undo()
		fmt.Println(before, set, runtime.GOMAXPROCS(0), d)
	case "watch":
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		unthrottle.Watch(ctx, unthrottle.Options{Policy: unthrottle.Ceil, Interval: 10 * time.Millisecond}, func(d unthrottle.Decision) {
			fmt.Println(d.Procs, runtime.GOMAXPROCS(0), d.Limits.CPUs, d.Limits.From)
		})
	}
}

func needCPUs(t *testing.T, n int) {
	t.Helper()
	if runtime.NumCPU() < n {
		t.Skipf("needs %d CPUs, has %d", n, runtime.NumCPU())
	}
}

func TestKernelSet(t *testing.T) {
	needCPUs(t, 2)
	parent := kerneltest.New(t)
	parent.EnableCPU()
	leaf := parent.Child("leaf")
	parent.SetQuota(80000)
	cmd := leaf.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "UNTHROTTLE_TEST=set", "GOMAXPROCS=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var before, set, after int
	fmt.Sscan(string(out), &before, &set, &after)
	if before < 2 || set != 1 || after != before {
		t.Errorf("GOMAXPROCS %d, set %d, after undo %d: %s", before, set, after, out)
	}
	if want := "limit 0.8 CPUs at " + parent.Dir; !strings.Contains(string(out), want) {
		t.Errorf("got %s, want %s", out, want)
	}
}

func TestKernelWatch(t *testing.T) {
	needCPUs(t, 2)
	parent := kerneltest.New(t)
	parent.EnableCPU()
	leaf, other := parent.Child("leaf"), parent.Child("other")
	cmd := leaf.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "UNTHROTTLE_TEST=watch", "GOMAXPROCS=")
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
	expect := func(procs int, cpus float64, from string) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("child ended: %v", lines.Err())
		}
		var wanted, real int
		var gotCPUs float64
		var gotFrom string
		fmt.Sscan(lines.Text(), &wanted, &real, &gotCPUs, &gotFrom)
		if wanted != procs || real != procs || gotCPUs != cpus || gotFrom != from {
			t.Fatalf("got %q, want GOMAXPROCS %d from %v CPUs at %q", lines.Text(), procs, cpus, from)
		}
	}
	all := runtime.NumCPU()
	expect(all, 0, "")
	parent.SetQuota(50000) // a parent's change, which the runtime doesn't see
	expect(1, 0.5, parent.Dir)
	leaf.SetQuota(30000)
	expect(1, 0.3, leaf.Dir)
	other.SetQuota(20000)
	other.Add(cmd.Process.Pid) // a move, which it doesn't see either
	expect(1, 0.2, other.Dir)
	other.SetQuota(-1)
	expect(1, 0.5, parent.Dir)
	leaf.SetQuota(-1)
	parent.SetQuota(-1)
	expect(all, 0, "")
}
