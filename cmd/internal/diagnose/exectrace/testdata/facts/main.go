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
	period := flag.Duration("period", 0, "of the quotas that may hold it up; 0: not known")
	levels := flag.Int("levels", 0, "on how many levels there is a quota; 0: not known")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: facts [-most D] [-period D] [-levels N] TRACE")
		os.Exit(2)
	}
	how := exectrace.Options{
		Kernel: freeze.Kernel{Counts: *most >= 0, Most: max(0, *most)},
		Quotas: freeze.Quotas{Period: *period, Levels: *levels},
	}
	if err := write(flag.Arg(0), how); err != nil {
		fmt.Fprintln(os.Stderr, "facts:", err)
		os.Exit(1)
	}
}

func write(name string, how exectrace.Options) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	t, err := exectrace.Read(context.Background(), f, how)
	if err != nil {
		return err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(t)
}
