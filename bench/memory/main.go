//go:build linux

// Command memory measures what a memory limit costs a service with a cache, and what sets GOMEMLIMIT changes about it. The service
// (package service) is built plain, with automemlimit and with package auto/memory, and runs in cgroups with a memory limit and a
// CPU limit of one CPU, the builds in turn. It prints a table in Markdown: CPU time a request, the collector's share of it, the
// peak of the group, and how many runs were killed. It needs root.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/unthrottle/unthrottle/bench/internal/quota"
	"github.com/unthrottle/unthrottle/cgroup"
)

func main() {
	runs := flag.Int("runs", 4, "of each; the table has the medians")
	length := flag.String("length", "5s", "of a run")
	limit := flag.Int("limit", 128, "MiB")
	alive := flag.String("alive", "1,40,80,105", "MB that stay alive")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // the groups are removed all the same
	defer stop()
	if err := run(ctx, *runs, *length, *limit<<20, strings.Split(*alive, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
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
	{"`auto/memory`", "unthrottle", nil},
}

func run(ctx context.Context, runs int, length string, limit int, alive []string) error {
	dir, err := os.MkdirTemp("", "memory-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	programs := map[string]string{}
	for _, v := range variants {
		programs[v.tags] = filepath.Join(dir, "service-"+v.tags)
		build := exec.Command("go", "build", "-tags", v.tags, "-o", programs[v.tags], "github.com/unthrottle/unthrottle/bench/memory/service")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("building the service: %w", err)
		}
	}
	leave, err := quota.Enter(1)
	if err != nil {
		return err
	}
	defer leave()
	fmt.Println("| alive, MB | | CPU a request, ms | GC's share | peak, MiB | killed |")
	fmt.Println("|--:|---|--:|--:|--:|--:|")
	for _, mb := range alive {
		results := make([][]result, len(variants))
		for range runs {
			for i, v := range variants {
				r, err := once(ctx, programs[v.tags], limit, v.env, "-alive", mb, "-length", length)
				if err != nil {
					return err
				}
				results[i] = append(results[i], r)
			}
		}
		for i, v := range variants {
			row(mb, v.title, results[i])
		}
	}
	return nil
}

// A result is one run.
type result struct {
	CPU, GC float64
	peak    float64
	killed  bool
}

func row(mb, title string, results []result) {
	lived := slices.DeleteFunc(slices.Clone(results), func(r result) bool { return r.killed })
	cpu, gc := "–", "–"
	if len(lived) > 0 {
		cpu = strconv.FormatFloat(median(lived, func(r result) float64 { return r.CPU }), 'f', 3, 64)
		gc = fmt.Sprintf("%.0f %%", 100*median(lived, func(r result) float64 { return r.GC }))
	}
	fmt.Printf("| %s | %s | %s | %s | %.0f | %d of %d |\n", mb, title, cpu, gc, median(results, func(r result) float64 { return r.peak })/(1<<20), len(results)-len(lived), len(results))
}

func median(results []result, of func(result) float64) float64 {
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
	} else if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		return r, err
	}
	text, err := os.ReadFile(filepath.Join(dir, peak))
	if err != nil {
		return r, err
	}
	r.peak, err = strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	return r, err
}
