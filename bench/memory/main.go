//go:build linux

// Command memory measures what a memory limit costs a service with a cache, and what sets GOMEMLIMIT changes about it. The service (package
// service) is built plain, with automemlimit and with package auto/memory, and runs in cgroups with a memory limit and a CPU limit of one
// CPU, the builds in turn. It prints a table in Markdown: CPU time a request, the collector's share of it, the peak of the group, and how
// many runs were killed. With -burst or -leak it prints for how long requests cost more than twice what they did before. It needs root.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/bench/internal/command"
	"github.com/unthrottle/unthrottle/bench/internal/quota"
	"github.com/unthrottle/unthrottle/cgroup"
)

func main() {
	runs := flag.Int("runs", 4, "of each; the table has the medians")
	length := flag.String("length", "5s", "of a run")
	limit := flag.Int("limit", 128, "MiB")
	alive := flag.String("alive", "1,40,80,105", "MB that stay alive")
	rate := flag.String("rate", "500", "requests a second")
	only := flag.String("only", "", "one of the variants, by its title")
	burst := flag.Int("burst", 0, "MB that are alive as well, from the fifth second to the fifth before the end")
	leak := flag.Float64("leak", 0, "MB a second that stay alive from the fifth second on")
	flag.Parse()
	j := job{*runs, *limit << 20, []string{"-length", *length, "-rate", *rate}, *burst > 0 || *leak > 0}
	if lasting, err := time.ParseDuration(*length); err == nil && j.slow {
		j.args = append(j.args, "-from", calm.String(), "-until", (lasting - calm).String(), "-more", strconv.Itoa(*burst), "-leak", fmt.Sprint(*leak))
	}
	if *only != "" {
		variants = slices.DeleteFunc(variants, func(v variant) bool { return strings.Trim(v.title, "`") != *only })
	}
	command.Main(func(ctx context.Context) error { return j.run(ctx, strings.Split(*alive, ",")) })
}

// A variant is a build of the service, and its environment.
type variant struct {
	title, tags string
	env         []string
}

var variants = []variant{
	{"default", "", nil},
	{"GOGC=400", "", []string{"GOGC=400"}},
	{"automemlimit", "automemlimit", nil},
	{"`auto/memory`, limit kept", "unthrottle", []string{"UNTHROTTLE_MIN_GOGC=off"}},
	{"`auto/memory`", "unthrottle", nil},
}

// calm is how long nothing happens, before a burst or a leak.
const calm = 5 * time.Second

// A job is what is measured.
type job struct {
	runs, limit int
	args        []string // the service's
	slow        bool     // for how long it was slow is what counts
}

func (j job) run(ctx context.Context, alive []string) error {
	dir, err := os.MkdirTemp("", "memory-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	programs := map[string]string{}
	for _, v := range variants {
		programs[v.tags] = filepath.Join(dir, "service-"+v.tags)
		if err := command.Build(ctx, programs[v.tags], "bench/memory/service", "-tags", v.tags); err != nil {
			return err
		}
	}
	leave, err := quota.Enter(1)
	if err != nil {
		return err
	}
	defer leave()
	if j.slow {
		fmt.Println("| alive, MB | | CPU a request before, ms | then at most | seconds at twice that | given up | alive in the end, MB | killed |")
		fmt.Println("|--:|---|--:|--:|--:|--:|--:|--:|")
	} else {
		fmt.Println("| alive, MB | | CPU a request, ms | GC's share | peak, MiB | given up | killed |")
		fmt.Println("|--:|---|--:|--:|--:|--:|--:|")
	}
	for _, mb := range alive {
		results := make([][]result, len(variants))
		for range j.runs {
			for i, v := range variants {
				r, err := once(ctx, programs[v.tags], j.limit, v.env, append([]string{"-alive", mb}, j.args...)...)
				if err != nil {
					return err
				}
				results[i] = append(results[i], r)
			}
		}
		for i, v := range variants {
			j.row(mb, v.title, results[i])
		}
	}
	return nil
}

// A line is what the service says: each second, and at its end of all.
type line struct {
	CPU, GC, Alive float64
	GaveUp         int `json:"gave_up"`
	All            bool
}

// A result is one run.
type result struct {
	line
	seconds []line
	peak    float64
	killed  bool
}

// slow is what a request cost before anything happened, what it cost in the worst second since, and in how many it was more than twice
// as much.
func (r result) slow() (before, worst float64, seconds int) {
	n := min(int(calm/time.Second), len(r.seconds))
	if n == 0 {
		return 0, 0, 0
	}
	before = median(r.seconds[:n], func(l line) float64 { return l.CPU })
	for _, l := range r.seconds[n:] {
		if worst = max(worst, l.CPU); l.CPU > 2*before {
			seconds++
		}
	}
	return before, worst, seconds
}

func (j job) row(mb, title string, results []result) {
	killed := 0
	for _, r := range results {
		if r.killed {
			killed++
		}
	}
	gaveUp := median(results, func(r result) float64 { return float64(r.GaveUp) })
	if j.slow {
		of := func(i int) float64 {
			return median(results, func(r result) float64 {
				before, worst, seconds := r.slow()
				return [...]float64{before, worst, float64(seconds)}[i]
			})
		}
		fmt.Printf("| %s | %s | %.3f | %.3f | %.0f | %.0f | %.0f | %d of %d |\n", mb, title, of(0), of(1), of(2), gaveUp,
			median(results, func(r result) float64 { return r.Alive }), killed, len(results))
		return
	}
	lived := slices.DeleteFunc(slices.Clone(results), func(r result) bool { return r.killed })
	cpu, gc := "–", "–"
	if len(lived) > 0 {
		cpu = strconv.FormatFloat(median(lived, func(r result) float64 { return r.CPU }), 'f', 3, 64)
		gc = fmt.Sprintf("%.0f %%", 100*median(lived, func(r result) float64 { return r.GC }))
	}
	fmt.Printf("| %s | %s | %s | %s | %.0f | %.0f | %d of %d |\n", mb, title, cpu, gc, median(results, func(r result) float64 { return r.peak })/(1<<20), gaveUp, killed, len(results))
}

func median[T any](results []T, of func(T) float64) float64 {
	var values []float64
	for _, r := range results {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// once runs the service in a memory cgroup of its own, which is removed afterwards.
func once(ctx context.Context, program string, limit int, env []string, args ...string) (r result, err error) {
	_, version, mount, err := cgroup.Locate(cgroup.Source{}, "memory")
	if err != nil {
		return r, err
	}
	dir := filepath.Join(mount.Point, fmt.Sprintf("unthrottle-test-%d-bench", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.Remove(dir)) }()
	file, peak := "memory.max", "memory.peak"
	if version == cgroup.V1 {
		file, peak = "memory.limit_in_bytes", "memory.max_usage_in_bytes"
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(limit)), 0); err != nil {
		return r, err
	}
	if version == cgroup.V2 {
		os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("0"), 0)
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, dir, program}, args...)...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOGC=") || strings.HasPrefix(v, "GOMEMLIMIT=") }), env...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if errors.As(err, &exit) && !exit.Exited() {
		r.killed, err = true, nil
	}
	if err != nil {
		return r, err
	}
	for text := range bytes.Lines(out) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return r, err
		}
		if r.line = l; !l.All {
			r.seconds = append(r.seconds, l)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, peak))
	if err != nil {
		return r, err
	}
	r.peak, err = strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	return r, err
}
