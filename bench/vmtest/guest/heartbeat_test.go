//go:build linux

package guest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/unthrottle/unthrottle/bench/vmtest"
)

// TestHeartbeat watches the group of a process from outside: the heartbeat moves there, and leaves nothing behind.
func TestHeartbeat(t *testing.T) {
	g := newGroup(t).child("own")
	g.limit("30000 100000")
	program := g.command(vmtest.Command, "workload", "fib", "--for", "10m")
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer program.Wait()
	defer program.Process.Kill()
	var stdout, stderr bytes.Buffer
	p := atRoot(t)
	cmd := p.command(nil, vmtest.Command, "watch", "--json", "--for", "4s", strconv.Itoa(program.Process.Pid))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	p.start(t, cmd)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("watch: %v\n%s", err, &stderr)
	}
	var doc struct {
		Cause  string
		Frozen float64 `json:"frozen_share"`
		Period float64 `json:"period_seconds"`
		Kernel *struct {
			Throttled int      `json:"throttled_periods"`
			Full      *float64 `json:"psi_full_share"`
		}
	}
	if err := json.Unmarshal(stdout.Bytes(), &doc); err != nil {
		t.Fatalf("reading the document: %v\n%s", err, &stdout)
	}
	// The machine is emulated, and slower than its own clock at times: what it sees is not asked for in numbers.
	if doc.Cause != "throttled" || doc.Frozen <= 0.1 || doc.Kernel == nil || doc.Kernel.Throttled == 0 || doc.Kernel.Full == nil && g.has("cpu.pressure") {
		t.Errorf("%+v\n%s", doc, &stdout)
	}
	left, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	if err != nil || strings.TrimSpace(string(left)) != strconv.Itoa(program.Process.Pid) {
		t.Errorf("in the group are %q, %v", left, err)
	}
	t.Logf("%s, frozen %.2f, period %.3f s", doc.Cause, doc.Frozen, doc.Period)
}
