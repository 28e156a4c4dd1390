//go:build linux

// Command heapfloor measures what the collection of a tiny heap costs, and what a heap floor changes about it. It builds a
// small service (package service) with several versions of Go, runs it in a cgroup with a limit of one CPU, at several
// GOMAXPROCS, with and without a floor in turn, and prints a table in Markdown. It needs root.
package main

import (
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

	"github.com/unthrottle/unthrottle/bench/internal/quota"
)

func main() {
	versions := flag.String("go", "1.22.12,1.24.13,1.26.8,1.27.3", "Go versions")
	procs := flag.String("procs", "1,2,8", "GOMAXPROCS")
	floors := flag.String("floors", "0,16,32", "floors in MiB, 0 for none")
	runs := flag.Int("runs", 3, "runs of each setting; the table has the medians")
	length := flag.String("length", "4s", "of a run")
	cpus := flag.Float64("limit", 1, "CPU limit")
	flag.Parse()
	b := bench{split(*versions), split(*procs), split(*floors), *runs, *length}
	if err := b.run(os.Stdout, *cpus); err != nil {
		fmt.Fprintln(os.Stderr, "heapfloor:", err)
		os.Exit(1)
	}
}

func split(list string) []string { return strings.Split(list, ",") }

type bench struct {
	versions, procs, floors []string
	runs                    int
	length                  string
}

type result map[string]float64 // as service prints it

func (b *bench) run(w io.Writer, cpus float64) error {
	dir, err := os.MkdirTemp("", "heapfloor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, v := range b.versions {
		if err := build(dir, v); err != nil {
			return err
		}
	}
	leave, err := quota.Enter(cpus)
	if err != nil {
		return err
	}
	defer leave()

	results := map[string][]result{}
	for range b.runs {
		err := b.each(func(v, p, f string) error {
			r, err := b.once(filepath.Join(dir, v), p, f)
			results[v+"/"+p+"/"+f] = append(results[v+"/"+p+"/"+f], r)
			return err
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "| Go | GOMAXPROCS | floor | CPUs used | collections/s | p50 ms | p99 ms | peak memory MB |")
	fmt.Fprintln(w, "|---|--:|--:|--:|--:|--:|--:|--:|")
	return b.each(func(v, p, f string) error {
		floor := f + " MiB"
		if f == "0" {
			floor = "none"
		}
		rs := results[v+"/"+p+"/"+f]
		_, err := fmt.Fprintf(w, "| %s | %s | %s | %.2f | %.0f | %.2f | %.1f | %.0f |\n", v, p, floor,
			median(rs, "cpu"), median(rs, "gc"), median(rs, "p50"), median(rs, "p99"), median(rs, "rss"))
		return err
	})
}

// each goes through all settings. The floor changes fastest, so that what is compared is measured side by side.
func (b *bench) each(do func(version, procs, floor string) error) error {
	for _, v := range b.versions {
		for _, p := range b.procs {
			for _, f := range b.floors {
				if err := do(v, p, f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func median(rs []result, key string) float64 {
	var values []float64
	for _, r := range rs {
		values = append(values, r[key])
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// once runs the service.
func (b *bench) once(program, procs, mib string) (result, error) {
	n, err := strconv.ParseInt(mib, 10, 64)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-floor", strconv.FormatInt(n<<20, 10), "-length", b.length)
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+procs, "GOGC=", "GOMEMLIMIT=")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running the service: %w", err)
	}
	var r result
	return r, json.Unmarshal(out, &r)
}

// build builds the service with a version of Go, in a module of its own: this one asks for a newer Go than some.
func build(dir, version string) error {
	library, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	source, err := os.ReadFile("heapfloor/service/main.go")
	if err != nil {
		return fmt.Errorf("in directory bench only: %w", err)
	}
	const path = "github.com/unthrottle/unthrottle"
	mod := "module service\n\ngo 1.21\n\nrequire " + path + " v0.0.0\n\nreplace " + path + " => " + library + "\n"
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "main.go"), source, 0o644),
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o644),
	); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-o", version, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOTOOLCHAIN=go"+version)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building with Go %s: %w\n%s", version, err, out)
	}
	return nil
}
