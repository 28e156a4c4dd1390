// Package workload answers: which programs can the lab run under a CPU limit, and how is each built and started? In goes the name of a
// built-in one and a few options; out come a command to run, and from what the command printed, the figures of the run. Or in go variants
// of the user's own package, by commit, toolchain and flags; out come files that can be run. It runs no trial, sets no limit and compares
// nothing.
//
// The built-in programs themselves are in package program. Three more are the go command at its own work.
package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/unthrottle/unthrottle/cmd/internal/limit/workload/program"
)

// A Metric is something that a run reports, under the unit's name as Go's benchmarks write it.
type Metric struct {
	Unit   string
	Better string // "higher" or "lower"
	About  string
}

// A Workload is a program that can be run.
type Workload struct {
	Name, About string
	Source      string // where the idea comes from

	Figure Metric   // what settings are compared by
	More   []Metric // what else a run reports; what it had no occasion to see is missing
	Fixed  bool     // it runs to completion: Options.For has no meaning

	sized bool     // Options.Size has a meaning
	goArg []string // arguments of the go command; nil for our own programs
	warm  bool     // the go command is run once before, so that its cache holds what it needs
}

// Options say how to run a workload.
type Options struct {
	Program []string      // the command that runs program.Main
	Go      string        // the toolchain of the gocmd workloads as Resolve gives it; empty for the go command in PATH
	For     time.Duration // how long to measure; 0 for the program's default
	Size    int           // how much there is to do; 0 for the program's default

	// Dir is a directory that outlives the runs of one lab and is no one else's. Prepare makes it. The go command's build
	// cache is there, and what the programs write.
	Dir string
}

// A Command is a program to start.
type Command struct {
	Args []string
	Env  []string // in addition to the present environment
	Dir  string   // where to start it; empty for anywhere
}

// Where the ideas come from.
const (
	go15 = "R. Cox, Go 1.5 GOMAXPROCS Default, 2015, https://golang.org/s/go15gomaxprocs"
	xben = "golang.org/x/benchmarks, 2014, https://pkg.go.dev/golang.org/x/benchmarks"
)

var (
	nsOp    = Metric{"ns/op", "lower", "wall time per operation"}
	opsS    = Metric{"ops/s", "higher", "operations a second"}
	seconds = Metric{"wall-sec", "lower", "wall time of the whole command"} // measured by the caller
)

// List returns all workloads, always in the same order.
func List() []Workload {
	return []Workload{
		{
			Name: "fib", About: "a flood of goroutines, each computing fib(10)", Source: "GoMaxProcsBench, 2024",
			Figure: opsS, More: []Metric{nsOp},
		},
		{
			Name: "chain", About: "one integer through 100 goroutines and unbuffered channels", Source: go15,
			Figure: nsOp, sized: true,
		},
		{
			Name: "chainbuf", About: "one integer through 100 goroutines and buffered channels", Source: go15,
			Figure: nsOp, sized: true,
		},
		{
			Name: "sieve", About: "the concurrent prime sieve",
			Source: "C. A. R. Hoare, Communicating Sequential Processes, 1978, after D. McIlroy; " + go15,
			Figure: nsOp, Fixed: true, sized: true,
		},
		{
			Name: "powser", About: "power series as streams: many short goroutines, next to nothing to run at once",
			Source: "M. D. McIlroy, Squinting at Power Series, 1990, https://swtch.com/~rsc/thread/squint.pdf; " + go15,
			Figure: nsOp, Fixed: true, sized: true,
		},
		{
			Name: "garbage", About: "a heap of linked structures under steady allocation", Source: xben,
			Figure: nsOp, sized: true,
		},
		{
			Name: "http", About: "16 HTTP clients and their server in one process", Source: xben,
			Figure: nsOp, More: []Metric{{"req/s", "higher", "requests a second"}}, sized: true,
		},
		{
			Name: "json", About: "a document of 1.5 MB decoded and encoded", Source: xben,
			Figure: nsOp, sized: true,
		},
		{
			Name: "readfile", About: "two goroutines that read a file and note when they ran",
			Source: "the note Go runtime vs CFS quota, 2023",
			Figure: opsS, More: []Metric{
				{"standstill-share", "lower", "part of the time in which nothing ran"},
				{"on-ms", "higher", "median time between two standstills"},
				{"off-ms", "lower", "median length of a standstill"},
				nsOp,
			}, sized: true,
		},
		{
			Name: "agent", About: "a telemetry agent, 12,000 small events a second",
			Source: "reports of observability agents on hosts with 192 CPUs",
			Figure: Metric{"cpu-s/12k-events", "lower", "CPU time for 12,000 events"},
			More:   []Metric{{"events/s", "higher", "events a second; below the rate they arrive at, it can't keep up"}},
		},
		{
			Name: "gocmd-list", About: "go list -json std", Source: go15,
			Figure: seconds, Fixed: true, goArg: []string{"list", "-json", "std"}, warm: true,
		},
		{
			// Its output goes to the null device: a real file would be up to date after the first run, and not be linked again.
			Name: "gocmd-test", About: "go test -c html/template", Source: go15,
			Figure: seconds, Fixed: true, goArg: []string{"test", "-c", "-o", nullDevice, "html/template"}, warm: true,
		},
		{
			Name: "gocmd-build", About: "go build -a std", Source: "make.bash in " + go15,
			Figure: seconds, Fixed: true, goArg: []string{"build", "-a", "std"},
		},
	}
}

