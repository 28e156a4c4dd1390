//go:build linux

package bench

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// onNode is how many Go programs run on the node: the half of them do nothing, the others a little. Besides there are others, in which
// to look for a Go library takes longer.
const (
	onNode = 300
	others = 100
)

const small = `package main

import (
	"os"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		time.Sleep(1000 * time.Hour)
	}
	var kept [][]byte
	for range time.Tick(20 * time.Millisecond) {
		for range 50 {
			kept = append(kept, make([]byte, 1024))
		}
		kept = kept[len(kept)/2:]
	}
}
`

// TestAgent runs the agent on a machine with 300 Go programs and tells what that costs: CPU time from the first scan on, which reads
// every file, and after it, when only what is new is read.
func TestAgent(t *testing.T) {
	asked(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(small), 0o644); err != nil {
		t.Fatal(err)
	}
	build1 := exec.Command("go", "build", "-o", "small", "main.go")
	build1.Dir = dir
	build1.Env = append(os.Environ(), "GO111MODULE=off")
	if out, err := build1.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := func(command ...string) {
		t.Helper()
		cmd := exec.Command(command[0], command[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
	}
	for range onNode / 2 {
		run(filepath.Join(dir, "small"))
		run(filepath.Join(dir, "small"), "works")
	}
	for range others {
		run("sleep", "infinity")
	}
	const address = "127.0.0.1:19435"
	agent := exec.Command(build(t), "agent", "--pods", "none", "--listen", address)
	agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := agent.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	defer agent.Wait()
	defer agent.Process.Kill()
	go func() {
		for s := bufio.NewScanner(stderr); s.Scan(); {
			t.Log(s.Text())
		}
	}()
	await := func(what string, least float64) map[string]float64 {
		t.Helper()
		for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Second) { // each scrape costs, too
			if all := scrape(address); all[what] >= least {
				return all
			}
		}
		t.Fatalf("%s does not become %v", what, least)
		return nil
	}
	const scans = "unthrottle_agent_scans_total"
	first := await(scans, 1)
	begin := time.Now()
	last := await(scans, first[scans]+float64(*rounds))
	wall := time.Since(begin).Seconds()
	const used, resident = "process_cpu_seconds_total", "process_resident_memory_bytes"
	t.Logf("%v Go programs of %v processes; first scan: %.0f ms of CPU", last[`unthrottle_agent_processes{kind="go"}`],
		last[`unthrottle_agent_processes{kind="go"}`]+last[`unthrottle_agent_processes{kind="other"}`], first[used]*1000)
	t.Logf("%d more scans in %.0f s: %.0f ms of CPU each, %.2f %% of a core; the last took %.2f s; %.0f MB resident, %.0f files open", *rounds, wall,
		1000*(last[used]-first[used])/float64(*rounds), 100*(last[used]-first[used])/wall, last["unthrottle_agent_scan_seconds"], last[resident]/1e6,
		last["process_open_fds"])
	r, err := http.Get("http://" + address + "/api/v1/processes")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var doc struct {
		Processes []struct{ Samples int }
		Problems  []string
	}
	if err := json.NewDecoder(r.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	samples := 0
	for _, p := range doc.Processes {
		samples += p.Samples
	}
	t.Logf("%d samples of each program; problems: %q", samples/max(1, len(doc.Processes)), doc.Problems)
	if n := last[`unthrottle_agent_processes{kind="go"}`]; n < onNode {
		t.Errorf("it saw %v Go programs", n)
	}
}

// scrape reads the agent's metrics.
func scrape(address string) map[string]float64 {
	all := map[string]float64{}
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return all
	}
	defer r.Body.Close()
	for s := bufio.NewScanner(r.Body); s.Scan(); {
		if name, value, ok := strings.Cut(s.Text(), " "); ok && !strings.HasPrefix(name, "#") {
			all[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	return all
}
