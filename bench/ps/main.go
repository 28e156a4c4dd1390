//go:build linux

// Command ps measures what "unthrottle ps" costs and how right it is: the time for many Go processes, compared with gops; the CPU time of
// its samples; time and memory for a very large program; and the frozen share compared with what the kernel counts, under real limits. It
// prints Markdown. It needs root and cgroup v1 for the last part.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	processes := flag.Int("processes", 500, "Go processes to list")
	runs := flag.Int("runs", 7, "runs of each; the tables have the medians")
	length := flag.Duration("length", 10*time.Second, "of a look")
	large := flag.Int("functions", 95_000, "functions of the large program; 0 leaves it out")
	only := flag.String("only", "", "list, samples, large or frozen; all of them unless given")
	flag.Parse()
	b := bench{processes: *processes, runs: *runs, length: *length, functions: *large}
	if err := b.run(os.Stdout, *only); err != nil {
		fmt.Fprintln(os.Stderr, "ps:", err)
		os.Exit(1)
	}
}

type bench struct {
	processes, runs, functions int
	length                     time.Duration

	dir        string
	unthrottle string
	children   []*exec.Cmd
}

func (b *bench) run(w io.Writer, only string) error {
	var err error
	if b.dir, err = os.MkdirTemp("", "unthrottle-bench-ps"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	defer b.stop()
	b.unthrottle = filepath.Join(b.dir, "unthrottle")
	if err := command("go", "build", "-o", b.unthrottle, "../cmd/unthrottle"); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func(io.Writer) error
	}{{"list", b.list}, {"samples", b.samples}, {"large", b.large}, {"frozen", b.frozen}} {
		if only == "" || only == part.name {
			if err := part.run(w); err != nil {
				return err
			}
			b.stop()
		}
	}
	return nil
}

// command runs a command and shows its output if it fails.
func command(name string, args ...string) error { return commandIn("", name, args...) }

func commandIn(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// build builds a program of one file outside of all modules of ours.
func (b *bench) build(name, source string) (string, error) {
	dir := filepath.Join(b.dir, name+".src")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	files := map[string]string{"go.mod": "module " + name + "\n\ngo 1.26\n", "main.go": source}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	path := filepath.Join(b.dir, name)
	return path, commandIn(dir, "env", "GOWORK=off", "go", "build", "-o", path, ".")
}

func (b *bench) start(env []string, name string, args ...string) (*exec.Cmd, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b.children = append(b.children, cmd)
	return cmd, nil
}

func (b *bench) stop() {
	for _, c := range b.children {
		c.Process.Kill()
	}
	for _, c := range b.children {
		c.Wait()
	}
	b.children = nil
}

// A cost is what one call took.
type cost struct {
	wall, cpu time.Duration
	memory    int64 // most that was resident, bytes
}

func measure(out io.Writer, name string, args ...string) (cost, error) {
	cmd := exec.Command(name, args...)
	cmd.Stdout = out
	start := time.Now()
	err := cmd.Run()
	c := cost{wall: time.Since(start)}
	if err != nil {
		return c, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	c.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	c.memory = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	return c, nil
}

// medians calls each measurement in turn, so that anything that disturbs one disturbs all.
func (b *bench) medians(each ...func() (cost, error)) ([]cost, error) {
	all := make([][]cost, len(each))
	for range b.runs {
		for i, f := range each {
			c, err := f()
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], c)
		}
	}
	var medians []cost
	for _, cs := range all {
		pick := func(less func(a, b cost) int) cost {
			slices.SortFunc(cs, less)
			return cs[len(cs)/2]
		}
		medians = append(medians, cost{
			wall:   pick(func(a, b cost) int { return int(a.wall - b.wall) }).wall,
			cpu:    pick(func(a, b cost) int { return int(a.cpu - b.cpu) }).cpu,
			memory: pick(func(a, b cost) int { return int(a.memory - b.memory) }).memory,
		})
	}
	return medians, nil
}

func ms(d time.Duration) string { return strconv.FormatFloat(d.Seconds()*1e3, 'f', 1, 64) + " ms" }

const sleeper = `package main

import (
	"net/http"
	"time"
)

func main() {
	_ = http.DefaultClient
	for {
		time.Sleep(100 * time.Millisecond)
	}
}
`

const spinner = `package main

import "runtime"

func main() {
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for {
			}
		}()
	}
	select {}
}
`

