//go:build linux

package guest

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/unthrottle/unthrottle/bench/vmtest"
)

// A psDocument is the part of ps's document that these tests look at.
type psDocument struct {
	Processes []struct {
		PID        int `json:"pid"`
		GOMAXPROCS struct {
			Value     int
			Proof     string
			Source    string `json:"set_by"`
			Following *bool
		}
		Limit struct {
			State string
			CPUs  *float64
			From  string
		}
		CPU    *float64 `json:"cpus_used"`
		Share  *float64 `json:"throttled_periods_share"`
		Frozen *struct {
			Share float64
			Exact bool
		}
		Findings []struct{ Rule string }
	}
}

// TestPs looks at a program whose limit is its parent's: Go does not see it, and takes all CPUs.
func TestPs(t *testing.T) {
	parent := newGroup(t).child("parent")
	parent.limit("100000 100000")
	g := parent.child("own")
	program := g.command(vmtest.Command, "workload", "fib", "--for", "10m")
	program.Env = append(os.Environ(), "GOMAXPROCS=")
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer program.Wait()
	defer program.Process.Kill()
	var doc psDocument
	if !poll(func() bool { // until it runs, and was throttled
		doc = lookPs(t, program.Process.Pid)
		p := doc.Processes[0]
		return p.GOMAXPROCS.Proof == "live" && p.Share != nil && *p.Share > 0
	}) {
		t.Fatalf("it is not throttled: %+v", doc)
	}
	p := doc.Processes[0]
	if m := p.GOMAXPROCS; m.Value != runtime.NumCPU() || m.Source != "cpus" || m.Following == nil || !*m.Following {
		t.Errorf("GOMAXPROCS is %+v, want all %d CPUs", m, runtime.NumCPU())
	}
	if p.Limit.State != "limited" || p.Limit.CPUs == nil || *p.Limit.CPUs != 1 || p.Limit.From != parent.dir {
		t.Errorf("the limit is %+v", p.Limit)
	}
	if p.Frozen == nil || p.Frozen.Share <= 0 || p.Frozen.Share > 1 || !p.Frozen.Exact && g.has("cpu.pressure") {
		t.Errorf("frozen is %+v", p.Frozen)
	}
	rules := map[string]bool{}
	for _, f := range p.Findings {
		rules[f.Rule] = true
	}
	if !rules["limit-not-seen"] || !rules["throttled"] || rules["too-many-ps"] != (runtime.NumCPU() >= 5) || rules["contended"] {
		t.Errorf("the findings are %v", rules)
	}
	t.Logf("frozen %+v, CPU %v, throttled periods %v", p.Frozen, *p.CPU, *p.Share)
}

func lookPs(t *testing.T, pid int) (doc psDocument) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := atRoot(t)
	cmd := p.command(nil, vmtest.Command, "ps", "--json", "--for", "1s", strconv.Itoa(pid))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	p.start(t, cmd)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("ps: %v\n%s", err, &stderr)
	}
	if err := json.Unmarshal(stdout.Bytes(), &doc); err != nil || len(doc.Processes) != 1 {
		t.Fatalf("reading the document: %v\n%s", err, &stdout)
	}
	return doc
}
