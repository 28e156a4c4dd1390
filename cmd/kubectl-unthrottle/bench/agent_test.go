//go:build linux

package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// maxContainers is how many containers have series, by default.
const maxContainers = 500

// others are programs on the node that are not Go's, in which to look for a Go library takes longer.
const others = 100

// TestAgent runs the agent, with its defaults, on a node with Go programs, each in its own pod: half of them do nothing and have a
// limit, the others work a little and have none. It shows what that costs: CPU time of the first scan, which reads every file, and of
// those after it, with a scrape every half minute as Prometheus has it.
func TestAgent(t *testing.T) {
	asked(t)
	n := newNode(t)
	for i := range *programs {
		p, mode := newPod(), "works"
		if i%2 == 0 {
			p.micros, mode = 50_000, "idle"
		}
		t.Cleanup(func() {
			if err := n.removeGroups(p); err != nil {
				t.Error(err)
			}
		})
		if err := n.makeGroups(p); err != nil {
			t.Fatal(err)
		}
		begin(t, n.command(p, n.program, mode))
		p.began = time.Now()
		n.pods[p.name] = p
	}
	for range others {
		begin(t, exec.Command("sleep", "infinity"))
	}
	var flags []string
	if *profile != "" {
		flags = append(flags, "--pprof")
	}
	a := startAgent(t, n, flags...)
	await := func(least float64) (state, map[string]float64) {
		t.Helper()
		for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
			time.Sleep(30 * time.Second)
			if s, all := a.ask(t); s.scans >= least {
				return s, all
			}
		}
		t.Fatalf("there are no %v scans", least)
		return state{}, nil
	}
	first, _ := await(2) // the second one reads limits again
	profiled := make(chan error, 1)
	go func() { profiled <- a.profile(*profile, 30*time.Duration(*rounds)*time.Second) }()
	last, all := await(first.scans + float64(*rounds))
	if err := <-profiled; err != nil {
		t.Error(err)
	}
	more, wall, cpu := last.scans-first.scans, last.at.Sub(first.at).Seconds(), last.cpu-first.cpu
	t.Logf("%v Go programs of %v processes; until the second scan was done: %.0f ms of CPU", last.programs,
		last.programs+all[`unthrottle_agent_processes{kind="other"}`], first.cpu*1000)
	t.Logf("%v more scans in %.0f s, and a scrape of %d series every 30 s: %.0f ms of CPU a scan, %.2f %% of a core; the last scan took %.2f s",
		more, wall, len(all), 1000*cpu/more, 100*cpu/wall, last.took)
	t.Logf("%.0f MB resident, of which %.0f MB are the heap; %v files open", last.resident/1e6, last.heap/1e6, last.files)
	r, err := http.Get("http://" + a.address + "/api/v1/processes")
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
	if last.programs < float64(*programs) || len(a.seen) != min(*programs, maxContainers) {
		t.Errorf("it saw %v Go programs, and series of %d pods", last.programs, len(a.seen))
	}
}

// profile saves the agent's CPU profile in a file, "" being none.
func (a *soaked) profile(file string, lasting time.Duration) error {
	if file == "" {
		return nil
	}
	r, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%.0f", a.address, lasting.Seconds()))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r.Body)
	return errors.Join(err, f.Close())
}

// begin starts a program that runs until the test ends.
func begin(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
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