// list starts many processes of five programs and lists them.
func (b *bench) list(w io.Writer) error {
	var programs []string
	for i := range 5 {
		path, err := b.build(fmt.Sprint("sleeper", i), sleeper+fmt.Sprintf("\nconst number = %d\n", i))
		if err != nil {
			return err
		}
		programs = append(programs, path)
	}
	gops := filepath.Join(b.dir, "gops")
	gopsErr := command("env", "GOWORK=off", "GOFLAGS=", "GOBIN="+b.dir, "go", "install", "github.com/google/gops@v0.3.29")
	ps := func() (cost, error) { return measure(io.Discard, b.unthrottle, "ps", "--for=0") }
	none, err := b.medians(ps)
	if err != nil {
		return err
	}
	for i := range b.processes {
		if _, err := b.start(nil, programs[i%len(programs)]); err != nil {
			return err
		}
	}
	time.Sleep(3 * time.Second)
	each := []func() (cost, error){ps}
	if gopsErr == nil {
		each = append(each, func() (cost, error) { return measure(io.Discard, gops) })
	}
	got, err := b.medians(each...)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "| %d Go processes, of %d programs | wall | CPU | memory |\n| --- | --: | --: | --: |\n", b.processes, len(programs))
	row := func(name string, c cost) {
		fmt.Fprintf(w, "| %s | %s | %s | %d MB |\n", name, ms(c.wall), ms(c.cpu), c.memory>>20)
	}
	row("`unthrottle ps --for=0`", got[0])
	if gopsErr == nil {
		row("`gops`, which shows no GOMAXPROCS and no limit", got[1])
	} else {
		fmt.Fprintf(os.Stderr, "ps: without gops: %v\n", gopsErr)
	}
	row("`unthrottle ps --for=0` without them", none[0])
	fmt.Fprintf(w, "\nFor each process: %s of CPU.\n\n", ms((got[0].cpu-none[0].cpu)/time.Duration(b.processes)))
	return nil
}

// samples looks at busy processes for a while: the CPU time that this takes, less that of a look of next to no time.
func (b *bench) samples(w io.Writer) error {
	fmt.Fprintf(w, "| samples for %v | samples a second | CPU of one CPU |\n| --- | --: | --: |\n", b.length)
	for _, procs := range []int{1, 2, 192} {
		for _, workload := range []string{"http", "agent"} {
			c, err := b.start([]string{"GOMAXPROCS=" + strconv.Itoa(procs)}, b.unthrottle, "workload", workload, "--for", "10m")
			if err != nil {
				return err
			}
			time.Sleep(time.Second)
			pid := strconv.Itoa(c.Process.Pid)
			var doc bytes.Buffer
			long := func() (cost, error) {
				doc.Reset()
				return measure(&doc, b.unthrottle, "ps", "--json", "--for", b.length.String(), pid)
			}
			short := func() (cost, error) { return measure(io.Discard, b.unthrottle, "ps", "--for", "1ms", pid) }
			got, err := b.medians(long, short)
			if err != nil {
				return err
			}
			var seen struct{ Processes []struct{ Samples int } }
			if err := json.Unmarshal(doc.Bytes(), &seen); err != nil {
				return err
			}
			fmt.Fprintf(w, "| %s, GOMAXPROCS=%d | %.0f | %.2f %% |\n", workload, procs, float64(seen.Processes[0].Samples)/b.length.Seconds(),
				100*float64(got[0].cpu-got[1].cpu)/float64(b.length))
			b.stop()
		}
	}
	fmt.Fprintln(w)
	return nil
}

// large lists one process of a very large program.
func (b *bench) large(w io.Writer) error {
	if b.functions == 0 {
		return nil
	}
	dir := filepath.Join(b.dir, "large.src")
	const packages = 20
	var imports, calls strings.Builder
	for p := range packages {
		var text strings.Builder
		fmt.Fprintf(&text, "package p%d\n\nvar F = []func(map[string]int, []string) int{\n", p)
		n := b.functions / packages
		for i := range n {
			fmt.Fprintf(&text, "\tf%d,\n", i)
		}
		text.WriteString("}\n")
		for i := range n {
			fmt.Fprintf(&text, `
func f%[1]d(m map[string]int, s []string) int {
	for i, v := range s {
		m[v+"%[1]d of %[2]d"] += i * %[1]d
		s = append(s, v[1:])
	}
	defer delete(m, "%[1]d")
	return len(m) + %[1]d
}
`, i, p)
		}
		sub := filepath.Join(dir, fmt.Sprint("p", p))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(sub, "p.go"), []byte(text.String()), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&imports, "\t\"large/p%d\"\n", p)
		fmt.Fprintf(&calls, "\tfor _, f := range p%d.F {\n\t\tf(map[string]int{}, nil)\n\t}\n", p)
	}
	path, err := b.build("large", "package main\n\nimport (\n\t\"time\"\n"+imports.String()+")\n\nfunc main() {\n"+calls.String()+"\ttime.Sleep(time.Hour)\n}\n")
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	small, err := b.build("small", sleeper)
	if err != nil {
		return err
	}
	var pids []string
	for _, program := range []string{path, small} {
		c, err := b.start(nil, program)
		if err != nil {
			return err
		}
		pids = append(pids, strconv.Itoa(c.Process.Pid))
	}
	time.Sleep(2 * time.Second)
	look := func(verb ...string) func() (cost, error) {
		return func() (cost, error) { return measure(io.Discard, b.unthrottle, verb...) }
	}
	got, err := b.medians(look("ps", "--for=0", pids[0]), look("ps", "--for=0", pids[1]))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "| one process | wall | CPU | memory |\n| --- | --: | --: | --: |\n")
	for i, name := range []string{fmt.Sprintf("of a program of %d MB", info.Size()>>20), "of a small program"} {
		fmt.Fprintf(w, "| %s | %s | %s | %.1f MB |\n", name, ms(got[i].wall), ms(got[i].cpu), float64(got[i].memory)/(1<<20))
	}
	fmt.Fprintln(w)
	return nil
}

