// Command program is what a user of automaxprocs might have. The test of package movetest builds it unchanged and again with one import
// path changed.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"

	"go.uber.org/automaxprocs/maxprocs"
)

func main() {
	first := flag.Int("first", 0, "set GOMAXPROCS to this before anything else")
	min := flag.Int("min", 0, "use Min")
	ceil := flag.Bool("ceil", false, "use RoundQuotaFunc with a function that rounds up")
	follow := flag.Bool("follow", false, "at the end, print GOMAXPROCS for each line read")
	flag.Parse()
	runtime.GOMAXPROCS(*first)

	var lines []string
	logger := func(format string, args ...interface{}) { lines = append(lines, fmt.Sprintf(format, args...)) }
	takeLines := func() []string {
		taken := lines
		lines = nil
		return taken
	}
	options := []maxprocs.Option{maxprocs.Logger(logger)}
	if *min != 0 {
		options = append(options, maxprocs.Min(*min))
	}
	if *ceil {
		options = append(options, maxprocs.RoundQuotaFunc(func(v float64) int { return int(math.Ceil(v)) }))
	}

	out := map[string]any{"before": runtime.GOMAXPROCS(0)}
	undo, err := maxprocs.Set(options...)
	if err != nil {
		out["error"] = err.Error()
	}
	out["after"], out["setLog"] = runtime.GOMAXPROCS(0), takeLines()
	undo()
	out["afterUndo"], out["undoLog"] = runtime.GOMAXPROCS(0), takeLines()
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		os.Exit(1)
	}
	if *follow {
		for s := bufio.NewScanner(os.Stdin); s.Scan(); {
			fmt.Println(runtime.GOMAXPROCS(0))
		}
	}
}