// Find returns the workload of the given name.
func Find(name string) (Workload, bool) {
	all := List()
	i := slices.IndexFunc(all, func(w Workload) bool { return w.Name == name })
	if i < 0 {
		return Workload{}, false
	}
	return all[i], true
}

// Prepare does what must be done once before the first run. It may fetch a toolchain.
func (w Workload) Prepare(ctx context.Context, o Options) error {
	if w.goArg != nil {
		return w.prepareGo(ctx, o)
	}
	if o.Dir == "" {
		return nil
	}
	if err := os.MkdirAll(o.Dir, 0o777); err != nil {
		return fmt.Errorf("preparing workload %s: %w", w.Name, err)
	}
	return nil
}

// IsGo reports whether the workload is the go command itself, and so has no program to be built.
func (w Workload) IsGo() bool { return w.goArg != nil }

// Command returns the command of a run.
func (w Workload) Command(o Options) (Command, error) {
	switch {
	case o.Size < 0:
		return Command{}, fmt.Errorf("workload %s: the size must not be negative, not %d", w.Name, o.Size)
	case o.Size > 0 && !w.sized:
		return Command{}, fmt.Errorf("workload %s has no size", w.Name)
	case o.For < 0:
		return Command{}, fmt.Errorf("workload %s: the time must not be negative, not %v", w.Name, o.For)
	}
	if w.goArg != nil {
		return w.goCommand(o)
	}
	if len(o.Program) == 0 {
		return Command{}, fmt.Errorf("workload %s: no program to run it", w.Name)
	}
	c := Command{Args: append(slices.Clone(o.Program), w.Name)}
	if o.For > 0 && !w.Fixed {
		c.Args = append(c.Args, "--for", o.For.String())
	}
	if o.Size > 0 {
		c.Args = append(c.Args, "--size", strconv.Itoa(o.Size))
	}
	if o.Dir != "" {
		dir, err := filepath.Abs(o.Dir)
		if err != nil {
			return Command{}, fmt.Errorf("workload %s: %w", w.Name, err)
		}
		c.Env = []string{"TMPDIR=" + dir} // a run that is killed leaves its file where the lab clears up
	}
	return c, nil
}

// Parse reads what a finished run printed. The go command prints no figures: its result is empty, and all there is to know is how long it
// took.
func (w Workload) Parse(stdout []byte) (program.Result, error) {
	if w.goArg != nil {
		return program.Result{}, nil
	}
	r, err := w.parse(stdout)
	if err != nil {
		return program.Result{}, fmt.Errorf("reading the result of workload %s: %w in %s", w.Name, err, quote(stdout))
	}
	return r, nil
}

func (w Workload) parse(stdout []byte) (program.Result, error) {
	var r program.Result
	d := json.NewDecoder(bytes.NewReader(stdout))
	err := d.Decode(&r)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return r, errors.New("no complete result")
	}
	if err != nil {
		return r, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("something after the result")
	}
	if r.Workload != w.Name {
		return r, fmt.Errorf("the result of workload %q", r.Workload)
	}
	if _, ok := r.Metrics[w.Figure.Unit]; !ok {
		return r, fmt.Errorf("no figure %q", w.Figure.Unit)
	}
	return r, nil
}

// quote quotes a text, or the beginning of a long one.
func quote(text []byte) string {
	const most = 200
	if len(text) <= most {
		return strconv.Quote(string(text))
	}
	return fmt.Sprintf("%q… (%d bytes)", text[:most], len(text))
}