// frozen compares the frozen share with a heartbeat in the same group, and with the kernel's throttled time divided by the
// CPUs that are throttled together.
func (b *bench) frozen(w io.Writer) error {
	const top = "/sys/fs/cgroup/cpu"
	if _, err := os.Stat(top + "/cpu.shares"); err != nil {
		return errors.New("the frozen share is compared on cgroup v1 only")
	}
	spin, err := b.build("spinner", spinner)
	if err != nil {
		return err
	}
	busy, http := []string{spin}, []string{b.unthrottle, "workload", "http", "--for", "10m"}
	fmt.Fprintf(w, "| program | limit | throttled periods | frozen, by ps | by a heartbeat | throttled time ÷ CPUs ÷ wall | verdict |\n| --- | --- | --: | --: | --: | --: | --- |\n")
	for _, c := range []struct {
		name          string
		command       []string
		programs      int // in the group; the last is looked at
		procs         int
		cpus          float64 // that are throttled together
		quota, period int
	}{
		{"2 busy Ps", busy, 1, 2, 2, 50_000, 100_000},
		{"2 busy Ps", busy, 1, 2, 2, 100_000, 100_000},
		{"2 busy Ps", busy, 1, 2, 2, 150_000, 100_000},
		{"2 busy Ps", busy, 1, 2, 2, 10_000, 20_000},
		{"8 busy Ps", busy, 1, 8, 2, 50_000, 100_000},
		{"HTTP, 2 Ps", http, 1, 2, 2, 50_000, 100_000},
		{"1 busy P, as another in its group", busy, 2, 1, 2, 50_000, 100_000},
		{"2 busy Ps", busy, 1, 2, 2, -1, 100_000},
	} {
		group := filepath.Join(top, "unthrottle-bench-ps-"+strconv.Itoa(os.Getpid()))
		if err := os.Mkdir(group, 0o755); err != nil {
			return err
		}
		for file, value := range map[string]int{"cpu.cfs_period_us": c.period, "cpu.cfs_quota_us": c.quota} {
			if err := os.WriteFile(filepath.Join(group, file), []byte(strconv.Itoa(value)), 0); err != nil {
				return err
			}
		}
		pid := ""
		for range c.programs {
			p, err := b.start([]string{"GOMAXPROCS=" + strconv.Itoa(c.procs)}, c.command[0], c.command[1:]...)
			if err != nil {
				return err
			}
			pid = strconv.Itoa(p.Process.Pid)
			if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(pid), 0); err != nil {
				return err
			}
		}
		time.Sleep(time.Second)
		var doc, beat bytes.Buffer
		watch := exec.Command(b.unthrottle, "watch", "--json", "--for", b.length.String(), pid)
		watch.Stdout = &beat
		if err := watch.Start(); err != nil {
			return err
		}
		before, start := throttledTime(group), time.Now()
		if _, err := measure(&doc, b.unthrottle, "ps", "--json", "--for", b.length.String(), pid); err != nil {
			return err
		}
		counted := (throttledTime(group) - before).Seconds() / c.cpus / time.Since(start).Seconds()
		if err := watch.Wait(); err != nil {
			return fmt.Errorf("unthrottle watch: %w", err)
		}
		var watched struct {
			Frozen float64 `json:"frozen_share"`
		}
		if err := json.Unmarshal(beat.Bytes(), &watched); err != nil {
			return err
		}
		b.stop()
		for os.Remove(group) != nil {
			time.Sleep(10 * time.Millisecond)
		}
		var seen struct {
			Processes []struct {
				Share   *float64 `json:"throttled_periods_share"`
				Frozen  *struct{ Share float64 }
				Verdict string
			}
		}
		if err := json.Unmarshal(doc.Bytes(), &seen); err != nil {
			return err
		}
		s := seen.Processes[0]
		limit := "none"
		if c.quota > 0 {
			limit = fmt.Sprintf("%d of %d ms", c.quota/1000, c.period/1000)
		}
		frozen, share := "–", "–"
		if s.Frozen != nil {
			frozen = fmt.Sprintf("%.1f %%", 100*s.Frozen.Share)
		}
		if s.Share != nil {
			share = fmt.Sprintf("%.0f %%", 100**s.Share)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %.1f %% | %.1f %% | %s |\n", c.name, limit, share, frozen, 100*watched.Frozen, 100*counted, s.Verdict)
	}
	fmt.Fprintln(w)
	return nil
}

// throttledTime is what cpu.stat of cgroup v1 says, in nanoseconds and summed over CPUs.
func throttledTime(group string) time.Duration {
	text, _ := os.ReadFile(filepath.Join(group, "cpu.stat"))
	_, rest, _ := strings.Cut(string(text), "throttled_time ")
	n, _ := strconv.ParseInt(strings.Fields(rest + " 0")[0], 10, 64)
	return time.Duration(n)
}
