// Command runcost measures what "unthrottle run" adds to a command: time from start to end, and CPU time of its own while
// the command runs. Bare and with run, the same command is started in turn, many times, in random order within each
// block; what run adds is the median over all blocks of the difference within the block. It needs root for a real limit.
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	blocks := flag.Int("blocks", 300, "how often each command is started")
	busy := flag.Duration("busy", 10*time.Second, "how long the command is busy whose run is looked at")
	flag.Parse()
	if err := run(os.Stdout, *blocks, *busy); err != nil {
		fmt.Fprintln(os.Stderr, "runcost:", err)
		os.Exit(1)
	}
}

// A start is a way to start the command.
type start struct {
	name string
	args []string
	took []time.Duration
}

func run(w io.Writer, blocks int, busy time.Duration) error {
	dir, err := os.MkdirTemp("", "runcost")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	static, err := build(dir, "static", "CGO_ENABLED=0")
	if err != nil {
		return err
	}
	dynamic, err := build(dir, "dynamic", "CGO_ENABLED=1")
	if err != nil {
		return err
	}
	command, err := exec.LookPath("true")
	if err != nil {
		return err
	}
	starts := []*start{{name: "bare", args: []string{command}}}
	for _, p := range []struct{ name, path string }{{"built with CGO_ENABLED=0", static}, {"built with cgo", dynamic}} {
		for _, limit := range []string{"", "--cpus=1"} {
			args := []string{p.path, "run", "--quiet"}
			name := "run, no limit, " + p.name
			if limit != "" {
				args = append(args, "--limit-with=cgroup", limit)
				name = "run " + limit + ", " + p.name
			}
			starts = append(starts, &start{name: name, args: append(args, command)})
		}
	}
	if err := measure(starts, blocks); err != nil {
		return err
	}
	fmt.Fprintf(w, "start to end of %s, %d times each; added is the median of the differences within a block\n\n", command, blocks)
	fmt.Fprintf(w, "| | median | added |\n|---|---|---|\n")
	for _, s := range starts {
		added := "–"
		if s != starts[0] {
			diff := make([]time.Duration, blocks)
			for i := range diff {
				diff[i] = s.took[i] - starts[0].took[i]
			}
			added = millis(median(diff))
		}
		fmt.Fprintf(w, "| %s | %s | %s |\n", s.name, millis(median(s.took)), added)
	}
	fmt.Fprintf(w, "\nown CPU time of run while a command that never waits runs for %v:\n\n| | CPU time | of one CPU |\n|---|---|---|\n", busy)
	for _, limit := range []string{"0.5", "1"} {
		own, err := ownCPU(static, limit, busy)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| run --cpus=%s | %s | %.2f %% |\n", limit, millis(own), 100*own.Seconds()/busy.Seconds())
	}
	return nil
}

// build makes the command.
func build(dir, name, env string) (string, error) {
	path := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-o", path, "github.com/unthrottle/unthrottle/cmd/unthrottle")
	cmd.Env = append(os.Environ(), env)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building: %w: %s", err, out)
	}
	return path, nil
}

func measure(starts []*start, blocks int) error {
	for block := range blocks + 3 { // the first three warm up
		for _, i := range rand.Perm(len(starts)) {
			s := starts[i]
			cmd := exec.Command(s.args[0], s.args[1:]...)
			cmd.Stderr = os.Stderr
			begin := time.Now()
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%s: %w", strings.Join(s.args, " "), err)
			}
			if took := time.Since(begin); block >= 3 {
				s.took = append(s.took, took)
			}
		}
	}
	return nil
}

// ownCPU is the CPU time of the threads of run itself, read repeatedly, as long as there is something to read.
func ownCPU(path, limit string, busy time.Duration) (last time.Duration, err error) {
	cmd := exec.Command(path, "run", "--quiet", "--limit-with=cgroup", "--cpus="+limit,
		"timeout", strconv.Itoa(int(busy.Seconds())), "sh", "-c", "while :; do :; done")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			return last, nil
		case <-time.After(50 * time.Millisecond):
			last = max(last, threads(cmd.Process.Pid))
		}
	}
}

// threads adds up what a process's threads have used: the first number of each schedstat is nanoseconds.
func threads(pid int) (sum time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, file := range files {
		data, _ := os.ReadFile(file)
		if field := strings.Fields(string(data)); len(field) > 0 {
			n, _ := strconv.ParseInt(field[0], 10, 64)
			sum += time.Duration(n)
		}
	}
	return sum
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }
