//go:build linux

// Command idle measures what Watch and the guard cost a program that does nothing, under a limit of one CPU: CPU time, wakeups and memory
// that is allocated, in a second. They are compared with a program with nothing, one with a ticker of a second, and one with only a flight
// recorder. They take turns. It prints a table in Markdown, and needs root.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/unthrottle/unthrottle/bench/internal/command"
	"github.com/unthrottle/unthrottle/bench/internal/quota"
)

func main() {
	runs := flag.Int("runs", 3, "runs of each; the table has the medians")
	length := flag.String("length", "30s", "of a run")
	flag.Parse()
	command.Main(func(ctx context.Context) error { return run(ctx, *runs, *length) })
}

func run(ctx context.Context, runs int, length string) error {
	dir, err := os.MkdirTemp("", "idle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "program")
	if err := command.Build(ctx, program, "bench/idle/program"); err != nil {
		return err
	}
	leave, err := quota.Enter(1)
	if err != nil {
		return err
	}
	defer leave()
	rows := []struct{ name, title string }{
		{"nothing", "nothing"}, {"ticker", "a ticker of 1 s"}, {"watch", "`unthrottle.Watch`"}, {"guard", "`guard`, no period throttled"}, {"recorder", "a flight recorder alone"},
	}
	results := map[string][]map[string]float64{}
	for range runs {
		for _, r := range rows {
			out, err := exec.CommandContext(ctx, program, r.name, length).Output()
			if err != nil {
				return fmt.Errorf("running %s: %w", r.name, err)
			}
			var one map[string]float64
			if err := json.Unmarshal(out, &one); err != nil {
				return err
			}
			results[r.name] = append(results[r.name], one)
		}
	}
	fmt.Println("| beside an idle program | CPU, µs a second | wakeups a second | allocated, KB a second |")
	fmt.Println("|---|--:|--:|--:|")
	for _, r := range rows {
		m := func(key string) float64 {
			var values []float64
			for _, one := range results[r.name] {
				values = append(values, one[key])
			}
			slices.Sort(values)
			return values[len(values)/2]
		}
		fmt.Printf("| %s | %.0f | %.1f | %.1f |\n", r.title, m("cpu"), m("switches"), m("bytes")/1000)
	}
	return nil
}
