//go:build go1.25

package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/unthrottle/unthrottle/internal/kerneltest"
)

// guardMain is this test binary in a cgroup with a limit: it burns CPU until a snapshot is saved, and prints that.
func guardMain() {
	saved := make(chan Snapshot, 1)
	g, err := Start(Options{
		Dir: os.Getenv("GUARD_TEST"), Poll: 200 * time.Millisecond, MinAge: 2 * time.Second,
		OnSave:  func(s Snapshot) { saved <- s },
		OnError: func(err error) { fmt.Println(err) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		kerneltest.Burn(100 * time.Millisecond)
		select {
		case s := <-saved:
			json.NewEncoder(os.Stdout).Encode(s)
			return
		default:
		}
	}
}

// TestKernel has the kernel throttle a guarded program, below the group that has the limit.
func TestKernel(t *testing.T) {
	parent := kerneltest.New(t)
	parent.SetQuota(20000)
	parent.EnableCPU()
	dir := t.TempDir()
	cmd := parent.Child("leaf").Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GUARD_TEST="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var s Snapshot
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if s.Storm.CPUs != 0.2 || s.Storm.Group != parent.Dir || s.Storm.Throttled == 0 || s.Storm.Share < 0.5 {
		t.Errorf("%+v", s.Storm)
	}
	data, err := os.ReadFile(s.Path)
	if err != nil || int64(len(data)) != s.Bytes || !strings.HasPrefix(string(data), "go 1.2") {
		t.Errorf("%d bytes, want %d; %v", len(data), s.Bytes, err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("files: %v", got)
	}
}

// TestFullDisk is a real one: /dev/full takes nothing.
func TestFullDisk(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	c := &counted{from: &fakeRecorder{}}
	if _, err := c.WriteTo(f); err == nil || errors.Is(err, os.ErrClosed) || c.n != 0 {
		t.Errorf("%d bytes, %v", c.n, err)
	}
}
