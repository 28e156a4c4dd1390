// Command facts writes what package exectrace says about a trace as JSON. It is here for the benchmark bench/trace, which is
// of another module and may not import that package.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/unthrottle/unthrottle/cmd/internal/exectrace"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: facts TRACE")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "facts:", err)
		os.Exit(1)
	}
}

func write(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	t, err := exectrace.Read(f, exectrace.Options{})
	if err != nil {
		return err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(t)
}
