// Command facts writes what package exectrace says about a trace as JSON. It is here for the benchmark bench/trace, which is
// of another module and may not import that package.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/exectrace"
	"github.com/unthrottle/unthrottle/cmd/internal/diagnose/freeze"
)

func main() {
	most := flag.Duration("most", -1, "how long quotas held the program up by the kernel's count, summed over CPUs; below 0: not known")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: facts [-most D] TRACE")
		os.Exit(2)
	}
	if err := write(flag.Arg(0), freeze.Kernel{Counts: *most >= 0, Most: max(0, *most)}); err != nil {
		fmt.Fprintln(os.Stderr, "facts:", err)
		os.Exit(1)
	}
}

func write(name string, k freeze.Kernel) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	t, err := exectrace.Read(context.Background(), f, exectrace.Options{Kernel: k})
	if err != nil {
		return err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(t)
}
