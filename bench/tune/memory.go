//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/unthrottle/unthrottle/bench/internal/command"
	"github.com/unthrottle/unthrottle/bench/internal/neighbour"
)

// How the memory limits of -memory are asked for, and the load under which an advised one is held.
const (
	memoryCPUs   = 1.0
	memoryShare  = 0.6 // of the rate of -pairs
	memorySLO    = "p99=250ms"
	memoryBeyond = 1.3 // times the rate that tune had
)

// An advice is what tune says of memory limits.
type advice struct {
	program *program
	rate    float64
	text    string
	limit   int64  // 0: none will do
	set     string // its GOMEMLIMIT; "": none
	peak    int64  // of a typical window
}

// memory asks for the smallest memory limit of each server, and then runs it under that limit with more load, for a long time, next to the
// neighbour. One server runs at a time: next to a second one, CPU time would run out instead.
func (b *bench) memory(ctx context.Context, subjects []subject, limits string, hold time.Duration) error {
	fmt.Printf("tune --memory %s --cpus %v --slo %s, then %v under what it advises, with %v times the load; neighbour: %s\n\n",
		limits, memoryCPUs, memorySLO, hold, memoryBeyond, b.neighbour)
	fmt.Println("| server | load of tune | advised | peak there | requests at more | failed | p99 | needed at the peak | kills |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
	for i, s := range subjects {
		if s.path == "" {
			continue
		}
		a, err := b.advised(ctx, s, limits)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s at %.0f/s: %s\n", s.name, a.rate, a.text)
		row, err := b.held(ctx, a, hold, b.seed<<16+uint64(i))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			row = "failed: " + err.Error() + " |||||"
		}
		fmt.Printf("| %s | %.0f/s | %s | %s | %s |\n", s.name, a.rate, mib(a.limit), mib(a.peak), row)
	}
	return nil
}

func mib(bytes int64) string {
	if bytes == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3g MiB", float64(bytes)/(1<<20))
}

// advised tunes one.
func (b *bench) advised(ctx context.Context, s subject, limits string) (a advice, err error) {
	if a.program, err = b.prepare(s, memoryCPUs); err != nil {
		return a, err
	}
	half, err := b.half(ctx, a.program)
	if err != nil {
		return a, err
	}
	a.rate = max(1, float64(int(memoryShare*half)))
	cmd := b.process(ctx, a.program, append([]string{
		"tune", "--json", "--cpus", fmt.Sprint(memoryCPUs), "--memory", limits, "--slo", memorySLO, "--rate", fmt.Sprint(a.rate),
		"--url", a.program.url, "--for", cmp.Or(b.window, 3*time.Second).String(), "--seed", fmt.Sprint(b.seed), "--",
	}, a.program.args...)...)
	out, err := command.Output(cmd)
	if err != nil {
		return a, err
	}
	var told struct {
		Verdict struct {
			Text  string   `json:"text"`
			Also  []string `json:"also"`
			Limit int64    `json:"memory_limit_bytes"`
		} `json:"verdict"`
		Limits []struct {
			Limit int64  `json:"memory_limit_bytes"`
			Set   string `json:"gomemlimit"`
			Peak  int64  `json:"peak_memory_bytes"`
		} `json:"limits"`
	}
	if err := json.Unmarshal(out, &told); err != nil {
		return a, err
	}
	a.text, a.limit = strings.Join(append([]string{told.Verdict.Text}, told.Verdict.Also...), " "), told.Verdict.Limit
	for _, l := range told.Limits {
		if l.Limit == a.limit {
			a.set, a.peak = l.Set, l.Peak
		}
	}
	return a, nil
}

// held runs one under what was advised. It returns the cells of its row.
func (b *bench) held(ctx context.Context, a advice, hold time.Duration, seed uint64) (string, error) {
	if a.limit == 0 {
		return "–|–|–|–|–", nil
	}
	var env []string
	if a.set != "" {
		env = append(env, "GOMEMLIMIT="+a.set)
	}
	end, err := neighbour.Start(ctx, b.neighbour, seed)
	if err != nil {
		return "", err
	}
	defer end()
	file := filepath.Join(a.program.dir, "held.json")
	run := []string{"run", "--cpus", fmt.Sprint(memoryCPUs), "--memory", fmt.Sprint(a.limit), "-o", file}
	var load struct {
		Requests int64 `json:"requests"`
		Failed   int64 `json:"failed"`
		Ready    struct {
			P99 float64 `json:"p99"`
		} `json:"from_ready"`
	}
	failed := b.loaded(ctx, a.program, run, env, sent(memoryBeyond*a.rate, 2, hold.Seconds(), seed), &load)
	var told struct {
		Needed int64 `json:"needed_memory_bytes"`
		Kills  int   `json:"oom_kills"`
	}
	kills := "it did not end" // as it was stuck reading its own file
	if out, err := os.ReadFile(file); err == nil {
		if err := json.Unmarshal(out, &told); err != nil {
			return "", err
		}
		kills = fmt.Sprint(told.Kills)
	}
	if failed != nil && told.Kills == 0 { // where it was killed, there is nothing to load
		return "", failed
	}
	return fmt.Sprintf("%d | %d | %s | %s | %s", load.Requests, load.Failed, lasting(load.Ready.P99), mib(told.Needed), kills), nil
}
